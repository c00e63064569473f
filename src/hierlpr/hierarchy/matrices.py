"""Matrices (samples x labels): upward closure, violations, and sweeps along the edges."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._kernels import traversal
from hierlpr._utils.checks import check_real_array, is_sparse, quote_names
from hierlpr.exceptions import DataError, HierlprWarning

if TYPE_CHECKING:
    from hierlpr.hierarchy.label_graph import Hierarchy

CELLS = 1 << 18  # of an array (labels x samples) held at once, so that it fits into the caches
FEWEST_SAMPLES = 256  # per array, unless it would have more than MOST_CELLS
MOST_CELLS = 1 << 24
Index = NDArray[np.int32]
Bool = NDArray[np.bool_]
Batches = list[tuple[Index, Index]]
_ENOUGH = 20  # labels that hold below the roots: fewer may fit by chance
_LOOKED_AT = 1000  # samples


def find_violations(hierarchy: Hierarchy, matrix: Any) -> list[tuple[int, str, str]]:
    """Find every (sample, parent, child) where the child's value exceeds the parent's."""
    if _is_frame(matrix):
        matrix = _label_columns(hierarchy, matrix, name="matrix")[2]
    values = check_real_array(matrix.toarray() if is_sparse(matrix) else matrix, name="matrix")
    _check_width(hierarchy, values.shape, name="matrix")
    parent = np.repeat(hierarchy.order, np.diff(hierarchy.child_ptr))
    breaches = traversal.find_violations(values, parent, hierarchy.order[hierarchy.child_idx])
    edges, (sample, edge) = hierarchy.edges, (x.tolist() for x in breaches)
    return [(row, *edges[i]) for row, i in zip(sample, edge, strict=True)]


def close_upward(hierarchy: Hierarchy, truth: Any) -> Any:
    """Add all ancestors to a dense or sparse matrix or a data frame; the type is kept.

    Unknown pairs (NaN, null) stay unknown, unless a descendant is true.
    """
    if is_sparse(truth):
        csr = sparse.csr_array(truth)
        _check_width(hierarchy, csr.shape, name="truth")
        positive, unknown = split_unknown(csr)
        closed = close_sparse(hierarchy, positive)
        return closed if unknown is None else join_unknown(closed, unknown)
    if _is_frame(truth):
        return _close_frame(hierarchy, truth)
    array = truth if isinstance(truth, np.ndarray) else None
    if array is None or array.dtype.kind not in "biu" or isinstance(array, np.ma.MaskedArray):
        try:
            array = check_real_array(truth, name="truth")
        except DataError as error:
            hint = "lists of labels go into fit; HierLPR(propagate_truth=True) closes them."
            raise DataError(f"{str(error).splitlines()[0]}\nHint: {hint}") from None
    _check_width(hierarchy, array.shape, name="truth")
    closed, unknown = _close_known(hierarchy, array)
    has_grown = bool(np.any(closed > (array != 0)))
    if has_grown and fits_if_sorted(hierarchy, array[:_LOOKED_AT] == 1, least=_ENOUGH):
        warnings.warn(
            "Ancestors were added to the truth, but none would be missing if its columns were the "
            "labels sorted by name, as MultiLabelBinarizer returns them. Make sure they follow "
            "hierarchy.labels: MultiLabelBinarizer(classes=hierarchy.labels).",
            HierlprWarning,
            stacklevel=3,
        )
    return np.where(unknown, np.nan, closed) if unknown.any() else closed


def split_unknown(values: Any) -> tuple[sparse.csr_array, sparse.csr_array | None]:
    """Return as CSR matrices of bool where values are not 0, and where NaN (None if nowhere)."""
    csr = sparse.csr_array(values)

    def where(used: Bool) -> sparse.csr_array:
        ptr = np.append(0, np.cumsum(used))[csr.indptr]
        ones = np.ones(int(ptr[-1]), dtype=bool)
        matrix = sparse.csr_array((ones, csr.indices[used].astype(np.int32), ptr), shape=csr.shape)
        matrix.sort_indices()
        return matrix

    unknown = np.isnan(csr.data) if csr.dtype.kind == "f" else np.zeros(csr.nnz, dtype=bool)
    positive = where((csr.data != 0) & ~unknown)
    return positive, where(unknown) if unknown.any() else None


def join_unknown(positive: sparse.csr_array, unknown: sparse.csr_array) -> sparse.csr_array:
    """Return a matrix with 1 where a label is true, and NaN where it is unknown and not true."""
    return sparse.csr_array(positive.astype(np.float64) + (unknown > positive) * np.nan)


def close_sparse(hierarchy: Hierarchy, positive: sparse.csr_array) -> sparse.csr_array:
    """Add all ancestors to a CSR matrix of bool without stored zeros."""
    row_ptr, nodes = close_rows(hierarchy, positive.indptr, hierarchy.position[positive.indices])
    parts = (np.ones(nodes.size, dtype=bool), hierarchy.order[nodes], row_ptr)
    closed = sparse.csr_array(parts, shape=positive.shape)
    closed.sort_indices()
    return closed


def _is_frame(data: Any) -> bool:
    return hasattr(data, "__dataframe__") or hasattr(data, "columns")


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


def _close_known(hierarchy: Hierarchy, values: NDArray[Any]) -> tuple[Bool, Bool]:
    """Return a matrix closed upward, and where it stays unknown (NaN)."""
    unknown = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)
    closed = close_dense(hierarchy, (values != 0) & ~unknown)
    return closed, unknown & ~closed


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
    frame, names, values = _label_columns(hierarchy, truth, name="truth")
    columns = list(zip(names, *(x.T for x in _close_known(hierarchy, values)), strict=True))
    native = frame.to_native()
    if nw.dependencies.is_pandas_like_dataframe(native):
        native = native.copy()  # which keeps the index
        for name, closed, unknown in columns:
            native[name] = np.where(unknown, np.nan, closed) if unknown.any() else closed
            native[name] = native[name].astype("boolean" if unknown.any() else "bool")
        return native
    backend, series = frame.implementation, []
    for name, closed, unknown in columns:
        cells = closed.astype(object)
        cells[unknown] = None
        series.append(nw.new_series(name, cells.tolist(), nw.Boolean, backend=backend))
    return frame.with_columns(*series).to_native()


def _label_columns(
    hierarchy: Hierarchy, data: Any, *, name: str
) -> tuple[Any, list[Any], NDArray[np.float64]]:
    """Return a data frame, the names of its columns of labels, and their values."""
    frame = nw.from_native(data, eager_only=True)
    place = {str(column): i for i, column in enumerate(frame.columns)}  # numbers are names too
    missing = [label for label in hierarchy.labels if label not in place]
    if missing:
        raise DataError(
            f"{name}: {len(missing):,} label(s) have no column: {quote_names(missing)}."
        )
    at = [place[label] for label in hierarchy.labels]
    values = check_real_array(frame[:, at].to_numpy(), name=name)
    return frame, [frame.columns[i] for i in at], values


def fits_if_sorted(hierarchy: Hierarchy, truth: Any, *, least: int = 1) -> bool:
    """Return whether truth would be closed upward if its columns were the *sorted* labels.

    scikit-learn's ``MultiLabelBinarizer`` sorts its classes, so its output violates most
    hierarchies if the columns are taken in another order. At least `least` labels below the roots
    must hold in that reading. `truth`, an ndarray or csr_array of bool, is not closed as it is.

    >>> from hierlpr import Hierarchy
    >>> h = Hierarchy([("b", "a")])  # labels: b, a
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
    return bool(close_sparse(hierarchy, sparse.csr_array(moved)).nnz == moved.nnz)


@dataclass(frozen=True, slots=True, eq=False)
class UpperSet:
    """A set of labels that is closed upward; arrays over it have one row per label.

    Attributes
    ----------
    numbers : ndarray
        Topological numbers of the labels, ascending.
    row : ndarray of shape (n_labels,)
        Row of each topological number, -1 for labels outside.
    up, down : list of (parents, children)
        Rows of all edges, in batches that no label is written to twice in, for sweeps from the
        leaves to the roots (which write to parents) and back (which write to children).
    """

    numbers: Index
    row: Index
    up: Batches
    down: Batches

    @classmethod
    def above(cls, hierarchy: Hierarchy, numbers: Any = None) -> UpperSet:
        """Return these topological numbers with all their ancestors; by default all labels."""
        members = np.arange(hierarchy.n_labels, dtype=np.int32)
        if numbers is not None:
            some = np.unique(np.asarray(numbers, dtype=np.int32))
            members = close_rows(hierarchy, np.array([0, some.size]), some)[1]
        row = np.full(hierarchy.n_labels, -1, dtype=np.int32)
        row[members] = np.arange(members.size, dtype=np.int32)
        up, down = (_among(edges, row) for edges in hierarchy.sweeps)
        return cls(members, row, up, down)

    @property
    def size(self) -> int:
        """Number of labels."""
        return self.numbers.size

    @property
    def edges(self) -> tuple[Index, Index]:
        """Rows of parent and child of all edges."""
        none = np.empty(0, dtype=np.int32)
        parents, children = zip(*[(none, none), *self.down], strict=True)
        return np.concatenate(parents), np.concatenate(children)

    def mark(self, numbers: Any, sample: Any, n_samples: int) -> Bool:
        """Return an array (labels x samples) that is True at some (label, sample) pairs."""
        marks = np.zeros((self.size, n_samples), dtype=bool)
        marks[self.row[numbers], sample] = True
        return marks

    def raise_up(self, values: NDArray[Any]) -> None:
        """Raise every label to the maximum over its descendants, in place."""
        for parents, children in self.up:
            values[parents] = np.maximum(values[parents], values[children])

    def any_above(self, flags: Bool) -> Bool:
        """Return whether any ancestor of a label is flagged."""
        above = np.zeros_like(flags)
        for parents, children in self.down:
            above[children] |= above[parents] | flags[parents]
        return above

    def all_parents(self, flags: Bool) -> Bool:
        """Return whether all parents of a label are flagged."""
        all_flagged = np.ones_like(flags)
        for parents, children in self.down:
            all_flagged[children] &= flags[parents]
        return all_flagged


class SweepEdges(NamedTuple):
    """All edges by topological numbers, sorted for a sweep; targets are unique in a batch."""

    parent: Index
    child: Index
    batch: NDArray[np.int64]

    @classmethod
    def of(cls, parent: Index, child: Index, stage: NDArray[Any], target: Index) -> SweepEdges:
        """Sort edges by stage, and part each stage into batches without repeated targets."""
        order = np.lexsort((target, stage))
        is_first = np.ones(order.size, dtype=bool)
        is_first[1:] = (np.diff(stage[order]) != 0) | (np.diff(target[order]) != 0)
        first = np.flatnonzero(is_first)
        turn = np.arange(order.size) - np.repeat(first, np.diff(first, append=order.size))
        by_turn = np.lexsort((turn, stage[order]))
        order, turn = order[by_turn], turn[by_turn]
        starts = (np.diff(stage[order], prepend=0) != 0) | (np.diff(turn, prepend=0) != 0)
        return cls(parent[order], child[order], np.cumsum(starts))


def sweep_edges(
    parent_ptr: Index, parent_idx: Index, level: Index
) -> tuple[SweepEdges, SweepEdges]:
    """Return the edges for a sweep from the leaves to the roots, and back."""
    child = np.repeat(np.arange(level.size, dtype=np.int32), np.diff(parent_ptr))
    stage = level[child]
    up = SweepEdges.of(parent_idx, child, -stage, target=parent_idx)
    return up, SweepEdges.of(parent_idx, child, stage, target=child)


def _among(edges: SweepEdges, row: Index) -> Batches:
    """Return the batches of edges into labels that have a row; so have their parents."""
    is_inside = row[edges.child] >= 0
    parents, children = row[edges.parent[is_inside]], row[edges.child[is_inside]]
    starts = np.flatnonzero(np.diff(edges.batch[is_inside], prepend=-1))
    bounds = np.append(starts, parents.size).tolist()
    return [(parents[a:b], children[a:b]) for a, b in pairwise(bounds)]


def sample_ranges(n_samples: int, n_labels: int) -> Iterator[tuple[int, int]]:
    """Split samples into ranges whose arrays (labels x samples) are small."""
    n = max(n_labels, 1)
    step = max(8, CELLS // n, min(FEWEST_SAMPLES, MOST_CELLS // n))
    for start in range(0, n_samples, step):
        yield start, min(start + step, n_samples)


def parts_by_sample(
    sample: NDArray[np.integer[Any]], n_samples: int, n_labels: int
) -> Iterator[tuple[int, int, NDArray[np.integer[Any]]]]:
    """Split samples into ranges; yield their bounds and the places of their entries, in order."""
    # Transposing a sparse matrix with one entry per row is a counting sort.
    entries = (np.ones(sample.size, dtype=bool), sample, np.arange(sample.size + 1))
    grouped = sparse.csr_array(entries, shape=(sample.size, n_samples)).tocsc()
    for start, stop in sample_ranges(n_samples, n_labels):
        yield start, stop, grouped.indices[grouped.indptr[start] : grouped.indptr[stop]]
