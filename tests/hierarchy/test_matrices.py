"""Sweeps over (labels x samples) arrays against walks along every edge."""

import numpy as np
import pytest
from scipy import sparse

from hierlpr import Hierarchy, simulate
from hierlpr.hierarchy.matrices import CELLS, FEWEST_SAMPLES, UpperSet, sample_ranges


def drawn(seed):
    rng = np.random.default_rng(seed)
    draw = simulate.random_dag if seed % 2 else simulate.random_forest
    h = draw(int(rng.integers(2, 30)), rng=rng)
    return h, rng.random((int(rng.integers(1, 20)), h.n_labels)) < 0.15, rng


def below(h, label):
    return [h.index(x) for x in (label, *h.descendants(label))]


@pytest.mark.parametrize("seed", range(20))
def test_sweeps_against_walks(seed):
    h, truth, rng = drawn(seed)
    upper = UpperSet.above(h, h.position[np.flatnonzero(truth.any(axis=0))])
    columns = h.order[upper.numbers]
    held = np.ascontiguousarray(truth[:, columns].T)
    closed = np.stack([truth[:, below(h, h.labels[k])].any(axis=1) for k in columns])
    raised = held.copy()
    upper.raise_up(raised)
    np.testing.assert_array_equal(raised, closed)
    above = [[h.index(x) for x in h.ancestors(h.labels[k])] for k in columns]
    expected = np.stack([truth[:, up].any(axis=1) for up in above])
    np.testing.assert_array_equal(upper.any_above(held), expected)
    parents = [[h.index(x) for x in h.parents(h.labels[k])] for k in columns]
    together = np.stack([truth[:, up].all(axis=1) for up in parents])
    np.testing.assert_array_equal(upper.all_parents(held), together)
    above, under = upper.edges
    assert np.count_nonzero(held[under] & ~held[above]) == len(h.violations(truth))
    values = rng.integers(0, 5, held.shape)
    raised = values.copy()
    upper.raise_up(raised)
    place = {k: i for i, k in enumerate(columns.tolist())}
    for i, k in enumerate(columns):
        rows = [place[j] for j in below(h, h.labels[k]) if j in place]
        np.testing.assert_array_equal(raised[i], values[rows].max(axis=0))


@pytest.mark.parametrize("seed", range(10))
def test_sparse_closure_is_that_of_dense_matrices(seed):
    h, truth, _ = drawn(seed)
    closed = h.close_upward(truth)
    np.testing.assert_array_equal(h.close_upward(sparse.csr_array(truth)).toarray(), closed)


def test_ranges_hold_all_samples_and_stay_small():
    runs = list(sample_ranges(10_000, 500))
    assert [a for a, _ in runs[1:]] == [b for _, b in runs[:-1]]
    assert runs[0][0] == 0
    assert runs[-1][1] == 10_000
    assert max(b - a for a, b in runs) * 500 <= CELLS
    large = [b - a for a, b in sample_ranges(5000, 45_000)]
    assert max(large) == FEWEST_SAMPLES
    assert max(b - a for a, b in sample_ranges(100, 10**7)) == 8


def test_labels_without_edges_and_without_samples():
    h = Hierarchy(labels=["A", "B"])
    assert UpperSet.above(h, np.array([1])).up == []
    assert h.close_upward(sparse.csr_array((0, 2))).shape == (0, 2)
