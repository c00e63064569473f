"""Blocks as 64-bit keys, so that one sort of integers puts all blocks in calling order.

A key reads, from its highest bit: the block's mean, falling; its first node's number, rising;
its sample, rising; and its size, cut off at 31, which never decides. The mean is shortened to
the bits that are left, so keys may tie in it; `settle_ties` orders such runs by the exact mean.
They hold its root in fixed point, for fewest ties: a float would spend bits on sizes that hardly
occur, the mean itself has too few for small ones.
"""

from typing import NamedTuple

import numpy as np

from hierlpr._kernels._arrays import Bools, Floats, Index, Ints, Places, Sides, Words
from hierlpr._kernels._jit import inner, kernel
from hierlpr._kernels.layout import KeyBits, Rows

__all__ = [
    "LONG",
    "SIZE_BITS",
    "Listed",
    "block_means",
    "count_ranges",
    "find_node",
    "first_of_mean",
    "gather",
    "key_bits",
    "pack",
    "pack_rows",
    "part_keys",
    "pivots_between",
    "settle_ties",
    "unpack_samples",
    "write_order",
]

SIZE_BITS = 5
BATCH = 1024
SIDE = 64
LONG = 31  # a block of this many nodes or more is measured by walking it
LARGEST_ROOT = 2.0**15  # of a mean, which is at most one, 2**30 steps of the grid


@inner
def depth_of(mean: float, bits: KeyBits) -> np.uint64:
    """Bits of a key for a mean; roots and differences are rounded correctly, so it never rises."""
    return np.uint64((LARGEST_ROOT - np.sqrt(mean)) * bits.steps)


@inner
def pack(mean: float, node: int, sample: int, size: int, bits: KeyBits) -> np.uint64:
    """Key of a block; smaller keys are called earlier."""
    low = (node << (bits.sample + SIZE_BITS)) | (sample << SIZE_BITS) | min(size, LONG)
    low_bits = np.uint64(bits.node + bits.sample + SIZE_BITS)
    return np.uint64((depth_of(mean, bits) << low_bits) | np.uint64(low))


@inner
def only_mean(depth: np.uint64, size: int, bits: KeyBits) -> float:
    """Mean of a block of so many nodes and that depth; NaN if it may be one of several.

    Totals are whole, so means of small blocks lie far apart. If just one total has this depth, it
    is the nearest to the middle of all numbers that have it, but for rounding: where the
    nearest does not have it, NaN is returned too.
    """
    root = LARGEST_ROOT - (np.float64(depth) + 0.5) / bits.steps
    most = LARGEST_ROOT * LARGEST_ROOT * size
    total = min(np.rint(root * root * size), most)
    if depth_of(total / size, bits) != depth:
        return np.nan
    if total >= 1.0 and depth_of((total - 1.0) / size, bits) == depth:
        return np.nan
    if total < most and depth_of((total + 1.0) / size, bits) == depth:
        return np.nan
    return total / size


def key_bits(n_labels: int, n_samples: int) -> KeyBits | None:
    """Part the bits of a key for so many labels and samples; None if there are too many."""
    node = max(1, (n_labels - 1).bit_length())
    sample = max(1, (n_samples - 1).bit_length())
    left = 64 - (node + sample + SIZE_BITS)
    return KeyBits(node, sample, 2.0 ** (left - 1) / LARGEST_ROOT) if left > 1 else None


@kernel
def count_ranges(keys: Words, pivots: Words, range_of: Sides, count: Ints) -> None:
    """Tell which range each key is in: how many of the rising `pivots` it reaches. O(keys).

    There are one pivot fewer than some power of two, and as many in `count` as ranges.
    """
    found = np.empty(SIDE, np.int64)
    for begin in range(0, keys.size, SIDE):
        n = min(SIDE, keys.size - begin)
        for k in range(n):
            found[k] = 0
        # Side by side and without a branch: where a key lies cannot be foreseen.
        step = (pivots.size + 1) >> 1
        while step > 0:
            for k in range(n):
                found[k] += step * (pivots[found[k] + step - 1] <= keys[begin + k])
            step >>= 1
        for k in range(n):
            range_of[begin + k] = found[k]
            count[found[k]] += 1


@kernel
def part_keys(keys: Words, range_of: Sides, place: Ints, out: Words) -> None:
    """Write each key to the next place of its range; `place` has the first of each. O(keys)."""
    for k in range(keys.size):
        at = place[range_of[k]]
        out[at] = keys[k]
        place[range_of[k]] = at + 1


def first_of_mean(keys: Words, bits: KeyBits) -> Words:
    """Return the smallest possible keys with the same bits of the mean."""
    low_bits = np.uint64(bits.node + bits.sample + SIZE_BITS)
    return (keys >> low_bits) << low_bits


def pivots_between(keys: Words, bits: KeyBits, n_ranges: int) -> Words:
    """Choose pivots that part `keys`, a sample, into about even ranges; each begins a mean.

    Where means repeat, some ranges stay empty: their pivots lie above all keys.
    """
    ordered = np.sort(keys)
    cuts = first_of_mean(ordered[[ordered.size * r // n_ranges for r in range(1, n_ranges)]], bits)
    different = np.unique(cuts)
    pivots = np.full(n_ranges - 1, np.iinfo(np.uint64).max)
    pivots[: different.size] = different
    return pivots


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


@inner
def block_size(next_node: Index, row: int, node: int) -> int:
    """How many nodes are called from `node` on in its block, by walking it."""
    size = 0
    while node >= 0:
        size += 1
        node = next_node[row + node]
    return size


@kernel
def find_loose(
    keys: Words, rows: Rows, bits: KeyBits, next_node: Index, loose: Loose
) -> tuple[int, int]:
    """Find sorted keys that tie in the bits of the mean they hold, but not by falling exact mean.

    One pass over the keys, and a walk through the blocks that tie and whose mean their keys do not
    tell. Returns the number of instances in all blocks, and that of loose keys: as many of them as
    there is room for are written.
    """
    told = np.empty(LONG)  # means of blocks by size, in the run that `told_in` names
    told_in = np.full(LONG, -1)
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
            size = low & LONG
            mean = np.nan
            if size < LONG:
                if told_in[size] != begin:
                    told_in[size] = begin
                    told[size] = only_mean(keys[k] >> low_bits, int(size), bits)
                mean = told[size]
            if np.isnan(mean):
                m = (low >> SIZE_BITS) & sample_mask
                i = (low >> (SIZE_BITS + bits.sample)) & node_mask
                row = m * rows.slot.size
                if rows.node_of.size > 0:
                    row = rows.row_ptr[m]
                    i = find_node(rows.node_of, row, rows.row_ptr[m + 1], int(i))
                # As the size tells when to stop, loads of one block need not wait for another's.
                if size == LONG:
                    size = block_size(next_node, int(row), int(i))
                total = np.rint(rows.value[row + rows.slot[i]] * rows.scale)
                for _ in range(size - 1):
                    i = np.int64(next_node[row + i])
                    total += np.rint(rows.value[row + rows.slot[i]] * rows.scale)
                mean = total / size
            n_instances += size
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
    # Of blocks still walked: where the sample's instances begin, where they do in the input matrix,
    # the node where the walk stands, its place in the outputs, and how many nodes are left.
    row = np.empty(BATCH, np.int64)
    base = np.empty(BATCH, np.int64)
    here = np.empty(BATCH, np.int64)
    place = np.empty(BATCH, np.int64)
    left = np.empty(BATCH, np.int64)
    for batch in range(0, keys.size, BATCH):
        n_active = 0
        for key in range(batch, min(batch + BATCH, keys.size)):
            low = np.int64(keys[key])
            m = (low >> SIZE_BITS) & sample_mask
            i = (low >> (SIZE_BITS + bits.sample)) & node_mask
            start = m * n_labels
            listed.place[at] = start + column[i]
            listed.first[at] = True
            base[n_active] = start
            if not dense:
                start = rows.row_ptr[m]
                i = find_node(rows.node_of, start, rows.row_ptr[m + 1], int(i))
                listed.lpr[at] = rows.value[start + i]
            size = low & LONG
            if size == LONG:
                size = block_size(next_node, int(start), int(i))
            row[n_active] = start
            here[n_active] = i
            place[n_active] = at
            left[n_active] = size - 1
            n_active += size > 1
            at += size
        while n_active > 0:
            n_walked = n_active
            n_active = 0
            for a in range(n_walked):
                start, first = row[a], base[a]
                i = np.int64(next_node[start + here[a]])
                to = place[a] + 1
                number = i
                if not dense:
                    listed.lpr[to] = rows.value[start + i]
                    number = rows.node_of[start + i]
                listed.place[to] = first + column[number]
                listed.first[to] = False
                # Those that go on move up; writing the others is cheaper than asking.
                row[n_active] = start
                base[n_active] = first
                here[n_active] = i
                place[n_active] = to
                to_go = left[a] - 1
                left[n_active] = to_go
                n_active += to_go > 0


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


@kernel
def pack_rows(
    sample: Places,
    label: Places,
    first: Bools,
    score_bits: Words,
    number: Index,
    first_sample: int,
    sample_bits: int,
    place_bits: int,
    depth: Words,
    place: Words,
) -> None:
    """Write the two words of each instance of a ranking; smaller words are called earlier.

    `depth` is the block score, falling (bit patterns of floats that are not negative rise with
    them). `place` reads from its highest bit: number of the block's first label, sample, place
    inside the block. O(instances).
    """
    node = np.uint64(0)
    inside = np.uint64(0)
    for j in range(sample.size):
        if first[j]:
            node = np.uint64(number[label[j]])
            inside = np.uint64(0)
        else:
            inside += np.uint64(1)
        m = np.uint64(sample[j] + first_sample)
        depth[j] = ~score_bits[j]
        place[j] = (((node << np.uint64(sample_bits)) | m) << np.uint64(place_bits)) | inside


@kernel
def unpack_samples(place: Words, sample_bits: int, place_bits: int, sample: Ints) -> None:
    """Read the sample numbers back out of the words `place`."""
    mask = (np.uint64(1) << np.uint64(sample_bits)) - np.uint64(1)
    for j in range(place.size):
        sample[j] = np.int64((place[j] >> np.uint64(place_bits)) & mask)
