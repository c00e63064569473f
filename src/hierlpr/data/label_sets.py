"""Sets of labels of samples, and tables that list scores of only some labels.

A table of scores is *complete* (dense arrays and frames, wide files, long files with every pair) or
*listed* (CSR matrices, long files that omit pairs). A pair that is not listed is never called,
unless it is implied, that is, an ancestor of a listed label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._kernels.traversal import find_stored, raise_rows
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import close_rows

Kind = Literal["complete", "listed"]


@dataclass(frozen=True, slots=True, eq=False)
class LabelSets:
    """Sets of labels; those of sample i are ``label[row_ptr[i]:row_ptr[i + 1]]``, each once.

    `open` are the labels whose truth was not given, None if there are none. Some of them follow
    from labels below or above: see :mod:`hierlpr.data.partial_truth`.

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
        """Return the nonzero entries of a dense or sparse matrix; NaN is open."""
        csr = sparse.csr_array(matrix)
        value = csr.data

        def where(kept: NDArray[np.bool_]) -> LabelSets:
            before = np.append(0, np.cumsum(kept))
            return cls(before[csr.indptr], csr.indices[kept].astype(np.int32), csr.shape[1])

        if value.dtype.kind != "f" or not np.isnan(value.sum()):
            return where(value != 0)
        is_open = np.isnan(value)
        return replace(where((value != 0) & ~is_open), open=where(is_open))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and labels."""
        return self.row_ptr.size - 1, self.n_labels

    def run(self, first: int, stop: int) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
        """Return the labels of consecutive samples, and the number of the sample of each."""
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
        """Add all ancestors; open labels stay open."""
        ptr, number = close_rows(hierarchy, self.row_ptr, hierarchy.position[self.label])
        return LabelSets(ptr, hierarchy.order[number], self.n_labels, self.open)

    def without(self, others: LabelSets) -> LabelSets:
        """Remove the pairs that are in other sets of the same samples."""
        return replace(LabelSets.of(self.to_csr() > others.to_csr()), open=self.open)

    def to_csr(self) -> sparse.csr_array:
        """Return a matrix of bool that is True where a sample has a label."""
        ones = np.ones(self.label.size, dtype=bool)
        matrix = sparse.csr_array((ones, self.label, self.row_ptr), shape=self.shape)
        matrix.sort_indices()
        return matrix

    def as_given(self) -> sparse.csr_array:
        """Return a matrix with 1 where a label was given to hold, and NaN where it is open."""
        if self.open is None:
            return self.to_csr().astype(np.float64)
        return self.without(self.open).to_csr() + self.open.to_csr() * np.nan


class ClosedSets(NamedTuple):
    """Sets of labels closed upward."""

    sets: LabelSets
    n_added: int  # ancestors that were missing
    n_open: int
    breach: tuple[int, str, str] | None  # if none may be added: first sample, ancestor and label


def close_given(given: LabelSets, hierarchy: Hierarchy, *, close: bool) -> ClosedSets:
    """Close truth upward; with `close`, open ancestors of a label count as given."""
    closed, open_ = given.closed(hierarchy), given.open
    added = closed.label.size - given.label.size
    if open_ is not None:
        left = open_.without(closed)
        closed = replace(closed, open=left) if close else closed
        added -= 0 if close else open_.label.size - left.label.size
    n_open = 0 if closed.open is None else closed.open.label.size
    if close or added == 0:
        return ClosedSets(closed, added, n_open, None)
    missing = closed.without(given)
    missing = missing if open_ is None else missing.without(open_)
    sample = int(np.argmax(missing.row_ptr[1:] > 0))
    above = hierarchy.labels[missing.label[0]]
    below = set(hierarchy.descendants(above))
    first, stop = given.row_ptr[sample : sample + 2]
    held = (hierarchy.labels[i] for i in given.label[first:stop])
    breach = (sample, above, next(label for label in held if label in below))
    return ClosedSets(closed, added, n_open, breach)


# -- complete and listed scores -----------------------------------------------------------------


def kind_of(table: Table) -> Kind:
    """Return whether scores are complete or listed, by the type of the matrix."""
    return "complete" if isinstance(table.values, np.ndarray) else "listed"


def as_kind(table: Table, kind: Kind) -> Table:
    """Convert a table to the kind of scores a model was fitted on, if they mean the same to it."""
    if kind_of(table) == kind:
        return table
    values: Any = table.values
    n_samples, n_labels = values.shape
    if kind == "complete" and values.nnz < n_samples * n_labels:
        raise DataError(
            "scores omit (sample, label) pairs, but the model was fitted on complete scores.\n"
            "Hint: give a dense matrix or a file that lists every pair; scores.toarray() is one if "
            "omitted pairs had the score 0. Or fit and calibrate on scores that omit pairs."
        )
    if kind == "complete":
        return replace(table, values=values.toarray())
    if not table.is_list:
        raise DataError(
            "scores have a value for every (sample, label) pair, but the model was fitted on "
            "listed scores (a CSR matrix, or a long file that omits pairs).\n"
            "Hint: give the pairs that the predictor listed as a CSR matrix or a long file: "
            "scipy.sparse.csr_array(scores) if 0 means not listed. Or fit and calibrate on "
            "complete scores."
        )
    column = np.tile(np.arange(n_labels, dtype=np.int32), n_samples)
    row_ptr = np.arange(n_samples + 1, dtype=np.int64) * n_labels
    matrix = sparse.csr_array((values.reshape(-1), column, row_ptr), shape=values.shape)
    return replace(table, values=matrix)


class Closed(NamedTuple):
    """Rows of a listed table closed upward; parents precede children within a row."""

    row_ptr: NDArray[np.int64]
    label: NDArray[np.int32]
    value: NDArray[np.float64]  # of an implied label, the largest one listed below it
    is_implied: NDArray[np.bool_]

    def holds(self, truth: sparse.csr_array) -> NDArray[np.bool_]:
        """Return the truth of every entry; `truth` is a CSR matrix of bool without stored zeros."""
        return find_stored(
            self.row_ptr,
            self.label,
            truth.indptr.astype(np.int64),
            truth.indices.astype(np.int32, copy=False),
            truth.shape[1],
        )


def close_listed(values: sparse.csr_array, hierarchy: Hierarchy) -> Closed:
    """Add the ancestors of every listed label, in time O(entries of the result x parents)."""
    edges = (hierarchy.parent_ptr, hierarchy.parent_idx)
    stored = (values.indptr.astype(np.int64), hierarchy.position[values.indices])
    row_ptr, node = close_rows(hierarchy, *stored)
    value, is_listed = raise_rows(*stored, values.data, row_ptr, node, *edges)
    return Closed(row_ptr, hierarchy.order[node], value, ~is_listed)
