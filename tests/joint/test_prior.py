import numpy as np
import pytest

import reference_sets
from cases import one_path_case
from hierlpr import Hierarchy, HierlprError, simulate
from hierlpr.data.truth import Truth
from hierlpr.joint import end_posterior, learn_depth_weights
from hierlpr.joint.prior import _count_known, count_labels, fit_prior


@pytest.mark.parametrize("seed", range(20))
def test_the_posterior_of_one_path_is_that_of_enumeration(seed):
    rng = np.random.default_rng(seed)
    h, lpr, _, prior = one_path_case(rng, n_samples=6)
    weight = np.ones(max(h.levels)) if seed % 2 else rng.random(max(h.levels))
    expected = np.array([reference_sets.end_posterior(row, prior, weight, h)[:-1] for row in lpr])
    given = end_posterior(lpr, prior, h, weight)
    np.testing.assert_allclose(given, expected, atol=1e-9)
    if seed % 2:
        np.testing.assert_array_equal(end_posterior(lpr, prior, h), given)


@pytest.mark.parametrize("seed", range(6))
def test_weights_of_depths_are_the_best_there_are(seed):
    rng = np.random.default_rng(seed)
    h, lpr, truth, prior = one_path_case(rng, n_samples=120)
    lpr = np.clip(lpr, 0.05, 0.95)
    weight = learn_depth_weights(lpr, Truth.of(truth), prior, h)
    best = reference_sets.depth_loss(weight, lpr, truth, prior, h)
    for depth in range(weight.size):
        for step in (-0.01, 0.01):
            other = weight.copy()
            other[depth] = max(other[depth] + step, 0.0)
            assert reference_sets.depth_loss(other, lpr, truth, prior, h) >= best - 1e-6
    counts = rng.random(120) + 0.5
    by_weight = [
        learn_depth_weights(lpr, Truth.of(truth), prior, h, x * counts) for x in (1.0, 4.0)
    ]
    np.testing.assert_array_equal(*by_weight)
    assert (by_weight[0] != weight).any()


def test_there_are_weights_of_depths_only_in_a_taxonomy():
    rng = np.random.default_rng(0)
    h, lpr, truth, prior = one_path_case(rng, n_samples=200)
    assert learn_depth_weights(lpr[:99], Truth.of(truth[:99]), prior, h) is None  # too few
    many = np.asarray(h.close_upward(rng.random(truth.shape) < 0.4))
    assert learn_depth_weights(lpr, Truth.of(many), prior, h) is None
    dag = Hierarchy([("A", "C"), ("B", "C")])
    whole = np.ones((200, 3), dtype=bool)
    assert learn_depth_weights(np.full((200, 3), 0.5), Truth.of(whole), np.ones(3), dag) is None


def test_one_path_needs_a_forest():
    h = Hierarchy([("A", "C"), ("B", "C")])
    with pytest.raises(HierlprError, match="one parent"):
        end_posterior(np.full((1, 3), 0.5), np.full(3, 0.5), h)


def test_priors_are_those_of_weighted_counts():
    fit = simulate.train_test(2, n_train=500, rng=3)[0]
    weight = np.random.default_rng(1).integers(1, 4, 500)
    twice = np.repeat(np.arange(500), weight)
    prior = fit_prior(fit.truth, fit.hierarchy, weight / weight.max())
    copied = fit_prior(fit.truth[twice], fit.hierarchy)
    assert prior.prevalence == pytest.approx(copied.prevalence, abs=2e-3)
    # Conditional shares are shrunk by the effective number of samples, not by the copies.
    own = _count_known(Truth.of(fit.truth), fit.hierarchy, weight / weight.max())
    raw = count_labels(fit.truth[twice], fit.hierarchy)
    assert own[1] / own[2] == pytest.approx(raw[0] / raw[1])
    assert (own[2] <= raw[1]).all()
