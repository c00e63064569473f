"""A cutoff whose pooled precision is certified: Learn-then-Test with tests on whole samples.

The labels of one sample are dependent, so the unit of every statement here is the sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr.cutoff.profile import LevelProfile
from hierlpr.cutoff.scored import BySample, Scored, Shuffle, by_sample, random_order

# The stake stays below the largest that cannot lose everything on one sample, by this factor.
LARGEST_STAKE = 0.95
# The mean square of the profile counts as much as this many samples of the calibration.
PROFILE_WEIGHT = 50.0
# The bets aim this much beyond the goal (log wealth), or they would close in on it for ever.
BEYOND = 0.003
# Stakes are read off a table down to this log wealth; a lower one never recovers.
_DEEPEST, _STEPS = 60.0, 100


class Certified(NamedTuple):
    """The last certified level (None if the first test failed) and its limit of calls a sample."""

    level: float | None
    max_calls: int | None


class Pair(NamedTuple):
    """A level with a limit of calls a sample, and the mean square gain that the profile expects."""

    level: float
    limit: int
    square: float


def certified_level(
    instances: Scored,
    profile: LevelProfile,
    *,
    alpha: float,
    confidence: float,
    max_weight: float = 1.0,
) -> Certified:
    r"""Find the level and limit of calls with most hits and certified pooled precision.

    Notes
    -----
    For one level and a limit of :math:`C` calls a sample let :math:`G = \text{right calls} - p\,
    \text{calls}` of a sample, with the target :math:`p = 1 - \alpha`. The pooled precision is below
    the target exactly if :math:`E G < 0`. Stakes :math:`\lambda_i \ge 0` that depend on nothing but
    the samples before, with :math:`\lambda_i\, p\, C < 1`, make

    .. math:: W_m = \prod_{i \le m} (1 + \lambda_i G_i)

    a non-negative supermartingale under that hypothesis, so by Ville's inequality
    :math:`P(\max_m W_m \ge 1/\delta) \le \delta`, for any number of samples and any dependence
    between the labels of a sample. This needs an order of the samples that is independent of what
    they hold, see :func:`~hierlpr.cutoff.scored.random_order`. Where that order may not be as good
    as random, because the samples are of few kinds, the wealth of a constant stake after all
    samples, which is the same in any order, must reach :math:`1/\delta` too. With at most one call
    a sample, the right calls are binomial given the calls, and the exact test is used instead.

    Pairs of a level and a limit are tested in a sequence that `profile` fixes, see
    :func:`plan_tests`, until the first that is not rejected; so the chance that any certified pair
    is wrong is at most :math:`\delta = 1 -` `confidence`. The decisions then keep the limit
    (`max_calls`): without one, no finite number of samples could exclude a rare sample with
    thousands of false calls.

    The stakes are those that would hedge a bet on the sum of all :math:`G_i` at the end, were it a
    normal variable: with :math:`r` samples left and mean square :math:`s^2`,
    :math:`\lambda = \varphi(d) / (\Phi(d) \sqrt{r s^2})` where :math:`\Phi(d) = \delta W`.

    Where some of the truth is unknown, calls and right calls are those whose truth is known, while
    the limit counts all calls, as the decisions do. A sample comes with what is known of it, so the
    samples are independent and alike as before, and the same argument certifies the expected right
    known calls a sample over the expected known calls. Which pairs are known may depend on anything
    in the sample; that the number carries over to all calls is an assumption: ``docs/truth.md``.

    Samples with weights :math:`w \le B` for a bound :math:`B` that was fixed beforehand
    (`max_weight`) are the same with :math:`G = (w/B)(\text{right calls} - p\,\text{calls})`: it is
    no less than :math:`-p\,C`, and :math:`E G < 0` exactly if the weighted precision, the expected
    weighted right calls over the expected weighted calls, is below the target. Weights may depend
    on anything in their sample. The binomial test is not for them.

    References
    ----------
    Keys ``angelopoulos2021learn``, ``waudbysmith2024estimating`` and ``voracek2025starbets`` in
    ``docs/references.bib``.
    """
    delta = 1.0 - confidence
    found = Certified(None, None)
    share = None
    if instances.weight is not None:
        profile, share = profile.over(max_weight), instances.weight / max_weight
    sequence = plan_tests(
        profile, instances.n_samples, instances.n_labels, alpha=alpha, delta=delta
    )
    if not sequence:
        return found
    shuffle = random_order(instances)
    for stretch in _stretches(sequence):
        lowest = min(pair.level for pair in stretch)
        rows = by_sample(instances.take(instances.score >= lowest))
        for pair in stretch:
            calls, hits = _count(rows, pair)
            if not _is_precise(pair, calls, hits, shuffle, alpha=alpha, delta=delta, share=share):
                return found
            limit = pair.limit if pair.limit < instances.n_labels else None
            found = Certified(pair.level, limit)
    return found


def _stretches(sequence: list[Pair]) -> Iterator[list[Pair]]:
    """Cut the sequence, so that the many instances of lenient levels are sorted if need be only."""
    bounds = [0, *(math.ceil(len(sequence) * share) for share in (0.25, 0.5, 0.75, 1.0))]
    for start, stop in pairwise(bounds):
        if start < stop:
            yield sequence[start:stop]


def _count(rows: BySample, pair: Pair) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the calls of every sample whose truth is known, and those that are right."""
    from hierlpr._kernels.betting import count_calls

    calls, hits, known = (np.empty(rows.ptr.size - 1, dtype=np.int64) for _ in range(3))
    stretch = (rows.ptr, rows.score, rows.needed)
    count_calls(*stretch, rows.hits_before, pair.level, pair.limit, calls, hits)
    if rows.known_before is None:
        return calls, hits
    count_calls(*stretch, rows.known_before, pair.level, pair.limit, calls, known)
    return known, hits


def _is_precise(
    pair: Pair,
    calls: NDArray[np.int64],
    hits: NDArray[np.int64],
    shuffle: Shuffle,
    *,
    alpha: float,
    delta: float,
    share: NDArray[np.float64] | None = None,
) -> bool:
    """Test one pair: True with probability at most `delta` if its precision is too low.

    `share` is the weight of each sample, as a share of the largest that there can be.
    """
    if pair.limit == 1 and share is None:
        from scipy.special import bdtrc  # scipy.stats takes as long to load as all of a fit

        chance = bdtrc(float(hits.sum()) - 1.0, int(calls.sum()), 1.0 - alpha)
        return bool(chance <= delta)
    gain = hits - (1.0 - alpha) * calls
    return _is_won(pair, gain if share is None else share * gain, shuffle, alpha=alpha, delta=delta)


def _is_won(
    pair: Pair, gain: NDArray[np.float64], shuffle: Shuffle, *, alpha: float, delta: float
) -> bool:
    """Bet on the gain of every sample: whether the wealth reaches ``1 / delta``."""
    from hierlpr._kernels.betting import bet

    goal = math.log(1.0 / delta)
    largest = LARGEST_STAKE / ((1.0 - alpha) * pair.limit)
    if not shuffle.is_fair:
        stake = min(math.sqrt(2.0 * goal / (gain.size * pair.square)), largest)
        if np.log1p(stake * gain).sum() < goal:
            return False
    log_wealth = bet(
        gain, shuffle.order, largest, pair.square, PROFILE_WEIGHT, goal, float(_STEPS), _urgency()
    )
    return log_wealth >= goal


@cache
def _urgency() -> NDArray[np.float64]:
    """Stake times root of the square still to come, at each log wealth from the goal down."""
    from scipy.special import ndtri_exp

    log_chance = -BEYOND - np.arange(int(_DEEPEST * _STEPS) + 1) / _STEPS
    d = ndtri_exp(log_chance)
    return np.asarray(np.exp(-0.5 * d * d - 0.5 * math.log(2.0 * math.pi) - log_chance))


def plan_tests(
    profile: LevelProfile, n_samples: int, n_labels: int, *, alpha: float, delta: float
) -> list[Pair]:
    """Choose the pairs of level and limit to test, from the surest toward those with more hits.

    At a constant stake s the log wealth is about ``s n drift - s^2 n square / 2`` with standard
    deviation ``s sqrt(n spread)``; the stake ``sqrt(2 log(1/delta) / (n square))`` is most likely
    to pass ``log(1/delta)``, and a limit C keeps it below ``1 / ((1 - alpha) C)``. The margin of a
    pair is how many standard deviations it is expected to pass by. Of the pairs, those
    are tested than which none has both more margin and more hits.
    """
    if profile.level.size == 0 or n_samples == 0:
        return []
    goal = math.log(1.0 / delta)
    drift, square = profile.drift(alpha), np.maximum(profile.square(alpha), 1e-12)
    limit = np.minimum(profile.limit, n_labels)[:, None]
    largest = LARGEST_STAKE / ((1.0 - alpha) * limit)
    wanted = np.sqrt(2.0 * goal / (n_samples * square))
    stake = np.minimum(wanted, largest)
    spread = np.sqrt(np.maximum(square - drift**2, 1e-3 * square) * n_samples)
    margin = (n_samples * (drift - 0.5 * stake * square) - goal / stake) / spread
    # A limit that no sample of the profile met may be as high as it does not hold back the stake.
    is_idle = (profile.calls == profile.calls[-1]) & (limit > 1)
    useful = np.minimum(LARGEST_STAKE / ((1.0 - alpha) * wanted), n_labels).astype(np.int64)
    limits = np.where(is_idle, np.maximum(limit, useful), limit)
    by_margin = np.lexsort((-profile.hits.ravel(), -margin.ravel()))
    hits = profile.hits.ravel()[by_margin]
    is_front = hits > np.append(-1.0, np.maximum.accumulate(hits)[:-1])
    return [
        Pair(
            float(profile.level[at % profile.level.size]),
            int(limits.flat[at]),
            float(square.flat[at]),
        )
        for at in by_margin[is_front].tolist()
    ]
