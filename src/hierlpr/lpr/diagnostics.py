"""Diagnostics of fitted curves, and the distribution of the scores they were fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import Matrix
from hierlpr.exceptions import DataError
from hierlpr.lpr.bins import LabelBins
from hierlpr.lpr.estimators import PREVALENCE, GroupFit
from hierlpr.lpr.shared import SharedCurves
from hierlpr.lpr.splines import running_sum
from hierlpr.lpr.training import Float, ScoreGroups, TruthCounts

N_BINS = 16


@dataclass(frozen=True, slots=True, eq=False)
class PerLabel:
    """Fields of one entry or row per label."""

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def select(self, labels: NDArray[np.integer]) -> Self:
        """Return the entries of some labels, by number."""
        return type(self)(**{name: column[labels] for name, column in self.columns().items()})

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the labels of all parts."""
        columns = [part.columns() for part in parts]
        return cls(**{name: np.concatenate([c[name] for c in columns]) for name in columns[0]})


@dataclass(frozen=True, slots=True, eq=False)
class LabelReport(PerLabel):
    """Diagnostics of the fitted curves; every field has one entry per label.

    Attributes
    ----------
    positives, negatives : int
        Number of samples of each class (of positive weight).
    unknown : int
        Number of samples whose truth is unknown and does not follow from other labels.
    base_rate : float
        P(label) before any score: (positives + 1/2) / (samples + 1) if nothing is unknown.
    auc : float
        Area under the ROC curve of the label's scores; NaN without both classes.
    estimator : str
        How the label's own curve was fitted.
    shared_weight : float
        Weight of the curve shared with other labels, in log-odds; 0 for an own curve alone.
    is_weak, fallback : bool, str
        Whether most of the curve is shared or a fallback, and what was done and why (else empty).
    monotone_shift : float
        Mean absolute change of the LPRs when the own curve was made monotone. If it is not small
        relative to the prevalence, higher scores do not always mean more positives: check the
        classifier.
    """

    positives: NDArray[np.int64]
    negatives: NDArray[np.int64]
    unknown: NDArray[np.int64]
    base_rate: Float
    auc: Float
    estimator: NDArray[np.str_]
    shared_weight: Float
    is_weak: NDArray[np.bool_]
    fallback: NDArray[np.str_]
    monotone_shift: Float

    @classmethod
    def from_fit(
        cls, groups: ScoreGroups, fit: GroupFit, lpr: Float, counts: TruthCounts
    ) -> LabelReport:
        """Summarize the labels of one fit; `lpr` are the monotone LPRs of the groups."""
        estimator, changed = np.array(fit.estimator), groups.total * np.abs(lpr - fit.lpr)
        return cls(
            *counts,
            auc=area_under_roc(groups),
            estimator=estimator,
            shared_weight=np.zeros(groups.n_labels),
            is_weak=np.char.startswith(estimator, PREVALENCE),
            fallback=np.array(fit.fallback),
            monotone_shift=groups.sum_by_label(changed) / groups.sum_by_label(groups.total),
        )

    def of_new(self, curves: Sequence[str]) -> LabelReport:
        """Return the rows of labels that no sample of this report has shown, by curve names."""
        n, n_samples = len(curves), int((self.positives + self.negatives).max(initial=0))
        zeros = np.zeros(n, dtype=np.int64)
        return LabelReport(
            positives=zeros,
            negatives=zeros + n_samples,
            unknown=zeros,
            base_rate=np.full(n, 0.5 / (n_samples + 1.0)),
            auc=np.full(n, np.nan),
            estimator=np.full(n, "none"),
            shared_weight=np.ones(n),
            is_weak=np.ones(n, dtype=np.bool_),
            fallback=np.array([f"not in the fit: {curve}" for curve in curves], dtype=np.str_),
            monotone_shift=np.zeros(n),
        )

    def blended(self, weight: Float, shared: SharedCurves, depth: Any) -> LabelReport:
        """Return the report after blending with shared curves of the given weights."""
        fallback = self.fallback.astype(object)
        for k in np.flatnonzero(weight > 0.5):
            count, kind = min((self.positives[k], "positives"), (self.negatives[k], "negatives"))
            curve = shared.describe(int(depth[k]))
            fallback[k] = f"{count:,} {kind}: {weight[k]:.0%} from {curve}"
        return replace(
            self, is_weak=weight > 0.5, fallback=fallback.astype(np.str_), shared_weight=weight
        )


@dataclass(frozen=True, slots=True, eq=False)
class ScoreBins(PerLabel):
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
        arrays = (self.edge, self.total, self.positive, self.mean_lpr)
        if [x.shape for x in arrays] != [(n, N_BINS - 1), (n, N_BINS), (n, N_BINS), (n,)]:
            raise DataError("Bins of scores: their arrays do not fit together.")
        if not all(np.isfinite(x).all() for x in arrays) or np.any(np.diff(self.edge) < 0.0):
            raise DataError("Bins of scores: edges must rise and all numbers be finite.")

    @classmethod
    def of(cls, bins: LabelBins, lpr: Float, lowest: Float) -> ScoreBins:
        """Merge finer bins, whose samples have the given mean LPRs, by their mid-ranks.

        `lowest` is the lowest score per label; lower ones belong to bins that are empty so far. Of
        listed scores, the first bin holds the samples that do not list the label.
        """
        n, first, label = bins.n_labels, bins.ptr[:-1], bins.label
        weight, is_listed = np.add.reduceat(bins.total, first), bins.score > -np.inf
        listed = np.where(is_listed, bins.total, 0.0)
        place = (running_sum(bins.ptr, listed) - 0.5 * listed) / np.maximum(
            np.add.reduceat(listed, first), 1e-9
        )[label]
        n_absent = 0 if is_listed.all() else 1
        place = np.minimum(n_absent + (place * (N_BINS - n_absent)).astype(np.int64), N_BINS - 1)
        cell = label * N_BINS + np.where(is_listed, place, 0)
        total, positive = (
            np.bincount(cell, w, n * N_BINS).astype(np.float64).reshape(n, N_BINS)
            for w in (bins.total, bins.positive)
        )
        highest = np.repeat(np.nextafter(lowest, -np.inf), N_BINS)
        np.maximum.at(highest, cell, bins.highest)
        edge = np.maximum.accumulate(highest.reshape(n, N_BINS), axis=1)[:, :-1]
        return cls(edge, total, positive, np.add.reduceat(bins.total * lpr, first) / weight)

    def of_unlisted(self, n_new: int) -> ScoreBins:
        """Return the bins of new labels, which no sample of a fit on listed scores lists."""
        n_samples, zeros = self.total.sum(axis=1).max(), np.zeros((n_new, N_BINS))
        total = zeros + n_samples * (np.arange(N_BINS) == 0)
        return ScoreBins(zeros[:, 1:], total, zeros, np.full(n_new, 0.5 / (n_samples + 1.0)))

    def count(self, scores: Matrix) -> NDArray[np.int64]:
        """Count the new scores of all labels per bin; missing and absent ones are ignored."""
        if isinstance(scores, np.ndarray):
            label, value = np.nonzero(~np.isnan(scores))[1], scores[~np.isnan(scores)]
        else:
            label, value = scores.indices, scores.data
        place = np.zeros(value.size, np.int64)
        for edge in self.edge.T:
            place += value > edge[label]
        counts = np.bincount(label * N_BINS + place, minlength=self.total.size)
        return counts.reshape(self.total.shape)


def area_under_roc(groups: ScoreGroups) -> Float:
    """Return the area under the ROC curve per label, NaN without both classes."""
    negative = groups.total - groups.positive
    below = running_sum(groups.ptr, negative) - 0.5 * negative
    n_pairs = groups.sum_by_label(groups.positive) * groups.sum_by_label(negative)
    area = np.full(n_pairs.size, np.nan)
    n_concordant = groups.sum_by_label(groups.positive * below)
    return np.asarray(np.divide(n_concordant, n_pairs, out=area, where=n_pairs > 0.0))
