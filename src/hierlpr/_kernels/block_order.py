"""The order inside a block: best where that can be certified, else good and bounded."""

import numpy as np

from hierlpr._kernels._arrays import Index, Ints
from hierlpr._kernels._jit import kernel
from hierlpr._kernels.forest_blocks import link_forest
from hierlpr._kernels.ideals import best_order
from hierlpr._kernels.keys import find_node, on_grid
from hierlpr._kernels.layout import Dag, Forest, Linked, Rows

WINDOW = 16  # nodes that are put in their best order together, others fixed
WINDOW_STATES = 1000
MOST_WINDOWS = 2048
RELAXATIONS = 6
SMALL = 200  # blocks up to this size are also ordered cone by cone


@kernel
def _area_of(value: Ints, order: Index) -> float:
    """Sum of the running sums of `value` along `order`."""
    n = order.size
    area = 0.0
    for k in range(n):
        area += float(value[order[k]]) * (n - k)
    return area


@kernel
def block_graph(rows: Rows, dag: Dag, sample: int, nodes: Index) -> tuple[Ints, Ints, Index]:
    """Values of some rising nodes of a sample, and their parents among them as a CSR pair."""
    size = nodes.size
    row = rows.row_ptr[sample]
    base = 0 if dag.is_shared else row
    value = np.empty(size, np.int64)
    n_edges = 0
    for k in range(size):
        i = nodes[k]
        value[k] = np.int64(on_grid(rows.value[row + rows.slot[i]], rows.scale))
        n_edges += dag.parent_ptr[base + i + 1] - dag.parent_ptr[base + i]
    up_ptr = np.empty(size + 1, np.int64)
    up_ptr[0] = 0
    up_idx = np.empty(n_edges, np.int32)
    n_edges = 0
    for k in range(size):
        i = nodes[k]
        for e in range(dag.parent_ptr[base + i], dag.parent_ptr[base + i + 1]):
            q = find_node(nodes, 0, size, dag.parent_idx[e])
            if q < size and nodes[q] == dag.parent_idx[e]:
                up_idx[n_edges] = q
                n_edges += 1
        up_ptr[k + 1] = n_edges
    return value, up_ptr, up_idx[:n_edges]


def _relaxed_order(value: Ints, parent: Index) -> Index:
    """Best order if each node has one parent only (Horn, 1972)."""
    n = value.size
    each = np.arange(n, dtype=np.int32)
    rows = Rows(value.astype(np.float64), np.array([0, n], dtype=np.int64), each, each[:0], 1.0)
    linked = Linked.empty(np.empty(n, dtype=np.int32))
    link_forest(rows, Forest(parent, True), 0, 1, linked)
    head = np.flatnonzero(linked.count).astype(np.int32)
    order = np.empty(n, dtype=np.int32)
    _walk(head[np.argsort(-linked.mean[head], kind="stable")], linked.next_node, order)
    return order


@kernel
def _walk(head: Index, next_node: Index, order: Index) -> None:
    """List the nodes of blocks, block by block."""
    k = 0
    for b in range(head.size):
        i = head[b]
        while i >= 0:
            order[k] = i
            k += 1
            i = next_node[i]


@kernel
def _latest_parents(up_ptr: Ints, up_idx: Index, place: Index) -> Index:
    """Of each node's parents the one with the latest place, or -1."""
    parent = np.empty(place.size, np.int32)
    for i in range(place.size):
        parent[i] = -1
        for e in range(up_ptr[i], up_ptr[i + 1]):
            if parent[i] < 0 or place[up_idx[e]] > place[parent[i]]:
                parent[i] = up_idx[e]
    return parent


@kernel
def _pull_parents(up_ptr: Ints, up_idx: Index, order: Index) -> None:
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
    value: Ints,
    up_ptr: Ints,
    up_idx: Index,
    order: Index,
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
    value: Ints,
    up_ptr: Ints,
    up_idx: Index,
    table: Index,
    order: Index,
) -> None:
    """Put overlapping windows of `order` in their best order until none gets better, or enough."""
    n = order.size
    width = min(WINDOW, n)
    place = np.empty(n, np.int32)
    for k in range(n):
        place[order[k]] = k
    local_value = np.empty(width, np.int64)
    local_ptr = np.empty(width + 1, np.int64)
    local_idx = np.empty(up_idx.size, np.int32)
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
                local_value[k] = value[nodes[k]]
                local_ptr[k] = n_edges
                for e in range(up_ptr[nodes[k]], up_ptr[nodes[k] + 1]):
                    at = place[up_idx[e]] - begin
                    if 0 <= at < width:
                        local_idx[n_edges] = number[at]
                        n_edges += 1
            local_ptr[width] = n_edges
            edges = local_idx[:n_edges]
            if not best_order(local_value, local_ptr, edges, states, table, local_order):
                continue
            if _area_of(local_value, local_order) > _area_of(local_value, number):
                better = True
                for k in range(width):
                    v = nodes[local_order[k]]
                    order[begin + k] = v
                    place[v] = begin + k


def order_open_block(value: Ints, up_ptr: Ints, up_idx: Index, table: Index) -> tuple[Index, float]:
    """Return a good order of a block's nodes, parents first, and how much area it may lack.

    For blocks that are too large for the exact search. It is the best of several: follow the
    relaxation that leaves each node the parent called latest, or cones of largest mean; then
    improved window by window. What relaxations reach bounds the best from above, as does the mean:
    no closed part of a block has a larger mean than the block.
    """
    n = value.size
    bound = float(value.astype(np.float64).sum()) * (n + 1) / 2.0
    order = np.arange(n, dtype=np.int32)
    place = order
    best = _area_of(value, order)
    for _ in range(RELAXATIONS):
        trial = _relaxed_order(value, _latest_parents(up_ptr, up_idx, place))
        bound = min(bound, _area_of(value, trial))
        _pull_parents(up_ptr, up_idx, trial)
        area = _area_of(value, trial)
        place = np.empty(n, dtype=np.int32)
        place[trial] = np.arange(n, dtype=np.int32)
        if area > best:
            order, best = trial, area
    if n <= SMALL:
        trial = np.empty(n, dtype=np.int32)
        _cone_order(value, up_ptr, up_idx, trial)
        if _area_of(value, trial) > best:
            order = trial
    _improve(value, up_ptr, up_idx, table, order)
    return order, max(0.0, bound - _area_of(value, order))
