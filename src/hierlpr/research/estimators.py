"""Estimators of local precision rates that studies compare: the paper's and a density ratio.

`hierlpr.lpr.fit_lpr` knows them by name and loads them when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels.precision_curve import (
    density_ratio,
    local_quadratic,
    precision_points,
    smoothing_spline,
)
from hierlpr._kernels.pspline import bin_normal_scores, deal_folds, spread_bins
from hierlpr._kernels.smoothing import make_monotone
from hierlpr.exceptions import DataError
from hierlpr.lpr.base import GroupFit, ScoreGroups, fall_back_to_prevalence, fall_back_to_shares
from hierlpr.lpr.p_spline import normal_table

LEAST_DISTINCT = 8  # fewer points of the precision curve have no derivative worth the name
BANDWIDTHS: NDArray[np.float64] = np.geomspace(0.01, 1.0, 14)
ADJUSTMENTS: NDArray[np.float64] = np.array([0.2, 0.3, 0.45, 0.7, 1.0, 1.5])
SPLINE_PENALTIES: NDArray[np.float64] = 10.0 ** np.arange(-14.0, 1.0)  # per unit of total weight
SPLINE_BINS = 256

Floats = NDArray[np.float64]


class _OneByOne:
    """An estimator of single labels: `_fit_label` gives the LPRs of one, and their smoothing.

    NaN for the smoothing says that there was too little to smooth, and that the LPRs are shares.
    """

    __slots__ = ()
    name: ClassVar[str]
    least_distinct: ClassVar[int] = LEAST_DISTINCT

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit every label; those with fewer than two of a class get the prevalence."""
        fit = GroupFit.empty(groups, self.name)
        for k in range(groups.n_labels):
            at = slice(groups.ptr[k], groups.ptr[k + 1])
            fit.lpr[at], fit.smoothing[k] = self._fit_label(groups.positive[at], groups.total[at])
            if np.isnan(fit.smoothing[k]):
                fit.estimator[k] = "shares"
                fit.fallback[k] = "scores in few ranks alone: the share of positives of each"
        fall_back_to_shares(groups, fit, fewer_than=self.least_distinct)
        fall_back_to_prevalence(groups, fit, least=2.0)
        return fit

    def _fit_label(self, positive: Floats, total: Floats) -> tuple[Floats, float]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class LocalQuadratic(_OneByOne):
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
        _check_folds(self.n_folds)

    def _fit_label(self, positive: Floats, total: Floats) -> tuple[Floats, float]:
        bandwidth = self.bandwidth or self._choose(positive, total)
        return self._smooth(positive, total, bandwidth)[0], bandwidth

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

        def smoothed(yes: Floats, both: Floats, h: float) -> Floats:
            lpr, _ = self._smooth(yes, both, h)
            # Groups that were held out whole count too.
            return _monotone(lpr, both + 1e-9)

        return _least_brier(smoothed, BANDWIDTHS, positive, total, self.n_folds)


@dataclass(frozen=True, slots=True)
class DensityRatio(_OneByOne):
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
    least_distinct: ClassVar[int] = 0

    def __post_init__(self) -> None:
        if self.adjust is not None and not 0.0 < self.adjust < np.inf:
            raise DataError(f"adjust must be a positive number, got {self.adjust!r}.")
        _check_folds(self.n_folds)

    def _fit_label(self, positive: Floats, total: Floats) -> tuple[Floats, float]:
        z = bin_normal_scores(positive, total, normal_table(total.sum()), total.size, False)[0]
        h = np.array([_rule_of_thumb(z, positive), _rule_of_thumb(z, total - positive)])
        h *= self.adjust or self._choose(z, positive, total, h)
        return density_ratio(z, positive, total, h[0], h[1]), h[0]

    def _choose(self, z: Floats, positive: Floats, total: Floats, h: Floats) -> float:
        def ratio(yes: Floats, both: Floats, adjust: float) -> Floats:
            return _monotone(density_ratio(z, yes, both, h[0] * adjust, h[1] * adjust), total)

        return _least_brier(ratio, ADJUSTMENTS, positive, total, self.n_folds)


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


@dataclass(frozen=True, slots=True)
class Spline(_OneByOne):
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

    def _fit_label(self, positive: Floats, total: Floats) -> tuple[Floats, float]:
        z, _, bin_z, bin_positive, bin_total = bin_normal_scores(
            positive, total, normal_table(total.sum()), SPLINE_BINS, False
        )
        if bin_z.size < LEAST_DISTINCT:
            lpr, smoothing = (bin_positive + 0.5) / (bin_total + 1.0), np.nan
        else:
            lpr, smoothing = self._bag(bin_positive, bin_total)
        spread = np.empty(total.size)
        spread_bins(z, bin_z, lpr, spread)
        return spread, smoothing

    def _bag(self, positive: Floats, total: Floats) -> tuple[Floats, float]:
        generator = np.random.default_rng(self.rng)
        share = np.concatenate([positive, total - positive]) / total.sum()
        size = max(1, round(total.sum()))
        _, _, _, middle = precision_points(positive, total)
        brier = np.zeros(SPLINE_PENALTIES.size)
        mean = np.zeros((SPLINE_PENALTIES.size, total.size))
        for _ in range(self.n_bags):
            yes, no = np.split(generator.multinomial(size, share).astype(np.float64), 2)
            # What a bag leaves out of a cell of m samples drawn c times is about m exp(-c / m).
            out_yes = _left_out(positive, yes)
            out_no = _left_out(total - positive, no)
            for i, penalty in enumerate(SPLINE_PENALTIES):
                lpr = _spline_lpr(yes, yes + no, middle, float(penalty))
                mean[i] += lpr / self.n_bags
                brier[i] += np.sum(out_yes * (1.0 - lpr) ** 2 + out_no * lpr**2)
        best = int(np.argmin(brier))
        return mean[best], float(SPLINE_PENALTIES[best])


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


def _monotone(lpr: Floats, weight: Floats) -> Floats:
    make_monotone(np.array([0, lpr.size]), lpr, weight)
    return lpr


def _check_folds(n_folds: int) -> None:
    if not (isinstance(n_folds, int) and 2 <= n_folds <= 100):
        raise DataError(f"n_folds must be a whole number from 2 to 100, got {n_folds!r}.")


def _least_brier(
    estimate: Callable[[Floats, Floats, float], Floats],
    options: Floats,
    positive: Floats,
    total: Floats,
    n_folds: int,
) -> float:
    """Return the option whose LPRs have the least Brier score on held-out truth."""
    every = np.arange(total.size)
    held_positive, held_total = deal_folds(positive, total, every, total.size, n_folds)
    brier = np.zeros(options.size)
    for yes, both in zip(held_positive, held_total, strict=True):
        for i, option in enumerate(options):
            lpr = estimate(positive - yes, total - both, float(option))
            brier[i] += np.sum(yes * (1.0 - lpr) ** 2 + (both - yes) * lpr**2)
    return float(options[int(np.argmin(brier))])
