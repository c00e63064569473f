"""The order inside a block: best where that can be certified, else good and bounded."""

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._jit import kernel
from hierlpr._kernels.forest_blocks import forest_blocks
from hierlpr._kernels.ideals import best_order
from hierlpr._kernels.keys import SIZE_BITS

__all__ = ["area_of", "order_block"]

WINDOW = 16  # nodes that are put in their best order together, others fixed
WINDOW_STATES = 1000
MOST_WINDOWS = 2048
RELAXATIONS = 6
SMALL = 200  # blocks up to this size are also ordered cone by cone


@kernel
def area_of(value: NDArray[np.int64], order: NDArray[np.int32]) -> float:
    """Sum of the running sums of `value` along `order`."""
    n = order.size
    area = 0.0
    for k in range(n):
        area += float(value[order[k]]) * (n - k)
    return area


@kernel
def _relaxed_order(
    value: NDArray[np.int64], parent: NDArray[np.int32], order: NDArray[np.int32]
) -> None:
    """Best order if each node has one parent only (Horn, 1972)."""
    n = value.size
    row_ptr = np.array([0, n], np.int64)
    slot = np.arange(n).astype(np.int32)
    keys = np.empty(n, np.uint64)
    following = np.empty(n, np.int32)
    n_blocks = forest_blocks(
        value.astype(np.float64), row_ptr, slot, parent, True, 1.0, 0, 1, slot, 24, 0, following,
        keys, np.empty(0),
    )  # fmt: skip
    head = np.empty(n_blocks, np.int32)
    mean = np.empty(n_blocks)
    for b in range(n_blocks):
        head[b] = (np.int64(keys[b]) >> SIZE_BITS) & ((1 << 24) - 1)
        total = 0.0
        size = 0
        i = head[b]
        while i >= 0:
            total += value[i]
            size += 1
            i = following[i]
        mean[b] = total / size
    k = 0
    for b in np.argsort(-mean, kind="mergesort"):
        i = head[b]
        while i >= 0:
            order[k] = i
            k += 1
            i = following[i]


@kernel
def _pull_parents(
    up_ptr: NDArray[np.int64], up_idx: NDArray[np.int32], order: NDArray[np.int32]
) -> None:
    """Make `order` respect all parents, in place: what a node needs is called right before it."""
    n = order.size
    wish = np.empty(n, np.int32)
    for k in range(n):
        wish[order[k]] = k
    called = np.zeros(n, np.bool_)
    stack = np.empty(n, np.int32)
    result = np.empty(n, np.int32)
    k = 0
    for at in range(n):
        if called[order[at]]:
            continue
        stack[0] = order[at]
        depth = 0
        while depth >= 0:
            v = stack[depth]
            need = -1
            for e in range(up_ptr[v], up_ptr[v + 1]):
                p = up_idx[e]
                if not called[p] and (need < 0 or wish[p] < wish[need]):
                    need = p
            if need >= 0:
                depth += 1
                stack[depth] = need
            else:
                called[v] = True
                result[k] = v
                k += 1
                depth -= 1
    for at in range(n):
        order[at] = result[at]


@kernel
def _cone_order(
    value: NDArray[np.int64],
    up_ptr: NDArray[np.int64],
    up_idx: NDArray[np.int32],
    order: NDArray[np.int32],
) -> None:
    """Call the cone of largest mean, a node with all ancestors not yet called, again and again."""
    n = value.size
    called = np.zeros(n, np.bool_)
    seen = np.full(n, -1, np.int32)
    cone = np.empty(n, np.int32)
    in_best = np.zeros(n, np.bool_)
    stamp = 0
    k = 0
    while k < n:
        best_total = 0.0
        best_size = 0
        for v in range(n):
            if called[v]:
                continue
            stamp += 1
            size = 1
            cone[0] = v
            seen[v] = stamp
            total = 0.0
            at = 0
            while at < size:
                w = cone[at]
                at += 1
                total += value[w]
                for e in range(up_ptr[w], up_ptr[w + 1]):
                    p = up_idx[e]
                    if not called[p] and seen[p] != stamp:
                        seen[p] = stamp
                        cone[size] = p
                        size += 1
            if best_size == 0 or total * best_size > best_total * size:
                best_total = total
                best_size = size
                for w in range(n):
                    in_best[w] = seen[w] == stamp
        for v in range(n):
            if in_best[v] and not called[v]:
                called[v] = True
                order[k] = v
                k += 1


@kernel
def _improve(
    value: NDArray[np.int64],
    up_ptr: NDArray[np.int64],
    up_idx: NDArray[np.int32],
    table: NDArray[np.int32],
    order: NDArray[np.int32],
) -> None:
    """Put overlapping windows of `order` in their best order until none gets better, or enough."""
    n = order.size
    width = min(WINDOW, n)
    place = np.empty(n, np.int32)
    for k in range(n):
        place[order[k]] = k
    local_value = np.empty(width, np.int64)
    local_ptr = np.empty(width + 1, np.int64)
    local_order = np.empty(width, np.int32)
    nodes = np.empty(width, np.int32)
    number = np.empty(width, np.int32)
    n_windows = 0
    better = True
    states: int = np.int64(WINDOW_STATES)  # a plain constant would compile the search once more
    while better and n_windows < MOST_WINDOWS:
        better = False
        start = 0
        while start < n:
            begin = max(0, min(start, n - width))
            start += WINDOW // 2
            n_windows += 1
            # Numbers rise from parent to child, so the window's nodes go by number.
            for k in range(width):
                v = order[begin + k]
                j = k
                while j > 0 and nodes[j - 1] > v:
                    nodes[j] = nodes[j - 1]
                    j -= 1
                nodes[j] = v
            for k in range(width):
                number[place[nodes[k]] - begin] = k
            n_edges = 0
            for k in range(width):
                for e in range(up_ptr[nodes[k]], up_ptr[nodes[k] + 1]):
                    n_edges += begin <= place[up_idx[e]] < begin + width
            local_idx = np.empty(n_edges, np.int32)
            n_edges = 0
            for k in range(width):
                local_value[k] = value[nodes[k]]
                local_ptr[k] = n_edges
                for e in range(up_ptr[nodes[k]], up_ptr[nodes[k] + 1]):
                    at = place[up_idx[e]] - begin
                    if 0 <= at < width:
                        local_idx[n_edges] = number[at]
                        n_edges += 1
            local_ptr[width] = n_edges
            if not best_order(local_value, local_ptr, local_idx, states, table, local_order):
                continue
            if area_of(local_value, local_order) > area_of(local_value, number):
                better = True
                for k in range(width):
                    v = nodes[local_order[k]]
                    order[begin + k] = v
                    place[v] = begin + k


@kernel
def order_block(
    value: NDArray[np.int64],
    up_ptr: NDArray[np.int64],
    up_idx: NDArray[np.int32],
    state_cap: int,
    table: NDArray[np.int32],
    order: NDArray[np.int32],
) -> float:
    """Write an order of the block's nodes, parents first; return how much area it may lack.

    0 means that the order is certified best. Otherwise it is the best of several: follow the
    relaxation that leaves each node the parent called latest, or cones of largest mean; then
    improved window by window. What relaxations reach bounds the best from above, as does the mean:
    no closed part of a block has a larger mean than the block.
    """
    if best_order(value, up_ptr, up_idx, state_cap, table, order):
        return 0.0
    n = value.size
    total = 0.0
    for i in range(n):
        total += value[i]
    bound = total * (n + 1) / 2.0
    parent = np.empty(n, np.int32)
    place = np.arange(n).astype(np.int32)
    trial = np.arange(n).astype(np.int32)
    for i in range(n):
        order[i] = i
    best = area_of(value, order)
    for _ in range(RELAXATIONS):
        for i in range(n):
            parent[i] = -1
            for e in range(up_ptr[i], up_ptr[i + 1]):
                if parent[i] < 0 or place[up_idx[e]] > place[parent[i]]:
                    parent[i] = up_idx[e]
        _relaxed_order(value, parent, trial)
        bound = min(bound, area_of(value, trial))
        _pull_parents(up_ptr, up_idx, trial)
        area = area_of(value, trial)
        for k in range(n):
            place[trial[k]] = k
            if area > best:
                order[k] = trial[k]
        best = max(area, best)
    if n <= SMALL:
        _cone_order(value, up_ptr, up_idx, trial)
        if area_of(value, trial) > best:
            for k in range(n):
                order[k] = trial[k]
    _improve(value, up_ptr, up_idx, table, order)
    return max(0.0, bound - area_of(value, order))
