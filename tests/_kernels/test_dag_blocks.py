"""Blocks and rankings on DAGs: brute force, an independent solver, forests, ties, hard shapes."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse
from scipy.optimize import lsq_linear

import reference
from cases import by_number, hierarchy_of, random_dag, random_dag_lpr, random_forest, scored_dags
from hierlpr import Hierarchy, consistent_scores, rank
from hierlpr._kernels import block_order, dag_blocks
from hierlpr._kernels.forest_blocks import forest_blocks

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
        r = rank([lpr], h, n_jobs=1)
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
def test_dags_and_forests_give_the_same_blocks_on_forests(ties):
    rng = np.random.default_rng(40 + ties)
    for _ in range(150):
        h = hierarchy_of(random_forest(rng, int(rng.integers(1, 60))))
        n, n_samples = h.n_labels, 3
        value = rng.integers(0, (4 if ties else 2**30) + 1, size=n_samples * n).astype(float)
        row_ptr = np.arange(n_samples + 1) * n
        parent = np.full(n, -1, dtype=np.int32)
        parent[np.diff(h.parent_ptr) == 1] = h.parent_idx
        next_node, count = np.empty((2, value.size), dtype=np.int32)
        mean = np.empty(value.size)
        forest_blocks(value, row_ptr, parent, True, next_node, count, mean)
        parents = np.tile(parent, n_samples) + np.repeat(row_ptr[:-1], n)
        has_parent = np.tile(parent, n_samples) >= 0
        up_ptr = np.append(0, np.cumsum(has_parent))
        up_idx = parents[has_parent].astype(np.int32)
        found = dag_blocks.dag_blocks(value, row_ptr, up_ptr, up_idx, order=True)
        np.testing.assert_array_equal(found[0], next_node)
        np.testing.assert_array_equal(found[1], count)
        np.testing.assert_array_equal(found[2], mean)
        assert found[3].size == 0


@settings(max_examples=60)
@given(scored_dags())
def test_samples_together_are_ranked_best_whatever_the_layout(case):
    h, lpr = case
    r = rank(lpr, h, n_jobs=1)
    assert breaches(r, h, len(lpr)) == 0
    assert np.all(np.diff(r.score) <= 0)
    two = rank(lpr, h, n_jobs=2)
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
    monkeypatch.setattr(block_order, "STATE_CAP", 1)
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


def test_a_slice_keeps_the_certificates_of_its_blocks(monkeypatch):
    monkeypatch.setattr(block_order, "STATE_CAP", 1)
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


def test_a_long_ladder_that_is_one_block_has_its_mean():
    h = ladder(10_000)
    lpr = h.levels / (2.0 * h.levels.max())
    np.testing.assert_allclose(consistent_scores([lpr], h)[0], lpr.mean(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("h", [diamond(62), bipartite(32)], ids=["diamond", "bipartite"])
def test_wide_blocks_of_up_to_64_labels_are_certified(h):
    low = np.array([name == "top" or name[0] == "p" for name in h.labels])
    high = np.array([name == "bottom" or name[0] == "c" for name in h.labels])
    lpr = 0.1 * np.random.default_rng(90).random((2, h.n_labels)) + 0.3
    r = rank(lpr + 0.5 * high - 0.3 * low, h)
    assert r.certified.all()
    assert np.bincount(np.cumsum(r.first)).max() > 20
    assert breaches(r, h, 2) == 0


@pytest.mark.parametrize(
    "h",
    [ladder(5000), grid(60), diamond(400), bipartite(200)],
    ids=["ladder", "grid", "diamond", "bipartite"],
)
def test_large_blocks_are_ranked_and_bounded(h):
    rng = np.random.default_rng(92)
    rising = h.levels / h.levels.max()
    for lpr in (rng.random((1, h.n_labels)), rising[None] * 0.9 + 0.1 * rng.random(h.n_labels)):
        r = rank(lpr, h)
        assert breaches(r, h, 1) == 0
        assert 0.0 <= r.eauc_gap() < 0.3 * r.eauc()
        assert r.certified.all() == (r.eauc_gap() == 0.0)


def test_values_that_rise_with_depth_on_a_large_dag_meet_in_few_blocks():
    # Blocks of half of the labels: slow unless large gaps are pooled first.
    rng = np.random.default_rng(93)
    parents = [rng.integers(0, i, 2).tolist() for i in range(1, 20_000)]
    h = Hierarchy(
        sorted({(f"L{p}", f"L{i + 1}") for i, above in enumerate(parents) for p in above})
    )
    lpr = (0.9 * h.levels / h.levels.max() + 0.1 * rng.random(h.n_labels))[None]
    scores = consistent_scores(lpr, h)
    assert len(h.violations(scores)) == 0
    assert scores.mean() == pytest.approx(lpr.mean(), abs=1e-9)
    assert np.sum(scores * (lpr - scores)) == pytest.approx(0.0, abs=1e-6)
