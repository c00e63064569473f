"""What is written is read again: scores, truth, data sets and rankings."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from cases import write
from hierlpr import Hierarchy, rank
from hierlpr.data.tables import Table, dense
from hierlpr.exceptions import DataError, FileError
from hierlpr.io import (
    read_ranking,
    read_scores,
    read_truth,
    write_ranking,
    write_scores,
    write_truth,
)

H = Hierarchy([("A", "B"), ("A", "C")])


def truth_of(path):
    table = read_truth(path, H).table
    return dict(zip(table.samples, dense(table.values).astype(int).tolist(), strict=True))


@pytest.mark.parametrize("end", [".csv", ".csv.gz", ".parquet", ".tsv"])
def test_scores_round_trip(tmp_path, end):
    rng = np.random.default_rng(0)
    dense = Table(rng.normal(size=(4, 3)), H.labels, ("a", "b", "c", 'd,"e"'))
    write_scores(tmp_path / f"s{end}", dense)
    back = read_scores(tmp_path / f"s{end}", H).table
    assert back.samples == dense.samples
    np.testing.assert_array_equal(back.values, dense.values)
    stored = sparse.csr_array((np.array([0.0, 2.5]), np.array([1, 0]), np.array([0, 1, 2])),
                              shape=(2, 3))  # fmt: skip
    write_scores(tmp_path / f"t{end}", Table(stored, H.labels, ("x", "y")))
    again = read_scores(tmp_path / f"t{end}", H).table.values
    assert again.nnz == 2
    np.testing.assert_array_equal(again.toarray(), stored.toarray())


@pytest.mark.parametrize("end", [".csv", ".parquet", ".tsv"])
def test_truth_round_trip(tmp_path, end):
    truth = Table(np.array([[1.0, 1, 0], [0, 0, 0], [1, 1, 1]]), H.labels, ("a", "b", "c"))
    write_truth(tmp_path / f"t{end}", truth)
    back = truth_of(tmp_path / f"t{end}")
    expected = {"a": [1, 1, 0], "b": [0, 0, 0], "c": [1, 1, 1]}
    if end == ".tsv":
        del expected["b"]  # CAFA cannot say it
    assert back == expected


def ranked(samples=("s1", "s2")):
    """Return a ranking of three instances: A of the second sample, A of the first, C."""
    order = rank(np.array([[0.5, 0.0, 0.0], [0.9, 0.0, 1 / 3]]), H, top=3)
    return replace(order, samples=samples)


@pytest.mark.parametrize("end", [".csv", ".csv.gz", ".parquet", ".tsv"])
def test_ranking_round_trip(tmp_path, end):
    path = tmp_path / f"r{end}"
    order = ranked()
    assert write_ranking(path, order, call=[True, True, False]) == 3
    back = read_ranking(path, H)
    assert [back.samples[i] for i in back.sample] == ["s2", "s1", "s2"]
    np.testing.assert_array_equal(back.label, [0, 0, 2])
    digits = 1e-15 if end == ".parquet" else 5e-7  # text holds six digits
    np.testing.assert_allclose(back.score, order.score, rtol=0, atol=digits)
    if end == ".tsv":
        assert back.lpr is None
        assert path.read_text().splitlines()[1] == "s1\tA\t0.5"
    else:
        np.testing.assert_allclose(back.lpr, order.lpr, rtol=0, atol=digits)
        assert back.call.tolist() == [True, True, False]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.csv.gz"])
def test_unknown_truth_is_written_and_read_again(tmp_path, name):
    values = np.array([[1, np.nan, 0], [np.nan, 1, np.nan], [0, 0, 0]])
    write_truth(tmp_path / name, Table(values, H.labels, ("s1", "s2", "s3")))
    read = read_truth(tmp_path / name, H)
    np.testing.assert_array_equal(read.table.values, values)
    assert read.samples == ("s1", "s2", "s3")
    with pytest.raises(DataError, match="CAFA layout"):
        write_truth(tmp_path / "t.tsv", Table(values, H.labels, ("s1", "s2", "s3")))


def test_rows_of_a_ranking_come_in_the_order_of_ranks_or_scores(tmp_path):
    """Of repeated pairs the one with the best rank or score counts."""
    rows = "b,A,0.5,3\na,B,0.4,4\na,A,0.9,1\nb,A,0.5,2\n"
    path = write(tmp_path / "r.csv", "sample,label,score,rank\n" + rows)
    read = read_ranking(path, H, lenient=True)
    assert [read.samples[i] for i in read.sample] == ["a", "b", "a"]
    assert read.score.tolist() == [0.9, 0.5, 0.4]
    cafa = write(tmp_path / "p.tsv", "b\tC\t0.50\na\tB\t0.50\na\tA\t0.90\nb\tC\t0.70\n")
    read = read_ranking(cafa, H)
    assert [read.samples[i] for i in read.sample] == ["a", "b", "a"]
    assert [H.labels[k] for k in read.label] == ["A", "C", "B"]
    assert read.score.tolist() == [0.9, 0.7, 0.5]


def test_rankings_that_cannot_be_read_or_written(tmp_path):
    for text in ("rank,sample,label\n1,a,A\n", "sample,label,score\na,A,1\na,Q,1\n"):
        with pytest.raises(FileError, match="line"):
            read_ranking(write(tmp_path / "r.csv", text), H)
    again = write(tmp_path / "d.csv", "sample,label,score\na,A,1\na,A,1\n")
    with pytest.raises(FileError, match="more than once"):
        read_ranking(again, H)
    assert len(read_ranking(again, H, lenient=True)) == 1
    with pytest.raises(DataError, match="names with blanks"):
        write_ranking(tmp_path / "x.tsv", ranked(("a b", "c")))
    with pytest.raises(DataError, match="line ends"):
        write_ranking(tmp_path / "x.csv", ranked(("a\nb", "c")))
    with pytest.raises(DataError, match="ending of the ranking file"):
        write_ranking(tmp_path / "x.xls", ranked())
    with pytest.raises(DataError, match="call has shape"):
        write_ranking(tmp_path / "x.csv", ranked(), call=[True])
    with pytest.raises(FileError, match="cannot be written"):
        write_ranking(tmp_path / "nowhere" / "x.csv", ranked())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.csv", "r.csv"]


def test_names_that_look_like_comments_or_formulas_come_back(tmp_path):
    names = ("#1", "=1+1", 'q"uote', "a,b")
    table = Table(np.arange(12.0).reshape(4, 3), H.labels, names)
    for end in ("csv", "parquet"):
        write_scores(tmp_path / f"s.{end}", table)
        assert read_scores(tmp_path / f"s.{end}", H).samples == names
