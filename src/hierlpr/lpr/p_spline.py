"""Penalized logistic splines on the normal score of the rank."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._kernels.pspline import (
    SlopePrior,
    SplineGrid,
    average_psplines,
    crossvalidate_psplines,
)
from hierlpr.exceptions import DataError
from hierlpr.lpr.base import GroupFit, ScoreGroups, fall_back_to_prevalence

N_PENALTIES = 12
N_SEGMENTS = 24
N_BINS = 160
SLOPE_SD = 6.0  # a weak prior of the slope: an excellent classifier has a slope of about 4
_LARGEST_TABLE = 2**19

_tables: dict[int, NDArray[np.float64]] = {}
_tables_lock = threading.Lock()


def normal_table(n_samples: float) -> NDArray[np.float64]:
    """Return normal quantiles at ``i / (4 n)``, which include the mid-ranks of n samples."""
    size = min(4 * max(2, round(n_samples)), _LARGEST_TABLE)
    with _tables_lock:
        table = _tables.get(size)
        if table is None:
            table = scipy.special.ndtri(np.arange(size + 1) / size)
            if len(_tables) > 8:
                _tables.clear()
            _tables[size] = table
    return table


def fit_averaged(
    groups: ScoreGroups, prior: SlopePrior, n_penalties: int = N_PENALTIES
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the LPR per group, averaged over penalties by their evidence, and label reports."""
    lpr = np.empty(groups.total.size)
    report = np.empty((groups.n_labels, 3))
    counts = groups.ptr, groups.positive, groups.total
    average_psplines(*counts, _grid(groups, n_penalties), prior, lpr, report)
    return lpr, report


def _grid(groups: ScoreGroups, n_penalties: int = N_PENALTIES) -> SplineGrid:
    # From nearly free to nearly a straight line.
    penalties = np.exp2(np.linspace(-4.0, 18.0, n_penalties))
    return SplineGrid(normal_table(groups.n_samples), penalties, N_SEGMENTS, N_BINS)


@dataclass(frozen=True, slots=True)
class PSpline:
    r"""Logistic P-spline with the penalty of least cross-validated log-loss, made monotone.

    Parameters
    ----------
    n_folds : int
        Number of cross-validation folds, drawn along the sorted scores from a fixed sequence.

    Notes
    -----
    :math:`\operatorname{logit} P(Q = 1 \mid z)` is a cubic spline in the normal score
    :math:`z = \Phi^{-1}(\text{mid-rank} / n)` with a penalty :math:`\lambda` on the second
    differences of its coefficients, so that a large :math:`\lambda` leaves a logistic line, and a
    weak normal prior on the slope, which keeps the fit finite when the classes separate. Samples
    are first put in 160 bins of equal width in :math:`z`, so the cost is O(n) after sorting.

    References
    ----------
    Eilers and Marx (1996), key ``eilers1996`` in ``docs/references.bib``.
    """

    n_folds: int = 5

    name: ClassVar[str] = "p-spline"

    def __post_init__(self) -> None:
        if not (isinstance(self.n_folds, int) and 2 <= self.n_folds <= 100):
            raise DataError(f"n_folds must be a whole number from 2 to 100, got {self.n_folds!r}.")

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit every label; labels with one class or constant scores get the prevalence."""
        fit = GroupFit.empty(groups, self.name)
        report = np.empty((groups.n_labels, 3))
        counts = groups.ptr, groups.positive, groups.total
        crossvalidate_psplines(*counts, _grid(groups), self.n_folds, SLOPE_SD, fit.lpr, report)
        fit.smoothing, fit.slope = report[:, 0], report[:, 1]
        fall_back_to_prevalence(groups, fit, least=1.0)
        return fit
