"""Pruning by `min_lpr`: what is kept, how the tail is ordered, and what it can cost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import reference
from cases import by_number, random_dag, random_dag_lpr, scored_dags
from hierlpr import Hierarchy, consistent_scores, rank
from hierlpr.exceptions import DataError


def places(ranking, n_samples, n_labels):
    place = np.full((n_samples, n_labels), -1)
    place[ranking.sample, ranking.label] = np.arange(len(ranking))
    return place


@settings(max_examples=80)
@given(scored_dags(), st.sampled_from([0.1, 0.25, 0.5, 1.0]))
def test_every_instance_is_listed_once_parents_first(case, min_lpr):
    h, lpr = case
    r = rank(lpr, h, min_lpr=min_lpr)
    place = places(r, *lpr.shape)
    assert len(r) == lpr.size
    assert (place >= 0).all()
    for parent, child in h.edges:
        assert (place[:, h.index(parent)] < place[:, h.index(child)]).all()
    assert np.all(np.diff(r.score) <= 0)
    np.testing.assert_array_equal(r.lpr, lpr[r.sample, r.label])
    kept = h.close_upward(lpr >= min_lpr)
    assert kept.sum() == len(r) - r.n_pruned
    assert kept[r.sample, r.label][: kept.sum()].all()
    assert (r.score[kept.sum() :] == 0).all()
    np.testing.assert_array_equal(
        r.score, consistent_scores(lpr, h, min_lpr=min_lpr)[r.sample, r.label]
    )


@settings(max_examples=60)
@given(scored_dags(), st.sampled_from([0.25, 0.5]))
def test_sparse_input_lists_the_same_calls(case, min_lpr):
    h, lpr = case
    stored = sparse.csr_array(np.where(h.close_upward(lpr), np.maximum(lpr, 1e-6), 0.0))
    whole, part = rank(stored.toarray(), h, min_lpr=min_lpr), rank(stored, h, min_lpr=min_lpr)
    assert len(part) == stored.nnz
    called = whole.lpr > 0
    np.testing.assert_array_equal(part.label, whole.label[called])
    np.testing.assert_array_equal(part.sample, whole.sample[called])
    scores = consistent_scores(stored, h, min_lpr=min_lpr)
    dense = consistent_scores(stored.toarray(), h, min_lpr=min_lpr)
    np.testing.assert_array_equal(scores.toarray(), dense)


def test_the_cost_of_pruning_stays_within_its_bound():
    rng = np.random.default_rng(1)
    cost = []
    for trial in range(300):
        h = random_dag(rng, 8, density=0.25)
        kind = ("uniform", "decaying", "sparse")[trial % 3]
        lpr = reference.on_grid(random_dag_lpr(rng, h, kind, trial % 2 == 0))
        r = rank([lpr], h, min_lpr=0.3)
        value, parents = by_number(h, lpr)
        order = h.position[r.label].tolist()
        missing = float(reference.best_eauc(parents, value) - reference.eauc(order, value))
        assert -1e-12 <= missing <= r.eauc_gap() + 1e-9
        cost.append(missing)
    assert max(cost) > 0  # else nothing was tested


def test_weights_count_in_the_bound():
    rng = np.random.default_rng(2)
    for _ in range(100):
        h = random_dag(rng, 6, density=0.3)
        lpr = reference.on_grid(rng.random(6))
        weight = rng.integers(1, 4, size=6) * 0.5
        r = rank([lpr], h, min_lpr=0.4, weight=weight)
        value, parents = by_number(h, lpr * weight)
        missing = float(reference.best_eauc(parents, value)) - r.eauc()
        assert -1e-9 <= missing <= r.eauc_gap() + 1e-6


def test_pruning_nothing_changes_nothing():
    h = random_dag(np.random.default_rng(3), 20, density=0.1)
    lpr = np.random.default_rng(4).random((3, 20)) * 0.9 + 0.1
    whole, pruned = rank(lpr, h), rank(lpr, h, min_lpr=0.05)
    np.testing.assert_array_equal(whole.label, pruned.label)
    assert (pruned.n_pruned, pruned.pruning_cost) == (0, 0.0)


def test_a_slice_and_top_know_how_much_of_them_was_pruned():
    h = Hierarchy([("A", "B"), ("A", "C")])
    r = rank([[0.9, 0.1, 0.2]], h, min_lpr=0.5)
    assert r.n_pruned == 2
    assert [h.labels[k] for k in r.label] == ["A", "C", "B"]
    assert r[:2].n_pruned == 1
    assert r[1:].score.tolist() == [0.0, 0.0]
    top = rank([[0.9, 0.1, 0.2]], h, min_lpr=0.5, top=2)
    assert top.label.tolist() == r.label[:2].tolist()


@pytest.mark.parametrize("min_lpr", [-0.1, 1.5, "much", np.nan, True])
def test_min_lpr_is_a_fraction(min_lpr):
    with pytest.raises(DataError, match="min_lpr"):
        rank([[0.5]], Hierarchy(labels=["A"]), min_lpr=min_lpr)
