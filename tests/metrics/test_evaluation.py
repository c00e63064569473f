"""Weights of samples in evaluations and measures: whole ones are repeated samples."""

import numpy as np
import pytest

from hierlpr import Hierarchy, metrics, simulate
from hierlpr._utils.checks import effective_number
from hierlpr.exceptions import DataError
from hierlpr.metrics.evaluation import evaluate_ranking


def listed(rng, n_samples, h, values=7):
    """A list of most instances with tied scores, calls, and truth with holes."""
    truth = h.close_upward(rng.random((n_samples, h.n_labels)) < 0.15).astype(float)
    truth[rng.random(truth.shape) < 0.1] = np.nan
    truth[:2] = np.nan  # nothing is known of these
    sample, label = np.nonzero(rng.random(truth.shape) < 0.7)
    score = rng.integers(0, values, sample.size) / (values - 1)
    return truth, sample, label, score, rng.random(sample.size) < score


def test_calls_of_unknown_pairs_are_no_errors():
    truth = np.array([[1.0, np.nan, 0.0], [np.nan, 0.0, 1.0]])
    call = np.array([[1, 1, 1], [1, 0, 0]], dtype=bool)
    sample, label = np.nonzero(np.ones_like(call))
    h, score = Hierarchy([], labels=["A", "B", "C"]), np.linspace(1.0, 0.5, 6)
    measures = evaluate_ranking(sample, label, score, truth, h, call=call.ravel()).decisions
    # C is called falsely in the first sample and missed in the second; roots cost 1/3 each.
    assert measures["H-loss"] == 1.0
    assert measures["hierarchical Hamming loss"] == pytest.approx(1 / 3)
    assert (measures["precision"], measures["recall"]) == (0.5, 0.5)


def test_an_evaluation_with_whole_weights_is_that_of_repeated_samples():
    rng = np.random.default_rng(4)
    h = simulate.random_dag(12, rng=rng)
    truth, sample, label, score, call = listed(rng, 60, h)
    weight = rng.integers(0, 4, 60)
    found = evaluate_ranking(
        sample, label, score, truth, h, ordered=False, call=call, sample_weight=weight
    )
    rows = np.repeat(np.arange(60), weight)
    at = [np.flatnonzero(sample == row) for row in rows]
    every, where = np.concatenate(at), np.repeat(np.arange(rows.size), [x.size for x in at])
    again = evaluate_ranking(
        where, label[every], score[every], truth[rows], h, ordered=False, call=call[every]
    )
    for part in ("ranking", "decisions"):
        own, other = getattr(found, part), getattr(again, part)
        for name in own.keys() - {"parents after a child", "calls without a parent"}:
            assert own[name] == pytest.approx(other[name], rel=1e-9), name
    assert found.sizes["samples"] == np.count_nonzero(weight)
    assert found.sizes["effective samples"] == effective_number(weight.astype(float))


def test_measures_with_whole_weights_are_those_of_repeated_rows():
    rng = np.random.default_rng(2)
    truth = (rng.random((50, 6)) < 0.3).astype(float)
    truth[rng.random(truth.shape) < 0.1] = np.nan
    scores, weight = rng.integers(0, 9, truth.shape) / 8.0, rng.integers(0, 4, 50)
    calls, rows = scores > 0.6, np.repeat(np.arange(50), weight)
    for measure in (
        metrics.f_max_score, metrics.normalized_hit_area_score, metrics.early_precision_score,
        metrics.brier_error, metrics.calibration_error, metrics.mean_au_prc_score,
        lambda *x, **y: metrics.mean_au_prc_score(*x, weight="prevalence", **y),
    ):  # fmt: skip
        own = measure(truth, scores, sample_weight=weight)
        assert own == pytest.approx(measure(truth[rows], scores[rows]), rel=1e-12)
    for measure in (metrics.precision_score, metrics.recall_score, metrics.f_score):
        for average in ("pooled", "label", "sample"):
            own = measure(truth, calls, average=average, sample_weight=weight)
            again = measure(truth[rows], calls[rows], average=average)
            assert own == pytest.approx(again, rel=1e-12)
    own, count = metrics.f_curve(truth, scores, sample_weight=weight)
    again, count_again = metrics.f_curve(truth[rows], scores[rows])
    np.testing.assert_allclose((own, count), (again, count_again), rtol=1e-12)
    for measure in (metrics.brier_error, metrics.precision_score):
        with pytest.raises(DataError, match="one per sample"):
            measure(truth, calls, sample_weight=[1.0, 2.0])


def test_calls_that_are_more_likely_wrong_than_right_are_counted():
    rng = np.random.default_rng(4)
    h = Hierarchy([("A", "B"), ("B", "C")])
    lpr, truth = rng.random((40, 3)), h.close_upward(rng.random((40, 3)) < 0.4)
    called = h.close_upward(rng.random((40, 3)) < 0.4)
    sample, label = np.indices((40, 3)).reshape(2, -1)
    found = evaluate_ranking(
        sample, label, lpr.ravel(), truth, h, call=called.ravel(), lpr=lpr.ravel()
    ).decisions
    rest = called & np.logical_and.accumulate(~called | (lpr >= 0.5), axis=1)
    assert found["calls with a chance below 1/2, or below one"] == (called & ~rest).sum()
    assert found["precision without them"] == (rest & truth).sum() / rest.sum()
    assert found["recall without them"] == (rest & truth).sum() / truth.sum()
