"""Why a precision seen on the calibration samples may be far from that on new ones."""

from __future__ import annotations

import numpy as np

from hierlpr.cutoff.profile import LevelProfile
from hierlpr.cutoff.scored import Scored

__all__ = ["doubts"]

# A precision that fewer samples than this have a share in is called shaky.
FEWEST_SAMPLES = 30
# So many standard errors must the precision exceed the target by, at some level.
STANDARD_ERRORS = 2.0


def doubts(
    instances: Scored, *, level: float, target: float, profile: LevelProfile | None = None
) -> str:
    """Say why the precision at `level` says little about new samples; empty if nothing does.

    Notes
    -----
    It is called shaky if

    - fewer than 30 samples have a call;
    - at no level does the precision exceed the target by two standard errors (over samples): then
      it may be chance that the target was reached at all;
    - without some one sample the precision would be below the target;
    - one more sample with as many calls as any sample has at this level, here or in `profile`, all
      of them wrong, would make the errors half as many again as the target allows, or more.

    Examples
    --------
    >>> from hierlpr.cutoff.scored import collect
    >>> doubts(collect(np.full((12, 1), 0.9), np.ones((12, 1))), level=0.9, target=0.5)
    'only 12 samples have a call.'
    """
    called = instances.score >= level
    sample = instances.sample[called]
    calls = np.bincount(sample, minlength=instances.n_samples)
    hits = np.bincount(
        sample, weights=instances.truth[called], minlength=instances.n_samples
    ).astype(np.int64)
    n_calls, n_hits = int(calls.sum()), int(hits.sum())
    found = []
    n_calling = int(np.count_nonzero(calls))
    if n_calling < FEWEST_SAMPLES:
        found.append(f"only {n_calling} sample{' has' if n_calling == 1 else 's have'} a call")
    if _clearest(instances, target) < STANDARD_ERRORS:
        found.append("at no level is the precision clearly, by 2 standard errors, above the target")
    without = (n_hits - hits) < target * (n_calls - calls) - 1e-9
    if without.any():
        found.append("without a single one of the samples the precision is below the target")
    most = int(calls.max())
    if profile is not None:
        most = max(most, profile.most_calls(level))
    worse = n_hits / (n_calls + most)
    if 1.0 - worse > 1.5 * (1.0 - target):
        found.append(
            f"one more sample with {most:,} call{'' if most == 1 else 's'}, as there are, all of "
            f"them wrong, would take the precision to {worse:.3g}"
        )
    return f"{'; '.join(found)}." if found else ""


def _clearest(instances: Scored, target: float) -> float:
    """By how many standard errors the precision exceeds the target, at the clearest level."""
    profile = LevelProfile.of(instances)
    if profile.level.size == 0:
        return 0.0
    n, alpha = profile.n_samples, 1.0 - target
    # Never less than calls that are right by independent chance would have.
    square = np.maximum(profile.square(alpha)[-1], target * alpha * profile.calls[-1])
    return float(np.max(np.sqrt(n) * profile.drift(alpha)[-1] / np.sqrt(square)))
