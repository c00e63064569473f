"""Hypothesis tests: bets on calibration samples, and step-up procedures on a hierarchy."""

import math

import numpy as np

from hierlpr._kernels._jit import Floats, Int32s, Int64s, kernel


@kernel
def bet(
    gain: Floats,
    largest: Floats,
    square: float,
    weight: float,
    goal: float,
    steps_per_unit: float,
    stake_table: Floats,
) -> float:
    """Return the log wealth at the end, or when it first reaches `goal`. O(samples).

    `gain` of a sample is what a stake of 1 wins on it, in the order of the bets. Before each sample
    the stake is ``stake(log wealth) / sqrt(samples left * square)``, at most its `largest`, where
    the square is the mean over the samples before and `weight` more samples of the value `square`.
    It depends on nothing that is still to come. ``stake_table[k]`` belongs to a log wealth
    of ``k / steps_per_unit`` below its end.
    """
    n = gain.size
    last = stake_table.size - 2
    log_wealth, square_sum = 0.0, 0.0
    for k in range(n):
        won = gain[k]
        if won == 0.0:
            continue
        place = (goal - log_wealth) * steps_per_unit
        at = int(place)
        if at > last:  # as good as ruined
            return log_wealth
        stake = stake_table[at] + (place - at) * (stake_table[at + 1] - stake_table[at])
        spread = math.sqrt((n - k) * (weight * square + square_sum) / (weight + k))
        log_wealth += math.log1p(min(stake / spread, largest[k]) * won)
        square_sum += won * won
        if log_wealth >= goal:
            break
    return log_wealth


@kernel
def step_up_levels(
    need: Floats,
    offset: Floats,
    by_depth: Int64s,
    depth_ptr: Int64s,
    parent_ptr: Int32s,
    parent_idx: Int32s,
) -> Floats:
    """Smallest alpha at which each node is rejected, at most 1.

    At alpha, depth by depth, the nodes whose parents are all rejected are tested together: with S
    the largest number such that S nodes of this and smaller depths are rejected if every tested
    node with ``need <= alpha * (S + offset)`` is, those are rejected. The set grows with alpha, so
    one falling sweep of alpha finds, for each depth, where every node leaves it.

    Invariant of the sweep at one depth: `left` nodes of this and smaller depths are rejected at
    the current alpha if all of them pass; the node that needs the largest alpha leaves next, and
    lowers alpha to what it needs. A tested node needs ``need / (left + offset)``. Multiplied by
    ``left + least offset`` this can only fall when `left` falls, so a heap of such keys that is
    refreshed at its top only gives the largest. O(n log n) per depth unless offsets differ wildly.
    """
    n = need.size
    level = np.ones(n)
    earlier = np.empty(n)  # levels below 1 of smaller depths, falling
    n_earlier = 0
    heap = np.empty(n, np.int64)
    key = np.empty(n)
    fresh = np.empty(n, np.int64)  # the value of `left` that a key was made for
    opened = np.empty(n)  # the largest level among the parents
    gone = np.zeros(n, np.bool_)
    for d in range(depth_ptr.size - 1):
        size = 0
        least = np.inf
        for k in range(depth_ptr[d], depth_ptr[d + 1]):
            v = by_depth[k]
            top = 0.0
            for e in range(parent_ptr[v], parent_ptr[v + 1]):
                top = max(top, level[parent_idx[e]])
            if top < 1.0:
                opened[v] = top
                heap[size] = v
                size += 1
                least = min(least, offset[v])
        n_tested = size
        left = n_earlier + size
        for k in range(size):
            v = heap[k]
            key[v] = need[v] * (left + least) / (left + offset[v])
            fresh[v] = left
        by_opening = heap[:size][np.argsort(-opened[heap[:size]])]
        by_key = heap[:size][np.argsort(-key[heap[:size]])]
        for k in range(size):  # a falling list is a heap
            heap[k] = by_key[k]
        alpha = 1.0
        next_opening = 0
        next_earlier = 0
        n_gone = 0
        while n_gone < n_tested:
            # Bring the largest key of the nodes that have not left to the top, made for `left`.
            while gone[heap[0]] or fresh[heap[0]] != left:
                v = heap[0]
                if gone[v]:
                    size -= 1
                    v = heap[size]
                else:
                    key[v] = need[v] * (left + least) / (left + offset[v])
                    fresh[v] = left
                at = 0
                while True:
                    child = 2 * at + 1
                    if child >= size:
                        break
                    if child + 1 < size and key[heap[child + 1]] > key[heap[child]]:
                        child += 1
                    if key[heap[child]] <= key[v]:
                        break
                    heap[at] = heap[child]
                    at = child
                heap[at] = v
            while next_opening < n_tested and gone[by_opening[next_opening]]:
                next_opening += 1
            # Nodes leave before their ancestors at a tie, so `left + offset` stays positive.
            tested = heap[0]
            needed = need[tested] / (left + offset[tested])
            out = tested
            if opened[by_opening[next_opening]] >= needed:
                out = by_opening[next_opening]
                needed = opened[out]
            if next_earlier < n_earlier and earlier[next_earlier] > needed:
                alpha = min(alpha, earlier[next_earlier])
                next_earlier += 1
            else:
                alpha = min(alpha, needed)
                level[out] = alpha
                gone[out] = True
                n_gone += 1
            left -= 1
        # Merge the new levels, which fall along the order of leaving, into the earlier ones.
        for k in range(n_tested):
            v = by_opening[k]
            if level[v] < 1.0:
                earlier[n_earlier] = level[v]
                n_earlier += 1
        part = -np.sort(-earlier[:n_earlier])
        for k in range(n_earlier):
            earlier[k] = part[k]
    return level


@kernel
def simes_below(
    p: Floats,
    rising: Int64s,
    parent_ptr: Int32s,
    parent_idx: Int32s,
) -> tuple[Floats, Int64s]:
    """Simes' p-value of each node and the number of p-values it combines.

    `rising` lists the nodes that have a p-value, by rising p-value. Each one in turn is counted at
    itself and at all its ancestors: when it is the k-th at a node, it is that node's k-th smallest
    p-value. Time is that of visiting the ancestors of every node; memory is O(nodes).
    """
    n = p.size
    least = np.full(n, np.inf)  # min over k of the k-th smallest p-value over k
    count = np.zeros(n, np.int64)
    last_visit = np.full(n, -1, np.int64)
    stack = np.empty(n, np.int64)
    for node in rising:
        height = 1
        stack[0] = node
        last_visit[node] = node
        while height > 0:
            height -= 1
            at = stack[height]
            count[at] += 1
            share = p[node] / count[at]
            if share < least[at]:
                least[at] = share
            for k in range(parent_ptr[at], parent_ptr[at + 1]):
                above = parent_idx[k]
                if last_visit[above] != node:
                    last_visit[above] = node
                    stack[height] = above
                    height += 1
    return least * count, count
