"""Rows of labels: those that a sample has, and those that a table of scores lists for it.

A table of scores is *complete* (dense arrays and frames, wide files, long files with every pair) or
*listed* (CSR matrices, long files with gaps). A pair that is not listed is never called, unless it
is implied: an ancestor of a listed label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import close_rows

if TYPE_CHECKING:
    from scipy import sparse

    from hierlpr.data.tables import Table

Kind = Literal["complete", "listed"]


@dataclass(frozen=True, slots=True, eq=False)
class LabelSets:
    """Sets of labels; those of sample i are ``label[row_ptr[i]:row_ptr[i + 1]]``, each once.

    `open` are the labels of which nothing was given, None if there is no such label. Some of them
    are known all the same, from labels below or above: see :mod:`hierlpr.data.partial_truth`.

    Examples
    --------
    >>> sets = LabelSets.of(np.array([[1, 0, 1], [0, 0, 0]]))
    >>> sets.row_ptr, sets.label, sets.shape
    (array([0, 2, 2]), array([0, 2], dtype=int32), (2, 3))
    >>> LabelSets.of(np.array([[1, np.nan, 0]])).open.label
    array([1], dtype=int32)
    """

    row_ptr: NDArray[np.int64]
    label: NDArray[np.int32]
    n_labels: int
    open: LabelSets | None = None

    @classmethod
    def of(cls, matrix: Any) -> LabelSets:
        """Take what is not zero in a dense or sparse matrix; NaN is open."""
        if hasattr(matrix, "tocsr"):
            csr = matrix.tocsr()
            return cls.of_entries(csr.indptr, csr.indices, csr.data, csr.shape[1])
        values = np.asarray(matrix)
        row, label = np.nonzero(values)  # NaN is not zero
        counts = np.bincount(row, minlength=len(values))
        return cls.of_entries(
            np.append(0, np.cumsum(counts)), label, values[row, label], values.shape[1]
        )

    @classmethod
    def of_entries(
        cls, row_ptr: NDArray[Any], label: NDArray[Any], value: NDArray[Any], n_labels: int
    ) -> LabelSets:
        """Take what is not zero of entries as of a CSR matrix; NaN is open."""

        def where(kept: NDArray[np.bool_]) -> LabelSets:
            before = np.append(0, np.cumsum(kept))
            return cls(before[row_ptr], label[kept].astype(np.int32), n_labels)

        if value.dtype.kind != "f" or not np.isnan(value.sum()):
            return where(value != 0)
        is_open = np.isnan(value)
        return replace(where((value != 0) & ~is_open), open=where(is_open))

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
        more = None if self.open is None else self.open.take(rows)
        return LabelSets(ptr, self.label[at], self.n_labels, more)

    def closed(self, hierarchy: Hierarchy) -> LabelSets:
        """Add all ancestors; what is open stays open."""
        ptr, number = close_rows(hierarchy, self.row_ptr, hierarchy.position[self.label])
        return LabelSets(ptr, hierarchy.order[number], self.n_labels, self.open)

    def keys(self) -> NDArray[np.int64]:
        """Return the number of every (sample, label) pair among all pairs."""
        row = np.repeat(np.arange(self.row_ptr.size - 1), np.diff(self.row_ptr))
        return np.asarray(row * self.n_labels + self.label)

    def without(self, others: LabelSets) -> LabelSets:
        """Leave out the pairs that are in other sets of the same samples."""
        kept = np.isin(self.keys(), others.keys(), invert=True)
        before = np.append(0, np.cumsum(kept))
        return LabelSets(before[self.row_ptr], self.label[kept], self.n_labels, self.open)

    def as_given(self, *, is_dense: bool = False) -> Any:
        """Return a CSR or dense matrix: 1 where a label was given to hold, NaN where it is open."""
        if is_dense:
            dense = np.zeros(self.shape)
            for sets, given_as in ((self, 1.0), (self.open, np.nan)):
                if sets is not None:
                    label, row = sets.run(0, self.shape[0])
                    dense[row, label] = given_as
            return dense
        from scipy import sparse

        given = self if self.open is None else self.without(self.open)
        keys, n_open = given.keys(), 0
        if self.open is not None:
            keys, n_open = np.concatenate([keys, self.open.keys()]), self.open.label.size
        order = np.argsort(keys, kind="stable")
        row, label = np.divmod(keys[order], max(1, self.n_labels))
        ptr = np.searchsorted(row, np.arange(self.row_ptr.size))
        value = np.where(order < keys.size - n_open, 1.0, np.nan)
        return sparse.csr_array((value, label.astype(np.int32), ptr), shape=self.shape)

    def with_empty(self, n_more: int) -> LabelSets:
        """Append samples without any label."""
        ptr = np.append(self.row_ptr, np.full(n_more, self.row_ptr[-1]))
        more = None if self.open is None else self.open.with_empty(n_more)
        return LabelSets(ptr, self.label, self.n_labels, more)


# -- what a table of scores lists ---------------------------------------------------------------


def kind_of(table: Table) -> Kind:
    """Say how a table is taken if nothing else is known: the container decides, not the values."""
    return "complete" if isinstance(table.values, np.ndarray) else "listed"


def as_kind(table: Table, kind: Kind) -> Table:
    """Return the table as one of that kind, if it says exactly the same so; else refuse it."""
    if kind_of(table) == kind:
        return table
    values: Any = table.values
    is_list = table.is_list or kind == "complete"
    n_samples, n_labels = values.shape
    is_complete = kind == "listed" or values.nnz == n_samples * n_labels
    check_kind(kind, is_list=is_list, is_complete=is_complete)
    other = values.toarray() if kind == "complete" else _all_stored(values)
    return replace(table, values=other)


def check_kind(kind: Kind | None, *, is_list: bool, is_complete: bool) -> None:
    """Refuse scores that a model fitted on scores of `kind` would understand differently.

    `is_list` tells that they come as pairs (CSR, long files), `is_complete` that no pair lacks.
    """
    if kind == "complete" and not is_complete:
        raise DataError(
            "scores leave (sample, label) pairs out, but the model was fitted on complete scores, "
            "one for every pair.\n"
            "Hint: give a dense matrix or a file that lists every pair; scores.toarray() is one if "
            "what is absent had the score 0. Or fit and calibrate on scores that leave pairs out."
        )
    if kind == "listed" and not is_list:
        raise DataError(
            "scores have a value for every (sample, label) pair, but the model was fitted on "
            "listed scores (a CSR matrix, or a long file that leaves pairs out).\n"
            "Hint: give the pairs that the predictor listed as a CSR matrix or a long file: "
            "scipy.sparse.csr_array(scores) if 0 means not listed. Or fit and calibrate on "
            "complete scores."
        )


def _all_stored(values: Any) -> sparse.csr_array:
    from scipy import sparse

    n_samples, n_labels = values.shape
    column = np.tile(np.arange(n_labels, dtype=np.int32), n_samples)
    row_ptr = np.arange(n_samples + 1, dtype=np.int64) * n_labels
    return sparse.csr_array((values.reshape(-1), column, row_ptr), shape=values.shape)


class Closed(NamedTuple):
    """Rows of a listed table closed upward; labels ascend topologically within a row.

    `value` of a label that is only implied is the largest one listed below it.
    """

    row_ptr: NDArray[np.int64]
    label: NDArray[np.int32]
    value: NDArray[np.float64]
    is_implied: NDArray[np.bool_]

    def holds(self, truth: sparse.csr_array) -> NDArray[np.bool_]:
        """Look up every entry in the truth, a CSR matrix of bool without stored zeros."""
        from hierlpr._kernels.traversal import find_stored

        return find_stored(
            self.row_ptr,
            self.label,
            truth.indptr.astype(np.int64),
            truth.indices.astype(np.int32, copy=False),
            truth.shape[1],
        )


def close_listed(values: sparse.csr_array, hierarchy: Hierarchy) -> Closed:
    """Add the ancestors of every listed label. O(closure x parents)."""
    from hierlpr._kernels.traversal import raise_rows

    edges = (hierarchy.parent_ptr, hierarchy.parent_idx)
    stored = (values.indptr.astype(np.int64), hierarchy.position[values.indices])
    row_ptr, node = close_rows(hierarchy, *stored)
    value, is_listed = raise_rows(*stored, values.data, row_ptr, node, *edges)
    return Closed(row_ptr, hierarchy.order[node], value, ~is_listed)
