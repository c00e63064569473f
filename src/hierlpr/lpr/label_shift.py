"""Prevalences of a new population, estimated from its scores alone.

The new population is an exponentially tilted version of the old one: a sample is drawn in
proportion to one factor per label that it has, and most factors are 1. A tilt of one label also
moves its ancestors and descendants, so a few tilts explain the scores of many labels. Which label
was tilted is often uncertain, so prevalences are averaged over the plausible explanations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._kernels.joint import Bounds, Tree, joint_forest
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.graph import rarest_parents
from hierlpr.lpr.fitting import LPRModel
from hierlpr.lpr.training import Float

SHIFTS = np.linspace(-4.0, 4.0, 81)  # grid of shifts of log-odds
SHIFT_SD = 1.5  # prior standard deviation of a shift
ENOUGH_POSITIVES = 100.0  # a curve learned from this many positives has weight 1/2
CHANCE_TILT = 0.05  # of any tilt where no prevalence has moved
CHANCE_ADAPTED = 0.5  # the same where prevalences are expected to have moved
N_CANDIDATES = 12
MAX_TILTS = 50
FINE_STEPS = [np.append(0.0, SHIFTS / 4.0**sweep) for sweep in (1, 2, 3)]  # to refine tilts
EDGE = 1e-9
BOUNDS = Bounds(floor=1e-14, least=0.0, most=np.inf)


def shifted_prevalence(
    model: LPRModel,
    lpr: Float,
    hierarchy: Hierarchy,
    *,
    joint: bool = False,
    together: bool = False,
    chance: float = CHANCE_TILT,
) -> Float:
    r"""Estimate the prevalence of every label among new samples, assuming pure label shift.

    `lpr` are those of the new samples, NaN where a score is missing. With `joint` the likelihood is
    that of all scores of a sample, which must be independent given its labels. Neither likelihood
    can replace the other: all scores together show shifts that single labels miss, but where scores
    are not independent, as in Enron, they seem to be far more evidence than they are. With
    `together`, a common tilt of all roots is an explanation too. `chance` is that of moving any
    prevalence where none has moved.

    Notes
    -----
    Let :math:`r = \frac{\ell}{1 - \ell} \frac{1 - \pi}{\pi}` be the likelihood ratio of a score,
    where :math:`\pi` is the mean LPR of the training samples. The log-likelihood of a prevalence is
    :math:`L_k(\pi') = \sum \log(1 - \pi' + \pi' r)`, which EM for label shift maximizes (key
    ``saerens2002`` in ``docs/references.bib``). Because the curve is itself estimated,
    :math:`L_k` is scaled to :math:`1 / (1/n + 1/n')` samples, for n training and n' new samples.

    The new population is :math:`P'(q) \propto P(q) \exp(\sum_k \theta_k q_k)` for label sets
    :math:`q`, on the forest in which every label keeps its rarest parent. Two passes over the
    forest give the prevalences for any tilts :math:`\theta`; no child exceeds its parent. The tilts
    maximize :math:`\sum_k L_k(\pi'_k(\theta))`, or the joint likelihood of all scores, minus a
    price per nonzero tilt; they are added greedily. The price is half the quantile of
    :math:`\chi^2_1` that K independent tilts exceed with that chance, times the variance of the
    score statistic relative to that of independent labels, because relatives say much the same.
    If no tilt gains its price, nothing moves. Otherwise each tilt in turn is exchanged for a tilt
    of another label, and the prevalences of all these explanations are averaged, weighted by their
    likelihoods.
    """
    assert model.score_bins is not None
    base = np.clip(model.report.base_rate, EDGE, 1.0 - EDGE)
    forest = RarestParentForest.of(base, hierarchy)
    mean = np.clip(model.score_bins.mean_lpr, EDGE, 1.0 - EDGE)
    n_before, positive = model.score_bins.total.sum(axis=1), model.score_bins.positive.sum(axis=1)
    scale = n_before / (n_before + np.maximum(np.count_nonzero(~np.isnan(lpr), axis=0), 1))
    rarer = np.maximum(np.minimum(positive, n_before - positive), EDGE)
    trust = rarer / (rarer + ENOUGH_POSITIVES)
    likelihood: Likelihood
    if joint:
        log_ratio = scipy.special.logit(np.clip(lpr, EDGE, 1.0 - EDGE)) - scipy.special.logit(mean)
        likelihood = JointShiftLikelihood(forest, np.nan_to_num(log_ratio), scale, trust)
    else:
        table = (scale * trust)[:, None] * log_likelihood(lpr, mean) - prior_cost(SHIFTS)
        likelihood = ShiftLikelihood(forest, table, scale * trust * np.nan_to_num(lpr - mean))
    return average_over_tilts(likelihood, base, together=together, chance=chance)


def average_over_tilts(
    likelihood: Likelihood, base: Float, *, together: bool = False, chance: float = CHANCE_TILT
) -> Float:
    """Average prevalences over the best tilts and those with one of them exchanged.

    With `together`, all roots may also have one tilt in common, which needs no price.
    """
    price = 0.5 * float(scipy.special.chdtri(1.0, chance / base.size))
    tilt, labels, worth = find_tilts(likelihood, np.zeros(base.size), price=price)
    if together:
        start, gain = np.zeros(base.size), likelihood.common_gains(SHIFTS)
        start[likelihood.forest.roots] = SHIFTS[np.argmax(gain)]
        common = find_tilts(likelihood, start, price=price)
        if common[2] + gain.max() > worth:
            tilt, labels, _ = common
    if not tilt.any():
        return base.copy()
    # A common tilt alone has no label to be exchanged.
    log_weights, tilts = ([], []) if labels else ([0.0], [tilt])
    for k in labels:
        without = tilt.copy()
        without[k] = 0.0
        before = float(likelihood.gains(without, k, tilt[k : k + 1])[0])
        for other in {k, *likelihood.candidates(without)} - (set(labels) - {k}):
            gain = likelihood.gains(without, other, SHIFTS)
            weight = np.exp(gain - gain.max())
            log_weights.append(float(gain.max() + np.log(weight.sum())) - before)
            tilts.append(without.copy())
            tilts[-1][other] += weight @ SHIFTS / weight.sum()
    share = np.exp(np.array(log_weights) - max(log_weights))
    rates = share @ likelihood.forest.rates(np.stack(tilts)) / share.sum()
    return np.asarray(np.clip(rates, EDGE, 1.0 - EDGE))


def find_tilts(
    likelihood: Likelihood, start: Float, *, price: float
) -> tuple[Float, list[int], float]:
    """Add the most likely tilt while it gains its price; refine all after each addition.

    `price` is that of a tilt which moves one label, or labels with independent scores. Returns the
    tilts, the labels that were added, and the log-likelihood gained less prices.
    """
    tilt, labels, worth = start.copy(), list[int](), 0.0
    while len(labels) < MAX_TILTS:
        best = (0.0, -1, 0.0)
        for k in likelihood.candidates(tilt):
            if k not in labels:
                gain = likelihood.gains(tilt, k, SHIFTS) - price * likelihood.inflation(tilt, k)
                at = int(np.argmax(gain))
                best = max(best, (float(gain[at]), k, float(SHIFTS[at])))
        if best[1] < 0:
            break
        labels.append(best[1])
        tilt[best[1]] += best[2]
        worth += best[0]
        for steps in FINE_STEPS:
            for k in labels:
                gain = likelihood.gains(tilt, k, steps)
                tilt[k] += steps[np.argmax(gain)]
                worth += float(gain.max())
    return tilt, labels, worth


class RarestParentForest(NamedTuple):
    """The forest in which every label keeps its rarest parent, with P(label | parent)."""

    tree: Tree
    roots: NDArray[np.int32]
    log_odds: Float

    @classmethod
    def of(cls, base: Float, h: Hierarchy) -> RarestParentForest:
        """Build the forest from the prevalences `base`."""
        parent, rate = rarest_parents(h, base), base[h.order]
        share = np.clip(rate / np.where(parent >= 0, rate[parent], 1.0), EDGE, 1.0 - EDGE)
        # With a prevalence of 1/2 the odds of an LPR are the likelihood ratio itself.
        tree = Tree(h.order, parent, share, 1.0 - share, np.full(h.n_labels, 0.5))
        return cls(tree, h.order[parent < 0], scipy.special.logit(base))

    def rates(self, log_ratios: Float) -> Float:
        """P(label) given log likelihood ratios, or under tilts, of shape (n_cases, n_labels)."""
        values = np.ascontiguousarray(scipy.special.expit(log_ratios))
        rates = np.empty_like(values)
        joint_forest(values, 0, len(values), self.tree, BOUNDS, False, rates)
        return np.asarray(np.clip(rates, EDGE, 1.0 - EDGE))

    def shifts(self, tilts: Float) -> Float:
        """Shifts of the log-odds of all prevalences under tilts."""
        return np.asarray(scipy.special.logit(self.rates(tilts)) - self.log_odds)


class ShiftLikelihood(NamedTuple):
    """Sum of the log-likelihoods of single labels: `table` is (n_labels, SHIFTS.size).

    `lpr` (n_samples, n_labels) are LPRs less their means in the fit, times the weights of labels in
    the table, and 0 where they are missing.
    """

    forest: RarestParentForest
    table: Float
    lpr: Float

    def at(self, tilts: Float) -> Float:
        """Log-likelihoods of tilts of shape (n_cases, n_labels)."""
        return np.asarray(_interpolate(self.table, self.forest.shifts(tilts)).sum(axis=1))

    def gains(self, tilt: Float, k: int, steps: Float) -> Float:
        """Log-likelihood gained by each of several steps of the tilt of label `k`."""
        tilts = np.repeat(tilt[None], steps.size, axis=0)
        tilts[:, k] += steps
        return np.asarray(self.at(tilts) - self.at(tilt[None]))

    def common_gains(self, steps: Float) -> Float:
        """Log-likelihood gained by the same tilt of all roots, with one prior."""
        tilts = np.zeros((steps.size, self.table.shape[0]))
        tilts[:, self.forest.roots] = steps[:, None]
        without_prior = self._replace(table=self.table + prior_cost(SHIFTS))
        gain = without_prior.at(tilts) - without_prior.at(np.zeros_like(tilts[:1]))
        return np.asarray(gain - prior_cost(steps))

    def candidates(self, tilt: Float) -> list[int]:
        """Labels with the steepest score statistic, relative to its variance."""
        shifts = self.forest.shifts(tilt[None])
        step = SHIFTS[1] - SHIFTS[0]
        rise = _interpolate(self.table, shifts + step) - _interpolate(self.table, shifts - step)
        rate = self.forest.rates(tilt[None])[0]
        variance = np.maximum(rate * (1.0 - rate), EDGE)
        # The derivative of prevalences by tilts is the covariance of the labels, which is
        # symmetric: one step of all tilts along the gradient of the prevalences gives the
        # gradient of every tilt.
        gradient = rise[0] / (2 * step) / variance
        size = 1e-4 / max(float(np.abs(gradient).max()), 1e-300)
        ends = self.forest.rates(tilt + size * np.stack([gradient, -gradient]))
        steep = ((ends[0] - ends[1]) / (2.0 * size)) ** 2 / variance
        return [int(k) for k in np.argsort(-steep, kind="stable")[:N_CANDIDATES]]

    def inflation(self, tilt: Float, k: int) -> float:
        """Variance of the score statistic of a tilt, relative to independent labels; at least 1."""
        ends = np.repeat(tilt[None], 2, axis=0)
        ends[:, k] += 1e-3, -1e-3
        each = self.lpr * (np.subtract(*self.forest.shifts(ends)) / 2e-3)
        return float(max(1.0, each.sum(axis=1).var() / max(each.var(axis=0).sum(), 1e-300)))


def log_likelihood(lpr: Float, mean: Float) -> Float:
    """Log-likelihood of every label (rows) if its log-odds shift by each of `SHIFTS` (columns).

    `lpr` are those of new samples, NaN if missing, and `mean` their means in the fit.
    """
    out = np.zeros((mean.size, SHIFTS.size))
    start = np.logaddexp(0.0, scipy.special.logit(mean)[:, None] + SHIFTS)
    for k, column in enumerate(lpr.T):
        values = np.clip(column[~np.isnan(column)], 1e-12, 1.0 - 1e-12)
        # Rounding loses nothing that matters and leaves few distinct values.
        log_odds, count = np.unique(scipy.special.logit(values).round(3), return_counts=True)
        out[k] = count @ np.logaddexp(0.0, log_odds[:, None] + SHIFTS) - values.size * start[k]
    return out


@dataclass(slots=True, eq=False)
class JointShiftLikelihood:
    r"""Likelihood of all scores of a sample, which are independent given its labels.

    The likelihood of a sample is :math:`Z(\theta, r) / Z(\theta, 1)`, where
    :math:`Z(\theta, r) = \sum_q P(q) \prod_k (e^{\theta_k} r_k)^{q_k}` is linear in each
    :math:`e^{\theta_k}`. A step :math:`t` of one tilt therefore multiplies it by
    :math:`(1 - p + p\,e^t) / (1 - \pi + \pi\,e^t)`, with the posterior :math:`p` and the
    prevalence :math:`\pi` of the label under the current tilts. `scale` multiplies the
    log-likelihood of each label, and `trust` divides the price of its tilt.
    """

    forest: RarestParentForest
    log_ratio: Float  # of every score; 0 where it is missing
    scale: Float
    trust: Float
    _last: tuple[Float, Float, Float] | None = None

    def _at(self, tilt: Float) -> tuple[Float, Float]:
        """Posteriors and prevalences under a tilt; the last result is cached."""
        if self._last is None or not np.array_equal(self._last[0], tilt):
            rates = self.forest.rates(np.vstack([self.log_ratio, np.zeros_like(tilt)]) + tilt)
            self._last = tilt.copy(), rates[:-1], rates[-1]
        return self._last[1:]

    def gains(self, tilt: Float, k: int, steps: Float) -> Float:
        """Log-likelihood gained by each of several steps of the tilt of label `k`."""
        posterior, rates = self._at(tilt)
        more = np.expm1(steps)
        gain = np.array([np.log1p(posterior[:, k] * x).sum() for x in more])
        gain -= len(posterior) * np.log1p(rates[k] * more)
        return np.asarray(self.scale[k] * gain - prior_cost(tilt[k] + steps) + prior_cost(tilt[k]))

    def common_gains(self, steps: Float) -> Float:
        """Log-likelihood gained by the same tilt of all roots, with one prior."""
        none, roots = np.zeros(self.scale.size), self.forest.roots
        gains = sum(self.gains(none, int(k), steps) for k in roots)  # trees are independent
        return np.asarray(gains + (roots.size - 1) * prior_cost(steps))

    def inflation(self, tilt: Float, k: int) -> float:
        """Price of a tilt relative to that of a label with many positives in the fit."""
        return 1.0 / float(self.trust[k])

    def candidates(self, tilt: Float) -> list[int]:
        """Labels whose posteriors differ most from their prevalences, relative to the variance."""
        posterior, rates = self._at(tilt)
        excess = (posterior.sum(axis=0) - len(posterior) * rates) ** 2
        steep = excess / np.maximum(((posterior - rates) ** 2).sum(axis=0), EDGE)
        return [int(k) for k in np.argsort(-steep, kind="stable")[:N_CANDIDATES]]


Likelihood = ShiftLikelihood | JointShiftLikelihood


def prior_cost(shift: Float) -> Float:
    """Return minus the log density of shifts a priori, up to a constant."""
    return np.asarray(0.5 * (shift / SHIFT_SD) ** 2)


def _interpolate(table: Float, shifts: Float) -> Float:
    """Interpolate a table (n_labels, SHIFTS.size) at shifts of shape (n_cases, n_labels)."""
    at = np.clip((shifts - SHIFTS[0]) / (SHIFTS[1] - SHIFTS[0]), 0.0, SHIFTS.size - 1.000001)
    left = at.astype(np.intp)
    row = np.arange(table.shape[0])
    low, high = table[row, left], table[row, left + 1]
    return np.asarray(low + (at - left) * (high - low))
