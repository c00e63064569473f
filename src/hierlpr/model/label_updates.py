"""Change a fitted model without refitting: add and remove labels, or adapt its prevalences."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from hierlpr._utils.checks import quote_names
from hierlpr.cutoff.outcome import DEFAULT_CUTOFF
from hierlpr.data.tables import Table, draw_samples, sample_limit
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint import JointModel, LabelPrior
from hierlpr.joint.posterior import forest_posteriors
from hierlpr.lpr import LPRCurves, LPRModel
from hierlpr.lpr.drift import Drift, compare_scores
from hierlpr.lpr.label_shift import CHANCE_ADAPTED, CHANCE_TILT, Posterior
from hierlpr.model.training import fit_curves, forget_cutoff, new_scores, truth_beside

if TYPE_CHECKING:
    from hierlpr.model.estimator import HierLPR

Float = NDArray[np.float64]
# From this mean weight of other labels' evidence on, prevalences are estimated jointly.
JOINT_SHIFT_WEIGHT = 0.8


def add_labels(
    model: HierLPR,
    edges: Iterable[tuple[str, str]],
    scores: Any,
    truth: Any,
    *,
    labels: Iterable[str] | None,
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
    table = new_scores(scores, part, model.kind_, missing=model.missing)
    held = truth_beside(table, truth, part, close=False)
    options: dict[str, Any] = {"method": model.lpr, "n_threads": model.n_threads}
    options["depth"] = grown.levels[[grown.index(label) for label in part.labels]]
    options["shared"] = model.lpr_.shared
    fitted, _ = fit_curves(table, held, part, **options)
    _set_labels(model, grown, LPRModel.join([model.lpr_, fitted]))


def remove_labels(model: HierLPR, labels: Iterable[str]) -> None:
    """Remove labels; edges pass through them."""
    hierarchy = model.hierarchy_
    removed = {labels} if isinstance(labels, str) else set(labels)
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
    lost = ["the cutoff is back at 0.5"] if model.cutoff_.kind != "default" else []
    lost += ["sure and possible labels are forgotten"] if model.sets_ is not None else []
    if lost:
        message = f"The labels have changed, so {' and '.join(lost)}. Calibrate again."
        warnings.warn(message, HierlprWarning, stacklevel=4)
    forget_cutoff(model)
    model.keys_, model.path_weight_, model.sample_quantiles_ = {}, None, None
    former, model.lpr_ = model.hierarchy_, lpr
    prevalence = lpr.report.base_rate
    if model.implied_ is not None:
        place = [former.index(x) if x in former else former.n_labels for x in hierarchy.labels]
        model.implied_ = model.implied_.select(place, hierarchy.levels, prevalence)
    if model.joint_ is not None:
        model.joint_ = model.joint_.changed(hierarchy, prevalence)
    model.hierarchy = model.hierarchy_ = hierarchy


# -- prevalences -------------------------------------------------------------------------------


def compare_with_fit(model: HierLPR, table: Table, chance: float = CHANCE_TILT) -> Drift:
    """Compare scores with those of the fit; the expected prevalences respect the hierarchy."""
    if not isinstance(table.values, np.ndarray):
        raise DataError(
            "Listed scores (sparse) cannot be compared with those of the fit yet.\n"
            "Hint: give complete scores to fit and to check."
        )
    hierarchy, joint = model.hierarchy_, model.joint_
    limit = sample_limit(table.n_samples, hierarchy) // 4
    drawn = draw_samples(table.n_samples, limit, rng=0)
    posterior: Posterior | None = None
    if joint is not None and joint.tempering.others.mean() >= JOINT_SHIFT_WEIGHT:

        def posterior(values: Float, prevalence: Float, conditional: Float) -> Float:
            prior = LabelPrior(prevalence, conditional)
            return forest_posteriors(values, prior, hierarchy)[0]

    values = np.asarray(table.rows(drawn).values)
    return compare_scores(model.lpr_, values, hierarchy, posterior, chance)


def adapted(model: HierLPR, table: Table) -> HierLPR:
    """Return a copy of a model with the prevalences of new scores, unless these look wrong."""
    drift = compare_with_fit(model, table, CHANCE_ADAPTED)
    if drift.is_far:
        raise DataError(f"The scores look nothing like those of the fit. {drift}")
    if not drift.is_clean:
        warnings.warn(str(drift), HierlprWarning, stacklevel=3)
    return with_prevalences(model, drift)


def with_prevalences(model: HierLPR, drift: Drift) -> HierLPR:
    """Return a copy of a model with the expected prevalences of `drift` and no cutoff."""
    new = copy.copy(model)
    shift = logit(drift.expected) - logit(drift.prevalence)
    new.lpr_ = _shifted_curves(model.lpr_, drift, shift)
    if model.joint_ is not None and shift.any():
        new.joint_ = _shifted_joint(model.joint_, drift, shift)
    forget_cutoff(new)
    new.sample_quantiles_ = None
    reason = "not calibrated for this population, to whose prevalences the model was adapted"
    new.cutoff_ = replace(DEFAULT_CUTOFF, reason=reason)
    return new


def _shifted_curves(lpr: LPRModel, drift: Drift, shift: Float) -> LPRModel:
    """Return curves with shifted log-odds; they stay monotone."""
    curves = lpr.curves
    each = np.repeat(shift, np.diff(curves.knot_ptr))
    inside = np.clip(curves.knot_lpr, 1e-15, 1.0 - 1e-15)
    knots = np.where(each == 0.0, curves.knot_lpr, expit(logit(inside) + each))
    moved = LPRCurves(curves.knot_ptr, curves.knot_score, knots)
    return LPRModel(moved, replace(lpr.report, base_rate=drift.expected), None)


def _shifted_joint(joint: JointModel, drift: Drift, shift: Float) -> JointModel:
    """Return the joint model with shifted prevalences and conditional probabilities."""
    h, prior = joint.hierarchy, joint.prior
    prevalence = expit(logit(prior.prevalence) + shift)
    conditional = prevalence.copy()
    for k, label in enumerate(h.labels):
        parents = [h.index(p) for p in h.parents(label)]
        if not parents:
            continue
        # P(label | all its parents) moves as its share in the rarest parent does.
        rarest = min(parents, key=lambda p: (drift.prevalence[p], p))
        before, after = (
            min(max(rate[k] / rate[rarest], 1e-9), 1.0 - 1e-9)
            for rate in (drift.prevalence, drift.expected)
        )
        conditional[k] = expit(logit(prior.conditional[k]) + logit(after) - logit(before))
    inside = (np.clip(x, 1e-12, 1.0 - 1e-12) for x in (prevalence, conditional))
    return replace(joint, prior=LabelPrior(*inside))
