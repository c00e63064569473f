"""How many of some values lie at, and between, others."""

from hierlpr._kernels._arrays import Floats, Ints
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
