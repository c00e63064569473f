"""One sample on a DAG -> blocks: Sidney's decomposition, by cuts where nothing simpler will do."""

import numpy as np

from hierlpr._kernels._arrays import Bools, Index, Ints
from hierlpr._kernels._jit import inner
from hierlpr._kernels.closures import cut_at_mean, tied_blocks

ROUNDS = 4  # of looking for edges that bind nothing, before each cut


@inner
def partition(
    value: Ints,
    up_ptr: Ints,
    up_idx: Index,
    parent: Index,
    hard: Index,
    hard_ptr: Ints,
    exact: Bools,
) -> int:
    """Find the blocks of one sample, the finest ones if there are ties.

    The parents of node ``i`` are ``up_idx[up_ptr[i]:up_ptr[i + 1]]``, all smaller than ``i``.

    Writes ``parent[i]``, the only parent that still matters to ``i``, or -1, such that merging
    this forest gives the blocks; except for blocks that are not trees: block ``b`` has the nodes
    ``hard[hard_ptr[b]:hard_ptr[b + 1]]``, rising, with ``parent`` -1, and ``exact[b]`` tells
    whether its mean was resolved exactly. Their number is returned.

    An edge from ``p`` to ``i`` binds nothing if all of ``p`` and its ancestors have values at
    least as large as ``i`` and its descendants: then their block scores fall anyway, and if they
    are equal both nodes are blocks of their own. Without such edges most samples fall apart into
    trees, and the rest is cut at its mean, again and again (divide and conquer).
    """
    n = value.size
    n_hard = 0
    hard_ptr[0] = 0
    alive = np.ones(up_idx.size, np.bool_)
    flow = np.zeros(up_idx.size)
    room_idx = np.empty(up_idx.size, np.int32)
    room_flow = np.empty(up_idx.size)
    least = np.empty(n, np.int64)  # smallest value among a node and its ancestors
    most = np.empty(n, np.int64)  # largest value among a node and its descendants
    nodes = np.arange(n).astype(np.int32)
    moved_nodes = np.empty(n, np.int32)
    group = np.empty(n, np.int32)
    place = np.empty(n, np.int32)
    count = np.zeros(n + 1, np.int64)
    several = np.zeros(n, np.bool_)
    stack = np.empty((n + 2, 2), np.int64)
    stack[0, 0] = 0
    stack[0, 1] = n
    n_stack = 1
    for i in range(n):
        parent[i] = -1
    while n_stack > 0:
        n_stack -= 1
        begin = stack[n_stack, 0]
        end = stack[n_stack, 1]
        for _ in range(ROUNDS):
            for j in range(begin, end):
                i = nodes[j]
                least[i] = most[i] = value[i]
                for e in range(up_ptr[i], up_ptr[i + 1]):
                    if alive[e]:
                        least[i] = min(least[i], least[up_idx[e]])
            for j in range(end - 1, begin - 1, -1):
                i = nodes[j]
                for e in range(up_ptr[i], up_ptr[i + 1]):
                    if alive[e]:
                        most[up_idx[e]] = max(most[up_idx[e]], most[i])
            n_dropped = 0
            n_alive = 0
            for j in range(begin, end):
                i = nodes[j]
                for e in range(up_ptr[i], up_ptr[i + 1]):
                    if alive[e]:
                        if least[up_idx[e]] >= most[i]:
                            alive[e] = False
                            n_dropped += 1
                        else:
                            n_alive += 1
            if 8 * n_dropped <= n_alive:
                break
        # Connected groups, by union-find; a group goes by its smallest node.
        for j in range(begin, end):
            group[nodes[j]] = nodes[j]
        for j in range(begin, end):
            i = nodes[j]
            for e in range(up_ptr[i], up_ptr[i + 1]):
                if alive[e]:
                    a = i
                    while group[a] != a:
                        group[a] = group[group[a]]
                        a = group[a]
                    b = up_idx[e]
                    while group[b] != b:
                        group[b] = group[group[b]]
                        b = group[b]
                    if a < b:
                        group[b] = a
                    else:
                        group[a] = b
        for j in range(begin, end):
            i = nodes[j]
            a = group[i]
            while group[a] != a:
                a = group[a]
            group[i] = a
            count[a] += 1
            n_above = 0
            for e in range(up_ptr[i], up_ptr[i + 1]):
                if alive[e]:
                    n_above += 1
                    parent[i] = up_idx[e]
            if n_above > 1:
                several[a] = True
        # Sort the nodes of groups that are no trees by group; the trees are done.
        at = begin
        for j in range(begin, end):
            i = nodes[j]
            a = group[i]
            if several[a]:
                if a == i:
                    place[i] = at
                    at += count[i]
            elif a == i:
                count[i] = 0
        for j in range(begin, end):
            i = nodes[j]
            a = group[i]
            if several[a]:
                parent[i] = -1
                moved_nodes[place[a]] = i
                place[a] += 1
        last = at
        for j in range(begin, last):
            nodes[j] = moved_nodes[j]
        at = begin
        while at < last:
            first = nodes[at]
            size = count[first]
            count[first] = 0
            several[first] = False
            # The group as a graph of its own.
            for k in range(size):
                place[nodes[at + k]] = k
            local_value = np.empty(size, np.int64)
            local_ptr = np.empty(size + 1, np.int64)
            n_edges = 0
            for k in range(size):
                i = nodes[at + k]
                local_value[k] = value[i]
                local_ptr[k] = n_edges
                for e in range(up_ptr[i], up_ptr[i + 1]):
                    if alive[e]:
                        room_idx[n_edges] = place[up_idx[e]]
                        room_flow[n_edges] = flow[e]
                        n_edges += 1
            local_ptr[size] = n_edges
            local_idx, local_flow = room_idx[:n_edges], room_flow[:n_edges]
            side = np.empty(size, np.int8)
            moved, met = cut_at_mean(local_value, local_ptr, local_idx, local_flow, side)
            n_edges = 0
            n_high = 0
            n_low = 0
            for k in range(size):
                i = nodes[at + k]
                n_high += side[k] > 0
                n_low += side[k] < 0
                for e in range(up_ptr[i], up_ptr[i + 1]):
                    if alive[e]:
                        flow[e] = local_flow[n_edges]
                        alive[e] = side[k] == side[local_idx[n_edges]]
                        n_edges += 1
            n_equal = size - n_high - n_low
            if n_equal > 0:
                block = np.zeros(size, np.int32)
                n_blocks = 1
                if met:
                    n_blocks = tied_blocks(local_ptr, local_idx, moved, side, block)
                n_inside = np.zeros(n_blocks, np.int64)
                joins = np.zeros(n_blocks, np.bool_)
                for k in range(size):
                    if side[k] != 0:
                        continue
                    n_above = 0
                    n_inside[block[k]] += 1
                    for e in range(local_ptr[k], local_ptr[k + 1]):
                        if block[local_idx[e]] == block[k]:
                            n_above += 1
                            parent[nodes[at + k]] = nodes[at + local_idx[e]]
                    if n_above > 1 or not met:
                        joins[block[k]] = True
                for b in range(n_blocks):
                    if joins[b]:
                        hard_ptr[n_hard + 1] = hard_ptr[n_hard] + n_inside[b]
                        n_inside[b] = hard_ptr[n_hard]
                        exact[n_hard] = met
                        n_hard += 1
                for k in range(size):
                    if side[k] == 0 and joins[block[k]]:
                        hard[n_inside[block[k]]] = nodes[at + k]
                        n_inside[block[k]] += 1
                        parent[nodes[at + k]] = -1
            if n_high + n_low > 0:
                # Above first, then below, each in rising order; what is at the mean is done.
                high = at
                low = at + n_high
                for k in range(size):
                    if side[k] > 0:
                        moved_nodes[high] = nodes[at + k]
                        high += 1
                    elif side[k] < 0:
                        moved_nodes[low] = nodes[at + k]
                        low += 1
                for j in range(at, low):
                    nodes[j] = moved_nodes[j]
                if n_high > 0:
                    stack[n_stack, 0] = at
                    stack[n_stack, 1] = at + n_high
                    n_stack += 1
                if n_low > 0:
                    stack[n_stack, 0] = at + n_high
                    stack[n_stack, 1] = low
                    n_stack += 1
            at += size
    return n_hard
