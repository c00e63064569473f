"""A fitted model changed without refitting: labels added, removed, replaced; prevalences moved.

The curves of labels that are not named stay bit-identical.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import listed
from hierlpr.cutoff.outcome import DEFAULT_CUTOFF
from hierlpr.data.label_sets import as_kind, kind_of
from hierlpr.data.partial_truth import align_known
from hierlpr.data.tables import Table, align, align_labels, draw_samples, match_rows, sample_limit
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint import JointModel, LabelPrior
from hierlpr.joint.posterior import forest_posteriors
from hierlpr.lpr import LPRCurves, LPRModel, fit_known, fit_listed
from hierlpr.lpr.drift import Drift, compare_scores
from hierlpr.lpr.tilts import Posterior

if TYPE_CHECKING:
    from hierlpr.model.core import ScoreModel

Float = NDArray[np.float64]
AnyModel = TypeVar("AnyModel", bound="ScoreModel")
TRUSTED = 0.8  # mean weight of other labels' evidence from which on a shift is told by it too


def add_labels(
    model: ScoreModel,
    edges: Iterable[tuple[str, str]],
    scores: Any,
    truth: Any,
    *,
    labels: Iterable[str] | None,
) -> None:
    """Join new labels to the hierarchy and their curves to the model."""
    hierarchy = model.hierarchy_
    pairs = list(edges)
    named = None if labels is None else list(labels)
    wanted = [name for pair in pairs for name in pair] if named is None else named
    new = [name for name in dict.fromkeys(wanted) if name not in hierarchy]
    if named is not None and len(new) != len(named):
        known = [name for name in named if name in hierarchy]
        raise DataError(
            f"add_labels: already in the model or named twice: {listed(known or named)}."
        )
    if not new:
        raise DataError(
            "add_labels: no new label.\n"
            "Hint: name them in edges (parent, child) or, standing alone, in labels=[...]."
        )
    grown = Hierarchy(
        [*hierarchy.edges, *pairs], labels=[*hierarchy.labels, *new], names=hierarchy.names
    )
    if grown.n_labels != hierarchy.n_labels + len(new):
        strays = [name for name in grown.labels[hierarchy.n_labels :] if name not in set(new)]
        raise DataError(f"add_labels: edges name labels that are not in labels=: {listed(strays)}.")
    fitted = _fit(model, grown.subset(new), scores, truth)
    _take(model, grown, LPRModel.join([model.lpr_, fitted]))


def remove_labels(model: ScoreModel, labels: Iterable[str]) -> None:
    """Drop labels; edges pass through them."""
    hierarchy = model.hierarchy_
    gone = set(_known(hierarchy, labels, name="remove_labels"))
    kept = [label for label in hierarchy.labels if label not in gone]
    if not kept:
        raise DataError("remove_labels: no label would be left.")
    curves = model.lpr_.select([hierarchy.index(label) for label in kept])
    _take(model, hierarchy.subset(kept), curves)


def replace_labels(model: ScoreModel, labels: Iterable[str], scores: Any, truth: Any) -> None:
    """Fit the curves of `labels` anew on their own scores and truth."""
    hierarchy = model.hierarchy_
    named = _known(hierarchy, labels, name="replace")
    fitted = _fit(model, hierarchy.subset(named), scores, truth)
    place = list(range(hierarchy.n_labels))
    for i, label in enumerate(named):
        place[hierarchy.index(label)] = hierarchy.n_labels + i
    _take(model, hierarchy, LPRModel.join([model.lpr_, fitted]).select(place), fresh=named)


def _known(hierarchy: Hierarchy, labels: Iterable[str], *, name: str) -> Sequence[str]:
    named = [labels] if isinstance(labels, str) else list(labels)
    unknown = [label for label in named if label not in hierarchy]
    if unknown:
        raise DataError(f"{name}: unknown label(s): {listed(unknown)}.")
    if len(set(named)) != len(named) or not named:
        raise DataError(f"{name}: name each label once, and at least one.")
    return named


def _fit(model: ScoreModel, part: Hierarchy, scores: Any, truth: Any) -> LPRModel:
    """Fit curves for some labels alone; only edges among them can be checked in the truth."""
    table = align(scores, part, name="scores")
    if model.kind_ is not None:
        table = as_kind(table, model.kind_)
    known = match_rows(align_labels(truth, part, name="truth"), table)
    held = align_known(table.values, known, part)
    options: dict[str, Any] = {"method": model.lpr, "n_threads": model.n_threads}
    if kind_of(table) == "listed":
        return fit_listed(table.values, held, part, **options)[0]
    return fit_known(table.values, held, part, **options)


def _take(
    model: ScoreModel, hierarchy: Hierarchy, lpr: LPRModel, *, fresh: Collection[str] = ()
) -> None:
    """Take the new labels; a cutoff learned for the old ones promises nothing now."""
    lost = ["the cutoff is back at 0.5"] if model.cutoff_.kind != "default" else []
    lost += ["what is sure and possible is forgotten"] if model.sets_ is not None else []
    if lost:
        said = f"The labels have changed, so {' and '.join(lost)}. Calibrate again."
        warnings.warn(said, HierlprWarning, stacklevel=4)
    model.forget_cutoff()
    model.fit_keys_ = None
    model.path_weight_ = None
    former, model.lpr_ = model.hierarchy_, lpr
    prevalence = lpr.report.base_rate
    if model.implied_ is not None:
        place = [former.index(x) if x in former else former.n_labels for x in hierarchy.labels]
        model.implied_ = model.implied_.select(place, prevalence)
    if model.joint_ is not None:
        model.joint_ = model.joint_.changed(hierarchy, prevalence, fresh)
    model.hierarchy = hierarchy
    model.set_labels(hierarchy, has_names=hasattr(model, "feature_names_in_"))


# -- prevalences -------------------------------------------------------------------------------


def drift_of(
    lpr: LPRModel, table: Table, hierarchy: Hierarchy, joint: JointModel | None
) -> Drift:  # fmt: skip
    """Compare scores with those fitted on; the expected prevalences keep the hierarchy."""
    if not isinstance(table.values, np.ndarray):
        raise DataError(
            "Listed scores (sparse) cannot be compared with those fitted on yet.\n"
            "Hint: give complete scores to fit and to check."
        )
    drawn = rows_compared(table.n_samples, hierarchy)
    posterior: Posterior | None = None
    # Where the scores of a sample go together nearly as the joint posterior says.
    if joint is not None and joint.tempering.others.mean() >= TRUSTED:

        def posterior(values: Float, prevalence: Float, conditional: Float) -> Float:
            prior = LabelPrior(prevalence, conditional)
            return forest_posteriors(values, prior, hierarchy)[0]

    return compare_scores(lpr, np.asarray(table.rows(drawn).values), hierarchy, posterior)


def rows_compared(n_samples: int, hierarchy: Hierarchy) -> NDArray[np.intp]:
    """Choose the samples that are compared: all, or as many as are enough."""
    return draw_samples(n_samples, sample_limit(n_samples, hierarchy) // 4, rng=0)


def adapted(model: AnyModel, drift: Drift) -> AnyModel:
    """Return a copy of a model with the prevalences that are expected, and no cutoff."""
    if drift.is_far:
        raise DataError(f"The scores look nothing like those fitted on. {drift}")
    if not drift.is_clean:
        warnings.warn(str(drift), HierlprWarning, stacklevel=3)
    new = copy.copy(model)
    new.lpr_ = _moved_curves(model.lpr_, drift)
    if model.joint_ is not None and _move(drift).any():
        new.joint_ = _moved_joint(model.joint_, drift)
    new.forget_cutoff()
    new.cutoff_ = replace(
        DEFAULT_CUTOFF, reason="not calibrated for this population, to which prevalences were moved"
    )
    return new


def _moved_curves(lpr: LPRModel, drift: Drift) -> LPRModel:
    """Multiply the odds of every LPR; monotone curves stay monotone."""
    from scipy.special import expit, logit

    curves = lpr.curves
    each = np.repeat(_move(drift), np.diff(curves.knot_ptr))
    inside = np.clip(curves.knot_lpr, 1e-15, 1.0 - 1e-15)
    knots = np.where(each == 0.0, curves.knot_lpr, expit(logit(inside) + each))
    moved = LPRCurves(curves.knot_ptr, curves.knot_score, knots)
    return LPRModel(moved, replace(lpr.report, base_rate=drift.expected), None)


def _moved_joint(joint: JointModel, drift: Drift) -> JointModel:
    """Move the prevalences, and with them the shares of parents that have each label."""
    from scipy.special import expit, logit

    h, prior = joint.hierarchy, joint.prior
    prevalence = expit(logit(prior.prevalence) + _move(drift))
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
    edge = 1e-12
    return replace(
        joint,
        prior=LabelPrior(*(np.clip(x, edge, 1.0 - edge) for x in (prevalence, conditional))),
    )


def _move(drift: Drift) -> Float:
    from scipy.special import logit

    return np.asarray(logit(drift.expected) - logit(drift.prevalence))
