"""What estimators promise: invariance to units and order, and curves pulled to probabilities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierlpr.exceptions import DataError
from hierlpr.lpr import ESTIMATORS, fit_lpr
from hierlpr.lpr.estimators import Probability

METHODS = sorted(set(ESTIMATORS) - {"probability"})  # which has tests of its own

TRANSFORMS = {
    "eighth power": lambda s: s**8,
    "exponential": np.exp,
    "other units": lambda s: 4.0 * s - 8.0,
    "logit": lambda s: np.log(s / (1 - s)),
    "very flat, then steep": lambda s: np.where(s < 0.7, 1e-6 * s, 1e6 * s),
    "ranks": lambda s: np.unique(s, return_inverse=True)[1].astype(float),
}


def beta_label(n, seed, decimals=None):
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.1
    scores = np.where(truth, rng.beta(6, 3, n), rng.beta(3, 6, n))
    return (scores if decimals is None else scores.round(decimals).clip(0.01, 0.99)), truth


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("decimals", [None, 1])
def test_increasing_transforms_leave_training_lprs_exactly_alone(method, transform, decimals):
    scores, truth = beta_label(3000, 0, decimals)
    moved = TRANSFORMS[transform](scores)
    plain = fit_lpr(scores, truth, method=method).predict(scores)
    assert np.array_equal(fit_lpr(moved, truth, method=method).predict(moved), plain)


@pytest.mark.parametrize("method", METHODS)
def test_between_training_scores_the_lpr_lies_between_its_neighbours(method):
    scores, truth = beta_label(3000, 1)
    model = fit_lpr(scores, truth, method=method)
    known = np.sort(scores)
    lpr = model.predict(known)
    between = model.predict(known[:-1] + np.random.default_rng(0).random(2999) * np.diff(known))
    assert np.all((lpr[:-1] <= between) & (between <= lpr[1:]))


# Estimators with folds may choose another smoothing when sums of weights are rounded differently.
@pytest.mark.parametrize(
    ("method", "weighted"),
    [*((method, False) for method in METHODS), ("auto", True), ("isotonic", True)],
)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), decimals=st.sampled_from([0, 1, 2, None]))
def test_order_of_samples_changes_nothing(method, weighted, seed, decimals):
    scores, truth = beta_label(200, seed, decimals)
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 4, 200) / 3.0 + 0.1 if weighted else None
    shuffle = rng.permutation(200)
    plain = fit_lpr(scores, truth, method=method, sample_weight=weight)
    mixed = fit_lpr(
        scores[shuffle], truth[shuffle], method=method,
        sample_weight=None if weight is None else weight[shuffle],
    )  # fmt: skip
    np.testing.assert_allclose(
        mixed.predict(scores), plain.predict(scores), atol=1e-3 if weighted else 1e-9
    )


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


def test_scores_that_are_wrong_are_mended_with_enough_positives():
    p, truth = draw(20_000, 1, (0.3,))
    wrong = p**3
    lpr = fit_lpr(wrong, truth, method="probability").predict(wrong)
    assert np.abs(lpr - p).mean() < 0.02
    assert np.abs(wrong - p).mean() > 0.1


def test_scores_outside_the_unit_interval_are_refused_unless_by_rounding():
    p, truth = draw(50, 0)
    with pytest.raises(DataError, match=r"needs scores from 0 to 1, got 1.5"):
        fit_lpr(np.full((50, 4), 1.5), truth, method="probability")
    rounded = p.copy()
    rounded[0], rounded[1] = 1.0000000002, -1e-12
    clipped = fit_lpr(np.clip(rounded, 0.0, 1.0), truth, method="probability")
    lpr = fit_lpr(rounded, truth, method="probability").predict(rounded)
    np.testing.assert_allclose(lpr, clipped.predict(np.clip(rounded, 0.0, 1.0)), atol=0.02)
    with pytest.raises(DataError, match="trust"):
        Probability(trust=-1.0)
