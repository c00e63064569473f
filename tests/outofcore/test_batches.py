"""Streamed scores are those that are read whole: the same values, or a message."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import scalecases as sc

from hierlpr import HierlprError
from hierlpr.data.tables import Table
from hierlpr.io import read_scores, read_truth, write_truth
from hierlpr.outofcore import batches
from hierlpr.outofcore.batches import RunOptions, ScoreBatches, read_samples


def filled(table):
    """Dense values, NaN where nothing is stored."""
    values = table.values
    if isinstance(values, np.ndarray):
        return values
    found = np.full(values.shape, np.nan)
    rows = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))
    found[rows, values.indices] = values.data
    return found


def streamed(path, hierarchy, **options):
    run = RunOptions(hierarchy, **options)
    source = ScoreBatches(str(path), run, keep_names=True)
    tables = [table for table, _ in source]
    return source, np.concatenate([filled(table) for table in tables]), tables


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_long_table_in_any_order_becomes_whole_samples(tmp_path, is_sparse):
    case = sc.make_case(is_sparse=is_sparse)
    h = case.model.hierarchy_
    order = np.random.default_rng(1).permutation(sc.sparse.csr_array(case.table.values).nnz)
    long = sc.long_table(case, order) if is_sparse else sc.complete_long_table(case)
    pq.write_table(long, tmp_path / "long.parquet")
    expected = read_scores(tmp_path / "long.parquet", h)
    source, values, tables = streamed(tmp_path / "long.parquet", h)
    assert len(tables) > 3
    assert tuple(source.names.to_pylist()) == expected.samples
    np.testing.assert_array_equal(values, filled(expected.table))
    assert {isinstance(table.values, np.ndarray) for table in tables} == {not is_sparse}


@pytest.mark.usefixtures("small_batches")
def test_repeated_samples_are_refused_or_left_out(tmp_path, monkeypatch):
    case = sc.make_case()
    h, table = case.model.hierarchy_, sc.wide_table(case)
    pq.write_table(sc.pa.concat_tables([table, table.slice(7, 1)]), tmp_path / "s.parquet")
    with pytest.raises(HierlprError, match="row 601: sample 's00007' occurs more than once"):
        streamed(tmp_path / "s.parquet", h)
    # Names that only share a hash are different samples.
    few = lambda names: np.array([len(x) for x in names.to_pylist()], np.int64)  # noqa: E731
    monkeypatch.setattr("hierlpr.io.table_files.name_hashes", few)
    with pytest.raises(HierlprError, match="row 601: sample 's00007' occurs more than once"):
        streamed(tmp_path / "s.parquet", h)
    source, _, _ = streamed(tmp_path / "s.parquet", h, lenient=True)
    assert source.names.to_pylist() == list(case.table.samples)
    assert "1 row(s) with problems were skipped" in source.report.lines()[-1]


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("layout", ["wide", "long", "sparse"])
def test_a_random_subset_holds_whole_samples(tmp_path, monkeypatch, layout):
    case = sc.make_case(is_sparse=layout == "sparse")
    tables = {"wide": sc.wide_table, "long": sc.complete_long_table, "sparse": sc.long_table}
    path = sc.write_text(tmp_path / "s.csv", tables[layout](case))
    options = RunOptions(case.model.hierarchy_)
    monkeypatch.setattr(batches, "FIT_BYTES", 10**9 // 2000)
    drawn = [read_samples(str(path), options, seed) for seed in (0, 0, 1)]
    names = [read.samples for read, _ in drawn]
    assert names[0] == names[1] != names[2]
    assert 80 < len(names[0]) < 300
    assert f"{len(names[0])} of 600 samples" in drawn[0][1][0]
    values = filled(case.table)
    for read, _ in drawn:
        rows = [case.table.samples.index(name) for name in read.samples]
        np.testing.assert_array_equal(filled(read.table), values[rows])
    # Every sample has the same chance: the mean number is that of all samples.
    numbers = [case.table.samples.index(name) for name in (*names[0], *names[2])]
    assert abs(np.mean(numbers) - 300) < 4 * 173 / np.sqrt(len(numbers))


@pytest.mark.parametrize("end", ["wide.csv", "long.csv", "cafa.tsv"])
def test_truth_of_some_samples(tmp_path, end):
    h = sc.make_case().model.hierarchy_
    held = h.close_upward(np.random.default_rng(0).random((50, h.n_labels)) < 0.2)
    names = tuple(f"s{i}" for i in range(50))
    write_truth(tmp_path / end, Table(held.astype(float), h.labels, names))
    if end == "long.csv":
        pairs = [f"{names[i]},{h.labels[k]}" for i, k in np.argwhere(held)]
        (tmp_path / end).write_text("\n".join(["sample,label", *pairs]))
    some = tuple(name for name, row in zip(names, held, strict=True) if row.any())[::3]
    read = RunOptions(h).truth(tmp_path / end, sc.pa.array(some))
    whole = read_truth(tmp_path / end, h)
    assert (read.layout, read.is_cafa, read.samples) == (whole.layout, whole.is_cafa, some)
    assert (np.nan_to_num(filled(read.table)) == held[[names.index(x) for x in some]]).all()
