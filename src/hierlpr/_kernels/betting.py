"""Bet on the samples in turn that a cutoff is precise enough; the wealth is the evidence."""

import math

from hierlpr._kernels._arrays import Floats, Int32s, Int64s
from hierlpr._kernels._jit import kernel


@kernel
def count_calls(
    ptr: Int64s,
    score: Floats,
    needed: Int32s,
    hits_before: Int64s,
    level: float,
    limit: int,
    calls: Int64s,
    hits: Int64s,
) -> None:
    """Count the calls of every sample at `level` under `limit`. O(samples x log labels).

    Scores fall and `needed` rises within a sample, so that what is called is a stretch from its
    first instance on, whose end is found by bisection.
    """
    for i in range(ptr.size - 1):
        # Invariant: all before `low` are called, none from `high` on.
        low, high = ptr[i], ptr[i + 1]
        while low < high:
            middle = (low + high) // 2
            if score[middle] >= level and needed[middle] <= limit:
                low = middle + 1
            else:
                high = middle
        calls[i] = low - ptr[i]
        hits[i] = hits_before[low] - hits_before[ptr[i]]


@kernel
def bet(
    gain: Floats,
    order: Int64s,
    largest: float,
    square: float,
    weight: float,
    goal: float,
    steps_per_unit: float,
    urgency: Floats,
) -> float:
    """Return the log wealth at the end, or when it first reaches `goal`. O(samples).

    `gain` of a sample is what a stake of 1 wins on it. Before each sample the stake is
    ``urgency(log wealth) / sqrt(samples left * square)``, at most `largest`, where `square` is that
    of the samples before, and as if of `weight` more samples the one that was given. It depends on
    nothing that is still to come. ``urgency[k]`` belongs to a log wealth of ``k / steps_per_unit``
    below its end.
    """
    n = order.size
    last = urgency.size - 2
    log_wealth, seen = 0.0, 0.0
    for k in range(n):
        own = gain[order[k]]
        if own == 0.0:
            continue
        place = (goal - log_wealth) * steps_per_unit
        at = int(place)
        if at > last:  # as good as ruined
            return log_wealth
        urge = urgency[at] + (place - at) * (urgency[at + 1] - urgency[at])
        spread = math.sqrt((n - k) * (weight * square + seen) / (weight + k))
        log_wealth += math.log1p(min(urge / spread, largest) * own)
        seen += own * own
        if log_wealth >= goal:
            break
    return log_wealth
