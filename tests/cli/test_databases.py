"""Tables of SQLite and DuckDB files, whole and in parts; names of tables are hostile."""

import re
import sqlite3

import numpy as np
import pytest
from shellrun import refused, run

from hierlpr import Hierarchy
from hierlpr.exceptions import FileError
from hierlpr.io import read_scores, read_truth
from hierlpr.io.foreign_tables import open_foreign

duckdb = pytest.importorskip("duckdb")
H = Hierarchy([("A", "B"), ("A", "C")])
TABLE = 'scores"; DROP TABLE truth; --.parquet'


def filled(path, connect):
    with connect(path) as base:
        quoted = '"' + TABLE.replace('"', '""') + '"'
        base.execute(f"CREATE TABLE {quoted} (sample TEXT, A DOUBLE, B DOUBLE, C DOUBLE)")
        base.execute("CREATE TABLE truth (sample TEXT, label TEXT)")
        base.execute("CREATE TABLE bad (sample TEXT, A DOUBLE, B TEXT, C DOUBLE)")
        rng = np.random.default_rng(0)
        rows = [(f"p{i}", *row) for i, row in enumerate(rng.normal(size=(60, 3)).tolist())]
        for row in rows:
            base.execute(f"INSERT INTO {quoted} VALUES (?, ?, ?, ?)", row)
        for i in range(0, 60, 2):
            base.execute("INSERT INTO truth VALUES (?, ?), (?, ?)", (f"p{i}", "A", f"p{i}", "B"))
        base.execute("INSERT INTO bad VALUES ('x', 1, '2', 3), ('y', 1, 'two', 3)")
        base.commit()
    base.close()
    return rows


@pytest.fixture(params=["x.sqlite", "x.duckdb", "x.db"])
def base(request, tmp_path):
    connect = duckdb.connect if request.param.endswith("duckdb") else sqlite3.connect
    path = tmp_path / request.param
    return path, filled(str(path), connect)


def test_tables_are_read_whole_and_in_parts(base, tmp_path):
    path, rows = base
    scores = f"{path}::{TABLE}"
    found = read_scores(scores, H)
    assert found.table.samples == tuple(name for name, *_ in rows)
    assert found.table.values.tolist() == [row[1:] for row in map(list, rows)]
    assert found.report.format == "wide database scores"
    assert read_truth(f"{path}::truth", H).table.n_samples == 30
    (tmp_path / "h.csv").write_text("parent,child\nA,B\nA,C\n")
    models = []
    for more in ((), ("--partitions", 2)):
        out = tmp_path / f"m{len(models)}.hlpr"
        code, _, err = run("fit", "--hierarchy", tmp_path / "h.csv", "--scores", scores, "--truth",
                           f"{path}::truth", "--out", out, *more)  # fmt: skip
        assert code == 0, err
        models.append(out.read_bytes())
    assert models[0] == models[1]


def test_bad_tables(base, tmp_path):
    path, _ = base
    with pytest.raises(FileError, match="row 2, column 'B': 'two' is not a number"):
        read_scores(f"{path}::bad", H)
    known = r"(?s)::none: the table cannot be read.*the tables are .*'truth'"
    with pytest.raises(FileError, match=known):
        read_scores(f"{path}::none", H)
    with pytest.raises(FileError, match="no such file"):
        read_scores(f"{tmp_path}/none.sqlite::t", H)
    (tmp_path / "text.db").write_text("sample,A\n")
    with pytest.raises(FileError, match="neither an SQLite nor a DuckDB file"):
        read_scores(f"{tmp_path}/text.db::t", H)


WIDE, LISTED = ("sample", "A", "B", "C"), ("sample", "label", "score")
BAD = {
    "no score": (WIDE, ("p0", None, 0.2, 0.3), "row 1, column 'A': the value is missing"),
    "a text": (WIDE, ("p0", "2020-01-01", 0.2, 0.3), "row 1, column 'A': '2020-01-01' is not"),
    "bytes": (WIDE, ("p0", b"\xff\x00", 0.2, 0.3), "row 1, column 'A': .* is not a number"),
    "bytes for a name": (WIDE, (b"\xff", 0.1, 0.2, 0.3), "row 1: the name is not UTF-8"),
    "no name": (WIDE, (None, 0.1, 0.2, 0.3), "row 1: the sample has no name"),
    "infinite": (WIDE, ("p0", float("inf"), 0.2, 0.3), "row 1, column 'A': the value is infinite"),
    "again": (WIDE, ("p1", 0.1, 0.2, 0.3), "row 2: sample 'p1' occurs again .first on row 1"),
    "too few": (("sample", "A", "B"), ("p0", 0.1, 0.2), "have no column: 'C'"),
    "too many": ((*WIDE, "Z"), ("p0", 0.1, 0.2, 0.3, 0.4), "label 'Z' is not in the hierarchy"),
    "unknown": (LISTED, ("p0", "Q", 0.1), "row 1: label 'Q' is not in the hierarchy"),
    "no listed score": (LISTED, ("p0", "A", None), "row 1: the value is missing"),
}


@pytest.mark.parametrize(("columns", "first", "message"), BAD.values(), ids=BAD)
def test_bad_rows_are_named_whole_and_in_parts(tmp_path, columns, first, message):
    with sqlite3.connect(tmp_path / "x.db") as base:
        base.execute(f"CREATE TABLE t ({','.join(columns)})")
        more = ("A", 0.1) if columns is LISTED else (0.1,) * (len(columns) - 1)
        rest = [(f"p{i}", *more) for i in range(1, 9)]
        marks = ",".join("?" * len(columns))
        base.executemany(f"INSERT INTO t VALUES ({marks})", [first, *rest])
    base.close()
    (tmp_path / "h.csv").write_text("parent,child\nA,B\nA,C\n")
    (tmp_path / "t.csv").write_text("sample,label\np1,A\n")
    args = ["fit", "-q", "--hierarchy", tmp_path / "h.csv", "--scores", f"{tmp_path}/x.db::t",
            "--truth", tmp_path / "t.csv", "--out", tmp_path / "m.hlpr"]  # fmt: skip
    said = refused(*args)
    assert re.search(r"x\.db::t.*" + message, said), said
    assert refused(*args, "--work", tmp_path / "work") == said


def test_a_database_is_not_overwritten(base, tmp_path):
    path, _ = base
    (tmp_path / "h.csv").write_text("parent,child\nA,B\nA,C\n")
    before = path.read_bytes()
    refused("fit", "--hierarchy", tmp_path / "h.csv", "--scores", f"{path}::{TABLE}", "--truth",
            f"{path}::truth", "--out", path)  # fmt: skip
    assert path.read_bytes() == before


def test_a_database_without_a_table_asks_for_one(base):
    path, _ = base
    with pytest.raises(FileError, match="this is a database") as error:
        read_scores(path, H)
    assert str(error.value).endswith(f"name the table in it, {path}::TABLE.")


def test_nothing_is_left_beside_a_database(tmp_path):
    """A database with a log of its own (WAL), which readers may leave files of."""
    path = tmp_path / "x.sqlite"
    base = sqlite3.connect(path)
    base.execute("PRAGMA journal_mode=wal")
    base.execute("CREATE TABLE t (sample TEXT, A DOUBLE, B DOUBLE, C DOUBLE)")
    base.execute("INSERT INTO t VALUES ('p', 1, 2, 3)")
    base.commit()
    assert read_scores(f"{path}::t", H).table.n_samples == 1  # what is in the log only
    base.close()
    assert [p.name for p in tmp_path.iterdir()] == ["x.sqlite"]
    before = path.read_bytes()
    assert read_scores(f"{path}::t", H).table.n_samples == 1
    assert [p.name for p in tmp_path.iterdir()] == ["x.sqlite"]
    assert path.read_bytes() == before


def test_a_database_that_changes_while_it_is_read_is_not_believed(tmp_path):
    path = tmp_path / "x.sqlite"
    base = sqlite3.connect(path)
    base.execute("PRAGMA journal_mode=wal")
    base.execute("CREATE TABLE t (sample TEXT, A DOUBLE, B DOUBLE, C DOUBLE)")
    base.executemany("INSERT INTO t VALUES (?, 1, 2, 3)", [(f"p{i}",) for i in range(40_000)])
    base.commit()
    base.close()
    rows = open_foreign(f"{path}::t").rows()
    next(rows)
    base = sqlite3.connect(path)
    base.execute("UPDATE t SET A = 7")
    base.commit()
    base.close()
    with pytest.raises(FileError, match=r"x.sqlite::t: the file changed while it was read"):
        list(rows)
