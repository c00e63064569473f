"""Scores, truth and weights as users give them, checked before a model sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import check_finite, check_sample_weight, is_sparse, quote_names
from hierlpr.data import tables
from hierlpr.data.clusters import cluster_note
from hierlpr.data.duplicates import SampleKeys, leakage_warnings
from hierlpr.data.listed import Kind, as_kind
from hierlpr.data.tables import Table
from hierlpr.data.truth import Truth
from hierlpr.exceptions import DataError, warn
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.conversion import as_hierarchy as as_hierarchy
from hierlpr.hierarchy.roll_up import RollUp

Float = NDArray[np.float64]


def new_scores(
    scores: Any,
    hierarchy: Hierarchy | None,
    kind: Kind | None,
    *,
    missing_scores: str,
    leaves: RollUp | None = None,
) -> Table:
    """Return checked scores in the order of the labels, which they set if there is no hierarchy.

    `kind` is that of the scores a model was fitted on; None for scores to learn from. `leaves` says
    how scores of leaves alone are rolled up; None if the model was not fitted on such.
    """
    table = tables.align(scores, hierarchy, name="scores", allow_leaves=True)
    n_columns = len(table.labels)
    table = table if kind is None else as_kind(table, kind)
    table = table if hierarchy is None else tables.roll_up(table, hierarchy, leaves)
    values = table.values
    hint = 'fill in or drop missing values first, or fit with HierLPR(missing_scores="allow").'
    is_dense = isinstance(values, np.ndarray)
    if kind is None and is_dense and 2 * np.count_nonzero(np.isnan(values)) > values.size:
        hint = (
            "most scores are missing. If each sample has scores of a few labels only, give these "
            "as lists, such as [{label: score}, ...] or a frame sample,label,score."
        )
        if missing_scores == "allow":
            warn(f"scores: {hint}")
    if missing_scores == "allow" and is_dense:
        values = np.where(np.isnan(values), 0.0, values)
    check_finite(values, table.labels, name="scores", hint=hint)
    if kind is None:
        _note_forms(scores, table, n_columns)
    for count, what in zip(values.shape, ("sample", "feature"), strict=True):
        if kind is None and count == 0:
            raise DataError(
                f"scores: 0 {what}(s) (shape={values.shape}) while a minimum of 1 is required."
            )
    return table


def _note_forms(scores: Any, table: Table, n_columns: int) -> None:
    """Say how labels without scores got theirs, and that pairs are listed, where that is new."""
    if table.rolled_up is not None:
        how = "sum of the scores below it (leaves='max' would take the largest)"
        if table.rolled_up == "max":
            how = "largest score below it (leaves='sum' would add up those of exclusive classes)"
        order = ""
        if table.columns_unnamed:
            order = " Columns without names were taken in the order of hierarchy.leaves."
        warn(
            f"The scores have {n_columns:,} of {len(table.labels):,} labels; each other label gets "
            f"the {how}.{order}"
        )
    is_table = isinstance(getattr(scores, "table", scores), Table)
    if table.n_stored is not None and not is_sparse(scores) and not is_table:
        warn(
            f"The scores list {table.n_stored / max(1, table.n_samples):.1f} of {n_columns:,} "
            "labels per sample. Pairs that are not listed are never called, unless a label below "
            "is listed."
        )


def positive_weight_rows(
    sample_weight: Any, n_samples: int, *, keep_equal: bool = False
) -> tuple[NDArray[np.intp], Float | None]:
    """Return samples of positive weight and their weights; None if equal, unless `keep_equal`."""
    weight = check_sample_weight(sample_weight, n_samples, keep_equal=keep_equal)
    if weight is None:
        return np.arange(n_samples), None
    rows = np.flatnonzero(weight)
    weight = weight[rows]
    return rows, None if not keep_equal and np.all(weight == weight[0]) else weight


def refuse_unknown_labels(truth: Truth, hierarchy: Hierarchy) -> None:
    """Refuse labels without any known truth; warn about labels whose positives are only implied."""
    if truth.is_complete:
        return
    names = np.array(hierarchy.labels, dtype=object)
    is_annotated = tables.sum_by_label(truth.not_annotated) < truth.shape[0]
    unknown = names[~is_annotated & (truth.n_unknown > 0)].tolist()
    if unknown:
        raise DataError(
            f"truth is unknown in all samples for {len(unknown):,} label(s): "
            f"{quote_names(unknown)}.\n"
            "Hint: leave them out (Hierarchy.subset), or give samples in which they are known."
        )
    has_positives, has_annotated = (
        tables.sum_by_label(x) > 0 for x in (truth.positive, truth.positive > truth.not_annotated)
    )
    implied = names[has_positives & ~has_annotated].tolist()
    if implied:
        warn(
            f"truth: {len(implied):,} label(s) are true only where a descendant is, and unknown "
            f"there: {quote_names(implied)}. They are learned as if they were never true.\n"
            "Hint: if the truth has only the most specific labels, set propagate_truth=True."
        )


def refuse_unknown_samples(truth: Truth) -> None:
    """Refuse samples with unknown labels, where promises are about all labels of a sample."""
    if truth.is_complete:
        return
    n_unknown = int(np.count_nonzero(np.asarray(truth.unknown.sum(axis=1)).ravel()))
    if n_unknown:
        raise DataError(
            f"truth is unknown for some label of {n_unknown:,} of {truth.shape[0]:,} samples. Sets "
            "promise something about all labels of a sample, so each must be known.\n"
            "Hint: give only completely known samples; the promise then holds for similar ones."
        )


def check_leakage(
    table: Table, truth: Truth, fit_keys: SampleKeys | None
) -> tuple[SampleKeys, list[str]]:
    """Return the keys of calibration samples; warn if they are not new or not independent."""
    keys = same = SampleKeys.of_samples(table, truth.cluster)
    if fit_keys is not None and 0 < fit_keys.n_labels < keys.n_labels:
        same = replace(fit_keys.like(table.values), name=keys.name, cluster=keys.cluster)
    caveats = leakage_warnings(same, fit_keys, values=table.values)
    note = cluster_note(table.samples, truth.positive, table.labels)
    if note and truth.cluster is None:
        caveats.append(
            f"The {note}. If they belong together (visits of a patient, pictures of a camera), no "
            "promise holds unless the cutoff knows: give clusters=, one id per sample."
        )
    for note in caveats:
        warn(note)
    return keys, caveats
