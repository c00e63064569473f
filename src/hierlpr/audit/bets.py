"""Test the planned cutoffs with bets on the answers so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import takewhile

import numpy as np
from scipy.special import expit, logit, ndtr

from hierlpr.audit.plan import WITHIN, Bool, Float, Index, Plan
from hierlpr.cutoff.guarantee import LARGEST_STAKE, log_wealth

# The mean square gain of the plan has the weight of this many checks.
PLAN_WEIGHT = 20.0
# Simulated continuations, and by how much the log-odds of chances may be corrected in them.
N_FUTURES, SHIFTS = 50, 3.0


def count_passed(plan: Plan, correct: Bool, n_answers: int, horizons: Sequence[int]) -> Index:
    r"""Return how many tests of each group pass, in turn, with the answers on the first units.

    `correct` marks the correct instances of these `n_answers` units. `horizons` are the numbers of
    checks planned: the first before any answer, others when the audit was extended.

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

    For names, :math:`g_i` is minus 1 if the name of sample i is wrong, else 0, and the number of
    wrong names to allow is added to :math:`Y`. Each of G groups is tested with :math:`\delta / G`.
    The last draw of all units leaves nothing open: :math:`Y` is the sum itself, and decides.

    References
    ----------
    Keys ``waudbysmith2024estimating``, ``waudbysmith2021rilacs`` and ``xu2024active`` in
    ``docs/references.bib``.
    """
    gain, largest = gains(plan, correct, n_answers)
    is_met = np.zeros(plan.tests.level.size, dtype=bool)
    if n_answers == plan.time.size:
        is_met = gain[:, -1] >= -1e-9
    goal = math.log(np.unique(plan.tests.group).size / plan.promise.delta)

    def passes(test: int) -> bool:
        if is_met[test]:
            return True
        wealth, start, squares = 0.0, 0, 0.0
        for horizon in horizons:
            if start >= n_answers:
                break
            here, n_ahead = slice(start, min(horizon, n_answers)), horizon - start
            ahead, stakes = np.zeros(n_ahead), np.ones(n_ahead)
            ahead[: here.stop - start] = gain[test, here]
            stakes[: here.stop - start] = largest[test, here]
            weight = PLAN_WEIGHT + start
            square = (PLAN_WEIGHT * plan.tests.square[test] + squares) / weight
            wealth += log_wealth(ahead, stakes, square, weight, goal - wealth)
            if wealth >= goal:
                return True
            start, squares = horizon, squares + float(ahead @ ahead)
        return False

    groups = [np.flatnonzero(plan.tests.group == g) for g in range(plan.tests.group.max() + 1)]
    return np.array([sum(1 for _ in takewhile(passes, tests.tolist())) for tests in groups])


def gains(plan: Plan, correct: Bool, n_answers: int) -> tuple[Float, Float]:
    """Return the gain of every test and answer, divided by the number of units, and largest stakes.

    `correct` is that of the instances of the first `n_answers` units.
    """
    listed, tests, alpha = plan.listed.take(slice(correct.size)), plan.tests, plan.promise.alpha
    gain = listed.gains(correct, alpha) - plan.rho * listed.gains(listed.chance, alpha)
    beyond = np.zeros((tests.level.size, n_answers))
    for test, pair in enumerate(zip(tests.level, tests.limit, tests.group, strict=True)):
        called = listed.called(*pair)
        beyond[test] = np.bincount(listed.unit[called], gain[called], n_answers)
    q = plan.probability[:n_answers]
    left = np.maximum(1.0 - np.append(0.0, np.cumsum(q))[:-1], q)
    base = tests.total[:, None] + np.cumsum(beyond, axis=1) - beyond
    mean = (base + beyond / q * left) / listed.n_units
    loss = (tests.bound[:, None] * left - base) / listed.n_units
    return mean, LARGEST_STAKE / np.maximum(loss, 1e-12)


def expect_passed(
    plan: Plan, correct: Bool, answered: Bool, horizons: Sequence[int], rng: np.random.Generator
) -> Index:
    """Return how many tests of each group pass at the end of each of some simulated continuations.

    `answered` marks the instances, of all units up to the last horizon, whose answer is in
    `correct`. The others are drawn from the chances, with log-odds shifted so that the chances of
    the answered ones agree with their answers on average.
    """
    listed = plan.listed.take(slice(correct.size))
    within = WITHIN if listed.allowed is None else 1.0  # a name is right if those below it are
    log_odds = logit(listed.chance)
    shifts = np.linspace(-SHIFTS, SHIFTS, 121)
    expected = expit(log_odds[answered] + shifts[:, None]).sum(axis=1)
    chance = expit(log_odds + shifts[np.argmin(np.abs(expected - correct[answered].sum()))])
    passed = []
    for _ in range(N_FUTURES):
        by_unit = rng.standard_normal(horizons[-1])[listed.unit]
        latent = math.sqrt(within) * by_unit
        latent += math.sqrt(1.0 - within) * rng.standard_normal(log_odds.size)
        drawn = np.where(answered, correct, ndtr(latent) < chance)
        passed.append(count_passed(plan, drawn, horizons[-1], horizons))
    return np.array(passed)
