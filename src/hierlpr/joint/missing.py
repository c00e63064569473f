"""LPR curves where some scores are missing: learned from those there are, NaN for the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._base.checks import Matrix, listed
from hierlpr.exceptions import DataError
from hierlpr.lpr import LPRModel, fit_lpr

__all__ = ["fit_known", "own_lpr", "predict_known"]


def fit_known(
    scores: Matrix,
    truth: NDArray[np.bool_] | sparse.csr_array,
    *,
    method: Any,
    labels: Sequence[str],
    n_threads: int | None = None,
) -> LPRModel:
    """Fit the LPRs of every label on the samples that have its score (the others are NaN).

    Labels with all scores are fitted together, so that rare ones can borrow from the others.
    """
    if not isinstance(scores, np.ndarray) or not np.isnan(scores).any():
        return fit_lpr(scores, truth, method=method, labels=labels, n_threads=n_threads)
    gaps = np.isnan(scores)
    nowhere: NDArray[np.bool_] = np.logical_and.reduce(gaps, axis=0)
    empty = [label for label, gone in zip(labels, nowhere, strict=True) if gone]
    if empty:
        raise DataError(
            f"{len(empty):,} label(s) have no score at all: {listed(empty)}.\n"
            "Hint: give them a constant score; their LPR is then their prevalence."
        )
    each = isinstance(method, Sequence) and not isinstance(method, str)
    whole = np.flatnonzero(~gaps.any(axis=0))
    runs = [whole] if whole.size else []
    runs += [np.array([k]) for k in np.flatnonzero(gaps.any(axis=0))]
    parts = [
        fit_lpr(
            scores[np.ix_(rows, run)], truth[np.ix_(rows, run)],
            method=[method[k] for k in run] if each else method,
            labels=[labels[int(k)] for k in run], n_threads=n_threads,
        )
        for run in runs
        for rows in [np.flatnonzero(~gaps[:, run[0]])]
    ]  # fmt: skip
    return LPRModel.join(parts).select(np.argsort(np.concatenate(runs)))


def predict_known(model: LPRModel, scores: Matrix, *, n_threads: int | None = None) -> Matrix:
    """Return the LPRs of the scores there are, NaN for the others."""
    if not isinstance(scores, np.ndarray) or not np.isnan(scores).any():
        lpr: Matrix = model.predict(scores, n_threads=n_threads)
        return lpr
    gaps = np.isnan(scores)
    filled: NDArray[np.float64] = model.predict(np.where(gaps, 0.0, scores), n_threads=n_threads)
    filled[gaps] = np.nan
    return filled


def own_lpr(model: LPRModel, scores: Matrix, *, n_threads: int | None = None) -> Matrix:
    """Return the LPRs of scores, each by itself; of a missing one, the smoothed prevalence."""
    lpr = predict_known(model, scores, n_threads=n_threads)
    if not isinstance(lpr, np.ndarray):
        return lpr
    gaps = np.isnan(lpr)
    return np.where(gaps, model.report.smoothed_prevalence(), lpr) if gaps.any() else lpr
