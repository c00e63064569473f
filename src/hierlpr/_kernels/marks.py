"""How many of some values lie at, and between, others; or in bins, row by row."""

from hierlpr._kernels._arrays import Bools, Floats, Floats2, Ints
from hierlpr._kernels._jit import kernel


@kernel
def count_at_marks(
    values: Floats, own: Floats, marks: Floats, number: Ints, weight: Floats, total: Floats
) -> None:
    """Add values, sorted, to the cells that rising `marks` part them into. O(values + marks).

    Cell ``2 j + 1`` is what equals mark ``j``, cell ``2 j`` what lies below it and above the one
    before. `number` counts, `weight` adds the weights `own` of the values and `total` the values
    times these. Without weights `own` is empty and each value weighs 1; `weight` and `total` are
    empty where they are not asked for.
    """
    j = 0
    for i in range(values.size):
        x = values[i]
        # Invariant: all marks before j are below x.
        while j < marks.size and marks[j] < x:
            j += 1
        cell = 2 * j
        if j < marks.size and marks[j] == x:
            cell += 1
        number[cell] += 1
        if weight.size > 0:
            weight[cell] += own[i]
        if total.size > 0:
            total[cell] += own[i] * x if own.size > 0 else x


@kernel
def count_in_bins(
    values: Floats,
    held: Bools,
    at: Ints,
    width: int,
    trials: Floats2,
    hits: Floats2,
    total: Floats2,
) -> None:
    """Add values in [0, 1] to bins of equal width, each in the row of its place. O(values).

    Places `at` are in rows of `width`, which do not fall; empty: all places, one after the other.
    `trials` counts, `hits` counts what is `held`, and `total` adds the values.
    """
    n_bins = trials.shape[1]
    row, end = 0, width
    for i in range(values.size):
        place = at[i] if at.size > 0 else i
        # Invariant: all places before this one are in this row or before it.
        while place >= end:
            row += 1
            end += width
        b = min(int(values[i] * n_bins), n_bins - 1)
        trials[row, b] += 1.0
        hits[row, b] += held[i]
        total[row, b] += values[i]
