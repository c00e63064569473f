"""A streamed evaluation gives what one in memory gives, up to rounding."""

import gzip
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import scalecases as sc

from hierlpr import HierlprError, workflows
from hierlpr._utils.checks import effective_number
from hierlpr.data.tables import Table
from hierlpr.io import read_hierarchy, read_truth, write_hierarchy, write_ranking, write_truth
from hierlpr.outofcore import batches, evaluate, resources


@pytest.fixture(scope="module", params=["forest", "dag", "sparse"])
def ranked(request, tmp_path_factory):
    """A ranking with ties, its truth, and the hierarchy."""
    folder = tmp_path_factory.mktemp(request.param)
    case = sc.make_case(400, is_sparse=request.param == "sparse", dag=request.param == "dag")
    h = case.model.hierarchy_
    truth = h.close_upward(np.random.default_rng(1).random((400, h.n_labels)) < 0.1)
    write_hierarchy(folder / "h.csv", h)
    write_truth(folder / "truth.csv", Table(truth.astype(float), h.labels, case.table.samples))
    order = case.model.rank(case.table)
    call = case.expected()[5]
    for name in ("ranked.parquet", "ranked.csv.gz", "p.tsv"):
        write_ranking(folder / name, order, call=call)
    rows = gzip.decompress((folder / "ranked.csv.gz").read_bytes()).decode().splitlines()
    calls = [row for row in rows if not row.endswith(",0")]
    (folder / "calls.csv").write_text("\n".join(calls))
    return folder


def both(folder, monkeypatch, ranking="ranked.parquet", **options):
    """Evaluate in memory and streamed; return the former after comparing them."""
    files = folder / ranking, folder / "truth.csv", folder / "h.csv"
    whole = workflows.evaluate_file(*files, **options)
    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "EVALUATE_BYTES", 10**9)
        patch.setattr(resources, "CHUNK_ROWS", 100)
        size = property(lambda self: 700)
        patch.setattr(resources.RunOptions, "batch_instances", size)
        streamed = workflows.evaluate_file(*files, **options)
    ours, theirs = streamed.evaluation.as_dict(), whole.evaluation.as_dict()
    assert ours.keys() == theirs.keys()
    for part in ours:
        assert ours[part] == pytest.approx(theirs[part], rel=1e-9), part
    assert streamed.notes == whole.notes
    assert streamed.reports[0].lines() == whole.reports[0].lines()
    return whole


@pytest.mark.parametrize("name", ["ranked.parquet", "ranked.csv.gz", "calls.csv", "p.tsv"])
def test_streaming_changes_nothing(ranked, monkeypatch, name):
    found = both(ranked, monkeypatch, name).evaluation
    assert found.ranking["parents after a child"] == 0 or name == "p.tsv"
    assert found.sizes["samples"] == 400


def test_rows_in_any_order_are_ranked_by_rank(ranked, tmp_path, monkeypatch):
    for file in ("h.csv", "truth.csv"):
        shutil.copy(ranked / file, tmp_path)
    table = pq.read_table(ranked / "ranked.parquet")
    order = np.random.default_rng(3).permutation(table.num_rows)
    pq.write_table(table.take(order), tmp_path / "mixed.parquet")
    mixed = both(tmp_path, monkeypatch, "mixed.parquet").evaluation
    assert mixed.ranking == pytest.approx(both(ranked, monkeypatch).evaluation.ranking)


def test_unknown_truth_weights_and_missing_samples(ranked, tmp_path, monkeypatch):
    h = read_hierarchy(ranked / "h.csv")
    read = read_truth(ranked / "truth.csv", h)
    rng = np.random.default_rng(5)
    values = np.array(read.table.values)
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:3] = np.nan
    for file in ("h.csv", "ranked.parquet"):
        shutil.copy(ranked / file, tmp_path)
    names = (*read.samples[:390], "other")
    truth = np.vstack([values[:390], np.zeros((1, h.n_labels))])
    write_truth(tmp_path / "truth.csv", Table(truth, h.labels, names))
    weight = np.round(rng.exponential(size=len(names)), 3)
    weight[::11] = 0.0
    rows = [f"{name},{own}" for name, own in zip(names, weight, strict=True)]
    (tmp_path / "w.csv").write_text("\n".join(["sample,weight", *rows]) + "\n")
    options = {"weights": tmp_path / "w.csv", "missing_truth": "skip"}
    found = both(tmp_path, monkeypatch, **options)
    assert found.evaluation.sizes["effective samples"] == pytest.approx(effective_number(weight))
    assert "1 samples with truth are not in the ranking" in found.notes[-1]
    both(tmp_path, monkeypatch, missing_truth="negative")


def test_repeated_pairs_are_refused(ranked, tmp_path, small_batches):
    table = pq.read_table(ranked / "ranked.parquet")
    pq.write_table(sc.pa.concat_tables([table, table.slice(5, 1)]), tmp_path / "r.parquet")
    with pytest.raises(HierlprError, match="more than once"):
        workflows.evaluate_file(tmp_path / "r.parquet", ranked / "truth.csv", ranked / "h.csv")
    assert batches.RANK_BYTES == 10**9
