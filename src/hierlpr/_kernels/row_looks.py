"""Rows seen from a few directions, as sums of whole numbers."""

from hierlpr._kernels._arrays import Floats, Floats2
from hierlpr._kernels._jit import kernel

TO_WHOLE = 1.5 * 2.0**52  # added and taken away, it rounds as rint does, which is a slow call


@kernel
def look_at_rows(
    rows: Floats2, scale: Floats2, weight: Floats2, square: Floats, seen: Floats2
) -> None:
    """Add up squares of rows, coarsely, and their products with four columns of `weight`. O(size).

    Values, times both of the row's `scale`, are rounded to whole numbers, and for `square` those
    to multiples of 2**12. All sums are exact, so that their order does not matter.
    """
    n_rows, n_labels = rows.shape
    for m in range(n_rows):
        first, second = scale[m, 0], scale[m, 1]
        length = a = b = c = d = 0.0
        for k in range(n_labels):
            whole = rows[m, k] * first * second + TO_WHOLE - TO_WHOLE
            coarse = whole * 2.0**-12 + TO_WHOLE - TO_WHOLE
            length += coarse * coarse
            a += whole * weight[k, 0]
            b += whole * weight[k, 1]
            c += whole * weight[k, 2]
            d += whole * weight[k, 3]
        square[m] = length
        seen[m, 0], seen[m, 1], seen[m, 2], seen[m, 3] = a, b, c, d
