import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from scipy.stats import binom

from hierlpr import Hierarchy, HierLPR
from hierlpr.cutoff.choose import choose_cutoff
from hierlpr.cutoff.decisions import decide
from hierlpr.cutoff.guarantee import LevelProfile, certified_level
from hierlpr.cutoff.scored import (
    calls_by_level,
    collect,
    limit_calls,
    random_order,
    split_at_random,
)


def draw(n_samples, rng, *, n_labels=3, shift=0.0):
    """Calibrated scores with dependent labels; `shift` lowers the truth below its score."""
    rng = np.random.default_rng(rng)
    common = rng.random((n_samples, 1))
    score = np.sort((common + rng.random((n_samples, n_labels))) / 2, axis=1)[:, ::-1]
    coin = np.where(rng.random((n_samples, 1)) < 0.5, rng.random((n_samples, 1)), 0)
    coin = np.where(coin > 0, coin, rng.random((n_samples, n_labels)))
    return np.ascontiguousarray(score), coin < score - shift


def too_many(n_runs, delta):
    """Failures that a promise kept with probability 1 - delta exceeds once in 1,000 tests."""
    return int(binom.isf(0.001, n_runs, delta))


def two_kinds(n_samples, rng, high, low):
    """One label: 30 % of the samples score `high` and are right, the others are half right."""
    good = rng.random(n_samples) < 0.3
    truth = good | (rng.random(n_samples) < 0.5)
    return np.where(good, high, low)[:, None], truth[:, None]


def test_ties_do_not_break_the_promise():
    bad, runs = 0, 300
    for run in range(runs):
        rng = np.random.default_rng([20, run])
        low, high = np.sort(rng.random(2))
        profile = LevelProfile.of(*two_kinds(1000, rng, high, low))
        score, truth = two_kinds(1000, rng, high, low)
        cutoff = choose_cutoff(score, truth, precision=0.9, confidence=0.9, profile=profile)
        # At `low` all are called, and 65 % of them are right.
        bad += cutoff.reachable and cutoff.level <= low
    assert bad <= too_many(runs, 0.1)


FOREST = Hierarchy.from_parents(
    {"A": None, "B": "A", "C": "A", "D": None, "E": "D"} | dict.fromkeys("FGHIJ")
)


def saturated(n_samples, rng):
    """Continuous scores of a forest of 10 labels; 8 % of the samples are at the top and right."""
    truth = rng.random((n_samples, 10)) < [0.88, 0.95, 0.95, 0.88, 0.95, *[0.88] * 5]
    truth[:, [1, 2]] &= truth[:, [0]]
    truth[:, 4] &= truth[:, 3]
    score = rng.normal(size=truth.shape) + 0.5 * truth
    top = rng.random(n_samples) < 0.08
    truth[top], score[top] = True, 8.0
    return score, truth


def test_saturated_scores_do_not_break_the_promise():
    bad, models, draws = 0, 12, 12
    for number in range(models):
        rng = np.random.default_rng([21, number])
        model = HierLPR(FOREST).fit(*saturated(400, rng))
        new_score, new_truth = saturated(20_000, rng)
        block_score = model.predict_proba(new_score)
        for _ in range(draws):
            model.calibrate(
                *saturated(1000, rng), precision=0.9, confidence=0.9, unreachable="nothing"
            )
            called = decide(block_score, model.cutoff_, model.hierarchy_)
            bad += called.any() and new_truth[called].mean() < 0.9
    assert bad <= too_many(models * draws, 0.1)


@given(
    hnp.arrays(np.int64, (9, 3), elements=st.integers(0, 2)),
    hnp.arrays(bool, (9, 3)),
    st.permutations(range(9)),
    st.booleans(),
)
def test_random_order_and_split_forget_how_the_rows_came(score, truth, rows, is_sparse):
    score = score / 2
    moved = score[rows], truth[rows]
    if is_sparse:
        moved = sparse.csr_array(moved[0]), sparse.csr_array(moved[1])

    def held(score, truth, order):
        return [sorted(zip(score[i], truth[i], strict=True)) for i in order]

    def listed(score, truth):
        # What is not above 0 is not listed in a CSR matrix.
        return held(score, truth & (score > 0), random_order(collect(score, truth)))

    if is_sparse:
        again = held(score[rows], (truth & (score > 0))[rows], random_order(collect(*moved)))
    else:
        again = listed(*moved)
    assert again == listed(score, truth)
    first, second = split_at_random(score, truth), split_at_random(*moved)
    for one, other in zip(first, second, strict=True):
        matrices = [m.toarray() if sparse.issparse(m) else m for m in other]
        assert sorted(np.hstack(one).tolist()) == sorted(np.hstack(matrices).tolist())


def test_the_random_order_does_not_follow_what_the_samples_hold():
    # 40 good and 60 bad samples, over and over: the good ones come first no more than by chance.
    mean_places = []
    for run in range(200):
        score = np.repeat([0.9, 0.4], [40, 60])[:, None] + run * 1e-6
        order = random_order(collect(score, score > 0.6))
        mean_places.append(np.flatnonzero(order < 40).mean())
    spread = math.sqrt((100 + 1) * 60 / (12 * 40))  # of the mean of 40 places drawn from 100
    assert abs(np.mean(mean_places) - 49.5) < 4 * spread / math.sqrt(200)
    assert 0.8 * spread < np.std(mean_places) < 1.2 * spread


def test_a_third_is_split_off_even_if_all_samples_are_tied():
    score, truth = np.full((90, 2), 0.7), np.zeros((90, 2), dtype=bool)
    truth[:45] = True
    apart, rest = split_at_random(score, truth)
    assert apart[0].shape == (30, 2)
    assert rest[1].shape == (60, 2)
    assert 5 < apart[1][:, 0].sum() < 25


@given(
    hnp.arrays(np.float64, (5, 4), elements=st.integers(0, 4).map(lambda k: k / 4)),
    st.integers(1, 4),
)
def test_limited_calls_are_the_best_whole_ties_of_each_sample(score, most):
    instances = collect(score, score > 2)
    kept = limit_calls(instances.score, instances.sample, most).reshape(score.shape)
    for row, allowed in zip(score, kept, strict=True):
        fit = [level for level in set(row.tolist()) if (row >= level).sum() <= most]
        np.testing.assert_array_equal(allowed, row >= min(fit) if fit else np.zeros(4, dtype=bool))


def test_calls_by_level_counts_every_sample():
    score, truth = draw(40, 0)
    level = np.array([0.9, 0.5, 0.2])
    counted = [(c.copy(), h.copy()) for c, h in calls_by_level(collect(score, truth), level)]
    for t, (calls, hits) in zip(level, counted, strict=True):
        np.testing.assert_array_equal(calls, (score >= t).sum(1))
        np.testing.assert_array_equal(hits, ((score >= t) & truth).sum(1))


def test_the_profile_holds_the_moments_of_gain():
    score, truth = draw(500, 1)
    profile = LevelProfile.of(score, truth)
    assert np.all(np.diff(profile.level) < 0)
    for i in (0, profile.level.size // 2, profile.level.size - 1):
        called = score >= profile.level[i]
        gain = 0.1 * called.sum(1) - (called & ~truth).sum(1)
        assert profile.drift(0.1)[i] == pytest.approx(gain.mean())
        assert profile.square(0.1)[i] == pytest.approx((gain**2).mean())
        assert profile.most_calls[i] == called.sum(1).max()


def test_certified_precision_is_above_the_target_and_costs_calls():
    profile = LevelProfile.of(*draw(3000, 2))
    score, truth = draw(3000, 3)
    sure = choose_cutoff(score, truth, precision=0.8, confidence=0.9, profile=profile)
    plain = choose_cutoff(score, truth, precision=0.8)
    assert sure.reachable
    assert 0 < sure.n_calls < plain.n_calls
    assert sure.precision > 0.8
    assert "with 90 % confidence" in str(sure)


def test_the_order_of_the_samples_does_not_matter():
    profile = LevelProfile.of(*draw(2000, 4))
    score, truth = draw(400, 5)
    score[:50], truth[:50] = score[50:100], truth[100:150]  # equal scores, other truth
    order = np.random.default_rng(0).permutation(400)
    options = {"fdr": 0.25, "confidence": 0.9, "profile": profile}
    assert choose_cutoff(score, truth, **options) == choose_cutoff(
        score[order], truth[order], **options
    )


def test_more_confidence_never_calls_more():
    profile = LevelProfile.of(*draw(3000, 6))
    score, truth = draw(2000, 7)
    calls = []
    for confidence in (0.5, 0.8, 0.9, 0.99):
        cutoff = choose_cutoff(
            score, truth, precision=0.8, confidence=confidence, profile=profile,
            unreachable="nothing",
        )  # fmt: skip
        calls.append(cutoff.n_calls)
    assert calls == sorted(calls, reverse=True)


@pytest.mark.parametrize("n_samples", [1, 5, 20])
def test_few_samples_cannot_certify_a_high_target(n_samples):
    profile = LevelProfile.of(*draw(2000, 8))
    score, truth = np.full((n_samples, 1), 0.99), np.ones((n_samples, 1), dtype=bool)
    cutoff = choose_cutoff(score, truth, precision=0.9, confidence=0.9, profile=profile)
    assert not cutoff.reachable  # 0.9 ** 20 > 0.1: all right by chance is too likely
    assert "large and sure enough" in cutoff.reason


def test_one_call_a_sample_needs_little_more_than_the_exact_binomial_test():
    # All right: the exact test certifies 90 % with 90 % confidence from 22 samples on.
    profile = LevelProfile.of(np.full((1000, 1), 0.99), np.ones((1000, 1)))
    enough = [
        n for n in range(1, 60)
        if certified_level(
            collect(np.full((n, 1), 0.99), np.ones((n, 1))), profile, alpha=0.1, confidence=0.9
        ).level is not None
    ]  # fmt: skip
    assert enough == list(range(enough[0], 60))
    assert 22 <= enough[0] <= 26


def test_many_labels_are_limited_in_calls_a_sample():
    rng = np.random.default_rng(9)
    n_labels = 2000

    def many(n):
        score = np.where(rng.random((n, n_labels)) < 0.002, 0.95, 0.001)
        return score, rng.random((n, n_labels)) < score

    profile = LevelProfile.of(*many(500))
    score, truth = many(500)
    cutoff = choose_cutoff(score, truth, precision=0.8, confidence=0.9, profile=profile)
    assert cutoff.reachable
    assert 8 <= cutoff.max_calls < 100
    assert f"at most {cutoff.max_calls} calls a sample" in str(cutoff)


def violations(n_runs, n_samples, *, shift):
    """Count runs that certify a level whose true precision is below 0.8; scores over-promise."""
    profile = LevelProfile.of(*draw(2000, 10))
    test_score, test_truth = draw(40_000, 11, shift=shift)
    bad = 0
    for run in range(n_runs):
        score, truth = draw(n_samples, [12, run], shift=shift)
        cutoff = choose_cutoff(score, truth, precision=0.8, confidence=0.8, profile=profile)
        if cutoff.reachable:
            bad += test_truth[test_score >= cutoff.level].mean() < 0.8
    return bad


@pytest.mark.parametrize("n_samples", [30, 300])
def test_even_a_misleading_profile_keeps_the_promise(n_samples):
    runs = 150
    bad = violations(runs, n_samples, shift=0.1)
    assert bad <= runs * 0.2 + 3 * math.sqrt(runs * 0.2 * 0.8)


def test_a_few_hundred_samples_with_many_labels_can_be_certified():
    # 110 labels and up to dozens of calls a sample: strict levels, where samples get few calls,
    # must not be held to the limit that lenient levels need.
    from hierlpr import consistent_scores, simulate

    fit, rest = (simulate.disease(n_samples=n, rng=seed) for n, seed in [(600, 1), (266, 2)])
    scores = [consistent_scores(part.lpr_true, part.hierarchy) for part in (fit, rest)]
    profile = LevelProfile.of(scores[0], fit.truth)
    cutoff = choose_cutoff(scores[1], rest.truth, fdr=0.1, confidence=0.9, profile=profile)
    assert cutoff.reachable
    assert cutoff.precision > 0.9
    assert cutoff.recall > 0.3
