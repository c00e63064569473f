import numpy as np
import pytest

from hierlpr import simulate
from hierlpr.exceptions import DataError


def test_disease_has_the_published_shape():
    d = simulate.disease(rng=3)
    h = d.hierarchy
    sizes = sorted(1 + len(h.descendants(root)) for root in h.roots)
    assert h.n_labels == 110
    assert (len(sizes), sizes.count(1), sizes.count(2), sizes[-2:]) == (24, 11, 6, [28, 30])
    assert (h.depth, np.median(h.levels)) == (6, 2)
    assert sum(len(h.children(x)) > 1 for x in h.labels) == 10
    positives = d.truth.sum(axis=0)
    assert (positives.min(), positives.max()) == (3, 62)
    assert positives.mean() / 196 == pytest.approx(0.0589, abs=5e-5)
    same = 0
    for parent, child in h.edges:
        p, c = h.index(parent), h.index(child)
        assert np.all(d.truth[:, c] <= d.truth[:, p])
        if np.array_equal(d.truth[:, c], d.truth[:, p]):
            same += 1
            assert np.array_equal(d.scores[:, c], d.scores[:, p])
            assert np.allclose(d.lpr_true[:, c], d.lpr_true[:, p])
    assert same == 26


def test_disease_scales_and_repeats():
    first, again = simulate.disease(rng=1), simulate.disease(rng=1)
    np.testing.assert_array_equal(first.scores, again.scores)
    assert not np.array_equal(first.scores, simulate.disease(rng=2).scores)
    assert simulate.disease(n_samples=1000).truth.mean() == pytest.approx(0.0589, abs=0.002)
    with pytest.raises(DataError, match="at least 12"):
        simulate.disease(n_samples=3)


@pytest.mark.parametrize("name", ["1", "4", "tree25"])
def test_true_probabilities_are_calibrated(name):
    drawn = simulate.train_test(name, n_train=20_000, rng=7)[0]
    for chance in (drawn.lpr_true, drawn.posterior_true):
        bins = np.digitize(chance.ravel(), np.linspace(0, 1, 11))
        for b in np.unique(bins):
            inside = bins == b
            error = np.sqrt(chance.ravel()[inside].mean() / inside.sum()) + 1e-9
            gap = drawn.truth.ravel()[inside].mean() - chance.ravel()[inside].mean()
            assert abs(gap) < 5 * error


def test_train_and_test_share_their_model():
    train, test = simulate.train_test(1, n_train=20_000, n_test=20_000, rng=1)
    np.testing.assert_allclose(train.truth.mean(axis=0), test.truth.mean(axis=0), atol=0.015)
    assert train.truth.sum(axis=0).min() >= 60
