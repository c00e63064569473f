"""The best order inside blocks that are not trees: exact for small blocks, good for others.

The area of an order is the sum of its running sums of values; the best order has the largest.
"""

from __future__ import annotations

import numpy as np

from hierlpr._kernels._jit import Bools, Floats, Int32s, Int64s, kernel
from hierlpr._kernels.forest_blocks import forest_blocks, walk_blocks

MOST_NODES = 64  # of a block whose best order is searched: as many as a mask has bits
STATE_CAP = 20_000  # closed sets of a block to look at before its order stays uncertified
RELAXATIONS = 6
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def order_blocks(
    value: Floats, parent: Int32s, child: Int32s, ptr: Int64s
) -> tuple[Int64s, Floats]:
    """Return the nodes of all blocks in calling order, and how much area each block may miss.

    Block ``b`` has the nodes ``ptr[b]`` to ``ptr[b + 1]``, and every edge stays inside a block.
    """
    by_child = np.argsort(child, kind="stable")
    up_idx = parent[by_child]
    up_ptr = np.append(0, np.cumsum(np.bincount(child, minlength=value.size)))
    order = np.arange(value.size)
    is_best, gap = np.empty(ptr.size - 1, dtype=bool), np.zeros(ptr.size - 1)
    search_orders(value, up_ptr, up_idx, ptr, STATE_CAP, order, is_best)
    for b in np.flatnonzero(~is_best):
        start, stop = ptr[b : b + 2]
        local_ptr = up_ptr[start : stop + 1] - up_ptr[start]
        local_idx = up_idx[up_ptr[start] : up_ptr[stop]] - start
        best, gap[b] = good_order(value[start:stop], local_ptr, local_idx.astype(np.int32))
        order[start:stop] = start + best
    return order, gap


@kernel
def search_orders(
    value: Floats,
    up_ptr: Int64s,
    up_idx: Int32s,
    ptr: Int64s,
    state_cap: int,
    order: Int64s,
    is_best: Bools,
) -> None:
    """Write the order of largest area of each block, parents first, and whether it was found.

    A state is the set of nodes called so far; the best way to reach it does not depend on the rest,
    so a dynamic program over these sets, by size, is exact. A node need not be tried while a
    node of at least the same value is free that has all of its children: swapping the two loses
    nothing. Blocks of over `MOST_NODES` nodes or `state_cap` states keep their order.
    """
    one = np.uint64(1)
    for b in range(ptr.size - 1):
        first = ptr[b]
        n = ptr[b + 1] - first
        is_best[b] = False
        if n > MOST_NODES:
            continue
        above = np.zeros(n, np.uint64)
        below = np.zeros(n, np.uint64)
        for v in range(n):
            for e in range(up_ptr[first + v], up_ptr[first + v + 1]):
                p = up_idx[e] - first
                above[v] |= one << np.uint64(p)
                below[p] |= one << np.uint64(v)
        better = np.zeros(n, np.uint64)  # nodes to try before each node
        for v in range(n):
            for w in range(n):
                x, y = value[first + v], value[first + w]
                if (y > x or (y == x and w < v)) and below[v] & ~below[w] == 0:
                    better[v] |= one << np.uint64(w)

        most = min(state_cap, 1 << min(n, 30))
        table_bits = 4
        while (1 << table_bits) < 2 * most:
            table_bits += 1
        table = np.full(1 << table_bits, -1, np.int32)  # of states, by the hash of their nodes
        called = np.zeros(most + 1, np.uint64)
        area = np.zeros(most + 1)
        running = np.zeros(most + 1)
        before = np.full(most + 1, -1, np.int32)
        latest = np.full(most + 1, -1, np.int32)
        n_states = 1
        s = 0
        # Invariant: states are in order of the number of nodes called, so state s is final here.
        while s < n_states <= most:
            free = np.uint64(0)
            for v in range(n):
                if (called[s] >> np.uint64(v)) & one == 0 and above[v] & ~called[s] == 0:
                    free |= one << np.uint64(v)
            for v in range(n):
                if (free >> np.uint64(v)) & one == 0 or free & better[v] != 0:
                    continue
                mask = called[s] | (one << np.uint64(v))
                slot = np.int64((mask * HASH_FACTOR) >> np.uint64(64 - table_bits))
                t = table[slot]
                while t >= 0 and called[t] != mask:
                    slot = (slot + 1) & ((1 << table_bits) - 1)
                    t = table[slot]
                if t < 0:
                    if n_states > most:
                        break
                    t = n_states
                    n_states += 1
                    table[slot] = t
                    called[t] = mask
                    running[t] = running[s] + value[first + v]
                elif area[t] >= area[s] + running[t]:
                    continue
                area[t] = area[s] + running[t]
                before[t] = s
                latest[t] = v
            s += 1
        is_best[b] = n_states <= most
        t = n_states - 1  # all nodes called: the largest set, reached last
        for k in range(n - 1 if is_best[b] else -1, -1, -1):
            order[first + k] = first + latest[t]
            t = before[t]


def good_order(value: Floats, up_ptr: Int64s, up_idx: Int32s) -> tuple[Int32s, float]:
    """Return a good order of a block, parents first, and how much area it may miss.

    If each node keeps one of its parents, the best order is that of a forest, and its area bounds
    the best area of the block from above; so does the mean, as no closed part of a block has a
    larger one. The order of the forest with the ancestors of each node called right before it is
    good for the block as well, and determines which parent to keep next: that called latest.
    """
    n = value.size
    child, left = np.repeat(np.arange(n), np.diff(up_ptr)), np.arange(n, 0, -1)
    bound = float(value.sum()) * (n + 1) / 2.0
    best, most = np.arange(n, dtype=np.int32), -1.0
    order = best
    for _ in range(RELAXATIONS):
        position = np.argsort(order)
        last = np.full(n, -1)
        np.maximum.at(last, child, position[up_idx])
        parent = np.where(last >= 0, order[last], -1).astype(np.int32)
        next_node, count, mean = np.empty_like(best), np.empty_like(best), np.empty(n)
        forest_blocks(value, np.array([0, n]), parent, True, next_node, count, mean)
        heads = np.flatnonzero(count)
        heads = heads[np.argsort(-mean[heads], kind="stable")]
        relaxed, _ = walk_blocks(heads, np.zeros(n, dtype=np.int64), next_node)
        bound = min(bound, float(value[relaxed] @ left))
        order = call_parents_first(relaxed, up_ptr, up_idx)
        area = float(value[order] @ left)
        if area > most:
            best, most = order, area
    return best, max(0.0, bound - most)


def call_parents_first(wanted: Int32s, up_ptr: Int64s, up_idx: Int32s) -> Int32s:
    """Return the order `wanted`, but with missing ancestors of a node right before it."""
    place = np.argsort(wanted).tolist()
    ptr, idx = up_ptr.tolist(), up_idx.tolist()
    called: dict[int, None] = {}
    for node in wanted.tolist():
        stack = [node]
        while stack:
            v = stack[-1]
            missing = [p for p in idx[ptr[v] : ptr[v + 1]] if p not in called]
            if missing:
                stack.append(min(missing, key=place.__getitem__))
            else:
                called[stack.pop()] = None
    return np.array(list(called), dtype=np.int32)
