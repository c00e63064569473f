"""Inputs of odd kinds over every command: exit code 2, one message with the file and the place.

Beside `test_bad_inputs.py`, which tries malformed content format by format: cut archives, files
that are something else than their name says, odd types in Parquet, and places that are no files.
"""

import gzip
import io
import os
import re
import zipfile
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from badfiles import RANKING, SCORES, TREE, TRUTH, parquet
from shellrun import refused

from hierlpr import HierLPR, read_hierarchy

PLACE = r"line \d|row \d|row group \d|the schema|the header"
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
    "early.csv.gz": packed(SCORES * 50)[:60],
    "more.csv.gz": packed(SCORES) + b"and more",
    "packed-twice.csv.gz": gzip.compress(packed(SCORES)),
    "nothing.csv.gz": packed(""),
    "blank.csv": b"\n\n\n",
    "mark.csv": b"\xef\xbb\xbf",
    "utf16.csv": SCORES.encode("utf-16"),
    "zip.csv": b"PK\x03\x04" + b"\x00" * 200,
    "one-more.csv": SCORES.replace("0.1", "0.1,0.1", 1),
    "no-sample.csv": "A,B,C\n1,2,3\n",
    "control-z.csv": SCORES + "\x1a",
    "lone.csv": b"sample,A,B,C\ns\xed\xa0\x80,1,2,3\n",
    "digits.csv": SCORES.replace("0.5", "9" * (3 << 20) + "x", 1),
    "arabic.csv": SCORES.replace("0.5", "\u0663", 1),
    "dates.parquet": wide(A=SAME_DAY),
    "times.parquet": wide(A=[datetime(2020, 1, 1)] * 3),
    "spans.parquet": wide(A=[timedelta(1)] * 3),
    "maps.parquet": wide(A=pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int64()))),
    "codes.parquet": wide(A=pa.array(["x", "y", "x"]).dictionary_encode()),
    "nan-names.parquet": wide(sample=[1.5, 2.5, float("nan")]),
    "half-nan-names.parquet": wide(sample=np.array([1.5, 2.5, np.nan], np.float16)),
    "nested-names.parquet": wide(sample=[["a"], ["b"], ["c"]]),
    "bytes-names.parquet": wide(sample=[b"\xff", b"b", b"c"]),
    "twice.parquet": twice(["sample", "A", "B", "C", "C"], [NAMES, *[VALUES] * 4]),
    "no-columns.parquet": twice([], []),
    "changed.parquet": wide()[:30] + b"\xff" * 20 + wide()[50:],
}
RANKINGS = {
    "dates.parquet": parquet(rank=SAME_DAY, sample=NAMES, label=["A"] * 3, score=VALUES),
    "spans.parquet": parquet(sample=NAMES, label=["A"] * 3, score=[timedelta(1)] * 3),
    "nan-names.parquet": parquet(sample=[1.0, np.nan, 3.0], label=["A"] * 3, score=VALUES),
    "unknown.parquet": parquet(sample=NAMES, label=["A", "Q", "A"], score=VALUES),
    "cut.csv.gz": packed(RANKING * 40)[:-9],
    "utf16.csv": RANKING.encode("utf-16"),
    "places.csv": RANKING.replace("2,s1", "1_0,s1"),
    "digits.csv": RANKING.replace("0.9,0.9", "0_9,0.9"),
    "two.tsv": "s1\tA\n",
}
P_VALUE_FILES = {
    **{f"value-{i}.csv": P_VALUES.replace("0.2", f'"{value}"') for i, value in enumerate(
        ["1_0", "0x1", "1e400", "\uff15", "1.0.0", "true", "0,2", "-1e-9"])},
    "cut.csv.gz": packed(P_VALUES * 30)[:-9],
    "open.csv": P_VALUES + '"A,0.1\n',
    "decimals.parquet": parquet(label=["A", "B", "C"], p=[Decimal("0.1")] * 2 + [Decimal("1.5")]),
    "flags.parquet": parquet(label=["A", "B", "C"], p=[[0.1]] * 3),
    "no-names.parquet": parquet(label=["A", "B", None], p=VALUES),
    "twice.parquet": twice(["label", "p", "p"], [["A", "B", "C"], VALUES, VALUES]),
}  # fmt: skip
HIERARCHIES = {
    "deep.json": "[" * 200_000,
    "deeper.json": '{"labels":' * 50_000,
    "same-key.json": '{"parents": {"B": "A", "B": "C"}}',
    "number.json": '{"labels": [' + "9" * 5000 + "]}",
    "zero.json": '{"edges": [["A", "a\\u0000b"]]}',
    "cut.json.gz": packed('{"edges": [["A", "B"]]}' * 9)[:-9],
    "self.json": '{"edges": [["A", "A"]]}',
    "three.csv": "parent,child,x,child\nA,B,1,C\n",
    "slash.txt": "/\n",
    "lists.parquet": parquet(parent=["A"], child=[["B"]]),
}
MODELS = {
    "packed.hlpr": gzip.compress(b"PK\x03\x04" + b"\x00" * 100),
    "vast.hlpr": archive(meta=array_of((10**13,))),
    "negative.hlpr": archive(meta=array_of((-1,))),
    "objects.hlpr": archive(meta=array_of((1,), "|O", b"x")),
    "short.hlpr": archive(meta=array_of((2**29,), data=b"\0" * 2**10)),
    "deep.hlpr": archive(meta=array_of((500_000,), data=b'{"a":' * 100_000)),
    "text.hlpr": archive(meta=b"hello"),
}

INPUTS = {
    "inspect": ["hierarchy"],
    "fit": ["hierarchy", "scores", "truth"],
    "rank": ["model", "scores"],
    "evaluate": ["hierarchy", "ranking", "truth"],
    "report": ["model", "scores", "truth"],
    "discover": ["hierarchy", "p_values"],
}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    for name, text in (("tree.csv", TREE), ("scores.csv", SCORES), ("truth.csv", TRUTH),
                       ("ranking.csv", RANKING), ("p.csv", P_VALUES)):  # fmt: skip
        (folder / name).write_text(text)
    truth = np.array([[1, i % 2, 0] for i in range(9)])
    model = HierLPR(read_hierarchy(folder / "tree.csv"), joint=False)
    model.fit(np.arange(27.0).reshape(9, 3), truth).save(folder / "m.hlpr")
    return folder


def command(name, good, out, **changed):
    """One command with its inputs; `changed` gives another path for some of them."""
    f = {"hierarchy": "tree.csv", "scores": "scores.csv", "truth": "truth.csv", "model": "m.hlpr",
         "ranking": "ranking.csv", "p_values": "p.csv"}  # fmt: skip
    f = {key: changed.get(key, good / file) for key, file in f.items()}
    ends = {"fit": "hlpr", "report": "html"}
    if name == "inspect":
        return ["inspect", f["hierarchy"]]
    given = [x for key in INPUTS[name] for x in (f"--{key.replace('_', '-')}", f[key])]
    if name == "evaluate":
        return [name, "-q", *given, "--json", out / "out.json"]
    return [name, "-q", *given, "--out", out / f"out.{ends.get(name, 'csv')}"]


def check(name, good, tmp_path, file, content, *, where, parts=True):
    path = tmp_path / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    args = command(name, good, tmp_path, **{where: path})
    said = refused(*args)
    assert re.search(re.escape(str(path)), said), said
    assert [p.name for p in tmp_path.iterdir()] == [file]
    return said


def test_there_are_enough():
    kinds = (TABLES, RANKINGS, P_VALUE_FILES, HIERARCHIES, MODELS)
    assert sum(map(len, kinds)) >= 60


@pytest.mark.parametrize("file", TABLES)
def test_scores_and_truth(tmp_path, good, file):
    said = [
        check("fit", good, tmp_path, file, TABLES[file], where="scores"),
        check("rank", good, tmp_path, file, TABLES[file], where="scores"),
        check("fit", good, tmp_path, file, TABLES[file], where="truth"),
        check("evaluate", good, tmp_path, file, TABLES[file], where="truth"),
        check("report", good, tmp_path, file, TABLES[file], where="truth", parts=False),
    ]
    for one in said:
        whole = (
            "empty|no rows|cut|gzip|ends early|no .* columns|no columns|no readable|UTF-16|archive"
        )
        assert re.search(f"{PLACE}|{whole}", one), one


@pytest.mark.parametrize("file", RANKINGS)
def test_rankings(tmp_path, good, file):
    said = check("evaluate", good, tmp_path, file, RANKINGS[file], where="ranking")
    assert re.search(f"{PLACE}|ends early|cut|gzip", said), said


@pytest.mark.parametrize("file", P_VALUE_FILES)
def test_p_values(tmp_path, good, file):
    content = P_VALUE_FILES[file]
    said = check("discover", good, tmp_path, file, content, where="p_values", parts=False)
    assert re.search(f"{PLACE}|ends early|cut|gzip", said), said


@pytest.mark.parametrize("file", HIERARCHIES)
def test_hierarchies(tmp_path, good, file):
    for name in ("inspect", "fit", "discover"):
        content = HIERARCHIES[file]
        check(name, good, tmp_path, file, content, where="hierarchy", parts=name == "fit")


@pytest.mark.parametrize("file", MODELS)
def test_models(tmp_path, good, file):
    for name in ("rank", "report"):
        check(name, good, tmp_path, file, MODELS[file], where="model", parts=name == "rank")


@pytest.mark.parametrize(("name", "where"), [(n, w) for n, all_ in INPUTS.items() for w in all_])
def test_places_that_are_no_files(tmp_path, good, name, where):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    (tmp_path / "gone.csv").symlink_to("nowhere.csv")
    before = sorted(p.name for p in tmp_path.iterdir())
    places = [*before, "x" * 300 + ".csv"]
    for place in [*(tmp_path / x for x in places), good / "tree.csv" / "x.csv", "zzz://x/y.csv"]:
        args = command(name, good, tmp_path, **{where: place})
        said = refused(*args)
        assert os.path.basename(place) in said
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_no_sample_with_truth(tmp_path, good):
    for other in ("sample,label\nq,A\n", "sample,A,B,C\nq,1,0,0\n"):
        (tmp_path / "other.csv").write_text(other)
        for more in (["--missing-truth", "skip"], []):
            args = command("evaluate", good, tmp_path, truth=tmp_path / "other.csv")
            said = refused(*args, *more)
            assert "none of the 1 samples of" in said


@pytest.mark.parametrize("name", ["fit", "rank", "evaluate", "report", "discover"])
def test_devices_are_not_written_to(tmp_path, good, name):
    """A node of its own with the numbers of the null device: never the one of the system."""
    device = tmp_path / "device.csv"
    try:
        os.mknod(device, 0o020600, os.makedev(1, 3))
    except (OSError, AttributeError):
        pytest.skip("no device can be made here")
    said = refused(*command(name, good, tmp_path)[:-1], device)
    assert "a device or a pipe" in said
    assert device.is_char_device()
    assert [p.name for p in tmp_path.iterdir()] == ["device.csv"]
