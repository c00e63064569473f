import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from cases import DIAMOND, falling_scores
from hierlpr import Hierarchy, consistent_scores
from hierlpr.cutoff.choose import cutoff_on
from hierlpr.cutoff.decisions import call_lists, decide
from hierlpr.cutoff.goal import Goal
from hierlpr.cutoff.outcome import Cutoff


@given(st.integers(0, 10_000), st.integers(1, 8), st.sampled_from([None, 1, 2, 4]))
@settings(max_examples=60, deadline=None)
def test_calls_are_closed_upward_and_the_same_dense_and_sparse(seed, eighths, most):
    score = falling_scores(DIAMOND, 12, seed)
    cutoff = Cutoff(eighths / 8, Goal("precision"), max_calls=most)
    calls = decide(score, cutoff, DIAMOND)
    assert len(DIAMOND.violations(calls)) == 0
    if most is None:
        np.testing.assert_array_equal(calls, score >= eighths / 8)
    else:
        assert calls.sum(1).max() <= most
    as_csr = decide(sparse.csr_array(score), cutoff, DIAMOND)
    assert as_csr.dtype == bool
    np.testing.assert_array_equal(as_csr.toarray(), calls)


@given(st.integers(0, 10_000), st.sampled_from([None, 2]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_no_call_has_a_chance_below_the_least_nor_an_ancestor_that_has(seed, most, is_sparse):
    lpr = np.random.default_rng(seed).random((12, DIAMOND.n_labels)).round(1)
    score = consistent_scores(lpr, DIAMOND)
    cutoff = Cutoff(0.3, Goal("precision"), max_calls=most, min_chance=0.4)
    given_score, given_lpr = map(sparse.csr_array, (score, lpr)) if is_sparse else (score, lpr)
    calls = decide(given_score, cutoff, DIAMOND, given_lpr)
    calls = calls.toarray() if is_sparse else calls
    likely = lpr >= 0.4
    for parent, child in DIAMOND.edges:  # parents come first
        likely[:, DIAMOND.index(child)] &= likely[:, DIAMOND.index(parent)]
    without_limit = likely & (score >= 0.3)
    assert len(DIAMOND.violations(calls)) == 0
    assert not (calls & ~without_limit).any()
    if most is None:
        np.testing.assert_array_equal(calls, without_limit)


def test_the_certificate_holds_for_the_calls_of_at_least_a_chance():
    """LPRs that say too much: of pairs above .5 only four fifths of the stated chance are true."""
    h, rng, n_below, n_certified = Hierarchy([("A", "B")], labels=["A", "B", "C"]), None, 0, 0
    for run in range(150):
        rng = np.random.default_rng([3, run])

        def draw(n, rng=rng):
            lpr = rng.random((n, 3)) ** 0.3
            truth = rng.random((n, 3)) < np.where(lpr > 0.5, lpr, 0.2 * lpr)
            truth[:, 1] &= truth[:, 0]
            return lpr, consistent_scores(lpr, h), truth

        lpr, score, truth = draw(150)
        goals = [Goal("precision", 0.75, confidence=0.9)]
        cutoff = cutoff_on(
            goals, score, truth, h, None, groups=None, unreachable=None, lpr=lpr, min_chance=0.6
        )
        lpr, score, truth = draw(4000)
        calls = decide(score, cutoff, h, lpr)
        n_certified += cutoff.is_certified
        n_below += calls.any() and (calls & truth).sum() < 0.75 * calls.sum()
        assert cutoff.min_chance == 0.6
        assert (lpr[calls] >= 0.6).all()
        assert cutoff.result.n_unlikely_calls == 0
    assert n_certified > 50
    assert n_below <= 150 * 0.1 + 3 * (150 * 0.09) ** 0.5


def test_an_empty_sample_and_an_infinite_level():
    score = np.array([[0.2, 0.2, 0.2, 0.2, 0.2]])
    assert not decide(score, Cutoff(np.inf, Goal("precision")), DIAMOND).any()
    listed = sparse.csr_array((3, 5))
    calls = decide(listed, Cutoff(0.0, Goal("f")), DIAMOND)
    assert calls.nnz == 0
    assert call_lists(calls, listed, DIAMOND) == [(), (), ()]


def test_call_lists_put_parents_first_even_on_ties():
    score = np.array([[0.5, 0.9, 0.5, 0.5, 0.5], [0.0, 0.1, 0.0, 0.0, 0.0]])
    calls = decide(score, Cutoff(0.5, Goal("f")), DIAMOND)
    csr = sparse.csr_array(calls)
    for given_calls, given_score in [(calls, score), (csr, score), (csr, sparse.csr_array(score))]:
        lists = call_lists(given_calls, given_score, DIAMOND)
        assert [call.label for call in lists[0]] == ["E", "A", "B", "C", "D"]
        assert lists[0][0].score == 0.9
        assert lists[1] == ()
