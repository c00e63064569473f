"""What every estimator of local precision rates gets, gives back and compiles to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix
from hierlpr._kernels._threads import row_chunks, run_chunks, threads_for
from hierlpr._kernels.smoothing import compress_curves, evaluate_curves, evaluate_stored
from hierlpr.exceptions import DataError

LPR_FLOOR = 1e-9  # fitted LPRs stay this far from 0 and 1: a sample never excludes what it lacks
MOST_EXACT_GROUPS = 512  # beyond so many distinct scores, nearly equal LPRs share a knot


@dataclass(frozen=True, slots=True, eq=False)
class ScoreGroups:
    """The training data of some labels, each as groups of samples with equal score.

    The groups of label ``k`` are ``ptr[k]:ptr[k + 1]``, by rising score. `total` is the weight of
    a group and `positive` that of its positives; without sample weights both are counts. Ranks,
    and so everything rank-based, are functions of these two alone. A first group of score -inf
    holds the samples that do not list the label; no curve has a knot there. `n_samples` is given
    where labels leave different samples out: the weight of all, the same for whatever labels.
    `n_scores` is given where a group stands for several scores: how many there are of a label.
    """

    ptr: NDArray[np.int64]
    score: NDArray[np.float64]
    positive: NDArray[np.float64]
    total: NDArray[np.float64]
    n_samples: float | None = None
    n_scores: NDArray[np.int64] | None = None

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.ptr.size - 1

    @property
    def n_groups(self) -> NDArray[np.int64]:
        """Number of distinct scores of each label."""
        return np.diff(self.ptr)

    def sum_by_label(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of a value per group over the groups of each label."""
        # Every label has at least one group, so reduceat has no empty runs.
        sums: NDArray[np.float64] = np.add.reduceat(values, self.ptr[:-1])
        return sums


@dataclass(slots=True, eq=False)
class GroupFit:
    """What an estimator found: an LPR per group, and how it came to it, per label.

    `lpr` need be neither monotone nor inside (0, 1); both are seen to on compiling. `smoothing`
    is in the estimator's own unit, NaN where it has none. `weak` marks labels that had to borrow
    strength, `fallback` says why in words (empty for none), and `slope` is that of the log-odds
    on the normal score of the rank (NaN if unknown).
    """

    lpr: NDArray[np.float64]
    smoothing: NDArray[np.float64]
    estimator: list[str]
    fallback: list[str]
    slope: NDArray[np.float64]
    weak: NDArray[np.bool_]

    @classmethod
    def empty(cls, groups: ScoreGroups, name: str) -> GroupFit:
        """Fields of the right size, to be filled in."""
        n_labels = groups.n_labels
        return cls(
            lpr=np.empty(groups.total.size),
            smoothing=np.full(n_labels, np.nan),
            estimator=[name] * n_labels,
            fallback=[""] * n_labels,
            slope=np.full(n_labels, np.nan),
            weak=np.zeros(n_labels, np.bool_),
        )


class Estimator(Protocol):
    """One way to estimate local precision rates: a frozen dataclass of its options.

    Estimators see the scores' order alone: no strictly increasing transform of a label's scores
    changes what they return for it. "probability" is the exception.
    """

    name: ClassVar[str]

    def fit_groups(self, groups: ScoreGroups) -> GroupFit:
        """Estimate the LPR of every group. Called from several threads at once."""
        ...


@runtime_checkable
class PoolingEstimator(Estimator, Protocol):
    """An estimator that can lend weakly supported labels the experience of the others."""

    def without_weak(self) -> Estimator:
        """Return the estimator for a first fit, which may leave weak labels for `with_pool`."""
        ...

    def with_pool(self, slopes: NDArray[np.float64]) -> Estimator | None:
        """Return the estimator for weak labels, given the others' slopes; None: as they are."""
        ...


def prevalence_fit(groups: ScoreGroups) -> NDArray[np.float64]:
    """Smoothed prevalence ``(positives + 1/2) / (samples + 1)`` of its label, for every group."""
    prevalence = (groups.sum_by_label(groups.positive) + 0.5) / (
        groups.sum_by_label(groups.total) + 1.0
    )
    return np.repeat(prevalence, groups.n_groups)


def fall_back_to_prevalence(groups: ScoreGroups, fit: GroupFit, *, least: float) -> None:
    """Give the smoothed prevalence to labels without `least` samples of both classes or two scores.

    Changes `fit` in place and says why.
    """
    n_positive = groups.sum_by_label(groups.positive)
    n_negative = groups.sum_by_label(groups.total) - n_positive
    too_few = np.minimum(n_positive, n_negative) < least * (1.0 - 1e-9)
    bad = np.flatnonzero(too_few | (groups.n_groups == 1))
    if bad.size == 0:
        return
    prevalence = prevalence_fit(groups)
    for k in bad:
        fit.lpr[groups.ptr[k] : groups.ptr[k + 1]] = prevalence[groups.ptr[k]]
        fit.estimator[k] = "prevalence"
        fit.smoothing[k] = fit.slope[k] = np.nan
        fit.weak[k] = True
        if groups.n_groups[k] == 1:
            fit.fallback[k] = "all scores are equal: the prevalence"
        else:
            kind = "positive" if n_positive[k] < n_negative[k] else "negative"
            count = min(n_positive[k], n_negative[k])
            plural = "" if round(count, 6) == 1 else "s"
            fit.fallback[k] = f"{count:.3g} {kind}{plural}: the prevalence"


def fall_back_to_shares(groups: ScoreGroups, fit: GroupFit, *, fewer_than: int) -> None:
    """Give labels with too few distinct scores for a smooth curve each score's own share.

    Changes `fit` in place and says why.
    """
    for k in np.flatnonzero(groups.n_groups < fewer_than):
        at = slice(groups.ptr[k], groups.ptr[k + 1])
        fit.lpr[at] = (groups.positive[at] + 0.5) / (groups.total[at] + 1.0)
        fit.estimator[k] = "shares"
        fit.smoothing[k] = np.nan
        fit.fallback[k] = f"{groups.n_groups[k]} distinct scores: the share of positives of each"


@dataclass(frozen=True, slots=True, eq=False)
class LPRCurves:
    """Monotone curves from score to LPR, one per label: what every estimator compiles to.

    The knots of label ``k`` are ``knot_ptr[k]:knot_ptr[k + 1]``, with strictly rising
    `knot_score` and non-falling `knot_lpr`. Knots are observed scores. Between two knots the LPR
    is linear in the score, and beyond the outer ones constant; so a score between two observed
    neighbours has an LPR between theirs. Runs of observed scores with one LPR have a knot at each
    end, which is why the LPRs of observed scores do not depend on the distances between scores.

    Curves of different labels share nothing: they can be selected, mixed and joined.
    """

    knot_ptr: NDArray[np.int64]
    knot_score: NDArray[np.float64]
    knot_lpr: NDArray[np.float64]
    _is_checked: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if not self._is_checked:
            _check_curves(self.knot_ptr, self.knot_score, self.knot_lpr)

    @classmethod
    def from_groups(cls, groups: ScoreGroups, lpr: NDArray[np.float64]) -> LPRCurves:
        """Compile monotone LPRs per group to knots."""
        ptr, score, total = groups.ptr, groups.score, groups.total
        is_listed = score > -np.inf
        if not is_listed.all():
            before = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_listed)])
            ptr, score, total, lpr = before[ptr], score[is_listed], total[is_listed], lpr[is_listed]
        n_scores = np.diff(ptr) if groups.n_scores is None else groups.n_scores
        knots = compress_curves(ptr, score, lpr, total, n_scores <= MOST_EXACT_GROUPS)
        return cls(*knots, _is_checked=True)

    @classmethod
    def join(cls, parts: Sequence[LPRCurves]) -> LPRCurves:
        """All labels of `parts`, in order; their knots are copied bit for bit."""
        sizes = [np.diff(part.knot_ptr) for part in parts]
        ptr = np.concatenate([np.zeros(1, np.int64), *sizes]).cumsum()
        return cls(
            ptr,
            np.concatenate([np.empty(0), *(part.knot_score for part in parts)]),
            np.concatenate([np.empty(0), *(part.knot_lpr for part in parts)]),
            _is_checked=True,
        )

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.knot_ptr.size - 1

    def curve(self, label: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores and LPRs of the knots of one label."""
        knots = slice(self.knot_ptr[label], self.knot_ptr[label + 1])
        return self.knot_score[knots], self.knot_lpr[knots]

    def select(self, labels: Sequence[int] | NDArray[np.integer]) -> LPRCurves:
        """Return the curves of the given label numbers, in that order, bit for bit."""
        index = np.asarray(labels, dtype=np.int64)
        sizes = np.diff(self.knot_ptr)[index]
        ptr = np.concatenate([np.zeros(1, np.int64), sizes]).cumsum()
        take = np.repeat(self.knot_ptr[:-1][index] - ptr[:-1], sizes) + np.arange(ptr[-1])
        return LPRCurves(ptr, self.knot_score[take], self.knot_lpr[take], _is_checked=True)

    def evaluate(self, scores: Matrix, *, n_threads: int | None = None) -> Matrix:
        """LPRs of a checked float64 matrix of scores; sparse in, sparse out (same places)."""
        if not isinstance(scores, np.ndarray):
            column = np.asarray(scores.indices, dtype=np.int32)
            lpr = self.evaluate_each(column, scores.data, n_threads=n_threads)
            return scipy.sparse.csr_array((lpr, scores.indices, scores.indptr), shape=scores.shape)
        threads = threads_for(scores.size, n_threads)
        knots = (self.knot_ptr, self.knot_score, self.knot_lpr)
        dense = np.ascontiguousarray(scores)
        out = np.empty_like(dense)
        n_samples, n_labels = dense.shape

        def of_rows(start: int, stop: int) -> None:
            evaluate_curves(dense[start:stop], 0, n_labels, *knots, out[start:stop])

        def of_labels(start: int, stop: int) -> None:
            evaluate_curves(dense, start, stop, *knots, out)

        # The knots of a label come from far: where they are more than its scores, to one thread.
        if n_labels > n_samples:
            run_chunks(of_labels, row_chunks((n_labels, n_samples), threads), threads)
        else:
            run_chunks(of_rows, row_chunks(dense.shape, threads), threads)
        return out

    def evaluate_each(
        self, label: NDArray[np.int32], scores: NDArray[np.float64], *, n_threads: int | None
    ) -> NDArray[np.float64]:
        """LPRs of scores, each on the curve of its own label number."""
        threads = threads_for(scores.size, n_threads)
        knots = (self.knot_ptr, self.knot_score, self.knot_lpr)
        out = np.empty_like(scores)

        def evaluate(start: int, stop: int) -> None:
            evaluate_stored(label[start:stop], scores[start:stop], *knots, out[start:stop])

        run_chunks(evaluate, row_chunks(scores.shape, threads), threads)
        return out


def _check_curves(
    ptr: NDArray[np.int64], score: NDArray[np.float64], lpr: NDArray[np.float64]
) -> None:
    """Refuse arrays that are not curves, for example from a damaged file."""
    shapes = ptr.ndim == score.ndim == lpr.ndim == 1 and ptr.size > 0
    if not shapes or ptr[0] != 0 or ptr[-1] != score.size or score.size != lpr.size:
        raise DataError("LPR curves: knot_ptr, knot_score and knot_lpr do not fit together.")
    if np.any(np.diff(ptr) < 1):
        raise DataError(f"LPR curves: label {int(np.argmax(np.diff(ptr) < 1))} has no knot.")
    # NaN fails all comparisons, so that the ends clear all that lies between, without a copy.
    finite = -np.inf < score.min(initial=0.0) and score.max(initial=0.0) < np.inf
    if not (finite and lpr.min(initial=0.0) >= 0.0 and lpr.max(initial=0.0) <= 1.0):
        raise DataError("LPR curves: scores must be finite and LPRs must lie in [0, 1].")
    inside = np.ones(score.size, np.bool_)
    inside[ptr[:-1]] = False  # the first knot of a label has no neighbour to its left
    falls = inside[1:] & ((score[1:] <= score[:-1]) | (lpr[1:] < lpr[:-1]))
    if falls.any():
        label = int(np.searchsorted(ptr, int(np.argmax(falls)) + 1, side="right")) - 1
        raise DataError(
            f"LPR curves: the curve of label {label} is not monotone: scores must rise strictly "
            "and LPRs must not fall."
        )
