"""Files that are bad in every way that was thought of.

Malformed content is listed as ending, content and the line or row that the message must name. Odd
files (cut archives, other types than the name says) have a name and a content.
"""

import gzip
import io
import zipfile
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

TREE = "parent,child\nA,B\nA,C\n"
SCORES = "sample,A,B,C\n" + "".join(f"s{i},0.{i},0.{9 - i},0.5\n" for i in range(1, 9))
TRUTH = "sample,A,B,C\n" + "".join(f"s{i},1,{i % 2},0\n" for i in range(1, 9))
LONG = "sample,label,score\ns1,A,0.9\ns1,B,0.2\n"
RANKING = "rank,sample,label,lpr,score,call\n1,s1,A,0.9,0.9,1\n2,s1,B,0.5,0.5,1\n"
OBO = "format-version: 1.2\n\n[Term]\nid: A\n\n[Term]\nid: B\nis_a: A\n"


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
    ("csv", "parent,child\nA,B\nB,C\nC,A\n", ""),
    ("csv", "parent,child\nA,A\n", "line 2"),
    ("csv", "", ""),
    ("csv", "parent,child\n,\n", "line 2"),
    ("csv", b"parent,child\nA,\xff\xfe\n", "line 2"),
    ("csv", HUGE, "line 2"),
    ("csv.gz", gzip.compress(TREE.encode() * 400, mtime=0)[:-30], ""),
    ("obo", TREE, "line 1"),
    ("json", '{"A": {"B": ', "line 1"),
    ("txt", "A/B\nA//C\n", "line 2"),
    ("arff", "@RELATION x\n@ATTRIBUTE a numeric\n@DATA\n", ""),
    ("parquet", parquet(up=["A"], down=["B"]), ""),
    ("csv", 'parent,child\nA,"B\n', "line 2"),
    ("csv", "parent,child,parent\nA,B,A\n", "line 1"),
    ("obo", OBO + "alt_id: A\n", "line 6"),
    ("obo", OBO.replace("id: A\n", "id: A\nalt_id: X\n") + "alt_id: X\n", "line 7"),
    ("obo", "format-version: 1.2\n", "line 1"),
    ("json", '{"B": "A",\n "\\ud800": "A"}', ""),
    ("json", "{}", "line 1"),
    ("json", '[{"name": "A", "children":\n [7]}]', ""),
    ("json", '{"A": "B",\n "B": {"C": 1}}', ""),
    ("arff", "@RELATION x\n@ATTRIBUTE 'c hierarchical a,a/b\n@DATA\n", ""),
    ("parquet", parquet(parent=["A", None], child=["B", None]), "row 2"),
]

SCORE_FILES = [
    ("csv", SCORES.replace("0.5", "nan", 1), "line 2"),
    ("csv", SCORES + "s9,1,1\n", "line 10"),
    ("csv", SCORES.replace("C", "D", 1), ""),
    ("csv", SCORES.encode() + b"\xff\xfe,1,1,1\n", "line 10"),
    ("csv", LONG + "s1,Z,0.1\n", "line 4"),
    ("tsv", "s1\tA\t0.9\ns1\tB\n", "line 2"),
    ("parquet", WIDE_PARQUET, "row 2"),
    ("parquet", WIDE_PARQUET[: len(WIDE_PARQUET) // 2], ""),
    ("xlsx", SCORES, ""),
    ("csv", SCORES.encode("utf-16"), "save it as UTF-8"),
    ("csv", SCORES.replace("\n", "\r"), "carriage returns"),
    ("tsv", "AUTHOR x\nMODEL 1\ns1\tA\t0.5\n", "remove the lines AUTHOR"),
    ("csv", SCORES.replace("s3", "s\x003"), "line 4"),
    ("csv", SCORES.replace("A,B,C", 'A,"B,C', 1), "line 1"),
    ("csv", '"s\n1",x,1\n' + SCORES, "line 1"),
    ("csv", LONG.replace("label,score", "label,score,score").replace("0.9", "0.9,1"), "line 1"),
    ("csv", LONG.replace("sample", "sample,Sample").replace("s1", "s1,s2"), "line 1"),
    ("csv", 'sample,label,score\n"a\nb",A,1\n# note\nc,A,?\n', "line 2"),
    ("tsv", "s1\tA\t0.9\ns1\tQ\t0.1\n", "line 2"),
    ("parquet", parquet(sample=["s1"], A=[[0.1]], B=[0.1], C=[0.1]), ""),
    ("parquet", parquet(sample=["s1"], A=[b"1"], B=[0.1], C=[0.1]), ""),
    ("parquet", parquet(sample=["s1", "s1"], A=[1, 1], B=[1, 1], C=[1, 1]), "row 2"),
    ("parquet", parquet(sample=["s1", "s1"], label=["A", None], score=[1.0, 1.0]), "row 2"),
    ("parquet", parquet(sample=["s1"], label=["A"], score=["x"]), "row 1"),
    ("parquet", parquet(("sample", ["s"]), ("label", ["A"]), ("score", [1]), ("score", [2])), ""),
]

TRUTH_FILES = [
    ("csv", TRUTH.replace("s1,1,1,0", "s1,0,1,0"), ""),
    ("csv", TRUTH.replace("s1,1,1,0", "s1,1,0.5,0"), "line 2"),
    ("csv", "sample,label,truth\ns1,B,1\ns1,A,0\ns2,A,unknown\n", ""),
    ("csv", "sample,label,truth\ns1,A,1\ns1,A,unknown\n", "more than once"),
    ("csv", TRUTH.replace("s8,1,0,0\n", ""), ""),
    ("tsv", "!gaf-version: 2.2\nU\ts1\tX\t\tA\tP\n", "end its name in .gaf"),
    ("csv", TRUTH.replace("s", "z").replace("zample", "sample"), ""),
    ("csv", "image,species\ns1,A\n", "line 1: .*\n.*is this the header"),
    ("csv", TRUTH + "s1,1,0,0\n", "line 10"),
    ("csv", "sample,label\n,A\n", "line 2"),
    ("csv", "sample,label,label\ns1,A,A\n", "line 1"),
    ("csv", "sample,label,truth\ns1,A,2\n", "line 2"),
    ("tsv", "s1\tA\n\tB\n", "line 2"),
    ("parquet", parquet(sample=["s1", None], label=["A", "A"]), "row 2"),
]

RANKINGS = [
    ("csv", RANKING.replace("score", "points"), "line 1"),
    ("csv", RANKING.replace(",B,", ",Q,"), "line 3"),
    ("csv", RANKING + "3,s1,A,1,1,1\n", "more than once"),
    ("csv", RANKING.replace("0.5,0.5", "0.5,none"), "line 3"),
    ("csv", RANKING.replace("1,s1", "nan,s1"), "line 2"),
    ("csv", RANKING.replace("0.9,1", "0.9,2"), "line 2"),
    ("csv", RANKING.replace("s1,A", " ,A"), "line 2"),
    ("csv", RANKING.splitlines()[0] + "\n", "line 1"),
    ("csv", "", ""),
    ("tsv", "s1\tA\t0.9\n \tB\t0.1\n", "line 2"),
    ("parquet", ranked(sample=["s1", None]), "row 2"),
    ("parquet", ranked(score=[1.0, None]), "row 2"),
    ("parquet", ranked(call=[1, 2]), "row 2"),
]

# -- odd files -------------------------------------------------------------------------------------

NAMES, VALUES = ["s1", "s2", "s3"], [0.1, 0.2, 0.3]
P_VALUES = "label,p\nA,0.01\nB,0.2\nC,0.3\n"
SAME_DAY = [date(2020, 1, 1)] * 3


def wide(**changed):
    return parquet(**{"sample": NAMES, "A": VALUES, "B": VALUES, "C": VALUES, **changed})


def twice(names, columns):
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array(c) for c in columns], names=names), sink)
    return sink.getvalue()


def packed(text):
    return gzip.compress(text.encode(), mtime=0)


def archive(**entries):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as file:
        for name, content in entries.items():
            file.writestr(f"{name}.npy", content)
    return sink.getvalue()


def array_of(shape, kind="|u1", data=b""):
    """Begin an array of some shape, whatever follows."""
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + data


TABLES = {  # scores and truth alike
    "cut.csv.gz": packed(SCORES * 50)[:-12],
    "more.csv.gz": packed(SCORES) + b"and more",
    "packed-twice.csv.gz": gzip.compress(packed(SCORES)),
    "nothing.csv.gz": packed(""),
    "mark.csv": b"\xef\xbb\xbf",
    "zip.csv": b"PK\x03\x04" + b"\x00" * 200,
    "one-more.csv": SCORES.replace("0.1", "0.1,0.1", 1),
    "no-sample.csv": "A,B,C\n1,2,3\n",
    "control-z.csv": SCORES + "\x1a",
    "lone.csv": b"sample,A,B,C\ns\xed\xa0\x80,1,2,3\n",
    "digits.csv": SCORES.replace("0.5", "9" * (3 << 20) + "x", 1),
    "arabic.csv": SCORES.replace("0.5", "\u0663", 1),
    "dates.parquet": wide(A=SAME_DAY),
    "maps.parquet": wide(A=pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int64()))),
    "codes.parquet": wide(A=pa.array(["x", "y", "x"]).dictionary_encode()),
    "nan-names.parquet": wide(sample=[1.5, 2.5, float("nan")]),
    "bytes-names.parquet": wide(sample=[b"\xff", b"b", b"c"]),
    "twice.parquet": twice(["sample", "A", "B", "C", "C"], [NAMES, *[VALUES] * 4]),
    "no-columns.parquet": twice([], []),
    "changed.parquet": wide()[:30] + b"\xff" * 20 + wide()[50:],
}
ODD_RANKINGS = {
    "dates.parquet": parquet(rank=SAME_DAY, sample=NAMES, label=["A"] * 3, score=VALUES),
    "unknown.parquet": parquet(sample=NAMES, label=["A", "Q", "A"], score=VALUES),
    "places.csv": RANKING.replace("2,s1", "1_0,s1"),
    "digits.csv": RANKING.replace("0.9,0.9", "0_9,0.9"),
    "two.tsv": "s1\tA\n",
}
P_VALUE_FILES = {
    **{f"value-{i}.csv": P_VALUES.replace("0.2", f'"{value}"') for i, value in enumerate(
        ["1_0", "0x1", "1e400", "\uff15", "1.0.0", "true", "0,2", "-1e-9"])},
    "empty.csv": "",
    "no-label.csv": P_VALUES.replace("label", "name"),
    "two-values.csv": "label,p,pvalue\nA,0.1,0.2\n",
    "again.csv": P_VALUES + "A,0.2\n",
    "unknown.csv": P_VALUES + "Z,0.2\n",
    "above-one.csv": P_VALUES.replace("0.2", "1.5"),
    "none.csv": "label,p\nA,NA\n",
    "decimals.parquet": parquet(label=["A", "B", "C"], p=[Decimal("0.1")] * 2 + [Decimal("1.5")]),
    "no-names.parquet": parquet(label=["A", "B", None], p=VALUES),
    "twice.parquet": twice(["label", "p", "p"], [["A", "B", "C"], VALUES, VALUES]),
}  # fmt: skip
ODD_HIERARCHIES = {
    "deeper.json": '{"labels":' * 50_000,
    "same-key.json": '{"parents": {"B": "A", "B": "C"}}',
    "number.json": '{"labels": [' + "9" * 5000 + "]}",
    "zero.json": '{"a\\u0000b": "A"}',
    "three.csv": "parent,child,x,child\nA,B,1,C\n",
    "lists.parquet": parquet(parent=["A"], child=[["B"]]),
}
MODELS = {
    "packed.hlpr": gzip.compress(b"PK\x03\x04" + b"\x00" * 100),
    "vast.hlpr": archive(meta=array_of((10**13,))),
    "negative.hlpr": archive(meta=array_of((-1,))),
    "objects.hlpr": archive(meta=array_of((1,), "|O", b"x")),
    "short.hlpr": archive(meta=array_of((2**29,), data=b"\0" * 2**10)),
    "deep.hlpr": archive(meta=array_of((500_000,), data=b'{"a":' * 100_000)),
}
