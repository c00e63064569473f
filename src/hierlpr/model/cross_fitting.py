"""Train a given classifier for all labels, out of fold and on everything, and read its scores."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

from hierlpr.exceptions import HierlprError, HierlprWarning

Progress = Callable[[int, int], None]
Truth = NDArray[Any]  # bool, or 0, 1 and NaN where unknown
Float = NDArray[np.float64]


def count_rows(x: Any) -> int:
    """Return the number of samples of an array, sparse matrix, data frame or list."""
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


def take_rows(x: Any, rows: NDArray[np.intp]) -> Any:
    """Return some samples of an array, CSR matrix, data frame or list, in the same container."""
    if not hasattr(x, "shape"):
        return [x[i] for i in rows.tolist()]
    if hasattr(x, "iloc"):  # pandas
        return x.iloc[rows]
    return x.take(rows) if hasattr(x, "schema") and hasattr(x, "take") else x[rows]  # Arrow


def weight_name(estimator: Any) -> str | None:
    """Return the keyword of sample weights in its `fit`, None if it takes none.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> weight_name(make_pipeline(LogisticRegression()))
    'logisticregression__sample_weight'
    """
    if isinstance(estimator, Pipeline):
        step, last = estimator.steps[-1]
        name = weight_name(last)
        return None if name is None else f"{step}__{name}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def train(
    estimator: Any,
    x: Any,
    truth: Truth,
    folds: list[Any],
    *,
    weight: Float | None,
    min_positives: int,
    n_jobs: int | None,
    on_progress: Progress | None,
) -> tuple[Float, list[Any]]:
    """Return out-of-fold scores, and the classifier of each label fitted on everything."""
    n_labels = truth.shape[1]
    n_chunks = min(n_labels, max(1, 8 * effective_n_jobs(n_jobs)))
    jobs = np.array_split(np.arange(n_labels), n_chunks)
    results: Iterator[Any] = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_fit_each)(estimator, x, truth[:, columns], folds, weight, min_positives)
        for columns in jobs
    )
    scores, fitted = np.empty(truth.shape), []
    for columns, (out_of_fold, estimators) in zip(jobs, results, strict=True):
        scores[:, columns] = out_of_fold
        fitted.extend(estimators)
        if on_progress is not None:
            on_progress(len(fitted), n_labels)
    return scores, fitted


# Many small problems: threads of the linear algebra would only wait for each other.
@threadpool_limits.wrap(limits=1, user_api="blas")  # type: ignore[untyped-decorator]
def _fit_each(
    estimator: Any, x: Any, truth: Truth, folds: list[Any], weight: Float | None, min_positives: int
) -> tuple[Float, list[Any]]:
    """Fit one classifier per label on each fold and on everything."""
    n_samples, n_labels = truth.shape
    support = np.minimum((truth == 1).sum(axis=0), (truth == 0).sum(axis=0))
    is_usable = support >= max(1, min_positives)
    scores, fitted = np.zeros(truth.shape), list[Any]([None] * n_labels)
    everything = np.arange(n_samples)
    for train_rows, test_rows in [*folds, (everything, None)]:
        x_train = x if test_rows is None else take_rows(x, train_rows)
        x_test = None if test_rows is None else take_rows(x, test_rows)
        for label in np.flatnonzero(is_usable).tolist():
            column = truth[train_rows, label]
            known = np.flatnonzero(column == column)  # NaN differs from itself
            y = column[known] == 1
            if test_rows is not None and (y.all() or not y.any()):
                scores[test_rows, label] = np.nan
                continue
            part = x_train if known.size == column.size else take_rows(x_train, known)
            one = _fit_one(estimator, part, y, weight, train_rows[known])
            if test_rows is None:
                fitted[label] = one
            else:
                scores[test_rows, label] = scores_of(one, x_test)
    # Where the training part of a fold lacks a class, its samples get the mean of the others.
    for label in np.flatnonzero(np.isnan(scores).any(axis=0)).tolist():
        missing = np.isnan(scores[:, label])
        scores[missing, label] = 0.0 if missing.all() else scores[~missing, label].mean()
    return scores, fitted


def _fit_one(estimator: Any, x: Any, y: Any, weight: Float | None, rows: NDArray[Any]) -> Any:
    """Fit a clone, with the weights of its rows if it takes any."""
    name = None if weight is None else weight_name(estimator)
    if weight is None or name is None:
        return clone(estimator).fit(x, y)
    with config_context(enable_metadata_routing=False):  # the step is named: nothing to route
        return clone(estimator).fit(x, y, **{name: weight[rows]})


def scores_of(fitted: Any, x: Any) -> Float:
    """Return the score of the positive class, its probability if there is one."""
    if hasattr(fitted, "predict_proba"):
        proba = np.asarray(fitted.predict_proba(x), dtype=np.float64)
        return proba[:, int(np.flatnonzero(np.asarray(fitted.classes_) == 1)[0])]
    if hasattr(fitted, "decision_function"):
        return np.asarray(fitted.decision_function(x), dtype=np.float64).reshape(-1)
    raise HierlprError(f"{type(fitted).__name__} has neither predict_proba nor decision_function.")


def warn_of_steps_in_front(classifier: Any) -> None:
    """Warn if `fit` is called by a pipeline with fitted steps before the classifier.

    Those steps have seen the samples that are held out. Only a scikit-learn pipeline that is
    fitting right now is detected, from the call stack; features that were transformed before are
    not.
    """
    frame = inspect.currentframe()
    while frame is not None:
        pipeline = frame.f_locals.get("self")
        if isinstance(pipeline, Pipeline) and pipeline.steps[-1][1] is classifier:
            steps = [step for _, step in pipeline.steps[:-1] if hasattr(step, "fit")]
            fitted = [type(x).__name__ for x in steps if get_tags(x).requires_fit]
            if fitted:
                warnings.warn(
                    f"{', '.join(fitted)} in front of HierarchicalClassifier was fitted on the "
                    "held-out samples too, so the cutoff and its guarantee do not hold.\n"
                    "Hint: HierarchicalClassifier(make_pipeline(..., classifier)).",
                    HierlprWarning,
                    stacklevel=3,
                )
            return
        frame = frame.f_back
