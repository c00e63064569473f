"""A fitted model at work: comparable scores, a ranking, calls, sets, words. It learns nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix, check_sample_weight
from hierlpr.cutoff.decisions import LabelCall, call_lists, decide
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.cutoff.profile import LevelProfile
from hierlpr.cutoff.set_values import SetValues, many_label_values, one_path_values
from hierlpr.cutoff.sets import CallSets, SetRule, call_sets, deepest_sure
from hierlpr.data.frames import like_given
from hierlpr.data.label_sets import Kind
from hierlpr.data.partial_truth import AnyTruth, PartialTruth
from hierlpr.data.repeats import SampleKeys, overlap_note
from hierlpr.data.tables import Table, dense
from hierlpr.exceptions import DataError, HierlprError
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint import JointModel, end_posterior
from hierlpr.lpr import ImpliedLPR, LPRModel, own_lpr, predict_known, without_gaps
from hierlpr.lpr.drift import Drift
from hierlpr.metrics import au_prc_score
from hierlpr.model.changing import drift_of
from hierlpr.model.explaining import Explanation, explain_sample
from hierlpr.model.given_tables import new_scores, truth_beside
from hierlpr.ranking.blocks import consistent_scores
from hierlpr.ranking.order import Ranking, rank


class FittedModel:
    """What a model of scores has learned, and all that is done with it.

    :class:`hierlpr.model.core.ScoreModel` learns it; its parameters and attributes are described
    with :class:`hierlpr.HierLPR`.
    """

    missing: str
    close_truth: bool
    n_threads: int | None
    verbose: bool | None = False  # commands tell how far they are by themselves

    hierarchy_: Hierarchy
    n_features_in_: int
    lpr_: LPRModel
    implied_: ImpliedLPR | None
    kind_: Kind | None
    joint_: JointModel | None
    path_weight_: NDArray[np.float64] | None
    profile_: LevelProfile | None
    cutoff_: Cutoff
    sets_: SetRule | None
    fit_keys_: SampleKeys | None
    cutoff_keys_: SampleKeys | None
    sets_keys_: SampleKeys | None

    def transform(self, scores: Any) -> Any:
        """Return the local precision rate of every score.

        Of listed scores, those of the labels listed and of their ancestors, as CSR. With `joint`,
        it is P(label | all scores of the sample). A data frame for a data frame, as in
        `predict_proba`.
        """
        lpr = self.lprs(self._input(scores)).values
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
            self.lprs(self._input(scores)), self.hierarchy_,
            top=top, weight=weight, n_threads=self.n_threads,
        )  # fmt: skip

    def predict(self, scores: Any) -> Any:
        """Return the calls at `cutoff_`: a bool matrix or data frame, closed upward."""
        score = self.block_scores(self._input(scores))
        return self._as_given(scores, decide(score, self.cutoff_, self.hierarchy_))

    def call_lists(self, scores: Any) -> list[tuple[LabelCall, ...]]:
        """List the calls of each sample, best first, with their block scores.

        After `calibrate_sets` each also says whether it is sure, possible or, beyond the promise,
        not even possible ("no").
        """
        table = self._input(scores)
        score = self.block_scores(table)
        calls = decide(score, self.cutoff_, self.hierarchy_)
        sets = None if self.sets_ is None else self.sets_of(table, self.sets_, score).places()
        return call_lists(calls, score, self.hierarchy_, sets=sets)

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
        'Not called: the chance that it holds, 0.00, is below the cutoff of 0.50.'
        """
        return explain_sample(self, self._input(scores), sample)

    def predict_sets(self, scores: Any) -> CallSets:
        """Return the sure and the possible labels of every sample; see `calibrate_sets`."""
        return self.sets_of(self._input(scores), self.set_rule())

    def set_rule(self) -> SetRule:
        """Return what was learned about sure and possible labels; refuse if nothing was."""
        self.check_fitted()
        if self.sets_ is None:
            raise HierlprError(
                "Nothing was learned about sure and possible labels.\n"
                "Hint: call calibrate_sets(scores, truth, error=0.1) with samples not used to fit, "
                "or give --sets-error 0.1 to hierlpr fit."
            )
        return self.sets_

    def deepest(self, scores: Any) -> list[str | None]:
        """Return the one deepest sure label of every sample, None where no label is sure.

        For taxonomies in which a sample has one path: where the leaf is unsure its parent is given,
        or the parent's parent.
        """
        found = deepest_sure(self.predict_sets(scores), self.hierarchy_)
        labels = self.hierarchy_.labels
        return [labels[k] if k >= 0 else None for k in found.tolist()]

    def seen(self, scores: Any) -> dict[str, str]:
        """Tell which samples have the very scores of samples that the model has learned from.

        Returns
        -------
        dict
            Empty, or under "fit", "cutoff" and "sets" how many were met there, such as "37 of 400":
            only if it is more than equal scores of different samples explain.
        """
        return self.met(SampleKeys.of_rows(self._input(scores).values))

    def met(self, keys: SampleKeys) -> dict[str, str]:
        """Do as `seen`, from what the samples are known again by."""
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

    def score(self, scores: Any, truth: Any, sample_weight: Any = None) -> float:
        """Area under the pooled precision-recall curve of the block scores, AU(PRC).

        Pairs whose truth is unknown are left out; `sample_weight` is as in `fit`.
        """
        table = self._input(scores)
        held = self._truth(truth, self.hierarchy_, table)
        weight = check_sample_weight(sample_weight, table.n_samples)
        score = dense(self.block_scores(table))
        given: Any = held
        if isinstance(held, PartialTruth):
            known = held.toarray()
            given = np.where(known.unknown, np.nan, known.held)
        return float(au_prc_score(dense(given), score, sample_weight=weight))

    def check(self, scores: Any) -> Drift:
        """Tell how far new scores differ from those fitted on, label by label and in words."""
        return drift_of(self.lpr_, self._input(scores), self.hierarchy_, self.joint_)

    def check_fitted(self) -> None:
        """Refuse a model that was not fitted."""
        if not hasattr(self, "cutoff_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(
                f"This {type(self).__name__} is not fitted yet.\n"
                "Hint: call fit(scores, truth) first."
            )

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

    def lprs(self, table: Table, known: Matrix | None = None) -> Table:
        """Scores to LPRs: the one place where the joint posterior joins the pipeline.

        `known` has the LPRs of the scores by themselves, as `predict_known` gives them, if they are
        known already.
        """
        implied, options = self.implied_, {"n_threads": self.n_threads}
        lpr = predict_known(self.lpr_, table.values, **options) if known is None else known
        if self.joint_ is None or (implied is not None and not self.joint_.is_used):
            lpr = without_gaps(self.lpr_, lpr)
            if implied is not None:
                lpr = implied.close(lpr, self.hierarchy_, **options)
        else:
            absent = None if implied is None else implied.absent
            lpr = self.joint_.transform(lpr, absent=absent, **options)
        return Table(lpr, table.labels, table.samples, table.backend)

    def sets_of(self, table: Table, rule: SetRule, score: Matrix | None = None) -> CallSets:
        """Return the sets of an aligned table; `score` has the block scores if they are known."""
        return call_sets(
            self._set_values(table, one_path=rule.one_path, floor=rule.floor, score=score),
            self.hierarchy_, rule, samples=table.samples, as_sparse=table.n_stored is not None,
        )  # fmt: skip

    def _set_values(
        self, table: Table, *, one_path: bool, floor: float, score: Matrix | None = None
    ) -> Iterator[SetValues]:
        """Values that decide about sets; `score` has the block scores if they are known."""
        if not one_path:
            known = self.block_scores(table) if score is None else score
            return many_label_values(known, self.hierarchy_, floor)
        lpr = own_lpr(self.lpr_, table.values, n_threads=self.n_threads)
        if not isinstance(lpr, np.ndarray):
            raise DataError("one_path=True needs a score for every label: a dense matrix.")
        prevalence = self.lpr_.report.base_rate
        ends = end_posterior(lpr, prevalence, self.hierarchy_, self.path_weight_)
        return one_path_values(ends, self.hierarchy_, floor)

    def block_scores(self, table: Table) -> Matrix:
        """Return the block scores of an aligned table as a plain matrix, for later stages."""
        score: Matrix = consistent_scores(
            self.lprs(table), self.hierarchy_, n_threads=self.n_threads
        )
        return score
