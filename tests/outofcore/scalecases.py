"""Small data with many ties, a fitted model, and its ranking in memory to compare with."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from scipy import sparse

from cases import hierarchy_of, random_forest
from hierlpr import Hierarchy, HierLPR
from hierlpr.data.tables import Table
from hierlpr.io import read_ranking

N_LABELS = 12


@dataclass(frozen=True)
class Case:
    model: HierLPR
    table: Table  # scores with samples named

    @property
    def n_samples(self):
        return self.table.n_samples

    def expected(self, top=None, calls_only=False):
        """Rows (rank, sample, label, lpr, score, call) of the path in memory."""
        order = self.model.rank(self.table, top=top)
        calls, _ = self.model.calls(self.table, self.model.cutoff_)
        call = np.asarray(calls[order.sample, order.label]).ravel()
        columns = [
            np.arange(1, len(order) + 1),
            np.array(self.table.samples, dtype=object)[order.sample],
            np.array(self.table.labels, dtype=object)[order.label],
            order.lpr,
            order.score,
            call,
        ]
        return [column[call] if calls_only else column for column in columns]


@lru_cache(maxsize=4)
def make_case(n_samples=600, *, is_sparse=False, seed=0, dag=False):
    """Scores on a coarse grid, so that blocks of different samples tie all the time."""
    rng = np.random.default_rng(seed)
    hierarchy = hierarchy_of(random_forest(rng, N_LABELS))
    if dag:
        edges = [*hierarchy.edges, ("L0", "L11"), ("L1", "L11"), ("L2", "L11")]
        hierarchy = Hierarchy(dict.fromkeys(edges), labels=hierarchy.labels)
    truth = hierarchy.close_upward(rng.random((n_samples, N_LABELS)) < 0.08)
    scores = np.round(np.abs(rng.normal(size=truth.shape) + truth), 1)
    names = tuple(f"s{i:05d}" for i in range(n_samples))
    values = scores
    if is_sparse:
        kept = rng.random(scores.shape) < 0.3
        kept[np.arange(n_samples), rng.integers(0, N_LABELS, n_samples)] = True
        rows, columns = np.nonzero(kept)
        values = sparse.csr_array((scores[kept], (rows, columns)), shape=scores.shape)
    model = HierLPR(hierarchy, lpr="isotonic").fit(values[:300], truth[:300])
    model.calibrate(values[300:], truth[300:], maximize="f1")
    return Case(model, Table(values, hierarchy.labels, names))


def wide_table(case):
    values = case.table.values
    columns = {label: values[:, i] for i, label in enumerate(case.table.labels)}
    return pa.table({"sample": list(case.table.samples), **columns})


def long_table(case, order=None):
    csr = sparse.csr_array(case.table.values)
    rows = np.repeat(np.arange(case.n_samples), np.diff(csr.indptr))
    order = np.arange(csr.nnz) if order is None else order
    samples = np.array(case.table.samples, dtype=object)[rows[order]]
    labels = np.array(case.table.labels, dtype=object)[csr.indices[order]]
    return pa.table({"sample": samples, "label": labels, "score": csr.data[order]})


def write_inputs(folder: Path, case):
    """Model and scores on disk; returns their paths."""
    case.model.save(folder / "model.hlpr")
    is_sparse = not isinstance(case.table.values, np.ndarray)
    table = long_table(case) if is_sparse else wide_table(case)
    pq.write_table(table, folder / "scores.parquet", row_group_size=50)
    return folder / "model.hlpr", folder / "scores.parquet"


def write_text(path, table):
    pacsv.write_csv(table, path, pacsv.WriteOptions(quoting_style="needed"))
    return path


def assert_same(out, expected):
    """Check that a ranking file holds these rows in this order."""
    found = pq.read_table(out).to_pydict()
    for name, column in zip(["rank", "sample", "label", "lpr", "score", "call"], expected,
                            strict=True):  # fmt: skip
        assert found[name] == column.tolist(), name
    assert len(read_ranking(out)) == len(expected[0])


def complete_long_table(case):
    """A long table that lists every pair, in random order."""
    n, k = case.table.values.shape
    order = np.random.default_rng(1).permutation(n * k)
    samples = np.array(case.table.samples, dtype=object)[order // k]
    labels = np.array(case.table.labels, dtype=object)[order % k]
    return pa.table({"sample": samples, "label": labels, "score": case.table.values.ravel()[order]})
