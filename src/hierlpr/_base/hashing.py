"""Hash rows of numbers, the same whether they come whole or in parts, dense or sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["mix", "near_keys", "row_keys"]

_KEY_VALUES = 2**15  # hashed at a time, so that what is in between stays in cache
_DIRECTIONS = 4  # a row is seen from, to tell it from rows that are not near it
_GRID = 24  # bits of a score below the largest of its row; with 12-bit weights all sums are exact


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
    if sparse.issparse(matrix):
        csr = sparse.csr_array(matrix)
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


def near_keys(matrix: Any) -> NDArray[np.uint64]:
    """Hash rows so that those that differ by rounding alone mostly have the same key.

    A row is seen from a few fixed directions, in units of about a thousandth of its length (4 parts
    in a million with one or two labels, which tell rows apart less well). Scores in single
    precision, or read back from a file with fewer digits, move it by much less than that. Absent
    scores are taken for zeros. All sums are of whole numbers, so that keys do not depend on their
    order.
    """
    n_rows, n_labels = matrix.shape
    keys = np.zeros(n_rows, dtype=np.uint64)
    bits = 10 if n_labels > 2 else 18
    places = np.arange(n_labels * _DIRECTIONS, dtype=np.uint64).reshape(n_labels, _DIRECTIONS)
    drawn = (mix(places ^ np.uint64(1 << 40)) >> np.uint64(53)).astype(np.float64)
    weight = 2.0 * drawn - 2047.0
    salt = mix(np.arange(_DIRECTIONS, dtype=np.uint64) ^ np.uint64(1 << 41))
    step = max(1, _KEY_VALUES // max(1, n_labels))
    for start in range(0, n_rows, step):
        part = matrix[start : start + step]
        values = np.nan_to_num(part.toarray() if sparse.issparse(part) else part, nan=0.0)
        largest = np.abs(values).max(axis=1, initial=0.0)
        unit = np.frexp(largest)[1]
        whole = np.rint(np.ldexp(values, (_GRID - unit)[:, None]))
        # No power of two among the lengths of rows that are common: 0/1, or one probability of 1.
        length = np.frexp(1.37 * np.square(np.rint(whole * 2.0**-12)).sum(axis=1))[1] // 2
        seen = np.floor(np.ldexp(whole @ weight, (bits - 23 - length)[:, None])).astype(np.int64)
        key = mix(seen.view(np.uint64) ^ salt).sum(axis=1, dtype=np.uint64)
        key ^= mix((unit + length).astype(np.int64).view(np.uint64))
        keys[start : start + step] = np.where(largest > 0.0, key, 0)
    return keys
