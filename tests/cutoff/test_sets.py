"""Sure and possible labels: what they are, and that the promise holds, ties included."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import binom

from cases import one_path_case
from hierlpr import (
    Hierarchy,
    HierLPR,
    HierlprError,
    HierlprWarning,
    baselines,
    consistent_scores,
    load_model,
    simulate,
)
from hierlpr.cutoff import set_values as v
from hierlpr.cutoff import sets as s
from hierlpr.cutoff.instances import one_per_cluster
from hierlpr.cutoff.set_values import by_cost, least_chance, likely_paths, path_values
from hierlpr.cutoff.sets import (
    choose_path_rule,
    least_samples,
    order_place,
    path_sets,
    set_level,
    trusted_entries,
)
from hierlpr.joint import end_posterior


def choose_sets(score, truth, h, *, error, floor=None, **options):
    floor = least_chance(error) if floor is None else floor
    options |= {"error": error, "floor": floor}
    return s.choose_sets(lambda: v.many_label_values(score, h, floor), truth, **options)


def call_sets(score, h, rule):
    values = v.many_label_values(score, h, rule.floor)
    return s.call_sets(values, h, rule, as_sparse=sparse.issparse(score))


def random_case(rng, n_samples=40, grid=None):
    """Block scores and truth on a random forest or DAG; with `grid`, scores that tie often."""
    n_labels = int(rng.integers(1, 9))
    make = simulate.random_dag if rng.random() < 0.5 and n_labels > 2 else simulate.random_forest
    h = make(n_labels, rng=rng)
    raw = rng.random((n_samples, n_labels)) ** 2
    if grid is not None:
        raw = np.rint(raw * grid) / grid
    truth = h.close_upward(rng.random((n_samples, n_labels)) < raw * 0.7)
    return h, consistent_scores(raw, h), truth


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("confidence", [None, 0.8])
def test_sets_are_closed_nested_and_the_same_for_csr(seed, confidence):
    rng = np.random.default_rng(seed)
    h, score, truth = random_case(rng, grid=3 if seed % 2 else None)
    rule = choose_sets(score, truth, h, error=0.2, confidence=confidence)
    sets = call_sets(score, h, rule)
    assert len(h.violations(sets.sure)) == 0
    assert len(h.violations(sets.possible)) == 0
    assert not (sets.sure & ~sets.possible).any()
    thin = call_sets(sparse.csr_array(score), h, rule)
    np.testing.assert_array_equal(thin.sure.toarray(), sets.sure)
    np.testing.assert_array_equal(thin.possible.toarray(), sets.possible)
    assert choose_sets(sparse.csr_array(score), sparse.csr_array(truth), h, error=0.2,
                       confidence=confidence) == rule  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("error", [0.04, 0.1, 0.25, 0.5])
def test_marginal_error_is_exact_over_every_sample_left_out(seed, error):
    """Exchangeable samples: each of n + 1 is the new one equally often. No luck is involved."""
    rng = np.random.default_rng(seed)
    h, score, truth = random_case(rng, n_samples=int(rng.integers(2, 26)), grid=2)
    wrong = missed = 0
    for i in range(len(score)):
        rest = np.arange(len(score)) != i
        rule = choose_sets(score[rest], truth[rest], h, error=error)
        sets = call_sets(score[[i]], h, rule)
        wrong += bool((sets.sure & ~truth[[i]]).any())
        missed += bool((truth[[i]] & ~sets.possible).any())
    assert wrong <= error * len(score)
    assert missed <= error * len(score)


def test_conditional_error_keeps_its_confidence_in_a_few_type_population():
    """Ten types of samples, some wrong in their best call: the error rate is known exactly."""
    rng = np.random.default_rng(0)
    h = Hierarchy(labels=["A"])
    value = np.linspace(0.1, 1.0, 10)
    share = np.full(10, 0.1)
    is_true = np.array([0, 0, 0, 1, 0, 1, 0, 1, 1, 1], dtype=bool)
    short = 0
    for _ in range(400):
        drawn = rng.choice(10, size=60, p=share)
        score, truth = value[drawn][:, None], is_true[drawn][:, None]
        rule = choose_sets(score, truth, h, error=0.2, confidence=0.9)
        sure = call_sets(value[:, None], h, rule).sure[:, 0]
        short += share[sure & ~is_true].sum() > 0.2 + 1e-12
    # At most one run in ten: more than 61 of 400 has a chance of 1 in 2,000.
    assert binom.sf(61, 400, 0.1) < 1 / 2000
    assert short <= 61


def test_too_few_samples_promise_nothing_and_say_so():
    h = Hierarchy([("A", "B")])
    rule = choose_sets(np.array([[0.9, 0.5]]), np.array([[True, True]]), h, error=0.1)
    sets = call_sets(np.array([[1.0, 1.0]]), h, rule)
    assert not sets.sure.any()
    assert sets.possible.all()
    assert "No label can be called sure" in str(rule)
    assert "Every label has to be called possible" in str(rule)


@pytest.mark.parametrize("seed", range(20))
def test_sets_of_one_path_are_closed_nested_and_valid(seed):
    rng = np.random.default_rng(seed)
    h, lpr, truth, prior = one_path_case(rng)
    if seed % 4 == 0:  # the user was wrong about the one path
        truth = np.asarray(h.close_upward(rng.random(truth.shape) < 0.3))
    (values,) = v.one_path_values(end_posterior(lpr, prior, h, rng.random(9)), h, 0.5)
    wrong = missed = 0
    for i in range(len(lpr)):
        rest = np.arange(len(lpr)) != i
        learn = s.SetValues(values.sure[rest], values.possible[rest])
        rule = s.choose_sets(lambda part=learn: [part], truth[rest], error=0.25, one_path=True)
        sets = s.call_sets([s.SetValues(values.sure[[i]], values.possible[[i]])], h, rule)
        assert len(h.violations(sets.sure)) == len(h.violations(sets.possible)) == 0
        wrong += bool((sets.sure & ~truth[[i]]).any())
        missed += bool((truth[[i]] & ~sets.possible).any())
    assert max(wrong, missed) <= 0.25 * len(lpr)


def taxonomy_fit(n=900, seed=0):
    """A model of a taxonomy, with samples left: scores of a path that say much the same."""
    rng = np.random.default_rng(seed)
    h = Hierarchy.from_parents({"a": None, "b": None, "aa": "a", "ab": "a", "ba": "b", "bb": "b"})
    leaf = rng.choice(["aa", "ab", "ba", "bb"], n)
    truth = np.array([[x == y or x in h.ancestors(y) for x in h.labels] for y in leaf])
    noise = rng.normal(size=(n, 6))
    noise[:, h.index("a")] = 0.3 * noise[:, h.index("a")] + noise[:, h.index("aa")]
    noise[:, h.index("b")] = 0.3 * noise[:, h.index("b")] + noise[:, h.index("ba")]
    scores = 1.5 * truth + noise
    return HierLPR(h).fit(scores[: n // 2], truth[: n // 2]), scores[n // 2 :], truth[n // 2 :]


def test_a_model_of_a_taxonomy_keeps_its_weights(tmp_path):
    model, scores, truth = taxonomy_fit()
    with pytest.raises(HierlprError, match="calibrate_sets"):
        model.predict_sets(scores)
    assert model.path_weight_.shape == (2,)
    assert (model.path_weight_ < 0.95).all()  # parents repeat what a child says
    model.calibrate_sets(scores[:300], truth[:300], error=0.2, one_path=True)
    model.save(tmp_path / "m.hlpr")
    again = load_model(tmp_path / "m.hlpr")
    np.testing.assert_array_equal(again.path_weight_, model.path_weight_)
    assert again.sets_ == model.sets_
    assert again.assign(scores[300:]).equals(model.assign(scores[300:]))
    with pytest.warns(HierlprWarning, match="sure and possible labels are forgotten"):
        model.remove_labels(["bb"])
    assert model.path_weight_ is None


TREE = Hierarchy([("a", "b"), ("a", "c"), ("b", "d"), ("b", "e"), ("f", "g")])


def walk(row):
    """Follow the largest listed score from the roots down; ties go to the first label."""
    path, below = [], TREE.roots
    while True:
        listed = [x for x in below if x in row]
        if not listed:
            return path
        path.append(max(listed, key=lambda x: (row[x], -TREE.labels.index(x))))
        below = TREE.children(path[-1])


rows = st.lists(
    st.dictionaries(st.sampled_from(TREE.labels), st.sampled_from([0.25, 0.5, 0.75])), max_size=5
)


@given(rows)
def test_paths_are_those_of_a_walk(given_rows):
    entries = [(i, TREE.labels.index(k), v) for i, x in enumerate(given_rows) for k, v in x.items()]
    i, k, v = (np.array(x) for x in zip(*entries, strict=True)) if entries else ([], [], [])
    matrix = sparse.csr_array((v, (i, k)), shape=(len(given_rows), TREE.n_labels), dtype=float)
    paths = likely_paths(matrix, TREE)
    found = [[] for _ in given_rows]
    for sample, label in zip(paths.sample, paths.label, strict=True):
        found[sample].append(TREE.labels[label])
    assert found == [walk(x) for x in given_rows]
    last = paths.last(paths.chance >= 0.5, len(given_rows))
    for sample, entry in enumerate(last):
        likely = [x for x in found[sample] if given_rows[sample][x] >= 0.5]
        assert (TREE.labels[paths.label[entry]] if entry >= 0 else None) == (likely or [None])[-1]


def test_values_are_those_of_complete_scores():
    rng = np.random.default_rng(0)
    chain = Hierarchy([("a", "b"), ("b", "c"), ("c", "d")])
    chance = -np.sort(-rng.random((200, 4)), axis=1)
    paths = likely_paths(chance, chain)
    expected = by_cost(chance, np.tile(np.arange(4), (200, 1)), 0.6)
    found = path_values(paths, 200, 0.6).reshape(200, 4)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert (np.diff(found, axis=1) <= 0).all()


def draw(n, rng):
    """Draw chances of a path of four labels, and how many of them hold."""
    chain = Hierarchy([("a", "b"), ("b", "c"), ("c", "d")])
    keep = rng.choice([0.6, 0.8, 0.95, 1.0], (n, 4))
    chance = np.cumprod(keep, axis=1)
    truth = np.cumprod(rng.random((n, 4)) < keep, axis=1).astype(bool)
    return chain, chance, truth


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_few_samples_get_a_wrong_name(confidence):
    rng = np.random.default_rng(1)
    shares = []
    for _ in range(300):
        chain, chance, truth = draw(160, rng)
        first = likely_paths(chance[:60], chain)
        rule = choose_path_rule(
            first, sparse.csr_array(truth[:60]), error=0.2, confidence=confidence, floor=0.5
        )
        paths = likely_paths(chance[60:], chain)
        entry = trusted_entries(paths, 100, rule)
        label = np.where(entry >= 0, paths.label[entry], 0)
        shares.append(np.mean((entry >= 0) & ~truth[60:][np.arange(100), label]))
    if confidence is None:
        error = np.std(shares) / np.sqrt(len(shares))
        assert 0.1 < np.mean(shares) <= 0.2 + 3 * error
    else:
        above = np.mean(np.array(shares) > 0.2 + 0.08)  # 100 new samples are noisy themselves
        assert above <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 300)


@pytest.mark.parametrize("seed", range(6))
def test_sets_of_listed_paths_hold_as_often_as_promised(seed):
    """Each of n + 1 exchangeable samples is the new one equally often; truth may end anywhere."""
    rng = np.random.default_rng([8, seed])
    h = simulate.random_tree(12, rng=seed)
    n = 30
    ends = rng.integers(0, 12, n)
    truth = np.zeros((n, 12), dtype=bool)
    truth[np.arange(n), ends] = True
    truth = np.asarray(h.close_upward(truth))
    guess = np.where(rng.random(n) < 0.7, ends, rng.integers(0, 12, n))
    listed = np.zeros((n, 12))
    listed[np.arange(n), guess] = np.ceil(rng.random(n) * 4) / 4  # many ties
    score = sparse.csr_array(np.asarray(baselines.propagate_max(listed, h)))
    wrong = missed = 0
    for i in range(n):
        rest = np.arange(n) != i
        rule = choose_path_rule(
            likely_paths(score[rest], h), truth[rest], error=0.2, confidence=None, floor=0.5
        )
        sets = path_sets(likely_paths(score[[i]], h), 1, h, rule)
        sure, possible = sets.sure.toarray(), sets.possible.toarray()
        assert not h.violations(sure)
        assert not h.violations(possible)
        assert not (sure & ~possible).any()
        wrong += bool((sure & ~truth[i]).any())
        missed += bool((truth[i] & ~possible).any())
        deepest = h.labels[int(np.where(sure[0], h.levels, 0).argmax())]
        whole = (
            {deepest, *h.ancestors(deepest), *h.descendants(deepest)} if sure.any() else h.labels
        )
        assert {h.labels[j] for j in np.flatnonzero(possible[0])} == set(whole)
    assert wrong <= 0.2 * n
    assert missed <= 0.2 * n


# -- clusters -------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 8), min_size=2, max_size=12),
    st.integers(0, 5),
    st.sampled_from([0.1, 0.3, 0.5]),
)
def test_the_level_of_clusters_leaves_little_weight_above_it(values, seed, error):
    worst = np.array(values) / 8
    raw = np.random.default_rng(seed).integers(0, 3, worst.size)
    cluster = np.unique(raw, return_inverse=True)[1]
    n_clusters, level = cluster.max() + 1, set_level(worst, error, None, cluster)

    def share_above(c):  # of K clusters and a new one that is worse than all
        return (sum(np.mean(worst[cluster == k] > c) for k in range(n_clusters)) + 1) / (
            n_clusters + 1
        )

    fits = [c for c in sorted(set(worst)) if share_above(c) <= error + 1e-9]
    assert level == (fits[0] if fits else None)


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_sets_of_patients_keep_their_promise(confidence):
    errors = []
    for run in range(300):
        rng = np.random.default_rng([5, run])
        size = rng.integers(1, 12, 90)
        cluster = np.repeat(np.arange(90), size)
        worst = 0.9 * rng.normal(size=90)[cluster] + 0.4 * rng.normal(size=cluster.size)
        if confidence is not None:
            rows = one_per_cluster(worst.view(np.uint64), cluster)
            assert np.array_equal(cluster[rows], np.arange(90))
            worst, numbers = worst[rows], None
        else:
            numbers = cluster
        level = set_level(worst, 0.1, confidence, numbers)
        errors.append(1 - NormalDist(0, math.hypot(0.9, 0.4)).cdf(level))
    if confidence is None:
        assert np.mean(errors) <= 0.1 + 3 * np.std(errors) / math.sqrt(300)
    else:
        assert np.mean(np.array(errors) > 0.1) <= 0.1 + 3 * math.sqrt(0.09 / 300)


def test_wilks_number_of_samples():
    """59 samples bound a 95 % quantile with 95 % confidence, and 58 do not."""
    assert order_place(59, 0.05, 0.95) == 59
    assert order_place(58, 0.05, 0.95) is None
    for error, confidence in [(0.1, None), (0.3, None), (0.05, 0.95), (0.1, 0.5)]:
        least = least_samples(error, confidence)
        assert order_place(least, error, confidence) is not None
        assert order_place(least - 1, error, confidence) is None
