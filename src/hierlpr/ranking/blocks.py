"""LPRs of each sample -> blocks of labels that are called together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._kernels._threads import even_bounds, run_chunks, threads_for
from hierlpr._kernels.block_keys import spread_means, to_grid
from hierlpr._kernels.dag_blocks import batch_edges, dag_blocks
from hierlpr._kernels.forest_blocks import forest_blocks
from hierlpr.data.tables import align
from hierlpr.io.hierarchies import HierarchyLike, as_hierarchy
from hierlpr.ranking.instances import Instances, list_instances, relative_weights

BATCH = 1 << 14  # instances merged at a time, few enough to stay in the cache


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


def merge_batches(instances: Instances, start: int, stop: int, *, order: bool) -> Iterator[Batch]:
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
        value, mean = np.empty((2, last - first))
        to_grid(instances.priority, row_ptr, instances.slot, start, end, value)
        if instances.hierarchy.is_forest:
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
    n_threads: int | None = None,
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
    n_threads : int, optional
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
    instances = list_instances(table, hierarchy, weight=weight)
    score = np.empty(instances.lpr.size)
    row_ptr = instances.row_ptr
    threads = threads_for(score.size, n_threads)

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
