"""Compare new scores with those fitted on: which prevalences changed, and what else did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.sparse import csr_array

from hierlpr._utils.checks import Matrix, quote_names
from hierlpr._utils.display import html_card
from hierlpr.data.frames import new_frame
from hierlpr.data.listed import close_listed
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr.diagnostics import ScoreBins
from hierlpr.lpr.fitting import LPRModel
from hierlpr.lpr.label_shift import CHANCE_TILT, shifted_prevalence
from hierlpr.lpr.training import Float

LEAST_SAMPLES = 30
SHOWN = 10  # labels in a notebook
# A label looks different if no prevalence explains its scores: at a family-wise error rate of
# CHANCE_DIFFERENT (every batch may be checked), and with at least this total variation distance.
CHANCE_DIFFERENT = 0.001
DISTANCE = 0.05
CHANCE = 0.01  # error rate of the other tests
UNCLEAR = 2.0  # if a common change by this factor would not show, nothing can be said
# If this share of labels is different, or this distance is left on average, nothing can be adapted.
FAR_SHARE = 0.5
FAR_DISTANCE = 0.15
FAR_MOVE = float(np.exp(3.5))  # or if odds seem to have moved by this factor on average,
FAR_IMPOSSIBLE = 0.05  # or this share of labels is more frequent than its ancestors


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
    visible_factor : float
        A common change of all prevalences by less than this factor goes unnoticed.
    impossible_share : float
        Share of labels with parents that would have to be more frequent than an ancestor, beyond
        noise.
    one_per_cluster : bool
        Whether each sample was drawn from another cluster.
    """

    labels: tuple[str, ...]
    n_samples: int
    distance: Float
    prevalence: Float
    expected: Float
    residual: Float
    p_value: Float
    is_different: NDArray[np.bool_]
    visible_factor: float
    impossible_share: float
    one_per_cluster: bool = False

    @property
    def is_clean(self) -> bool:
        """Whether only prevalences seem to differ."""
        return not self.is_different.any()

    @property
    def is_nonsense(self) -> bool:
        """Whether prevalences cannot have moved as the scores suggest."""
        return self._mean_move() > FAR_MOVE or self.impossible_share > FAR_IMPOSSIBLE

    def _mean_move(self) -> float:
        """Return the factor by which odds have moved, up or down, in the geometric mean."""
        log_odds = (scipy.special.logit(x) for x in (self.expected, self.prevalence))
        return float(np.exp(np.abs(np.subtract(*log_odds)).mean()))

    @property
    def is_far(self) -> bool:
        """Whether the scores look so different that the model cannot be adapted."""
        residual = float(np.where(self.is_different, self.residual, 0.0).mean())
        share = float(self.is_different.mean())
        return self.is_nonsense or share > FAR_SHARE or residual > FAR_DISTANCE

    def __repr__(self) -> str:
        return f"<Drift: {self}>"

    def __str__(self) -> str:
        """Summarize the comparison as text."""
        names = [self.labels[k] for k in np.argsort(-self.residual) if self.is_different[k]]
        what = "new samples, one of each cluster" if self.one_per_cluster else "new samples"
        summary = f"{self.n_samples:,} {what}: {self._moved()}."
        if self.is_nonsense:
            return (
                f"{summary} No change of prevalences explains this: {self.impossible_share:.0%} of "
                "the labels would be more frequent than their ancestors, and odds would change "
                f"{self._mean_move():.3g}-fold on average. Are the scores on the same scale, do "
                "larger ones mean more likely, and are the columns in the right order?"
            )
        if self.is_clean:
            return f"{summary} In all other respects the scores look like those fitted on."
        advice = (
            "The model does not suit these scores: fit it again."
            if self.is_far
            else "Predictions for these labels may be wrong: check their classifiers."
        )
        return (
            f"{summary} The scores of {len(names):,} label(s) look different, whatever the "
            f"prevalence: {quote_names(names)}. {advice}"
        )

    def _repr_html_(self) -> str:
        odds = np.abs(scipy.special.logit(self.expected) - scipy.special.logit(self.prevalence))
        first = np.lexsort((-odds, ~self.is_different))[:SHOWN]
        columns = (self.prevalence, self.expected, self.p_value, self.is_different)
        rows = zip(
            [self.labels[k] for k in first], *(x[first].tolist() for x in columns), strict=True
        )
        head = ("label", "prevalence", "expected now", "p-value", "different")
        return html_card("Comparison with the fit", str(self), head, rows)

    def _moved(self) -> str:
        """Describe which prevalences changed; equal to three digits counts as unchanged."""
        factor = self.expected / self.prevalence
        widest = int(np.argmax(np.abs(np.log(factor))))
        before, after = f"{self.prevalence[widest]:.3g}", f"{self.expected[widest]:.3g}"
        if before == after and self.visible_factor > UNCLEAR:
            return f"cannot tell from {self.n_samples:,} samples whether prevalences changed"
        if before == after:
            return (
                "no prevalence seems to have changed (a common change by less than a factor of "
                f"{self.visible_factor:.2g} would not be detected)"
            )
        moved = int(np.count_nonzero((factor > 1.25) | (factor < 0.8)))
        return (
            f"the prevalence of {moved:,} of {len(self.labels):,} labels seems to have changed by "
            f"more than a quarter, most of all {self.labels[widest]!r}, from {before} to {after}"
        )

    def columns(self) -> dict[str, list[Any]]:
        """Return one list per column, with one entry per label."""
        names = ("distance", "prevalence", "expected", "residual", "p_value", "is_different")
        values = {name: getattr(self, name).tolist() for name in names}
        return {"label": list(self.labels), **values}

    def to_frame(self, *, backend: str = "pandas") -> Any:
        """Return a data frame with one row per label."""
        return new_frame(self.columns(), backend)


def compare_scores(
    model: LPRModel,
    scores: Matrix,
    hierarchy: Hierarchy,
    *,
    joint: bool = False,
    chance: float = CHANCE_TILT,
) -> Drift:
    """Compare scores (n_samples, n_labels) with those that `model` was fitted on.

    Of listed scores, a sample that does not list a label counts for it, unless the label is implied
    by one below or the sample lists nothing. `joint` and `chance` are passed to
    :func:`hierlpr.lpr.label_shift.shifted_prevalence`.
    """
    bins = model.score_bins
    if bins is None:
        raise DataError(
            "The model does not know the distribution of the scores it was fitted on, because it "
            "was adapted or labels were added.\nHint: use the model that was fitted."
        )
    if not isinstance(scores, np.ndarray):
        scores = scores[np.diff(scores.indptr) > 0]
    if scores.shape[0] < LEAST_SAMPLES:
        raise DataError(
            f"{scores.shape[0]} sample(s) are too few to compare scores.\n"
            f"Hint: give at least {LEAST_SAMPLES}."
        )
    count, lpr = bins.count(scores), model.curves.evaluate(scores)
    if not isinstance(lpr, np.ndarray):
        count, lpr = _with_absent(bins, count, lpr, hierarchy)
    residual, p_value, rate, error = explain_by_prevalence(bins.total, bins.positive, count)
    p_value_moved, visible = _test_common_move(bins, lpr)
    before = bins.total / bins.total.sum(axis=1, keepdims=True)
    now = count / np.maximum(count.sum(axis=1, keepdims=True), 1)
    return Drift(
        labels=hierarchy.labels,
        n_samples=int(scores.shape[0]),
        distance=0.5 * np.abs(now - before).sum(axis=1),
        prevalence=model.report.base_rate,
        expected=shifted_prevalence(
            model, lpr, hierarchy, joint=joint, together=p_value_moved < CHANCE, chance=chance
        ),
        residual=residual,
        p_value=p_value,
        is_different=(p_value < CHANCE_DIFFERENT / hierarchy.n_labels) & (residual > DISTANCE),
        visible_factor=visible,
        impossible_share=_impossible_share(rate, error, hierarchy),
    )


def _with_absent(
    bins: ScoreBins, count: NDArray[np.int64], lpr: csr_array, hierarchy: Hierarchy
) -> tuple[NDArray[np.int64], Float]:
    """Count pairs that are not listed in the first bins; return all LPRs, NaN where implied."""
    absent = bins.positive[:, 0] / np.maximum(bins.total[:, 0], 1.0)
    closed, values = close_listed(lpr, hierarchy), np.tile(absent, (lpr.shape[0], 1))
    row = np.repeat(np.arange(lpr.shape[0]), np.diff(closed.row_ptr))
    values[row, closed.label] = np.where(closed.is_implied, np.nan, closed.value)
    first = np.arange(count.shape[1]) == 0
    n_absent = lpr.shape[0] - np.bincount(closed.label, minlength=lpr.shape[1])
    return count + first * n_absent[:, None], values


def explain_by_prevalence(
    total: Float, positive: Float, count: NDArray[np.integer]
) -> tuple[Float, Float, Float, Float]:
    """Fit mixtures of the positives and the negatives of a fit to new counts of scores.

    `total`, `positive` and `count` are the weights of all and of positive samples of the fit, and
    the number of new samples, per label and bin of score. Returns, per label, the total variation
    distance that remains, the p-value of a chi-squared test over the bins that only the prevalence
    differs, and the prevalence of the mixture with its standard error. Bins that are empty before
    and now (because scores tie) are ignored.
    """
    negative = np.maximum(total - positive, 0.0)
    n1, n0 = (np.maximum(x.sum(axis=1, keepdims=True), 1e-9) for x in (positive, negative))
    n_before = total.sum(axis=1, keepdims=True)
    n_now = np.maximum(count.sum(axis=1, keepdims=True), 1)
    # Four pseudo-samples, distributed like all samples, smooth the shares of a rare class.
    p1, p0 = ((x + 4.0 * total / n_before) / (n + 4.0) for x, n in ((positive, n1), (negative, n0)))
    now, pooled = count / n_now, (total + count) / (n_before + n_now)
    # Scores in bins that were empty before are unusual, but not impossible.
    least = np.where(total > 0.0, 1e-12, pooled * (1.0 / n_now + 1.0 / n_before) + 1e-12)
    used = pooled > 0.0

    def chi_squared(rate: Float) -> tuple[Float, Float]:
        """Squared errors of the mixture in standard errors, and the variances."""
        mixed = rate * p1 + (1.0 - rate) * p0
        variance = mixed / n_now + rate**2 * p1 / n1 + (1.0 - rate) ** 2 * p0 / n0
        variance = np.maximum(variance, least)
        return np.where(used, (now - mixed) ** 2 / variance, 0.0).sum(axis=1), variance

    grid = np.concatenate([[0.0], scipy.special.expit(np.linspace(-8.0, 8.0, 81)), [1.0]])
    each = np.stack([chi_squared(np.full((len(total), 1), rate))[0] for rate in grid])
    rate = grid[np.argmin(each, axis=0)][:, None]
    best, variance = chi_squared(rate)
    for _ in range(3):  # weighted least squares, because the grid is coarse for many samples
        weight = np.where(used, (p1 - p0) / variance, 0.0)
        slope = np.maximum((weight * (p1 - p0)).sum(axis=1, keepdims=True), 1e-12)
        next_rate = np.clip((weight * (now - p0)).sum(axis=1, keepdims=True) / slope, 0.0, 1.0)
        rate = np.where(chi_squared(next_rate)[0][:, None] < best[:, None], next_rate, rate)
        best, variance = chi_squared(rate)
    information = np.where(used, (p1 - p0) ** 2 / variance, 0.0).sum(axis=1)
    free = np.count_nonzero(used, axis=1) - 1
    p_value = np.where(free > 0, scipy.special.chdtrc(np.maximum(free, 1), best), 1.0)
    residual = 0.5 * np.abs(now - rate * p1 - (1.0 - rate) * p0).sum(axis=1)
    # At least the error of counting positives, and the bias of the pseudo-samples.
    counting = (rate * (1.0 - rate) + 1.0 / n_now) / n_now
    bias = rate * 4.0 / (n1 + 4.0) + (1.0 - rate) * 4.0 / (n0 + 4.0)
    error = np.sqrt(1.0 / np.maximum(information, 1e-12) + counting[:, 0]) + bias[:, 0]
    return residual, p_value, rate[:, 0], error


def _test_common_move(bins: ScoreBins, lpr: Float) -> tuple[float, float]:
    """Test whether samples have as many labels on average as those of the fit.

    Returns the p-value, and the factor by which all prevalences must differ to be noticed.
    """
    mean = bins.mean_lpr
    each = np.nan_to_num(lpr - mean)
    excess = each.sum(axis=1)
    n_before, n_now = float(bins.total.sum(axis=1).max()), len(lpr)
    error = float(excess.std(ddof=1)) * np.sqrt(1.0 / n_now + 1.0 / n_before)
    z = abs(float(excess.mean())) / max(error, 1e-12)
    # If prevalences rise by a share s, mean LPRs rise by s times this sum (positives have larger
    # LPRs than negatives by var / (mean (1 - mean))); noticed in 84 of 100 cases.
    rise = float((each.var(axis=0) / (1.0 - mean)).sum())
    visible = 1.0 + (1.0 - scipy.special.ndtri(0.5 * CHANCE)) * error / max(rise, 1e-12)
    return float(2.0 * scipy.special.ndtr(-z)), visible


def _impossible_share(rate: Float, error: Float, h: Hierarchy) -> float:
    """Return the share of labels that seem to be more frequent than one of their ancestors."""
    width = -scipy.special.ndtri(CHANCE / h.n_labels) * error
    least, most = (rate - width)[h.order], (rate + width)[h.order]
    has_parent = np.diff(h.parent_ptr) > 0
    for k in np.flatnonzero(has_parent):  # parents first
        above = h.parent_idx[h.parent_ptr[k] : h.parent_ptr[k + 1]]
        most[k] = min(most[k], float(most[above].min()))
    return float(np.sum(least > most) / max(1, np.count_nonzero(has_parent)))
