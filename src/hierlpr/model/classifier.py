"""HierarchicalClassifier: features in, calls out, with its own first stage or any classifier."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold
from sklearn.utils import ClassifierTags, TargetTags, get_tags
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from hierlpr._utils import checks
from hierlpr._utils.progress import progress_bar
from hierlpr.cutoff.choose import Unreachable
from hierlpr.cutoff.goal import check_bound, goals_of
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.cutoff.split import split_samples
from hierlpr.data.duplicates import SampleKeys, feature_keys, leakage_warnings
from hierlpr.data.frames import row_names
from hierlpr.data.tables import Table, truth_table
from hierlpr.exceptions import DataError, HierlprError, warn
from hierlpr.first_stage import FirstStage
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.conversion import HierarchyLike, as_hierarchy
from hierlpr.model import cross_fitting
from hierlpr.model.cross_fitting import count_rows, take_rows
from hierlpr.model.estimator import HierLPR
from hierlpr.model.inputs import LabelledSamples, refuse_unknown_labels
from hierlpr.model.persistence import save_classifier
from hierlpr.model.prediction import Predictor

Float = NDArray[np.float64]
MIN_CLUSTERS = 3  # two to train on, one for the cutoff


class HierarchicalClassifier(Predictor, BaseEstimator):  # type: ignore[misc]
    """Learn scores from features, turn them into comparable scores, rank, and call with a cutoff.

    Parameters
    ----------
    estimator : "auto", FirstStage, or scikit-learn classifier or pipeline
        ``"auto"``: :class:`hierlpr.first_stage.FirstStage`, an average of networks, trees and
        kernels that learn all labels in one model; see ``docs/first-stage.md``. A classifier needs
        ``predict_proba`` or ``decision_function`` and is cloned for each label. Everything that is
        fitted to data (vectorizers, scalers, feature selection) belongs in this estimator, in a
        pipeline, so that it is fitted on the training part only.
    hierarchy : Hierarchy, path, dict, edges or networkx graph, optional
        None: the columns of `y` are unrelated.
    precision, fdr, maximize, confidence : optional
        Goal of the cutoff, as in :meth:`HierLPR.calibrate`. Without one, ``predict`` cuts at a
        block score of 0.5.
    groups, unreachable, max_weight
        As in :meth:`HierLPR.calibrate`.
    lpr, joint : optional
        As in :class:`HierLPR`. With a :class:`FirstStage`, ``lpr="auto"`` means ``"probability"``.
    propagate_truth : bool
        As in :class:`HierLPR`.
    cv : int
        Folds for the out-of-fold scores of a classifier; the first stage has its own.
    holdout : float
        Share of the samples held out for the cutoff; only used with a goal.
    n_jobs : int, optional
        Processes, as in joblib.
    random_state : int, Generator or None
        Seed of the folds and of the held-out samples.
    verbose : bool, optional
        Whether to show the progress of `fit` on stderr or in the notebook; by default if it takes
        more than 2 seconds.

    Attributes
    ----------
    model_ : HierLPR
        Fitted on out-of-fold scores, calibrated on the held-out samples.
    estimators_ : list
        One fitted classifier per label, or only the first stage. None for a label with fewer than
        three positives or negatives, whose LPR is its prevalence.
    oof_scores_ : ndarray
        The out-of-fold scores, NaN for held-out samples.
    held_out_ : ndarray of int
        The samples that were only used for the cutoff.
    weighs_training_ : bool or None
        Whether the estimator took the sample weights in its own training; None without weights.

    Notes
    -----
    LPRs are learned from out-of-fold scores, because scores of a classifier's own training samples
    are too optimistic. The classifiers in use are then fitted on all samples except the held-out
    ones, and those choose the cutoff, so that it sees scores of the same kind as new ones.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 5))
    >>> y = np.stack([X[:, 0] > 0, (X[:, 0] > 0) & (X[:, 1] > 0)], axis=1)
    >>> h = Hierarchy([("animal", "dog")])
    >>> c = HierarchicalClassifier(LogisticRegression(), hierarchy=h, fdr=0.1).fit(X, y)
    >>> len(h.violations(c.predict(X)))
    0
    """

    _returns_samples = False

    def __init__(
        self,
        estimator: Any = "auto",
        hierarchy: HierarchyLike | None = None,
        *,
        precision: float | Sequence[float] | None = None,
        fdr: float | Sequence[float] | None = None,
        maximize: str | None = None,
        confidence: float | None = None,
        groups: Any = None,
        unreachable: Unreachable | None = None,
        max_weight: float | None = None,
        lpr: Any = "auto",
        joint: bool | str = "auto",
        propagate_truth: bool = False,
        cv: int = 5,
        holdout: float = 1 / 3,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: bool | None = None,
    ) -> None:
        self.estimator = estimator
        self.hierarchy = hierarchy
        self.precision = precision
        self.fdr = fdr
        self.maximize = maximize
        self.confidence = confidence
        self.groups = groups
        self.unreachable = unreachable
        self.max_weight = max_weight
        self.lpr = lpr
        self.joint = joint
        self.propagate_truth = propagate_truth
        self.cv = cv
        self.holdout = holdout
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, clusters: Any = None) -> Self:
        """Fit the classifiers, the local precision rates and the cutoff.

        Parameters
        ----------
        X : matrix, data frame or list of texts, one row per sample
            Rows are passed to the estimator unchanged. The first stage takes numbers, categories,
            NaN, sparse matrices, and texts, for which it has its own vectorizer.
        y : matrix or data frame of shape (n_samples, n_labels), or lists of labels
            As in :meth:`HierLPR.fit`, NaN where unknown. The first stage learns from the
            probability of unknown labels given the features; a classifier of one label is fitted
            on the samples in which that label is known or a parent is false (``docs/truth.md``).
        sample_weight : array-like of shape (n_samples,), optional
            As in :meth:`HierLPR.fit`; also passed to classifiers (or last steps of a pipeline) that
            take weights. Others, such as the first stage, are trained unweighted.
        clusters : array-like of shape (n_samples,), series or frame of one column, optional
            One id per sample, such as its patient: new samples come from new clusters. All folds,
            and the split for the cutoff, keep clusters whole, and promises are about a random
            sample of a new cluster; see :meth:`HierLPR.calibrate`.
        """
        estimator = self._check_params()
        cross_fitting.warn_of_steps_in_front(self)
        names = ("precision", "fdr", "maximize", "confidence")
        goal = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        X = _indexable(X)
        table = Table(np.empty((count_rows(X), 0)), (), *row_names(X, "X"))
        if self.hierarchy is None:
            y, _ = truth_table(y, None, table)
            h = Hierarchy(labels=y.labels)
        else:
            h = as_hierarchy(self.hierarchy)
        options: dict[str, Any] = {"sample_weight": sample_weight, "clusters": clusters}
        options |= {"propagate_truth": self.propagate_truth, "name": "X"}
        samples = LabelledSamples.of(table, y, h, **options)
        truth, weight = samples.truth, samples.weight
        if truth.n_clusters is not None and truth.n_clusters < MIN_CLUSTERS:
            raise DataError(
                f"clusters: {truth.n_clusters} cluster(s) for {truth.shape[0]:,} samples; at least "
                f"{MIN_CLUSTERS} are needed, to train on some and to choose a cutoff on others."
            )
        refuse_unknown_labels(truth, h)
        check_bound(goals_of(**goal)[0] if goal else None, weight, self.max_weight)
        rng = np.random.default_rng(self.random_state)
        self.__dict__.pop("model_", None)  # so that no promise outlives an interrupted fit
        rows = np.arange(table.n_samples) if weight is None else np.flatnonzero(weight)
        held_out = rows[:0]
        if goal:
            unit = truth[rows].cluster
            split = split_samples(rows.size, self.holdout, rng, unit=unit, name="X")
            rows, held_out = (rows[part] for part in split)
        train = samples.rows(rows).used()
        scores = self._fit_estimators(estimator, take_rows(X, rows), train, rng)
        self.oof_scores_ = np.full(truth.shape, np.nan)
        self.oof_scores_[rows] = scores
        self.held_out_, self.hierarchy_ = held_out, h
        self.classes_ = np.array(h.labels, dtype=object)
        is_stage = isinstance(estimator, FirstStage)
        lpr = "probability" if is_stage and self.lpr == "auto" else self.lpr
        model = HierLPR(None if self.hierarchy is None else h, lpr=lpr, joint=self.joint)
        model.fit_aligned(h, train._replace(table=Table(scores, h.labels)))
        # Later scores come from other classifiers than these out-of-fold ones: compare ranges only.
        model.sample_summary_ = None
        self.model_ = model
        if goal:
            goal |= {x: getattr(self, x) for x in ("groups", "unreachable", "max_weight")}
            _, held_out_truth, goal["sample_weight"], _ = samples.rows(held_out)
            model.calibrate(self.scores(take_rows(X, held_out)), held_out_truth, **goal)
            # Scores do not show copies: those of training samples are out of fold.
            keys = feature_keys(X)
            parts = SampleKeys.of(keys[held_out]), SampleKeys.of(keys[rows])
            caveats = leakage_warnings(*parts, what="features")
            if not caveats and clusters is None:
                caveats = cross_fitting.cluster_caveats(X, table, truth)
            for note in caveats:
                warn(note)
            model.cutoff_ = model.cutoff_.with_caveats(caveats)
        return self

    def scores(self, X: Any) -> Float:
        """Return the first-stage scores of new samples, one column per label."""
        check_is_fitted(self, "estimators_")
        X = _indexable(X)
        if isinstance(self.estimators_[0], FirstStage):
            return np.asarray(self.estimators_[0].predict_proba(X), dtype=np.float64)
        out = np.zeros((count_rows(X), self.hierarchy_.n_labels))
        with threadpool_limits(limits=1, user_api="blas"):
            for column, fitted in enumerate(self.estimators_):
                if fitted is not None:
                    out[:, column] = cross_fitting.scores_of(fitted, X)
        return out

    @property
    def _fitted(self) -> HierLPR:
        check_is_fitted(self, "model_")
        return self.model_

    def score_table(self, X: Any) -> Table:
        """Return the scores with the names of the samples, if `X` is a data frame that has them."""
        return Table(self.scores(X), self.hierarchy_.labels, *row_names(X, "X"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted classifier to one file, which :func:`hierlpr.load_model` reads.

        The estimators are stored with skops. Opening such a file can run code, so it takes
        ``load_model(path, trust_classifier=True)``.
        """
        check_is_fitted(self, "model_")
        save_classifier(self, path)

    @property
    def cutoff_(self) -> Cutoff:
        """Where `predict` cuts, and what that achieved on the held-out samples."""
        return self._fitted.cutoff_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags = TargetTags(required=True, multi_output=True, single_output=False)
        tags.classifier_tags = ClassifierTags(multi_class=False)  # each column is 0 or 1
        estimator = FirstStage() if isinstance(self.estimator, str) else self.estimator
        if hasattr(estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(estimator).input_tags
        return tags

    # -- steps of fit -------------------------------------------------------------------------

    def _fit_estimators(
        self, estimator: Any, x: Any, samples: LabelledSamples, rng: np.random.Generator
    ) -> Float:
        """Fit the first stage; return its out-of-fold scores."""
        truth, weight = samples.truth, samples.weight
        y, pairs = truth.positive, truth.learnable
        y = y if pairs.all() else np.where(pairs, y, np.nan)
        on_progress = progress_bar("fitting", verbose=self.verbose)
        weight_name = cross_fitting.weight_name(estimator)
        self.weighs_training_ = None if weight is None else weight_name is not None
        if isinstance(estimator, FirstStage):
            estimator.fit(x, y, clusters=truth.cluster, on_progress=on_progress)
            self.estimators_ = [estimator]
            self.n_features_in_ = estimator.n_features_in_
            return np.asarray(estimator.oof_proba_)
        unit = np.arange(len(y)) if truth.cluster_number is None else truth.cluster_number
        n_units = int(unit.max()) + 1
        if n_units < self.cv:
            count = f"n_samples = {len(y):,}"
            if truth.cluster is not None:
                count += f" in {n_units:,} clusters, and clusters stay whole"
            raise DataError(f"Too few training samples for {self.cv} folds: {count}.")
        if len(getattr(x, "shape", ())) == 2:  # texts in a list have no number of features
            self.n_features_in_ = int(x.shape[1])
        splitter = KFold(self.cv, shuffle=True, random_state=int(rng.integers(2**31)))
        in_fold = (np.isin(unit, test) for _, test in splitter.split(np.arange(n_units)))
        folds, n_jobs = [(np.flatnonzero(~x), np.flatnonzero(x)) for x in in_fold], self.n_jobs
        scores, self.estimators_ = cross_fitting.train(
            estimator, x, y, folds, weight=weight, n_jobs=n_jobs, on_progress=on_progress
        )
        return scores

    def _check_params(self) -> Any:
        """Refuse invalid parameters; return the estimator to fit, never the user's own."""
        checks.check_count(self.cv, name="cv", least=2)
        checks.check_level(self.holdout, name="holdout")
        if self.unreachable is not None:
            checks.check_choice(self.unreachable, get_args(Unreachable), name="unreachable")
        checks.check_jobs(self.n_jobs)
        HierLPR(lpr=self.lpr, joint=self.joint).check_params()
        rng = checks.make_rng(self.random_state)
        if isinstance(self.estimator, str) and self.estimator == "auto":
            return FirstStage(n_jobs=self.n_jobs, random_state=int(rng.integers(2**31)))
        if not hasattr(self.estimator, "fit") or isinstance(self.estimator, type):
            raise HierlprError(
                "estimator must be 'auto', a hierlpr.first_stage.FirstStage, or a scikit-learn "
                f"classifier or pipeline; got {self.estimator!r}."
                + ("\nHint: write () after its name." if isinstance(self.estimator, type) else "")
            )
        return clone(self.estimator)


def _indexable(x: Any) -> Any:
    """Return features whose rows can be taken: sparse matrices as CSR, others as they are."""
    if hasattr(x, "tocsr"):
        return x.tocsr()
    if hasattr(x, "__array__") and not hasattr(x, "__len__"):
        x = np.asarray(x)
    if isinstance(x, str) or not hasattr(x, "__len__") or getattr(x, "shape", None) == ():
        raise DataError(
            f"X must have one row per sample, got a {type(x).__name__}."
            + ("\nHint: collect it first, X.collect()." if hasattr(x, "collect") else "")
        )
    return x
