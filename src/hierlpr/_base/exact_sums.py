"""Sums of floats that do not depend on their order: parts add up to the whole, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ExactSums"]

Float = NDArray[np.float64]
_HIGH, _LOW = 24, 60  # a term is split into multiples of 2**-24 and of 2**-60
# Adding and taking away 1.5 * 2**(52 - b) rounds a float to a multiple of 2**-b.
_ROUND_HIGH, _ROUND_LOW = 1.5 * 2.0 ** (52 - _HIGH), 1.5 * 2.0 ** (52 - _LOW)
_MOST = 1 << 16  # terms whose two parts floats add without rounding


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


def _split(terms: Float) -> tuple[Float, Float]:
    """Two parts of every term, on coarse and on fine grid; what is finer still is rounded."""
    high = terms + _ROUND_HIGH
    high -= _ROUND_HIGH
    low = terms - high
    low += _ROUND_LOW
    low -= _ROUND_LOW
    return high, low
