"""The labels of every sample as sorted rows: truth that is held without a matrix library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import close_rows

__all__ = ["LabelSets"]


@dataclass(frozen=True, slots=True, eq=False)
class LabelSets:
    """Sets of labels; those of sample i are ``label[row_ptr[i]:row_ptr[i + 1]]``, each once.

    Examples
    --------
    >>> sets = LabelSets.of(np.array([[1, 0, 1], [0, 0, 0]]))
    >>> sets.row_ptr, sets.label, sets.shape
    (array([0, 2, 2]), array([0, 2], dtype=int32), (2, 3))
    """

    row_ptr: NDArray[np.int64]
    label: NDArray[np.int32]
    n_labels: int

    @classmethod
    def of(cls, matrix: Any) -> LabelSets:
        """Take what is not zero in a dense or sparse matrix."""
        if hasattr(matrix, "tocsr"):
            csr = matrix.tocsr()
            kept = csr.data != 0
            before = np.append(0, np.cumsum(kept))
            return cls(before[csr.indptr], csr.indices[kept].astype(np.int32), csr.shape[1])
        row, label = np.nonzero(np.asarray(matrix))
        counts = np.bincount(row, minlength=len(matrix))
        return cls(np.append(0, np.cumsum(counts)), label.astype(np.int32), np.shape(matrix)[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and labels."""
        return self.row_ptr.size - 1, self.n_labels

    def run(self, first: int, stop: int) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
        """Labels of a run of samples, and the place in the run of the sample of each."""
        ptr = self.row_ptr[first : stop + 1]
        return self.label[ptr[0] : ptr[-1]], np.repeat(np.arange(stop - first), np.diff(ptr))

    def take(self, rows: NDArray[np.integer[Any]]) -> LabelSets:
        """Return some of the samples."""
        first, size = self.row_ptr[rows], self.row_ptr[rows + 1] - self.row_ptr[rows]
        ptr = np.append(0, np.cumsum(size))
        at = np.repeat(first - ptr[:-1], size) + np.arange(ptr[-1])
        return LabelSets(ptr, self.label[at], self.n_labels)

    def closed(self, hierarchy: Hierarchy) -> LabelSets:
        """Add all ancestors."""
        ptr, number = close_rows(hierarchy, self.row_ptr, hierarchy.position[self.label])
        return LabelSets(ptr, hierarchy.order[number], self.n_labels)

    def with_empty(self, n_more: int) -> LabelSets:
        """Append samples without any label."""
        ptr = np.append(self.row_ptr, np.full(n_more, self.row_ptr[-1]))
        return LabelSets(ptr, self.label, self.n_labels)
