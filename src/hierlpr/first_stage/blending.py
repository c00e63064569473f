"""Weights of the members by out-of-fold log-loss, and one map of all labels to probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOOR = 1e-6  # a probability of 0 that turns out wrong must not decide alone
MOST_PAIRS = 2_000_000
MOST_MAPPED = 500_000  # pairs that learn the map
STEPS = 500

Float = NDArray[np.float64]


def mean_log_loss(proba: NDArray[Any], y: NDArray[Any]) -> float:
    """Log-loss of a sample, summed over the labels."""
    right = np.where(y > 0.5, proba, 1.0 - proba)
    loss = -np.log(np.maximum(right, FLOOR), dtype=np.float64)
    return float(loss.sum() / max(1, y.shape[0]))


def blend_weights(
    members: Sequence[NDArray[Any]], y: NDArray[Any], *, rng: int = 0
) -> NDArray[np.float64]:
    r"""Weights on the simplex that minimize the log-loss of the averaged probabilities.

    Notes
    -----
    With :math:`q_m` the probability that member :math:`m` gave to what happened, the loss is
    :math:`-\sum \log \sum_m w_m q_m`, that of a mixture, convex in the weights. The EM step
    :math:`w_m \leftarrow \mathrm{mean}(w_m q_m / \sum_j w_j q_j)` never raises it.
    """
    n_samples = y.shape[0]
    if y.size == 0:
        return np.full(len(members), 1.0 / len(members))
    most = max(1, MOST_PAIRS // max(1, y.shape[1]))
    rows = np.arange(n_samples)
    if n_samples > most:
        rows = np.sort(np.random.default_rng(rng).permutation(n_samples)[:most])
    happened = y[rows] > 0.5
    q = np.stack([np.where(happened, p[rows], 1.0 - p[rows]).ravel() for p in members])
    q = np.maximum(q.astype(np.float64), FLOOR)
    weights = np.full(len(members), 1.0 / len(members))
    for _ in range(STEPS):
        mixed = weights @ q
        new = weights * (q @ (1.0 / mixed)) / mixed.size
        new /= new.sum()
        moved = float(np.abs(new - weights).max())
        weights = new
        if moved < 1e-5:
            break
    return weights


@dataclass(frozen=True, slots=True)
class PooledMap:
    """Log-odds of a pair: ``start + slope * level + share * log-odds of the prevalence``."""

    start: float
    slope: float
    share: float

    def probabilities(self, level: NDArray[Any], prior: Float) -> NDArray[np.float32]:
        """Probabilities of pairs, by their level and the prevalence of each label."""
        odds = self.start + self.slope * level + self.share * log_odds(prior)
        return (1.0 / (1.0 + np.exp(-np.clip(odds, -30.0, 30.0)))).astype(np.float32)


def log_odds(proba: NDArray[Any]) -> Float:
    """Log-odds, of probabilities not nearer to 0 and 1 than `FLOOR`."""
    inside = np.clip(np.asarray(proba, dtype=np.float64), FLOOR, 1.0 - FLOOR)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def fit_pooled_map(
    level: NDArray[Any], y: NDArray[Any], prior: Float, rng: np.random.Generator
) -> PooledMap:
    """Logistic regression of all labels at once on out-of-fold levels and prevalences."""
    if y.shape[1] == 0:
        return PooledMap(0.0, 1.0, 0.0)
    rows = np.sort(rng.permutation(y.shape[0])[: max(1, MOST_MAPPED // y.shape[1])])
    value = level[rows].ravel()
    share = np.broadcast_to(log_odds(prior), (rows.size, prior.size)).ravel()
    held = y[rows].ravel()
    design = np.stack([np.ones_like(value), value, share])
    start, slope, extra = _logistic(design, held, np.array([0.0, 1.0, 0.0]))
    if slope >= 0.0:
        return PooledMap(float(start), float(slope), float(extra))
    # A map that falls would turn the order around; then only the prevalence speaks.
    start, extra = _logistic(design[[0, 2]], held, np.array([0.0, 1.0]))
    return PooledMap(float(start), 0.0, float(extra))


def _logistic(design: Float, held: NDArray[Any], aim: Float) -> Float:
    """Weights of the rows of `design`; a weak pull to `aim` keeps them finite where all is sure."""
    guess = aim
    pull = 1e-2 * np.ones_like(aim)
    for _ in range(25):
        odds = np.clip(guess @ design, -30.0, 30.0)
        chance = 1.0 / (1.0 + np.exp(-odds))
        slope = design @ (chance - held) + pull * (guess - aim)
        bend = (design * (chance * (1.0 - chance))) @ design.T + np.diag(pull)
        step = np.linalg.solve(bend, slope)
        guess = guess - np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-8:
            break
    return guess
