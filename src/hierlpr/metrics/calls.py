"""Measures of calls and probabilities: precision, recall, F, calibration."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import check_choice, is_sparse
from hierlpr.exceptions import DataError
from hierlpr.metrics.hits import (
    au_prc_score,
    check_positives,
    f_of,
    hit_sums,
    precision_recall_curve,
    ratio,
)
from hierlpr.metrics.instances import PooledInstances, check_status

Float = NDArray[np.float64]
Average = Literal["pooled", "label", "sample"]


def precision_score(
    truth: Any, calls: Any, *, average: Average = "pooled", sample_weight: Any = None
) -> float:
    r"""Return the share of calls that are correct; 0 without calls.

    Parameters
    ----------
    truth, calls : array-like of 0 and 1, shape (n_samples, n_labels)
    average : {"pooled", "label", "sample"}
        Pooled over all instances, or the mean over labels or samples that have positives or
        calls.
    sample_weight : array-like of shape (len(truth),), optional
        Weight of each row.

    Examples
    --------
    >>> precision_score([[1, 0], [1, 1]], [[1, 1], [1, 0]])
    0.6666666666666666
    """
    hits, called, positive, weight = _counts(truth, calls, average, sample_weight)
    return _mean_ratio(hits, called, weight, where=called + positive > 0)


def recall_score(
    truth: Any, calls: Any, *, average: Average = "pooled", sample_weight: Any = None
) -> float:
    r"""Return the share of positives that are called; 0 without positives.

    Parameters as in `precision_score`. The mean over labels or over samples is over those with
    positives: the others have no recall.

    Examples
    --------
    >>> recall_score([[1, 0], [1, 1]], [[1, 1], [1, 0]])
    0.6666666666666666
    """
    hits, _, positive, weight = _counts(truth, calls, average, sample_weight)
    return _mean_ratio(hits, positive, weight, where=positive > 0)


def f_score(
    truth: Any,
    calls: Any,
    *,
    beta: float = 1.0,
    average: Average = "pooled",
    sample_weight: Any = None,
) -> float:
    r"""Return :math:`F_\beta = (1 + \beta^2) P R / (\beta^2 P + R)` of precision P and recall R.

    A beta above 1 favours recall. 0 if nothing is called and nothing is positive; labels and
    samples where that is so are left out of the mean over labels or over samples. See van
    Rijsbergen (1979), key ``vanrijsbergen1979``.

    Examples
    --------
    >>> round(f_score([[1, 0], [1, 1]], [[1, 1], [1, 0]]), 4)  # 2 x 2 / (3 + 3)
    0.6667
    """
    hits, called, positive, weight = _counts(truth, calls, average, sample_weight)
    square = check_beta(beta) ** 2
    return _mean_ratio(
        (1.0 + square) * hits, square * positive + called, weight, where=called + positive > 0
    )


def f_curve(
    truth: Any, scores: Any = None, *, beta: float = 1.0, sample_weight: Any = None
) -> tuple[Float, Float]:
    """Return pooled F after each group of equal scores, and the number of calls there.

    Parameters as in `hit_curve`.

    Examples
    --------
    >>> f_curve([1, 0, 1])
    (array([0.66666667, 0.5       , 0.8       ]), array([1., 2., 3.]))
    """
    precision, recall, calls = precision_recall_curve(truth, scores, sample_weight=sample_weight)
    return f_of(precision, recall, check_beta(beta) ** 2), calls


def f_max_score(
    truth: Any, scores: Any = None, *, beta: float = 1.0, sample_weight: Any = None
) -> float:
    """Return the largest pooled F over all cutoffs; ties are never split.

    Examples
    --------
    >>> f_max_score([1, 0, 1])  # all three called: 2 x 2 / (2 + 3)
    0.8
    """
    return hit_sums(truth, scores, sample_weight, beta=check_beta(beta)).f_max()


def label_au_prc_scores(truth: Any, scores: Any, *, sample_weight: Any = None) -> Float:
    """Return the area under each label's precision-recall curve; NaN without positives.

    Examples
    --------
    >>> label_au_prc_scores([[1, 0], [0, 0]], [[0.9, 0.5], [0.1, 0.2]])
    array([ 1., nan])
    """
    return _areas_and_support(truth, scores, sample_weight)[0]


def _areas_and_support(truth: Any, scores: Any, sample_weight: Any) -> tuple[Float, Float]:
    """Return the area and the weight of the positives of each label."""
    instances = PooledInstances.of(truth, scores, "scores", sample_weight)
    if instances.truth.ndim != 2:
        raise DataError(f"truth and scores must be matrices, got shape {instances.truth.shape}.")
    weight = np.ones(instances.truth.shape) if instances.weight is None else instances.weight
    support = np.sum(weight * instances.truth, axis=0)
    areas = np.full(support.size, np.nan)
    for k in np.flatnonzero(support):
        is_used = instances.is_known[:, k] & (weight[:, k] > 0.0)
        of_label = instances.some((is_used, k))
        areas[k] = au_prc_score(*of_label[::2], sample_weight=of_label.weight)
    return areas, support


def mean_au_prc_score(
    truth: Any,
    scores: Any,
    *,
    weight: Literal["uniform", "prevalence"] = "uniform",
    sample_weight: Any = None,
) -> float:
    r"""Return the mean area under the labels' precision-recall curves.

    Parameters
    ----------
    truth, scores : array-like of shape (n_samples, n_labels)
    weight : {"uniform", "prevalence"}
        Mean over labels that have positives, unweighted or weighted by their positives: the
        :math:`\overline{\mathrm{AUPRC}}` and :math:`\overline{\mathrm{AUPRC}}_w` of Vens et al.
        (2008), key ``vens2008``. For the area of the pooled curve see `au_prc_score`.
    sample_weight : array-like of shape (n_samples,), optional
        Weight of each sample.

    Examples
    --------
    Areas 1 and 1/2 of labels with one and one positive.

    >>> mean_au_prc_score([[1, 0], [0, 1]], [[0.9, 0.5], [0.1, 0.2]])
    0.75
    """
    check_choice(weight, ("uniform", "prevalence"), name="weight")
    areas, support = _areas_and_support(truth, scores, sample_weight)
    check_positives(float(support.sum()))
    is_used = support > 0
    weights = None if weight == "uniform" else support[is_used]
    return float(np.average(areas[is_used], weights=weights))


def calibration_error(
    truth: Any, probabilities: Any, *, n_bins: int = 10, sample_weight: Any = None
) -> float:
    r"""Return the mean gap between predicted and observed frequency over bins (ECE).

    :math:`\mathrm{ECE} = \sum_b \frac{n_b}{n} |\bar p_b - \bar Q_b|`. See Naeini, Cooper
    and Hauskrecht (2015), key ``naeini2015``.

    Parameters
    ----------
    truth, probabilities : array-like of one shape
        All instances are pooled.
    n_bins : int
        Bins of equal width on [0, 1].
    sample_weight : array-like of shape (len(truth),), optional
        Weight of each row.

    Examples
    --------
    >>> round(calibration_error([0, 1], [0.2, 0.7]), 4)  # (0.2 + 0.3) / 2
    0.25
    """
    status, p, weight = _paired(truth, probabilities, sample_weight)
    sums = CalibrationSums(n_bins)
    sums.add(status, p, weight)
    return sums.error()


class CalibrationSums:
    """Sums over instances for `calibration_error`; instances are added in batches."""

    def __init__(self, n_bins: int = 10) -> None:
        self._gaps = np.zeros(n_bins)  # predicted minus observed, by bin of equal width
        self.weight = 0.0

    def add(self, status: NDArray[Any], p: Float, weight: Float) -> None:
        """Add instances with their probabilities and weights."""
        last = self._gaps.size - 1
        place = np.minimum((p * (last + 1)).astype(np.intp), last)
        self._gaps += np.bincount(place, (p - status) * weight, last + 1)
        self.weight += float(weight.sum())

    def error(self) -> float:
        """Return the mean gap over the bins."""
        return float(np.abs(self._gaps).sum() / self.weight)


def brier_error(truth: Any, probabilities: Any, *, sample_weight: Any = None) -> float:
    r"""Return the mean squared error of probabilities, :math:`n^{-1} \sum (p - Q)^2`.

    `sample_weight` is the weight of each row. See Brier (1950), key ``brier1950``.

    Examples
    --------
    >>> brier_error([0, 1], [0.5, 1.0])
    0.125
    """
    status, p, weight = _paired(truth, probabilities, sample_weight)
    return float(np.average((p - status) ** 2, weights=weight))


def _paired(truth: Any, probabilities: Any, sample_weight: Any) -> tuple[Float, Float, Float]:
    """Return status, probability and weight of the known instances of positive weight."""
    instances = PooledInstances.of(truth, probabilities, "probabilities", sample_weight)
    weight = np.ones(instances.truth.shape) if instances.weight is None else instances.weight
    is_used = instances.is_known & (weight > 0.0)
    p = instances.values[is_used]
    if p.size == 0:
        raise DataError("There are no instances.")
    if not (p.min() >= 0.0 and p.max() <= 1.0):
        raise DataError("probabilities must lie in [0, 1].")
    return instances.truth[is_used].astype(np.float64), p, weight[is_used]


def _counts(
    truth: Any, calls: Any, average: str, sample_weight: Any
) -> tuple[Float, Float, Float, Float]:
    """Return hits, calls and positives of what is averaged over, and the weights for the mean."""
    check_choice(average, get_args(Average), name="average")
    values = calls.toarray() if is_sparse(calls) else calls
    instances = PooledInstances.of(truth, values, "calls", sample_weight)
    status, weight = instances.truth, instances.weight
    called = check_status(instances.values, "calls") & instances.is_known
    if average != "pooled" and status.ndim != 2:
        raise DataError(f"average={average!r} needs matrices, got shape {status.shape}.")
    counted = [x * (1.0 if weight is None else weight) for x in (status & called, called, status)]
    if average == "pooled":
        counted = [x.reshape(1, -1) for x in counted]
    hits, n_called, positive = (x.sum(axis=int(average != "label")) for x in counted)
    if average != "sample" or weight is None or not weight.size:
        return hits, n_called, positive, np.ones(hits.size)
    return hits, n_called, positive, weight[:, 0]  # ratios of samples count by their weights


def _mean_ratio(top: Float, bottom: Float, weight: Float, *, where: NDArray[np.bool_]) -> float:
    """Return the mean of ratios where `where` holds, 0 if nowhere; 0 / 0 counts as 0."""
    ratios = ratio(top[where], bottom[where])
    return float(np.average(ratios, weights=weight[where])) if ratios.size else 0.0


def check_beta(beta: float) -> float:
    """Return the beta of F; refuse what has no square."""
    if not 1e-100 <= beta <= 1e100:  # its square must be a number too
        raise DataError(f"beta must be a number from 1e-100 to 1e100, got {beta!r}.")
    return float(beta)
