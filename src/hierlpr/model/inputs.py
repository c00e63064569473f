"""What users give to learn from, checked before a model sees it, and what it lets one expect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import check_finite, check_sample_weight, is_sparse, quote_names
from hierlpr.data import tables
from hierlpr.data.clusters import cluster_ids, cluster_note
from hierlpr.data.duplicates import Keys, SampleKeys, content_keys, leakage_warnings
from hierlpr.data.folds import draw_samples
from hierlpr.data.listed import Kind, as_kind
from hierlpr.data.tables import Table, match_weights
from hierlpr.data.truth import Truth, align_truth
from hierlpr.exceptions import DataError, warn
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.roll_up import RollUp
from hierlpr.lpr import LPRModel

Float = NDArray[np.float64]
FEW_SAMPLES = 10  # to learn from
CLEAR = 4.0  # standard errors
_LOOKED_AT = 1000  # samples


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
    if kind is not None:
        return table
    _note_forms(scores, table, n_columns, is_chosen=leaves != "auto")
    if 0 in values.shape:
        what = "feature" if values.shape[0] else "sample"
        raise DataError(
            f"scores: 0 {what}(s) (shape={values.shape}) while a minimum of 1 is required."
        )
    return table


def _note_forms(scores: Any, table: Table, n_columns: int, *, is_chosen: bool) -> None:
    """Say how labels without scores got theirs, and that pairs are listed, where that is new."""
    if table.rolled_up is not None and (table.columns_unnamed or not is_chosen):
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


class LabelledSamples(NamedTuple):
    """Scores, truth and weights of samples, in the order of the labels.

    `cluster_ids` are those that a user gave, also if each sample is a cluster of its own.
    """

    table: Table
    truth: Truth
    weight: Float | None = None
    cluster_ids: Keys | None = None

    @classmethod
    def of(
        cls,
        table: Table,
        y: Any,
        hierarchy: Hierarchy,
        *,
        sample_weight: Any = None,
        clusters: Any = None,
        name: str = "scores",
        **options: bool,
    ) -> Self:
        """Match truth, weights and clusters with the samples; `options` are of `align_truth`."""
        truth = align_truth(y, hierarchy, table, name=name, **options)
        if table.columns_unnamed and table.n_stored is None:
            _warn_of_sorted_columns(table, truth, hierarchy)
        # In the order of the names, so that the order of the labels changes nothing.
        at, by_name = np.argsort(table.labels), np.argsort(hierarchy.labels)
        known = (x[:, by_name] for x in (truth.positive, truth.unknown) if x is not None)
        contents = content_keys(table.values[:, at], *known)
        ids = cluster_ids(clusters, table, name=name)
        truth = replace(truth.in_clusters(ids), contents=contents)
        weight = match_weights(sample_weight, table, name=name)
        weight = check_sample_weight(weight, table.n_samples, keep_equal=True)
        return cls(table, truth, weight, truth.cluster if ids is None else ids)

    def used(self, *, keep_equal: bool = False) -> Self:
        """Leave out samples of weight 0, and weights that are equal unless `keep_equal`."""
        part = self if self.weight is None else self.rows(np.flatnonzero(self.weight))
        weight = check_sample_weight(part.weight, part.table.n_samples, keep_equal=keep_equal)
        return part._replace(weight=weight)

    @property
    def relative_weight(self) -> Float | None:
        """The weights as shares of the largest."""
        return None if self.weight is None else self.weight / self.weight.max()

    def rows(self, rows: NDArray[np.intp]) -> Self:
        """Return some samples."""
        parts: list[Any] = [self.table.rows(rows), self.truth[rows]]
        parts += [None if x is None else x[rows] for x in (self.weight, self.cluster_ids)]
        return type(self)(*parts)

    def drawn(self, limit: int) -> Self:
        """Return at most `limit` samples, drawn at random with a fixed seed."""
        return self.rows(draw_samples(self.table.n_samples, limit, rng=0))


def _warn_of_sorted_columns(table: Table, truth: Truth, hierarchy: Hierarchy) -> None:
    """Warn if columns without names fit the truth better as labels sorted by name."""
    labels = hierarchy.labels if table.rolled_up is None else hierarchy.leaves
    if list(labels) == sorted(labels) or len(table.labels) < hierarchy.n_labels:
        return
    pairs = [(x, y) for x, y in zip(labels, sorted(labels), strict=True) if x != y]
    column, label = ([hierarchy.index(x) for x in side] for side in zip(*pairs, strict=True))
    scores = np.nan_to_num(tables.dense(table.values[:_LOOKED_AT]))[:, column]
    scores = scores / (np.abs(scores).max() or 1.0)
    scores = scores - scores.mean(axis=0)
    positive = tables.dense(truth.positive[:_LOOKED_AT])
    # Of each sample: how much higher the scores of its labels are than the mean of their columns.
    in_order, by_name = ((scores * positive[:, x]).sum(axis=1) for x in (column, label))
    is_clear = min(_standard_errors(by_name), _standard_errors(by_name - in_order)) > CLEAR
    if is_clear and in_order.sum() < 0.5 * by_name.sum():
        warn(
            "The scores fit the truth better if their columns are the labels sorted by name, as "
            "predict_proba returns them.\n"
            "Hint: give a data frame with columns=classifier.classes_."
        )


def _standard_errors(values: Float) -> float:
    """Return a sum in units of its standard error; 0 if all values are 0."""
    return float(values.sum() / (np.sqrt(np.square(values).sum()) or 1.0))


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
    samples: LabelledSamples, fit_keys: SampleKeys | None
) -> tuple[SampleKeys, list[str]]:
    """Return the keys of calibration samples; warn if they are not new or not independent."""
    table, truth = samples.table, samples.truth
    keys = same = SampleKeys.of_rows(table.values, table.samples, samples.cluster_ids)
    if fit_keys is not None and 0 < fit_keys.n_labels < keys.n_labels:
        same = replace(fit_keys.like(table.values), name=keys.name, cluster=keys.cluster)
    caveats = leakage_warnings(same, fit_keys, values=table.values)
    if samples.cluster_ids is None:
        note = cluster_note(table.samples, truth.positive, table.labels)
        if not note and fit_keys is not None and fit_keys.has_clusters:
            note = "samples of the fit were in clusters, but those to calibrate on are not"
        if note:
            caveats.append(
                f"The {note}. If they belong together (visits of a patient, pictures of a camera), "
                "no promise holds unless the cutoff knows: give clusters=, one id per sample."
            )
    for note in caveats:
        warn(note)
    return keys, caveats


def warn_of_mistakes(lpr: LPRModel) -> None:
    """Warn of few samples, no positives, or most AUCs more than 3 standard errors below 0.5."""
    n1, n0 = lpr.report.positives, lpr.report.negatives
    n_samples = int((n1 + n0).max(initial=0))
    if n_samples < FEW_SAMPLES:
        warn(
            f"{n_samples} labelled sample(s) are too few to learn from: most labels get their "
            "prevalence. A few hundred are a good start."
        )
    if not n1.any():
        warn("No sample has a label, so nothing can be learned; is the truth complete?")
    z = (lpr.report.auc - 0.5) * np.sqrt(12.0 * n1 * n0 / (n1 + n0 + 1.0))
    n_below = int(np.count_nonzero(z < -3.0))
    if 2 * n_below > lpr.n_labels:
        warn(
            f"The AUC of {n_below:,} of {lpr.n_labels:,} labels is below 0.5; do larger scores "
            "mean more likely labels?"
        )
