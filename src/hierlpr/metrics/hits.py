"""Hit curves and precision-recall curves of pooled instances, and the areas under them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import check_level, check_real_array
from hierlpr.exceptions import DataError
from hierlpr.metrics.instances import PooledInstances

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class HitCurve:
    """Corners of a hit curve: what has been called after each group of equal scores.

    Every array begins with 0, before the first call. Between two corners the curve is a straight
    line, which is the mean over all orders of the group.

    Attributes
    ----------
    n_calls, n_hits : ndarray
        Numbers of calls and of correct calls.
    calls, hits : ndarray
        The same, added up by the weights of the samples; equal to the counts without weights.
    score_sum : ndarray
        Weighted sum of the scores called. Where instances without a score come last, this array
        is one shorter than the others.
    """

    n_calls: Float
    n_hits: Float
    calls: Float
    hits: Float
    score_sum: Float

    @classmethod
    def of(
        cls,
        truth: NDArray[np.bool_],
        score: Float,
        weight: Float | None = None,
        total: tuple[float, float, float, float] | None = None,
    ) -> HitCurve:
        """Call instances by falling score.

        `total` gives the number of instances and of positives, and their weights, if some have no
        score: those are called last, as one group.
        """
        order = np.argsort(-score, kind="stable")
        ordered, positive = score[order], truth[order]
        is_end = np.append(ordered[1:] != ordered[:-1], ordered.size > 0)
        ends = np.flatnonzero(is_end)  # of the groups of equal scores
        counts = _corners(positive, None, ends)
        sums = counts if weight is None else _corners(positive, weight[order], ends)
        score_sum = np.cumsum(ordered if weight is None else weight[order] * ordered)[ends]
        corners = np.stack([*counts, *sums])
        if total is not None and total[0] > corners[0, -1]:
            corners = np.column_stack([corners, total])
        return cls(corners[0], corners[1], corners[2], corners[3], np.append(0.0, score_sum))

    @property
    def precision(self) -> Float:
        """Share of correct calls at each corner except the first."""
        return np.asarray(self.hits[1:] / self.calls[1:])

    @property
    def recall(self) -> Float:
        """Share of the positives found at each corner except the first."""
        return np.asarray(self.hits[1:] / (self.hits[-1] or 1.0))

    @property
    def mean_score(self) -> Float:
        """Mean score of the calls at each corner except the first, where all have one."""
        return np.asarray(self.score_sum[1:] / self.calls[1 : self.score_sum.size])

    def precision_after(self, n_calls: int) -> float | None:
        """Return the precision of the first calls; None without calls."""
        if n_calls == 0:
            return None
        calls, hits = (float(np.interp(n_calls, self.n_calls, x)) for x in (self.calls, self.hits))
        return hits / calls

    def sums(self) -> HitSums:
        """Return the areas under the curve."""
        sums = HitSums(self.hits[-1])
        sums.add(self.calls, self.hits)
        return sums

    def thinned(self, most: int) -> HitCurve:
        """Keep at most `most` corners: the first half of them, then evenly spaced ones."""
        size, first = self.calls.size, most // 2
        if size <= most:
            return self
        later = np.linspace(first, size - 1, most - first).astype(np.intp)
        at = np.concatenate([np.arange(first), later])
        columns = (self.n_calls[at], self.n_hits[at], self.calls[at], self.hits[at])
        return HitCurve(*columns, self.score_sum[at[at < self.score_sum.size]])


class HitSums:
    """Areas under a hit curve whose corners are added in stretches, in calling order.

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
        self._early_hits = check_level(max_recall, name="max_recall") * self.positives
        self._beta2 = beta**2
        self.calls = self.hits = self.area = self.best_f = 0.0
        self._precision = self._early_precision = 0.0

    def add(self, calls: Float, hits: Float) -> None:
        """Add the corners of the next stretch; both arrays count from 0 at its beginning."""
        calls, hits = calls + self.calls, hits + self.hits
        size, gained = np.diff(calls), np.diff(hits)
        # A group of g calls with h hits adds sum_i (H + h i / g) = g H + h (g + 1) / 2.
        self.area += float(np.sum(size * hits[:-1] + gained * (size + 1.0) / 2.0))
        self.calls, self.hits = float(calls[-1]), float(hits[-1])
        if self.positives == 0 or calls.size == 1:
            return
        precision, recall = hits[1:] / calls[1:], hits[1:] / self.positives
        self._precision += float(np.dot(gained, precision))
        if hits[0] < self._early_hits:
            early = np.diff(np.minimum(hits, self._early_hits))
            self._early_precision += float(np.dot(early, precision))
        self.best_f = max(self.best_f, float(f_of(precision, recall, self._beta2).max()))

    def au_prc(self) -> float:
        """Return the area under the precision-recall curve, by steps."""
        check_positives(self.positives)
        return self._precision / self.positives

    def early_precision(self) -> float:
        """Return the mean precision up to `max_recall`."""
        check_positives(self.positives)
        return self._early_precision / self._early_hits

    def f_max(self) -> float:
        """Return the largest F."""
        check_positives(self.positives)
        return self.best_f

    def normalized_area(self) -> float:
        """Return the hit area scaled to lie between -1 and 1."""
        n, positives = self.calls, self.positives
        if not 0 < positives < n:
            raise DataError(
                f"The normalized hit area needs positives and negatives; {positives:.0f} of "
                f"{n:.0f} instances are positive."
            )
        random = positives * (n + 1.0) / 2.0
        best = positives * (positives + 1.0) / 2.0 + positives * (n - positives)
        return (self.area - random) / (best - random)


def check_positives(positives: float) -> None:
    """Refuse to compute recall without positives."""
    if positives == 0:
        raise DataError("Recall is not defined: no instance is positive.")


def hit_sums(truth: Any, scores: Any, sample_weight: Any = None, **options: float) -> HitSums:
    """Return the areas under a whole hit curve."""
    calls, hits = hit_curve(truth, scores, sample_weight=sample_weight)
    sums = HitSums(hits[-1], **options)
    sums.add(calls, hits)
    return sums


def ratio(top: Float, bottom: Float) -> Float:
    """Divide; 0 where the divisor is 0."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


def f_of(precision: Float, recall: Float, beta2: float) -> Float:
    """Return F for the square of beta; 0 where precision and recall are 0."""
    return ratio((1.0 + beta2) * precision * recall, beta2 * precision + recall)


def hit_curve(truth: Any, scores: Any = None, *, sample_weight: Any = None) -> tuple[Float, Float]:
    r"""Count correct calls against calls.

    See Herskovic, Iyengar and Bernstam (2007), key ``herskovic2007`` in ``docs/references.bib``.

    Parameters
    ----------
    truth : array-like
        Status (0 or 1) of every instance; instances whose truth is unknown (NaN) are left out.
        Without `scores`, a vector in calling order.
    scores : array-like of the same shape, optional
        Instances are called by falling score; matrices are pooled. Equal scores form one group
        that is called as a whole.
    sample_weight : array-like of shape (len(truth),), optional
        Weight of the instances of each row, or of each entry if `truth` is a vector.

    Returns
    -------
    calls, hits : ndarray
        The corners of the curve, from (0, 0) to (n, number of positives). Between two corners,
        that is inside a group of ties, the curve is a straight line, the mean over all orders of
        the group.

    Examples
    --------
    >>> hit_curve([1, 0, 1])
    (array([0., 1., 2., 3.]), array([0., 1., 1., 2.]))
    >>> hit_curve([1, 0, 1], scores=[0.9, 0.5, 0.5])
    (array([0., 1., 3.]), array([0., 1., 2.]))
    """
    instances = PooledInstances.of(truth, scores, "scores", sample_weight)
    known = instances.some(instances.is_known)
    if scores is None:
        if instances.truth.ndim != 1:
            raise DataError(
                f"truth must be a vector in calling order, got shape {instances.truth.shape}.\n"
                "Hint: give the scores too, or index it by a ranking: truth[r.sample, r.label]."
            )
        return _corners(known.truth, known.weight)
    if np.isnan(instances.values).any():
        raise DataError("scores has NaN.\nHint: fill in or drop missing scores first.")
    curve = HitCurve.of(known.truth, known.values, known.weight)
    first = np.count_nonzero(curve.calls == 0.0)  # samples of weight 0 add no corner before others
    return np.append(0.0, curve.calls[first:]), np.append(0.0, curve.hits[first:])


def hit_area_score(truth: Any, scores: Any = None) -> float:
    r"""Return the area under the hit curve, :math:`\sum_k (n - k + 1)\, Q_{(k)}`.

    Ties count as the mean over all their orders. Parameters as in `hit_curve`. See the paper's Eq.
    (3.1), key ``ho2018hierlpr``.

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
    r"""Return the hit area scaled: 1 for a perfect order, 0 for a random one, -1 reversed.

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
    r"""Return eAUC, the expected hit area, of LPRs in calling order.

    :math:`\mathrm{eAUC} = \sum_k (n - k + 1)\, \mathrm{LPR}_{(k)}`, the expected area under the hit
    curve if every LPR is the probability that its call is correct. See the paper's Eq. (3.2), key
    ``ho2018hierlpr``.

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
    r"""Return pooled precision and recall after each group of equal scores.

    Parameters as in `hit_curve`. See Davis and Goadrich (2006), key ``davis2006``.

    Returns
    -------
    precision, recall, calls : ndarray
        One entry per group of equal scores, in calling order; ties are never split.

    Examples
    --------
    >>> precision, recall, calls = precision_recall_curve([1, 0, 1], scores=[0.9, 0.5, 0.5])
    >>> precision, recall
    (array([1.        , 0.66666667]), array([0.5, 1. ]))
    """
    calls, hits = hit_curve(truth, scores, sample_weight=sample_weight)
    check_positives(hits[-1])
    return hits[1:] / calls[1:], hits[1:] / hits[-1], calls[1:]


def au_prc_score(truth: Any, scores: Any = None, *, sample_weight: Any = None) -> float:
    r"""Return the area under the pooled precision-recall curve, AU(PRC).

    Average precision :math:`\sum_i (R_i - R_{i-1}) P_i` over groups of equal scores, as
    scikit-learn's ``average_precision_score``. Parameters as in `hit_curve`. See Davis and Goadrich
    (2006), key ``davis2006``; Vens et al. (2008), key ``vens2008``.

    Examples
    --------
    >>> round(au_prc_score([1, 0, 1]), 4)  # 1/2 x 1 + 1/2 x 2/3
    0.8333
    >>> au_prc_score([1, 1, 0], scores=[0.2, 0.2, 0.1])
    1.0
    """
    return hit_sums(truth, scores, sample_weight).au_prc()


def early_precision_score(
    truth: Any, scores: Any = None, *, max_recall: float = 0.5, sample_weight: Any = None
) -> float:
    r"""Return the mean pooled precision up to a recall, :math:`r^{-1} \int_0^r P(R)\, dR`.

    The precision at recall R is that of the first group of calls that reaches it, so that
    ``max_recall`` near 1 gives `au_prc_score`. The paper's figure shows this part of the curve.

    Examples
    --------
    >>> early_precision_score([1, 0, 1], max_recall=0.5)
    1.0
    """
    return hit_sums(truth, scores, sample_weight, max_recall=max_recall).early_precision()


def _corners(
    positive: NDArray[np.bool_], weight: Float | None, ends: Any = slice(None)
) -> tuple[Float, Float]:
    """Return calls and hits up to each of some places; (0, 0) comes first."""
    if weight is None:
        calls, hits = np.arange(1.0, positive.size + 1.0), np.cumsum(positive, dtype=np.float64)
    else:
        calls, hits = np.cumsum(weight), np.cumsum(weight * positive)
    return np.append(0.0, calls[ends]), np.append(0.0, hits[ends])
