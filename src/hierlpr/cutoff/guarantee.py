"""Certified pooled precision: Learn-then-Test with tests on whole samples.

The labels of one sample are dependent, so the sample is the unit of all tests.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, ndtri_exp

from hierlpr._kernels.hypothesis_tests import bet
from hierlpr.cutoff.estimate import LevelProfile
from hierlpr.cutoff.goal import Promise
from hierlpr.cutoff.instances import (
    Index,
    Instances,
    Shuffle,
    random_order,
    sort_by_sample,
)

# Share of the largest stake: at 1, one sample with only incorrect calls would end the test.
LARGEST_STAKE = 0.95
# The mean square of the profile has the weight of this many calibration samples, so that the first
# few do not set the stakes.
PROFILE_WEIGHT = 50.0
# The bets aim this much beyond the goal (in log wealth); otherwise they would only approach it.
BEYOND = 0.003
# Range of the table of stakes (log wealth below the goal); a lower wealth never recovers.
_DEEPEST, _STEPS = 60.0, 100
# Share of the error of a group for the tests above its surest level, which matter only if a group
# of ancestors needs such a level.
RISING_SHARE = 0.1


Float = NDArray[np.float64]
Int = NDArray[np.int64]


class LevelPair(NamedTuple):
    """A level, a limit of calls per sample, and the mean square gain expected from the profile."""

    level: float
    limit: int
    square: float


def certified_level(
    instances: Instances, profile: LevelProfile, promise: Promise, *, max_weight: float = 1.0
) -> tuple[float | None, int | None]:
    r"""Find the last level and limit of calls per sample whose pooled precision is certified.

    The level is None if the first test failed; the limit is None if it excludes nothing.

    Notes
    -----
    For one level and a limit of :math:`C` calls per sample let
    :math:`G = \text{correct calls} - p\, \text{calls}` of a sample, with the target
    :math:`p = 1 - \alpha`. The pooled precision is below the target exactly if :math:`E G < 0`.
    Stakes :math:`\lambda_i \ge 0` that depend only on earlier samples, with
    :math:`\lambda_i\, p\, C < 1`, make

    .. math:: W_m = \prod_{i \le m} (1 + \lambda_i G_i)

    a non-negative supermartingale under that hypothesis, so by Ville's inequality
    :math:`P(\max_m W_m \ge 1/\delta) \le \delta`, for any number of samples and any dependence
    between the labels of a sample. This needs an order of the samples that is independent of their
    contents, see :func:`~hierlpr.cutoff.instances.random_order`. If the samples are of so few kinds
    that the order may not be as good as random, the wealth of a constant stake after all samples,
    which does not depend on the order, must reach :math:`1/\delta` too. With at most one call per
    sample, the correct calls are binomial given the calls, and the exact test is used instead.

    Pairs of a level and a limit are tested in an order fixed by `profile`, see :func:`plan_tests`,
    until the first test that fails; so with probability at most :math:`\delta` any certified pair
    is below the target. Decisions then apply the limit (`max_calls`): without
    one, no finite number of samples could exclude a rare sample with thousands of false calls.

    The stakes hedge a bet on the sum of all :math:`G_i`, as if it were normal: with :math:`r`
    samples left and mean square :math:`s^2`,
    :math:`\lambda = \varphi(d) / (\Phi(d) \sqrt{r s^2})` where :math:`\Phi(d) = \delta W`.

    If some of the truth is unknown, only calls of known truth count, except for the limit, which
    counts all calls as the decisions do. The same argument certifies the expected correct known
    calls over the expected known calls. Which truth is known may depend on anything in the sample;
    that the precision carries over to all calls is an assumption: ``docs/truth.md``.

    With weights :math:`w \le B`, for a bound :math:`B` fixed beforehand (`max_weight`),
    :math:`G = (w/B)(\text{correct calls} - p\,\text{calls})` is at least :math:`-p\,C`, and
    :math:`E G < 0` exactly if the weighted precision, the expected weighted correct calls over the
    expected weighted calls, is below the target. Weights may depend on anything in their sample.
    The binomial test is not used with weights.

    With clusters, the unit is a cluster of :math:`m` samples and its gain the mean of theirs, that
    is, the sum with :math:`B = 1` and weights :math:`1/m`. It is at least :math:`-p\,C` too. What
    is certified is then the precision on a random sample of a new cluster, and the order that must
    not depend on contents is that of the clusters.

    References
    ----------
    Keys ``angelopoulos2021learn``, ``waudbysmith2024estimating`` and ``voracek2025starbets`` in
    ``docs/references.bib``.
    """
    share = None
    if instances.weight is not None:
        profile, share = profile.scaled(1.0 / max_weight), instances.weight / max_weight
    if instances.n_units < instances.n_samples:
        profile = profile.clustered()
    sequence = plan_tests(profile, instances.n_units, instances.n_labels, promise)
    certified = pass_tests(instances, sequence, promise, share)
    if not certified:
        return None, None
    level, limit, _ = certified[-1]
    return level, limit if limit < instances.n_labels else None


def pass_tests(
    instances: Instances, sequence: list[LevelPair], promise: Promise, share: Float | None = None
) -> list[LevelPair]:
    """Test pairs in turn until the first one fails; return those that passed.

    `share` is the weight of each sample as a share of the largest possible weight.
    """
    if not sequence:
        return []
    shuffle = random_order(instances)
    lowest = min(pair.level for pair in sequence)
    rows, needed = sort_by_sample(instances.take(instances.score >= lowest))

    def passes(pair: LevelPair) -> bool:
        calls, hits = count_calls(rows, needed, pair.level, pair.limit)
        return is_precise(pair, calls, hits, shuffle, promise, share, instances.cluster)

    # Each at the full error: the first pair below the target passes with probability `delta`, and
    # nothing after a failure is tested, so no correction for their number is needed.
    return list(takewhile(passes, sequence))


def count_calls(
    rows: Instances, needed: NDArray[np.int32], level: float, limit: int
) -> tuple[Int, Int]:
    """Count the calls of known truth of every sample, and the correct ones."""
    is_call = (rows.score >= level) & (needed <= limit)
    if rows.is_known is not None:
        is_call &= rows.is_known
    calls, hits = (
        np.bincount(rows.sample[flags], minlength=rows.n_samples)
        for flags in (is_call, is_call & rows.truth)
    )
    return calls, hits


def is_precise(
    pair: LevelPair,
    calls: Int,
    hits: Int,
    shuffle: Shuffle,
    promise: Promise,
    share: Float | None = None,
    cluster: Index | None = None,
) -> bool:
    """Test one pair: True with probability at most `delta` if its precision is below the target."""
    alpha, delta = promise
    # Weights or clusters make gains that are no counts, so only bets are valid for them.
    if pair.limit == 1 and share is None:
        chance = bdtrc(float(hits.sum()) - 1.0, int(calls.sum()), 1.0 - alpha)
        return bool(chance <= delta)
    gain: Float = (hits - (1.0 - alpha) * calls) * (1.0 if share is None else share)
    if cluster is not None:
        gain = np.bincount(cluster, gain).astype(np.float64, copy=False)
    goal = math.log(1.0 / delta)
    largest = LARGEST_STAKE / ((1.0 - alpha) * pair.limit)
    # Few multisets share all the probability: then some order could be chosen by the contents.
    if not shuffle.is_fair:
        stake = min(math.sqrt(2.0 * goal / (gain.size * pair.square)), largest)
        if np.log1p(stake * gain).sum() < goal:
            return False
    stakes = np.full(gain.size, largest)
    return log_wealth(gain[shuffle.order], stakes, pair.square, PROFILE_WEIGHT, goal) >= goal


def log_wealth(gain: Float, largest: Float, square: float, weight: float, goal: float) -> float:
    """Bet on gains in turn; return the log wealth at the end, or when it first reaches `goal`.

    `largest` are the largest stakes, `square` the mean square gain that is expected, with the
    weight of `weight` samples.
    """
    return float(bet(gain, largest, square, weight, goal, float(_STEPS), _urgency()))


@cache
def _urgency() -> Float:
    """Return stake times root of the remaining square, for each log wealth below the goal."""
    log_chance = -BEYOND - np.arange(int(_DEEPEST * _STEPS) + 1) / _STEPS
    d = ndtri_exp(log_chance)
    return np.asarray(np.exp(-0.5 * d * d - 0.5 * math.log(2.0 * math.pi) - log_chance))


def plan_tests(
    profile: LevelProfile, n_samples: int, n_labels: int, promise: Promise
) -> list[LevelPair]:
    """Choose the pairs of level and limit to test, from the surest to those with the most hits.

    Pairs are tested if no other pair has both a larger margin and more hits.
    """
    if profile.level.size == 0 or n_samples == 0:
        return []
    margin, limit = _margins(profile, n_samples, n_labels, promise)
    square = profile.mean_square_gain(promise.alpha)
    return [
        LevelPair(
            float(profile.level[at % profile.level.size]), int(limit.flat[at]), square.flat[at]
        )
        for at in front(margin.ravel(), profile.hits.ravel()).tolist()
    ]


def _margins(
    profile: LevelProfile, n_samples: int, n_labels: int, promise: Promise
) -> tuple[Float, Int]:
    """Return by how many standard deviations each pair is expected to pass, and limits to use.

    At a constant stake s the log wealth is about ``s n gain - s^2 n square / 2`` with standard
    deviation ``s sqrt(n variance)``; the stake ``sqrt(2 log(1/delta) / (n square))`` is most likely
    to pass ``log(1/delta)``, and a limit C keeps it below ``1 / ((1 - alpha) C)``.
    """
    alpha, goal = promise.alpha, math.log(1.0 / promise.delta)
    gain, square = profile.mean_gain(alpha), profile.mean_square_gain(alpha)
    limit = np.minimum(profile.limit, n_labels)[:, None]
    largest = LARGEST_STAKE / ((1.0 - alpha) * limit)
    wanted = np.sqrt(2.0 * goal / (n_samples * square))
    stake = np.minimum(wanted, largest)
    spread = np.sqrt(np.maximum(square - gain**2, 1e-3 * square) * n_samples)
    margin = (n_samples * (gain - 0.5 * stake * square) - goal / stake) / spread
    # A limit that no sample of the profile reached can be raised until it restricts the stake.
    is_idle = (profile.calls == profile.calls[-1]) & (limit > 1)
    useful = np.minimum(LARGEST_STAKE / ((1.0 - alpha) * wanted), n_labels).astype(np.int64)
    return margin, np.where(is_idle, np.maximum(limit, useful), limit)


def front(margin: Float, hits: Float) -> NDArray[np.intp]:
    """Return the pairs that no other exceeds in both margin and hits, by decreasing margin."""
    by_margin = np.lexsort((-hits, -margin))
    sorted_hits = hits[by_margin]
    is_front = sorted_hits > np.append(-1.0, np.maximum.accumulate(sorted_hits)[:-1])
    return np.asarray(by_margin[is_front], dtype=np.intp)


# -- groups of labels -----------------------------------------------------------------------------


def fewest_units(promise: Promise) -> int:
    """Return how many samples or clusters a certificate needs even if all calls are correct."""
    return math.ceil(math.log(promise.delta) / math.log(1.0 - promise.alpha))


def choose_limit(profile: LevelProfile, n_samples: int, n_labels: int, promise: Promise) -> int:
    """Return the limit of calls per sample with the most hits that can probably be certified."""
    if profile.level.size == 0 or n_samples == 0:
        return 1
    margin, limit = _margins(profile, n_samples, n_labels, promise)
    likely = margin >= 1.0
    at = np.argmax(np.where(likely, profile.hits, -1.0)) if likely.any() else np.argmax(margin)
    return int(limit.flat[at])


def certified_levels(
    instances: Instances, profile: LevelProfile, limit: int, promise: Promise
) -> Float:
    """Return all levels that are certified for one group of labels, in increasing order.

    No sample has more than `limit` instances. `profile` of other samples fixes two sequences of
    tests before this truth is seen: one falls from the surest level, with most of the error, and
    one rises from it. Each ends with its first failure. The rising one matters if the level of a
    group of ancestors is higher. A level of 0 calls every listed instance.
    """
    if profile.level.size == 0 or instances.n_samples == 0:
        return np.empty(0)
    if instances.n_units < instances.n_samples:
        profile = profile.clustered()
    at_limit = replace(profile, limit=np.array([limit]), moments=profile.moments[:, -1:])
    n_labels = max(instances.n_labels, limit)
    margin = _margins(at_limit, instances.n_units, n_labels, promise)[0][0]
    square, level = at_limit.mean_square_gain(promise.alpha)[0], profile.level.copy()
    level[-1] = 0.0
    surest = int(np.argmax(margin))
    falling = surest + front(margin[surest:], at_limit.hits[0, surest:])
    rising = np.arange(surest - 1, -1, -1)
    certified: list[LevelPair] = []
    # Two sequences, two chances to err: they share the error of the group.
    for sequence, share in ((falling, 1.0 - RISING_SHARE), (rising, RISING_SHARE)):
        pairs = [LevelPair(float(level[at]), limit, float(square[at])) for at in sequence.tolist()]
        part = Promise(promise.alpha, share * promise.delta)
        certified += pass_tests(instances, pairs, part, instances.weight)
    return np.sort([pair.level for pair in certified])
