"""Sums over samples that evaluation curves are made of, for many thresholds in one pass."""

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._jit import kernel

__all__ = ["threshold_sums"]


@kernel
def threshold_sums(
    score_ptr: NDArray[np.int64],
    score_idx: NDArray[np.int32],
    scores: NDArray[np.float64],
    truth_ptr: NDArray[np.int64],
    truth_idx: NDArray[np.int32],
    weight: NDArray[np.float64],
    thresholds: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Per threshold: samples with calls, weight of calls, of hits, sum of precisions, of recalls.

    A label is called where its score is at least the threshold; absent scores are never called.
    Thresholds ascend. O(stored scores x log thresholds + samples x thresholds).
    """
    n_thresholds = thresholds.size
    sums = np.zeros((5, n_thresholds))
    holds = np.full(weight.size, -1, np.int64)  # the last sample that has the label
    called = np.empty(n_thresholds + 1)
    hit = np.empty(n_thresholds + 1)
    for m in range(score_ptr.size - 1):
        positive = 0.0
        for e in range(truth_ptr[m], truth_ptr[m + 1]):
            holds[truth_idx[e]] = m
            positive += weight[truth_idx[e]]
        # called[t]: weight of the labels whose score passes exactly the first t thresholds.
        called[:] = 0.0
        hit[:] = 0.0
        for e in range(score_ptr[m], score_ptr[m + 1]):
            k = score_idx[e]
            passed = np.searchsorted(thresholds, scores[e], side="right")
            called[passed] += weight[k]
            if holds[k] == m:
                hit[passed] += weight[k]
        n_called = 0.0
        n_hit = 0.0
        for t in range(n_thresholds - 1, -1, -1):
            n_called += called[t + 1]
            n_hit += hit[t + 1]
            if n_called > 0.0:
                sums[0, t] += 1.0
                sums[1, t] += n_called
                sums[2, t] += n_hit
                sums[3, t] += n_hit / n_called
                if positive > 0.0:
                    sums[4, t] += n_hit / positive
    return sums
