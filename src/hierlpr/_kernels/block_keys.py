"""Blocks of all samples as 64-bit keys, so that one sort of integers puts them in calling order.

A key holds, from its highest bit: the mean of the block, falling; the number of its first node; its
sample; and one bit that is set if the block has more nodes, which saves looking them up. The
mean gets the bits that are left and is cut off there, so keys may tie in it: `tied_means` gives the
exact means of such blocks.
"""

from typing import Any

import numpy as np

from hierlpr._kernels._jit import Bools, Floats, Int32s, Int64s, Integers, UInt64s, kernel

LARGEST_MEAN = 2.0**30  # in steps of the grid
ROUNDER = 2.0**52  # floats of this size have no digits after the point


@kernel
def to_grid(
    value: Floats, row_ptr: Int64s, slot: Int32s, start: int, stop: int, grid: Floats
) -> None:
    """Round the values of samples ``start`` to ``stop`` to whole steps, in topological order.

    The value of node ``i`` of sample ``m`` is ``value[row_ptr[m] + slot[i]]``.
    """
    at = 0
    for m in range(start, stop):
        row = row_ptr[m]
        for i in range(row_ptr[m + 1] - row):
            # Half to even, as np.rint does, but without a call.
            grid[at] = (value[row + slot[i]] * LARGEST_MEAN + ROUNDER) - ROUNDER
            at += 1


@kernel
def spread_means(
    row_ptr: Int64s, slot: Int32s, start: int, stop: int, mean: Floats, score: Floats
) -> None:
    """Write the means of samples ``start`` to ``stop``, in units of the LPR, to their places.

    `mean` begins with sample `start`, and `score` with sample 0.
    """
    at = 0
    for m in range(start, stop):
        row = row_ptr[m]
        for i in range(row_ptr[m + 1] - row):
            score[row + slot[i]] = mean[at] / LARGEST_MEAN
            at += 1


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
            depth = np.int64((LARGEST_MEAN - mean[at]) * steps)
            # The next key overwrites that of a node which begins no block: faster than a branch.
            keys[n_keys] = (np.uint64(depth) << np.uint64(low_bits)) | np.uint64(low)
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
def _first_node(key: np.uint64, sample_bits: int, low_bits: int) -> tuple[np.int64, np.int64]:
    """Return the sample of a block, and the number of its first node."""
    low = np.int64(key & ((np.uint64(1) << np.uint64(low_bits)) - np.uint64(1))) >> 1
    return low & ((1 << sample_bits) - 1), low >> sample_bits


@kernel
def _find(sorted_nodes: Int32s, start: int, stop: int, number: Any) -> Any:
    """Return the distance from `start` at which `number` stands in ``sorted_nodes[start:stop]``."""
    low = start
    while low < stop:
        middle = (low + stop) // 2
        if sorted_nodes[middle] < number:
            low = middle + 1
        else:
            stop = middle
    return low - start


@kernel
def tied_means(
    keys: UInt64s,
    value: Floats,
    row_ptr: Int64s,
    slot: Int32s,
    node_of: Int32s,
    next_node: Int32s,
    sample_bits: int,
    low_bits: int,
) -> tuple[Int64s, Floats]:
    """Return the places of sorted keys that tie with a neighbour, and the exact means there."""
    low = np.uint64(low_bits)
    n_tied = 0
    for k in range(keys.size):
        before = k > 0 and keys[k - 1] >> low == keys[k] >> low
        after = k < keys.size - 1 and keys[k + 1] >> low == keys[k] >> low
        n_tied += before or after
    tied = np.empty(n_tied, np.int64)
    mean = np.empty(n_tied)
    n_tied = 0
    for k in range(keys.size if mean.size > 0 else 0):
        before = k > 0 and keys[k - 1] >> low == keys[k] >> low
        after = k < keys.size - 1 and keys[k + 1] >> low == keys[k] >> low
        if not (before or after):
            continue
        m, i = _first_node(keys[k], sample_bits, low_bits)
        row = row_ptr[m]
        if node_of.size > 0:
            i = _find(node_of, row, row_ptr[m + 1], i)
        total = 0.0
        count = 0
        while i >= 0:
            total += (value[row + slot[i]] * LARGEST_MEAN + ROUNDER) - ROUNDER
            count += 1
            i = np.int64(next_node[row + i])
        tied[n_tied] = k
        mean[n_tied] = total / count
        n_tied += 1
    return tied, mean


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
        m, i = _first_node(keys[k], sample_bits, low_bits)
        row = row_ptr[m]
        if node_of.size > 0:
            i = _find(node_of, row, row_ptr[m + 1], i)
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
