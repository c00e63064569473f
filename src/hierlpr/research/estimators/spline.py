"""Bagged, weighted smoothing splines on the precision curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels.precision_curve import precision_points, smoothing_spline
from hierlpr._kernels.pspline import bin_normal_scores, spread_bins
from hierlpr.exceptions import DataError
from hierlpr.lpr.base import GroupFit, ScoreGroups, fall_back_to_prevalence, fall_back_to_shares
from hierlpr.lpr.p_spline import normal_table
from hierlpr.research.estimators.local_quadratic import LEAST_DISTINCT

__all__ = ["PENALTIES", "Spline"]

PENALTIES: NDArray[np.float64] = 10.0 ** np.arange(-14.0, 1.0)  # per unit of total weight
N_BINS = 256

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Spline:
    r"""Mean over bootstrap samples of LPRs from smoothing splines of the precision curve.

    Parameters
    ----------
    n_bags : int
        Number of bootstrap samples.
    rng : int
        Seed; every label uses the same, so a label's curve does not depend on the others.

    Notes
    -----
    In every bag the precision curve :math:`G(u)` is fitted by a cubic smoothing spline with
    weights proportional to the number of samples above :math:`u`, and
    :math:`\mathrm{LPR}(u) = G(u) - (1 - u) G'(u)`; the bags' LPRs are averaged. The penalty is
    the one of least Brier score on the samples that the bags leave out. Scores are put in 256
    bins of equal width in the normal score of the rank first, and bags are drawn from the counts
    in these bins: cost is O(n) plus O(256) per bag and penalty.

    References
    ----------
    Lee (2013), key ``lee2013``; Reinsch (1967), key ``reinsch1967``, for the spline.
    """

    n_bags: int = 20
    rng: int = 0

    name: ClassVar[str] = "spline"

    def __post_init__(self) -> None:
        if not (isinstance(self.n_bags, int) and self.n_bags >= 1):
            raise DataError(f"n_bags must be a positive whole number, got {self.n_bags!r}.")
        if not (isinstance(self.rng, int) and self.rng >= 0):
            raise DataError(
                f"rng must be a whole number >= 0, got {self.rng!r}.\n"
                "Hint: each label starts its own generator from it."
            )

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit every label; those with fewer than two of a class get the prevalence."""
        fit = GroupFit.empty(groups, self.name)
        for k in range(groups.n_labels):
            at = slice(groups.ptr[k], groups.ptr[k + 1])
            positive, total = groups.positive[at], groups.total[at]
            z, _, bin_z, bin_positive, bin_total = bin_normal_scores(
                positive, total, normal_table(total.sum()), N_BINS, False
            )
            if bin_z.size < LEAST_DISTINCT:
                continue
            lpr, fit.smoothing[k] = self._bag(bin_positive, bin_total)
            spread_bins(z, bin_z, lpr, fit.lpr[at])
        fall_back_to_shares(groups, fit, fewer_than=LEAST_DISTINCT)
        fall_back_to_prevalence(groups, fit, least=2.0)
        return fit

    def _bag(self, positive: Floats, total: Floats) -> tuple[Floats, float]:
        generator = np.random.default_rng(self.rng)
        share = np.concatenate([positive, total - positive]) / total.sum()
        size = max(1, round(total.sum()))
        _, _, _, middle = precision_points(positive, total)
        brier = np.zeros(PENALTIES.size)
        mean = np.zeros((PENALTIES.size, total.size))
        for _ in range(self.n_bags):
            yes, no = np.split(generator.multinomial(size, share).astype(np.float64), 2)
            # What a bag leaves out of a cell of m samples drawn c times is about m exp(-c / m).
            out_yes = _left_out(positive, yes)
            out_no = _left_out(total - positive, no)
            for i, penalty in enumerate(PENALTIES):
                lpr = _spline_lpr(yes, yes + no, middle, float(penalty))
                mean[i] += lpr / self.n_bags
                brier[i] += np.sum(out_yes * (1.0 - lpr) ** 2 + out_no * lpr**2)
        best = int(np.argmin(brier))
        return mean[best], float(PENALTIES[best])


def _left_out(count: Floats, drawn: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        left: Floats = np.where(count > 0.0, count * np.exp(-drawn / count), 0.0)
    return left


def _spline_lpr(positive: Floats, total: Floats, middle: Floats, penalty: float) -> Floats:
    """LPRs at the mid-ranks `middle` from one weighted spline of the precision curve."""
    used = total > 0.0
    below, precision, above, _ = precision_points(positive[used], total[used])
    if below.size < 3:
        return np.full(middle.size, positive.sum() / total.sum())
    weight = above * total[used]
    weight /= weight.sum()
    value, slope = smoothing_spline(below, precision, weight, penalty)
    lpr = np.clip(value - (1.0 - below) * slope, 0.0, 1.0)
    return np.interp(middle, below, lpr)
