"""Ranked instances as two 64-bit words, so that any engine that sorts integers orders them."""

import numpy as np

from hierlpr._kernels._arrays import Bools, Index, Ints, Places, Words
from hierlpr._kernels._jit import kernel

__all__ = ["pack_rows", "unpack_samples"]


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
