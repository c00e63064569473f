"""Levels and numbers estimated from calibration samples, without a certificate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import effective_number
from hierlpr.cutoff.instances import Instances, sort_by_sample
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.metrics.hits import HitCurve

Float = NDArray[np.float64]

FEWEST_SAMPLES = 30
STANDARD_ERRORS = 2.0
# More levels make few certificates better, and each costs a column of moments.
N_LEVELS = 200
# Levels with fewer calls than this among the samples of the profile are not tested: the precision
# of so few calls does not tell which tests will pass.
FEWEST_CALLS = 10
# The chances that the model gives count like the truth of this many samples of a profile: they plan
# tests better than the truth of few samples, and worse than that of many.
CHANCE_SAMPLES = 300.0
# The gains of clusters are compared with those of their samples at one target, since how much
# samples of a cluster agree hardly depends on it.
MIDDLE_TARGET = 0.9
_INSTANCES = 2**20  # processed at a time, in whole samples


@dataclass(frozen=True, slots=True, eq=False)
class LevelProfile:
    """Calls and correct calls at each level, on *other* samples than the calibration ones.

    It fixes which pairs of a level and a limit of calls per sample are tested, and in which order,
    before the calibration truth is seen. A poor profile costs power, never validity.

    `level` is decreasing, `limit` increasing. `moments` has the shape (5, limits, levels): mean
    calls and correct calls per sample, their mean squares and their mean product, with weights of
    mean 1. The mean of correct calls is a mixture of truth and block scores. No sample of the
    profile has more calls than the last limit at any level. `implied_share` is that of
    :func:`hierlpr.data.truth.implied_share`, None if all truth was known. `clustering` is the mean
    square gain of clusters as a share of that of samples.
    """

    level: Float
    limit: NDArray[np.int64]
    moments: Float
    n_samples: int
    implied_share: float | None = None
    clustering: float = 1.0

    @classmethod
    def of(cls, instances: Instances, *, chance_samples: float = CHANCE_SAMPLES) -> LevelProfile:
        """Compute the profile of instances, such as those of the samples of a fit."""
        n_units = max(1, instances.n_units)
        if instances.weight is not None:
            weight = instances.weight / instances.weight.max()
            instances = replace(instances, weight=weight * (n_units / weight.sum()))
        # Scores of 0 are called at no level. Without them, dense and CSR scores give one profile.
        instances = instances.take(instances.score > 0.0)
        level, limit = _spaced_levels(instances.score), _spaced_limits(instances)
        moments = np.zeros((5, limit.size, level.size))
        size, trust = instances.cluster_size(), chance_samples / (chance_samples + n_units)
        for start, part in _parts(instances):
            rows = slice(start, start + part.n_samples)
            moments += _moments(part, level, limit, trust, None if size is None else size[rows])
        return cls(level, limit, moments / n_units, n_units, clustering=_clustering(instances))

    @property
    def calls(self) -> Float:
        """Mean calls per sample."""
        return np.asarray(self.moments[0])

    @property
    def hits(self) -> Float:
        """Mean correct calls per sample."""
        return np.asarray(self.moments[1])

    def mean_gain(self, alpha: float) -> Float:
        """Mean over samples of ``hits - (1 - alpha) calls``, not negative if precision suffices."""
        return self.hits - (1.0 - alpha) * self.calls

    def mean_square_gain(self, alpha: float) -> Float:
        """Mean square of the same, at least 1e-12."""
        a = 1.0 - alpha
        calls2, hits2, calls_hits = self.moments[2:]
        return np.asarray(np.maximum(hits2 - 2.0 * a * calls_hits + a * a * calls2, 1e-12))

    def scaled(self, factor: float) -> LevelProfile:
        """Return the profile with all sample weights multiplied by a factor."""
        return self._times(factor, factor * factor)

    def clustered(self) -> LevelProfile:
        """Return the profile of clusters, whose gains vary less than those of their samples."""
        return self._times(1.0, self.clustering)

    def above(self, level: float) -> LevelProfile:
        """Return the profile of the levels from `level` on."""
        is_above = self.level >= level
        return replace(self, level=self.level[is_above], moments=self.moments[:, :, is_above])

    def _times(self, mean: float, square: float) -> LevelProfile:
        by_moment = np.array([mean] * 2 + [square] * 3)[:, None, None]
        return replace(self, moments=self.moments * by_moment)

    def most_calls(self, level: float) -> int:
        """Return the smallest limit that no sample of the profile exceeds at `level`."""
        at = int(np.searchsorted(-self.level, -level, side="right")) - 1
        if at < 0:
            return 0
        calls = self.calls[:, at]
        return int(self.limit[int(np.argmax(calls == calls[-1]))])


def _parts(instances: Instances) -> Iterator[tuple[int, Instances]]:
    """Split into parts of whole samples, to bound memory; also return the first sample of each."""
    ptr = np.searchsorted(instances.sample, np.arange(instances.n_samples + 1))
    starts = np.flatnonzero(np.diff(ptr[:-1] // _INSTANCES, prepend=-1)).tolist()
    for first, stop in pairwise([*starts, instances.n_samples]):
        part = instances.take(slice(ptr[first], ptr[stop]))
        weight = None if part.weight is None else part.weight[first:stop]
        part = replace(part, sample=part.sample - first, n_samples=stop - first, weight=weight)
        yield first, part


def _clustering(instances: Instances) -> float:
    """Return the mean square gain of clusters as a share of that of samples, at a middle level."""
    size = instances.cluster_size()
    if size is None or instances.weight is None or not instances.truth.any():
        return 1.0
    called = instances.score >= np.median(instances.score[instances.truth])
    gain = np.where(instances.truth, 1.0 - MIDDLE_TARGET, -MIDDLE_TARGET)[called]
    gain = instances.weight * np.bincount(instances.sample[called], gain, instances.n_samples)
    squares = np.square(instances.by_unit(gain)).sum(), float((gain * gain * size).sum())
    return float(np.clip(squares[0] / squares[1], 0.01, 1.0)) if squares[1] > 0.0 else 1.0


def _moments(
    part: Instances, level: Float, limit: NDArray[np.int64], trust: float, size: Float | None
) -> Float:
    """Sum calls, hits, their squares and product over samples, at each limit and level.

    The calls of a sample at a level under a limit are a prefix of its sorted instances, so each sum
    over samples is a sum over instances of increments: ``2 p - 1`` for the square, at place p.
    Instances are binned by the first limit and level at which they are called, and the bins
    accumulated along both. Of a cluster of `size` samples, each stands for all in the squares.
    Mean hits are a mixture of truth and, with the weight `trust`, block scores.
    """
    rows, needed = sort_by_sample(part)
    first = np.searchsorted(rows.sample, rows.sample)  # of the same sample
    is_hit = rows.truth.astype(np.float64)
    is_known = np.ones(is_hit.size) if rows.is_known is None else rows.is_known.astype(np.float64)
    place, hits = (  # only calls of known truth count
        np.cumsum(x) - (np.cumsum(x) - x)[first] for x in (is_known, is_hit)
    )
    enters = level.size - np.searchsorted(level[::-1], rows.score, side="right")
    limit_index = np.searchsorted(limit, np.arange(limit[-1] + 1))
    cell = limit_index[needed] * level.size + enters
    weight = 1.0 if part.weight is None else part.weight[rows.sample]
    square = weight * weight * (1.0 if size is None else size[rows.sample])
    increments = (
        weight * is_known,
        weight * ((1.0 - trust) * is_hit + trust * is_known * rows.score),
        square * (is_known * (2.0 * place - 1.0)),
        square * (is_hit * (2.0 * hits - 1.0)),
        square * (place * hits - (place - is_known) * (hits - is_hit)),
    )
    shape = (limit.size, level.size)
    binned = (np.bincount(cell, x, limit.size * level.size) for x in increments)
    return np.stack([x.reshape(shape).cumsum(0).cumsum(1) for x in binned])


def _spaced_levels(score: Float) -> Float:
    """Return levels at which the number of calls grows by about the same factor."""
    if score.size == 0:
        return np.empty(0)
    fewest = min(FEWEST_CALLS, score.size)
    counts = np.unique(np.rint(np.geomspace(fewest, score.size, N_LEVELS)).astype(np.int64))
    falling = np.sort(score)[::-1]
    return np.unique(falling[counts - 1])[::-1].copy()


def _spaced_limits(instances: Instances) -> NDArray[np.int64]:
    """Return 1, 2, 3, 4, 6, 8, 12, ..., up to the largest number of instances of any sample."""
    most = int(np.bincount(instances.sample).max(initial=1))
    powers = 2 ** np.arange(62, dtype=np.int64)
    grid = np.unique(np.concatenate([powers[:-1], 3 * powers[:-2]]))
    return np.append(grid[grid < most], most)


class LevelCurve(NamedTuple):
    """Calls, correct calls and calling samples at each distinct level, from high to low.

    All are weighted; `calling` is the effective number of samples with a call.
    """

    level: Float
    calls: Float
    hits: Float
    calling: Float

    @classmethod
    def of(cls, instances: Instances) -> LevelCurve:
        """Compute the curve of instances whose truth is known."""
        level = np.unique(instances.score)[::-1]
        weight = None if instances.weight is None else instances.weight[instances.sample]
        curve = HitCurve.of(instances.truth, instances.score, weight)
        unit, unit_weight = instances.sample, instances.weight
        if instances.cluster is not None:
            unit, unit_weight = instances.cluster[instances.sample], None
        best = np.full(instances.n_units, -np.inf)  # highest score of each sample or cluster
        np.maximum.at(best, unit, instances.score)
        order = np.argsort(-best)
        sorted_weight = np.ones(best.size) if unit_weight is None else unit_weight[order]
        n_calling = np.searchsorted(-best[order], -level, side="right")
        total, square = (np.cumsum(sorted_weight**k)[n_calling - 1] for k in (1, 2))
        return cls(level, curve.calls[1:], curve.hits[1:], total * total / square)

    @property
    def precision(self) -> Float:
        """Precision after adding a sample with the average number of calls, all incorrect."""
        return np.asarray(self.hits / (self.calls + self.calls / self.calling))

    def lowest_level(self, target: float) -> float | None:
        """Return the lowest level that meets a target precision, which can dip and recover."""
        meets = np.flatnonzero(self.precision >= target - 1e-12)
        return float(self.level[meets[-1]]) if meets.size else None

    def level_of_largest_f(self, beta: float, positives: float) -> float:
        """Return the middle of the levels whose F is within half a standard error of the largest.

        F is flat near its maximum, and the position of the maximum itself is mostly noise.
        """
        f = (1.0 + beta**2) * self.hits / (self.calls + beta**2 * positives)
        top = int(np.argmax(f))
        variance = float(f[top] * max(0.0, 1.0 - f[top])) / float(self.calls[top])
        near = np.flatnonzero(f >= f[top] - 0.5 * math.sqrt(variance))
        return float(self.level[near[near.size // 2]])


def with_calls(cutoff: Cutoff, instances: Instances) -> Cutoff:
    """Count the calls of a cutoff on the calibration samples."""
    called = instances.take(instances.score >= cutoff.level)
    if cutoff.max_calls is not None:
        called, needed = sort_by_sample(called)
        called = called.take(needed <= cutoff.max_calls)
    evaluated, weight, b2 = called.only_known(), instances.weight, cutoff.goal.beta**2
    by_call = np.ones(evaluated.score.size) if weight is None else weight[evaluated.sample]
    calls, hits = float(by_call.sum()), float(by_call[evaluated.truth].sum())
    positives = instances.positives
    whole = calls + b2 * positives
    result = replace(
        cutoff.result,
        n_calls=evaluated.score.size,
        n_true_calls=int(np.count_nonzero(evaluated.truth)),
        precision=hits / calls if calls else None,
        recall=hits / positives if positives else None,
        f=(1.0 + b2) * hits / whole if whole else None,
        n_unknown_calls=called.score.size - evaluated.score.size,
        n_implied_calls=0 if called.implied is None else int(np.count_nonzero(called.implied)),
        precision_if_random=None if weight is not None else _precision_if_random(called),
    )
    return replace(cutoff, result=result)


def _precision_if_random(called: Instances) -> float | None:
    """Return the precision if the unknown calls of each label are correct as often as its known.

    Labels without a known call get the pooled precision. None if nothing is unknown.
    """
    if called.is_known is None or called.label is None or not called.is_known.any():
        return None
    size = called.n_labels
    calls = np.bincount(called.label, minlength=size)
    n_known = np.bincount(called.label[called.is_known], minlength=size)
    hits = np.bincount(called.label[called.truth], minlength=size)
    share = np.where(n_known > 0, hits / np.maximum(n_known, 1), hits.sum() / n_known.sum())
    return float((calls * share).sum() / calls.sum())


def precision_caveats(
    instances: Instances, *, level: float, target: float, profile: LevelProfile | None = None
) -> str:
    """Say why the precision at `level` is unreliable; an empty string if there is no sign of that.

    Notes
    -----
    There is a caveat if

    - fewer than 30 samples have a call (with weights, their effective number counts);
    - at no level does the precision exceed the target by two standard errors (over samples), so the
      target may have been reached by chance;
    - without some single sample the precision would be below the target;
    - one more sample with the largest number of calls of any sample at this level, here or in
      `profile`, all incorrect, would raise the error rate to more than 1.5 times that allowed.
    """
    called = instances.take(instances.score >= level)
    n, weight = instances.n_samples, instances.weight
    calls, hits = (
        instances.by_unit(np.bincount(called.sample, x, n) * (1.0 if weight is None else weight))
        for x in (np.ones(called.sample.size), called.truth)
    )
    caveats = []
    unit, unit_weight = "cluster", np.ones(instances.n_units)  # all clusters count equally
    if instances.cluster is None:
        unit, unit_weight = "sample", unit_weight if weight is None else weight
    if effective_number(unit_weight[calls > 0.0]) < FEWEST_SAMPLES:
        caveats.append(f"fewer than {FEWEST_SAMPLES} {unit}s have a call")
    if _largest_excess(instances, target) < STANDARD_ERRORS:
        caveats.append("at no level is the precision 2 standard errors above the target")
    without = (hits.sum() - hits) < target * (calls.sum() - calls) - 1e-9
    if without.any():
        caveats.append(f"without one single {unit} the precision is below the target")
    most = float(calls.max())
    if weight is None and profile is not None:
        most = max(most, profile.most_calls(level))
    worse = hits.sum() / (calls.sum() + most)
    if 1.0 - worse > 1.5 * (1.0 - target):
        caveats.append(
            f"one more {unit} with as many calls as some have, all incorrect, would lower the "
            f"precision to {worse:.3g}"
        )
    return f"{'; '.join(caveats)}." if caveats else ""


def _largest_excess(instances: Instances, target: float) -> float:
    """Return the largest excess of precision over the target, in standard errors, at any level."""
    profile = LevelProfile.of(instances, chance_samples=0.0)
    if instances.weight is not None:
        profile = profile.scaled(float(instances.weight.sum()) / instances.n_units).clustered()
    if profile.level.size == 0:
        return 0.0
    alpha = 1.0 - target
    # At least the variance of independent calls that are correct with the target's probability.
    square = np.maximum(profile.mean_square_gain(alpha)[-1], target * alpha * profile.calls[-1])
    gain = profile.mean_gain(alpha)[-1]
    return float(np.max(np.sqrt(profile.n_samples) * gain / np.sqrt(square)))
