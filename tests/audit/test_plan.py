import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

import reference_audit as twin
from hierlpr.audit.plan import UNIFORM, WITHIN, _Grid, _probability, list_by_unit, plan_audit
from hierlpr.cutoff.goal import Promise

PROMISE = Promise(0.2, 0.1)


def listed_of(score, cluster=None):
    sample, label = np.divmod(np.arange(score.size), score.shape[1])
    return list_by_unit(sample, label, score.ravel(), len(score), cluster)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, -1.0]))
@settings(max_examples=30, deadline=None)
def test_expected_sums_match_loops_over_units(seed, rho, shift):
    rng = np.random.default_rng(seed)
    score = rng.integers(1, 10, (12, 4)) / 10
    grid = _Grid(listed_of(score), PROMISE)
    lowest = grid.level[-1]
    grid = _Grid(
        listed_of(np.where(score >= lowest, score, 0.0)).take(listed_of(score).score >= lowest),
        PROMISE,
    )
    q = _probability([grid], [lowest])
    all_hits, all_squares, _ = grid.expect(q, rho, shift, checks=10)
    for a, limit in enumerate(grid.limit.tolist()):
        for b, level in enumerate(grid.level.tolist()):
            hits = square = total = total_control = 0.0
            for i, row in enumerate(score.tolist()):
                called = twin.calls_of(row, level, limit)
                claimed = np.array([row[j] for j in called])
                chance = expit(logit(claimed) + shift)
                gain, control = (chance - 0.8).sum(), rho * (claimed - 0.8).sum()
                spread = (chance * (1 - chance)).sum() * (1 + WITHIN * (len(called) - 1))
                hits, total = hits + chance.sum(), total + gain / 12
                total_control += control / 12
                if called:
                    square += (spread + (gain - control) ** 2) / (144 * q[i])
            assert all_hits[a, b] == pytest.approx(hits)
            square = max(square + total**2 - (total - total_control) ** 2, 1e-12)
            assert all_squares[a, b] == pytest.approx(square, abs=1e-9)


def test_draws_follow_the_calls():
    score = np.array([[0.95, 0.95, 0.95, 0.95]] + [[0.95, 0.0, 0.0, 0.0]] * 4)
    listed = listed_of(score).take(listed_of(score).score > 0.0)
    grid = _Grid(listed, PROMISE)
    assert _probability([grid], None) == pytest.approx(np.full(5, 0.2))
    by_calls = UNIFORM / 5 + (1 - UNIFORM) * np.array([4, 1, 1, 1, 1]) / 8
    assert _probability([grid], [0.9]) == pytest.approx(by_calls)


def test_the_order_of_draws_is_in_proportion_to_the_probability():
    rng = np.random.default_rng(0)
    score = np.where(np.arange(6)[None] < np.array([[6], [1], [1], [1]]), 0.97, 0.0)
    listed = listed_of(score).take(listed_of(score).score > 0.0)
    plans = [plan_audit(listed, PROMISE, 4, rng) for _ in range(600)]
    orders = [list(dict.fromkeys(plan.listed.sample.tolist())) for plan in plans]
    q = np.zeros(4)
    q[orders[0]] = plans[0].probability
    first = np.bincount([order[0] for order in orders], minlength=4) / 600
    assert np.abs(first - q).max() < 3.5 * np.sqrt(0.25 / 600)
    assert all(sorted(order) == np.flatnonzero(q).tolist() for order in orders)


def test_tests_go_from_sure_to_many_calls_and_units_without_calls_are_not_drawn():
    rng = np.random.default_rng(1)
    score = np.clip(rng.beta(4, 1, (300, 5)), 0.01, 0.99)
    score[200:] = 0.01
    listed = listed_of(score)
    plan = plan_audit(listed, Promise(0.1, 0.1), 100, rng)
    assert plan.listed.sample.max() < 200
    assert plan.probability.sum() == pytest.approx(1.0)
    hits = [score[score >= level].sum() for level in plan.tests.level]
    assert plan.tests.level.size > 5
    assert plan.tests.level[0] > plan.tests.level[-1]
    assert hits[-1] == max(hits)


@pytest.mark.parametrize("score", [[[0.9]], [[0.9], [0.9]], [[0.0]], [[1.0, 1.0]], [[0.1, 0.2]]])
def test_tiny_populations_have_a_plan(score):
    plan = plan_audit(listed_of(np.array(score)), PROMISE, 5, np.random.default_rng(0))
    assert plan.time.size >= 1
    assert plan.tests.level.size >= 1


def test_clusters_are_drawn_whole():
    score = np.full((6, 2), 0.95)
    listed = listed_of(score, np.array([0, 0, 0, 1, 1, 2]))
    assert listed.n_units == 3
    assert np.bincount(listed.unit).tolist() == [6, 4, 2]
    plan = plan_audit(listed, PROMISE, 3, np.random.default_rng(0))
    samples = np.split(plan.listed.sample, np.flatnonzero(np.diff(plan.listed.unit)) + 1)
    assert sorted(map(set, map(tuple, samples)), key=min) == [{0, 1, 2}, {3, 4}, {5}]
