import numpy as np
import pytest

from hierlpr import Hierarchy, baselines, metrics, simulate
from hierlpr.exceptions import DataError, HierarchyError


def test_first_stage_cutoffs_maximize_f_of_each_label():
    d = simulate.disease(rng=2)
    model = baselines.BayesianCorrection().fit(d.scores, d.truth, d.hierarchy)
    calls = model.first_stage_calls(d.scores)
    for k in range(0, 110, 10):
        best = max(
            metrics.f_score(d.truth[:, k], d.scores[:, k] >= level) for level in d.scores[:, k]
        )
        assert metrics.f_score(d.truth[:, k], calls[:, k]) == pytest.approx(best)


def test_first_stage_never_calls_a_label_without_positives():
    h = Hierarchy([("A", "B")])
    model = baselines.BayesianCorrection().fit([[0.9, 0.9], [0.1, 0.2]], [[1, 0], [0, 0]], h)
    assert model.first_stage_calls([[5.0, 5.0]]).tolist() == [[True, False]]


def test_bayesian_correction_is_consistent_and_better_than_the_calls():
    train, test = simulate.train_test(3, rng=0)
    h = train.hierarchy
    model = baselines.BayesianCorrection().fit(train.scores, train.truth, h)
    p = model.predict_proba(test.scores)
    assert not h.violations(p)
    calls = model.first_stage_calls(test.scores)
    assert metrics.au_prc_score(test.truth, p) > metrics.au_prc_score(test.truth, calls) + 0.02
    r = model.rank(test.scores, h, weight=[1.0, 2.0, 3.0])
    assert metrics.order_violations_error(r.sample, r.label, h) == 0
    dag = Hierarchy([("A", "C"), ("B", "C")])
    with pytest.raises(HierarchyError, match="DAG"):
        baselines.BayesianCorrection().fit(test.scores, np.ones((1000, 3)), dag)


def test_clus_is_consistent_deterministic_and_learns():
    train, test = simulate.train_test(3, n_train=1500, n_test=500, rng=1)
    h = train.hierarchy
    fit = [
        baselines.ClusHMC(n_trees=20, random_state=3, n_jobs=jobs).fit(train.scores, train.truth, h)
        for jobs in (1, 2)
    ]
    p, again = (model.predict_proba(test.scores) for model in fit)
    np.testing.assert_array_equal(p, again)
    assert fit[0].stopping_ in (0.60, 0.70, 0.80, 0.90, 0.95, 1.0)
    assert not h.violations(p)
    assert metrics.au_prc_score(test.truth, p) > metrics.au_prc_score(test.truth, test.lpr_true)
    r = fit[0].rank(test.scores, h)
    assert metrics.order_violations_error(r.sample, r.label, h) == 0


def test_clus_stopping_cuts_the_trees_back():
    train, _ = simulate.train_test(2, n_train=800, n_test=10, rng=1)
    h = train.hierarchy
    distinct = []
    for stopping in (0.0, 0.7, None):
        model = baselines.ClusHMC(n_trees=1, stopping=stopping, random_state=0)
        p = model.fit(train.scores, train.truth, h).predict_proba(train.scores)
        distinct.append(len(np.unique(p, axis=0)))
    assert distinct[0] == 1
    assert distinct[0] < distinct[1] < distinct[2]


def test_clus_leaf_is_the_mean_label_vector():
    train, _ = simulate.train_test(2, n_train=400, n_test=10, rng=1)
    model = baselines.ClusHMC(n_trees=1, stopping=0.0, random_state=0)
    p = model.fit(train.scores, train.truth, train.hierarchy).predict_proba(train.scores[:1])
    rng = np.random.default_rng(0).spawn(1)[0]
    drawn = rng.integers(400, size=400)
    np.testing.assert_allclose(p[0], train.truth[drawn].mean(axis=0))


def test_clus_takes_missing_features_and_refuses_nonsense():
    rng = np.random.default_rng(0)
    h = Hierarchy([("A", "B")])
    x = rng.normal(size=(60, 3))
    truth = np.stack([x[:, 0] > 0, x[:, 0] > 1], axis=1)
    x[rng.random(x.shape) < 0.1] = np.nan
    model = baselines.ClusHMC(n_trees=5, stopping=None, random_state=0).fit(x, truth, h)
    assert np.isfinite(model.predict_proba(x)).all()
    for bad, message in (([[1.0]], "must agree"), ([1.0], "matrix"), ([[np.inf]] * 60, "infinite")):
        with pytest.raises(DataError, match=message):
            baselines.ClusHMC().fit(bad, truth, h)
