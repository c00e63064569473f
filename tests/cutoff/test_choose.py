import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from scipy.stats import binom

import reference_certify as twin
from cases import DIAMOND, choose_cutoff, falling_scores
from hierlpr import Hierarchy
from hierlpr.cutoff.choose import cutoff_by_group, cutoff_on, group_tests
from hierlpr.cutoff.decisions import decide, group_columns, label_groups, label_levels
from hierlpr.cutoff.goal import Goal, goals_of
from hierlpr.cutoff.instances import split_at_random
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.exceptions import DataError


@st.composite
def scored(draw):
    """Scores on a coarse grid, so that most of them tie."""
    shape = draw(st.tuples(st.integers(1, 8), st.integers(1, 4)))
    score = draw(hnp.arrays(np.float64, shape, elements=st.integers(0, 6).map(lambda k: k / 6)))
    truth = draw(hnp.arrays(bool, shape))
    return score, truth


def slow_levels(score, truth):
    """Every level with its calls, right calls and calling samples, counted one by one."""
    for level in sorted(set(score.ravel().tolist()), reverse=True):
        called = score >= level
        yield level, int(called.sum()), int((called & truth).sum()), int(called.any(1).sum())


@given(scored(), st.sampled_from([0.5, 0.75, 0.8, 0.9]))
def test_precision_cutoffs_match_counting_level_by_level(case, target):
    score, truth = case
    table = list(slow_levels(score, truth))
    rows = [row for row in table if row[2] >= target * (row[1] + row[1] / row[3]) - 1e-9]
    cutoff = choose_cutoff(score, truth, precision=target)
    assert cutoff.reachable == bool(rows)
    best = max(hits / (calls + calls / calling) for _, calls, hits, calling in table)
    assert cutoff.result.best_precision == pytest.approx(best)
    if rows:
        level, calls, hits, _ = rows[-1]
        assert (cutoff.level, cutoff.n_calls, cutoff.result.n_true_calls) == (level, calls, hits)
        assert cutoff.precision == pytest.approx(hits / calls)
        assert cutoff.precision >= target - 1e-9


@given(scored(), st.sampled_from([0.5, 1.0, 2.0]))
def test_max_f_is_the_middle_of_the_levels_near_the_largest(case, beta):
    score, truth = case
    b2 = beta**2
    table = [
        ((1 + b2) * h / (n + b2 * truth.sum()), n, level)
        for level, n, h, _ in slow_levels(score, truth)
    ]
    best, calls, _ = max(table, key=lambda row: (row[0], -row[1]))
    near = [row for row in table if row[0] >= best - 0.5 * math.sqrt(best * (1 - best) / calls)]
    cutoff = choose_cutoff(score, truth, maximize=f"f{beta}")
    assert cutoff.level == near[len(near) // 2][2]
    assert cutoff.f == pytest.approx(near[len(near) // 2][0])
    assert cutoff.reachable


@given(scored(), st.permutations(range(8)))
def test_the_order_of_the_samples_does_not_matter(case, order):
    score, truth = case
    rows = [i for i in order if i < score.shape[0]]
    assert choose_cutoff(score, truth, fdr=0.3) == choose_cutoff(score[rows], truth[rows], fdr=0.3)


@given(scored())
def test_sparse_scores_give_the_cutoff_of_dense_ones_with_positive_scores(case):
    score, truth = case
    score = score + 0.1
    dense = choose_cutoff(score, truth, precision=0.7)
    assert choose_cutoff(sparse.csr_array(score), truth, precision=0.7) == dense
    assert choose_cutoff(sparse.csr_array(score), sparse.csr_array(truth), precision=0.7) == dense


def test_an_unreachable_target_comes_as_close_as_possible_or_calls_nothing():
    rng = np.random.default_rng(0)
    score = rng.random((400, 2))
    truth = rng.random((400, 2)) < 0.7 * score
    close = choose_cutoff(score, truth, precision=0.9)
    assert not close.reachable
    again = choose_cutoff(score, truth, precision=close.result.best_precision)
    assert again.reachable
    assert (close.level, close.n_calls) == (again.level, again.n_calls)
    assert close.precision >= close.result.best_precision
    assert "In use instead: that level" in close.reason
    nothing = choose_cutoff(score, truth, precision=0.9, unreachable="nothing")
    assert nothing.level == math.inf
    assert (nothing.n_calls, nothing.precision) == (0, None)
    assert "Nothing is called" in nothing.reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of precision=, fdr= and maximize=; got none"),
        ({"precision": 0.9, "fdr": 0.1}, "got precision and fdr"),
        ({"precision": 1.0}, "precision must lie strictly between 0 and 1"),
        ({"fdr": "x"}, "fdr must be a number"),
        ({"maximize": "auc"}, "maximize must name an F-measure"),
        ({"maximize": "f0"}, "beta > 0"),
        ({"maximize": "f1", "confidence": 0.9}, "no guarantee for F"),
        ({"precision": 0.9, "confidence": 1.5}, "confidence must lie strictly"),
    ],
)
def test_goals_that_make_no_sense(options, message):
    with pytest.raises(DataError, match=message):
        goals_of(**options)


def test_bad_data():
    with pytest.raises(DataError, match="No instance to choose a cutoff from"):
        choose_cutoff(np.empty((0, 3)), np.empty((0, 3)), precision=0.9)
    with pytest.raises(DataError, match="unreachable must be one of"):
        choose_cutoff([[0.1]], [[1]], precision=0.9, unreachable="max-f")


@given(st.integers(0, 10_000), st.lists(st.integers(0, 8), min_size=3, max_size=3))
@settings(max_examples=60, deadline=None)
def test_levels_of_groups_keep_calls_closed_upward(seed, eighths):
    groups = tuple(label_groups(DIAMOND, "depth"))
    parts = {str(d + 1): Cutoff(e / 8, Goal("f")) for d, e in enumerate(eighths)}
    cutoff = Cutoff(np.inf, Goal("f"), groups=parts, label_groups=groups)
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


def test_groups_by_name():
    h = Hierarchy([("A", "B")], labels=["C"])
    assert label_groups(h, {"A": "x", "B": "x", "C": "y"}) == ("y", "x", "x")
    for bad, message in [
        ("size", "groups must be 'tree', 'depth'"),
        ({"A": "x"}, "no group for 'C', 'B'"),
        ({"A": "x", "B": "x", "C": "x", "Z": "x"}, "unknown labels in groups: 'Z'"),
        (np.array(["p", "q", "r"]), "a mapping from labels to groups; got"),
    ]:
        with pytest.raises(DataError, match=message):
            label_groups(h, bad)


def test_a_certificate_holds_for_all_groups_simultaneously():
    """Seldom is one of 30 groups certified at a level where 69.9 % are right, not 70 %."""
    h = Hierarchy(labels=[f"L{j}" for j in range(30)])
    (goal,) = goals_of(precision=0.7, confidence=0.8)
    wrong, runs = 0, 25
    for run in range(runs):
        rng = np.random.default_rng([5, run])

        def drawn(n, rng=rng):
            score = np.where(rng.random((n, 30)) < 0.5, 0.9, 0.5)
            return score, rng.random((n, 30)) < np.where(score > 0.6, 0.9, 0.498)

        cutoff = cutoff_by_group(goal, *drawn(200), h, "tree", planning=drawn(400))
        wrong += any(part.reachable and part.level <= 0.5 for part in cutoff.groups.values())
    assert wrong <= binom.isf(0.001, runs, 0.2)


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_groups_count_the_calls_that_are_made(seed):
    rng = np.random.default_rng(seed)
    score = falling_scores(DIAMOND, 40, seed)
    truth = rng.random(score.shape) < score
    options = [{"maximize": "f1"}, {"precision": 0.6}]
    for goal in options:
        cutoff = cutoff_by_group(goals_of(**goal)[0], score, truth, DIAMOND, "depth")
        calls = decide(score, cutoff, DIAMOND)
        for group, columns in group_columns(cutoff.label_groups).items():
            part = cutoff.groups[group]
            assert part.n_calls == calls[:, columns].sum()
            assert part.result.n_true_calls == (calls & truth)[:, columns].sum()
            if part.reachable and part.goal.target and part.n_calls and part.precision < 0.6:
                assert "levels of ancestors" in part.caveats


# -- certified along edges ------------------------------------------------------------------------

CHAIN = Hierarchy([("A", "B"), ("B", "C"), ("A", "D")])


def certify(score, truth, h, groups, *, target=0.7, confidence=0.9, **options):
    (goal,) = goals_of(precision=target, confidence=confidence)
    planning, rest = ((score[rows], truth[rows]) for rows in split_at_random(score, truth))
    return cutoff_by_group(goal, *rest, h, groups, planning=planning, **options)


def calibrated(h, n, seed, *, ties=False):
    """Block scores that are true probabilities of independent labels given their parents."""
    rng = np.random.default_rng(seed)
    score = falling(h, rng.random((n, h.n_labels)) ** 0.5)
    coin = falling(h, rng.random((n, 1)) * np.ones(h.n_labels))
    if ties:
        score = np.ceil(score * 5) / 5
    return score, coin < score


def falling(h, values):
    for k in range(h.n_labels):
        for parent in h.parent_idx[h.parent_ptr[k] : h.parent_ptr[k + 1]]:
            own, its = h.order[k], h.order[parent]
            values[:, own] = np.minimum(values[:, own], values[:, its])
    return values


@pytest.mark.parametrize("h", [CHAIN, DIAMOND], ids=["tree", "dag"])
@pytest.mark.parametrize("groups", ["depth", "label"])
@pytest.mark.parametrize("ties", [False, True])
def test_levels_never_fall_along_edges_and_calls_are_those_of_the_levels(h, groups, ties):
    score, truth = calibrated(h, 3000, 1, ties=ties)
    cutoff = certify(score, truth, h, groups)
    level = {h.labels[k]: cutoff.groups[g].level for k, g in enumerate(cutoff.label_groups)}
    assert all(level[parent] <= level[child] for parent, child in h.edges)
    assert any(part.reachable for part in cutoff.groups.values())
    calls = decide(score, cutoff, h)
    assert not h.violations(calls)
    np.testing.assert_array_equal(decide(sparse.csr_array(score), cutoff, h).toarray(), calls)
    for group, columns in group_columns(cutoff.label_groups).items():
        part = cutoff.groups[group]
        if part.reachable:
            assert truth[:, columns][calls[:, columns]].mean() > 0.7
        else:
            assert not calls[:, columns].any()
    table = cutoff.to_frame("pyarrow").to_pydict()
    assert table["group"] == list(cutoff.groups)
    assert table["certified"] == [part.reachable for part in cutoff.groups.values()]


@given(st.integers(0, 10_000), st.lists(st.sampled_from([None, 1, 2]), min_size=3, max_size=3))
@settings(max_examples=60, deadline=None)
def test_limits_of_groups_match_their_definition(seed, limits):
    h = DIAMOND
    score = falling_scores(h, 12, seed)
    named = label_groups(h, "depth")
    level = {"1": 0.25, "2": 0.25, "3": 0.5}
    limit = dict(zip(level, limits, strict=True))
    parts = {g: Cutoff(level[g], Goal("fdr"), max_calls=limit[g]) for g in level}
    cutoff = Cutoff(np.inf, Goal("fdr"), groups=parts, label_groups=named)
    calls = decide(score, cutoff, h)
    assert not h.violations(calls)
    np.testing.assert_array_equal(decide(sparse.csr_array(score), cutoff, h).toarray(), calls)
    group = dict(zip(h.labels, named, strict=True))
    above = {"1": [], "2": ["1"], "3": ["1", "2"]}
    for row, called in zip(score, calls, strict=True):
        expected = twin.group_calls(
            dict(zip(h.labels, row.tolist(), strict=True)), level, limit, group, above
        )
        assert dict(zip(h.labels, called.tolist(), strict=True)) == expected


@pytest.mark.parametrize("seed", range(5))
def test_the_chosen_levels_match_the_slow_twin(seed):
    h = CHAIN
    score, truth = calibrated(h, 900, seed, ties=True)
    (goal,) = goals_of(precision=0.7, confidence=0.9)
    planning, rest = ((score[rows], truth[rows]) for rows in split_at_random(score, truth))
    cutoff = cutoff_by_group(goal, *rest, h, "depth", planning=planning)
    columns = group_columns(cutoff.label_groups)
    own = replace(goal, confidence=1 - 0.1 / 3)
    *_, levels = group_tests(own, *rest, h, list(columns.values()), planning)
    certified = {name: set(own.tolist()) for name, own in zip(columns, levels, strict=True)}
    above = {"1": [], "2": ["1"], "3": ["1", "2"]}
    expected = twin.lowest_allowed(certified, above)
    assert {name: part.level for name, part in cutoff.groups.items()} == expected


def test_binomial_tests_decide_where_a_sample_has_one_call_per_group():
    h = Hierarchy([("A", "B")])
    rng = np.random.default_rng(3)
    score = np.stack([np.full(900, 0.9), 0.1 + 0.7 * rng.random(900)], axis=1)
    truth = np.stack([rng.random(900) < 0.9, np.zeros(900, dtype=bool)], axis=1)
    cutoff = certify(score, truth, h, "depth", target=0.85)
    assert cutoff.groups["1"].reachable
    assert cutoff.groups["1"].level == 0.0  # all of them: nothing for the labels below to inherit
    assert not cutoff.groups["2"].reachable
    assert cutoff.groups["2"].n_calls == 0
    assert cutoff.groups["1"].n_calls == 600


def test_an_uncertified_group_that_calls_everything_does_not_cut_the_groups_below():
    h = Hierarchy([("A", "B")])
    score = np.column_stack([np.linspace(0.6, 1.0, 50), np.linspace(0.5, 0.9, 50)])
    truth = np.ones((50, 2), dtype=bool)
    cutoff = cutoff_by_group(goals_of(precision=0.8)[0], score, truth, h, "depth")
    assert [part.level for part in cutoff.groups.values()] == [0.0, 0.0]
    assert decide(np.array([[0.3, 0.2]]), cutoff, h).all()


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_a_group_that_no_sample_lists_is_not_called(confidence):
    score, truth = calibrated(CHAIN, 600, 2)
    score[:, CHAIN.index("D")] = 0.0
    goals, listed = goals_of(precision=0.6, confidence=confidence), sparse.csr_array(score)
    cutoff = cutoff_on(goals, listed, truth, CHAIN, None, groups="label", unreachable=None)
    assert "D: Target precision" in cutoff.reason
    assert not decide(np.ones((1, 4)), cutoff, CHAIN)[0, CHAIN.index("D")]
    assert cutoff.groups["A"].n_calls > 0


def test_groups_without_an_order_are_refused():
    score, truth = calibrated(CHAIN, 600, 2)
    groups = {"A": "x", "B": "y", "C": "x", "D": "x"}
    with pytest.raises(DataError, match="must not form a cycle"):
        certify(score, truth, CHAIN, groups)


def test_tiny_calibrations_certify_nothing_and_call_nothing():
    score, truth = calibrated(CHAIN, 40, 3)
    cutoff = certify(score, truth, CHAIN, "depth", target=0.95)
    assert not cutoff.reachable
    assert not decide(score, cutoff, CHAIN).any()
    assert str(cutoff).count("Nothing is called") == 3


@pytest.mark.parametrize("h", [CHAIN, DIAMOND], ids=["tree", "dag"])
@pytest.mark.parametrize("ties", [False, True])
def test_no_group_is_below_target_too_often(h, ties):
    score, truth = calibrated(h, 20_000, 4, ties=ties)
    score = falling(h, np.minimum(1.0, score + 0.15))  # too high: levels must be found by the tests
    wrong, runs = 0, 60
    for run in range(runs):
        drawn = np.random.default_rng([9, run]).integers(0, 20_000, 400)
        cutoff = certify(score[drawn], truth[drawn], h, "depth", target=0.7)
        calls, columns = decide(score, cutoff, h), group_columns(cutoff.label_groups)
        wrong += any(
            part.reachable
            and (called := calls[:, columns[group]]).any()
            and truth[:, columns[group]][called].mean() < 0.7
            for group, part in cutoff.groups.items()
        )
    assert wrong <= binom.isf(0.001, runs, 0.1)


def test_several_targets_share_the_error_and_can_be_selected():
    h = CHAIN
    score, truth = calibrated(h, 2000, 5)
    goals = goals_of(precision=[0.6, 0.7, 0.9], confidence=0.9)
    assert [goal.confidence for goal in goals] == pytest.approx([1 - 0.1 / 3] * 3)
    options = {"groups": None, "unreachable": None}
    cutoff = cutoff_on(goals, score, truth, h, None, **options)
    assert (cutoff.goal.target, len(cutoff.targets)) == (0.6, 3)
    levels = [cutoff.for_target(t).level for t in (0.6, 0.7, 0.9)]
    assert levels == sorted(levels)
    strict = cutoff.for_target(0.9)
    assert strict.targets == cutoff.targets
    assert decide(score, strict, h).sum() < decide(score, cutoff, h).sum()
    assert "all of the 3 certified targets hold" in str(cutoff)
    assert cutoff.to_frame("pyarrow")["target"].to_pylist() == [0.6, 0.7, 0.9]
    with pytest.raises(DataError, match=r"calibrated: 0\.6, 0\.7, 0\.9"):
        cutoff.for_target(0.8)
    with pytest.raises(DataError, match="target must be a number"):
        cutoff.for_target(None)
    by_depth = cutoff_on(goals, score, truth, h, None, **(options | {"groups": "depth"}))
    assert by_depth.for_target(0.7).groups["1"].goal.confidence == pytest.approx(1 - 0.1 / 9)
    assert by_depth.to_frame("pyarrow").num_rows == 9
    with pytest.raises(DataError, match="different targets"):
        goals_of(precision=[0.9, 0.9])
