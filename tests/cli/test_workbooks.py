"""Sheets of Excel workbooks: read as other tables are, and hostile ones refused with a message."""

import datetime
import io
import zipfile

import numpy as np
import pytest
from shellrun import run

from hierlpr import Hierarchy
from hierlpr.exceptions import FileError
from hierlpr.io import (
    foreign_tables,
    load_hierarchy,
    read_names,
    read_p_values,
    read_scores,
    read_truth,
)

openpyxl = pytest.importorskip("openpyxl")
H = Hierarchy([("A", "B"), ("A", "C")])
SCORES = [["sample", "A", "B", "C"], [101, 0.1 + 0.2, -3, 1e300], ["p 2", 0.5, 0.25, 0.125]]


def book(path, **sheets):
    """Write sheets of rows."""
    made = openpyxl.Workbook()
    made.remove(made.active)
    for title, rows in sheets.items():
        sheet = made.create_sheet(title)
        for row in rows:
            sheet.append(row)
    made.save(path)
    return path


def edited(path, change):
    """Rewrite the parts of a workbook: ``change(name, bytes)`` gives the new ones."""
    stream = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    path.write_bytes(stream.getvalue())
    return path


def test_every_table_can_be_a_sheet(tmp_path):
    path = book(
        tmp_path / "study.xlsx",
        scores=[[], *SCORES, [None, None, None, None], []],
        truth=[["sample", "A", "B", "C"], [101, True, False, 0], ["p 2", 1, 1, 0]],
        pairs=[["sample", "label"], [101, "A"], ["p 2", "B"], ["p 2", "A"]],
        tree=[["parent", "child", "name"], [None, "A", "animal"], ["A", "B", None], ["A", "C", 7]],
        p=[["label", "p"], ["A", 0.01], ["C", None]],
    )
    found = read_scores(path, H)
    assert found.table.samples == ("101", "p 2")
    assert found.table.values.tolist() == [[0.3, -3.0, 1e300], [0.5, 0.25, 0.125]]
    assert found.report.format == "wide Excel scores"
    assert found.report.notes == (
        f"{path}: the sheet 'scores' is read; others, as FILE::SHEET: 'truth', 'pairs', 'tree', "
        "'p'",
    )
    assert not read_scores(f"{path}::scores", H).report.notes
    truth = read_truth(f"{path}::truth", H).table
    assert truth.values.tolist() == [[1, 0, 0], [1, 1, 0]]
    listed = read_truth(f"{path}::pairs", H).table
    assert listed.values.toarray().tolist() == truth.values.tolist()
    loaded = load_hierarchy(f"{path}::tree")
    assert loaded.report.format == "Excel edge list"
    assert loaded.hierarchy.edges == H.edges
    assert loaded.names == {"A": "animal", "C": "7"}
    assert read_p_values(f"{path}::p", H).p.tolist()[0] == 0.01


def test_names_from_a_sheet(tmp_path):
    path = book(tmp_path / "names.xlsx", n=[["code", "name"], ["A", "animal"], ["B", " bird "]])
    assert read_names(path, H)[0] == {"A": "animal", "B": "bird"}


def test_a_sample_column_among_others(tmp_path):
    from hierlpr.io import TablePath

    path = book(tmp_path / "s.xlsx", s=[["age", "id", "A", "B", "C"], [61, "p1", 1, 2, 3]])
    table = TablePath(path, sample_column="ID", columns="labels")
    assert read_scores(table, H).table.values.tolist() == [[1, 2, 3]]
    with pytest.raises(FileError, match=r"the header: the first column is 'age'"):
        read_scores(path, H)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "the sheet is empty"),
        ([["sample", "A", "B", "C"]], "no row"),
        ([*SCORES, ["p3", 1, None, 2]], "row 4, column 'B': the value is missing"),
        ([*SCORES, ["p3", 1, "#DIV/0!", 2]], "row 4, column 'B': '#DIV/0!' is not a number"),
        ([*SCORES, ["p3", 1, datetime.date(2026, 5, 1), 2]], "'2026-05-01.*' is not a number"),
        ([*SCORES, [], ["p3", 1, "=B1", 2]], "row 5, column 'B': the value is missing"),
        ([*SCORES, ["p3", 1, 2, 3, 4]], "row 4: the row has 5 columns, expected 4"),
        ([*SCORES, [None, 1, 2, 3]], "row 4: the sample has no name"),
        ([*SCORES, [101, 1, 2, 3]], "sample '101'"),
        ([["sample", "A", None, "C"], ["p1", 1, 2, 3]], "column 3 of the header has no name"),
        ([["sample", "A", "A", "C"], ["p1", 1, 2, 3]], "the column occurs twice"),
        ([["sample", "A", "B"], ["p1", 1, 2]], "no column: 'C'"),
        ([[0.5, 1, 2, 3]], "the first column is '0.5'"),
    ],
)  # fmt: skip
def test_bad_sheets_say_where(tmp_path, rows, message):
    path = book(tmp_path / "bad.xlsx", s=rows)
    with pytest.raises(FileError, match=message):
        read_scores(path, H)


def test_a_sheet_that_is_not_there(tmp_path):
    path = book(tmp_path / "x.xlsx", one=SCORES, two=SCORES)
    with pytest.raises(FileError, match="there is no sheet 'three'"):
        read_scores(f"{path}::three", H)
    with pytest.raises(FileError, match="no such file"):
        read_scores(tmp_path / "none.xlsx", H)


def test_what_is_no_workbook(tmp_path):
    path = tmp_path / "x.xlsx"
    for content in (b"", b"sample,A\np1,1\n", b"PK\x03\x04", b"\xd0\xcf\x11\xe0" * 100):
        path.write_bytes(content)
        with pytest.raises(FileError, match="this is no readable Excel workbook"):
            read_scores(path, H)
    other = book(tmp_path / "x.csv", s=SCORES)
    with pytest.raises(FileError, match=r"Excel workbooks in \.xlsx"):
        read_scores(other, H)


def test_a_cell_far_away_costs_nothing(tmp_path):
    made = openpyxl.Workbook()
    for row in SCORES:
        made.active.append(row)
    made.active["D1048576"] = 1.0
    made.save(path := tmp_path / "far.xlsx")
    with pytest.raises(FileError, match="row 1048576"):
        read_scores(path, H)


def test_forged_sheets(tmp_path, monkeypatch):
    def forged(before, after):
        path = book(tmp_path / "x.xlsx", s=SCORES)

        def change(name, content):
            return content.replace(before, after) if name.endswith("sheet1.xml") else content

        return edited(path, change)

    with pytest.raises(FileError, match="which no sheet can have"):
        read_scores(forged(b'<row r="3"', b'<row r="99999999999"'), H)
    laughs = b'<!DOCTYPE x [<!ENTITY a "' + b"ha" * 1000 + b'">' + b"".join(
        b'<!ENTITY %c "%s">' % (i + 1, b"&%c;" % i * 100) for i in range(97, 105)
    ) + b"]><worksheet"  # fmt: skip
    path = forged(b"<worksheet", laughs)
    edited(path, lambda name, content: content.replace(b"<v>0.5</v>", b"<v>&i;</v>"))
    with pytest.raises(FileError, match="no readable Excel workbook"):
        read_scores(path, H)
    local = b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><worksheet'
    path = forged(b"<worksheet", local)
    edited(path, lambda name, content: content.replace(b"<v>0.5</v>", b"<v>&e;</v>"))
    with pytest.raises(FileError) as told:
        read_scores(path, H)
    assert "root:" not in str(told.value)
    path = book(tmp_path / "x.xlsx", s=SCORES)
    monkeypatch.setattr(foreign_tables, "MOST_BYTES", 1000)
    with pytest.raises(FileError, match="the workbook unpacks to"):
        read_scores(path, H)


def test_damaged_workbooks_are_read_or_refused(tmp_path):
    path = book(tmp_path / "x.xlsx", s=SCORES)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    n_refused = 0
    for _ in range(60):
        bad = bytearray(whole)
        at = int(rng.integers(len(bad)))
        bad[at] ^= int(rng.integers(1, 256))
        path.write_bytes(bad[: at if rng.random() < 0.3 else len(bad)])
        try:
            assert read_scores(path, H).table.n_samples == 2
        except FileError:
            n_refused += 1
    assert n_refused > 20


def test_without_the_package_the_message_names_it(tmp_path, monkeypatch):
    path = book(tmp_path / "x.xlsx", s=SCORES)
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(FileError, match=r"pip install 'hierlpr\[excel\]'"):
        read_scores(path, H)


def test_a_study_in_one_workbook_whole_and_in_parts(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"p{i}" for i in range(60)]
    truth = [["sample", "label"], *([n, x] for n in names[::2] for x in ("A", "B"))]
    rows = [[n, *x] for n, x in zip(names, rng.normal(size=(60, 3)).tolist(), strict=True)]
    tree = [["parent", "child"], ["A", "B"], ["A", "C"]]
    path = book(tmp_path / "s.xlsx", tree=tree, scores=[SCORES[0], *rows], truth=truth)
    models = []
    for more in ((), ("--partitions", 2)):
        out = tmp_path / f"m{len(models)}.hlpr"
        code, _, err = run("fit", "--hierarchy", f"{path}::tree", "--scores", f"{path}::scores",
                           "--truth", f"{path}::truth", "--out", out, *more)  # fmt: skip
        assert code == 0, err
        models.append(out.read_bytes())
    assert models[0] == models[1]
    before = path.read_bytes()
    code, _, err = run("fit", "--hierarchy", f"{path}::tree", "--scores", f"{path}::scores",
                       "--truth", f"{path}::truth", "--out", path)  # fmt: skip
    assert code == 2, err
    assert path.read_bytes() == before
