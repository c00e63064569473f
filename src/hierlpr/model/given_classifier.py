"""A given classifier: train it for all labels, out of fold and on everything; read its scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, has_fit_parameter
from threadpoolctl import threadpool_limits

from hierlpr.exceptions import DataError, HierlprError

Progress = Callable[[int, int], None]
Truth = NDArray[Any]  # bool, or 0, 1 and NaN where it is unknown
Float = NDArray[np.float64]


def weight_name(estimator: Any) -> str | None:
    """Return the keyword by which its `fit` takes weights of samples, None if it takes none.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> weight_name(make_pipeline(StandardScaler(), LogisticRegression()))
    'logisticregression__sample_weight'
    >>> weight_name(KNeighborsClassifier()) is None
    True
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
    together: bool,
    min_positives: int,
    n_jobs: int | None,
    on_progress: Progress | None,
) -> tuple[Float, list[Any]]:
    """Return out-of-fold scores, and what was fitted on everything: one a label, or one of all."""
    from joblib import Parallel, delayed, effective_n_jobs

    n_labels = truth.shape[1]
    if together:
        jobs, task = [np.arange(n_labels)], _fit_together
    else:
        n_chunks = min(n_labels, max(1, 8 * effective_n_jobs(n_jobs)))
        jobs, task = np.array_split(np.arange(n_labels), n_chunks), _fit_each
    results: Iterator[Any] = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(task)(estimator, x, truth[:, columns], folds, weight, min_positives)
        for columns in jobs
    )
    done, total = 0, n_labels * (len(folds) + 1)
    scores, fitted = np.empty(truth.shape), []
    for columns, (out_of_fold, made) in zip(jobs, results, strict=True):
        scores[:, columns] = out_of_fold
        fitted.extend(made)
        done += columns.size * (len(folds) + 1)
        if on_progress is not None:
            on_progress(done, total)
    return scores, fitted


# One small problem after another: threads of the linear algebra would only wait for each other.
@threadpool_limits.wrap(limits=1, user_api="blas")  # type: ignore[untyped-decorator]
def _fit_each(
    estimator: Any, x: Any, truth: Truth, folds: list[Any], weight: Float | None, min_positives: int
) -> tuple[Float, list[Any]]:
    """Fit one classifier a label on each fold and on everything."""
    scores = np.zeros(truth.shape)
    held, known = truth == 1, truth == truth  # NaN is not itself
    usable = _support(truth) >= max(1, min_positives)
    for train, test in folds:
        x_train, x_test = _safe_indexing(x, train), _safe_indexing(x, test)
        for column in np.flatnonzero(usable):
            there = known[train, column]
            y = held[train, column][there]
            if y.all() or not y.any():
                scores[test, column] = np.nan
            else:
                part = x_train if there.all() else _safe_indexing(x_train, np.flatnonzero(there))
                one = _fit_one(estimator, part, y, weight, train[there])
                scores[test, column] = scores_of(one, x_test)
    # Where the training part of a fold lacked a class, its samples score like the mean of others.
    for column in np.flatnonzero(np.isnan(scores).any(axis=0)):
        missing = np.isnan(scores[:, column])
        scores[missing, column] = 0.0 if missing.all() else scores[~missing, column].mean()
    fitted = list[Any]([None] * truth.shape[1])
    for label in np.flatnonzero(usable).tolist():
        there = np.flatnonzero(known[:, label])
        part = x if there.size == len(truth) else _safe_indexing(x, there)
        fitted[label] = _fit_one(estimator, part, held[there, label], weight, there)
    return scores, fitted


def _support(truth: Truth) -> NDArray[np.int64]:
    """Known positives or known negatives of each label, whichever are fewer."""
    return np.asarray(np.minimum((truth == 1).sum(axis=0), (truth == 0).sum(axis=0)))


def _fit_together(
    estimator: Any, x: Any, truth: Truth, folds: list[Any], weight: Float | None, min_positives: int
) -> tuple[Float, list[Any]]:
    """Fit one classifier for all labels on each fold and on everything."""
    n_unknown = int((truth != truth).sum())
    if n_unknown:
        raise DataError(
            f"truth is unknown (NaN) for {n_unknown:,} pairs, which a classifier of all labels at "
            "once cannot be fitted to.\nHint: leave out multi_output=True, so that each label has "
            'a classifier fitted on what is known of it; or use estimator="auto".'
        )
    scores = np.zeros(truth.shape)
    target = truth.astype(np.int8)
    for train, test in folds:
        one = _fit_one(estimator, _safe_indexing(x, train), target[train], weight, train)
        scores[test] = multi_scores(one, _safe_indexing(x, test), truth.shape[1])
    scores[:, _support(truth) < max(1, min_positives)] = 0.0
    return scores, [_fit_one(estimator, x, target, weight)]


def _fit_one(estimator: Any, x: Any, y: Any, weight: Float | None, rows: Any = slice(None)) -> Any:
    """Fit a clone, with the weights of its rows if it takes any."""
    name = None if weight is None else weight_name(estimator)
    if weight is None or name is None:
        return clone(estimator).fit(x, y)
    with config_context(enable_metadata_routing=False):  # the step is named, nothing is to route
        return clone(estimator).fit(x, y, **{name: weight[rows]})


def scores_of(fitted: Any, x: Any) -> Float:
    """Score of the positive class, by probability if there is one."""
    if hasattr(fitted, "predict_proba"):
        proba = np.asarray(fitted.predict_proba(x), dtype=np.float64)
        return proba[:, int(np.flatnonzero(np.asarray(fitted.classes_) == 1)[0])]
    if hasattr(fitted, "decision_function"):
        return np.asarray(fitted.decision_function(x), dtype=np.float64).reshape(-1)
    raise HierlprError(f"{type(fitted).__name__} has neither predict_proba nor decision_function.")


def multi_scores(fitted: Any, x: Any, n_labels: int) -> NDArray[np.float64]:
    """Scores of a classifier of all labels at once, whatever form its probabilities come in."""
    if not hasattr(fitted, "predict_proba"):
        out = np.asarray(fitted.decision_function(x), dtype=np.float64)
    else:
        proba = fitted.predict_proba(x)
        if isinstance(proba, list):  # one (n_samples, n_classes) a label
            classes = fitted.classes_
            out = np.zeros((_num_samples(x), n_labels))
            for column, (p, known) in enumerate(zip(proba, classes, strict=True)):
                place = np.flatnonzero(np.asarray(known) == 1)
                if place.size:
                    out[:, column] = np.asarray(p)[:, place[0]]
        else:
            out = np.asarray(proba, dtype=np.float64)
    if out.shape != (_num_samples(x), n_labels):
        raise HierlprError(
            f"multi_output=True: {type(fitted).__name__} gave scores of shape {out.shape}; "
            f"expected {(_num_samples(x), n_labels)}."
        )
    return out
