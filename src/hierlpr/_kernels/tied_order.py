"""Blocks of equal mean in one sample: make sure that the order of their keys puts parents first."""

from typing import NamedTuple

import numpy as np

from hierlpr._kernels._arrays import Floats, Index, Ints
from hierlpr._kernels._jit import inner


class RowBlocks(NamedTuple):
    """The blocks of one sample: the block of each node; first and last node, size, mean of each."""

    block: Index
    head: Index
    tail: Index
    count: Index
    mean: Floats


@inner
def join_ties(
    up_ptr: Ints, up_idx: Index, n_blocks: int, blocks: RowBlocks, next_node: Index, lack: Floats
) -> int:
    """Join blocks of equal mean that their first nodes' numbers would put in the wrong order.

    Keys order blocks of equal mean by their first node. On a forest that is right; on a DAG a
    block may begin with a smaller number than a block it depends on. Then the blocks of equal mean
    that depend on each other are called one by one, always the free one with the smallest first
    node, and one that begins with a smaller number than the one before is appended to it. Means
    stay as they are, and so does the area. All in place; returns the number of blocks left. The
    first node of a block keeps in `lack` the sum over what was joined.
    """
    block, head, tail, count, mean = blocks
    n = up_ptr.size - 1
    group = np.empty(0, np.int32)
    for i in range(n):
        for e in range(up_ptr[i], up_ptr[i + 1]):
            a, b = block[up_idx[e]], block[i]
            if mean[a] == mean[b] and head[a] > head[b] and group.size == 0:
                group = np.arange(n_blocks).astype(np.int32)
    if group.size == 0:
        return n_blocks
    # Blocks linked by edges between equal means, by union-find; `wrong` marks those to reorder.
    n_edges = 0
    for i in range(n):
        for e in range(up_ptr[i], up_ptr[i + 1]):
            a, b = block[up_idx[e]], block[i]
            if a != b and mean[a] == mean[b]:
                n_edges += 1
                while group[a] != a:
                    group[a] = group[group[a]]
                    a = group[a]
                while group[b] != b:
                    group[b] = group[group[b]]
                    b = group[b]
                group[max(a, b)] = min(a, b)
    wrong = np.zeros(n_blocks, np.bool_)
    for b in range(n_blocks):
        a = b
        while group[a] != a:
            a = group[a]
        group[b] = a
    needs = np.zeros(n_blocks, np.int32)
    ptr = np.zeros(n_blocks + 1, np.int64)
    for i in range(n):
        for e in range(up_ptr[i], up_ptr[i + 1]):
            a, b = block[up_idx[e]], block[i]
            if a != b and mean[a] == mean[b]:
                ptr[a + 1] += 1
                needs[b] += 1
                wrong[group[a]] |= head[a] > head[b]
    for b in range(n_blocks):
        ptr[b + 1] += ptr[b]
    below = np.empty(n_edges, np.int32)
    fill = ptr[:n_blocks].copy()
    for i in range(n):
        for e in range(up_ptr[i], up_ptr[i + 1]):
            a, b = block[up_idx[e]], block[i]
            if a != b and mean[a] == mean[b]:
                below[fill[a]] = b
                fill[a] += 1
    # A heap of free blocks by first node; `previous` is what the group called last.
    heap = np.empty(n_blocks, np.int32)
    size = 0
    previous = np.full(n_blocks, -1, np.int32)
    joined = np.zeros(n_blocks, np.bool_)
    for b in range(n_blocks):
        if needs[b] == 0 and wrong[group[b]]:
            at = size
            size += 1
            while at > 0 and head[heap[(at - 1) // 2]] > head[b]:
                heap[at] = heap[(at - 1) // 2]
                at = (at - 1) // 2
            heap[at] = b
    while size > 0:
        b = heap[0]
        size -= 1
        moved = heap[size]
        at = 0
        while 2 * at + 1 < size:
            child = 2 * at + 1
            if child + 1 < size and head[heap[child + 1]] < head[heap[child]]:
                child += 1
            if head[heap[child]] >= head[moved]:
                break
            heap[at] = heap[child]
            at = child
        heap[at] = moved
        a = previous[group[b]]
        if a >= 0 and head[b] < head[a]:
            next_node[tail[a]] = head[b]
            tail[a] = tail[b]
            count[a] += count[b]
            lack[head[a]] += lack[head[b]]
            lack[head[b]] = 0.0
            joined[b] = True
        else:
            previous[group[b]] = b
        for k in range(ptr[b], ptr[b + 1]):
            c = below[k]
            needs[c] -= 1
            if needs[c] == 0:
                at = size
                size += 1
                while at > 0 and head[heap[(at - 1) // 2]] > head[c]:
                    heap[at] = heap[(at - 1) // 2]
                    at = (at - 1) // 2
                heap[at] = c
    n_left = 0
    for b in range(n_blocks):
        if not joined[b]:
            head[n_left] = head[b]
            tail[n_left] = tail[b]
            count[n_left] = count[b]
            mean[n_left] = mean[b]
            n_left += 1
    return n_left
