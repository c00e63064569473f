"""DAGGER and Simes' p-values against their definitions."""

from fractions import Fraction

import numpy as np
import pytest

import reference_discovery as reference
from hierlpr import Hierarchy
from hierlpr.discovery.procedures import branch_p_values, dagger_levels

CLOSE = Fraction(1, 10**9)


def p_values(rng, n):
    """Draw p-values with ties, zeros and ones, small enough that many are rejected."""
    fine = rng.random(n) ** rng.choice([1.0, 3.0, 6.0])
    coarse = np.round(fine * 16) / 16
    return np.where(rng.random(n) < 0.5, fine, coarse)


@pytest.mark.parametrize("arbitrary", [False, True])
def test_levels_are_those_of_the_literal_procedure_on_random_hierarchies(arbitrary):
    rng = np.random.default_rng(5 + arbitrary)
    n_below_one = 0
    for case in range(500):
        h = reference.random_dag(rng, int(rng.integers(1, 9)), forest=case % 3 == 0)
        p = p_values(rng, h.n_labels)
        level = dagger_levels(p, h, arbitrary=arbitrary)
        n_below_one += np.count_nonzero(level < 1.0)
        for value in np.unique(level):
            above = Fraction(float(value)) * (1 + CLOSE)
            just = {x for x, v in zip(h.labels, level, strict=True) if v <= value}
            if value < 1.0:
                assert reference.dagger(p, h, above, arbitrary=arbitrary) == just
            if value > 0.0:
                under = Fraction(float(value)) * (1 - CLOSE)
                less = {x for x, v in zip(h.labels, level, strict=True) if v < value}
                assert reference.dagger(p, h, under, arbitrary=arbitrary) == less
    assert n_below_one > 200


@pytest.mark.parametrize("arbitrary", [False, True])
def test_rejections_at_a_grid_of_alphas_are_nested_closed_and_given_by_the_levels(arbitrary):
    rng = np.random.default_rng(7)
    grid = [Fraction(k, 97) for k in range(1, 97, 8)]  # no p-value times counts lands on these
    for _ in range(60):
        h = reference.random_dag(rng, 8)
        p = p_values(rng, 8)
        level = dagger_levels(p, h, arbitrary=arbitrary)
        last: set[str] = set()
        for alpha in grid:
            rejected = reference.dagger(p, h, alpha, arbitrary=arbitrary)
            assert last <= rejected
            last = rejected
            assert all(rejected.issuperset(h.parents(x)) for x in rejected)
            assert rejected == {h.labels[k] for k in np.flatnonzero(level <= float(alpha))}


def test_without_edges_it_is_benjamini_hochberg_also_at_ties():
    p = np.array([0.01, 0.02, 0.02, 0.5, 0.04, 0.0, 1.0])
    h = Hierarchy([], labels=[f"v{i}" for i in range(p.size)])
    order = np.argsort(p, kind="stable")
    adjusted = np.minimum.accumulate((p[order] * p.size / np.arange(1, p.size + 1))[::-1])[::-1]
    expected = np.empty(p.size)
    expected[order] = np.minimum(adjusted, 1.0)
    np.testing.assert_allclose(dagger_levels(p, h, arbitrary=False), expected, rtol=1e-14)
    harmonic = sum(1 / k for k in range(1, 8))
    np.testing.assert_allclose(
        dagger_levels(p, h, arbitrary=True), np.minimum(expected * harmonic, 1.0), rtol=1e-12
    )


def test_many_nodes_with_different_offsets_agree_with_a_plain_scan():
    # The heap is refreshed only at its top: a plain scan for the largest must agree.
    rng = np.random.default_rng(3)
    for _ in range(20):
        h = reference.random_dag(rng, 120)
        p = rng.random(120) ** 5
        level = dagger_levels(p, h, arbitrary=False)
        for alpha in (0.05, 0.3, 0.7):
            rejected = {h.labels[k] for k in np.flatnonzero(level <= alpha)}
            assert reference.dagger(p, h, alpha) == rejected


@pytest.mark.parametrize("arbitrary", [False, True])
def test_branch_p_values_are_simes_over_descendants(arbitrary):
    rng = np.random.default_rng(11)
    for _ in range(200):
        h = reference.random_dag(rng, int(rng.integers(1, 10)))
        p = p_values(rng, h.n_labels)
        p[rng.random(p.size) < 0.2] = np.nan
        found = branch_p_values(p, h, arbitrary=arbitrary)
        for k, label in enumerate(h.labels):
            expected = reference.simes(p, h, label, arbitrary=arbitrary)
            if expected is None:
                assert np.isnan(found[k])
            else:
                assert found[k] == pytest.approx(float(expected), rel=1e-12)


def test_nodes_without_any_p_value_below_them_are_as_if_absent():
    h = Hierarchy([("A", "B"), ("A", "C"), ("C", "D")])
    p = np.array([0.01, 0.02, 0.03, np.nan])
    without = Hierarchy([("A", "B"), ("A", "C")])
    level = dagger_levels(p, h, arbitrary=False)
    np.testing.assert_array_equal(level[:3], dagger_levels(p[:3], without, arbitrary=False))
    assert level[3] == 1.0


def test_no_p_value_at_all_and_a_long_chain():
    h = Hierarchy([("A", "B")])
    np.testing.assert_array_equal(dagger_levels(np.full(2, np.nan), h, arbitrary=True), [1, 1])
    chain = Hierarchy([(f"{i}", f"{i + 1}") for i in range(300)])
    p = np.full(301, 0.001)
    p[200] = 0.9
    level = dagger_levels(p, chain, arbitrary=False)
    assert np.all(np.diff(level) >= 0)
    assert level[199] < 0.01
    assert level[200] == pytest.approx(0.9 * 101 / 301)
