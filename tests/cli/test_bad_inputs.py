"""Bad input of every kind ends with exit code 2 and one message that names the place."""

import gzip
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shellrun import refused

TREE = "parent,child\nA,B\nA,C\n"
SCORES = "sample,A,B,C\n" + "".join(f"s{i},0.{i},0.{9 - i},0.5\n" for i in range(1, 9))
TRUTH = "sample,A,B,C\n" + "".join(f"s{i},1,{i % 2},0\n" for i in range(1, 9))
LONG = "sample,label,score\ns1,A,0.9\ns1,B,0.2\n"
RANKING = "rank,sample,label,lpr,score,call\n1,s1,A,0.9,0.9,1\n2,s1,B,0.5,0.5,1\n"
OBO = "format-version: 1.2\n\n[Term]\nid: A\n\n[Term]\nid: B\nis_a: A\n"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    for name, text in (("tree.csv", TREE), ("scores.csv", SCORES), ("truth.csv", TRUTH),
                       ("ranking.csv", RANKING)):  # fmt: skip
        (folder / name).write_text(text)
    return folder


def given(content, path):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def cases(listed):
    ids = [f"{i}-{end}" for i, (end, _, _) in enumerate(listed)]
    return pytest.mark.parametrize(("end", "content", "message"), listed, ids=ids)


def parquet(*pairs, **columns):
    names, arrays = zip(*(pairs or columns.items()), strict=True)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table([pa.array(array) for array in arrays], names=list(names)), sink)
    return sink.getvalue().to_pybytes()


WIDE_PARQUET = parquet(sample=["s1", "s2"], A=[0.1, 0.2], B=[0.1, None], C=[0.1, 0.2])
HUGE = b"parent,child\nA," + b"x" * (17 << 20) + b"\n"

# What is read, its ending, its content, what the message says (after the name of the file).
HIERARCHIES = [
    ("csv", "parent,child\nA,B\nB,C\nC,A\n", "cycle: A -> B -> C -> A"),
    ("csv", "parent,child\nB,A\nC,A\nD,A\n", "edges look reversed.*'A' has 3 parents"),
    ("csv", "parent,child\nA,A\n", "line 2: label 'A' is its own parent"),
    ("csv", "", "the file is empty"),
    ("csv", "# nothing\n", "only comments"),
    ("csv", "parent;child\nA;B\n", "line 1: .*one column(.|\n)*semicolon"),
    ("tsv", "parent,child\nA,B\n", "line 1: .*one column(.|\n)*comma"),
    ("csv", "parent,child\nA,B\nA\n", "line 3: the row has 1 columns"),
    ("csv", "parent,child\n,\n", "line 2: both names are empty"),
    ("csv", "from,to\nA,B\n", "line 1: cannot tell which columns"),
    ("csv", b"parent,child\nA,\xff\xfe\n", "line 2: byte 0xff is not UTF-8"),
    ("csv", bytes(range(256)), "line 1: this is binary data"),
    ("csv", HUGE, "line 2: the line is longer than 16 MB"),
    ("csv.gz", gzip.compress(TREE.encode() * 400, mtime=0)[:-30], "gzip data is damaged"),
    ("csv.gz", TREE, "not gzip data"),
    ("obo", TREE, "line 1: .*no 'tag: value' line"),
    ("obo", OBO + "is_a: Z\n", "line 9: the parent 'Z' of 'B' is not defined"),
    ("obo", OBO + "\n[Term]\nid: A\n", "line 10: term 'A' is defined again"),
    ("json", '{"A": {"B": ', "line 1: this is not JSON"),
    ("json", '{"B": "A", "B": "C"}', "key 'B' occurs twice"),
    ("json", '{"B": 7}', "the parents of 'B' are '7'"),
    ("txt", "A/B\nA//C\n", "line 2: the path 'A//C' has an empty segment"),
    ("arff", "@RELATION x\n@ATTRIBUTE a numeric\n@DATA\n", "line 3: .*0 attributes"),
    ("parquet", parquet(up=["A"], down=["B"]), "no column 'parent'"),
    ("parquet", parquet(parent=["A"], child=["B"])[:60], "no readable Parquet file"),
    ("csv", "parent,child\nA,B\x00C\n", "line 2: this is binary data"),
    ("csv", 'parent,child\nA,"B\n', "line 2: the quotes do not match"),
    ("csv", "parent,child,parent\nA,B,A\n", "line 1: the column 'parent' occurs twice"),
    ("csv", "parent,child\n", "line 1: there is a header but no rows"),
    ("csv", "parent,child\n  ,\t\n", "line 2: both names are empty"),
    ("obo", OBO + "alt_id: A\n", "line 9: the alt_id 'A' of 'B' is the id of another term"),
    (
        "obo",
        OBO.replace("id: A\n", "id: A\nalt_id: X\n") + "alt_id: X\n",
        "line 10: the alt_id 'X' belongs to 'A' and to 'B'",
    ),
    ("obo", OBO + "id: C\n", "line 9: the term 'B' has a second id, 'C'"),
    ("obo", OBO + "\n[Term]\nname: nobody\n", "line 10: the .Term. stanza has no id"),
    ("obo", OBO + "relationship: part_of\n", "line 9: relationship 'part_of' is not"),
    ("obo", "format-version: 1.2\n", "line 1: there is no .Term. stanza"),
    ("json", '{"edges": [["A", "B"]],\n "labels": 7}', "line 2: labels is '7', not a list"),
    ("json", '{"edges": [["A", "B"]],\n "labels": null}', "line 2: labels is 'None', not a list"),
    ("json", '{"edges": [["A", "B"]],\n "labels": [7]}', "line 2: labels.0. holds '7'"),
    ("json", '{"edges":\n [["A"]]}', "line 1: edges.0. is .*, not a pair"),
    ("json", '{"edges":\n [["A", ["B"]]]}', "line 1: edges.0. holds"),
    ("json", '{"B":\n' + "9" * 5000 + "}", "line 2: this JSON cannot be read .*digits"),
    ("json", '{"B": "A",\n "\\ud800": "A"}', "line 2: the name .* lone surrogate"),
    ("json", '{"B": "A",\n "C": "\\uDFFF"}', "line 2: the name .* lone surrogate"),
    ("json", "[" * 100_000, "the JSON is nested too deeply"),
    ("json", "7", "line 1: the JSON holds int at the top"),
    ("json", "{}", "line 1: the JSON holds dict at the top"),
    ("json", '[{"name": "A", "children":\n [7]}]', "line 1: child 0 of 'A' is '7'"),
    ("json", '{"A": "B",\n "B": {"C": 1}}', "line 2: the parents of 'B' are"),
    ("json", '{"B": NaN}', "line 1: the parents of 'B' are 'nan'"),
    ("txt", "# nothing\n", "there are no paths, only comments"),
    ("arff", "@RELATION x\n@ATTRIBUTE c hierarchical\n@DATA\n", "line 2"),
    (
        "arff",
        "@RELATION x\n@ATTRIBUTE c hierarchical a,a//b\n@DATA\n",
        "line 2: the class entry 'a//b' has an empty segment",
    ),
    (
        "arff",
        "@RELATION x\n@ATTRIBUTE 'c hierarchical a,a/b\n@DATA\n",
        "line 2: .* is no attribute declaration",
    ),
    ("arff", "@RELATION x\nhello\n", "line 2: 'hello' is no ARFF declaration"),
    ("parquet", parquet(parent=[["A"]], child=["B"]), "the schema, column 'parent': holds list"),
    ("parquet", parquet(parent=[{"x": 1}], child=["B"]), "column 'parent': holds struct"),
    (
        "parquet",
        parquet(parent=["A", "A"], child=[b"B", b"\xff"]),
        "row 2, column 'child': the name is not UTF-8",
    ),
    ("parquet", parquet(parent=["A", None], child=["B", None]), "row 2: both names are empty"),
    ("parquet", parquet(parent=["A", "B"], child=["B", "B"]), "row 2: label 'B' is its own"),
    (
        "parquet",
        parquet(("parent", ["A"]), ("parent", ["A"]), ("child", ["B"])),
        "the schema, column 'parent': the column occurs twice",
    ),
    (
        "parquet",
        parquet(parent=pa.array([], pa.string()), child=pa.array([], pa.string())),
        "the schema: there are columns but no rows",
    ),
    ("parquet", b"PAR1" + bytes(range(200)) + b"PAR1", "no readable Parquet file"),
]


@cases(HIERARCHIES)
def test_hierarchies(tmp_path, end, content, message):
    path = given(content, tmp_path / f"bad.{end}")
    said = refused("inspect", path)
    assert re.search(re.escape(str(path)) + "[:,](.|\n)*" + message, said), said


SCORE_FILES = [
    ("csv", SCORES.replace("0.5", "nan", 1), "line 2, column 'C': the value is missing"),
    ("csv", SCORES.replace("0.5", "-inf", 1), "line 2, column 'C': the value is infinite"),
    ("csv", SCORES.replace("0.5", "high", 1), "line 2, column 'C': 'high' is not a number"),
    ("csv", SCORES + "s1,1,1,1\n", "line 10: sample 's1' occurs again .first on line 2"),
    ("csv", SCORES + "s9,1,1\n", "line 10: the row has 3 columns, expected 4"),
    ("csv", SCORES.replace("C", "D", 1), "label 'D' is not in the hierarchy"),
    ("csv", SCORES.replace("A,B,C", "A,B,B", 1), "line 1, column 'B': the column occurs twice"),
    ("csv", "sample,A\ns1,1\n", "2 label.s. of the hierarchy have no column"),
    ("csv", SCORES.replace("sample", "patient"), "line 1: the first column is 'patient'"),
    ("csv", SCORES.replace(",", "\t"), "line 1: (.|\n)*tabs"),
    ("csv", "sample,A,B,C\n", "line 1: there is a header but no rows"),
    ("csv", SCORES.encode() + b"\xff\xfe,1,1,1\n", "line 10: byte 0xff is not UTF-8"),
    ("csv", b"\x89PNG\r\n\x1a\n\x00\x00", "line 3: this is binary data"),
    ("csv", "sample,A,B,C\ns1," + "1" * (17 << 20) + ",1,1\n", "line 2: .*longer than 16 MB"),
    ("csv", LONG + "s1,Z,0.1\n", "line 4: label 'Z' is not in the hierarchy"),
    ("csv", LONG + "s1,A,0.7\n", "line 4: sample 's1' has label 'A' again"),
    ("csv", LONG + "s2,A,much\n", "line 4, column 'score': 'much' is not a number"),
    (
        "csv",
        LONG.replace("score", "rating"),
        "line 1: a long table of scores needs a column 'score'",
    ),
    ("tsv", "s1\tA\t0.9\ns1\tB\n", "line 2: the row has 2 columns, expected 3"),
    ("csv.gz", gzip.compress(SCORES.encode() * 99, mtime=0)[:-9], "gzip data is damaged"),
    ("parquet", WIDE_PARQUET, "row 2, column 'B': the value is missing"),
    ("parquet", WIDE_PARQUET[: len(WIDE_PARQUET) // 2], "no readable Parquet file"),
    ("parquet", parquet(sample=["s1"], A=["x"], B=[1.0], C=[1.0]), "column 'A': holds text"),
    ("arff", "@RELATION x\n@ATTRIBUTE a numeric\n@DATA\n1\n", "no Clus prediction file"),
]


@cases(SCORE_FILES)
def test_scores(tmp_path, good, end, content, message):
    path = given(content, tmp_path / f"bad.{end}")
    said = refused(
        "fit", "-q", "--hierarchy", good / "tree.csv", "--scores", path,
        "--truth", good / "truth.csv", "--out", tmp_path / "m.hlpr",
    )  # fmt: skip
    assert re.search(re.escape(str(path)) + "[:,](.|\n)*" + message, said), said
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


TRUTH_FILES = [
    (
        "csv",
        TRUTH.replace("s1,1,1,0", "s1,0,1,0"),
        "line 2: sample 's1' has 'B' but not its parent",
    ),
    ("csv", TRUTH.replace("s1,1,1,0", "s1,1,0.5,0"), "line 2, column 'B': the value is 0.5"),
    ("csv", TRUTH.replace("s1,1,1,0", "s1,1,,0"), "line 2, column 'B': the value is missing"),
    ("csv", TRUTH.replace("s8,1,0,0\n", ""), "1 scored sample.s. have no row: 's8'"),
    ("csv", TRUTH.replace("s", "z").replace("zample", "sample"), "none of the 8 samples"),
    ("csv", "sample,label\ns1,A\ns1,Q\n", "line 3: label 'Q' is not in the hierarchy"),
    ("csv", "sample,label\ns1,A\ns2,B\n", "line 3: sample 's2' has 'B' but not its parent 'A'"),
    ("tsv", "s1\tQ\n", "line 1: label 'Q' is not in the hierarchy"),
]


@cases(TRUTH_FILES)
def test_truth(tmp_path, good, end, content, message):
    path = given(content, tmp_path / f"bad.{end}")
    said = refused(
        "fit", "-q", "--hierarchy", good / "tree.csv", "--scores", good / "scores.csv",
        "--truth", path, "--out", tmp_path / "m.hlpr",
    )  # fmt: skip
    assert re.search(re.escape(str(path)) + "[:,](.|\n)*" + message, said), said


RANKINGS = [
    ("csv", RANKING.replace("score", "points"), "line 1: this is no ranking: .* 'score'"),
    ("csv", RANKING.replace(",B,", ",Q,"), "line 3: label 'Q' is not in the hierarchy"),
    ("csv", RANKING + "3,s1,A,1,1,1\n", "line 4: sample 's1' has label 'A' again"),
    ("csv", RANKING.replace("0.5,0.5", "0.5,none"), "line 3, column 'score': 'none' is not"),
    ("parquet", parquet(sample=["s1"], label=["A"]), "no column 'score'"),
]


@cases(RANKINGS)
def test_rankings(tmp_path, good, end, content, message):
    path = given(content, tmp_path / f"bad.{end}")
    said = refused("evaluate", "-q", "--hierarchy", good / "tree.csv", "--ranking", path,
                   "--truth", good / "truth.csv")  # fmt: skip
    assert re.search(re.escape(str(path)) + "[:,](.|\n)*" + message, said), said


@pytest.mark.parametrize(
    "content", [b"", b"not a model", TREE.encode(), b"PK\x03\x04junk"], ids=range(4)
)
def test_models(tmp_path, good, content):
    path = given(content, tmp_path / "bad.hlpr")
    said = refused("rank", "--model", path, "--scores", good / "scores.csv", "--out",
                   tmp_path / "r.csv")  # fmt: skip
    assert "bad.hlpr" in said
    assert [p.name for p in tmp_path.iterdir()] == ["bad.hlpr"]


def fit_args(good, *more):
    return ("fit", "-q", "--hierarchy", good / "tree.csv", "--scores", good / "scores.csv",
            "--truth", good / "truth.csv", *more)  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fdr", "1.5"], "--fdr must lie strictly between 0 and 1"),
        (["--fdr", "ten"], "'ten' is not a valid float"),
        (["--fdr", "0.1", "--max-f"], "--fdr and --max-f exclude each other"),
        (["--confidence", "0.9"], "--confidence needs --fdr or --precision"),
        (["--max-f", "--beta", "-1"], "--beta must be a number from 1e-100 to 1e100"),
        (["--max-f", "--beta", "1e308"], "--beta must be a number from 1e-100 to 1e100"),
        (["--max-f", "--beta", "nan"], "--beta must be a number from 1e-100 to 1e100"),
        (["--lpr", "magic"], "'magic' is not one of"),
        (["--calibration-scores", "x"], "give both --calibration-scores"),
        (["--fdr", "0.1", "--calibration-scores", "no.csv", "--calibration-truth", "no.csv"],
         "no.csv: there is no such file"),
    ],
)  # fmt: skip
def test_options(tmp_path, good, options, message):
    assert message in refused(*fit_args(good, "--out", tmp_path / "m.hlpr", *options))


def test_an_empty_separator(tmp_path):
    said = refused("inspect", given("A/B\n", tmp_path / "p.txt"), "--sep", "")
    assert "separator of a path list must not be empty" in said


def test_places_that_cannot_be_written_or_read(tmp_path, good):
    nowhere = tmp_path / "none" / "m.hlpr"
    assert str(nowhere) in refused(*fit_args(good, "--out", nowhere))
    assert "no such file" in refused("inspect", tmp_path / "none.obo")
    assert "is a folder" in refused("inspect", tmp_path)


def test_too_few_samples_to_split(tmp_path, good):
    few = given("sample,A,B,C\ns1,1,1,1\ns2,0,0,0\n", tmp_path / "few.csv")
    said = refused(
        "fit", "-q", "--hierarchy", good / "tree.csv", "--scores", few, "--truth",
        good / "truth.csv", "--fdr", "0.1", "--absent", "skip", "--out", tmp_path / "m.hlpr",
    )  # fmt: skip
    assert "few.csv: 2 sample(s) cannot be split" in said
