"""LPR estimators for comparison: those of the paper and a density ratio.

`hierlpr.lpr.fit_lpr` loads them by name.
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
from hierlpr.lpr.estimators import GroupFit, fall_back_to_prevalence, normal_table
from hierlpr.lpr.training import ScoreGroups

LEAST_DISTINCT = 8  # with fewer points the precision curve has no usable derivative
BANDWIDTHS: NDArray[np.float64] = np.geomspace(0.01, 1.0, 14)
ADJUSTMENTS: NDArray[np.float64] = np.array([0.2, 0.3, 0.45, 0.7, 1.0, 1.5])
SPLINE_PENALTIES: NDArray[np.float64] = 10.0 ** np.arange(-14.0, 1.0)  # per unit of total weight
SPLINE_BINS = 256
N_FOLDS = 5
N_BAGS = 20

Floats = NDArray[np.float64]


class _OneByOne:
    """An estimator that fits each label on its own.

    `_fit_label` returns the LPRs of one label and their smoothing parameter; NaN if there was too
    little data to smooth, so that the LPRs are the shares of positives.
    """

    __slots__ = ()
    name: ClassVar[str]
    least_distinct: ClassVar[int] = LEAST_DISTINCT

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit every label; labels with fewer than two samples of a class get the prevalence."""
        fit = GroupFit.empty(groups, self.name)
        for k in range(groups.n_labels):
            at = slice(groups.ptr[k], groups.ptr[k + 1])
            positive, total = groups.positive[at], groups.total[at]
            fit.lpr[at], smoothing = (positive + 0.5) / (total + 1.0), np.nan
            if total.size >= self.least_distinct:
                fit.lpr[at], smoothing = self._fit_label(positive, total)
            if np.isnan(smoothing):
                fit.estimator[k] = "shares"
                fit.fallback[k] = "few distinct scores: used the share of positives of each"
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
        False gives the published form: every point of the precision curve has the same weight, and
        the bandwidth is cross-validated on the curve itself.

    Notes
    -----
    With :math:`u` the share of samples below a score and :math:`G(u)` the share of positives
    from it upward, :math:`\mathrm{LPR}(u) = G(u) - (1 - u) G'(u)`; :math:`G` and :math:`G'` come
    from one local quadratic fit with the Epanechnikov kernel. The correction has two parts. The
    weight of :math:`G(u)` is the number of samples above, :math:`n (1 - u)`, of which it is a mean.
    And because neighbouring points share almost all their samples, the curve predicts itself too
    well; so the bandwidth minimizes the Brier score of the LPRs on held-out truth instead.

    References
    ----------
    Jiang et al. (2014), key ``jiang2014``; Fan and Gijbels (1996), key ``fan1996``.
    """

    corrected: bool = True

    name: ClassVar[str] = "local-quadratic"

    def _fit_label(self, positive: Floats, total: Floats) -> tuple[Floats, float]:
        if self.corrected:
            # The small weight keeps scores all of whose samples were held out.
            bandwidth = _least_brier(
                lambda yes, both, h: _monotone(self._smooth(yes, both, h)[0], both + 1e-9),
                BANDWIDTHS,
                positive,
                total,
            )
        else:
            losses = [self._smooth(positive, total, h)[1] for h in BANDWIDTHS]
            bandwidth = float(BANDWIDTHS[int(np.argmin(losses))])
        return self._smooth(positive, total, bandwidth)[0], bandwidth

    def _smooth(self, positive: Floats, total: Floats, bandwidth: float) -> tuple[Floats, float]:
        """Return the LPR at every score, and how badly the curve predicts its own points."""
        below, precision, above, middle = precision_points(positive, total)
        weight = total * above if self.corrected else total
        value, slope, loss = local_quadratic(below, precision, weight, bandwidth, middle)
        return np.clip(value - (1.0 - middle) * slope, 0.0, 1.0), loss


@dataclass(frozen=True, slots=True)
class DensityRatio(_OneByOne):
    r"""Ratio of kernel density estimates of both classes, on the normal score of the rank.

    Notes
    -----
    :math:`\mathrm{LPR} = \pi f_1 / (\pi f_1 + (1 - \pi) f_0)`, the local true discovery rate. On
    the normal score of the rank both densities have light tails and no boundary, where kernel
    estimates would be biased. The bandwidth of each class is 0.9 min(sd, IQR / 1.34) n^(-1/5) times
    a factor common to both, because that rule alone oversmooths where a good classifier separates
    the classes. The factor minimizes the Brier score on held-out truth.

    References
    ----------
    Jiang et al. (2014), key ``jiang2014``; Silverman (1986), key ``silverman1986``.
    """

    name: ClassVar[str] = "density-ratio"
    least_distinct: ClassVar[int] = 0

    def _fit_label(self, positive: Floats, total: Floats) -> tuple[Floats, float]:
        z = bin_normal_scores(positive, total, normal_table(total.sum()), total.size, False)[0]
        h = np.array([_rule_of_thumb(z, positive), _rule_of_thumb(z, total - positive)])
        h *= _least_brier(
            lambda yes, both, a: _monotone(density_ratio(z, yes, both, *(h * a)), total),
            ADJUSTMENTS,
            positive,
            total,
        )
        return density_ratio(z, positive, total, *h), h[0]


def _rule_of_thumb(z: Floats, weight: Floats) -> float:
    """Silverman's bandwidth for weighted points; at least 0.02, for classes on a single score."""
    n = float(weight.sum())
    if n <= 0.0:
        return 1.0
    mean = np.sum(weight * z) / n
    spread = float(np.sqrt(np.sum(weight * (z - mean) ** 2) / n))
    lower, upper = z[np.searchsorted(np.cumsum(weight) / n, [0.25, 0.75])]
    if upper > lower:
        spread = min(spread, float(upper - lower) / 1.34)
    return max(0.9 * spread * float(n**-0.2), 0.02)


@dataclass(frozen=True, slots=True)
class Spline(_OneByOne):
    r"""Mean over bootstrap samples of LPRs from smoothing splines of the precision curve.

    Notes
    -----
    In every bag the precision curve :math:`G(u)` is fitted by a cubic smoothing spline with
    weights proportional to the number of samples above :math:`u`, and
    :math:`\mathrm{LPR}(u) = G(u) - (1 - u) G'(u)`; the LPRs of the bags are averaged. The penalty
    minimizes the Brier score on out-of-bag samples. Scores are first put in 256 bins of equal width
    in the normal score of the rank: O(n) time plus O(256) per bag and penalty.

    References
    ----------
    Lee (2013), key ``lee2013``; Reinsch (1967), key ``reinsch1967``, for the spline.
    """

    name: ClassVar[str] = "spline"

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
        generator = np.random.default_rng(0)
        share = np.concatenate([positive, total - positive]) / total.sum()
        size = max(1, round(total.sum()))
        _, _, _, middle = precision_points(positive, total)
        brier = np.zeros(SPLINE_PENALTIES.size)
        mean = np.zeros((SPLINE_PENALTIES.size, total.size))
        for _ in range(N_BAGS):
            yes, no = np.split(generator.multinomial(size, share).astype(np.float64), 2)
            out_yes, out_no = _out_of_bag(positive, yes), _out_of_bag(total - positive, no)
            for i, penalty in enumerate(SPLINE_PENALTIES):
                lpr = _spline_lpr(yes, yes + no, middle, float(penalty))
                mean[i] += lpr / N_BAGS
                brier[i] += np.sum(out_yes * (1.0 - lpr) ** 2 + out_no * lpr**2)
        best = int(np.argmin(brier))
        return mean[best], float(SPLINE_PENALTIES[best])


def _out_of_bag(count: Floats, drawn: Floats) -> Floats:
    """Return the expected number out of bag, of `count` samples drawn `drawn` times."""
    with np.errstate(divide="ignore", invalid="ignore"):
        left: Floats = np.where(count > 0.0, count * np.exp(-drawn / count), 0.0)
    return left


def _spline_lpr(positive: Floats, total: Floats, middle: Floats, penalty: float) -> Floats:
    """Return LPRs at the mid-ranks `middle` from one weighted spline of the precision curve."""
    used = total > 0.0
    below, precision, above, _ = precision_points(positive[used], total[used])
    if below.size < 3:
        return np.full(middle.size, positive.sum() / total.sum())
    weight = above * total[used]
    weight /= weight.sum()
    value, slope = smoothing_spline(below, precision, weight, penalty)
    return np.interp(middle, below, np.clip(value - (1.0 - below) * slope, 0.0, 1.0))


def _monotone(lpr: Floats, weight: Floats) -> Floats:
    make_monotone(np.array([0, lpr.size]), lpr, weight)
    return lpr


def _least_brier(
    estimate: Callable[[Floats, Floats, float], Floats],
    options: Floats,
    positive: Floats,
    total: Floats,
) -> float:
    """Return the option whose LPRs have the lowest Brier score on held-out truth."""
    every = np.arange(total.size)
    held_positive, held_total = deal_folds(positive, total, every, total.size, N_FOLDS)
    brier = np.zeros(options.size)
    for yes, both in zip(held_positive, held_total, strict=True):
        for i, option in enumerate(options):
            lpr = estimate(positive - yes, total - both, float(option))
            brier[i] += np.sum(yes * (1.0 - lpr) ** 2 + (both - yes) * lpr**2)
    return float(options[int(np.argmin(brier))])
