"""Reasons why the precision at a level says little about new samples."""

from __future__ import annotations

import numpy as np

from hierlpr._utils.checks import effective_number
from hierlpr.cutoff.instances import Instances
from hierlpr.cutoff.profile import LevelProfile

FEWEST_SAMPLES = 30
STANDARD_ERRORS = 2.0


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
    if profile.level.size == 0:
        return 0.0
    alpha = 1.0 - target
    # At least the variance of independent calls that are correct with the target's probability.
    square = np.maximum(profile.square(alpha)[-1], target * alpha * profile.calls[-1])
    return float(np.max(np.sqrt(profile.n_samples) * profile.drift(alpha)[-1] / np.sqrt(square)))
