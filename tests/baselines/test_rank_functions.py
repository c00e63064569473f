import itertools

import numpy as np
import pytest
from scipy import sparse

import reference
from cases import by_number, hierarchy_of, random_dag, random_forest
from hierlpr import Hierarchy, baselines, metrics, rank, simulate
from hierlpr.baselines.rank_functions import propagate_max_sparse
from hierlpr.exceptions import DataError, HierarchyError

PLAIN = [baselines.lpr_alone, baselines.raw_scores, baselines.max_propagation, baselines.top_down]


def tied(rng, n_samples, n_labels):
    return rng.integers(0, 5, (n_samples, n_labels)) / 4.0


def violations(ranking, hierarchy):
    return metrics.order_violations_error(ranking.sample, ranking.label, hierarchy)


@pytest.mark.parametrize("method", PLAIN, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["forest", "dag"])
def test_order_is_complete_falling_and_as_consistent_as_promised(method, kind):
    rng = np.random.default_rng(1)
    draw = simulate.random_forest if kind == "forest" else simulate.random_dag
    h = draw(12, rng=rng)
    scores = tied(rng, 20, 12)
    r = method(scores, h)
    assert sorted(zip(r.sample.tolist(), r.label.tolist(), strict=True)) == list(
        itertools.product(range(20), range(12))
    )
    assert (np.diff(r.score) <= 0).all()
    np.testing.assert_array_equal(r.lpr, scores[r.sample, r.label])
    keeps_order = method.__name__ in ("max_propagation", "top_down")
    assert (violations(r, h) == 0) == keeps_order


@pytest.mark.parametrize("method", PLAIN, ids=lambda f: f.__name__)
def test_top_is_a_prefix_and_weights_scale_columns(method):
    rng = np.random.default_rng(2)
    h = simulate.random_forest(8, rng=rng)
    scores = tied(rng, 10, 8)
    whole, first = method(scores, h), method(scores, h, top=17)
    np.testing.assert_array_equal(whole.sample[:17], first.sample)
    np.testing.assert_array_equal(whole.label[:17], first.label)
    weight = rng.integers(1, 4, 8) / 4.0
    np.testing.assert_array_equal(
        method(scores, h, weight=weight).score, method(scores * weight, h).score
    )
    named = dict(zip(h.labels, weight, strict=True))
    np.testing.assert_array_equal(
        method(scores, h, weight=named).label, method(scores, h, weight=weight).label
    )
    with pytest.raises(DataError, match="weight"):
        method(scores, h, weight=[1.0])


@pytest.mark.parametrize("seed", range(10))
def test_propagation_against_definitions(seed):
    rng = np.random.default_rng(seed)
    draw = simulate.random_dag if seed % 2 else simulate.random_forest
    h = draw(15, rng=rng)
    scores = rng.random((6, 15)) * (rng.random((6, 15)) < 0.3)
    up, down = baselines.propagate_max(scores, h), baselines.propagate_min(scores, h)
    listed = propagate_max_sparse(sparse.csr_array(scores), h).toarray()
    np.testing.assert_array_equal(listed, up)
    for k, label in enumerate(h.labels):
        below = [k, *(h.index(x) for x in h.descendants(label))]
        above = [k, *(h.index(x) for x in h.ancestors(label))]
        np.testing.assert_array_equal(up[:, k], scores[:, below].max(axis=1))
        np.testing.assert_array_equal(down[:, k], scores[:, above].min(axis=1))


def test_single_parent_equals_rank_on_forests():
    rng = np.random.default_rng(1)
    for _ in range(20):
        h = hierarchy_of(random_forest(rng, 12))
        lpr = rng.integers(0, 5, size=(3, 12)) / 4
        mine, theirs = rank(lpr, h), baselines.single_parent(lpr, h)
        np.testing.assert_array_equal(mine.label, theirs.label)
        np.testing.assert_array_equal(mine.sample, theirs.sample)
        assert violations(theirs, h) == 0


def test_single_parent_has_no_smaller_area_on_dags_and_violates_edges():
    rng = np.random.default_rng(2)
    broken = 0
    for _ in range(60):
        h = random_dag(rng, 7, density=0.35)
        lpr = reference.on_grid(rng.random((1, 7)))
        theirs, mine = baselines.single_parent(lpr, h), rank(lpr, h)
        # Fewer constraints: the relaxed optimum is at least ours, by choice of the edges kept.
        assert theirs.eauc() >= mine.eauc() - 1e-9
        _, parents = by_number(h, lpr[0])
        respected = reference.respects(h.position[theirs.label].tolist(), parents)
        assert respected == (violations(theirs, h) == 0)
        broken += not respected
        assert violations(mine, h) == 0
    assert broken > 20


def test_single_parent_limits_its_search():
    h = Hierarchy([(p, f"c{i}") for i in range(20) for p in ("A", "B")])
    with pytest.raises(HierarchyError, match="ways to keep one parent per label"):
        baselines.single_parent(np.zeros((1, 22)), h)


def test_single_parent_takes_weights_and_top():
    h = Hierarchy([("A", "C"), ("B", "C"), ("D", "E")])
    lpr = np.random.default_rng(3).random((2, 5))
    weight = {"A": 1.0, "B": 2.0, "C": 3.0, "D": 1.0, "E": 0.5}
    whole = baselines.single_parent(lpr, h, weight=weight)
    as_array = baselines.single_parent(lpr, h, weight=[weight[x] for x in h.labels], top=4)
    np.testing.assert_array_equal(as_array.label, whole.label[:4])
