"""P-splines of many labels and their bins against dense algebra, one label at a time."""

import numpy as np
import pytest

import reference_lpr as reference
from hierlpr.lpr.estimators import normal_table
from hierlpr.lpr.splines import NormalBins, bin_normal_scores, fit_psplines


def test_bins_keep_every_sample_of_every_label():
    rng = np.random.default_rng(0)
    ptr = np.array([0, 3000, 3020, 5020])
    positive = (rng.random(5020) < 0.1).astype(float)
    bins = bin_normal_scores(ptr, positive, np.ones(5020), normal_table(3000), 50, balance=True)
    for k in range(3):
        at = slice(bins.ptr[k], bins.ptr[k + 1])
        assert bins.total[at].sum() == ptr[k + 1] - ptr[k]
        assert bins.positive[at].sum() == positive[ptr[k] : ptr[k + 1]].sum()
        assert np.all(np.diff(bins.bin_z[at]) > 0)
        mean = np.average(bins.bin_z[at], weights=bins.total[at])
        assert mean == pytest.approx(bins.z[ptr[k] : ptr[k + 1]].mean())
    assert np.diff(bins.ptr).tolist() == [np.diff(bins.ptr)[0], 20, np.diff(bins.ptr)[2]]
    spread = bins.spread(bins.bin_z)
    inside = (bins.z > bins.bin_z[0]) & (bins.z < bins.bin_z[bins.ptr[1] - 1])
    assert spread[:3000][inside[:3000]] == pytest.approx(bins.z[:3000][inside[:3000]])


def one_label(z, positive, total):
    """Bins that hold one group each."""
    ptr = np.array([0, z.size])
    return NormalBins(ptr, z, ptr, z, positive, total)


PENALTIES = np.exp2(np.arange(-4.0, 19.0, 2.0))


@pytest.mark.parametrize("seed", range(4))
def test_pspline_path_equals_dense_algebra(seed):
    rng = np.random.default_rng(seed)
    total = rng.integers(1, 60, 40).astype(float)
    z = reference.normal_scores(total)
    positive = rng.binomial(total.astype(int), 1 / (1 + np.exp(2 - 2 * z))).astype(float)
    slope_sd = 3.0 if seed < 2 else 0.5
    fitted, evidence = fit_psplines(one_label(z, positive, total), PENALTIES, 12, slope_sd)
    for i, penalty in enumerate(PENALTIES):
        eta, log_evidence = reference.pspline(z, positive, total, penalty, 12, slope_sd)
        assert fitted[i] == pytest.approx(eta, abs=1e-5)
        assert evidence[i, 0] == pytest.approx(log_evidence, abs=1e-4)


@pytest.mark.parametrize(("n_positive", "n"), [(1, 50), (25, 50), (49, 50), (3, 2000)])
def test_pspline_stays_finite_on_separated_classes(n_positive, n):
    total = np.ones(n)
    positive = (np.arange(n) >= n - n_positive).astype(float)
    z = reference.normal_scores(total)
    fitted, evidence = fit_psplines(one_label(z, positive, total), PENALTIES, 24, 3.0)
    assert np.isfinite(fitted).all()
    assert np.isfinite(evidence).all()
    assert np.all(fitted[:, -1] > fitted[:, 0])


def test_no_label_depends_on_the_others():
    rng = np.random.default_rng(1)
    sizes = [40, 2, 300, 9]
    ptr = np.append(0, np.cumsum(sizes))
    total = rng.integers(1, 5, ptr[-1]) * 0.7
    positive = total * (rng.random(ptr[-1]) < 0.3)
    table = normal_table(400)
    whole = bin_normal_scores(ptr, positive, total, table, 30, balance=True)
    together = fit_psplines(whole, PENALTIES, 24, 6.0)
    for k, size in enumerate(sizes):
        at = slice(ptr[k], ptr[k + 1])
        alone = bin_normal_scores(
            np.array([0, size]), positive[at], total[at], table, 30, balance=True
        )
        fitted, evidence = fit_psplines(alone, PENALTIES, 24, 6.0)
        np.testing.assert_array_equal(fitted, together[0][:, whole.ptr[k] : whole.ptr[k + 1]])
        np.testing.assert_array_equal(evidence[:, 0], together[1][:, k])
