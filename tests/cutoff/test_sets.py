"""Sure and possible labels: what they are, and that the promise holds, ties included."""

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import binom

from hierlpr import (
    Hierarchy,
    HierLPR,
    HierlprError,
    HierlprWarning,
    consistent_scores,
    load_model,
    simulate,
)
from hierlpr.cutoff import set_values as v
from hierlpr.cutoff import sets as s
from hierlpr.cutoff.set_values import least_chance
from hierlpr.cutoff.sets import SetRule
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


@pytest.mark.parametrize("one_path", [False, True])
def test_samples_that_tie_stay_tied_with_logarithms_of_another_machine(one_path, monkeypatch):
    """A last digit above the level of five tied values would call what the calibration refused."""
    rng = np.random.default_rng(12)
    h = simulate.random_forest(7, rng=3)
    score = consistent_scores(np.rint(rng.random((300, 7)) * 4) / 4, h)
    truth = h.close_upward(rng.random(score.shape) < 0.5 * score)
    ends = rng.integers(1, 5, (300, 7)) / 3.0
    ends /= ends.sum(axis=1, keepdims=True)

    def values():
        return v.one_path_values(ends, h, 0.5) if one_path else v.many_label_values(score, h, 0.5)

    rule = s.choose_sets(values, truth, error=0.2, one_path=one_path, floor=0.5)
    here = s.call_sets(values(), h, rule)
    log1p, cumsum = np.log1p, np.cumsum
    monkeypatch.setattr(np, "log1p", lambda x: log1p(x) * (1.0 + 2.0**-51))
    monkeypatch.setattr(np, "cumsum", lambda x, **how: cumsum(x, **how) * (1.0 + 2.0**-51))
    there = s.call_sets(values(), h, rule)
    assert here.possible.any()
    assert not here.possible.all()
    np.testing.assert_array_equal(here.sure, there.sure)
    np.testing.assert_array_equal(here.possible, there.possible)


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


def test_not_needlessly_cautious():
    fit = simulate.setting("3", n_samples=4000, rng=3)
    score = consistent_scores(fit.lpr_true, fit.hierarchy)
    half = np.arange(4000) < 2000
    rule = choose_sets(score[half], fit.truth[half], fit.hierarchy, error=0.1)
    sets = call_sets(score[~half], fit.hierarchy, rule)
    wrong = (sets.sure & ~fit.truth[~half]).any(axis=1).mean()
    missed = (fit.truth[~half] & ~sets.possible).any(axis=1).mean()
    assert abs(wrong - 0.1) < 0.03
    # Where fewer samples than that have any label, calling none possible errs less often.
    assert abs(missed - min(0.1, fit.truth[~half].any(axis=1).mean())) < 0.03
    assert abs(rule.sure_error - 0.1) < 0.001


def test_too_few_samples_promise_nothing_and_say_so():
    h = Hierarchy([("A", "B")])
    rule = choose_sets(np.array([[0.9, 0.5]]), np.array([[True, True]]), h, error=0.1)
    sets = call_sets(np.array([[1.0, 1.0]]), h, rule)
    assert not sets.sure.any()
    assert sets.possible.all()
    assert "No label can be called sure" in str(rule)
    assert "Every label has to be called possible" in str(rule)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"error": 0.0}, "error"),
        ({"error": 1.5}, "error"),
        ({"error": float("nan")}, "error"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_bad_levels_are_refused(change, what):
    h = Hierarchy(labels=["A"])
    options = {"error": 0.1, **change}
    with pytest.raises(HierlprError, match=what):
        choose_sets(np.array([[0.5]]), np.array([[True]]), h, **options)


def test_a_rule_from_a_hostile_file_is_refused():
    with pytest.raises(HierlprError, match="sure_level"):
        SetRule.from_dict(
            {**SetRule(0.1, None, False, 5, 1, 1, 0, 0, 0, 0).to_dict(), "sure_level": "x"}
        )


def test_a_model_learns_keeps_and_uses_the_rule(tmp_path):
    fit, rest = simulate.train_test("2", n_train=800, n_test=900, rng=1)
    model = HierLPR(fit.hierarchy).fit(fit.scores, fit.truth)
    with pytest.raises(HierlprError, match="calibrate_sets"):
        model.predict_sets(rest.scores)
    model.calibrate_sets(rest.scores[:400], rest.truth[:400], error=0.2)
    sets = model.predict_sets(rest.scores[400:])
    wrong = (sets.sure & ~rest.truth[400:]).any(axis=1).mean()
    assert wrong < 0.3
    assert sets.sure.any()
    model.save(tmp_path / "m.hlpr")
    again = load_model(tmp_path / "m.hlpr")
    assert again.sets_ == model.sets_
    assert again.deepest(rest.scores[400:]) == model.deepest(rest.scores[400:])
    with pytest.warns(UserWarning, match="fitted on"):
        model.calibrate_sets(fit.scores, fit.truth)
    with pytest.warns(HierlprWarning, match="sure and possible labels are forgotten"):
        model.remove_labels([fit.hierarchy.labels[-1]])
    assert model.sets_ is None


def one_path_case(rng, n_samples=60):
    h = simulate.random_forest(int(rng.integers(1, 9)), rng=rng)
    ends = rng.integers(-1, h.n_labels, size=n_samples)
    truth = np.zeros((n_samples, h.n_labels), dtype=bool)
    truth[np.flatnonzero(ends >= 0), ends[ends >= 0]] = True
    truth = np.asarray(h.close_upward(truth))
    lpr = np.rint(np.clip(truth * 0.5 + rng.random(truth.shape) * 0.5, 0, 1) * 8) / 8
    return h, lpr, truth, truth.mean(axis=0)


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
    assert model.path_weight_.shape == (2,)
    assert (model.path_weight_ < 0.95).all()  # parents repeat what a child says
    model.calibrate_sets(scores[:300], truth[:300], error=0.2, one_path=True)
    model.save(tmp_path / "m.hlpr")
    again = load_model(tmp_path / "m.hlpr")
    np.testing.assert_array_equal(again.path_weight_, model.path_weight_)
    assert again.sets_ == model.sets_
    assert again.deepest(scores[300:]) == model.deepest(scores[300:])
    with pytest.warns(HierlprWarning, match="sure and possible labels are forgotten"):
        model.remove_labels(["bb"])
    assert model.path_weight_ is None


@pytest.mark.parametrize("seed", range(20))
def test_branches_are_the_highest_labels_with_everything_below_possible(seed):
    rng = np.random.default_rng(seed)
    h, score, truth = random_case(rng, n_samples=12, grid=3)
    sets = call_sets(score, h, choose_sets(score, truth, h, error=0.3))
    for row, (branches, open_labels) in zip(sets.possible, sets.branches(h), strict=True):
        possible = {h.labels[k] for k in np.flatnonzero(row)}
        whole = {x for x in possible if possible.issuperset(h.descendants(x))}
        top = {x for x in whole if not whole.intersection(h.parents(x))}
        assert set(branches) == top
        assert set(open_labels) == possible - whole
