"""P-splines and their bins and folds against dense algebra."""

import numpy as np
import pytest

import reference_lpr as reference
from hierlpr._kernels.pspline import bin_normal_scores, deal_folds, fit_pspline_path
from hierlpr.lpr.estimators import normal_table


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
