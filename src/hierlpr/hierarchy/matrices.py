"""Matrices (samples x labels): upward closure, violations, columns in the wrong order."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._kernels import traversal
from hierlpr._utils.checks import is_sparse, quote_names
from hierlpr.exceptions import DataError, HierlprWarning

if TYPE_CHECKING:
    from hierlpr.hierarchy.label_graph import Hierarchy

_ENOUGH = 20  # labels that hold below the roots: fewer may fit by chance
_LOOKED_AT = 1000  # samples


class Violations(Sequence[Any]):
    """Violations of a hierarchy: a sequence of (sample, parent, child), sorted by sample.

    `sample`, `parent` and `child` are index arrays (rows and columns).
    """

    def __init__(
        self, sample: NDArray[Any], parent: NDArray[Any], child: NDArray[Any], labels: Sequence[str]
    ) -> None:
        self.sample, self.parent, self.child = sample, parent, child
        self._labels = labels

    def __len__(self) -> int:
        return int(self.sample.size)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return Violations(self.sample[key], self.parent[key], self.child[key], self._labels)
        parent, child = self._labels[self.parent[key]], self._labels[self.child[key]]
        return int(self.sample[key]), parent, child

    def __repr__(self) -> str:
        return f"<Violations: {len(self):,}>"


def find_violations(hierarchy: Hierarchy, matrix: Any) -> Violations:
    """Find every (sample, parent, child) where the child's value exceeds the parent's."""
    array = matrix.toarray() if is_sparse(matrix) else np.asarray(matrix)
    _check_width(hierarchy, array.shape, name="matrix")
    if array.dtype.kind not in "biuf":
        raise DataError(f"matrix must hold numbers, got dtype {array.dtype}.")
    parent, child = _edges(hierarchy)
    values = np.ascontiguousarray(array, dtype=np.float64)
    sample, edge = traversal.find_violations(values, parent, child)
    return Violations(sample, parent[edge], child[edge], hierarchy.labels)


def is_closed(hierarchy: Hierarchy, truth: NDArray[np.bool_]) -> bool:
    """Return whether every label of a bool matrix holds only together with its parents."""
    _check_width(hierarchy, truth.shape, name="truth")
    parent, child = _edges(hierarchy)
    return not np.any(truth[:, child] > truth[:, parent])


def _edges(hierarchy: Hierarchy) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the columns of parent and child of every edge."""
    parent = np.repeat(hierarchy.order, np.diff(hierarchy.child_ptr))
    return parent, hierarchy.order[hierarchy.child_idx]


def close_upward(hierarchy: Hierarchy, truth: Any) -> Any:
    """Add all ancestors to a dense or sparse matrix or a data frame; the type is kept."""
    if is_sparse(truth):
        csr = sparse.csr_array(truth)
        _check_width(hierarchy, csr.shape, name="truth")
        if csr.nnz and not csr.data.all():
            csr = csr.copy()
            csr.eliminate_zeros()
        row_ptr, nodes = close_rows(hierarchy, csr.indptr, hierarchy.position[csr.indices])
        parts = (np.ones(nodes.size, dtype=bool), hierarchy.order[nodes], row_ptr)
        return sparse.csr_array(parts, shape=csr.shape)
    if hasattr(truth, "__dataframe__") or hasattr(truth, "columns"):
        return _close_frame(hierarchy, truth)
    array = np.asarray(truth)
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"truth must be a matrix of 0 and 1, got dtype {array.dtype}.\n"
            "Hint: lists of labels go into fit; HierLPR(close_truth=True) closes them."
        )
    _check_width(hierarchy, array.shape, name="truth")
    closed = close_dense(hierarchy, array)
    has_grown = np.count_nonzero(closed) > np.count_nonzero(array)
    if has_grown and fits_if_sorted(hierarchy, array[:_LOOKED_AT] != 0, least=_ENOUGH):
        warnings.warn(
            "Ancestors were added to the truth, but none would be missing if its columns were the "
            "labels sorted by name, as MultiLabelBinarizer returns them. Make sure they follow "
            "hierarchy.labels: MultiLabelBinarizer(classes=hierarchy.labels).",
            HierlprWarning,
            stacklevel=3,
        )
    return closed


def _check_width(hierarchy: Hierarchy, shape: tuple[int, ...], *, name: str) -> None:
    if len(shape) != 2 or shape[1] != hierarchy.n_labels:
        raise DataError(
            f"{name} has shape {shape}, but the hierarchy has {hierarchy.n_labels:,} labels: "
            f"expected (n_samples, {hierarchy.n_labels})."
        )


def close_dense(hierarchy: Hierarchy, truth: NDArray[Any]) -> NDArray[np.bool_]:
    """Add all ancestors to a matrix whose columns are ``hierarchy.labels``."""
    numbered = np.ascontiguousarray(truth[:, hierarchy.order] != 0)
    traversal.close_dense(numbered, hierarchy.parent_ptr, hierarchy.parent_idx)
    return numbered[:, hierarchy.position]


def close_rows(
    hierarchy: Hierarchy, row_ptr: NDArray[Any], numbers: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Add all ancestors to sparse rows of topological numbers, which ascend within a row."""
    ptr, closed = traversal.close_rows(
        np.asarray(row_ptr, np.int64), numbers, hierarchy.parent_ptr, hierarchy.parent_idx
    )
    shape = (ptr.size - 1, hierarchy.n_labels)
    rows = sparse.csr_array((np.empty(closed.size, np.int8), closed, ptr), shape)
    rows.sort_indices()  # Numba would take seconds to compile its sort
    return ptr, rows.indices.astype(np.int32, copy=False)


def _close_frame(hierarchy: Hierarchy, truth: Any) -> Any:
    """Close the label columns of a data frame upward; other columns stay."""
    frame = nw.from_native(truth, eager_only=True)
    missing = [label for label in hierarchy.labels if label not in frame.columns]
    if missing:
        raise DataError(f"truth: {len(missing):,} label(s) have no column: {quote_names(missing)}.")
    closed = close_dense(hierarchy, frame.select(hierarchy.labels).to_numpy())
    columns = {label: closed[:, place] for place, label in enumerate(hierarchy.labels)}
    native = frame.to_native()
    if nw.dependencies.is_pandas_like_dataframe(native):
        return native.assign(**columns)  # which keeps the index
    backend = frame.implementation
    series = (nw.new_series(k, v, nw.Boolean, backend=backend) for k, v in columns.items())
    return frame.with_columns(*series).to_native()


def fits_if_sorted(hierarchy: Hierarchy, truth: Any, *, least: int = 1) -> bool:
    """Return whether truth would be closed upward if its columns were the *sorted* labels.

    scikit-learn's ``MultiLabelBinarizer`` sorts its classes, so its output violates most
    hierarchies if the columns are taken in another order. At least `least` labels below the roots
    must hold in that reading. `truth`, an ndarray or csr_array of bool, is not closed upward as it
    is.

    Examples
    --------
    >>> from hierlpr import Hierarchy
    >>> h = Hierarchy([("b", "a")])  # labels: b, a
    >>> fits_if_sorted(h, np.array([[False, True]]))  # a, b: b alone
    False
    >>> fits_if_sorted(h, np.array([[True, True], [False, True]]))
    True
    """
    by_name = sorted(hierarchy.labels)
    if by_name == list(hierarchy.labels):
        return False
    place = {label: column for column, label in enumerate(by_name)}
    moved = truth[:, [place[label] for label in hierarchy.labels]]
    below = np.flatnonzero(np.diff(hierarchy.parent_ptr)[hierarchy.position])
    if int(moved[:, below].sum()) < least:
        return False
    if isinstance(moved, np.ndarray):
        return not find_violations(hierarchy, moved)
    return bool(close_upward(hierarchy, moved).nnz == moved.nnz)
