"""The paper's estimator: local quadratic smoothing of the precision curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels.precision_curve import local_quadratic, precision_points
from hierlpr._kernels.pspline import deal_folds
from hierlpr._kernels.smoothing import make_monotone
from hierlpr.exceptions import DataError
from hierlpr.lpr.base import GroupFit, ScoreGroups, fall_back_to_prevalence, fall_back_to_shares

__all__ = ["BANDWIDTHS", "LEAST_DISTINCT", "LocalQuadratic"]

LEAST_DISTINCT = 8  # fewer points of the precision curve have no derivative worth the name
BANDWIDTHS: NDArray[np.float64] = np.geomspace(0.01, 1.0, 14)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LocalQuadratic:
    r"""Local quadratic fit of the precision curve on score percentiles.

    Parameters
    ----------
    corrected : bool
        False gives the published form, for comparison: every point of the precision curve counts
        the same, and the bandwidth is cross-validated on the curve itself.
    bandwidth : float, optional
        Half-width of the kernel, as a share of the samples. Default: chosen from 14 values
        between 0.01 and 1.
    n_folds : int
        Folds of the corrected cross-validation.

    Notes
    -----
    With :math:`u` the share of samples below a score and :math:`G(u)` the share of positives
    from it upward, :math:`\mathrm{LPR}(u) = G(u) - (1 - u) G'(u)`; :math:`G` and :math:`G'` come
    from one local quadratic fit with the Epanechnikov kernel. The correction is twofold.
    :math:`G(u)` is a mean over the :math:`n (1 - u)` samples above, so that number is its weight.
    And neighbouring points share almost all their samples, so their errors are alike and the
    curve predicts itself too well: the bandwidth is instead that of the least Brier score of the
    LPRs against held-out truth.

    References
    ----------
    Jiang et al. (2014), key ``jiang2014``; Fan and Gijbels (1996), key ``fan1996``.
    """

    corrected: bool = True
    bandwidth: float | None = None
    n_folds: int = 5

    name: ClassVar[str] = "local-quadratic"

    def __post_init__(self) -> None:
        if self.bandwidth is not None and not 0.001 <= self.bandwidth <= 1.0:
            raise DataError(f"bandwidth must be from 0.001 to 1, got {self.bandwidth!r}.")
        if not (isinstance(self.n_folds, int) and 2 <= self.n_folds <= 100):
            raise DataError(f"n_folds must be a whole number from 2 to 100, got {self.n_folds!r}.")

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit every label; those with fewer than two of a class get the prevalence."""
        fit = GroupFit.empty(groups, self.name)
        for k in range(groups.n_labels):
            at = slice(groups.ptr[k], groups.ptr[k + 1])
            positive, total = groups.positive[at], groups.total[at]
            bandwidth = self.bandwidth or self._choose(positive, total)
            fit.lpr[at], _ = self._smooth(positive, total, bandwidth)
            fit.smoothing[k] = bandwidth
        fall_back_to_shares(groups, fit, fewer_than=LEAST_DISTINCT)
        fall_back_to_prevalence(groups, fit, least=2.0)
        return fit

    def _smooth(self, positive: Floats, total: Floats, bandwidth: float) -> tuple[Floats, float]:
        """LPR of every group, and how badly the curve predicts its own points."""
        below, precision, above, middle = precision_points(positive, total)
        weight = total * above if self.corrected else total
        value, slope, loss = local_quadratic(below, precision, weight, bandwidth, middle)
        return np.clip(value - (1.0 - middle) * slope, 0.0, 1.0), loss

    def _choose(self, positive: Floats, total: Floats) -> float:
        if not self.corrected:
            losses = [self._smooth(positive, total, h)[1] for h in BANDWIDTHS]
            return float(BANDWIDTHS[int(np.argmin(losses))])
        every = np.arange(total.size)
        held_positive, held_total = deal_folds(positive, total, every, total.size, self.n_folds)
        brier = np.zeros(BANDWIDTHS.size)
        ptr = np.array([0, total.size])
        for yes, both in zip(held_positive, held_total, strict=True):
            kept = total - both
            for i, h in enumerate(BANDWIDTHS):
                lpr, _ = self._smooth(positive - yes, kept, h)
                make_monotone(ptr, lpr, kept + 1e-9)  # groups that were held out whole count too
                brier[i] += np.sum(yes * (1.0 - lpr) ** 2 + (both - yes) * lpr**2)
        return float(BANDWIDTHS[int(np.argmin(brier))])
