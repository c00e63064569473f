import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from scipy.stats import binom, multinomial

import reference_certify as twin
from cases import choose_cutoff
from hierlpr import Hierarchy
from hierlpr.cutoff.choose import cutoff_for
from hierlpr.cutoff.decisions import decide
from hierlpr.cutoff.estimate import LevelProfile
from hierlpr.cutoff.goal import goals_of
from hierlpr.cutoff.guarantee import (
    BEYOND,
    LARGEST_STAKE,
    PROFILE_WEIGHT,
    LevelPair,
    Promise,
    certified_level,
    certified_levels,
    count_calls,
    is_precise,
    log_wealth,
    pass_tests,
    plan_tests,
)
from hierlpr.cutoff.instances import Shuffle, list_instances, random_order, sort_by_sample
from hierlpr.data.truth import Truth


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


@pytest.mark.parametrize("seed", range(5))
def test_samples_of_three_kinds_keep_the_promise_exactly_over_every_draw(seed):
    # Two labels at up to six scores, just short of the target where all is called: every set of
    # samples that can be drawn, with its chance.
    rng = np.random.default_rng([13, seed])
    n_samples, target = int(rng.integers(8, 14)), 0.8
    score = np.sort(rng.integers(1, 5, (3, 2)) / 5, axis=1)[:, ::-1].copy()
    if seed % 2:
        score[1] = score[0]
    truth, h = np.array([[1, 1], [1, 0], [0, 0]], dtype=bool), Hierarchy([("A", "B")])
    poor = 2.0 * (1.0 - target) + 1e-9  # wrong calls of a sample: 0, 1 and 2
    middle = rng.random() * poor
    chance = np.array([0.0, middle, (poor - middle) / 2.0])
    chance[0] = 1.0 - chance.sum()
    planned = np.repeat(np.arange(3), rng.multinomial(200, chance))
    profile = LevelProfile.of(list_instances(score[planned], truth[planned]))
    wrong = 0.0
    for first in range(n_samples + 1):
        for second in range(n_samples + 1 - first):
            counts = [first, second, n_samples - first - second]
            row = np.repeat(np.arange(3), counts)
            cutoff = choose_cutoff(
                score[row], truth[row], precision=target, confidence=0.9, profile=profile,
                unreachable="nothing",
            )  # fmt: skip
            called = decide(score, cutoff, h)
            n_calls, n_right = chance @ called.sum(axis=1), chance @ (called & truth).sum(axis=1)
            if n_right < (target - 1e-12) * n_calls:
                wrong += multinomial.pmf(counts, n_samples, chance)
    assert wrong <= 0.1


def test_zeros_are_called_at_no_certified_level_and_rows_may_come_in_any_order():
    # Samples that differ only in the truth of zero scores look the same in a CSR matrix.
    for seed in range(30):
        rng = np.random.default_rng(seed)
        score = rng.choice([0.0, 0.0, 0.5, 0.9], (60, 2))
        truth = rng.random((60, 2)) < 0.95
        profile = LevelProfile.of(list_instances(score, truth))
        assert profile.level.min() > 0
        options = {"precision": 0.7, "confidence": 0.8, "profile": profile}
        by_truth = np.lexsort(truth.T)
        cutoffs = [
            choose_cutoff(score, truth, **options),
            choose_cutoff(score[by_truth], truth[by_truth], **options),
            choose_cutoff(sparse.csr_array(score), truth, **options),
        ]
        assert [(c.level, c.max_calls) for c in cutoffs] == 3 * [
            (cutoffs[0].level, cutoffs[0].max_calls)
        ]


tied_scores = hnp.arrays(np.int64, (12, 4), elements=st.integers(0, 4)).map(lambda k: k / 4)
truths = hnp.arrays(bool, (12, 4))


@given(tied_scores, truths, st.integers(0, 4), st.integers(1, 4))
def test_calls_are_counted_at_any_level_and_limit(score, truth, quarters, limit):
    rows, needed = sort_by_sample(list_instances(score, truth))
    calls, hits = count_calls(rows, needed, quarters / 4, limit)
    expected = twin.count(score.tolist(), truth.tolist(), quarters / 4, limit)
    assert list(zip(calls.tolist(), hits.tolist(), strict=True)) == expected


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=60),
    st.sampled_from([0.5, 0.8, 0.9]),
    st.sampled_from([0.02, 0.1, 0.5]),
    st.floats(0.01, 3.0),
)
def test_bets_match_their_slow_twin(counts, precision, delta, square):
    counts = [(max(pair), min(pair)) for pair in counts]
    calls, hits = np.ascontiguousarray(np.array(counts).T)
    goal, largest = math.log(1 / delta), LARGEST_STAKE / (3 * precision)
    gain = hits - precision * calls
    fast = log_wealth(gain, np.full(gain.size, largest), square, PROFILE_WEIGHT, goal)
    slow = twin.log_wealth(counts, precision, largest, square, PROFILE_WEIGHT, goal, BEYOND)
    assert fast == pytest.approx(slow, abs=0.02)


@given(st.integers(0, 10**6), st.sampled_from([(0.1, 0.1), (0.3, 0.1), (0.3, 0.4)]))
@settings(max_examples=60, deadline=None)
def test_the_certified_cutoff_matches_its_slow_twin(seed, options):
    alpha, delta = options
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 6, (2, 60, 4)) / 5
    held = rng.random(cells.shape) < cells**0.3
    profile = LevelProfile.of(list_instances(cells[0], held[0]), chance_samples=0.0)
    sequence = plan_tests(profile, 60, 4, Promise(alpha, delta))
    expected = twin.plan(
        cells[0].tolist(), held[0].tolist(), profile.level.tolist(), profile.limit.tolist(),
        60, 4, alpha, delta, LARGEST_STAKE,
    )  # fmt: skip
    assert [pair[:2] for pair in sequence] == [pair[:2] for pair in expected]
    instances = list_instances(cells[1], held[1])
    order = random_order(instances).order
    goal, best = math.log(1 / delta), (None, None)
    for level, limit, square in expected:
        counts = twin.count(cells[1][order].tolist(), held[1][order].tolist(), level, limit)
        if limit == 1:
            calls, hits = np.sum(counts, axis=0).tolist()
            evidence = -math.log(twin.binomial_p(calls, hits, 1 - alpha))
        else:
            largest = LARGEST_STAKE / ((1 - alpha) * limit)
            evidence = twin.log_wealth(
                counts, 1 - alpha, largest, square, PROFILE_WEIGHT, goal, BEYOND
            )
        assume(abs(evidence - goal) > 0.02 or evidence >= goal)
        if evidence < goal:
            break
        best = (level, limit if limit < 4 else None)
    assert certified_level(instances, profile, Promise(alpha, delta)) == best


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_pair_is_certified_too_often(limit):
    # Precision just below the target, 40 or 400 samples of few kinds or of many.
    for n_samples, n_kinds in [(40, 2), (400, 2), (400, 5)]:
        bad, runs = 0, 600
        for run in range(runs):
            rng = np.random.default_rng([30, limit, n_samples, n_kinds, run])
            kind = rng.integers(1, n_kinds, n_samples)
            calls = np.minimum(kind, limit)
            hits = np.where(rng.random(n_samples) < 0.799, calls, 0)
            score = np.where(np.arange(limit) < calls[:, None], 0.9, 0.1)
            truth = np.arange(limit) < hits[:, None]
            pair = LevelPair(0.5, limit, float(np.mean((hits - 0.8 * calls) ** 2)))
            shuffle = random_order(list_instances(score, truth))
            bad += is_precise(pair, calls, hits, shuffle, Promise(0.2, 0.2), None)
        assert bad <= too_many(runs, 0.2)


def test_an_order_that_may_not_be_random_does_not_certify_alone():
    """The bets win by a lucky beginning of the order, and lose nothing after that."""
    hits = np.repeat([2, 0], [45, 15])  # the correct samples first, 75 % of all calls
    calls, order = np.full(60, 2), np.arange(60)
    test = (LevelPair(0.5, 2, 0.7), calls, hits)
    assert is_precise(*test, Shuffle(order, True), Promise(0.2, 0.2))
    assert not is_precise(*test, Shuffle(order, False), Promise(0.2, 0.2))


def test_the_two_sequences_of_a_group_share_its_error(monkeypatch):
    spent = []

    def record(instances, sequence, promise, *options):
        spent.append(promise.delta)
        return []

    monkeypatch.setattr("hierlpr.cutoff.guarantee.pass_tests", record)
    instances = list_instances(*draw(200, 0))
    certified_levels(instances, LevelProfile.of(instances), 3, Promise(0.2, 0.1))
    assert len(spent) == 2
    assert sum(spent) == pytest.approx(0.1)


@pytest.mark.parametrize("n_samples", [1, 20])
def test_few_samples_cannot_certify_a_high_target(n_samples):
    profile = LevelProfile.of(list_instances(*draw(2000, 8)))
    score, truth = np.full((n_samples, 1), 0.99), np.ones((n_samples, 1), dtype=bool)
    cutoff = choose_cutoff(score, truth, precision=0.9, confidence=0.9, profile=profile)
    assert not cutoff.reachable  # 0.9 ** 20 > 0.1: all right by chance is too likely
    assert (
        f"{n_samples} sample{'s' * (n_samples > 1)} cannot certify this; about 30" in cutoff.reason
    )


def test_one_call_a_sample_gets_the_exact_binomial_test():
    # All right: the exact test certifies 90 % with 90 % confidence from 22 samples on.
    profile = LevelProfile.of(list_instances(np.full((1000, 1), 0.99), np.ones((1000, 1))))

    def certified(n):
        instances = list_instances(np.full((n, 1), 0.99), np.ones((n, 1)))
        return certified_level(instances, profile, Promise(0.1, 1 - 0.9))[0]

    enough = [n for n in range(1, 60) if certified(n) is not None]
    assert enough == list(range(enough[0], 60))
    assert enough[0] == 22


def test_many_labels_are_limited_in_calls_a_sample():
    rng = np.random.default_rng(9)
    n_labels = 2000

    def many(n):
        score = np.where(rng.random((n, n_labels)) < 0.002, 0.95, 0.001)
        return score, rng.random((n, n_labels)) < score

    profile = LevelProfile.of(list_instances(*many(500)))
    score, truth = many(500)
    cutoff = choose_cutoff(score, truth, precision=0.8, confidence=0.9, profile=profile)
    assert cutoff.reachable
    assert 8 <= cutoff.max_calls < 100
    assert f"at most {cutoff.max_calls} calls per sample" in str(cutoff)


@pytest.mark.parametrize("n_samples", [30, 300])
def test_even_a_misleading_profile_keeps_the_promise(n_samples):
    """Scores over-promise: seldom is a level certified whose true precision is below 0.8."""
    profile = LevelProfile.of(list_instances(*draw(2000, 10)))
    test_score, test_truth = draw(40_000, 11, shift=0.1)
    bad, runs = 0, 150
    for run in range(runs):
        score, truth = draw(n_samples, [12, run], shift=0.1)
        cutoff = choose_cutoff(score, truth, precision=0.8, confidence=0.8, profile=profile)
        if cutoff.reachable:
            bad += test_truth[test_score >= cutoff.level].mean() < 0.8
    assert bad <= runs * 0.2 + 3 * math.sqrt(runs * 0.2 * 0.8)


def test_a_few_hundred_samples_with_many_labels_can_be_certified():
    # 110 labels and up to dozens of calls per sample: strict levels, where samples get few calls,
    # must not be held to the limit that lenient levels need.
    from hierlpr import consistent_scores, simulate

    fit, rest = (simulate.disease(n_samples=n, rng=seed) for n, seed in [(600, 1), (266, 2)])
    scores = [consistent_scores(part.lpr_true, part.hierarchy) for part in (fit, rest)]
    profile = LevelProfile.of(list_instances(scores[0], fit.truth))
    cutoff = choose_cutoff(scores[1], rest.truth, fdr=0.1, confidence=0.9, profile=profile)
    assert cutoff.reachable
    assert cutoff.precision > 0.9
    assert cutoff.recall > 0.3


def rare_disaster(n_samples, rng, *, rate):
    """About three calls per sample, nearly all correct; at `rate` all labels, all false."""
    score = 0.3 * rng.random((n_samples, 100))
    truth = np.zeros(score.shape, dtype=bool)
    rows = np.arange(n_samples)
    for _ in range(4):
        column, sure = rng.integers(0, 100, n_samples), 0.85 + 0.15 * rng.random(n_samples)
        called = rng.random(n_samples) < 0.75
        score[rows[called], column[called]] = sure[called]
        truth[rows[called], column[called]] = rng.random(called.sum()) < sure[called] ** 0.3
    bad = rng.random(n_samples) < rate
    score[bad], truth[bad] = 0.85 + 0.15 * rng.random((bad.sum(), 100)), False
    return score, truth


@pytest.mark.parametrize("rate", [1 / 400, 0.0])
def test_rare_or_single_odd_samples_leave_the_certificate_its_power(rate):
    # Either one sample in 400 is all false, or a single one of the 1,500 samples of the profile.
    recall, precision = [], []
    for run in range(12):
        rng = np.random.default_rng([40, run])
        fit_score, fit_truth = rare_disaster(1500, rng, rate=rate)
        if rate == 0.0:
            fit_score[7], fit_truth[7] = 0.999, False
        profile = LevelProfile.of(list_instances(fit_score, fit_truth))
        cutoff = choose_cutoff(
            *rare_disaster(300, rng, rate=rate), precision=0.9, confidence=0.9, profile=profile
        )
        assert cutoff.reachable
        score, truth = rare_disaster(4000, rng, rate=rate)
        called = decide(score, cutoff, Hierarchy(labels=[f"L{j}" for j in range(100)]))
        recall.append((called & truth).sum() / truth.sum())
        precision.append(truth[called].mean())
    assert np.mean(recall) > 0.75
    assert np.sum(np.array(precision) < 0.9) <= too_many(12, 0.1)


@pytest.mark.parametrize("seed", range(8))
def test_equal_weights_are_tested_like_none(seed):
    rng = np.random.default_rng(seed)
    calls = rng.integers(0, 5, 300)
    hits = rng.binomial(calls, 0.78)
    shuffle = random_order(list_instances(rng.random((300, 1)), rng.random((300, 1)) < 0.5))
    found = [
        is_precise(LevelPair(0.5, 4, 1.3), calls, hits, shuffle, Promise(alpha, 0.1), share)
        for share in (None, np.ones(300))
        for alpha in np.linspace(0.15, 0.35, 9)
    ]
    assert found[:9] == found[9:]
    assert len(set(found)) == 2


def heavy(rng, n):
    """One label; one sample in 60 counts 20 times as much, and its call is wrong."""
    rare = rng.random(n) < 1 / 60
    hit = np.where(rare, False, rng.random(n) < 0.97)
    return np.round(rng.random((n, 1)), 1), hit[:, None], np.where(rare, 20.0, 1.0)


def test_a_rare_heavy_sample_does_not_break_the_promise():
    """The weighted precision is .72, below the target of .8; seldom may it be certified."""
    profile_data = heavy(np.random.default_rng(0), 400)
    profile = LevelProfile.of(list_instances(*profile_data))
    (goal,) = goals_of(precision=0.8, confidence=0.9)
    wrong = 0
    for i in range(150):
        cutoff = cutoff_for(goal, list_instances(*heavy(np.random.default_rng(1 + i), 60)),
                            profile=profile, max_weight=20.0)  # fmt: skip
        wrong += cutoff.reachable
    assert wrong <= 150 * 0.1 + 3 * math.sqrt(150 * 0.09)


# -- clusters -------------------------------------------------------------------------------------


def test_the_gain_of_a_cluster_is_the_mean_of_its_samples():
    score, truth = draw(300, 21)
    profile = LevelProfile.of(list_instances(*draw(2000, 20)))
    promise, pair = Promise(0.3, 0.2), plan_tests(profile, 100, score.shape[1], Promise(0.3, 0.2))
    cluster = np.random.default_rng(0).permutation(np.arange(300) % 100)
    instances = list_instances(score, Truth(truth, cluster=cluster))
    passed = pass_tests(instances, pair, promise, instances.weight)
    order = random_order(instances).order
    for level, limit, square in pair[: len(passed) + 1]:
        counts = np.array(twin.count(score.tolist(), truth.tolist(), level, limit), dtype=float)
        means = np.stack([counts[cluster == c].mean(axis=0) for c in order])
        largest, goal = LARGEST_STAKE / (0.7 * limit), math.log(1 / 0.2)
        evidence = twin.log_wealth(
            means.tolist(), 0.7, largest, square, PROFILE_WEIGHT, goal, BEYOND
        )
        if abs(evidence - goal) > 0.02:
            assert (evidence >= goal) == (LevelPair(level, limit, square) in passed)
    assert passed


def patients(rng, n_patients, size, precision):
    """Draw rows of patients that share their truth: one call per row, at the given precision."""
    cluster = np.repeat(np.arange(n_patients), rng.integers(1, 2 * size, n_patients))
    truth = (rng.random(n_patients) < precision)[cluster]
    return np.full((cluster.size, 1), 0.9), truth[:, None], cluster


@pytest.mark.parametrize("n_patients", [40, 100])
def test_patients_are_not_certified_too_often(n_patients):
    plan, runs = [], 400
    below = {"clusters": 0, "rows": 0}
    score, truth, cluster = patients(np.random.default_rng(0), 500, 5, 0.9)
    plan = LevelProfile.of(list_instances(score, Truth(truth, cluster=cluster)))
    for run in range(runs):
        score, truth, cluster = patients(np.random.default_rng([1, run]), n_patients, 5, 0.799)
        for name, numbers in (("clusters", cluster), ("rows", None)):
            instances = list_instances(score, Truth(truth, cluster=numbers))
            level, _ = certified_level(instances, plan, Promise(0.2, 0.1))
            below[name] += level is not None
    assert below["clusters"] <= too_many(runs, 0.1)
    assert below["rows"] > too_many(runs, 0.1)  # why clusters are needed


def test_the_order_of_clusters_and_rows_does_not_matter():
    profile = LevelProfile.of(list_instances(*draw(2000, 20)))
    score, truth = draw(600, 22)
    cluster = np.arange(600) // 4
    levels = set()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows, names = rng.permutation(600), rng.permutation(150)
        instances = list_instances(score[rows], Truth(truth[rows], cluster=names[cluster[rows]]))
        levels.add(certified_level(instances, profile, Promise(0.3, 0.2)))
    assert len(levels) == 1
    assert levels != {(None, None)}
