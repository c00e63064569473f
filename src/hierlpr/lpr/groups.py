"""Score and truth matrices to groups of tied scores, a few labels at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._base.checks import (
    Matrix,
    check_finite,
    check_real_array,
    check_sample_weight,
    is_sparse,
)
from hierlpr._kernels.smoothing import group_sorted, group_stored
from hierlpr.data.partial_truth import (
    AnyTruth,
    PartialTruth,
    base_rate,
    curve_weights,
    truth_column,
)
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr.base import ScoreGroups

Places = tuple[NDArray[np.int64], NDArray[np.int64]]  # where labels begin, and rows of the entries


class Gaps(NamedTuple):
    """Samples that a label's curve leaves out, by label: all their weight, and the positives'.

    They list a descendant but not the label itself, see `hierlpr.lpr.implied`.
    """

    total: NDArray[np.float64]
    positive: NDArray[np.float64]

    @classmethod
    def none(cls, n_labels: int) -> Gaps:
        """Leave out nothing."""
        return cls(np.zeros(n_labels), np.zeros(n_labels))

    def of(self, labels: Any) -> Gaps:
        """Return those of some labels."""
        return Gaps(self.total[labels], self.positive[labels])


class TruthCounts(NamedTuple):
    """Samples of each class that a label is learned from, those where it is unknown, its rate.

    `base_rate` is P(label) before any score, smoothed.
    """

    positives: NDArray[np.int64]
    negatives: NDArray[np.int64]
    unknown: NDArray[np.int64]
    base_rate: NDArray[np.float64]

    @classmethod
    def of(cls, positives: NDArray[np.int64], negatives: NDArray[np.int64]) -> TruthCounts:
        """Count labels of which nothing is unknown."""
        rate = np.asarray((positives + 0.5) / (positives + negatives + 1.0))
        return cls(positives, negatives, np.zeros_like(positives), rate)


class LabelData(Protocol):
    """Scores and truth of many labels, in memory or elsewhere; asked by several threads at once."""

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        ...

    @property
    def values_per_label(self) -> int:
        """How many scores a label has to be sorted by, for the size of chunks."""
        ...

    def groups(self, labels: NDArray[np.int64]) -> ScoreGroups:
        """Return the groups of some labels."""
        ...

    def count_truth(self, labels: NDArray[np.int64]) -> TruthCounts:
        """Count the samples behind some labels."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PairWeights:
    """What each sample weighs in the curve of a label, where not all pairs do alike.

    A pair counts where its truth is known and its score is there (no `gaps`), and a sample as much
    as `sample_weight` says; see :func:`hierlpr.data.partial_truth.curve_weights`.
    """

    truth: AnyTruth
    hierarchy: Hierarchy
    gaps: NDArray[np.bool_] | None = None
    sample_weight: NDArray[np.float64] | None = None

    def take(self, rows: Any) -> PairWeights:
        """Return those of some samples among themselves."""
        gaps, weight = (None if x is None else x[rows] for x in (self.gaps, self.sample_weight))
        return PairWeights(self.truth[rows], self.hierarchy, gaps, weight)

    def weight(self, label: int) -> NDArray[np.float64]:
        """Return one weight a sample; 0 leaves it out, and not all are 0."""
        given = self.sample_weight
        weight = curve_weights(self.truth, self.hierarchy, int(label), given)
        if self.gaps is not None:
            weight[self.gaps[:, label]] = 0.0
        # In a part of the samples nothing may be known of a label: it is then not seen to hold.
        if not weight.any():
            weight = np.ones_like(weight) if given is None else (given > 0.0).astype(np.float64)
        return weight

    def held(self, label: int) -> NDArray[np.bool_]:
        """Return which samples have a label."""
        return truth_column(self.truth, int(label))

    def count_truth(self, labels: NDArray[np.int64]) -> TruthCounts:
        """Count the samples behind some labels."""
        weights = [self.weight(int(k)) for k in labels]
        held = [self.held(int(k)) for k in labels]
        both = list(zip(weights, held, strict=True))
        positives = np.array([np.count_nonzero((w > 0.0) & h) for w, h in both])
        sizes = np.array([np.count_nonzero(w) for w in weights])
        counts = TruthCounts.of(positives, sizes - positives)
        if self.sample_weight is None and not isinstance(self.truth, PartialTruth):
            return counts
        counts = counts._replace(base_rate=np.array([base_rate(h, w) for w, h in both]))
        if isinstance(self.truth, PartialTruth):
            counts = counts._replace(unknown=self.truth.n_unknown[labels])
        return counts


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """Checked scores and truth (both dense, or both CSC) with one weight a sample.

    `gaps` belong to CSC scores; `pairs` are given where not every pair weighs the same.
    """

    scores: Matrix | scipy.sparse.csc_array
    truth: NDArray[np.bool_] | scipy.sparse.csc_array
    weight: NDArray[np.float64]
    is_weighted: bool
    gaps: Gaps
    pairs: PairWeights | None = None

    @property
    def n_samples(self) -> int:
        """Number of samples, those of weight 0 included."""
        return int(self.scores.shape[0])

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.scores.shape[1])

    @property
    def values_per_label(self) -> int:
        """How many scores a label has to be sorted by: all, or the stored ones on average."""
        if isinstance(self.scores, np.ndarray):
            return self.n_samples
        return 1 + int(self.scores.nnz) // self.n_labels

    def count_truth(self, labels: NDArray[np.int64]) -> TruthCounts:
        """Count the samples of positive weight behind some labels."""
        if self.pairs is not None:
            return self.pairs.count_truth(labels)
        used = self.weight > 0.0
        truth: Any = self.truth[:, labels]
        if isinstance(truth, np.ndarray):
            positives = np.count_nonzero(truth[used] if self.is_weighted else truth, axis=0)
        else:
            stored = used[truth.indices].astype(np.int64)
            running = np.concatenate([np.zeros(1, np.int64), stored.cumsum()])
            positives = np.diff(running[truth.indptr])
        positives = np.asarray(positives, dtype=np.int64)
        return TruthCounts.of(positives, int(np.count_nonzero(used)) - positives)

    def groups(self, labels: NDArray[np.int64]) -> ScoreGroups:
        """Return the groups of some labels; their rows are sorted here, O(n log n) each."""
        if not isinstance(self.scores, np.ndarray):
            scores = self.scores[:, labels]
            truth: Any = self.truth[:, labels]
            weight: Any = self.weight
            if self.pairs is not None:
                weight = [self.pairs.weight(int(k)) for k in labels]
            return group_columns(
                _places(scores), scores.data, _places(truth), weight, self.gaps.of(labels)
            )
        rows = np.ascontiguousarray(self.scores[:, labels].T)
        truth_rows = np.ascontiguousarray(self.truth[:, labels].T)
        if self.pairs is not None:
            return group_weighted(rows, truth_rows, [self.pairs.weight(k) for k in labels])
        if not self.is_weighted:
            return group_rows(rows, truth_rows, self.weight)
        # Ties are sorted too, so that weights add up in an order the input's has no part in.
        order = np.stack(
            [np.lexsort((self.weight, t, s)) for s, t in zip(rows, truth_rows, strict=True)]
        )
        return ScoreGroups(*group_sorted(rows, truth_rows, order, self.weight))


def group_rows(
    scores: NDArray[np.float64], truth: NDArray[np.bool_], weight: NDArray[np.float64]
) -> ScoreGroups:
    """Group the scores of labels that come as rows; the weights are equal."""
    return ScoreGroups(*group_sorted(scores, truth, np.argsort(scores, axis=1), weight))


def group_weighted(
    scores: NDArray[np.float64], truth: NDArray[np.bool_], weights: list[NDArray[np.float64]]
) -> ScoreGroups:
    """Group the scores of labels that come as rows, each with weights of its own; 0 leaves out."""
    parts = []
    for row, held, weight in zip(scores, truth, weights, strict=True):
        # Ties are sorted too, so that weights add up in an order the input's has no part in.
        order = np.lexsort((weight, held, row))
        parts.append(group_sorted(row[None], held[None], order[None], weight))
    ptr = np.cumsum([0, *(part[1].size for part in parts)])
    score, positive, total = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3))
    return ScoreGroups(ptr, score, positive, total, float(scores.shape[1]))


def group_columns(
    places: Places,
    scores: NDArray[np.float64],
    held: Places,
    weight: NDArray[np.float64] | list[NDArray[np.float64]],
    gaps: Gaps,
) -> ScoreGroups:
    """Group the stored scores of labels, given the rows of the scores and of the positives.

    `weight` is that of the samples, or a list of one for each label; 0 leaves a sample out.
    """
    if isinstance(weight, np.ndarray):
        groups = group_stored(*places, scores, *held, weight, *gaps)
        return ScoreGroups(*groups, float(weight.sum()))
    parts = []
    for k, own in enumerate(weight):
        (ptr, row), (held_ptr, held_row) = places, held
        mine = slice(ptr[k], ptr[k + 1])
        used = own[row[mine]] > 0.0
        rows, above = row[mine][used], held_row[held_ptr[k] : held_ptr[k + 1]]
        ends = [np.array([0, x.size], dtype=np.int64) for x in (rows, above)]
        parts.append(
            group_stored(
                ends[0], rows, scores[mine][used], ends[1], above, own, *gaps.of(slice(k, k + 1))
            )
        )
    ptr = np.cumsum([0, *(part[1].size for part in parts)])
    score, positive, total = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3))
    return ScoreGroups(ptr, score, positive, total, float(weight[0].size))


def _places(columns: scipy.sparse.csc_array) -> Places:
    return columns.indptr.astype(np.int64), columns.indices.astype(np.int64)


def check_scores(scores: Any, labels: Sequence[str] | None) -> Matrix:
    """Finite float64 scores (n_samples, n_labels), dense or canonical CSR; one label may be 1-d."""
    if is_sparse(scores):
        if scores.dtype.kind not in "biuf":
            raise DataError(f"scores must hold real numbers, got dtype {scores.dtype}.")
        matrix = scipy.sparse.csr_array(scores, dtype=np.float64)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        names = _names(labels, matrix.shape[1])
        check_finite(matrix, names, name="scores")
        return matrix
    dense = check_real_array(scores, name="scores")
    if dense.ndim == 1:
        dense = dense[:, np.newaxis]
    if dense.ndim != 2:
        raise DataError(
            f"scores must be a matrix (n_samples, n_labels) or one label's vector, got shape "
            f"{dense.shape}."
        )
    if dense.size and not np.isfinite(dense.sum()):  # names are not made for nothing
        check_finite(dense, _names(labels, dense.shape[1]), name="scores")
    return dense


def read_training_data(
    scores: Any,
    truth: Any,
    sample_weight: Any,
    labels: Sequence[str] | None,
    gaps: Gaps | None = None,
    pairs: PairWeights | None = None,
) -> TrainingData:
    """Check scores, truth and weights against each other."""
    checked = check_scores(scores, labels)
    n_samples, n_labels = checked.shape
    if n_samples == 0 or n_labels == 0:
        raise DataError(f"There is nothing to fit: scores have shape {checked.shape}.")
    if labels is not None and len(labels) != n_labels:
        raise DataError(f"scores have {n_labels:,} columns but there are {len(labels):,} labels.")
    bool_truth = _check_truth(truth, (n_samples, n_labels))
    weight, is_weighted = _check_weight(sample_weight, n_samples)
    if isinstance(checked, np.ndarray):
        if not isinstance(bool_truth, np.ndarray):
            bool_truth = bool_truth.toarray()
        return TrainingData(checked, bool_truth, weight, is_weighted, Gaps.none(n_labels), pairs)
    # A sample that lists nothing was not looked at: in a long table it would not even be there.
    weight = np.where(np.diff(checked.indptr) > 0, weight, 0.0)
    if not weight.any():
        raise DataError(
            "scores list nothing: no entry of the sparse matrix is stored.\n"
            "Hint: store the scores there are, zeros included, or pass a dense matrix."
        )
    csc_truth, gaps = scipy.sparse.csc_array(bool_truth), gaps or Gaps.none(n_labels)
    return TrainingData(
        scipy.sparse.csc_array(checked), csc_truth, weight, is_weighted, gaps, pairs
    )


def _names(labels: Sequence[str] | None, n_labels: int) -> Sequence[str]:
    return labels if labels is not None else [str(k) for k in range(n_labels)]


def _check_truth(truth: Any, shape: tuple[int, int]) -> Any:
    if is_sparse(truth):
        stored = truth.data
        # A copy, as zeros are removed in place.
        matrix = scipy.sparse.csr_array(truth, dtype=np.bool_, copy=True)
        matrix.eliminate_zeros()
    else:
        matrix = np.asarray(truth)
        matrix = matrix[:, np.newaxis] if matrix.ndim == 1 else matrix
        stored = matrix
    if matrix.shape != shape:
        raise DataError(
            f"truth has shape {matrix.shape} but scores have shape {shape}: they must agree."
        )
    if stored.dtype != np.bool_ and not np.all((stored == 0) | (stored == 1)):
        bad = stored[~((stored == 0) | (stored == 1))]
        raise DataError(f"truth must hold only 0 and 1 (or booleans), got {bad.flat[0]!r}.")
    return matrix if is_sparse(truth) else np.ascontiguousarray(matrix, dtype=np.bool_)


def _check_weight(sample_weight: Any, n_samples: int) -> tuple[NDArray[np.float64], bool]:
    """Weights scaled so that they add up to the effective number of samples (Kish)."""
    weight = check_sample_weight(sample_weight, n_samples)
    if weight is None:
        return np.ones(n_samples), False
    weight = weight / weight.max()
    ordered = np.sort(weight)  # the sums are the same for every order of the samples
    return weight * (ordered.sum() / (ordered * ordered).sum()), True
