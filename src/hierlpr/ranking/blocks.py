"""LPRs of each sample, in one flat layout -> blocks of labels that are called together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._kernels import traversal
from hierlpr._kernels._jit import even_bounds, read_only, run_chunks, threads_for
from hierlpr._kernels.dag_blocks import batch_edges, dag_blocks
from hierlpr._kernels.forest_blocks import forest_blocks, spread_means, to_grid
from hierlpr._utils.checks import check_label_weights, check_unit_interval
from hierlpr.data.tables import Table, align
from hierlpr.exceptions import HierarchyError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.conversion import HierarchyLike, as_hierarchy
from hierlpr.hierarchy.matrices import close_rows

GRID_BITS = 30  # LPRs are rounded to multiples of 2**-30, so that sums and ties are exact
GRID = 2.0**GRID_BITS
MOST_LABELS = 1 << (53 - GRID_BITS)
BATCH = 1 << 14  # instances merged at a time, few enough to stay in the cache

_NONE = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class FlatSamples:
    """The instances of all samples in one flat layout, dense or sparse.

    Sample ``m`` has the nodes ``i = 0, 1, ...`` in topological order; node ``i`` has its LPR at
    ``lpr[row_ptr[m] + slot[i]]``. `priority`, in the same places, is what is maximized: the LPR
    times the label's share of the largest weight.

    Dense samples hold every label: `slot` is the column of each node, `node_of` is empty, and the
    parents of node ``i`` are ``parent_idx[parent_ptr[i]:parent_ptr[i + 1]]``. Sparse samples hold
    the labels stored and their ancestors: ``node_of[row_ptr[m] + i]`` is the label's number in the
    hierarchy, and its parents within the sample stand at ``row_ptr[m] + i`` of `parent_ptr`.
    On a forest, `parent` has the only parent or -1 in the same way, and both others are empty.
    """

    lpr: NDArray[np.float64]
    priority: NDArray[np.float64]
    row_ptr: NDArray[np.int64]
    slot: NDArray[np.int32]
    node_of: NDArray[np.int32]
    parent: NDArray[np.int32]
    parent_ptr: NDArray[np.int64]
    parent_idx: NDArray[np.int32]
    weight: NDArray[np.float64] | None
    hierarchy: Hierarchy

    @property
    def is_dense(self) -> bool:
        """Whether every sample holds every label."""
        return self.node_of.size == 0


def flatten_samples(table: Table, hierarchy: Hierarchy, *, weight: Any = None) -> FlatSamples:
    """Lay out the LPRs of `table` for the kernels; raise for values that are not LPRs."""
    if hierarchy.n_labels > MOST_LABELS:
        raise HierarchyError(f"At most {MOST_LABELS:,} labels can be ranked exactly.")
    values, weights = table.values, weight
    check_unit_interval(values, hierarchy.labels, name="lpr")
    if weight is not None:
        weights = check_label_weights(weight, hierarchy.labels, name="weight")
    share = relative_weights(weights).share
    parent, parent_ptr, parent_idx = _parents(hierarchy)
    if isinstance(values, np.ndarray):
        row_ptr = np.arange(values.shape[0] + 1, dtype=np.int64) * hierarchy.n_labels
        lpr = read_only(values.reshape(-1))
        priority = lpr if weights is None else read_only((values * share).reshape(-1))
        edges = (parent, parent_ptr, parent_idx)
        return FlatSamples(
            lpr, priority, row_ptr, hierarchy.order, _NONE, *edges, weights, hierarchy
        )
    stored_ptr = values.indptr.astype(np.int64)
    stored = hierarchy.position[values.indices]
    row_ptr, node_of = close_rows(hierarchy, stored_ptr, stored)
    lpr = read_only(
        traversal.close_values(
            stored_ptr, stored, values.data, row_ptr, node_of, hierarchy.n_labels
        )
    )
    priority = lpr if weights is None else read_only(lpr * share[hierarchy.order[node_of]])
    slot = np.arange(int(np.diff(row_ptr).max(initial=0)), dtype=np.int32)
    if hierarchy.is_forest:
        parent = traversal.local_parents(row_ptr, node_of, parent)
    else:
        parent_ptr, parent_idx = traversal.local_edges(
            row_ptr, node_of, hierarchy.parent_ptr, hierarchy.parent_idx
        )
    return FlatSamples(
        lpr, priority, row_ptr, slot, node_of, parent, parent_ptr, parent_idx, weights, hierarchy
    )


@lru_cache(maxsize=8)  # for one sample at a time it would cost as much as the blocks
def _parents(
    hierarchy: Hierarchy,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
    """Return the parents in samples that hold every label, as in `FlatSamples`."""
    if not hierarchy.is_forest:
        return _NONE, hierarchy.parent_ptr.astype(np.int64), hierarchy.parent_idx
    parent = np.full(hierarchy.n_labels, -1, dtype=np.int32)
    parent[np.diff(hierarchy.parent_ptr) == 1] = hierarchy.parent_idx
    return parent, np.empty(0, dtype=np.int64), _NONE


class RelativeWeights(NamedTuple):
    """Weights as shares of the largest, so that only their ratios decide the order.

    Products of shares and LPRs fit the grid of the LPRs whatever the weights. `share` is empty if
    all labels count the same.
    """

    share: NDArray[np.float64]
    largest: float

    def rescale(self, values: Any) -> Any:
        """Multiply values by the largest weight; what exceeds the largest float is infinite."""
        if self.largest == 1.0:  # saves a pass over all instances
            return values
        with np.errstate(over="ignore", under="ignore"):
            return values * np.float64(self.largest)


def relative_weights(weight: NDArray[np.float64] | None) -> RelativeWeights:
    """Divide checked weights by the largest of them."""
    if weight is None:
        return RelativeWeights(np.empty(0), 1.0)
    largest = float(weight.max(initial=0.0))
    if largest == 0.0:
        return RelativeWeights(weight, 1.0)
    with np.errstate(under="ignore"):
        return RelativeWeights(weight / largest, largest)


class Batch(NamedTuple):
    """The blocks of the samples ``start`` to ``stop``.

    At ``row_ptr[m] - row_ptr[start] + i``, `next_node` is the node called after ``i`` in its block,
    -1 at the end; `n_nodes` the size of the block that begins with ``i``, 0 if none does; and
    `mean` the mean of the block of ``i``, in grid steps. Blocks whose order is not certified to be
    the best begin at the places `uncertified` and may miss up to `gap` of eAUC, in grid steps.
    """

    start: int
    stop: int
    next_node: NDArray[np.int32]
    n_nodes: NDArray[np.int32]
    mean: NDArray[np.float64]
    uncertified: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    gap: NDArray[np.float64] = np.empty(0)


def merge_batches(instances: FlatSamples, start: int, stop: int, *, order: bool) -> Iterator[Batch]:
    """Partition the labels of samples ``start`` to ``stop`` into blocks, parents first.

    The blocks partition the level sets of the isotonic regression of the LPRs on the hierarchy, and
    calling them by falling mean, each in its best order, maximizes eAUC (Horn, 1972, on forests;
    Sidney, 1975). Without `order`, the nodes of a block may be in any order.
    """
    row_ptr, dense = instances.row_ptr, instances.is_dense
    while start < stop:
        end = int(np.searchsorted(row_ptr, row_ptr[start] + BATCH, side="right")) - 1
        end = min(stop, max(start + 1, end))
        rows = row_ptr[start : end + 1]
        first, last = int(rows[0]), int(rows[-1])
        value = to_grid(instances.priority, row_ptr, instances.slot, start, end)
        if instances.hierarchy.is_forest:
            mean = np.empty(value.size)
            next_node, n_nodes = np.empty((2, value.size), dtype=np.int32)
            parent = instances.parent if dense else instances.parent[first:last]
            forest_blocks(value, rows - first, parent, dense, next_node, n_nodes, mean)
            yield Batch(start, end, next_node, n_nodes, mean)
        else:
            edges = batch_edges(rows, instances.parent_ptr, instances.parent_idx, dense)
            yield Batch(start, end, *dag_blocks(value, rows - first, *edges, order=order))
        start = end


def consistent_scores(
    lpr: Any,
    hierarchy: HierarchyLike,
    *,
    weight: Any = None,
    n_jobs: int | None = None,
) -> Any:
    r"""Return the block score of every instance: no child scores above any of its parents.

    Parameters
    ----------
    lpr : array-like, sparse matrix or data frame of shape (n_samples, n_labels)
        Local precision rates in [0, 1]. In a sparse matrix, absent means 0.
    hierarchy : Hierarchy, path, dict, edges or networkx graph
        The label hierarchy; array columns follow ``hierarchy.labels``.
    weight : array-like of shape (n_labels,) or dict of label to number, optional
        Importance of each label; see `rank`.
    n_jobs : int, optional
        Threads to use; the result does not depend on it.

    Returns
    -------
    ndarray of shape (n_samples, n_labels), or csr_array for sparse input
        For a sparse matrix, the entries stored and their ancestors.

    Notes
    -----
    The scores :math:`s` are the isotonic regression of the LPRs :math:`\ell` on the hierarchy:
    they minimize :math:`\sum_k (s_k - \ell_k)^2` subject to :math:`s_k \le s_j` for every parent
    :math:`j` of :math:`k`.
    Cutting them at any level gives a set of labels that is closed upward.

    Examples
    --------
    >>> from hierlpr import Hierarchy
    >>> h = Hierarchy([("A", "B"), ("A", "C")])
    >>> consistent_scores([[0.2, 0.8, 0.1]], h)
    array([[0.5, 0.5, 0.1]])
    """
    hierarchy = as_hierarchy(hierarchy)
    table = align(lpr, hierarchy, name="lpr")
    return block_scores(table, hierarchy, weight=weight, n_jobs=n_jobs)


def block_scores(
    table: Table, hierarchy: Hierarchy, *, weight: Any = None, n_jobs: int | None = None
) -> Any:
    """Return the block scores of LPRs in the order of the labels, as `consistent_scores` does."""
    instances = flatten_samples(table, hierarchy, weight=weight)
    score = np.empty(instances.lpr.size)
    row_ptr = instances.row_ptr
    threads = threads_for(score.size, n_jobs)

    def merge(start: int, stop: int) -> None:
        for batch in merge_batches(instances, start, stop, order=False):
            spread_means(row_ptr, instances.slot, batch.start, batch.stop, batch.mean, score)

    # On a DAG one sample may take many times as long as another, and threads would wait.
    n_chunks = threads if hierarchy.is_forest or threads == 1 else 8 * threads
    run_chunks(merge, even_bounds(row_ptr, n_chunks), threads)
    score = relative_weights(instances.weight).rescale(score)
    if isinstance(table.values, np.ndarray):
        return score.reshape(table.values.shape)
    columns = hierarchy.order[instances.node_of]
    scores = scipy.sparse.csr_array((score, columns, row_ptr), shape=table.values.shape)
    scores.sort_indices()
    return scores
