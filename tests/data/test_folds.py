"""Folds depend on what samples are, not on the order of rows."""

import numpy as np
import pytest
from scipy import sparse

from hierlpr import HierLPR, rank, simulate
from hierlpr.data.folds import assign_folds


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_folds_are_balanced_and_follow_the_samples(container):
    rng = np.random.default_rng(0)
    scores, truth = rng.normal(size=(203, 4)), rng.random((203, 4)) < 0.4
    fold = assign_folds(4, container(scores), container(truth))
    assert np.bincount(fold).tolist() == [51, 51, 51, 50]
    order = rng.permutation(203)
    moved = assign_folds(4, container(scores[order]), container(truth[order]))
    assert np.array_equal(moved, fold[order])
    single = assign_folds(4, container(scores.astype(np.float32)), container(truth))
    assert np.array_equal(single, fold)
    assert not np.array_equal(assign_folds(4, container(scores), container(truth), seed=1), fold)


def test_equal_samples_are_spread_over_folds_and_the_others_are_left_out():
    scores = np.repeat([[0.5, np.nan], [1e300, -1e300]], 50, axis=0)
    fold = assign_folds(5, scores, limit=60)
    counts = [np.bincount(fold[half] + 1, minlength=6) for half in (slice(50), slice(50, 100))]
    assert sum(counts)[1:].tolist() == [12] * 5
    assert sorted(each[0] for each in counts) == [0, 40]


def test_clusters_stay_in_one_fold_whatever_the_order():
    rng = np.random.default_rng(1)
    scores, cluster = rng.normal(size=(300, 3)), rng.integers(0, 60, 300)
    fold = assign_folds(5, scores, cluster=cluster)
    assert all(np.unique(fold[cluster == c]).size == 1 for c in np.unique(cluster))
    clusters_per_fold = [np.unique(cluster[fold == f]).size for f in range(5)]
    assert max(clusters_per_fold) - min(clusters_per_fold) <= 1
    order = rng.permutation(300)
    assert np.array_equal(assign_folds(5, scores[order], cluster=7 * cluster[order]), fold[order])
    few = assign_folds(5, scores, cluster=cluster, limit=100)
    assert np.unique(cluster[few >= 0]).size == 100 * np.unique(cluster).size // 300


@pytest.mark.parametrize("listed", [False, True])
def test_no_call_depends_on_the_order_of_the_rows_or_on_the_precision(listed):
    data = simulate.disease(n_samples=900, rng=3)
    h, scores, truth = data.hierarchy, data.scores.astype(np.float32), data.truth
    fit, calibration, new = slice(0, 400), slice(400, 700), slice(700, 900)
    rng = np.random.default_rng(0)

    def calls(order, dtype):
        def take(rows):
            values = scores[rows].astype(dtype)
            return sparse.csr_array(np.where(values > 0.3, values, 0.0)) if listed else values

        rows = np.arange(900)[fit][order[order < 400]]
        other = np.arange(900)[calibration][order[order < 300]]
        model = HierLPR(h).fit(take(rows), truth[rows])
        model.calibrate(take(other), truth[other], precision=0.9, confidence=0.9)
        ranking = rank(model.transform(take(new)), h)
        return model, model.predict(take(new)), ranking

    model, expected, ranking = calls(np.arange(400), np.float64)
    assert listed or model.joint_.tempering.use != "none"
    for order, dtype in ((rng.permutation(400), np.float64), (np.arange(400), np.float32)):
        again, found, other = calls(order, dtype)
        assert (found != expected).sum() == 0
        assert again.cutoff_.level == pytest.approx(model.cutoff_.level, abs=1e-9)
        assert np.mean(other.label[:300] == ranking.label[:300]) > 0.98
