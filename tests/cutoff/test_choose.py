import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from hierlpr.cutoff.choose import choose_cutoff
from hierlpr.cutoff.outcome import Cutoff, goals_of
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
    plain = [row for row in table if row[2] >= target * row[1] - 1e-9]
    cautious = [row for row in table if row[2] >= target * (row[1] + row[1] / row[3]) - 1e-9]
    for rule, rows in [("plain", plain), ("cautious", cautious)]:
        cutoff = choose_cutoff(score, truth, precision=target, rule=rule)
        assert cutoff.reachable == bool(rows)
        if rows:
            level, calls, hits, _ = rows[-1]
            assert (cutoff.level, cutoff.n_calls, cutoff.n_true_calls) == (level, calls, hits)
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
    if beta == 1.0:
        assert cutoff.max_f == pytest.approx(best)


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


def test_absent_scores_are_never_called_but_their_positives_count():
    score = sparse.csr_array(np.array([[0.9, 0.0], [0.8, 0.0]]))
    cutoff = choose_cutoff(score, np.array([[True, True], [True, True]]), maximize="f1")
    assert (cutoff.n_calls, cutoff.n_positives, cutoff.recall) == (2, 4, 0.5)


def test_a_stricter_target_never_calls_more():
    rng = np.random.default_rng(3)
    score = rng.random((300, 4))
    truth = rng.random((300, 4)) < score
    calls = [choose_cutoff(score, truth, precision=p).n_calls for p in (0.6, 0.7, 0.8, 0.9)]
    assert calls == sorted(calls, reverse=True)
    assert calls[-1] > 0


def test_fdr_is_one_minus_precision():
    rng = np.random.default_rng(4)
    score = rng.random((200, 3))
    truth = rng.random((200, 3)) < score
    by_fdr = choose_cutoff(score, truth, fdr=0.2)
    by_precision = choose_cutoff(score, truth, precision=0.8)
    assert (by_fdr.level, by_fdr.n_calls) == (by_precision.level, by_precision.n_calls)
    assert str(by_fdr).startswith("Target FDR 20 %: calls at a block score of")


def unreachable_data():
    score = np.linspace(0.9, 0.1, 50)[:, None]
    truth = (np.arange(50) % 3 == 0)[:, None]
    return score, truth


def test_what_to_do_out_of_reach_must_be_known_even_if_it_is_not_needed():
    with pytest.raises(DataError, match="unreachable must be one of 'best-precision'"):
        choose_cutoff(*unreachable_data(), maximize="f1", unreachable="x")


def test_an_unreachable_target_says_so_and_can_use_the_largest_f():
    cutoff = choose_cutoff(*unreachable_data(), precision=0.9, unreachable="max-f")
    assert not cutoff.reachable
    assert cutoff.level == cutoff.max_f_level
    assert 0.3 < cutoff.best_precision <= 0.5
    assert cutoff.n_calls > 0
    assert "unreachable" in str(cutoff)
    assert "The best precision is about" in cutoff.reason
    assert "In use instead: the level of the largest F1" in cutoff.reason


def test_one_lucky_call_does_not_reach_a_target_unless_the_plain_rule_is_asked_for():
    score, truth = unreachable_data()
    assert truth[0, 0]
    assert choose_cutoff(score, truth, precision=0.9, rule="plain").n_calls == 1


def test_an_unreachable_target_comes_as_close_as_possible_and_offers_the_largest_f():
    rng = np.random.default_rng(0)
    score = rng.random((400, 2))
    truth = rng.random((400, 2)) < 0.7 * score
    close = choose_cutoff(score, truth, precision=0.9)
    assert not close.reachable
    assert close.level == close.best_precision_level
    assert close.n_calls == close.best_precision_calls
    assert close.precision >= close.best_precision
    assert "In use instead: that level" in close.reason
    assert f"The largest F1, {close.max_f:.3g}, is at level" in close.reason


def test_an_unreachable_target_can_call_nothing_or_raise():
    nothing = choose_cutoff(*unreachable_data(), precision=0.9, unreachable="nothing")
    assert nothing.level == math.inf
    assert (nothing.n_calls, nothing.precision) == (0, None)
    assert "Nothing is called" in nothing.reason
    with pytest.raises(DataError, match=r"unreachable.*\n.*largest F1"):
        choose_cutoff(*unreachable_data(), precision=0.9, unreachable="error")


@pytest.mark.parametrize("truth", [0, 1])
def test_all_false_and_all_true_on_one_instance(truth):
    cutoff = choose_cutoff([[0.5]], [[truth]], precision=0.9)
    assert not cutoff.reachable  # one sample can never show 90 %
    assert cutoff.max_f == truth


def test_round_trip_through_a_dictionary():
    for options in ({"precision": 0.9}, {"precision": 0.9, "unreachable": "nothing"}):
        cutoff = choose_cutoff(*unreachable_data(), **options)
        assert Cutoff.from_dict(cutoff.to_dict()) == cutoff
    with pytest.raises(DataError, match="Not the fields"):
        Cutoff.from_dict({"level": 1.0, "kind": "f", "evil": 1})


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
    with pytest.raises(DataError, match=r"shape \(2, 1\), but truth has \(1, 2\)"):
        choose_cutoff([[0.1], [0.2]], [[0, 1]], precision=0.9)
    with pytest.raises(DataError, match="needs a profile"):
        choose_cutoff([[0.1]], [[1]], precision=0.9, confidence=0.9)
    with pytest.raises(DataError, match="rule must be one of"):
        choose_cutoff([[0.1]], [[1]], precision=0.9, rule="bold")
