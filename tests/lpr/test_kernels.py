"""The compiled loops against slow versions anyone can believe."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import reference_lpr as reference
from hierlpr._kernels.pspline import bin_normal_scores, deal_folds, fit_pspline_path
from hierlpr._kernels.smoothing import (
    area_under_roc,
    compress_curves,
    fit_isotonic,
    group_sorted,
    make_monotone,
)
from hierlpr.lpr.estimators import normal_table


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


@given(tied_labels())
def test_groups_are_the_distinct_scores(case):
    scores, truth, weight = case
    w = np.ones(len(scores)) if weight is None else weight
    order = np.argsort(scores)[None]
    ptr, score, positive, total = group_sorted(scores[None], truth[None], order, w[None])
    expected = reference.groups_of(scores, truth, weight)
    assert ptr.tolist() == [0, len(expected[0])]
    for got, want in zip((score, positive, total), expected, strict=True):
        assert got.tolist() == want.tolist()


@given(tied_labels(max_samples=14))
def test_isotonic_equals_the_max_min_formula(case):
    scores, truth, weight = case
    _, positive, total = reference.groups_of(scores, truth, weight)
    ptr = np.array([0, len(total)])
    expected = reference.isotonic(positive, total)
    assert fit_isotonic(ptr, positive, total, 0.0) == pytest.approx(expected)
    value = positive / total
    make_monotone(ptr, value, total)
    assert value == pytest.approx(expected)


def test_each_run_is_made_monotone_by_itself():
    value = np.array([3.0, 1.0, 2.0, 0.5, 0.5, 0.1])
    make_monotone(np.array([0, 3, 5, 6]), value, np.array([1.0, 1.0, 2.0, 1.0, 1.0, 1.0]))
    assert value.tolist() == [2.0, 2.0, 2.0, 0.5, 0.5, 0.1]


def test_normal_scores_come_from_mid_ranks():
    total = np.array([3.0, 1.0, 6.0, 2.0])
    z, bin_of, bin_z, _, bin_total = bin_normal_scores(
        total * 0, total, normal_table(12), 160, False
    )
    assert z == pytest.approx(reference.normal_scores(total))
    assert bin_of.tolist() == [0, 1, 2, 3]
    assert bin_z.tolist() == z.tolist()
    assert bin_total.tolist() == total.tolist()


def test_bins_keep_every_sample():
    rng = np.random.default_rng(0)
    positive = (rng.random(3000) < 0.1).astype(float)
    total = np.ones(3000)
    z, bin_of, bin_z, bin_positive, bin_total = bin_normal_scores(
        positive, total, normal_table(3000), 50, False
    )
    assert np.all(np.diff(bin_z) > 0)
    assert np.all(np.diff(bin_of) >= 0)
    assert bin_total.sum() == 3000
    assert bin_positive.sum() == positive.sum()
    assert np.bincount(bin_of, weights=z) / np.bincount(bin_of) == pytest.approx(bin_z)


PENALTIES = np.exp2(np.arange(-4.0, 19.0, 2.0))


@pytest.mark.parametrize("seed", range(4))
def test_pspline_path_equals_dense_algebra(seed):
    rng = np.random.default_rng(seed)
    total = rng.integers(1, 60, 40).astype(float)
    z = reference.normal_scores(total)
    positive = rng.binomial(total.astype(int), 1 / (1 + np.exp(2 - 2 * z))).astype(float)
    slope_sd = 3.0 if seed < 2 else 0.5
    fitted = np.empty((PENALTIES.size, z.size))
    evidence = np.empty(PENALTIES.size)
    fit_pspline_path(z, positive, total, PENALTIES, 12, slope_sd, fitted, evidence)
    for i, penalty in enumerate(PENALTIES):
        eta, log_evidence = reference.pspline(z, positive, total, penalty, 12, slope_sd)
        assert fitted[i] == pytest.approx(eta, abs=1e-5)
        assert evidence[i] == pytest.approx(log_evidence, abs=1e-4)


@pytest.mark.parametrize(("n_positive", "n"), [(1, 50), (25, 50), (49, 50), (3, 2000)])
def test_pspline_stays_finite_on_separated_classes(n_positive, n):
    total = np.ones(n)
    positive = (np.arange(n) >= n - n_positive).astype(float)
    z = reference.normal_scores(total)
    fitted = np.empty((PENALTIES.size, n))
    evidence = np.empty(PENALTIES.size)
    fit_pspline_path(z, positive, total, PENALTIES, 24, 3.0, fitted, evidence)
    assert np.isfinite(fitted).all()
    assert np.isfinite(evidence).all()
    assert np.all(fitted[:, -1] > fitted[:, 0])


def test_folds_are_a_partition_and_ignore_order_within_ties():
    positive = np.array([0.0, 2.0, 5.5, 1.0])
    total = np.array([40.0, 30.0, 9.25, 1.0])
    bin_of = np.array([0, 0, 1, 2])
    fold_positive, fold_total = deal_folds(positive, total, bin_of, 3, 5)
    assert fold_positive.sum(axis=0) == pytest.approx([2.0, 5.5, 1.0])
    assert fold_total.sum(axis=0) == pytest.approx([70.0, 9.25, 1.0])
    assert np.all(fold_positive <= fold_total)
    assert fold_total.sum(axis=1).min() > 5  # about 16 each


@given(tied_labels())
def test_area_under_the_roc_curve_equals_scikit_learn(case):
    scores, truth, weight = case
    _, positive, total = reference.groups_of(scores, truth, weight)
    found = area_under_roc(np.array([0, len(total)]), positive, total)[0]
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
