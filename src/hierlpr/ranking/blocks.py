"""One sample's LPRs -> blocks of labels that are called together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._base.checks import check_fraction
from hierlpr._kernels._threads import even_bounds, run_chunks, threads_for
from hierlpr._kernels.dag_blocks import OpenBlocks, dag_keys, dag_scores
from hierlpr._kernels.forest_blocks import forest_keys, forest_scores
from hierlpr._kernels.keys import key_bits
from hierlpr._kernels.layout import Forest, KeyBits, Rows
from hierlpr.data.tables import align
from hierlpr.exceptions import DataError
from hierlpr.io.hierarchies import HierarchyLike, as_hierarchy
from hierlpr.ranking.instances import GRID, Instances, list_instances
from hierlpr.ranking.pruning import prune

STATE_CAP = 20_000  # closed sets of one block to look at before its order goes uncertified
BATCH = 1 << 15  # instances of a DAG merged at a time


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """The blocks of all samples: one key each, in unsorted runs, and the calling order inside.

    ``next_node[row_ptr[m] + i]`` is the node that follows node ``i`` of sample ``m`` inside its
    block, -1 at the end. See `hierlpr._kernels.keys` for what a key holds. The blocks whose order
    is not certified to be best begin at ``row_ptr[m] + i`` in `open_place` and lack at most
    `open_lack` of eAUC; on forests there are none.
    """

    runs: list[NDArray[np.uint64]]
    next_node: NDArray[np.int32]
    bits: KeyBits
    open_place: NDArray[np.int64]
    open_lack: NDArray[np.float64]


def merge_blocks(instances: Instances, *, n_threads: int | None = None) -> Blocks:
    """Partition each sample's labels into blocks of falling mean LPR, parents first.

    The blocks part the level sets of the isotonic regression of the LPRs on the hierarchy, and
    calling them by falling mean, each in its best order, maximizes eAUC (Horn, 1972, on forests;
    Sidney, 1975).
    """
    threads = threads_for(instances.lpr.size, n_threads)
    rows, graph = instances.rows, instances.graph
    bits = key_bits(instances.hierarchy.n_labels, instances.n_samples)
    if bits is None:
        raise DataError("Too many samples and labels for one ranking; rank them in parts.")
    next_node = np.empty(instances.lpr.size, dtype=np.int32)
    keys = np.empty(instances.lpr.size, dtype=np.uint64)
    found: list[OpenBlocks] = []

    def merge(start: int, stop: int) -> NDArray[np.uint64]:
        free = keys[rows.row_ptr[start] :]
        if isinstance(graph, Forest):
            return free[: forest_keys(rows, graph, start, stop, bits, next_node, free)]
        n_keys = 0
        for begin, end in _batches(rows, start, stop):
            at = slice(rows.row_ptr[begin], rows.row_ptr[end])
            count, open_blocks = dag_keys(
                rows, graph, begin, end, bits, STATE_CAP, next_node[at], free[n_keys:]
            )
            n_keys += count
            found.append(open_blocks)
        return free[:n_keys]

    runs = run_chunks(merge, even_bounds(rows.row_ptr, threads), threads)
    place = np.concatenate([np.empty(0, dtype=np.int64), *(part.place for part in found)])
    lack = np.concatenate([np.empty(0), *(part.lack for part in found)])
    return Blocks(runs, next_node, bits, place, instances.units.given(lack / GRID))


def _batches(rows: Rows, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Split samples into batches small enough that what is known of them stays in the cache."""
    while start < stop:
        most = rows.row_ptr[start] + BATCH
        end = int(np.searchsorted(rows.row_ptr, most, side="right")) - 1
        end = min(stop, max(start + 1, end))
        yield start, end
        start = end


def consistent_scores(
    lpr: Any,
    hierarchy: HierarchyLike,
    *,
    weight: Any = None,
    min_lpr: float = 0.0,
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
    min_lpr : float
        Labels below it that are no ancestors of labels above it score 0; see `rank`.
    n_threads : int, optional
        Threads to use; the result does not depend on it.

    Returns
    -------
    ndarray of shape (n_samples, n_labels), or csr_array for sparse input
        Of a sparse matrix, the entries stored and their ancestors.

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
    dense = isinstance(table.values, np.ndarray)
    if check_fraction(min_lpr, name="min_lpr") > 0.0:
        table, _ = prune(table, hierarchy, min_lpr=min_lpr, weight=weight)
        scores = consistent_scores(table, hierarchy, weight=weight, n_threads=n_threads)
        return scores.toarray() if dense else scores
    instances = list_instances(table, hierarchy, weight=weight)
    score = np.empty(instances.lpr.size)
    threads = threads_for(score.size, n_threads)
    rows, graph = instances.rows, instances.graph

    def merge(start: int, stop: int) -> None:
        if isinstance(graph, Forest):
            forest_scores(rows, graph, start, stop, score)
            return
        for begin, end in _batches(rows, start, stop):
            dag_scores(rows, graph, begin, end, score)

    run_chunks(merge, even_bounds(rows.row_ptr, threads), threads)
    score = instances.units.given(score)
    if dense:
        return score.reshape(table.values.shape)
    columns = hierarchy.order[rows.node_of]
    scores = sparse.csr_array((score, columns, rows.row_ptr), shape=table.values.shape)
    scores.sort_indices()
    return scores
