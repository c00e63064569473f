"""All blocks of all samples -> one global order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._jit import even_bounds, run_chunks, threads_for
from hierlpr._kernels.forest_blocks import exact_means, pack_keys, split_keys, write_order
from hierlpr._utils.checks import check_count
from hierlpr._utils.display import html_table, text_table
from hierlpr.data.frames import new_frame
from hierlpr.data.tables import align
from hierlpr.exceptions import DataError
from hierlpr.hierarchy.conversion import HierarchyLike, as_hierarchy
from hierlpr.ranking.blocks import (
    GRID,
    GRID_BITS,
    FlatSamples,
    flatten_samples,
    merge_batches,
    relative_weights,
)

SHOWN = 8  # rows of a ranking that is printed
MOST_BUCKET_BITS = 12
WORTH_BUCKETS = 1 << 17  # keys; fewer are sorted in one run
_COLUMNS = ("rank", "sample", "label", "lpr", "score")


class Call(NamedTuple):
    """One place of a ranking by name: sample (its row if it has no name), label, LPR, block score.

    `Ranking.sample` and `Ranking.label` have the rows and columns.
    """

    sample: str | int
    label: str
    lpr: float
    score: float


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """Instances in calling order: parents come before children, block scores never rise.

    A ranking of a dense matrix keeps a reference to it and fetches `lpr` and `score` from it when
    they are first used: do not change the matrix in the meantime.

    Attributes
    ----------
    place : ndarray of int
        Place in the input matrix, row by row: row times columns plus column, in calling order.
    first : ndarray of bool
        True where a block begins.
    source : ndarray of float
        The LPRs: the input matrix, or a vector in calling order.
    labels : tuple of str
        Names of the columns.
    n_instances : int
        Samples times labels, whether listed or not.
    samples : tuple of str or None
        Names of the rows, if they have any.
    weight : ndarray or None
        Importance of each label, if it was given.
    uncertified_at, uncertified_gap : ndarray
        Where the blocks begin whose order is not certified to be best, and how much eAUC each
        may lack.
    called_by : ndarray or None
        The scores of the instances, if they are not the means of the blocks that are listed.
    """

    place: NDArray[Any]
    first: NDArray[np.bool_]
    source: NDArray[np.float64]
    labels: tuple[str, ...]
    n_instances: int
    samples: tuple[str, ...] | None = None
    weight: NDArray[np.float64] | None = None
    backend: str | None = None
    uncertified_at: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    uncertified_gap: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    called_by: NDArray[np.float64] | None = None

    @cached_property
    def sample(self) -> NDArray[Any]:
        """Row of the input matrix, in calling order."""
        return np.asarray(self.place // max(1, len(self.labels)))

    @cached_property
    def label(self) -> NDArray[Any]:
        """Column of the input matrix, in calling order."""
        return np.asarray(self.place - self.sample * len(self.labels))

    @cached_property
    def lpr(self) -> NDArray[np.float64]:
        """The instance's own LPR."""
        if self.source.ndim == 1:
            return self.source
        return np.asarray(self.source.reshape(-1)[self.place])

    @cached_property
    def block_score(self) -> NDArray[np.float64]:
        """Score of each block: the mean of its LPRs times weights, in the whole ranking."""
        if self.called_by is not None:
            return self.called_by[self.first]
        weights = relative_weights(self.weight)
        value = self.lpr if self.weight is None else self.lpr * weights.share[self.label]
        starts = np.flatnonzero(self.first)
        if starts.size == 0:
            return np.empty(0)
        total = np.add.reduceat(np.rint(value * GRID), starts)  # whole numbers: exact
        size = np.diff(starts, append=len(self))
        return np.asarray(weights.rescale(total / size / GRID))

    @cached_property
    def score(self) -> NDArray[np.float64]:
        """Block score of each instance, non-increasing."""
        if self.called_by is not None:
            return self.called_by
        return np.repeat(self.block_score, np.diff(np.flatnonzero(self.first), append=len(self)))

    def eauc(self) -> float:
        r"""Return eAUC, the expected area under the hit curve.

        :math:`\mathrm{eAUC} = \sum_k (n - k + 1)\, w_{(k)} \ell_{(k)}` over the places
        :math:`k = 1, 2, \ldots` with :math:`n` all instances: the expected area if the LPRs
        are right. Instances that are not listed count as LPR 0. Infinite where weights make it
        exceed the largest float.
        """
        weights = relative_weights(self.weight)
        gain = self.lpr if self.weight is None else self.lpr * weights.share[self.label]
        left = self.n_instances - np.arange(len(self), dtype=np.float64)
        return float(weights.rescale(np.dot(left, gain)))

    @property
    def certified(self) -> NDArray[np.bool_]:
        """Whether each block, in calling order, is certified to be in its best order.

        On a forest every block is; on a DAG those for which the exact search finished. See
        `eauc_gap` for the others. The order of the blocks themselves is always best.
        """
        certified = np.ones(int(np.count_nonzero(self.first)), dtype=bool)
        certified[np.searchsorted(np.flatnonzero(self.first), self.uncertified_at)] = False
        return certified

    def eauc_gap(self) -> float:
        """Return an upper bound on how far `eauc` is below the largest possible; 0 if none.

        Always 0 on forests. A block that is not certified adds how much more the best order
        could reach if some edges were ignored.
        """
        return float(self.uncertified_gap.sum())

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] | None = None) -> Any:
        """Return a data frame with columns rank, sample, label (names), lpr and score.

        Parameters
        ----------
        backend : "pandas", "polars" or "pyarrow", optional
            By default the library the LPRs came in, else pandas, else pyarrow.
        """
        named = self.samples is not None
        columns = {
            "rank": np.arange(1, len(self) + 1),
            "sample": np.array(self.samples, object)[self.sample] if named else self.sample,
            "label": np.array(self.labels, dtype=object)[self.label],
            "lpr": self.lpr,
            "score": self.score,
        }
        return new_frame(columns, backend or self.backend)

    def __len__(self) -> int:
        return int(self.place.size)

    def __iter__(self) -> Iterator[Call]:
        columns = (self.sample, self.label, self.lpr, self.score)
        return map(self._call, *(column.tolist() for column in columns))

    def _call(self, row: int, column: int, lpr: float, score: float) -> Call:
        sample = row if self.samples is None else self.samples[row]
        return Call(sample, self.labels[column], lpr, score)

    @overload
    def __getitem__(self, key: int) -> Call: ...
    @overload
    def __getitem__(self, key: slice) -> Ranking: ...

    def __getitem__(self, key: int | slice) -> Call | Ranking:
        if not isinstance(key, slice):
            columns = (self.sample, self.label, self.lpr, self.score)
            return self._call(*(column[key].item() for column in columns))
        if key.step not in (None, 1):
            raise DataError("A ranking can only be sliced without a step, as in ranking[:100].")
        start, stop, _ = key.indices(len(self))
        inside = (self.uncertified_at >= start) & (self.uncertified_at < stop)
        return replace(
            self,
            place=self.place[key],
            first=self.first[key],
            source=self.lpr[key],
            uncertified_at=self.uncertified_at[inside] - start,
            uncertified_gap=self.uncertified_gap[inside],
            called_by=self.score[key],  # a slice may cut blocks, whose scores must stay the same
        )

    def _first_rows(self) -> list[tuple[Any, ...]]:
        return [(place, *call) for place, call in enumerate(self[:SHOWN], start=1)]

    def __repr__(self) -> str:
        head = f"<Ranking: {len(self):,} of {self.n_instances:,} instances>"
        rows = self._first_rows()
        if not rows:
            return head
        more = [f"... {len(self) - len(rows):,} more"] if len(self) > len(rows) else []
        return "\n".join([head, text_table(_COLUMNS, rows), *more])

    def _repr_html_(self) -> str:
        """Show the first rows in a notebook."""
        rows = self._first_rows()
        more = f"<p>and {len(self) - len(rows):,} more</p>" if len(self) > len(rows) else ""
        head = f"<p><b>{len(self):,} of {self.n_instances:,} instances, best calls first</b></p>"
        return head + html_table(_COLUMNS, rows) + more


def rank(
    lpr: Any,
    hierarchy: HierarchyLike,
    *,
    top: int | None = None,
    weight: Any = None,
    n_jobs: int | None = None,
) -> Ranking:
    r"""Order all (sample, label) instances, best calls first and parents before children.

    Parameters
    ----------
    lpr : array-like, sparse matrix or data frame of shape (n_samples, n_labels)
        Local precision rates in [0, 1]. In a sparse matrix, absent means 0, and only the stored
        entries and their ancestors are listed.
    hierarchy : Hierarchy, path, dict, edges or networkx graph
        The label hierarchy; array columns follow ``hierarchy.labels``, data frames by name.
        Anything else is converted by :func:`hierlpr.io.as_hierarchy`.
    top : int, optional
        List only the first `top` instances; the others are not sorted.
    weight : array-like of shape (n_labels,) or dict of label to number, optional
        Importance of each label: finite and not negative, of any size. Only their ratios decide
        the order. LPR times weight is rounded to steps of ``2**-30`` of the largest weight, so
        labels with weights more than ``2**31`` times smaller count as 0.
    n_jobs : int, optional
        Threads to use. The result is the same, bit by bit, for any number.

    Returns
    -------
    Ranking

    Notes
    -----
    Among all orders that never put a label before one of its parents, the ranking maximizes
    :math:`\mathrm{eAUC} = \sum_k (n - k + 1)\, w_{(k)} \ell_{(k)}`. This is scheduling of unit
    jobs with precedence: labels merge into blocks with their parents where the mean rises, and
    the blocks of all samples are sorted by mean. On a forest this is exact (Horn, 1972). On a DAG
    the blocks are exact (Sidney, 1975), and an exact search orders small blocks inside;
    `Ranking.certified` and `Ranking.eauc_gap` say where it was too costly. Ties go to
    the smaller topological number of the block's first label, then to the earlier sample.

    References
    ----------
    Ho et al. (2018), key ``ho2018hierlpr``; Horn (1972), key ``horn1972``; Sidney (1975),
    key ``sidney1975decomposition`` in ``docs/references.bib``.

    Examples
    --------
    >>> from hierlpr import Hierarchy
    >>> h = Hierarchy([("A", "B"), ("A", "C")])
    >>> r = rank([[0.2, 0.8, 0.1], [0.9, 0.3, 0.4]], h)
    >>> [(int(s), h.labels[k]) for s, k in zip(r.sample, r.label)]
    [(1, 'A'), (0, 'A'), (0, 'B'), (1, 'C'), (1, 'B'), (0, 'C')]
    >>> r.score
    array([0.9, 0.5, 0.5, 0.4, 0.3, 0.1])
    """
    hierarchy = as_hierarchy(hierarchy)
    table = align(lpr, hierarchy, name="lpr")
    n_top = None if top is None else check_count(top, name="top", least=0)
    instances = flatten_samples(table, hierarchy, weight=weight)
    place, first, uncertified, gap = _order(instances, n_top, n_jobs)
    if instances.is_dense:
        source = instances.lpr.reshape(-1, hierarchy.n_labels)
    else:
        source = instances.lpr[place]
        sample = np.repeat(np.arange(table.n_samples), np.diff(instances.row_ptr))
        label = hierarchy.order[instances.node_of]
        place = sample[place] * hierarchy.n_labels + label[place]
    ranking = Ranking(
        place,
        first,
        source,
        labels=hierarchy.labels,
        n_instances=table.n_samples * hierarchy.n_labels,
        samples=table.samples,
        weight=instances.weight,
        backend=table.backend,
        uncertified_at=uncertified,
        uncertified_gap=gap,
    )
    return ranking if n_top is None else ranking[:n_top]


def _order(
    instances: FlatSamples, top: int | None, n_jobs: int | None
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.int64], NDArray[np.float64]]:
    """Sort the blocks of all samples.

    Returns the places of the instances in the flat layout, in calling order; whether a block
    begins there; where the uncertified blocks begin in that order; and their gaps.
    """
    row_ptr = instances.row_ptr
    sample_bits = max(1, (row_ptr.size - 2).bit_length())
    low_bits = 1 + sample_bits + max(1, (instances.hierarchy.n_labels - 1).bit_length())
    if low_bits > 62:
        raise DataError("Too many samples and labels for one ranking; rank fewer samples.")
    threads = threads_for(instances.lpr.size, n_jobs)
    next_node = np.empty(instances.lpr.size, dtype=np.int32)

    def merge(start: int, stop: int) -> tuple[NDArray[np.uint64], list[Any]]:
        """Return the keys of the blocks of some samples, and the uncertified ones."""
        keys = np.empty(int(row_ptr[stop] - row_ptr[start]), dtype=np.uint64)
        n_keys, uncertified = 0, []
        for batch in merge_batches(instances, start, stop, order=True):
            begin = int(row_ptr[batch.start])
            next_node[begin : begin + batch.mean.size] = batch.next_node
            blocks = (batch.start, batch.stop, batch.n_nodes, batch.mean)
            bits = (sample_bits, low_bits)
            n_keys += pack_keys(row_ptr, instances.node_of, *blocks, *bits, keys[n_keys:])
            if batch.uncertified.size:
                uncertified.append((batch.uncertified + begin, batch.gap))
        return keys[:n_keys], uncertified

    merged = run_chunks(merge, even_bounds(row_ptr, threads), threads)
    keys = np.concatenate([part for part, _ in merged])
    bucket_ptr = np.array([0, keys.size])
    if keys.size >= WORTH_BUCKETS:
        # Buckets by the highest bits of the mean fit the cache, where sorting takes half as long.
        n_bits = min((keys.size >> 10).bit_length(), MOST_BUCKET_BITS, 64 - low_bits)
        keys, bucket_ptr = split_keys(keys, n_bits)
    n_listed = instances.lpr.size
    if top is not None:  # a block has at least one instance
        bucket_ptr = bucket_ptr[: np.searchsorted(bucket_ptr, top) + 1]
    layout = (row_ptr, instances.slot, instances.node_of, next_node, sample_bits, low_bits)

    def write(start: int, stop: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Sort the keys of some buckets and list their instances."""
        for bucket in range(start, stop):
            keys[bucket_ptr[bucket] : bucket_ptr[bucket + 1]].sort()
        part = keys[bucket_ptr[start] : bucket_ptr[stop]]
        _settle_ties(part, low_bits, lambda tied: exact_means(tied, instances.priority, *layout))
        place: NDArray[Any] = np.empty(n_listed, np.int32 if n_listed < 2**31 else np.int64)
        first = np.empty(n_listed, dtype=bool)
        n = write_order(part, *layout, n_listed if top is None else top, place, first)
        return place[:n], first[:n]

    # A short list is not worth sharing, and its end is known to one thread only.
    written = run_chunks(write, even_bounds(bucket_ptr, 1 if top is not None else threads), threads)
    place, first = (np.concatenate(parts) for parts in zip(*written, strict=True))
    uncertified = [blocks for _, of_part in merged for blocks in of_part]
    if not uncertified:
        return place, first, np.empty(0, dtype=np.int64), np.empty(0)
    begins, gap = (np.concatenate(parts) for parts in zip(*uncertified, strict=True))
    at = np.full(instances.lpr.size, -1, dtype=np.int64)  # place in the ranking
    at[place] = np.arange(place.size)
    sample = np.searchsorted(row_ptr, begins, side="right") - 1
    at = at[row_ptr[sample] + instances.slot[begins - row_ptr[sample]]]
    listed = np.flatnonzero(at >= 0)
    listed = listed[np.argsort(at[listed])]
    gap = relative_weights(instances.weight).rescale(gap / GRID)
    return place, first, at[listed], gap[listed]


def _settle_ties(
    keys: NDArray[np.uint64],
    low_bits: int,
    means_of: Callable[[NDArray[np.uint64]], NDArray[np.float64]],
) -> None:
    """Sort runs of keys that tie in the bits of the mean by the exact mean, in place.

    Sorting is stable, so that node and sample decide among equal means.
    """
    run = keys >> np.uint64(low_bits)
    is_same = run[1:] == run[:-1]
    tied = np.flatnonzero(np.append(is_same, False) | np.append(False, is_same))
    if 63 - low_bits >= GRID_BITS and not np.any(keys[tied] & np.uint64(1)):
        return  # means of single nodes are whole numbers, so all their bits are in the keys
    run, mean = run[tied], means_of(keys[tied])
    if np.any((run[1:] == run[:-1]) & (mean[1:] > mean[:-1])):
        keys[tied] = keys[tied[np.lexsort((-mean, run))]]
