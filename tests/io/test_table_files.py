"""Tables of every layout and format as checked batches; bad rows are named or skipped."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cases import write
from hierlpr import Hierarchy, HierlprError
from hierlpr.exceptions import FileError
from hierlpr.io import (
    open_table,
    pair_samples,
    read_ranking,
    read_scores,
    read_truth,
    reading,
    sources,
)
from hierlpr.io.read_tables import batch_matrix

H = Hierarchy([("A", "B"), ("A", "C")])
WIDE = "sample,A,B,C\ns1,0.9,0.8,-3\ns2,1e2,0,0.5\n"
LONG = "sample,label,score\ns1,A,0.9\ns2,B,0\ns1,C,0.25\n"
CAFA = "s1\tA\t0.9\ns2\tB\t0\ns1\tC\t0.25\n"
RANKING = "rank,sample,label,lpr,score,call\n1,s1,A,0.9,0.9,1\n2,s1,B,0.5,0.5,1\n"


def parquet(path, **columns):
    pq.write_table(pa.table(columns), path, row_group_size=2)
    return path


def test_names_of_labels_are_recognised(tmp_path):
    h = Hierarchy([("A", "B")], names={"A": "animal", "B": "bird"})
    cafa, wide = "s1\tbird\t0.5\n", "sample\tA\tbird\ns\t1\t1\n"
    for text in (cafa, f"sample\tlabel\tscore\n{cafa}", wide):
        with pytest.raises(FileError, match=r"bird' is not in.*\n.*(name of|such as) 'B'"):
            read_scores(write(tmp_path / "s.tsv", text), h)


# -- batches ----------------------------------------------------------------------------------


def test_batches_of_a_wide_table_have_a_column_per_label(tmp_path):
    table = open_table(write(tmp_path / "s.csv", WIDE), "scores", H)
    (batch,) = table.batches()
    assert (table.layout, table.labels, table.is_cafa) == ("wide", H.labels, False)
    assert batch.schema.names == ["sample", *H.labels]
    np.testing.assert_array_equal(batch_matrix(batch), [[0.9, 0.8, -3], [100, 0, 0.5]])


@pytest.mark.parametrize("name", ["s.csv", "s.parquet"])
def test_batches_of_a_long_table_number_the_labels(tmp_path, name):
    columns = {"sample": ["s1", "s2", "s1"], "label": list("ABC"), "score": [0.9, 0.0, 0.25]}
    path = tmp_path / name
    parquet(path, **columns) if name == "s.parquet" else write(path, LONG)
    table = open_table(path, "scores", H)
    batches = list(table.batches(n_rows=2))
    assert [batch.num_rows for batch in batches] == [2, 1]
    assert batches[0].schema.names == ["sample", "label", "value"]
    assert [x.column("label").to_pylist() for x in batches] == [[0, 1], [2]]
    assert table.labels[2] == "C"


def test_batches_of_a_ranking_have_its_columns(tmp_path):
    (batch,) = open_table(write(tmp_path / "r.csv", RANKING), "ranking", H).batches()
    assert batch.schema.names == ["sample", "label", "value", "lpr", "call", "rank"]
    assert batch.column("call").to_pylist() == [1.0, 1.0]


# -- layouts ----------------------------------------------------------------------------------


def test_wide_columns_follow_the_hierarchy(tmp_path):
    read = read_scores(write(tmp_path / "s.csv", "# hi\nsample,C,A,B\ns1,1,2,3\n\ns2,4,5,6\n"), H)
    assert read.table.labels == ("A", "B", "C")
    np.testing.assert_array_equal(read.table.values, [[2, 3, 1], [5, 6, 4]])
    free = read_scores(write(tmp_path / "f.tsv", "sample\tZ\tY\n1\t2\t3\n"))
    assert (free.table.labels, free.samples) == (("Z", "Y"), ("1",))
    unnamed = read_scores(write(tmp_path / "u.csv", ",A,B,C\ns1,1,2,3\n"), H)
    assert len(unnamed.report.notes) == 1


def test_long_layouts_read_the_same(tmp_path):
    texts = {
        "l.csv": LONG, "c.tsv": CAFA, "sp.tsv": CAFA.replace("\t", " "),
        "n.tsv": "target\tterm\tscore\n" + CAFA, "z.tsv.gz": gzip.compress(CAFA.encode()),
        "crlf.csv": LONG.replace("\n", "\r\n"), "mark.csv": b"\xef\xbb\xbf" + LONG.encode(),
        "extra.csv": LONG.replace("\n", ",x\n"), "quoted.csv": LONG.replace("s1", '"s1"'),
    }  # fmt: skip
    for name, text in texts.items():
        table = read_scores(write(tmp_path / name, text), H).table
        assert table.samples == ("s1", "s2"), name
        assert table.values.nnz == 3  # the zero that is listed is stored
        np.testing.assert_array_equal(table.values.toarray(), [[0.9, 0, 0.25], [0, 0, 0]])
    complete = "sample,label,score\n" + "".join(f"s,{x},{i}\n" for i, x in enumerate("CBA"))
    values = read_scores(write(tmp_path / "full.csv", complete), H).table.values
    np.testing.assert_array_equal(values, [[2, 1, 0]])


def test_options_for_odd_tables(tmp_path):
    text = "sample;A;B;C\np1;0,5;1;-2,25\n"
    read = read_scores(write(tmp_path / "s.csv", text), H, sep=";", decimal=",")
    np.testing.assert_array_equal(read.table.values, [[0.5, 1, -2.25]])
    # A separator that a file does not have is ignored.
    assert read_scores(write(tmp_path / "p.csv", WIDE), H, sep=";").samples == ("s1", "s2")
    for bad in ({"sep": "ab"}, {"sep": '"'}, {"decimal": ";"}):
        with pytest.raises(HierlprError):
            read_scores(tmp_path / "s.csv", H, **bad)


def test_aliases(tmp_path):
    read = read_scores(
        write(tmp_path / "l.csv", LONG.replace(",C,", ",old,")), H, aliases={"old": "C"}
    )
    assert read.table.values[0, 2] == 0.25
    assert read.report.counts["entries by another name"] == 1
    wide = write(tmp_path / "w.csv", WIDE.replace("C", "old"))
    assert read_scores(wide, H, aliases={"old": "C"}).table.values[0, 2] == -3
    twice = write(tmp_path / "t.csv", "sample,A,B,C,old\ns,1,2,3,4\n")
    with pytest.raises(FileError, match="two columns"):
        read_scores(twice, H, aliases={"old": "C"})


def test_missing_scores_on_request(tmp_path):
    path = write(tmp_path / "s.csv", WIDE + "s3,,?,NA\n")
    table = read_scores(path, H, missing_scores="allow").table
    assert np.isnan(table.values[2]).all()
    with pytest.raises(FileError, match=r"missing_scores='allow'"):
        read_scores(path, H)
    with pytest.raises(FileError, match="infinite"):
        read_scores(write(path, WIDE + "s3,inf,,1\n"), H, missing_scores="allow")


def test_repeated_pairs(tmp_path):
    cafa = read_scores(write(tmp_path / "c.tsv", CAFA + "s1\tA\t0.95\n"), H)
    assert cafa.table.values[0, 0] == 0.95
    assert cafa.report.counts["repeated pairs merged"] == 1
    path = write(tmp_path / "l.csv", LONG + "s1,A,0.95\n")
    with pytest.raises(FileError, match=r"l.csv: .*'s1'.*'A' more than once"):
        read_scores(path, H)
    lenient = read_scores(path, H, lenient=True)
    assert lenient.report.n_problems == 1
    assert lenient.table.values[0, 0] == 0.95


# -- bad tables -------------------------------------------------------------------------------

ROWS = [  # a bad last row, and what the message says about it
    (WIDE + "s3,1,2\n", "line 4:.* 3 columns"),
    (WIDE + "s3,1,2,3,4\n", "line 4:.* 5 columns"),
    (WIDE + "s3,1,2,x\n", "line 4, column 'C'"),
    (WIDE + "s3,1,2,1_0\n", "line 4, column 'C'"),
    (WIDE + "s3,1,2,0x1\n", "line 4, column 'C'"),
    (WIDE + "s3,1,2,\uff11\n", "line 4, column 'C'"),
    (WIDE + 's3,1,2,"0,5"\n', "line 4, column 'C'(.|\n)*decimal=','"),
    (WIDE + "s3,1,2," + "9" * 10**6 + "x\n", "line 4, column 'C'"),
    (WIDE + "\ns3,1,nan,2\n", "line 5, column 'B': .*missing"),
    (WIDE + "s3,1,,2\n", "line 4, column 'B': .*missing"),
    (WIDE + "s3,1,1e999,2\n", "line 4, column 'B': .*infinite"),
    (WIDE + "s1,1,2,3\n", "line 4: sample 's1' occurs more than once"),
    (WIDE + " ,1,2,3\n", "line 4: the sample has no name"),
    (WIDE + '"s3,1,2,3\n', "line 4: the quotes"),
    (WIDE + "# a comment\ns3,1,2\n", "line 5:"),
    (LONG + "s9,A\n", "line 5:.* 2 columns"),
    (LONG + "s9,A,high\n", "line 5, column 'score'"),
    (LONG + "s9,A,NaN\n", "line 5, column 'score'"),
    (LONG + "s9, ,1\n", "line 5: the label has no name"),
    (LONG + ",A,1\n", "line 5: the sample has no name"),
]


@pytest.mark.parametrize(("text", "message"), ROWS)
def test_a_bad_row_is_named_or_skipped(tmp_path, text, message):
    path = write(tmp_path / "s.csv", text)
    with pytest.raises(FileError, match=message) as caught:
        read_scores(path, H)
    assert str(path) in str(caught.value)
    read = read_scores(path, H, lenient=True)
    assert read.report.n_problems == 1
    assert read.samples == ("s1", "s2")
    assert "1 row(s) with problems" in read.report.lines()[-1]


def test_lenient_reading_goes_on_after_the_block_with_the_bad_row(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 64)
    monkeypatch.setattr(reading, "BLOCK", 64)
    rows = [f"s{i},{i},1,2\n" for i in range(100)]
    rows[40] = "s40,x,1,2\n"
    rows[41] = "# a comment\n"
    path = write(tmp_path / "s.csv", "sample,A,B,C\n" + "".join(rows))
    read = read_scores(path, H, lenient=True)
    assert read.samples == tuple(f"s{i}" for i in range(100) if i not in (40, 41))
    assert read.table.values[:, 0].tolist() == [i for i in range(100) if i not in (40, 41)]
    assert (read.report.n_problems, read.report.counts["lines with # left out"]) == (1, 1)


def test_places_beyond_the_first_block_and_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 4096)
    rows = [f's{i},1,"1",2\n' for i in range(2000)]
    for bad in (3, 700, 1999):
        text = "# a\n\nsample,A,B,C\n" + "".join(rows[:bad]) + "x,1,?,2\n" + "".join(rows[bad:])
        table = open_table(write(tmp_path / "s.csv", text), "scores", H)
        with pytest.raises(FileError, match=f"line {bad + 4}, column 'B'"):
            list(table.batches(n_rows=7))
        text = text.replace("x,1,?,2", 'x,1,"2,2')
        with pytest.raises(FileError, match=f"line {bad + 4}: the quotes"):
            read_scores(write(tmp_path / "s.csv", text), H)


def test_lenient_unknown_labels_are_counted_by_name(tmp_path):
    path = write(tmp_path / "s.csv", LONG + "s1,Q,1\ns2,Q,1\ns2,R,1\n")
    with pytest.raises(FileError, match=r"line 5: label 'Q'"):
        read_scores(path, H)
    assert read_scores(path, H, lenient=True).report.unknown_labels == {"Q": 2, "R": 1}
    wide = read_scores(write(tmp_path / "w.csv", "sample,A,B,C,D\ns,1,2,3,4\n"), H, lenient=True)
    assert wide.report.unknown_labels == {"D": 1}
    np.testing.assert_array_equal(wide.table.values, [[1, 2, 3]])
    with pytest.raises(FileError, match="no row could be read"):
        read_scores(write(path, LONG.replace(",A,", ",Q,").replace(",B,", ",Q,")[:38]), H,
                    lenient=True)  # fmt: skip


WHOLE = [  # tables that cannot be read at all
    ("s.csv", ""), ("s.csv", "# x\n"), ("s.csv", "\n\n"), ("s.csv", "sample,A,B,C\n"),
    ("s.csv", b"\xef\xbb\xbf"), ("s.csv", WIDE.encode("utf-16")), ("s.csv", bytes(range(256))),
    ("s.csv", b"PK\x03\x04" + bytes(200)), ("s.csv", b"sample,A,B,C\ns\xff,1,2,3\n"),
    ("s.csv", WIDE.replace("\n", "\r")), ("s.csv", 'sample,"A,B,C\n' + "x\n" * 10**5),
    ("s.csv", "sample,A,B,C\ns1," + "1" * (17 << 20) + ",1,1\n"), ("s.csv", "x" * (17 << 20)),
    ("s.tsv", WIDE.replace(",", ":")), ("s.csv", WIDE.replace(",", "|")),
    ("s.csv", WIDE.replace("A,B,C", "A,B,B")),
    ("s.csv", WIDE.replace("A,B,C", "A,,C")), ("s.csv", WIDE.replace("A,B,C", "A,B,D")),
    ("s.csv", "sample,A\ns1,1\n"), ("s.csv", "sample\ns1\n"), ("s.csv", "A,B,C\n1,2,3\n"),
    ("s.csv", LONG.replace("score", "rating")), ("s.csv", LONG.replace("label", "label,label")),
    ("s.csv.gz", gzip.compress(WIDE.encode() * 99)[:-9]), ("s.csv.gz", b"\x1f\x8b" + bytes(40)),
    ("s.csv.gz", gzip.compress(gzip.compress(WIDE.encode()))), ("s.csv.gz", gzip.compress(b"")),
    ("s.csv.gz", gzip.compress(b"sample,A,B,C\ns1,1,1," + b"1" * (1 << 26))),
    ("s.parquet", "PAR1 junk"), ("s.parquet", ""), ("s.xlsx", WIDE), ("s.dat", WIDE),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content"), WHOLE, ids=range(len(WHOLE)))
def test_tables_that_cannot_be_read(tmp_path, name, content):
    path = write(tmp_path / name, content)
    for read in (read_scores, read_truth, read_ranking):
        with pytest.raises(FileError) as caught:
            read(path, H)
        assert str(path) in str(caught.value)


NAMES, VALUES = ["s1", "s2", "s3"], [0.1, 0.2, 0.3]
GOOD = {"sample": NAMES, "A": VALUES, "B": VALUES, "C": VALUES}
PARQUET = [
    ({**GOOD, "A": ["x", "y", "z"]}, "row 1, column 'A': 'x' is not a number"),
    ({**GOOD, "A": pa.array([1, 2, 3], pa.date32())}, "the schema, column 'A'"),
    ({**GOOD, "sample": ["s1", None, "s3"]}, "row 2: the sample has no name"),
    ({**GOOD, "B": [0.1, 0.2, None]}, "row 3, column 'B': .*missing"),
    ({"sample": NAMES, "label": ["A", "Q", "A"], "score": VALUES}, "row 2: label 'Q'"),
    ({"sample": ["s1"] * 3, "label": ["A", "B", "A"], "score": VALUES}, "more than once"),
    ({"sample": NAMES, "label": ["A"] * 3, "score": [["1"]] * 3}, "the schema, column 'score'"),
    ({"sample": pa.array([], pa.string()), "A": [], "B": [], "C": []}, "no rows"),
]


@pytest.mark.parametrize(("columns", "message"), PARQUET)
def test_bad_parquet(tmp_path, columns, message):
    with pytest.raises(FileError, match=message):
        read_scores(parquet(tmp_path / "s.parquet", **columns), H)


def test_parquet_types_that_are_numbers_or_names(tmp_path):
    columns = {
        "sample": [1, 2, 3], "A": [True, False, True], "B": pa.array([1, 2, 3], pa.int8()),
        "C": pa.array([1, 2, 3], pa.decimal128(5, 2)),
    }  # fmt: skip
    read = read_scores(parquet(tmp_path / "s.parquet", **columns), H)
    assert read.samples == ("1", "2", "3")
    np.testing.assert_array_equal(read.table.values, [[1, 1, 1], [0, 2, 2], [1, 3, 3]])
    whole = (tmp_path / "s.parquet").read_bytes()
    with pytest.raises(FileError, match="not a readable Parquet"):
        read_scores(write(tmp_path / "c.parquet", whole[: len(whole) // 2]), H)
    twice = pa.Table.from_arrays([pa.array(["a"])] + [pa.array([1.0])] * 4, list("sABCC"))
    pq.write_table(twice.rename_columns(["sample", "A", "B", "C", "C"]), tmp_path / "t.parquet")
    with pytest.raises(FileError, match="column 'C': the column occurs twice"):
        read_scores(tmp_path / "t.parquet", H)


def test_scores_are_not_taken_for_truth(tmp_path):
    for name, text in (("s.csv", LONG), ("s.tsv", CAFA), ("r.csv", RANKING), ("w.csv", WIDE)):
        with pytest.raises(FileError, match="scores"):
            read_truth(write(tmp_path / name, text), H)
    yes = "sample,A,B,C\ns1,yes,no,no\n"
    with pytest.raises(FileError, match=r"line 2, column 'A'(.|\n)*1 for yes"):
        read_truth(write(tmp_path / "y.csv", yes), H)


def test_the_column_of_samples(tmp_path):
    """Of any name, if its values are different texts; by option where another one has them."""
    table = "patient,A,B,C\np1,0.5,0.2,0.1\np2,0.25,0.1,0.1\n"
    read = read_scores(write(tmp_path / "s.csv", table), H)
    assert read.samples == ("p1", "p2")
    assert "the first column, 'patient', is taken as the samples" in read.report.notes[0]
    for text in (table.replace("p2", "p1"), table.replace("p1", "1").replace("p2", "2")):
        with pytest.raises(FileError, match=r"first column is 'patient'(.|\n)*sample"):
            read_scores(write(tmp_path / "t.csv", text), H)
    numbers = write(tmp_path / "n.csv", table.replace("p1", "1").replace("p2", "2"))
    assert read_scores(numbers, H, sample_column="patient").samples == ("1", "2")
    long = write(tmp_path / "l.csv", "sample,visit,category,score\nx,v1,A,0.5\nx,v2,A,0.25\n")
    read = read_scores(long, H, sample_column="visit")
    assert read.samples == ("v1", "v2")


def test_percentages_are_read_and_thousands_refused_with_the_number(tmp_path):
    text = "sample,A,B,C\np1,85%,2.5 %,1\n"
    values = read_scores(write(tmp_path / "s.csv", text), H).table.values
    np.testing.assert_allclose(values, [[0.85, 0.025, 1]])
    for text, same in (("85 %", "0.85"), ("1e-2", "0.01")):
        path = write(tmp_path / "p.csv", f"sample;A;B;C\np1;{text};0;0\n")
        assert read_scores(path, H).table.values[0, 0] == float(same)
    for cell, decimal, message in (
        ("1 234", ".", "Thousands are written without a separator: 1234"),
        ("1,234.5", ".", "Thousands are written without a separator: 1234.5"),
        ("1.234,5", ",", "Thousands are written without a separator: 1234,5"),
        ("1,234", ".", "decimal=',' reads '1,234'. Thousands are written"),
        ("0,5", ".", "decimal=',' reads '0,5'"),
    ):
        path = write(tmp_path / "s.csv", f"sample;A;B;C\np1;{cell};0;0\n")
        with pytest.raises(FileError, match=f"'{cell}' is not a number.\nHint: {message}"):
            read_scores(path, H, sep=";", decimal=decimal)


def test_columns_of_other_names_and_separators(tmp_path):
    """Each of these needed a second attempt."""
    expected = read_scores(write(tmp_path / "s.csv", LONG), H)
    for text in (
        LONG.replace(",", ";"),
        LONG.replace(",", "\t"),
        LONG.replace("sample,label,score", "image,category,confidence"),
        LONG.replace(",B,", ",A/B,"),
    ):
        read = read_scores(write(tmp_path / "t.csv", text), H)
        np.testing.assert_array_equal(read.table.values.toarray(), expected.table.values.toarray())
    truth = write(tmp_path / "y.csv", "sample,disease\np1,C\np2,A | B\n")
    read = read_truth(truth, H)
    assert read.layout == "long"
    assert read.table.values.toarray().tolist() == [[1, 0, 1], [1, 1, 0]]
    one = write(tmp_path / "w.csv", "sample,A\np1,1\np2,unknown\n")
    assert read_truth(one, Hierarchy(labels=["A"])).layout == "wide"
    wide = "A,who,B,C\n0.5,p1,0.2,0.1\n0.25,p2,0.1,0.1\n"
    with pytest.raises(FileError, match="sample_column='who' names the column of samples"):
        read_scores(write(tmp_path / "x.csv", wide), H)


def test_samples_match_without_sizes_and_folders(tmp_path):
    scores = write(tmp_path / "s.csv", "sample,A,B,C\nx/q1;size=23,.5,.2,.1\nq2;size=1;,.5,.2,.1\n")
    truth = write(tmp_path / "t.csv", "sample,label\nq2,A\nq1,A\nq3,A\n")
    pair = pair_samples(read_scores(scores, H), read_truth(truth, H))
    assert pair.notes[0].startswith("samples are matched without sizes")
    assert "1 samples with truth but without scores are left out: 'q3'" in pair.notes[1]
    assert pair.truth.values.sum() == 2
