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
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._kernels.pspline import fit_label_lines
from hierlpr._kernels.smoothing import bin_groups, compress_curves, make_monotone
from hierlpr.exceptions import DataError
from hierlpr.lpr.curves import LPR_FLOOR, LPRCurves, select_runs
from hierlpr.lpr.estimators import Estimator, GroupFit
from hierlpr.lpr.training import Float, Ints, ScoreGroups

Scale = Literal["score", "rank"]

SCALES: tuple[Scale, ...] = ("score", "rank")
KAPPAS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, np.inf)
DEFAULT: tuple[Scale, float] = ("rank", 10.0)  # where nothing can be held out
# Bins of equal width in the normal score of the rank.
SHARE_EDGES: Float = scipy.special.ndtr(np.linspace(-4.0, 4.0, 65))
MAX_LOG_ODDS = 14.0  # of one curve: beyond, a few samples cannot tell
N_STEPS = 8
MAX_OFFSET_SD = 3.0
FIRST_SLOPE_VARIANCE = 0.1
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

    def select(self, labels: Ints) -> LabelBins:
        """Return the bins of some labels, by number."""
        ptr, take = select_runs(self.ptr, labels)
        return LabelBins(ptr, *(column[take] for column in self[1:]))

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.ptr.size - 1

    @property
    def label(self) -> Ints:
        """Label of every bin."""
        return np.repeat(np.arange(self.n_labels), np.diff(self.ptr))

    def listed(self) -> LabelBins:
        """Return the bins with a score."""
        at = self.score > -np.inf
        ptr = np.append(0, np.cumsum(at))[self.ptr]
        return self if at.all() else LabelBins(ptr, *(column[at] for column in self[1:]))

    def along(self, scale: Scale) -> Float:
        """Return what curves of this scale are functions of."""
        return self.score if scale == "score" else self.z

    def support(self) -> Float:
        """Smaller of the weights of positives and negatives per label, where it is listed."""
        bins, n = self.listed(), self.n_labels
        n_positive, n_all = (np.bincount(bins.label, x, n) for x in (bins.positive, bins.total))
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
        if self.scale not in SCALES or len(shapes) != 1 or not n_curves or len(self.label_sd) != 2:
            raise DataError("Shared curves: their parts do not fit together.")
        known = np.isfinite(self.centre).all() and np.isfinite(self.label_sd).all()
        if not (known and np.all(self.label_sd > 0.0) and self.kappa >= 0.0):
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
        found, n_labels = np.unique(depth[np.unique(label)], return_counts=True)
        depths = found[n_labels >= LEAST_SHARING] if np.any(n_labels >= LEAST_SHARING) else depths
    curve_of = np.maximum(np.searchsorted(depths, depth, side="right") - 1, 0)
    group, n_curves = curve_of[label], depths.size
    curves = _pooled_curves(group, x, positive, total, estimator, n_curves)
    base, one = _evaluate(curves, group, x), np.ones(n_curves)
    information = total / np.cosh(base / 2.0) ** 2
    sums = [np.bincount(group, values, n_curves) for values in (information * base, information)]
    centre = sums[0] / np.maximum(sums[1], 1e-300)
    base = base - centre[group]
    fitted = np.array([centre, one, one, FIRST_SLOPE_VARIANCE * one])
    line, cells = np.zeros((2, depth.size)), (bins.ptr, curve_of, base, positive, total)
    fit_label_lines(*cells, N_STEPS, MAX_OFFSET_SD**2, fitted, line)
    intercept, slope, label_sd = fitted[0], fitted[1], np.sqrt(fitted[2:])
    line[1] /= slope[curve_of]
    label_sd[1] /= slope
    number = np.repeat(np.arange(n_curves), np.diff(curves.knot_ptr))
    knots = (intercept - slope * centre)[number] + slope[number] * log_odds_of(curves.knot_lpr)
    knot_lpr = scipy.special.expit(np.clip(knots, -MAX_LOG_ODDS, MAX_LOG_ODDS))
    final = LPRCurves(curves.knot_ptr, curves.knot_score, knot_lpr)
    return SharedCurves(scale, depths, final, intercept, label_sd, 0.0), line


def fit_lines(shared: SharedCurves, bins: LabelBins, depth: Ints) -> Float:
    """Fit the offsets and slopes of labels to given shared curves, of shape (2, n_labels)."""
    bins = bins.listed()
    curve_of, line, centre = shared.curve_of(depth), np.zeros((2, depth.size)), shared.centre
    curve = curve_of[bins.label]
    base = _evaluate(shared.curves, curve, bins.along(shared.scale)) - centre[curve]
    fixed = np.array([centre, np.ones(centre.size), *shared.label_sd**2])
    cells = (bins.ptr, curve_of, base, bins.positive, bins.total)
    fit_label_lines(*cells, 2 * N_STEPS, 0.0, fixed, line)
    return line


def _evaluate(curves: LPRCurves, curve: Ints, x: Float) -> Float:
    """Return the log-odds of values of x, one curve number per value."""
    return log_odds_of(curves.evaluate_each(curve.astype(np.int32), x, n_jobs=1))


def _pooled_curves(
    group: Ints, x: Float, positive: Float, total: Float, estimator: Any, n_groups: int
) -> LPRCurves:
    """Fit one curve to all bins of each group of labels."""
    if x.size == 0:
        return LPRCurves(np.array([0, 1]), np.zeros(1), np.full(1, 0.5))
    order = _order_by(group, x)
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
    leaning = np.flatnonzero(weight > 0.0)  # the others keep their own curves exactly

    def combine(label: Ints, own_lpr: Float, x: Float) -> Float:
        log_odds = shared.log_odds_of_labels(curve[label], x, line[:, label])
        mixed = (1.0 - weight[label]) * log_odds_of(own_lpr) + weight[label] * log_odds
        return np.asarray(np.clip(scipy.special.expit(mixed), LPR_FLOOR, 1.0 - LPR_FLOOR))

    lpr, listed = bins.lpr.copy(), bins.listed()
    x = listed.along(shared.scale)
    lpr[bins.score > -np.inf] = combine(listed.label, listed.lpr, x)
    # Knots of both curves; those of a curve of ranks are at the scores of the bins.
    ends = [own, LPRCurves(listed.ptr, listed.score, x, _is_checked=True)]
    if shared.scale == "score":
        ends[1] = shared.curves.select(curve)
    ends = [part.select(leaning) for part in ends]
    number = np.concatenate([np.repeat(leaning, np.diff(part.knot_ptr)) for part in ends])
    score = np.concatenate([part.knot_score for part in ends])
    order = _order_by(number, score)
    number, score = number[order], score[order]
    distinct = np.append(True, (np.diff(number) > 0) | (np.diff(score) > 0))[: score.size]
    number, score = number[distinct], score[distinct]
    own_lpr = own.evaluate_each(number.astype(np.int32), score, n_jobs=1)
    value = combine(number, own_lpr, coordinate(bins, shared.scale, number, score))
    ptr = np.searchsorted(number, np.append(leaning, depth.size))
    make_monotone(ptr, value, np.ones(value.size))
    is_exact = np.zeros(leaning.size, np.bool_)
    knots = compress_curves(ptr, score, value, np.ones(value.size), is_exact)
    place = np.arange(depth.size)
    place[leaning] = depth.size + np.arange(leaning.size)
    return LPRCurves.join([own, LPRCurves(*knots, _is_checked=True)]).select(place), lpr, weight


def coordinate(bins: LabelBins, scale: Scale, label: Ints, score: Float) -> Float:
    """Return scores, or normal scores of their ranks among the bins of their labels.

    A label without bins has ranks of 0, the middle.
    """
    if scale == "score":
        return score
    bins = bins.listed()
    ranks = LPRCurves(bins.ptr, bins.score, bins.z, _is_checked=True)
    z, known = np.zeros_like(score), np.diff(bins.ptr)[label] > 0
    z[known] = ranks.evaluate_each(label[known].astype(np.int32), score[known], n_jobs=1)
    return z


def _order_by(number: Ints, value: Float) -> Ints:
    """Return the order by small numbers, then by value; much faster than lexsort."""
    order = np.argsort(value)
    kind = np.uint16 if number.max(initial=0) < 2**16 else np.int64
    return np.asarray(order[np.argsort(number[order].astype(kind), kind="stable")])


def log_odds_of(lpr: Float) -> Float:
    """Return bounded log-odds of probabilities."""
    inside = np.clip(lpr, LPR_FLOOR, 1.0 - LPR_FLOOR)
    return np.clip(np.log(inside / (1.0 - inside)), -MAX_LOG_ODDS, MAX_LOG_ODDS)
