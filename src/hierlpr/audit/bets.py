"""Test the planned cutoffs with bets on the answers so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr

from hierlpr.audit.plan import LEAST_CHANCE, WITHIN, Listed, Plan
from hierlpr.cutoff.guarantee import LARGEST_STAKE, log_wealth

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

# The mean square gain of the plan has the weight of this many checks.
PLAN_WEIGHT = 20.0
# Simulated continuations, and by how much the log-odds of chances may be corrected in them.
N_FUTURES, SHIFTS = 50, 3.0


def count_passed(
    plan: Plan, listed: Listed, correct: Bool, n_answers: int, horizons: Sequence[int]
) -> int:
    r"""Return how many tests pass, in turn, with the answers on the first units drawn.

    `listed` has the instances of these `n_answers` units, `correct` marks the correct ones.
    `horizons` are the numbers of checks planned: the first before any answer, others when the audit
    was extended.

    Notes
    -----
    For one level and limit let :math:`g_i = h_i - p\, n_i` with the correct calls and calls of
    unit i, and target p; the precision is below the target exactly if :math:`\sum g_i < 0`. With
    control variates :math:`m_i`, fixed before the draw, and the set :math:`S` of earlier draws,
    unit I is drawn with probability :math:`q_I / Q`, :math:`Q = \sum_{i \notin S} q_i`, so that

    .. math:: Y = \sum_i m_i + \sum_{i \in S} (g_i - m_i) + Q (g_I - m_I) / q_I

    has mean :math:`\sum g_i` given the past. Its smallest possible value is bounded before the
    draw, so bets on it are a non-negative supermartingale if the precision is below the target, as
    in :func:`hierlpr.cutoff.guarantee.certified_level`: by Ville's inequality they reach
    :math:`1/\delta` at any time with probability at most :math:`\delta`. Stakes aim at the next of
    the `horizons`; an extension uses the wealth that is left.

    References
    ----------
    Keys ``waudbysmith2024estimating``, ``waudbysmith2021rilacs`` and ``xu2024active`` in
    ``docs/references.bib``.
    """
    gain, largest = gains(plan, listed, correct, n_answers)
    goal = math.log(1.0 / plan.promise.delta)

    def passes(test: int) -> bool:
        wealth, start, seen = 0.0, 0, 0.0
        for horizon in horizons:
            rows = slice(start, min(horizon, n_answers))
            if start >= n_answers:
                return False
            ahead = np.zeros(horizon - start)
            ahead[: rows.stop - start] = gain[test, rows]
            stakes = np.ones(horizon - start)
            stakes[: rows.stop - start] = largest[test, rows]
            weight = PLAN_WEIGHT + start
            square = (PLAN_WEIGHT * plan.tests.square[test] + seen) / weight
            added = log_wealth(ahead, stakes, square, weight, goal - wealth)
            if added >= goal - wealth:
                return True
            wealth, start, seen = wealth + added, horizon, seen + float(ahead @ ahead)
        return False

    return sum(1 for _ in takewhile(passes, range(plan.tests.level.size)))


def gains(plan: Plan, listed: Listed, correct: Bool, n_answers: int) -> tuple[Float, Float]:
    """Return the gain of every test and answer, divided by the number of units, and largest stakes.

    The instances are those of the first `n_answers` units drawn.
    """
    place = np.empty(listed.n_units, dtype=np.intp)
    place[plan.order] = np.arange(plan.order.size)
    at, tests, target = place[listed.unit], plan.tests, 1.0 - plan.promise.alpha
    chance = np.clip(listed.score, LEAST_CHANCE, 1.0 - LEAST_CHANCE)
    surprise, expected = correct - target, plan.rho * (chance - target)
    beyond = np.zeros((tests.level.size, n_answers))
    for test, pair in enumerate(zip(tests.level, tests.limit, strict=True)):
        called = listed.called(*pair)
        beyond[test] = np.bincount(at[called], (surprise - expected)[called], n_answers)
    q = plan.probability[plan.order[:n_answers]]
    left = np.maximum(1.0 - np.append(0.0, np.cumsum(q))[:-1], q)
    base = tests.total[:, None] + np.cumsum(beyond, axis=1) - beyond
    gain = (base + beyond / q * left) / listed.n_units
    loss = (tests.bound[:, None] * left - base) / listed.n_units
    return gain, LARGEST_STAKE / np.maximum(loss, 1e-12)


def expect_passed(
    plan: Plan,
    listed: Listed,
    correct: Bool,
    answered: Bool,
    horizons: Sequence[int],
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Return how many tests pass at the end in each of some simulated continuations.

    `listed` has the instances of all units up to the last horizon, `answered` marks those whose
    answer is in `correct`. The others are drawn from the chances, with log-odds shifted so that the
    chances of the answered ones agree with their answers on average.
    """
    log_odds = logit(np.clip(listed.score, LEAST_CHANCE, 1.0 - LEAST_CHANCE))
    shifts = np.linspace(-SHIFTS, SHIFTS, 121)
    expected = expit(log_odds[answered] + shifts[:, None]).sum(axis=1)
    chance = expit(log_odds + shifts[np.argmin(np.abs(expected - correct[answered].sum()))])
    passed = np.empty(N_FUTURES, dtype=np.intp)
    for future in range(N_FUTURES):
        by_unit = rng.standard_normal(listed.n_units)[listed.unit]
        latent = math.sqrt(WITHIN) * by_unit
        latent += math.sqrt(1.0 - WITHIN) * rng.standard_normal(log_odds.size)
        drawn = np.where(answered, correct, ndtr(latent) < chance)
        passed[future] = count_passed(plan, listed, drawn, horizons[-1], horizons)
    return passed
