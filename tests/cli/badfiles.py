"""Files that are bad in every way that was thought of, and what must be said of them.

Each case is an ending, the content, and what the message says after the name of the file.
"""

import gzip
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["HIERARCHIES", "RANKING", "RANKINGS", "SCORES", "SCORE_FILES", "TREE", "TRUTH",
           "TRUTH_FILES"]  # fmt: skip

TREE = "parent,child\nA,B\nA,C\n"
SCORES = "sample,A,B,C\n" + "".join(f"s{i},0.{i},0.{9 - i},0.5\n" for i in range(1, 9))
TRUTH = "sample,A,B,C\n" + "".join(f"s{i},1,{i % 2},0\n" for i in range(1, 9))
LONG = "sample,label,score\ns1,A,0.9\ns1,B,0.2\n"
RANKING = "rank,sample,label,lpr,score,call\n1,s1,A,0.9,0.9,1\n2,s1,B,0.5,0.5,1\n"
OBO = "format-version: 1.2\n\n[Term]\nid: A\n\n[Term]\nid: B\nis_a: A\n"
PREDICTED = "@RELATION x\n" + "".join(f"@ATTRIBUTE M-p-{x} numeric\n" for x in "ABC") + "@DATA\n"
CLASSES = "@RELATION x\n@ATTRIBUTE f numeric\n@ATTRIBUTE c hierarchical A,A/B,A/C\n@DATA\n"
KEYED = CLASSES.replace("f numeric", "k string")
DAY = date(2020, 1, 1)
NO_NAMES, NO_NUMBERS = pa.array([], pa.string()), pa.array([], pa.float64())


def parquet(*pairs, **columns):
    names, arrays = zip(*(pairs or columns.items()), strict=True)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table([pa.array(array) for array in arrays], names=list(names)), sink)
    return sink.getvalue().to_pybytes()


def ranked(**changed):
    """Return a ranking of two rows with some other columns."""
    columns = {"rank": [1, 2], "sample": ["s1", "s1"], "label": ["A", "B"], "lpr": [0.9, 0.5],
               "score": [0.9, 0.5], "call": [True, False]}  # fmt: skip
    return parquet(**(columns | changed))


WIDE_PARQUET = parquet(sample=["s1", "s2"], A=[0.1, 0.2], B=[0.1, None], C=[0.1, 0.2])
HUGE = b"parent,child\nA," + b"x" * (17 << 20) + b"\n"

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
    ("csv", "parent,child,parent\nA,B,A\n", "line 1, column 'parent': the column occurs twice"),
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
    ("csv", SCORES.replace("0.5", "1e999", 1), "line 2, column 'C': the value is infinite"),
    ("csv", SCORES.replace("0.5", "", 1), "line 2, column 'C': the value is missing"),
    ("csv", SCORES.replace("s3", "  "), "line 4: the sample has no name"),
    ("csv", SCORES.replace("s3", '"s3'), "line 4: the quotes do not match"),
    ("csv", SCORES.replace("s3", "s\x003"), "line 4: this is binary data"),
    ("csv", SCORES.replace("A,B,C", "A,,C", 1), "line 1: column 3 of the header has no name"),
    ("csv", SCORES.replace("A,B,C", 'A,"B,C', 1), "line 1: the quotes of the header do not match"),
    ("csv", "sample\ns1\n", "line 1: there is no label column"),
    ("csv", "# only\n\n# comments\n", "there are no rows, only comments"),
    ("csv", '"s\n1",x,1\n' + SCORES, "line 1: label 'x' is not in the hierarchy"),
    ("csv.gz", b"\x1f\x8b" + bytes(40), "gzip data is damaged"),
    (
        "csv",
        LONG.replace("label,score", "label,score,score").replace("0.9", "0.9,1"),
        "line 1, column 'score': the column occurs twice",
    ),
    (
        "csv",
        LONG.replace("sample", "sample,Sample").replace("s1", "s1,s2"),
        "line 1, column 'sample': the column occurs twice",
    ),
    ("csv", LONG + ",A,0.7\n", "line 4: the sample has no name"),
    ("csv", LONG + "s2, ,0.7\n", "line 4: the label has no name"),
    ("csv", LONG + "s2,A,inf\n", "line 4: the value is infinite"),
    ("csv", LONG + "s2,A,1_0\n", "line 4, column 'score': '1_0' is not a number"),
    ("csv", LONG + "s2,A\n", "line 4: the row has 2 columns, expected 3"),
    ("csv", 'sample,label,score\n"a\nb",A,1\n# note\nc,A,?\n', "line 5: the value is missing"),
    ("csv", "sample,label,score\n", "line 1: there is a header but no rows"),
    ("tsv", "s1\tA\t0.9\ns1\tB\tnan\n", "line 2: the value is missing"),
    ("tsv", "AUTHOR x\nMODEL 1\ns1\tA\t0.9\n\tB\t1\n", "line 4: the sample has no name"),
    ("tsv", "s1\tA\t0.9\ns1\tQ\t0.1\nEND\n", "line 2: label 'Q' is not in the hierarchy"),
    (
        "parquet",
        parquet(sample=["s1"], A=[[0.1]], B=[0.1], C=[0.1]),
        "the schema, column 'A': holds list",
    ),
    ("parquet", parquet(sample=["s1"], A=[{"x": 1}], B=[0.1], C=[0.1]), "column 'A': holds struct"),
    ("parquet", parquet(sample=["s1"], A=[b"1"], B=[0.1], C=[0.1]), "column 'A': holds binary"),
    ("parquet", parquet(sample=["s1"], A=[DAY], B=[0.1], C=[0.1]), "column 'A': holds date32"),
    ("parquet", parquet(sample=[["s1"]], A=[0.1], B=[0.1], C=[0.1]), "column 'sample': holds list"),
    (
        "parquet",
        parquet(sample=[b"s1", b"\xff"], A=[1, 1], B=[1, 1], C=[1, 1]),
        "row 2, column 'sample': the name is not UTF-8",
    ),
    (
        "parquet",
        parquet(sample=["s1", None], A=[1, 1], B=[1, 1], C=[1, 1]),
        "row 2: the sample has no name",
    ),
    (
        "parquet",
        parquet(sample=["s1", "s1"], A=[1, 1], B=[1, 1], C=[1, 1]),
        "row 2: sample 's1' occurs again .first on row 1",
    ),
    (
        "parquet",
        parquet(("sample", ["s1"]), ("A", [1.0]), ("B", [1.0]), ("C", [1.0]), ("C", [1.0])),
        "the schema, column 'C': the column occurs twice",
    ),
    (
        "parquet",
        parquet(sample=NO_NAMES, A=NO_NUMBERS, B=NO_NUMBERS, C=NO_NUMBERS),
        "the schema: there is a header but no rows",
    ),
    (
        "parquet",
        parquet(sample=["s1", "s1"], label=["A", "Q"], score=[1.0, 1.0]),
        "row 2: label 'Q' is not in the hierarchy",
    ),
    (
        "parquet",
        parquet(sample=["s1", "s1"], label=["A", None], score=[1.0, 1.0]),
        "row 2: the label has no name",
    ),
    (
        "parquet",
        parquet(sample=["s1", "s1"], label=["A", "A"], score=[1.0, 1.0]),
        "row 2: sample 's1' has label 'A' again",
    ),
    ("parquet", parquet(sample=["s1"], label=[["A"]], score=[1.0]), "column 'label': holds list"),
    ("parquet", parquet(sample=["s1"], label=["A"], score=["1"]), "column 'score': holds text"),
    (
        "parquet",
        parquet(("sample", ["s1"]), ("label", ["A"]), ("score", [1.0]), ("score", [2.0])),
        "the schema, column 'score': the column occurs twice",
    ),
    ("arff", PREDICTED + "nan,0.1,0.1\n", "line 6, column 'A': 'nan' is not a number"),
    ("arff", PREDICTED + "1_0,0.1,0.1\n", "line 6, column 'A': '1_0' is not a number"),
    ("arff", PREDICTED + "?,0.1,0.1\n", "line 6, column 'A': the value is missing"),
    ("arff", PREDICTED + "0.1,'0.1,0.1\n", "line 6: the quotes do not match"),
    ("arff", PREDICTED + "0.1,0.1\n", "line 6: the row has 2 values, but there are 3 attributes"),
    ("arff", PREDICTED + "{0 0.1, 7 1}\n", "line 6: '7 1' is no entry"),
    ("arff", PREDICTED + "{0 0.1\n", "line 6: the quotes or braces"),
    ("arff", PREDICTED, "line 5: there is a header but no rows"),
    ("arff", PREDICTED.replace("p-B", "p-A"), "line 3, column 'M-p-A': the attribute occurs twice"),
    ("arff", PREDICTED.replace("@DATA\n", ""), "line 4: there is no @DATA line"),
]

TRUTH_FILES = [
    (
        "csv",
        TRUTH.replace("s1,1,1,0", "s1,0,1,0"),
        "line 2: sample 's1' has 'B' but not its parent",
    ),
    ("csv", TRUTH.replace("s1,1,1,0", "s1,1,0.5,0"), "line 2, column 'B': the value is 0.5"),
    ("csv", TRUTH.replace("s1,1,1,0", "s1,1,unknwon,0"), "line 2, column 'B': 'unknwon' is not"),
    (
        "csv",
        TRUTH.replace("s1,1,1,0", "s1,0,1,unknown"),
        "line 2: sample 's1' has 'B' but not its parent",
    ),
    ("csv", "sample,label,truth\ns1,B,1\ns1,A,0\ns2,A,unknown\n", "line 2: sample 's1' has 'B'"),
    ("csv", "sample,label,truth\ns1,A,1\ns2,,unknown\n", "line 3: the label has no name"),
    ("csv", "sample,label,truth\ns1,A,1\ns1,A,unknown\n", "line 3: sample 's1' has label 'A' a"),
    ("csv", TRUTH.replace("s8,1,0,0\n", ""), "1 scored sample.s. have no row: 's8'"),
    ("csv", TRUTH.replace("s", "z").replace("zample", "sample"), "none of the 8 samples"),
    ("csv", "sample,label\ns1,A\ns1,Q\n", "line 3: label 'Q' is not in the hierarchy"),
    ("csv", "sample,label\ns1,A\ns2,B\n", "line 3: sample 's2' has 'B' but not its parent 'A'"),
    ("tsv", "s1\tQ\n", "line 1: label 'Q' is not in the hierarchy"),
    ("csv", TRUTH.replace("s1,1,1,0", " ,1,1,0"), "line 2: the sample has no name"),
    ("csv", TRUTH + "s1,1,0,0\n", "line 10: sample 's1' occurs again .first on line 2"),
    ("csv", TRUTH + "s9,1,0\n", "line 10: the row has 3 columns, expected 4"),
    ("csv", TRUTH + "s\x009,1,0,0\n", "line 10: this is binary data"),
    ("csv", TRUTH + '"s9,1,0,0\n', "line 10: the quotes do not match"),
    ("csv", "sample,A,B,C\n", "line 1: there is a header but no rows"),
    ("csv", "sample,label\ns1,A\ns1,A\n", "line 3: sample 's1' has label 'A' again"),
    ("csv", "sample,label\n,A\n", "line 2: the sample has no name"),
    ("csv", "sample,label,label\ns1,A,A\n", "line 1, column 'label': the column occurs twice"),
    ("csv", "sample,label,truth\ns1,A,2\n", "line 2: the value is 2; truth is 0 or 1"),
    ("csv", "sample,label\n", "line 1: there is a header but no rows"),
    ("tsv", "s1\tA\n\tB\n", "line 2: the sample has no name"),
    (
        "parquet",
        parquet(sample=["s1"], A=[False], B=[True], C=[None]),
        "row 1: sample 's1' has 'B' but not its parent",
    ),
    ("parquet", parquet(sample=["s1"], A=["1"], B=[0], C=[0]), "column 'A': holds text"),
    ("parquet", parquet(sample=["s1"], label=[{"x": "A"}]), "column 'label': holds struct"),
    ("parquet", parquet(sample=["s1", None], label=["A", "A"]), "row 2: the sample has no name"),
    (
        "parquet",
        parquet(sample=NO_NAMES, label=NO_NAMES),
        "the schema: there is a header but no rows",
    ),
    ("arff", CLASSES + "1,B\n1,Q\n", "line 6: label 'Q' is not in the hierarchy"),
    ("arff", CLASSES + "1,A\n'1,A\n", "line 6: the quotes do not match"),
    ("arff", CLASSES + "1\n", "line 5: the row has 1 values, but there are 2 attributes"),
    ("arff", KEYED + "k1,A\nk1,A\n", "line 6: sample 'k1' occurs again"),
]

RANKINGS = [
    ("csv", RANKING.replace("score", "points"), "line 1: this is no ranking: .* 'score'"),
    ("csv", RANKING.replace(",B,", ",Q,"), "line 3: label 'Q' is not in the hierarchy"),
    ("csv", RANKING + "3,s1,A,1,1,1\n", "line 4: sample 's1' has label 'A' again"),
    ("csv", RANKING.replace("0.5,0.5", "0.5,none"), "line 3, column 'score': 'none' is not"),
    ("parquet", parquet(sample=["s1"], label=["A"]), "no column 'score'"),
    ("csv", RANKING.replace("1,s1", "nan,s1"), "line 2, column 'rank': the rank is missing"),
    ("csv", RANKING.replace("1,s1", ",s1"), "line 2, column 'rank': the rank is missing"),
    ("csv", RANKING.replace("1,s1", "first,s1"), "line 2, column 'rank': 'first' is not a number"),
    ("csv", RANKING.replace("0.9,1", "0.9,2"), "line 2, column 'call': the call is 2; expected 0"),
    ("csv", RANKING.replace("0.9,1", "0.9,"), "line 2, column 'call': the call is missing"),
    ("csv", RANKING.replace("0.9,1", "0.9,yes"), "line 2, column 'call': 'yes' is not a number"),
    ("csv", RANKING.replace("A,0.9", "A,nan"), "line 2, column 'lpr': the lpr is missing"),
    ("csv", RANKING.replace("0.9,1", "inf,1"), "line 2, column 'score': the score is missing or"),
    ("csv", RANKING.replace("0.9,1", "0_9,1"), "line 2, column 'score': '0_9' is not a number"),
    ("csv", RANKING.replace("s1,A", " ,A"), "line 2: the sample has no name"),
    ("csv", RANKING.replace("s1,A", "s1,"), "line 2: the label has no name"),
    ("csv", RANKING.replace("s1,A", "s\x001,A"), "line 2: this is binary data"),
    ("csv", RANKING.replace("s1,A", '"s1,A'), "line 2: the quotes do not match"),
    ("csv", RANKING.replace("score", "lpr"), "line 1: this is no ranking: .* 'score'"),
    ("csv", RANKING.replace("rank", "score"), "line 1, column 'score': the column occurs twice"),
    ("csv", RANKING.splitlines()[0] + "\n", "line 1: there is a header but no rows"),
    ("csv", RANKING + "3,s1\n", "line 4: the row has 2 columns, expected 6"),
    ("csv", "", "the file is empty"),
    ("csv.gz", gzip.compress(RANKING.encode() * 99, mtime=0)[:-9], "gzip data is damaged"),
    ("tsv", "s1\tA\t0.9\ns1\tB\n", "line 2: the row has 2 columns, expected 3"),
    ("tsv", "s1\tA\t0.9\ns1\tB\thigh\n", "line 2, column 'score': 'high' is not a number"),
    ("tsv", "s1\tA\t0.9\n \tB\t0.1\n", "line 2: the sample has no name"),
    ("parquet", ranked(sample=["s1", None]), "row 2: the sample has no name"),
    ("parquet", ranked(sample=[["s1"], ["s1"]]), "the schema, column 'sample': holds list"),
    ("parquet", ranked(sample=[b"s1", b"\xff"]), "row 2, column 'sample': the name is not UTF-8"),
    ("parquet", ranked(label=[{"x": "A"}] * 2), "the schema, column 'label': holds struct"),
    ("parquet", ranked(label=["A", None]), "row 2: the label has no name"),
    ("parquet", ranked(score=["1", "2"]), "the schema, column 'score': holds text"),
    ("parquet", ranked(score=[b"1", b"2"]), "the schema, column 'score': holds binary"),
    ("parquet", ranked(score=[[1.0], [2.0]]), "the schema, column 'score': holds list"),
    ("parquet", ranked(score=[1.0, None]), "row 2, column 'score': the score is missing"),
    ("parquet", ranked(rank=["1", "2"]), "the schema, column 'rank': holds text"),
    ("parquet", ranked(rank=[1.0, float("nan")]), "row 2, column 'rank': the rank is missing"),
    ("parquet", ranked(call=[1, 2]), "row 2, column 'call': the call is 2; expected 0 or 1"),
    ("parquet", ranked(lpr=["a", "b"]), "the schema, column 'lpr': holds text"),
    (
        "parquet",
        parquet(("sample", ["s1"]), ("label", ["A"]), ("score", [1.0]), ("score", [1.0])),
        "the schema, column 'score': the column occurs twice",
    ),
    (
        "parquet",
        parquet(sample=NO_NAMES, label=NO_NAMES, score=NO_NUMBERS),
        "the schema: there is a header but no rows",
    ),
    ("parquet", ranked()[:-20], "no readable Parquet file"),
]
