"""Compare a batch of new scores with those of the fit, in about a millisecond.

`find_difference` sees scores of another scale, other classifiers and permuted columns, not small
changes; :mod:`hierlpr.lpr.drift` tests for those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from hierlpr._kernels.traversal import min_down
from hierlpr._utils.checks import Matrix, effective_number
from hierlpr.data.tables import draw_samples
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr.diagnostics import count_below
from hierlpr.lpr.fitting import LPRModel

Float = NDArray[np.float64]

CHANCE = 0.006  # of a false alarm per batch
# Out-of-fold scores differ a little from those of classifiers fitted on everything, and those of
# some labels much. So a smaller share of labels is never reported, nor a smaller change of samples.
LEAST_SHARE = 0.1
LEAST_DISTANCE = 0.2
LEAST_FITTED = 20  # with fewer training samples nothing is compared
MOST_SAMPLES = 200
MOST_VALUES = 2**16
N_QUANTILES = 15

CONTRADICTING = (
    "Labels have higher scores than their ancestors allow more often than in the fit; is the order "
    "of columns the same, and do larger scores mean more likely?"
)
OTHER_VALUES = (
    "The scores of whole samples are distributed differently than in the fit; are the scale and "
    "the kind of samples the same?"
)
OTHER_LABELS = "The listed labels differ from the fit; are names and kind of samples the same?"


@dataclass(frozen=True, slots=True, eq=False)
class SampleQuantiles:
    """Quantiles over the training samples of the statistics of `sample_statistics`.

    Attributes
    ----------
    edge, share : ndarray of shape (n_statistics, N_QUANTILES)
        Quantiles, and the share of training samples at or below each.
    n_samples : int
    log_frequency : ndarray of shape (n_labels,), optional
        Log of the share of other training samples that list each label; None for complete scores.
    """

    edge: Float
    share: Float
    n_samples: int
    log_frequency: Float | None = None

    def __post_init__(self) -> None:
        shape = (3 if self.log_frequency is None else 2, N_QUANTILES)
        if self.edge.shape != shape or self.share.shape != shape or self.n_samples < 1:
            raise DataError("Quantiles of samples: their arrays do not fit together.")

    @classmethod
    def of(
        cls, lpr: LPRModel, scores: Matrix, hierarchy: Hierarchy, weight: Float | None = None
    ) -> SampleQuantiles:
        """Summarize the training samples, or some of them if there are many."""
        n, limit = scores.shape[0], max(1000, 8 * MOST_VALUES // hierarchy.n_labels)
        if not isinstance(scores, np.ndarray):
            # The other samples show how common labels are, as for new samples.
            limit = min(limit, (n + 1) // 2)
        rows, n_samples = draw_samples(n, limit, rng=0), n
        if weight is not None:
            share = weight / weight.sum()
            rows = np.random.default_rng(0).choice(n, min(n, limit), p=share)
            n_samples = max(1, int(effective_number(weight)))
        log_frequency = None
        if not isinstance(scores, np.ndarray):
            others = np.setdiff1d(np.arange(n), rows)
            listed = np.bincount(scores[others].indices, minlength=hierarchy.n_labels)
            with np.errstate(divide="ignore"):
                log_frequency = np.log(listed / max(others.size, 1))
        values = sample_statistics(lpr, scores[rows], hierarchy, log_frequency)
        values = values[:, ~np.isnan(values).any(axis=0)]
        if values.size == 0:  # no sample is complete, or nothing is listed
            values = np.zeros((values.shape[0], 1))
        # Contradictions are rare, so tails matter: some quantiles lie there, and the highest value.
        steps = np.append(expit(np.linspace(-4.0, 4.0, N_QUANTILES - 1)), 1.0)
        edge = np.quantile(values, steps, axis=1, method="inverted_cdf").T
        counts = count_below(values.T, edge)
        share = counts[:, :-1] / counts[:, -1:]
        return cls(edge, share, min(n_samples, values.shape[1]), log_frequency)


def sample_statistics(
    lpr: LPRModel, scores: Matrix, hierarchy: Hierarchy, log_frequency: Float | None
) -> Float:
    """Return statistics of whole samples, of shape (n_statistics, n_samples).

    For complete scores, the maximum and the mean over labels of their LPR times one minus the
    lowest LPR of their ancestors and their own, and the mean LPR: permuted columns and reversed
    scores contradict the hierarchy; NaN for samples with a missing score. For listed scores, the
    mean score and the mean log frequency of the listed labels, NaN for samples that list none.
    Labels that no other training sample lists are left out, because labels that are new to the
    model are left out as well.
    """
    if isinstance(scores, np.ndarray):
        h = hierarchy
        own = np.asarray(lpr.curves.evaluate(scores, n_threads=1))[:, h.order]
        lowest = own.copy()
        min_down(lowest, h.parent_ptr, h.parent_idx)
        contradiction = own * (1.0 - lowest)
        return np.array([contradiction.max(axis=1), contradiction.mean(axis=1), own.mean(axis=1)])
    assert log_frequency is not None
    n_samples, frequency = scores.shape[0], log_frequency[scores.indices]
    is_counted = np.isfinite(frequency)
    row = np.repeat(np.arange(n_samples), np.diff(scores.indptr))[is_counted]
    size = np.bincount(row, minlength=n_samples).astype(np.float64)
    size[size == 0.0] = np.nan
    values = (scores.data[is_counted], frequency[is_counted])
    return np.array([np.bincount(row, weights=x, minlength=n_samples) / size for x in values])


def find_difference(
    lpr: LPRModel, scores: Matrix, hierarchy: Hierarchy, quantiles: SampleQuantiles | None
) -> str:
    r"""Say in one sentence how new scores differ from those of the fit; empty if they do not.

    Notes
    -----
    A label, or a statistic of samples, differs if the share of samples below one of 15 quantiles of
    the fit, or beyond its range, changed from p (of N samples) to q (of the n of the batch) with
    :math:`|\arcsin\sqrt p - \arcsin\sqrt q| > z \sqrt{1/n + 1/N} / 2`. The angles have a standard
    deviation of about :math:`1/(2 \sqrt n)` for any share. The normal quantile z allows a false
    alarm in 0.6 % of batches from the same population, by Bonferroni's inequality half for the
    labels and half for the statistics. More than a tenth of the labels must differ, or a statistic
    by more than 0.2. At most 200 samples of a batch are compared. Of a single sample, or without
    `quantiles`, only the range is compared.
    """
    n_complete = LEAST_FITTED if quantiles is None else quantiles.n_samples
    n_fitted = n_complete if lpr.seen is None else float(lpr.seen.total.sum(axis=1).max())
    if scores.shape[0] == 0 or n_fitted < LEAST_FITTED:
        return ""
    n_used = min(MOST_SAMPLES, max(50, MOST_VALUES // hierarchy.n_labels))
    if scores.shape[0] > n_used:
        scores = scores[np.linspace(0, scores.shape[0] - 1, n_used).astype(np.intp)]
    if isinstance(scores, np.ndarray):
        found = _compare_labels(lpr, scores, only_range=quantiles is None or len(scores) == 1)
    else:
        knots = lpr.curves.knot_score
        size = np.diff(scores.indptr)
        is_out = (scores.data < knots.min()) | (scores.data > knots.max())
        row = np.repeat(np.arange(size.size), size)
        n_out = int(np.count_nonzero(2 * np.bincount(row, is_out, size.size) > size))
        n_listing = int(np.count_nonzero(size))
        found = _outside(n_out, n_listing, "samples") if 2 * n_out > n_listing else ""
    if found or quantiles is None or scores.shape[0] == 1 or n_complete < LEAST_FITTED:
        return found
    values = sample_statistics(lpr, scores, hierarchy, quantiles.log_frequency).T
    rise = _angle(quantiles.share * n_complete, n_complete) - _angles(values, quantiles.edge)
    limit = np.maximum(_limit(_n_known(values), n_complete), LEAST_DISTANCE)
    is_moved = np.abs(rise).max(axis=1) > limit
    if quantiles.log_frequency is None:
        is_contradicting = (rise.max(axis=1) > limit)[:2].any()
        return CONTRADICTING if is_contradicting else OTHER_VALUES if is_moved.any() else ""
    return OTHER_VALUES if is_moved[0] else OTHER_LABELS if is_moved[1] else ""


def _compare_labels(lpr: LPRModel, scores: Float, *, only_range: bool) -> str:
    """Compare complete scores label by label."""
    n, n_labels = scores.shape
    knots, ptr = lpr.curves.knot_score, lpr.curves.knot_ptr
    low, high = knots[ptr[:-1]], knots[ptr[1:] - 1]
    known = _n_known(scores)
    below, above = (np.count_nonzero(x, axis=0) for x in (scores < low, scores > high))
    n_out = int(np.count_nonzero(2 * (below + above) > known))
    if 2 * n_out > n_labels:
        return _outside(n_out, n_labels, "labels")
    if only_range:
        return ""
    seen = lpr.seen
    n_fitted = np.full(n_labels, n) if seen is None else seen.total.sum(axis=1)
    limit = _limit(known, n_fitted)
    is_out = _angle(np.maximum(below, above), known) - _angle(0.0, n_fitted) > limit
    is_different = is_out
    if seen is not None:
        fitted = _angle(np.cumsum(seen.total, axis=1)[:, :-1], n_fitted[:, None])
        is_different = is_out | (np.abs(_angles(scores, seen.edge) - fitted).max(axis=1) > limit)
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


def _n_known(values: Float) -> Float:
    """Return the number of samples per column without missing values, at least 1."""
    return np.asarray(np.maximum(np.count_nonzero(~np.isnan(values), axis=0), 1.0))


def _angles(values: Float, edge: Float) -> Float:
    """Return the angle of the share of each column of `values` at or below each of its edges."""
    counts = count_below(values, edge)
    return _angle(counts[:, :-1], counts[:, -1:])


def _angle(count: Any, n: Any) -> Float:
    """Return the arcsine of the root of a share, whose variance hardly depends on the share."""
    return np.asarray(np.arcsin(np.sqrt((count + 0.375) / (n + 0.75))))  # Anscombe (1948)


def _limit(n: Float, n_fitted: Float | float) -> Float:
    """Return the difference of angles that chance does not explain, per label or statistic."""
    z = -ndtri(0.5 * CHANCE / (2.0 * N_QUANTILES * n.size))
    return np.asarray(z * np.sqrt(1.0 / n + 1.0 / n_fitted) / 2.0)
