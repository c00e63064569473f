"""Files appear whole or not at all, and nothing goes that hierlpr did not make."""

import json
import multiprocessing
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from hierlpr import HierlprError
from hierlpr._base import files, own_folders
from hierlpr._base.files import (
    list_made,
    making,
    put_in_place,
    refuse_foreign_folder,
    refuse_overlap,
    writing,
    writing_text,
)
from hierlpr._base.own_folders import claimed, own_folder, stopping_cleanly


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def fail(file, error, text="half"):
    file.write_text(text)
    raise error


@pytest.fixture(autouse=True)
def forget():
    own_folders._cleaned.clear()


# -- one file ---------------------------------------------------------------------------------


def test_a_file_appears_whole_and_alone(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with writing(target) as part:
        part.write_text("new")
        assert target.read_text() == "old"
        assert part.suffix == ".txt"
    assert target.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, OSError])
def test_an_error_leaves_the_old_file_alone(tmp_path, error):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(error), writing(target) as part:
        fail(part, error)
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_text_is_packed_in_the_same_bytes_each_time(tmp_path):
    found = []
    for _ in range(2):
        with writing_text(tmp_path / "a.csv.gz") as part:
            part.write_text("x\n")
        found.append((tmp_path / "a.csv.gz").read_bytes())
    assert found[0] == found[1]
    assert found[0].startswith(b"\x1f\x8b")


def test_links_are_followed_and_permissions_kept(tmp_path):
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "a.txt"
    target.write_text("old")
    target.chmod(0o600)
    (tmp_path / "link.txt").symlink_to(target)
    with writing(tmp_path / "link.txt") as part:
        part.write_text("new")
    assert (tmp_path / "link.txt").is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_new_file_has_usual_permissions(tmp_path):
    (tmp_path / "plain").write_text("")
    with writing(tmp_path / "a.txt") as part:
        part.write_text("new")
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("what", ["folder", "pipe", "missing"])
def test_what_cannot_be_a_file_is_refused(tmp_path, what):
    path = tmp_path / "x"
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path = tmp_path / "nowhere" / "x"
    with pytest.raises(HierlprError, match=f"^{path}: "), writing(path) as part:
        part.write_text("new")
    assert not path.is_file()


def test_long_and_odd_names(tmp_path):
    for name in ("x" * 250, " spaces ", "naïve-日本.csv", "a\nb", "-", ".hidden", "\udcff"):
        with writing(tmp_path / name) as part:
            part.write_text("new")
        with claimed(tmp_path / name):
            pass
        assert (tmp_path / name).read_text() == "new"
    assert len(names(tmp_path)) == 7


# -- folders ----------------------------------------------------------------------------------


def make_ranking(folder, text="rows"):
    folder.mkdir()
    (folder / "part-0.parquet").write_text(text)
    list_made(folder, what="ranking")
    return folder


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_of_ours_is_replaced(tmp_path, monkeypatch, can_exchange):
    if not can_exchange:
        monkeypatch.setattr(files, "_exchange", lambda a, b: False)
    target = make_ranking(tmp_path / "out")
    fresh = make_ranking(tmp_path / "fresh", "other rows")
    put_in_place(fresh, target)
    assert (target / "part-0.parquet").read_text() == "other rows"
    assert names(tmp_path) == ["out"]
    put_in_place(make_ranking(tmp_path / "fresh"), tmp_path / "new")
    assert names(tmp_path) == ["new", "out"]


@pytest.mark.parametrize("change", ["added", "changed", "unmarked", "hidden", "nested", "linked"])
def test_a_folder_with_anything_else_is_not(tmp_path, change):
    target = make_ranking(tmp_path / "out")
    if change == "added":
        (target / "notes.txt").write_text("mine")
    elif change == "hidden":
        (target / ".notes").write_text("mine")
    elif change == "changed":
        (target / "part-0.parquet").write_text("mine")
    elif change == "nested":
        (target / "mine").mkdir()
    elif change == "linked":
        (tmp_path / "mine").write_text("rows")
        (target / "part-0.parquet").unlink()
        (target / "part-0.parquet").symlink_to(tmp_path / "mine")
    else:
        (target / files.MADE).unlink()
    before = names(target)
    fresh = make_ranking(tmp_path / "fresh")
    with pytest.raises(HierlprError, match="is not replaced"):
        refuse_foreign_folder(target)
    with pytest.raises(HierlprError, match="is not replaced"):
        put_in_place(fresh, target)
    assert names(target) == before


def test_a_file_is_not_replaced_by_a_folder(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(HierlprError, match="this is a file"):
        put_in_place(make_ranking(tmp_path / "fresh"), tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


def test_from_another_file_system(tmp_path, monkeypatch):
    """A rename fails there; the result must not."""
    rename = os.rename

    def here_only(a, b):
        if os.path.dirname(a) == str(tmp_path / "far"):
            raise OSError(18, "Invalid cross-device link")
        rename(a, b)

    monkeypatch.setattr(os, "rename", here_only)
    (tmp_path / "far").mkdir()
    put_in_place(make_ranking(tmp_path / "far" / "x"), tmp_path / "out")
    assert names(tmp_path / "out") == ["_hierlpr.json", "part-0.parquet"]
    (tmp_path / "far" / "y").write_text("new")
    put_in_place(tmp_path / "far" / "y", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "new"
    assert names(tmp_path) == ["far", "out", "out.csv"]


def test_files_in_a_folder_of_the_users(tmp_path):
    (tmp_path / "mine.csv").write_text("mine")
    for names in (["a.csv"], ["a.csv", "b.csv"]):
        with making(tmp_path, names, what="files"):
            for name in names:
                (tmp_path / name).write_text("ours")
    for text, names in (("ours", ["a.csv", "mine.csv"]), ("edited", ["a.csv"])):
        (tmp_path / "a.csv").write_text(text)
        with (
            pytest.raises(HierlprError, match=rf"{names[-1]} is there already"),
            making(tmp_path, names, what="files"),
        ):
            pass


def test_large_files_are_told_apart_by_their_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_ENDS", 4)
    for text in ("abcdef", "abcdefgh", "abcdefghij", ""):
        (tmp_path / "x").write_text(text)
        mark = files._mark_of(tmp_path / "x")
        for other in (text[:-1] + "x", "x" + text[1:], text + "a"):
            (tmp_path / "x").write_text(other)
            assert files._mark_of(tmp_path / "x") != mark


# -- leftovers --------------------------------------------------------------------------------


LEAVE = """
import os, signal, sys
from hierlpr._base.files import writing
from hierlpr._base.own_folders import claimed, own_folder
{body}
"""


def killed(body, *args):
    """Run code that is killed before it can clean up."""
    code = LEAVE.format(body=body + "\nos.kill(os.getpid(), signal.SIGKILL)")
    subprocess.run([sys.executable, "-c", code, *map(str, args)], check=False)


LEAVE_ALL = """
claim = claimed(sys.argv[1] + "/out.csv")
claim.__enter__()
write = writing(sys.argv[1] + "/out.csv")
write.__enter__().write_text("half")
work = own_folder(sys.argv[1] + "/work", name="work", key="rank out", make_parent=True)
(work.__enter__() / "rows").write_text("many")
"""


def test_the_next_run_removes_what_a_killed_one_left(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    killed(LEAVE_ALL, tmp_path)
    assert len(names(tmp_path)) == 4
    with claimed(tmp_path / "other.csv"):
        assert len(names(tmp_path)) == 3
    with own_folder(tmp_path / "work", name="work", key="rank other", make_parent=True):
        pass
    assert names(tmp_path) == ["mine.txt"]


def test_one_write_is_a_run(tmp_path):
    killed(LEAVE_ALL, tmp_path)
    with writing(tmp_path / "out.csv") as part:
        part.write_text("new")
    assert names(tmp_path) == ["out.csv", "work"]


def test_what_is_in_use_stays(tmp_path):
    other = own_folder(tmp_path, name="x", key="k")
    folder = other.__enter__()
    (folder / "rows").write_text("many")
    held = dict(own_folders._held)
    own_folders._held.clear()  # as another process sees it
    with own_folder(tmp_path, name="x", key="k") as mine:
        assert mine != folder
        assert (folder / "rows").read_text() == "many"
    own_folders._held.update(held)
    other.__exit__(None, None, None)
    assert names(tmp_path) == []


def test_what_only_looks_like_ours_stays(tmp_path):
    """Same names, but no mark, another's mark, or a mark of another name."""
    token = "0123456789abcdef"
    for i, text in enumerate([None, "{}", "[]", '"x"', "not json", '{"hierlpr": "x"}']):
        folder = tmp_path / f".hierlpr-{i}{token[1:]}"
        folder.mkdir()
        (folder / "thesis.tex").write_text("mine")
        if text is not None:
            (folder / "hierlpr-run.json").write_text(text)
    (tmp_path / f".hierlpr-{token}.lock").write_text("mine")
    (tmp_path / ".hierlpr-notes").write_text("mine")
    (tmp_path / ".hierlpr").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    name = f".hierlpr-f{token[1:]}"
    (elsewhere / "hierlpr-run.json").write_text(json.dumps({"hierlpr": name}))
    (elsewhere / "thesis.tex").write_text("mine")
    (tmp_path / name).symlink_to(elsewhere)
    before = {str(p): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with claimed(tmp_path / "out"), own_folder(tmp_path, name="x", key="k"):
        pass
    assert {str(p): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_foreign_file_with_the_name_of_the_lock_is_named(tmp_path):
    with claimed(tmp_path / "out.csv"):
        (lock,) = names(tmp_path)
    (tmp_path / lock).write_text("mine")
    with pytest.raises(HierlprError, match="is not hierlpr's"), claimed(tmp_path / "out.csv"):
        pass
    assert (tmp_path / lock).read_text() == "mine"


def test_resume_finds_its_own_folder_alone(tmp_path):
    for key in ("a", "b"):
        with pytest.raises(RuntimeError), own_folder(tmp_path, name="x", key=key, resume=True) as f:
            fail(f / "rows", RuntimeError, key)
    assert len(names(tmp_path)) == 2
    with own_folder(tmp_path, name="x", key="c"), claimed(tmp_path / "out"):
        assert len(names(tmp_path)) == 4
    with own_folder(tmp_path, name="x", key="a", resume=True) as folder:
        assert (folder / "rows").read_text() == "a"
    with own_folder(tmp_path, name="x", key="b") as folder:  # starts over
        assert names(folder) == ["hierlpr-run.json"]
    assert names(tmp_path) == []


def test_a_folder_is_put_back_if_its_replacement_was_cut_off(tmp_path):
    """Killed between two renames, where names cannot be exchanged."""
    body = """
from pathlib import Path
from hierlpr._base import files
files._exchange = lambda a, b: False
rename = os.rename
def once(a, b):
    rename(a, b)
    if str(b).endswith("/old/out"):
        os.kill(os.getpid(), signal.SIGKILL)
os.rename = once
files.put_in_place(Path(sys.argv[1], "fresh"), Path(sys.argv[1], "out"))
"""
    make_ranking(tmp_path / "out", "old")
    make_ranking(tmp_path / "fresh", "new")
    killed(body, tmp_path)
    assert not (tmp_path / "out").exists()
    with claimed(tmp_path / "out"):
        pass
    assert (tmp_path / "out" / "part-0.parquet").read_text() == "old"
    assert names(tmp_path) == ["out"]


def test_without_locks_the_process_number_decides(tmp_path, monkeypatch):
    """On file systems that cannot lock, a run counts as alive unless it is known to be dead."""

    def cannot(file):
        raise OSError(95, "Operation not supported")

    killed(LEAVE_ALL, tmp_path)
    monkeypatch.setattr(own_folders, "_lock_bytes", cannot)
    with claimed(tmp_path / "out.csv"):
        held = dict(own_folders._held)
        monkeypatch.setattr(own_folders, "_held", {})
        monkeypatch.setattr(own_folders, "_PATIENCE", 0.0)
        with pytest.raises(HierlprError, match="another run"), claimed(tmp_path / "out.csv"):
            pass
        monkeypatch.setattr(own_folders, "_held", held)
    assert names(tmp_path) == ["work"]
    elsewhere = tmp_path / ".hierlpr-0123456789abcdef"
    elsewhere.mkdir()
    mark = {"hierlpr": elsewhere.name, "host": "another", "pid": 1, "key": ""}
    (elsewhere / "hierlpr-run.json").write_text(json.dumps(mark))
    with claimed(tmp_path / "out.csv"):
        assert elsewhere.exists()


# -- one at a time ----------------------------------------------------------------------------


def test_an_output_belongs_to_one_run(tmp_path, monkeypatch):
    monkeypatch.setattr(own_folders, "_PATIENCE", 0.05)
    with claimed(tmp_path / "out"):
        with pytest.raises(HierlprError, match="another run is writing"), claimed(tmp_path / "out"):
            pass
        (tmp_path / "sub").mkdir()
        with (
            pytest.raises(HierlprError, match="another run is writing"),
            claimed(tmp_path / "sub" / ".." / "out"),
        ):
            pass
        with claimed(tmp_path / "other"):
            pass
    with claimed(tmp_path / "out"):
        pass
    assert names(tmp_path) == ["sub"]


def _contend(folder, turns):
    """Count how often two processes are in at once."""
    clashes = 0
    for _ in range(turns):
        with claimed(folder / "out"):
            try:
                os.close(os.open(folder / "inside", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                clashes += 1
            with writing(folder / "out") as part:
                part.write_text("x")
            (folder / "inside").unlink(missing_ok=True)
    return clashes


def test_locks_exclude_each_other_while_they_come_and_go(tmp_path, monkeypatch):
    monkeypatch.setattr(own_folders, "_PATIENCE", 60.0)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        clashes = pool.starmap(_contend, [(tmp_path, 40)] * 4)
    assert clashes == [0] * 4
    assert names(tmp_path) == ["out"]


# -- inputs and outputs -----------------------------------------------------------------------


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scores").mkdir()
    (tmp_path / "scores" / "a.parquet").write_text("x")
    (tmp_path / "truth.csv").write_text("x")
    (tmp_path / "link.csv").symlink_to("truth.csv")
    (tmp_path / "hard.csv").hardlink_to("truth.csv")
    (tmp_path / "hard.parquet").hardlink_to("scores/a.parquet")
    (tmp_path / "alias").symlink_to("scores")
    return {"the scores": "scores", "the truth": tmp_path / "truth.csv", "the model": None}


@pytest.mark.parametrize("out", [
    "truth.csv", "link.csv", "hard.csv", "scores/../truth.csv", "./truth.csv", "scores",
    "scores/", "alias", "alias/x.csv", "scores/x.csv", "scores/deep/x.csv", ".", "hard.parquet",
    "file://{here}/truth.csv",
])  # fmt: skip
def test_an_output_that_is_an_input_is_refused(inputs, tmp_path, out):
    with pytest.raises(HierlprError, match="Hint: give another name"):
        refuse_overlap({"--out": out.format(here=tmp_path)}, inputs)


@pytest.mark.parametrize("work", ["scores", "scores/work", "alias/work", "truth.csv", "out/work"])
def test_a_work_folder_in_the_way_is_refused(inputs, work):
    with pytest.raises(HierlprError, match="Hint: give another folder"):
        refuse_overlap({"--out": "out"}, inputs, work)


def test_outputs_that_meet_are_refused(inputs):
    for out, other in (("x", "x"), ("x", "./x"), ("x", "x/y.json"), ("s3://b/x", "s3://b/x/")):
        with pytest.raises(HierlprError, match="Hint: give another name"):
            refuse_overlap({"--out": out, "--json": other}, inputs)
    with pytest.raises(HierlprError, match="is also the scores"):
        refuse_overlap({"--out": "s3://b/x"}, {"the scores": "s3://b/x"})


def test_what_does_not_meet_is_allowed(inputs, tmp_path):
    for out in ("out", "scores2", "scores.csv", "x/y", tmp_path.parent / "x", "s3://b/x"):
        refuse_overlap({"--out": out, "--json": "-"}, inputs, "work")
        refuse_overlap({"--out": out, "--json": "a.json"}, inputs, ".")


# -- interruption -----------------------------------------------------------------------------


def test_what_an_interruption_left_is_removed(tmp_path):
    """Even if it came in the middle of cleaning up."""
    folder, lock = own_folder(tmp_path, name="x", key="k"), claimed(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt), stopping_cleanly():
        fail(folder.__enter__() / "rows", lock.__enter__() or KeyboardInterrupt)
    assert names(tmp_path) == []


def test_what_others_hold_stays(tmp_path):
    with claimed(tmp_path / "out"):
        with stopping_cleanly():
            pass
        assert len(names(tmp_path)) == 1


def test_where_locks_are_those_of_windows(tmp_path, monkeypatch):
    """One byte beyond the content is locked, so that the mark can be read and written."""
    import fcntl

    def locking(descriptor, mode, n_bytes):
        assert (mode, n_bytes) == ("non-blocking", 1)
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == 1 << 30
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(13, "Permission denied") from None

    windows = SimpleNamespace(LK_NBLCK="non-blocking", locking=locking)
    monkeypatch.setitem(sys.modules, "msvcrt", windows)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with claimed(tmp_path / "out.csv"), own_folder(tmp_path, name="x", key="k") as folder:
        marks = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert marks
        assert all(path.stat().st_size < 1000 for path in marks)
        held = dict(own_folders._held)
        own_folders._held.clear()  # as another run would see it
        with pytest.raises(HierlprError, match="another run"), claimed(tmp_path / "out.csv"):
            pass
        own_folders._cleaned.clear()
        with own_folder(tmp_path, name="x", key="other"):
            assert folder.exists()
        own_folders._held.update(held)
    assert names(tmp_path) == []
