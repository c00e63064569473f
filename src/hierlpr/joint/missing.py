"""LPR curves where some scores or some truth are missing: learned from the pairs there are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix, listed
from hierlpr.data.partial_truth import AnyTruth, PartialTruth
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr import LPRModel, fit_lpr
from hierlpr.lpr.groups import PairWeights


def fit_known(
    scores: Matrix,
    truth: AnyTruth,
    hierarchy: Hierarchy,
    *,
    method: Any,
    n_threads: int | None = None,
    sample_weight: NDArray[np.float64] | None = None,
) -> LPRModel:
    """Fit the LPRs of every label on the samples that have its score and its truth.

    Scores that are missing are NaN. Of what is unknown see :mod:`hierlpr.data.partial_truth`.
    """
    options: dict[str, Any] = {"method": method, "n_threads": n_threads}
    options["labels"] = labels = hierarchy.labels
    gaps = np.isnan(scores) if isinstance(scores, np.ndarray) else None
    if gaps is None or not gaps.any():
        gaps = None
        if sample_weight is None and not isinstance(truth, PartialTruth):
            return fit_lpr(scores, truth, **options)
    else:
        nowhere: NDArray[np.bool_] = np.logical_and.reduce(gaps, axis=0)
        empty = [label for label, gone in zip(labels, nowhere, strict=True) if gone]
        if empty:
            raise DataError(
                f"{len(empty):,} label(s) have no score at all: {listed(empty)}.\n"
                "Hint: give them a constant score; their LPR is then their prevalence."
            )
        scores = np.where(gaps, 0.0, scores)
    held = truth.held if isinstance(truth, PartialTruth) else truth
    return fit_lpr(
        scores, held, pairs=PairWeights(truth, hierarchy, gaps, sample_weight), **options
    )


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
    return np.where(gaps, model.report.base_rate, lpr) if gaps.any() else lpr
