"""Prevalences of a new population from its scores: tilts, their likelihoods and their search."""

import numpy as np
import pytest

import reference_shift as slow
from hierlpr import Hierarchy, HierLPR, simulate
from hierlpr.lpr.label_shift import (
    SHIFT_SD,
    SHIFTS,
    JointShiftLikelihood,
    RarestParentForest,
    ShiftLikelihood,
    average_over_tilts,
    find_tilts,
    log_likelihood,
)


def peaks(shifts, errors):
    """Log-likelihoods of normal estimates."""
    return -0.5 * ((SHIFTS - np.asarray(shifts)[:, None]) / np.asarray(errors)[:, None]) ** 2


def tilted(base, likelihood, h):
    """Prevalences of the tilts found for log-likelihoods of single labels."""
    table = likelihood - 0.5 * (SHIFTS / SHIFT_SD) ** 2
    return average_over_tilts(
        ShiftLikelihood(RarestParentForest.of(base, h), table, np.zeros((2, base.size))), base
    )


def test_no_child_is_more_frequent_than_its_parents():
    rng = np.random.default_rng(3)
    for _ in range(10):
        h = simulate.random_dag(12, rng=rng)
        held = h.close_upward(rng.random((400, 12)) < 0.2)
        base = (held.sum(axis=0) + 0.5) / 401
        found = tilted(base, peaks(rng.normal(size=12) * 2, np.full(12, 0.3)), h)
        for parent, child in h.edges:
            rarest = min(h.parents(child), key=lambda p: (base[h.index(p)], h.index(p)))
            if parent == rarest:
                assert found[h.index(child)] <= found[h.index(parent)] * (1 + 1e-9)


def test_one_move_explains_those_below():
    """A root that moves takes along a child; how far, its own scores tell, or both is averaged."""
    h = Hierarchy([("A", "B")])
    base = np.array([0.5, 0.25])
    new = 1 / (1 + np.exp(-1.0))
    by_itself = np.log(new / 2 / (1 - new / 2)) - np.log(0.25 / 0.75)
    for error, share in ((0.05, (0.49, 0.51)), (1e3, (0.55, 0.70))):
        found = tilted(base, peaks([1.0, by_itself], [0.05, error]), h)
        assert found[0] == pytest.approx(new, abs=0.01)
        assert share[0] < found[1] / found[0] < share[1]
    stays = tilted(base, peaks([0.03, -0.02], [0.1, 0.1]), h)
    assert stays == pytest.approx(base, abs=0.01)


def test_prevalences_of_tilts_match_the_sum_over_label_sets():
    rng = np.random.default_rng(8)
    for _ in range(20):
        h = simulate.random_forest(6, rng=rng)
        base = np.zeros(6)
        for k in h.order:  # a share of the parent each
            above = [base[h.index(p)] for p in h.parents(h.labels[k])]
            base[k] = rng.uniform(0.1, 0.9) * min(above, default=1.0)
        tilt = rng.normal(size=6) * rng.integers(0, 2, size=6)
        found = RarestParentForest.of(base, h).rates(tilt[None])[0]
        assert found == pytest.approx(slow.tilted_prevalences(base, tilt, h))


def test_few_tilts_are_found_as_by_trying_all():
    """No two tilts on a grid are worth more than what the search finds, prices included."""
    rng = np.random.default_rng(9)
    h = Hierarchy([("A", "B"), ("A", "C")])
    base, price = np.array([0.5, 0.2, 0.1]), np.log(3) + 2
    n_found = []
    for _ in range(4):
        table = peaks(rng.normal(size=3) * [0.5, 1, 1], rng.uniform(0.1, 0.5, size=3))
        aim = ShiftLikelihood(RarestParentForest.of(base, h), table, np.zeros((2, base.size)))
        tilt, chosen, worth = find_tilts(aim, np.zeros(3), price=price)
        n_found.append(len(chosen))
        gained = aim.at(tilt[None])[0] - aim.at(np.zeros((1, 3)))[0] - n_found[-1] * price
        assert worth == pytest.approx(gained)
        worth = aim.at(tilt[None])[0] - n_found[-1] * price
        assert worth >= slow.best_tilts(base, table, SHIFTS, h, price) - 1e-9
    assert min(n_found) == 0 < max(n_found)


def test_steps_of_tilts_are_worth_what_all_label_sets_say():
    """The joint likelihood along one tilt, by sums over all label sets of every sample."""
    rng = np.random.default_rng(12)
    for _ in range(5):
        h = simulate.random_forest(5, rng=rng)
        base = np.zeros(5)
        for k in h.order:
            above = [base[h.index(p)] for p in h.parents(h.labels[k])]
            base[k] = rng.uniform(0.1, 0.9) * min(above, default=1.0)
        lpr = rng.uniform(0.02, 0.98, (6, 5))
        ratio = np.log(lpr / (1 - lpr) * (1 - base) / base)
        aim = JointShiftLikelihood(
            RarestParentForest.of(base, h), ratio, np.full(5, 0.5), np.ones(5)
        )
        tilt, steps = rng.normal(size=5), np.array([-1.0, 0.3, 2.0])
        for k in range(5):
            found = []
            for step in (0.0, *steps):
                own = tilt + step * (np.arange(5) == k)
                told = sum(slow.log_sum(base, own + row, h) for row in ratio)
                told -= len(lpr) * slow.log_sum(base, own, h)
                found.append(0.5 * told - 0.5 * (own[k] / SHIFT_SD) ** 2)
            expected = np.array(found[1:]) - found[0]
            assert aim.gains(tilt, k, steps) == pytest.approx(expected, abs=1e-6)


def test_a_label_of_poor_scores_is_told_by_its_relatives():
    """With the joint posterior trusted the estimate is nearer to the truth than label by label."""
    errors = []
    for seed in range(3):
        rng = np.random.default_rng(500 + seed)
        train, pool = simulate.train_test("2", n_train=2000, n_test=12000, rng=rng)
        rate = pool.truth[:, 1].mean()
        chance = np.where(pool.truth[:, 1], 3.0, 1.0)
        rows = rng.choice(12000, 2500, p=chance / chance.sum())
        assert rate > 0.0
        for joint in (False, True):
            model = HierLPR(train.hierarchy, joint=joint).fit(train.scores, train.truth)
            found = model.check(pool.scores[rows]).expected
            errors.append(np.abs(found - pool.truth[rows].mean(axis=0)).max())
    assert np.mean(errors[1::2]) < 1.1 * np.mean(errors[::2])
    assert max(errors[1::2]) < 0.1  # label by label, a shift may go unnoticed


def test_likelihood_of_a_move():
    """Equal to the sum over samples, whatever is rounded on the way."""
    train, pool = simulate.train_test(1, n_train=2000, n_test=300, rng=5)
    model = HierLPR(train.hierarchy).fit(train.scores, train.truth)
    start, lpr = model.lpr_.score_bins.mean_lpr, model.lpr_.predict(pool.scores)
    ratio = lpr / (1 - lpr) * (1 - start) / start
    found = log_likelihood(lpr, start)
    for at in (0, 30, 40, 70):
        rate = 1 / (1 + np.exp(-(np.log(start / (1 - start)) + SHIFTS[at])))
        expected = np.log(1 - rate + rate * ratio).sum(axis=0)
        assert found[:, at] == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("joint", [False, True])
def test_a_common_move_is_found_where_no_single_one_is(joint):
    """Weak evidence about each of 40 labels; together it is clear, and shared by all."""
    rng = np.random.default_rng(3)
    h = Hierarchy(labels=[f"L{i}" for i in range(40)])
    base, new = np.full(40, 0.2), 0.1
    truth = rng.random((60, 40)) < new
    log_ratio = 1.5 * (1.5 * truth + rng.normal(size=truth.shape)) - 1.5**2 / 2
    forest = RarestParentForest.of(base, h)
    if joint:
        aim = JointShiftLikelihood(forest, log_ratio, np.ones(40), np.ones(40))
    else:
        odds = np.exp(log_ratio)[:, :, None]
        rate = 1 / (1 + np.exp(-(np.log(0.25) + SHIFTS)))
        table = np.log1p(rate * (odds - 1.0)).sum(axis=0)
        aim = ShiftLikelihood(forest, table - 0.5 * (SHIFTS / SHIFT_SD) ** 2, np.zeros((2, 40)))
    assert not find_tilts(aim, np.zeros(40), price=np.log(40) + 1.0)[1]
    found = average_over_tilts(aim, base, together=True)
    assert found == pytest.approx(np.full(40, new), rel=0.3)
    assert np.array_equal(average_over_tilts(aim, base), base)
