"""Fit a `HierLPR`, add and remove labels, and adapt it to other prevalences."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from hierlpr._utils.checks import (
    check_choice,
    check_finite,
    check_jobs,
    check_sample_weight,
    quote_names,
)
from hierlpr.cutoff.estimate import LevelProfile
from hierlpr.cutoff.instances import list_instances
from hierlpr.cutoff.outcome import DEFAULT_CUTOFF
from hierlpr.data import tables
from hierlpr.data.clusters import cluster_ids, cluster_note
from hierlpr.data.duplicates import SampleKeys, leakage_warnings
from hierlpr.data.listed import Kind, as_kind, kind_of
from hierlpr.data.tables import Table, draw_samples
from hierlpr.data.truth import Truth, align_truth, implied_share
from hierlpr.exceptions import DataError, warn
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.graph import rarest_parents
from hierlpr.io.hierarchies import as_hierarchy
from hierlpr.joint import JointModel, LabelPrior, fit_joint, learn_depth_weights
from hierlpr.lpr import ImpliedLPR, LPRCurves, LPRModel, fit_known, fit_listed, own_lpr
from hierlpr.lpr.comparison import SampleSummary
from hierlpr.lpr.drift import Drift
from hierlpr.lpr.estimators import make_estimator
from hierlpr.lpr.fitting import with_sharing
from hierlpr.lpr.label_shift import CHANCE_ADAPTED
from hierlpr.model.prediction import compare_with_fit

if TYPE_CHECKING:
    from hierlpr.model.estimator import HierLPR

Float = NDArray[np.float64]
Edges = Iterable[tuple[str, str]]  # (parent, child)
# Weights of depths are learned from this many instances, but at least this many samples.
PATH_INSTANCES = 2**19
PATH_SAMPLES = 500


def check_params(model: HierLPR) -> None:
    """Refuse invalid parameters before any work is done."""
    if model.joint is not False and model.joint is not True and model.joint != "auto":
        raise DataError(f"joint must be False, True or 'auto'; got {model.joint!r}.")
    check_choice(model.missing_scores, ("error", "allow"), name="missing_scores")
    check_jobs(model.n_jobs)
    make_estimator(model.lpr)


def fit_model(model: HierLPR, scores: Any, truth: Any, sample_weight: Any, clusters: Any) -> None:
    """Check the data, then fit the curves and everything that depends on them."""
    check_params(model)
    given = None if model.hierarchy is None else as_hierarchy(model.hierarchy)
    table = new_scores(scores, given, None, missing_scores=model.missing_scores)
    hierarchy = given or Hierarchy(labels=table.labels)
    known = align_truth(truth, hierarchy, table, propagate_truth=model.propagate_truth)
    known = known.in_clusters(cluster_ids(clusters, table))
    if known.is_complete:
        tables.refuse_truth_as_scores(table.values, known.positive)
    fit_aligned(model, hierarchy, table, known, sample_weight)


def fit_aligned(
    model: HierLPR, hierarchy: Hierarchy, table: Table, truth: Truth, sample_weight: Any
) -> None:
    """Fit a model on scores and truth that are checked and in the order of the labels."""
    rows, weight = weighed(tables.match_weights(sample_weight, table), table.n_samples)
    table, truth = table.rows(rows), truth[rows]
    refuse_unknown_labels(truth, hierarchy)
    options: dict[str, Any] = {"method": model.lpr, "n_jobs": model.n_jobs}
    options["sample_weight"] = None if weight is None else weight / weight.max()
    lpr, implied = fit_curves(table, truth, hierarchy, **options)
    _warn_of_mistakes(lpr)
    model.keys_ = {}
    forget_cutoff(model)  # first, so that no promise outlives an interrupted fit
    model.hierarchy_, model.lpr_, model.implied_, model.joint_ = hierarchy, lpr, implied, None
    if model.joint is not False:
        options |= {"method": with_sharing(model.lpr, lpr.shared)}
        options |= {"use": "exact" if model.joint is True else "auto"}
        model.joint_ = fit_joint(table.values, truth, hierarchy, **options)
    model.path_weight_ = None
    if implied is None:
        limit = max(PATH_SAMPLES, PATH_INSTANCES // hierarchy.n_labels)
        part, known, own = _draw(limit, table, truth, weight)
        rates = own_lpr(lpr, part.values, n_jobs=model.n_jobs)
        model.path_weight_ = learn_depth_weights(rates, known, lpr.report.base_rate, hierarchy, own)
    model.keys_ = {"fit": SampleKeys.of_samples(table, truth.cluster)}
    model.sample_summary_ = SampleSummary.of(lpr, table.values, hierarchy, weight)
    model.profile_ = _fit_profile(model, table, truth, weight)


def fit_curves(
    table: Table, truth: Truth, hierarchy: Hierarchy, **options: Any
) -> tuple[LPRModel, ImpliedLPR | None]:
    """Return the curves of the labels and, for listed scores, those of implied labels."""
    if kind_of(table) == "complete":
        return fit_known(table.values, truth, hierarchy, **options), None
    lpr, implied = fit_listed(table.values, truth, hierarchy, **options)
    return replace(lpr, seen=None), implied  # bins say nothing about labels that are not listed


def _warn_of_mistakes(lpr: LPRModel) -> None:
    """Warn without positives, or if most AUCs are more than 3 standard errors below 0.5."""
    n1, n0 = lpr.report.positives, lpr.report.negatives
    if not n1.any():
        note = "No sample has a label, so nothing can be learned; is the truth complete?"
        warn(note)
    z = (lpr.report.auc - 0.5) * np.sqrt(12.0 * n1 * n0 / (n1 + n0 + 1.0))
    n_below = int(np.count_nonzero(z < -3.0))
    if 2 * n_below > lpr.n_labels:
        warn(
            f"The AUC of {n_below:,} of {lpr.n_labels:,} labels is below 0.5; do larger scores "
            "mean more likely labels?"
        )


def _fit_profile(model: HierLPR, table: Table, truth: Truth, weight: Float | None) -> LevelProfile:
    """Return the profile of block scores; a part of the samples may cost power, never validity."""
    limit = tables.sample_limit(table.n_samples, model.hierarchy_, table.n_stored)
    table, truth, weight = _draw(limit, table, truth, weight)
    score, share = model.block_scores(table), None
    if not truth.is_complete:
        share = implied_share(truth, model.hierarchy_, weight)
        truth = truth.evaluated(model.hierarchy_, share=share)
    return replace(LevelProfile.of(list_instances(score, truth, weight)), implied_share=share)


def _draw(
    limit: int, table: Table, truth: Truth, weight: Float | None
) -> tuple[Table, Truth, Float | None]:
    """Return at most `limit` samples, drawn at random with a fixed seed."""
    drawn = draw_samples(table.n_samples, limit, rng=0)
    return table.rows(drawn), truth[drawn], None if weight is None else weight[drawn]


def forget_cutoff(model: HierLPR) -> None:
    """Reset the cutoff to the default, and drop the sets, the profile and samples used for them."""
    model.cutoff_, model.sets_, model.profile_ = DEFAULT_CUTOFF, None, None
    model.keys_ = {name: keys for name, keys in model.keys_.items() if name == "fit"}


# -- scores and truth as users give them -------------------------------------------------------


def new_scores(
    scores: Any, hierarchy: Hierarchy | None, kind: Kind | None, *, missing_scores: str
) -> Table:
    """Return checked scores in the order of the labels, which they set if there is no hierarchy.

    `kind` is that of the scores a model was fitted on; None for scores to learn from.
    """
    table = tables.align(scores, hierarchy, name="scores")
    table = table if kind is None else as_kind(table, kind)
    values = table.values
    if missing_scores == "allow" and isinstance(values, np.ndarray):
        values = np.where(np.isnan(values), 0.0, values)
    hint = 'fill in or drop missing values first, or fit with HierLPR(missing_scores="allow").'
    check_finite(values, table.labels, name="scores", hint=hint)
    for count, what in zip(values.shape, ("sample", "feature"), strict=True):
        if kind is None and count == 0:
            raise DataError(
                f"scores: 0 {what}(s) (shape={values.shape}) while a minimum of 1 is required."
            )
    return table


def weighed(
    sample_weight: Any, n_samples: int, *, keep_equal: bool = False
) -> tuple[NDArray[np.intp], Float | None]:
    """Return samples of positive weight and their weights; None if equal, unless `keep_equal`."""
    weight = check_sample_weight(sample_weight, n_samples, keep_equal=keep_equal)
    if weight is None:
        return np.arange(n_samples), None
    rows = np.flatnonzero(weight)
    left = weight[rows]
    return rows, None if not keep_equal and np.all(left == left[0]) else left


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


# -- changes without refitting ------------------------------------------------------------------


def add_labels(
    model: HierLPR, edges: Edges, scores: Any, truth: Any, labels: Iterable[str] | None
) -> None:
    """Add new labels to the hierarchy and their curves to the model."""
    hierarchy, pairs = model.hierarchy_, list(edges)
    named = None if labels is None else list(labels)
    wanted = [name for pair in pairs for name in pair] if named is None else named
    new = [name for name in dict.fromkeys(wanted) if name not in hierarchy]
    if named is not None and len(new) != len(named):
        known = [name for name in named if name in hierarchy]
        raise DataError(
            f"add_labels: already in the model or named twice: {quote_names(known or named)}."
        )
    if not new:
        raise DataError(
            "add_labels: no new label.\n"
            "Hint: name them in edges (parent, child) or, without edges, in labels=[...]."
        )
    grown = Hierarchy(
        [*hierarchy.edges, *pairs], labels=[*hierarchy.labels, *new], names=hierarchy.names
    )
    if grown.n_labels != hierarchy.n_labels + len(new):
        others = [name for name in grown.labels[hierarchy.n_labels :] if name not in set(new)]
        raise DataError(f"add_labels: labels of edges not in labels=: {quote_names(others)}.")
    part = grown.subset(new)  # only edges among new labels are checked in the truth
    table = new_scores(scores, part, model.kind_, missing_scores=model.missing_scores)
    aligned = align_truth(truth, part, table)
    options: dict[str, Any] = {"method": model.lpr, "n_jobs": model.n_jobs}
    options["depth"] = grown.levels[[grown.index(label) for label in part.labels]]
    options["shared"] = model.lpr_.shared
    fitted, _ = fit_curves(table, aligned, part, **options)
    _set_labels(model, grown, LPRModel.join([model.lpr_, fitted]))


def remove_labels(model: HierLPR, labels: Iterable[str]) -> None:
    """Remove labels; edges pass through them."""
    hierarchy = model.hierarchy_
    removed = dict.fromkeys([labels] if isinstance(labels, str) else labels)
    unknown = [label for label in removed if label not in hierarchy]
    if unknown:
        raise DataError(f"remove_labels: unknown label(s): {quote_names(unknown)}.")
    kept = [label for label in hierarchy.labels if label not in removed]
    if not kept or not removed:
        raise DataError(f"remove_labels: no label {'was given' if kept else 'would be left'}.")
    curves = model.lpr_.select([hierarchy.index(label) for label in kept])
    _set_labels(model, hierarchy.subset(kept), curves)


def _set_labels(model: HierLPR, hierarchy: Hierarchy, lpr: LPRModel) -> None:
    """Set the new labels and curves, and drop the cutoff and sets of the old ones."""
    lost = ["the cutoff is back at 0.5"] if model.cutoff_.goal.kind != "default" else []
    lost += ["sure and possible labels are forgotten"] if model.sets_ is not None else []
    if lost:
        message = f"The labels have changed, so {' and '.join(lost)}. Calibrate again."
        warn(message)
    forget_cutoff(model)
    model.path_weight_, model.sample_summary_ = None, None
    former, model.lpr_ = model.hierarchy_, lpr
    left = {k: x.with_labels(hierarchy.labels, former.labels) for k, x in model.keys_.items()}
    model.keys_ = {k: x for k, x in left.items() if x.key.size or x.name is not None}
    prevalence = lpr.report.base_rate
    if model.implied_ is not None:
        place = [former.index(x) if x in former else former.n_labels for x in hierarchy.labels]
        model.implied_ = model.implied_.select(place, hierarchy.levels, prevalence)
    if model.joint_ is not None:
        model.joint_ = model.joint_.changed(hierarchy, prevalence)
    model.hierarchy = model.hierarchy_ = hierarchy


def adapted(model: HierLPR, table: Table) -> HierLPR:
    """Return a copy of a model with the prevalences of new scores, unless these look wrong."""
    drift = compare_with_fit(model, table, CHANCE_ADAPTED)
    if drift.is_far:
        raise DataError(f"The scores look nothing like those of the fit. {drift}")
    if not drift.is_clean:
        warn(str(drift))
    return with_prevalences(model, drift)


def with_prevalences(model: HierLPR, drift: Drift) -> HierLPR:
    """Return a copy of a model with the expected prevalences of `drift` and no cutoff."""
    new = copy.copy(model)
    shift = logit(drift.expected) - logit(drift.prevalence)
    curves, report = model.lpr_.curves, replace(model.lpr_.report, base_rate=drift.expected)
    each = np.repeat(shift, np.diff(curves.knot_ptr))
    inside = np.clip(curves.knot_lpr, 1e-15, 1.0 - 1e-15)
    knots = np.where(each == 0.0, curves.knot_lpr, expit(logit(inside) + each))
    new.lpr_ = LPRModel(LPRCurves(curves.knot_ptr, curves.knot_score, knots), report, None)
    if model.joint_ is not None and shift.any():
        new.joint_ = _shifted_joint(model.joint_, drift, shift)
    forget_cutoff(new)
    new.sample_summary_ = None
    reason = "not calibrated for this population, to whose prevalences the model was adapted"
    new.cutoff_ = replace(DEFAULT_CUTOFF, reason=reason)
    return new


def _shifted_joint(joint: JointModel, drift: Drift, shift: Float) -> JointModel:
    """Return the joint model with shifted prevalences and conditional probabilities."""
    h, prior = joint.hierarchy, joint.prior
    prevalence = expit(logit(prior.prevalence) + shift)
    # P(label | all its parents) moves as its share in the rarest parent does.
    rarest = rarest_parents(h, drift.prevalence)[h.position]
    before, after = (
        np.clip(rate / rate[h.order[rarest]], 1e-9, 1.0 - 1e-9)
        for rate in (drift.prevalence, drift.expected)
    )
    moved = expit(logit(prior.conditional) + logit(after) - logit(before))
    conditional = np.where(rarest >= 0, moved, prevalence)
    inside = (np.clip(x, 1e-12, 1.0 - 1e-12) for x in (prevalence, conditional))
    return replace(joint, prior=LabelPrior(*inside))
