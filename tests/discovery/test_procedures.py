"""Procedures on p-values against their definitions: DAGGER, Simes' p-values, HierLPR-STAR."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, norm

import reference_discovery as reference
from hierlpr import Hierarchy
from hierlpr.discovery.p_values import ShiftModel, fit_shift, normal_scores
from hierlpr.discovery.procedures import (
    branch_p_values,
    dagger_levels,
    fdr_numerator,
    peel,
    peeled_levels,
    star_levels,
)

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


# -- HierLPR-STAR ----------------------------------------------------------------------------------


def drawn(rng, h, *, shift=2.5, share=0.5):
    """P-values of a random hierarchy whose signals are closed upward, and where they are."""
    truth = h.close_upward(rng.random((1, h.n_labels)) < share / 4)[0]
    return norm.sf(rng.normal(size=h.n_labels) + shift * truth), truth


@pytest.mark.parametrize("forest", [True, False])
def test_the_order_of_leaving_never_looks_at_the_hidden_side(forest):
    rng = np.random.default_rng(1)
    for _ in range(8):
        h = reference.random_dag(rng, 40, forest=forest)
        p, _ = drawn(rng, h)
        leaving = peel(p, h, h, None)
        for n_left in (40, 25, 12, 3):
            inside = leaving[-n_left:]
            other = p.copy()
            flipped = inside[rng.random(n_left) < 0.5]
            other[flipped] = 1.0 - other[flipped]
            # The next to leave was chosen before anything of those inside was shown.
            again = peel(other, h, h, None)
            np.testing.assert_array_equal(again[: 41 - n_left], leaving[: 41 - n_left])


def test_nodes_leave_before_their_ancestors_and_levels_are_monotone():
    rng = np.random.default_rng(2)
    for case in range(40):
        h = reference.random_dag(rng, int(rng.integers(1, 25)), forest=case % 2 == 0)
        p = np.round(drawn(rng, h)[0] * 10) / 10  # ties, 0, 1/2 and 1
        place = np.empty(h.n_labels, dtype=int)
        leaving = peel(p, h, h, np.random.default_rng(3) if case % 3 else None)
        place[leaving] = np.arange(h.n_labels)
        level = star_levels(p, h, None)
        for parent, child in h.edges:
            assert place[h.index(child)] < place[h.index(parent)]
            assert level[h.index(child)] >= level[h.index(parent)]


def test_one_half_counts_as_large():
    h = Hierarchy([], labels=[f"v{i}" for i in range(40)])
    assert np.all(star_levels(np.full(40, 0.5), h, None) == 1.0)
    assert np.all(star_levels(np.nextafter(np.full(40, 0.5), 0), h, None) < 0.1)


def test_a_tenth_of_the_level_finds_what_is_alone():
    rng = np.random.default_rng(5)
    for _ in range(30):
        h = reference.random_dag(rng, 30)
        p = rng.random(30) ** 4
        level = star_levels(p, h, None)
        leaving = peel(p, h, h, None)
        many = np.empty(30)
        many[leaving] = peeled_levels(p[leaving] >= 0.5)
        for alpha in (0.05, 0.2, 0.6):
            either = reference.dagger(p, h, alpha / 10)
            either |= {h.labels[k] for k in np.flatnonzero(many <= 0.9 * alpha)}
            assert {h.labels[k] for k in np.flatnonzero(level <= alpha)} == either


def worst_value(n_nulls):
    """Value of the best way to stop from each number of large ones among `n_nulls` nulls."""
    value = np.zeros(1)
    for n in range(1, n_nulls + 1):
        large = np.arange(n + 1)
        go_on = np.zeros(n + 1)
        go_on[1:] += large[1:] / n * value
        go_on[:-1] += (n - large[:-1]) / n * value
        value = np.maximum(n / fdr_numerator(large), go_on)
    return value


def test_no_way_to_stop_makes_the_estimate_too_small():
    small = reference.worst_ratio(lambda b: float(fdr_numerator(np.array(b))), 12)
    assert small == pytest.approx(worst_value(12) @ binom.pmf(np.arange(13), 12, 0.5))
    for n in (1, 2, 3, 5, 10, 30, 100, 300):
        assert worst_value(n) @ binom.pmf(np.arange(n + 1), n, 0.5) <= 0.98
    # Beyond 4,000 nulls: a martingale of mean at most 1 bounds the ratio from 7 large ones on,
    # so the best of stopping there and of going on below is at most this.
    n = 4_000
    large = np.arange(n + 1)
    martingale = (n + 1) / (2.0 * (large + 1))
    best = np.maximum(worst_value(n), martingale) @ binom.pmf(large, n, 0.5)
    assert best <= 1.0 + 1e-6
    many = np.arange(7, 10**6)
    for total in (many, many * 2, many * 50):
        assert np.all(total / fdr_numerator(many) <= (total + 1) / (2.0 * (many + 1)))
    assert binom.logcdf(6, n, 0.5) < -2_000


def test_an_estimate_with_less_in_front_would_fail_the_same_check():
    # The check can fail: without the 0.65, or with a slope of 1.9, some way to stop wins.
    for numerator in (lambda b: 2.1 * (b + 0.4), lambda b: 1.9 * (b + 0.65)):
        assert max(reference.worst_ratio(numerator, n) for n in (5, 20, 60)) > 1.0


def test_p_values_of_one_do_not_pass_for_small_ones():
    # min(p, 1 - p) is 0 for both p = 0 and p = 1; a null is never 0, so 1 may be shown.
    h = Hierarchy([], labels=[f"v{i}" for i in range(60)])
    p = np.concatenate((np.full(30, 1e-6), np.ones(30)))
    level = star_levels(p, h, None)
    assert np.all(level[:30] <= 0.05)
    assert np.all(level[30:] > 0.1)


def test_a_node_without_p_value_is_rejected_only_with_a_descendant():
    edges = [("A", f"a{i}") for i in range(30)] + [("B", f"b{i}") for i in range(30)]
    h = Hierarchy([*edges, ("top", "A"), ("top", "B"), ("a0", "nothing")])
    p = np.full(h.n_labels, np.nan)
    rng = np.random.default_rng(0)
    for k, label in enumerate(h.labels):
        if label[0] == "a":
            p[k] = 1e-5 * rng.random()
        elif label[0] == "b":
            p[k] = 0.5 + 0.5 * rng.random()
    level = dict(zip(h.labels, star_levels(p, h, None), strict=True))
    assert level["A"] == min(level[f"a{i}"] for i in range(30)) <= 0.05
    assert level["top"] == level["A"]
    assert level["B"] == min(level[f"b{i}"] for i in range(30)) > 0.1
    assert level["nothing"] == 1.0


def test_the_posterior_is_that_of_the_model_by_brute_force():
    rng = np.random.default_rng(6)
    for case in range(40):
        h = reference.random_dag(rng, int(rng.integers(1, 7)), forest=case % 2 == 0)
        p = rng.random(h.n_labels) ** 2
        hidden = rng.random(h.n_labels) < 0.5
        start = ShiftModel(1.0 + rng.random(), rng.random(), rng.random())
        posterior, _ = fit_shift(normal_scores(p), hidden, h, start, 1)
        ratio = np.where(hidden, (start.density(p) + start.density(1.0 - p)) / 2, start.density(p))
        on = np.array([start.child if h.parents(x) else start.root for x in h.labels])
        np.testing.assert_allclose(
            posterior, reference.best_shift_posterior(ratio, on, h), rtol=1e-6, atol=1e-9
        )


def test_em_finds_the_model_behind_many_p_values():
    rng = np.random.default_rng(8)
    h = Hierarchy([(f"r{i}", f"r{i}.{j}") for i in range(400) for j in range(4)])
    root = rng.random(400) < 0.4
    truth = np.array(
        [root[int(x[1:].split(".")[0])] and ("." not in x or rng.random() < 0.6) for x in h.labels]
    )
    p = norm.sf(rng.normal(size=h.n_labels) + 2.2 * truth)
    for hidden in (False, True):
        _, model = fit_shift(normal_scores(p), np.full(p.size, hidden), h, ShiftModel(), 80)
        assert model.shift == pytest.approx(2.2, abs=0.2)
        assert model.root == pytest.approx(0.4, abs=0.1)
        assert model.child == pytest.approx(0.6, abs=0.12)
