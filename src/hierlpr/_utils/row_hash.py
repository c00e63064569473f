"""Hashes of the rows of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_KEY_VALUES = 2**15  # hashed at a time, so that intermediate values stay in the cache


def mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words (the finalizer of SplitMix64)."""
    x = bits + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed


def row_keys(matrix: Any) -> NDArray[np.uint64]:
    """Hash the entries of each row with their columns; stored zeros of a CSR matrix count.

    A zero hashes the same with either sign.
    """
    keys = np.zeros(matrix.shape[0], dtype=np.uint64)
    salt = mix(np.arange(matrix.shape[1], dtype=np.uint64))
    if hasattr(matrix, "tocsr"):
        csr = matrix.tocsr()
        bits = (np.asarray(csr.data, dtype=np.float64) + 0.0).view(np.uint64)
        running = np.zeros(csr.nnz + 1, dtype=np.uint64)
        np.cumsum(mix(bits ^ salt[csr.indices]), out=running[1:])  # wraps around, as do its parts
        keys[:] = running[csr.indptr[1:]] - running[csr.indptr[:-1]]
        return keys
    step = max(1, _KEY_VALUES // max(1, matrix.shape[1]))
    for start in range(0, matrix.shape[0], step):
        part = np.ascontiguousarray(matrix[start : start + step], dtype=np.float64) + 0.0
        keys[start : start + step] = mix(part.view(np.uint64) ^ salt).sum(axis=1, dtype=np.uint64)
    return keys
