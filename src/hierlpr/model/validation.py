"""Scores and truth as users give them to a model: checked, and in its order of labels."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import check_finite, check_sample_weight, quote_names
from hierlpr.data.duplicates import SampleKeys, leakage_warnings
from hierlpr.data.label_sets import Kind, as_kind
from hierlpr.data.partial_truth import AnyTruth, PartialTruth, align_truth
from hierlpr.data.tables import Table, align, align_labels, match_rows, sum_by_label
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr.comparison import find_difference

if TYPE_CHECKING:
    from hierlpr.model.estimator import HierLPR


def new_scores(
    scores: Any, hierarchy: Hierarchy | None, kind: Kind | None, *, missing: str
) -> Table:
    """Return checked scores in the order of the labels, which they set if there is no hierarchy.

    `kind` is that of the scores a model was fitted on; None for scores to learn from.
    """
    table = align(scores, hierarchy, name="scores")
    table = table if kind is None else as_kind(table, kind)
    values = table.values
    if missing == "allow" and isinstance(values, np.ndarray):
        values = np.where(np.isnan(values), 0.0, values)
    hint = 'fill in or drop missing values first, or fit with HierLPR(missing="allow").'
    check_finite(values, table.labels, name="scores", hint=hint)
    for count, what in zip(values.shape, ("sample", "feature"), strict=True):
        if kind is None and count == 0:
            raise DataError(
                f"scores: 0 {what}(s) (shape={values.shape}) while a minimum of 1 is required."
            )
    return table


def truth_beside(
    table: Table, truth: Any, hierarchy: Hierarchy, *, close: bool, name: str = "scores"
) -> AnyTruth:
    """Return the truth of the samples in `table`, matched by name where both have names.

    `PartialTruth` is returned as it is: it has been aligned before.
    """
    if isinstance(truth, PartialTruth):
        return truth
    if truth is None:
        raise DataError(
            f"requires y to be passed, but the target y is None.\nHint: give {name} and truth."
        )
    given = match_rows(align_labels(truth, hierarchy, name="truth"), table, name=name)
    as_sparse = table.n_stored is not None
    held: AnyTruth = align_truth(given, hierarchy, close=close, as_sparse=as_sparse)
    return held


def weighed(
    sample_weight: Any, n_samples: int, *, keep_equal: bool = False
) -> tuple[NDArray[np.intp], NDArray[np.float64] | None]:
    """Return the samples of positive weight, and their weights (None if all are equal).

    With `keep_equal`, equal weights are returned too: that some samples have equal weights does not
    imply that the next ones have.
    """
    weight = check_sample_weight(sample_weight, n_samples, keep_equal=keep_equal)
    if weight is None:
        return np.arange(n_samples), None
    rows = np.flatnonzero(weight)
    left = weight[rows]
    return rows, None if not keep_equal and np.all(left == left[0]) else left


def refuse_unknown_labels(truth: AnyTruth, hierarchy: Hierarchy) -> None:
    """Refuse labels without any known truth; warn about labels whose positives are only implied."""
    if not isinstance(truth, PartialTruth):
        return
    names = np.array(hierarchy.labels, dtype=object)
    is_given = sum_by_label(truth.open) < truth.shape[0]
    unknown = names[~is_given & (truth.n_unknown > 0)].tolist()
    if unknown:
        raise DataError(
            f"truth is unknown in all samples for {len(unknown):,} label(s): "
            f"{quote_names(unknown)}.\n"
            "Hint: leave them out (Hierarchy.subset), or give samples in which they are known."
        )
    has_positives, has_given = (sum_by_label(x) > 0 for x in (truth.held, truth.held > truth.open))
    implied = names[has_positives & ~has_given].tolist()
    if implied:
        warnings.warn(
            f"truth: {len(implied):,} label(s) are true only where a descendant is, and unknown "
            f"there: {quote_names(implied)}. They are learned as if they were never true.\n"
            "Hint: if the truth has only the most specific labels, set close_truth=True.",
            HierlprWarning,
            stacklevel=3,
        )


def refuse_unknown_samples(truth: AnyTruth) -> None:
    """Refuse samples with unknown labels, where promises are about all labels of a sample."""
    if not isinstance(truth, PartialTruth):
        return
    n_open = int(np.count_nonzero(np.asarray(truth.unknown.sum(axis=1)).ravel()))
    if n_open:
        raise DataError(
            f"truth is unknown for some label of {n_open:,} of {truth.shape[0]:,} samples. Sets "
            "promise something about all labels of a sample, so each must be known.\n"
            "Hint: give only samples that are completely known; the promise then holds for such."
        )


def check_leakage(table: Table, fit_keys: SampleKeys | None) -> tuple[SampleKeys, list[str]]:
    """Return the keys of calibration samples; warn if they are not new or not independent."""
    keys = SampleKeys.of_rows(table.values)
    caveats = leakage_warnings(keys, fit_keys, values=table.values)
    for note in caveats:
        warnings.warn(note, HierlprWarning, stacklevel=4)
    return keys, caveats


def warn_of_difference(model: HierLPR, table: Table) -> Table:
    """Return the table; warn if its scores differ from those of the fit.

    Single samples are compared only once per model.
    """
    if table.n_samples == 1:
        if model in _compared_one:
            return table
        _compared_one.add(model)
    if note := difference_note(model, table):
        warnings.warn(note, HierlprWarning, stacklevel=4)
    return table


def difference_note(model: HierLPR, table: Table) -> str:
    """Say how scores differ from those of the fit, and what follows; empty if they do not."""
    found = find_difference(model.lpr_, table.values, model.hierarchy_, model.sample_quantiles_)
    note = "What the model promises holds for scores like those of the fit."
    return f"{found} {note}" if found else ""


_compared_one: WeakSet[HierLPR] = WeakSet()  # models that have compared a single sample
