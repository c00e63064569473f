"""What scores a model has seen: a few bins a label, to tell whether new scores are like them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.exceptions import DataError
from hierlpr.lpr.base import ScoreGroups

__all__ = ["N_BINS", "ScoreBins"]

N_BINS = 16
Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ScoreBins:
    """The scores of each label in bins of about equal weight, and the positives among them.

    Attributes
    ----------
    edge : ndarray of shape (n_labels, N_BINS - 1)
        Highest score of each bin but the last; they do not fall along a label.
    total, positive : ndarray of shape (n_labels, N_BINS)
        Weight of the samples in each bin, and of those that have the label.
    mean_lpr : ndarray of shape (n_labels,)
        Mean LPR of the same samples: the prevalence that the curve itself stands for.
    """

    edge: Float
    total: Float
    positive: Float
    mean_lpr: Float

    def __post_init__(self) -> None:
        n = self.mean_lpr.size
        shapes = (self.edge.shape, self.total.shape, self.positive.shape, self.mean_lpr.shape)
        if shapes != ((n, N_BINS - 1), (n, N_BINS), (n, N_BINS), (n,)):
            raise DataError("Bins of scores: their arrays do not fit together.")
        numbers = (self.edge, self.total, self.positive, self.mean_lpr)
        if not all(np.isfinite(x).all() for x in numbers) or np.any(np.diff(self.edge) < 0.0):
            raise DataError("Bins of scores: edges must rise and all numbers be finite.")

    @classmethod
    def of(cls, groups: ScoreGroups, lpr: Float) -> ScoreBins:
        """Sum up the groups of labels, with their final LPRs."""
        n = groups.n_labels
        edge, total, positive = (
            np.zeros((n, N_BINS - 1)),
            np.zeros((n, N_BINS)),
            np.zeros((n, N_BINS)),
        )
        mean = np.zeros(n)
        for k in range(n):
            at = slice(groups.ptr[k], groups.ptr[k + 1])
            weight, score = groups.total[at], groups.score[at]
            score = np.where(np.isfinite(score), score, score[-1])  # what is not listed
            upper = np.cumsum(weight)
            middle = (upper - 0.5 * weight) / upper[-1]
            place = np.minimum((middle * N_BINS).astype(np.intp), N_BINS - 1)
            total[k] = np.bincount(place, weights=weight, minlength=N_BINS)
            positive[k] = np.bincount(place, weights=groups.positive[at], minlength=N_BINS)
            last = np.searchsorted(place, np.arange(N_BINS - 1), side="right") - 1
            edge[k] = np.where(last < 0, score[0] - 1.0, score[np.maximum(last, 0)])
            edge[k] = np.maximum.accumulate(edge[k])
            mean[k] = float((weight * lpr[at]).sum() / upper[-1])
        return cls(edge, total, positive, mean)

    def count(self, scores: Float) -> NDArray[np.int64]:
        """Count new scores (n_samples, n_labels) in the bins; NaN is in none."""
        out = np.zeros(self.total.shape, dtype=np.int64)
        for k, edge in enumerate(self.edge):
            column = scores[:, k]
            place = np.searchsorted(edge, column[~np.isnan(column)], side="left")
            out[k] = np.bincount(place, minlength=N_BINS)
        return out

    def select(self, labels: Any) -> ScoreBins:
        """Return those of some labels, by number."""
        return ScoreBins(
            self.edge[labels], self.total[labels], self.positive[labels], self.mean_lpr[labels]
        )

    @classmethod
    def join(cls, parts: Sequence[ScoreBins]) -> ScoreBins:
        """Return those of all parts, in order."""
        names = ("edge", "total", "positive", "mean_lpr")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
