"""Compare new scores with those fitted on: which prevalences moved, and what else changed."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._utils.checks import quote_names
from hierlpr.data.frames import new_frame
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr.diagnostics import ScoreBins
from hierlpr.lpr.fitting import LPRModel
from hierlpr.lpr.label_shift import Posterior, shifted_prevalence

Float = NDArray[np.float64]

LEAST_SAMPLES = 30
# A label looks different if no prevalence explains its scores: at a family-wise error rate of
# CHANCE, and with at least this total variation distance left.
CHANCE = 0.01
DISTANCE = 0.05
# If this share of labels is different, or this distance is left on average, nothing can be adapted.
FAR_SHARE = 0.5
FAR_DISTANCE = 0.15


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Drift:
    """How new scores differ from those a model was fitted on; arrays have one entry per label.

    Attributes
    ----------
    labels : tuple of str
    n_samples : int
        Number of new samples.
    distance : ndarray
        Total variation distance between the old and the new distribution over score bins.
    prevalence, expected : ndarray
        Prevalence in the training samples, and in the new ones assuming that only prevalences
        differ. The estimate is conservative: it stays near the old value unless the scores
        clearly say otherwise.
    residual, p_value : ndarray
        Distance that remains with the best prevalence, and the p-value of a chi-squared test
        over the bins that only the prevalence differs.
    is_different : ndarray of bool
        Labels whose scores no prevalence explains.
    """

    labels: tuple[str, ...]
    n_samples: int
    distance: Float
    prevalence: Float
    expected: Float
    residual: Float
    p_value: Float
    is_different: NDArray[np.bool_]

    @property
    def is_clean(self) -> bool:
        """Whether only prevalences seem to differ."""
        return not self.is_different.any()

    @property
    def is_far(self) -> bool:
        """Whether the scores look so different that the model cannot be adapted."""
        return bool(
            self.is_different.mean() > FAR_SHARE
            or np.where(self.is_different, self.residual, 0.0).mean() > FAR_DISTANCE
        )

    def __repr__(self) -> str:
        return f"<Drift: {self}>"

    def __str__(self) -> str:
        """Summarize the comparison as text."""
        names = [self.labels[k] for k in np.argsort(-self.residual) if self.is_different[k]]
        summary = f"{self.n_samples:,} new samples: {self._moved()}."
        if self.is_clean:
            return f"{summary} In all other respects the scores look like those fitted on."
        advice = (
            "The model is for other scores: fit it again."
            if self.is_far
            else "Predictions for these labels may be wrong: check their classifiers."
        )
        return (
            f"{summary} The scores of {len(names):,} label(s) look different, whatever the "
            f"prevalence: {quote_names(names)}. {advice}"
        )

    def _moved(self) -> str:
        """Describe which prevalences moved; equal to three digits counts as unmoved."""
        factor = self.expected / self.prevalence
        widest = int(np.argmax(np.abs(np.log(factor))))
        before, after = f"{self.prevalence[widest]:.3g}", f"{self.expected[widest]:.3g}"
        if before == after:
            return "no prevalence seems to have moved"
        moved = int(np.count_nonzero((factor > 1.25) | (factor < 0.8)))
        return (
            f"the prevalence of {moved:,} of {len(self.labels):,} labels seems to have moved by "
            f"more than a quarter, most of all {self.labels[widest]!r}, from {before} to {after}"
        )

    def columns(self) -> dict[str, list[Any]]:
        """Return one list per column, with one entry per label."""
        names = [field.name for field in fields(self) if field.name not in ("labels", "n_samples")]
        return {
            "label": list(self.labels),
            **{name: getattr(self, name).tolist() for name in names},
        }

    def csv_lines(self) -> Iterator[str]:
        """Yield the columns as lines of CSV, header first."""
        columns = self.columns()
        for row in (list(columns), *zip(*columns.values(), strict=True)):
            text = io.StringIO()
            cells = [f"{x:.6g}" if isinstance(x, float) else x for x in row]
            csv.writer(text, lineterminator="").writerow(cells)
            yield text.getvalue()

    def to_frame(self, *, backend: str = "pandas") -> Any:
        """Return a data frame with one row per label."""
        return new_frame(self.columns(), backend)


def compare_scores(
    model: LPRModel, scores: Float, hierarchy: Hierarchy, posterior: Posterior | None = None
) -> Drift:
    """Compare complete scores (n_samples, n_labels) with those that `model` was fitted on.

    `posterior` is passed to :func:`hierlpr.lpr.label_shift.shifted_prevalence`.
    """
    bins = model.seen
    if bins is None:
        raise DataError(
            "The model does not know the scores it was fitted on: they were listed scores, or the "
            "model was adapted.\nHint: fit it on complete scores."
        )
    if scores.shape[0] < LEAST_SAMPLES:
        raise DataError(
            f"{scores.shape[0]} sample(s) are too few to compare scores.\n"
            f"Hint: give at least {LEAST_SAMPLES}."
        )
    count = bins.count(scores)
    before = bins.total / bins.total.sum(axis=1, keepdims=True)
    n_new = np.maximum(count.sum(axis=1, keepdims=True), 1)
    now = count / n_new
    expected = shifted_prevalence(model, scores, hierarchy, posterior)
    residual, p_value = _fit_mixture(bins, now, n_new[:, 0], expected)
    return Drift(
        labels=hierarchy.labels,
        n_samples=int(scores.shape[0]),
        distance=0.5 * np.abs(now - before).sum(axis=1),
        prevalence=model.report.base_rate,
        expected=expected,
        residual=residual,
        p_value=p_value,
        is_different=(p_value < CHANCE / hierarchy.n_labels) & (residual > DISTANCE),
    )


def _fit_mixture(
    bins: ScoreBins, now: Float, n_new: NDArray[np.int64], expected: Float
) -> tuple[Float, Float]:
    """Fit a mixture of old positives and negatives to the new bins; return distance and p-value.

    The mixture has the least chi-squared among prevalences near the expected one, so that the
    conservative estimate alone never makes a label look different. Bins that are empty before and
    now (because scores tie) are ignored.
    """
    positive, negative = bins.positive, np.maximum(bins.total - bins.positive, 0.0)
    n1, n0 = (np.maximum(x.sum(axis=1, keepdims=True), 1e-9) for x in (positive, negative))
    n_before = bins.total.sum(axis=1, keepdims=True)
    # Four pseudo-samples, distributed like all samples, smooth the shares of a rare class.
    overall = bins.total / n_before
    p1, p0 = ((x + 4.0 * overall) / (n + 4.0) for x, n in ((positive, n1), (negative, n0)))
    # Scores in bins that were empty before are unusual, but not impossible.
    n_now = n_new[:, None]
    pooled = (bins.total + now * n_now) / (n_before + n_now)
    least = np.where(bins.total > 0.0, 0.0, pooled * (1.0 / n_now + 1.0 / n_before))
    used = pooled > 0.0
    best = np.full(now.shape[0], np.inf)
    distance = np.ones(now.shape[0])
    for step in np.linspace(-3.0, 3.0, 61):
        rate = scipy.special.expit(scipy.special.logit(expected) + step)[:, None]
        mixed = rate * p1 + (1.0 - rate) * p0
        variance = mixed / n_now + rate**2 * p1 / n1 + (1.0 - rate) ** 2 * p0 / n0
        each = np.divide(
            (now - mixed) ** 2, np.maximum(variance, least), out=np.zeros_like(now), where=used
        )
        value = each.sum(axis=1)
        better = value < best
        best = np.where(better, value, best)
        distance = np.where(better, 0.5 * np.abs(now - mixed).sum(axis=1), distance)
    free = np.count_nonzero(used, axis=1) - 1
    return distance, np.where(free > 0, scipy.special.chdtrc(np.maximum(free, 1), best), 1.0)
