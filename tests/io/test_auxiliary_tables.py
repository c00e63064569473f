"""Names for people: from files into the hierarchy."""

import pytest

from hierlpr import Hierarchy, read_hierarchy
from hierlpr.exceptions import DataError, FileError
from hierlpr.io import (
    load_hierarchy,
    read_names,
    read_p_values,
    read_weights,
    write_hierarchy,
)

H = Hierarchy([("A", "B"), ("A", "C")])


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("h.csv", "parent,child,name\n,A,animal\nA,B,<b>bird</b>\nA,C,\n"),
        ("h.tsv", "name\tchild\tparent\n<b>bird</b>\tB\tA\n\tC\tA\nanimal\tA\t\n"),
        ("h.obo", "[Term]\nid: A\nname: animal\n\n[Term]\nid: B\nname: <b>bird</b>\nis_a: A\n\n"
         "[Term]\nid: C\nname: C\nis_a: A\n"),
    ],
)  # fmt: skip
def test_files_give_names(tmp_path, name, text):
    loaded = load_hierarchy(write(tmp_path / name, text))
    assert dict(loaded.hierarchy.names) == {"A": "animal", "B": "<b>bird</b>"}
    assert not loaded.report.notes
    assert loaded.hierarchy.edges == (("A", "B"), ("A", "C"))


def test_two_names_are_a_problem(tmp_path):
    path = write(tmp_path / "h.csv", "parent,child,name\nA,B,bird\nD,B,bat\n")
    with pytest.raises(
        FileError, match=r"line 3, column 'name': label 'B' also has the name 'bird'"
    ):
        read_hierarchy(path)
    assert load_hierarchy(path, lenient=True).hierarchy.names == {"B": "bird"}


@pytest.mark.parametrize("end", ["obo", "csv", "tsv", "parquet", "csv.gz"])
@pytest.mark.parametrize("names", [{"B": "a bird! {x}"}, {"A": '=1+1, "q"', "D": "é ü"}])
def test_formats_with_a_place_for_names_keep_them(tmp_path, end, names):
    # B comes before its parents, and has two of them.
    h = Hierarchy([("A", "B"), ("D", "B"), ("A", "C")], labels=["B", "A", "lone"])
    path = tmp_path / f"h.{end}"
    named = h.with_names({label: name.strip() for label, name in names.items()})
    write_hierarchy(path, named)
    found = read_hierarchy(path)
    assert (found.labels, set(found.edges)) == (h.labels, set(h.edges))
    assert {x: " ".join(name.split()) for x, name in found.names.items()} == {
        x: " ".join(name.split()) for x, name in named.names.items()
    }
    write_hierarchy(path, h)
    assert not read_hierarchy(path).names


@pytest.mark.parametrize("end", ["csv", "tsv", "parquet"])
def test_a_table_of_names(tmp_path, end):
    rows = [("Code", "Title", "x"), ("A", "animal", "1"), ("B", '"two, words"', "2"),
            ("Z", "elsewhere", "3"), ("C", "", "4")]  # fmt: skip
    path = tmp_path / f"n.{end}"
    if end == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {head: list(cells) for head, *cells in zip(*rows, strict=True)}
        columns["Title"][1] = "two, words"
        pq.write_table(pa.table(columns), path)
    else:
        write(path, "\n".join(("," if end == "csv" else "\t").join(row) for row in rows))
    names, report = read_names(path, H)
    assert names == {"A": "animal", "B": "two, words"}
    assert report.counts["names of other labels"] == 1
    assert report.counts["labels with an empty name"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("name\nx\n", "line 1: there is no column 'label'"),
        ("code;name\nA;x\n", "--sep"),
        ("code,name\nA,x\nA,y\n", "line 3: label 'A' also has the name 'x'"),
        ("code,name\nZ,x\n", "no label of the hierarchy has a name"),
        ("code,name\nA\n", "line 2: the row has 1 columns"),
    ],
)
def test_bad_tables_of_names(tmp_path, text, message):
    with pytest.raises(FileError, match=message):
        read_names(write(tmp_path / "n.csv", text), H)


def test_weights(tmp_path):
    found = read_weights(write(tmp_path / "w.csv", "age,sample,weight\n7,a,2\n8,b,0\n"))
    assert found.match(["b", "a"], "scores.csv").tolist() == [0.0, 2.0]
    with pytest.raises(DataError, match="have no weight: 'c'"):
        found.match(["a", "c"], "scores.csv")
    for text in ("sample,mass\na,1\n", "sample,weight\na,-1\n", "sample,weight\na,1e200\n",
                 "sample,weight\na,1\na,2\n", "sample,weight\na,\n"):  # fmt: skip
        with pytest.raises(FileError, match=r"w\.csv"):
            read_weights(write(tmp_path / "w.csv", text))


def test_p_values(tmp_path):
    path = write(tmp_path / "p.csv", "label,p_value,x\nB,0.5,1\nold,1e-3,2\n")
    p, _ = read_p_values(path, H, aliases={"old": "A"})
    assert p[:2].tolist() == [0.001, 0.5]
    assert p[2] != p[2]
    bad = ("label,p\nB,1.5\n", "label,p\nB,x\n", "label,p\nB,1\nB,1\n", "label,p\nQ,1\n", "p\n1\n")
    for text in bad:
        with pytest.raises(FileError, match="line"):
            read_p_values(write(path, text), H)
