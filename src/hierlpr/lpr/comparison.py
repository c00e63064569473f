"""Compare a batch of new scores with those of the fit, in about a millisecond.

`find_difference` sees scores of another scale, other classifiers and permuted columns, not small
changes; :mod:`hierlpr.lpr.drift` tests for those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hierlpr._utils.checks import Matrix, effective_number
from hierlpr.data.folds import draw_samples
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr.fitting import LPRModel
from hierlpr.lpr.training import Float

CHANCE = 0.008  # of a false alarm per batch
# Out-of-fold scores differ a little from those of classifiers fitted on everything, and those of
# some labels much. So a smaller share of labels is never reported, nor a smaller change of listed
# scores, in standard deviations.
LEAST_SHARE = 0.1
LEAST_DISTANCE = 0.4
LEAST_FITTED = 20  # with fewer training samples nothing is compared
MOST_SAMPLES = 200
MOST_VALUES = 2**16
N_QUANTILES = 15
MOST_EVIDENCE = 150.0  # factor by which one score may change the odds of its label
MOST_CERTAIN = 0.999  # probability of a label given its parent
ROUNDING = 1e-9

CONTRADICTING = (
    "The scores contradict the hierarchy or the frequencies of labels more often than in the fit; "
    "is the order of columns the same, and do larger scores mean more likely?"
)
OTHER_VALUES = (
    "The scores of whole samples are distributed differently than in the fit; are the scale and "
    "the kind of samples the same?"
)
OTHER_LABELS = "The listed labels differ from the fit; are names and kind of samples the same?"


@dataclass(frozen=True, slots=True, eq=False)
class SampleSummary:
    """Moments and range over the training samples of the statistics of `sample_statistics`.

    Attributes
    ----------
    mean, spread, skewness, low, high : ndarray of shape (n_statistics,)
        Mean, standard deviation, mean cube of standardized values, smallest and largest value.
    n_samples : int
    log_frequency : ndarray of shape (n_labels,), optional
        Log of the share of other training samples that list each label; None for complete scores.
    """

    mean: Float
    spread: Float
    skewness: Float
    low: Float
    high: Float
    n_samples: int
    log_frequency: Float | None = None

    def __post_init__(self) -> None:
        shape = (1 if self.log_frequency is None else 2,)
        arrays = (self.mean, self.spread, self.skewness, self.low, self.high)
        if any(x.shape != shape for x in arrays) or self.n_samples < 1:
            raise DataError("Summary of samples: its arrays do not fit together.")
        if not np.isfinite(arrays).all() or self.spread.min() <= 0.0:
            raise DataError("Summary of samples: its numbers must be finite, and spreads positive.")

    @classmethod
    def of(
        cls, lpr: LPRModel, scores: Matrix, hierarchy: Hierarchy, weight: Float | None = None
    ) -> SampleSummary:
        """Summarize the training samples, or some of them if there are many."""
        n, limit = scores.shape[0], max(1000, 8 * MOST_VALUES // hierarchy.n_labels)
        if not isinstance(scores, np.ndarray):
            # The other samples show how common labels are, as for new samples.
            limit = min(limit, (n + 1) // 2)
        rows, n_samples, log_frequency = draw_samples(n, limit, rng=0), n, None
        if weight is not None:
            share = weight / weight.sum()
            rows = np.random.default_rng(0).choice(n, min(n, limit), p=share)
            n_samples = max(1, int(effective_number(weight)))
        if not isinstance(scores, np.ndarray):
            others = np.setdiff1d(np.arange(n), rows)
            listed = np.bincount(scores[others].indices, minlength=hierarchy.n_labels)
            with np.errstate(divide="ignore"):
                log_frequency = np.log(listed / max(others.size, 1))
        values = sample_statistics(lpr, scores[rows], hierarchy, log_frequency)
        values = values[:, ~np.isnan(values).any(axis=0)]
        if values.size == 0:  # no sample is complete, or nothing is listed
            values = np.zeros((values.shape[0], 1))
        n_samples = min(n_samples, values.shape[1])
        if log_frequency is None:  # so that one contradicting sample in a batch is no alarm
            values = np.append(values, -np.abs(values).max(axis=1, keepdims=True), axis=1)
        mean, spread = values.mean(axis=1), values.std(axis=1)
        spread = np.maximum(spread, ROUNDING * (1.0 + np.abs(mean)))
        skewness = (((values.T - mean) / spread) ** 3).mean(axis=0)
        low, high = values.min(axis=1), values.max(axis=1)
        return cls(mean, spread, skewness, low, high, n_samples, log_frequency)


def sample_statistics(
    lpr: LPRModel, scores: Matrix, hierarchy: Hierarchy, log_frequency: Float | None
) -> Float:
    """Return statistics of whole samples, of shape (n_statistics, n_samples).

    For complete scores, the log likelihood ratio of the scores against reversed ones, given the
    LPRs, the frequencies of labels and the hierarchy (of the first parents): lower for reversed
    scores and permuted columns, NaN for samples with a missing score. For listed scores, the mean
    score and the mean log frequency of the listed labels, NaN for samples that list none. Labels
    that no other training sample lists are left out, because labels that are new to the model are
    left out as well.
    """
    if isinstance(scores, np.ndarray):
        h, base_rate = hierarchy, lpr.report.base_rate[hierarchy.order]
        own = np.asarray(lpr.curves.evaluate(scores, n_jobs=1))[:, h.order]
        ratio = own / (1.0 - own) * ((1.0 - base_rate) / base_rate)
        half = 0.5 * np.log(np.clip(ratio, 1.0 / MOST_EVIDENCE, MOST_EVIDENCE)).T
        conditional, first_parent = base_rate.copy(), np.full(h.n_labels, -1)
        has_parent = np.diff(h.parent_ptr) > 0
        first_parent[has_parent] = h.parent_idx[h.parent_ptr[:-1][has_parent]]
        conditional[has_parent] /= base_rate[first_parent[has_parent]]
        tree = np.minimum(conditional, MOST_CERTAIN), first_parent
        return (log_evidence(half, *tree) - log_evidence(-half, *tree))[None]
    assert log_frequency is not None
    n_samples, frequency = scores.shape[0], log_frequency[scores.indices]
    is_counted = np.isfinite(frequency)
    row = np.repeat(np.arange(n_samples), np.diff(scores.indptr))[is_counted]
    size = np.bincount(row, minlength=n_samples).astype(np.float64)
    size[size == 0.0] = np.nan
    values = (scores.data[is_counted], frequency[is_counted])
    return np.array([np.bincount(row, weights=x, minlength=n_samples) / size for x in values])


def log_evidence(log_ratio: Float, conditional: Float, parent: NDArray[np.integer]) -> Float:
    """Log of the expected product of the labels' ratios, inverted for labels that do not hold.

    `log_ratio` is (n_labels, n_samples) in topological order; `conditional` is the probability of a
    label given its `parent`, which is -1 for roots.
    """
    on, off = log_ratio.copy(), -log_ratio
    depth = np.zeros(parent.size, np.int64)
    for k in np.flatnonzero(parent >= 0):  # parents first
        depth[k] = depth[parent[k]] + 1
    log_on, log_off = np.log(conditional)[:, None], np.log1p(-conditional)[:, None]
    for d in range(int(depth.max(initial=0)), -1, -1):  # all below is added already
        labels = np.flatnonzero(depth == d)
        with np.errstate(invalid="ignore"):  # samples with a missing score
            either = np.logaddexp(log_on[labels] + on[labels], log_off[labels] + off[labels])
        if d == 0:
            return np.asarray(either.sum(axis=0))
        np.add.at(on, parent[labels], either)
        np.add.at(off, parent[labels], off[labels])
    return np.zeros(log_ratio.shape[1])


def find_difference(
    lpr: LPRModel, scores: Matrix, hierarchy: Hierarchy, summary: SampleSummary | None
) -> str:
    r"""Say in one sentence how new scores differ from those of the fit; empty if they do not.

    Notes
    -----
    A label differs if the share of samples below one of 15 quantiles of the fit, or beyond its
    range, changed from p (of N samples) to q (of the n of the batch) with
    :math:`|\arcsin\sqrt p - \arcsin\sqrt q| > z \sqrt{1/n + 1/N} / 2`. The angles have a standard
    deviation of about :math:`1/(2 \sqrt n)` for any share. A statistic of samples differs if its
    mean, where values beyond the range of the fit count as its ends, moved by more than
    :math:`(z + \gamma (z^2 - 1) / (6 \sqrt n)) \sqrt{1/n + 1/N}` standard deviations, with the
    skewness :math:`\gamma` to this side (the Cornish-Fisher expansion). The normal quantile z
    allows a false alarm in 0.8 % of batches from the same population, by Bonferroni's inequality
    half for the labels, of which more than a tenth must differ, and half for the statistics. At
    most 200 samples of a batch are compared; only the range, of a single sample or without
    `summary`.
    """
    n_complete = LEAST_FITTED if summary is None else summary.n_samples
    n_fitted = (
        n_complete if lpr.score_bins is None else float(lpr.score_bins.total.sum(axis=1).max())
    )
    if scores.shape[0] == 0 or n_fitted < LEAST_FITTED:
        return ""
    n_used = min(MOST_SAMPLES, max(50, MOST_VALUES // hierarchy.n_labels))
    if scores.shape[0] > n_used:
        scores = scores[np.linspace(0, scores.shape[0] - 1, n_used).astype(np.intp)]
    if isinstance(scores, np.ndarray):
        message = _compare_labels(lpr, scores, only_range=summary is None or len(scores) == 1)
    else:
        knots = lpr.curves.knot_score
        size = np.diff(scores.indptr)
        is_out = (scores.data < knots.min()) | (scores.data > knots.max())
        row = np.repeat(np.arange(size.size), size)
        n_out = int(np.count_nonzero(2 * np.bincount(row, is_out, size.size) > size))
        n_listing = int(np.count_nonzero(size))
        message = _outside(n_out, n_listing, "samples") if 2 * n_out > n_listing else ""
    if message or summary is None or scores.shape[0] == 1 or n_complete < LEAST_FITTED:
        return message
    values = sample_statistics(lpr, scores, hierarchy, summary.log_frequency)
    values = values[:, ~np.isnan(values).any(axis=0)]
    n = values.shape[1]
    if n == 0:
        return ""
    is_complete = summary.log_frequency is None
    z = -ndtri(0.5 * CHANCE / (1 if is_complete else 4))
    inside = np.clip(values.T, summary.low, summary.high)
    fall = (summary.mean - inside.mean(axis=0)) / summary.spread
    tail = np.maximum(-np.sign(fall) * summary.skewness, 0.0)
    limit = (z + tail * (z * z - 1.0) / (6.0 * np.sqrt(n))) * np.sqrt(1.0 / n + 1.0 / n_complete)
    if is_complete:
        return CONTRADICTING if fall[0] > limit[0] else ""
    is_moved = np.abs(fall) > np.maximum(limit, LEAST_DISTANCE)
    return OTHER_VALUES if is_moved[0] else OTHER_LABELS if is_moved[1] else ""


def _compare_labels(lpr: LPRModel, scores: Float, *, only_range: bool) -> str:
    """Compare complete scores label by label."""
    n_labels = scores.shape[1]
    knots, ptr = lpr.curves.knot_score, lpr.curves.knot_ptr
    low, high = knots[ptr[:-1]], knots[ptr[1:] - 1]
    n_scores = np.maximum(np.count_nonzero(~np.isnan(scores), axis=0), 1.0)
    below, above = (np.count_nonzero(x, axis=0) for x in (scores < low, scores > high))
    n_out = int(np.count_nonzero(2 * (below + above) > n_scores))
    if 2 * n_out > n_labels:
        return _outside(n_out, n_labels, "labels")
    bins = lpr.score_bins
    if only_range or bins is None:
        return ""
    n_fitted = bins.total.sum(axis=1)
    z = -ndtri(0.5 * CHANCE / (2.0 * N_QUANTILES * n_labels))
    limit = z * np.sqrt(1.0 / n_scores + 1.0 / n_fitted) / 2.0
    is_out = _angle(np.maximum(below, above), n_scores) - _angle(0.0, n_fitted) > limit
    fitted = _angle(np.cumsum(bins.total, axis=1)[:, :-1], n_fitted[:, None])
    counts = np.cumsum(bins.count(scores), axis=1)
    change = np.abs(_angle(counts[:, :-1], counts[:, -1:]) - fitted).max(axis=1)
    is_different = is_out | (change > limit)
    n_out, n_different = int(is_out.sum()), int(is_different.sum())
    if n_different <= LEAST_SHARE * n_labels:
        return ""
    if 2 * n_out > n_different:
        return _outside(n_out, n_labels, "labels")
    return (
        f"The scores of {n_different:,} of {n_labels:,} labels are distributed differently than in "
        "the fit; are the classifiers, the kind of samples and the order of columns the same?"
    )


def _outside(n_out: int, n: int, what: str) -> str:
    return (
        f"The scores of {n_out:,} of {n:,} {what} lie outside the range seen in the fit; are they "
        "on the same scale?"
    )


def _angle(count: Any, n: Any) -> Float:
    """Return the arcsine of the root of a share, whose variance hardly depends on the share."""
    return np.asarray(np.arcsin(np.sqrt((count + 0.375) / (n + 0.75))))  # Anscombe (1948)
