"""Lee's (2013) estimator of LPRs, which the paper cites: bagged splines of the precision curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.interpolate import make_smoothing_spline

from hierlpr.lpr.estimators import GroupFit, fall_back_to_prevalence, normal_table
from hierlpr.lpr.splines import bin_normal_scores
from hierlpr.lpr.training import ScoreGroups
from hierlpr.research.estimators import LEAST_DISTINCT, Floats, precision_points

PENALTIES: Floats = 10.0 ** np.arange(-14.0, 1.0)  # per unit of total weight
N_BINS = 256
N_BAGS = 20


@dataclass(frozen=True, slots=True)
class Spline:
    """Mean over bootstrap samples of LPRs from smoothing splines of the precision curve.

    In every bag the precision curve G(u) is fitted by a cubic smoothing spline with weights
    proportional to the number of samples above u, and LPR(u) = G(u) - (1 - u) G'(u); the LPRs of
    the bags are averaged. The penalty minimizes the Brier score on out-of-bag samples. Scores are
    first put in 256 bins of equal width in the normal score of the rank.
    """

    name: ClassVar[str] = "spline"

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Fit each label on its own."""
        fit = GroupFit.empty(groups, self.name)
        for k in range(groups.n_labels):
            at = slice(groups.ptr[k], groups.ptr[k + 1])
            fit.lpr[at] = self._fit_label(groups.positive[at], groups.total[at])
        fall_back_to_prevalence(groups, fit, least=2.0)
        return fit

    def _fit_label(self, positive: Floats, total: Floats) -> Floats:
        if total.size < LEAST_DISTINCT:
            return (positive + 0.5) / (total + 1.0)
        ptr = np.array([0, total.size])
        table = normal_table(total.sum())
        bins = bin_normal_scores(ptr, positive, total, table, N_BINS, balance=False)
        if bins.total.size < LEAST_DISTINCT:
            return bins.spread((bins.positive + 0.5) / (bins.total + 1.0))
        return bins.spread(self._bag(bins.positive, bins.total))

    def _bag(self, positive: Floats, total: Floats) -> Floats:
        generator = np.random.default_rng(0)
        share = np.concatenate([positive, total - positive]) / total.sum()
        size = max(1, round(total.sum()))
        _, _, _, middle = precision_points(positive, total)
        brier = np.zeros(PENALTIES.size)
        mean = np.zeros((PENALTIES.size, total.size))
        for _ in range(N_BAGS):
            yes, no = np.split(generator.multinomial(size, share).astype(np.float64), 2)
            out_yes, out_no = _out_of_bag(positive, yes), _out_of_bag(total - positive, no)
            for i, penalty in enumerate(PENALTIES):
                lpr = _spline_lpr(yes, yes + no, middle, float(penalty))
                mean[i] += lpr / N_BAGS
                brier[i] += np.sum(out_yes * (1.0 - lpr) ** 2 + out_no * lpr**2)
        return mean[int(np.argmin(brier))]


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
