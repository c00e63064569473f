"""Labels that are implied but not listed, in files of any size: counted, then written by label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr.data.listing import close_listed
from hierlpr.lpr import LPRModel
from hierlpr.lpr.implied import Column, ListedCounts, count_listed, halves_of, unseen_lpr
from hierlpr.scale.store import Segment, Store, write_segment

if TYPE_CHECKING:
    from hierlpr.hierarchy import Hierarchy

__all__ = ["StoredGaps"]


class StoredGaps:
    """What `hierlpr.lpr.fit_listed` finds out about implied labels, a batch of samples at a time.

    Parameters
    ----------
    store : Store
        Listed scores.
    hierarchy : Hierarchy
    rows : ndarray
        Rows of the store to fit on, rising.
    truth : csr_array of bool of shape (rows.size, n_labels)

    Attributes
    ----------
    half : ndarray
        Which half of the samples each belongs to.
    """

    def __init__(
        self, store: Store, hierarchy: Hierarchy, rows: NDArray[np.intp], truth: sparse.csr_array
    ) -> None:
        self._store, self._hierarchy, self._truth = store, hierarchy, truth
        self._place = store.places(rows)
        self.half = halves_of(store.keys[rows])

    def _batches(self) -> Iterator[tuple[sparse.csr_array, NDArray[np.int64]]]:
        """Scores of the samples to fit on, and their places among them."""
        for values, numbers in self._store.batches():
            place = self._place[numbers].astype(np.int64)
            kept = place >= 0
            yield sparse.csr_array(values[kept]), place[kept]

    def count(self) -> list[ListedCounts]:
        """Count the samples of each half that list and that imply each label."""
        counts = [ListedCounts.none(self._hierarchy.n_labels) for _ in range(2)]
        for values, place in self._batches():
            for side in range(2):
                mine = self.half[place] == side
                closed = close_listed(values[mine], self._hierarchy)
                counts[side].add(count_listed(closed, self._truth[place[mine]]))
        return counts

    def column(
        self, models: Sequence[LPRModel], by_label: sparse.csc_array, folder: Path
    ) -> Column:  # fmt: skip
        """Return what `fit_implied` asks for, from a work file; `models` as in `unseen_lpr`."""
        n_rows, n_labels = by_label.shape
        file, segments, first = folder / "implied", [], 0
        with file.open("wb") as stream:
            for values, place in self._batches():
                lpr = unseen_lpr(models, self.half[place], values)
                closed = close_listed(lpr, self._hierarchy)
                gone = np.concatenate([[0], np.cumsum(closed.is_implied)])
                below = closed.value[closed.is_implied], closed.label[closed.is_implied]
                implied = sparse.csr_array((*below, gone[closed.row_ptr]), shape=values.shape)
                segments.append(Segment(str(file), *write_segment(stream, implied, place), first))
                first += place.size
        store = Store(segments, n_labels, n_rows)
        everything = np.arange(n_rows, dtype=np.int32)

        def column(label: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
            ((row, below),) = store.columns([label], everything)
            held = by_label.indices[by_label.indptr[label] : by_label.indptr[label + 1]]
            return below, np.isin(row, held, assume_unique=True)

        return column
