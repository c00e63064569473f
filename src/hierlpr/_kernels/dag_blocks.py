"""Blocks of labels on DAGs: Sidney's decomposition, and the best order inside each block.

All samples of a batch are one graph: `value` are whole numbers of grid steps, node by node; sample
``m`` has the nodes from ``row_ptr[m]`` on, and the parents of node ``i`` are
``up_idx[up_ptr[i]:up_ptr[i + 1]]``, all smaller than ``i``.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from hierlpr._kernels._jit import Bools, Floats, Int32s, Int64s
from hierlpr._kernels.block_order import order_blocks
from hierlpr._kernels.forest_blocks import forest_blocks, walk_blocks
from hierlpr._kernels.pooling import pool_blocks


def batch_edges(
    rows: Int64s, parent_ptr: Int64s, parent_idx: Int32s, is_shared: bool
) -> tuple[Int64s, Int32s]:
    """Return the parents of all nodes of some samples, numbered through, as a CSR pair.

    The samples have the places from ``rows[m]`` to ``rows[m + 1]``. The parents of node ``i`` of
    a sample, numbered within it, stand at ``i`` of `parent_ptr` if all samples share one graph,
    else at ``rows[m] + i``.
    """
    if is_shared:
        n_parents = np.tile(np.diff(parent_ptr), rows.size - 1)
        up_idx = np.tile(parent_idx, rows.size - 1)
    else:
        n_parents = np.diff(parent_ptr[rows[0] : rows[-1] + 1])
        up_idx = parent_idx[parent_ptr[rows[0]] : parent_ptr[rows[-1]]]
    first = np.repeat(rows[:-1] - rows[0], np.diff(rows))
    up_idx = up_idx + np.repeat(first, n_parents)
    return np.append(0, np.cumsum(n_parents)), up_idx.astype(np.int32)


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
    in_tree = inside & is_tree[block[child]]
    parent[child[in_tree]] = up_idx[in_tree] - row[child[in_tree]]
    next_node, count, mean = np.empty_like(parent), np.empty_like(parent), np.empty(value.size)
    forest_blocks(value, row_ptr, parent, False, next_node, count, mean)
    gap = np.zeros(value.size)  # by the first node of a block
    others = np.flatnonzero(~is_tree[block]).astype(np.int32)
    if others.size:
        others = others[np.argsort(block[others], kind="stable")]
        ptr = np.flatnonzero(np.diff(block[others], prepend=-1))
        size = np.diff(ptr, append=others.size)
        if order:
            place = np.empty_like(parent)  # of each node among the others
            place[others] = np.arange(others.size)
            edges = inside & ~in_tree
            ends = (place[up_idx[edges]], place[child[edges]])
            called, missing = order_blocks(value[others], *ends, np.append(ptr, others.size))
            others = others[called]
            gap[others[ptr]] = missing
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
    block = _components(value.size, tails, heads, "strong")
    return block, block[child] == block[up_idx]


def _components(n: int, tails: Int32s, heads: Int32s, connection: str) -> Int32s:
    """Return the number of the component of each of `n` nodes."""
    graph = sparse.csr_array((np.ones(tails.size, np.int8), (tails, heads)), shape=(n, n))
    number: Int32s = csgraph.connected_components(graph, connection=connection)[1]
    return number


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
    group = _components(mean.size, a, b, "weak")
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
