import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn import metrics as sk

from hierlpr import metrics
from hierlpr.exceptions import DataError

matrices = st.integers(1, 6).flatmap(
    lambda width: st.lists(
        st.lists(st.integers(0, 15), min_size=width, max_size=width), min_size=1, max_size=8
    )
)


@settings(max_examples=40)
@given(matrices, st.sampled_from([0.5, 1.0, 2.0]))
def test_averages_leave_out_what_has_no_value(cells, beta):
    cells = np.array(cells)
    truth, calls = cells % 2, cells // 2 % 2
    square = beta**2
    for ours, axis in (("label", 0), ("sample", 1)):
        hits = (truth & calls).sum(axis=axis)
        called, positive = calls.sum(axis=axis), truth.sum(axis=axis)
        each = {"precision": [], "recall": [], "f": []}
        for h, c, p in zip(hits, called, positive, strict=True):
            if p:
                each["recall"].append(h / p)
            if p or c:
                each["precision"].append(h / c if c else 0.0)
                each["f"].append((1 + square) * h / (square * p + c))
        for name, options in (("precision", {}), ("recall", {}), ("f", {"beta": beta})):
            expected = np.mean(each[name]) if each[name] else 0.0
            got = getattr(metrics, f"{name}_score")(truth, calls, average=ours, **options)
            assert got == pytest.approx(expected), (name, ours)


@settings(max_examples=40)
@given(matrices, st.sampled_from([0.5, 1.0, 2.0]))
def test_precision_recall_and_f_agree_with_scikit_learn(cells, beta):
    cells = np.array(cells)
    truth, calls = cells % 2, cells // 2 % 2
    truth[0], calls[0] = 1, 1  # where all is defined; scikit-learn has other rules elsewhere
    truth[:, 0], calls[:, 0] = 1, 1
    for ours, theirs in (("pooled", "micro"), ("label", "macro"), ("sample", "samples")):
        if truth.shape[1] == 1:  # one column means something else to scikit-learn
            truth, calls = np.hstack([truth, truth]), np.hstack([calls, calls])
        expected = sk.precision_recall_fscore_support(
            truth, calls, beta=beta, average=theirs, zero_division=0
        )
        got = (
            metrics.precision_score(truth, calls, average=ours),
            metrics.recall_score(truth, calls, average=ours),
            metrics.f_score(truth, calls, average=ours, beta=beta),
        )
        np.testing.assert_allclose(got, expected[:3], atol=1e-12)


@settings(max_examples=40)
@given(matrices)
def test_averaged_areas_agree_with_scikit_learn(cells):
    cells = np.array(cells)
    truth, scores = cells % 2, (cells // 2) / 7.0
    support = truth.sum(axis=0)
    if support.any():
        known = support > 0
        each = [
            sk.average_precision_score(truth[:, k], scores[:, k]) for k in np.flatnonzero(known)
        ]
        areas = metrics.label_au_prc_scores(truth, scores)
        np.testing.assert_allclose(areas[known], each, atol=1e-12)
        assert np.isnan(areas[~known]).all()
        assert metrics.mean_au_prc_score(truth, scores) == pytest.approx(np.mean(each))
        weighted = metrics.mean_au_prc_score(truth, scores, weight="prevalence")
        assert weighted == pytest.approx(np.average(each, weights=support[known]))


@settings(max_examples=40)
@given(matrices)
def test_f_max_is_the_best_of_all_cutoffs(cells):
    cells = np.array(cells)
    truth, scores = cells % 2, (cells // 2) / 7.0
    if truth.any():
        best = max(
            sk.f1_score(truth.ravel(), (scores >= level).ravel()) for level in np.unique(scores)
        )
        assert metrics.f_max_score(truth, scores) == pytest.approx(best, abs=1e-12)


def test_calibration_by_hand():
    # Bins [0, .5) and [.5, 1]: gaps |0.3 + 0.1 - 1| / 4 and |0.8 + 0.6 - 1| / 4.
    truth, p = [1, 0, 1, 0], [0.3, 0.1, 0.8, 0.6]
    assert metrics.calibration_error(truth, p, n_bins=2) == pytest.approx((0.6 + 0.4) / 4)
    assert metrics.calibration_error([1, 1], [1.0, 1.0]) == 0.0
    assert metrics.brier_error(truth, p) == pytest.approx(sk.brier_score_loss(truth, p))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.f_score([1], [1], beta=0), "beta"),
        (lambda: metrics.f_score([1], [1, 0]), "must agree"),
        (lambda: metrics.f_score([1], [1], average="label"), "needs matrices"),
        (lambda: metrics.f_score([[1]], [[1]], average="micro"), "'pooled', 'label', 'sample'"),
        (lambda: metrics.calibration_error([1], [1.5]), "in \\[0, 1\\]"),
        (lambda: metrics.calibration_error([], []), "no instances"),
        (lambda: metrics.brier_error([1], [0.5, 0.5]), "must agree"),
        (lambda: metrics.mean_au_prc_score([[0]], [[1]]), "no instance is positive"),
        (lambda: metrics.label_au_prc_scores([0], [1]), "matrices"),
        (lambda: metrics.au_prc_score([[1, 0]], sparse.csr_array([[1.0, 0.0]])), "sparse matrix"),
        (lambda: metrics.brier_error([[1, 0]], sparse.coo_array([[1.0, 0.0]])), "toarray"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(DataError, match=message):
        call()
