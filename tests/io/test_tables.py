"""Scores, truth and rankings from and to every layout."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from hierlpr import Hierarchy
from hierlpr.data.partial_truth import still_unknown
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError, FileError
from hierlpr.io import (
    load_hierarchy,
    pair_samples,
    read_arff,
    read_ranking,
    read_scores,
    read_truth,
    read_truth_sets,
    write_arff,
    write_ranking,
    write_scores,
    write_truth,
)
from realdata import DATA, needs_data

H = Hierarchy([("A", "B"), ("A", "C")])
WIDE = "sample,A,B,C\ns1,0.9,0.8,-3\ns2,1e2,0,0.5\n"
LONG = "sample,label,score\ns1,A,0.9\ns2,B,0\ns1,C,0.25\n"
CAFA = "s1\tA\t0.9\ns2\tB\t0\ns1\tC\t0.25\n"


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_wide_scores_follow_the_hierarchys_order(tmp_path):
    read = read_scores(write(tmp_path / "s.csv", "# hi\nsample,C,A,B\ns1,1,2,3\n\ns2,4,5,6\n"), H)
    assert read.table.labels == ("A", "B", "C")
    assert read.table.samples == ("s1", "s2")
    np.testing.assert_array_equal(read.table.values, [[2, 3, 1], [5, 6, 4]])
    assert read.report.counts["comments"] == 1
    free = read_scores(write(tmp_path / "f.tsv", "sample\tZ\tY\n1\t2\t3\n"))
    assert free.table.labels == ("Z", "Y")
    assert free.table.samples == ("1",)
    unnamed = read_scores(write(tmp_path / "u.csv", ",A,B,C\ns1,1,2,3\n"), H)
    assert "no name" in unnamed.report.notes[0]


def test_long_and_cafa_scores_store_what_is_listed(tmp_path):
    paths = [write(tmp_path / "l.csv", LONG), write(tmp_path / "c.tsv", CAFA)]
    paths.append(write(tmp_path / "sp.tsv", CAFA.replace("\t", " ")))
    opened = "AUTHOR me\nMODEL 1\nKEYWORDS x, y.\n" + CAFA + "END\n"
    paths.append(write(tmp_path / "h.tsv", opened))
    paths.append(write(tmp_path / "n.tsv", "target\tterm\tscore\n" + CAFA))
    (tmp_path / "z.tsv.gz").write_bytes(gzip.compress(CAFA.encode()))
    paths.append(tmp_path / "z.tsv.gz")
    pq.write_table(
        pa.table({"sample": ["s1", "s2", "s1"], "label": ["A", "B", "C"],
                  "score": [0.9, 0.0, 0.25]}), tmp_path / "p.parquet")  # fmt: skip
    paths.append(tmp_path / "p.parquet")
    for path in paths:
        table = read_scores(path, H).table
        assert isinstance(table.values, sparse.csr_array), path
        assert table.samples == ("s1", "s2")
        assert table.values.nnz == 3  # the stored zero stays
        np.testing.assert_array_equal(table.values.toarray(), [[0.9, 0, 0.25], [0, 0, 0]])


def test_a_complete_long_table_is_dense(tmp_path):
    text = "sample,label,score\n" + "".join(f"s,{x},{i}\n" for i, x in enumerate("CBA"))
    values = read_scores(write(tmp_path / "l.csv", text), H).table.values
    np.testing.assert_array_equal(values, [[2, 1, 0]])


def test_repeated_pairs(tmp_path):
    cafa = read_scores(write(tmp_path / "c.tsv", CAFA + "s1\tA\t0.95\n"), H)
    assert cafa.table.values[0, 0] == 0.95
    assert cafa.report.counts["repeated pairs merged"] == 1
    path = write(tmp_path / "l.csv", LONG + "s1,A,0.95\n")
    with pytest.raises(FileError, match="line 5: sample 's1' has label 'A' again"):
        read_scores(path, H)
    lenient = read_scores(path, H, lenient=True)
    assert lenient.report.n_problems == 1
    assert lenient.table.values[0, 0] == 0.95


def test_aliases(tmp_path):
    path = write(tmp_path / "l.csv", LONG.replace(",C,", ",old,"))
    read = read_scores(path, H, aliases={"old": "C"})
    assert read.table.values[0, 2] == 0.25
    assert read.report.counts["entries by another name"] == 1
    wide = write(tmp_path / "w.csv", WIDE.replace("C", "old"))
    assert read_scores(wide, H, aliases={"old": "C"}).table.values[0, 2] == -3
    twice = write(tmp_path / "t.csv", "sample,A,B,C,old\ns,1,2,3,4\n")
    with pytest.raises(FileError, match="another name of column 'C'"):
        read_scores(twice, H, aliases={"old": "C"})


BAD_SCORES = [
    ("s.csv", "", "the file is empty"),
    ("s.csv", "# x\n", "only comments"),
    ("s.csv", "sample,A,B,C\n", "line 1: there is a header but no rows"),
    ("s.tsv", "p1\tA\np2\tB\n", "three columns .sample, label, score., truth has two"),
    ("s.csv", WIDE.replace("sample", "name"), "line 1: the first column is 'name'"),
    ("s.csv", WIDE.replace(",", ";"), "line 1: .*\nHint: .*separated by commas.*semicolons"),
    ("s.tsv", WIDE, "line 1: .*\nHint: .*separated by tabs.*commas"),
    ("s.csv", WIDE.replace("A,B,C", "A,B,B"), "column 'B': the column occurs twice"),
    ("s.csv", WIDE.replace("A,B,C", "A,,C"), "column 3 of the header has no name"),
    ("s.csv", WIDE.replace("A,B,C", "A,B,D"), "label 'D' is not in the hierarchy"),
    ("s.csv", "sample,A\ns1,1\n", "2 label.s. of the hierarchy have no column: 'B', 'C'"),
    ("s.csv", "sample\ns1\n", "no label column"),
    ("s.csv", WIDE + "s3,1,2\n", "line 4: the row has 3 columns, expected 4"),
    ("s.csv", WIDE + "s3,1,2,x\n", "line 4, column 'C': 'x' is not a number"),
    ("s.csv", WIDE + "\ns3,1,nan,2\n", "line 5, column 'B': the value is missing"),
    ("s.csv", WIDE + "s3,1,,2\n", "line 4, column 'B': the value is missing"),
    ("s.csv", WIDE + "s3,1,inf,2\n", "line 4, column 'B': the value is infinite"),
    ("s.csv", WIDE + "s1,1,2,3\n", "line 4: sample 's1' occurs again .first on line 2"),
    ("s.csv", WIDE + ",1,2,3\n", "line 4: the sample has no name"),
    ("s.csv", LONG + "s9,Q,1\n", "line 5: label 'Q' is not in the hierarchy"),
    ("s.csv", LONG + "s9,A\n", "line 5: the row has 2 columns"),
    ("s.csv", LONG + "s9,A,high\n", "line 5, column 'score': 'high' is not a number"),
    ("s.csv", LONG + "s9,A,NaN\n", "line 5: the value is missing"),
    ("s.csv", LONG + "s9,,1\n", "line 5: the label has no name"),
    ("s.csv", LONG + ",A,1\n", "line 5: the sample has no name"),
    ("s.tsv", CAFA + "s9\tA\n", "line 4: the row has 2 columns"),
    ("s.csv", WIDE + "s3,1,\x00,2\n", "line 4: this is binary data"),
    ("s.parquet", "PAR1 junk", "no readable Parquet"),
]


@pytest.mark.parametrize(("name", "text", "message"), BAD_SCORES)
def test_bad_scores(tmp_path, name, text, message):
    path = write(tmp_path / name, text)
    with pytest.raises(FileError, match=message) as caught:
        read_scores(path, H)
    assert str(path) in str(caught.value)


ROW_LEVEL = [
    WIDE + "s3,1,2\ns4,1,1,1\n", WIDE + "s3,1,nan,2\n", WIDE + "s3,1,inf,2\n",
    WIDE + "s1,1,2,3\n", WIDE + ",1,2,3\n", WIDE + "s3,1,2,x\n", LONG + "s9,A\n",
    LONG + "s9,A,high\n", LONG + "s9,A,NaN\n", LONG + "s9,,1\n", LONG + ",A,1\n",
]  # fmt: skip


@pytest.mark.parametrize("text", ROW_LEVEL)
def test_lenient_reading_counts_and_goes_on(tmp_path, text):
    read = read_scores(write(tmp_path / "s.csv", text), H, lenient=True)
    assert read.report.n_problems == 1
    assert set(read.table.samples) >= {"s1", "s2"}
    assert "s3" not in read.table.samples
    assert "1 row(s) with problems" in read.report.lines()[-1]


def test_lenient_unknown_labels_are_counted_by_name(tmp_path):
    read = read_scores(
        write(tmp_path / "s.csv", LONG + "s1,Q,1\ns2,Q,1\ns2,R,1\n"), H, lenient=True
    )
    assert read.report.unknown_labels == {"Q": 2, "R": 1}
    wide = read_scores(write(tmp_path / "w.csv", "sample,A,B,C,D\ns,1,2,3,4\n"), H, lenient=True)
    assert wide.report.unknown_labels == {"D": 1}
    np.testing.assert_array_equal(wide.table.values, [[1, 2, 3]])


def test_missing_values_on_request(tmp_path):
    table = read_scores(write(tmp_path / "s.csv", WIDE + "s3,,?,NA\n"), H, allow_missing=True).table
    assert np.isnan(table.values[2]).all()


def test_bad_parquet(tmp_path):
    pq.write_table(pa.table({"sample": ["a"], "A": ["x"], "B": [1.0], "C": [1.0]}),
                   tmp_path / "t.parquet")  # fmt: skip
    with pytest.raises(FileError, match="column 'A': holds text"):
        read_scores(tmp_path / "t.parquet", H)
    pq.write_table(pa.table({"sample": ["a", "b"], "A": [1, 2], "B": [1.0, None], "C": [1, 1]}),
                   tmp_path / "n.parquet")  # fmt: skip
    with pytest.raises(FileError, match="row 2, column 'B': the value is missing"):
        read_scores(tmp_path / "n.parquet", H)
    whole = (tmp_path / "n.parquet").read_bytes()
    (tmp_path / "c.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileError, match="no readable Parquet"):
        read_scores(tmp_path / "c.parquet", H)


def truth_of(path, **options):
    table = read_truth(path, H, **options).table
    values = table.values if isinstance(table.values, np.ndarray) else table.values.toarray()
    return dict(zip(table.samples, values.astype(int).tolist(), strict=True))


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
        ("sample,A,B,C\ns1,1,0,0\ns2,0,1,0\n", "line 3: sample 's2' has 'B' but not its parent"),
        ("sample,label\ns1,A\ns2,C\n", "line 3: sample 's2' has 'C' but not its parent 'A'"),
        ("sample,A,B,C\ns1,1,2,0\n", "line 2, column 'B': the value is 2; truth is 0 or 1"),
        ("sample,A,B,C\ns1,0,1,\n", "line 2: sample 's1' has 'B' but not its parent 'A'"),
        ("sample,label,truth\ns1,,unknown\n", "line 2: the label has no name"),
        ("sample,A,B,C\ns1,1,unknow,0\n", "'unknow' is not a number.\nHint: truth is 1, 0 or unk"),
        ("sample,label\ns1,Q\n", "line 2: label 'Q' is not in the hierarchy"),
        ("sample,label\ns1,A\ns1,A\n", "line 3: sample 's1' has label 'A' again"),
        ("sample,label,truth\ns1,A,0.5\n", "line 2: the value is 0.5; truth is 0 or 1"),
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
        values = read.table.values
        values = values if isinstance(values, np.ndarray) else values.toarray()
        np.testing.assert_array_equal(values, expected)
        assert read.report.counts["unknown pairs"] == 6
        sets = read_truth_sets(tmp_path / "t.csv", H).sets
        # Of s2, A is implied; of s3 nothing holds, as A does not.
        assert sets.label.tolist() == [0, 0, 1]
        assert still_unknown(sets, H).label.tolist() == [1, 2, 2]
        assert sets.open.label.tolist() == [1, 2, 0, 2, 1, 2]
    closed = read_truth(tmp_path / "t.csv", H, close=True)
    assert closed.report.counts["unknown pairs"] == 5
    assert closed.report.counts["ancestors added"] == 1


def test_a_contradiction_across_unknown_labels_names_both(tmp_path):
    h = Hierarchy([("A", "B"), ("B", "C")])
    for text in ("sample,A,B,C\ns0,,,\ns1,0,,1\n",
                 "sample,label,truth\ns0,A,unknown\ns1,C,1\ns1,B,unknown\n"):  # fmt: skip
        path = write(tmp_path / "t.csv", text)
        with pytest.raises(
            FileError, match=r"line 3: sample 's1' has 'C' but not 'A', which is ab"
        ):
            read_truth(path, h)


def test_truth_is_closed_on_request(tmp_path):
    path = write(tmp_path / "t.csv", "sample,A,B,C\ns1,1,0,0\ns2,0,1,0\n")
    for options in ({"close": True}, {"lenient": True}):
        assert truth_of(path, **options) == {"s1": [1, 0, 0], "s2": [1, 1, 0]}
        assert read_truth(path, H, **options).report.counts["ancestors added"] == 1


def test_pairing(tmp_path):
    scores = read_scores(write(tmp_path / "s.csv", WIDE), H)
    long = read_truth(write(tmp_path / "l.csv", "sample,label\ns2,A\ns7,A\n"), H)
    pair = pair_samples(scores, long)
    assert pair.truth.samples == pair.scores.samples == ("s1", "s2")
    np.testing.assert_array_equal(pair.truth.values.toarray(), [[0, 0, 0], [1, 0, 0]])
    assert "do" in pair.notes[0]
    assert "1 samples with truth but no scores" in pair.notes[1]
    skipped = pair_samples(scores, long, absent="skip")
    assert skipped.scores.samples == ("s2",)
    cafa = read_truth(write(tmp_path / "c.tsv", "s2\tA\n"), H)
    assert pair_samples(scores, cafa).scores.n_samples == 1
    assert pair_samples(scores, cafa, absent="negative").scores.n_samples == 2
    wide = read_truth(write(tmp_path / "w.csv", "sample,A,B,C\ns2,1,0,0\n"), H)
    with pytest.raises(DataError, match=r"1 scored sample.s. have no row: 's1'"):
        pair_samples(scores, wide)
    np.testing.assert_array_equal(
        pair_samples(scores, wide, absent="negative").truth.values, [[0, 0, 0], [1, 0, 0]]
    )
    other = read_truth(write(tmp_path / "o.csv", "sample,label\nx,A\n"), H)
    with pytest.raises(DataError, match="none of the 2 samples"):
        pair_samples(scores, other)


@pytest.mark.parametrize("end", [".csv", ".csv.gz", ".parquet", ".tsv"])
@pytest.mark.parametrize("long", [None, True])
def test_scores_round_trip(tmp_path, end, long):
    rng = np.random.default_rng(0)
    dense = Table(rng.normal(size=(4, 3)), H.labels, ("a", "b", "c", 'd,"e"'))
    write_scores(tmp_path / f"s{end}", dense, long=long)
    back = read_scores(tmp_path / f"s{end}", H).table
    assert back.samples == dense.samples
    np.testing.assert_array_equal(back.values, dense.values)
    stored = sparse.csr_array((np.array([0.0, 2.5]), np.array([1, 0]), np.array([0, 1, 2])),
                              shape=(2, 3))  # fmt: skip
    write_scores(tmp_path / f"t{end}", Table(stored, H.labels, ("x", "y")))
    again = read_scores(tmp_path / f"t{end}", H).table.values
    assert again.nnz == 2
    np.testing.assert_array_equal(again.toarray(), stored.toarray())
    with pytest.raises(DataError, match="write long"):
        write_scores(tmp_path / f"u{end}", Table(stored, H.labels), long=False)


@pytest.mark.parametrize("end", [".csv", ".parquet", ".tsv"])
@pytest.mark.parametrize("long", [False, True])
def test_truth_round_trip(tmp_path, end, long):
    truth = Table(np.array([[1.0, 1, 0], [0, 0, 0], [1, 1, 1]]), H.labels, ("a", "b", "c"))
    write_truth(tmp_path / f"t{end}", truth, long=long)
    back = truth_of(tmp_path / f"t{end}")
    expected = {"a": [1, 1, 0], "b": [0, 0, 0], "c": [1, 1, 1]}
    if end == ".tsv":
        del expected["b"]  # CAFA cannot say it
    assert back == expected


def test_arff_round_trip(tmp_path):
    truth = np.array([[1, 1, 0], [0, 0, 0], [1, 1, 1]], dtype=bool)
    features = np.array([[0.1, np.nan], [1e-300, -2], [3, 4]])
    write_arff(tmp_path / "x.arff.gz", features, truth, H, feature_names=["it's", "b c"])
    back = read_arff(tmp_path / "x.arff.gz")
    assert back.feature_names == ("it's", "b c")
    np.testing.assert_array_equal(back.features, features)
    np.testing.assert_array_equal(back.truth, truth)
    as_truth = read_truth(tmp_path / "x.arff.gz", H)
    np.testing.assert_array_equal(as_truth.table.values, truth)


class Ranked:
    sample = np.array([1, 0, 1])
    label = np.array([0, 0, 2])
    lpr = np.array([0.9, 0.1, 1 / 3])
    score = np.array([0.9, 0.5, 1 / 3])
    samples = ("s1", "s2")
    labels = ("A", "B", "C")


@pytest.mark.parametrize("end", [".csv", ".csv.gz", ".parquet", ".tsv"])
def test_ranking_round_trip(tmp_path, end):
    path = tmp_path / f"r{end}"
    assert write_ranking(path, Ranked, call=[True, True, False]) == 3
    back = read_ranking(path, H)
    assert [back.samples[i] for i in back.sample] == ["s2", "s1", "s2"]
    np.testing.assert_array_equal(back.label, Ranked.label)
    np.testing.assert_array_equal(back.score, Ranked.score)
    if end == ".tsv":
        assert back.lpr is None
        assert path.read_text().splitlines()[1] == "s1\tA\t0.5"
    else:
        np.testing.assert_array_equal(back.lpr, Ranked.lpr)
        assert back.call.tolist() == [True, True, False]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_ranking_files_that_are_none(tmp_path):
    with pytest.raises(FileError, match="no column 'score'"):
        read_ranking(write(tmp_path / "r.csv", "rank,sample,label\n1,a,A\n"))
    with pytest.raises(FileError, match="line 3: label 'Q' is not in the hierarchy"):
        read_ranking(write(tmp_path / "q.csv", "sample,label,score\na,A,1\na,Q,1\n"), H)
    again = write(tmp_path / "d.csv", "sample,label,score\na,A,1\na,A,1\n")
    with pytest.raises(FileError, match="line 3: sample 'a' has label 'A' again"):
        read_ranking(again, H)
    assert len(read_ranking(again, H, lenient=True)) == 1
    with pytest.raises(DataError, match="names with blanks: 'a b'"):
        write_ranking(tmp_path / "x.tsv", Ranked, samples=["a b", "c"])
    with pytest.raises(DataError, match="ending of the ranking file"):
        write_ranking(tmp_path / "x.xls", Ranked)
    with pytest.raises(DataError, match="call has shape"):
        write_ranking(tmp_path / "x.csv", Ranked, call=[True])
    with pytest.raises(FileError, match="cannot be written"):
        write_ranking(tmp_path / "nowhere" / "x.csv", Ranked)


def test_failed_writing_keeps_the_old_file(tmp_path, monkeypatch):
    import pyarrow.csv as pacsv

    path = write(tmp_path / "r.csv", "old")
    monkeypatch.setattr(
        pacsv, "CSVWriter", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt())
    )
    with pytest.raises(KeyboardInterrupt):
        write_ranking(path, Ranked)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["r.csv"]


@needs_data
def test_real_cafa_files():
    read = load_hierarchy(DATA / "cafa/IDPO_disorder_function.obo")
    truth = read_truth(DATA / "cafa/ground_truth.tsv", read.hierarchy)
    assert truth.table.n_samples == 168
    for i in range(1, 6):
        scores = read_scores(DATA / f"cafa/predictions/pred_{i}.tsv", read.hierarchy)
        assert pair_samples(scores, truth).scores.n_samples == 168


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.csv.gz"])
@pytest.mark.parametrize("long", [False, True])
def test_unknown_truth_is_written_and_read_again(tmp_path, name, long):
    values = np.array([[1, np.nan, 0], [np.nan, 1, np.nan], [0, 0, 0]])
    write_truth(tmp_path / name, Table(values, H.labels, ("s1", "s2", "s3")), long=long)
    read = read_truth(tmp_path / name, H)
    again = read.table.values
    again = again if isinstance(again, np.ndarray) else again.toarray()
    np.testing.assert_array_equal(again, values)
    assert read.samples == ("s1", "s2", "s3")
    with pytest.raises(DataError, match="CAFA layout cannot say that truth is unknown"):
        write_truth(tmp_path / "t.tsv", Table(values, H.labels, ("s1", "s2", "s3")))
