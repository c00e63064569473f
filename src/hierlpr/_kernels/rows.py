"""Ranked instances as two 64-bit words, so that any engine that sorts integers orders them."""

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._jit import kernel

__all__ = ["pack_rows", "unpack_samples"]


@kernel
def pack_rows(
    sample: NDArray[np.integer],
    label: NDArray[np.integer],
    first: NDArray[np.bool_],
    score_bits: NDArray[np.uint64],
    number: NDArray[np.int32],
    first_sample: int,
    sample_bits: int,
    place_bits: int,
    depth: NDArray[np.uint64],
    place: NDArray[np.uint64],
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
def unpack_samples(
    place: NDArray[np.uint64], sample_bits: int, place_bits: int, sample: NDArray[np.int64]
) -> None:
    """Read the sample numbers back out of the words `place`."""
    mask = (np.uint64(1) << np.uint64(sample_bits)) - np.uint64(1)
    for j in range(place.size):
        sample[j] = np.int64((place[j] >> np.uint64(place_bits)) & mask)
