"""Changes of a fitted model without a new fit: other labels, other prevalences."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.special import expit, logit
from sklearn.utils.validation import check_is_fitted

from hierlpr._utils.checks import quote_names
from hierlpr.cutoff.outcome import DEFAULT_CUTOFF
from hierlpr.exceptions import DataError, warn
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.graph import rarest_parents
from hierlpr.joint import JointModel, LabelPrior
from hierlpr.lpr import LPRCurves, LPRModel
from hierlpr.lpr.drift import Drift
from hierlpr.lpr.label_shift import CHANCE_ADAPTED
from hierlpr.model.fitted import FittedModel, Float
from hierlpr.model.inputs import LabelledSamples, new_scores


class ChangeableModel(FittedModel):
    """The methods of `HierLPR` that change what was fitted."""

    def add_labels(
        self,
        edges: Iterable[tuple[str, str]],
        X: Any,
        y: Any,
        *,
        labels: Iterable[str] | None = None,
    ) -> Self:
        """Add labels with their scores and truth; the curves of the other labels do not change.

        `edges` are (parent, child) pairs of the new labels. `X` and `y` have one column per new
        label, in the order of `labels`, by default as they appear in `edges`.
        """
        check_is_fitted(self)
        h, pairs = self.hierarchy_, list(edges)
        in_edges = dict.fromkeys(name for pair in pairs for name in pair if name not in h)
        new = list(in_edges if labels is None else labels)
        if repeated := [name for i, name in enumerate(new) if name in h or name in new[:i]]:
            text = f"already in the model or named twice: {quote_names(repeated)}."
            raise DataError(f"add_labels: {text}")
        if others := [name for name in in_edges if name not in new]:
            raise DataError(f"add_labels: labels of edges not in labels=: {quote_names(others)}.")
        if not new:
            raise DataError(
                "add_labels: no new label.\n"
                "Hint: name them in edges (parent, child) or, without edges, in labels=[...]."
            )
        grown = Hierarchy([*h.edges, *pairs], labels=[*h.labels, *new], names=h.names)
        part = grown.subset(new)  # only edges among new labels are checked in the truth
        table = new_scores(X, part, self.kind_, missing_scores=self.missing_scores)
        depth = grown.levels[[grown.index(label) for label in part.labels]]
        samples = LabelledSamples.of(table, y, part)
        lpr, _ = self.fit_curves(samples, part, depth=depth, shared=self.lpr_.shared)
        return self._set_labels(grown, LPRModel.join([self.lpr_, lpr]))

    def remove_labels(self, labels: Iterable[str]) -> Self:
        """Remove labels; their children pass to their parents, other curves do not change."""
        check_is_fitted(self)
        h = self.hierarchy_
        removed = dict.fromkeys([labels] if isinstance(labels, str) else labels)
        unknown = [label for label in removed if label not in h]
        if unknown:
            raise DataError(f"remove_labels: unknown label(s): {quote_names(unknown)}.")
        rest = [label for label in h.labels if label not in removed]
        if not rest or not removed:
            raise DataError(f"remove_labels: no label {'was given' if rest else 'would be left'}.")
        return self._set_labels(h.subset(rest), self.lpr_.select([h.index(x) for x in rest]))

    def _set_labels(self, hierarchy: Hierarchy, lpr: LPRModel) -> Self:
        """Set the new labels and curves, and drop the cutoff and sets of the old ones."""
        lost = ["the cutoff is back at 0.5"] if self.cutoff_.goal.kind != "default" else []
        lost += ["sure and possible labels are forgotten"] if self.sets_ is not None else []
        if lost:
            warn(f"The labels have changed, so {' and '.join(lost)}. Calibrate again.")
        self.forget_cutoff()
        self.path_weight_, self.sample_summary_ = None, None
        labels, former = hierarchy.labels, self.hierarchy_.labels
        keys = {name: x.with_labels(labels, former) for name, x in self.keys_.items()}
        self.keys_ = {name: x for name, x in keys.items() if x.key.size or x.name is not None}
        return self.set_curves(hierarchy, lpr)

    def set_curves(self, hierarchy: Hierarchy, lpr: LPRModel) -> Self:
        """Set curves on a changed hierarchy, and change what else has values for each label."""
        former, prevalence, self.lpr_ = self.hierarchy_, lpr.report.base_rate, lpr
        if self.implied_ is not None:
            place = [former.index(x) if x in former else former.n_labels for x in hierarchy.labels]
            self.implied_ = self.implied_.select(place, hierarchy.levels, prevalence)
        if self.joint_ is not None:
            self.joint_ = self.joint_.changed(hierarchy, prevalence)
        self.hierarchy = self.hierarchy_ = hierarchy
        return self

    def adapt(self, X: Any) -> Self:
        """Return a new model for a population with other prevalences, estimated from its scores.

        It has no cutoff, because certificates do not carry over. Scores that differ from those of
        the fit by more than prevalences can explain are refused.
        """
        table = self.aligned_scores(X)
        if not isinstance(table.values, np.ndarray):
            raise DataError(
                "A model of listed scores (sparse) cannot be adapted.\n"
                "Hint: check works; fit again with labelled samples of the new population."
            )
        drift = self.compare_with_fit(table, CHANCE_ADAPTED)
        if drift.is_far:
            raise DataError(f"The scores look nothing like those of the fit. {drift}")
        if not drift.is_clean:
            warn(str(drift))
        return self.with_prevalences(drift)

    def with_prevalences(self, drift: Drift) -> Self:
        """Return a copy with the expected prevalences of `drift` and no cutoff."""
        new, shift = copy.copy(self), logit(drift.expected) - logit(drift.prevalence)
        curves, report = self.lpr_.curves, replace(self.lpr_.report, base_rate=drift.expected)
        each = np.repeat(shift, np.diff(curves.knot_ptr))
        inside = np.clip(curves.knot_lpr, 1e-15, 1.0 - 1e-15)
        knots = np.where(each == 0.0, curves.knot_lpr, expit(logit(inside) + each))
        new.lpr_ = LPRModel(LPRCurves(curves.knot_ptr, curves.knot_score, knots), report, None)
        if self.joint_ is not None and shift.any():
            new.joint_ = _shifted_joint(self.joint_, drift, shift)
        new.forget_cutoff()
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
