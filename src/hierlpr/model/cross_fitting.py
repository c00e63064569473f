"""Train a given classifier for all labels, out of fold and on everything, and read its scores."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

from hierlpr._utils.checks import quote_names
from hierlpr.data.clusters import cluster_note, identifies_clusters
from hierlpr.data.duplicates import has_close_neighbours
from hierlpr.data.frames import as_frame
from hierlpr.data.tables import Table
from hierlpr.data.truth import Truth
from hierlpr.exceptions import HierlprError, warn

MIN_SUPPORT = 3  # positives and negatives of a label that gets a classifier
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
    """Return the keyword of sample weights in `fit` of an estimator, None if it takes none."""
    if isinstance(estimator, Pipeline):
        step, last = estimator.steps[-1]
        name = weight_name(last)
        return None if name is None else f"{step}__{name}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def cluster_caveats(x: Any, samples: Table, truth: Truth) -> list[str]:
    """Return a warning if samples seem to belong together; nothing if not."""
    frame, signs = as_frame(x, "X"), []
    columns = [] if frame is None else list(frame.columns)
    repeated = [c for c in columns if identifies_clusters(c, frame[c])]
    for level in getattr(getattr(x, "index", None), "names", ()):  # of a pandas index
        if identifies_clusters(level, x.index.get_level_values(level)):
            repeated.append(str(level))
    if repeated:
        signs.append(f"values of {quote_names(repeated)} occur more than once")
    if note := cluster_note(samples.samples, truth.positive):
        signs.append(note)
    if frame is not None:
        x = frame.select([c for c in columns if frame[c].dtype.is_float()]).to_numpy()
    if has_close_neighbours(x):
        signs.append("many rows of X nearly equal another one")
    if not signs:
        return []
    return [
        f"Samples may belong together: {'; '.join(signs)}. If so, the cutoff looks "
        "better than it is, and no promise holds.\n"
        "Hint: of patients or cameras, fit(..., clusters=ids) with one id per sample; copies "
        "(SMOTE, augmentation) must be made inside the estimator."
    ]


def train(
    estimator: Any,
    x: Any,
    truth: NDArray[Any],
    folds: Sequence[Any],
    *,
    weight: Float | None,
    n_jobs: int | None,
    on_progress: Callable[[int, int], None] | None,
) -> tuple[Float, list[Any]]:
    """Return out-of-fold scores, and one classifier per label fitted where its truth is not NaN."""
    columns = np.asarray(truth, dtype=np.float64).T
    jobs = (delayed(_fit_label)(estimator, x, y, folds, weight) for y in columns)
    pairs: list[tuple[Float, Any]] = []
    for pair in Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
        pairs.append(pair)
        if on_progress is not None:
            on_progress(len(pairs), len(columns))
    scores, fitted = zip(*pairs, strict=True)
    return np.stack(scores, axis=1), list(fitted)


# Many small problems: threads of the linear algebra would only wait for each other.
@threadpool_limits.wrap(limits=1, user_api="blas")  # type: ignore[untyped-decorator]
def _fit_label(
    estimator: Any, x: Any, truth: Float, folds: Sequence[Any], weight: Float | None
) -> tuple[Float, Any]:
    """Fit one label on each fold and on everything; too rare a label gets scores of 0."""
    scores, all_rows = np.zeros(truth.size), np.flatnonzero(~np.isnan(truth))
    if min(np.count_nonzero(truth == x) for x in (0, 1)) < MIN_SUPPORT:
        return scores, None
    name = None if weight is None else weight_name(estimator)

    def fit(rows: NDArray[np.intp]) -> Any:
        part, y = take_rows(x, rows), truth[rows] == 1
        if weight is None or name is None:
            return clone(estimator).fit(part, y)
        with config_context(enable_metadata_routing=False):  # the step is named: nothing to route
            return clone(estimator).fit(part, y, **{name: weight[rows]})

    for train_rows, test_rows in folds:
        rows = np.intersect1d(train_rows, all_rows)
        has_both = np.unique(truth[rows]).size == 2
        scores[test_rows] = scores_of(fit(rows), take_rows(x, test_rows)) if has_both else np.nan
    # Where the training part of a fold lacks a class, its samples get the mean of the others.
    missing = np.isnan(scores)
    scores[missing] = 0.0 if missing.all() else scores[~missing].mean()
    return scores, fit(all_rows)


def scores_of(fitted: Any, x: Any) -> Float:
    """Return the score of the positive class, its probability if there is one."""
    if hasattr(fitted, "predict_proba"):
        return np.asarray(fitted.predict_proba(x), dtype=np.float64)[:, 1]  # of False and True
    if hasattr(fitted, "decision_function"):
        return np.asarray(fitted.decision_function(x), dtype=np.float64).reshape(-1)
    raise HierlprError(f"{type(fitted).__name__} has neither predict_proba nor decision_function.")


def warn_of_steps_in_front(classifier: Any) -> None:
    """Warn if a scikit-learn pipeline with fitted steps in front of the classifier is being fitted.

    It is found on the call stack; features that were transformed earlier cannot be detected.
    """
    frame = inspect.currentframe()
    while frame is not None:
        pipeline = frame.f_locals.get("self")
        if isinstance(pipeline, Pipeline) and pipeline.steps[-1][1] is classifier:
            steps = [step for _, step in pipeline.steps[:-1] if hasattr(step, "fit")]
            fitted = [type(x).__name__ for x in steps if get_tags(x).requires_fit]
            if fitted:
                warn(
                    f"{', '.join(fitted)} in front of HierarchicalClassifier was fitted on the "
                    "held-out samples too, so neither probabilities nor a guarantee hold.\n"
                    "Hint: HierarchicalClassifier(make_pipeline(..., classifier))."
                )
            return
        frame = frame.f_back
