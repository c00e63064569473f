"""Blocks as 64-bit keys, so that one sort of integers puts all blocks in calling order.

A key reads, from its highest bit: the block's mean, falling; its first node's number, rising;
its sample, rising; and its size, cut off at 31, which never decides. The mean is shortened to
the bits that are left, so keys may tie in it; `settle_ties` orders such runs by the exact mean.
"""

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._jit import kernel
from hierlpr._kernels._threads import even_chunks

__all__ = [
    "LONG",
    "SIZE_BITS",
    "block_means",
    "compact",
    "gather",
    "merge_runs",
    "name_nodes",
    "pack",
    "split",
    "write_order",
]

SIZE_BITS = 5
BATCH = 1024
LONG = 31  # a block of this many nodes or more is measured by walking it
# Means are at least 2**-23 (one grid step over the most labels) and at most 2**30, or zero: as
# float64 bit patterns they span less than 58 bits above the pattern of 2**-26.
MEAN_BITS = 58
MEAN_BASE = (1023 - 26) << 52


@kernel
def pack(
    mean_bits: int, node: int, sample: int, size: int, node_bits: int, sample_bits: int
) -> np.uint64:
    """Key of a block; smaller keys are called earlier."""
    low_bits = node_bits + sample_bits + SIZE_BITS
    depth = np.uint64((1 << MEAN_BITS) - 1 - max(0, mean_bits - MEAN_BASE))
    high = depth >> np.uint64(max(0, MEAN_BITS + low_bits - 64))
    low = (node << (sample_bits + SIZE_BITS)) | (sample << SIZE_BITS) | min(size, LONG)
    return np.uint64((high << np.uint64(low_bits)) | np.uint64(low))


@kernel
def compact(keys: NDArray[np.uint64], source: NDArray[np.int64], count: NDArray[np.int64]) -> int:
    """Move runs of keys to the front, in place and in order. Return how many there are."""
    at = 0
    for run in range(source.size):
        for j in range(source[run], source[run] + count[run]):
            keys[at] = keys[j]
            at += 1
    return at


@kernel
def split(a: NDArray[np.uint64], b: NDArray[np.uint64], k: int) -> int:
    """How many of the `k` smallest of two sorted arrays without common values lie in `a`."""
    low = max(0, k - b.size)
    high = min(k, a.size)
    while low < high:
        i = (low + high) // 2
        if a[i] < b[k - i - 1]:
            low = i + 1
        else:
            high = i
    return low


@kernel
def merge_runs(a: NDArray[np.uint64], b: NDArray[np.uint64], out: NDArray[np.uint64]) -> None:
    """Merge two sorted arrays into a third."""
    i = j = 0
    for k in range(out.size):
        if j >= b.size or (i < a.size and a[i] < b[j]):
            out[k] = a[i]
            i += 1
        else:
            out[k] = b[j]
            j += 1


def run_bounds(keys: NDArray[np.uint64], bits: int, n_chunks: int) -> list[int]:
    """Split sorted keys into about even chunks that never part keys with equal bits of the mean.

    `bits` counts those of the node and the sample.
    """
    low_bits = np.uint64(bits + SIZE_BITS)
    bounds = even_chunks(keys.size, n_chunks)
    for at in range(1, n_chunks):
        if 0 < bounds[at] < keys.size:
            after = ((keys[bounds[at] - 1] >> low_bits) + np.uint64(1)) << low_bits
            bounds[at] = int(np.searchsorted(keys, after))
        bounds[at] = max(bounds[at], bounds[at - 1])  # a long run of ties may swallow a chunk
    return bounds


@kernel
def settle_ties(
    keys: NDArray[np.uint64],
    node_bits: int,
    sample_bits: int,
    priority: NDArray[np.float64],
    slot: NDArray[np.int32],
    row_ptr: NDArray[np.int64],
    node_of: NDArray[np.int32],
    next_node: NDArray[np.int32],
    scale: float,
) -> int:
    """Order sorted keys that tie in the bits of the mean they hold by the exact mean, in place.

    The order of node and sample decides among exact ties, as the sort is stable. One pass over
    the keys, a walk through the blocks that tie, and a sort of those runs that need it. Returns
    the number of instances in all blocks.
    """
    low_bits = np.uint64(node_bits + sample_bits + SIZE_BITS)
    sample_mask = (1 << sample_bits) - 1
    node_mask = (1 << node_bits) - 1
    n_instances = 0
    begin = 0
    while begin < keys.size:
        end = begin + 1
        while end < keys.size and keys[end] >> low_bits == keys[begin] >> low_bits:
            end += 1
        size = np.int64(keys[begin]) & LONG
        if end == begin + 1 and size < LONG:
            n_instances += size
            begin = end
            continue
        means = np.empty(0)
        for attempt in range(2):
            falling = True
            previous = np.inf
            for k in range(begin, end):
                low = np.int64(keys[k])
                m = (low >> SIZE_BITS) & sample_mask
                i = (low >> (SIZE_BITS + sample_bits)) & node_mask
                row = row_ptr[m]
                if node_of.size > 0:
                    i = np.searchsorted(node_of[row : row_ptr[m + 1]], i)
                total = 0.0
                size = 0
                while i >= 0:
                    total += np.rint(priority[row + slot[i]] * scale)
                    size += 1
                    i = next_node[row + i]
                if attempt == 0:
                    n_instances += size
                else:
                    means[k - begin] = total / size
                falling &= total / size <= previous
                previous = total / size
            if falling:
                break
            if attempt == 0:
                means = np.empty(end - begin)
            else:
                keys[begin:end] = keys[begin:end][np.argsort(-means, kind="mergesort")]
        begin = end
    return n_instances


@kernel
def write_order(
    keys: NDArray[np.uint64],
    at: int,
    node_bits: int,
    sample_bits: int,
    row_ptr: NDArray[np.int64],
    node_of: NDArray[np.int32],
    next_node: NDArray[np.int32],
    n_labels: int,
    sample: NDArray[np.integer],
    node: NDArray[np.integer],
    first: NDArray[np.bool_],
) -> None:
    """Write sample and node of the instances of sorted blocks, from place `at` on; O(instances).

    Sorted blocks lie all over memory, so a batch of them is walked side by side, in short loops:
    their loads do not wait for each other.
    """
    sample_mask = (1 << sample_bits) - 1
    node_mask = (1 << node_bits) - 1
    dense = node_of.size == 0
    row = np.empty(BATCH, np.int64)
    here = np.empty(BATCH, np.int64)  # the node where the walk through a block stands
    place = np.empty(BATCH, np.int64)  # and its place in the outputs
    size = np.empty(BATCH, np.int64)
    active = np.empty(BATCH, np.int64)
    for batch in range(0, keys.size, BATCH):
        n_active = 0
        for b in range(min(BATCH, keys.size - batch)):
            low = np.int64(keys[batch + b])
            m = (low >> SIZE_BITS) & sample_mask
            i = (low >> (SIZE_BITS + sample_bits)) & node_mask
            if dense:
                row[b] = m * n_labels
            else:
                row[b] = row_ptr[m]
                i = np.searchsorted(node_of[row_ptr[m] : row_ptr[m + 1]], i)
            here[b] = i
            size[b] = low & LONG
            if size[b] == LONG:
                size[b] = 0
                while i >= 0:
                    size[b] += 1
                    i = next_node[row[b] + i]
            place[b] = at
            sample[at] = m
            node[at] = here[b]
            first[at] = True
            at += size[b]
            active[n_active] = b
            n_active += size[b] > 1
        depth = 1
        while n_active > 0:
            depth += 1
            n_walked = n_active
            n_active = 0
            for a in range(n_walked):
                b = active[a]
                here[b] = next_node[row[b] + here[b]]
                place[b] += 1
                sample[place[b]] = sample[place[b] - 1]
                node[place[b]] = here[b]
                first[place[b]] = False
                active[n_active] = b
                n_active += size[b] > depth


@kernel
def name_nodes(
    start: int,
    stop: int,
    sample: NDArray[np.integer],
    node: NDArray[np.integer],
    values: NDArray[np.float64],
    row_ptr: NDArray[np.int64],
    node_of: NDArray[np.int32],
    column: NDArray[np.int32],
    lpr: NDArray[np.float64],
) -> None:
    """Turn nodes into columns of the input, in place; of sparse rows also fetch the values."""
    if node_of.size == 0:
        for j in range(start, stop):
            node[j] = column[node[j]]
    else:
        for j in range(start, stop):
            where = row_ptr[sample[j]] + node[j]
            lpr[j] = values[where]
            node[j] = column[node_of[where]]


@kernel
def gather(
    start: int,
    stop: int,
    sample: NDArray[np.integer],
    label: NDArray[np.integer],
    values: NDArray[np.float64],
    n_labels: int,
    out: NDArray[np.float64],
) -> None:
    """Fetch the value of each instance from a dense matrix."""
    for j in range(start, stop):
        out[j] = values[np.int64(sample[j]) * n_labels + label[j]]


@kernel
def block_means(
    lpr: NDArray[np.float64],
    label: NDArray[np.integer],
    first: NDArray[np.bool_],
    weight: NDArray[np.float64],
    scale: float,
    score: NDArray[np.float64],
) -> None:
    """Mean of each block of instances, on the grid; `weight` is empty if all count the same."""
    block = 0
    j = 0
    while j < lpr.size:
        total = 0.0
        begin = j
        while True:
            value = lpr[j] * weight[label[j]] if weight.size > 0 else lpr[j]
            total += np.rint(value * scale)
            j += 1
            if j == lpr.size or first[j]:
                break
        score[block] = total / (j - begin) / scale
        block += 1
