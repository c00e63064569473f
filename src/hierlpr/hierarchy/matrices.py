"""Matrices (samples x labels) over a hierarchy: closed upward, breaches, columns out of order."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import is_sparse, listed
from hierlpr.exceptions import DataError, HierlprWarning

if TYPE_CHECKING:
    from hierlpr.hierarchy.label_graph import Hierarchy

_ENOUGH = 20  # labels that hold below the roots: fewer may fit by chance
_LOOKED_AT = 1000  # samples


class Violations(Sequence[tuple[int, str, str]]):
    """Breaches of a hierarchy: a sequence of (sample, parent, child), sorted by sample.

    `sample`, `parent` and `child` hold the same as index arrays (rows and columns).
    """

    __slots__ = ("_labels", "child", "parent", "sample")

    def __init__(
        self,
        sample: NDArray[np.intp],
        parent: NDArray[Any],
        child: NDArray[Any],
        labels: tuple[str, ...],
    ) -> None:
        self.sample, self.parent, self.child = sample, parent, child
        self._labels = labels

    def __len__(self) -> int:
        return int(self.sample.size)

    @overload
    def __getitem__(self, key: int) -> tuple[int, str, str]: ...
    @overload
    def __getitem__(self, key: slice) -> Violations: ...

    def __getitem__(self, key: int | slice) -> tuple[int, str, str] | Violations:
        if isinstance(key, slice):
            return Violations(self.sample[key], self.parent[key], self.child[key], self._labels)
        parent, child = self._labels[self.parent[key]], self._labels[self.child[key]]
        return int(self.sample[key]), parent, child

    def __iter__(self) -> Iterator[tuple[int, str, str]]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<Violations: {len(self):,}>"


def find_violations(hierarchy: Hierarchy, matrix: Any) -> Violations:
    """Find every (sample, parent, child) where the child's value exceeds the parent's."""
    from hierlpr._kernels import traversal

    values, parent, child = _edge_values(hierarchy, matrix)
    sample, edge = traversal.find_violations(values, parent, child)
    return Violations(sample, parent[edge], child[edge], hierarchy.labels)


def is_closed(hierarchy: Hierarchy, truth: NDArray[np.bool_]) -> bool:
    """Whether no label of a bool matrix holds without all its parents."""
    _check_width(hierarchy, truth.shape, name="truth")
    parent, child = _edges(hierarchy)
    return not np.any(truth[:, child] > truth[:, parent])


def count_violations(hierarchy: Hierarchy, matrix: Any) -> int:
    """Count what `find_violations` finds, and hold none of it."""
    from hierlpr._kernels import traversal
    from hierlpr._kernels._threads import row_chunks, run_chunks, threads_for

    values, parent, child = _edge_values(hierarchy, matrix)
    threads = threads_for(values.size, None)

    def count(start: int, stop: int) -> int:
        return traversal.count_violations(values[start:stop], parent, child)

    return sum(run_chunks(count, row_chunks(values.shape, threads), threads))


def _edge_values(hierarchy: Hierarchy, matrix: Any) -> tuple[Any, Any, Any]:
    """Return a matrix as kernels take it, and parent and child of every edge by column."""
    array = matrix.toarray() if is_sparse(matrix) else np.asarray(matrix)
    _check_width(hierarchy, array.shape, name="matrix")
    if array.dtype.kind not in "biuf":
        raise DataError(f"matrix must hold numbers, got dtype {array.dtype}.")
    return np.ascontiguousarray(array, dtype=np.float64), *_edges(hierarchy)


def _edges(hierarchy: Hierarchy) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Columns of parent and child of every edge."""
    parent = np.repeat(hierarchy.order, np.diff(hierarchy.child_ptr))
    return parent, hierarchy.order[hierarchy.child_idx]


def close_upward(hierarchy: Hierarchy, truth: Any) -> Any:
    """Add all ancestors to a dense or sparse matrix or a data frame, which keeps its kind."""
    from scipy import sparse

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
    if np.count_nonzero(closed) > np.count_nonzero(array):
        _doubt_order(hierarchy, array)
    return closed


def _check_width(hierarchy: Hierarchy, shape: tuple[int, ...], *, name: str) -> None:
    if len(shape) != 2 or shape[1] != hierarchy.n_labels:
        raise DataError(
            f"{name} has shape {shape}, but the hierarchy has {hierarchy.n_labels:,} labels: "
            f"expected (n_samples, {hierarchy.n_labels})."
        )


def close_dense(hierarchy: Hierarchy, truth: NDArray[Any]) -> NDArray[np.bool_]:
    """Add all ancestors to a matrix whose columns are ``hierarchy.labels``, whatever it holds."""
    from hierlpr._kernels import traversal

    numbered = np.ascontiguousarray(truth[:, hierarchy.order] != 0)
    traversal.close_dense(numbered, hierarchy.parent_ptr, hierarchy.parent_idx)
    return numbered[:, hierarchy.position]


def close_rows(
    hierarchy: Hierarchy, row_ptr: NDArray[Any], numbers: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Add all ancestors to sparse rows of topological numbers; they rise within a row."""
    from hierlpr._kernels import traversal

    return traversal.close_rows(
        np.asarray(row_ptr, np.int64), numbers, hierarchy.parent_ptr, hierarchy.parent_idx
    )


def _close_frame(hierarchy: Hierarchy, truth: Any) -> Any:
    """Close the label columns of a data frame upward, found by name; other columns stay."""
    import narwhals.stable.v1 as nw

    frame = nw.from_native(truth, eager_only=True)
    missing = [label for label in hierarchy.labels if label not in frame.columns]
    if missing:
        raise DataError(f"truth: {len(missing):,} label(s) have no column: {listed(missing)}.")
    closed = close_dense(hierarchy, frame.select(hierarchy.labels).to_numpy())
    columns = {label: closed[:, place] for place, label in enumerate(hierarchy.labels)}
    native = frame.to_native()
    if nw.dependencies.is_pandas_like_dataframe(native):
        return native.assign(**columns)  # which keeps the index
    backend = frame.implementation
    series = (nw.new_series(k, v, nw.Boolean, backend=backend) for k, v in columns.items())
    return frame.with_columns(*series).to_native()


def fits_if_sorted(hierarchy: Hierarchy, truth: Any, *, least: int = 1) -> bool:
    """Tell whether truth whose columns are the *sorted* labels would keep the hierarchy.

    scikit-learn's ``MultiLabelBinarizer`` sorts its classes, so that its output breaks most
    hierarchies when its columns are taken in another order. At least so many labels below the
    roots must hold in that reading: nothing breaks a hierarchy where nothing holds.

    Parameters
    ----------
    hierarchy : Hierarchy
    truth : ndarray or csr_array of bool
        That breaks the hierarchy as its columns stand.
    least : int

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


def _doubt_order(hierarchy: Hierarchy, truth: NDArray[Any]) -> None:
    """Warn if what was closed upward would have needed no closing with its columns sorted."""
    if fits_if_sorted(hierarchy, truth[:_LOOKED_AT] != 0, least=_ENOUGH):
        warnings.warn(
            "Ancestors were added to the truth, but if its columns are the labels sorted by name, "
            "as MultiLabelBinarizer makes them, none was missing. See that they follow "
            "hierarchy.labels: MultiLabelBinarizer(classes=hierarchy.labels).",
            HierlprWarning,
            stacklevel=4,
        )
