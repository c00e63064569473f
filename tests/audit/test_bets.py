import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_audit as twin
from hierlpr.audit.bets import PLAN_WEIGHT, count_passed, expect_passed, gains
from hierlpr.audit.plan import list_by_unit, plan_audit
from hierlpr.cutoff.goal import Promise
from hierlpr.cutoff.guarantee import BEYOND, LARGEST_STAKE

PROMISE = Promise(0.2, 0.1)


class Case:
    """A random population on a coarse grid of scores, with its plan."""

    def __init__(self, seed, n, k, promise=PROMISE, checks=None, chance=None):
        rng = np.random.default_rng(seed)
        self.score = rng.choice([0.7, 0.8, 0.9, 0.97], (n, k))
        chance = self.score if chance is None else np.full(self.score.shape, chance)
        self.truth = rng.random((n, k)) < chance
        sample, label = np.divmod(np.arange(n * k), k)
        listed = list_by_unit(sample, label, self.score.ravel(), n)
        self.plan = plan_audit(listed, promise, checks or n, rng)
        listed = self.plan.listed
        self.correct = self.truth[listed.sample, listed.label]
        self.order = listed.sample[np.unique(listed.unit, return_index=True)[1]]
        self.n_units = self.plan.time.size

    def first(self, n_answers):
        return self.correct[: np.searchsorted(self.plan.listed.unit, n_answers)]

    def passed(self, n_answers, horizons):
        return count_passed(self.plan, self.first(n_answers), n_answers, horizons)[0]

    def twin_options(self, test):
        plan, probability = self.plan, np.zeros(len(self.score))
        probability[self.order] = plan.probability
        pair = float(plan.tests.level[test]), int(plan.tests.limit[test])
        lists = self.score.tolist(), self.truth.tolist()
        return *lists, 0.8, pair, probability.tolist(), self.order.tolist(), plan.rho


@given(st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_gains_and_certificates_match_their_slow_twin(seed):
    case = Case(seed, 15, 4)
    n = min(10, case.n_units)
    gain, largest = gains(case.plan, case.first(n), n)
    slow_passed, still = 0, True
    for test in range(case.plan.tests.level.size):
        slow = twin.gains(*case.twin_options(test), n)
        assert gain[test] == pytest.approx([g for g, _ in slow], abs=1e-9)
        losses = np.maximum([loss for _, loss in slow], 1e-12)
        assert np.minimum(largest[test], 1e6) == pytest.approx(
            np.minimum(LARGEST_STAKE / losses, 1e6)
        )
        square = float(case.plan.tests.square[test])
        still &= twin.passes(slow, square, 0.1, n, LARGEST_STAKE, PLAN_WEIGHT, BEYOND)
        slow_passed += still
    assert case.passed(n, [n]) == slow_passed


@given(st.integers(0, 10**6), st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_the_next_gain_has_the_mean_of_the_population_and_never_loses_more_than_its_bound(seed, k):
    case = Case(seed, 7, 3)
    k = min(k, case.n_units)
    for test in range(case.plan.tests.level.size):
        score, truth, target, pair, q, order, rho = case.twin_options(test)
        called = [(i, j) for i, row in enumerate(score) for j in twin.calls_of(row, *pair)]
        mean = sum(truth[i][j] - target for i, j in called) / len(score)
        found = twin.mean_of_next(score, truth, target, pair, q, order[:k], rho)
        assert found == pytest.approx(mean, abs=1e-9)
        for gain, loss in twin.gains(*case.twin_options(test), k):
            assert gain >= -loss - 1e-9


def test_more_answers_never_take_a_certificate_back():
    case = Case(3, 120, 4, Promise(0.1, 0.1), checks=60, chance=0.97)
    passed = [case.passed(n, [60]) for n in range(1, 61)]
    assert passed == sorted(passed)
    assert passed[-1] > 0


def test_a_population_that_was_checked_whole_is_known():
    for seed in range(20):
        case = Case(seed, 5, 3, Promise(0.1, 0.1), chance=0.95)
        tests, listed = case.plan.tests, case.plan.listed
        precision = [
            case.correct[listed.called(*pair)].mean()
            for pair in zip(tests.level, tests.limit, tests.group, strict=True)
        ]
        n_passed = next((k for k, x in enumerate(precision) if x < 0.9 - 1e-12), len(precision))
        assert case.passed(case.n_units, [case.n_units]) == n_passed
        assert case.passed(case.n_units - 1, [case.n_units]) == 0
    assert not plan_of_one_name(is_right=False)
    assert plan_of_one_name(is_right=True)


def plan_of_one_name(is_right):
    listed = list_by_unit(np.array([0]), np.array([0]), np.array([0.9]), 1, allowed=0.1)
    plan = plan_audit(listed, Promise(0.1, 0.1), 1, np.random.default_rng(0))
    return count_passed(plan, np.array([is_right]), 1, [1])[0]


def test_an_extension_continues_with_the_wealth_that_is_left():
    case = Case(5, 300, 3, Promise(0.1, 0.1), checks=20, chance=0.95)
    before = case.passed(20, [20])
    n_units = case.n_units
    assert case.passed(20, [20, n_units]) == before
    assert case.passed(n_units, [20, n_units]) > before


def test_a_population_that_is_checked_completely_needs_no_luck():
    case = Case(0, 40, 3, Promise(0.1, 0.1), checks=40, chance=0.97)
    assert case.truth.mean() > 0.92
    assert case.passed(case.n_units, [case.n_units]) == case.plan.tests.level.size


def test_nothing_is_certified_without_answers_or_for_wrong_calls():
    case = Case(1, 50, 2, chance=0.0)
    assert case.passed(0, [50]) == 0
    assert case.passed(case.n_units, [case.n_units]) == 0


def test_continuations_are_simulated_from_what_the_answers_show():
    good = Case(2, 400, 3, Promise(0.1, 0.1), checks=100, chance=0.99)
    bad = Case(2, 400, 3, Promise(0.1, 0.1), checks=100, chance=0.5)
    mean = {}
    for name, case in (("good", good), ("bad", bad)):
        correct = case.first(100)
        answered = np.arange(correct.size) < case.first(40).size
        passed = expect_passed(case.plan, correct, answered, [100], np.random.default_rng(0))
        mean[name] = passed.mean()
    assert mean["good"] > 0.5
    assert mean["bad"] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("chance", [0.799, 0.6])
def test_errors_stay_within_the_stated_rate(chance):
    errors, runs = 0, 300
    for seed in range(runs):
        case = Case(seed, 120, 3, checks=40, chance=chance)
        passed = case.passed(40, [40])
        tests = zip(case.plan.tests.level, case.plan.tests.limit, strict=True)
        called = [case.plan.listed.called(*pair, 0) for pair in tests]
        errors += any(case.correct[rows].mean() < 0.8 for rows in called[:passed])
    assert errors / runs <= 0.1 + 3 * np.sqrt(0.09 / runs)
