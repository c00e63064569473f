import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import binom

from hierlpr import Hierarchy
from hierlpr.cutoff.by_group import (
    cutoff_by_group,
    group_columns,
    label_groups,
    label_levels,
)
from hierlpr.cutoff.choose import goal_of
from hierlpr.cutoff.decisions import call_lists, decide
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.cutoff.scored import split_at_random
from hierlpr.exceptions import DataError

DIAMOND = Hierarchy([("A", "B"), ("A", "C"), ("B", "D"), ("C", "D")], labels=["D", "E", "A"])


def falling_scores(h, n_samples, rng):
    """Scores that never rise from parent to child, with many ties."""
    score = np.random.default_rng(rng).integers(1, 8, (n_samples, h.n_labels)) / 8
    for number in range(h.n_labels):
        above = h.parent_idx[h.parent_ptr[number] : h.parent_ptr[number + 1]]
        for parent in above:
            own, its = h.order[number], h.order[parent]
            score[:, own] = np.minimum(score[:, own], score[:, its])
    return score


@given(st.integers(0, 10_000), st.integers(1, 8), st.sampled_from([None, 1, 2, 4]))
@settings(max_examples=60, deadline=None)
def test_calls_are_closed_upward_and_the_same_dense_and_sparse(seed, eighths, most):
    score = falling_scores(DIAMOND, 12, seed)
    cutoff = Cutoff(eighths / 8, "precision", max_calls=most)
    calls = decide(score, cutoff, DIAMOND)
    assert len(DIAMOND.violations(calls)) == 0
    if most is None:
        np.testing.assert_array_equal(calls, score >= eighths / 8)
    else:
        assert calls.sum(1).max() <= most
    as_csr = decide(sparse.csr_array(score), cutoff, DIAMOND)
    assert as_csr.dtype == bool
    np.testing.assert_array_equal(as_csr.toarray(), calls)


@given(st.integers(0, 10_000), st.lists(st.integers(0, 8), min_size=3, max_size=3))
@settings(max_examples=60, deadline=None)
def test_levels_of_groups_keep_calls_closed_upward(seed, eighths):
    groups = tuple(label_groups(DIAMOND, "depth"))
    parts = {str(d + 1): Cutoff(e / 8, "f") for d, e in enumerate(eighths)}
    cutoff = Cutoff(np.inf, "f", groups=parts, label_groups=groups)
    score = falling_scores(DIAMOND, 12, seed)
    calls = decide(score, cutoff, DIAMOND)
    assert len(DIAMOND.violations(calls)) == 0
    np.testing.assert_array_equal(decide(sparse.csr_array(score), cutoff, DIAMOND).toarray(), calls)
    # Nothing more is withheld than what an ancestor's level withholds.
    level = dict(zip(DIAMOND.labels, label_levels(cutoff, DIAMOND), strict=True))
    for label in DIAMOND.labels:
        own = parts[groups[DIAMOND.index(label)]].level
        above = [parts[groups[DIAMOND.index(a)]].level for a in DIAMOND.ancestors(label)]
        assert level[label] == max([own, *above])


def test_an_empty_sample_and_an_infinite_level():
    score = np.array([[0.2, 0.2, 0.2, 0.2, 0.2]])
    assert not decide(score, Cutoff(np.inf, "precision"), DIAMOND).any()
    assert decide(sparse.csr_array((3, 5)), Cutoff(0.0, "f"), DIAMOND).nnz == 0


def test_call_lists_put_parents_first_even_on_ties():
    score = np.array([[0.5, 0.9, 0.5, 0.5, 0.5], [0.0, 0.1, 0.0, 0.0, 0.0]])
    calls = decide(score, Cutoff(0.5, "f"), DIAMOND)
    csr = sparse.csr_array(calls)
    for given_calls, given_score in [(calls, score), (csr, score), (csr, sparse.csr_array(score))]:
        lists = call_lists(given_calls, given_score, DIAMOND)
        assert [call.label for call in lists[0]] == ["E", "A", "B", "C", "D"]
        assert lists[0][0].score == 0.9
        assert lists[1] == ()


def test_groups_by_name():
    h = Hierarchy([("A", "B")], labels=["C"])
    assert label_groups(h, {"A": "x", "B": "x", "C": "y"}) == ("y", "x", "x")
    assert label_groups(h, ["p", "q", "r"]) == ("p", "q", "r")
    for bad, message in [
        ("size", "groups must be 'tree', 'depth'"),
        ({"A": "x"}, "no group for 'C', 'B'"),
        ({"A": "x", "B": "x", "C": "x", "Z": "x"}, "unknown labels in groups: 'Z'"),
        (["p"], "1 entries, but there are 3 labels"),
    ]:
        with pytest.raises(DataError, match=message):
            label_groups(h, bad)


def test_each_group_meets_its_own_target():
    h = Hierarchy([("A", "B")], labels=["C"])
    rng = np.random.default_rng(0)
    score = np.sort(rng.random((3000, 3)), axis=1)[:, [0, 2, 1]]
    truth = rng.random((3000, 3)) < score * [0.9, 1.0, 1.0]
    truth[:, 2] &= truth[:, 1]
    cutoff = cutoff_by_group(goal_of(precision=0.7), score, truth, h, "tree")
    assert list(cutoff.groups) == ["C", "A"]
    assert cutoff.reachable
    calls = decide(score, cutoff, h)
    assert truth[:, 0][calls[:, 0]].mean() >= 0.7
    assert truth[:, 1:][calls[:, 1:]].mean() >= 0.7
    assert str(cutoff).count("Precision of at least 70 %") == 2
    assert Cutoff.from_dict(cutoff.to_dict()) == cutoff


def test_guarantees_for_groups_need_unconnected_groups():
    h = Hierarchy([("A", "B")], labels=["C"])
    rng = np.random.default_rng(1)
    score = np.sort(rng.random((2000, 3)), axis=1)[:, [0, 2, 1]]
    truth = rng.random((2000, 3)) < score
    goal = goal_of(precision=0.7, confidence=0.9)
    with pytest.raises(DataError, match=r"must not be joined by edges.*'A' \(group '1'\) -> 'B'"):
        cutoff_by_group(goal, score, truth, h, "depth")
    planning, rest = split_at_random(score, truth)
    assert (planning[0].shape[0], rest[0].shape[0]) == (667, 1333)
    cutoff = cutoff_by_group(goal, *rest, h, "tree", planning=planning)
    assert cutoff.groups["A"].reachable
    assert cutoff.groups["A"].precision > 0.7


def wrong_groups(n_runs, promise):
    """Runs in which one of 30 groups is certified at a level where 69.9 % are right, not 70 %."""
    h = Hierarchy(labels=[f"L{j}" for j in range(30)])
    goal = goal_of(precision=0.7, confidence=0.8)
    wrong = 0
    for run in range(n_runs):
        rng = np.random.default_rng([5, run])

        def drawn(n, rng=rng):
            score = np.where(rng.random((n, 30)) < 0.5, 0.9, 0.5)
            return score, rng.random((n, 30)) < np.where(score > 0.6, 0.9, 0.498)

        cutoff = cutoff_by_group(goal, *drawn(200), h, "tree", planning=drawn(400), promise=promise)
        wrong += any(part.reachable and part.level <= 0.5 for part in cutoff.groups.values())
    return wrong


def test_a_promise_for_groups_holds_for_all_at_once_unless_each_is_asked_for():
    runs = 25
    assert wrong_groups(runs, "together") <= binom.isf(0.001, runs, 0.2)
    assert wrong_groups(runs, "each") > 0.5 * runs


def test_the_words_say_what_is_promised_for_groups():
    h = Hierarchy(labels=["A", "B"])
    rng = np.random.default_rng(6)
    score = rng.random((600, 2))
    truth = rng.random((600, 2)) < score**0.2
    goal = goal_of(fdr=0.3, confidence=0.9)
    options = {"planning": (score[:200], truth[:200])}
    both = cutoff_by_group(goal, score[200:], truth[200:], h, "tree", **options)
    assert both.promise == both.to_dict()["promise"] == "together"
    assert str(both).startswith("All 2 groups at once keep what is said of them, with 90 % confid")
    assert both.groups["A"].confidence == pytest.approx(0.95)
    assert "FDR of at most 30 % with 95 % confidence" in str(both)
    each = cutoff_by_group(goal, score[200:], truth[200:], h, "tree", promise="each", **options)
    assert "Each of 2 groups keeps what is said of it with 90 % confidence, by itself" in str(each)
    assert each.groups["A"].confidence == 0.9
    assert Cutoff.from_dict(each.to_dict()) == each
    with pytest.raises(DataError, match="promise"):
        cutoff_by_group(goal, score, truth, h, "tree", promise="all", **options)


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_groups_count_the_calls_that_are_made(seed):
    rng = np.random.default_rng(seed)
    score = falling_scores(DIAMOND, 40, seed)
    truth = rng.random(score.shape) < score
    options = [{"maximize": "f1"}, {"precision": 0.6}]
    for goal in options:
        cutoff = cutoff_by_group(goal_of(**goal), score, truth, DIAMOND, "depth")
        calls = decide(score, cutoff, DIAMOND)
        for group, columns in group_columns(cutoff.label_groups).items():
            part = cutoff.groups[group]
            assert part.n_calls == calls[:, columns].sum()
            assert part.n_true_calls == (calls & truth)[:, columns].sum()
            if part.reachable and part.target and part.n_calls and part.precision < 0.6:
                assert "wait for their ancestors" in part.shaky


def test_wrong_width():
    with pytest.raises(DataError, match=r"expected \(n_samples, 5\)"):
        decide(np.zeros((2, 3)), Cutoff(0.5, "f"), DIAMOND)
