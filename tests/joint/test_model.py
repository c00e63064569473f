"""HierLPR with the joint posterior: one pipeline, files, changed labels, missing scores."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from hierlpr import HierLPR, metrics, simulate
from hierlpr.data.truth import Truth
from hierlpr.exceptions import DataError
from hierlpr.joint import Tempering
from hierlpr.lpr import fit_known, make_estimator


@pytest.fixture(scope="module")
def parts():
    generator = np.random.default_rng(8)
    model = simulate.setting_model("tree25", rng=generator)
    return [model.draw(n, generator) for n in (1500, 1500, 1000)]


@pytest.fixture(scope="module")
def models(parts):
    fit = parts[0]
    return {
        joint: HierLPR(fit.hierarchy, joint=joint).fit(fit.scores, fit.truth)
        for joint in (False, True, "auto")
    }


def test_joint_ranks_better_and_keeps_the_hierarchy(parts, models):
    test = parts[2]
    area = {j: m.score(test.scores, test.truth) for j, m in models.items()}
    assert area[True] > area[False] + 0.005
    assert area["auto"] > area[False] + 0.005
    for model in models.values():
        assert not test.hierarchy.violations(model.predict_proba(test.scores))
        assert not test.hierarchy.violations(model.predict(test.scores))


def test_the_exact_posterior_is_its_own_consistent_score(parts, models):
    scores = parts[2].scores
    posterior = models[True].transform(scores)
    np.testing.assert_allclose(models[True].predict_proba(scores), posterior, atol=1e-9)


@pytest.mark.parametrize("joint", [True, "auto"])
def test_cutoff_and_guarantee(parts, models, joint):
    _, held, test = parts
    model = clone(models[joint]).fit(parts[0].scores, parts[0].truth)
    model.calibrate(held.scores, held.truth, fdr=0.1, confidence=0.9)
    assert model.cutoff_.reachable
    calls = model.predict(test.scores)
    assert metrics.precision_score(test.truth, calls) > 0.88


def test_labels_come_and_go(parts, models):
    fit, _, test = parts
    h = fit.hierarchy
    model = load_copy(models["auto"])
    learned = Tempering.of(np.tile([0.8, 0.3, 0.1], (25, 1)), "label")
    model.joint_ = replace(model.joint_, tempering=learned)
    gone = ["B", "Y"]
    model.remove_labels(gone)
    kept = [h.index(label) for label in model.hierarchy_.labels]
    assert model.joint_.hierarchy == model.hierarchy_
    assert not model.hierarchy_.violations(model.predict_proba(test.scores[:, kept]))
    # Children of B now hang under A, with P(child | A) = P(child) / P(A).
    prior, at = model.joint_.prior, model.hierarchy_.index
    expected = prior.prevalence[at("F")] / prior.prevalence[at("A")]
    assert prior.conditional[at("F")] == pytest.approx(expected)

    model.add_labels([("A", "Z")], fit.scores[:, [1]], fit.truth[:, [1]])
    at = model.hierarchy_.index
    assert model.joint_.tempering.others[at("Z")] == 0.0
    assert model.joint_.tempering.own[at("Z")] == 1.0
    wide = np.column_stack([test.scores[:, kept], test.scores[:, 1]])
    assert not model.hierarchy_.violations(model.predict_proba(wide))


def load_copy(model):
    twin = clone(model)
    twin.__dict__.update(model.__dict__)
    return twin


def test_missing_scores_are_refused_or_used(parts):
    fit, _, test = parts
    holes = np.where(np.random.default_rng(0).random(test.scores.shape) < 0.3, np.nan, test.scores)
    with pytest.raises(DataError, match="not finite"):
        HierLPR(fit.hierarchy).fit(fit.scores, fit.truth).transform(holes)
    area = {}
    for joint in (False, True, "auto"):
        model = HierLPR(fit.hierarchy, joint=joint, missing_scores="allow").fit(
            fit.scores, fit.truth
        )
        assert not fit.hierarchy.violations(model.predict_proba(holes))
        area[joint] = model.score(holes, test.truth)
        assert len(model.rank(holes)) == holes.size
        with pytest.raises(DataError, match="not finite"):
            model.transform(np.where(np.isnan(holes), np.inf, holes))
    assert area[True] > area[False] + 0.02
    assert area["auto"] > area[False] + 0.01


def test_missing_scores_in_training(parts):
    fit, _, test = parts
    rng = np.random.default_rng(1)
    holes = np.where(rng.random(fit.scores.shape) < 0.2, np.nan, fit.scores)
    holes[:, 5:] = fit.scores[:, 5:]
    own = make_estimator("auto", kappa=0.0)  # no label's curve depends on another label
    model = HierLPR(fit.hierarchy, lpr=own, missing_scores="allow").fit(holes, fit.truth)
    whole = HierLPR(fit.hierarchy, lpr=own, joint=False).fit(fit.scores, fit.truth)
    assert np.array_equal(
        model.lpr_.predict(test.scores)[:, 5:], whole.lpr_.predict(test.scores)[:, 5:]
    )
    assert model.lpr_.report.positives[0] < whole.lpr_.report.positives[0]
    assert model.score(test.scores, test.truth) > whole.score(test.scores, test.truth)
    holes[:, 3] = np.nan
    with pytest.raises(DataError, match="no score at all: 'D'"):
        fit_known(holes, Truth.of(fit.truth), fit.hierarchy, method="auto")


def test_sparse_scores(parts):
    fit, _, test = parts
    low = np.where(fit.scores > 0.5, fit.scores, 0.0)
    new = np.where(test.scores > 0.5, test.scores, 0.0)
    model = HierLPR(fit.hierarchy, joint=True).fit(sparse.csr_array(low), fit.truth)
    dense = HierLPR(fit.hierarchy, joint=True).fit(low, fit.truth)
    closed = fit.hierarchy.close_upward(new > 0)
    got = model.transform(sparse.csr_array(new))
    assert got.nnz == closed.sum()
    # A label that is not listed speaks as it did among the samples fitted on, nearly like the
    # lowest of complete scores.
    gap = np.abs(got.toarray() - dense.transform(new))[closed]
    assert gap.mean() < 0.01
    # Posteriors are not sparse, so "auto" leaves sparse scores alone.
    auto = HierLPR(fit.hierarchy, joint="auto").fit(sparse.csr_array(low), fit.truth)
    plain = HierLPR(fit.hierarchy, joint=False).fit(sparse.csr_array(low), fit.truth)
    got = auto.transform(sparse.csr_array(new))
    assert np.array_equal(got.toarray(), plain.transform(sparse.csr_array(new)).toarray())
