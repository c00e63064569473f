"""Level sets of the isotonic regression of values on DAGs, exact, by minimum cuts at means."""

import numpy as np

from hierlpr._kernels._arrays import Bools, Floats, Int32s, Int64s
from hierlpr._kernels._jit import kernel

MOST_EXACT = 1 << 17  # nodes of a part whose flows, in units of 1 / nodes, fit 63 bits


@kernel
def level_sets(
    value: Floats, part_ptr: Int64s, part_nodes: Int32s, up_ptr: Int64s, up_idx: Int32s
) -> tuple[Int32s, Int64s]:
    """Return the number of the level set of each node, -1 outside all parts, and the flows.

    The parents of node ``i`` are ``up_idx[up_ptr[i]:up_ptr[i + 1]]``, all smaller than ``i``; their
    regression is never below that of the child. Values are whole numbers of at most 30 bits. Part
    ``k`` of the graph has the nodes ``part_nodes[part_ptr[k]:part_ptr[k + 1]]``, rising; edges
    between parts count for nothing.

    Divide and conquer: a part is cut at its mean value. The regression is above the mean on the
    smallest set of largest excess that holds all parents of its nodes, and below it outside
    the largest such set (Picard, 1976). What lies between is a level set, the rest is cut again. In
    the network, excess flows from child to parent: nodes above the mean pay for ancestors below it.
    The flow left in a level set tells what is tied in it, see `dag_blocks`.

    Maximum flow is by preflow-push with exact distances from time to time (Goldberg and
    Tarjan, 1988). Parts of more than `MOST_EXACT` nodes are cut at the next whole number below the
    mean, so that level sets of that size may hold values of the regression less than 1 apart.
    """
    n = value.size
    n_edges = up_idx.size
    child = np.empty(n_edges, np.int32)
    down_ptr = np.zeros(n + 1, np.int64)
    for i in range(n):
        for e in range(up_ptr[i], up_ptr[i + 1]):
            child[e] = i
            down_ptr[up_idx[e] + 1] += 1
    for i in range(n):
        down_ptr[i + 1] += down_ptr[i]
    down = np.empty(n_edges, np.int64)  # the edges below each node
    fill = down_ptr[:n].copy()
    for e in range(n_edges):
        down[fill[up_idx[e]]] = e
        fill[up_idx[e]] += 1

    level = np.full(n, -1, np.int32)
    flow = np.zeros(n_edges, np.int64)
    part = np.full(n, -1, np.int32)
    balance = np.empty(n, np.int64)  # what a node has beyond the mean, and was paid
    distance = np.empty(
        n, np.int32
    )  # to a node that still lacks something, along which flow can go
    side = np.empty(n, np.int8)  # 1 above, 0 at, -1 below the mean
    queue = np.empty(n, np.int32)
    waiting = np.zeros(n, np.bool_)
    nodes = part_nodes.copy()
    n_stack = part_ptr.size - 1
    stack = np.empty((n + n_stack + 2, 2), np.int64)
    for k in range(n_stack):
        stack[k, 0] = part_ptr[k]
        stack[k, 1] = part_ptr[k + 1]
    n_parts = 0
    n_levels = 0
    while n_stack > 0:
        n_stack -= 1
        begin = stack[n_stack, 0]
        end = stack[n_stack, 1]
        size = end - begin
        if size <= 1:
            if size == 1:
                level[nodes[begin]] = n_levels
                n_levels += 1
            continue
        total = np.int64(0)
        for j in range(begin, end):
            total += np.int64(value[nodes[j]])
            part[nodes[j]] = n_parts
        unit = size if size <= MOST_EXACT else 1
        mean = total if size <= MOST_EXACT else total // size
        for j in range(begin, end):
            balance[nodes[j]] = unit * np.int64(value[nodes[j]]) - mean
        # A first guess, from the leaves up: pay for parents, then pass the rest on to any parent
        # that has ancestors to pay for. Without the latter long paths take very long.
        for j in range(begin, end):
            i = nodes[j]
            side[i] = 0  # whether an ancestor lacks something
            for e in range(up_ptr[i], up_ptr[i + 1]):
                p = up_idx[e]
                if part[p] == n_parts and (balance[p] < 0 or side[p] == 1):
                    side[i] = 1
        for j in range(end - 1, begin - 1, -1):
            i = nodes[j]
            for e in range(up_ptr[i], up_ptr[i + 1]):
                p = up_idx[e]
                flow[e] = 0
                if part[p] == n_parts and balance[i] > 0 and balance[p] < 0:
                    flow[e] = min(balance[i], -balance[p])
                    balance[i] -= flow[e]
                    balance[p] += flow[e]
            for e in range(up_ptr[i], up_ptr[i + 1]):
                p = up_idx[e]
                if part[p] == n_parts and balance[i] > 0 and side[p] == 1:
                    flow[e] += balance[i]
                    balance[p] += balance[i]
                    balance[i] = 0
        while True:
            # Breadth-first search from the nodes that lack something, against the flow.
            n_queue = 0
            for j in range(begin, end):
                i = nodes[j]
                distance[i] = size
                if balance[i] < 0:
                    distance[i] = 0
                    queue[n_queue] = i
                    n_queue += 1
            at = 0
            while at < n_queue:
                w = queue[at]
                at += 1
                for k in range(down_ptr[w], down_ptr[w + 1]):
                    v = child[down[k]]
                    if part[v] == n_parts and distance[v] == size:
                        distance[v] = distance[w] + 1
                        queue[n_queue] = v
                        n_queue += 1
                for e in range(up_ptr[w], up_ptr[w + 1]):
                    v = up_idx[e]
                    if flow[e] > 0 and part[v] == n_parts and distance[v] == size:
                        distance[v] = distance[w] + 1
                        queue[n_queue] = v
                        n_queue += 1
            # Push excess to nearer nodes, first in, first out, for a multiple of the search's work.
            n_queue = 0
            for j in range(begin, end):
                i = nodes[j]
                if balance[i] > 0 and distance[i] < size:
                    waiting[i] = True
                    queue[n_queue] = i
                    n_queue += 1
            if n_queue == 0:
                break
            at = 0
            work = 8 * size
            while n_queue > 0:
                v = queue[at]
                at = at + 1 if at + 1 < size else 0
                n_queue -= 1
                waiting[v] = False
                while balance[v] > 0 and distance[v] < size and work > 0:
                    nearer = distance[v] - 1
                    lowest = size
                    for e in range(up_ptr[v], up_ptr[v + 1]):
                        w = up_idx[e]
                        work -= 1
                        if part[w] != n_parts:
                            continue
                        if distance[w] != nearer:
                            lowest = min(lowest, distance[w])
                            continue
                        flow[e] += balance[v]
                        balance[w] += balance[v]
                        balance[v] = 0
                        if balance[w] > 0 and not waiting[w]:
                            waiting[w] = True
                            queue[(at + n_queue) % size] = w
                            n_queue += 1
                        break
                    for k in range(down_ptr[v], down_ptr[v + 1]):
                        if balance[v] == 0:
                            break
                        e = down[k]
                        w = child[e]
                        work -= 1
                        if flow[e] == 0 or part[w] != n_parts:
                            continue
                        if distance[w] != nearer:
                            lowest = min(lowest, distance[w])
                            continue
                        step = min(balance[v], flow[e])
                        flow[e] -= step
                        balance[v] -= step
                        balance[w] += step
                        if balance[w] > 0 and not waiting[w]:
                            waiting[w] = True
                            queue[(at + n_queue) % size] = w
                            n_queue += 1
                    if balance[v] > 0:
                        distance[v] = min(size, lowest + 1)
        # Whatever reaches a lack is below the mean; what excess that is left reaches is above it.
        n_queue = 0
        n_low = 0
        for j in range(begin, end):
            i = nodes[j]
            side[i] = 0
            if distance[i] < size:
                side[i] = -1
                n_low += 1
            elif balance[i] > 0:
                side[i] = 1
                queue[n_queue] = i
                n_queue += 1
        if n_low == 0:  # no lack, so no excess either, except below one unit
            for j in range(begin, end):
                level[nodes[j]] = n_levels
            n_levels += 1
            n_parts += 1
            continue
        at = 0
        while at < n_queue:
            v = queue[at]
            at += 1
            for e in range(up_ptr[v], up_ptr[v + 1]):
                w = up_idx[e]
                if part[w] == n_parts and side[w] == 0:
                    side[w] = 1
                    queue[n_queue] = w
                    n_queue += 1
            for k in range(down_ptr[v], down_ptr[v + 1]):
                w = child[down[k]]
                if part[w] == n_parts and flow[down[k]] > 0 and side[w] == 0:
                    side[w] = 1
                    queue[n_queue] = w
                    n_queue += 1
        # Above first, then below, each in rising order; what is at the mean is done.
        n_high = 0
        n_low = 0
        for j in range(begin, end):
            i = nodes[j]
            if side[i] > 0:
                nodes[begin + n_high] = i
                n_high += 1
            elif side[i] < 0:
                queue[n_low] = i
                n_low += 1
            else:
                level[i] = n_levels
        n_levels += 1
        for k in range(n_low):
            nodes[begin + n_high + k] = queue[k]
        stack[n_stack, 0] = begin
        stack[n_stack, 1] = begin + n_high
        stack[n_stack + 1, 0] = begin + n_high
        stack[n_stack + 1, 1] = begin + n_high + n_low
        n_stack += 2
        n_parts += 1
    return level, flow


@kernel
def binding_edges(value: Floats, up_ptr: Int64s, up_idx: Int32s) -> Bools:
    """Mark the edges without which the regression could differ.

    An edge binds nothing if the parent and all its ancestors have values at least as large as the
    child and all its descendants have. Without such edges most samples fall apart.
    """
    n = value.size
    binds = np.ones(up_idx.size, np.bool_)
    lowest = np.empty(n)  # among a node and its ancestors
    highest = np.empty(n)  # among a node and its descendants
    for _ in range(4):
        n_dropped = 0
        for i in range(n):
            lowest[i] = highest[i] = value[i]
            for e in range(up_ptr[i], up_ptr[i + 1]):
                if binds[e]:
                    lowest[i] = min(lowest[i], lowest[up_idx[e]])
        for i in range(n - 1, -1, -1):
            for e in range(up_ptr[i], up_ptr[i + 1]):
                if binds[e]:
                    highest[up_idx[e]] = max(highest[up_idx[e]], highest[i])
        for i in range(n):
            for e in range(up_ptr[i], up_ptr[i + 1]):
                if binds[e] and lowest[up_idx[e]] >= highest[i]:
                    binds[e] = False
                    n_dropped += 1
        if 8 * n_dropped <= up_idx.size:
            break
    return binds
