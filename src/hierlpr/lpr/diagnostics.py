"""Diagnostics of fitted curves, and the distribution of the scores they were fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels.smoothing import summarize_groups
from hierlpr.data.frames import new_frame
from hierlpr.exceptions import DataError
from hierlpr.lpr.estimators import GroupFit
from hierlpr.lpr.shared import LabelBins, SharedCurves
from hierlpr.lpr.training import ScoreGroups, TruthCounts

N_BINS = 16
Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LabelReport:
    """Diagnostics of the fitted curves; every field has one entry per label.

    Attributes
    ----------
    positives, negatives : int
        Number of samples of each class (of positive weight).
    unknown : int
        Number of samples whose truth is unknown and does not follow from other labels.
    base_rate : float
        P(label) before any score: (positives + 1/2) / (samples + 1) if nothing is unknown.
    prevalence : float
        (Weighted) share of positives.
    distinct_scores : int
        1 means that the scores carry no information.
    auc : float
        Area under the ROC curve of the label's scores; NaN without both classes.
    estimator : str
        How the curve was fitted.
    smoothing : float
        In the unit of the estimator: the penalty of a P-spline (geometric mean if averaged), a
        bandwidth, or pseudo-samples.
    shared_weight : float
        Weight of the curve shared with other labels, in log-odds; 0 for an own curve alone.
    is_weak, fallback : bool, str
        Whether most of the curve is shared or a fallback, and what was done and why (else empty).
    log_loss, brier : float
        Mean over the training samples.
    calibration_error, calibration_z : float
        In ten intervals of the score with equal expected positives: mean absolute difference of
        observed and expected share, and its largest value in standard deviations (training
        samples).
    monotone_shift : float
        Mean absolute change of the LPRs when the own curve was made monotone. If it is not small
        relative to the prevalence, higher scores do not always mean more positives: check the
        classifier.
    """

    positives: NDArray[np.int64]
    negatives: NDArray[np.int64]
    unknown: NDArray[np.int64]
    base_rate: NDArray[np.float64]
    prevalence: NDArray[np.float64]
    distinct_scores: NDArray[np.int64]
    auc: NDArray[np.float64]
    estimator: NDArray[np.str_]
    smoothing: NDArray[np.float64]
    shared_weight: NDArray[np.float64]
    is_weak: NDArray[np.bool_]
    fallback: NDArray[np.str_]
    log_loss: NDArray[np.float64]
    brier: NDArray[np.float64]
    calibration_error: NDArray[np.float64]
    calibration_z: NDArray[np.float64]
    monotone_shift: NDArray[np.float64]

    @classmethod
    def from_fit(
        cls,
        groups: ScoreGroups,
        fit: GroupFit,
        lpr: NDArray[np.float64],
        counts: TruthCounts,
    ) -> LabelReport:
        """Summarize the labels of one fit; `lpr` are the monotone LPRs of the groups."""
        summary = summarize_groups(groups.ptr, groups.positive, groups.total, lpr)
        n_all = groups.sum_by_label(groups.total)
        return cls(
            positives=counts.positives,
            negatives=counts.negatives,
            unknown=counts.unknown,
            base_rate=counts.base_rate,
            prevalence=groups.sum_by_label(groups.positive) / n_all,
            distinct_scores=groups.n_groups,
            auc=summary[:, 0],
            estimator=np.array(fit.estimator, dtype=np.str_),
            smoothing=fit.smoothing,
            shared_weight=np.zeros(n_all.size),
            is_weak=fit.weak,
            fallback=np.array(fit.fallback, dtype=np.str_),
            log_loss=summary[:, 1],
            brier=summary[:, 2],
            calibration_error=summary[:, 3],
            calibration_z=summary[:, 4],
            monotone_shift=groups.sum_by_label(groups.total * np.abs(lpr - fit.lpr)) / n_all,
        )

    def blended(
        self, bins: LabelBins, lpr: Float, weight: Float, shared: SharedCurves, depth: Any
    ) -> LabelReport:
        """Return the report after blending with shared curves; `lpr` is the LPR of every bin."""
        summary = summarize_groups(bins.ptr, bins.positive, bins.total, lpr)
        fallback = self.fallback.astype(object)
        for k in np.flatnonzero(weight > 0.5):
            count, kind = min((self.positives[k], "positives"), (self.negatives[k], "negatives"))
            curve = shared.describe(int(depth[k]))
            fallback[k] = f"{count:,} {kind}: {weight[k]:.0%} from {curve}"
        return replace(
            self,
            is_weak=weight > 0.5,
            fallback=fallback.astype(np.str_),
            shared_weight=weight,
            log_loss=summary[:, 1],
            brier=summary[:, 2],
            calibration_error=summary[:, 3],
            calibration_z=summary[:, 4],
        )

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def select(self, labels: Sequence[int] | NDArray[np.integer]) -> LabelReport:
        """Return the entries of some labels, by number."""
        index = np.asarray(labels, dtype=np.int64)
        return LabelReport(**{name: column[index] for name, column in self.columns().items()})

    @classmethod
    def join(cls, parts: Sequence[LabelReport]) -> LabelReport:
        """Concatenate the labels of all parts."""
        columns = [part.columns() for part in parts]
        return cls(**{name: np.concatenate([c[name] for c in columns]) for name in columns[0]})

    def to_frame(self, labels: Sequence[str] | None = None, *, backend: str = "pandas") -> Any:
        """Return a data frame with one row per label, `labels` first if given."""
        columns: dict[str, Any] = dict(self.columns())
        if labels is not None:
            if len(labels) != self.positives.size:
                raise DataError(
                    f"{len(labels):,} names are given for {self.positives.size:,} labels."
                )
            columns = {"label": np.array(labels, dtype=np.str_), **columns}
        try:
            plain = {name: column.tolist() for name, column in columns.items()}
            return new_frame(plain, backend)
        except ImportError as error:
            raise DataError(
                f"A frame of {backend!r} needs that library, which is not installed ({error}).\n"
                'Hint: use backend="pyarrow", which hierlpr depends on.'
            ) from error


@dataclass(frozen=True, slots=True, eq=False)
class ScoreBins:
    """Histogram of the training scores per label, in bins of about equal weight.

    Attributes
    ----------
    edge : ndarray of shape (n_labels, N_BINS - 1)
        Highest score of each bin except the last; non-decreasing.
    total, positive : ndarray of shape (n_labels, N_BINS)
        Weight of all samples and of the positive samples per bin.
    mean_lpr : ndarray of shape (n_labels,)
        Mean LPR of the same samples: the prevalence according to the curve.
    """

    edge: Float
    total: Float
    positive: Float
    mean_lpr: Float

    def __post_init__(self) -> None:
        n = self.mean_lpr.size
        shapes = (self.edge.shape, self.total.shape, self.positive.shape, self.mean_lpr.shape)
        if shapes != ((n, N_BINS - 1), (n, N_BINS), (n, N_BINS), (n,)):
            raise DataError("Bins of scores: their arrays do not fit together.")
        numbers = (self.edge, self.total, self.positive, self.mean_lpr)
        if not all(np.isfinite(x).all() for x in numbers) or np.any(np.diff(self.edge) < 0.0):
            raise DataError("Bins of scores: edges must rise and all numbers be finite.")

    @classmethod
    def of(cls, bins: LabelBins, lpr: Float, lowest: Float) -> ScoreBins:
        """Merge finer bins, whose samples have the given mean LPRs, by their mid-ranks.

        `lowest` is the lowest score per label; lower ones belong to bins that are empty so far.
        """
        n, first = bins.n_labels, bins.ptr[:-1]
        label, sizes = bins.label, np.add.reduceat(bins.total, first)
        upper = np.cumsum(bins.total) - np.repeat(np.cumsum(sizes) - sizes, np.diff(bins.ptr))
        share = (upper - 0.5 * bins.total) / sizes[label]
        place = np.minimum((share * N_BINS).astype(np.int64), N_BINS - 1)
        cell, shape = label * N_BINS + place, (n, N_BINS)
        total, positive = (
            np.bincount(cell, w, n * N_BINS).astype(np.float64).reshape(shape)
            for w in (bins.total, bins.positive)
        )
        highest = np.repeat(np.nextafter(lowest, -np.inf), N_BINS)
        np.maximum.at(highest, cell, bins.highest)
        edge = np.maximum.accumulate(highest.reshape(shape), axis=1)[:, :-1]
        return cls(edge, total, positive, np.add.reduceat(bins.total * lpr, first) / sizes)

    def count(self, scores: Float) -> NDArray[np.int64]:
        """Count new scores (n_samples, n_labels) per bin; NaN is ignored."""
        out = np.zeros(self.total.shape, dtype=np.int64)
        for k, edge in enumerate(self.edge):
            column = scores[:, k]
            place = np.searchsorted(edge, column[~np.isnan(column)], side="left")
            out[k] = np.bincount(place, minlength=N_BINS)
        return out

    def select(self, labels: Any) -> ScoreBins:
        """Return the bins of some labels, by number."""
        return ScoreBins(
            self.edge[labels], self.total[labels], self.positive[labels], self.mean_lpr[labels]
        )

    @classmethod
    def join(cls, parts: Sequence[ScoreBins]) -> ScoreBins:
        """Concatenate the labels of all parts."""
        names = ("edge", "total", "positive", "mean_lpr")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
