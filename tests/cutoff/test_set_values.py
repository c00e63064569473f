import numpy as np
import pytest

import reference_sets
from hierlpr import simulate
from hierlpr.cutoff.set_values import all_true_values, any_true_values, by_cost, call_order
from hierlpr.ranking.blocks import consistent_scores


def block_scores(rng, n_samples, *, ties):
    n_labels = int(rng.integers(1, 9))
    make = simulate.random_dag if rng.random() < 0.5 and n_labels > 2 else simulate.random_forest
    h = make(n_labels, rng=rng)
    raw = rng.random((n_samples, n_labels)) ** 2
    return h, consistent_scores(np.rint(raw * 4) / 4 if ties else raw, h)


@pytest.mark.parametrize("seed", range(40))
def test_values_are_those_of_the_definitions(seed):
    rng = np.random.default_rng(seed)
    h, score = block_scores(rng, 5, ties=seed % 2 == 1)
    given = score, h, call_order(score, h)
    for i in range(len(score)):
        expected = reference_sets.all_true(score[i], h)
        np.testing.assert_allclose(all_true_values(*given)[i], expected, atol=1e-12)
        expected = reference_sets.any_true(score[i], h)
        np.testing.assert_allclose(any_true_values(*given)[i], expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_labels_are_ordered_by_what_they_cost(seed):
    rng = np.random.default_rng(seed)
    n, floor = int(rng.integers(1, 9)), float(rng.choice([0.5, 0.7, 1.0]))
    chance = np.sort(rng.integers(0, 21, (5, n)) / 20, axis=1)[:, ::-1]
    order = np.stack([rng.permutation(n) for _ in range(5)])
    placed = np.empty_like(chance)
    np.put_along_axis(placed, order, chance, axis=1)
    found = np.take_along_axis(by_cost(placed, order, floor), order, axis=1)
    for row, values in zip(chance, found, strict=True):
        np.testing.assert_allclose(values, reference_sets.by_cost(row, floor), atol=1e-9)
    assert (np.diff(found, axis=1) <= 1e-12).all()
    assert (found[chance >= floor] >= floor - 1e-9).all()
    assert (found[chance < floor] < floor).all()
    if floor == 1.0:
        np.testing.assert_allclose(found, chance, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_no_other_prefixes_have_more_labels_for_the_same_expected_error(seed):
    """All choices of one prefix a sample, among those that hold likely enough."""
    rng = np.random.default_rng(seed)
    chance = np.sort(rng.uniform(0.5, 1.0, (4, 4)), axis=1)[:, ::-1]
    order = np.tile(np.arange(4), (4, 1))
    values = by_cost(chance, order, 0.5)
    risk = np.concatenate([np.zeros((4, 1)), 1.0 - chance], axis=1)
    choices = np.array(np.meshgrid(*[range(5)] * 4)).reshape(4, -1)
    risks, sizes = risk[np.arange(4)[:, None], choices].sum(axis=0), choices.sum(axis=0)
    for level in np.unique(values):
        taken = (values >= level).sum(axis=1)
        spent = risk[np.arange(4), taken].sum()
        assert sizes[risks <= spent + 1e-12].max() == taken.sum()
