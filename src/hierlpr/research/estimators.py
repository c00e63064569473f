"""The paper's estimators of LPRs, for comparison; `hierlpr.lpr.fit_lpr` loads them by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_smoothing_spline

from hierlpr._kernels.precision_curve import local_quadratic
from hierlpr._kernels.pspline import bin_normal_scores, deal_folds, spread_bins
from hierlpr._kernels.smoothing import make_monotone
from hierlpr.lpr.estimators import GroupFit, fall_back_to_prevalence, normal_table
from hierlpr.lpr.training import ScoreGroups

LEAST_DISTINCT = 8  # with fewer points the precision curve has no usable derivative
BANDWIDTHS: NDArray[np.float64] = np.geomspace(0.01, 1.0, 14)
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

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit every label; labels with fewer than two samples of a class get the prevalence."""
        fit = GroupFit.empty(groups, self.name)
        for k in range(groups.n_labels):
            at = slice(groups.ptr[k], groups.ptr[k + 1])
            positive, total = groups.positive[at], groups.total[at]
            fit.lpr[at], smoothing = (positive + 0.5) / (total + 1.0), np.nan
            if total.size >= LEAST_DISTINCT:
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
            losses = self._held_out_brier(positive, total)
        else:
            losses = np.array([self._smooth(positive, total, h)[1] for h in BANDWIDTHS])
        bandwidth = float(BANDWIDTHS[int(np.argmin(losses))])
        return self._smooth(positive, total, bandwidth)[0], bandwidth

    def _held_out_brier(self, positive: Floats, total: Floats) -> Floats:
        """Return the Brier score of each bandwidth on held-out truth."""
        every = np.arange(total.size)
        brier = np.zeros(BANDWIDTHS.size)
        folds = deal_folds(positive, total, every, total.size, N_FOLDS)
        for yes, both in zip(*folds, strict=True):
            for i, bandwidth in enumerate(BANDWIDTHS):
                lpr, _ = self._smooth(positive - yes, total - both, bandwidth)
                # The small weight keeps scores all of whose samples were held out.
                make_monotone(np.array([0, lpr.size]), lpr, total - both + 1e-9)
                brier[i] += np.sum(yes * (1.0 - lpr) ** 2 + (both - yes) * lpr**2)
        return brier

    def _smooth(self, positive: Floats, total: Floats, bandwidth: float) -> tuple[Floats, float]:
        """Return the LPR at every score, and how badly the curve predicts its own points."""
        below, precision, above, middle = precision_points(positive, total)
        weight = total * above if self.corrected else total
        value, slope, loss = local_quadratic(below, precision, weight, bandwidth, middle)
        return np.clip(value - (1.0 - middle) * slope, 0.0, 1.0), loss


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
    Lee (2013), key ``lee2013``.
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
    if below.size < 5:  # the fewest that SciPy's spline takes
        return np.full(middle.size, positive.sum() / total.sum())
    weight = above * total[used]
    weight /= weight.sum()
    curve = make_smoothing_spline(below, precision, weight, lam=penalty)
    lpr = np.clip(curve(below) - (1.0 - below) * curve(below, 1), 0.0, 1.0)
    return np.asarray(np.interp(middle, below, lpr))


def precision_points(positive: Floats, total: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the points of the precision curve of one label, one per group of rising score.

    They are the share of samples below the group, the share of positives from the group upward,
    the number of samples from the group upward, and the mid-rank share of the group.
    """
    above = np.cumsum(total[::-1])[::-1]
    hits = np.cumsum(positive[::-1])[::-1]
    precision = np.divide(hits, above, out=np.zeros_like(hits), where=above > 0.0)
    below = np.clip(1.0 - above / total.sum(), 0.0, 1.0)
    middle = np.clip(1.0 - (above - 0.5 * total) / total.sum(), 0.0, 1.0)
    return below, precision, above, middle
