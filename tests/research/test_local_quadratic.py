"""Smoothers of the precision curve against direct sums."""

import numpy as np
import pytest

import reference_lpr as reference
from hierlpr.research.estimators import (
    LocalQuadratic,
    deal_folds,
    local_quadratic,
    precision_points,
)


def test_precision_points_by_hand():
    positive, total = np.array([0.0, 1.0, 1.0]), np.array([2.0, 1.0, 1.0])
    below, precision, above, middle = precision_points(positive, total)
    assert below.tolist() == [0.0, 0.5, 0.75]
    assert precision.tolist() == [0.5, 1.0, 1.0]
    assert above.tolist() == [4.0, 2.0, 1.0]
    assert middle.tolist() == [0.25, 0.625, 0.875]


@pytest.mark.parametrize("bandwidth", [0.05, 0.2, 1.0])
def test_local_quadratic_equals_least_squares(bandwidth):
    rng = np.random.default_rng(0)
    u = np.sort(rng.random(3000))
    value = np.sin(3 * u) + 0.1 * rng.normal(size=u.size)
    weight = 0.5 + rng.random(u.size)
    at = np.linspace(0, 1, 23)
    fit, slope, _ = local_quadratic(u, value, weight, bandwidth, at)
    expected = [reference.local_quadratic(u, value, weight, bandwidth, x) for x in at]
    assert fit == pytest.approx([e[0] for e in expected], abs=0.01)
    assert slope == pytest.approx([e[1] for e in expected], abs=0.04 / bandwidth)


def test_local_quadratic_is_exact_on_parabolas_and_survives_gaps():
    u = np.concatenate([np.linspace(0, 0.2, 50), [0.9]])
    fit, slope, _ = local_quadratic(u, 1 - 2 * u + 3 * u**2, np.ones(51), 0.02, u)
    assert fit[:50] == pytest.approx((1 - 2 * u + 3 * u**2)[:50], abs=1e-3)
    assert slope[:50] == pytest.approx((-2 + 6 * u)[:50], abs=1e-2)
    assert np.isfinite(fit).all()


def test_the_uncorrected_form_undersmooths():
    """Its bandwidth comes from a curve whose neighbours share their samples."""
    rng = np.random.default_rng(0)
    truth = rng.random((3000, 6)) < 0.3
    scores = rng.normal(size=truth.shape) + truth
    order = np.argsort(scores, axis=0)
    sorted_truth = np.take_along_axis(truth, order, axis=0).astype(float)
    plain, corrected = (
        [LocalQuadratic(corrected).bandwidth(column, np.ones(3000)) for column in sorted_truth.T]
        for corrected in (False, True)
    )
    assert np.median(plain) < 0.2 * np.median(corrected)


def test_folds_are_a_partition_and_ignore_order_within_ties():
    positive = np.array([0.0, 2.0, 5.5, 1.0])
    total = np.array([40.0, 30.0, 9.25, 1.0])
    fold_positive, fold_total = deal_folds(positive, total, 5)
    assert fold_positive.sum(axis=0) == pytest.approx(positive)
    assert fold_total.sum(axis=0) == pytest.approx(total)
    assert np.all(fold_positive <= fold_total)
    assert fold_total.sum(axis=1).min() > 5  # about 16 each
