"""Tables that list scores of only some labels, and their closure upward.

A table of scores is *complete* (dense arrays and frames, wide files, long files with every pair) or
*listed* (CSR matrices, long files that omit pairs). A pair that is not listed is never called,
unless it is implied, that is, an ancestor of a listed label.
"""

from __future__ import annotations

from dataclasses import replace
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
    if not table.from_complete_list:
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
