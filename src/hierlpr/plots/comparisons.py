"""Curves over pooled instances: hits and precision; ours beside simpler methods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hierlpr.metrics.curves import HitSums
from hierlpr.metrics.evaluation import STRETCH
from hierlpr.plots.evidence import Pool
from hierlpr.plots.orders import Along, Order, Shares, in_order

Float = NDArray[np.float64]

MOST_POINTS = 400  # corners of a curve that are drawn; more cannot be seen
MOST_CORNERS = 1 << 16  # that are kept
TARGETS = (0.99, 0.95, 0.9, 0.8, 0.7, 0.5)  # precisions whose price is told


@dataclass(frozen=True, slots=True, eq=False)
class MethodCurve(Shares):
    """The hit curve of one method and its areas.

    `calls` and `hits` are corners from (0, 0) to all instances, each after a group of equal values:
    all of them, or of very many the first and then even steps. `violations` counts the (sample,
    parent, child) triples that the method calls in the wrong order, None where it was not counted.
    Precision, recall and areas are by the weights of samples where they have any: `weighed` are the
    same corners by weight.
    """

    key: str
    name: str
    calls: Float
    hits: Float
    au_prc: float
    hit_area: float
    precision_there: float | None
    violations: int | None
    weighed: tuple[Float, Float]

    @classmethod
    def of(
        cls, key: str, name: str, along: Along, *, n_calls: int = 0, violations: int | None = None
    ) -> MethodCurve:
        """Measure an order; `precision_there` is its precision after `n_calls` calls."""
        there = None
        if n_calls:
            made, found = (float(np.interp(n_calls, along.calls, x)) for x in along.weighed)
            there = found / made
        calls, hits, *weighed = _some(along.calls, along.hits, *along.weighed)
        return cls(
            key, name, calls, hits, *_areas(*along.weighed), precision_there=there,
            violations=violations, weighed=(weighed[0], weighed[1]),
        )  # fmt: skip


def along_of(listed: Pool) -> Along:
    """Count instances that are all at hand: equal values are one group, unlisted ones the last."""
    order = Order(listed.value.size, weighs=listed.weight is not None, adds=True)
    order.look(listed)
    order.count(*in_order(listed))
    return order.along()


def method_curve(key: str, name: str, listed: Pool) -> MethodCurve:
    """Count hits along falling values of instances that are all at hand."""
    return MethodCurve.of(key, name, along_of(listed))


def _some(*columns: Float) -> tuple[Float, ...]:
    """Return all corners, or of very many the first half and then even steps to the last."""
    size, first = columns[0].size, MOST_CORNERS // 2
    if size <= MOST_CORNERS:
        return columns
    later = np.linspace(first, size - 1, MOST_CORNERS - first).astype(np.intp)
    kept = np.concatenate([np.arange(first), later])
    return tuple(column[kept] for column in columns)


def _areas(calls: Float, hits: Float) -> tuple[float, float]:
    """AU(PRC) by steps and the normalized hit area, NaN unless there are both classes."""
    sums = HitSums(hits[-1])
    for start in range(0, calls.size - 1, STRETCH):  # of very many, some at a time
        part = slice(start, start + STRETCH + 1)
        sums.add(calls[part] - calls[start], hits[part] - hits[start])
    if not 0 < sums.positives < sums.calls:
        return float("nan"), float("nan")
    return sums.au_prc(), sums.normalized_area()


@dataclass(frozen=True, slots=True, eq=False)
class Promise:
    """Along the ranking: calls, the share of them that is right, and the share the model expects.

    The expected share is the mean block score of the calls so far. Without truth the observed one
    is None.
    """

    calls: Float
    precision: Float | None
    expected: Float

    @classmethod
    def of(cls, along: Along, *, has_truth: bool = True) -> Promise:
        """Compare expected with observed precision, group of equal block scores by group."""
        last = along.n_ranked - 1
        calls, expected, precision = _some(
            along.calls[1 : last + 1], along.expected, along.precision[:last]
        )
        return cls(calls, precision if has_truth else None, expected)


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """The most calls at which the precision on these samples still reaches `target`.

    `n_calls` is 0 where no number of calls does.
    """

    target: float
    n_calls: int
    precision: float | None
    recall: float | None


def tradeoffs_of(along: Along, *, has_truth: bool = True) -> tuple[Tradeoff, ...]:
    """For each target, the most calls of which that share is right, or is expected to be.

    Ties are never split.
    """
    share, recall = _share(along, has_truth), along.recall
    found = []
    for target, at in zip(TARGETS, _last_meeting(share), strict=True):
        if at < 0:
            found.append(Tradeoff(target, 0, None, None))
            continue
        there = float(recall[at]) if has_truth else None
        found.append(Tradeoff(target, int(along.calls[at + 1]), float(share[at]), there))
    return tuple(found)


def unclear_corners(along: Along, n_calls: int, *, has_truth: bool) -> set[int]:
    """Corners after which a target may still be met, or `n_calls` calls lie.

    Calls without a hit lower the precision, so a target is met last right after the last corner
    that meets it, before the next.
    """
    met = _last_meeting(_share(along, has_truth))
    return {corner_at(along, n_calls), *(at + 1 for at in met)}


def corner_at(along: Along, n_calls: int) -> int:
    """Return the last corner with at most so many calls."""
    return int(np.searchsorted(along.calls, n_calls, side="right")) - 1


def _share(along: Along, has_truth: bool) -> Float:
    return along.precision if has_truth else along.expected


def _last_meeting(share: Float) -> list[int]:
    """Place of the last share that meets each of the targets, -1 if none does."""
    meets = (np.flatnonzero(share >= target - 1e-12) for target in TARGETS)
    return [int(places[-1]) if places.size else -1 for places in meets]


def thin(x: Float, *columns: Float, most: int = MOST_POINTS) -> tuple[Float, ...]:
    """Keep at most `most` points of curves over a rising `x`: the early ones, then even steps."""
    if x.size <= most:
        return (x, *columns)
    early = np.arange(most // 4)
    # Even steps in x, not in points: ties make some steps long.
    steps = np.searchsorted(x, np.linspace(x[0], x[-1], most - early.size))
    keep = np.unique(np.concatenate([early, np.minimum(steps, x.size - 1)]))
    return tuple(column[keep] for column in (x, *columns))
