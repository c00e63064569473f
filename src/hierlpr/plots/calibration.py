"""Predictions against what happened, in bins, with intervals that count samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels.marks import count_in_bins
from hierlpr.plots.evidence import Pool

Float = NDArray[np.float64]
_ALL = np.empty(0, dtype=np.int64)  # places of instances that are all listed


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Instances with predictions in one bin: how many, the mean prediction, the share that holds.

    `low` and `high` bound the share with about 95 % confidence; see `calibration_of`.
    """

    n: int
    predicted: float
    observed: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CalibrationCurve:
    """Bins of rising prediction, and the mean absolute gap over all instances (ECE)."""

    bins: tuple[CalibrationBin, ...]
    error: float


class CalibrationSums:
    r"""Predictions and what happened, added up by sample in bins of equal width.

    The labels of one sample are dependent, so the interval of a bin counts samples, not instances:
    with :math:`n_m` instances and :math:`h_m` hits of sample :math:`m` in the bin, the variance of
    the share :math:`p = \sum h_m / \sum n_m` is about :math:`\sum_m (h_m - p n_m)^2 / n^2`; see
    `share_interval`.
    """

    def __init__(self, n_samples: int, n_bins: int = 10) -> None:
        self._trials, self._hits, self._total = np.zeros((3, n_samples, n_bins))

    def add(self, listed: Pool, first: int = 0) -> None:
        """Add a run of samples, whose first is number `first`."""
        n_samples, n_labels = listed.shape
        here = slice(first, first + n_samples)
        sums = (self._trials[here], self._hits[here], self._total[here])
        at = _ALL if listed.at is None else listed.at
        count_in_bins(listed.value, listed.truth, at, n_labels, *sums)

    def curve(self, weight: Float | None = None) -> CalibrationCurve:
        """Return the bins that hold anything; samples may have weights."""
        bins = []
        gap = all_ = 0.0
        for trials, hits, total in zip(self._trials.T, self._hits.T, self._total.T, strict=True):
            some = np.flatnonzero(trials)
            own = None if weight is None else weight[some]
            if some.size == 0:
                continue
            size, right, chance = (
                float(x[some].sum() if own is None else x[some] @ own)
                for x in (trials, hits, total)
            )
            low, high = share_interval(hits[some], trials[some], own)
            found = CalibrationBin(int(trials.sum()), chance / size, right / size, low, high)
            gap += size * abs(found.predicted - found.observed)
            all_ += size
            bins.append(found)
        return CalibrationCurve(tuple(bins), gap / max(all_, 1e-300))


def calibration_of(
    listed: Pool, *, n_bins: int = 10, weight: Float | None = None
) -> CalibrationCurve:
    """Compare predictions with what happened; `weight` is that of each sample."""
    sums = CalibrationSums(listed.shape[0], n_bins)
    sums.add(listed)
    return sums.curve(weight)


def share_interval(
    hits: NDArray[Any], trials: NDArray[Any], weight: Float | None = None
) -> tuple[float, float]:
    """Bound the pooled share of hits with about 95 % confidence, given the counts of each sample.

    Samples are independent, what is counted within one is not. The variance over samples divided by
    the binomial one, if above 1, divides the number of trials in Wilson's score interval (key
    ``wilson1927`` in ``docs/references.bib``). With weights of samples the trials are scaled to
    their effective number.

    >>> [round(x, 3) for x in share_interval(np.array([1.0, 0, 1, 1]), np.array([1, 1, 1, 1]))]
    [0.301, 0.954]
    """
    if weight is not None:
        scale = float(weight @ trials) / float(weight**2 @ trials)
        hits, trials = hits * weight * scale, trials * weight * scale
    n = float(trials.sum())
    share = float(hits.sum()) / n
    smoothed = (hits.sum() + 0.5) / (n + 1.0)
    surplus = float(np.sum((hits - share * trials) ** 2))
    inflation = max(1.0, surplus / (n * smoothed * (1.0 - smoothed)))
    return _wilson(share, n / inflation)


def _wilson(share: float, n: float) -> tuple[float, float]:
    z = 1.96
    middle = (share + z * z / (2.0 * n)) / (1.0 + z * z / n)
    half = z / (1.0 + z * z / n) * float(np.sqrt(share * (1.0 - share) / n + (z / (2.0 * n)) ** 2))
    return max(0.0, middle - half), min(1.0, middle + half)
