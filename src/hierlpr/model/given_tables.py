"""Scores and truth as users give them to a model, checked and in its order of labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_finite, check_sample_weight, listed
from hierlpr.data.label_sets import Kind, as_kind
from hierlpr.data.partial_truth import AnyTruth, PartialTruth, align_known
from hierlpr.data.repeats import SampleKeys
from hierlpr.data.tables import Table, align, align_labels, closing_note, match_rows
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr import ImpliedLPR, LPRModel


@dataclass(frozen=True, slots=True, eq=False)
class FitSource:
    """Samples to fit on, in memory or on disk: what was learned label by label, and the rest.

    `implied` is what was learned of labels that are not listed, None if scores are complete; `take`
    fetches the scores of some samples, few enough to hold; `n_stored` is the number of scores if
    they are listed, `keys` are those of all the samples, and `weight` what each counts.
    """

    hierarchy: Hierarchy
    lpr: LPRModel
    implied: ImpliedLPR | None
    truth: AnyTruth
    take: Callable[[NDArray[np.intp]], Table]
    n_stored: int | None
    keys: SampleKeys
    weight: NDArray[np.float64] | None = None


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
    check_finite(
        values,
        table.labels,
        name="scores",
        hint='fill in or drop missing values first, or fit with HierLPR(missing="allow").',
    )


def truth_beside(table: Table, truth: Any, hierarchy: Hierarchy, *, close: bool) -> AnyTruth:
    """Return the truth of the samples in `table`, matched by name where both have names."""
    if truth is None:
        raise DataError(
            "HierLPR requires y to be passed, but the target y is None.\n"
            "Hint: give scores and truth."
        )
    given = match_rows(align_labels(truth, hierarchy, name="truth"), table)
    held = align_known(table.values, given, hierarchy, close=close)
    if close and (note := closing_note(given, _held(held), hierarchy)):
        warnings.warn(note, HierlprWarning, stacklevel=4)
    return held


def weighed_rows(
    table: Table, truth: AnyTruth, sample_weight: Any, *, keep_equal: bool = False
) -> tuple[Table, AnyTruth, NDArray[np.float64] | None]:
    """Return the samples that weigh anything, and their weights (None: all alike).

    With `keep_equal` weights are returned wherever there are any: that those of some samples are
    all alike does not say that those of the next ones are.
    """
    rows, weight = weighed(sample_weight, table.n_samples, keep_equal=keep_equal)
    if rows.size == table.n_samples:
        return table, truth, weight
    return table.rows(rows), truth[rows], weight


def weighed(
    sample_weight: Any, n_samples: int, *, keep_equal: bool = False
) -> tuple[NDArray[np.intp], NDArray[np.float64] | None]:
    """Return which samples weigh anything, and their weights (None: all alike)."""
    weight = check_sample_weight(sample_weight, n_samples, keep_equal=keep_equal)
    if weight is None:
        return np.arange(n_samples), None
    rows = np.flatnonzero(weight)
    left = weight[rows]
    return rows, None if not keep_equal and np.all(left == left[0]) else left


def refuse_unknown_labels(truth: AnyTruth, hierarchy: Hierarchy) -> None:
    """Refuse to learn about labels of which nothing is given, and warn of those given one side."""
    if not isinstance(truth, PartialTruth):
        return
    nothing = (truth.n_given == 0) & (truth.n_unknown > 0)
    if nothing.any():
        names = [hierarchy.labels[k] for k in np.flatnonzero(nothing)]
        raise DataError(
            f"truth is unknown for {len(names):,} label(s) in all samples: {listed(names)}.\n"
            "Hint: leave them out (Hierarchy.subset), or give samples in which they are known."
        )
    implied = (np.asarray(truth.held.sum(axis=0)).ravel() > 0) & (truth.n_given_held == 0)
    if implied.any():
        names = [hierarchy.labels[k] for k in np.flatnonzero(implied)]
        warnings.warn(
            f"truth: {len(names):,} label(s) hold only where labels below them do, and are unknown "
            f"there: {listed(names)}. They are learned as if they never held.\nHint: if the truth "
            "names the most specific labels only, say so with close_truth=True.",
            HierlprWarning,
            stacklevel=3,
        )


def refuse_unknown_samples(truth: PartialTruth) -> None:
    """Refuse samples of which something is unknown: whether all their labels are right is too."""
    n_open = int(np.count_nonzero(np.asarray(truth.unknown.sum(axis=1)).ravel()))
    if n_open:
        raise DataError(
            f"truth is unknown for some label of {n_open:,} of {truth.shape[0]:,} samples. What is "
            "promised here is about all labels of a sample at once, so each must be known.\n"
            "Hint: give the samples of which everything is known; the promise is then about such."
        )


def _held(truth: AnyTruth) -> Any:
    return truth.held if isinstance(truth, PartialTruth) else truth
