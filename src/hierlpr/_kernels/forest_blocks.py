"""Blocks of labels on forests, exact, and blocks of all samples as keys of one global sort.

Blocks are found in one bottom-up pass per sample. A key is one 64-bit integer per block, so that
one sort of integers puts the blocks of all samples in calling order. It holds, from its highest
bit: the mean of the block, falling; the number of its first node; its sample; and one bit that is
set if the block has more nodes, which saves looking them up. The mean gets the bits that are left
and is cut off there, so keys may tie in it: `exact_means` gives the exact means of such blocks.
"""

import numpy as np

from hierlpr._kernels._jit import Bools, Floats, Int32s, Int64s, Integers, UInt64s, kernel

LARGEST_MEAN = 2.0**30  # in steps of the grid
ROUNDER = 2.0**52  # floats of this size have no digits after the point

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


# -- keys ---------------------------------------------------------------------------------------


def to_grid(value: Floats, row_ptr: Int64s, slot: Int32s, start: int, stop: int) -> Floats:
    """Return the values of samples ``start`` to ``stop`` in whole steps, in topological order.

    The value of node ``i`` of sample ``m`` is ``value[row_ptr[m] + slot[i]]``; `slot` only differs
    from ``i`` where all samples have all labels.
    """
    part = value[row_ptr[start] : row_ptr[stop]]
    if part.size == (stop - start) * slot.size:
        part = part.reshape(stop - start, slot.size)[:, slot].reshape(-1)
    return np.rint(part * LARGEST_MEAN)


def spread_means(
    row_ptr: Int64s, slot: Int32s, start: int, stop: int, mean: Floats, score: Floats
) -> None:
    """Write the means of samples ``start`` to ``stop``, in units of the LPR, to their places.

    `mean` begins with sample `start`, and `score` with sample 0; `slot` is as in `to_grid`.
    """
    part = score[row_ptr[start] : row_ptr[stop]]
    if part.size == (stop - start) * slot.size:
        rows = part.reshape(stop - start, slot.size)
        rows[:, slot] = mean.reshape(rows.shape) / LARGEST_MEAN
    else:
        np.divide(mean, LARGEST_MEAN, out=part)


@kernel
def pack_keys(
    row_ptr: Int64s,
    node_of: Int32s,
    start: int,
    stop: int,
    count: Int32s,
    mean: Floats,
    sample_bits: int,
    low_bits: int,
    keys: UInt64s,
) -> int:
    """Write the keys of the blocks of samples ``start`` to ``stop``; return how many there are.

    `count` and `mean`, as of `forest_blocks`, begin with sample `start`.
    """
    steps = 2.0 ** (64 - low_bits - 1) / LARGEST_MEAN
    n_keys = 0
    at = 0
    for m in range(start, stop):
        row = row_ptr[m]
        for i in range(row_ptr[m + 1] - row):
            number = np.int64(node_of[row + i]) if node_of.size > 0 else i
            low = (((number << sample_bits) | m) << 1) | (count[at] > 1)
            falling = np.int64((LARGEST_MEAN - mean[at]) * steps)
            # The next key overwrites that of a node which begins no block: faster than a branch.
            keys[n_keys] = (np.uint64(falling) << np.uint64(low_bits)) | np.uint64(low)
            n_keys += count[at] > 0
            at += 1
    return n_keys


@kernel
def split_keys(keys: UInt64s, n_bits: int) -> tuple[UInt64s, Int64s]:
    """Return the keys by their highest `n_bits` bits, and where each such bucket begins."""
    shift = np.uint64(64 - n_bits)
    ptr = np.zeros((1 << n_bits) + 1, np.int64)
    for k in range(keys.size):
        ptr[np.int64(keys[k] >> shift) + 1] += 1
    for bucket in range(ptr.size - 1):
        ptr[bucket + 1] += ptr[bucket]
    split = np.empty_like(keys)
    fill = ptr[:-1].copy()
    for k in range(keys.size):
        bucket = np.int64(keys[k] >> shift)
        split[fill[bucket]] = keys[k]
        fill[bucket] += 1
    return split, ptr


@kernel
def _first_node(
    key: np.uint64, row_ptr: Int64s, node_of: Int32s, sample_bits: int, low_bits: int
) -> tuple[np.int64, np.int64]:
    """Return where the sample of a block begins, and the index in it of the block's first node."""
    low = np.int64(key & ((np.uint64(1) << np.uint64(low_bits)) - np.uint64(1))) >> 1
    m, number = low & ((1 << sample_bits) - 1), low >> sample_bits
    row = row_ptr[m]
    if node_of.size == 0:
        return row, number
    at, stop = row, row_ptr[m + 1]
    while at < stop:  # the nodes of a sample are sorted
        middle = (at + stop) // 2
        if node_of[middle] < number:
            at = middle + 1
        else:
            stop = middle
    return row, at - row


@kernel
def exact_means(
    keys: UInt64s,
    value: Floats,
    row_ptr: Int64s,
    slot: Int32s,
    node_of: Int32s,
    next_node: Int32s,
    sample_bits: int,
    low_bits: int,
) -> Floats:
    """Return the exact means of the blocks with these keys."""
    mean = np.empty(keys.size)
    for k in range(keys.size):
        row, i = _first_node(keys[k], row_ptr, node_of, sample_bits, low_bits)
        total = 0.0
        count = 0
        while i >= 0:
            # Half to even, as np.rint does.
            total += (value[row + slot[i]] * LARGEST_MEAN + ROUNDER) - ROUNDER
            count += 1
            i = np.int64(next_node[row + i])
        mean[k] = total / count
    return mean


@kernel
def write_order(
    keys: UInt64s,
    row_ptr: Int64s,
    slot: Int32s,
    node_of: Int32s,
    next_node: Int32s,
    sample_bits: int,
    low_bits: int,
    top: int,
    place: Integers,
    first: Bools,
) -> int:
    """Write the places ``row_ptr[m] + slot[i]`` of the instances of the blocks with these keys.

    `first` gets whether a block begins. Stops after the block that reaches `top` instances and
    returns the number written. O(instances).
    """
    at = 0
    for k in range(keys.size):
        if at >= top:
            break
        row, i = _first_node(keys[k], row_ptr, node_of, sample_bits, low_bits)
        first[at] = True
        place[at] = row + slot[i]
        at += 1
        if keys[k] & np.uint64(1):
            i = np.int64(next_node[row + i])
            while i >= 0:
                first[at] = False
                place[at] = row + slot[i]
                at += 1
                i = np.int64(next_node[row + i])
    return at
