"""Curves pulled to scores that are probabilities already."""

import numpy as np
import pytest
from scipy import sparse

from hierlpr import Hierarchy, HierLPR, load_model
from hierlpr.exceptions import DataError
from hierlpr.lpr import fit_lpr
from hierlpr.lpr.estimators import Auto, Probability


def draw(n_samples, rng, prevalences=(0.01, 0.05, 0.3, 0.6)):
    rng = np.random.default_rng(rng)
    z = rng.normal(size=(n_samples, len(prevalences)))
    p = 1 / (1 + np.exp(-(1.5 * z + np.log(prevalences) - np.log1p(-np.array(prevalences)))))
    return np.round(p, 2), rng.random(p.shape) < p  # many ties


@pytest.mark.parametrize("trust", [0.0, 5.0, 30.0, 1e9])
def test_the_mean_of_curve_and_score(trust):
    p, truth = draw(300, 0)
    truth[:, 0] = False  # no positive at all
    curve = fit_lpr(p, truth, method="auto", kappa=0.0).predict(p)
    found = fit_lpr(p, truth, method="probability", trust=trust).predict(p)
    for k in range(4):
        support = min(truth[:, k].sum(), (~truth[:, k]).sum())
        own = support / (support + trust) if support + trust else 0.0
        np.testing.assert_allclose(found[:, k], own * curve[:, k] + (1 - own) * p[:, k], atol=2e-3)


def test_rare_labels_are_nearer_to_the_truth_than_by_curves_alone():
    # Scores that are the true probabilities: how far are the LPRs from them?
    errors = {"auto": [], "probability": []}
    for seed in range(10):
        p, truth = draw(200, seed, (0.01,) * 10 + (0.05,) * 10)
        for method, error in errors.items():
            lpr = fit_lpr(p, truth, method=method).predict(p)
            error.append(np.sqrt(np.mean((lpr - p) ** 2)))
    # Shared curves of the default come as close, without knowing that scores are probabilities.
    assert np.mean(errors["probability"]) < 1.2 * np.mean(errors["auto"])
    assert np.mean(errors["auto"]) < 0.015


def test_scores_that_are_wrong_are_mended_with_enough_positives():
    p, truth = draw(20_000, 1, (0.3,))
    wrong = p**3
    lpr = fit_lpr(wrong, truth, method="probability").predict(wrong)
    assert np.abs(lpr - p).mean() < 0.02
    assert np.abs(wrong - p).mean() > 0.1


def test_scores_outside_the_unit_interval_are_refused():
    _, truth = draw(50, 0)
    with pytest.raises(DataError, match=r"needs scores from 0 to 1, got -2"):
        fit_lpr(np.full((50, 4), -2.0), truth, method="probability")
    with pytest.raises(DataError, match=r"got 1.5"):
        fit_lpr(np.full((50, 4), 1.5), truth, method="probability")
    with pytest.raises(DataError, match="trust"):
        Probability(trust=-1.0)


def test_listed_scores_keep_the_curve_of_those_not_listed():
    p, truth = draw(200, 3)
    kept = np.where(p > 0.2, p, 0.0)
    model = fit_lpr(sparse.csr_array(kept), truth, method="probability")
    lpr = model.predict(sparse.csr_array(kept))
    assert ((lpr.data > 0) & (lpr.data < 1)).all()


def test_inside_the_model_with_joint_threads_and_files(tmp_path):
    h = Hierarchy([("A", "B"), ("A", "C")], labels=["A", "B", "C", "D"])
    p, truth = draw(300, 4)
    truth = h.close_upward(truth)
    model = HierLPR(h, lpr="probability").fit(p, truth)
    one = HierLPR(h, lpr=Probability(curve=Auto()), n_threads=1).fit(p, truth)
    np.testing.assert_array_equal(model.predict_proba(p), one.predict_proba(p))
    model.save(tmp_path / "m.hlpr")
    again = load_model(tmp_path / "m.hlpr")
    np.testing.assert_array_equal(model.predict_proba(p), again.predict_proba(p))
    assert "and score" in model.lpr_.diagnostics()["estimator"][0]
