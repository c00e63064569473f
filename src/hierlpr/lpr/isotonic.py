"""Monotone regression of the truth on the score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hierlpr._kernels.smoothing import fit_isotonic
from hierlpr.exceptions import DataError
from hierlpr.lpr.base import GroupFit, ScoreGroups


@dataclass(frozen=True, slots=True)
class Isotonic:
    r"""Isotonic regression with shrinkage: the least-squares monotone curve.

    Parameters
    ----------
    shrinkage : float
        Number of pseudo-samples at the prevalence that each pool of scores gets.

    Notes
    -----
    Pooled adjacent violators give pools of neighbouring scores, with :math:`y_j` positives among
    :math:`n_j`. A pool's LPR is :math:`(y_j + c \pi) / (n_j + c)` with :math:`c` the shrinkage
    and :math:`\pi` the smoothed prevalence, so never exactly 0 or 1; pools that the shrinkage
    puts out of order are pooled again.

    References
    ----------
    Ayer et al. (1955), key ``ayer1955``; Zadrozny and Elkan (2002), key
    ``zadrozny2002`` in ``docs/references.bib``.
    """

    shrinkage: float = 1.0

    name: ClassVar[str] = "isotonic"

    def __post_init__(self) -> None:
        if not 0.0 <= self.shrinkage < np.inf:
            raise DataError(f"shrinkage must be a number >= 0, got {self.shrinkage!r}.")

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit every label."""
        fit = GroupFit.empty(groups, self.name)
        fit.lpr = fit_isotonic(groups.ptr, groups.positive, groups.total, float(self.shrinkage))
        fit.smoothing[:] = self.shrinkage
        return fit
