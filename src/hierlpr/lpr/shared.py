"""Curves that labels share, for labels with too few positives for a curve of their own.

The log-odds of label k at score s are a weighted mean of two curves,

    w_k own_k(s) + (1 - w_k) (shared(s) + u_k),        w_k = n_k / (n_k + kappa),

where n_k is the smaller of its numbers of positives and negatives. The shared curve is that of all
labels of the same depth as a function of the score, or of all labels as a function of the rank of
the score, whichever predicts held-out samples better; the offset u_k is normal with mean 0. kappa
is chosen by held-out log-loss as well; kappa = 0 uses the label's own curve wherever there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._kernels.smoothing import bin_groups, compress_curves, make_monotone
from hierlpr.exceptions import DataError
from hierlpr.lpr.curves import LPR_FLOOR, LPRCurves
from hierlpr.lpr.estimators import GroupFit
from hierlpr.lpr.training import ScoreGroups

Float = NDArray[np.float64]
Ints = NDArray[np.int64]
Scale = Literal["score", "rank"]

SCALES: tuple[Scale, ...] = ("score", "rank")
KAPPAS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, np.inf)
DEFAULT: tuple[Scale, float] = ("rank", 10.0)  # where nothing can be held out
# Bins of equal width in the normal score of the rank.
SHARE_EDGES: Float = scipy.special.ndtr(np.linspace(-4.0, 4.0, 65))
MAX_LOG_ODDS = 14.0  # of one curve: beyond, a few samples cannot tell
N_STEPS = 8
MAX_OFFSET_SD = 3.0
LEAST_SHARING = 3  # labels of one depth; fewer share the curve of the next depth above


class LabelBins(NamedTuple):
    """Training samples of labels in bins of score; those of label k are ``ptr[k]:ptr[k + 1]``.

    `score` is the middle and `highest` the highest score of a bin, `z` the normal score of its
    mid-rank, `lpr` the mean of the label's own curve. A score of -inf stands for samples that do
    not list the label.
    """

    ptr: Ints
    score: Float
    highest: Float
    z: Float
    positive: Float
    total: Float
    lpr: Float

    @classmethod
    def of(cls, groups: ScoreGroups, lpr: Float) -> LabelBins:
        """Bin the groups of tied scores of some labels, whose own curves have the given LPRs."""
        ptr, found = bin_groups(
            groups.ptr, groups.score, groups.positive, groups.total, lpr, SHARE_EDGES
        )
        score, highest, share, positive, total, mean = found
        # Ranks count among the samples that list the label.
        weight = groups.sum_by_label(groups.total)
        absent = np.where(score[ptr[:-1]] == -np.inf, total[ptr[:-1]] / weight, 0.0)
        absent = np.repeat(np.minimum(absent, 1.0 - 1e-9), np.diff(ptr))
        inside = np.clip((share - absent) / (1.0 - absent), 1e-9, 1.0 - 1e-9)
        return cls(ptr, score, highest, scipy.special.ndtri(inside), positive, total, mean)

    @classmethod
    def join(cls, parts: list[LabelBins]) -> LabelBins:
        """Concatenate the labels of all parts."""
        sizes = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.ptr) for part in parts)])
        columns = list(zip(*parts, strict=True))[1:]
        return cls(sizes.cumsum(), *(np.concatenate(column) for column in columns))

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.ptr.size - 1

    @property
    def label(self) -> Ints:
        """Label of every bin."""
        return np.repeat(np.arange(self.n_labels), np.diff(self.ptr))

    def listed(self, scale: str) -> tuple[Ints, Float, Float, Float]:
        """Return label, score or rank, positive and total weight of bins with a score."""
        at = np.flatnonzero(self.score > -np.inf)
        x = self.score if scale == "score" else self.z
        return self.label[at], x[at], self.positive[at], self.total[at]

    def support(self) -> Float:
        """Smaller of the weights of positives and negatives per label, where it is listed."""
        label, _, positive, total = self.listed("score")
        n_positive, n_all = (_sum_by(label, x, self.n_labels) for x in (positive, total))
        return np.asarray(np.maximum(np.minimum(n_positive, n_all - n_positive), 0.0))


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
    offset_sd : ndarray
        Standard deviation of the offsets of labels, per curve.
    kappa : float
        A label with as many positives (or negatives, if they are fewer) has equal weights.
    """

    scale: str
    depths: Ints
    curves: LPRCurves
    offset_sd: Float
    kappa: float

    def __post_init__(self) -> None:
        sizes = {self.depths.size, self.curves.n_labels, self.offset_sd.size}
        if self.scale not in SCALES or len(sizes) != 1 or not self.depths.size:
            raise DataError("Shared curves: their parts do not fit together.")
        if not (np.all(self.offset_sd > 0.0) and self.kappa >= 0.0):
            raise DataError("Shared curves: offset_sd and kappa must be positive.")

    def curve_of(self, depth: NDArray[np.integer]) -> Ints:
        """Return the number of the curve for labels of the given depths."""
        return np.maximum(np.searchsorted(self.depths, depth, side="right") - 1, 0)

    def log_odds(self, curve: Ints, x: Float) -> Float:
        """Evaluate shared curves at scores or normal scores, one curve number per value."""
        lpr = self.curves.evaluate_each(curve.astype(np.int32), x, n_threads=1)
        return _log_odds(lpr)

    def describe(self, depth: int) -> str:
        """Name the curve of a label of some depth."""
        if self.scale == "rank":
            return "the curve of ranks shared by all labels"
        at = int(self.depths[self.curve_of(np.array([depth]))[0]])
        return f"the curve of scores shared by labels of depth {at}"


def shared_weight(support: Float, kappa: float) -> Float:
    """Weight of the shared curve; a label without positives or negatives has nothing else."""
    if np.isinf(kappa):
        return np.ones_like(support)
    return np.where(support > 0.0, kappa / np.maximum(support + kappa, 1e-300), 1.0)


def fit_shared(
    bins: LabelBins, depth: Ints, estimator: Any, scale: Scale
) -> tuple[SharedCurves, Float]:
    r"""Fit shared curves and the offsets of all labels; kappa is left at 0.

    The curve :math:`g` of all samples of a group is flatter than those of its labels if their
    offsets differ. So the log-odds are :math:`a + b\,g(x) + u_k`; the offsets :math:`u_k`, then
    :math:`a` and :math:`b`, then the variance of the offsets are updated in turn, by Newton steps
    and expectation.
    """
    label, x, positive, total = bins.listed(scale)
    depths = np.zeros(1, np.int64)
    if scale == "score":
        found, n_labels = np.unique(depth[np.unique(label)], return_counts=True)
        depths = found[n_labels >= LEAST_SHARING] if np.any(n_labels >= LEAST_SHARING) else depths
    curve_of = np.maximum(np.searchsorted(depths, depth, side="right") - 1, 0)
    group, n_curves = curve_of[label], depths.size
    curves = _pooled_curves(group, x, positive, total, estimator, n_curves)
    base = _log_odds(curves.evaluate_each(group.astype(np.int32), x, n_threads=1))
    intercept, slope, variance = np.zeros(n_curves), np.ones(n_curves), np.ones(n_curves)
    offset = np.zeros(depth.size)
    seen = np.bincount(label, minlength=depth.size) > 0
    n_seen = np.maximum(np.bincount(curve_of[seen], minlength=n_curves), 1)
    for _ in range(N_STEPS):
        for _ in range(2):
            log_odds = intercept[group] + slope[group] * base
            curvature = _update_offsets(
                offset, variance[curve_of], label, log_odds, positive, total
            )
        p = scipy.special.expit(intercept[group] + slope[group] * base + offset[label])
        residual, v = positive - total * p, total * p * (1.0 - p)
        # Newton step for intercept and slope, with a normal prior of the slope.
        g0 = _sum_by(group, residual, n_curves)
        g1 = _sum_by(group, residual * base, n_curves) + (1.0 - slope)
        h00 = _sum_by(group, v, n_curves) + 1e-3
        h01 = _sum_by(group, v * base, n_curves)
        h11 = _sum_by(group, v * base * base, n_curves) + 1.0
        determinant = h00 * h11 - h01 * h01
        intercept += np.clip((h11 * g0 - h01 * g1) / determinant, -1.0, 1.0)
        slope = np.maximum(slope + np.clip((h00 * g1 - h01 * g0) / determinant, -0.5, 0.5), 0.05)
        square = np.where(seen, offset**2 + 1.0 / curvature, 0.0)
        variance = np.clip(_sum_by(curve_of, square, n_curves) / n_seen, 1e-3, MAX_OFFSET_SD**2)
    number = np.repeat(np.arange(n_curves), np.diff(curves.knot_ptr))
    knots = intercept[number] + slope[number] * _log_odds(curves.knot_lpr)
    knot_lpr = scipy.special.expit(np.clip(knots, -MAX_LOG_ODDS, MAX_LOG_ODDS))
    final = LPRCurves(curves.knot_ptr, curves.knot_score, knot_lpr)
    return SharedCurves(scale, depths, final, np.sqrt(variance), 0.0), offset


def fit_offsets(shared: SharedCurves, bins: LabelBins, depth: Ints) -> Float:
    """Fit the offsets of labels to given shared curves."""
    label, x, positive, total = bins.listed(shared.scale)
    curve_of, offset = shared.curve_of(depth), np.zeros(depth.size)
    base, variance = shared.log_odds(curve_of[label], x), shared.offset_sd[curve_of] ** 2
    for _ in range(2 * N_STEPS):
        _update_offsets(offset, variance, label, base, positive, total)
    return offset


def _update_offsets(
    offset: Float, variance: Float, label: Ints, log_odds: Float, positive: Float, total: Float
) -> Float:
    """Improve the offsets of labels by a Newton step, in place; return the curvature."""
    p = scipy.special.expit(log_odds + offset[label])
    gradient = _sum_by(label, positive - total * p, offset.size) - offset / variance
    curvature = _sum_by(label, total * p * (1.0 - p), offset.size) + 1.0 / variance
    offset += np.clip(gradient / curvature, -2.0, 2.0)
    return curvature


def _sum_by(index: Ints, values: Float, size: int) -> Float:
    """Sum values by index; an empty sum is a float too."""
    return np.bincount(index, values, size).astype(np.float64)


def _pooled_curves(
    group: Ints, x: Float, positive: Float, total: Float, estimator: Any, n_groups: int
) -> LPRCurves:
    """Fit one curve to all bins of each group of labels."""
    if x.size == 0:
        return LPRCurves(np.array([0, 1]), np.zeros(1), np.full(1, 0.5))
    order = np.lexsort((x, group))
    group, x = group[order], x[order]
    first = np.flatnonzero(np.append(True, (np.diff(group) > 0) | (np.diff(x) > 0)))
    ptr = np.searchsorted(group[first], np.arange(n_groups + 1))
    sums = [np.add.reduceat(values[order], first) for values in (positive, total)]
    largest = np.add.reduceat(sums[1], ptr[:-1]).max()
    groups = ScoreGroups(ptr, x[first], sums[0], sums[1], float(largest))
    fit: GroupFit = estimator.fit_groups(groups)
    lpr = np.clip(fit.lpr, LPR_FLOOR, 1.0 - LPR_FLOOR)
    make_monotone(groups.ptr, lpr, groups.total)
    bins = LabelBins.of(groups, lpr)  # few enough knots for every label to have them
    make_monotone(bins.ptr, bins.lpr, bins.total)  # means of equal LPRs may differ by rounding
    return LPRCurves(bins.ptr, bins.score, bins.lpr)


def blend(
    own: LPRCurves, bins: LabelBins, depth: Ints, shared: SharedCurves, offset: Float
) -> tuple[LPRCurves, Float, Float]:
    """Return the blended curves, the LPR of every bin, and the weight of the shared curve."""
    weight, curve = shared_weight(bins.support(), shared.kappa), shared.curve_of(depth)

    def combine(label: Ints, own_lpr: Float, x: Float) -> Float:
        log_odds = shared.log_odds(curve[label], x) + offset[label]
        log_odds = np.clip(log_odds, -MAX_LOG_ODDS, MAX_LOG_ODDS)
        mixed = (1.0 - weight[label]) * _log_odds(own_lpr) + weight[label] * log_odds
        return np.asarray(np.clip(scipy.special.expit(mixed), LPR_FLOOR, 1.0 - LPR_FLOOR))

    is_listed = bins.score > -np.inf
    label, x, _, _ = bins.listed(shared.scale)
    lpr = bins.lpr.copy()
    lpr[is_listed] = combine(label, lpr[is_listed], x)
    # Knots of both curves; those of a curve of ranks are at the scores of the bins.
    more, score = label, bins.score[is_listed]
    if shared.scale == "score":
        sizes = np.diff(shared.curves.knot_ptr)[curve]
        more = np.repeat(np.arange(depth.size), sizes)
        first = np.repeat(shared.curves.knot_ptr[curve] - np.cumsum(sizes) + sizes, sizes)
        score = shared.curves.knot_score[first + np.arange(more.size)]
    number = np.repeat(np.arange(depth.size), np.diff(own.knot_ptr))
    number, score = np.concatenate([number, more]), np.concatenate([own.knot_score, score])
    order = np.lexsort((score, number))
    number, score = number[order], score[order]
    distinct = np.append(True, (np.diff(number) > 0) | (np.diff(score) > 0))
    number, score = number[distinct], score[distinct]
    own_lpr = own.evaluate_each(number.astype(np.int32), score, n_threads=1)
    value = combine(number, own_lpr, _coordinate(bins, shared.scale, number, score))
    ptr = np.searchsorted(number, np.arange(depth.size + 1))
    make_monotone(ptr, value, np.ones(value.size))
    is_exact = np.zeros(depth.size, np.bool_)
    knots = compress_curves(ptr, score, value, np.ones(value.size), is_exact)
    # Labels that lean on nothing keep their own curves exactly.
    labels = np.arange(depth.size)
    both = LPRCurves.join([own, LPRCurves(*knots, _is_checked=True)])
    return both.select(np.where(weight > 0.0, labels + depth.size, labels)), lpr, weight


def held_out_losses(
    own: LPRCurves,
    bins: LabelBins,
    depth: Ints,
    estimator: Any,
    scale: Scale,
    kappas: tuple[float, ...],
    held_out: LabelBins,
) -> Float:
    """Log-loss of blends with each kappa on held-out samples, which are given in bins."""
    label, score, positive, total = held_out.listed("score")
    shared, offset = fit_shared(bins, depth, estimator, scale)
    x = _coordinate(bins, scale, label, score)
    pooled = shared.log_odds(shared.curve_of(depth)[label], x) + offset[label]
    pooled = np.clip(pooled, -MAX_LOG_ODDS, MAX_LOG_ODDS)
    single = _log_odds(own.evaluate_each(label.astype(np.int32), score, n_threads=1))
    support, losses = bins.support(), []
    for kappa in kappas:
        log_odds = single + shared_weight(support, kappa)[label] * (pooled - single)
        losses.append(float((total * np.logaddexp(0.0, log_odds) - positive * log_odds).sum()))
    return np.array(losses)


def _coordinate(bins: LabelBins, scale: str, label: Ints, score: Float) -> Float:
    """Return scores, or normal scores of their ranks among the bins of their labels.

    A label without bins has ranks of 0, the middle.
    """
    if scale == "score":
        return score
    is_listed = bins.score > -np.inf
    ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_listed)])[bins.ptr]
    ranks = LPRCurves(ptr, bins.score[is_listed], bins.z[is_listed], _is_checked=True)
    z, known = np.zeros_like(score), np.diff(ptr)[label] > 0
    z[known] = ranks.evaluate_each(label[known].astype(np.int32), score[known], n_threads=1)
    return z


def _log_odds(lpr: Float) -> Float:
    inside = np.clip(lpr, LPR_FLOOR, 1.0 - LPR_FLOOR)
    return np.clip(np.log(inside / (1.0 - inside)), -MAX_LOG_ODDS, MAX_LOG_ODDS)
