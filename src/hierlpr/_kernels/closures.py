"""Closed sets of a DAG of labels by minimum cuts: what lies above a mean, and what is tied in it.

A set is closed if it holds all parents of its labels. Excess flows from child to parent: a label
above the mean pays for its ancestors below it. What cannot be paid for stays below.
"""

import numpy as np

from hierlpr._kernels._arrays import Floats, Index, Ints, Sides
from hierlpr._kernels._jit import inner

EXACT = 1 << 17  # up to this many nodes, flows in units of 1 / n grid steps fit 63 bits


@inner
def _edges_below(up_ptr: Ints, up_idx: Index) -> tuple[Index, Ints, Ints]:
    """Return the child of each edge, and the edges below each node as a CSR pair."""
    n = up_ptr.size - 1
    tail = np.empty(up_idx.size, np.int32)
    down_ptr = np.zeros(n + 1, np.int64)
    for i in range(n):
        for e in range(up_ptr[i], up_ptr[i + 1]):
            tail[e] = i
            down_ptr[up_idx[e] + 1] += 1
    for i in range(n):
        down_ptr[i + 1] += down_ptr[i]
    down = np.empty(up_idx.size, np.int64)
    fill = down_ptr[:n].copy()
    for e in range(up_idx.size):
        down[fill[up_idx[e]]] = e
        fill[up_idx[e]] += 1
    return tail, down_ptr, down


@inner
def cut_at_mean(
    value: Ints,
    up_ptr: Ints,
    up_idx: Index,
    flow: Floats,
    side: Sides,
) -> tuple[Ints, bool]:
    """Part a DAG at its mean value: the isotonic regression lies above, at or below it.

    The parents of node ``i`` are ``up_idx[up_ptr[i]:up_ptr[i + 1]]``, all smaller than ``i``.
    `flow`, one number per edge and in units of the values, is a guess where to start; it is left
    at the flow found. `side` becomes 1 above, 0 at and -1 below the mean. Returns the final flow
    as integers, and whether the mean was met exactly, which it always is up to `EXACT` nodes.

    Maximum flow by preflow-push (Goldberg and Tarjan, 1988), with exact labels before each sweep
    over all nodes: edges have no capacity upward, so a sweep moves nearly all there is. Labels
    never fall, and those of nodes with anything left rise; a handful of sweeps is the rule, and
    what they leave is followed node by node.
    """
    n = value.size
    n_edges = up_idx.size
    total = np.int64(0)
    for i in range(n):
        total += value[i]
    unit = np.int64(n)
    level = total
    if n > EXACT:
        unit = np.int64(1) << 32
        size = n
        while size > 1:
            unit >>= 1
            size = (size + 1) // 2
        level = unit * (total // n) + (unit * (total % n)) // n
    balance = np.empty(n, np.int64)
    for i in range(n):
        balance[i] = unit * value[i] - level
    moved = np.empty(n_edges, np.int64)
    for i in range(n):
        for e in range(up_ptr[i], up_ptr[i + 1]):
            moved[e] = np.int64(flow[e] * unit)
            balance[i] -= moved[e]
            balance[up_idx[e]] += moved[e]
    tail, down_ptr, down = _edges_below(up_ptr, up_idx)
    # A first guess: pay for parents right away, from the leaves up.
    for i in range(n - 1, -1, -1):
        for e in range(up_ptr[i], up_ptr[i + 1]):
            if balance[i] <= 0:
                break
            p = up_idx[e]
            if balance[p] < 0:
                step = min(balance[i], -balance[p])
                moved[e] += step
                balance[i] -= step
                balance[p] += step

    label = np.empty(n, np.int32)
    queue = np.empty(n, np.int32)
    waiting = np.empty(n, np.bool_)
    while True:
        # Exact labels: the length of the shortest way to a node that still lacks something.
        n_queue = 0
        for i in range(n):
            label[i] = n
            if balance[i] < 0:
                label[i] = 0
                queue[n_queue] = i
                n_queue += 1
        at = 0
        while at < n_queue:
            w = queue[at]
            at += 1
            d = label[w] + 1
            for k in range(down_ptr[w], down_ptr[w + 1]):
                v = tail[down[k]]
                if label[v] == n:
                    label[v] = d
                    queue[n_queue] = v
                    n_queue += 1
            for e in range(up_ptr[w], up_ptr[w + 1]):
                v = up_idx[e]
                if moved[e] > 0 and label[v] == n:
                    label[v] = d
                    queue[n_queue] = v
                    n_queue += 1
        active = False
        # Move what there is one label down, from far to near: lacks fill up and may run over.
        for at in range(n_queue - 1, -1, -1):
            v = queue[at]
            if balance[v] <= 0:
                continue
            active = True
            nearer = label[v] - 1
            for e in range(up_ptr[v], up_ptr[v + 1]):
                w = up_idx[e]
                if label[w] == nearer:
                    moved[e] += balance[v]
                    balance[w] += balance[v]
                    balance[v] = 0
                    break
            if balance[v] == 0:
                continue
            for k in range(down_ptr[v], down_ptr[v + 1]):
                e = down[k]
                if moved[e] > 0 and label[tail[e]] == nearer:
                    step = min(balance[v], moved[e])
                    moved[e] -= step
                    balance[v] -= step
                    balance[tail[e]] += step
                    if balance[v] == 0:
                        break
        if not active:
            break
        # Where little is left, follow it one by one, raising labels on the way, for about as long
        # as a sweep takes: on long paths the next lack is often just one step further.
        n_queue = 0
        for i in range(n):
            waiting[i] = balance[i] > 0 and label[i] < n
            if waiting[i]:
                queue[n_queue] = i
                n_queue += 1
        at = 0
        work = 0
        while n_queue > 0 and work < n + n_edges:
            v = queue[at]
            at = at + 1 if at + 1 < n else 0
            n_queue -= 1
            waiting[v] = False
            while balance[v] > 0 and label[v] < n:
                nearer = label[v] - 1
                lowest = n
                for e in range(up_ptr[v], up_ptr[v + 1]):
                    w = up_idx[e]
                    work += 1
                    if label[w] != nearer:
                        lowest = min(lowest, label[w])
                        continue
                    moved[e] += balance[v]
                    balance[w] += balance[v]
                    balance[v] = 0
                    if balance[w] > 0 and not waiting[w]:
                        waiting[w] = True
                        queue[(at + n_queue) % n] = w
                        n_queue += 1
                    break
                for k in range(down_ptr[v], down_ptr[v + 1]):
                    if balance[v] == 0:
                        break
                    e = down[k]
                    w = tail[e]
                    work += 1
                    if moved[e] == 0:
                        continue
                    if label[w] != nearer:
                        lowest = min(lowest, label[w])
                        continue
                    step = min(balance[v], moved[e])
                    moved[e] -= step
                    balance[v] -= step
                    balance[w] += step
                    if balance[w] > 0 and not waiting[w]:
                        waiting[w] = True
                        queue[(at + n_queue) % n] = w
                        n_queue += 1
                if balance[v] > 0:
                    label[v] = min(n, lowest + 1)
                    work += 2
    # Labels are exact now: whoever reaches a lack is below the mean.
    n_queue = 0
    n_lacking = 0
    for i in range(n):
        side[i] = -1 if label[i] < n else 0
        n_lacking += label[i] < n
        if balance[i] > 0:
            side[i] = 1
            queue[n_queue] = i
            n_queue += 1
    for e in range(n_edges):
        flow[e] = moved[e] / unit
    if n_lacking == 0:
        for i in range(n):
            side[i] = 0
        return moved, n_queue == 0
    at = 0
    while at < n_queue:
        v = queue[at]
        at += 1
        for e in range(up_ptr[v], up_ptr[v + 1]):
            w = up_idx[e]
            if side[w] == 0:
                side[w] = 1
                queue[n_queue] = w
                n_queue += 1
        for k in range(down_ptr[v], down_ptr[v + 1]):
            w = tail[down[k]]
            if moved[down[k]] > 0 and side[w] == 0:
                side[w] = 1
                queue[n_queue] = w
                n_queue += 1
    return moved, True


@inner
def tied_blocks(
    up_ptr: Ints,
    up_idx: Index,
    moved: Ints,
    side: Sides,
    block: Index,
) -> int:
    """Give the smallest blocks of nodes at the mean (``side == 0``) numbers, and others -1.

    A closed set of mean equal to the level must follow the flow both ways, so the blocks are the
    strongly connected components of the arcs that are left (Picard and Queyranne, 1980).
    """
    n = side.size
    tail, down_ptr, down = _edges_below(up_ptr, up_idx)
    # Tarjan's search, without recursion.
    found = np.full(n, -1, np.int32)
    lowest = np.empty(n, np.int32)
    arc = np.zeros(n, np.int64)
    path = np.empty(n, np.int32)
    waiting = np.empty(n, np.int32)
    n_found = 0
    n_waiting = 0
    n_blocks = 0
    for i in range(n):
        block[i] = -1
    for root in range(n):
        if side[root] != 0 or found[root] >= 0:
            continue
        depth = 0
        path[0] = root
        while depth >= 0:
            v = path[depth]
            if found[v] < 0:
                found[v] = lowest[v] = n_found
                n_found += 1
                waiting[n_waiting] = v
                n_waiting += 1
            n_up = up_ptr[v + 1] - up_ptr[v]
            n_arcs = n_up + down_ptr[v + 1] - down_ptr[v]
            stepped = False
            while arc[v] < n_arcs:
                k = arc[v]
                if k < n_up:
                    w = up_idx[up_ptr[v] + k]
                else:
                    e = down[down_ptr[v] + k - n_up]
                    w = tail[e]
                    if moved[e] == 0:
                        arc[v] += 1
                        continue
                if side[w] != 0:
                    arc[v] += 1
                elif found[w] < 0:
                    depth += 1
                    path[depth] = w
                    stepped = True
                    break
                else:
                    if block[w] < 0:
                        lowest[v] = min(lowest[v], lowest[w])
                    arc[v] += 1
            if stepped:
                continue
            if lowest[v] == found[v]:
                while True:
                    n_waiting -= 1
                    w = waiting[n_waiting]
                    block[w] = n_blocks
                    if w == v:
                        break
                n_blocks += 1
            depth -= 1
    return n_blocks
