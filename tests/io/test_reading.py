"""Damaged and hostile files: refused with a message, in bounded time and memory."""

import gzip
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cases import write
from hierlpr import Hierarchy, HierlprError, read_hierarchy
from hierlpr.exceptions import FileError
from hierlpr.io import read_scores
from hierlpr.io.hierarchies import load_hierarchy
from hierlpr.outofcore.resources import estimate_rows

H = Hierarchy([("A", "B"), ("A", "C")])


def test_a_compressed_table_counts_by_its_unpacked_size(tmp_path):
    row = b"s,0,0,0\n"
    path = write(tmp_path / "s.csv.gz", gzip.compress(b"sample,A,B,C\n" + row * 10**6, mtime=0))
    assert path.stat().st_size < 10**5
    assert estimate_rows(str(path)) > 0.9 * 10**6


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("h.paths", "a/" * 40_000 + "a", "characters"),
        ("h.paths", "".join(f"{'b' * 9000}{i}/" + "a/" * 250 + "a\n" for i in range(200)), "char"),
        ("h.arff", "@ATTRIBUTE c hierarchical " + "a/" * 40_000 + "a\n@DATA\n", "characters"),
        ("h.obo.gz", gzip.compress(b"!\n" * 10**7), "larger than 512 MB"),
        ("h.json", "[" * 10**6, "cannot be read"),
    ],
    ids=range(5),
)
def test_small_files_that_unfold_to_gigabytes_are_refused(
    tmp_path, monkeypatch, name, content, message
):
    monkeypatch.setattr("hierlpr.hierarchy.graph.MOST_CHARACTERS", 1 << 24)
    with pytest.raises(FileError, match=message):
        read_hierarchy(write(tmp_path / name, content))


def test_long_quotes_and_continued_lines_are_read_or_refused(tmp_path):
    header = 'sample,"A' + ',"x' * 10**6 + "\n"
    with pytest.raises(FileError, match="quotes"):
        read_scores(write(tmp_path / "s.csv", header + "x\n" * 10**5), H)
    obo = "[Term]\nid: A\nname: x" + "\\\n" * 10**6 + "\n"
    assert read_hierarchy(write(tmp_path / "h.obo", obo)).labels == ("A",)
    with pytest.raises(FileError, match="0 attributes"):
        read_hierarchy(write(tmp_path / "d.arff", "@ATTRIBUTE " + "'" * 10**6 + "\n@DATA\n"))


def test_damaged_parquet_is_read_or_refused(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"s{i}" for i in range(200)]
    columns = {"sample": names, **{x: rng.random(200) for x in "ABC"}}
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=50)
    whole = path.read_bytes()
    said = []
    for _ in range(150):
        damaged = bytearray(whole)
        for at in rng.integers(4, len(whole), rng.integers(1, 6)):
            damaged[at] = rng.integers(256)
        try:
            read_scores(write(path, bytes(damaged)), H)
        except HierlprError as error:
            said.append(str(error))
    assert len(said) > 20
    assert all("s.parquet" in text for text in said)


def test_names_that_are_not_utf8_in_parquet(tmp_path):
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
    )
    pq.write_table(
        pa.table({"sample": bad, "A": [1.0], "B": [1.0], "C": [1.0]}), tmp_path / "s.parquet"
    )
    with pytest.raises(FileError, match="column 'sample'"):
        read_scores(tmp_path / "s.parquet", H)


def test_what_was_lost_is_a_warning_and_what_was_read_is_not(tmp_path):
    path = tmp_path / "tree.csv"
    path.write_text("parent,child,colour\nA,B,red\nC,C,red\n")
    summary, *others = load_hierarchy(path, lenient=True).report.lines()
    assert not summary.is_warning
    assert [(note.removeprefix(f"{path}: ")[:20], note.is_warning) for note in others] == [
        ("other columns are ig", False),
        ("1 row(s) with proble", True),
    ]


def test_a_parquet_file_whose_name_the_locale_cannot_hold(tmp_path):
    """In a C locale Python keeps such names as they are; Arrow took them for broken text."""
    path = tmp_path / "gr\xf6\xdfe.parquet"
    pq.write_table(pa.table({"sample": ["a"], "A": [0.5]}), path)
    name = f"{os.fsencode(path)!r}.decode('ascii', 'surrogateescape')"
    code = f"from hierlpr.io import read_scores; print(read_scores({name}).samples)"
    settings = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "('a',)\n", done.stderr
