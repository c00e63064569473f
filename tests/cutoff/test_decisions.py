import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from cases import DIAMOND, falling_scores
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
