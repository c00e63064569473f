"""Fit local precision rates on a matrix of scores: sort, estimate, compile, diagnose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix, check_choice, listed
from hierlpr._kernels._threads import n_threads_or_default, run_chunks
from hierlpr._kernels.smoothing import make_monotone
from hierlpr.data.partial_truth import AnyTruth, PartialTruth
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr.base import LPR_FLOOR, Estimator, LPRCurves, PoolingEstimator
from hierlpr.lpr.companions import Companions
from hierlpr.lpr.diagnostics import LabelReport, ScoreBins
from hierlpr.lpr.groups import LabelData, PairWeights, check_scores, read_training_data

# Where each estimator lives. They are loaded by name, as those for studies are in a later stage.
ESTIMATORS: Mapping[str, tuple[str, str]] = {
    "auto": ("hierlpr.lpr.auto", "Auto"),
    "density-ratio": ("hierlpr.research.estimators", "DensityRatio"),
    "isotonic": ("hierlpr.lpr.isotonic", "Isotonic"),
    "local-quadratic": ("hierlpr.research.estimators", "LocalQuadratic"),
    "p-spline": ("hierlpr.lpr.p_spline", "PSpline"),
    "probability": ("hierlpr.lpr.probability", "Probability"),
    "spline": ("hierlpr.research.estimators", "Spline"),
}

_CHUNK_VALUES = 2**18  # scores sorted and fitted together: small enough for the cache
_MOST_LABELS = 1024


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LPRModel:
    """Fitted local precision rates: one curve and one line of diagnostics per label.

    Attributes
    ----------
    curves : LPRCurves
        The monotone curves; all that prediction needs.
    report : LabelReport
        How each label's curve was made and how far to trust it.
    seen : ScoreBins, optional
        Which scores the curves were learned from; None of listed scores and of older files.
    companions : Companions, optional
        How they go with those of related labels; None also where labels were changed since.
    """

    curves: LPRCurves
    report: LabelReport
    seen: ScoreBins | None = None
    companions: Companions | None = None

    def __repr__(self) -> str:
        return f"<LPRModel: the curves of {self.n_labels:,} labels; .report tells of each>"

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.curves.n_labels

    def predict(self, scores: Any, *, n_threads: int | None = None) -> Any:
        """Return the LPRs of new scores.

        Parameters
        ----------
        scores : array-like or sparse matrix of shape (n_samples, n_labels)
            Finite scores; a vector if the model has one label.
        n_threads : int, optional
            Default: HIERLPR_NUM_THREADS or all cores.

        Returns
        -------
        ndarray or csr_array
            Of the shape of `scores`. Of sparse scores, only the stored entries get an LPR; absent
            ones stay absent, which the ranking reads as LPR 0: they are listed last or not at all.
        """
        matrix: Matrix = check_scores(scores, None)
        if matrix.shape[1] != self.n_labels:
            raise DataError(
                f"scores have {matrix.shape[1]:,} columns, but the model has "
                f"{self.n_labels:,} labels."
            )
        lpr = self.curves.evaluate(matrix, n_threads=n_threads)
        return lpr[:, 0] if isinstance(lpr, np.ndarray) and np.ndim(scores) == 1 else lpr

    def diagnostics(self) -> dict[str, NDArray[Any]]:
        """One array per column of the report, one entry per label."""
        return self.report.columns()

    def diagnostics_frame(
        self, labels: Sequence[str] | None = None, *, backend: str = "pandas"
    ) -> Any:
        """Return the report as a data frame of the given library (pandas, polars, pyarrow)."""
        return self.report.to_frame(labels, backend=backend)

    def select(self, labels: Sequence[int] | NDArray[np.integer]) -> LPRModel:
        """Return the model of some labels, by number; their curves stay bit-identical."""
        seen = None if self.seen is None else self.seen.select(np.asarray(labels, dtype=np.int64))
        return LPRModel(self.curves.select(labels), self.report.select(labels), seen)

    @classmethod
    def join(cls, parts: Sequence[LPRModel]) -> LPRModel:
        """Return the labels of all `parts` as one model; their curves stay bit-identical."""
        seen = [part.seen for part in parts if part.seen is not None]
        return cls(
            LPRCurves.join([part.curves for part in parts]),
            LabelReport.join([part.report for part in parts]),
            None if len(seen) < len(parts) else ScoreBins.join(seen),
        )


Spread = Callable[[list[NDArray[np.int64]], Estimator], list[LPRModel]]


def make_estimator(method: str | Estimator, **options: Any) -> Estimator:
    """Return the named estimator with its options set; an estimator is passed through."""
    if not isinstance(method, str):
        if options:
            raise DataError("Options belong to an estimator given by name; set them on yours.")
        if not hasattr(method, "fit_groups"):
            raise DataError(
                f"method must be the name of an LPR estimator or one itself; got {method!r}."
            )
        return method
    module, name = ESTIMATORS[check_choice(method, sorted(ESTIMATORS), name="lpr (method)")]
    make: Callable[..., Estimator] = getattr(import_module(module), name)
    known = [option.name for option in fields(make)]  # type: ignore[arg-type]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise DataError(
            f"method {method!r} has no option {unknown[0]!r}.\n"
            f"Hint: its options are {', '.join(known) if known else 'none'}."
        )
    return make(**options)


def check_methods(method: Any) -> None:
    """Refuse what is neither an estimator, nor its name, nor a list of them, before any work."""
    single = isinstance(method, str) or not isinstance(method, Sequence)
    for one in [method] if single else method:
        make_estimator(one)


def fit_lpr(
    scores: Any,
    truth: Any,
    *,
    method: str | Estimator | Sequence[str | Estimator] = "auto",
    sample_weight: Any = None,
    labels: Sequence[str] | None = None,
    pairs: PairWeights | None = None,
    n_threads: int | None = None,
    **options: Any,
) -> LPRModel:
    """Estimate the local precision rate P(label | score) of every label.

    Parameters
    ----------
    scores : array-like or sparse matrix of shape (n_samples, n_labels)
        Scores of any real range; larger means more likely positive. One label may be a vector.
        An entry that a sparse matrix does not store is not listed, which counts as lower than
        every stored score; samples without any stored entry are left out.
    truth : array-like or sparse matrix of the same shape
        True or 1 where the sample has the label.
    method : str, estimator, or one of them per label
        ``"auto"``, ``"p-spline"``, ``"isotonic"``, ``"density-ratio"``, ``"local-quadratic"``,
        ``"spline"``, ``"probability"``; see ``docs/lpr.md``.
    sample_weight : array-like of shape (n_samples,), optional
        Relative weights; 0 leaves a sample out. Only their ratios matter: they are scaled to add
        up to the effective number of samples, (sum w)^2 / sum w^2.
    labels : sequence of str, optional
        Names, for messages.
    pairs : PairWeights, optional
        Weights of single (sample, label) pairs, instead of `sample_weight`.
    n_threads : int, optional
        Default: HIERLPR_NUM_THREADS or all cores. The result does not depend on it.
    **options
        Options of the named estimator.

    Returns
    -------
    LPRModel

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random((2000, 1)) < 0.2
    >>> scores = rng.normal(size=(2000, 1)) + 2 * truth
    >>> model = fit_lpr(scores, truth)
    >>> model.predict([[-1.0], [1.0], [3.0]]).round(1).ravel().tolist()
    [0.0, 0.2, 0.9]
    """
    data = read_training_data(scores, truth, sample_weight, labels, pairs=pairs)
    return fit_data(data, method=method, n_threads=n_threads, **options)


def fit_data(
    data: LabelData,
    *,
    method: str | Estimator | Sequence[str | Estimator] = "auto",
    n_threads: int | None = None,
    spread: Spread | None = None,
    pool: NDArray[np.int64] | None = None,
    with_seen: bool = True,
    **options: Any,
) -> LPRModel:
    """Do the work of `fit_lpr` on training data that need not be in memory.

    `spread` fits chunks of labels elsewhere, each by `fit_chunk`; by default threads do it here.
    Labels lend strength to those of the same number in `pool`, by default to all others. Without
    `with_seen` the model does not know which scores it was learned from.
    """
    threads = n_threads_or_default(n_threads)
    here = partial(_fit_here, data, threads, with_seen)
    fit = partial(_fit_in_chunks, data, threads, spread or here)
    if isinstance(method, str) or not isinstance(method, Sequence):
        everything = np.arange(data.n_labels)
        return _fit_labels(fit, everything, make_estimator(method, **options), pool)
    if len(method) != data.n_labels:
        raise DataError(f"{len(method):,} methods are given for {data.n_labels:,} labels.")
    # Labels of one method are fitted together, so that they can lend each other strength.
    parts = []
    places = []
    for name in dict.fromkeys(method):
        place = np.flatnonzero([other == name for other in method])
        parts.append(_fit_labels(fit, place, make_estimator(name, **options), pool))
        places.append(place)
    return LPRModel.join(parts).select(np.argsort(np.concatenate(places)))


def _fit_labels(
    fit: Callable[[NDArray[np.int64], Estimator], LPRModel],
    labels: NDArray[np.int64],
    estimator: Estimator,
    pool: NDArray[np.int64] | None,
) -> LPRModel:
    if not isinstance(estimator, PoolingEstimator):
        return fit(labels, estimator)
    first = estimator.without_weak()
    model = fit(labels, first)
    is_weak, slope = model.report.is_weak, model.report.slope
    parts, place, n_fitted = [model], np.arange(labels.size), labels.size
    number = np.zeros_like(labels) if pool is None else pool[labels]
    for one in np.unique(number[is_weak]):
        weak = np.flatnonzero(is_weak & (number == one))
        slopes = slope[~is_weak & (number == one)]
        pooled = estimator.with_pool(slopes[np.isfinite(slopes)])
        if pooled is None and first == estimator:
            continue
        parts.append(fit(labels[weak], pooled or estimator))
        place[weak] = n_fitted + np.arange(weak.size)
        n_fitted += weak.size
    return model if len(parts) == 1 else LPRModel.join(parts).select(place)


def _fit_in_chunks(
    data: LabelData,
    n_threads: int,
    spread: Spread,
    labels: NDArray[np.int64],
    estimator: Estimator,
) -> LPRModel:
    most = min(max(1, _CHUNK_VALUES // data.values_per_label), _MOST_LABELS)
    n_chunks = max(-(-labels.size // most), min(labels.size, n_threads))
    bounds = [int(b) for b in np.linspace(0, labels.size, n_chunks + 1)]
    return LPRModel.join(spread([labels[a:b] for a, b in pairwise(bounds)], estimator))


def _fit_here(
    data: LabelData,
    n_threads: int,
    with_seen: bool,
    chunks: list[NDArray[np.int64]],
    estimator: Estimator,
) -> list[LPRModel]:
    return run_chunks(
        lambda start, _: fit_chunk(data, chunks[start], estimator, with_seen=with_seen),
        list(range(len(chunks) + 1)),
        n_threads,
    )


def fit_chunk(
    data: LabelData, labels: NDArray[np.int64], estimator: Estimator, *, with_seen: bool = True
) -> LPRModel:
    """Fit some labels on their own."""
    groups = data.groups(labels)
    fit = estimator.fit_groups(groups)
    lpr = np.clip(fit.lpr, LPR_FLOOR, 1.0 - LPR_FLOOR)
    make_monotone(groups.ptr, lpr, groups.total)
    report = LabelReport.from_fit(groups, fit, lpr, data.count_truth(labels))
    seen = ScoreBins.of(groups, lpr) if with_seen else None
    return LPRModel(LPRCurves.from_groups(groups, lpr), report, seen)


# -- where some scores or some truth are missing: from the pairs there are -------------------------


def fit_known(
    scores: Matrix,
    truth: AnyTruth,
    hierarchy: Hierarchy,
    *,
    method: Any,
    n_threads: int | None = None,
    sample_weight: NDArray[np.float64] | None = None,
) -> LPRModel:
    """Fit the LPRs of every label on the samples that have its score and its truth.

    Scores that are missing are NaN. Of what is unknown see :mod:`hierlpr.data.partial_truth`.
    """
    options: dict[str, Any] = {"method": method, "n_threads": n_threads}
    options["labels"] = labels = hierarchy.labels
    gaps = np.isnan(scores) if isinstance(scores, np.ndarray) else None
    if gaps is None or not gaps.any():
        gaps = None
        if sample_weight is None and not isinstance(truth, PartialTruth):
            return fit_lpr(scores, truth, **options)
    else:
        nowhere: NDArray[np.bool_] = np.logical_and.reduce(gaps, axis=0)
        empty = [label for label, gone in zip(labels, nowhere, strict=True) if gone]
        if empty:
            raise DataError(
                f"{len(empty):,} label(s) have no score at all: {listed(empty)}.\n"
                "Hint: give them a constant score; their LPR is then their prevalence."
            )
        scores = np.where(gaps, 0.0, scores)
    held = truth.held if isinstance(truth, PartialTruth) else truth
    return fit_lpr(
        scores, held, pairs=PairWeights(truth, hierarchy, gaps, sample_weight), **options
    )


def predict_known(model: LPRModel, scores: Matrix, *, n_threads: int | None = None) -> Matrix:
    """Return the LPRs of the scores there are, NaN for the others."""
    if not isinstance(scores, np.ndarray) or not np.isnan(scores).any():
        lpr: Matrix = model.predict(scores, n_threads=n_threads)
        return lpr
    gaps = np.isnan(scores)
    filled: NDArray[np.float64] = model.predict(np.where(gaps, 0.0, scores), n_threads=n_threads)
    filled[gaps] = np.nan
    return filled


def own_lpr(model: LPRModel, scores: Matrix, *, n_threads: int | None = None) -> Matrix:
    """Return the LPRs of scores, each by itself; of a missing one, the smoothed prevalence."""
    return without_gaps(model, predict_known(model, scores, n_threads=n_threads))


def without_gaps(model: LPRModel, lpr: Matrix) -> Matrix:
    """Return LPRs with the smoothed prevalence for NaN, where there is no score."""
    if not isinstance(lpr, np.ndarray):
        return lpr
    gaps = np.isnan(lpr)
    return np.where(gaps, model.report.base_rate, lpr) if gaps.any() else lpr
