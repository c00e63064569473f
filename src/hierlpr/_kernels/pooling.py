"""Blocks on DAGs: isotonic regression by pooling.

Pooling is a dual active-set method. Each edge is a constraint: the fitted value of the child is at
most that of the parent. A block is a tree of active constraints, edges with a positive multiplier,
and its fitted value is its mean. A violated constraint, whose child has the larger block mean,
becomes active: while its multiplier grows, the child's block falls and the parent's block rises,
until they meet and are merged. If the multiplier of another edge of these trees reaches zero first,
this edge is dropped and the part of the block behind it separates. Every merge raises the dual
objective, so the method ends (Goldfarb and Idnani, 1983); on trees it needs no linear algebra.
"""

from typing import Any

import numpy as np

from hierlpr._kernels._jit import Bools, Floats, Int32s, Int64s, kernel
from hierlpr._kernels.forest_blocks import forest_blocks

MOST_ROUNDS = 1000  # after which no part leaves any more; about 25 are the rule


@kernel
def fixed_mean(total: Any, count: Any) -> Any:
    """Return a mean in whole steps of 2**-32, rounded down.

    Means of at most 2**16 values of 30 bits compare as exact fractions do. Those of larger blocks
    may compare equal if they are less than 2**-32 apart.
    """
    whole = total // count
    return (whole << 32) + ((total - whole * count) << 32) // count


def pool_blocks(
    value: Floats, up_ptr: Int64s, up_idx: Int32s, child: Int32s
) -> tuple[Int64s, Bools]:
    """Return the mean of each node's block, see `fixed_mean`, and which constraints are active.

    Edge ``e`` leads from ``child[e]`` to its parent ``up_idx[e]``; those of node ``i`` are
    ``up_ptr[i]`` to ``up_ptr[i + 1]``, and parents are smaller than children. Values are whole
    numbers of at most 30 bits. Blocks of equal mean may still have to be joined. Takes a few
    rounds over all edges, and time proportional to the size of two blocks whenever they meet.
    """
    n = value.size
    below = np.argsort(up_idx, kind="stable")  # the edges below each node
    down_ptr = np.append(0, np.cumsum(np.bincount(up_idx, minlength=n)))
    # Begin with the blocks of a forest.
    via = lowest_parents(value, up_ptr, up_idx)
    parent = np.full(n, -1, np.int32)
    parent[via >= 0] = up_idx[via[via >= 0]]
    next_node, count, mean = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n)
    forest_blocks(value, np.array([0, n]), parent, True, next_node, count, mean)
    return _pool(value, up_ptr, up_idx, child, down_ptr, below, parent, via, count)


@kernel
def lowest_parents(value: Floats, up_ptr: Int64s, up_idx: Int32s) -> Int64s:
    """Return the edge of each node to its parent with the lowest value, -1 for roots.

    The value of a parent is the lowest among it and its own ancestors of this kind.
    """
    via = np.full(value.size, -1, np.int64)
    lowest = np.empty(value.size)
    for i in range(value.size):
        lowest[i] = value[i]
        for e in range(up_ptr[i], up_ptr[i + 1]):
            if via[i] < 0 or lowest[up_idx[e]] < lowest[up_idx[via[i]]]:
                via[i] = e
        if via[i] >= 0:
            lowest[i] = min(value[i], lowest[up_idx[via[i]]])
    return via


@kernel
def _pool(
    value: Floats,
    up_ptr: Int64s,
    up_idx: Int32s,
    child: Int32s,
    down_ptr: Int64s,
    down: Int64s,
    parent: Int32s,
    via: Int64s,
    count: Int32s,
) -> tuple[Int64s, Bools]:
    """Make violated constraints active until none is left, beginning with blocks of a forest.

    The edges below node ``i`` are ``down[down_ptr[i]:down_ptr[i + 1]]``. `via` is the edge of each
    node to the node that leads to the root of its tree, at first to its `parent`.
    """
    n = value.size
    n_edges = up_idx.size
    order = np.empty(n, np.int32)
    active = np.zeros(n_edges, np.bool_)
    total = np.zeros(n, np.int64)
    root = np.empty(n, np.int32)
    for i in range(n):
        root[i] = i
        if count[i] == 0:
            root[i] = root[parent[i]]
            active[via[i]] = True
        total[root[i]] += np.int64(value[i])
    fitted = np.empty(n, np.int64)
    for i in range(n):
        fitted[i] = fixed_mean(total[root[i]], np.int64(count[root[i]]))

    stack = np.empty(n, np.int32)
    n_rounds = 0
    gap = np.int64(1) << 60  # between child and parent, up to which a round leaves them alone
    changed = True
    # Large gaps first: blocks that will be large then grow in few meetings.
    while changed:
        gap >>= 3
        changed = gap > 0
        n_rounds += 1
        for e in range(n_edges - 1, -1, -1):
            if fitted[child[e]] - fitted[up_idx[e]] <= gap:
                continue
            changed = True
            while True:
                # Walk the tree of the child, then that of the parent, so that in `order` every
                # part of a tree is a run that begins with its node next to the root.
                bound = 0
                size = 0
                for side in range(2):
                    bound = size
                    stack[0] = up_idx[e] if side else child[e]
                    via[stack[0]] = -1
                    depth = 1
                    while depth > 0:
                        depth -= 1
                        v = stack[depth]
                        order[size] = v
                        size += 1
                        total[v] = np.int64(value[v])
                        count[v] = 1
                        for f in range(up_ptr[v], up_ptr[v + 1]):
                            if active[f] and f != via[v]:
                                stack[depth] = up_idx[f]
                                via[up_idx[f]] = f
                                depth += 1
                        for k in range(down_ptr[v], down_ptr[v + 1]):
                            f = down[k]
                            if active[f] and f != via[v]:
                                stack[depth] = child[f]
                                via[child[f]] = f
                                depth += 1
                # While the child's block falls, the multipliers of edges to a part above them
                # shrink; that of the part with the largest mean is the first to reach zero. While
                # the parent's block rises, it is that of the part below with the smallest mean.
                upper = lower = -1
                high = low = np.int64(0)
                for at in range(size - 1, 0, -1):
                    v = order[at]
                    f = via[v]
                    if f < 0:
                        continue
                    is_below = child[f] == v
                    w = up_idx[f] if is_below else child[f]
                    total[w] += total[v]
                    count[w] += count[v]
                    if is_below != (at >= bound):
                        continue
                    part = fixed_mean(total[v], np.int64(count[v]))
                    if is_below and (lower < 0 or part < low):
                        lower, low = at, part
                    elif not is_below and (upper < 0 or part > high):
                        upper, high = at, part
                c, p = order[0], order[bound]
                met = fixed_mean(total[c] + total[p], np.int64(size))
                upper_leaves = upper >= 0 and high >= met and n_rounds <= MOST_ROUNDS
                lower_leaves = lower >= 0 and low <= met and n_rounds <= MOST_ROUNDS
                if not (upper_leaves or lower_leaves):
                    for at in range(size):
                        fitted[order[at]] = met
                    active[e] = True
                    break
                if upper_leaves and lower_leaves:
                    # The one that the new multiplier, as it grows, reaches first.
                    until_upper = total[c] - count[c] * (high / 2.0**32)
                    until_lower = count[p] * (low / 2.0**32) - total[p]
                    upper_leaves = until_upper <= until_lower
                leaves = upper if upper_leaves else lower
                active[via[order[leaves]]] = False
                for at in range(leaves, leaves + count[order[leaves]]):
                    fitted[order[at]] = high if upper_leaves else low
    return fitted, active
