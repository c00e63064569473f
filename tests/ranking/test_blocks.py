"""The production ranking and the paper's algorithms against brute force."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow

import reference
from cases import by_number, hierarchy_of, random_dag, random_forest, random_lpr
from hierlpr import consistent_scores, paper, rank
from hierlpr.metrics import order_violations_error

N_FORESTS = 2400


def one_sample_order(lpr, h):
    """The ranking of one sample as topological numbers."""
    return h.position[rank([lpr], h, n_jobs=1).label].tolist()


@pytest.mark.parametrize("ties", [False, True])
def test_rank_equals_brute_force_and_algorithms_2_3_5(ties):
    rng = np.random.default_rng(1 + ties)
    for _ in range(N_FORESTS // 2):
        h = hierarchy_of(random_forest(rng, int(rng.integers(1, 9))))
        lpr = reference.on_grid(random_lpr(rng, h.n_labels, ties))
        value, parents = by_number(h, lpr)
        parent = [p[0] if p else -1 for p in parents]
        order = one_sample_order(lpr, h)
        assert reference.respects(order, parents)
        assert reference.eauc(order, value) == reference.best_eauc(parents, value)
        assert paper.hierlpr(parent, value) == order
        assert paper.hierlpr_condensing(parent, value) == order
        assert paper.hierlpr_fast(parent, value) == order


def test_the_program_over_closed_sets_equals_all_permutations():
    rng = np.random.default_rng(3)
    for _ in range(60):
        h = hierarchy_of(random_forest(rng, 5))
        value, parents = by_number(h, random_lpr(rng, 5, True))
        expected = reference.best_eauc_by_permutation(parents, value)
        assert reference.best_eauc(parents, value) == expected


@pytest.mark.parametrize("ties", [False, True])
def test_consistent_scores_are_the_isotonic_regression(ties):
    rng = np.random.default_rng(5 + ties)
    for _ in range(60):
        h = hierarchy_of(random_forest(rng, int(rng.integers(1, 7))))
        lpr = reference.on_grid(random_lpr(rng, h.n_labels, ties))
        value, parents = by_number(h, lpr)
        expected = reference.isotonic_by_projection(parents, value)
        got = consistent_scores([lpr], h)[0]
        np.testing.assert_allclose(got[h.order], expected, rtol=0, atol=1e-12)


def test_many_samples_are_ranked_optimally_together():
    rng = np.random.default_rng(7)
    for _ in range(100):
        parent = random_forest(rng, 3)
        h = hierarchy_of(parent)
        lpr = reference.on_grid(rng.integers(0, 4, size=(3, 3)) / 3)
        r = rank(lpr, h)
        parents = [[m * 3 + p] if p >= 0 else [] for m in range(3) for p in parent]
        best = reference.best_eauc(parents, lpr.ravel())
        assert r.eauc() == pytest.approx(float(best), rel=1e-12)
        assert reference.respects((r.sample * 3 + r.label).tolist(), parents)


@pytest.mark.parametrize("ties", [False, True])
def test_weights_maximize_the_weighted_area(ties):
    rng = np.random.default_rng(11 + ties)
    for _ in range(150):
        h = hierarchy_of(random_forest(rng, int(rng.integers(1, 7))))
        lpr = reference.on_grid(random_lpr(rng, h.n_labels, ties))
        weight = rng.integers(0, 4, size=h.n_labels) * 0.5
        r = rank([lpr], h, weight=weight)
        value, parents = by_number(h, lpr * weight)
        best = reference.best_eauc(parents, value)
        assert r.eauc() == pytest.approx(float(best), rel=1e-12, abs=1e-12)
        assert reference.respects(h.position[r.label].tolist(), parents)
        assert np.all(np.diff(r.score) <= 0)


def test_algorithm_1_merges_chains():
    assert paper.chain_merge([[0, 1, 2], [3, 4]], [0.1, 0.9, 0.2, 0.6, 0.5]) == [3, 0, 1, 4, 2]


def test_breaking_points_part_a_chain_at_the_largest_running_means():
    assert paper.breaking_points([0, 1, 2, 3], [0.1, 0.9, 0.2, 0.4]) == [[0, 1], [2, 3]]


def test_algorithm_4_joins_across_the_seam():
    lpr = [0.9, 0.2, 0.8, 0.4]
    assert paper.agglomerate([[0], [1]], [[2], [3]], lpr) == [[0], [1, 2], [3]]
    assert paper.agglomerate([[0]], [], lpr) == [[0]]


def test_cssa_selects_the_last_supernode_by_the_fraction_left():
    # 0 -> 1 -> 2: the block {0, 1} of mean 0.5 costs 2, then {2} of 0.1.
    parent, lpr = [-1, 0, 1], [0.2, 0.8, 0.1]
    assert paper.cssa(parent, lpr, 2) == [1.0, 1.0, 0.0]
    assert paper.cssa(parent, lpr, 1) == [0.5, 0.5, 0.0]
    assert paper.cssa(parent, lpr, 2.5) == [1.0, 1.0, 0.5]
    assert paper.cssa(parent, lpr, 9) == [1.0, 1.0, 1.0]


def test_cssa_selects_whole_blocks_in_the_order_of_the_ranking():
    rng = np.random.default_rng(13)
    for _ in range(100):
        h = hierarchy_of(random_forest(rng, 6))
        lpr = reference.on_grid(rng.random(6))
        value, parents = by_number(h, lpr)
        parent = [p[0] if p else -1 for p in parents]
        r = rank([lpr], h)
        ends = np.flatnonzero(np.append(r.first[1:], True)) + 1
        for end in ends.tolist():
            whole = {i for i, s in enumerate(paper.cssa(parent, value, end)) if s == 1.0}
            assert whole == set(h.position[r.label[:end]].tolist())


def flow_balances(h, levels, group):
    """Whether the values above the group's mean can all pay for ancestors below it (scipy)."""
    size, total = group.size, int(levels[group].sum())
    spare = levels[group].astype(np.int64) * size - total
    place = {int(k): i for i, k in enumerate(group)}
    inside = [
        (place[h.index(c)], place[h.index(p)])
        for p, c in h.edges
        if h.index(c) in place and h.index(p) in place
    ]
    up = np.flatnonzero(spare > 0)
    down = np.flatnonzero(spare < 0)
    most = int(spare[up].sum())
    tail = [*(c for c, _ in inside), *([size] * up.size), *down]
    head = [*(p for _, p in inside), *up, *([size + 1] * down.size)]
    room = [*([most] * len(inside)), *spare[up], *-spare[down]]
    room, *ends = (np.array(column, dtype=np.int32) for column in (room, tail, head))
    graph = sparse.csr_array((room, tuple(ends)), shape=(size + 2, size + 2))
    return most == 0 or maximum_flow(graph, size, size + 1).flow_value == most


@pytest.mark.parametrize("seed", range(4))
def test_on_larger_dags_every_level_set_balances(seed):
    # Consistent scores whose level sets balance are the isotonic regression (its KKT conditions).
    rng = np.random.default_rng(seed)
    h = random_dag(rng, 300, density=0.012)
    levels = rng.integers(0, 17, size=300)
    score = consistent_scores([levels / 16], h)[0]
    assert len(h.violations([score])) == 0
    for value in np.unique(score):
        group = np.flatnonzero(score == value)
        assert levels[group].mean() / 16 == pytest.approx(value, abs=1e-12)
        assert flow_balances(h, levels, group)
    r = rank([levels / 16], h)
    assert order_violations_error(r.sample, r.label, h) == 0
