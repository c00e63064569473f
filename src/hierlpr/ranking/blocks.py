"""One sample's LPRs -> blocks of labels that are called together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._base.checks import check_fraction
from hierlpr._kernels._threads import even_bounds, n_threads_or_default, run_chunks
from hierlpr._kernels.dag_blocks import Merged, dag_blocks
from hierlpr._kernels.forest_blocks import forest_blocks
from hierlpr._kernels.keys import SIZE_BITS, compact
from hierlpr.data.tables import align
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.ranking.instances import GRID, Instances, list_instances
from hierlpr.ranking.pruning import prune

__all__ = [
    "Blocks",
    "consistent_scores",
    "merge_blocks",
]

STATE_CAP = 20_000  # closed sets of one block to look at before its order goes uncertified

_NONE_INT = np.empty(0, dtype=np.int32)
_NONE_LONG = np.empty(0, dtype=np.int64)
_NONE_KEY = np.empty(0, dtype=np.uint64)
_NONE_FLOAT = np.empty(0, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """The blocks of all samples: one key each, unsorted, and the calling order inside them.

    ``next_node[row_ptr[m] + i]`` is the node that follows node ``i`` of sample ``m`` inside its
    block, -1 at the end. See `hierlpr._kernels.keys` for what a key holds. The blocks whose order
    is not certified to be best begin at ``row_ptr[m] + i`` in `open_place` and lack at most
    `open_lack` of eAUC; on forests there are none.
    """

    keys: NDArray[np.uint64]
    next_node: NDArray[np.int32]
    node_bits: int
    sample_bits: int
    open_place: NDArray[np.int64]
    open_lack: NDArray[np.float64]


def merge_blocks(instances: Instances, *, n_threads: int | None = None) -> Blocks:
    """Partition each sample's labels into blocks of falling mean LPR, parents first.

    The blocks part the level sets of the isotonic regression of the LPRs on the hierarchy, and
    calling them by falling mean, each in its best order, maximizes eAUC (Horn, 1972, on forests;
    Sidney, 1975).
    """
    threads = n_threads_or_default(n_threads)
    node_bits = max(1, (instances.hierarchy.n_labels - 1).bit_length())
    sample_bits = max(1, (instances.n_samples - 1).bit_length())
    if node_bits + sample_bits + SIZE_BITS > 62:
        raise DataError("Too many samples and labels for one ranking; rank them in parts.")
    next_node = np.empty(instances.lpr.size, dtype=np.int32)
    keys = np.empty(instances.lpr.size, dtype=np.uint64)

    def merge(start: int, stop: int) -> Merged:
        return _merge(instances, start, stop, node_bits, sample_bits, next_node, keys, _NONE_FLOAT)

    bounds = even_bounds(instances.row_ptr, threads)
    merged = run_chunks(merge, bounds, threads)
    source = instances.row_ptr[bounds[:-1]]
    n_blocks = compact(keys, source, np.array([count for count, _, _ in merged], dtype=np.int64))
    place = np.concatenate([place for _, place, _ in merged])
    lack = np.concatenate([lack for _, _, lack in merged])
    open_lack = instances.units.given(lack / GRID)
    return Blocks(keys[:n_blocks], next_node, node_bits, sample_bits, place, open_lack)


def _merge(
    instances: Instances,
    start: int,
    stop: int,
    node_bits: int,
    sample_bits: int,
    next_node: NDArray[np.int32],
    keys: NDArray[np.uint64],
    score: NDArray[np.float64],
) -> Merged:
    """Run the kernel of the hierarchy's kind on samples `start` to `stop`."""
    if instances.hierarchy.is_forest:
        count = forest_blocks(
            instances.priority, instances.row_ptr, instances.slot, instances.parent,
            instances.is_dense, GRID, start, stop, instances.node_of, node_bits,
            sample_bits, next_node, keys, score,
        )  # fmt: skip
        return count, _NONE_LONG, _NONE_FLOAT
    return dag_blocks(
        instances.priority, instances.row_ptr, instances.slot, instances.parent_ptr,
        instances.parent_idx, instances.is_dense, GRID, start, stop, instances.node_of,
        node_bits, sample_bits, STATE_CAP, next_node, keys, score,
    )  # fmt: skip


def consistent_scores(
    lpr: Any,
    hierarchy: Hierarchy,
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
    hierarchy : Hierarchy
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
    >>> h = Hierarchy([("A", "B"), ("A", "C")])
    >>> consistent_scores([[0.2, 0.8, 0.1]], h)
    array([[0.5, 0.5, 0.1]])
    """
    table = align(lpr, hierarchy, name="lpr")
    dense = isinstance(table.values, np.ndarray)
    if check_fraction(min_lpr, name="min_lpr") > 0.0:
        table, _ = prune(table, hierarchy, min_lpr=min_lpr, weight=weight)
        scores = consistent_scores(table, hierarchy, weight=weight, n_threads=n_threads)
        return scores.toarray() if dense else scores
    instances = list_instances(table, hierarchy, weight=weight)
    score = np.empty(instances.lpr.size)
    threads = n_threads_or_default(n_threads)

    node_bits = max(1, (hierarchy.n_labels - 1).bit_length())

    def merge(start: int, stop: int) -> Merged:
        return _merge(instances, start, stop, node_bits, 0, _NONE_INT, _NONE_KEY, score)

    if score.size:
        run_chunks(merge, even_bounds(instances.row_ptr, threads), threads)
    score = instances.units.given(score)
    if dense:
        return score.reshape(table.values.shape)
    columns = hierarchy.order[instances.node_of]
    scores = sparse.csr_array((score, columns, instances.row_ptr), shape=table.values.shape)
    scores.sort_indices()
    return scores
