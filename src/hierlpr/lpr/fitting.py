"""Fit local precision rates on a matrix of scores: sort, estimate, convert to curves, report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._jit import even_chunks, n_jobs_or_default, run_chunks
from hierlpr._utils.checks import Matrix, check_real_array, check_sample_weight, quote_names
from hierlpr.data.folds import assign_folds
from hierlpr.data.frames import new_frame
from hierlpr.data.tables import match_weights
from hierlpr.data.truth import Truth, align_truth
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr.bins import LabelBins, Scale
from hierlpr.lpr.curves import LPRCurves
from hierlpr.lpr.diagnostics import LabelReport, ScoreBins
from hierlpr.lpr.estimators import Auto, Estimator, make_estimator
from hierlpr.lpr.shared import (
    DEFAULT,
    KAPPAS,
    SCALES,
    SharedCurves,
    blend,
    coordinate,
    fit_lines,
    fit_monotone,
    fit_shared,
    log_odds_of,
    shared_weight,
)
from hierlpr.lpr.training import (
    Float,
    Ints,
    PairWeights,
    ScoreGroups,
    TrainingData,
    check_scores,
    read_training_data,
)

_CHUNK_VALUES = 2**18  # scores sorted and fitted at a time: small enough for the cache
_MAX_LABELS = 1024
# Sharing is chosen by about this many scores, of a limited number of labels and samples.
_CHOICE_VALUES = 2**18
MIN_CHOICE_LABELS = 30
MAX_CHOICE_LABELS = 2048
MIN_CHOICE_SAMPLES = 20
N_FOLDS = 4
N_TEST_FOLDS = 2  # two of the four are enough to choose


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LPRModel:
    """Fitted local precision rates: one curve and one row of diagnostics per label.

    Attributes
    ----------
    curves : LPRCurves
        The monotone curves.
    report : LabelReport
        How each curve was fitted, and how well.
    seen : ScoreBins, optional
        Distribution of the scores that the curves were learned from, if it is known.
    shared : SharedCurves, optional
        Curves shared by labels, for labels that are added later.
    """

    curves: LPRCurves
    report: LabelReport
    seen: ScoreBins | None = None
    shared: SharedCurves | None = None

    def __repr__(self) -> str:
        return f"<LPRModel: curves of {self.n_labels:,} labels>"

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.curves.n_labels

    def predict(self, scores: Any, *, n_jobs: int | None = None) -> Any:
        """Return the LPRs of new scores.

        Parameters
        ----------
        scores : array-like or sparse matrix of shape (n_samples, n_labels)
            Finite scores; a vector if the model has one label.
        n_jobs : int, optional
            Default: HIERLPR_NUM_THREADS or all cores.

        Returns
        -------
        ndarray or csr_array
            Of the shape of `scores`. A sparse matrix keeps its pattern: entries that are not stored
            have no LPR, and the ranking treats it as 0.
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
        seen = None if self.seen is None else self.seen.select(index)
        return LPRModel(self.curves.select(index), self.report.select(index), seen, self.shared)

    def with_new(self, depth: NDArray[np.integer]) -> LPRModel:
        """Append labels of some depths that no sample has shown, with the curves labels share."""
        shared = self.shared
        if shared is None:
            raise DataError("Labels without samples need curves that labels share (lpr='auto').")
        curves = shared.curves
        if shared.scale == "rank":  # the score of a new label has no rank: the middle one
            number, zeros = np.arange(curves.n_labels), np.zeros(curves.n_labels)
            middle = curves.evaluate_each(number.astype(np.int32), zeros, n_jobs=1)
            curves = LPRCurves(np.arange(zeros.size + 1), zeros, middle)
        named = [shared.describe(level) for level in depth.tolist()]
        new = LPRModel(curves.select(shared.curve_of(depth)), self.report.of_new(named))
        return LPRModel.join([replace(self, seen=None), new])

    @classmethod
    def join(cls, parts: Sequence[LPRModel]) -> LPRModel:
        """Concatenate the labels of all parts; their curves do not change."""
        seen = [part.seen for part in parts if part.seen is not None]
        return cls(
            LPRCurves.join([part.curves for part in parts]),
            LabelReport.join([part.report for part in parts]),
            None if len(seen) < len(parts) else ScoreBins.join(seen),
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
    annotated = align_truth(truth, hierarchy, table)
    pairs, weight = None, match_weights(sample_weight, table)
    if not annotated.is_complete:
        weight = check_sample_weight(weight, table.n_samples)
        if not isinstance(table.values, np.ndarray):  # samples that list nothing are left out
            is_listed = np.diff(table.values.indptr) > 0
            weight = is_listed * (np.ones(table.n_samples) if weight is None else weight)
        pairs, weight = PairWeights(annotated, hierarchy, sample_weight=weight), None
    data = read_training_data(table.values, annotated.positive, weight, pairs)
    return fit_data(data, method=make_estimator(method, **options), n_jobs=n_jobs)


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
            scale, kappa = _choose(data, depths, estimator, bins)
            sharing, line = fit_shared(bins, depths, estimator, scale)
            sharing = replace(sharing, kappa=kappa)
        else:
            sharing, line = shared, fit_lines(shared, bins, depths)
        curves, lpr, weight = blend(own, bins, depths, sharing, line)
        report = report.blended(weight, sharing, depths)
    seen = ScoreBins.of(bins, lpr, own.knot_score[own.knot_ptr[:-1]])
    return LPRModel(curves, report, seen, sharing)


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


def fit_bins(
    groups: ScoreGroups,
    depth: NDArray[np.integer],
    estimator: Estimator,
    scales: Sequence[Scale],
    *,
    with_own: bool = True,
) -> tuple[Float, list[Float], Float]:
    """Fit curves to counts in bins, some of which may be empty, for many refits on parts of data.

    Returns the log-odds of all bins, by own curves (0 if not requested) and by shared curves of the
    given scales, and the support of each label.
    """
    total, first = groups.total.copy(), groups.ptr[:-1]
    # A label that this part does not annotate counts as never positive.
    total[first[groups.sum_by_label(total) == 0.0]] = groups.n_samples
    label, used = np.repeat(np.arange(groups.n_labels), groups.n_groups), total > 0.0
    ptr = np.append(0, np.cumsum(used))[groups.ptr]
    n_samples, positive = groups.n_samples, groups.positive[used]
    nonempty = ScoreGroups(ptr, groups.score[used], positive, total[used], n_samples)
    own, pooled, lpr = np.zeros(label.size), list[Float](), np.zeros(ptr[-1])
    if with_own:
        lpr = fit_monotone(nonempty, estimator)[1]
        curves = LPRCurves.from_groups(nonempty, lpr)
        own = log_odds_of(curves.evaluate_each(label.astype(np.int32), groups.score, n_jobs=1))
    bins = LabelBins.of(nonempty, lpr)
    for scale in scales:
        shared, line = fit_shared(bins, depth, estimator, scale)
        x, curve = coordinate(bins, scale, label, groups.score), shared.curve_of(depth)[label]
        pooled.append(shared.log_odds_of_labels(curve, x, line[:, label]))
    return own, pooled, bins.support()


def refit(groups: ScoreGroups, depth: NDArray[np.integer], method: str | Estimator) -> Float:
    """Return log-odds of all bins from their counts, by nearly the curves of a fit of `method`."""
    estimator = make_estimator(method)
    if not isinstance(estimator, Auto):
        return fit_bins(groups, depth, estimator, [])[0]
    kappa = DEFAULT[1] if estimator.kappa is None else estimator.kappa
    scale, with_own = estimator.scale or DEFAULT[0], kappa < np.inf
    own, (pooled,), support = fit_bins(
        groups, depth, estimator.coarser(), [scale], with_own=with_own
    )
    weight = np.repeat(shared_weight(support, kappa), groups.n_groups)
    return np.asarray(own + weight * (pooled - own))


def _choose(
    data: TrainingData, depth: NDArray[np.int64], estimator: Auto, bins: LabelBins
) -> tuple[Scale, float]:
    """Choose what labels share, and how much, by cross-validated log-loss."""
    scales = SCALES if estimator.scale is None else (estimator.scale,)
    kappas = KAPPAS if estimator.kappa is None else (float(estimator.kappa),)
    default = estimator.scale or DEFAULT[0], DEFAULT[1] if len(kappas) > 1 else kappas[0]
    if data.n_labels == 1 and estimator.kappa is None:
        return default[0], 0.0  # there is nobody to share with
    n_used = np.count_nonzero(data.weight > 0.0)
    if len(scales) * len(kappas) == 1 or n_used < MIN_CHOICE_SAMPLES:
        return default
    # Evenly spaced in the order of their support: labels of all kinds are evaluated.
    most = max(MIN_CHOICE_LABELS, _CHOICE_VALUES // data.values_per_label)
    spaced = np.linspace(0, data.n_labels - 1, min(data.n_labels, most, MAX_CHOICE_LABELS))
    labels = np.sort(np.argsort(bins.support(), kind="stable")[spaced.astype(np.int64)])
    bins = bins.select(labels)
    folds = _count_folds(data, labels, bins)
    loss = _held_out_loss(bins, folds, depth[labels], estimator, scales, kappas)
    least, best = _least_sharing(loss)
    return scales[best], kappas[least]


def _count_folds(data: TrainingData, labels: Ints, bins: LabelBins) -> list[ScoreGroups]:
    """Count the samples of each fold in the bins of the whole fit, so that none is sorted twice."""
    rows = np.flatnonzero(data.weight > 0.0)
    limit = None
    if isinstance(data.scores, np.ndarray):
        limit = max(MIN_CHOICE_SAMPLES, 8 * _CHOICE_VALUES // labels.size)
    contents = data.scores[rows][:, labels], data.truth[rows][:, labels]
    cluster = None if data.cluster is None else data.cluster[rows]
    fold = assign_folds(N_FOLDS, *contents, cluster=cluster, limit=limit)
    counts = list[ScoreGroups]()
    for f in range(N_FOLDS):
        positive, total = bins.count_weights(data.take(rows[fold == f]).groups(labels))
        n_samples = float(np.count_nonzero(fold == f))
        counts.append(ScoreGroups(bins.ptr, bins.score, positive, total, n_samples))
    return counts


def _held_out_loss(
    bins: LabelBins,
    folds: list[ScoreGroups],
    depth: NDArray[np.int64],
    estimator: Auto,
    scales: Sequence[Scale],
    kappas: Sequence[float],
) -> Float:
    """Return the log-loss (n_kappas, n_scales, n_labels) of folds that a fit does not use."""
    loss, label = np.zeros((len(kappas), len(scales), bins.n_labels)), bins.label
    is_listed = bins.score > -np.inf
    for test in folds[:N_TEST_FOLDS]:
        train = [fold for fold in folds if fold is not test]
        positive = np.sum([fold.positive for fold in train], axis=0)
        total = np.sum([fold.total for fold in train], axis=0)
        n_samples = sum(fold.n_samples for fold in train)
        groups = ScoreGroups(bins.ptr, bins.score, positive, total, n_samples)
        own, pooled, support = fit_bins(groups, depth, estimator.coarser(), scales)
        for i, shared in enumerate(pooled):
            for j, kappa in enumerate(kappas):
                log_odds = own + shared_weight(support, kappa)[label] * (shared - own)
                each = test.total * np.logaddexp(0.0, log_odds) - test.positive * log_odds
                loss[j, i] += np.bincount(label[is_listed], each[is_listed], bins.n_labels)
    return loss


def _least_sharing(loss: Float) -> tuple[int, int]:
    """Return the numbers of the kappa and the scale to use.

    Of choices that are worse than the best by no more than one standard error, over labels, the one
    that shares least is taken: own curves rank a little better than the log-loss says.
    """
    total = loss.sum(axis=2)
    excess = loss - loss[np.unravel_index(int(np.argmin(total)), total.shape)]
    is_good = excess.sum(axis=2) <= np.sqrt((excess**2).sum(axis=2))
    least = int(np.argmax(is_good.any(axis=1)))
    return least, int(np.argmin(np.where(is_good, total, np.inf)[least]))


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
    labels, missing, pairs = hierarchy.labels, None, None
    if isinstance(scores, np.ndarray) and np.isnan(scores).any():
        missing = np.isnan(scores)
        empty = [labels[k] for k in np.flatnonzero(missing.all(axis=0))]
        if empty:
            raise DataError(
                f"{len(empty):,} label(s) have no score at all: {quote_names(empty)}.\n"
                "Hint: give them a constant score; their LPR is then their prevalence."
            )
        scores = np.where(missing, 0.0, scores)
    if missing is not None or sample_weight is not None or not truth.is_complete:
        pairs = PairWeights(truth, hierarchy, missing, sample_weight)
    data = read_training_data(scores, truth.positive, None, pairs)
    data = replace(data, cluster=truth.cluster)
    depth = hierarchy.levels if depth is None else depth
    return fit_data(data, method=method, depth=depth, shared=shared, n_jobs=n_jobs)


def own_lpr(model: LPRModel, scores: Matrix, *, n_jobs: int | None = None) -> Matrix:
    """Return the LPR of every score on its own; the smoothed prevalence if it is missing."""
    lpr = model.curves.evaluate(scores, n_jobs=n_jobs)
    if not isinstance(lpr, np.ndarray):
        return lpr
    gaps = np.isnan(lpr)
    return np.where(gaps, model.report.base_rate, lpr) if gaps.any() else lpr
