"""Block merging on forests, exact: all samples, one bottom-up pass each."""

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._jit import kernel
from hierlpr._kernels.keys import pack

__all__ = ["forest_blocks"]


@kernel
def forest_blocks(
    values: NDArray[np.float64],
    row_ptr: NDArray[np.int64],
    slot: NDArray[np.int32],
    parent: NDArray[np.int32],
    shared: bool,
    scale: float,
    start: int,
    stop: int,
    node_of: NDArray[np.int32],
    node_bits: int,
    sample_bits: int,
    next_node: NDArray[np.int32],
    keys: NDArray[np.uint64],
    score: NDArray[np.float64],
) -> int:
    """Merge the labels of samples ``start`` to ``stop`` into blocks.

    Node ``i`` of sample ``m`` has its value at ``row_ptr[m] + slot[i]`` and its parent's number,
    or -1, at ``parent[base + i]`` with ``base = 0`` if all samples share one forest, else
    ``row_ptr[m]``. Parents have smaller numbers than their children.

    Writes either, if `score` is not empty, ``score[row_ptr[m] + slot[i]]``, the mean of the block
    of ``i`` back in [0, 1]; or else

    - ``next_node[row_ptr[m] + i]``: the node called after ``i`` in its block, -1 at the end;
    - ``keys[row_ptr[start]:]``: the blocks' keys, in no order. Their number is returned.

    O(K log K) per sample; O(longest row) memory.
    """
    width = 0
    for m in range(start, stop):
        width = max(width, row_ptr[m + 1] - row_ptr[m])
    total = np.empty(width)
    mean = np.empty(width)
    count = np.empty(width, np.int32)
    tail = np.empty(width, np.int32)
    link = np.empty(width, np.int32)
    merged = np.empty(width, np.bool_)
    # Each node holds a pairing heap of the blocks right below its own: `best` is its top; in a
    # heap, `eldest` is a block's first child and `sibling` the next in that list of children.
    best = np.empty(width, np.int32)
    eldest = np.empty(width, np.int32)
    sibling = np.empty(width, np.int32)
    unscale = 1.0 / scale
    mean_bits = mean.view(np.int64)
    first_key = row_ptr[start]
    n_keys = 0

    for m in range(start, stop):
        row = row_ptr[m]
        n = row_ptr[m + 1] - row
        base = 0 if shared else row
        for i in range(n):
            # On this grid sums are exact in float64, so equal means compare equal.
            total[i] = np.rint(values[row + slot[i]] * scale)
            best[i] = -1
        # Invariant: when node i is reached, every block below it is final and in its heap.
        for i in range(n - 1, -1, -1):
            block_total = total[i]
            block_mean = block_total
            block_count = 1
            block_tail = i
            top = best[i]
            while top >= 0 and mean[top] > block_mean:
                block_total += total[top]
                block_count += count[top]
                block_mean = block_total / block_count
                link[block_tail] = top
                block_tail = tail[top]
                merged[top] = True
                # Remove `top` from the heap: pair its children up, then join the pairs.
                joined = -1
                a = eldest[top]
                while a >= 0:
                    b = sibling[a]
                    if b < 0:
                        sibling[a] = joined
                        joined = a
                        break
                    rest = sibling[b]
                    swap = (mean[b] > mean[a]) | ((mean[b] == mean[a]) & (b < a))
                    upper = b if swap else a
                    lower = a if swap else b
                    sibling[lower] = eldest[upper]
                    eldest[upper] = lower
                    sibling[upper] = joined
                    joined = upper
                    a = rest
                # The merged block's own heap of lower blocks comes along.
                a = best[top]
                if a >= 0:
                    sibling[a] = joined
                    joined = a
                top = joined
                if joined >= 0:
                    b = sibling[joined]
                    while b >= 0:
                        rest = sibling[b]
                        swap = (mean[b] > mean[top]) | ((mean[b] == mean[top]) & (b < top))
                        upper = b if swap else top
                        lower = top if swap else b
                        sibling[lower] = eldest[upper]
                        eldest[upper] = lower
                        top = upper
                        b = rest
            total[i] = block_total
            mean[i] = block_mean
            count[i] = block_count
            tail[i] = block_tail
            link[block_tail] = -1
            merged[i] = False
            best[i] = top
            eldest[i] = -1
            p = parent[base + i]
            if p >= 0:
                top = best[p]
                if top < 0:
                    best[p] = i
                else:
                    swap = mean[i] >= mean[top]
                    upper = i if swap else top
                    lower = top if swap else i
                    sibling[lower] = eldest[upper]
                    eldest[upper] = lower
                    best[p] = upper
        if score.size > 0:
            for i in range(n):
                if merged[i]:
                    mean[i] = mean[parent[base + i]]
                score[row + slot[i]] = mean[i] * unscale
            continue
        for i in range(n):
            next_node[row + i] = link[i]
            if not merged[i]:
                node = node_of[row + i] if node_of.size > 0 else i
                keys[first_key + n_keys] = pack(
                    mean_bits[i], node, m, count[i], node_bits, sample_bits
                )
                n_keys += 1
    return n_keys
