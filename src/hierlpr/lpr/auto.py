"""The default estimator: a P-spline averaged over its penalties, with help for rare labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels.pspline import SlopePrior
from hierlpr.exceptions import DataError
from hierlpr.lpr.base import GroupFit, ScoreGroups, fall_back_to_prevalence
from hierlpr.lpr.p_spline import N_PENALTIES, SLOPE_SD, fit_averaged

LEAST_POOL = 3  # labels with enough support, below which their slopes say little
LEAST_POOL_SD = 0.25
LONE_SLOPE_SD = 1.0


@dataclass(frozen=True, slots=True)
class Auto:
    r"""P-spline averaged over all penalties; rare labels shrink toward what the others show.

    Parameters
    ----------
    min_support : float
        Positives (and negatives) below which a label borrows strength.
    pooled_slope, pooled_sd : float, optional
        Mean and spread of the slopes of well supported labels. By default they come from the
        other labels of the same fit, if at least three of them have enough support.
    n_penalties : int
        How many penalties to average over, from nearly none to nearly a straight line.

    Notes
    -----
    The model is that of `PSpline`. Instead of choosing one penalty :math:`\lambda`, the fitted
    curves are averaged with weights proportional to the evidence
    :math:`p(Q \mid \lambda) = \int p(Q \mid \beta) p(\beta \mid \lambda) d\beta` (Laplace
    approximation), :math:`\log\lambda` being uniform a priori. It needs no folds, and it was at
    least as accurate as the cross-validated penalty nearly everywhere (``docs/lpr.md``).

    A label with fewer than `min_support` positives (or negatives) gets the same fit with a prior
    on the slope of its log-odds on the normal score, :math:`N(b_0, \tau^2)`, where :math:`b_0`
    and :math:`\tau` are the mean and the spread of the slopes of the labels with more, and with
    half a pseudo-sample of each class, placed as that prior expects them. Labels without any
    positive get the prior's curve at the prevalence 1/2 in n + 1. If there are too few other
    labels, :math:`b_0 = 0` and :math:`\tau = 1`: the label shrinks toward its prevalence.

    References
    ----------
    Eilers and Marx (1996), key ``eilers1996``; Wood (2011), key ``wood2011``, for
    the evidence of smoothing parameters.
    """

    min_support: float = 10.0
    pooled_slope: float | None = None
    pooled_sd: float | None = None
    n_pooled: int = 0
    n_penalties: int = N_PENALTIES

    name: ClassVar[str] = "auto"
    defers_weak: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.min_support < np.inf:
            raise DataError(f"min_support must be a number >= 0, got {self.min_support!r}.")
        if (self.pooled_slope is None) != (self.pooled_sd is None):
            raise DataError("pooled_slope and pooled_sd must be given together.")
        if self.pooled_sd is not None and not 0.0 < self.pooled_sd < np.inf:
            raise DataError(f"pooled_sd must be a positive number, got {self.pooled_sd!r}.")
        if not (isinstance(self.n_penalties, int) and 2 <= self.n_penalties <= 100):
            raise DataError(
                f"n_penalties must be a whole number from 2 to 100, got {self.n_penalties!r}."
            )

    def coarser(self) -> Auto:
        """Return an estimator of nearly the same curves for half of the work, for many refits."""
        return replace(self, n_penalties=max(2, self.n_penalties // 2))

    def without_weak(self) -> Auto:
        """Return the estimator that leaves weak labels for `with_pool`, if there is no pool yet."""
        if self.pooled_slope is not None:
            return self
        return _Strong(self.min_support, n_penalties=self.n_penalties)

    def with_pool(self, slopes: NDArray[np.float64]) -> Auto | None:
        """Return the estimator whose prior is the mean and spread of the given slopes."""
        if self.pooled_slope is not None or slopes.size < LEAST_POOL:
            return None
        # A classifier worse than chance teaches nothing about the others.
        mean = max(float(slopes.mean()), 0.0)
        spread = max(float(slopes.std(ddof=1)), LEAST_POOL_SD)
        return replace(self, pooled_slope=mean, pooled_sd=spread, n_pooled=slopes.size)

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit every label."""
        fit = GroupFit.empty(groups, "p-spline")
        n_positive = groups.sum_by_label(groups.positive)
        n_negative = groups.sum_by_label(groups.total) - n_positive
        support = np.minimum(n_positive, n_negative)
        # Weights are sums of floats: a label of exactly min_support positives is not weak.
        fit.weak = support < self.min_support * (1.0 - 1e-9)
        if self.pooled_slope is not None and self.pooled_sd is not None:
            prior = (self.pooled_slope, self.pooled_sd)
            toward = f"the pooled slope {self.pooled_slope:.3g}"
            if self.n_pooled:
                toward += f" of {self.n_pooled:,} labels"
        else:
            prior = (0.0, LONE_SLOPE_SD)
            toward = "the prevalence"
        slopes = SlopePrior(
            np.where(fit.weak, prior[0], 0.0),
            np.where(fit.weak, prior[1], SLOPE_SD),
            np.where(fit.weak, -1.0 if self.defers_weak else 0.5, 0.0),
        )
        fit.lpr, report = fit_averaged(groups, slopes, self.n_penalties)
        fit.smoothing, fit.slope = report[:, 0], report[:, 1]
        for k in np.flatnonzero(fit.weak):
            kind = "positives" if n_positive[k] <= n_negative[k] else "negatives"
            fit.estimator[k] = "p-spline, shrunk"
            fit.fallback[k] = f"{support[k]:.3g} {kind}: shrunk toward {toward}"
        fall_back_to_prevalence(groups, fit, least=0.0)
        return fit


class _Strong(Auto):
    """Fits labels of enough support alone; the others are only marked as weak."""

    __slots__ = ()
    defers_weak: ClassVar[bool] = True
