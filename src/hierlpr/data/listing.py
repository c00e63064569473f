"""What a table of scores says about a pair it has no score for: the one place that decides it.

A table is *complete* (dense arrays and frames, wide files, long files with every pair) or *listed*
(CSR matrices, long files with gaps). A pair that is not listed is never called, unless it is
implied: an ancestor of a listed label.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels.traversal import find_stored, raise_rows
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import close_rows

if TYPE_CHECKING:
    from scipy import sparse

Kind = Literal["complete", "listed"]


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
    return table.with_values(values.toarray() if kind == "complete" else _all_stored(values))


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
        return find_stored(
            self.row_ptr,
            self.label,
            truth.indptr.astype(np.int64),
            truth.indices.astype(np.int32, copy=False),
            truth.shape[1],
        )


def close_listed(values: sparse.csr_array, hierarchy: Hierarchy) -> Closed:
    """Add the ancestors of every listed label. O(closure x parents)."""
    edges = (hierarchy.parent_ptr, hierarchy.parent_idx)
    stored = (values.indptr.astype(np.int64), hierarchy.position[values.indices])
    row_ptr, node = close_rows(hierarchy, *stored)
    value, is_listed = raise_rows(*stored, values.data, row_ptr, node, *edges)
    return Closed(row_ptr, hierarchy.order[node], value, ~is_listed)
