"""All blocks of all samples -> one global order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_fraction
from hierlpr._base.showing import html_table, text_table
from hierlpr._kernels import keys as kernels
from hierlpr._kernels._threads import row_chunks, run_chunks, threads_for
from hierlpr._kernels.calling import Listed, settle_ties, write_order
from hierlpr._kernels.filing import PAGE, Filed, collect, sort_keys
from hierlpr._kernels.keys import SIZE_BITS
from hierlpr._kernels.layout import KeyBits, SortBits
from hierlpr.data.frames import new_frame
from hierlpr.data.tables import align
from hierlpr.exceptions import DataError
from hierlpr.io.hierarchies import HierarchyLike, as_hierarchy
from hierlpr.ranking.blocks import Blocks, merge_blocks
from hierlpr.ranking.instances import GRID, Instances, Units, in_units, list_instances
from hierlpr.ranking.pruning import Tail, cost_bound, prune

SHOWN = 8  # rows of a ranking that is printed
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
    they are first asked for: do not change the matrix in the meantime.

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
    open_place, open_lack : ndarray
        Where the blocks begin whose order is not certified to be best, and how much eAUC each
        may lack.
    n_pruned : int
        How many of the last instances were pruned by `min_lpr`; their block score is 0.
    pruning_cost : float
        The most eAUC that pruning can have cost.
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
    open_place: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    open_lack: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    n_pruned: int = 0
    pruning_cost: float = 0.0
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
        lpr = np.empty(len(self))
        flat = np.ascontiguousarray(self.source).reshape(-1)

        def gather(start: int, stop: int) -> None:
            kernels.gather(flat, self.place[start:stop], lpr[start:stop])

        threads = threads_for(len(self), None)
        run_chunks(gather, row_chunks((len(self),), threads), threads)
        return lpr

    @cached_property
    def block_score(self) -> NDArray[np.float64]:
        """Score of each block that begins here: the mean of its LPRs, weighted as labels are.

        Of a part of a ranking, those of the whole.
        """
        if self.called_by is not None:
            return self.called_by[self.first]
        units = in_units(self.weight)
        return np.asarray(units.given(self._block_means(units)))

    def _block_means(self, units: Units) -> NDArray[np.float64]:
        mean = np.empty(int(np.count_nonzero(self.first)))
        kernels.block_means(self.lpr, self.label, self.first, units.share, GRID, mean)
        mean[mean.size - self.n_pruned :] = 0.0
        return mean

    @cached_property
    def score(self) -> NDArray[np.float64]:
        """Score that each instance was called by, non-increasing: its block's, if none is given."""
        if self.called_by is not None:
            return self.called_by
        block = np.cumsum(self.first) - int(self.first[:1].sum())
        score: NDArray[np.float64] = self.block_score[block]
        return score

    def eauc(self) -> float:
        r"""Return the early-call-driven area under the hit curve.

        :math:`\mathrm{eAUC} = \sum_k (n - k + 1)\, w_{(k)} \ell_{(k)}` over the places
        :math:`k = 1, 2, \ldots` with :math:`n` all instances: the expected area if the LPRs
        are right. Instances that are not listed count as LPR 0. Infinite where weights make it
        exceed the largest float.
        """
        units = in_units(self.weight)
        gain = self.lpr if self.weight is None else self.lpr * units.share[self.label]
        left = self.n_instances - np.arange(len(self), dtype=np.float64)
        return float(units.given(np.dot(left, gain)))

    @property
    def certified(self) -> NDArray[np.bool_]:
        """Whether each block, in calling order, is certified to be in its best order.

        The order of the blocks always is. On a forest every block is certified; on a DAG those
        are that the exact search could finish, see `eauc_gap` for the others.
        """
        certified = np.ones(int(np.count_nonzero(self.first)), dtype=bool)
        certified[np.searchsorted(np.flatnonzero(self.first), self.open_place)] = False
        return certified

    def eauc_gap(self) -> float:
        """Return an upper bound on what `eauc` lacks to the largest possible; 0 if it is reached.

        Blocks that are not certified add to it what the best order, with some of the parents
        left out, would reach more; labels pruned by `min_lpr` add what they would gain if they
        had no parents. Without pruning, always 0 on forests.
        """
        return float(self.open_lack.sum()) + self.pruning_cost

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] | None = None) -> Any:
        """Return a data frame with columns rank, sample, label (names), lpr and score.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
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
        return map(
            self._call, *(x.tolist() for x in (self.sample, self.label, self.lpr, self.score))
        )

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
            raise DataError("A ranking can be cut, not thinned: use a slice without a step.")
        start, stop, _ = key.indices(len(self))
        inside = (self.open_place >= start) & (self.open_place < stop)
        return replace(
            self, place=self.place[key], first=self.first[key], source=self.lpr[key],
            open_place=self.open_place[inside] - start, open_lack=self.open_lack[inside],
            n_pruned=max(0, stop - max(start, len(self) - self.n_pruned)),
            # A slice may cut blocks, whose scores must stay those of the whole.
            called_by=self.score[key],
        )  # fmt: skip

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
    min_lpr: float = 0.0,
    n_threads: int | None = None,
) -> Ranking:
    r"""Order all (sample, label) instances, best calls first and parents before children.

    Parameters
    ----------
    lpr : array-like, sparse matrix or data frame of shape (n_samples, n_labels)
        Local precision rates in [0, 1]. In a sparse matrix, absent means 0, and only the stored
        entries and their ancestors are listed.
    hierarchy : Hierarchy, path, dict, edges or networkx graph
        The label hierarchy; array columns follow ``hierarchy.labels``, data frames go by name. What
        is no `Hierarchy` becomes one, see :func:`hierlpr.io.as_hierarchy`.
    top : int, optional
        List only the first `top` instances; the others are not sorted.
    weight : array-like of shape (n_labels,) or dict of label to number, optional
        Importance of each label: finite and not negative, of any size. Only their ratios decide
        the order. LPR times weight is rounded to steps of ``2**-30`` of the largest weight, so
        labels with weights more than ``2**31`` times smaller count as 0.
    min_lpr : float
        Look for blocks only among labels of at least this LPR and their ancestors. The others
        follow at the end with score 0, by the smallest LPR (times weight) among the label and its
        ancestors there, falling. `Ranking.pruning_cost` bounds what that costs.
    n_threads : int, optional
        Threads to use. The result is the same, bit by bit, for any number.

    Returns
    -------
    Ranking

    Notes
    -----
    Among all orders that never put a label before one of its parents, the ranking maximizes
    :math:`\mathrm{eAUC} = \sum_k (n - k + 1)\, w_{(k)} \ell_{(k)}`. That is scheduling of unit
    jobs with precedence: labels merge into blocks with their parents where the mean rises, and
    the blocks of all samples are sorted by mean. On a forest this is exact (Horn, 1972). On a DAG
    the blocks are (Sidney, 1975), and the order inside a block is found by an exact search as far
    as that is small; `Ranking.certified` and `Ranking.eauc_gap` tell where it was not. Ties go to
    the smaller topological number of the block's first label, then to the earlier sample.

    References
    ----------
    Ho et al., HierLPR, key ``ho2018hierlpr``; Horn (1972), key ``horn1972``; Sidney (1975),
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
    n_top = _check_top(top)
    if check_fraction(min_lpr, name="min_lpr") > 0.0:
        kept, tail = prune(table, hierarchy, min_lpr=min_lpr, weight=weight)
        ranking = _append(rank(kept, hierarchy, weight=weight, n_threads=n_threads), tail)
        return ranking if n_top is None else ranking[:n_top]
    instances = list_instances(table, hierarchy, weight=weight)
    threads = threads_for(instances.lpr.size, n_threads)
    blocks = merge_blocks(instances, n_threads=threads)
    listed = _call_in_order(instances, blocks, n_top, threads)
    open_place, open_lack = _find_open(instances, blocks, listed)
    ranking = Ranking(
        listed.place,
        listed.first,
        instances.lpr.reshape(-1, hierarchy.n_labels) if instances.is_dense else listed.lpr,
        labels=hierarchy.labels,
        n_instances=table.n_samples * hierarchy.n_labels,
        samples=table.samples,
        weight=instances.weight,
        backend=table.backend,
        open_place=open_place,
        open_lack=open_lack,
    )
    return ranking if n_top is None else ranking[:n_top]


def _append(ranking: Ranking, tail: Tail) -> Ranking:
    """Add pruned instances at the end, each a block of its own, with the bound on their cost."""
    starts = np.flatnonzero(ranking.first)
    sizes = np.diff(np.append(starts, len(ranking)))
    units = in_units(ranking.weight)
    place = tail.sample * len(ranking.labels) + tail.label
    return replace(
        ranking,
        place=np.concatenate((ranking.place, place.astype(ranking.place.dtype))),
        first=np.concatenate((ranking.first, np.ones(tail.lpr.size, dtype=bool))),
        source=np.concatenate((ranking.lpr, tail.lpr)),
        n_pruned=int(tail.lpr.size),
        pruning_cost=float(units.given(cost_bound(ranking._block_means(units), sizes, tail))),
    )


def _check_top(top: int | None) -> int | None:
    if top is None:
        return None
    if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 0:
        raise DataError(f"top must be a whole number, 0 or more; got {top!r}.")
    return int(top)


def _call_in_order(instances: Instances, blocks: Blocks, top: int | None, n_threads: int) -> Listed:
    """Sort the blocks range by range and list their instances; of a short list the first ranges."""
    runs, bits = blocks.runs, blocks.bits
    counts = runs[0].n_nodes if len(runs) == 1 else np.sum([run.n_nodes for run in runs], axis=0)
    ends = [0, *accumulate(counts.tolist())]
    n_ranges = len(ends) - 1
    if top is not None:
        n_ranges = min(n_ranges, bisect_left(ends, top))
    n = ends[n_ranges]
    order = instances.hierarchy.order
    index_type = np.int32 if instances.n_samples * order.size < 2**31 else np.int64
    listed = Listed(
        np.empty(n, dtype=index_type),
        np.zeros(n, dtype=bool),
        np.empty(0 if instances.is_dense else n),
    )
    rows = instances.rows._replace(value=instances.lpr)
    words_of, cells = _readers(runs), _cells_of(runs[0])

    def call(number: int, _: int) -> None:
        words = words_of(number)
        to = _sort_bits(cells[number], cells[number + 1], runs[0].shift, words.size, bits)
        keys = np.empty(words.size, dtype=np.uint64)
        keys = keys[: sort_keys(words, bits, to, keys)]
        keys.sort()
        settle_ties(keys, words, instances.rows, bits, to)
        write_order(keys, words, ends[number], rows, bits, to, order, listed)

    run_chunks(call, list(range(n_ranges + 1)), n_threads)
    return listed


def _cells_of(filed: Filed) -> list[int]:
    """Where each range begins among the values of the highest bits of keys, and their number."""
    if filed.end.size == 1:  # saves what one sample would notice, as below
        return [0, filed.range_of.size]
    cells: list[int] = np.searchsorted(filed.range_of, np.arange(filed.end.size + 1)).tolist()
    return cells


def _readers(runs: list[Filed]) -> Callable[[int], NDArray[np.uint64]]:
    """Return what fetches all words of a range, run by run."""
    if len(runs) == 1 and runs[0].end.size == 1:
        return lambda _: runs[0].words[: runs[0].end[0]]
    pages = [_pages_by_range(run) for run in runs]

    def fetch(number: int) -> NDArray[np.uint64]:
        each = [(run, of[number]) for run, of in zip(runs, pages, strict=True)]
        sizes = [at.size * PAGE - int(-run.end[number] % PAGE) for run, at in each]
        words = np.empty(sum(sizes), dtype=np.uint64)
        begin = 0
        for (run, at), size in zip(each, sizes, strict=True):
            collect(run.words, at, words[begin : begin + size])
            begin += size
        return words

    return fetch


def _pages_by_range(filed: Filed) -> list[NDArray[np.int64]]:
    """Return the pages of each range, in the order they were filled."""
    owner = filed.owner[: filed.n_pages[0]]
    by_range = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[by_range], np.arange(filed.end.size + 1)).tolist()
    return [by_range[start:stop] for start, stop in pairwise(bounds)]


def _sort_bits(first: int, stop: int, shift: int, n_words: int, bits: KeyBits) -> SortBits:
    """Choose how keys of a range of cells are shortened, for a place among so many words."""
    low_bits = bits.node + bits.sample + SIZE_BITS
    least, most = (first << shift) >> low_bits, ((stop << shift) - 1) >> low_bits
    place = n_words.bit_length()
    drop = (most - least).bit_length() + bits.node + place - 64
    return SortBits(least, max(0, drop), place)


def _find_open(
    instances: Instances, blocks: Blocks, listed: Listed
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Places in the ranking of the blocks that are not certified, and what they may lack."""
    if blocks.open_place.size == 0:
        return blocks.open_place, blocks.open_lack
    hierarchy = instances.hierarchy
    row_ptr = instances.rows.row_ptr
    sample = np.searchsorted(row_ptr, blocks.open_place, side="right") - 1
    node = blocks.open_place - row_ptr[sample]
    if not instances.is_dense:
        node = instances.rows.node_of[blocks.open_place]
    wanted = sample * hierarchy.n_labels + hierarchy.order[node]
    starts = np.flatnonzero(listed.first)
    _, at, which = np.intersect1d(
        listed.place[starts], wanted, assume_unique=True, return_indices=True
    )
    by_place = np.argsort(at)
    return starts[at[by_place]].astype(np.int64), blocks.open_lack[which[by_place]]
