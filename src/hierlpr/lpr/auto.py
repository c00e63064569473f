"""The default estimator: a P-spline averaged over penalties, blended with a shared curve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hierlpr._kernels.pspline import SlopePrior
from hierlpr.exceptions import DataError
from hierlpr.lpr.base import GroupFit, ScoreGroups, fall_back_to_prevalence
from hierlpr.lpr.p_spline import N_PENALTIES, SLOPE_SD, fit_averaged


@dataclass(frozen=True, slots=True)
class Auto:
    r"""P-spline averaged over all penalties; rare labels lean on a curve shared with others.

    Parameters
    ----------
    kappa : float, optional
        Positives (or negatives, if they are fewer) with which a label's own curve and the shared
        one have equal weights. 0: only labels without positives or negatives use the shared curve;
        infinity: all labels use it alone. By default chosen by held-out log-loss.
    scale : {"score", "rank"}, optional
        Whether the shared curve is a function of the score, one per depth, or of the rank of the
        score among those of its label. By default chosen by held-out log-loss.
    n_penalties : int
        How many penalties to average over, from nearly none to nearly a straight line.

    Notes
    -----
    A label's own curve is that of `PSpline`. Instead of choosing one penalty :math:`\lambda`, the
    fitted curves are averaged with weights proportional to the evidence
    :math:`p(Q \mid \lambda) = \int p(Q \mid \beta) p(\beta \mid \lambda) d\beta` (Laplace
    approximation), :math:`\log\lambda` being uniform a priori. This needs no folds, and was at
    least as accurate as the cross-validated penalty nearly everywhere (``docs/lpr.md``). For the
    shared curve see :mod:`hierlpr.lpr.shared`.

    References
    ----------
    Eilers and Marx (1996), key ``eilers1996``; Wood (2011), key ``wood2011``, for
    the evidence of smoothing parameters.
    """

    kappa: float | None = None
    scale: str | None = None
    n_penalties: int = N_PENALTIES

    name: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        if self.kappa is not None and not self.kappa >= 0.0:
            raise DataError(f"kappa must be a number >= 0, got {self.kappa!r}.")
        if self.scale not in (None, "score", "rank"):
            raise DataError(f"scale must be 'score' or 'rank', got {self.scale!r}.")
        if not (isinstance(self.n_penalties, int) and 2 <= self.n_penalties <= 100):
            raise DataError(
                f"n_penalties must be an integer from 2 to 100, got {self.n_penalties!r}."
            )

    def coarser(self) -> Auto:
        """Return an estimator with nearly the same curves for half the work, for many refits."""
        return replace(self, n_penalties=max(2, self.n_penalties // 2))

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit every label's own curve; labels with one class are left to the shared curve."""
        fit = GroupFit.empty(groups, "p-spline")
        n_positive = groups.sum_by_label(groups.positive)
        n_negative = groups.sum_by_label(groups.total) - n_positive
        is_empty = np.minimum(n_positive, n_negative) <= 0.0
        n_labels = groups.n_labels
        prior = SlopePrior(
            np.zeros(n_labels), np.full(n_labels, SLOPE_SD), np.where(is_empty, -1.0, 0.0)
        )
        fit.lpr, report = fit_averaged(groups, prior, self.n_penalties)
        fit.smoothing, fit.slope = report[:, 0], report[:, 1]
        fall_back_to_prevalence(groups, fit, least=1e-9)
        return fit
