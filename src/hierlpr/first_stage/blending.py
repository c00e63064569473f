"""Weights of the members: those whose average has the smallest out-of-fold log-loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["blend_weights", "mean_log_loss"]

FLOOR = 1e-6  # a probability of 0 that turns out wrong must not decide alone
MOST_PAIRS = 2_000_000
STEPS = 500


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
