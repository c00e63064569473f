"""Hit and precision-recall curves over pooled calls, and the areas under them."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import (
    check_choice,
    check_level,
    check_real_array,
    check_sample_weight,
)
from hierlpr.exceptions import DataError

Float = NDArray[np.float64]
Interpolation = Literal["step", "linear", "counts"]


class HitSums:
    """Measures of a hit curve that is added stretch by stretch, never held as a whole.

    Parameters
    ----------
    positives : float
        Number of positives of the whole curve.
    max_recall, beta : float
        As in `early_precision_score` and `hierlpr.metrics.f_max_score`.

    Examples
    --------
    >>> sums = HitSums(2)
    >>> sums.add(*hit_curve([1, 0]))
    >>> sums.add(*hit_curve([1]))
    >>> sums.area, round(sums.au_prc(), 4), sums.best_f
    (4.0, 0.8333, 0.8)
    """

    def __init__(self, positives: float, *, max_recall: float = 0.5, beta: float = 1.0) -> None:
        self.positives = float(positives)
        self._most_early = check_level(max_recall, name="max_recall") * self.positives
        self._square = beta**2
        self.calls = self.hits = self.area = self.best_f = 0.0
        self._precision = self._early_precision = 0.0

    def add(self, calls: Float, hits: Float) -> None:
        """Add the corners of the next stretch; both count from 0 at its beginning."""
        calls, hits = calls + self.calls, hits + self.hits
        size, gained = np.diff(calls), np.diff(hits)
        # A group of g calls with h hits adds sum_i (H + h i / g) = g H + h (g + 1) / 2.
        self.area += float(np.sum(size * hits[:-1] + gained * (size + 1.0) / 2.0))
        self.calls, self.hits = float(calls[-1]), float(hits[-1])
        if self.positives == 0 or calls.size == 1:
            return
        precision, recall = hits[1:] / calls[1:], hits[1:] / self.positives
        self._precision += float(np.dot(gained, precision))
        if hits[0] < self._most_early:
            early = np.diff(np.minimum(hits, self._most_early))
            self._early_precision += float(np.dot(early, precision))
        self.best_f = max(self.best_f, float(f_of(precision, recall, self._square).max()))

    def au_prc(self) -> float:
        """AU(PRC) by steps."""
        return self._precision / self._known()

    def early_precision(self) -> float:
        """Mean precision up to the recall given."""
        self._known()
        return self._early_precision / self._most_early

    def f_max(self) -> float:
        """Largest F."""
        self._known()
        return self.best_f

    def normalized_area(self) -> float:
        """Hit area between -1 and 1."""
        n, positives = self.calls, self.positives
        if not 0 < positives < n:
            raise DataError(
                f"The normalized hit area needs positives and negatives; {positives:.0f} of "
                f"{n:.0f} instances are positive."
            )
        random = positives * (n + 1.0) / 2.0
        best = positives * (positives + 1.0) / 2.0 + positives * (n - positives)
        return (self.area - random) / (best - random)

    def _known(self) -> float:
        if self.positives == 0:
            raise DataError("Recall is not defined: no instance is positive.")
        return self.positives


def hit_sums(truth: Any, scores: Any, sample_weight: Any = None, **options: float) -> HitSums:
    """Return the sums of a whole hit curve."""
    calls, hits = hit_curve(truth, scores, sample_weight=sample_weight)
    sums = HitSums(hits[-1], **options)
    sums.add(calls, hits)
    return sums


def ratio(top: Float, bottom: Float) -> Float:
    """Divide; 0 where the divisor is."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


def f_of(precision: Float, recall: Float, square: float) -> Float:
    """F with beta squared; 0 where both are 0."""
    return ratio((1.0 + square) * precision * recall, square * precision + recall)


def hit_curve(truth: Any, scores: Any = None, *, sample_weight: Any = None) -> tuple[Float, Float]:
    r"""Count true calls against calls.

    Parameters
    ----------
    truth : array-like
        Status (0 or 1) of every instance, NaN where it is unknown: such instances are left out.
        Without `scores`, a vector in calling order.
    scores : array-like of the same shape, optional
        Instances are called by falling score, whatever their place; matrices are pooled. Equal
        scores are one group that is called as a whole.
    sample_weight : array-like of shape (len(truth),), optional
        How much the instances of each row count, of each entry if `truth` is a vector.

    Returns
    -------
    calls, hits : ndarray
        The corners of the curve, from (0, 0) to (n, number of positives); between two corners,
        that is inside a group of ties, it is the straight line, which is the mean over all orders
        of the group.

    References
    ----------
    Herskovic, Iyengar and Bernstam (2007), key ``herskovic2007`` in ``docs/references.bib``.

    Examples
    --------
    >>> hit_curve([1, 0, 1])
    (array([0., 1., 2., 3.]), array([0., 1., 1., 2.]))
    >>> hit_curve([1, 0, 1], scores=[0.9, 0.5, 0.5])
    (array([0., 1., 3.]), array([0., 1., 2.]))
    """
    status, known = check_known(truth)
    weight = by_instance(sample_weight, status)
    kept: Any = ... if known is None else known
    called, own = status[kept].ravel(), None if weight is None else weight[kept].ravel()
    if scores is None:
        if status.ndim != 1:
            raise DataError(
                f"truth must be a vector in calling order, got shape {status.shape}.\n"
                "Hint: give the scores too, or index it by a ranking: truth[r.sample, r.label]."
            )
        return _corners(called, own)
    values = check_real_array(scores, name="scores")
    if values.shape != status.shape:
        raise DataError(f"scores has shape {values.shape}, truth {status.shape}; they must agree.")
    if np.isnan(values).any():
        raise DataError("scores has NaN.\nHint: fill in or drop missing scores first.")
    flat = values[kept].ravel()
    order = np.argsort(-flat, kind="stable")
    ordered = flat[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], ordered.size > 0))
    if own is not None:
        own = own[order]
        ends = ends[np.cumsum(own)[ends] > 0.0]  # samples of weight 0 come before no other
    return _corners(called[order], own, ends)


def _corners(
    called: NDArray[np.bool_], own: Float | None, ends: Any = slice(None)
) -> tuple[Float, Float]:
    """Return how many calls, and hits, there are up to each of some places; (0, 0) comes first."""
    if own is None:
        calls, hits = np.arange(1.0, called.size + 1.0), np.cumsum(called, dtype=np.float64)
    else:
        calls, hits = np.cumsum(own), np.cumsum(own * called)
    return np.append(0.0, calls[ends]), np.append(0.0, hits[ends])


def by_instance(sample_weight: Any, status: NDArray[np.bool_]) -> Float | None:
    """Return weights of rows, spread over their instances; None if all are alike."""
    weight = check_sample_weight(sample_weight, len(status))
    if weight is None:
        return None
    return np.broadcast_to(weight.reshape(-1, *[1] * (status.ndim - 1)), status.shape)


def hit_area_score(truth: Any, scores: Any = None) -> float:
    r"""Area under the hit curve, :math:`\sum_k (n - k + 1)\, Q_{(k)}`.

    With scores, ties count as the mean over all their orders. Parameters as in `hit_curve`.

    References
    ----------
    The paper's Eq. (3.1), key ``ho2018hierlpr``.

    Examples
    --------
    The calls hit, miss, hit: 1 + 1 + 2 = 3 x 1 + 1 x 1.

    >>> hit_area_score([1, 0, 1])
    4.0
    """
    return hit_sums(truth, scores).area


def normalized_hit_area_score(
    truth: Any, scores: Any = None, *, sample_weight: Any = None
) -> float:
    r"""Area under the hit curve, scaled: 1 for a perfect order, 0 for a random one, -1 reversed.

    :math:`(A - A_0) / (A_1 - A_0)` with the expected area of a random order
    :math:`A_0 = P (n + 1) / 2` and the largest possible
    :math:`A_1 = P (P + 1) / 2 + P (n - P)`, for P positives among n instances. It equals
    ``2 * AUC - 1`` for the area AUC under the ROC curve of the pooled instances, also with weights.

    Examples
    --------
    >>> normalized_hit_area_score([1, 1, 0, 0])
    1.0
    >>> normalized_hit_area_score([1, 0, 1, 0], scores=[0.5, 0.5, 0.5, 0.5])
    0.0
    """
    return hit_sums(truth, scores, sample_weight).normalized_area()


def eauc_score(lpr: Any) -> float:
    r"""Early-call-driven area under curve of LPRs in calling order.

    :math:`\mathrm{eAUC} = \sum_k (n - k + 1)\, \mathrm{LPR}_{(k)}`, the expected area under the
    hit curve if every LPR is the chance that its call is true.

    References
    ----------
    The paper's Eq. (3.2), key ``ho2018hierlpr``.

    Examples
    --------
    >>> eauc_score([0.75, 0.25, 0.5])
    3.25
    """
    values = check_real_array(lpr, name="lpr")
    if values.ndim != 1:
        raise DataError(f"lpr must be a vector in calling order, got shape {values.shape}.")
    return float(np.dot(np.arange(values.size, 0, -1, dtype=np.float64), values))


def precision_recall_curve(
    truth: Any, scores: Any = None, *, sample_weight: Any = None
) -> tuple[Float, Float, Float]:
    r"""Pooled precision and recall after each group of calls.

    Parameters as in `hit_curve`.

    Returns
    -------
    precision, recall, calls : ndarray
        One entry per group of equal scores, in calling order: no group is ever split.

    References
    ----------
    Davis and Goadrich (2006), key ``davis2006``.

    Examples
    --------
    >>> precision, recall, calls = precision_recall_curve([1, 0, 1], scores=[0.9, 0.5, 0.5])
    >>> precision, recall
    (array([1.        , 0.66666667]), array([0.5, 1. ]))
    """
    calls, hits = hit_curve(truth, scores, sample_weight=sample_weight)
    if hits[-1] == 0:
        raise DataError("Recall is not defined: no instance is positive.")
    return hits[1:] / calls[1:], hits[1:] / hits[-1], calls[1:]


def au_prc_score(
    truth: Any,
    scores: Any = None,
    *,
    interpolation: Interpolation = "step",
    sample_weight: Any = None,
) -> float:
    r"""Area under the pooled precision-recall curve, AU(PRC) over all instances at once.

    Parameters
    ----------
    truth, scores, sample_weight
        As in `hit_curve`.
    interpolation : {"step", "linear", "counts"}
        ``"step"``: average precision :math:`\sum_i (R_i - R_{i-1}) P_i`, as scikit-learn's
        ``average_precision_score``; published comparisons of hierarchical classifiers use it.
        ``"linear"``: trapezoids between the points, too optimistic between distant ones.
        ``"counts"``: hits rise linearly with calls inside a group, integrated exactly, as Clus
        does.

    References
    ----------
    Davis and Goadrich (2006), key ``davis2006``; Vens et al. (2008), key ``vens2008``.

    Examples
    --------
    >>> round(au_prc_score([1, 0, 1]), 4)  # 1/2 x 1 + 1/2 x 2/3
    0.8333
    >>> au_prc_score([1, 1, 0], scores=[0.2, 0.2, 0.1])
    1.0
    """
    check_choice(interpolation, get_args(Interpolation), name="interpolation")
    if interpolation == "step":
        return hit_sums(truth, scores, sample_weight).au_prc()
    precision, recall, calls = precision_recall_curve(truth, scores, sample_weight=sample_weight)
    if interpolation == "linear":
        before = np.append(1.0, precision[:-1])
        return float(np.dot(np.diff(recall, prepend=0.0), (precision + before) / 2.0))
    return _counts_area(precision * calls, calls)


def early_precision_score(
    truth: Any, scores: Any = None, *, max_recall: float = 0.5, sample_weight: Any = None
) -> float:
    r"""Mean pooled precision up to a recall, :math:`r^{-1} \int_0^r P(R)\, dR`.

    The precision at recall R is that of the first group of calls that reaches it, so that
    ``max_recall`` near 1 gives `au_prc_score`. The paper's figure shows this part of the curve.

    Examples
    --------
    >>> early_precision_score([1, 0, 1], max_recall=0.5)
    1.0
    """
    return hit_sums(truth, scores, sample_weight, max_recall=max_recall).early_precision()


def _counts_area(hits: Float, calls: Float) -> float:
    """Integrate hits / calls over recall, with calls a linear function of hits in each group."""
    start, first = np.append(0.0, hits[:-1]), np.append(0.0, calls[:-1])
    gained = hits - start
    found = gained > 0
    start, end, first, gained = start[found], hits[found], first[found], gained[found]
    slope = (calls[found] - first) / gained
    offset = first - slope * start  # calls = slope * hits + offset
    through_zero = np.abs(offset) <= 1e-9 * calls[-1]
    safe = np.where(through_zero, 1.0, offset)
    # The integral of x / (s x + o) is x / s - (o / s^2) log(s x + o).
    log_ratio = np.log((slope * end + safe) / np.where(first > 0, first, 1.0))
    curved = gained / slope - safe / slope**2 * log_ratio
    return float(np.sum(np.where(through_zero, gained / slope, curved)) / hits[-1])


def check_known(truth: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
    """Return the status of instances, and which of them are known; None if all are."""
    values = np.asarray(truth)
    if values.dtype.kind in "biu":
        return check_status(values), None
    values = check_real_array(values, name="truth")
    unknown = np.isnan(values)
    if not unknown.any():
        return check_status(values), None
    return check_status(np.where(unknown, 0.0, values)), ~unknown


def check_status(truth: Any) -> NDArray[np.bool_]:
    """Return truth as statuses; refuse what is neither 0 nor 1."""
    values = np.asarray(truth)
    if values.dtype.kind == "b":
        return values
    values = check_real_array(values, name="truth")
    status: NDArray[np.bool_] = values != 0.0
    if not np.array_equal(status, values):
        raise DataError("truth must hold only 0 and 1.")
    return status
