"""`HierLPR`: classifier scores in, comparable scores, one ranking and calls out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from inspect import signature
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import ClassifierTags, TargetTags
from sklearn.utils.validation import check_is_fitted

from hierlpr._utils.checks import (
    check_choice,
    check_jobs,
    check_level,
    make_rng,
)
from hierlpr.cutoff.choose import Unreachable, cutoff_on
from hierlpr.cutoff.decisions import Groups
from hierlpr.cutoff.goal import check_bound, goals_of
from hierlpr.cutoff.split import split_for_cutoff
from hierlpr.data.duplicates import SampleKeys
from hierlpr.data.frames import in_container_of
from hierlpr.data.tables import refuse_truth_as_scores
from hierlpr.exceptions import DataError, UnreachableWarning, warn
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.conversion import HierarchyLike, as_hierarchy
from hierlpr.hierarchy.roll_up import RollUp
from hierlpr.joint import fit_joint
from hierlpr.lpr.comparison import SampleSummary
from hierlpr.lpr.estimators import make_estimator
from hierlpr.lpr.fitting import with_sharing
from hierlpr.model.changes import ChangeableModel
from hierlpr.model.inputs import (
    LabelledSamples,
    check_leakage,
    new_scores,
    refuse_unknown_labels,
    warn_of_mistakes,
)
from hierlpr.model.persistence import save_model
from hierlpr.model.prediction import Predictor


class HierLPR(Predictor, ChangeableModel, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
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
    leaves : {"auto", "sum", "max"}
        How labels get scores if `X` has those of leaves alone: see :meth:`Hierarchy.roll_up`.
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
    held_out_ : ndarray of int or None
        The samples that `fit_calibrate` kept for the cutoff.

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

    held_out_: NDArray[np.intp] | None = None

    def __init__(
        self,
        hierarchy: HierarchyLike | None = None,
        *,
        lpr: Any = "auto",
        joint: bool | str = "auto",
        propagate_truth: bool = False,
        missing_scores: str = "error",
        leaves: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.hierarchy = hierarchy
        self.lpr = lpr
        self.joint = joint
        self.propagate_truth = propagate_truth
        self.missing_scores = missing_scores
        self.leaves = leaves
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, clusters: Any = None) -> Self:
        """Fit one curve from score to local precision rate per label, and the joint posterior.

        Parameters
        ----------
        X : matrix or data frame of shape (n_samples, n_labels)
            The scores: any real numbers, larger for more likely labels; out-of-fold or held-out.
            Also of the leaves alone; a list of ``{label: score}``; a frame ``sample,label,score``.
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
        h, samples = self._learnable(X, y, sample_weight, clusters)
        return self.fit_aligned(h, samples)

    def fit_calibrate(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        clusters: Any = None,
        calibration_share: float | None = None,
        random_state: Any = 0,
        **goal: Any,
    ) -> Self:
        """Fit on some samples and choose the cutoff on the others, as ``hierlpr fit`` does.

        Parameters
        ----------
        X, y, sample_weight, clusters
            As in `fit`. Samples of one cluster, and copies of a sample, stay together.
        calibration_share : float, optional
            Share of the samples to keep for the cutoff. By default it depends on their number:
            half of few samples, a third of many.
        random_state : int, Generator or None
            Draws them. ``held_out_`` has their rows; all others were fitted on.
        **goal
            Arguments of `calibrate`, such as ``precision=0.9, confidence=0.9``.

        Examples
        --------
        >>> from hierlpr import simulate
        >>> data, _ = simulate.train_test(1, rng=0)
        >>> model = HierLPR(data.hierarchy)
        >>> model = model.fit_calibrate(data.scores, data.truth, precision=0.9, confidence=0.9)
        >>> model.held_out_.size, model.cutoff_.result.n_samples
        (1667, 1667)
        """
        signature(self.calibrate).bind(X, y, **goal)  # refuses what it does not take before the fit
        names = ("precision", "fdr", "maximize", "confidence")
        [first, *_] = goals_of(**{name: x for name, x in goal.items() if name in names})
        h, samples = self._learnable(X, y, sample_weight, clusters)
        check_bound(first, samples.weight, goal.get("max_weight"))
        parts, rng = (samples.table, h, samples.truth.cluster), make_rng(random_state)
        fit, held_out = split_for_cutoff(*parts, share=calibration_share, rng=rng)
        self.fit_aligned(h, samples.rows(fit))
        table, truth, weight, _ = samples.rows(held_out)
        self.calibrate(table, truth, sample_weight=weight, **goal)
        self.held_out_ = held_out
        return self

    def _learnable(
        self, X: Any, y: Any, sample_weight: Any, clusters: Any
    ) -> tuple[Hierarchy, LabelledSamples]:
        """Return the hierarchy and checked samples to learn from."""
        self.check_params()
        h = None if self.hierarchy is None else as_hierarchy(self.hierarchy)
        options: dict[str, Any] = {"missing_scores": self.missing_scores, "leaves": self.leaves}
        table = new_scores(X, h, None, **options)
        h = h or Hierarchy(labels=table.labels)
        options = {"sample_weight": sample_weight, "clusters": clusters}
        samples = LabelledSamples.of(table, y, h, propagate_truth=self.propagate_truth, **options)
        if samples.truth.is_complete:
            refuse_truth_as_scores(table.values, samples.truth.positive)
        return h, samples

    def check_params(self) -> None:
        """Refuse invalid parameters before any work is done."""
        if self.joint is not False and self.joint is not True and self.joint != "auto":
            raise DataError(f"joint must be False, True or 'auto'; got {self.joint!r}.")
        check_choice(self.missing_scores, ("error", "allow"), name="missing_scores")
        check_choice(self.leaves, get_args(RollUp), name="leaves")
        check_jobs(self.n_jobs)
        make_estimator(self.lpr)

    def fit_aligned(self, hierarchy: Hierarchy, samples: LabelledSamples) -> Self:
        """Fit on scores and truth that are checked and in the order of the labels."""
        samples = samples.used()
        table, truth, weight, ids = samples
        refuse_unknown_labels(truth, hierarchy)
        lpr, implied = self.fit_curves(samples, hierarchy)
        warn_of_mistakes(lpr)
        self.keys_, self.held_out_ = {}, None
        self.forget_cutoff()  # first, so that no promise outlives an interrupted fit
        self.hierarchy_, self.lpr_, self.implied_ = hierarchy, lpr, implied
        self.leaves_ = table.rolled_up
        self.joint_ = self.path_weight_ = None
        if self.joint is not False:
            self.joint_ = fit_joint(
                table.values,
                truth,
                hierarchy,
                method=with_sharing(self.lpr, lpr.shared),
                n_jobs=self.n_jobs,
                sample_weight=samples.relative_weight,
                use="exact" if self.joint is True else "auto",
            )
        if implied is None:
            self.path_weight_ = self.fit_depth_weights(samples)
        self.keys_ = {"fit": SampleKeys.of_rows(table.values, table.samples, ids)}
        self.sample_summary_ = SampleSummary.of(lpr, table.values, hierarchy, weight)
        self.profile_ = self.fit_profile(samples)
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
        min_chance: float | None = None,
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
        min_chance : float, optional
            Call no label with an LPR below this, nor labels below it. The target is then about the
            other calls. Levels are block scores: labels may be called with others of their block.
        """
        if min_chance is not None:
            min_chance = check_level(min_chance, name="min_chance")
        goals = goals_of(precision=precision, fdr=fdr, maximize=maximize, confidence=confidence)
        _, samples = self._labelled(X, y, sample_weight=sample_weight, clusters=clusters)
        check_bound(goals[0], samples.weight, max_weight)
        samples = samples.used(keep_equal=confidence is not None)
        keys, caveats = check_leakage(samples, self.keys_.get("fit"))
        lpr = self.lprs(samples.table)
        cutoff = cutoff_on(
            goals,
            self.block_scores(samples.table, lpr),
            samples.truth,
            self.hierarchy_,
            self.profile_,
            groups=groups,
            unreachable=unreachable,
            weight=samples.weight,
            max_weight=max_weight,
            lpr=lpr.values,
            min_chance=min_chance,
        )
        for part in cutoff.targets or (cutoff,):
            if not part.reachable:
                warn(part.reason, UnreachableWarning)
        self.keys_ = {**self.keys_, "cutoff": keys}
        self.cutoff_ = cutoff.with_caveats(caveats)
        return self

    def transform(self, X: Any) -> Any:
        """Return the local precision rates; with `joint`, P(label | all scores of the sample).

        CSR scores give listed labels and their ancestors.
        """
        lpr = self.lprs(self.aligned_scores(X))
        return in_container_of(X, lpr.values, self.hierarchy_.labels)

    @property
    def n_features_in_(self) -> int:
        """Number of labels."""
        return self.hierarchy_.n_labels

    @property
    def classes_(self) -> NDArray[np.object_]:
        """The labels, one per column of `predict`."""
        return np.array(self.hierarchy_.labels, dtype=object)

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

    @property
    def _fitted(self) -> HierLPR:
        check_is_fitted(self)
        return self

    def score_table(self, X: Any) -> Any:
        """Return the scores as they are."""
        return X
