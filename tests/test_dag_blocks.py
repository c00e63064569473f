"""Blocks and rankings on DAGs: brute force, an independent solver, forests, ties, hard shapes."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse
from scipy.optimize import lsq_linear

import reference
from cases import by_number, hierarchy_of, random_dag, random_dag_lpr, random_forest, scored_dags
from hierlpr import Hierarchy, consistent_scores, rank
from hierlpr._kernels import dag_blocks
from hierlpr._kernels.dag_blocks import dag_keys, dag_scores
from hierlpr._kernels.filing import END, Filed
from hierlpr._kernels.forest_blocks import forest_keys, forest_scores
from hierlpr._kernels.keys import LONG, key_bits
from hierlpr._kernels.layout import Dag, Forest, Rows
from hierlpr.ranking import blocks

N_DAGS = 2160
KINDS = ("uniform", "decaying", "sparse")


def breaches(ranking, h, n_samples):
    """How many edges of all samples have the child, or it alone, before the parent."""
    place = np.full((n_samples, h.n_labels), len(ranking) + 1)
    place[ranking.sample, ranking.label] = np.arange(len(ranking))
    edges = np.array([(h.index(p), h.index(c)) for p, c in h.edges], dtype=int).reshape(-1, 2)
    return int(np.count_nonzero(place[:, edges[:, 0]] > place[:, edges[:, 1]]))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_rank_equals_brute_force(kind, ties):
    rng = np.random.default_rng([KINDS.index(kind), ties])
    for _ in range(N_DAGS // 6):
        h = random_dag(rng, int(rng.integers(2, 9)))
        lpr = reference.on_grid(random_dag_lpr(rng, h, kind, ties))
        r = rank([lpr], h, n_threads=1)
        order = h.position[r.label].tolist()
        value, parents = by_number(h, lpr)
        assert sorted(order) == list(range(h.n_labels))
        assert reference.respects(order, parents)
        assert r.certified.all()
        assert r.eauc_gap() == 0.0
        assert reference.eauc(order, value) == reference.best_eauc(parents, value)
        np.testing.assert_array_equal(r.score, consistent_scores([lpr], h)[0][r.label])


@pytest.mark.parametrize("ties", [False, True])
def test_consistent_scores_equal_an_independent_solver(ties):
    # min |s - v|^2 with s_child <= s_parent; its dual is a nonnegative least-squares problem.
    rng = np.random.default_rng(20 + ties)
    for _ in range(120):
        n = int(rng.integers(2, 40))
        h = random_dag(rng, n, density=min(0.8, 3.0 * rng.random() / n))
        lpr = reference.on_grid(random_dag_lpr(rng, h, KINDS[int(rng.integers(3))], ties))
        breach = np.zeros((h.n_edges, n))
        for e, (p, c) in enumerate(h.edges):
            breach[e, h.index(p)], breach[e, h.index(c)] = -1.0, 1.0
        if h.n_edges == 0:
            continue
        solved = lsq_linear(breach.T, lpr, bounds=(0.0, np.inf), method="bvls", tol=1e-14)
        expected = lpr - breach.T @ solved.x
        np.testing.assert_allclose(consistent_scores([lpr], h)[0], expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("ties", [False, True])
def test_on_tiny_dags_scores_equal_the_minimax_formula(ties):
    rng = np.random.default_rng(30 + ties)
    for _ in range(60):
        h = random_dag(rng, int(rng.integers(1, 7)))
        lpr = reference.on_grid(random_dag_lpr(rng, h, "uniform", ties))
        expected = reference.isotonic_by_projection(*by_number(h, lpr)[::-1])
        got = consistent_scores([lpr], h)[0][h.order]
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


def blocks_in(filed):
    """Blocks of one range by key: the nodes called after the first."""
    words = filed.words[: filed.end[0]].tolist()
    found = {}
    while words:
        key = words.pop(0)
        nodes, size = [], key & LONG
        while size == LONG or len(nodes) < size - 1:
            pair = words.pop(0)
            nodes += [pair & END, pair >> 32]
            if END in nodes:
                break
        nodes = nodes[: nodes.index(END)] if size == LONG else nodes[: size - 1]
        found[key] = nodes
    return found


@pytest.mark.parametrize("ties", [False, True])
def test_on_forests_the_kernel_for_dags_gives_the_same_bits(ties):
    rng = np.random.default_rng(40 + ties)
    for _ in range(150):
        h = hierarchy_of(random_forest(rng, int(rng.integers(1, 60))))
        n, n_samples = h.n_labels, 3
        levels = int(rng.choice([2, 4, 9])) if ties else 2**30
        values = rng.integers(0, levels + 1, size=n_samples * n) / levels
        row_ptr = np.arange(n_samples + 1, dtype=np.int64) * n
        parent = np.full(n, -1, dtype=np.int32)
        parent[np.diff(h.parent_ptr) == 1] = h.parent_idx
        rows = Rows(values, row_ptr, h.order, np.empty(0, dtype=np.int32), 2.0**30)
        forest = Forest(parent, True)
        dag = Dag(h.parent_ptr.astype(np.int64), h.parent_idx, True)
        bits = key_bits(n, n_samples)
        filed = [Filed.empty(values.size, np.zeros(2, np.int32), 63) for _ in range(2)]
        forest_keys(rows, forest, 0, n_samples, bits, filed[0])
        lacking = dag_keys(rows, dag, 0, n_samples, bits, 100, filed[1])
        assert lacking.lack.size == 0
        assert blocks_in(filed[0]) == blocks_in(filed[1])
        assert sum(1 + len(nodes) for nodes in blocks_in(filed[0]).values()) == values.size
        score, dag_score = np.empty(values.size), np.empty(values.size)
        forest_scores(rows, forest, 0, n_samples, score)
        dag_scores(rows, dag, 0, n_samples, dag_score)
        np.testing.assert_array_equal(score, dag_score)


@settings(max_examples=60)
@given(scored_dags())
def test_samples_together_are_ranked_best_whatever_the_layout(case):
    h, lpr = case
    r = rank(lpr, h, n_threads=1)
    assert breaches(r, h, len(lpr)) == 0
    assert np.all(np.diff(r.score) <= 0)
    two = rank(lpr, h, n_threads=2)
    np.testing.assert_array_equal(r.sample * 100 + r.label, two.sample * 100 + two.label)
    # Absent means 0 in sparse input: the same calls in the same order while scores are positive.
    listed = rank(sparse.csr_array(lpr), h)
    assert breaches(listed, h, len(lpr)) == 0
    n = int(np.count_nonzero(r.score > 0))
    assert int(np.count_nonzero(listed.score > 0)) == n
    np.testing.assert_array_equal(
        listed.sample[:n] * 100 + listed.label[:n], (r.sample * 100 + r.label)[:n]
    )
    assert len(h.violations(consistent_scores(lpr, h))) == 0


def test_many_ties_on_larger_dags_never_break_an_edge():
    rng = np.random.default_rng(50)
    for trial in range(80):
        h = random_dag(rng, int(rng.integers(10, 70)), density=0.08)
        lpr = rng.integers(0, 3 + trial % 4, size=(4, h.n_labels)) / 8
        r = rank(lpr, h)
        assert breaches(r, h, 4) == 0
        np.testing.assert_array_equal(r.score, consistent_scores(lpr, h)[r.sample, r.label])


def test_blocks_of_equal_mean_are_joined_where_numbers_would_mislead():
    rng = np.random.default_rng(60)
    joined = 0
    for _ in range(400):
        h = random_dag(rng, 9, density=0.3)
        lpr = rng.integers(0, 3, size=(1, 9)) / 2
        r = rank(lpr, h)
        assert breaches(r, h, 1) == 0
        value, parents = by_number(h, lpr[0])
        order = h.position[r.label].tolist()
        assert reference.eauc(order, value) == reference.best_eauc(parents, value)
        starts = [order[k] for k in np.flatnonzero(r.first)]
        tied = np.flatnonzero(np.diff(r.block_score) == 0)
        assert all(starts[k] < starts[k + 1] for k in tied)
        # Only a joined block has a proper part at its beginning with the mean of the whole.
        for part in np.split(r.lpr, np.flatnonzero(r.first)[1:]):
            running = np.cumsum(part)[:-1] * part.size
            joined += bool(np.any(running == part.sum() * np.arange(1, part.size)))
    assert joined > 5


def test_without_the_exact_search_the_bound_holds(monkeypatch):
    monkeypatch.setattr(blocks, "STATE_CAP", 1)
    rng = np.random.default_rng(70)
    n_open = 0
    for trial in range(300):
        h = random_dag(rng, 8, density=0.35)
        lpr = reference.on_grid(random_dag_lpr(rng, h, "uniform", trial % 2 == 0))
        r = rank([lpr], h)
        value, parents = by_number(h, lpr)
        order = h.position[r.label].tolist()
        assert reference.respects(order, parents)
        missing = float(reference.best_eauc(parents, value) - reference.eauc(order, value))
        assert -1e-12 <= missing <= r.eauc_gap() + 1e-9
        assert (r.eauc_gap() == 0.0) >= r.certified.all()
        n_open += int(np.count_nonzero(~r.certified))
    assert n_open > 20


def test_weights_on_dags():
    rng = np.random.default_rng(80)
    for _ in range(100):
        h = random_dag(rng, 6)
        lpr = reference.on_grid(rng.integers(0, 5, size=6) / 4)
        weight = rng.integers(0, 4, size=6) * 0.5
        r = rank([lpr], h, weight=weight)
        value, parents = by_number(h, lpr * weight)
        assert reference.respects(h.position[r.label].tolist(), parents)
        best = float(reference.best_eauc(parents, value))
        assert r.eauc() == pytest.approx(best, rel=1e-12, abs=1e-12)


def test_a_slice_keeps_the_certificates_of_its_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "STATE_CAP", 1)
    h = random_dag(np.random.default_rng(3), 40, density=0.1)
    r = rank(np.random.default_rng(4).random((6, 40)), h)
    assert np.count_nonzero(~r.certified) > 0
    half = r[:120]
    np.testing.assert_array_equal(half.certified, r.certified[: half.certified.size])
    assert r[:120].eauc_gap() <= r.eauc_gap()
    top = rank(np.random.default_rng(4).random((6, 40)), h, top=120)
    np.testing.assert_array_equal(top.certified, half.certified)


def diamond(width):
    middle = [f"m{i}" for i in range(width)]
    return Hierarchy([("top", m) for m in middle] + [(m, "bottom") for m in middle])


def ladder(length):
    rungs = [(f"a{i}", f"b{i}") for i in range(length)]
    rails = [(f"{x}{i}", f"{x}{i + 1}") for x in "ab" for i in range(length - 1)]
    return Hierarchy(rungs + rails)


def grid(side):
    right = [(f"{i},{j}", f"{i},{j + 1}") for i in range(side) for j in range(side - 1)]
    down = [(f"{i},{j}", f"{i + 1},{j}") for i in range(side - 1) for j in range(side)]
    return Hierarchy(right + down)


def bipartite(width):
    return Hierarchy([(f"p{i}", f"c{j}") for i in range(width) for j in range(width)])


def found(monkeypatch, lpr, h, *, patience):
    """Scores, and calls and blocks of the ranking, if pooling may go on for so long."""
    monkeypatch.setattr(dag_blocks, "PATIENCE", patience)
    r = rank(lpr, h, n_threads=1)
    ranked = r.sample * h.n_labels + r.label
    return consistent_scores(lpr, h, n_threads=1), ranked, r.first, r.certified


@pytest.mark.parametrize("steps", [1, 4, 1 << 30])
def test_pooled_blocks_are_those_of_minimum_cuts(monkeypatch, steps):
    rng = np.random.default_rng(steps)
    random = [random_dag(rng, int(n), density=2.5 / n) for n in rng.integers(5, 80, 120)]
    for h in (*random, ladder(40), grid(9), bipartite(6), diamond(30)):
        rising = h.levels / h.levels.max() * rng.random()
        lpr = np.rint(np.clip(rng.random((4, h.n_labels)) + rising, 0, 1) * steps) / steps
        cut = found(monkeypatch, lpr, h, patience=0)
        for patience in (1, 4, 1000):  # given up at the beginning, on the way, or not at all
            for one, other in zip(found(monkeypatch, lpr, h, patience=patience), cut, strict=True):
                np.testing.assert_array_equal(one, other)


def test_blocks_of_equal_mean_that_need_each_other_are_one():
    # B pays for A and D for C, as the values say; but B needs C as well, and D needs A.
    h = Hierarchy([("A", "B"), ("C", "B"), ("C", "D"), ("A", "D")])
    for lpr in ([0.0, 1.0, 0.0, 1.0], [0.25, 0.5, 0.25, 0.5]):
        r = rank([lpr], h)
        assert np.count_nonzero(r.first) == 1
        assert r.certified.tolist() == [True]


def test_a_block_of_more_nodes_than_pooling_tells_apart_is_cut():
    h = ladder(35_000)
    lpr = h.levels / (2.0 * h.levels.max())
    np.testing.assert_allclose(consistent_scores([lpr], h)[0], lpr.mean(), rtol=0, atol=1e-9)


def test_a_wide_diamond_is_one_certified_block_and_singles():
    h = diamond(3000)
    lpr = np.random.default_rng(90).random((1, h.n_labels)) * 0.5
    lpr[0, h.index("top")], lpr[0, h.index("bottom")] = 0.0, 1.0
    r = rank(lpr, h)
    assert r.certified.all()
    assert breaches(r, h, 1) == 0


def test_complete_bipartite_200_by_200_is_certified():
    h = bipartite(200)
    low = np.array([name[0] == "p" for name in h.labels])
    lpr = np.random.default_rng(91).random((2, 400)) * 0.1 + np.where(low, 0.0, 0.8)
    r = rank(lpr, h)
    assert r.certified.tolist() == [True, True]
    assert breaches(r, h, 2) == 0


@pytest.mark.parametrize("h", [ladder(5000), grid(60)], ids=["ladder", "grid"])
def test_long_ladders_and_grids_are_ranked_and_bounded(h):
    rng = np.random.default_rng(92)
    rising = h.levels / h.levels.max()
    for lpr in (rng.random((1, h.n_labels)), rising[None] * 0.9 + 0.1 * rng.random(h.n_labels)):
        r = rank(lpr, h)
        assert breaches(r, h, 1) == 0
        assert 0.0 <= r.eauc_gap() < 0.3 * r.eauc()
        assert r.certified.all() == (r.eauc_gap() == 0.0)
