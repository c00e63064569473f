"""How the numbers of two columns lie, and go together, in weighed samples."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._arrays import Floats2, Ints
from hierlpr._kernels._jit import kernel

Floats3 = Annotated[NDArray[np.float64], 3]


@kernel
def pair_moments(
    value: Floats2, one: Ints, two: Ints, weight: Floats2, mean: Floats2, spread: Floats3
) -> None:
    """Set the mean and the covariance of x, y and x times y, where x and y are pairs of columns.

    Row ``m`` counts ``weight[m, j]`` for pair ``j``; where that is 0, either may be NaN. Of a pair
    that no row counts for, both are 0. O(rows x pairs).
    """
    total = np.zeros(one.size)
    mean[:] = 0.0
    spread[:] = 0.0
    for m in range(value.shape[0]):
        for j in range(one.size):
            w = weight[m, j]
            if w > 0.0:
                x, y = value[m, one[j]], value[m, two[j]]
                total[j] += w
                mean[j, 0] += w * x
                mean[j, 1] += w * y
                mean[j, 2] += w * (x * y)
    for j in range(one.size):
        total[j] = total[j] if total[j] > 0.0 else 1.0
        for a in range(3):
            mean[j, a] /= total[j]
    # About the mean in a pass of its own: sums of squares would cancel.
    for m in range(value.shape[0]):
        for j in range(one.size):
            w = weight[m, j]
            if w > 0.0:
                x, y = value[m, one[j]], value[m, two[j]]
                p, q, r = x - mean[j, 0], y - mean[j, 1], x * y - mean[j, 2]
                spread[j, 0, 0] += w * (p * p)
                spread[j, 0, 1] += w * (p * q)
                spread[j, 0, 2] += w * (p * r)
                spread[j, 1, 1] += w * (q * q)
                spread[j, 1, 2] += w * (q * r)
                spread[j, 2, 2] += w * (r * r)
    for j in range(one.size):
        for a in range(3):
            for b in range(a, 3):
                spread[j, a, b] /= total[j]
                spread[j, b, a] = spread[j, a, b]
