"""Training data of LPR curves: score and truth matrices as groups of tied scores per label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._utils.checks import (
    Matrix,
    check_finite,
    check_real_array,
)
from hierlpr.data.pair_weights import base_rate, curve_weights
from hierlpr.data.tables import Table, align, dense
from hierlpr.data.truth import Truth
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

Float = NDArray[np.float64]
Ints = NDArray[np.int64]
# Numbers of positive, negative and unknown samples per label, and smoothed P(label).
TruthCounts = tuple[Ints, Ints, Ints, Float]


@dataclass(frozen=True, slots=True, eq=False)
class ScoreGroups:
    """Training data of some labels, as groups of samples with equal score.

    The groups of label ``k`` are ``ptr[k]:ptr[k + 1]``, in order of increasing score. `total` is
    the weight of a group and `positive` that of its positives; without sample weights both are
    counts. A first group of score -inf holds the samples that do not list the label; no curve has
    a knot there. `n_samples` is the weight of all samples, the same for all labels of a fit.
    """

    ptr: Ints
    score: Float
    positive: Float
    total: Float
    n_samples: float

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.ptr.size - 1

    @property
    def n_groups(self) -> Ints:
        """Number of distinct scores per label."""
        return np.diff(self.ptr)

    def sum_by_label(self, values: Float) -> Float:
        """Sum values of groups over each label."""
        # Every label has at least one group, so reduceat has no empty runs.
        return np.asarray(np.add.reduceat(values, self.ptr[:-1]))


def order_by(number: Ints, value: Float) -> Ints:
    """Return the order by small numbers, then by value; much faster than lexsort."""
    order = np.argsort(value)
    kind = np.uint16 if number.max(initial=0) < 2**16 else np.int64
    return np.asarray(order[np.argsort(number[order].astype(kind), kind="stable")])


def group_sorted(
    scores: Float, truth: NDArray[np.bool_], weight: Float, n_samples: float
) -> ScoreGroups:
    """Merge equal scores of each row into groups, with their total and positive weight.

    Rows are labels. `weight` has one row per label, or a single row for all. Samples of weight 0
    are left out; every label has another one.
    """
    order = np.argsort(scores, axis=1)
    score: Float = np.take_along_axis(scores, order, axis=1)
    is_true: NDArray[np.bool_] = np.take_along_axis(truth, order, axis=1)
    mass: Float = np.take_along_axis(np.broadcast_to(weight, scores.shape), order, axis=1)
    used = mass > 0.0
    ptr = np.append(0, np.cumsum(np.count_nonzero(used, axis=1)))
    if used.all():
        return _merge_equal(ptr, score.ravel(), (mass * is_true).ravel(), mass.ravel(), n_samples)
    return _merge_equal(ptr, score[used], (mass * is_true)[used], mass[used], n_samples)


def _merge_equal(
    ptr: Ints, score: Float, positive: Float, total: Float, n_samples: float
) -> ScoreGroups:
    """Add up the weights of equal scores, which are sorted within each label."""
    is_first = np.diff(score, prepend=np.nan) != 0.0
    is_first[ptr[:-1][np.diff(ptr) > 0]] = True
    first = np.flatnonzero(is_first)
    if first.size:
        positive, total = np.add.reduceat(positive, first), np.add.reduceat(total, first)
    # Adding 0.0 turns -0.0 into 0.0, so that equal scores have equal bits.
    return ScoreGroups(np.searchsorted(first, ptr), score[first] + 0.0, positive, total, n_samples)


def group_stored(
    scores: scipy.sparse.csc_array,
    truth: scipy.sparse.csc_array,
    weight: Float,
    excluded: Float,
    n_samples: float,
) -> ScoreGroups:
    """Do the same as `group_sorted` for sparse columns; unstored entries form the lowest group.

    That group has the score -inf, if it is not empty. `excluded` (2, n_labels) is the weight of
    each label's samples that it leaves out, and of the positives among them.
    """
    n_rows, n_labels = scores.shape
    each, n_weights = np.arange(n_labels), len(weight)
    label, true_label = (np.repeat(each, np.diff(x.indptr)) for x in (scores, truth))
    key, true_key = label * n_rows + scores.indices, true_label * n_rows + truth.indices
    is_true = np.isin(key, true_key)
    mass = weight[label % n_weights, scores.indices]
    all_weight = weight.sum(axis=1)[each % n_weights]
    true_weight = np.bincount(true_label, weight[true_label % n_weights, truth.indices], n_labels)
    used = mass > 0.0
    label, score, mass, is_true = label[used], scores.data[used], mass[used], is_true[used]
    order = order_by(label, score)
    positive = (mass * is_true)[order]
    ptr = np.append(0, np.cumsum(np.bincount(label, minlength=n_labels)))
    listed = _merge_equal(ptr, score[order], positive, mass[order], n_samples)
    total = all_weight - excluded[0] - np.bincount(label, mass, n_labels)
    is_empty = total <= 1e-9 * all_weight
    # A label that is always implied and never stored has its prevalence.
    below = true_weight - excluded[1] - np.bincount(label, mass * is_true, n_labels)
    total = np.where(is_empty, excluded[0], total)
    below = np.clip(np.where(is_empty, excluded[1], below), 0.0, total)
    lowest = np.flatnonzero(~is_empty | (listed.n_groups == 0))
    at = listed.ptr[lowest]
    return ScoreGroups(
        listed.ptr + np.searchsorted(lowest, np.append(each, n_labels)),
        np.insert(listed.score, at, -np.inf),
        np.insert(listed.positive, at, below[lowest]),
        np.insert(listed.total, at, total[lowest]),
        n_samples,
    )


@dataclass(frozen=True, slots=True, eq=False)
class PairWeights:
    """Weight of each (sample, label) pair, where they differ between labels.

    A pair has weight 0 if its truth is unknown or its score is missing (`missing`); see
    :func:`hierlpr.data.pair_weights.curve_weights`.
    """

    truth: Truth
    hierarchy: Hierarchy
    missing: NDArray[np.bool_] | None = None
    sample_weight: Float | None = None

    def take(self, rows: Any) -> PairWeights:
        """Return the weights of some samples, computed from these samples alone."""
        missing = None if self.missing is None else self.missing[rows]
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        return PairWeights(self.truth[rows], self.hierarchy, missing, weight)

    def weight(self, label: int) -> Float:
        """Return the weights of all samples for one label; at least one is positive."""
        sample_weight = self.sample_weight
        weight = curve_weights(self.truth, self.hierarchy, int(label), sample_weight)
        if self.missing is not None:
            weight[self.missing[:, label]] = 0.0
        # A label that these samples do not annotate counts as never positive.
        if not weight.any():
            is_used = sample_weight is None or sample_weight > 0.0
            weight = np.where(is_used, np.ones_like(weight), 0.0)
        return weight


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """Checked scores and truth, both dense or both CSC; `weight` is 0 for samples left out, else 1.

    `pairs` is set if not all pairs weigh the same, and then replaces `weight`. `excluded` (2,
    n_labels), for CSC scores only, is the weight per label of samples that its curve leaves out,
    and of the positives among them. `cluster` identifies the clusters of samples, if there are any.
    """

    scores: Matrix | scipy.sparse.csc_array
    truth: NDArray[np.bool_] | scipy.sparse.csc_array
    weight: Float
    pairs: PairWeights | None = None
    excluded: Float | None = None
    cluster: NDArray[Any] | None = None

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.scores.shape[1])

    def take(self, rows: Ints) -> TrainingData:
        """Return some samples."""
        pairs = None if self.pairs is None else self.pairs.take(rows)
        return TrainingData(self.scores[rows], self.truth[rows], self.weight[rows], pairs)

    @property
    def values_per_label(self) -> int:
        """Number of scores to sort per label: all samples, or the mean number of stored ones."""
        if isinstance(self.scores, np.ndarray):
            return int(self.scores.shape[0])
        return 1 + int(self.scores.nnz) // self.n_labels

    def count_truth(self, labels: Ints) -> TruthCounts:
        """Count the samples of positive weight of some labels."""
        if self.pairs is None:
            unknown = np.zeros(len(labels), np.int64)
            used, truth = self.weight > 0.0, self.truth[:, labels]
            if isinstance(truth, np.ndarray):
                positives = np.count_nonzero(truth if used.all() else truth[used], axis=0)
            else:
                positives = truth.T @ used.astype(np.int64)
            n_used = np.count_nonzero(used)
            return positives, n_used - positives, unknown, (positives + 0.5) / (n_used + 1.0)
        truth = self.pairs.truth
        each = [(truth.column(int(k))[0], self.pairs.weight(int(k))) for k in labels]
        positives = np.array(
            [np.count_nonzero(is_true & (weight > 0.0)) for is_true, weight in each]
        )
        negatives = np.array(
            [np.count_nonzero(~is_true & (weight > 0.0)) for is_true, weight in each]
        )
        unknown = truth.n_unknown[labels]
        return positives, negatives, unknown, np.array([base_rate(*pair) for pair in each])

    def groups(self, labels: Ints) -> ScoreGroups:
        """Return the groups of some labels; sorts their scores, O(n log n) per label."""
        weight, n_samples = self.weight[None], float(self.weight.sum())
        if self.pairs is not None:
            weight = np.stack([self.pairs.weight(int(k)) for k in labels])
        if isinstance(self.scores, np.ndarray):
            rows = np.ascontiguousarray(self.scores[:, labels].T)
            is_true = np.ascontiguousarray(self.truth[:, labels].T)
            return group_sorted(rows, is_true, weight, n_samples)
        excluded = np.zeros((2, len(labels)))
        if self.excluded is not None:
            excluded = self.excluded[:, labels]
        columns, truth = self.scores[:, labels], self.truth[:, labels]
        return group_stored(columns, truth, weight, excluded, n_samples)


def check_scores(scores: Any, labels: Sequence[str] | None) -> Table:
    """Return finite float64 scores (n_samples, n_labels), dense or CSR; a vector is one label."""
    if np.ndim(scores) == 1:
        scores = check_real_array(scores, name="scores")[:, np.newaxis]
    table = align(scores, labels, name="scores")
    check_finite(table.values, table.labels, name="scores")
    return table


def weigh_pairs(
    scores: Matrix,
    truth: Truth,
    hierarchy: Hierarchy,
    missing: NDArray[np.bool_] | None,
    sample_weight: Float | None,
) -> PairWeights | None:
    """Return the weights of pairs, if they are not all equal."""
    if missing is None and sample_weight is None and truth.is_complete:
        return None
    if not isinstance(scores, np.ndarray):
        weight = np.ones(scores.shape[0]) if sample_weight is None else sample_weight
        sample_weight = np.where(np.diff(scores.indptr) > 0, weight, 0.0)
    return PairWeights(truth, hierarchy, missing, sample_weight)


def read_training_data(
    scores: Matrix, truth: Any, pairs: PairWeights | None = None, excluded: Float | None = None
) -> TrainingData:
    """Return training data from aligned scores and a matrix of bool, dense or CSR.

    A sample that lists nothing was not scored: in a long table it would not appear at all.
    """
    n_samples, n_labels = scores.shape
    if n_samples == 0 or n_labels == 0:
        raise DataError(f"There is nothing to fit: scores have shape {scores.shape}.")
    weight = np.ones(n_samples)
    if pairs is not None and pairs.sample_weight is not None:
        weight = np.where(pairs.sample_weight > 0.0, 1.0, 0.0)
    if isinstance(scores, np.ndarray):
        return TrainingData(scores, np.ascontiguousarray(dense(truth)), weight, pairs)
    weight *= np.diff(scores.indptr) > 0
    if not weight.any():
        raise DataError(
            "scores list nothing: no entry of the sparse matrix is stored.\n"
            "Hint: store all scores, zeros included, or pass a dense matrix."
        )
    csc_scores, csc_truth = scipy.sparse.csc_array(scores), scipy.sparse.csc_array(truth)
    return TrainingData(csc_scores, csc_truth, weight, pairs, excluded)
