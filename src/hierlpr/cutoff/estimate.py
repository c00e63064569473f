"""Levels and numbers estimated from calibration samples, without a certificate."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import effective_number
from hierlpr.cutoff.instances import Instances, limit_calls
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.cutoff.profile import LevelProfile
from hierlpr.metrics.hits import HitCurve

Rule: TypeAlias = Literal["cautious", "plain"]
FEWEST_SAMPLES = 30
STANDARD_ERRORS = 2.0


class LevelCurve(NamedTuple):
    """Calls, correct calls and calling samples at each distinct level, from high to low.

    All except `n_calls` are weighted; `calling` is the effective number of samples with a call.
    """

    level: NDArray[np.float64]
    n_calls: NDArray[np.float64]
    calls: NDArray[np.float64]
    hits: NDArray[np.float64]
    calling: NDArray[np.float64]

    @classmethod
    def of(cls, instances: Instances) -> LevelCurve:
        """Compute the curve of instances whose truth is known."""
        level = np.unique(instances.score)[::-1]
        weight = None if instances.weight is None else instances.weights()
        curve = HitCurve.of(instances.truth, instances.score, weight)
        best = np.full(instances.n_samples, -np.inf)  # highest score of each sample
        np.maximum.at(best, instances.sample, instances.score)
        order = np.argsort(-best)
        own = np.ones(best.size) if instances.weight is None else instances.weight[order]
        n_calling = np.searchsorted(-best[order], -level, side="right")
        total, square = np.cumsum(own)[n_calling - 1], np.cumsum(own * own)[n_calling - 1]
        return cls(
            level, curve.n_calls[1:], curve.calls[1:], curve.hits[1:], total * total / square
        )

    def f(self, beta: float, positives: float) -> NDArray[np.float64]:
        """Return F-beta at each level."""
        b2 = beta * beta
        return np.asarray((1.0 + b2) * self.hits / (self.calls + b2 * positives))

    def precision(self, rule: Rule) -> NDArray[np.float64]:
        """Return the precision; with the cautious rule, as if one more sample was all incorrect."""
        more = self.calls / self.calling if rule == "cautious" else 0.0
        return np.asarray(self.hits / (self.calls + more))

    def lowest_level(self, target: float, rule: Rule) -> float | None:
        """Return the lowest level that meets a target precision, which can dip and recover."""
        meets = np.flatnonzero(self.precision(rule) >= target - 1e-12)
        return float(self.level[meets[-1]]) if meets.size else None

    def level_of_largest_f(self, beta: float, positives: float) -> float:
        """Return the middle of the levels whose F is within half a standard error of the largest.

        F is flat near its maximum, and the position of the maximum itself is mostly noise.
        """
        f = self.f(beta, positives)
        top = int(np.argmax(f))
        variance = float(f[top] * max(0.0, 1.0 - f[top])) / float(self.calls[top])
        near = np.flatnonzero(f >= f[top] - 0.5 * math.sqrt(variance))
        return float(self.level[near[near.size // 2]])


def with_calls(cutoff: Cutoff, instances: Instances) -> Cutoff:
    """Count the calls of a cutoff on the calibration samples."""
    if cutoff.max_calls is not None:
        kept = limit_calls(instances.score, instances.sample, cutoff.max_calls)
        instances = instances.take(kept)
    called = instances.take(instances.score >= cutoff.level)
    known = called.only_known()
    counted = cutoff.with_counts(known.score.size, int(np.count_nonzero(known.truth)))
    n_implied = 0 if called.implied is None else int(np.count_nonzero(called.implied))
    n_unknown = called.score.size - known.score.size
    counted = replace(counted, n_unknown_calls=n_unknown, n_implied_calls=n_implied)
    if instances.weight is None:
        return replace(counted, precision_if_random=_precision_if_random(called))
    weight = known.weights()
    sums = weight.sum(), weight[known.truth].sum(), instances.positives
    return counted.with_measures(*map(float, sums))


def _precision_if_random(called: Instances) -> float | None:
    """Return the precision if the unknown calls of each label are correct as often as its known.

    Labels without a known call get the pooled precision. None if nothing is unknown.
    """
    if called.known is None or called.label is None or not called.known.any():
        return None
    size = called.n_labels
    calls = np.bincount(called.label, minlength=size)
    known = np.bincount(called.label[called.known], minlength=size)
    hits = np.bincount(called.label[called.truth], minlength=size)
    share = np.where(known > 0, hits / np.maximum(known, 1), hits.sum() / known.sum())
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

    Examples
    --------
    >>> from hierlpr.cutoff.instances import list_instances
    >>> listed = list_instances(np.full((12, 1), 0.9), np.ones((12, 1)))
    >>> precision_caveats(listed, level=0.9, target=0.5)
    'only 12 samples have a call.'
    """
    called = instances.take(instances.score >= level)
    n, weight = instances.n_samples, instances.weight
    calls, hits = (
        np.bincount(called.sample, weights=own, minlength=n) * (1.0 if weight is None else weight)
        for own in (np.ones(called.sample.size), called.truth)
    )
    found = []
    n_calling = int(np.count_nonzero(calls))
    n_worth = n_calling if weight is None else effective_number(weight[calls > 0.0])
    if n_worth < FEWEST_SAMPLES:
        worth = "" if weight is None else f" (equivalent to {n_worth:.3g} of equal weight)"
        s, have = ("", "has") if n_calling == 1 else ("s", "have")
        found.append(f"only {n_calling} sample{s}{worth} {have} a call")
    if _largest_excess(instances, target) < STANDARD_ERRORS:
        found.append("at no level is the precision 2 standard errors above the target")
    without = (hits.sum() - hits) < target * (calls.sum() - calls) - 1e-9
    if without.any():
        found.append("without one single sample the precision is below the target")
    most = float(calls.max())
    like = "with as much weight in calls as any"
    if weight is None:
        most = max(most, 0 if profile is None else profile.most_calls(level))
        like = f"with {most:,.0f} call{'' if most == 1 else 's'}, as some have"
    worse = hits.sum() / (calls.sum() + most)
    if 1.0 - worse > 1.5 * (1.0 - target):
        found.append(
            f"one more sample {like}, all incorrect, would lower the precision to {worse:.3g}"
        )
    return f"{'; '.join(found)}." if found else ""


def _largest_excess(instances: Instances, target: float) -> float:
    """Return the largest excess of precision over the target, in standard errors, at any level."""
    profile = LevelProfile.of(instances)
    if instances.weight is not None:
        profile = profile.scaled(float(instances.weight.mean()))
    if profile.level.size == 0:
        return 0.0
    alpha = 1.0 - target
    # At least the variance of independent calls that are correct with the target's probability.
    square = np.maximum(profile.square(alpha)[-1], target * alpha * profile.calls[-1])
    return float(np.max(np.sqrt(profile.n_samples) * profile.drift(alpha)[-1] / np.sqrt(square)))
