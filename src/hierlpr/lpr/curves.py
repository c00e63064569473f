"""Monotone curves from score to LPR, piecewise linear: the compiled form of every estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._kernels._jit import row_chunks, run_chunks, threads_for
from hierlpr._kernels.curves import evaluate_curves
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
        gaps = np.isnan(scores)
        has_gaps = bool(gaps.any())
        dense = np.ascontiguousarray(np.where(gaps, 0.0, scores) if has_gaps else scores)
        out, label = np.empty_like(dense), np.arange(self.n_labels, dtype=np.int32)
        knots = (self.knot_ptr, self.knot_score, self.knot_lpr)

        def evaluate(start: int, stop: int) -> None:
            evaluate_curves(dense[start:stop], label, *knots, out[start:stop])

        run_chunks(evaluate, row_chunks(dense.shape, threads), threads)
        if has_gaps:
            out[gaps] = np.nan
        return out

    def evaluate_each(
        self, label: NDArray[np.int32], scores: Float, *, n_jobs: int | None
    ) -> Float:
        """Return the LPR of each score on the curve of its label."""
        threads, out = threads_for(scores.size, n_jobs), np.empty((1, scores.size))
        knots = (self.knot_ptr, self.knot_score, self.knot_lpr)

        def evaluate(start: int, stop: int) -> None:
            at = slice(start, stop)
            evaluate_curves(scores[None, at], label[at], *knots, out[:, at])

        run_chunks(evaluate, row_chunks(scores.shape, threads), threads)
        return np.asarray(out[0])


def compress_curves(
    ptr: Ints, score: Float, lpr: Float, total: Float, is_exact: NDArray[np.bool_]
) -> tuple[Ints, Float, Float]:
    """Return the knots of each label's curve: the ends of its runs of (nearly) equal LPR.

    Of labels that are `is_exact`, a run holds equal LPRs only. Else it holds LPRs that differ by
    at most 1/256 and at most a 20th of p (1 - p) (or 1e-5, if that is more), and has their mean:
    a few hundred runs at most, whatever the number of groups. A run of two or more groups has two
    knots of one LPR.
    """
    is_first = np.diff(lpr, prepend=np.nan) != 0.0
    is_first[ptr[:-1]] = True
    limit = lpr + np.maximum(1e-5, np.minimum(1.0 / 256.0, lpr * (1.0 - lpr) / 20.0))
    run_end = np.empty(lpr.size, np.int64)
    coarse = np.flatnonzero(~is_exact)
    for k in coarse:
        at = slice(ptr[k], ptr[k + 1])
        is_first[at] = False
        run_end[at] = ptr[k] + np.searchsorted(lpr[at], limit[at], side="right")
    # Where a run ends decides where the next one begins: one run of all labels at a time.
    begin, end = ptr[coarse], ptr[coarse + 1]
    while begin.size:
        is_first[begin] = True
        begin = run_end[begin]
        is_inside = begin < end
        begin, end = begin[is_inside], end[is_inside]
    first = np.flatnonzero(is_first)
    size = np.diff(first, append=lpr.size)
    p = lpr[first]
    # Relative to p, so that a run of equal LPRs keeps its exact value.
    excess = np.add.reduceat(total * (lpr - np.repeat(p, size)), first)
    mean = p + excess / np.add.reduceat(total, first)
    n_knots = np.minimum(size, 2)
    before = np.append(0, np.cumsum(n_knots))
    knot_score = np.repeat(score[first], n_knots)
    knot_score[before[1:] - 1] = score[first + size - 1]
    return before[np.searchsorted(first, ptr)], knot_score, np.repeat(mean, n_knots)


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
