"""The order inside a block that is not a tree: a dynamic program over closed sets, or a heuristic.

The area of an order is the sum of its running sums of values, and the best order has the largest.
"""

import numpy as np

from hierlpr._kernels._jit import Bools, Floats, Int32s, Int64s, kernel

MOST_NODES = 512  # of a block that the dynamic program takes
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


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
    """Return of each node's parents the one with the latest position, or -1."""
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
