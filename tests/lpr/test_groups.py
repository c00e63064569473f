"""Groups of scores, monotone fits and compressed curves against slow versions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import reference_lpr as reference
from hierlpr._kernels.curves import make_monotone
from hierlpr.lpr.curves import compress_curves
from hierlpr.lpr.diagnostics import area_under_roc
from hierlpr.lpr.estimators import Isotonic
from hierlpr.lpr.training import ScoreGroups, group_sorted


@st.composite
def tied_labels(draw, max_samples=30):
    n = draw(st.integers(1, max_samples))
    scores = np.array(draw(st.lists(st.integers(-3, 4), min_size=n, max_size=n)), dtype=float)
    truth = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    weight = draw(st.sampled_from([None, "halves"]))
    if weight is not None:
        weight = np.array(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))) / 2.0
        if weight.sum() == 0:
            weight = None
    return scores, truth, weight


def as_groups(positive, total):
    """Groups of one label; nothing depends on their scores."""
    return ScoreGroups(np.array([0, len(total)]), np.arange(len(total)), positive, total, 1.0)


@given(tied_labels())
def test_groups_are_the_distinct_scores(case):
    scores, truth, weight = case
    w = np.ones(len(scores)) if weight is None else weight
    groups = group_sorted(scores[None], truth[None], w[None], 1.0)
    expected = reference.groups_of(scores, truth, weight)
    assert groups.ptr.tolist() == [0, len(expected[0])]
    for got, want in zip((groups.score, groups.positive, groups.total), expected, strict=True):
        assert got.tolist() == want.tolist()


@given(tied_labels(max_samples=14))
def test_isotonic_equals_the_max_min_formula(case):
    scores, truth, weight = case
    _, positive, total = reference.groups_of(scores, truth, weight)
    ptr = np.array([0, len(total)])
    expected = reference.isotonic(positive, total)
    found = Isotonic(shrinkage=0.0).fit_groups(as_groups(positive, total)).lpr
    assert found == pytest.approx(expected)
    value = positive / total
    make_monotone(ptr, value, total)
    assert value == pytest.approx(expected)


@given(tied_labels())
def test_area_under_the_roc_curve_equals_scikit_learn(case):
    scores, truth, weight = case
    _, positive, total = reference.groups_of(scores, truth, weight)
    found = area_under_roc(as_groups(positive, total))[0]
    w = np.ones(len(scores)) if weight is None else weight
    used = w > 0
    if 0 < positive.sum() < total.sum():
        expected = roc_auc_score(truth[used], scores[used], sample_weight=w[used])
        assert found == pytest.approx(expected)
    else:
        assert np.isnan(found)


@settings(max_examples=50)
@given(st.integers(0, 10_000), st.sampled_from([5, 200, 2000]))
def test_compression_is_close_monotone_and_keeps_the_mean(seed, n):
    rng = np.random.default_rng(seed)
    lpr = np.sort(rng.beta(0.3, 1.0, n).round(rng.integers(2, 9))).clip(1e-9, 1 - 1e-9)
    score = np.sort(rng.normal(size=n))
    total = rng.integers(1, 4, n).astype(float)
    ptr, knot_score, knot_lpr = compress_curves(
        np.array([0, n]), score, lpr, total, np.array([n <= 512])
    )
    at_knots = reference.interpolate(score, knot_score, knot_lpr)
    assert ptr[-1] == knot_score.size
    assert np.all(np.diff(knot_score) > 0)
    assert np.all(np.diff(knot_lpr) >= 0)
    if n <= 512:
        assert at_knots == pytest.approx(lpr, abs=1e-15)
    else:
        assert np.abs(at_knots - lpr).max() <= 1 / 256 + 1e-12
        assert np.average(at_knots, weights=total) == pytest.approx(
            np.average(lpr, weights=total), rel=1e-9
        )
