import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from hierlpr import metrics
from hierlpr.exceptions import DataError

# Few distinct scores: ties are where curves go wrong.
cases = st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=2, max_size=30)


def split(case):
    truth = np.array([t for t, _ in case])
    scores = np.array([s for _, s in case]) / 4.0
    return truth, scores


def all_orders_area(truth, scores):
    """Mean hit area over every order of the ties."""
    areas = []
    for order in itertools.permutations(range(len(truth))):
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order)):
            hits = np.cumsum([truth[i] for i in order])
            areas.append(hits.sum())
    return np.mean(areas)


def test_areas_by_hand():
    # Calls hit, miss, hit, miss: hits 1, 1, 2, 2.
    assert metrics.hit_area_score([1, 0, 1, 0]) == 6.0
    # Best 1 + 2 + 2 + 2 = 7, random 2 x 5 / 2 = 5: (6 - 5) / (7 - 5).
    assert metrics.normalized_hit_area_score([1, 0, 1, 0]) == 0.5
    assert metrics.normalized_hit_area_score([0, 0, 1, 1]) == -1.0
    # Average precision 1/2 x 1 + 1/2 x 2/3.
    assert metrics.au_prc_score([1, 0, 1, 0]) == pytest.approx(5 / 6)
    assert metrics.early_precision_score([1, 0, 1, 0], max_recall=0.75) == pytest.approx(
        (0.5 * 1 + 0.25 * 2 / 3) / 0.75
    )


def test_eauc_is_the_expected_hit_area():
    lpr = np.array([0.9, 0.2, 0.6])
    expected = 0.0
    for truth in itertools.product([0, 1], repeat=3):
        chance = np.prod(np.where(truth, lpr, 1 - lpr))
        expected += chance * metrics.hit_area_score(truth)
    assert metrics.eauc_score(lpr) == pytest.approx(expected)


@settings(max_examples=60)
@given(cases)
def test_agrees_with_scikit_learn_exactly(case):
    truth, scores = split(case)
    if truth.any():
        ours = metrics.au_prc_score(truth, scores)
        assert ours == pytest.approx(sk.average_precision_score(truth, scores), abs=1e-12)
        precision, recall, _ = sk.precision_recall_curve(truth, scores)
        ours_p, ours_r, calls = metrics.precision_recall_curve(truth, scores)
        np.testing.assert_array_equal(ours_p[::-1], precision[-ours_p.size - 1 : -1])
        np.testing.assert_array_equal(ours_r[::-1], recall[-ours_r.size - 1 : -1])
        assert calls[-1] == truth.size
    if truth.any() and not truth.all():
        auc = sk.roc_auc_score(truth, scores)
        got = metrics.normalized_hit_area_score(truth, scores)
        assert got == pytest.approx(2 * auc - 1, abs=1e-12)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=1, max_size=6))
def test_ties_are_the_mean_over_their_orders(case):
    truth, scores = split(case)
    got = metrics.hit_area_score(truth, scores)
    assert got == pytest.approx(all_orders_area(truth, scores))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.hit_curve([[1, 0]]), "vector in calling order"),
        (lambda: metrics.hit_curve([1, 2]), "only 0 and 1"),
        (lambda: metrics.hit_curve([1, 0], [1.0]), "must agree"),
        (lambda: metrics.hit_curve([1, 0], [1.0, np.nan]), "NaN"),
        (lambda: metrics.au_prc_score([0, 0]), "no instance is positive"),
        (lambda: metrics.normalized_hit_area_score([1, 1]), "positives and negatives"),
        (lambda: metrics.eauc_score([[0.5]]), "vector in calling order"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(DataError, match=message):
        call()
