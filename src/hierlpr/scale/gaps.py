"""Labels that are implied but not listed, in files of any size: counted, then written by label."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr.data.listing import close_listed
from hierlpr.lpr import LPRModel
from hierlpr.lpr.implied import Column, ListedCounts, count_listed
from hierlpr.scale.budget import Budget
from hierlpr.scale.samples import Samples
from hierlpr.scale.store import SparseStore

__all__ = ["StoredGaps"]


class StoredGaps:
    """What `hierlpr.lpr.fit_listed` finds out about implied labels, a batch of samples at a time.

    Parameters
    ----------
    data : Samples
    store : SparseStore
        Of the same samples.
    rows : ndarray
        Rows of the store to fit on, rising.
    truth : csr_array of bool of shape (rows.size, n_labels)
    """

    def __init__(
        self, data: Samples, store: SparseStore, rows: NDArray[np.intp], truth: sparse.csr_array
    ) -> None:
        self._data, self._truth = data, truth
        self._place = store.places(rows)
        self._n_gaps = 0

    def _batches(self) -> Iterator[tuple[sparse.csr_array, NDArray[np.int64]]]:
        """Scores of the samples to fit on, and their places among them."""
        for batch in self._data.batches():
            place = self._place[batch.numbers].astype(np.int64)
            kept = place >= 0
            yield sparse.csr_array(batch.table.values[kept]), place[kept]

    def count(self) -> ListedCounts:
        """Count the samples that list and that imply each label."""
        counts = ListedCounts.none(self._data.hierarchy.n_labels)
        for values, place in self._batches():
            closed = close_listed(values, self._data.hierarchy)
            counts.add(count_listed(closed, self._truth[place]))
        self._n_gaps = int(counts.implied.total.sum())
        return counts

    @contextmanager
    def column(
        self, lpr: LPRModel, by_label: sparse.csc_array, folder: Path, budget: Budget
    ) -> Iterator[Column]:
        """Give what `hierlpr.lpr.implied.fit_implied` asks for, from work files."""
        h = self._data.hierarchy
        n_rows, n_labels = by_label.shape
        target = folder / "implied"
        target.mkdir()
        n_buckets = max(1, -(-self._n_gaps // budget.sorted_entries))
        store = SparseStore(target, n_rows, n_labels, n_buckets)
        try:
            for values, place in self._batches() if self._n_gaps else ():
                closed = close_listed(lpr.curves.evaluate(values), h)
                gone = np.concatenate([[0], np.cumsum(closed.is_implied)])
                below = closed.value[closed.is_implied], closed.label[closed.is_implied]
                store.add(
                    sparse.csr_array((*below, gone[closed.row_ptr]), shape=values.shape), place
                )
            store.finish()
            everything = np.arange(n_rows, dtype=np.int32)

            def column(label: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
                row, below = store.column(label, everything)
                held = by_label.indices[by_label.indptr[label] : by_label.indptr[label + 1]]
                return below, np.isin(row, held, assume_unique=True)

            yield column
        finally:
            store.close()
