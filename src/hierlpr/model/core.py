"""The model of scores: comparable scores, a ranking and calls out. Only the order of the stages.

It knows nothing of scikit-learn, whose import would be most of the time of a short command;
`hierlpr.model.estimator.HierLPR` is the same model as an estimator.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np

from hierlpr._base import constructor_only
from hierlpr._base.checks import check_choice, check_fraction, check_sample_weight
from hierlpr._base.showing import terminal_progress
from hierlpr.cutoff.by_group import Groups, Promise, cutoff_on
from hierlpr.cutoff.choose import Rule, Unreachable, check_bound, goal_of
from hierlpr.cutoff.outcome import DEFAULT_CUTOFF, Cutoff
from hierlpr.cutoff.profile import LevelProfile
from hierlpr.cutoff.scored import collect
from hierlpr.cutoff.set_values import least_chance
from hierlpr.cutoff.sets import choose_sets
from hierlpr.data.label_sets import kind_of
from hierlpr.data.partial_truth import PartialTruth
from hierlpr.data.repeats import SampleKeys, doubts_about
from hierlpr.data.tables import Table, draw_samples, sample_limit
from hierlpr.exceptions import DataError, HierlprWarning, UnreachableWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.hierarchies import HierarchyLike, as_hierarchy
from hierlpr.joint import fit_joint_on, learn_depth_weights
from hierlpr.lpr import fit_known, fit_listed, own_lpr
from hierlpr.lpr.companions import Companions
from hierlpr.lpr.fitting import check_methods
from hierlpr.model.changing import adapted, add_labels, remove_labels, replace_labels
from hierlpr.model.fitted import FittedModel
from hierlpr.model.given_tables import (
    FitSource,
    refuse_unknown_labels,
    refuse_unknown_samples,
    scores_to_fit,
    weighed_rows,
)

# Instances, and at least samples, from which is learned how scores of a sample go together.
MOST_TOGETHER = 2**19
LEAST_TOGETHER = 500


@constructor_only
@dataclass(eq=False, repr=False, match_args=False)
class ScoreModel(FittedModel):
    """All that :class:`hierlpr.HierLPR` does; its parameters and attributes are described there."""

    hierarchy: HierarchyLike | None = None
    _: KW_ONLY
    lpr: Any = "auto"
    joint: bool | str = "auto"
    close_truth: bool = False
    missing: str = "error"
    n_threads: int | None = None

    # -- learning ---------------------------------------------------------------------------

    def fit(self, scores: Any, truth: Any, sample_weight: Any = None) -> Self:
        """Fit one curve from score to local precision rate for each label.

        Parameters
        ----------
        scores : matrix or data frame of shape (n_samples, n_labels)
            Any real numbers, larger for more likely; from classifiers that did not train on these
            samples (out-of-fold or held-out).
        truth : matrix or data frame of the same shape, or lists of labels
            0 or 1, or NaN (null) where it is unknown; a label that holds implies its parents. Or
            the labels of each sample, as a list of lists or sets, or a mapping of sample to labels.
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts, such as one over its chance to be drawn; 0 leaves it out.
            Only ratios matter: many unequal weights count as fewer samples (``docs/truth.md``).
        """
        self.check_params()
        tell = terminal_progress("fitting", verbose=self.verbose) or (lambda done, total: None)
        tell(0, 2)
        given = None if self.hierarchy is None else as_hierarchy(self.hierarchy)
        table = scores_to_fit(scores, given, missing=self.missing)
        hierarchy = given or Hierarchy(labels=table.labels)
        held = self._truth(truth, hierarchy, table)
        table, held, weight = weighed_rows(table, held, sample_weight)
        options: dict[str, Any] = {"method": self.lpr, "n_threads": self.n_threads}
        options["sample_weight"] = None if weight is None else weight / weight.max()
        implied = None
        refuse_unknown_labels(held, hierarchy)
        if kind_of(table) == "listed":
            lpr, implied = fit_listed(table.values, held, hierarchy, **options)
        else:
            lpr = fit_known(table.values, held, hierarchy, **options)
        tell(1, 2)
        keys = SampleKeys.of_rows(table.values)
        source = FitSource(hierarchy, lpr, implied, held, table.rows, table.n_stored, keys, weight)
        self.fit_on(source)
        self.set_labels(hierarchy, has_names=table.backend is not None)
        tell(2, 2)
        return self

    def check_params(self) -> None:
        """Refuse parameters that make no sense, before any work is done."""
        if self.joint is not False and self.joint is not True and self.joint != "auto":
            raise DataError(f"joint must be False, True or 'auto'; got {self.joint!r}.")
        check_choice(self.missing, ("error", "allow"), name="missing")
        check_methods(self.lpr)

    def fit_on(self, source: FitSource) -> Self:
        """Learn all that follows the curves. Fitting in memory and in parts both end here."""
        self.check_params()
        hierarchy, truth, take, weight = source.hierarchy, source.truth, source.take, source.weight
        self.forget_cutoff()  # also if what follows is interrupted
        self.set_labels(hierarchy, has_names=False)
        self.lpr_ = source.lpr
        if source.implied is not None:  # bins of listed scores cannot tell what is not listed
            self.lpr_ = replace(source.lpr, seen=None)
        self.implied_ = source.implied
        self.kind_ = "complete" if source.implied is None else "listed"
        self.joint_ = None
        if self.joint is not False:
            self.joint_ = fit_joint_on(
                (lambda rows: take(rows).values) if source.n_stored is None else None,
                truth,
                hierarchy,
                use="exact" if self.joint is True else "auto",
                method=self.lpr,
                n_threads=self.n_threads,
                sample_weight=None if weight is None else weight / weight.max(),
            )
        self._learn_together(source)
        n_samples = truth.shape[0]
        # A profile from part of the samples costs power at worst, never validity.
        drawn = draw_samples(n_samples, sample_limit(n_samples, hierarchy, source.n_stored), rng=0)
        score = self.block_scores(take(drawn))
        held = truth if drawn.size == n_samples else truth[drawn]
        profile = LevelProfile.of(collect(score, held, None if weight is None else weight[drawn]))
        self.fit_keys_ = source.keys
        self.forget_cutoff(profile)
        return self

    def calibrate(
        self,
        scores: Any,
        truth: Any,
        *,
        precision: float | None = None,
        fdr: float | None = None,
        maximize: str | None = None,
        confidence: float | None = None,
        groups: Groups | None = None,
        promise: Promise = "together",
        rule: Rule = "cautious",
        unreachable: Unreachable = "best-precision",
        sample_weight: Any = None,
        max_weight: float | None = None,
    ) -> Self:
        """Learn where to cut, from samples that were not used to fit.

        Parameters
        ----------
        scores, truth : matrices or data frames
            As in `fit`, of other samples.
        precision, fdr, maximize, confidence, rule, unreachable
            See :func:`hierlpr.cutoff.choose.choose_cutoff`.
        groups : "tree", "depth", "label", mapping or sequence, optional
            One level for each group of labels; see :func:`hierlpr.cutoff.label_groups`.
        promise : {"together", "each"}
            With `groups` and `confidence`: whether all groups keep the target at once with that
            confidence, or each on its own.
        sample_weight : array-like of shape (n_samples,), optional
            As in `fit`: precision, recall and F are then weighted.
        max_weight : float, optional
            The largest weight that a sample can have, known before the truth; with weights, nothing
            is certified (`confidence`) without it.
        """
        goal = goal_of(precision=precision, fdr=fdr, maximize=maximize, confidence=confidence)
        table = self._input(scores)
        held = self._truth(truth, self.hierarchy_, table)
        given = check_sample_weight(sample_weight, table.n_samples, keep_equal=True)
        check_bound(goal, given, max_weight)
        table, held, weight = weighed_rows(
            table, held, given, keep_equal=goal.confidence is not None
        )
        keys, doubts = self._checked_keys(table)
        cutoff = cutoff_on(
            goal, self.block_scores(table), held, self.hierarchy_, self.profile_,
            groups=groups, promise=promise, rule=rule, unreachable=unreachable,
            weight=weight, max_weight=max_weight,
        )  # fmt: skip
        if not cutoff.reachable:
            warnings.warn(cutoff.reason, UnreachableWarning, stacklevel=2)
        self.cutoff_ = cutoff.doubted(doubts)
        self.cutoff_keys_ = keys
        return self

    def set_cutoff(self, level: float) -> Self:
        """Cut at a block score of your own choosing, from 0 to 1; nothing is promised about it.

        Examples
        --------
        >>> from hierlpr import HierLPR
        >>> model = HierLPR({"dog": "animal"}).fit([[0.9, 0.2], [0.1, 0.0]], [["animal"], []])
        >>> print(model.set_cutoff(0.6).cutoff_)
        Calls at a block score of 0.6 or more, set by hand; nothing is promised about them.
        """
        self.check_fitted()
        self.cutoff_ = Cutoff(level=check_fraction(level, name="level"), kind="by hand")
        self.cutoff_keys_ = None
        return self

    def calibrate_sets(
        self,
        scores: Any,
        truth: Any,
        *,
        error: float = 0.1,
        confidence: float | None = None,
        one_path: bool = False,
    ) -> Self:
        """Learn which labels of a sample to call sure, and which possible.

        Parameters
        ----------
        scores, truth : matrices or data frames
            As in `fit`, of other samples.
        error : float
            At most this share of new samples has a sure label that does not hold; and, a statement
            of its own, at most this share has a label that holds and is not possible.
        confidence : float, optional
            By default the shares are over calibration and new samples together. With a confidence
            they hold given these calibration samples, for that share of all calibrations.
        one_path : bool
            Say that every sample has at most one path of labels, as in a taxonomy: siblings then
            exclude each other, and more labels are sure. If it is not so, the promises hold all the
            same, with smaller sets. Needs a forest and a score for every label.
        """
        table = self._input(scores)
        held = self._truth(truth, self.hierarchy_, table)
        if isinstance(held, PartialTruth):
            refuse_unknown_samples(held)
        keys, doubts = self._checked_keys(table)
        floor = least_chance(error)
        rule = choose_sets(
            lambda: self._set_values(table, one_path=one_path, floor=floor),
            held,
            error=error,
            confidence=confidence,
            one_path=one_path,
            floor=floor,
        )
        self.sets_ = rule.doubted(doubts)
        self.sets_keys_ = keys
        return self

    def adapt(self, scores: Any) -> Self:
        """Return a new model for a population whose labels are more or less frequent.

        `scores` are of samples of that population, without truth. The prevalences are estimated
        from them, LPRs and the joint prior follow; this model stays as it is. The new one has no
        cutoff: nothing certified here is certified there. Scores that look nothing like those
        fitted on, whatever the prevalences, are refused.
        """
        return adapted(self, self.check(scores))

    # -- changing it without refitting --------------------------------------------------------

    def add_labels(
        self,
        edges: Iterable[tuple[str, str]],
        scores: Any,
        truth: Any,
        *,
        labels: Iterable[str] | None = None,
    ) -> Self:
        """Add labels with their scores and truth; the other labels' curves stay as they are.

        Parameters
        ----------
        edges : iterable of (parent, child)
            How the new labels hang in the hierarchy; may be empty for standalone ones.
        scores, truth : matrices or data frames of shape (n_samples, n_new_labels)
            Of the new labels alone, of any samples.
        labels : iterable of str, optional
            The new labels in the order of the columns; by default as they appear in `edges`.
        """
        self.check_fitted()
        add_labels(self, edges, scores, truth, labels=labels)
        return self

    def remove_labels(self, labels: Iterable[str]) -> Self:
        """Remove labels; their children pass to their parents, other curves stay as they are."""
        self.check_fitted()
        remove_labels(self, labels)
        return self

    def replace(self, labels: Iterable[str], scores: Any, truth: Any) -> Self:
        """Fit the curves of some labels anew, for example after their classifiers changed."""
        self.check_fitted()
        replace_labels(self, labels, scores, truth)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file; :func:`hierlpr.load_model` reads it."""
        from hierlpr.model.persistence import save_model

        self.check_fitted()
        save_model(self, path)

    # -- plumbing ---------------------------------------------------------------------------

    def _learn_together(self, source: FitSource) -> None:
        """Learn how complete scores of a sample go together, from some samples, as many in parts.

        What tells where a path ends, and what each label's scores go with.
        """
        self.path_weight_ = None
        if source.implied is not None or self.lpr_.seen is None:
            return
        hierarchy, truth, weight = source.hierarchy, source.truth, source.weight
        limit = max(LEAST_TOGETHER, MOST_TOGETHER // hierarchy.n_labels)
        drawn = draw_samples(truth.shape[0], limit, rng=0)
        scores, held = np.ascontiguousarray(source.take(drawn).values), truth[drawn]
        counts = None if weight is None else weight[drawn]
        found = Companions.of(self.lpr_.seen, scores, held, hierarchy, counts)
        self.lpr_ = replace(self.lpr_, companions=found)
        own = own_lpr(self.lpr_, scores, n_threads=self.n_threads)
        prevalence = self.lpr_.report.base_rate
        self.path_weight_ = learn_depth_weights(own, held, prevalence, hierarchy, counts)

    def forget_cutoff(self, profile: LevelProfile | None = None) -> None:
        """Go back to the default cutoff; `profile` is what the next one is planned with."""
        self.profile_ = profile
        self.cutoff_ = DEFAULT_CUTOFF
        self.sets_ = None
        self.cutoff_keys_ = None
        self.sets_keys_ = None

    def set_labels(self, hierarchy: Hierarchy, *, has_names: bool) -> None:
        """Take the labels of a hierarchy, as columns with names or without."""
        self.hierarchy_ = hierarchy
        self.n_features_in_ = hierarchy.n_labels
        self.classes_ = np.array(hierarchy.labels, dtype=object)
        if has_names:
            self.feature_names_in_ = np.array(hierarchy.labels, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _checked_keys(self, table: Table) -> tuple[SampleKeys, list[str]]:
        """Return the keys of calibration samples; warn if they are not new or not independent."""
        keys = SampleKeys.of_rows(table.values)
        doubts = doubts_about(keys, self.fit_keys_)
        for note in doubts:
            warnings.warn(note, HierlprWarning, stacklevel=3)
        return keys, doubts
