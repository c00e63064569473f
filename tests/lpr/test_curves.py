"""Compiled curves: evaluation, selection, joining, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import reference_lpr as reference
from hierlpr.exceptions import DataError
from hierlpr.lpr import LPRCurves


def curves(*labels):
    score = [np.array(s, dtype=float) for s, _ in labels]
    lpr = [np.array(p, dtype=float) for _, p in labels]
    ptr = np.concatenate([[0], np.cumsum([len(s) for s in score])])
    return LPRCurves(ptr.astype(np.int64), np.concatenate(score), np.concatenate(lpr))


THREE = curves(([0, 1, 3], [0.1, 0.4, 0.4]), ([5], [0.2]), ([-1e308, 1e308], [0.0, 1.0]))


def test_linear_between_knots_constant_beyond_exact_at_knots():
    scores = np.array([[-9, 4, 0], [0, 5, -1e308], [0.5, 6, 1e308], [2, 5, 5e307], [99, 0, 0]])
    expected = [[0.1, 0.2, 0.5], [0.1, 0.2, 0], [0.25, 0.2, 1], [0.4, 0.2, 0.75], [0.4, 0.2, 0.5]]
    assert THREE.evaluate(scores) == pytest.approx(np.array(expected))


@given(st.integers(0, 10_000), st.integers(1, 60))
def test_evaluation_equals_interp(seed, n_knots):
    rng = np.random.default_rng(seed)
    score = np.unique(rng.integers(-40, 40, n_knots) / 4)
    lpr = np.sort(rng.random(score.size).round(1))
    model = curves((score, lpr), ([0.0], [0.5]))
    x = rng.integers(-90, 90, (rng.choice([50, 300]), 2)) / 8
    assert model.evaluate(x)[:, 0] == pytest.approx(reference.interpolate(x[:, 0], score, lpr))


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_threads_and_storage_change_nothing(n_jobs):
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(6000, 3)) * (rng.random((6000, 3)) < 0.4)
    dense = THREE.evaluate(scores, n_jobs=1)
    assert np.array_equal(THREE.evaluate(scores, n_jobs=n_jobs), dense)
    assert np.array_equal(THREE.evaluate(np.asfortranarray(scores), n_jobs=n_jobs), dense)
    stored = sparse.csr_array(scores)
    out = THREE.evaluate(stored, n_jobs=n_jobs)
    assert np.array_equal(out.indices, stored.indices)
    assert np.array_equal(out.toarray()[scores != 0], dense[scores != 0])


def test_select_and_join_copy_bit_for_bit():
    joined = LPRCurves.join([THREE.select([2]), THREE, THREE.select([])])
    assert joined.n_labels == 4
    for new, old in enumerate([2, 0, 1, 2]):
        for a, b in zip(joined.curve(new), THREE.curve(old), strict=True):
            assert a.tobytes() == b.tobytes()
    back = joined.select([1, 2, 3])
    assert back.knot_ptr.tolist() == THREE.knot_ptr.tolist()
    assert back.knot_lpr.tobytes() == THREE.knot_lpr.tobytes()


@pytest.mark.parametrize(
    ("ptr", "score", "lpr", "message"),
    [
        ([0, 2], [1.0], [0.5], "do not fit"),
        ([1, 2], [1.0, 2.0], [0.5, 0.6], "do not fit"),
        ([0, 0, 1], [1.0], [0.5], "label 0 has no knot"),
        ([0, 2], [1.0, 1.0], [0.5, 0.6], "label 0 is not monotone"),
        ([0, 1, 3], [1.0, 1.0, 2.0], [0.5, 0.6, 0.5], "label 1 is not monotone"),
        ([0, 1], [np.nan], [0.5], "finite"),
        ([0, 1], [0.0], [1.5], "finite"),
        ([0, 1], [0.0], [np.nan], "finite"),
    ],
)
def test_what_is_no_curve_is_refused(ptr, score, lpr, message):
    with pytest.raises(DataError, match=message):
        LPRCurves(np.array(ptr), np.array(score), np.array(lpr))
