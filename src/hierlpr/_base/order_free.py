"""Hashes of rows and sums of floats that are the same whole or in parts, in any order."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
_HIGH, _LOW = 24, 60  # a term is split into multiples of 2**-24 and of 2**-60
# Adding and taking away 1.5 * 2**(52 - b) rounds a float to a multiple of 2**-b.
_ROUND_HIGH, _ROUND_LOW = 1.5 * 2.0 ** (52 - _HIGH), 1.5 * 2.0 ** (52 - _LOW)
_MOST = 1 << 16  # terms whose two parts floats add without rounding
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
    if hasattr(matrix, "tocsr"):
        matrix = matrix.tocsr()
        ends = np.searchsorted(matrix.indptr, np.arange(_KEY_VALUES, matrix.nnz, _KEY_VALUES))
        bounds = np.unique([0, *ends.tolist(), n_rows])
    else:
        bounds = np.append(np.arange(0, n_rows, max(1, _KEY_VALUES // max(1, n_labels))), n_rows)
    for start, stop in pairwise(bounds.tolist()):
        look = _look_at_entries if hasattr(matrix, "tocsr") else _look_at_rows
        keys[start:stop] = _near_key(look(matrix[start:stop], weight), bits)
    return keys


class _Look(NamedTuple):
    """Rows as whole numbers: exponent and squared length in coarser units, and what is seen."""

    largest: NDArray[np.float64]
    unit: NDArray[np.int32]
    square: NDArray[np.float64]
    seen: NDArray[np.float64]


def _look_at_rows(rows: Any, weight: NDArray[np.float64]) -> _Look:
    from hierlpr._kernels.row_looks import look_at_rows  # sums alone need no kernel

    # A finite sum clears the usual case in one pass without a copy.
    values = rows if np.isfinite(rows.sum()) else np.nan_to_num(rows, nan=0.0)
    values = np.ascontiguousarray(values, dtype=np.float64)
    largest = np.maximum(values.max(axis=1, initial=0.0), -values.min(axis=1, initial=0.0))
    unit = np.frexp(largest)[1]
    # In two steps: one power of two may lie beyond the floats.
    half = (_GRID - unit) // 2
    scale = np.stack([np.ldexp(1.0, half), np.ldexp(1.0, _GRID - unit - half)], axis=1)
    square, seen = np.zeros(len(values)), np.zeros((len(values), _DIRECTIONS))
    look_at_rows(values, scale, weight, square, seen)
    return _Look(largest, unit, square, seen)


def _look_at_entries(rows: Any, weight: NDArray[np.float64]) -> _Look:
    n_rows = rows.shape[0]
    row = np.repeat(np.arange(n_rows), np.diff(rows.indptr))
    largest = np.zeros(n_rows)
    np.maximum.at(largest, row, np.abs(rows.data))
    unit = np.frexp(largest)[1]
    whole = np.rint(np.ldexp(rows.data, (_GRID - unit)[row]))
    square = np.bincount(row, np.square(np.rint(whole * 2.0**-12)), n_rows).astype(np.float64)
    seen = [np.bincount(row, whole * column[rows.indices], n_rows) for column in weight.T]
    return _Look(largest, unit, square, np.stack(seen, axis=1))


def _near_key(look: _Look, bits: int) -> NDArray[np.uint64]:
    # No power of two among the lengths of rows that are common: 0/1, or one probability of 1.
    length = np.frexp(1.37 * look.square)[1] // 2
    seen = np.floor(np.ldexp(look.seen, (bits - 23 - length)[:, None])).astype(np.int64)
    salt = mix(np.arange(_DIRECTIONS, dtype=np.uint64) ^ np.uint64(1 << 41))
    key: NDArray[np.uint64] = mix(seen.view(np.uint64) ^ salt).sum(axis=1, dtype=np.uint64)
    key ^= mix((look.unit + length).astype(np.int64).view(np.uint64))
    return np.where(look.largest > 0.0, key, np.uint64(0))


class ExactSums:
    """Running sums of columns of floats, each term taken to 2**-60.

    Terms lie between -2**12 and 2**12; what is kept are integers.

    Examples
    --------
    >>> sums = ExactSums(1)
    >>> sums.add([[0.1], [0.2], [0.3]])
    >>> other = ExactSums(1)
    >>> other.add([[0.3], [0.2], [0.1]])
    >>> sums.values() == other.values()
    array([ True])
    >>> sums.merge(other.words)
    >>> sums.values()
    array([1.2])
    """

    def __init__(self, size: int) -> None:
        self._words = np.zeros((2, size), dtype=np.int64)

    def add(self, terms: Any) -> None:
        """Add an array of terms, one column for each sum."""
        terms = np.asarray(terms, dtype=np.float64)
        some = max(1, _MOST // max(1, terms.shape[1]))  # as many as stay near the processor
        for start in range(0, len(terms), some):
            high, low = _split(terms[start : start + some])
            self._carry(high.sum(axis=0), low.sum(axis=0))

    def add_at(self, place: NDArray[np.integer[Any]], terms: Float) -> None:
        """Add each term to the sum at its place."""
        size = self._words.shape[1]
        for start in range(0, terms.size, _MOST):
            some = slice(start, start + _MOST)
            high, low = _split(terms[some])
            self._carry(
                np.bincount(place[some], high, minlength=size).astype(np.float64),
                np.bincount(place[some], low, minlength=size).astype(np.float64),
            )

    def _carry(self, high: Float, low: Float) -> None:
        self._words[0] += (high * 2.0**_HIGH).astype(np.int64)
        self._words[1] += (low * 2.0**_LOW).astype(np.int64)
        over = self._words[1] >> (_LOW - _HIGH)
        self._words[0] += over
        self._words[1] -= over << (_LOW - _HIGH)

    @property
    def words(self) -> NDArray[np.int64]:
        """The integers behind the sums."""
        return self._words

    def merge(self, words: NDArray[np.int64]) -> None:
        """Add what another part has as its `words`, of any shape."""
        self._words += words.reshape(self._words.shape)
        self._carry(np.zeros(self._words.shape[1]), np.zeros(self._words.shape[1]))

    def values(self) -> Float:
        """Return the sums as floats, correctly rounded."""
        shift = _LOW - _HIGH
        return np.array([((high << shift) + low) / (1 << _LOW) for high, low in
                         zip(*self._words.tolist(), strict=True)], dtype=np.float64)  # fmt: skip


class WholeWeights(NamedTuple):
    """Weights of samples as whole numbers of a unit, so that no sum of them is ever rounded.

    The unit is a power of two, so small that the instances of all samples together weigh up to
    2**52 of it: floats add and multiply-add such numbers exactly. The largest weight times
    `scale` is 1.
    """

    whole: NDArray[np.int64]
    scale: float

    @classmethod
    def of(cls, weight: Float, n_labels: int) -> WholeWeights:
        """Round weights to the unit, none that is positive to 0.

        >>> WholeWeights.of(np.array([1.0, 0.5, 0.0]), 2).whole * 2.0**-50
        array([1. , 0.5, 0. ])
        """
        n_instances = int(np.count_nonzero(weight)) * n_labels
        bits = 52 - max(0, n_instances - 1).bit_length()
        whole = np.rint(np.ldexp(weight / weight.max(), bits)).astype(np.int64)
        return cls(np.where(weight > 0.0, np.maximum(whole, 1), 0), 2.0**-bits)

    def take(self, rows: Any) -> WholeWeights:
        """Return the weights of some samples."""
        return WholeWeights(self.whole[rows], self.scale)

    def add_up(self, marked: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Add up the weights of the samples marked in each row of an array (labels x samples)."""
        return np.asarray(marked.astype(np.float64) @ self.whole.astype(np.float64)).astype(
            np.int64
        )


def _split(terms: Float) -> tuple[Float, Float]:
    """Two parts of every term, on coarse and on fine grid; what is finer still is rounded."""
    high = terms + _ROUND_HIGH
    high -= _ROUND_HIGH
    low = terms - high
    low += _ROUND_LOW
    low -= _ROUND_LOW
    return high, low
