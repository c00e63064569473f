"""The local true discovery rate plugged in: a ratio of two density estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels.precision_curve import density_ratio
from hierlpr._kernels.pspline import bin_normal_scores, deal_folds
from hierlpr._kernels.smoothing import make_monotone
from hierlpr.exceptions import DataError
from hierlpr.lpr.base import GroupFit, ScoreGroups, fall_back_to_prevalence
from hierlpr.lpr.p_spline import normal_table

__all__ = ["ADJUSTMENTS", "DensityRatio"]

ADJUSTMENTS: NDArray[np.float64] = np.array([0.2, 0.3, 0.45, 0.7, 1.0, 1.5])

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DensityRatio:
    r"""Kernel density estimates of both classes, on the normal score of the rank.

    Parameters
    ----------
    adjust : float, optional
        Factor on both bandwidths. Default: the one of six between 0.2 and 1.5 with the least
        Brier score of the LPRs against held-out truth.
    n_folds : int
        Folds of that cross-validation.

    Notes
    -----
    :math:`\mathrm{LPR} = \pi f_1 / (\pi f_1 + (1 - \pi) f_0)`, the local true discovery rate.
    Densities of scores in [0, 1] or of percentiles have edges where kernel estimates are biased;
    on the normal score of the rank both densities live on the whole line with light tails, so
    there is no edge. Bandwidths are `adjust` times the rule of thumb
    0.9 min(sd, IQR / 1.34) n^(-1/5) of each class. The rule alone oversmooths where a good
    classifier cuts the classes apart.

    References
    ----------
    Jiang et al. (2014), key ``jiang2014``; Silverman (1986), key ``silverman1986``.
    """

    adjust: float | None = None
    n_folds: int = 5

    name: ClassVar[str] = "density-ratio"

    def __post_init__(self) -> None:
        if self.adjust is not None and not 0.0 < self.adjust < np.inf:
            raise DataError(f"adjust must be a positive number, got {self.adjust!r}.")
        if not (isinstance(self.n_folds, int) and 2 <= self.n_folds <= 100):
            raise DataError(f"n_folds must be a whole number from 2 to 100, got {self.n_folds!r}.")

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit every label; those with fewer than two of a class get the prevalence."""
        fit = GroupFit.empty(groups, self.name)
        for k in range(groups.n_labels):
            at = slice(groups.ptr[k], groups.ptr[k + 1])
            positive, total = groups.positive[at], groups.total[at]
            z = bin_normal_scores(positive, total, normal_table(total.sum()), total.size, False)[0]
            h = np.array([_rule_of_thumb(z, positive), _rule_of_thumb(z, total - positive)])
            h *= self.adjust or self._choose(z, positive, total, h)
            fit.lpr[at] = density_ratio(z, positive, total, h[0], h[1])
            fit.smoothing[k] = h[0]
        fall_back_to_prevalence(groups, fit, least=2.0)
        return fit

    def _choose(self, z: Floats, positive: Floats, total: Floats, h: Floats) -> float:
        every = np.arange(total.size)
        held_positive, held_total = deal_folds(positive, total, every, total.size, self.n_folds)
        brier = np.zeros(ADJUSTMENTS.size)
        ptr = np.array([0, total.size])
        for yes, both in zip(held_positive, held_total, strict=True):
            for i, adjust in enumerate(ADJUSTMENTS):
                lpr = density_ratio(z, positive - yes, total - both, h[0] * adjust, h[1] * adjust)
                make_monotone(ptr, lpr, total)
                brier[i] += np.sum(yes * (1.0 - lpr) ** 2 + (both - yes) * lpr**2)
        return float(ADJUSTMENTS[int(np.argmin(brier))])


def _rule_of_thumb(z: Floats, weight: Floats) -> float:
    """Silverman's rule for weighted points; at least 0.02, for classes on a single score."""
    n = float(weight.sum())
    if n <= 0.0:
        return 1.0
    mean = np.sum(weight * z) / n
    spread = float(np.sqrt(np.sum(weight * (z - mean) ** 2) / n))
    share = np.cumsum(weight) / n
    lower, upper = z[np.searchsorted(share, [0.25, 0.75])]
    if upper > lower:
        spread = min(spread, float(upper - lower) / 1.34)
    return max(0.9 * spread * float(n**-0.2), 0.02)
