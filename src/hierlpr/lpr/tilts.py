"""Prevalences of a new population from its scores alone.

Samples are taken to be drawn as before, but in proportion to a factor for each label they have; the
factor of most labels is 1. One such *tilt* moves a label and, through the hierarchy, all its
relatives, so that few of them explain the scores of many labels. Which label it was that moved is
often less clear than that something did, so prevalences are averaged over the explanations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr.fitting import LPRModel

Float = NDArray[np.float64]
Numbers = NDArray[np.intp]

MOVES = np.linspace(-4.0, 4.0, 81)  # of log-odds
MOVED_SD = 1.5  # of moves, where the scores leave it open
ENOUGH_POSITIVES = 100.0  # a curve of so many counts half
PRICE = 1.0  # of a tilt, in log-likelihood, beside that of choosing it among all labels
N_CANDIDATES = 12
MOST_TILTS = 50
N_SWEEPS = 3
EDGE = 1e-9


Posterior = Callable[[Float, Float, Float], Float]  # of LPRs, prevalences, shares of parents


def shifted_prevalence(
    model: LPRModel, scores: Float, hierarchy: Hierarchy, posterior: Posterior | None = None
) -> Float:
    r"""Prevalences of the labels among new samples, if nothing but prevalences has changed.

    Parameters
    ----------
    model : LPRModel
    scores : ndarray of shape (n_samples, n_labels)
    hierarchy : Hierarchy
    posterior : callable, optional
        The joint posterior on the forest of rarest parents, where it is known to hold: then the
        likelihood is that of all scores of a sample together.

    Notes
    -----
    With :math:`r = \frac{\ell}{1 - \ell} \frac{1 - \pi}{\pi}` the likelihood ratio of a score,
    where :math:`\pi` is the mean LPR of the samples fitted on, the log-likelihood of a prevalence
    is :math:`L_k(\pi') = \sum \log(1 - \pi' + \pi' r)`, which EM for label shift maximizes (key
    ``saerens2002`` in ``docs/references.bib``). The curve is an estimate too, so that :math:`L_k`
    counts as that of :math:`1 / (1/n + 1/n')` samples, of before and now.

    The new population is :math:`P'(q) \propto P(q) \exp(\sum_k \theta_k q_k)` for label sets
    :math:`q` under the hierarchy, each label taken with its rarest parent. Two passes over it give
    the prevalences of any tilts :math:`\theta`; no child exceeds its parent. The tilts maximize
    :math:`\sum_k L_k(\pi'_k(\theta))`, or the likelihood of all scores of a sample together, less
    :math:`\log K + 1` for each that is not 0, found one by one, the best first. If no tilt is worth
    its price nothing moves at all. Else each in turn is exchanged for a tilt of another label, and
    the prevalences are averaged with the likelihoods of what comes out as weights.
    """
    base = np.clip(model.report.base_rate, EDGE, 1.0 - EDGE)
    if posterior is None:
        return tilted(base, log_likelihood(model, scores), hierarchy)
    return averaged(JointAim.of(model, scores, Forest.of(base, hierarchy), posterior), base)


def log_likelihood(model: LPRModel, scores: Float) -> Float:
    """Log-likelihood of every label (rows) if its log-odds move by each of `MOVES` (columns)."""
    assert model.seen is not None
    logit = scipy.special.logit
    base = logit(np.clip(model.seen.mean_lpr, EDGE, 1.0 - EDGE))
    n_before, positive = model.seen.total.sum(axis=1), model.seen.positive.sum(axis=1)
    rarer = np.minimum(positive, n_before - positive)
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
        out[k] *= rarer[k] / (rarer[k] + ENOUGH_POSITIVES)
    return out


def tilted(base: Float, likelihood: Float, hierarchy: Hierarchy) -> Float:
    """Return the prevalences of the few tilts that the log-likelihoods of all labels ask for."""
    prior = 0.5 * (MOVES / MOVED_SD) ** 2
    return averaged(Aim(Forest.of(base, hierarchy), likelihood - prior), base)


def averaged(aim: Aim | JointAim, base: Float) -> Float:
    """Average prevalences over the best tilts and those with one of them exchanged."""
    tilt = find_tilts(aim, price=float(np.log(base.size)) + PRICE)
    worth, tilts = list[float](), list[Float]()
    for k in np.flatnonzero(tilt).tolist():
        without = tilt.copy()
        without[k] = 0.0
        before = float(aim.gains(without, k, tilt[k : k + 1])[0])
        for other in {k, *aim.candidates(without)} - set(np.flatnonzero(without).tolist()):
            gain = aim.gains(without, other, MOVES)
            weight = np.exp(gain - gain.max())
            worth.append(float(gain.max() + np.log(weight.sum())) - before)
            tilts.append(without.copy())
            tilts[-1][other] = weight @ MOVES / weight.sum()
    if not tilts:
        return base.copy()
    share = np.exp(np.array(worth) - max(worth))
    rates = share @ np.exp(aim.forest.log_rates(np.stack(tilts))) / share.sum()
    return np.asarray(np.clip(rates, EDGE, 1.0 - EDGE))


def find_tilts(aim: Aim | JointAim, *, price: float) -> Float:
    """Add tilts one by one, the best first, each worth its price; all are adjusted every time."""
    tilt, chosen = np.zeros(aim.forest.parent.size), list[int]()
    while len(chosen) < MOST_TILTS:
        best = (price, -1, 0.0)
        for k in aim.candidates(tilt):
            if k not in chosen:
                gain = aim.gains(tilt, k, MOVES)
                at = int(np.argmax(gain))
                best = max(best, (float(gain[at]), k, float(MOVES[at])))
        if best[1] < 0:
            break
        chosen.append(best[1])
        tilt[best[1]] = best[2]
        for sweep in range(1, N_SWEEPS + 1):
            for k in chosen:
                steps = np.append(0.0, MOVES / 4.0**sweep)
                tilt[k] += steps[np.argmax(aim.gains(tilt, k, steps))]
    return tilt


class Forest(NamedTuple):
    """Labels with their rarest parents: chances given the parent, and labels by depth."""

    parent: Numbers
    log_on: Float
    log_off: Float
    depths: list[Numbers]
    log_odds: Float

    @classmethod
    def of(cls, base: Float, h: Hierarchy) -> Forest:
        """Hang every label below the rarest of its parents; `base` are rates."""
        parent, depth = np.full(h.n_labels, -1, dtype=np.intp), np.zeros(h.n_labels, dtype=np.intp)
        for number in range(h.n_labels):
            above = h.order[h.parent_idx[h.parent_ptr[number] : h.parent_ptr[number + 1]]]
            if above.size:
                k, rarest = h.order[number], above[np.lexsort((above, base[above]))[0]]
                parent[k], depth[k] = rarest, depth[rarest] + 1
        share = np.clip(base / np.where(parent >= 0, base[parent], 1.0), EDGE, 1.0 - EDGE)
        depths = [np.flatnonzero(depth == d) for d in range(int(depth.max(initial=0)) + 1)]
        return cls(parent, np.log(share), np.log1p(-share), depths, scipy.special.logit(base))

    def log_rates(self, tilts: Float) -> Float:
        """Log prevalences under tilts (cases x labels): a pass up and a pass down."""
        rate = self.log_shares(tilts)
        for labels in self.depths[1:]:
            rate[:, labels] += rate[:, self.parent[labels]]
        return rate

    def log_shares(self, tilts: Float) -> Float:
        """Log chances given the parent under tilts (cases x labels): a pass up."""
        up, rate = tilts.copy(), np.empty_like(tilts)
        for labels in self.depths[::-1]:
            on = self.log_on[labels] + up[:, labels]
            both = np.logaddexp(on, self.log_off[labels])
            rate[:, labels] = on - both
            if labels.size and self.parent[labels[0]] >= 0:
                np.add.at(up.T, self.parent[labels], both.T)
        return rate


class Aim(NamedTuple):
    """Labels one by one: `table` holds their log-likelihoods (labels x `MOVES`), which add up."""

    forest: Forest
    table: Float

    def at(self, tilts: Float) -> Float:
        """Values of tilts (cases x labels)."""
        return np.asarray(_read(self.table, self._moves(tilts)).sum(axis=1))

    def gains(self, tilt: Float, k: int, steps: Float) -> Float:
        """Tell what each of some steps of the tilt of label `k` is worth."""
        tilts = np.repeat(tilt[None], steps.size + 1, axis=0)
        tilts[1:, k] += steps
        value = self.at(tilts)
        return np.asarray(value[1:] - value[0])

    def candidates(self, tilt: Float) -> list[int]:
        """Labels along whose tilt the value rises most steeply for its variance."""
        moves = self._moves(tilt[None])
        step = MOVES[1] - MOVES[0]
        slope = (_read(self.table, moves + step) - _read(self.table, moves - step))[0] / (2 * step)
        rate = np.exp(self.forest.log_rates(tilt[None])[0])
        variance = np.maximum(rate * (1.0 - rate), EDGE)
        # Prevalences change with tilts by the covariance of labels, which is symmetric: a change of
        # tilts by what each prevalence is worth tells the worth of every tilt.
        worth = slope / variance
        size = 1e-4 / max(float(np.abs(worth).max()), 1e-300)
        ends = np.exp(self.forest.log_rates(tilt + size * np.stack([worth, -worth])))
        steep = ((ends[0] - ends[1]) / (2.0 * size)) ** 2 / variance
        return [int(k) for k in np.argsort(-steep, kind="stable")[:N_CANDIDATES]]

    def _moves(self, tilts: Float) -> Float:
        log_rate = np.minimum(self.forest.log_rates(tilts), -EDGE)
        return np.asarray(log_rate - np.log(-np.expm1(log_rate)) - self.forest.log_odds)


class JointAim:
    r"""All scores of a sample together, independent of each other given its labels.

    The likelihood of a sample is :math:`Z(\theta, r) / Z(\theta, 1)`, where
    :math:`Z(\theta, r) = \sum_q P(q) \prod_k (e^{\theta_k} r_k)^{q_k}` is linear in each
    :math:`e^{\theta_k}`: a step :math:`t` of one tilt changes it by the factor
    :math:`(1 - p + p\,e^t) / (1 - \pi + \pi\,e^t)` with the posterior :math:`p` and the
    prevalence :math:`\pi` of its label under the tilts so far.
    """

    def __init__(self, forest: Forest, lpr: Float, rates: Float, share: Float, post: Posterior):
        self.forest, self._lpr, self._rates, self._share = forest, lpr, rates, share
        self._posterior = post
        self._last: tuple[Float, Float, Float] | None = None

    @classmethod
    def of(cls, model: LPRModel, scores: Float, forest: Forest, posterior: Posterior) -> JointAim:
        """Take the scores of new samples; the curves count as estimates."""
        assert model.seen is not None
        lpr, there = np.full(scores.shape, np.nan), ~np.isnan(scores)
        label = np.nonzero(there)[1].astype(np.int32)
        lpr[there] = model.curves.evaluate_each(label, scores[there], n_threads=1)
        n_before = model.seen.total.sum(axis=1)
        rates = np.clip(model.seen.mean_lpr, EDGE, 1.0 - EDGE)
        return cls(forest, lpr, rates, n_before / (n_before + len(scores)), posterior)

    def _at(self, tilt: Float) -> tuple[Float, Float]:
        """Posteriors and prevalences under tilts; the last ones are kept."""
        if self._last is None or not np.array_equal(self._last[0], tilt):
            shares = np.exp(self.forest.log_shares(tilt[None])[0])
            given = self._posterior(self._lpr, self._rates, np.clip(shares, EDGE, 1.0 - EDGE))
            rates = np.exp(self.forest.log_rates(tilt[None])[0])
            self._last = tilt.copy(), np.clip(given, EDGE, 1.0 - EDGE), rates
        return self._last[1:]

    def gains(self, tilt: Float, k: int, steps: Float) -> Float:
        """Tell what each of some steps of the tilt of label `k` is worth."""
        given, rates = self._at(tilt)
        more = np.expm1(steps)
        told = np.array([np.log1p(given[:, k] * x).sum() for x in more])
        told -= len(given) * np.log1p(rates[k] * more)
        prior = 0.5 * ((tilt[k] + steps) ** 2 - tilt[k] ** 2) / MOVED_SD**2
        return np.asarray(self._share[k] * told - prior)

    def candidates(self, tilt: Float) -> list[int]:
        """Labels whose posteriors are furthest from their prevalences, for their variance."""
        given, rates = self._at(tilt)
        off = (given.sum(axis=0) - len(given) * rates) ** 2
        steep = off / np.maximum(((given - rates) ** 2).sum(axis=0), EDGE)
        return [int(k) for k in np.argsort(-steep, kind="stable")[:N_CANDIDATES]]


def _read(table: Float, moved: Float) -> Float:
    """Read a table (labels x moves) between its columns, at (cases x labels)."""
    at = np.clip((moved - MOVES[0]) / (MOVES[1] - MOVES[0]), 0.0, MOVES.size - 1.000001)
    left = at.astype(np.intp)
    row = np.arange(table.shape[0])
    low, high = table[row, left], table[row, left + 1]
    return np.asarray(low + (at - left) * (high - low))
