"""Monotone curves from score to LPR, piecewise linear: the compiled form of every estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._kernels._jit import row_chunks, run_chunks, threads_for
from hierlpr._kernels.smoothing import compress_curves, evaluate_curves, evaluate_stored
from hierlpr._utils.checks import Matrix
from hierlpr.exceptions import DataError
from hierlpr.lpr.training import Float, Ints, ScoreGroups

LPR_FLOOR = 1e-9  # fitted LPRs stay this far from 0 and 1
MAX_EXACT_GROUPS = 512  # with more distinct scores, nearly equal LPRs share a knot


@dataclass(frozen=True, slots=True, eq=False)
class LPRCurves:
    """Monotone curves from score to LPR, one per label.

    The knots of label ``k`` are ``knot_ptr[k]:knot_ptr[k + 1]``, with strictly increasing
    `knot_score` and non-decreasing `knot_lpr`. The LPR is linear in the score between two knots and
    constant beyond the outer ones. A run of observed scores with equal LPR has a knot at each end.

    Curves of different labels are independent: they can be selected and joined.
    """

    knot_ptr: Ints
    knot_score: Float
    knot_lpr: Float
    _is_checked: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if not self._is_checked:
            _check_curves(self.knot_ptr, self.knot_score, self.knot_lpr)

    @classmethod
    def from_groups(cls, groups: ScoreGroups, lpr: Float) -> LPRCurves:
        """Convert monotone LPRs per group to knots."""
        ptr, score, total = groups.ptr, groups.score, groups.total
        is_listed = score > -np.inf
        if not is_listed.all():
            # A label that no sample lists needs a knot too.
            never = ptr[:-1][(groups.n_groups == 1) & ~is_listed[ptr[:-1]]]
            score, is_listed[never] = score.copy(), True
            score[never] = 0.0
            before = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_listed)])
            ptr, score, total, lpr = before[ptr], score[is_listed], total[is_listed], lpr[is_listed]
        knots = compress_curves(ptr, score, lpr, total, np.diff(ptr) <= MAX_EXACT_GROUPS)
        return cls(*knots, _is_checked=True)

    @classmethod
    def join(cls, parts: Sequence[LPRCurves]) -> LPRCurves:
        """Concatenate the labels of all parts."""
        sizes = [np.diff(part.knot_ptr) for part in parts]
        ptr = np.concatenate([np.zeros(1, np.int64), *sizes]).cumsum()
        score = np.concatenate([part.knot_score for part in parts])
        return cls(ptr, score, np.concatenate([part.knot_lpr for part in parts]), _is_checked=True)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.knot_ptr.size - 1

    def curve(self, label: int) -> tuple[Float, Float]:
        """Return scores and LPRs of the knots of one label."""
        knots = slice(self.knot_ptr[label], self.knot_ptr[label + 1])
        return self.knot_score[knots], self.knot_lpr[knots]

    def select(self, labels: Sequence[int] | NDArray[np.integer]) -> LPRCurves:
        """Return the curves of the given label numbers, in that order, unchanged."""
        ptr, take = select_runs(self.knot_ptr, np.asarray(labels, dtype=np.int64))
        return LPRCurves(ptr, self.knot_score[take], self.knot_lpr[take], _is_checked=True)

    def evaluate(self, scores: Matrix, *, n_jobs: int | None = None) -> Matrix:
        """Return the LPRs of a checked float64 matrix, NaN where a score is.

        A sparse matrix keeps its pattern.
        """
        if not isinstance(scores, np.ndarray):
            column = np.asarray(scores.indices, dtype=np.int32)
            lpr = self.evaluate_each(column, scores.data, n_jobs=n_jobs)
            return scipy.sparse.csr_array((lpr, scores.indices, scores.indptr), shape=scores.shape)
        threads = threads_for(scores.size, n_jobs)
        knots = (self.knot_ptr, self.knot_score, self.knot_lpr)
        gaps = np.isnan(scores)
        has_gaps = bool(gaps.any())
        dense = np.ascontiguousarray(np.where(gaps, 0.0, scores) if has_gaps else scores)
        out = np.empty_like(dense)
        n_samples, n_labels = dense.shape
        # With few samples the knots dominate the memory traffic: split labels between threads.
        by_label = n_labels > n_samples

        def evaluate(start: int, stop: int) -> None:
            if by_label:
                evaluate_curves(dense, start, stop, *knots, out)
            else:
                evaluate_curves(dense[start:stop], 0, n_labels, *knots, out[start:stop])

        shape = dense.shape[::-1] if by_label else dense.shape
        run_chunks(evaluate, row_chunks(shape, threads), threads)
        if has_gaps:
            out[gaps] = np.nan
        return out

    def evaluate_each(
        self, label: NDArray[np.int32], scores: Float, *, n_jobs: int | None
    ) -> Float:
        """Return the LPR of each score on the curve of its label."""
        threads = threads_for(scores.size, n_jobs)
        knots = (self.knot_ptr, self.knot_score, self.knot_lpr)
        out = np.empty_like(scores)

        def evaluate(start: int, stop: int) -> None:
            evaluate_stored(label[start:stop], scores[start:stop], *knots, out[start:stop])

        run_chunks(evaluate, row_chunks(scores.shape, threads), threads)
        return out


def select_runs(ptr: Ints, index: Ints) -> tuple[Ints, Ints]:
    """Return where some of the runs ``ptr[k]:ptr[k + 1]`` begin if joined, and their places."""
    sizes = np.diff(ptr)[index]
    first = np.concatenate([np.zeros(1, np.int64), sizes]).cumsum()
    return first, np.repeat(ptr[:-1][index] - first[:-1], sizes) + np.arange(first[-1])


def _check_curves(ptr: Ints, score: Float, lpr: Float) -> None:
    """Raise if the arrays are not valid curves, for example from a damaged file."""
    shapes = ptr.ndim == score.ndim == lpr.ndim == 1 and ptr.size > 0
    if not shapes or ptr[0] != 0 or ptr[-1] != score.size or score.size != lpr.size:
        raise DataError("LPR curves: knot_ptr, knot_score and knot_lpr do not fit together.")
    if np.any(np.diff(ptr) < 1):
        raise DataError(f"LPR curves: label {int(np.argmax(np.diff(ptr) < 1))} has no knot.")
    # NaN fails all comparisons, so checking the extremes checks everything.
    finite = -np.inf < score.min(initial=0.0) and score.max(initial=0.0) < np.inf
    if not (finite and lpr.min(initial=0.0) >= 0.0 and lpr.max(initial=0.0) <= 1.0):
        raise DataError("LPR curves: scores must be finite and LPRs must lie in [0, 1].")
    inside = np.ones(score.size, np.bool_)
    inside[ptr[:-1]] = False  # the first knot of a label has no predecessor
    falls = inside[1:] & ((score[1:] <= score[:-1]) | (lpr[1:] < lpr[:-1]))
    if falls.any():
        label = int(np.searchsorted(ptr, int(np.argmax(falls)) + 1, side="right")) - 1
        raise DataError(
            f"LPR curves: the curve of label {label} is not monotone: scores must increase "
            "strictly and LPRs must not decrease."
        )
