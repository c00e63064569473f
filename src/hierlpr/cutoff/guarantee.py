"""A level whose pooled precision is certified: Learn-then-Test with a betting test on samples.

The labels of one sample are dependent, so the unit of every statement here is the sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr.cutoff.scored import Scored, calls_by_level, collect, limit_calls, random_order

__all__ = ["Certified", "LevelProfile", "certified_level"]

N_LEVELS = 200
# A level with fewer calls than this among the samples of the profile is not worth a test.
FEWEST_CALLS = 10
# The stake stays below the largest that cannot lose everything on one sample, by this factor.
LARGEST_STAKE = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class LevelProfile:
    """What calling at each level would have done on *other* samples than the calibration ones.

    It fixes the sequence of levels, where the testing starts, and how much to stake at each level,
    all before the calibration truth is seen. A poor profile costs power, never validity.

    Per level (strict to lenient): mean calls and right calls a sample (`calls`, `hits`), their mean
    squares and product (`calls2`, `hits2`, `calls_hits`), and the most calls of any sample.
    """

    level: NDArray[np.float64]
    calls: NDArray[np.float64]
    hits: NDArray[np.float64]
    calls2: NDArray[np.float64]
    hits2: NDArray[np.float64]
    calls_hits: NDArray[np.float64]
    most_calls: NDArray[np.int64]
    n_samples: int

    @classmethod
    def of(cls, score: Any, truth: Any = None) -> LevelProfile:
        """Profile the block scores and truth of the samples used to fit.

        >>> profile = LevelProfile.of([[0.9, 0.8]] * 20, [[1, 1]] * 19 + [[1, 0]])
        >>> profile.level.tolist(), profile.calls.tolist(), profile.hits.tolist()
        ([0.9, 0.8], [1.0, 2.0], [1.0, 1.95])
        """
        if not isinstance(score, Scored):
            dense = score if sparse.issparse(score) else np.asarray(score)
            score = collect(dense, truth if sparse.issparse(truth) else np.asarray(truth))
        level = _spaced_levels(score.score)
        moments = [
            (c.mean(), h.mean(), (c * c).mean(), (h * h).mean(), (c * h).mean(), c.max())
            for c, h in calls_by_level(score, level)
        ]
        calls, hits, calls2, hits2, calls_hits, most = np.reshape(moments, (-1, 6)).T
        return cls(
            level=level,
            calls=calls,
            hits=hits,
            calls2=calls2,
            hits2=hits2,
            calls_hits=calls_hits,
            most_calls=most.astype(np.int64),
            n_samples=score.n_samples,
        )

    def drift(self, alpha: float) -> NDArray[np.float64]:
        """Mean of ``alpha * calls - false calls`` a sample: positive where precision suffices."""
        return self.hits - (1.0 - alpha) * self.calls

    def square(self, alpha: float) -> NDArray[np.float64]:
        """Mean square of the same."""
        a = 1.0 - alpha
        return self.hits2 - 2.0 * a * self.calls_hits + a * a * self.calls2


class Certified(NamedTuple):
    """The most lenient certified level (None if the first test failed) and the limit of calls."""

    level: float | None
    max_calls: int | None
    log_wealth: float


def certified_level(
    instances: Scored, profile: LevelProfile, *, alpha: float, confidence: float
) -> Certified:
    r"""Find the most lenient level with certified pooled precision of at least ``1 - alpha``.

    Notes
    -----
    For one level let :math:`D = \text{false calls} - \alpha\,\text{calls}` of a sample. The pooled
    precision is below :math:`1 - \alpha` exactly if :math:`E D > 0`. For a stake
    :math:`\lambda` fixed beforehand with :math:`\lambda (1 - \alpha) C < 1`, where no sample has
    more than :math:`C` calls,

    .. math:: W_m = \prod_{i \le m} (1 - \lambda D_i)

    is a non-negative supermartingale under that hypothesis, so by Ville's inequality
    :math:`P(\max_m W_m \ge 1/\delta) \le \delta`, for any number of samples and any dependence
    between the labels of a sample. This needs an order of the samples that is independent of what
    they hold, see :func:`~hierlpr.cutoff.scored.random_order`. Levels are tested from the start
    that `profile` predicts to be the surest toward lenient ones, until the first that is not
    rejected; as the sequence is fixed, the chance that any certified level is wrong is at most
    :math:`\delta = 1 -` `confidence`.

    :math:`C` is the number of labels, or a smaller limit that belongs to the level and that the
    decisions then keep (`max_calls`): without one, no finite number of samples could exclude a
    rare sample with thousands of false calls.

    References
    ----------
    Keys ``angelopoulos2021learn`` and ``waudbysmith2024estimating`` in ``docs/references.bib``.
    """
    delta = 1.0 - confidence
    plan = _plan(profile, instances.n_samples, instances.n_labels, alpha=alpha, delta=delta)
    if plan is None:
        return Certified(None, None, 0.0)
    order = random_order(instances)
    found = Certified(None, None, 0.0)
    for part in plan:
        limited = part.max_calls < instances.n_labels
        kept = instances
        if limited:
            kept = instances.take(limit_calls(instances.score, instances.sample, part.max_calls))
        tested = calls_by_level(kept, part.level)
        for level, stake, (c, h) in zip(part.level, part.stake, tested, strict=True):
            gains = np.log1p(-stake * ((1.0 - alpha) * c - h))
            wealth = float(np.cumsum(gains[order]).max())
            if wealth < math.log(1.0 / delta):
                return found
            found = Certified(float(level), part.max_calls if limited else None, wealth)
    return found


class _Stretch(NamedTuple):
    """Neighbouring levels that share a limit of calls a sample, and the stake at each."""

    level: NDArray[np.float64]
    stake: NDArray[np.float64]
    max_calls: int


def _plan(
    profile: LevelProfile, n_samples: int, n_labels: int, *, alpha: float, delta: float
) -> list[_Stretch] | None:
    """Choose the levels to test, and for each the stake and the limit of calls a sample.

    At stake s the log wealth is about ``s n drift - s^2 n square / 2`` with standard deviation
    ``s sqrt(n spread)``; the stake ``sqrt(2 log(1/delta) / (n square))`` maximizes the chance that
    it passes ``log(1/delta)``. A limit C keeps it below ``1 / ((1 - alpha) C)``, so C is as small
    as it can be without touching what samples usually get: no lower than any sample of the
    profile went at that level, nor than the stake would have any use for.
    """
    if profile.level.size == 0 or n_samples == 0:
        return None
    goal = math.log(1.0 / delta)
    drift, square = profile.drift(alpha), np.maximum(profile.square(alpha), 1e-12)
    wanted = np.sqrt(2.0 * goal / (n_samples * square))
    useful = LARGEST_STAKE / ((1.0 - alpha) * wanted)
    limit = _round_limits(np.maximum(profile.most_calls, useful), n_labels)
    stake = np.minimum(wanted, LARGEST_STAKE / ((1.0 - alpha) * limit))
    spread = np.sqrt(np.maximum(square - drift**2, 1e-3 * square) * n_samples)
    margin = (n_samples * (drift - 0.5 * stake * square) - goal / stake) / spread
    first = int(np.argmax(margin))
    changes = np.flatnonzero(np.diff(limit[first:])) + 1 + first
    bounds = [first, *changes.tolist(), limit.size]
    return [_Stretch(profile.level[i:k], stake[i:k], int(limit[i])) for i, k in pairwise(bounds)]


def _round_limits(limit: NDArray[np.float64], n_labels: int) -> NDArray[np.int64]:
    """Round up to 1, 2, 3, 4, 6, 8, 12, 16, ..., so that few stretches of levels differ."""
    powers = 2.0 ** np.arange(0, 64)
    grid = np.unique(np.concatenate([powers, 1.5 * powers[1:]]))
    rising = np.maximum.accumulate(np.ceil(np.minimum(limit, n_labels)))
    rounded: NDArray[np.int64] = np.minimum(grid[np.searchsorted(grid, rising)], n_labels).astype(
        np.int64
    )
    return rounded


def _spaced_levels(score: NDArray[np.float64]) -> NDArray[np.float64]:
    """Levels at which the number of calls grows by about the same factor."""
    if score.size == 0:
        return np.empty(0)
    fewest = min(FEWEST_CALLS, score.size)
    counts = np.unique(np.rint(np.geomspace(fewest, score.size, N_LEVELS)).astype(np.int64))
    falling = np.sort(score)[::-1]
    return np.unique(falling[counts - 1])[::-1].copy()
