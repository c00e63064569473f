"""Truth in every layout, and samples of scores and truth matched by name."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cases import write
from hierlpr import Hierarchy
from hierlpr.data.tables import dense
from hierlpr.data.truth import Truth
from hierlpr.exceptions import DataError, FileError
from hierlpr.io import pair_samples, read_scores, read_truth

H = Hierarchy([("A", "B"), ("A", "C")])
WIDE = "sample,A,B,C\ns1,0.9,0.8,-3\ns2,1e2,0,0.5\n"


def truth_of(path, **options):
    table = read_truth(path, H, **options).table
    return dict(zip(table.samples, dense(table.values).astype(int).tolist(), strict=True))


def test_truth_layouts(tmp_path):
    expected = {"s1": [1, 1, 0], "s2": [0, 0, 0]}
    wide = write(tmp_path / "w.csv", "sample,A,B,C\ns1,1,1,0\ns2,0,0,0\n")
    words = write(tmp_path / "b.csv", "sample,A,B,C\ns1,True,true,0\ns2,False,0,False\n")
    floats = write(tmp_path / "f.csv", "sample,A,B,C\ns1,1.0,1,0\ns2,0,0,0.0\n")
    long = write(tmp_path / "l.csv", "sample,label\ns1,A\ns1,B\ns2,\n")
    valued = write(tmp_path / "v.csv", "sample,label,truth\ns1,A,1\ns1,B,1\ns2,C,0\n")
    pq.write_table(pa.table({"sample": ["s1", "s2"], "A": [True, False], "B": [True, False],
                             "C": [False, False]}), tmp_path / "p.parquet")  # fmt: skip
    for path in (wide, words, floats, long, valued, tmp_path / "p.parquet"):
        assert truth_of(path) == expected, path
    cafa = write(tmp_path / "c.tsv", "s1\tB\ns1\tB\ns3\tC\n")
    assert truth_of(cafa) == {"s1": [1, 1, 0], "s3": [1, 0, 1]}
    assert read_truth(cafa, H).report.counts["ancestors added"] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sample,A,B,C\ns1,1,0,0\ns2,0,1,0\n", "'s2' has 'B' but not 'A'"),
        ("sample,label\ns1,A\ns2,C\n", "'s2' has 'C' but not 'A'"),
        ("sample,A,B,C\ns1,1,2,0\n", "line 2, column 'B'"),
        ("sample,A,B,C\ns1,0,1,\n", "'s1' has 'B' but not 'A'"),
        ("sample,label,truth\ns1,,unknown\n", "line 2: the label has no name"),
        ("sample,A,B,C\ns1,1,unknow,0\n", "line 2, column 'B'"),
        ("sample,label\ns1,Q\n", "line 2: label 'Q' is not in the hierarchy"),
        ("sample,label\ns1,A\ns1,A\n", "'s1' has label 'A' more than once"),
        ("sample,label,truth\ns1,A,0.5\n", "line 2"),
        ("sample,label,score\ns1,A,1\n", "interchanged"),
    ],
)
def test_bad_truth(tmp_path, text, message):
    with pytest.raises(FileError, match=message):
        read_truth(write(tmp_path / "t.csv", text), H)


def test_unknown_truth_in_every_spelling(tmp_path):
    wide = "sample,A,B,C\ns1,1,,unknown\ns2,NA,1,?\ns3,0,Unknown,null\n"
    long = "sample,label,truth\ns1,A,1\ns1,B,\ns1,C,UNKNOWN\ns2,A,nan\ns2,B,true\ns2,C,None\n"
    long += "s3,A,0\ns3,B,unknown\ns3,C,N/A\n"
    expected = [[1, np.nan, np.nan], [np.nan, 1, np.nan], [0, np.nan, np.nan]]
    for text in (wide, long):
        read = read_truth(write(tmp_path / "t.csv", text), H)
        values = dense(read.table.values)
        np.testing.assert_array_equal(values, expected)
        assert read.report.counts["unknown pairs"] == 6
        known = Truth.of(values, H).tocsr()
        # Of s2, A is implied; of s3 nothing is true, as A is not.
        assert known.positive.indices.tolist() == [0, 0, 1]
        assert known.unknown.indices.tolist() == [1, 2, 2]
        assert known.not_annotated.indices.tolist() == [1, 2, 0, 2, 1, 2]
    closed = read_truth(tmp_path / "t.csv", H, propagate_truth=True)
    assert closed.report.counts["unknown pairs"] == 5
    assert closed.report.counts["ancestors added"] == 1


def test_truth_is_closed_on_request(tmp_path):
    path = write(tmp_path / "t.csv", "sample,A,B,C\ns1,1,0,0\ns2,0,1,0\n")
    for options in ({"propagate_truth": True}, {"lenient": True}):
        assert truth_of(path, **options) == {"s1": [1, 0, 0], "s2": [1, 1, 0]}
        assert read_truth(path, H, **options).report.counts["ancestors added"] == 1


def test_scores_are_not_their_own_truth(tmp_path):
    wide, long = "sample,A,B,C\ns1,1,1,0\ns2,0,0,0\n", "sample,label,score\ns1,A,1\ns1,B,1\n"
    for scores, truth in ((wide, wide), (long, wide), (long, "sample,label\ns1,A\ns1,B\n")):
        read = read_scores(write(tmp_path / "s.csv", scores), H)
        known = read_truth(write(tmp_path / "t.csv", truth), H)
        with pytest.raises(DataError, match="the same as the scores"):
            pair_samples(read, known)


def test_lenient_is_suggested_where_few_rows_fail(tmp_path):
    good = [f"s{i},1,1,0\n" for i in range(40)]
    for n_bad, is_suggested in ((1, True), (4, True), (20, False)):
        rows = [row.replace(",1,", ",x,", 1) if i < n_bad else row for i, row in enumerate(good)]
        path = write(tmp_path / "s.csv", "sample,A,B,C\n" + "".join(rows))
        with pytest.raises(FileError, match="line 2, column 'A'") as caught:
            read_scores(path, H)
        assert ("lenient=True" in str(caught.value)) == is_suggested
    for extra in ("index", "Unnamed: 3"):
        path = write(tmp_path / "s.csv", f"sample,A,B,C,{extra}\ns1,1,1,1,0\n")
        with pytest.raises(FileError, match="index that was saved") as caught:
            read_scores(path, H)
        assert "lenient=True" not in str(caught.value)
    for head in ("Unnamed: 0", ""):
        path = write(tmp_path / "s.csv", f"{head},sample,A,B,C\n0,s1,1,1,1\n")
        with pytest.raises(FileError, match="index that was saved"):
            read_scores(path, H)


def test_pairing(tmp_path):
    scores = read_scores(write(tmp_path / "s.csv", WIDE), H)
    long = read_truth(write(tmp_path / "l.csv", "sample,label\ns2,A\ns7,A\n"), H)
    pair = pair_samples(scores, long)
    assert pair.truth.samples == pair.scores.samples == ("s1", "s2")
    np.testing.assert_array_equal(pair.truth.values.toarray(), [[0, 0, 0], [1, 0, 0]])
    assert len(pair.notes) == 2
    skipped = pair_samples(scores, long, missing_truth="skip")
    assert skipped.scores.samples == ("s2",)
    cafa = read_truth(write(tmp_path / "c.tsv", "s2\tA\n"), H)
    assert pair_samples(scores, cafa).scores.n_samples == 1
    assert pair_samples(scores, cafa, missing_truth="negative").scores.n_samples == 2
    wide = read_truth(write(tmp_path / "w.csv", "sample,A,B,C\ns2,1,0,0\n"), H)
    with pytest.raises(DataError, match=r"1 of 2 scored samples are not mentioned: 's1'"):
        pair_samples(scores, wide)
    np.testing.assert_array_equal(
        pair_samples(scores, wide, missing_truth="negative").truth.values, [[0, 0, 0], [1, 0, 0]]
    )
    other = read_truth(write(tmp_path / "o.csv", "sample,label\nx,A\n"), H)
    with pytest.raises(DataError, match="none of the 2 samples"):
        pair_samples(scores, other)


def test_a_long_truth_that_leaves_most_samples_out_is_questioned(tmp_path):
    rows = "".join(f"p{i},0.5,0.5,0.5\n" for i in range(30))
    scores = read_scores(write(tmp_path / "s.csv", "sample,A,B,C\n" + rows), H)
    truth = read_truth(write(tmp_path / "t.csv", "sample,label\np1,A\np2,A\n"), H)
    with pytest.raises(DataError, match="28 of 30 scored samples are not mentioned") as caught:
        pair_samples(scores, truth)
    assert caught.value.options == ("missing_truth=skip", "missing_truth=negative")
    assert pair_samples(scores, truth, missing_truth="negative").scores.n_samples == 30
    assert pair_samples(scores, truth, missing_truth="skip").scores.n_samples == 2
