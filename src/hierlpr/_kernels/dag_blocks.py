"""Blocks of labels on DAGs: Sidney's decomposition, and the best order inside each block.

All samples of a batch are one graph: `value` are whole numbers of grid steps, node by node; sample
``m`` has the nodes from ``row_ptr[m]`` on, and the parents of node ``i`` are
``up_idx[up_ptr[i]:up_ptr[i + 1]]``, all smaller than ``i``.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from hierlpr._kernels._jit import Bools, Floats, Int32s, Int64s, kernel
from hierlpr._kernels.block_search import (
    block_graph,
    latest_parents,
    order_area,
    order_blocks,
    pool_blocks,
    pull_parents,
)
from hierlpr._kernels.forest_blocks import forest_blocks, walk_blocks

STATE_CAP = 20_000  # closed sets of a block to look at before its order stays uncertified
RELAXATIONS = 6


@kernel
def weak_components(n: int, tails: Int32s, heads: Int32s) -> Int32s:
    """Return the smallest node in the weakly connected component of each of `n` nodes."""
    root = np.arange(n).astype(np.int32)
    for e in range(tails.size):
        a = tails[e]
        b = heads[e]
        while root[a] != a:
            root[a] = root[root[a]]  # halves the path, so that all take almost linear time
            a = root[a]
        while root[b] != b:
            root[b] = root[root[b]]
            b = root[b]
        root[max(a, b)] = min(a, b)
    for i in range(n):
        root[i] = root[root[i]]  # roots are smaller, so final already
    return root


@kernel
def strong_components(n: int, tails: Int32s, heads: Int32s) -> Int32s:
    """Return the number of the strongly connected component of each of `n` nodes.

    Tarjan (1972), with a stack of its own instead of recursion. O(nodes + edges).
    """
    ptr = np.zeros(n + 1, np.int64)
    for e in range(tails.size):
        ptr[tails[e] + 1] += 1
    for i in range(n):
        ptr[i + 1] += ptr[i]
    idx = np.empty(tails.size, np.int32)
    at = ptr[:n].copy()
    for e in range(tails.size):
        idx[at[tails[e]]] = heads[e]
        at[tails[e]] += 1

    component = np.full(n, -1, np.int32)
    visited = np.full(n, -1, np.int32)  # order of the first visits
    lowest = np.empty(n, np.int32)  # earliest visit that is reached from here
    at[:] = ptr[:n]  # next edge to follow
    path = np.empty(n, np.int32)  # from the start of the search to the current node
    pending = np.empty(n, np.int32)  # nodes visited whose component is not complete
    n_visited = n_pending = n_components = 0
    for start in range(n):
        if visited[start] >= 0:
            continue
        depth = 0
        path[0] = start
        while depth >= 0:
            v = path[depth]
            if visited[v] < 0:
                visited[v] = lowest[v] = n_visited
                n_visited += 1
                pending[n_pending] = v
                n_pending += 1
            if at[v] < ptr[v + 1]:
                w = idx[at[v]]
                if visited[w] < 0:
                    depth += 1  # comes back to this edge, which then updates `lowest`
                    path[depth] = w
                else:
                    at[v] += 1
                    if component[w] < 0:
                        lowest[v] = min(lowest[v], lowest[w])
                continue
            depth -= 1
            if lowest[v] == visited[v]:
                while component[v] < 0:
                    n_pending -= 1
                    component[pending[n_pending]] = n_components
                n_components += 1
    return component


@kernel
def batch_edges(
    rows: Int64s, parent_ptr: Int64s, parent_idx: Int32s, is_shared: bool
) -> tuple[Int64s, Int32s]:
    """Return the parents of all nodes of some samples, numbered through, as a CSR pair.

    The samples have the places from ``rows[m]`` to ``rows[m + 1]``. The parents of node ``i`` of
    a sample, numbered within it, stand at ``i`` of `parent_ptr` if all samples share one graph,
    else at ``rows[m] + i``.
    """
    first = rows[0]
    up_ptr = np.zeros(rows[-1] - first + 1, np.int64)
    for m in range(rows.size - 1):
        base = 0 if is_shared else rows[m]
        for i in range(rows[m + 1] - rows[m]):
            at = rows[m] - first + i
            up_ptr[at + 1] = up_ptr[at] + parent_ptr[base + i + 1] - parent_ptr[base + i]
    up_idx = np.empty(up_ptr[-1], np.int32)
    for m in range(rows.size - 1):
        base = 0 if is_shared else rows[m]
        for i in range(rows[m + 1] - rows[m]):
            at = up_ptr[rows[m] - first + i]
            for e in range(parent_ptr[base + i], parent_ptr[base + i + 1]):
                up_idx[at] = rows[m] - first + parent_idx[e]
                at += 1
    return up_ptr, up_idx


def dag_blocks(
    value: Floats, row_ptr: Int64s, up_ptr: Int64s, up_idx: Int32s, *, order: bool
) -> tuple[Int32s, Int32s, Floats, Int64s, Floats]:
    """Return the blocks: `next_node`, `count` and `mean` as of `forest_blocks`.

    Then the first nodes of the blocks whose order is not certified to be the best, and how much
    area each may miss. The edges inside most blocks form a tree, which the kernel for forests puts
    in order. Without `order`, blocks that are not trees are in no particular order.
    """
    child = np.repeat(np.arange(value.size, dtype=np.int32), np.diff(up_ptr))
    block, inside = _find_blocks(value, up_ptr, up_idx, child)
    row = np.repeat(row_ptr[:-1], np.diff(row_ptr))
    n_parents = np.bincount(child[inside], minlength=value.size)
    is_tree = np.ones(value.size, dtype=bool)
    is_tree[block[n_parents > 1]] = False
    parent = np.full(value.size, -1, dtype=np.int32)
    inside &= is_tree[block[child]]
    parent[child[inside]] = up_idx[inside] - row[child[inside]]
    next_node, count, mean = np.empty_like(parent), np.empty_like(parent), np.empty(value.size)
    forest_blocks(value, row_ptr, parent, False, next_node, count, mean)
    gap = np.zeros(value.size)  # by the first node of a block
    others = np.flatnonzero(~is_tree[block]).astype(np.int32)
    if others.size:
        others = others[np.argsort(block[others], kind="stable")]
        ptr = np.flatnonzero(np.diff(block[others], prepend=-1))
        size = np.diff(ptr, append=others.size)
        if order:
            _order_others(value, up_ptr, up_idx, others, np.append(ptr, others.size), gap)
        count[others] = 0
        count[others[ptr]] = size
        mean[others] = np.repeat(np.add.reduceat(value[others], ptr) / size, size)
        next_node[others[:-1]] = others[1:] - row[others[1:]]
        next_node[others[ptr + size - 1]] = -1
    if order:
        _join_ties(row, child, up_idx, next_node, count, mean, gap)
    uncertified = np.flatnonzero(gap)
    return next_node, count, mean, uncertified, gap[uncertified]


def _find_blocks(
    value: Floats, up_ptr: Int64s, up_idx: Int32s, child: Int32s
) -> tuple[Int32s, Bools]:
    """Return a number of the block of each node, and the edges inside blocks.

    A set of nodes that contains all parents of its nodes and has the mean of its level set contains
    both ends of every active edge. So the smallest blocks are the strongly connected components
    of the edges to parents of equal mean together with the active edges in both directions (Picard
    and Queyranne, 1980).
    """
    mean, active = pool_blocks(value, up_ptr, up_idx, child)
    same = mean[child] == mean[up_idx]
    tails = np.concatenate((child[same], up_idx[active]))
    heads = np.concatenate((up_idx[same], child[active]))
    block = strong_components(value.size, tails, heads)
    return block, block[child] == block[up_idx]


def _order_others(
    value: Floats, up_ptr: Int64s, up_idx: Int32s, nodes: Int32s, ptr: Int64s, gap: Floats
) -> None:
    """Put the nodes of blocks that are not trees in order, in place, and write their gaps."""
    is_best = np.empty(ptr.size - 1, dtype=bool)
    order_blocks(value, up_ptr, up_idx, ptr, STATE_CAP, nodes, is_best)
    for b in np.flatnonzero(~is_best):
        block = nodes[ptr[b] : ptr[b + 1]]
        order, missing = _good_order(*block_graph(value, up_ptr, up_idx, block))
        block[:] = block[order]
        gap[block[0]] = missing


def _good_order(value: Int64s, up_ptr: Int64s, up_idx: Int32s) -> tuple[Int32s, float]:
    """Return a good order of a block, parents first, and how much area it may miss.

    If each node keeps one of its parents, the best order is that of a forest, and its area bounds
    the best area of the block from above; so does the mean, as no closed part of a block has a
    larger one. The order of the forest with the ancestors of each node called right before it is
    good for the block as well, and determines which parent to keep next: that called latest.
    """
    n = value.size
    bound = float(value.sum()) * (n + 1) / 2.0
    best, area = np.arange(n, dtype=np.int32), -1.0
    position = best
    for _ in range(RELAXATIONS):
        next_node, count, mean = np.empty_like(best), np.empty_like(best), np.empty(n)
        parent = latest_parents(up_ptr, up_idx, position)
        forest_blocks(
            value.astype(np.float64), np.array([0, n]), parent, True, next_node, count, mean
        )
        heads = np.flatnonzero(count)
        heads = heads[np.argsort(-mean[heads], kind="stable")]
        relaxed, _ = walk_blocks(heads, np.zeros(n, dtype=np.int64), next_node)
        bound = min(bound, order_area(value, relaxed))
        order = pull_parents(up_ptr, up_idx, relaxed)
        if order_area(value, order) > area:
            best, area = order, order_area(value, order)
        position = np.empty(n, dtype=np.int32)
        position[order] = np.arange(n, dtype=np.int32)
    return best, max(0.0, bound - area)


def _join_ties(
    row: Int64s,
    child: Int32s,
    parent: Int32s,
    next_node: Int32s,
    count: Int32s,
    mean: Floats,
    gap: Floats,
) -> None:
    """Join blocks of equal mean that their first nodes would put in the wrong order, in place.

    Blocks of equal mean are called by the number of their first node. On a DAG a block may begin
    with a smaller number than a block it depends on. Then the blocks of equal mean that depend on
    each other are called one by one, always the free one with the smallest first node, and one
    that begins with a smaller number than the one before is appended to it. Neither means nor the
    area change.
    """
    _, first = walk_blocks(np.flatnonzero(count), row, next_node)
    a, b = first[parent], first[child]
    tied = (a != b) & (mean[a] == mean[b])
    if not np.any(a[tied] > b[tied]):
        return
    a, b = a[tied], b[tied]
    group = weak_components(mean.size, a, b)
    wrong = np.zeros(mean.size, dtype=bool)
    wrong[group[a[a > b]]] = True
    edges = np.unique(np.stack((a, b), axis=1)[wrong[group[a]]], axis=0)
    last: dict[int, int] = {}  # last node of a block that others were appended to
    below: dict[int, list[int]] = {}
    n_needed: dict[int, int] = {}
    for upper, lower in edges.tolist():
        below.setdefault(upper, []).append(lower)
        n_needed.setdefault(upper, 0)
        n_needed[lower] = n_needed.get(lower, 0) + 1
    free = [block for block, needed in n_needed.items() if needed == 0]
    heapify(free)
    previous: dict[int, int] = {}  # by group: what was called last
    while free:
        block = heappop(free)
        before = previous.get(int(group[block]), -1)
        if block < before:
            end = last.get(before, before)
            while next_node[end] >= 0:
                end = int(row[end] + next_node[end])
            next_node[end] = block - row[block]
            last[before] = block
            count[before] += count[block]
            count[block] = 0
            gap[before] += gap[block]
            gap[block] = 0.0
        else:
            previous[int(group[block])] = block
        for lower in below.get(block, []):
            n_needed[lower] -= 1
            if n_needed[lower] == 0:
                heappush(free, lower)
