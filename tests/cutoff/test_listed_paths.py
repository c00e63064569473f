"""Paths of listed scores against a slow walk, and the share of wrong names."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from hierlpr import Hierarchy, baselines, simulate
from hierlpr.cutoff.set_values import by_cost, likely_paths, path_values
from hierlpr.cutoff.sets import choose_path_rule, path_sets, trusted_entries

TREE = Hierarchy([("a", "b"), ("a", "c"), ("b", "d"), ("b", "e"), ("f", "g")])


def walk(row):
    """Follow the largest listed score from the roots down; ties go to the first label."""
    path, below = [], TREE.roots
    while True:
        listed = [x for x in below if x in row]
        if not listed:
            return path
        path.append(max(listed, key=lambda x: (row[x], -TREE.labels.index(x))))
        below = TREE.children(path[-1])


rows = st.lists(
    st.dictionaries(st.sampled_from(TREE.labels), st.sampled_from([0.25, 0.5, 0.75])), max_size=5
)


@given(rows)
def test_paths_are_those_of_a_walk(given_rows):
    entries = [(i, TREE.labels.index(k), v) for i, x in enumerate(given_rows) for k, v in x.items()]
    i, k, v = (np.array(x) for x in zip(*entries, strict=True)) if entries else ([], [], [])
    matrix = sparse.csr_array((v, (i, k)), shape=(len(given_rows), TREE.n_labels), dtype=float)
    paths = likely_paths(matrix, TREE)
    found = [[] for _ in given_rows]
    for sample, label in zip(paths.sample, paths.label, strict=True):
        found[sample].append(TREE.labels[label])
    assert found == [walk(x) for x in given_rows]
    last = paths.last(paths.chance >= 0.5, len(given_rows))
    for sample, entry in enumerate(last):
        likely = [x for x in found[sample] if given_rows[sample][x] >= 0.5]
        assert (TREE.labels[paths.label[entry]] if entry >= 0 else None) == (likely or [None])[-1]


def test_values_are_those_of_complete_scores():
    rng = np.random.default_rng(0)
    chain = Hierarchy([("a", "b"), ("b", "c"), ("c", "d")])
    chance = -np.sort(-rng.random((200, 4)), axis=1)
    paths = likely_paths(chance, chain)
    expected = by_cost(chance, np.tile(np.arange(4), (200, 1)), 0.6)
    found = path_values(paths, 200, 0.6).reshape(200, 4)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert (np.diff(found, axis=1) <= 0).all()


def draw(n, rng):
    """Draw chances of a path of four labels, and how many of them hold."""
    chain = Hierarchy([("a", "b"), ("b", "c"), ("c", "d")])
    keep = rng.choice([0.6, 0.8, 0.95, 1.0], (n, 4))
    chance = np.cumprod(keep, axis=1)
    truth = np.cumprod(rng.random((n, 4)) < keep, axis=1).astype(bool)
    return chain, chance, truth


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_few_samples_get_a_wrong_name(confidence):
    rng = np.random.default_rng(1)
    shares = []
    for _ in range(300):
        chain, chance, truth = draw(160, rng)
        first = likely_paths(chance[:60], chain)
        rule = choose_path_rule(
            first, sparse.csr_array(truth[:60]), error=0.2, confidence=confidence, floor=0.5
        )
        paths = likely_paths(chance[60:], chain)
        entry = trusted_entries(paths, 100, rule)
        label = np.where(entry >= 0, paths.label[entry], 0)
        shares.append(np.mean((entry >= 0) & ~truth[60:][np.arange(100), label]))
        assert rule.sure_error <= 0.2
    if confidence is None:
        error = np.std(shares) / np.sqrt(len(shares))
        assert 0.1 < np.mean(shares) <= 0.2 + 3 * error
    else:
        above = np.mean(np.array(shares) > 0.2 + 0.08)  # 100 new samples are noisy themselves
        assert above <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 300)


def test_too_few_samples_trust_nothing():
    chain, chance, truth = draw(8, np.random.default_rng(2))
    paths = likely_paths(chance, chain)
    rule = choose_path_rule(paths, truth, error=0.1, confidence=None, floor=0.5)
    assert rule.sure_level is None
    assert (trusted_entries(paths, 8, rule) == -1).all()


@pytest.mark.parametrize("seed", range(6))
def test_sets_of_listed_paths_hold_as_often_as_promised(seed):
    """Each of n + 1 exchangeable samples is the new one equally often; truth may end anywhere."""
    rng = np.random.default_rng([8, seed])
    h = simulate.random_tree(12, rng=seed)
    n = 30
    ends = rng.integers(0, 12, n)
    truth = np.zeros((n, 12), dtype=bool)
    truth[np.arange(n), ends] = True
    truth = np.asarray(h.close_upward(truth))
    guess = np.where(rng.random(n) < 0.7, ends, rng.integers(0, 12, n))
    listed = np.zeros((n, 12))
    listed[np.arange(n), guess] = np.ceil(rng.random(n) * 4) / 4  # many ties
    score = sparse.csr_array(np.asarray(baselines.propagate_max(listed, h)))
    wrong = missed = 0
    for i in range(n):
        rest = np.arange(n) != i
        rule = choose_path_rule(
            likely_paths(score[rest], h), truth[rest], error=0.2, confidence=None, floor=0.5
        )
        sets = path_sets(likely_paths(score[[i]], h), 1, h, rule)
        sure, possible = sets.sure.toarray(), sets.possible.toarray()
        assert not h.violations(sure)
        assert not h.violations(possible)
        assert not (sure & ~possible).any()
        wrong += bool((sure & ~truth[i]).any())
        missed += bool((truth[i] & ~possible).any())
        (branch,), open_labels = sets.branches(h)[0]
        deepest = h.labels[int(np.where(sure[0], h.levels, 0).argmax())]
        assert branch in (deepest, *h.ancestors(deepest)) if sure.any() else branch == h.roots[0]
        assert set(open_labels) == set(h.ancestors(branch))
    assert wrong <= 0.2 * n
    assert missed <= 0.2 * n
