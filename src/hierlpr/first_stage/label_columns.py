"""The labels to learn: each different column once, those that never vary set apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.exceptions import DataError


@dataclass(frozen=True, slots=True, eq=False)
class LabelColumns:
    """What members learn: `values` has one column for each different label column that varies.

    In deep hierarchies many rare labels hold for the very same samples: they are learned once.
    `place[k]` is the column of label `k` in `values`, or -1 if it holds for all samples or none;
    such a label gets its smoothed share, `prevalence[k]`.
    """

    values: NDArray[np.float32]
    place: NDArray[np.intp]
    prevalence: NDArray[np.float64]

    @classmethod
    def of(cls, held: NDArray[np.bool_]) -> LabelColumns:
        """Find the different columns, in the order of their first label."""
        n_samples, n_labels = held.shape
        count = held.sum(axis=0)
        prevalence = (count + 0.5) / (n_samples + 1.0)
        place = np.full(n_labels, -1, dtype=np.intp)
        varies = np.flatnonzero((count > 0) & (count < n_samples))
        if varies.size:
            packed = np.ascontiguousarray(np.packbits(held[:, varies], axis=0).T)
            keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
            _, first, group = np.unique(keys, return_index=True, return_inverse=True)
            order = np.argsort(first)
            number = np.empty(order.size, dtype=np.intp)
            number[order] = np.arange(order.size)
            place[varies] = number[group.ravel()]
            chosen = varies[first[order]]
        else:
            chosen = varies
        return cls(held[:, chosen].astype(np.float32), place, prevalence)

    @property
    def prior(self) -> NDArray[np.float64]:
        """Smoothed share of each column of `values`."""
        n_samples = self.values.shape[0]
        count = self.values.sum(axis=0, dtype=np.float64)
        return np.asarray((count + 0.5) / (n_samples + 1.0))

    def spread(self, proba: NDArray[Any]) -> NDArray[np.float64]:
        """Probabilities of all labels, from those of the columns of `values`."""
        out = np.empty((proba.shape[0], self.place.size))
        learned = self.place >= 0
        out[:, learned] = proba[:, self.place[learned]]
        out[:, ~learned] = self.prevalence[~learned]
        return out


def check_labels(y: Any, n_samples: int) -> NDArray[np.bool_]:
    """Labels as a bool matrix (n_samples, n_labels); anything but 0 and 1 is refused."""
    from scipy import sparse

    if y is None:
        raise DataError("requires y to be passed, but the target y is None.")
    array = y.toarray() if sparse.issparse(y) else np.asarray(y)
    if array.dtype.kind == "c":
        raise DataError("y: Complex data not supported; give 0 and 1.")
    if array.ndim != 2 or array.shape[1] == 0:
        raise DataError(
            f"y must be a matrix of shape (n_samples, n_labels), got shape {array.shape}.\n"
            "Hint: one label is one column, y.reshape(-1, 1)."
        )
    if array.shape[0] != n_samples:
        raise DataError(f"X has {n_samples:,} samples, y {array.shape[0]:,}.")
    if array.dtype == bool:
        return array
    try:
        numbers = array.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError("y must hold 0 and 1 only; some entries are no numbers.") from None
    held: NDArray[np.bool_] = numbers == 1.0
    if not np.array_equal(held, numbers != 0.0):
        row, column = (int(i) for i in np.argwhere(held != (numbers != 0.0))[0])
        raise DataError(
            f"y must hold 0 and 1 only, got {numbers[row, column]} at sample {row}, label {column}."
        )
    return held
