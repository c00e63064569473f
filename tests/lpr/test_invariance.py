"""What must not matter: units of the scores, order of the samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierlpr.lpr import ESTIMATORS, fit_lpr

METHODS = sorted(set(ESTIMATORS) - {"probability"})  # which has tests of its own

TRANSFORMS = {
    "eighth power": lambda s: s**8,
    "exponential": np.exp,
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
@pytest.mark.parametrize("decimals", [None, 2, 1])
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


@pytest.mark.parametrize("method", METHODS)
def test_units_of_the_scores_do_not_matter(method):
    """Also for estimators that look at distances: shifting and scaling is harmless."""
    scores, truth = beta_label(1000, 2)
    plain = fit_lpr(scores, truth, method=method).predict(scores)
    moved = fit_lpr(4.0 * scores - 8.0, truth, method=method).predict(4.0 * scores - 8.0)
    assert moved == pytest.approx(plain, abs=1e-9)
