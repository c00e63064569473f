"""Truth of any size as sparse rows, read in a stream, and samples matched to it by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix
from hierlpr.exceptions import HierlprError
from hierlpr.io import ReadReport, Watch
from hierlpr.io.pairing import Absent, Match, Seen, judge_absent, unscored_note
from hierlpr.io.row_rules import LabelNumbers, none_left, not_closed
from hierlpr.io.table_files import TableFormat, open_table
from hierlpr.scale.budget import Budget
from hierlpr.scale.engine import engine, stream
from hierlpr.scale.names import open_names
from hierlpr.scale.source import Partition
from hierlpr.scale.spool import open_source

if TYPE_CHECKING:
    from scipy import sparse

    from hierlpr.hierarchy import Hierarchy

__all__ = ["StreamedTruth", "match_names", "stream_truth", "truth_rows"]

TRUTH_BYTES = 16  # of working memory for one positive: by rows, by labels, and while they change


@dataclass(frozen=True, slots=True, eq=False)
class StreamedTruth:
    """Truth closed upward (CSR, bool); the names of its rows lie in `folder`, by `numbers`."""

    values: sparse.csr_array
    numbers: NDArray[np.int64]
    folder: Path
    n_named: int
    layout: str
    report: ReadReport


def stream_truth(
    path: str,
    hierarchy: Hierarchy,
    folder: Path,
    budget: Budget,
    *,
    aliases: Mapping[str, str] | None,
    close: bool,
    lenient: bool,
) -> StreamedTruth:
    """Read truth as `hierlpr.io.read_truth` does, holding the positives alone."""
    folder.mkdir()
    source, watch = open_source(
        path, hierarchy, folder, budget, aliases=aliases, lenient=lenient, content="truth"
    )
    rows = _Positives(hierarchy, watch, budget, folder, source.n_samples)
    for batch in source.batches(Partition(0, source.pieces), hierarchy, watch):
        rows.add(batch.table.values, batch.numbers)
    if rows.n_rows == 0 and source.kind == "wide":
        raise none_left(watch)
    if rows.n_added and not (close or lenient or source.layout in ("cafa", "arff")):
        table = open_table(path, TableFormat.of("truth"), Watch(path, lenient=True))
        numbered = LabelNumbers(hierarchy, aliases)
        raise not_closed(*rows.first_breach, rows.n_added, numbered, table, watch)
    watch.counts["ancestors_added"] += rows.n_added
    values, numbers = rows.finish(is_sparse=source.kind == "long")
    report = watch.report(samples=numbers.size, labels=hierarchy.n_labels)
    return StreamedTruth(values, numbers, folder, source.n_samples, source.layout, report)


class _Positives:
    """Collect the labels of samples, with their ancestors."""

    def __init__(
        self, hierarchy: Hierarchy, watch: Watch, budget: Budget, folder: Path, n_named: int
    ) -> None:
        self._hierarchy, self._watch, self._budget = hierarchy, watch, budget
        self._folder, self._n_named = folder, n_named
        self._columns: list[NDArray[np.int32]] = []
        self._numbers: list[NDArray[np.int64]] = []
        self._sizes: list[NDArray[np.int64]] = []
        self._n_positives = self.n_added = self.n_rows = 0
        self.first_breach = ("", "", "")  # sample, parent, child

    def add(self, values: Matrix, numbers: NDArray[np.int64]) -> None:
        from scipy import sparse  # late: an evaluation imports this module, and needs no SciPy

        self.n_rows += numbers.size
        given = sparse.csr_array(values, dtype=bool)
        given.eliminate_zeros()
        closed = self._hierarchy.close_upward(given)
        closed.sort_indices()
        if closed.nnz > given.nnz and not self.n_added:
            row = int(np.argmax(np.diff(closed.indptr) != np.diff(given.indptr)))
            _, parent, child = self._hierarchy.violations(given[[row]])[0]
            sample = _names(self._folder, self._n_named, numbers[[row]])[0]
            self.first_breach = (sample, parent, child)
        self.n_added += int(closed.nnz - given.nnz)
        self._n_positives += int(closed.nnz)
        if self._n_positives * TRUTH_BYTES > self._budget.memory:
            raise HierlprError(
                f"{self._watch.path}: {self._n_positives:,} positives and more do not fit in the "
                "memory.\nHint: give more --memory; a positive takes "
                f"{TRUTH_BYTES} bytes of it."
            )
        self._columns.append(closed.indices.astype(np.int32))
        self._sizes.append(np.diff(closed.indptr).astype(np.int64))
        self._numbers.append(numbers)

    def finish(self, *, is_sparse: bool) -> tuple[sparse.csr_array, NDArray[np.int64]]:
        """Return the matrix and the number of each row among the names."""
        from scipy import sparse

        numbers = np.concatenate([np.empty(0, np.int64), *self._numbers])
        sizes = np.concatenate([np.empty(0, np.int64), *self._sizes])
        if is_sparse:  # samples without any label may be in no row group
            every = np.zeros(self._n_named, dtype=np.int64)
            every[numbers] = sizes
            numbers, sizes = np.arange(self._n_named), every
        columns = np.concatenate([np.empty(0, np.int32), *self._columns])
        self._columns.clear()
        ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        shape = (numbers.size, self._hierarchy.n_labels)
        if ptr[-1] < 2**31:
            ptr = ptr.astype(np.int32)  # else SciPy would make the columns 64 bits wide too
        return sparse.csr_array((np.ones(columns.size, bool), columns, ptr), shape=shape), numbers


# -- matching ---------------------------------------------------------------------------------


def match_names(
    folder: Path,
    n_named: int,
    numbers: NDArray[np.int64],
    truth: StreamedTruth,
    budget: Budget,
    *,
    absent: Absent | None,
    source: str,
) -> Match:
    """Find samples in the truth by name, as `hierlpr.io.pairing` does, without holding names.

    `numbers` are those of the samples among the names in `folder`.
    """
    at = _joined(folder, n_named, truth, budget)[numbers]
    lost = np.flatnonzero(at < 0)
    seen = Seen(
        source, "scored", at.size, _names(folder, n_named, numbers[:3]),
        truth.report.path, truth.layout, truth.numbers.size,
        _names(truth.folder, truth.n_named, truth.numbers[:3]),
        lost.size, _names(folder, n_named, numbers[lost[:5]]),
    )  # fmt: skip
    negative, notes = judge_absent(seen, absent)
    is_scored = np.zeros(truth.numbers.size, dtype=bool)
    is_scored[at[at >= 0]] = True
    unscored = np.flatnonzero(~is_scored)
    if unscored.size:
        first = _names(truth.folder, truth.n_named, truth.numbers[unscored[:5]])
        notes = (*notes, unscored_note(unscored.size, first))
    return Match(at, negative, notes)


def _joined(folder: Path, n_named: int, truth: StreamedTruth, budget: Budget) -> NDArray[np.int64]:
    """Row in the truth of every name in the folder, -1 for none."""
    import pyarrow as pa

    at = np.full(n_named, -1, dtype=np.int64)
    row = np.full(truth.n_named, -1, dtype=np.int64)
    row[truth.numbers] = np.arange(truth.numbers.size)
    with engine(truth.folder, budget.engine_memory) as connection:
        for table, place, count in (
            ("scored", folder, n_named), ("known", truth.folder, truth.n_named)
        ):  # fmt: skip
            names = pa.table({"name": open_names(place, count), "run": np.arange(count)})
            connection.register(table, names)
        query = "SELECT s.run, k.run FROM scored s JOIN known k USING (name)"
        for batch in stream(connection, query, 1 << 18):
            scored, known = (batch.column(i).to_numpy() for i in range(2))
            used = row[known] >= 0  # a repeated name has rows that are left out
            at[scored[used]] = row[known[used]]
    return at


def _names(folder: Path, count: int, numbers: NDArray[np.int64]) -> list[str]:
    names: list[str] = open_names(folder, count).take(numbers).to_pylist()
    return names


def truth_rows(truth: sparse.csr_array, at: NDArray[np.int64]) -> sparse.csr_array:
    """Return rows of the truth by place, -1 for one without any label."""
    from scipy import sparse

    if at.size == truth.shape[0] and np.array_equal(at, np.arange(at.size)):
        return truth
    # Place -1 is an empty row at the end: a sample without any label.
    ptr = np.append(truth.indptr, truth.indptr[-1])
    shape = (truth.shape[0] + 1, truth.shape[1])
    with_empty = sparse.csr_array((truth.data, truth.indices, ptr), shape=shape)
    return with_empty[np.where(at < 0, truth.shape[0], at)]
