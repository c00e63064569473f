"""Blocks as 64-bit keys, so that one sort of integers puts all blocks in calling order.

A key reads, from its highest bit: the block's mean, falling; its first node's number, rising;
its sample, rising; and its size, cut off at 31, which never decides. The mean is shortened to
the bits that are left, so keys may tie in it; `settle_ties` orders such runs by the exact mean.
"""

from typing import NamedTuple

import numpy as np

from hierlpr._kernels._arrays import Bools, Floats, Index, Ints, Places, Words
from hierlpr._kernels._jit import inner, kernel
from hierlpr._kernels._threads import even_chunks
from hierlpr._kernels.layout import KeyBits, Rows

__all__ = [
    "LONG",
    "SIZE_BITS",
    "Listed",
    "block_means",
    "find_node",
    "gather",
    "merge_runs",
    "pack",
    "run_bounds",
    "settle_ties",
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


@inner
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
def split(a: Words, b: Words, k: int) -> int:
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
def merge_runs(a: Words, b: Words, out: Words) -> None:
    """Merge two sorted arrays into a third."""
    i = j = 0
    for k in range(out.size):
        if j >= b.size or (i < a.size and a[i] < b[j]):
            out[k] = a[i]
            i += 1
        else:
            out[k] = b[j]
            j += 1


def run_bounds(keys: Words, bits: int, n_chunks: int) -> list[int]:
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


class Loose(NamedTuple):
    """Keys that exact means put in another order: their places, where their runs begin, means."""

    at: Ints
    run: Ints
    mean: Floats

    @staticmethod
    def empty(size: int) -> "Loose":
        """Room for so many."""
        return Loose(np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size))


class Listed(NamedTuple):
    """Instances in calling order: place in the input matrix, whether a block begins, LPR.

    `lpr` is empty where all samples hold all labels: there the place tells it.
    """

    place: Places
    first: Bools
    lpr: Floats


@inner
def find_node(node_of: Index, start: int, stop: int, number: int) -> int:
    """Where `number` stands between ``start`` and ``stop`` of the rising `node_of`, from start."""
    low = start
    while start < stop:
        middle = (start + stop) // 2
        if node_of[middle] < number:
            start = middle + 1
        else:
            stop = middle
    return start - low


@kernel
def find_loose(
    keys: Words, rows: Rows, bits: KeyBits, next_node: Index, loose: Loose
) -> tuple[int, int]:
    """Find sorted keys that tie in the bits of the mean they hold, but not by falling exact mean.

    One pass over the keys, and a walk through the blocks that tie. Returns the number of instances
    in all blocks, and that of loose keys: as many of them as there is room for are written.
    """
    low_bits = np.uint64(bits.node + bits.sample + SIZE_BITS)
    sample_mask = (1 << bits.sample) - 1
    node_mask = (1 << bits.node) - 1
    n_instances = 0
    n_loose = 0
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
        falling = True
        previous = np.inf
        for k in range(begin, end):
            low = np.int64(keys[k])
            m = (low >> SIZE_BITS) & sample_mask
            i = (low >> (SIZE_BITS + bits.sample)) & node_mask
            row = rows.row_ptr[m]
            if rows.node_of.size > 0:
                i = find_node(rows.node_of, row, rows.row_ptr[m + 1], int(i))
            total = 0.0
            size = 0
            while i >= 0:
                total += np.rint(rows.value[row + rows.slot[i]] * rows.scale)
                size += 1
                i = next_node[row + i]
            n_instances += size
            mean = total / size
            falling &= mean <= previous
            previous = mean
            at = n_loose + k - begin
            if at < loose.at.size:
                loose.at[at] = k
                loose.run[at] = begin
                loose.mean[at] = mean
        if not falling:
            n_loose += end - begin
        begin = end
    return n_instances, n_loose


def settle_ties(keys: Words, rows: Rows, bits: KeyBits, next_node: Index) -> int:
    """Order sorted keys that tie in the bits of the mean they hold by the exact mean, in place.

    The order of node and sample decides among exact ties, as the sort is stable. Returns the
    number of instances in all blocks.
    """
    loose = Loose.empty(1024)
    n_instances, n_loose = find_loose(keys, rows, bits, next_node, loose)
    if n_loose > loose.at.size:
        loose = Loose.empty(n_loose)
        find_loose(keys, rows, bits, next_node, loose)
    if n_loose:
        at, run, mean = (array[:n_loose] for array in loose)
        keys[at] = keys[at[np.lexsort((-mean, run))]]
    return n_instances


@kernel
def write_order(
    keys: Words, at: int, rows: Rows, bits: KeyBits, next_node: Index, column: Index, listed: Listed
) -> None:
    """Write the instances of sorted blocks to `listed`, from place `at` on; O(instances).

    ``column`` are the columns of the input matrix by number. Sorted blocks lie all over memory,
    so a batch of them is walked side by side, in short loops: their loads do not wait for each
    other.
    """
    sample_mask = (1 << bits.sample) - 1
    node_mask = (1 << bits.node) - 1
    n_labels = column.size
    dense = rows.node_of.size == 0
    row = np.empty(BATCH, np.int64)  # where the sample's instances begin
    base = np.empty(BATCH, np.int64)  # and where they do in the input matrix
    here = np.empty(BATCH, np.int64)  # the node where the walk through a block stands
    place = np.empty(BATCH, np.int64)  # and its place in the outputs
    size = np.empty(BATCH, np.int64)
    active = np.empty(BATCH, np.int64)
    for batch in range(0, keys.size, BATCH):
        n_active = 0
        for b in range(min(BATCH, keys.size - batch)):
            low = np.int64(keys[batch + b])
            m = (low >> SIZE_BITS) & sample_mask
            i = (low >> (SIZE_BITS + bits.sample)) & node_mask
            base[b] = m * n_labels
            row[b] = base[b]
            label = column[i]
            if not dense:
                row[b] = rows.row_ptr[m]
                i = find_node(rows.node_of, row[b], rows.row_ptr[m + 1], int(i))
                listed.lpr[at] = rows.value[row[b] + i]
            here[b] = i
            size[b] = low & LONG
            if size[b] == LONG:
                size[b] = 0
                while i >= 0:
                    size[b] += 1
                    i = next_node[row[b] + i]
            place[b] = at
            listed.place[at] = base[b] + label
            listed.first[at] = True
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
                i = next_node[row[b] + here[b]]
                here[b] = i
                place[b] += 1
                if not dense:
                    listed.lpr[place[b]] = rows.value[row[b] + i]
                    i = rows.node_of[row[b] + i]
                listed.place[place[b]] = base[b] + column[i]
                listed.first[place[b]] = False
                active[n_active] = b
                n_active += size[b] > depth


@kernel
def gather(values: Floats, place: Places, out: Floats) -> None:
    """Fetch the value at each place."""
    for j in range(place.size):
        out[j] = values[place[j]]


@kernel
def block_means(
    lpr: Floats, label: Places, first: Bools, weight: Floats, scale: float, score: Floats
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
