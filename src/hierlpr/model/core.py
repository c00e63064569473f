"""The model of scores: comparable scores, a ranking and calls out. Only the order of the stages.

It knows nothing of scikit-learn, whose import would be most of the time of a short command;
`hierlpr.model.estimator.HierLPR` is the same model as an estimator.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix, check_choice, check_fraction
from hierlpr.cutoff.by_group import Groups, Promise
from hierlpr.cutoff.choose import DEFAULT_CUTOFF, Cutoff, Rule, Unreachable, goal_of
from hierlpr.cutoff.decisions import LabelCall, call_lists, decide
from hierlpr.cutoff.profile import LevelProfile
from hierlpr.cutoff.scored import collect
from hierlpr.cutoff.sets import (
    CallSets,
    SetRule,
    SetValues,
    call_sets,
    choose_sets,
    deepest_sure,
    many_label_values,
    one_path_values,
)
from hierlpr.data.frames import like_given
from hierlpr.data.listing import Kind, kind_of
from hierlpr.data.partial_truth import AnyTruth, PartialTruth
from hierlpr.data.repeats import SampleKeys, overlap_note
from hierlpr.data.tables import Table, draw_samples, sample_limit
from hierlpr.exceptions import DataError, HierlprError, HierlprWarning, UnreachableWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.given_hierarchy import HierarchyLike, as_hierarchy
from hierlpr.joint import (
    JointModel,
    end_posterior,
    fit_joint_on,
    fit_known,
    own_lpr,
    predict_known,
)
from hierlpr.lpr import ImpliedLPR, LPRModel, fit_listed
from hierlpr.lpr.drift import Drift
from hierlpr.metrics import au_prc_score
from hierlpr.model.adapting import adapted, drift_of
from hierlpr.model.calibrating import cutoff_on, doubts_about
from hierlpr.model.edit import added, removed, replaced
from hierlpr.model.explaining import Explanation, explain_sample
from hierlpr.model.given_tables import (
    FitSource,
    new_scores,
    refuse_unknown_labels,
    refuse_unknown_samples,
    scores_to_fit,
    truth_beside,
)
from hierlpr.ranking.blocks import consistent_scores
from hierlpr.ranking.order import Ranking, rank

__all__ = ["ScoreModel"]


class ScoreModel:
    """All that :class:`hierlpr.HierLPR` does; its parameters and attributes are described there."""

    def __init__(
        self,
        hierarchy: HierarchyLike | None = None,
        *,
        lpr: Any = "auto",
        joint: bool | str = "auto",
        close_truth: bool = False,
        missing: str = "error",
        n_threads: int | None = None,
    ) -> None:
        self.hierarchy = hierarchy
        self.lpr = lpr
        self.joint = joint
        self.close_truth = close_truth
        self.missing = missing
        self.n_threads = n_threads

    # -- learning ---------------------------------------------------------------------------

    def fit(self, scores: Any, truth: Any) -> Self:
        """Fit one curve from score to local precision rate for each label.

        Parameters
        ----------
        scores : matrix or data frame of shape (n_samples, n_labels)
            Any real numbers, larger for more likely; from classifiers that did not train on these
            samples (out-of-fold or held-out).
        truth : matrix or data frame of the same shape, or lists of labels
            0 or 1, or NaN (null) where it is unknown; a label that holds implies its parents. Or
            the labels of each sample, as a list of lists or sets, or a mapping of sample to labels.
        """
        self.check_params()
        given = None if self.hierarchy is None else as_hierarchy(self.hierarchy)
        table = scores_to_fit(scores, given, missing=self.missing)
        hierarchy = given or Hierarchy(labels=table.labels)
        held = self._truth(truth, hierarchy, table)
        options: dict[str, Any] = {"method": self.lpr, "n_threads": self.n_threads}
        implied = None
        if kind_of(table) == "listed":
            lpr, implied = fit_listed(table.values, held, hierarchy, **options)
        else:
            refuse_unknown_labels(held, hierarchy)
            lpr = fit_known(table.values, held, hierarchy, **options)
        keys = SampleKeys.of_rows(table.values)
        self.fit_on(FitSource(hierarchy, lpr, implied, held, table.rows, table.n_stored, keys))
        self._set_labels(hierarchy, has_names=table.backend is not None)
        return self

    def check_params(self) -> None:
        """Refuse parameters that make no sense, before any work is done."""
        if self.joint is not False and self.joint is not True and self.joint != "auto":
            raise DataError(f"joint must be False, True or 'auto'; got {self.joint!r}.")
        check_choice(self.missing, ("error", "allow"), name="missing")

    def fit_on(self, source: FitSource) -> Self:
        """Learn all that follows the curves. Fitting in memory and in parts both end here."""
        self.check_params()
        hierarchy, truth, take = source.hierarchy, source.truth, source.take
        self._set_labels(hierarchy, has_names=False)
        self.lpr_: LPRModel = source.lpr
        if source.implied is not None:  # bins of listed scores cannot tell what is not listed
            self.lpr_ = replace(source.lpr, seen=None)
        self.implied_: ImpliedLPR | None = source.implied
        self.kind_: Kind | None = "complete" if source.implied is None else "listed"
        self.joint_: JointModel | None = None
        if self.joint is not False:
            self.joint_ = fit_joint_on(
                (lambda rows: take(rows).values) if source.n_stored is None else None,
                truth, hierarchy,
                use="exact" if self.joint is True else "auto",
                method=self.lpr, n_threads=self.n_threads,
            )  # fmt: skip
        n_samples = truth.shape[0]
        # A profile from part of the samples costs power at worst, never validity.
        drawn = draw_samples(n_samples, sample_limit(n_samples, hierarchy, source.n_stored), rng=0)
        score = self.block_scores(take(drawn))
        held = truth if drawn.size == n_samples else truth[drawn]
        self.profile_: LevelProfile | None = LevelProfile.of(collect(score, held))
        self.fit_keys_: SampleKeys | None = source.keys
        self.cutoff_keys_: SampleKeys | None = None
        self.sets_keys_: SampleKeys | None = None
        self.cutoff_: Cutoff = DEFAULT_CUTOFF
        self.sets_: SetRule | None = None
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
        """
        goal = goal_of(precision=precision, fdr=fdr, maximize=maximize, confidence=confidence)
        table = self._input(scores)
        held = self._truth(truth, self.hierarchy_, table)
        keys, doubts = self._checked_keys(table)
        cutoff = cutoff_on(
            goal, self.block_scores(table), held, self.hierarchy_, self.profile_,
            groups=groups, promise=promise, rule=rule, unreachable=unreachable,
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
        keys, _ = self._checked_keys(table)
        self.sets_ = choose_sets(
            lambda: self._set_values(table, one_path=one_path), held,
            error=error, confidence=confidence, one_path=one_path,
        )  # fmt: skip
        self.sets_keys_ = keys
        return self

    # -- using it ---------------------------------------------------------------------------

    def transform(self, scores: Any) -> Any:
        """Return the local precision rate of every score.

        Of listed scores, those of the labels listed and of their ancestors, as CSR. With `joint`,
        it is P(label | all scores of the sample). A data frame for a data frame, as in
        `predict_proba`.
        """
        lpr = self._lpr(self._input(scores)).values
        if not isinstance(lpr, np.ndarray):
            lpr.sort_indices()
            return lpr
        return self._as_given(scores, lpr)

    def predict_proba(self, scores: Any) -> Any:
        """Return the block scores: comparable across labels, and no child above a parent.

        A data frame gives a data frame of its library with the samples' names and a column for
        each label, in the order of ``hierarchy_.labels``; an array an array, CSR gives CSR.
        """
        return self._as_given(scores, self.block_scores(self._input(scores)))

    def rank(self, scores: Any, *, top: int | None = None, weight: Any = None) -> Ranking:
        """Order all (sample, label) instances, the best calls first, parents before children."""
        return rank(
            self._lpr(self._input(scores)), self.hierarchy_,
            top=top, weight=weight, n_threads=self.n_threads,
        )  # fmt: skip

    def predict(self, scores: Any) -> Any:
        """Return the calls at `cutoff_`: a bool matrix or data frame, closed upward."""
        score = self.block_scores(self._input(scores))
        return self._as_given(scores, decide(score, self.cutoff_, self.hierarchy_))

    def call_lists(self, scores: Any) -> list[tuple[LabelCall, ...]]:
        """List the calls of each sample, best first, with their block scores."""
        score = self.block_scores(self._input(scores))
        return call_lists(decide(score, self.cutoff_, self.hierarchy_), score, self.hierarchy_)

    def explain(self, scores: Any, sample: int | str = 0) -> Explanation:
        """Say why each label of one sample is called or not, with the numbers behind it.

        Parameters
        ----------
        scores : matrix or data frame
        sample : int or str
            Row of the sample, or its name where the scores name their samples.

        Examples
        --------
        >>> from hierlpr import HierLPR
        >>> scores, truth = [[0.9, 0.8], [0.8, 0.1], [0.2, 0.3]] * 20, [[1, 1], [1, 0], [0, 0]] * 20
        >>> model = HierLPR({"animal": None, "dog": "animal"}, joint=False).fit(scores, truth)
        >>> model.explain(scores, 1).why("dog")
        'Not called: its LPR of 0.00 is below the cutoff of 0.50.'
        """
        return explain_sample(self, self._input(scores), sample)

    def predict_sets(self, scores: Any) -> CallSets:
        """Return the sure and the possible labels of every sample; see `calibrate_sets`."""
        table = self._input(scores)
        if self.sets_ is None:
            raise HierlprError(
                "Nothing was learned about sure and possible labels.\n"
                "Hint: call calibrate_sets(scores, truth, error=0.1) with samples not used to fit."
            )
        return call_sets(
            self._set_values(table, one_path=self.sets_.one_path), self.hierarchy_, self.sets_,
            samples=table.samples, as_sparse=table.n_stored is not None,
        )  # fmt: skip

    def deepest(self, scores: Any) -> list[str | None]:
        """Return the one deepest sure label of every sample, None where no label is sure.

        For taxonomies in which a sample has one path: where the leaf is unsure its parent is given,
        or the parent's parent.
        """
        return deepest_sure(self.predict_sets(scores), self.hierarchy_)

    def seen(self, scores: Any) -> dict[str, str]:
        """Tell which samples have the very scores of samples that the model has learned from.

        Returns
        -------
        dict
            Empty, or under "fit", "cutoff" and "sets" how many were met there, such as "37 of 400":
            only if it is more than equal scores of different samples explain.
        """
        keys = SampleKeys.of_rows(self._input(scores).values)
        known = {"fit": self.fit_keys_, "cutoff": self.cutoff_keys_, "sets": self.sets_keys_}
        notes = {name: overlap_note(keys, given) for name, given in known.items()}
        return {name: note for name, note in notes.items() if note}

    def summary(self) -> str:
        """Say what was learned: labels, samples, how scores are used together, the cutoff."""
        self.check_fitted()
        lines = [repr(self.hierarchy_)]
        report = self.lpr_.report
        n_weak = int(np.count_nonzero(report.is_weak))
        samples = "" if self.fit_keys_ is None else f" of {self.fit_keys_.n_samples:,} samples"
        lines.append(
            f"Fitted on {self.kind_ or 'unknown'} scores{samples}; {n_weak:,} of "
            f"{self.hierarchy_.n_labels:,} labels had too few examples for a curve of their own."
        )
        lines += [] if self.joint_ is None else [self.joint_.describe()]
        lines.append(f"Cutoff: {self.cutoff_}")
        lines += [] if self.sets_ is None else [f"Sets: {self.sets_}"]
        return "\n".join(lines)

    def warm_up(self) -> Self:
        """Do now what the first call of each method does once, for services that answer at once.

        Ranks and decides one made-up sample. Returns the model.
        """
        self.check_fitted()
        sample = np.zeros((1, self.n_features_in_))
        self.call_lists(sample)
        self.rank(sample)
        return self

    def score(self, scores: Any, truth: Any) -> float:
        """Area under the pooled precision-recall curve of the block scores, AU(PRC).

        Pairs whose truth is unknown are left out.
        """
        table = self._input(scores)
        held = self._truth(truth, self.hierarchy_, table)
        score = _dense(self.block_scores(table))
        if isinstance(held, PartialTruth):
            return float(au_prc_score(held.held[held.known], score[held.known]))
        return float(au_prc_score(_dense(held), score))

    def check(self, scores: Any) -> Drift:
        """Tell how far new scores differ from those fitted on, label by label and in words."""
        return drift_of(self.lpr_, self._input(scores), self.hierarchy_)

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
        hierarchy, lpr = added(
            self.hierarchy_, self.lpr_, edges, scores, truth,
            labels=labels, kind=self.kind_, method=self.lpr, n_threads=self.n_threads,
        )  # fmt: skip
        return self._changed(hierarchy, lpr, fresh=())

    def remove_labels(self, labels: Iterable[str]) -> Self:
        """Remove labels; their children pass to their parents, other curves stay as they are."""
        self.check_fitted()
        return self._changed(*removed(self.hierarchy_, self.lpr_, labels), fresh=())

    def replace(self, labels: Iterable[str], scores: Any, truth: Any) -> Self:
        """Fit the curves of some labels anew, for example after their classifiers changed."""
        self.check_fitted()
        labels = list(labels)
        lpr = replaced(
            self.hierarchy_, self.lpr_, labels, scores, truth,
            kind=self.kind_, method=self.lpr, n_threads=self.n_threads,
        )  # fmt: skip
        return self._changed(self.hierarchy_, lpr, fresh=labels)

    def _changed(self, hierarchy: Hierarchy, lpr: LPRModel, *, fresh: Collection[str]) -> Self:
        """Take the new labels; a cutoff learned for the old ones promises nothing now."""
        if self.cutoff_.kind != "default":
            warnings.warn(
                "The labels have changed, so the cutoff is back at 0.5. Calibrate again.",
                HierlprWarning,
                stacklevel=3,
            )
        self.lpr_ = lpr
        prevalence = lpr.report.base_rate
        if self.implied_ is not None:
            former = self.hierarchy_
            place = [former.index(x) if x in former else former.n_labels for x in hierarchy.labels]
            self.implied_ = self.implied_.select(place, prevalence)
        if self.joint_ is not None:
            self.joint_ = self.joint_.changed(hierarchy, prevalence, fresh)
        self.hierarchy = hierarchy
        self._set_labels(hierarchy, has_names=hasattr(self, "feature_names_in_"))
        self.profile_ = None
        self.fit_keys_ = self.cutoff_keys_ = self.sets_keys_ = None
        self.cutoff_ = DEFAULT_CUTOFF
        self.sets_ = None
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file; :func:`hierlpr.load_model` reads it."""
        from hierlpr.model.persistence import save_model

        self.check_fitted()
        save_model(self, path)

    def check_fitted(self) -> None:
        """Refuse a model that was not fitted."""
        if not hasattr(self, "cutoff_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(
                f"This {type(self).__name__} is not fitted yet.\n"
                "Hint: call fit(scores, truth) first."
            )

    # -- plumbing ---------------------------------------------------------------------------

    def _set_labels(self, hierarchy: Hierarchy, *, has_names: bool) -> None:
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

    def _input(self, scores: Any) -> Table:
        self.check_fitted()
        return new_scores(scores, self.hierarchy_, self.kind_, missing=self.missing)

    def _truth(self, truth: Any, hierarchy: Hierarchy, table: Table) -> AnyTruth:
        return truth_beside(table, truth, hierarchy, close=self.close_truth)

    def _as_given(self, scores: Any, values: Any) -> Any:
        """Return dense values in the container of the scores."""
        if not isinstance(values, np.ndarray):
            return values
        return like_given(scores, values, self.hierarchy_.labels)

    def _lpr(self, table: Table) -> Table:
        """Scores to LPRs: the one place where the joint posterior joins the pipeline."""
        implied, options = self.implied_, {"n_threads": self.n_threads}
        if self.joint_ is None or (implied is not None and not self.joint_.is_used):
            lpr = own_lpr(self.lpr_, table.values, **options)
            if implied is not None:
                lpr = implied.close(lpr, self.hierarchy_, **options)
        else:
            lpr = predict_known(self.lpr_, table.values, **options)
            absent = None if implied is None else implied.absent
            lpr = self.joint_.transform(lpr, absent=absent, **options)
        return Table(lpr, table.labels, table.samples, table.backend)

    def _set_values(self, table: Table, *, one_path: bool) -> Iterator[SetValues]:
        if not one_path:
            return many_label_values(self.block_scores(table), self.hierarchy_)
        lpr = own_lpr(self.lpr_, table.values, n_threads=self.n_threads)
        if not isinstance(lpr, np.ndarray):
            raise DataError("one_path=True needs a score for every label: a dense matrix.")
        ends = end_posterior(lpr, self.lpr_.report.base_rate, self.hierarchy_)
        return one_path_values(ends, self.hierarchy_)

    def block_scores(self, table: Table) -> Matrix:
        """Return the block scores of an aligned table as a plain matrix, for later stages."""
        score: Matrix = consistent_scores(
            self._lpr(table), self.hierarchy_, n_threads=self.n_threads
        )
        return score


def _dense(matrix: Any) -> NDArray[Any]:
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())
