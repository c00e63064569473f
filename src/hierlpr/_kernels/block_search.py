"""Blocks on DAGs: isotonic regression by pooling, and the order inside a block.

Pooling is a dual active-set method. Each edge is a constraint: the fitted value of the child is at
most that of the parent. A block is a tree of active constraints, edges with a positive multiplier,
and its fitted value is its mean. A violated constraint, whose child has the larger block mean,
becomes active: while its multiplier grows, the child's block falls and the parent's block rises,
until they meet and are merged. If the multiplier of another edge of these trees reaches zero first,
this edge is dropped and the part of the block behind it separates. Every merge raises the dual
objective, so the method ends (Goldfarb and Idnani, 1983); on trees it needs no linear algebra.

The order of a block that is not a tree comes from a dynamic program over closed sets, or a
heuristic. The area of an order is the sum of its running sums of values; the best has the largest.
"""

from typing import Any

import numpy as np

from hierlpr._kernels._jit import Bools, Floats, Int32s, Int64s, kernel
from hierlpr._kernels.forest_blocks import forest_blocks

MOST_NODES = 512  # of a block that the dynamic program takes
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
MOST_ROUNDS = 1000  # after which no part leaves any more; about 25 are the rule


@kernel
def fixed_mean(total: Any, count: Any) -> Any:
    """Return a mean in whole steps of 2**-32, rounded down.

    Means of at most 2**16 values of 30 bits compare as exact fractions do. Those of larger blocks
    may compare equal if they are less than 2**-32 apart.
    """
    whole = total // count
    return (whole << 32) + ((total - whole * count) << 32) // count


@kernel
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
    n_edges = up_idx.size
    down_ptr = np.zeros(n + 1, np.int64)
    for e in range(n_edges):
        down_ptr[up_idx[e] + 1] += 1
    for i in range(n):
        down_ptr[i + 1] += down_ptr[i]
    down = np.empty(n_edges, np.int64)  # the edges below each node
    fill = down_ptr[:n].copy()
    for e in range(n_edges):
        down[fill[up_idx[e]]] = e
        fill[up_idx[e]] += 1

    # Begin with the blocks of a forest: each node keeps the parent with the lowest value among it
    # and its own ancestors of this kind.
    parent = np.full(n, -1, np.int32)
    via = np.full(n, -1, np.int64)  # edge to the node that leads to the root of a tree
    mean = np.empty(n)
    for i in range(n):
        mean[i] = value[i]
        for e in range(up_ptr[i], up_ptr[i + 1]):
            if parent[i] < 0 or mean[up_idx[e]] < mean[parent[i]]:
                parent[i] = up_idx[e]
                via[i] = e
        if parent[i] >= 0:
            mean[i] = min(value[i], mean[parent[i]])
    count = np.empty(n, np.int32)
    order = np.empty(n, np.int32)
    forest_blocks(value, np.array([0, n]), parent, True, order, count, mean)
    active = np.zeros(n_edges, np.bool_)
    total = np.zeros(n, np.int64)
    root = np.empty(n, np.int32)
    for i in range(n):
        root[i] = i
        if count[i] == 0:
            root[i] = root[parent[i]]
            active[via[i]] = True
        total[root[i]] += np.int64(value[i])
    level = np.empty(n, np.int64)
    for i in range(n):
        level[i] = fixed_mean(total[root[i]], np.int64(count[root[i]]))

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
            if level[child[e]] - level[up_idx[e]] <= gap:
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
                        level[order[at]] = met
                    active[e] = True
                    break
                if upper_leaves and lower_leaves:
                    # The one that the new multiplier, as it grows, reaches first.
                    given = total[c] - count[c] * (high / 2.0**32)
                    taken = count[p] * (low / 2.0**32) - total[p]
                    upper_leaves = given <= taken
                leaves = upper if upper_leaves else lower
                active[via[order[leaves]]] = False
                for at in range(leaves, leaves + count[order[leaves]]):
                    level[order[at]] = high if upper_leaves else low
    return level, active


@kernel
def block_graph(
    value: Floats, up_ptr: Int64s, up_idx: Int32s, nodes: Int32s
) -> tuple[Int64s, Int64s, Int32s]:
    """Return the values of some rising nodes, and their parents among them as a CSR pair."""
    n = nodes.size
    local_value = np.empty(n, np.int64)
    local_ptr = np.zeros(n + 1, np.int64)
    n_edges = 0
    for k in range(n):
        local_value[k] = np.int64(value[nodes[k]])
        n_edges += up_ptr[nodes[k] + 1] - up_ptr[nodes[k]]
    local_idx = np.empty(n_edges, np.int32)
    n_edges = 0
    for k in range(n):
        for e in range(up_ptr[nodes[k]], up_ptr[nodes[k] + 1]):
            j = np.searchsorted(nodes, up_idx[e])
            if j < n and nodes[j] == up_idx[e]:
                local_idx[n_edges] = j
                n_edges += 1
        local_ptr[k + 1] = n_edges
    return local_value, local_ptr, local_idx[:n_edges]


@kernel
def order_area(value: Int64s, order: Int32s) -> float:
    """Return the sum of the running sums of `value` along `order`."""
    area = 0.0
    for k in range(order.size):
        area += float(value[order[k]]) * (order.size - k)
    return area


@kernel
def best_order(
    value: Int64s, up_ptr: Int64s, up_idx: Int32s, state_cap: int, order: Int32s
) -> bool:
    """Write the order of largest area, parents first, unless that takes over `state_cap` states.

    A state is the set of nodes called so far; the best way to reach it does not depend on the rest,
    so a dynamic program over these sets, by size, is exact. A node need not be tried while a
    node of at least the same value is free that has all of its children: swapping the two loses
    nothing. Sets are bit masks of 64-bit words. Returns False if nothing was written.
    """
    n = value.size
    if n > MOST_NODES:
        return False
    n_words = (n + 63) // 64
    one = np.uint64(1)
    above = np.zeros((n, n_words), np.uint64)
    below = np.zeros((n, n_words), np.uint64)
    for v in range(n):
        for e in range(up_ptr[v], up_ptr[v + 1]):
            p = up_idx[e]
            above[v, p >> 6] |= one << np.uint64(p & 63)
            below[p, v >> 6] |= one << np.uint64(v & 63)
    better = np.zeros((n, n_words), np.uint64)  # nodes to try before each node
    for v in range(n):
        for w in range(n):
            if value[w] > value[v] or (value[w] == value[v] and w < v):
                dominates = True
                for k in range(n_words):
                    dominates &= below[v, k] & ~below[w, k] == 0
                if dominates:
                    better[v, w >> 6] |= one << np.uint64(w & 63)

    if n < 15:
        state_cap = min(state_cap, 1 << n)
    table_bits = 4
    while (1 << table_bits) < 2 * state_cap:
        table_bits += 1
    table = np.full(1 << table_bits, -1, np.int32)
    called = np.zeros((state_cap + 1, n_words), np.uint64)
    area = np.zeros(state_cap + 1, np.int64)
    running = np.zeros(state_cap + 1, np.int64)
    before = np.full(state_cap + 1, -1, np.int32)
    latest = np.full(state_cap + 1, -1, np.int32)
    free = np.empty(n_words, np.uint64)
    n_states = 1
    s = 0
    # Invariant: states are in order of the number of nodes called, so state s is final here.
    while s < n_states:
        free[:] = 0
        for v in range(n):
            is_free = (called[s, v >> 6] >> np.uint64(v & 63)) & one == 0
            for k in range(n_words):
                is_free &= above[v, k] & ~called[s, k] == 0
            if is_free:
                free[v >> 6] |= one << np.uint64(v & 63)
        for v in range(n):
            if (free[v >> 6] >> np.uint64(v & 63)) & one == 0:
                continue
            tried = True
            for k in range(n_words):
                tried &= better[v, k] & free[k] == 0
            if not tried:
                continue
            bit = one << np.uint64(v & 63)
            code = np.uint64(0)
            for k in range(n_words):
                word = called[s, k] | (bit if k == v >> 6 else np.uint64(0))
                code = (code ^ word) * HASH_FACTOR
            slot = np.int64(code >> np.uint64(64 - table_bits))
            t = table[slot]
            while t >= 0:
                same = True
                for k in range(n_words):
                    word = called[s, k] | (bit if k == v >> 6 else np.uint64(0))
                    same &= called[t, k] == word
                if same:
                    break
                slot = (slot + 1) & ((1 << table_bits) - 1)
                t = table[slot]
            if t < 0:
                if n_states > state_cap:
                    return False
                t = n_states
                n_states += 1
                table[slot] = t
                called[t] = called[s]
                called[t, v >> 6] |= bit
                running[t] = running[s] + value[v]
            elif area[t] >= area[s] + running[t]:
                continue
            area[t] = area[s] + running[t]
            before[t] = s
            latest[t] = v
        s += 1
    t = n_states - 1  # all nodes called: the largest set, found last
    for k in range(n - 1, -1, -1):
        order[k] = latest[t]
        t = before[t]
    return True


@kernel
def order_blocks(
    value: Floats,
    up_ptr: Int64s,
    up_idx: Int32s,
    ptr: Int64s,
    state_cap: int,
    nodes: Int32s,
    is_best: Bools,
) -> None:
    """Put the nodes ``nodes[ptr[b]:ptr[b + 1]]`` of each block in their best order, in place.

    Where that takes over `state_cap` states they stay as they are, and `is_best` is False.
    """
    for b in range(ptr.size - 1):
        block = nodes[ptr[b] : ptr[b + 1]]
        local_value, local_ptr, local_idx = block_graph(value, up_ptr, up_idx, block)
        order = np.empty(block.size, np.int32)
        is_best[b] = best_order(local_value, local_ptr, local_idx, state_cap, order)
        if is_best[b]:
            block[:] = block[order]


@kernel
def latest_parents(up_ptr: Int64s, up_idx: Int32s, position: Int32s) -> Int32s:
    """Return the parent of each node with the latest position, or -1."""
    parent = np.full(position.size, -1, np.int32)
    for v in range(position.size):
        for e in range(up_ptr[v], up_ptr[v + 1]):
            if parent[v] < 0 or position[up_idx[e]] > position[parent[v]]:
                parent[v] = up_idx[e]
    return parent


@kernel
def pull_parents(up_ptr: Int64s, up_idx: Int32s, wanted: Int32s) -> Int32s:
    """Return the order `wanted`, but with missing ancestors of a node right before it."""
    n = wanted.size
    position = np.empty(n, np.int32)
    position[wanted] = np.arange(n)
    called = np.zeros(n, np.bool_)
    stack = np.empty(n, np.int32)
    order = np.empty(n, np.int32)
    size = 0
    for k in range(n):
        depth = 0
        stack[0] = wanted[k]
        while depth >= 0 and not called[wanted[k]]:
            v = stack[depth]
            missing = -1
            for e in range(up_ptr[v], up_ptr[v + 1]):
                p = up_idx[e]
                if not called[p] and (missing < 0 or position[p] < position[missing]):
                    missing = p
            if missing >= 0:
                depth += 1
                stack[depth] = missing
            else:
                called[v] = True
                order[size] = v
                size += 1
                depth -= 1
    return order
