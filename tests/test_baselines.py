import itertools

import numpy as np
import pytest

from hierlpr import Hierarchy, baselines, consistent_scores, metrics, paper, rank, simulate
from hierlpr.exceptions import DataError, HierarchyError

PLAIN = [
    baselines.lpr_alone,
    baselines.raw_scores,
    baselines.max_propagation,
    baselines.top_down,
    baselines.gpav,
]


def tied(rng, n_samples, n_labels):
    return rng.integers(0, 5, (n_samples, n_labels)) / 4.0


def violations(ranking, hierarchy):
    return metrics.order_violations_error(ranking.sample, ranking.label, hierarchy)


@pytest.mark.parametrize("method", PLAIN, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["forest", "dag"])
def test_order_is_complete_falling_and_as_consistent_as_promised(method, kind):
    rng = np.random.default_rng(1)
    draw = simulate.random_forest if kind == "forest" else simulate.random_dag
    h = draw(12, rng=rng)
    scores = tied(rng, 20, 12)
    r = method(scores, h)
    assert sorted(zip(r.sample.tolist(), r.label.tolist(), strict=True)) == list(
        itertools.product(range(20), range(12))
    )
    assert (np.diff(r.score) <= 0).all()
    np.testing.assert_array_equal(r.lpr, scores[r.sample, r.label])
    assert (violations(r, h) == 0) == method.consistent


@pytest.mark.parametrize("method", PLAIN, ids=lambda f: f.__name__)
def test_top_is_a_prefix_and_weights_scale_columns(method):
    rng = np.random.default_rng(2)
    h = simulate.random_forest(8, rng=rng)
    scores = tied(rng, 10, 8)
    whole, first = method(scores, h), method(scores, h, top=17)
    np.testing.assert_array_equal(whole.sample[:17], first.sample)
    np.testing.assert_array_equal(whole.label[:17], first.label)
    weight = rng.integers(1, 4, 8) / 4.0
    np.testing.assert_array_equal(
        method(scores, h, weight=weight).score, method(scores * weight, h).score
    )
    named = dict(zip(h.labels, weight, strict=True))
    np.testing.assert_array_equal(
        method(scores, h, weight=named).label, method(scores, h, weight=weight).label
    )
    with pytest.raises(DataError, match="weight"):
        method(scores, h, weight=[1.0])


def test_propagation_against_definitions():
    rng = np.random.default_rng(3)
    h = simulate.random_dag(15, rng=rng)
    scores = rng.random((6, 15))
    up, down = baselines.propagate_max(scores, h), baselines.propagate_min(scores, h)
    for k, label in enumerate(h.labels):
        below = [k, *(h.index(x) for x in h.descendants(label))]
        above = [k, *(h.index(x) for x in h.ancestors(label))]
        np.testing.assert_array_equal(up[:, k], scores[:, below].max(axis=1))
        np.testing.assert_array_equal(down[:, k], scores[:, above].min(axis=1))


def test_gpav_is_isotonic_regression_on_forests_and_feasible_on_dags():
    rng = np.random.default_rng(4)
    for _ in range(30):
        h = simulate.random_forest(10, n_trees=2, rng=rng)
        scores = tied(rng, 5, 10)
        np.testing.assert_allclose(
            baselines.gpav_scores(scores, h), consistent_scores(scores, h), atol=1e-9
        )
        dag = simulate.random_dag(10, several_parents=0.6, rng=rng)
        fitted = baselines.gpav_scores(scores, dag)
        assert not dag.violations(fitted)
        np.testing.assert_allclose(fitted.sum(axis=1), scores.sum(axis=1))


def test_flat_orders_violate_and_ours_does_not():
    d = simulate.disease(rng=0)
    flat, ours = baselines.lpr_alone(d.lpr_true, d.hierarchy), rank(d.lpr_true, d.hierarchy)
    assert violations(flat, d.hierarchy) > 1000
    assert violations(ours, d.hierarchy) == 0


@pytest.mark.parametrize("n_calls", [1, 7, 20, 60])
def test_cssa_solves_the_relaxed_selection(n_calls):
    from scipy.optimize import linprog

    rng = np.random.default_rng(5)
    h = simulate.random_forest(10, n_trees=2, rng=rng)
    lpr = tied(rng, 6, 10)
    r = baselines.cssa(lpr, h, top=n_calls)
    value = float(r.lpr @ r.score)
    assert r.score.sum() == pytest.approx(min(n_calls, 60))
    assert violations(r, h) == 0
    # The same linear program, by simplex.
    constraints, n = [], 60
    for parent, child in h.edges:
        for m in range(6):
            row = np.zeros(n)
            row[m * 10 + h.index(child)], row[m * 10 + h.index(parent)] = 1.0, -1.0
            constraints.append(row)
    a = np.vstack([*constraints, np.ones(n)])
    b = np.append(np.zeros(len(constraints)), n_calls)
    best = linprog(-lpr.ravel(), A_ub=a, b_ub=b, bounds=(0, 1))
    assert value == pytest.approx(-best.fun, abs=1e-6)


def test_cssa_is_algorithm_6():
    rng = np.random.default_rng(8)
    for _ in range(20):
        h = simulate.random_forest(9, n_trees=2, rng=rng)
        lpr = tied(rng, 1, 9)
        parent = np.full(9, -1)
        parent[np.diff(h.parent_ptr) > 0] = h.parent_idx
        for n_calls in (1, 4, 8):
            expected = paper.cssa(parent.tolist(), lpr[0, h.order].tolist(), n_calls)
            r = baselines.cssa(lpr, h, top=n_calls)
            got = np.zeros(9)
            got[h.position[r.label]] = r.score
            np.testing.assert_allclose(got, expected, atol=1e-12)


def test_cssa_of_each_sample():
    rng = np.random.default_rng(6)
    h = simulate.random_forest(10, n_trees=2, rng=rng)
    r = baselines.cssa(tied(rng, 6, 10), h, top=4, each_sample=True)
    np.testing.assert_allclose(np.bincount(r.sample, weights=r.score), 4.0)
    with pytest.raises(DataError, match="at least 1"):
        baselines.cssa([[0.5] * 10], h, top=0)


def test_first_stage_cutoffs_maximize_f_of_each_label():
    d = simulate.disease(rng=2)
    stage = baselines.FirstStageCalls().fit(d.scores, d.truth, d.hierarchy)
    calls = stage.predict(d.scores)
    for k in range(0, 110, 10):
        best = max(
            metrics.f_score(d.truth[:, k], d.scores[:, k] >= level) for level in d.scores[:, k]
        )
        assert metrics.f_score(d.truth[:, k], calls[:, k]) == pytest.approx(best)
    r = stage.rank(d.scores, d.hierarchy)
    assert set(np.unique(r.score)) == {0.0, 1.0}
    assert not stage.consistent


def test_first_stage_never_calls_a_label_without_positives():
    h = Hierarchy([("A", "B")])
    stage = baselines.FirstStageCalls().fit([[0.9, 0.9], [0.1, 0.2]], [[1, 0], [0, 0]], h)
    assert stage.predict([[5.0, 5.0]]).tolist() == [[True, False]]


def test_bayesian_correction_is_consistent_and_better_than_the_calls():
    train, test = simulate.train_test(3, rng=0)
    h = train.hierarchy
    model = baselines.BayesianCorrection().fit(train.scores, train.truth, h)
    p = model.predict_proba(test.scores)
    assert not h.violations(p)
    calls = model.first_stage_.predict(test.scores)
    assert metrics.au_prc_score(test.truth, p) > metrics.au_prc_score(test.truth, calls) + 0.02
    assert violations(model.rank(test.scores, h, weight=[1.0, 2.0, 3.0]), h) == 0
    dag = Hierarchy([("A", "C"), ("B", "C")])
    with pytest.raises(HierarchyError, match="DAG"):
        baselines.BayesianCorrection().fit(test.scores, np.ones((1000, 3)), dag)


def test_clus_is_consistent_deterministic_and_learns():
    train, test = simulate.train_test(3, n_train=1500, n_test=500, rng=1)
    h = train.hierarchy
    fit = [
        baselines.ClusHMC(n_trees=20, rng=3, n_jobs=jobs).fit(train.scores, train.truth, h)
        for jobs in (1, 2)
    ]
    p, again = (model.predict_proba(test.scores) for model in fit)
    np.testing.assert_array_equal(p, again)
    assert fit[0].stopping_ in (0.60, 0.70, 0.80, 0.90, 0.95, 1.0)
    assert not h.violations(p)
    assert metrics.au_prc_score(test.truth, p) > metrics.au_prc_score(test.truth, test.lpr_true)
    assert violations(fit[0].rank(test.scores, h), h) == 0


def test_clus_stopping_cuts_the_trees_back():
    train, _ = simulate.train_test(2, n_train=800, n_test=10, rng=1)
    h = train.hierarchy
    distinct = []
    for stopping in (0.0, 0.7, None):
        model = baselines.ClusHMC(n_trees=1, stopping=stopping, rng=0)
        p = model.fit(train.scores, train.truth, h).predict_proba(train.scores)
        distinct.append(len(np.unique(p, axis=0)))
    assert distinct[0] == 1
    assert distinct[0] < distinct[1] < distinct[2]


def test_clus_leaf_is_the_mean_label_vector():
    train, _ = simulate.train_test(2, n_train=400, n_test=10, rng=1)
    model = baselines.ClusHMC(n_trees=1, stopping=0.0, weights="depth", rng=0)
    p = model.fit(train.scores, train.truth, train.hierarchy).predict_proba(train.scores[:1])
    rng = np.random.default_rng(0).spawn(1)[0]
    drawn = rng.integers(400, size=400)
    np.testing.assert_allclose(p[0], train.truth[drawn].mean(axis=0))


def test_clus_weights_decay_with_depth():
    h = Hierarchy([("A", "B"), ("B", "C"), ("A", "D"), ("B", "D")])
    model = baselines.ClusHMC(weights="depth")
    by_label = dict(zip(h.labels, model._label_weights(h), strict=True))
    assert by_label["C"] == pytest.approx(0.75**3)
    assert by_label["D"] == pytest.approx(0.75 * (0.75 + 0.75**2) / 2)


def test_clus_takes_missing_features_and_refuses_nonsense():
    rng = np.random.default_rng(0)
    h = Hierarchy([("A", "B")])
    x = rng.normal(size=(60, 3))
    truth = np.stack([x[:, 0] > 0, x[:, 0] > 1], axis=1)
    x[rng.random(x.shape) < 0.1] = np.nan
    model = baselines.ClusHMC(n_trees=5, stopping=None, rng=0).fit(x, truth, h)
    assert np.isfinite(model.predict_proba(x)).all()
    for bad, message in (([[1.0]], "must agree"), ([1.0], "matrix"), ([[np.inf]] * 60, "infinite")):
        with pytest.raises(DataError, match=message):
            baselines.ClusHMC().fit(bad, truth, h)
    with pytest.raises(DataError, match="uniform"):
        baselines.ClusHMC(weights="size").fit(x, truth, h)
