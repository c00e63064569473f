"""Whether new scores are like those fitted on but for other prevalences, and for which ones."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._base.checks import listed
from hierlpr.data.frames import new_frame
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr.companions import Together
from hierlpr.lpr.diagnostics import ScoreBins
from hierlpr.lpr.fitting import LPRModel
from hierlpr.lpr.tilts import Posterior, shifted_prevalence

Float = NDArray[np.float64]

LEAST_SAMPLES = 30
# A label looks different if no prevalence explains its scores: by chance in one of so many checks,
# and by so large a share of samples in other bins.
CHANCE = 0.01
DISTANCE = 0.05
# Scores of two labels no longer go together if so much of their correlation is lost.
LOST_SHARE = 0.5
# So many of the labels, or so large a distance on average, and nothing can be said any more.
FAR_SHARE = 0.5
FAR_DISTANCE = 0.15


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Drift:
    """How new scores differ from those a model was fitted on; one entry a label.

    Attributes
    ----------
    labels : tuple of str
    n_samples : int
        New samples.
    distance : ndarray
        Share of samples that are in other bins of scores than before (total variation).
    prevalence, expected : ndarray
        In the samples fitted on, and in the new ones if only prevalences differ; cautiously: toward
        no change, the more so the less the scores tell.
    residual, p_value : ndarray
        What is left of the distance with the new prevalence, and the chance of as much if only
        prevalences differ (a chi-squared test over the bins).
    is_different : ndarray of bool
        Labels whose scores no prevalence explains.
    companion : tuple of str
        The parent or child whose scores went most closely with those of the label when it was
        fitted; empty where there is none.
    together, together_now, together_p : ndarray
        How closely they go together (the correlation of places among the bins) if only
        prevalences differ, and in the new scores; and the chance of as much of a difference.
    is_apart : ndarray of bool
        Labels whose scores no longer go with those of the companion, whatever the prevalences.
    """

    labels: tuple[str, ...]
    n_samples: int
    distance: Float
    prevalence: Float
    expected: Float
    residual: Float
    p_value: Float
    is_different: NDArray[np.bool_]
    companion: tuple[str, ...]
    together: Float
    together_now: Float
    together_p: Float
    is_apart: NDArray[np.bool_]
    knows_companions: bool = True

    @property
    def is_clean(self) -> bool:
        """Whether nothing but prevalences seems to differ."""
        return not (self.is_different.any() or self.is_apart.any())

    @property
    def is_far(self) -> bool:
        """Whether the scores look nothing like those seen, so that nothing can be adapted."""
        return bool(
            self.is_different.mean() > FAR_SHARE
            or np.where(self.is_different, self.residual, 0.0).mean() > FAR_DISTANCE
        )

    def __repr__(self) -> str:
        return f"<Drift: {self}>"

    def __str__(self) -> str:
        """Say it in words."""
        names = [self.labels[k] for k in np.argsort(-self.residual) if self.is_different[k]]
        what = f"{self.n_samples:,} new samples: {self._moved()}."
        if not self.knows_companions:
            what += (
                " Whether the scores of related labels still go together cannot be told: the model "
                "is of an earlier version, or its labels were changed."
            )
        if self.is_clean:
            return f"{what} In all else the scores look like those fitted on."
        if names:
            what += (
                f" The scores of {len(names):,} label(s) look different, whatever the prevalence: "
                f"{listed(names)}."
            )
        if self.is_apart.any():
            what += f" {self._apart()}"
        tail = (
            "The model is for other scores: fit it again."
            if self.is_far
            else "What the model says of these labels may be wrong: look at their classifiers."
        )
        return f"{what} {tail}"

    def _moved(self) -> str:
        """Which prevalences have moved; one that reads the same to three digits has not."""
        factor = self.expected / self.prevalence
        widest = int(np.argmax(np.abs(np.log(factor))))
        before, after = f"{self.prevalence[widest]:.3g}", f"{self.expected[widest]:.3g}"
        if before == after:
            return "no prevalence seems to have moved"
        moved = int(np.count_nonzero((factor > 1.25) | (factor < 0.8)))
        return (
            f"the prevalence of {moved:,} of {len(self.labels):,} labels seems to have moved by "
            f"more than a quarter; most that of {self.labels[widest]!r}, from {before} to {after}"
        )

    def _apart(self) -> str:
        """Name the pairs that no longer go together, each once, the clearest first."""
        pairs = dict[tuple[str, ...], str]()
        for k in np.lexsort((-abs(self.together - self.together_now), self.together_p)):
            if self.is_apart[k]:
                two = self.labels[k], self.companion[k]
                told = f"{two[0]!r} with {two[1]!r} ({self.together[k]:.2f}, now "
                pairs.setdefault(tuple(sorted(two)), f"{told}{self.together_now[k]:.2f})")
        said = list(pairs.values())
        more = f" and {len(said) - 3:,} more" if len(said) > 3 else ""
        return (
            "Scores that went together do so no longer, whatever the prevalences (correlation "
            f"expected, and now): {', '.join(said[:3])}{more}; one of the two may be broken."
        )

    def columns(self) -> dict[str, list[Any]]:
        """Return one list a column, one entry a label."""
        # All fields but labels and n_samples, the first, and knows_companions, the last.
        columns = {field.name: getattr(self, field.name) for field in fields(self)[2:-1]}
        numbers = {k: list(x) if k == "companion" else x.tolist() for k, x in columns.items()}
        return {"label": list(self.labels), **numbers}

    def csv_lines(self) -> Iterator[str]:
        """Write the columns as CSV, the names of labels quoted where they must be."""
        columns = self.columns()
        for row in (list(columns), *zip(*columns.values(), strict=True)):
            text = io.StringIO()
            cells = [f"{x:.6g}" if isinstance(x, float) else x for x in row]
            csv.writer(text, lineterminator="").writerow(cells)
            yield text.getvalue()

    def to_frame(self, *, backend: str = "pandas") -> Any:
        """Return a data frame with one row a label."""
        return new_frame(self.columns(), backend)


def compare_scores(
    model: LPRModel, scores: Float, hierarchy: Hierarchy, posterior: Posterior | None = None
) -> Drift:
    """Compare complete scores (n_samples, n_labels) with those that `model` was fitted on.

    `posterior` as in :func:`hierlpr.lpr.tilts.shifted_prevalence`.
    """
    bins = model.seen
    if bins is None:
        raise DataError(
            "The model does not know what scores it was fitted on: it is of an earlier version, or "
            "was fitted on listed scores.\nHint: fit it again, on complete scores."
        )
    if scores.shape[0] < LEAST_SAMPLES:
        raise DataError(
            f"{scores.shape[0]} sample(s) are too few to tell how scores differ.\n"
            f"Hint: give at least {LEAST_SAMPLES}."
        )
    labels, count = hierarchy.labels, bins.count(scores)
    before = bins.total / bins.total.sum(axis=1, keepdims=True)
    n_new = np.maximum(count.sum(axis=1, keepdims=True), 1)
    now = count / n_new
    expected = shifted_prevalence(model, scores, hierarchy, posterior)
    residual, p_value = _left_over(bins, now, n_new[:, 0], model.report.base_rate, expected)
    is_different = (p_value < CHANCE / len(labels)) & (residual > DISTANCE)
    pairs = _together(model, scores)
    # Less together than they were, that is; that they are more so has many harmless reasons.
    lost = np.sign(pairs.expected) * (pairs.expected - pairs.now)
    least = np.maximum(DISTANCE, LOST_SHARE * np.abs(pairs.expected))
    is_apart = (pairs.p_value < CHANCE / len(labels)) & (lost > least)
    return Drift(
        labels, int(scores.shape[0]), 0.5 * np.abs(now - before).sum(axis=1),
        model.report.base_rate, expected, residual, p_value, is_different,
        tuple(labels[k] if k >= 0 else "" for k in pairs.other.tolist()),
        pairs.expected, pairs.now, pairs.p_value, is_apart, model.companions is not None,
    )  # fmt: skip


def _together(model: LPRModel, scores: Float) -> Together:
    """How scores of related labels go together; of a model that does not know, nothing."""
    assert model.seen is not None
    if model.companions is not None:
        return model.companions.compare(model.seen, scores)
    none = np.zeros(model.n_labels)
    return Together(np.full(model.n_labels, -1, dtype=np.int64), none, none, none + 1.0)


def _left_over(
    bins: ScoreBins, now: Float, n_new: Float, before: Float, expected: Float
) -> tuple[Float, Float]:
    """Distance of shares in bins from the best mixture of positives and negatives, and its chance.

    The mixture is the one of least chi-squared near the expected prevalence, so that the cautious
    estimate of it is no reason to call a label different. Where scores tie some bins are empty
    before and now; they tell nothing, and do not count.
    """
    positive, negative = bins.positive, np.maximum(bins.total - bins.positive, 0.0)
    n1, n0 = (np.maximum(x.sum(axis=1, keepdims=True), 1e-9) for x in (positive, negative))
    n_before = bins.total.sum(axis=1, keepdims=True)
    # A few samples spread as all are: shares of few positives are not 0.
    spread = bins.total / n_before
    p1, p0 = ((x + 4.0 * spread) / (n + 4.0) for x, n in ((positive, n1), (negative, n0)))
    # Scores beyond all seen before are as likely as they turn out to be, not impossible.
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
