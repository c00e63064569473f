"""A fitted model for a population in which labels are more or less frequent, and nothing else."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from hierlpr.cutoff.choose import DEFAULT_CUTOFF
from hierlpr.data.tables import Table, draw_samples, sample_limit
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint import JointModel, LabelPrior
from hierlpr.lpr import LPRCurves, LPRModel
from hierlpr.lpr.drift import Drift, compare_scores

__all__ = ["adapted", "drift_of"]

Float = NDArray[np.float64]
AnyModel = TypeVar("AnyModel")


def drift_of(lpr: LPRModel, table: Table, hierarchy: Hierarchy) -> Drift:
    """Compare scores with those fitted on; the expected prevalences keep the hierarchy."""
    if not isinstance(table.values, np.ndarray):
        raise DataError(
            "Listed scores (sparse) cannot be compared with those fitted on yet.\n"
            "Hint: give complete scores to fit and to check."
        )
    drawn = draw_samples(table.n_samples, sample_limit(table.n_samples, hierarchy) // 4, rng=0)
    return compare_scores(lpr, np.asarray(table.rows(drawn).values), hierarchy)


def adapted(model: AnyModel, drift: Drift) -> AnyModel:
    """Return a copy of a model with the prevalences that are expected, and no cutoff."""
    if drift.is_far:
        raise DataError(f"The scores look nothing like those fitted on. {drift}")
    if drift.is_different.any():
        warnings.warn(str(drift), HierlprWarning, stacklevel=3)
    new = copy.copy(model)
    lpr, joint = new.lpr_, new.joint_  # type: ignore[attr-defined]
    move = logit(drift.expected) - logit(drift.prevalence)
    new.lpr_ = _moved_curves(lpr, move, drift.expected)  # type: ignore[attr-defined]
    if joint is not None:
        new.joint_ = _moved_joint(joint, drift)  # type: ignore[attr-defined]
    new.cutoff_ = replace(  # type: ignore[attr-defined]
        DEFAULT_CUTOFF, reason="not calibrated for this population, to which prevalences were moved"
    )
    new.profile_ = new.cutoff_keys_ = new.sets_keys_ = new.sets_ = None  # type: ignore[attr-defined]
    return new


def _moved_curves(lpr: LPRModel, move: Float, base_rate: Float) -> LPRModel:
    """Multiply the odds of every LPR; monotone curves stay monotone."""
    curves = lpr.curves
    each = np.repeat(move, np.diff(curves.knot_ptr))
    knots = expit(logit(np.clip(curves.knot_lpr, 1e-15, 1.0 - 1e-15)) + each)
    moved = LPRCurves(curves.knot_ptr, curves.knot_score, knots)
    return LPRModel(moved, replace(lpr.report, base_rate=base_rate), None)


def _moved_joint(joint: JointModel, drift: Drift) -> JointModel:
    """Move the prevalences, and with them the shares of parents that have each label."""
    h, prior = joint.hierarchy, joint.prior
    move = logit(drift.expected) - logit(drift.prevalence)
    prevalence = expit(logit(prior.prevalence) + move)
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
