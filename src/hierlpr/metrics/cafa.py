"""The measures of the CAFA challenge: F-max and S-min with information accretion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._validation import Matrix, check_choice, check_finite, check_real_array
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.scores import align

__all__ = [
    "CafaCurve",
    "cafa_curve",
    "cafa_f_max_score",
    "information_accretion",
    "s_min_error",
]

Float = NDArray[np.float64]
Normalization = Literal["cafa", "pred", "gt"]


@dataclass(frozen=True, slots=True, eq=False)
class CafaCurve:
    """Measures at each threshold.

    Attributes
    ----------
    threshold : ndarray
        A label is called where its score is at least this.
    precision, recall : ndarray
        Means over samples: precision over those with calls, recall over all.
    pooled_precision, pooled_recall : ndarray
        Over all instances at once.
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
        return _harmonic(self.precision, self.recall)

    @property
    def pooled_f(self) -> Float:
        """Harmonic mean of `pooled_precision` and `pooled_recall`."""
        return _harmonic(self.pooled_precision, self.pooled_recall)

    @property
    def s(self) -> Float:
        """Semantic distance: the root of the summed squares of the two kinds of error."""
        return np.asarray(np.hypot(self.remaining_uncertainty, self.misinformation))


def information_accretion(truth: Any, hierarchy: Hierarchy) -> Float:
    r"""Information that a label adds to its parents, in bits.

    :math:`ia(k) = -\log_2 P(Q_k = 1 \mid Q_p = 1\ \forall p \in parents(k))`, by counting samples.
    A label that no sample has, whose estimate would be infinite, gets 0, and so is left out of
    weighted measures: this is what the CAFA evaluation does.

    References
    ----------
    Clark and Radivojac (2013), key ``clark2013``.

    Examples
    --------
    All four samples have A; half of them B; of these half C.

    >>> h = Hierarchy([("A", "B"), ("B", "C")])
    >>> information_accretion([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 0, 0]], h)
    array([0., 1., 1.])
    """
    h = hierarchy
    status = _sparse(truth, h, "truth").tocsc()
    counts = np.diff(status.indptr).astype(np.float64)
    n_with_parents = np.full(h.n_labels, float(status.shape[0]))
    for number in np.flatnonzero(np.diff(h.parent_ptr)):
        above = h.order[h.parent_idx[h.parent_ptr[number] : h.parent_ptr[number + 1]]]
        if above.size == 1:
            n_with_parents[h.order[number]] = counts[above[0]]
            continue
        rows = np.concatenate(
            [status.indices[status.indptr[p] : status.indptr[p + 1]] for p in above]
        )
        holding = np.bincount(rows, minlength=1)
        n_with_parents[h.order[number]] = np.count_nonzero(holding == above.size)
    known = counts > 0
    out = np.zeros(h.n_labels)
    out[known] = np.log2(n_with_parents[known] / counts[known])
    return out


def cafa_curve(
    truth: Any,
    scores: Any,
    hierarchy: Hierarchy,
    *,
    weight: Any = None,
    thresholds: Any = None,
    normalization: Normalization = "cafa",
    propagate: bool = True,
) -> CafaCurve:
    r"""Evaluate scores at a series of thresholds, as the CAFA challenge does.

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
    normalization : {"cafa", "pred", "gt"}
        What means are taken over. ``"cafa"``: precision over the samples with calls, all else
        over all samples; ``"pred"``: everything over the samples with calls; ``"gt"``:
        everything over all samples.
    propagate : bool
        First raise every label to the score of its highest descendant, and close the truth.

    References
    ----------
    Radivojac et al. (2013), key ``radivojac2013``; Piovesan et al. (2024), key ``piovesan2024``.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> curve = cafa_curve([[1, 1], [1, 0]], [[0.9, 0.8], [0.7, 0.6]], h, thresholds=[0.5, 0.75])
    >>> curve.precision, curve.recall, curve.coverage
    (array([0.75, 1.  ]), array([1. , 0.5]), array([1. , 0.5]))
    """
    from hierlpr._kernels.curves import threshold_sums

    check_choice(normalization, get_args(Normalization), name="normalization")
    h = hierarchy
    weights = np.ones(h.n_labels) if weight is None else check_real_array(weight, name="weight")
    if weights.shape != (h.n_labels,) or not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise DataError(f"weight must hold {h.n_labels} finite numbers that are not negative.")
    levels = np.arange(0.01, 1, 0.01) if thresholds is None else check_real_array(
        thresholds, name="thresholds"
    )  # fmt: skip
    if levels.ndim != 1 or levels.size == 0 or levels[0] <= 0 or (np.diff(levels) <= 0).any():
        raise DataError("thresholds must be positive and ascend.")
    status, given = _sparse(truth, h, "truth"), _sparse(scores, h, "scores")
    if status.shape != given.shape:
        raise DataError(f"scores has shape {given.shape}, truth {status.shape}; they must agree.")
    if propagate:
        status, given = sparse.csr_array(h.close_upward(status)), propagate_max_sparse(given, h)
    parts = [
        x.astype(t)
        for a in (given, status)
        for x, t in ((a.indptr, np.int64), (a.indices, np.int32))
    ]
    n_called, called, hits, precision, recall = threshold_sums(
        parts[0], parts[1], given.data, parts[2], parts[3], weights, levels
    )
    positive = float(weights[status.indices].sum())
    n_samples = np.full(levels.size, float(given.shape[0]))
    over_all = n_called if normalization == "pred" else n_samples
    over_called = n_samples if normalization == "gt" else n_called
    return CafaCurve(
        threshold=levels,
        precision=_ratio(precision, over_called),
        recall=_ratio(recall, over_all),
        pooled_precision=_ratio(hits, called),
        pooled_recall=_ratio(hits, np.full_like(hits, positive)),
        coverage=_ratio(n_called, n_samples),
        remaining_uncertainty=_ratio(positive - hits, over_all),
        misinformation=_ratio(called - hits, over_all),
    )


def cafa_f_max_score(truth: Any, scores: Any, hierarchy: Hierarchy, **options: Any) -> float:
    r"""F-max of CAFA, :math:`\max_\tau 2 P(\tau) R(\tau) / (P(\tau) + R(\tau))`.

    Options as in `cafa_curve`; with ``weight=`` it is the weighted F-max.

    References
    ----------
    Radivojac et al. (2013), key ``radivojac2013``.

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
    r"""S-min of CAFA, :math:`\min_\tau \sqrt{ru(\tau)^2 + mi(\tau)^2}`.

    `ru` is the mean information of the labels missed, `mi` of those falsely called. Only
    thresholds at which something is called compete. `weight` is the information accretion, from
    `truth` itself if not given; options as in `cafa_curve`.

    References
    ----------
    Clark and Radivojac (2013), key ``clark2013``.

    Examples
    --------
    With ia(A) = 0, ia(B) = 1: calling everything falsely calls B once in two samples.

    >>> h = Hierarchy([("A", "B")])
    >>> s_min_error([[1, 1], [1, 0]], [[0.9, 0.5], [0.9, 0.6]], h)
    0.5
    """
    if weight is None:
        weight = information_accretion(hierarchy.close_upward(truth), hierarchy)
    curve = cafa_curve(truth, scores, hierarchy, weight=weight, **options)
    reached = curve.s[curve.coverage > 0]
    if reached.size == 0:
        raise DataError("S-min is not defined: nothing is called at any threshold.")
    return float(reached.min())


def _sparse(data: Any, hierarchy: Hierarchy, name: str) -> sparse.csr_array:
    values: Matrix = align(data, hierarchy, name=name).values
    check_finite(values, hierarchy.labels, name=name)
    csr = sparse.csr_array(values)
    if csr.nnz and csr.data.min() < 0:
        raise DataError(f"{name} has negative values, but 0 means not predicted here.")
    csr.eliminate_zeros()
    return csr


def propagate_max_sparse(scores: sparse.csr_array, h: Hierarchy) -> sparse.csr_array:
    """Raise every stored label and its ancestors to their highest stored descendant."""
    from hierlpr._kernels import propagation, traversal

    by_number = scores[:, h.order]
    by_number.sort_indices()
    row_ptr, nodes = by_number.indptr.astype(np.int64), by_number.indices.astype(np.int32)
    closed_ptr, closed = traversal.close_rows(row_ptr, nodes, h.parent_ptr, h.parent_idx)
    values = traversal.close_values(row_ptr, nodes, by_number.data, closed_ptr, closed, h.n_labels)
    propagation.max_up_rows(closed_ptr, closed, values, h.parent_ptr, h.parent_idx)
    return sparse.csr_array((values, h.order[closed], closed_ptr), shape=scores.shape)


def _ratio(top: Float, bottom: Float) -> Float:
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


def _harmonic(a: Float, b: Float) -> Float:
    return _ratio(2.0 * a * b, a + b)
