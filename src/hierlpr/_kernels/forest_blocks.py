"""Block merging on forests, exact: all samples, one bottom-up pass each."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._arrays import Floats, Index
from hierlpr._kernels._jit import inner, kernel
from hierlpr._kernels.filing import Filed, file_row
from hierlpr._kernels.keys import on_grid, pack
from hierlpr._kernels.layout import Forest, KeyBits, Linked, Rows

# What is known of a node stands side by side in memory, two nodes a line of the cache: arrays of
# each take half as long again.
NODE = np.dtype(
    [
        ("total", np.float64),  # of the block that begins here, in grid steps
        ("mean", np.float64),
        ("count", np.int32),  # of its nodes; 0 once it has joined another
        # Each node holds a pairing heap of the blocks right below its own: `best` is its top; in
        # a heap, `eldest` is a block's first child and `sibling` the next in that list of children.
        ("best", np.int32),
        ("eldest", np.int32),
        ("sibling", np.int32),
    ]
)
Nodes = NDArray[Any]


@inner
def longest_row(rows: Rows, start: int, stop: int) -> int:
    """Most nodes of any sample from ``start`` to ``stop``."""
    width = 0
    for m in range(start, stop):
        width = max(width, rows.row_ptr[m + 1] - rows.row_ptr[m])
    return width


@inner
def node_room(width: int) -> tuple[Nodes, Index, Index]:
    """Room for what `merge_sample` writes of a sample."""
    return np.empty(width, NODE), np.empty(width, np.int32), np.empty(width, np.int32)


@inner
def merge_sample(
    rows: Rows, forest: Forest, m: int, node: Nodes, tail: Index, next_node: Index
) -> None:
    """Merge the labels of sample `m` into blocks, in `node`. O(K log K).

    Of a block's first node, `tail` is its last; `next_node` is called next in a block, or -1.
    """
    row = rows.row_ptr[m]
    n = rows.row_ptr[m + 1] - row
    base = 0 if forest.is_shared else row
    for i in range(n):
        # On this grid sums are exact in float64, so equal means compare equal.
        node[i]["total"] = on_grid(rows.value[row + rows.slot[i]], rows.scale)
        node[i]["best"] = -1
    # Invariant: when node i is reached, every block below it is final and in its heap.
    for i in range(n - 1, -1, -1):
        block_total = node[i]["total"]
        block_mean = block_total
        block_count = 1
        block_tail = i
        top = node[i]["best"]
        while top >= 0 and node[top]["mean"] > block_mean:
            block_total += node[top]["total"]
            block_count += node[top]["count"]
            block_mean = block_total / block_count
            next_node[block_tail] = top
            block_tail = tail[top]
            node[top]["count"] = 0
            # Remove `top` from the heap: pair its children up, then join the pairs.
            joined = -1
            a = node[top]["eldest"]
            while a >= 0:
                b = node[a]["sibling"]
                if b < 0:
                    node[a]["sibling"] = joined
                    joined = a
                    break
                rest = node[b]["sibling"]
                mean_a, mean_b = node[a]["mean"], node[b]["mean"]
                swap = (mean_b > mean_a) | ((mean_b == mean_a) & (b < a))
                upper = b if swap else a
                lower = a if swap else b
                node[lower]["sibling"] = node[upper]["eldest"]
                node[upper]["eldest"] = lower
                node[upper]["sibling"] = joined
                joined = upper
                a = rest
            # The merged block's own heap of lower blocks comes along.
            a = node[top]["best"]
            if a >= 0:
                node[a]["sibling"] = joined
                joined = a
            top = joined
            if joined >= 0:
                b = node[joined]["sibling"]
                while b >= 0:
                    rest = node[b]["sibling"]
                    mean_a, mean_b = node[top]["mean"], node[b]["mean"]
                    swap = (mean_b > mean_a) | ((mean_b == mean_a) & (b < top))
                    upper = b if swap else top
                    lower = top if swap else b
                    node[lower]["sibling"] = node[upper]["eldest"]
                    node[upper]["eldest"] = lower
                    top = upper
                    b = rest
        node[i]["total"] = block_total
        node[i]["mean"] = block_mean
        node[i]["count"] = block_count
        tail[i] = block_tail
        next_node[block_tail] = -1
        node[i]["best"] = top
        node[i]["eldest"] = -1
        p = forest.parent[base + i]
        if p >= 0:
            top = node[p]["best"]
            if top < 0:
                node[p]["best"] = i
            else:
                swap = block_mean >= node[top]["mean"]
                upper = i if swap else top
                lower = top if swap else i
                node[lower]["sibling"] = node[upper]["eldest"]
                node[upper]["eldest"] = lower
                node[p]["best"] = upper


@kernel
def forest_keys(
    rows: Rows, forest: Forest, start: int, stop: int, bits: KeyBits, filed: Filed
) -> None:
    """Merge the labels of samples ``start`` to ``stop`` into blocks and file them."""
    node, tail, next_node = node_room(longest_row(rows, start, stop))
    head = np.empty(node.size, np.int32)
    keys = np.empty(node.size, np.uint64)
    for m in range(start, stop):
        merge_sample(rows, forest, m, node, tail, next_node)
        row = rows.row_ptr[m]
        n_keys: int = np.int64(0)  # a plain constant would compile `file_row` once more
        for i in range(rows.row_ptr[m + 1] - row):
            size = node[i]["count"]
            if size > 0:
                number = rows.node_of[row + i] if rows.node_of.size > 0 else i
                keys[n_keys] = pack(node[i]["mean"], number, m, size, bits)
                head[n_keys] = i
                n_keys += 1
        file_row(n_keys, keys, head, next_node, filed)


@kernel
def forest_scores(rows: Rows, forest: Forest, start: int, stop: int, score: Floats) -> None:
    """Set ``score[row_ptr[m] + slot[i]]`` to the mean of the block of node ``i``, off the grid."""
    node, tail, next_node = node_room(longest_row(rows, start, stop))
    unscale = 1.0 / rows.scale
    for m in range(start, stop):
        merge_sample(rows, forest, m, node, tail, next_node)
        row = rows.row_ptr[m]
        base = 0 if forest.is_shared else row
        for i in range(rows.row_ptr[m + 1] - row):
            # A node that joined a block is in that of its parent.
            if node[i]["count"] == 0:
                node[i]["mean"] = node[forest.parent[base + i]]["mean"]
            score[row + rows.slot[i]] = node[i]["mean"] * unscale


@kernel
def link_forest(rows: Rows, forest: Forest, start: int, stop: int, linked: Linked) -> None:
    """Merge the labels of samples ``start`` to ``stop`` into blocks and write them to `linked`."""
    node, tail, next_node = node_room(longest_row(rows, start, stop))
    for m in range(start, stop):
        merge_sample(rows, forest, m, node, tail, next_node)
        at = rows.row_ptr[m] - rows.row_ptr[start]
        for i in range(rows.row_ptr[m + 1] - rows.row_ptr[m]):
            linked.next_node[at + i] = next_node[i]
            linked.count[at + i] = node[i]["count"]
            linked.mean[at + i] = node[i]["mean"]
