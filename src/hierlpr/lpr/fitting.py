"""Fit local precision rates on a matrix of scores: sort, estimate, convert to curves, report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._jit import even_chunks, n_jobs_or_default, run_chunks
from hierlpr._utils.checks import Matrix, check_real_array, check_sample_weight, quote_names
from hierlpr.data.frames import new_frame
from hierlpr.data.tables import match_weights
from hierlpr.data.truth import Truth, align_truth
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr.bins import LabelBins
from hierlpr.lpr.choice import choose_sharing
from hierlpr.lpr.curves import LPRCurves
from hierlpr.lpr.diagnostics import LabelReport, ScoreBins
from hierlpr.lpr.estimators import Auto, Estimator, make_estimator
from hierlpr.lpr.shared import SharedCurves, blend, fit_lines, fit_monotone, fit_shared
from hierlpr.lpr.training import (
    TrainingData,
    check_scores,
    read_training_data,
    weigh_pairs,
)

_CHUNK_VALUES = 2**18  # scores sorted and fitted at a time: small enough for the cache
_MAX_LABELS = 1024


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LPRModel:
    """Fitted local precision rates: one curve and one row of diagnostics per label.

    Attributes
    ----------
    curves : LPRCurves
        The monotone curves.
    report : LabelReport
        How each curve was fitted, and how well.
    score_bins : ScoreBins, optional
        Distribution of the scores that the curves were learned from, if it is known.
    shared : SharedCurves, optional
        Curves shared by labels, for labels that are added later.
    """

    curves: LPRCurves
    report: LabelReport
    score_bins: ScoreBins | None = None
    shared: SharedCurves | None = None

    def __repr__(self) -> str:
        return f"<LPRModel: curves of {self.n_labels:,} labels>"

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.curves.n_labels

    def predict(self, scores: Any, *, n_jobs: int | None = None) -> Any:
        """Return the LPRs of finite scores (n_samples, n_labels), or of a vector for one label.

        A sparse matrix keeps its pattern: entries that are not stored have no LPR, and the ranking
        treats it as 0.
        """
        matrix: Matrix = check_scores(scores, None).values
        if matrix.shape[1] != self.n_labels:
            raise DataError(
                f"scores have {matrix.shape[1]:,} columns, but the model has "
                f"{self.n_labels:,} labels."
            )
        lpr = self.curves.evaluate(matrix, n_jobs=n_jobs)
        return lpr[:, 0] if isinstance(lpr, np.ndarray) and np.ndim(scores) == 1 else lpr

    def diagnostics_frame(
        self, labels: Sequence[str] | None = None, *, backend: str = "pandas"
    ) -> Any:
        """Return the report as a data frame of the given library (pandas, polars, pyarrow)."""
        columns: dict[str, Any] = {} if labels is None else {"label": list(labels)}
        if labels is not None and len(labels) != self.n_labels:
            raise DataError(f"{len(labels):,} names are given for {self.n_labels:,} labels.")
        columns |= {name: column.tolist() for name, column in self.report.columns().items()}
        return new_frame(columns, backend)

    def select(self, labels: Sequence[int] | NDArray[np.integer]) -> LPRModel:
        """Return the model of some labels, by number; their curves do not change."""
        index = np.asarray(labels, dtype=np.int64)
        bins = None if self.score_bins is None else self.score_bins.select(index)
        return LPRModel(self.curves.select(index), self.report.select(index), bins, self.shared)

    def with_new(self, depth: NDArray[np.integer]) -> LPRModel:
        """Append labels of some depths that no sample lists, with the curves labels share."""
        shared = self.shared
        if shared is None:
            raise DataError("Labels without samples need curves that labels share (lpr='auto').")
        curves = shared.curves
        if shared.scale == "rank":  # the score of a new label has no rank: the middle one
            number, zeros = np.arange(curves.n_labels), np.zeros(curves.n_labels)
            middle = curves.evaluate_each(number.astype(np.int32), zeros, n_jobs=1)
            curves = LPRCurves(np.arange(zeros.size + 1), zeros, middle)
        named = [shared.describe(each) for each in depth.tolist()]
        bins = None if self.score_bins is None else self.score_bins.of_unlisted(len(named))
        report = self.report.of_new(named)
        return LPRModel.join([self, LPRModel(curves.select(shared.curve_of(depth)), report, bins)])

    @classmethod
    def join(cls, parts: Sequence[LPRModel]) -> LPRModel:
        """Concatenate the labels of all parts; their curves do not change."""
        bins = [part.score_bins for part in parts if part.score_bins is not None]
        return cls(
            LPRCurves.join([part.curves for part in parts]),
            LabelReport.join([part.report for part in parts]),
            None if len(bins) < len(parts) else ScoreBins.join(bins),
            next((part.shared for part in parts if part.shared is not None), None),
        )


def with_sharing(method: Any, shared: SharedCurves | None) -> Any:
    """Return the default method with the sharing of an earlier fit, any other as it is."""
    if shared is None or method != Auto.name:
        return method
    return Auto(kappa=shared.kappa, scale=shared.scale)


def fit_lpr(
    scores: Any,
    truth: Any,
    *,
    method: str | Estimator = "auto",
    sample_weight: Any = None,
    labels: Sequence[str] | None = None,
    n_jobs: int | None = None,
    **options: Any,
) -> LPRModel:
    """Estimate the local precision rate P(label | score) of every label.

    Parameters
    ----------
    scores : array-like or sparse matrix of shape (n_samples, n_labels)
        Scores of any real range; larger means more likely positive. One label may be a vector.
        An entry that a sparse matrix does not store counts as lower than every stored score;
        samples without any stored entry are left out.
    truth : array-like or sparse matrix of the same shape, or labels of each sample
        In any form that :meth:`HierLPR.fit` takes: 1 where the sample has the label, NaN where that
        is unknown.
    method : str or estimator
        ``"auto"``, ``"isotonic"``, ``"probability"``, ``"local-quadratic"``; see ``docs/lpr.md``.
    sample_weight : array-like of shape (n_samples,), optional
        Relative weights; 0 leaves a sample out. Only their ratios matter: they are scaled to add
        up to the effective number of samples, (sum w)^2 / sum w^2.
    labels : sequence of str, optional
        Names, for messages.
    n_jobs : int, optional
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
    table = check_scores(scores, labels)
    hierarchy = Hierarchy(labels=table.labels)
    if len(table.labels) == 1 and np.ndim(truth) == 1:
        truth = check_real_array(truth, name="truth")[:, np.newaxis]
    return fit_known(
        table.values,
        align_truth(truth, hierarchy, table),
        hierarchy,
        method=make_estimator(method, **options),
        n_jobs=n_jobs,
        sample_weight=check_sample_weight(match_weights(sample_weight, table), table.n_samples),
    )


def fit_data(
    data: TrainingData,
    *,
    method: str | Estimator = "auto",
    depth: NDArray[np.integer] | None = None,
    shared: SharedCurves | None = None,
    n_jobs: int | None = None,
) -> LPRModel:
    """Do the work of `fit_lpr` on prepared training data.

    `depth` of each label decides which labels share a curve, by default all. `shared` are curves of
    an earlier fit, to be used instead of new ones.
    """
    threads, estimator = n_jobs_or_default(n_jobs), make_estimator(method)
    depths = np.zeros(data.n_labels, np.int64)
    depths += 0 if depth is None else depth
    own, report, bins = _fit_own(data, estimator, threads)
    curves, lpr, sharing = own, bins.lpr, None
    if isinstance(estimator, Auto):
        if shared is None:
            scale, kappa = choose_sharing(data, depths, estimator, bins)
            sharing, line = fit_shared(bins, depths, estimator, scale)
            sharing = replace(sharing, kappa=kappa)
        else:
            sharing, line = shared, fit_lines(shared, bins, depths)
        curves, lpr, weight = blend(own, bins, depths, sharing, line)
        report = report.blended(weight, sharing, depths)
    score_bins = ScoreBins.of(bins, lpr, own.knot_score[own.knot_ptr[:-1]])
    return LPRModel(curves, report, score_bins, sharing)


def _fit_own(
    data: TrainingData, estimator: Estimator, n_jobs: int
) -> tuple[LPRCurves, LabelReport, LabelBins]:
    """Fit every label's own curve, in chunks of labels that fit in the cache."""
    largest = min(max(1, _CHUNK_VALUES // data.values_per_label), _MAX_LABELS)
    n_chunks = max(-(-data.n_labels // largest), min(data.n_labels, n_jobs))

    def fit_chunk(start: int, stop: int) -> tuple[LPRCurves, LabelReport, LabelBins]:
        labels = np.arange(start, stop)
        groups = data.groups(labels)
        fit, lpr = fit_monotone(groups, estimator)
        report = LabelReport.from_fit(groups, fit, lpr, data.count_truth(labels))
        return LPRCurves.from_groups(groups, lpr), report, LabelBins.of(groups, lpr)

    parts = run_chunks(fit_chunk, even_chunks(data.n_labels, n_chunks), n_jobs)
    curves, reports, bins = zip(*parts, strict=True)
    return LPRCurves.join(curves), LabelReport.join(reports), LabelBins.join(list(bins))


def fit_known(
    scores: Matrix,
    truth: Truth,
    hierarchy: Hierarchy,
    *,
    method: Any,
    n_jobs: int | None = None,
    sample_weight: NDArray[np.float64] | None = None,
    depth: NDArray[np.integer] | None = None,
    shared: SharedCurves | None = None,
) -> LPRModel:
    """Fit every label on the samples with a score and known truth; NaN is a missing score.

    For unknown truth see :mod:`hierlpr.data.truth`.
    """
    labels, missing = hierarchy.labels, None
    if isinstance(scores, np.ndarray) and np.isnan(scores).any():
        missing = np.isnan(scores)
        empty = [labels[k] for k in np.flatnonzero(missing.all(axis=0))]
        if empty:
            raise DataError(
                f"{len(empty):,} label(s) have no score at all: {quote_names(empty)}.\n"
                "Hint: give them a constant score; their LPR is then their prevalence."
            )
        scores = np.where(missing, 0.0, scores)
    pairs = weigh_pairs(scores, truth, hierarchy, missing, sample_weight)
    data = replace(read_training_data(scores, truth.positive, pairs), cluster=truth.cluster)
    depth = hierarchy.levels if depth is None else depth
    return fit_data(data, method=method, depth=depth, shared=shared, n_jobs=n_jobs)


def own_lpr(model: LPRModel, scores: Matrix, *, n_jobs: int | None = None) -> Matrix:
    """Return the LPR of every score on its own; the smoothed prevalence if it is missing."""
    lpr = model.curves.evaluate(scores, n_jobs=n_jobs)
    if not isinstance(lpr, np.ndarray):
        return lpr
    gaps = np.isnan(lpr)
    return np.where(gaps, model.report.base_rate, lpr) if gaps.any() else lpr
