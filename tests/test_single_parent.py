"""The paper's recipe for DAGs: it drops edges, and that shows."""

import numpy as np
import pytest

import reference
from cases import by_number, hierarchy_of, random_dag, random_forest
from hierlpr import Hierarchy, rank
from hierlpr.exceptions import HierarchyError
from hierlpr.metrics import order_violations_error
from hierlpr.research.baselines import single_parent


def breaches(ranking, hierarchy):
    return order_violations_error(ranking.sample, ranking.label, hierarchy)


def test_on_forests_it_is_the_ranking_itself():
    rng = np.random.default_rng(1)
    for _ in range(20):
        h = hierarchy_of(random_forest(rng, 12))
        lpr = rng.integers(0, 5, size=(3, 12)) / 4
        mine, theirs = rank(lpr, h), single_parent(lpr, h)
        np.testing.assert_array_equal(mine.label, theirs.label)
        np.testing.assert_array_equal(mine.sample, theirs.sample)
        assert breaches(theirs, h) == 0


def test_on_dags_it_reaches_no_less_area_and_breaks_edges():
    rng = np.random.default_rng(2)
    broken = 0
    for _ in range(60):
        h = random_dag(rng, 7, density=0.35)
        lpr = reference.on_grid(rng.random((1, 7)))
        theirs, mine = single_parent(lpr, h), rank(lpr, h)
        # Fewer constraints: the relaxed optimum is at least ours, by choice of the edges kept.
        assert theirs.eauc() >= mine.eauc() - 1e-9
        _, parents = by_number(h, lpr[0])
        respected = reference.respects(h.position[theirs.label].tolist(), parents)
        assert respected == (breaches(theirs, h) == 0)
        broken += not respected
        assert breaches(mine, h) == 0
    assert broken > 20


def test_it_is_marked_and_refuses_endless_searches():
    assert not single_parent.consistent
    h = Hierarchy([(p, f"c{i}") for i in range(20) for p in ("A", "B")])
    with pytest.raises(HierarchyError, match="ways to leave each label one parent"):
        single_parent(np.zeros((1, 22)), h)


def test_weights_and_top_pass_through():
    h = Hierarchy([("A", "C"), ("B", "C"), ("D", "E")])
    lpr = np.random.default_rng(3).random((2, 5))
    weight = {"A": 1.0, "B": 2.0, "C": 3.0, "D": 1.0, "E": 0.5}
    whole = single_parent(lpr, h, weight=weight)
    as_array = single_parent(lpr, h, weight=[weight[x] for x in h.labels], top=4)
    np.testing.assert_array_equal(as_array.label, whole.label[:4])
