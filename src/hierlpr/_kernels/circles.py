"""Blocks of one sample, named node by node -> the finest ones, and which of them are no trees."""

import numpy as np

from hierlpr._kernels._arrays import Index, Ints
from hierlpr._kernels._jit import inner
from hierlpr._kernels.closures import tied_blocks
from hierlpr._kernels.pooling import Pooled


@inner
def join_circles(up_ptr: Ints, up_idx: Index, pooled: Pooled) -> None:
    """Join blocks of equal mean that need each other; a block is named by its first node then.

    Each block is held together by its own payments. Of several with one mean, none can be called
    without another that holds a parent of it: if that goes round in a circle, they are one.
    """
    block, mean = pooled
    n = block.size
    first = np.full(n, -1, np.int32)
    n_tied = 0
    circle = False
    for i in range(n):
        if first[block[i]] < 0:
            first[block[i]] = i
        block[i] = first[block[i]]
        for e in range(up_ptr[i], up_ptr[i + 1]):
            p = up_idx[e]
            if mean[p] == mean[i] and block[p] != block[i]:
                n_tied += 1
                # A circle has an edge up to a block that begins later.
                circle |= block[p] > block[i]
    if not circle:
        return
    # The blocks as nodes, with the edges between those of equal mean.
    ptr = np.zeros(n + 1, np.int64)
    side = np.ones(n, np.int8)
    for i in range(n):
        for e in range(up_ptr[i], up_ptr[i + 1]):
            p = up_idx[e]
            if mean[p] == mean[i] and block[p] != block[i]:
                ptr[block[i] + 1] += 1
                side[block[i]] = side[block[p]] = 0
    for b in range(n):
        ptr[b + 1] += ptr[b]
    idx = np.empty(n_tied, np.int32)
    fill = ptr[:n].copy()
    for i in range(n):
        for e in range(up_ptr[i], up_ptr[i + 1]):
            p = up_idx[e]
            if mean[p] == mean[i] and block[p] != block[i]:
                idx[fill[block[i]]] = block[p]
                fill[block[i]] += 1
    joined = np.empty(n, np.int32)
    n_joined = tied_blocks(ptr, idx, np.zeros(n_tied, np.int64), side, joined)
    name = np.full(n_joined, -1, np.int32)
    for i in range(n):
        b = joined[block[i]]
        if b >= 0:
            if name[b] < 0:
                name[b] = block[i]
            block[i] = name[b]


@inner
def list_blocks(
    up_ptr: Ints, up_idx: Index, block: Index, parent: Index, n_hard: int, hard: Index,
    hard_ptr: Ints,
) -> int:  # fmt: skip
    """Write the blocks as `partition` does: parents in those that are trees, nodes of the others.

    A block is named by its first node. Those that are no trees are numbered from `n_hard` on;
    the number with them is returned.
    """
    n = block.size
    is_tree = np.ones(n, np.bool_)
    count = np.zeros(n, np.int32)
    for i in range(n):
        b = block[i]
        count[b] += 1
        parent[i] = -1
        for e in range(up_ptr[i], up_ptr[i + 1]):
            if block[up_idx[e]] == b:
                is_tree[b] &= parent[i] < 0
                parent[i] = up_idx[e]
    place = np.empty(n, np.int64)
    for i in range(n):
        b = block[i]
        if is_tree[b]:
            continue
        if b == i:
            place[b] = hard_ptr[n_hard]
            hard_ptr[n_hard + 1] = hard_ptr[n_hard] + count[b]
            n_hard += 1
        hard[place[b]] = i
        place[b] += 1
        parent[i] = -1
    return n_hard
