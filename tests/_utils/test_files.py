"""Files are written whole or not at all, and never over an input."""

import gzip
import os
import subprocess
import sys

import pytest

from hierlpr._utils.files import (
    MANIFEST,
    atomic_output,
    output_directory,
    refuse_overlap,
    stream_number,
)
from hierlpr.exceptions import FileError


def test_a_file_appears_whole(tmp_path):
    target = tmp_path / "a.txt"
    with atomic_output(target) as part:
        part.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_old_file(tmp_path, error):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(error), atomic_output(target) as part:  # noqa: PT012
        part.write_text("half")
        raise error
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_links_and_permissions_are_kept(tmp_path):
    target = tmp_path / "real.txt"
    target.write_text("old")
    target.chmod(0o640)
    (tmp_path / "link.txt").symlink_to(target)
    with atomic_output(tmp_path / "link.txt") as part:
        part.write_text("new")
    assert (tmp_path / "link.txt").is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_text_is_compressed_where_the_name_says_so(tmp_path):
    for _ in range(2):
        with atomic_output(tmp_path / "a.csv.gz", compress=True) as part:
            part.write_text("a,b\n")
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == b"a,b\n"


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, text in ((".", "a folder"), ("pipe", "a pipe"), ("none/a.txt", "create the folder")):
        with pytest.raises(FileError, match=text), atomic_output(tmp_path / name):
            pass


def test_a_name_that_is_too_long(tmp_path):
    long = tmp_path / ("x" * 300)
    with pytest.raises(FileError, match="cannot be written"), atomic_output(long) as part:
        part.write_text("x")
    refuse_overlap({"--out": long}, {"--scores": tmp_path / ("y" * 300)})


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_an_ordinary_error(tmp_path):
    with pytest.raises(FileError, match="No space left"), atomic_output(tmp_path / "a") as part:  # noqa: PT012
        part.symlink_to("/dev/full")
        part.write_text("x")
    assert os.listdir(tmp_path) == []


def test_a_directory_of_results_holds_no_files_of_others(tmp_path):
    folder = tmp_path / "out"
    for _ in range(2):  # its own files are replaced
        with output_directory(folder, ["a.txt", "b.txt"]) as made:
            (made / "a.txt").write_text("a")
    assert sorted(os.listdir(folder)) == [MANIFEST, "a.txt"]
    (folder / "b.txt").write_text("mine")
    with pytest.raises(FileError, match=r"b\.txt exists"), output_directory(folder, ["b.txt"]):
        pass
    with pytest.raises(FileError, match="cannot create"), output_directory(folder / "a.txt/x", []):
        pass
    assert (folder / "b.txt").read_text() == "mine"


def test_of_two_runs_the_last_one_wins(tmp_path):
    target = tmp_path / "a.txt"
    code = (
        "import sys; from hierlpr._utils.files import atomic_output\n"
        "for _ in range(200):\n"
        "    with atomic_output(sys.argv[1]) as part: part.write_text(sys.argv[2] * 1000)\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code, str(target), x]) for x in "ab"]
    assert [run.wait() for run in runs] == [0, 0]
    assert target.read_text() in ("a" * 1000, "b" * 1000)
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /dev/fd")
def test_open_streams_are_appended_to(tmp_path):
    """Even through links; the file that such a path leads to was replaced."""
    log = tmp_path / "log"
    log.write_text("first\n")
    with log.open("a") as stream:
        paths = [f"/dev/fd/{stream.fileno()}", f"/proc/self/fd/{stream.fileno()}"]
        (tmp_path / "link").symlink_to(paths[0])
        (tmp_path / "indirect").symlink_to("link")
        for path in (*paths, tmp_path / "indirect"):
            assert stream_number(path) == stream.fileno()
            with atomic_output(path) as part:
                part.write_text("more\n")
    assert log.read_text() == "first\n" + 3 * "more\n"
    assert [stream_number(x) for x in ("/dev/stdout", "stdout", log, "-")] == [1, None, None, None]
    with pytest.raises(FileError, match="A and B cannot both go to stdout"):
        refuse_overlap({"A": "-", "B": "/dev/stdout"}, {})
