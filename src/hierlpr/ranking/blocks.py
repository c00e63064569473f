"""One sample's LPRs -> blocks of labels that are called together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._base.checks import check_fraction
from hierlpr._kernels._threads import even_bounds, run_chunks, threads_for
from hierlpr._kernels.dag_blocks import OpenBlocks, dag_keys, dag_scores
from hierlpr._kernels.filing import Filed, sort_keys
from hierlpr._kernels.forest_blocks import forest_keys, forest_scores
from hierlpr._kernels.keys import SIZE_BITS, key_bits
from hierlpr._kernels.layout import Forest, KeyBits, Rows, SortBits
from hierlpr.data.tables import align
from hierlpr.exceptions import DataError
from hierlpr.io.hierarchies import HierarchyLike, as_hierarchy
from hierlpr.ranking.instances import GRID, Instances, list_instances
from hierlpr.ranking.pruning import prune

STATE_CAP = 20_000  # closed sets of one block to look at before its order goes uncertified
BATCH = 1 << 15  # instances of a DAG merged at a time
SMALL = 1 << 17  # instances that are sorted as one range
RANGE = 1 << 16  # instances of a range, so that their blocks are sorted in the cache
MOST_RANGES = 256
CELL_BITS = 12  # highest bits of keys that tell ranges apart
TRIED = 1 << 16  # instances that are merged to see how means lie


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """The blocks of all samples, filed by run of samples and by range of means.

    See `hierlpr._kernels.filing` for how, and `hierlpr._kernels.keys` for what a key holds. Ranges
    follow each other and never part keys with equal bits of the mean. The blocks whose order
    is not certified to be best begin at ``row_ptr[m] + i`` in `open_place` and lack at most
    `open_lack` of eAUC; on forests there are none.
    """

    runs: list[Filed]
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
    row_ptr = instances.rows.row_ptr
    bits = key_bits(instances.hierarchy.n_labels, instances.n_samples)
    if bits is None:
        raise DataError("Too many samples and labels for one ranking; rank them in parts.")
    range_of, shift = _part_means(instances, bits)

    def merge(start: int, stop: int) -> tuple[Filed, list[OpenBlocks]]:
        filed = Filed.empty(int(row_ptr[stop] - row_ptr[start]), range_of, shift)
        return filed, _file(instances, start, stop, bits, filed)

    merged = run_chunks(merge, even_bounds(row_ptr, threads), threads)
    found = [part for _, parts in merged for part in parts]
    place = np.concatenate([np.empty(0, dtype=np.int64), *(part.place for part in found)])
    lack = np.concatenate([np.empty(0), *(part.lack for part in found)])
    runs = [filed for filed, _ in merged]
    return Blocks(runs, bits, place, instances.units.given(lack / GRID))


def _file(
    instances: Instances, start: int, stop: int, bits: KeyBits, filed: Filed
) -> list[OpenBlocks]:
    """Merge and file the blocks of samples ``start`` to ``stop``."""
    rows, graph = instances.rows, instances.graph
    if isinstance(graph, Forest):
        forest_keys(rows, graph, start, stop, bits, filed)
        return []
    return [
        dag_keys(rows, graph, begin, end, bits, STATE_CAP, filed)
        for begin, end in _batches(rows, start, stop)
    ]


def _part_means(instances: Instances, bits: KeyBits) -> tuple[NDArray[np.int32], int]:
    """Part the means into about even ranges, as they lie in some of the samples.

    Returns the range of each value of the highest bits of keys, and how many bits are below them.
    """
    n_instances = instances.lpr.size
    everything = np.zeros(2, dtype=np.int32), 63
    # A sample is merged whole or not at all, and on a DAG for seconds if it has very many labels.
    n_places = min(16, instances.n_samples // 64)
    if n_instances < SMALL or n_places == 0:
        return everything
    n_ranges = min(MOST_RANGES, 1 << (n_instances // RANGE).bit_length())
    row_ptr = instances.rows.row_ptr
    starts = n_instances * np.arange(n_places) // n_places
    stops = starts + min(TRIED, n_instances // 64) // n_places
    first, last = np.searchsorted(row_ptr, [starts, stops], side="right") - 1
    filed = Filed.empty(int((row_ptr[last + 1] - row_ptr[first]).sum()), *everything)
    for start, stop in zip(first.tolist(), (last + 1).tolist(), strict=True):
        _file(instances, start, stop, bits, filed)
    words = filed.words[: filed.end[0]]
    keys = np.empty(words.size, dtype=np.uint64)
    to = SortBits(0, 63, int(words.size).bit_length())
    n_keys = sort_keys(words, bits, to, keys)
    at = keys[:n_keys] & np.uint64((1 << to.place) - 1)
    cell_bits = min(CELL_BITS, 64 - (bits.node + bits.sample + SIZE_BITS))
    shift = 64 - cell_bits
    cells = (words[at] >> np.uint64(shift)).astype(np.intp)  # NumPy 1 counts no unsigned ones
    below = np.cumsum(np.bincount(cells, minlength=1 << cell_bits))
    return (np.maximum(below * n_ranges - 1, 0) // below[-1]).astype(np.int32), shift


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

    # On a DAG a sample may take many times as long as another, and threads would wait.
    n_chunks = threads if isinstance(graph, Forest) or threads == 1 else 8 * threads
    run_chunks(merge, even_bounds(rows.row_ptr, n_chunks), threads)
    score = instances.units.given(score)
    if dense:
        return score.reshape(table.values.shape)
    columns = hierarchy.order[rows.node_of]
    scores = scipy.sparse.csr_array((score, columns, rows.row_ptr), shape=table.values.shape)
    scores.sort_indices()
    return scores
