"""Monotone curves: pooling of values that fall, and interpolation between knots."""

import numpy as np

from hierlpr._kernels._jit import Floats, Floats2D, Int32s, Int64s, kernel


@kernel
def make_monotone(ptr: Int64s, value: Floats, weight: Floats) -> None:
    """Replace each run of `value` by its weighted isotonic regression, in place.

    Pooled adjacent violators: O(size). Runs are ``value[ptr[k]:ptr[k + 1]]``.
    """
    mean = np.empty(value.size)
    mass = np.empty(value.size)
    last = np.empty(value.size, np.int64)
    for k in range(ptr.size - 1):
        n_pools = 0
        for i in range(ptr[k], ptr[k + 1]):
            mean[n_pools] = value[i]
            mass[n_pools] = weight[i]
            last[n_pools] = i
            n_pools += 1
            # Invariant: the means of the pools before the last one rise strictly.
            while n_pools > 1 and mean[n_pools - 2] >= mean[n_pools - 1]:
                w = mass[n_pools - 2] + mass[n_pools - 1]
                if mean[n_pools - 2] > mean[n_pools - 1]:
                    mean[n_pools - 2] += (
                        (mean[n_pools - 1] - mean[n_pools - 2]) * mass[n_pools - 1] / w
                    )
                mass[n_pools - 2] = w
                last[n_pools - 2] = last[n_pools - 1]
                n_pools -= 1
        i = ptr[k]
        for pool in range(n_pools):
            while i <= last[pool]:
                value[i] = mean[pool]
                i += 1


@kernel
def evaluate_curves(
    scores: Floats2D,
    label: Int32s,
    knot_ptr: Int64s,
    knot_score: Floats,
    knot_lpr: Floats,
    out: Floats2D,
) -> None:
    """Interpolate each score between the knots of the label of its column; constant beyond them.

    O(size x log knots). Columns go in blocks of 8, a cache line of scores, so that their knots
    stay in the cache.
    """
    for block in range(0, label.size, 8):
        for m in range(scores.shape[0]):
            for j in range(block, min(block + 8, label.size)):
                score = scores[m, j]
                low, high = knot_ptr[label[j]], knot_ptr[label[j] + 1] - 1
                if score <= knot_score[low]:
                    out[m, j] = knot_lpr[low]
                    continue
                if score >= knot_score[high]:
                    out[m, j] = knot_lpr[high]
                    continue
                # Invariant: knot_score[low] <= score < knot_score[low + left].
                left = high - low
                while left > 1:
                    half = left >> 1
                    low += half if knot_score[low + half] <= score else 0
                    left -= half
                # Halves, because the difference of two huge scores may overflow.
                t = (0.5 * score - 0.5 * knot_score[low]) / (
                    0.5 * knot_score[low + 1] - 0.5 * knot_score[low]
                )
                t = min(t, 1.0) if t > 0.0 else 0.0
                out[m, j] = knot_lpr[low] + t * (knot_lpr[low + 1] - knot_lpr[low])
