"""Blocks of labels on forests, exact: one bottom-up pass per sample."""

import numpy as np

from hierlpr._kernels._jit import Floats, Int32s, Int64s, kernel

# One record per node, which lies in one cache line: separate arrays take 1.5 times as long.
NODE = np.dtype(
    [
        ("total", np.float64),  # of the block that begins here
        ("mean", np.float64),
        ("count", np.int32),  # nodes of the block; 0 once it has joined another
        # Each node holds a pairing heap of the blocks right below its own: `best` is its top; in
        # a heap, `eldest` is a block's first child and `sibling` the next in that list of children.
        ("best", np.int32),
        ("eldest", np.int32),
        ("sibling", np.int32),
    ]
)


@kernel
def forest_blocks(
    value: Floats,
    row_ptr: Int64s,
    parent: Int32s,
    is_shared: bool,
    next_node: Int32s,
    count: Int32s,
    mean: Floats,
) -> None:
    """Merge the labels of each sample into blocks. O(K log K) per sample.

    Sample ``m`` has the values ``value[row_ptr[m]:row_ptr[m + 1]]``, whole numbers so that sums
    are exact and equal means compare equal, in topological order. The parent of node ``i`` is
    ``parent[i]``, or -1, if all samples share one forest, else ``parent[row_ptr[m] + i]``.

    Writes, at ``row_ptr[m] + i``, `next_node`: the node called after ``i`` in its block, -1 at the
    end; `count`: the number of nodes of the block that begins with ``i``, 0 if none does; and
    `mean`: the mean of the block of ``i``.
    """
    width = 0
    for m in range(row_ptr.size - 1):
        width = max(width, row_ptr[m + 1] - row_ptr[m])
    node = np.empty(width, NODE)
    tail = np.empty(width, np.int32)  # last node of the block that begins here
    for m in range(row_ptr.size - 1):
        row = row_ptr[m]
        n = row_ptr[m + 1] - row
        base = 0 if is_shared else row
        for i in range(n):
            node[i]["total"] = value[row + i]
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
                next_node[row + block_tail] = top
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
            next_node[row + block_tail] = -1
            node[i]["best"] = top
            node[i]["eldest"] = -1
            p = parent[base + i]
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
        for i in range(n):
            count[row + i] = node[i]["count"]
            # A node that joined a block is in that of its parent.
            source = parent[base + i] if node[i]["count"] == 0 else i
            node[i]["mean"] = node[source]["mean"]
            mean[row + i] = node[i]["mean"]


@kernel
def walk_blocks(heads: Int64s, row: Int64s, next_node: Int32s) -> tuple[Int32s, Int32s]:
    """Return the nodes of the blocks that begin with `heads`, and by node the first of its block.

    ``row[i] + next_node[i]`` is the node after ``i``.
    """
    order = np.empty(next_node.size, np.int32)
    first = np.full(next_node.size, -1, np.int32)
    size = 0
    for b in range(heads.size):
        i = heads[b]
        while True:
            order[size] = i
            first[i] = heads[b]
            size += 1
            if next_node[i] < 0:
                break
            i = row[i] + next_node[i]
    return order[:size], first
