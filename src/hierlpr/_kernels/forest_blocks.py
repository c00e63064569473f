"""Block merging on forests, exact: all samples, one bottom-up pass each."""

import numpy as np

from hierlpr._kernels._arrays import Floats, Words
from hierlpr._kernels._jit import kernel
from hierlpr._kernels.keys import pack
from hierlpr._kernels.layout import Forest, KeyBits, Linked, Rows

__all__ = ["merge_forest", "write_keys", "write_scores"]


@kernel
def merge_forest(rows: Rows, forest: Forest, start: int, stop: int, linked: Linked) -> None:
    """Merge the labels of samples ``start`` to ``stop`` into blocks and write them to `linked`.

    O(K log K) per sample; O(longest row) memory.
    """
    values, row_ptr, slot = rows.value, rows.row_ptr, rows.slot
    parent = forest.parent
    width = 0
    for m in range(start, stop):
        width = max(width, row_ptr[m + 1] - row_ptr[m])
    total = np.empty(width)
    mean = np.empty(width)
    count = np.empty(width, np.int32)
    tail = np.empty(width, np.int32)
    link = np.empty(width, np.int32)
    # Each node holds a pairing heap of the blocks right below its own: `best` is its top; in a
    # heap, `eldest` is a block's first child and `sibling` the next in that list of children.
    best = np.empty(width, np.int32)
    eldest = np.empty(width, np.int32)
    sibling = np.empty(width, np.int32)

    for m in range(start, stop):
        row = row_ptr[m]
        n = row_ptr[m + 1] - row
        base = 0 if forest.is_shared else row
        for i in range(n):
            # On this grid sums are exact in float64, so equal means compare equal.
            total[i] = np.rint(values[row + slot[i]] * rows.scale)
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
                count[top] = 0
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
        at = row - row_ptr[start]
        for i in range(n):
            linked.next_node[at + i] = link[i]
            linked.count[at + i] = count[i]
            linked.mean[at + i] = mean[i]


@kernel
def write_keys(
    rows: Rows, start: int, stop: int, linked: Linked, bits: KeyBits, keys: Words
) -> int:
    """Write the keys of the blocks of samples ``start`` to ``stop``. Return their number."""
    mean_bits = linked.mean.view(np.int64)
    offset = rows.row_ptr[start]
    n_keys = 0
    for m in range(start, stop):
        row = rows.row_ptr[m]
        for i in range(rows.row_ptr[m + 1] - row):
            at = row - offset + i
            size = linked.count[at]
            if size > 0:
                node = rows.node_of[row + i] if rows.node_of.size > 0 else i
                keys[n_keys] = pack(mean_bits[at], node, m, size, bits.node, bits.sample)
                n_keys += 1
    return n_keys


@kernel
def write_scores(
    rows: Rows, forest: Forest, start: int, stop: int, linked: Linked, score: Floats
) -> None:
    """Set ``score[row_ptr[m] + slot[i]]`` to the mean of the block of node ``i``, off the grid.

    Overwrites the means in `linked`: a node that joined a block takes that of its parent.
    """
    unscale = 1.0 / rows.scale
    offset = rows.row_ptr[start]
    for m in range(start, stop):
        row = rows.row_ptr[m]
        base = 0 if forest.is_shared else row
        at = row - offset
        for i in range(rows.row_ptr[m + 1] - row):
            if linked.count[at + i] == 0:
                linked.mean[at + i] = linked.mean[at + forest.parent[base + i]]
            score[row + rows.slot[i]] = linked.mean[at + i] * unscale
