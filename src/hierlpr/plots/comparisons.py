"""Curves over pooled instances: hits, precision, calibration; ours beside simpler methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix
from hierlpr.metrics import hit_curve
from hierlpr.metrics.cafa import propagate_max_sparse
from hierlpr.metrics.curves import HitSums
from hierlpr.plots.evidence import Evidence, Pool
from hierlpr.research.baselines import propagate_max

Float = NDArray[np.float64]

MOST_POINTS = 400  # corners of a curve that are drawn; more cannot be seen


@dataclass(frozen=True, slots=True, eq=False)
class MethodCurve:
    """The hit curve of one method and its areas.

    `calls` and `hits` are the corners after each group of equal values, from (0, 0) to all
    instances. `violations` counts the (sample, parent, child) triples that the method calls in
    the wrong order, None where it was not counted. Precision, recall and areas are by the weights
    of samples where they have any: `weighed` are the same corners by weight.
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

    @property
    def precision(self) -> Float:
        """Share of right calls after each group, without the empty start."""
        calls, hits = self.weighed
        shares: Float = hits[1:] / calls[1:]
        return shares

    @property
    def recall(self) -> Float:
        """Share of the positives found after each group."""
        hits = self.weighed[1]
        shares: Float = hits[1:] / (hits[-1] or 1.0)
        return shares


def compare_methods(evidence: Evidence, *, n_calls: int) -> tuple[MethodCurve, ...]:
    """Ours, LPRs without the hierarchy, maxima passed up, and raw scores.

    `precision_there` is the precision of each after `n_calls` calls: the same number of calls as
    at our cutoff.
    """
    e = evidence
    is_dense = isinstance(e.scores, np.ndarray)
    raised = (propagate_max if is_dense else propagate_max_sparse)(e.scores, e.hierarchy)
    methods: list[tuple[str, str, Matrix]] = [
        ("hierlpr", "HierLPR", e.block_score),
        ("lpr", "LPR alone", e.own_lpr),
        ("max", "Max-propagation", raised),
        ("raw", "Raw scores", e.scores),
    ]
    curves = []
    for key, name, matrix in methods:
        violations = len(e.hierarchy.violations(matrix)) if isinstance(matrix, np.ndarray) else None
        curves.append(
            method_curve(key, name, e.pool(matrix), n_calls=n_calls, violations=violations)
        )
    return tuple(curves)


def method_curve(
    key: str, name: str, listed: Pool, *, n_calls: int = 0, violations: int | None = None
) -> MethodCurve:
    """Count hits along falling values; equal values are one group, unlisted ones the last."""
    calls, hits = hit_curve(listed.truth, listed.value)
    weighed = _weighed(listed, calls)
    if listed.n_instances > calls[-1]:
        calls, hits = np.append(calls, listed.n_instances), np.append(hits, listed.n_positives)
        if weighed is not None:
            ends = zip(weighed, listed.weighed, strict=True)
            weighed = tuple(np.append(corners, last) for corners, last in ends)
    by_weight = (calls, hits) if weighed is None else (weighed[0], weighed[1])
    there = None
    if n_calls:
        made, found = (float(np.interp(n_calls, calls, corners)) for corners in by_weight)
        there = found / made
    return MethodCurve(
        key, name, calls, hits, *_areas(*by_weight), precision_there=there, violations=violations,
        weighed=by_weight,
    )  # fmt: skip


def _weighed(listed: Pool, calls: Float, *more: Float) -> tuple[Float, ...] | None:
    """Weights of calls, of hits and of more along a list of falling values, at its corners."""
    if listed.weight is None:
        return None
    order = np.argsort(-listed.value, kind="stable")
    at, own = calls.astype(np.intp), listed.weight[order]
    sums = [own, own * listed.truth[order], *(own * x[order] for x in more)]
    return tuple(np.append(0.0, np.cumsum(x))[at] for x in sums)


def _areas(calls: Float, hits: Float) -> tuple[float, float]:
    """AU(PRC) by steps and the normalized hit area, NaN unless there are both classes."""
    sums = HitSums(hits[-1])
    sums.add(calls, hits)
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


def promise_along(listed: Pool, *, has_truth: bool = True) -> Promise:
    """Compare expected with observed precision, group of equal block scores by group."""
    corners, hits = hit_curve(listed.truth, listed.value)
    calls, hits = corners[1:], hits[1:]
    weighed = _weighed(listed, corners, listed.value)
    if weighed is not None:
        made, right, chance = (column[1:] for column in weighed)
        return Promise(calls, right / made if has_truth else None, chance / made)
    expected: Float = np.cumsum(np.sort(listed.value)[::-1])[calls.astype(np.intp) - 1] / calls
    return Promise(calls, hits / calls if has_truth else None, expected)


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Instances with predictions in one bin: how many, the mean prediction, the share that holds.

    `low` and `high` bound the share with about 95 % confidence; see `calibration_of`.
    """

    n: int
    predicted: float
    observed: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CalibrationCurve:
    """Bins of rising prediction, and the mean absolute gap over all instances (ECE)."""

    bins: tuple[CalibrationBin, ...]
    error: float


def calibration_of(listed: Pool, *, n_bins: int = 10) -> CalibrationCurve:
    r"""Compare predictions with what happened, in bins of equal width.

    The labels of one sample are dependent, so the interval of a bin counts samples, not instances:
    with :math:`n_m` instances and :math:`h_m` hits of sample :math:`m` in the bin, the variance of
    the share :math:`p = \sum h_m / \sum n_m` is about :math:`\sum_m (h_m - p n_m)^2 / n^2`; see
    `share_interval`.
    """
    place = np.minimum((listed.value * n_bins).astype(np.intp), n_bins - 1)
    bins = []
    gap = 0.0
    for b in range(n_bins):
        inside = np.flatnonzero(place == b)
        if inside.size == 0:
            continue
        own = None if listed.weight is None else listed.weight[inside]
        found = _bin(listed.value[inside], listed.truth[inside], listed.sample[inside], own)
        size = inside.size if own is None else float(own.sum())
        gap += size * abs(found.predicted - found.observed)
        bins.append(found)
    total = listed.value.size if listed.weight is None else float(listed.weight.sum())
    return CalibrationCurve(tuple(bins), gap / max(total, 1e-300))


def _bin(
    value: Float, truth: NDArray[np.bool_], sample: NDArray[np.intp], weight: Float | None
) -> CalibrationBin:
    _, first, group = np.unique(sample, return_index=True, return_inverse=True)
    own = None if weight is None else weight[first]
    low, high = share_interval(np.bincount(group, weights=truth), np.bincount(group), own)
    predicted, observed = (float(np.average(x, weights=weight)) for x in (value, truth))
    return CalibrationBin(value.size, predicted, observed, low, high)


def share_interval(
    hits: NDArray[Any], trials: NDArray[Any], weight: Float | None = None
) -> tuple[float, float]:
    """Bound the pooled share of hits with about 95 % confidence, given the counts of each sample.

    Samples are independent, what is counted within one is not. The variance over samples divided by
    the binomial one, if above 1, divides the number of trials in Wilson's score interval (key
    ``wilson1927`` in ``docs/references.bib``). With weights of samples the trials are scaled to
    their effective number.

    >>> [round(x, 3) for x in share_interval(np.array([1.0, 0, 1, 1]), np.array([1, 1, 1, 1]))]
    [0.301, 0.954]
    """
    if weight is not None:
        scale = float(weight @ trials) / float(weight**2 @ trials)
        hits, trials = hits * weight * scale, trials * weight * scale
    n = float(trials.sum())
    share = float(hits.sum()) / n
    smoothed = (hits.sum() + 0.5) / (n + 1.0)
    surplus = float(np.sum((hits - share * trials) ** 2))
    inflation = max(1.0, surplus / (n * smoothed * (1.0 - smoothed)))
    return _wilson(share, n / inflation)


def _wilson(share: float, n: float) -> tuple[float, float]:
    z = 1.96
    middle = (share + z * z / (2.0 * n)) / (1.0 + z * z / n)
    half = z / (1.0 + z * z / n) * float(np.sqrt(share * (1.0 - share) / n + (z / (2.0 * n)) ** 2))
    return max(0.0, middle - half), min(1.0, middle + half)


def thin(x: Float, *columns: Float, most: int = MOST_POINTS) -> tuple[Float, ...]:
    """Keep at most `most` points of curves over a rising `x`: the early ones, then even steps."""
    if x.size <= most:
        return (x, *columns)
    early = np.arange(most // 4)
    # Even steps in x, not in points: ties make some steps long.
    steps = np.searchsorted(x, np.linspace(x[0], x[-1], most - early.size))
    keep = np.unique(np.concatenate([early, np.minimum(steps, x.size - 1)]))
    return tuple(column[keep] for column in (x, *columns))
