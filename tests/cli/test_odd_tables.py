"""Odd tables of the kinds that came late: weights, unknown truth, databases, workbooks, stdin.

Exit code 2 and one message that names file and place, the same whole and in parts; nothing is left.
"""

import gzip
import io
import re
import sqlite3
from datetime import date

import click.testing
import pytest
from badfiles import TREE
from shellrun import refused

from hierlpr.cli import main

duckdb = pytest.importorskip("duckdb")
openpyxl = pytest.importorskip("openpyxl")

ROWS = range(1, 31)
SCORES = "sample,A,B,C\n" + "".join(f"s{i},0.{i},0.{40 - i},0.5\n" for i in ROWS)
TRUTH = "sample,A,B,C\n" + "".join(f"s{i},1,{i % 2},{i // 2 % 2}\n" for i in ROWS)
WEIGHTS = "sample,weight\n" + "".join(f"s{i},2\n" for i in ROWS)
NAMES = ("sample", "A", "B", "C")
GOOD = [(f"s{i}", 0.1 * i, 0.2, 0.3) for i in range(1, 6)]


def one(text, new, old="s4,2\n"):
    assert text.count(old) == 1
    return text.replace(old, new)


def weight(value):
    return one(WEIGHTS, f"s4,{value}\n")


WEIGHT_FILES = {
    "other name": ("sample,mass\ns1,1\n", "there is no column 'weight'"),
    "other first column": ("patient,weight\ns1,1\n", "line 1: the first column is 'patient'"),
    "negative": (weight("-2"), "line 5, column 'weight': .*is -2, less than 0"),
    "NaN": (weight("nan"), "line 5, column 'weight': the value is missing"),
    "infinite": (weight("inf"), "line 5, column 'weight': the value is infinite"),
    "beyond floats": (weight("1e400"), "line 5, column 'weight': the value is infinite"),
    "beyond squares": (weight("1e200"), "line 5, column 'weight': .*more than 1e.100"),
    "empty": (weight(""), "line 5, column 'weight': the value is missing"),
    "unknown": (weight("unknown"), "line 5, column 'weight': 'unknown' is not a number"),
    "text": (weight("heavy"), "line 5, column 'weight': 'heavy' is not a number"),
    "hexadecimal": (weight("0x10"), "line 5, column 'weight': '0x10' is not a number"),
    "underscore": (weight("1_0"), "line 5, column 'weight': '1_0' is not a number"),
    "comma": (weight('"2,5"'), "line 5, column 'weight': '2,5' is not a number"),
    "again": (WEIGHTS + "s4,3\n", "line 32: sample 's4' occurs again .first on line 5"),
    "lacks one": (one(WEIGHTS, ""), "1 of 30 samples of .*scores.csv have no weight: 's4'"),
    "all zero": (WEIGHTS.replace(",2", ",0"), "all 30 samples of .*scores.csv have the weight 0"),
    "two columns": (WEIGHTS.replace("weight", "weight,weight").replace(",2", ",2,2"),
                    "line 1, column 'weight': the column occurs twice"),
    "long": ("sample,label,score\ns1,weight,1\n", "there is no column 'weight'"),
    "no rows": ("sample,weight\n", "line 1: there is a header but no rows"),
    "nothing": ("", "the file is empty"),
    "short row": (WEIGHTS + "s99\n", "line 32: the row has 1 columns, expected 2"),
    "binary": (b"\x00\x01" * 40, "line 1: this is binary data"),
    "UTF-16": (WEIGHTS.encode("utf-16"), "line 1: .*UTF-16|line 1: this is binary"),
    "no name": (one(WEIGHTS, ",2\n"), "line 5: the sample has no name|line 5.*sample.*empty"),
}  # fmt: skip


def held(new):
    return one(TRUTH, f"s4,{new}\n", "s4,1,0,0\n")


TRUTH_FILES = {
    "maybe": (held("maybe,0,0"), "line 5, column 'A': 'maybe' is not"),
    "a half": (held("0.5,0,0"), "line 5, column 'A'"),
    "two": (held("2,0,0"), "line 5, column 'A'"),
    "against the hierarchy": (held("0,1,0"), "line 5: sample 's4' has 'B' but not its parent 'A'"),
    "against it through a gap": (held("0,unknown,1"), "line 5: sample 's4' has 'C' but not"),
    "a word in parts": (held("un known,0,0"), "line 5, column 'A': 'un known' is not"),
    "nothing of a label": (re.sub(r"(?m)^(s\d+,1),\d", r"\1,", TRUTH),
                           "truth is unknown for 1 label.s. in all samples: 'B'"),
    "long, a word": ("sample,label,truth\ns1,A,1\ns2,A,perhaps\n", "line 3, column 'truth'"),
    "long, both": ("sample,label,truth\ns1,A,1\ns1,A,unknown\n", "line 3: sample 's1' has label"),
    "long, against": ("sample,label,truth\ns1,A,0\ns1,B,1\n", "line 3: sample 's1' has 'B'"),
}  # fmt: skip


def database(kind, rows, columns=NAMES):
    def write(path):
        base = (sqlite3 if kind == "sqlite" else duckdb).connect(str(path))
        types = "" if kind == "sqlite" else " VARCHAR"
        base.execute(f"CREATE TABLE t ({', '.join(name + types for name in columns)})")
        for row in rows:
            base.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(row))})", row)
        base.commit()
        base.close()

    return f"x.{kind}", "::t", write


def selected(columns):
    def write(path):
        with duckdb.connect(str(path)) as base:
            base.execute(f"CREATE TABLE t AS SELECT 's1' AS sample, {columns}, 1.0 AS B, 1.0 AS C")

    return "x.duckdb", "::t", write


def damaged(kind, start, stop):
    name, table, write = database(kind, [(f"s{i}", i, i, i) for i in range(3000)])

    def spoil(path):
        write(path)
        data = bytearray(path.read_bytes())
        data[start:stop] = b"\xff" * (min(stop, len(data)) - start)
        path.write_bytes(data)

    return name, table, spoil


def content(name, data, table=""):
    return name, table, lambda path: path.write_bytes(data)


DATABASES = {
    "no table": (
        ("x.db", "::u", database("sqlite", GOOD)[2]),
        "::u: the table cannot be read .no such table",
    ),
    "no table, DuckDB": (
        ("x.duckdb", "::u", database("duckdb", GOOD)[2]),
        "::u: the table cannot be read .Table with",
    ),
    "a function": (("x.duckdb", "::range(9)", database("duckdb", GOOD)[2]), "cannot be read"),
    "null": (database("sqlite", [*GOOD, ("x", None, 1, 1)]), "row 6, column 'A': the value is mis"),
    "text": (database("sqlite", [*GOOD, ("x", "hi", 1, 1)]), "row 6, column 'A': 'hi' is not a nu"),
    "bytes": (database("sqlite", [*GOOD, ("x", b"\xff\0", 1, 1)]), "row 6, column 'A'"),
    "infinite": (database("sqlite", [*GOOD, ("x", 9e999, 1, 1)]), "row 6, column 'A': .*infinite"),
    "no name": (database("sqlite", [*GOOD, (None, 1, 1, 1)]), "row 6"),
    "again": (database("sqlite", [*GOOD, GOOD[0]]), "row 6: sample 's1' occurs again"),
    "no rows": (database("sqlite", []), "the schema: there (are columns|is a header) but no rows"),
    "no rows, DuckDB": (database("duckdb", []), "the schema: there .* but no rows"),
    "a label lacks": (database("sqlite", [("s1", 1, 1)], NAMES[:3]), "of the hierarchy ha.* no co"),
    "an unknown label": (
        database("sqlite", [("s1", 1, 1, 1, 1)], (*NAMES, "Z")),
        "label 'Z' is no",
    ),
    "lists": (selected("[1.0] AS A"), "row 1, column 'A'"),
    "structs": (selected("{'a': 1} AS A"), "row 1, column 'A'"),
    "dates": (
        selected("DATE '2020-01-01' AS A"),
        "row 1, column 'A': '2020-01-01' is not a number",
    ),
    "spans": (selected("INTERVAL 1 DAY AS A"), "row 1, column 'A'"),
    "NaN": (selected("'nan'::DOUBLE AS A"), "row 1, column 'A': the value is missing"),
    "spoiled": (damaged("sqlite", 4096, 9000), "the table cannot be read"),
    "spoiled, DuckDB": (damaged("duckdb", 12288, 13000), "the table cannot be read"),
    "no database": (content("x.db", b"hello", "::t"), "neither an SQLite nor a DuckDB file"),
    "empty": (content("x.sqlite", b"", "::t"), "neither an SQLite nor a DuckDB file"),
}


def sheet(*rows, title="S", more="", table=""):
    def write(path):
        book = openpyxl.Workbook()
        book.active.title = title
        for row in rows:
            book.active.append(row)
        if more:
            book.create_sheet(more)
        book.save(path)

    return "x.xlsx", table, write


def packed():
    sink = io.BytesIO()
    book = openpyxl.Workbook()
    book.active.append(NAMES)
    book.save(sink)
    return sink.getvalue()


WORKBOOKS = {
    "nothing": (sheet(), "the sheet is empty"),
    "other sheet": (sheet(NAMES, *GOOD, table="::nope"), "there is no sheet 'nope'"),
    "empty sheet": (sheet(NAMES, *GOOD, more="T", table="::T"), "::T: the sheet is empty"),
    "no rows": (sheet(NAMES), "the header: there is a header but no rows|no rows"),
    "no value": (sheet(NAMES, *GOOD, ("x", None, 1, 1)), "row 7, column 'A': the value is missing"),
    "no last value": (sheet(NAMES, *GOOD, ("x", 1, 1, None)), "row 7, column 'C': the value is mi"),
    "date": (sheet(NAMES, *GOOD, ("x", date(2020, 1, 1), 1, 1)), "row 7, column 'A': '2020-01-01"),
    "error": (sheet(NAMES, *GOOD, ("x", "#DIV/0!", 1, 1)), "row 7, column 'A': '#DIV/0!' is not a"),
    "formula": (
        sheet(NAMES, *GOOD, ("x", "=1+1", 1, 1)),
        "row 7, column 'A': the value is missing",
    ),
    "wider": (sheet(NAMES, *GOOD, ("x", 1, 1, 1, 7)), "row 7: the row has 5 columns"),
    "column twice": (
        sheet((*NAMES, "B"), ("s1", 1, 1, 1, 1)),
        "column 'B': the column occurs twice",
    ),
    "no column": (
        sheet(("sample", "A", None, "C"), GOOD[0]),
        "the header: column 3 of the header has no name",
    ),
    "again": (sheet(NAMES, *GOOD, GOOD[0]), "row 7: sample 's1' occurs again .first on row 2"),
    "no name": (sheet(NAMES, *GOOD, (None, 1, 1, 1)), "row 7"),
    "a text": (sheet(NAMES, *GOOD, ("x", "0,5", 1, 1)), "row 7, column 'A': '0,5' is not a number"),
    "cut": (content("x.xlsx", packed()[:-200]), "no readable Excel workbook"),
    "a text file": (content("x.xlsx", SCORES.encode()), "no readable Excel workbook"),
    "not so named": (content("x.csv", packed()), "line 1: .*(Excel|binary|archive)"),
}

STREAMS = {
    "empty": (b"", "stdin: the file is empty"),
    "binary": (b"\x00\xff" * 50, "stdin, line 1"),
    "no rows": (b"sample,A,B,C\n", "stdin, line 1: there is a header but no rows"),
    "a word": (
        SCORES.replace("0.5", "x", 1).encode(),
        "stdin, line 2, column 'C': 'x' is not a nu",
    ),
    "again": ((SCORES + "s1,1,1,1\n").encode(), "stdin, line 32: sample 's1' occurs again"),
    "open quote": ((SCORES + '"s99,1,1,1\n').encode(), "stdin, line 32"),
    "cut gzip": (gzip.compress(SCORES.encode() * 9, mtime=0)[:-9], "stdin: "),
}

OPTIONS = {
    "empty sep": (["--sep", ""], "sep must be one character"),
    "long sep": (["--sep", "ab"], "sep must be one character"),
    "line end": (["--sep", "\n"], "sep must be one character"),
    "quote": (["--sep", '"'], "sep must be one character"),
    "a letter": (["--sep", "a"], "tree.csv, line 2: the row has 1 columns"),
    "decimal is sep": (
        ["--decimal", ",", "--sep", ","],
        "scores.csv, line 2, column 'A': '0.1' is",
    ),
    "other decimal": (["--decimal", ";"], "';' is not one of"),
    "other columns": (["--columns", "A"], "'A' is not one of"),
    "a label for samples": (
        ["--sample-column", "A"],
        "scores.csv, the header: label 'sample' is not",
    ),
}


@pytest.fixture
def good(tmp_path):
    folder = tmp_path / "good"
    folder.mkdir()
    for name, text in (("tree.csv", TREE), ("scores.csv", SCORES), ("truth.csv", TRUTH)):
        (folder / name).write_text(text)
    return folder


def fit(good, tmp_path, *more, **changed):
    given = {"scores": good / "scores.csv", "truth": good / "truth.csv", **changed}
    files = [x for name, path in given.items() for x in (f"--{name}", path)]
    return ["fit", "-q", "--no-joint", "--lpr", "isotonic", "--hierarchy", good / "tree.csv",
            *files, "--out", tmp_path / "m.hlpr", *more]  # fmt: skip


def check(args, tmp_path, message, path=""):
    there = sorted(p.name for p in tmp_path.iterdir())
    said = refused(*args)
    assert re.search(re.escape(str(path)) + "(.|\n)*(" + message + ")", said), said
    again = refused(*args, "--partitions", 2)
    assert again == said
    assert sorted(p.name for p in tmp_path.iterdir()) == there


def test_there_are_enough():
    kinds = (WEIGHT_FILES, TRUTH_FILES, DATABASES, WORKBOOKS, STREAMS, OPTIONS)
    assert sum(map(len, kinds)) >= 85


@pytest.mark.parametrize("name", WEIGHT_FILES)
def test_weights(good, tmp_path, name):
    data, message = WEIGHT_FILES[name]
    path = tmp_path / "w.csv"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    check(fit(good, tmp_path, weights=path), tmp_path, message, path)


@pytest.mark.parametrize("name", TRUTH_FILES)
def test_unknown_truth(good, tmp_path, name):
    data, message = TRUTH_FILES[name]
    path = tmp_path / "t.csv"
    path.write_text(data)
    check(fit(good, tmp_path, truth=path), tmp_path, message)


@pytest.mark.parametrize("name", [*DATABASES, *(f"sheet: {x}" for x in WORKBOOKS)])
def test_databases_and_workbooks(good, tmp_path, name):
    is_sheet = name.startswith("sheet: ")
    (file, table, write), message = (
        WORKBOOKS[name.removeprefix("sheet: ")] if is_sheet else DATABASES[name]
    )
    write(tmp_path / file)
    check(fit(good, tmp_path, scores=f"{tmp_path / file}{table}"), tmp_path, message,
          tmp_path / file)  # fmt: skip


@pytest.mark.parametrize("name", OPTIONS)
def test_options(good, tmp_path, name):
    more, message = OPTIONS[name]
    check(fit(good, tmp_path, *more), tmp_path, message)


@pytest.mark.parametrize("name", STREAMS)
def test_stdin(good, tmp_path, name):
    data, message = STREAMS[name]
    said = []
    for more in ((), ("--partitions", 2)):
        args = [str(x) for x in fit(good, tmp_path, *more, scores="-")]
        result = click.testing.CliRunner().invoke(main, args, input=data)
        assert result.exit_code == 2, result.output
        assert result.stderr.count("Error:") == 1
        assert re.search(message, result.stderr), result.stderr
        said.append(result.stderr)
    assert said[0] == said[1]
    assert [p.name for p in tmp_path.iterdir()] == ["good"]
