"""`HierLPR`: classifier scores in, comparable scores, one ranking and calls out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import ClassifierTags, TargetTags
from sklearn.utils.validation import check_is_fitted

from hierlpr._utils.checks import Matrix, check_fraction, check_sample_weight
from hierlpr.cutoff.choose import Unreachable, cutoff_on
from hierlpr.cutoff.decisions import Groups, LabelCall, call_lists, decide
from hierlpr.cutoff.estimate import LevelProfile
from hierlpr.cutoff.goal import Goal, check_bound, goals_of
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.cutoff.sets import CallSets, SetRule
from hierlpr.data.clusters import cluster_ids
from hierlpr.data.duplicates import SampleKeys
from hierlpr.data.frames import like_given
from hierlpr.data.listed import Kind
from hierlpr.data.tables import Table, dense, match_weights
from hierlpr.data.truth import Truth, align_truth
from hierlpr.exceptions import UnreachableWarning, warn
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.hierarchies import HierarchyLike
from hierlpr.joint import JointModel
from hierlpr.lpr import ImpliedLPR, LPRModel, own_lpr
from hierlpr.lpr.comparison import SampleSummary
from hierlpr.lpr.drift import Drift
from hierlpr.metrics import au_prc_score
from hierlpr.model import prediction, training
from hierlpr.model.explain import Explanation, explain_sample
from hierlpr.model.persistence import save_model
from hierlpr.ranking.blocks import consistent_scores
from hierlpr.ranking.order import Ranking, rank


class HierLPR(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn classifier scores into comparable scores, one ranking, and calls that fit a hierarchy.

    Parameters
    ----------
    hierarchy : Hierarchy, path, dict, edges or networkx graph, optional
        The labels and their parents; anything else is converted to a `Hierarchy`, see
        :func:`hierlpr.io.as_hierarchy`. None: the labels are unrelated.
    lpr : str or estimator
        How local precision rates are estimated; see :func:`hierlpr.lpr.fit_lpr`.
    joint : bool or "auto"
        Whether the probability of a label uses the scores of all labels of its sample. True: the
        exact joint posterior, which assumes that scores are independent given the labels.
        ``"auto"``: as far as held-out samples support it; see ``joint_.describe()``.
    propagate_truth : bool
        Add missing ancestors to the truth, with a warning, instead of refusing it.
    missing_scores : {"error", "allow"}
        Whether scores may be NaN. The LPR of a missing score is the prevalence of its label, or
        with `joint` the probability given the other scores of the sample.
    n_jobs : int, optional
        Threads; results do not depend on it.

    Attributes
    ----------
    hierarchy_ : Hierarchy
        The labels and edges that were given.
    lpr_ : LPRModel
        One curve from score to LPR per label, with diagnostics.
    joint_ : JointModel or None
        How the scores of a sample are combined; None with ``joint=False``.
    kind_ : {"complete", "listed"}
        The kind of scores that was fitted on.
    cutoff_ : Cutoff
        Where `predict` cuts; 0.5 until `calibrate` has been called.
    sets_ : SetRule or None
        Which labels are sure and possible; None until `calibrate_sets` has been called.

    Notes
    -----
    Columns of arrays and CSR matrices follow ``hierarchy.labels``; columns of data frames (pandas,
    Polars, Arrow) are matched by name. Dense scores are complete. CSR scores are listed: an absent
    pair is never called unless a descendant is listed. A model takes only the kind it was fit on.

    Examples
    --------
    >>> from hierlpr import simulate
    >>> fit, rest = simulate.train_test(1, rng=0)
    >>> model = HierLPR(fit.hierarchy).fit(fit.scores, fit.truth)
    >>> model.calibrate(rest.scores, rest.truth, precision=0.9).cutoff_.reachable
    True
    >>> len(fit.hierarchy.violations(model.predict(rest.scores)))
    0
    """

    hierarchy_: Hierarchy
    lpr_: LPRModel
    joint_: JointModel | None
    path_weight_: NDArray[np.float64] | None
    implied_: ImpliedLPR | None
    profile_: LevelProfile | None
    cutoff_: Cutoff
    sets_: SetRule | None
    keys_: dict[str, SampleKeys]  # of the samples used for "fit", "cutoff" and "sets"
    sample_summary_: SampleSummary | None
    path_style_: dict[str, Any] | None = None  # ranks of labels, and how a tool writes paths

    def __init__(
        self,
        hierarchy: HierarchyLike | None = None,
        *,
        lpr: Any = "auto",
        joint: bool | str = "auto",
        propagate_truth: bool = False,
        missing_scores: str = "error",
        n_jobs: int | None = None,
    ) -> None:
        self.hierarchy = hierarchy
        self.lpr = lpr
        self.joint = joint
        self.propagate_truth = propagate_truth
        self.missing_scores = missing_scores
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, clusters: Any = None) -> Self:
        """Fit one curve from score to local precision rate per label, and the joint posterior.

        Parameters
        ----------
        X : matrix or data frame of shape (n_samples, n_labels)
            The scores: any real numbers, larger for more likely labels; out-of-fold or held-out.
        y : matrix or data frame of the same shape, or lists of labels
            The truth: 0 or 1, NaN (null, NA) where unknown; a true label implies its parents. Or
            the labels of each sample as lists, sets or a mapping; one label or path per sample,
            whose ancestors are added; or a frame with the columns sample, label and perhaps a
            value.
        sample_weight : array-like of shape (n_samples,), optional
            Such as inverse sampling probabilities; only ratios matter (``docs/truth.md``).
        clusters : array-like of ids of shape (n_samples,), series or mapping, optional
            The patient, donor or camera of each sample; new samples then come from new clusters.
        """
        training.fit_model(self, X, y, sample_weight, clusters)
        return self

    def calibrate(
        self,
        X: Any,
        y: Any,
        *,
        precision: float | Sequence[float] | None = None,
        fdr: float | Sequence[float] | None = None,
        maximize: str | None = None,
        confidence: float | None = None,
        groups: Groups | None = None,
        unreachable: Unreachable | None = None,
        sample_weight: Any = None,
        max_weight: float | None = None,
        clusters: Any = None,
    ) -> Self:
        """Choose the cutoff from samples that were not used to fit.

        Parameters
        ----------
        X, y : matrices or data frames
            As in `fit`, of other samples.
        precision : float or sequence of float, optional
            Target share of correct calls, pooled over samples and labels. Several targets hold
            simultaneously; the first is in use until :meth:`use_target` selects another.
        fdr : float or sequence of float, optional
            The same as one or more shares of incorrect calls.
        maximize : str, optional
            Instead of a target, the F-measure to maximize: ``"f1"``, ``"f0.5"``, ``"f2"``, ...
        confidence : float, optional
            The probability, over the draw of these samples, with which the precision on new samples
            reaches the target. None: nothing is promised.
        groups : "tree", "depth", "label" or mapping of label to group, optional
            One level per group, each for the target; with `confidence`, all simultaneously. No
            label is called below the level of an ancestor's group: calls are closed upward.
        unreachable : "nothing" or "best-precision", optional
            What to call if no level reaches the target: nothing (default with `confidence`), or
            what has the best precision within reach (default without).
        sample_weight : array-like of shape (n_samples,), optional
            As in `fit`: precision, recall and F are then weighted.
        max_weight : float, optional
            Upper bound on all weights, known before the truth; certificates with weights need it.
        clusters : as in `fit`, optional
            Clusters count equally: the target is about a random sample of a new cluster.
        """
        goals = goals_of(precision=precision, fdr=fdr, maximize=maximize, confidence=confidence)
        table, known = self._pair(X, y, clusters)
        given = match_weights(sample_weight, table)
        given = check_sample_weight(given, table.n_samples, keep_equal=True)
        check_bound(goals[0], given, max_weight)
        rows, weight = training.weighed(given, table.n_samples, keep_equal=confidence is not None)
        table, known = table.rows(rows), known[rows]
        keys, caveats = training.check_leakage(table, known, self.keys_.get("fit"))
        options: dict[str, Any] = {"groups": groups, "unreachable": unreachable}
        options |= {"weight": weight, "max_weight": max_weight}
        score = self.block_scores(table)
        cutoff = cutoff_on(goals, score, known, self.hierarchy_, self.profile_, **options)
        for part in cutoff.targets or (cutoff,):
            if not part.reachable:
                warn(part.reason, UnreachableWarning)
        self.keys_ = {**self.keys_, "cutoff": keys}
        self.cutoff_ = cutoff.with_caveats(caveats)
        return self

    def use_target(self, target: float) -> Self:
        """Select one of several calibrated targets for all decisions; see ``cutoff_``."""
        self.cutoff_ = self.cutoff_.for_target(target)
        return self

    def set_cutoff(self, level: float) -> Self:
        """Set the cutoff to a block score of your choice, from 0 to 1; nothing is promised."""
        self.cutoff_ = Cutoff(check_fraction(level, name="level"), Goal("by hand"))
        self.keys_ = {name: keys for name, keys in self.keys_.items() if name != "cutoff"}
        return self

    def calibrate_sets(
        self,
        X: Any,
        y: Any,
        *,
        error: float = 0.1,
        confidence: float | None = None,
        one_path: bool = False,
        clusters: Any = None,
    ) -> Self:
        """Choose which labels of a sample are *sure* and which are *possible*.

        Parameters
        ----------
        X, y : matrices or data frames
            As in `fit`, of other samples.
        error : float
            At most this share of new samples has a sure label that is false. Separately, at most
            this share has a true label that is not possible.
        confidence : float, optional
            By default the shares are averages over calibration and new samples. With a confidence,
            they hold for new samples given this calibration, with that probability.
        one_path : bool
            Every sample has at most one path of labels, as in a taxonomy: siblings then exclude
            each other, and more labels are sure. The promises hold even if this is wrong, with
            smaller sets. Complete scores need a forest; for listed scores see `assign`.
        clusters : as in `fit`, optional
            The promise is then about a random sample of a new cluster.
        """
        table, known = self._pair(X, y, clusters)
        training.refuse_unknown_samples(known)
        keys, caveats = training.check_leakage(table, known, self.keys_.get("fit"))
        rule = prediction.choose_rule(self, table, known, error, confidence, one_path=one_path)
        self.sets_, self.keys_ = rule.with_caveats(caveats), {**self.keys_, "sets": keys}
        return self

    def adapt(self, X: Any) -> Self:
        """Return a new model for a population with other prevalences, estimated from its scores.

        It has no cutoff, because certificates do not carry over. Scores that differ from those of
        the fit by more than prevalences can explain are refused.
        """
        return training.adapted(self, self.aligned_scores(X))

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
        training.add_labels(self, edges, X, y, labels)
        return self

    def remove_labels(self, labels: Iterable[str]) -> Self:
        """Remove labels; their children pass to their parents, other curves do not change."""
        check_is_fitted(self)
        training.remove_labels(self, labels)
        return self

    # -- prediction and inspection ------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """Return the local precision rates; with `joint`, P(label | all scores of the sample).

        CSR scores give listed labels and their ancestors.
        """
        lpr = self.lprs(self.aligned_scores(X))
        return like_given(X, lpr.values, self.hierarchy_.labels)

    def predict_proba(self, X: Any) -> Any:
        """Return the block scores: comparable across labels, and no child above a parent.

        The result has the container of the scores, with one column per label.
        """
        score = self.block_scores(self._new_scores(X))
        return like_given(X, score, self.hierarchy_.labels)

    def rank(self, X: Any, *, top: int | None = None, weight: Any = None) -> Ranking:
        """Rank all (sample, label) instances, the best calls first, parents before children."""
        lpr = self.lprs(self._new_scores(X))
        return rank(lpr, self.hierarchy_, top=top, weight=weight, n_jobs=self.n_jobs)

    def predict(self, X: Any, *, target: float | None = None) -> Any:
        """Return the calls at `cutoff_`: a bool matrix or data frame, closed upward.

        `target` selects one of several calibrated targets for this call.
        """
        score = self.block_scores(self._new_scores(X))
        calls = decide(score, self._cutoff(target), self.hierarchy_)
        return like_given(X, calls, self.hierarchy_.labels)

    def predict_sets(self, X: Any) -> CallSets:
        """Return the sure and the possible labels of every sample; see `calibrate_sets`."""
        return prediction.sets_of(self, self._new_scores(X), prediction.set_rule(self))

    def deepest(self, X: Any) -> list[str | None]:
        """Return the deepest sure label of every sample, None where no label is sure."""
        prediction.set_rule(self)  # raises if it was not calibrated
        found, _ = prediction.name_samples(self, self._new_scores(X))
        prediction.warn_of_no_names(self)
        return [*np.array([*self.hierarchy_.labels, None], dtype=object)[found]]

    def assign(self, X: Any) -> Any:
        """Name every sample by the deepest label that can be trusted.

        Returns a data frame with the columns sample, label (None where none can be trusted), rank
        and chance, the block score. Trusted are the sure labels of `calibrate_sets` or, without it,
        the calls at the cutoff. An ``AnnData`` gives a copy with the answer in obs.
        """
        check_is_fitted(self)
        return prediction.assign(self, X)

    def call_lists(self, X: Any) -> list[tuple[LabelCall, ...]]:
        """Return the calls of each sample as a list, best first, with their block scores.

        After `calibrate_sets`, each call also says whether it is sure, possible or neither ("no").
        """
        score = self.block_scores(table := self._new_scores(X))
        calls, sets = decide(score, self._cutoff(), self.hierarchy_), None
        if self.sets_ is not None:
            sets = prediction.sets_of(self, table, self.sets_, score).codes()
        return call_lists(calls, score, self.hierarchy_, sets=sets)

    def explain(self, X: Any, sample: int | str = 0) -> Explanation:
        """Explain why each label of one sample is called or not.

        `sample` is its row, or its name if the scores have sample names.
        """
        return explain_sample(self, self.aligned_scores(X), sample)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return AU(PRC) of the block scores, pooled over all evaluated instances."""
        table, known = self._pair(X, y)
        weight = check_sample_weight(match_weights(sample_weight, table), table.n_samples)
        cells = known.evaluated(self.hierarchy_, weight).cells
        return float(au_prc_score(cells, dense(self.block_scores(table)), sample_weight=weight))

    @property
    def kind_(self) -> Kind:
        """The kind of scores that was fitted on."""
        return "complete" if self.implied_ is None else "listed"

    @property
    def n_features_in_(self) -> int:
        """Number of labels."""
        return self.hierarchy_.n_labels

    @property
    def classes_(self) -> NDArray[np.object_]:
        """The labels, one per column of `predict`."""
        return np.array(self.hierarchy_.labels, dtype=object)

    audit = prediction.audit

    def check(self, X: Any) -> Drift:
        """Compare new scores with those of the fit, per label and as text."""
        return prediction.compare_with_fit(self, self.aligned_scores(X))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, which :func:`hierlpr.load_model` reads."""
        check_is_fitted(self)
        save_model(self, path)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the labels, one per column of `transform`."""
        check_is_fitted(self)
        names = self.classes_ if input_features is None else input_features
        return np.asarray(super().get_feature_names_out(names), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags = TargetTags(required=True, multi_output=True, single_output=False)
        tags.classifier_tags = ClassifierTags(multi_class=False)  # each column is 0 or 1
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing_scores == "allow"
        return tags

    # -- steps on aligned tables, for other packages -------------------------------------------

    def aligned_scores(self, scores: Any) -> Table:
        """Return checked scores of the kind of the fit, in the order of the labels."""
        check_is_fitted(self)
        missing = self.missing_scores
        return training.new_scores(scores, self.hierarchy_, self.kind_, missing_scores=missing)

    def lprs(self, table: Table) -> Table:
        """Return the LPRs of an aligned table; the only place where the joint posterior enters."""
        implied, options = self.implied_, {"n_jobs": self.n_jobs}
        if self.joint_ is None or (implied is not None and not self.joint_.is_used):
            lpr = own_lpr(self.lpr_, table.values, **options)
            if implied is not None:
                lpr = implied.close(lpr, self.hierarchy_, **options)
        else:
            lpr = self.lpr_.curves.evaluate(table.values, **options)
            absent = None if implied is None else implied.absent
            lpr = self.joint_.transform(lpr, absent=absent, **options)
        if not isinstance(lpr, np.ndarray):
            lpr.sort_indices()
        return Table(lpr, table.labels, table.samples, table.backend)

    def block_scores(self, table: Table) -> Matrix:
        """Return the block scores of an aligned table as a plain matrix."""
        score = consistent_scores(self.lprs(table), self.hierarchy_, n_jobs=self.n_jobs)
        return cast(Matrix, score)

    def _new_scores(self, scores: Any) -> Table:
        return prediction.warn_of_difference(self, self.aligned_scores(scores))

    def _pair(self, scores: Any, truth: Any, clusters: Any = None) -> tuple[Table, Truth]:
        table, propagates = self.aligned_scores(scores), self.propagate_truth
        known = align_truth(truth, self.hierarchy_, table, propagate_truth=propagates)
        return table, known.in_clusters(cluster_ids(clusters, table))

    def _cutoff(self, target: float | None = None) -> Cutoff:
        """Return the cutoff in use; warn if it was not calibrated or does not reach its target."""
        cutoff = self.cutoff_ if target is None else self.cutoff_.for_target(target)
        if cutoff.goal.kind == "default":
            hint = "Hint: set a target with calibrate, or with HierarchicalClassifier(fdr=0.1)."
            warn(f"{cutoff}\n{hint}")
        elif not cutoff.reachable:
            warn(cutoff.reason, UnreachableWarning)
        return cutoff
