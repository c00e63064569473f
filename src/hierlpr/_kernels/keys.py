"""Blocks as 64-bit keys, so that one sort of integers puts all blocks in calling order.

A key reads, from its highest bit: the block's mean, falling; its first node's number, rising;
its sample, rising; and its size, cut off at 31, which never decides. The mean is shortened to
the bits that are left, so keys may tie in it; `calling.settle_ties` orders such runs by the exact
mean. They hold its root in fixed point, for fewest ties: a float would spend bits on sizes that
hardly occur, the mean itself has too few for small ones.
"""

import numpy as np

from hierlpr._kernels._arrays import Bools, Floats, Index, Ints, Places, Words
from hierlpr._kernels._jit import inner, kernel
from hierlpr._kernels.layout import KeyBits

SIZE_BITS = 5
LONG = 31  # of blocks of this many nodes or more, keys do not tell the size
LARGEST_ROOT = 2.0**15  # of a mean, which is at most one, 2**30 steps of the grid
WHOLE = 2.0**52  # floats of this size have no digits after the point


@inner
def on_grid(value: float, scale: float) -> float:
    """Round a number that is not negative to whole steps, half to even; no call of a library."""
    return (value * scale + WHOLE) - WHOLE


@inner
def depth_of(mean: float, bits: KeyBits) -> np.uint64:
    """Bits of a key for a mean; roots and differences are rounded correctly, so it never rises."""
    return np.uint64(np.int64((LARGEST_ROOT - np.sqrt(mean)) * bits.steps))


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
            total += on_grid(value, scale)
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
