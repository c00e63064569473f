"""LPRs of labels that are implied: not listed themselves, but a descendant is.

Such a label has no score. The evidence is the largest LPR of the listed labels below it, which
is comparable across labels even where scores are not. Its LPR is a curve of that number, learned
from the samples in which the label is implied, and blended with a curve shared by its depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr.data.folds import assign_folds
from hierlpr.data.listed import Closed, close_listed
from hierlpr.data.truth import Truth
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr.curves import LPRCurves
from hierlpr.lpr.estimators import Auto
from hierlpr.lpr.fitting import LPRModel, fit_data, with_sharing
from hierlpr.lpr.shared import SharedCurves
from hierlpr.lpr.training import Float, PairWeights, TrainingData, read_training_data, weigh_pairs

IMPLIED_KAPPA = 10.0  # LPRs are comparable across labels, so implied labels share curves


@dataclass(frozen=True, slots=True, eq=False)
class ImpliedLPR:
    """Curves from the largest LPR of the listed labels below a label to its LPR, one per label.

    `absent` is P(label | it is not listed), which the joint posterior uses. `shared` are the
    curves shared by labels, for labels that are added later.
    """

    curves: LPRCurves
    shared: SharedCurves
    absent: Float

    def __post_init__(self) -> None:
        if self.absent.shape != (self.curves.n_labels,) or not np.all(
            (self.absent >= 0.0) & (self.absent <= 1.0)
        ):
            raise DataError("Implied LPRs: `absent` must hold one LPR per label.")

    def close(
        self, lpr: scipy.sparse.csr_array, hierarchy: Hierarchy, *, n_jobs: int | None = None
    ) -> scipy.sparse.csr_array:
        """Add the ancestors of every listed label, with their LPRs."""
        closed = close_listed(lpr, hierarchy)
        if not closed.is_implied.any():
            return lpr
        at = np.flatnonzero(closed.is_implied)
        closed.value[at] = self.curves.evaluate_each(
            closed.label[at], closed.value[at], n_jobs=n_jobs
        )
        return scipy.sparse.csr_array((closed.value, closed.label, closed.row_ptr), shape=lpr.shape)

    def select(self, labels: Sequence[int], depth: NDArray[np.integer], rate: Float) -> ImpliedLPR:
        """Return the curves of some labels; a number past the last stands for a new label.

        A new label gets the shared curve of its depth, and its prevalence where it is not listed.
        """
        index, size = np.asarray(labels, dtype=np.int64), self.absent.size
        curves = LPRCurves.join([self.curves, self.shared.curves])
        number = np.where(index < size, index, size + self.shared.curve_of(depth))
        absent = self.absent[np.minimum(index, size - 1)]
        return ImpliedLPR(curves.select(number), self.shared, np.where(index < size, absent, rate))


def fit_listed(
    scores: scipy.sparse.csr_array,
    truth: Truth,
    hierarchy: Hierarchy,
    *,
    method: Any,
    n_jobs: int | None = None,
    sample_weight: Float | None = None,
    depth: NDArray[np.integer] | None = None,
    shared: SharedCurves | None = None,
) -> tuple[LPRModel, ImpliedLPR]:
    """Fit the curves of listed scores, and those of implied labels.

    The curve of a label is learned from all samples except those in which it is implied, because it
    is never applied to them. The curves of implied labels are learned from out-of-fold LPRs: LPRs
    of the training samples themselves would be far too optimistic for rare labels.
    """
    positive = scipy.sparse.csr_array(truth.positive)
    depths = hierarchy.levels if depth is None else depth
    options: dict[str, Any] = {"depth": depths, "n_jobs": n_jobs}
    pairs = weigh_pairs(scores, truth, hierarchy, None, sample_weight)

    def fit(rows: Any, method: Any, closed: Closed) -> LPRModel:
        weights = None if pairs is None else pairs.take(rows)
        implied, _, _ = _weigh_pairs(closed, positive[rows], weights)
        data = read_training_data(scores[rows], positive[rows], weights, implied)
        if truth.cluster is not None:
            data = replace(data, cluster=truth.cluster[rows])
        return fit_data(data, method=method, shared=shared, **options)

    whole = close_listed(scores, hierarchy)
    model = fit(slice(None), method, whole)
    lpr = model.curves.evaluate(scores).data
    half = assign_folds(2, scores, positive, cluster=truth.cluster)
    rows = [np.flatnonzero(half == side) for side in (0, 1)]
    if whole.is_implied.any() and all(scores[x].nnz for x in rows):
        chosen = with_sharing(method, model.shared)
        chosen = chosen.coarser() if isinstance(chosen, Auto) else chosen
        halves = [fit(x, chosen, close_listed(scores[x], hierarchy)) for x in rows]
        first, second = (half.curves.evaluate(scores).data for half in halves)
        lpr = np.where(np.repeat(half, np.diff(scores.indptr)) == 0, second, first)
    unseen = scipy.sparse.csr_array((lpr, scores.indices, scores.indptr), shape=scores.shape)
    closed = close_listed(unseen, hierarchy)
    implied_weight, listed_weight, all_samples = _weigh_pairs(closed, positive, pairs)
    at = closed.is_implied
    ptr = np.append(0, np.cumsum(at))[closed.row_ptr]
    implied = scipy.sparse.csr_array((closed.value[at], closed.label[at], ptr), shape=scores.shape)
    is_scored = (np.diff(scores.indptr) > 0).astype(np.float64)
    excluded = all_samples - implied_weight
    data = TrainingData(implied.tocsc(), positive.tocsc(), is_scored, pairs, excluded)
    above = fit_data(data, method=Auto(scale="score", kappa=IMPLIED_KAPPA), **options)
    total, n_positive = np.maximum(all_samples - listed_weight, 0.0)
    absent = np.minimum((n_positive + model.report.base_rate) / (total + 1.0), 1.0)
    assert above.shared is not None
    return model, ImpliedLPR(above.curves, above.shared, absent)


def _weigh_pairs(
    closed: Closed, truth: scipy.sparse.csr_array, pairs: PairWeights | None
) -> tuple[Float, Float, Float]:
    """Return total and positive weight per label (2, n_labels) of implied, listed and all pairs.

    Samples that list nothing do not count.
    """
    n_labels = truth.shape[1]
    holds, weight = closed.holds(truth), np.ones(closed.label.size)
    used = np.diff(closed.row_ptr) > 0
    positives = np.asarray(truth[used].sum(axis=0), dtype=np.float64)
    all_samples = np.stack([np.full(n_labels, float(used.sum())), positives])
    if pairs is not None:
        row = np.repeat(np.arange(used.size), np.diff(closed.row_ptr))
        columns = truth.tocsc()
        for k in range(n_labels):
            each, is_label = pairs.weight(k), closed.label == k
            weight[is_label] = each[row[is_label]]
            at = columns.indices[columns.indptr[k] : columns.indptr[k + 1]]
            all_samples[:, k] = each.sum(), each[at].sum()

    def sums(at: NDArray[np.bool_]) -> Float:
        each = [np.bincount(closed.label[at], w[at], n_labels) for w in (weight, weight * holds)]
        return np.stack(each).astype(np.float64)  # empty counts are integers

    return sums(closed.is_implied), sums(~closed.is_implied), all_samples
