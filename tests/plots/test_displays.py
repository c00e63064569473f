"""Displays show the numbers of the model and the metrics, and draw any names."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from hierlpr import Hierarchy, HierLPR, plots, simulate
from hierlpr.metrics import au_prc_score

plt = pytest.importorskip("matplotlib.pyplot")
CURVES = [plots.PrecisionDisplay, plots.RecallDisplay, plots.HitDisplay, plots.CalibrationDisplay]


@pytest.fixture(scope="module")
def case():
    data = simulate.disease(n_samples=500, rng=1)
    model = HierLPR(data.hierarchy, joint=False).fit(data.scores[:250], data.truth[:250])
    model.calibrate(data.scores[250:400], data.truth[250:400], fdr=0.1)
    return model, data.scores[400:], data.truth[400:]


@pytest.fixture(autouse=True)
def closed():
    before = plt.get_backend()
    plt.switch_backend("agg")
    yield
    plt.close("all")
    plt.switch_backend(before)


def drawn(display, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as letters that no font has, or layouts that fail
        display.figure_.savefig(tmp_path / "picture.png", dpi=40)
    return display.ax_


@pytest.mark.parametrize("kind", CURVES)
def test_displays_of_a_model(case, kind, tmp_path):
    model, scores, truth = case
    display = kind.from_model(model, scores, truth)
    assert display.plot() is display
    axes = drawn(display, tmp_path)
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    given = plt.figure().add_subplot()
    assert display.plot(ax=given).ax_ is given
    assert display.figure_ is given.figure


def test_the_numbers_are_those_of_the_model(case):
    model, scores, truth = case
    calls, proba = model.predict(scores), model.predict_proba(scores)
    shown = plots.PrecisionDisplay.from_model(model, scores, truth).summary
    n_calls, n_true = int(calls.sum()), int((calls & truth).sum())
    counts = shown.counts
    assert (counts.n_calls, counts.n_hits, counts.n_positives) == (n_calls, n_true, truth.sum())
    at = np.searchsorted(shown.curve.n_calls, n_calls)
    assert shown.curve.n_calls[at] == n_calls
    assert shown.curve.precision[at - 1] == pytest.approx(n_true / n_calls)
    assert shown.curve.mean_score[at - 1] == pytest.approx(proba[calls].mean())
    compared = plots.RecallDisplay.from_model(model, scores, truth)
    assert compared.summary.methods[0].au_prc == pytest.approx(au_prc_score(truth, proba))
    assert [m.name for m in compared.summary.methods][1:] == [
        "LPR alone",
        "Max-propagation",
        "Raw scores",
    ]
    ((x,), (y,)) = compared.plot().ax_.lines[-1].get_data()
    assert (x, y) == (n_true / truth.sum(), n_true / n_calls)


def test_hostile_names_and_dags_are_drawn_as_text(tmp_path):
    evil = ["$x^{", "<b>&", "a\nb\x1b[2J", "_\\frac{1}", "x" * 200]
    h = Hierarchy([*pairwise(evil), (evil[0], evil[3])], names={evil[4]: "$\\bad$"})
    label = np.repeat([0, 2, 4, -1], 20)
    drawn(plots.NamesDisplay(h, ["$r_"] * 5, label).plot(), tmp_path)


@pytest.mark.parametrize("kind", CURVES)
def test_listed_scores_nothing_true_and_nothing_called(case, kind, tmp_path):
    _, scores, truth = case
    model = case[0]
    listed = HierLPR(model.hierarchy_, joint=False).fit(
        sparse.csr_array(np.maximum(scores, 0)), truth
    )
    drawn(kind.from_model(listed, sparse.csr_array(np.maximum(scores, 0)), truth).plot(), tmp_path)
    drawn(kind.from_model(model, scores, np.zeros_like(truth)).plot(), tmp_path)
    never = HierLPR(model.hierarchy_, joint=False).fit(scores, truth).set_cutoff(1.0)
    drawn(kind.from_model(never, scores, truth).plot(), tmp_path)
