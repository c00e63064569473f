"""The measures of the CAFA challenge: F-max and S-min with information accretion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils.checks import (
    Matrix,
    check_finite,
    check_label_weights,
    check_real_array,
)
from hierlpr.data.tables import truth_table
from hierlpr.data.truth import Truth
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import UpperSet, sample_ranges
from hierlpr.metrics.hits import f_of, ratio

Float = NDArray[np.float64]
Index = NDArray[np.integer[Any]]
THRESHOLDS = np.arange(0.01, 1, 0.01)


@dataclass(frozen=True, slots=True, eq=False)
class CafaCurve:
    """The measures at each threshold.

    Attributes
    ----------
    threshold : ndarray
        A label is called where its score is at least this.
    precision, recall : ndarray
        Means over samples: precision over those with calls, recall over all.
    pooled_precision, pooled_recall : ndarray
        Pooled over all instances.
    coverage : ndarray
        Share of the samples with calls.
    remaining_uncertainty, misinformation : ndarray
        Mean weight of the labels that are missed, and of those falsely called.
    """

    threshold: Float
    precision: Float
    recall: Float
    pooled_precision: Float
    pooled_recall: Float
    coverage: Float
    remaining_uncertainty: Float
    misinformation: Float

    @property
    def f(self) -> Float:
        """Harmonic mean of `precision` and `recall`."""
        return f_of(self.precision, self.recall, 1.0)

    @property
    def s(self) -> Float:
        """Semantic distance: the root of the summed squares of the two kinds of error."""
        return np.asarray(np.hypot(self.remaining_uncertainty, self.misinformation))


def information_accretion(truth: Any, hierarchy: Hierarchy) -> Float:
    r"""Return the information that each label adds to its parents, in bits.

    :math:`ia(k) = -\log_2 P(Q_k = 1 \mid Q_p = 1\ \forall p \in parents(k))`, by counting samples.
    A label that no sample has, whose estimate would be infinite, gets 0 and so is left out of
    weighted measures, as in the CAFA evaluation. See Clark and Radivojac (2013), key ``clark2013``.

    Examples
    --------
    All four samples have A; half of them B; of these half C.

    >>> h = Hierarchy([("A", "B"), ("B", "C")])
    >>> information_accretion([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 0, 0]], h)
    array([0., 1., 1.])
    """
    return accretion_of(Truth.of(_sparse(truth, hierarchy, "truth")), hierarchy)


def accretion_of(truth: Truth, hierarchy: Hierarchy, weight: Float | None = None) -> Float:
    """Return the `information_accretion` of truth, with weights of samples.

    Where truth is unknown, only samples count in which a label and its parents were annotated: a
    parent that is known from below is known because the label is true.
    """
    h, truth = hierarchy, truth.tocsr()
    # Labels that no sample has get 0, whether or not they were annotated.
    upper = UpperSet.above(h, h.position[truth.positive.indices])
    counts = np.zeros((2, upper.size))
    for start, stop in sample_ranges(truth.shape[0], h.n_labels):
        positive, _, not_annotated = truth.marked(h, upper, start, stop)
        positive &= ~not_annotated
        candidates = upper.all_parents(positive) & ~not_annotated
        by_sample = np.ones(stop - start) if weight is None else weight[start:stop]
        counts += (positive & candidates) @ by_sample, candidates @ by_sample
    is_used = counts[0] > 0.0
    out = np.zeros(h.n_labels)
    out[h.order[upper.numbers[is_used]]] = np.log2(counts[1, is_used] / counts[0, is_used])
    return out


def cafa_curve(
    truth: Any,
    scores: Any,
    hierarchy: Hierarchy,
    *,
    weight: Any = None,
    thresholds: Any = None,
) -> CafaCurve:
    r"""Evaluate scores at a series of thresholds, as the CAFA challenge does.

    Every label is first raised to the score of its highest descendant, and the truth is closed.
    Precision is a mean over the samples with calls, everything else over all samples. See Radivojac
    et al. (2013), key ``radivojac2013``; Piovesan et al. (2024), key ``piovesan2024``.

    Parameters
    ----------
    truth : array-like or sparse of shape (n_samples, n_labels)
    scores : array-like or sparse of shape (n_samples, n_labels)
        Zero, or absent, means not predicted.
    hierarchy : Hierarchy
    weight : array-like of shape (n_labels,), optional
        Weight of every label, such as `information_accretion`; labels of weight 0 are left out.
    thresholds : array-like, optional
        Ascending and positive; 0.01, 0.02, ... 0.99 if not given.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> curve = cafa_curve([[1, 1], [1, 0]], [[0.9, 0.8], [0.7, 0.6]], h, thresholds=[0.5, 0.75])
    >>> curve.precision, curve.recall, curve.coverage
    (array([0.75, 1.  ]), array([1. , 0.5]), array([1. , 0.5]))
    """
    h = hierarchy
    weights = np.ones(h.n_labels)
    if weight is not None:
        weights = check_label_weights(weight, h.labels, name="weight")
    levels = THRESHOLDS if thresholds is None else check_real_array(thresholds, name="thresholds")
    if levels.ndim != 1 or levels.size == 0 or levels[0] <= 0 or (np.diff(levels) <= 0).any():
        raise DataError("thresholds must be positive and ascend.")
    status, listed = Truth(_sparse(truth, h, "truth")), _sparse(scores, h, "scores")
    if status.shape != listed.shape:
        raise DataError(f"scores has shape {listed.shape}, truth {status.shape}; they must agree.")
    sums = CafaSums(levels, [weights])
    for start, stop in sample_ranges(*status.shape):
        part = slice(listed.indptr[start], listed.indptr[stop])
        sample = np.repeat(np.arange(stop - start), np.diff(listed.indptr[start : stop + 1]))
        number = h.position[listed.indices[part]]
        upper = status.upper_set(h, start, stop, number)
        positive = status.marked(h, upper, start, stop)[0]
        upper.raise_up(positive)
        passed = sums.passed(upper, number, sample, listed.data[part], stop - start)
        sums.add(passed, positive, h.order[upper.numbers], np.ones(stop - start))
    return sums.curve()


class CafaSums:
    """Sums over samples for CAFA curves; samples are added in batches.

    Parameters
    ----------
    levels : ndarray
        Ascending thresholds.
    weights : list of ndarray of shape (n_labels,)
        Weights of the labels; one curve for each entry.
    """

    def __init__(self, levels: Float, weights: list[Float]) -> None:
        self.levels = levels
        self.weights = weights
        # By threshold: weight of calls, of hits, precisions, recalls, samples with calls.
        self._sums = np.zeros((len(weights), 5, levels.size))
        self._positive = np.zeros(len(weights))
        self._n_samples = 0.0

    def passed(
        self, upper: UpperSet, number: Any, sample: Any, score: Float, n_samples: int
    ) -> NDArray[np.unsignedinteger[Any]]:
        """Return how many thresholds each label or one below passes, (labels x samples)."""
        out = np.zeros((upper.size, n_samples), dtype=np.min_scalar_type(self.levels.size))
        out[upper.row[number], sample] = np.searchsorted(self.levels, score, side="right")
        upper.raise_up(out)
        return out

    def add(
        self,
        passed: NDArray[np.unsignedinteger[Any]],
        is_true: NDArray[np.bool_],
        columns: Index,
        sample_weight: Float,
    ) -> None:
        """Add samples: thresholds passed and truth, (labels x samples); `columns` are the labels.

        Only the number of thresholds that a score passes matters, so scores are propagated as
        small integers.
        """
        n_samples, width = is_true.shape[1], self.levels.size + 1
        self._n_samples += float(sample_weight.sum())
        called, n_called, sample = _entries(passed != 0)
        _, n_true, true_sample = _entries(is_true)
        cell = sample * width + passed.ravel()[called]
        hit_cell = cell[is_true.ravel()[called]]
        n_hit = np.count_nonzero(is_true & (passed != 0), axis=1)
        shape = (n_samples, width)
        for i, weight in enumerate(self.weights):
            by_row = weight[columns]
            positive = np.bincount(true_sample, np.repeat(by_row, n_true), n_samples)
            # Summing from the right gives the weight of labels that pass at least this many.
            calls, hits = (
                np.cumsum(
                    np.bincount(at, np.repeat(by_row, n), n_samples * width).reshape(shape)[
                        :, :0:-1
                    ],
                    axis=1,
                    dtype=np.float64,
                )[:, ::-1]
                for at, n in ((cell, n_called), (hit_cell, n_hit))
            )
            recall = ratio(hits, np.broadcast_to(positive[:, None], hits.shape))
            terms = (calls, hits, ratio(hits, calls), recall, calls > 0.0)
            self._sums[i] += [sample_weight @ x for x in terms]
            self._positive[i] += float(sample_weight @ positive)

    def curve(self, which: int = 0) -> CafaCurve:
        """Return the curve for one of the label weights."""
        called, hits, precision, recall, n_called = self._sums[which]
        positive = self._positive[which]
        n_samples = np.full(self.levels.size, self._n_samples)
        return CafaCurve(
            threshold=self.levels,
            precision=ratio(precision, n_called),
            recall=ratio(recall, n_samples),
            pooled_precision=ratio(hits, called),
            pooled_recall=ratio(hits, np.full_like(hits, positive)),
            coverage=ratio(n_called, n_samples),
            remaining_uncertainty=ratio(positive - hits, n_samples),
            misinformation=ratio(called - hits, n_samples),
        )


def _entries(
    mask: NDArray[np.bool_],
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return the flat places of True, their number per row, and their columns."""
    flat, in_row = np.flatnonzero(mask), np.count_nonzero(mask, axis=1)
    # Places come row by row: subtracting the start of the row is faster than a division.
    return flat, in_row, flat - np.repeat(np.arange(in_row.size) * mask.shape[1], in_row)


def cafa_f_max_score(truth: Any, scores: Any, hierarchy: Hierarchy, **options: Any) -> float:
    r"""Return F-max of CAFA, :math:`\max_\tau 2 P(\tau) R(\tau) / (P(\tau) + R(\tau))`.

    Options as in `cafa_curve`; with ``weight=`` it is the weighted F-max. See Radivojac et al.
    (2013), key ``radivojac2013``.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> round(cafa_f_max_score([[1, 1], [1, 0]], [[0.9, 0.6], [0.7, 0.65]], h), 4)
    0.8571
    """
    return float(cafa_curve(truth, scores, hierarchy, **options).f.max())


def s_min_error(
    truth: Any, scores: Any, hierarchy: Hierarchy, *, weight: Any = None, **options: Any
) -> float:
    r"""Return S-min of CAFA, :math:`\min_\tau \sqrt{ru(\tau)^2 + mi(\tau)^2}`.

    `ru` is the mean information of the labels missed, `mi` of those falsely called. Only thresholds
    with calls are considered. `weight` is the information accretion, from `truth` itself if not
    given; options as in `cafa_curve`. See Clark and Radivojac (2013), key ``clark2013``.

    Examples
    --------
    With ia(A) = 0, ia(B) = 1: calling everything falsely calls B once in two samples.

    >>> h = Hierarchy([("A", "B")])
    >>> s_min_error([[1, 1], [1, 0]], [[0.9, 0.5], [0.9, 0.6]], h)
    0.5
    """
    if weight is None:
        weight = information_accretion(
            hierarchy.close_upward(_sparse(truth, hierarchy, "truth")), hierarchy
        )
    return smallest_s(cafa_curve(truth, scores, hierarchy, weight=weight, **options))


def smallest_s(curve: CafaCurve) -> float:
    """Return S-min of a curve."""
    reached = curve.s[curve.coverage > 0]
    if reached.size == 0:
        raise DataError("S-min is not defined: nothing is called at any threshold.")
    return float(reached.min())


def _sparse(data: Any, hierarchy: Hierarchy, name: str) -> sparse.csr_array:
    values: Matrix = truth_table(data, hierarchy, name=name)[0].values
    check_finite(values, hierarchy.labels, name=name)
    csr = sparse.csr_array(values)
    if csr.nnz and csr.data.min() < 0:
        raise DataError(f"{name} has negative values, but 0 means not predicted here.")
    if csr.nnz and not csr.data.all():
        csr = csr.copy()  # the arrays may be the caller's
        csr.eliminate_zeros()
    return csr
