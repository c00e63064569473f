"""Scores and truth as users give them to a model, checked and in its order of labels."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_finite
from hierlpr.data.listing import Kind, as_kind
from hierlpr.data.tables import (
    Table,
    align,
    align_labels,
    align_truth_to,
    closing_note,
    match_rows,
)
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.hierarchy import Hierarchy

if TYPE_CHECKING:
    from scipy import sparse

__all__ = ["new_scores", "scores_to_fit", "truth_beside"]


def scores_to_fit(scores: Any, hierarchy: Hierarchy | None, *, missing: str) -> Table:
    """Return scores to learn from; without a hierarchy they set the labels."""
    table = align(scores, hierarchy, name="scores")
    _check_scores(table, missing)
    for count, what in zip(table.values.shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise DataError(
                f"scores: 0 {what}(s) (shape={table.values.shape}) while a minimum of 1 is "
                "required."
            )
    return table


def new_scores(scores: Any, hierarchy: Hierarchy, kind: Kind | None, *, missing: str) -> Table:
    """Return scores for a model that was fitted on scores of `kind`."""
    if isinstance(scores, np.ndarray) and scores.ndim == 2:
        width, expected = scores.shape[1], hierarchy.n_labels
        if width != expected:
            raise DataError(
                f"X has {width} features, but HierLPR is expecting {expected} features as input.\n"
                "Hint: one column of scores a label, in the order of hierarchy_.labels."
            )
    table = align(scores, hierarchy, name="scores")
    if kind is not None:
        table = as_kind(table, kind)
    _check_scores(table, missing)
    return table


def _check_scores(table: Table, missing: str) -> None:
    values = table.values
    if missing == "allow" and isinstance(values, np.ndarray):
        values = np.where(np.isnan(values), 0.0, values)
    check_finite(values, table.labels, name="scores")


def truth_beside(
    table: Table, truth: Any, hierarchy: Hierarchy, *, close: bool
) -> NDArray[np.bool_] | sparse.csr_array:
    """Return the truth of the samples in `table`, matched by name where both have names."""
    if truth is None:
        raise DataError(
            "HierLPR requires y to be passed, but the target y is None.\n"
            "Hint: give scores and truth."
        )
    given = match_rows(align_labels(truth, hierarchy, name="truth"), table)
    held = align_truth_to(table.values, given, hierarchy, close=close)
    if close and (note := closing_note(given, held, hierarchy)):
        warnings.warn(note, HierlprWarning, stacklevel=4)
    return held
