"""Whether new scores are like those fitted on but for other prevalences, and for which ones."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, expit, logit

from hierlpr._base.checks import listed
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr.fitting import LPRModel
from hierlpr.lpr.score_bins import N_BINS, ScoreBins

__all__ = ["Drift", "compare_scores", "shifted_prevalence"]

Float = NDArray[np.float64]

LEAST_SAMPLES = 30
MOVES = np.linspace(-4.0, 4.0, 81)  # of log-odds
MOVE_SCALE = 0.15  # most shares move by less than this
MOVED_SD = 1.5
N_SWEEPS = 4
_EDGE = 1e-9
# A label looks different if no prevalence explains its scores: by chance in one of so many checks,
# and by so large a share of samples in other bins.
CHANCE = 0.01
DISTANCE = 0.05
# So many of the labels, or so large a distance on average, and nothing can be said any more.
FAR_SHARE = 0.5
FAR_DISTANCE = 0.15


@dataclass(frozen=True, slots=True, eq=False)
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
    def is_far(self) -> bool:
        """Whether the scores look nothing like those seen, so that nothing can be adapted."""
        return bool(
            self.is_different.mean() > FAR_SHARE
            or np.where(self.is_different, self.residual, 0.0).mean() > FAR_DISTANCE
        )

    def __str__(self) -> str:
        """Say it in words."""
        names = [self.labels[k] for k in np.argsort(-self.residual) if self.is_different[k]]
        factor = self.expected / self.prevalence
        moved = int(np.count_nonzero((factor > 1.25) | (factor < 0.8)))
        widest = int(np.argmax(np.abs(np.log(factor))))
        what = (
            f"{self.n_samples:,} new samples: the prevalence of {moved:,} of {len(self.labels):,} "
            f"labels seems to have moved by more than a quarter; most that of "
            f"{self.labels[widest]!r}, from {self.prevalence[widest]:.3g} to "
            f"{self.expected[widest]:.3g}."
        )
        if not names:
            return f"{what} Apart from that the scores look like those fitted on."
        tail = (
            "The model is for other scores: fit it again."
            if self.is_far
            else "What the model says of these labels may be wrong: look at their classifiers."
        )
        return (
            f"{what} The scores of {len(names):,} label(s) look different, whatever the "
            f"prevalence: {listed(names)}. {tail}"
        )

    def columns(self) -> dict[str, list[Any]]:
        """Return one list a column, one entry a label."""
        names = ("distance", "prevalence", "expected", "residual", "p_value", "is_different")
        numbers: dict[str, list[Any]] = {name: getattr(self, name).tolist() for name in names}
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
        import narwhals.stable.v1 as nw

        return nw.from_dict(self.columns(), backend=cast("Any", backend)).to_native()


def compare_scores(model: LPRModel, scores: Float, hierarchy: Hierarchy) -> Drift:
    """Compare complete scores (n_samples, n_labels) with those that `model` was fitted on."""
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
    expected = shifted_prevalence(model, scores, hierarchy)
    residual, p_value = _left_over(bins, now, n_new[:, 0], model.report.base_rate, expected)
    is_different = (p_value < CHANCE / len(labels)) & (residual > DISTANCE)
    return Drift(
        labels, int(scores.shape[0]), 0.5 * np.abs(now - before).sum(axis=1),
        model.report.base_rate, expected, residual, p_value, is_different,
    )  # fmt: skip


def _left_over(
    bins: ScoreBins, now: Float, n_new: Float, before: Float, expected: Float
) -> tuple[Float, Float]:
    """Distance of shares in bins from the best mixture of positives and negatives, and its chance.

    The mixture is the one of least chi-squared near the expected prevalence, so that the cautious
    estimate of it is no reason to call a label different.
    """
    positive, negative = bins.positive, np.maximum(bins.total - bins.positive, 0.0)
    n1, n0 = (np.maximum(x.sum(axis=1, keepdims=True), 1e-9) for x in (positive, negative))
    # Half a sample in every bin, spread as all are: shares of few positives are not 0.
    spread = bins.total / bins.total.sum(axis=1, keepdims=True)
    p1, p0 = ((x + 4.0 * spread) / (n + 4.0) for x, n in ((positive, n1), (negative, n0)))
    best = np.full(now.shape[0], np.inf)
    distance = np.ones(now.shape[0])
    steps = np.linspace(-3.0, 3.0, 61)
    for step in steps:
        rate = expit(logit(expected) + step)[:, None]
        mixed = rate * p1 + (1.0 - rate) * p0
        variance = mixed / n_new[:, None] + rate**2 * p1 / n1 + (1.0 - rate) ** 2 * p0 / n0
        value = ((now - mixed) ** 2 / variance).sum(axis=1)
        better = value < best
        best = np.where(better, value, best)
        distance = np.where(better, 0.5 * np.abs(now - mixed).sum(axis=1), distance)
    return distance, np.asarray(chdtrc(N_BINS - 1, best))


def shifted_prevalence(model: LPRModel, scores: Float, hierarchy: Hierarchy) -> Float:
    r"""Prevalences of the labels among new samples, if nothing but prevalences has changed.

    Notes
    -----
    With :math:`r = \frac{\ell}{1 - \ell} \frac{1 - \pi}{\pi}` the likelihood ratio of a score,
    where :math:`\pi` is the mean LPR of the samples fitted on, the log-likelihood of a prevalence
    is :math:`L_k(\pi') = \sum \log(1 - \pi' + \pi' r)`, which EM for label shift maximizes (key
    ``saerens2002`` in ``docs/references.bib``). The curve comes from as few samples as were fitted
    on, so that :math:`L_k` counts as that of :math:`1 / (1/n + 1/n')` samples, of before and now.

    One move explains many: if a label becomes more frequent, so do all below it. So it is the share
    of each label in its (rarest) parent that moves, by :math:`\gamma_k` in log-odds, and no child
    exceeds its parent. The :math:`\gamma` maximize
    :math:`\sum_k L_k(\pi'_k(\gamma)) - \sum_k \log(1 + \gamma_k^2 / c^2)`, a Cauchy prior: most
    shares stay as they were, some move by any amount. A weak normal prior on the move of every
    prevalence decides where the scores leave it open.
    """
    base = np.clip(model.report.base_rate, _EDGE, 1.0 - _EDGE)
    return _tied(base, log_likelihood(model, scores), hierarchy)


def log_likelihood(model: LPRModel, scores: Float) -> Float:
    """Log-likelihood of every label (rows) if its log-odds move by each of `MOVES` (columns)."""
    assert model.seen is not None
    base = logit(np.clip(model.seen.mean_lpr, _EDGE, 1.0 - _EDGE))
    n_before = model.seen.total.sum(axis=1)
    out = np.zeros((base.size, MOVES.size))
    for k in range(base.size):
        one = model.curves.select([k])
        column = scores[:, k]
        lpr = np.asarray(one.evaluate(column[~np.isnan(column), None], n_threads=1))[:, 0]
        # Few values occur where scores tie, and nothing is lost by rounding to many.
        own, count = np.unique(logit(np.clip(lpr, 1e-12, 1.0 - 1e-12)).round(3), return_counts=True)
        for at, move in enumerate(MOVES):
            told = (count * np.logaddexp(0.0, own + move)).sum()
            out[k, at] = told - lpr.size * np.logaddexp(0.0, base[k] + move)
        out[k] *= n_before[k] / (n_before[k] + max(1, lpr.size))
    return out


def _tied(base: Float, likelihood: Float, h: Hierarchy) -> Float:
    """Return the prevalences of highest posterior, from the roots down or from the leaves up."""
    # What the scores leave open stays near where it was.
    table = likelihood - 0.5 * (MOVES / MOVED_SD) ** 2
    found = [_ascend(base, table, h, order) for order in (h.order, h.order[::-1])]
    return max(found, key=lambda one: one[0])[1]


def _ascend(base: Float, table: Float, h: Hierarchy, order: NDArray[Any]) -> tuple[float, Float]:
    """Coordinate ascent over the moves of shares; returns the log posterior and prevalences."""
    parent = _rarest_parents(base, h)
    above = np.where(parent >= 0, base[parent], 1.0)
    share = logit(np.clip(base / above, _EDGE, 1.0 - _EDGE))
    start, below = logit(base), _below(parent, h)
    shift = np.zeros(base.size)
    log_rate = _log_rates(share, parent, h)
    for sweep in range(N_SWEEPS):
        for k in order.tolist():
            # At first anywhere, then ever nearer to where it is.
            step = np.append(MOVES if sweep == 0 else shift[k] + MOVES / 4.0**sweep, shift[k])
            change = _log_share(share[k] + step) - _log_share(share[k] + shift[k])
            moved = _log_odds(log_rate[below[k]] + change[:, None]) - start[below[k]]
            gain = _read(table[below[k]], moved).sum(axis=1)
            best = int(np.argmax(gain - np.log1p((step / MOVE_SCALE) ** 2)))
            shift[k] = step[best]
            log_rate[below[k]] += change[best]
    fit = _read(table, (_log_odds(log_rate) - start)[None]).sum()
    prior = np.log1p((shift / MOVE_SCALE) ** 2).sum()
    return float(fit - prior), np.asarray(np.clip(np.exp(log_rate), _EDGE, 1.0 - _EDGE))


def _log_odds(log_rate: Float) -> Float:
    inside = np.minimum(log_rate, -_EDGE)
    return np.asarray(inside - np.log(-np.expm1(inside)))


def _read(table: Float, moved: Float) -> Float:
    """Read a table (labels x moves) between its columns, at (steps x labels)."""
    at = np.clip((moved - MOVES[0]) / (MOVES[1] - MOVES[0]), 0.0, MOVES.size - 1.000001)
    left = at.astype(np.intp)
    row = np.arange(table.shape[0])
    low, high = table[row, left], table[row, left + 1]
    return np.asarray(low + (at - left) * (high - low))


def _log_share(log_odds: Any) -> Float:
    return np.asarray(-np.logaddexp(0.0, -log_odds))


def _rarest_parents(base: Float, h: Hierarchy) -> NDArray[np.intp]:
    parent = np.full(h.n_labels, -1, dtype=np.intp)
    for k, label in enumerate(h.labels):
        found = [h.index(p) for p in h.parents(label)]
        if found:
            parent[k] = min(found, key=lambda p: (base[p], p))
    return parent


def _below(parent: NDArray[np.intp], h: Hierarchy) -> list[NDArray[np.intp]]:
    """Each label with all that hangs below it by the chosen parents."""
    found: list[list[int]] = [[k] for k in range(parent.size)]
    for k in h.order[::-1].tolist():
        if parent[k] >= 0:
            found[int(parent[k])].extend(found[k])
    return [np.array(part, dtype=np.intp) for part in found]


def _log_rates(share: Float, parent: NDArray[np.intp], h: Hierarchy) -> Float:
    log_rate = _log_share(share)
    for k in h.order.tolist():
        if parent[k] >= 0:
            log_rate[k] += log_rate[parent[k]]
    return np.asarray(log_rate)
