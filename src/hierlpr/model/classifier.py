"""HierarchicalClassifier: features in, calls out, with its own first stage or any classifier."""

from __future__ import annotations

import os
import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils import TargetTags, _safe_indexing, get_tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import _num_samples, check_is_fitted
from threadpoolctl import threadpool_limits

from hierlpr._base import constructor_only
from hierlpr._base.checks import (
    check_choice,
    check_count,
    check_jobs,
    check_level,
    check_sample_weight,
)
from hierlpr._base.showing import terminal_progress
from hierlpr.cutoff.choose import Unreachable, check_bound, goal_of
from hierlpr.cutoff.decisions import LabelCall
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.data.frames import like_given, row_names
from hierlpr.data.partial_truth import (
    AnyTruth,
    PartialTruth,
    align_known,
    as_given,
    held_and_known,
)
from hierlpr.data.repeats import doubts_about_features
from hierlpr.data.tables import Table, align_labels, closing_note, match_rows
from hierlpr.exceptions import DataError, FileError, HierlprError, HierlprWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.hierarchies import HierarchyLike, as_hierarchy
from hierlpr.model.estimator import HierLPR, ShownEstimator
from hierlpr.model.explaining import Explanation
from hierlpr.model.given_classifier import Progress, multi_scores, scores_of, train, weight_name
from hierlpr.model.given_tables import refuse_unknown_labels, weighed
from hierlpr.ranking.order import Ranking


@constructor_only
@dataclass(eq=False, repr=False, match_args=False)
class HierarchicalClassifier(ShownEstimator):
    """Learn scores from features, make them comparable, rank, and call with a cutoff.

    Parameters
    ----------
    estimator : "auto", member of the first stage, or scikit-learn classifier or pipeline
        ``"auto"``: networks, trees and kernels that see all labels at once, weighed by what they
        are worth; see :class:`hierlpr.first_stage.FirstStage` and ``docs/first-stage.md``. A
        classifier needs ``predict_proba`` or ``decision_function`` and is cloned for each label.
    hierarchy : Hierarchy, path, dict, edges or networkx graph, optional
        None: the columns of `truth` stand alone.
    precision, fdr, maximize, confidence : optional
        What the cutoff is for, as in :meth:`HierLPR.calibrate`. If none is given, ``predict`` cuts
        at a block score of 0.5.
    groups, unreachable, max_weight
        As in :meth:`HierLPR.calibrate`.
    lpr, joint, close_truth
        As in :class:`HierLPR`. What a :class:`FirstStage` gives are probabilities already, so there
        ``lpr="auto"`` stands for ``"probability"``.
    cv : int
        Folds for the out-of-fold scores of a classifier; the first stage has its own way.
    holdout : float
        Share of the samples set apart for the cutoff. Only used with a goal for it.
    multi_output : bool
        The estimator takes all labels at once (such as a forest or a neural network).
    min_positives : int
        A label with fewer positives, or fewer negatives, gets no classifier: all its scores are
        equal, and its LPR is its prevalence. Not used by the first stage.
    max_minutes : float, optional
        With ``"auto"``: about how long the first stage may take.
    n_jobs : int, optional
        Processes over the labels, as in joblib.
    rng : seed or Generator
        Chooses the folds and the held-out samples.
    verbose : bool, optional
        Tell on stderr how far fitting is; by default if that is a terminal.

    Attributes
    ----------
    model_ : HierLPR
        Fitted on out-of-fold scores, calibrated on the held-out samples.
    cutoff_ : Cutoff
    estimators_ : list
        One fitted classifier a label, None for labels without; or the one of all labels alone.
    oof_scores_ : ndarray
        The out-of-fold scores, NaN for held-out samples.
    held_out_ : ndarray of int
        The samples that only chose the cutoff.

    Notes
    -----
    The LPRs are learned from out-of-fold scores: scores on a classifier's own training samples are
    too good to be true. The classifiers in use are then fitted once on all samples but the
    held-out ones, and those choose the cutoff, so that it sees scores just like new ones.
    ``describe()`` tells in words what was fitted.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 5))
    >>> truth = np.stack([X[:, 0] > 0, (X[:, 0] > 0) & (X[:, 1] > 0)], axis=1)
    >>> h = Hierarchy([("animal", "dog")])
    >>> c = HierarchicalClassifier(LogisticRegression(), hierarchy=h, fdr=0.1).fit(X, truth)
    >>> len(h.violations(c.predict(X)))
    0
    """

    # Truth stands where scikit-learn has y: it is no metadata to route.
    __metadata_request__fit = {"truth": UNUSED, "on_progress": UNUSED}  # noqa: RUF012
    __metadata_request__score = {"truth": UNUSED}  # noqa: RUF012

    estimator: Any = "auto"
    hierarchy: HierarchyLike | None = None
    _: KW_ONLY
    precision: float | None = None
    fdr: float | None = None
    maximize: str | None = None
    confidence: float | None = None
    groups: Any = None
    unreachable: Unreachable = "best-precision"
    max_weight: float | None = None
    lpr: Any = "auto"
    joint: bool | str = "auto"
    close_truth: bool = False
    cv: int = 5
    holdout: float = 1 / 3
    multi_output: bool = False
    min_positives: int = 3
    max_minutes: float | None = None
    n_jobs: int | None = None
    rng: Any = 0
    verbose: bool | None = None

    def fit(
        self,
        X: Any,  # noqa: N803
        truth: Any,
        sample_weight: Any = None,
        *,
        on_progress: Progress | None = None,
    ) -> Any:
        """Fit the classifiers, the local precision rates and the cutoff.

        Parameters
        ----------
        X : array, sparse matrix, data frame or list of shape (n_samples, ...)
            Whatever the estimator takes. The first stage takes numbers, categories and gaps.
        truth : matrix or data frame of shape (n_samples, n_labels), or lists of labels
            As in :meth:`HierLPR.fit`, NaN where it is unknown. The first stage learns from how
            likely such a label is by the features; a classifier of one label is fitted on the
            samples in which that label was given or a parent is lacking (``docs/truth.md``).
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts, as in :meth:`HierLPR.fit`: in the local precision rates,
            the joint posterior and the cutoff, and in the training of a classifier (or the last
            step of a pipeline) that takes weights. Others, the first stage among them, are trained
            on samples that count alike; `describe` says so.
        on_progress : callable, optional
            Called as ``on_progress(done, total)``, counting fitted classifiers, or thousandths of
            the first stage.
        """
        self._check_options()
        estimator = self._estimator()
        on_progress = on_progress or terminal_progress("fitting", verbose=self.verbose)
        goal = self._goal()
        X = _indexable(X)  # noqa: N806
        given, hierarchy, held = self._aligned(X, truth)
        own = check_sample_weight(sample_weight, held.shape[0], keep_equal=True)
        check_bound(goal_of(**goal) if goal else None, own, self.max_weight)
        used, weight = weighed(own, held.shape[0])
        rng = np.random.default_rng(self.rng)
        self.__dict__.pop("model_", None)  # its promises are not for the classifiers to come
        places = self._split(used.size, rng, has_goal=bool(goal))
        apart, kept = used[places[0]], used[places[1]]
        of_kept = None if own is None or weight is None else own[kept]
        scores = self._learn(estimator, X, held, kept, of_kept, rng, on_progress)
        self.oof_scores_ = np.full(held.shape, np.nan)
        self.oof_scores_[kept] = scores
        self.held_out_ = apart
        self.hierarchy_ = hierarchy
        self.model_ = HierLPR(given, lpr=self._lpr(estimator), joint=self.joint, verbose=False)
        self.model_.fit(scores, as_given(held[kept]), of_kept)
        if goal:
            self.model_.calibrate(
                self.scores(_safe_indexing(X, apart)), as_given(held[apart]),
                groups=self.groups, unreachable=self.unreachable,
                sample_weight=None if own is None else own[apart], max_weight=self.max_weight,
                **goal,
            )  # fmt: skip
            doubts = doubts_about_features(X, apart, kept)
            for note in doubts:
                warnings.warn(note, HierlprWarning, stacklevel=2)
            self.model_.cutoff_ = self.model_.cutoff_.doubted(doubts)
        return self

    def scores(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """First-stage scores of new samples, one column a label."""
        check_is_fitted(self)
        X = _indexable(X)  # noqa: N806
        n_labels = self.hierarchy_.n_labels
        if self.multi_output or _sees_all_labels(self.estimators_[0]):
            return multi_scores(self.estimators_[0], X, n_labels)
        out = np.zeros((_num_samples(X), n_labels))
        with threadpool_limits(limits=1, user_api="blas"):
            for column, fitted in enumerate(self.estimators_):
                if fitted is not None:
                    out[:, column] = scores_of(fitted, X)
        return out

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Block scores, a data frame if `X` is one; see :meth:`HierLPR.predict_proba`."""
        return self._as_given(X, self._fitted().predict_proba(self.scores(X)))

    def rank(self, X: Any, *, top: int | None = None, weight: Any = None) -> Ranking:  # noqa: N803
        """Order all (sample, label) instances; see :meth:`HierLPR.rank`."""
        return self._fitted().rank(self.score_table(X), top=top, weight=weight)

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the calls at the cutoff, closed upward; a data frame if `X` is one."""
        return self._as_given(X, self._fitted().predict(self.scores(X)))

    def explain(self, X: Any, sample: int | str = 0) -> Explanation:  # noqa: N803
        """Say why each label of one sample is called or not; see :meth:`HierLPR.explain`."""
        return self._fitted().explain(self.score_table(X), sample)

    def set_cutoff(self, level: float) -> Self:
        """Cut at a block score of your own choosing; see :meth:`HierLPR.set_cutoff`."""
        self._fitted().set_cutoff(level)
        return self

    def call_lists(self, X: Any) -> list[tuple[LabelCall, ...]]:  # noqa: N803
        """List the calls of each sample, best first."""
        return self._fitted().call_lists(self.scores(X))

    def score(self, X: Any, truth: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """AU(PRC) of the block scores; `sample_weight` is as in `fit`."""
        return self._fitted().score(self.score_table(X), truth, sample_weight)

    def describe(self) -> str:
        """Say what was fitted, on what, and how the scores of a sample are used together."""
        model = self._fitted()
        n_kept = int(np.isfinite(self.oof_scores_[:, 0]).sum())
        lines = [
            f"First stage and local precision rates from {n_kept:,} samples"
            + (f", cutoff from {self.held_out_.size:,} others." if self.held_out_.size else ".")
        ]
        if hasattr(self.estimators_[0], "describe"):
            lines.append(self.estimators_[0].describe())
        if self.weighs_training_ is False:
            lines.append("Weights of samples count in all but the training of the first stage.")
        if model.joint_ is not None:
            lines.append(model.joint_.describe())
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted classifier to one file; :func:`hierlpr.load_model` reads it.

        The first stage is saved as plain data, for estimators of `hierlpr.first_stage` and those of
        scikit-learn listed in ``hierlpr.model.classifier_file``; others are refused. Nothing in a
        file is ever executed.
        """
        from hierlpr.model.classifier_file import save_classifier

        self._fitted()
        save_classifier(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> HierarchicalClassifier:
        """Read a classifier that `save` wrote."""
        from hierlpr.model.persistence import load_model

        loaded = load_model(path)
        if not isinstance(loaded, HierarchicalClassifier):
            raise FileError(f"{path}: it holds a model of scores; hierlpr.load_model reads it.")
        return loaded

    @property
    def cutoff_(self) -> Cutoff:
        """Where `predict` cuts, and what that achieved on the held-out samples."""
        return self._fitted().cutoff_

    def summary(self) -> str:
        """Say what was learned; see :meth:`HierLPR.summary`."""
        return self._fitted().summary()

    @property
    def classes_(self) -> NDArray[np.object_]:
        """The labels, one for each column of `predict`."""
        return np.array(self._fitted().hierarchy_.labels, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags = TargetTags(required=True, multi_output=True, single_output=False)
        if isinstance(self.estimator, str):
            tags.input_tags.sparse = tags.input_tags.allow_nan = True
            tags.input_tags.categorical = tags.input_tags.string = True
        elif hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    # -- plumbing ---------------------------------------------------------------------------

    def _as_given(self, x: Any, values: NDArray[Any]) -> Any:
        return like_given(x, values, self.hierarchy_.labels, samples_column=False)

    def score_table(self, x: Any) -> Table:
        """First-stage scores with the names of the samples, if `x` is a frame that has them."""
        return Table(self.scores(x), self.hierarchy_.labels, row_names(x))

    def _fitted(self) -> HierLPR:
        check_is_fitted(self, "model_")
        return self.model_

    def _aligned(self, x: Any, truth: Any) -> tuple[Hierarchy | None, Hierarchy, AnyTruth]:
        """Return the hierarchy as given and as used, and truth in its order and the samples'."""
        if truth is None:
            raise DataError(
                "HierarchicalClassifier requires y to be passed, but the target y is None."
            )
        given = None if self.hierarchy is None else as_hierarchy(self.hierarchy)
        table = align_labels(truth, given, name="truth")
        hierarchy = given or Hierarchy(labels=table.labels)
        samples = Table(np.empty((_num_samples(x), 0)), (), row_names(x, "X"))
        table = match_rows(table, samples, name="X")
        held = align_known(samples.values, table, hierarchy, close=self.close_truth)
        if self.close_truth and (note := closing_note(table, held_and_known(held)[0], hierarchy)):
            warnings.warn(note, HierlprWarning, stacklevel=3)
        refuse_unknown_labels(held, hierarchy)
        return given, hierarchy, held

    def _learn(
        self,
        estimator: Any,
        x: Any,
        truth: AnyTruth,
        kept: NDArray[np.intp],
        weight: NDArray[np.float64] | None,
        rng: np.random.Generator,
        on_progress: Progress | None,
    ) -> NDArray[np.float64]:
        """Fit the first stage on the kept samples; return their out-of-fold scores."""
        x_kept, part = _safe_indexing(x, kept), truth[kept]
        held, known = held_and_known(part)
        if isinstance(part, PartialTruth):
            known = part.learnable
        y_kept: Any = held if known.all() else np.where(known, held, np.nan)
        self.weighs_training_ = None if weight is None else weight_name(estimator) is not None
        if _sees_all_labels(estimator):
            estimator.fit(x_kept, y_kept, on_progress=on_progress)
            self.estimators_ = [estimator]
            self.n_features_in_ = estimator.n_features_in_
            return np.asarray(estimator.oof_proba_)
        scores, self.estimators_ = train(
            estimator, x_kept, y_kept, self._folds(kept.size, rng), weight=weight,
            together=self.multi_output, min_positives=self.min_positives, n_jobs=self.n_jobs,
            on_progress=on_progress,
        )  # fmt: skip
        return scores

    def _estimator(self) -> Any:
        """Make the estimator to fit; the user's own is never changed."""
        if isinstance(self.estimator, str) and self.estimator == "auto":
            from hierlpr.first_stage import FirstStage

            seed = int(np.random.default_rng(self.rng).integers(2**31))
            return FirstStage(max_minutes=self.max_minutes, n_jobs=self.n_jobs, rng=seed)
        if self.max_minutes is not None:
            raise DataError("max_minutes is for estimator='auto'; give FirstStage its own.")
        if not hasattr(self.estimator, "fit") or isinstance(self.estimator, type):
            raise HierlprError(
                "estimator must be 'auto', a member of hierlpr.first_stage, or a scikit-learn "
                f"classifier or pipeline; got {self.estimator!r}."
                + ("\nHint: write () behind its name." if isinstance(self.estimator, type) else "")
            )
        return clone(self.estimator) if _sees_all_labels(self.estimator) else self.estimator

    def _lpr(self, estimator: Any) -> Any:
        """How to estimate local precision rates from the scores of this estimator."""
        is_auto = isinstance(self.lpr, str) and self.lpr == "auto"
        # Whether its out-of-fold probabilities are what they claim to be.
        is_calibrated = _sees_all_labels(estimator) and getattr(estimator, "is_calibrated", False)
        return "probability" if is_auto and is_calibrated else self.lpr

    def _check_options(self) -> None:
        """Refuse what makes no sense before hours of fitting."""
        check_count(self.cv, name="cv", least=2)
        check_count(self.min_positives, name="min_positives", least=0)
        check_level(self.holdout, name="holdout")
        check_choice(self.unreachable, get_args(Unreachable), name="unreachable")
        check_jobs(self.n_jobs)
        HierLPR(lpr=self.lpr, joint=self.joint).check_params()
        try:
            np.random.default_rng(self.rng)
        except (TypeError, ValueError):
            raise DataError(
                f"rng must be a whole number of at least 0, a numpy Generator or None; got "
                f"{self.rng!r}."
            ) from None

    def _goal(self) -> dict[str, Any]:
        options = {
            "precision": self.precision, "fdr": self.fdr, "maximize": self.maximize,
            "confidence": self.confidence,
        }  # fmt: skip
        given: dict[str, Any] = {k: v for k, v in options.items() if v is not None}
        if given:
            goal_of(**given)  # a goal that makes no sense should fail before hours of fitting
        return given

    def _split(
        self, n_samples: int, rng: np.random.Generator, *, has_goal: bool
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Set samples apart for the cutoff; both parts keep their order."""
        if not has_goal:
            return np.empty(0, dtype=np.intp), np.arange(n_samples)
        n_apart = round(self.holdout * n_samples)
        if n_apart == 0 or n_samples - n_apart < self.cv:
            raise DataError(
                f"{n_samples:,} samples are too few for {self.cv} folds and a held-out part."
            )
        shuffled = rng.permutation(n_samples)
        return np.sort(shuffled[:n_apart]), np.sort(shuffled[n_apart:])

    def _folds(self, n_samples: int, rng: np.random.Generator) -> list[tuple[Any, Any]]:
        if n_samples < self.cv:
            raise DataError(f"cv={self.cv} folds need at least as many samples, got {n_samples:,}.")
        splitter = KFold(self.cv, shuffle=True, random_state=int(rng.integers(2**31)))
        return list(splitter.split(np.empty(n_samples)))


def _indexable(x: Any) -> Any:
    """Return features whose rows can be taken: sparse matrices as CSR, others as they are."""
    if hasattr(x, "tocsr"):
        return x.tocsr()
    if isinstance(x, str) or not hasattr(x, "__len__"):
        raise DataError(
            f"X must be a matrix of shape (n_samples, n_features), got a {type(x).__name__}."
            + ("\nHint: collect it first, X.collect()." if hasattr(x, "collect") else "")
        )
    return x


def _sees_all_labels(estimator: Any) -> bool:
    """Whether it learns all labels at once and brings its own out-of-fold probabilities."""
    return hasattr(type(estimator), "oof_proba_")
