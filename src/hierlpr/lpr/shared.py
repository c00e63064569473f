"""Curves that labels share, for labels with too few positives for a curve of their own.

The log-odds of label k at score s are a weighted mean of two curves,

    w_k own_k(s) + (1 - w_k) (u_k + (1 + v_k) shared(s)),        w_k = n_k / (n_k + kappa),

where n_k is the smaller of its numbers of positives and negatives. The shared curve is that of all
labels of the same depth as a function of the score, or of all labels as a function of the rank of
the score. The offset u_k and the change of slope v_k of a label, whose scores may be better or
worse than those of other labels, are normal with mean 0. What is shared, and kappa, are chosen by
held-out log-loss; kappa = 0 uses the label's own curve wherever there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hierlpr._kernels.curves import make_monotone
from hierlpr.exceptions import DataError
from hierlpr.lpr.bins import LabelBins, Scale
from hierlpr.lpr.curves import LPR_FLOOR, LPRCurves, compress_curves
from hierlpr.lpr.estimators import Estimator, GroupFit
from hierlpr.lpr.training import Float, Ints, ScoreGroups, order_by

MAX_LOG_ODDS = 14.0  # of one curve: beyond, a few samples cannot tell
N_STEPS = 8
MAX_OFFSET_SD = 3.0
FIRST_SLOPE_VARIANCE = 0.1
LEAST_SLOPE = 0.05  # of a curve
LEAST_VARIANCE = 1e-3  # of offsets and slopes
LEAST_SHARING = 3  # labels of one depth; fewer share the curve of the next depth above


@dataclass(frozen=True, slots=True, eq=False)
class SharedCurves:
    """Shared curves of a fit, and how much labels rely on them.

    Attributes
    ----------
    scale : {"score", "rank"}
        Whether curves are functions of the score, one per depth, or of the normal score of the
        rank, one for all labels.
    depths : ndarray
        The depth of each curve, increasing. A label has the curve of its depth or of the next one
        above it.
    curves : LPRCurves
    centre : ndarray
        Log-odds about which the slopes of labels turn, per curve.
    label_sd : ndarray of shape (2, n_curves)
        Standard deviations of the offsets and of the slopes of labels, per curve.
    kappa : float
        A label with as many positives (or negatives, if they are fewer) has equal weights.
    """

    scale: Scale
    depths: Ints
    curves: LPRCurves
    centre: Float
    label_sd: Float
    kappa: float

    def __post_init__(self) -> None:
        n_curves = self.curves.n_labels
        shapes = {self.depths.shape, self.centre.shape, self.label_sd.shape[1:], (n_curves,)}
        fits = len(shapes) == 1 and n_curves > 0 and len(self.label_sd) == 2
        if not fits or self.scale not in ("score", "rank"):
            raise DataError("Shared curves: their parts do not fit together.")
        is_finite = np.isfinite(self.centre).all() and np.isfinite(self.label_sd).all()
        if not (is_finite and np.all(self.label_sd > 0.0) and self.kappa >= 0.0):
            raise DataError("Shared curves: a number is missing, or negative where it cannot be.")

    def curve_of(self, depth: NDArray[np.integer]) -> Ints:
        """Return the number of the curve for labels of the given depths."""
        return np.maximum(np.searchsorted(self.depths, depth, side="right") - 1, 0)

    def log_odds_of_labels(self, curve: Ints, x: Float, line: Float) -> Float:
        """Evaluate shared curves at scores or normal scores, for labels of some lines.

        Every value has a curve number, and its offset and slope as a column of `line`.
        """
        centre = self.centre[curve]
        log_odds = centre + line[0] + (1.0 + line[1]) * (_evaluate(self.curves, curve, x) - centre)
        return np.asarray(np.clip(log_odds, -MAX_LOG_ODDS, MAX_LOG_ODDS))

    def describe(self, depth: int) -> str:
        """Name the curve of a label of some depth."""
        if self.scale == "rank":
            return "the curve of ranks shared by all labels"
        at = int(self.depths[self.curve_of(np.array([depth]))[0]])
        return f"the curve of scores shared by labels of depth {at}"


def fit_monotone(groups: ScoreGroups, estimator: Estimator) -> tuple[GroupFit, Float]:
    """Estimate the LPR of every group; also return it inside (0, 1) and monotone."""
    fit = estimator.fit_groups(groups)
    lpr = np.clip(fit.lpr, LPR_FLOOR, 1.0 - LPR_FLOOR)
    make_monotone(groups.ptr, lpr, groups.total)
    return fit, lpr


def shared_weight(support: Float, kappa: float) -> Float:
    """Weight of the shared curve; a label without positives or negatives has nothing else."""
    if np.isinf(kappa):
        return np.ones_like(support)
    return np.where(support > 0.0, kappa / np.maximum(support + kappa, 1e-300), 1.0)


def fit_shared(
    bins: LabelBins, depth: NDArray[np.integer], estimator: Any, scale: Scale
) -> tuple[SharedCurves, Float]:
    r"""Fit shared curves, and the offsets and slopes of all labels; kappa is left at 0.

    The curve :math:`g` of all samples of a group is flatter than those of its labels if they
    differ. So the log-odds are :math:`a + u_k + (b + v_k)\,g(x)`; see `fit_label_lines`.
    """
    bins = bins.listed()
    label, x, positive, total = bins.label, bins.along(scale), bins.positive, bins.total
    depths = np.zeros(1, np.int64)
    if scale == "score":
        distinct, n_labels = np.unique(depth[np.unique(label)], return_counts=True)
        depths = (
            distinct[n_labels >= LEAST_SHARING] if np.any(n_labels >= LEAST_SHARING) else depths
        )
    curve_of = np.maximum(np.searchsorted(depths, depth, side="right") - 1, 0)
    group, n_curves = curve_of[label], depths.size
    curves = _pooled_curves(group, x, positive, total, estimator, n_curves)
    base, one = _evaluate(curves, group, x), np.ones(n_curves)
    information = total / np.cosh(base / 2.0) ** 2
    sums = [np.bincount(group, values, n_curves) for values in (information * base, information)]
    centre = sums[0] / np.maximum(sums[1], 1e-300)
    base = base - centre[group]
    fitted = np.array([centre, one, one, FIRST_SLOPE_VARIANCE * one])
    line, cells = np.zeros((2, depth.size)), (label, curve_of, base, positive, total)
    fit_label_lines(*cells, N_STEPS, MAX_OFFSET_SD**2, fitted, line)
    intercept, slope, label_sd = fitted[0], fitted[1], np.sqrt(fitted[2:])
    line[1] /= slope[curve_of]
    label_sd[1] /= slope
    number = np.repeat(np.arange(n_curves), np.diff(curves.knot_ptr))
    knots = (intercept - slope * centre)[number] + slope[number] * log_odds_of(curves.knot_lpr)
    knot_lpr = expit(np.clip(knots, -MAX_LOG_ODDS, MAX_LOG_ODDS))
    final = LPRCurves(curves.knot_ptr, curves.knot_score, knot_lpr)
    return SharedCurves(scale, depths, final, intercept, label_sd, 0.0), line


def fit_lines(shared: SharedCurves, bins: LabelBins, depth: Ints) -> Float:
    """Fit the offsets and slopes of labels to given shared curves, of shape (2, n_labels)."""
    bins = bins.listed()
    curve_of, line, centre = shared.curve_of(depth), np.zeros((2, depth.size)), shared.centre
    curve = curve_of[bins.label]
    base = _evaluate(shared.curves, curve, bins.along(shared.scale)) - centre[curve]
    fixed = np.array([centre, np.ones(centre.size), *shared.label_sd**2])
    cells = (bins.label, curve_of, base, bins.positive, bins.total)
    fit_label_lines(*cells, 2 * N_STEPS, 0.0, fixed, line)
    return line


def fit_label_lines(
    label: Ints,
    curve_of: Ints,
    base: Float,
    positive: Float,
    total: Float,
    n_steps: int,
    most_variance: float,
    curve: Float,
    line: Float,
) -> None:
    """Fit log-odds ``a + u + (b + v) base`` with a, b per curve and u, v per label, in place.

    u and v are normal with mean 0. Rows of `curve` are a, b and the variances of u and v; rows of
    `line` are u and v; `label` is that of each bin. A step improves the lines of labels, then a and
    b, both by Newton, then the variances by expectation; with `most_variance` 0, the lines only.
    """
    n_labels, n_curves = curve_of.size, curve.shape[1]
    is_used = np.bincount(label, minlength=n_labels) > 0
    n_used = np.bincount(curve_of[is_used], minlength=n_curves)

    def moments() -> Float:
        """Return gradients by intercept and slope, and information, of the likelihood of labels."""
        a, b = curve[:2, curve_of] + line
        p = expit(a[label] + b[label] * base)
        residual, w = positive - total * p, total * p * (1.0 - p)
        each = (residual, residual * base, w, w * base, w * base * base)
        return np.stack([np.bincount(label, x, n_labels) for x in each])

    def newton(g0: Float, g1: Float, h00: Float, h01: Float, h11: Float) -> tuple[Float, Float]:
        """Return the step of intercepts and slopes, and the diagonal of the inverse information."""
        inverse = np.stack([h11, h00]) / (h00 * h11 - h01 * h01)
        mixed = -h01 / (h00 * h11 - h01 * h01)
        return inverse * [g0, g1] + mixed * [g1, g0], inverse

    def by_curve(values: Float) -> Float:
        return np.bincount(curve_of[is_used], values[is_used], n_curves).astype(np.float64)

    for _ in range(n_steps):
        slope, variance = curve[1, curve_of], curve[2:, curve_of]
        g0, g1, h00, h01, h11 = moments()
        pull = line / variance
        step, spread = newton(
            g0 - pull[0], g1 - pull[1], h00 + 1.0 / variance[0], h01, h11 + 1.0 / variance[1]
        )
        new = line + np.clip(step, [[-2.0], [-0.5]], [[2.0], [0.5]])
        new[1] = np.maximum(new[1], -0.95 * slope)
        line[:, is_used] = new[:, is_used]
        if most_variance > 0.0:
            squares = np.stack([by_curve(x) for x in line**2 + spread])
            g0, g1, h00, h01, h11 = (by_curve(x) for x in moments())
            # The slope has a normal prior of mean and variance 1.
            step, _ = newton(g0, g1 + 1.0 - curve[1], h00 + 1e-3, h01, h11 + 1.0)
            new = curve.copy()
            new[:2] += np.clip(step, [[-1.0], [-0.5]], [[1.0], [0.5]])
            new[1] = np.maximum(new[1], LEAST_SLOPE)
            most = [[most_variance], [1.0]]
            new[2:] = np.clip(squares / np.maximum(n_used, 1), LEAST_VARIANCE, most)
            curve[:, n_used > 0] = new[:, n_used > 0]
        # b may have fallen: no label's slope is negative.
        line[1] = np.maximum(line[1], -curve[1, curve_of])


def _evaluate(curves: LPRCurves, curve: Ints, x: Float) -> Float:
    """Return the log-odds of values of x, one curve number per value."""
    return log_odds_of(curves.evaluate_each(curve.astype(np.int32), x, n_jobs=1))


def _pooled_curves(
    group: Ints, x: Float, positive: Float, total: Float, estimator: Any, n_groups: int
) -> LPRCurves:
    """Fit one curve to all bins of each group of labels."""
    if x.size == 0:
        return LPRCurves(np.array([0, 1]), np.zeros(1), np.full(1, 0.5))
    order = order_by(group, x)
    group, x = group[order], x[order]
    first = np.flatnonzero(np.append(True, (np.diff(group) > 0) | (np.diff(x) > 0)))
    ptr = np.searchsorted(group[first], np.arange(n_groups + 1))
    sums = [np.add.reduceat(values[order], first) for values in (positive, total)]
    largest = np.add.reduceat(sums[1], ptr[:-1]).max()
    groups = ScoreGroups(ptr, x[first], sums[0], sums[1], float(largest))
    # Few enough knots for every label to have them.
    bins = LabelBins.of(groups, fit_monotone(groups, estimator)[1])
    make_monotone(bins.ptr, bins.lpr, bins.total)  # means of equal LPRs may differ by rounding
    return LPRCurves(bins.ptr, bins.score, bins.lpr)


def blend(
    own: LPRCurves, bins: LabelBins, depth: Ints, shared: SharedCurves, line: Float
) -> tuple[LPRCurves, Float, Float]:
    """Return the blended curves, the LPR of every bin, and the weight of the shared curve."""
    weight, curve = shared_weight(bins.support(), shared.kappa), shared.curve_of(depth)
    uses_shared = np.flatnonzero(weight > 0.0)  # the others keep their own curves exactly

    def combine(label: Ints, own_lpr: Float, x: Float) -> Float:
        log_odds = shared.log_odds_of_labels(curve[label], x, line[:, label])
        mixed = (1.0 - weight[label]) * log_odds_of(own_lpr) + weight[label] * log_odds
        return np.asarray(np.clip(expit(mixed), LPR_FLOOR, 1.0 - LPR_FLOOR))

    lpr, listed = bins.lpr.copy(), bins.listed()
    x = listed.along(shared.scale)
    lpr[bins.score > -np.inf] = combine(listed.label, listed.lpr, x)
    # Knots of both curves; those of a curve of ranks are at the scores of the bins.
    ends = [own, LPRCurves(listed.ptr, listed.score, x, _is_checked=True)]
    if shared.scale == "score":
        ends[1] = shared.curves.select(curve)
    ends = [part.select(uses_shared) for part in ends]
    number = np.concatenate([np.repeat(uses_shared, np.diff(part.knot_ptr)) for part in ends])
    score = np.concatenate([part.knot_score for part in ends])
    order = order_by(number, score)
    number, score = number[order], score[order]
    distinct = np.append(True, (np.diff(number) > 0) | (np.diff(score) > 0))[: score.size]
    number, score = number[distinct], score[distinct]
    own_lpr = own.evaluate_each(number.astype(np.int32), score, n_jobs=1)
    value = combine(number, own_lpr, coordinate(bins, shared.scale, number, score))
    ptr = np.searchsorted(number, np.append(uses_shared, depth.size))
    make_monotone(ptr, value, np.ones(value.size))
    is_exact = np.zeros(uses_shared.size, np.bool_)
    knots = compress_curves(ptr, score, value, np.ones(value.size), is_exact)
    place = np.arange(depth.size)
    place[uses_shared] = depth.size + np.arange(uses_shared.size)
    return LPRCurves.join([own, LPRCurves(*knots, _is_checked=True)]).select(place), lpr, weight


def coordinate(bins: LabelBins, scale: Scale, label: Ints, score: Float) -> Float:
    """Return scores, or normal scores of their ranks among the bins of their labels.

    A label without bins has ranks of 0, the middle.
    """
    if scale == "score":
        return score
    bins = bins.listed()
    ranks = LPRCurves(bins.ptr, bins.score, bins.z, _is_checked=True)
    z, has_bins = np.zeros_like(score), np.diff(bins.ptr)[label] > 0
    z[has_bins] = ranks.evaluate_each(label[has_bins].astype(np.int32), score[has_bins], n_jobs=1)
    return z


def log_odds_of(lpr: Float) -> Float:
    """Return bounded log-odds of probabilities."""
    inside = np.clip(lpr, LPR_FLOOR, 1.0 - LPR_FLOOR)
    return np.clip(np.log(inside / (1.0 - inside)), -MAX_LOG_ODDS, MAX_LOG_ODDS)
