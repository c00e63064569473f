r"""What p-values say together: a model of signals along the hierarchy, fitted to what is shown.

The p-value of a node without signal is uniform; that of a node with signal comes from a normal
score :math:`z = \Phi^{-1}(1 - p)` shifted by :math:`\mu`, so its density is
:math:`f_1(p) = \exp(\mu z - \mu^2 / 2)`, decreasing in :math:`p`. A root has a signal with
probability :math:`\rho`, another node with probability :math:`c` if all its parents have one and
never otherwise. The three numbers are fitted by EM; the E-step is the joint pass of
:mod:`hierlpr.joint`. Of a *hidden* p-value only :math:`\min(p, 1 - p)` is known, that is
:math:`|z|`, and its likelihood ratio is
:math:`(f_1(p) + f_1(1 - p)) / 2 = \exp(-\mu^2 / 2) \cosh \mu z`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from hierlpr.hierarchy import Hierarchy
from hierlpr.joint.posterior import posteriors
from hierlpr.joint.prior import LabelPrior

__all__ = ["ShiftModel", "fit_shift", "normal_scores"]

Float = NDArray[np.float64]
Mask = NDArray[np.bool_]

LEAST_SHIFT, MOST_SHIFT = 0.3, 6.0
LEAST_P = 1e-300
# Weak prior knowledge, in pseudo-nodes: without it, EM on a few nodes runs to the edge.
SHIFT_GUESS, SHIFT_WEIGHT = 2.0, 1.0
SHARE_GUESS, SHARE_WEIGHT = 1.0 / 3.0, 1.5
LEAST_SHARE = 1e-6


@dataclass(frozen=True, slots=True)
class ShiftModel:
    """A fitted model of signals.

    Attributes
    ----------
    shift : float
        Mean of the normal score of a signal.
    root, child : float
        Probability of a signal at a root, and at another node whose parents all have one.
    """

    shift: float = SHIFT_GUESS
    root: float = SHARE_GUESS
    child: float = SHARE_GUESS

    def density(self, p: Float) -> Float:
        """Density of the p-value of a signal."""
        return np.asarray(np.exp(self.shift * normal_scores(p) - 0.5 * self.shift**2))

    def small_share(self, z: Float, posterior: Float) -> Float:
        """P(p < 1/2) of hidden p-values, given that they are signals with `posterior`."""
        return np.asarray(0.5 * (1.0 - posterior) + posterior * expit(2.0 * self.shift * np.abs(z)))


def normal_scores(p: Float) -> Float:
    """Return z with P(Z > z) = p; NaN where p is, finite at 0 and 1."""
    return np.asarray(-ndtri(np.clip(p, LEAST_P, 1.0 - 2.0**-53)))


def fit_shift(
    z: Float, hidden: Mask, hierarchy: Hierarchy, start: ShiftModel, n_steps: int
) -> tuple[Float, ShiftModel]:
    """Run EM for `n_steps` from `start`; return P(signal) of every node and the fitted model.

    Parameters
    ----------
    z : ndarray of shape (n_labels,)
        Normal scores, NaN where there is no p-value; only ``abs(z)`` is used where `hidden`.
    """
    h = hierarchy
    is_root = np.diff(h.parent_ptr)[h.position] == 0
    # Any prevalence serves: it only carries the likelihood ratios. Where the joint pass keeps
    # one parent of several, it keeps the rarest, here the deepest.
    prevalence = 0.5 / (1.0 + 1e-4 * h.levels.astype(np.float64))
    log_odds = np.log(prevalence) - np.log1p(-prevalence)
    size = np.where(np.isnan(z), 0.0, np.abs(z))
    model = start
    for _ in range(n_steps):
        mu = model.shift
        signed = np.where(hidden, size + np.logaddexp(0.0, -2.0 * mu * size) / mu, z)
        log_ratio = mu * signed - 0.5 * mu**2 - np.log(2.0) * hidden
        share = np.where(is_root, model.root, model.child)
        own = expit(log_odds + log_ratio)  # stays NaN where there is no p-value
        posterior = posteriors(own[None], LabelPrior(prevalence, share), h, n_threads=1)[0][0]
        mean = np.where(hidden, size * np.tanh(mu * size), np.nan_to_num(z))
        model = _update(posterior, mean, ~np.isnan(z), is_root, h)
    return posterior, model


def _update(
    posterior: Float, mean: Float, tested: Mask, is_root: Mask, hierarchy: Hierarchy
) -> ShiftModel:
    """M-step: weighted means, with the pseudo-nodes."""
    weight = posterior * tested
    shift = (weight @ mean + SHIFT_WEIGHT * SHIFT_GUESS) / (weight.sum() + SHIFT_WEIGHT)
    h = hierarchy
    rarest = np.ones(h.n_labels)
    child = np.repeat(np.arange(h.n_labels), np.diff(h.parent_ptr))
    np.minimum.at(rarest, child, posterior[h.order][h.parent_idx])
    possible = rarest[h.position]
    shares = []
    for group in (is_root, ~is_root):
        found = posterior[group].sum() + SHARE_WEIGHT * SHARE_GUESS
        share = found / (possible[group].sum() + SHARE_WEIGHT)
        shares.append(float(np.clip(share, LEAST_SHARE, 1.0 - LEAST_SHARE)))
    return ShiftModel(float(np.clip(shift, LEAST_SHIFT, MOST_SHIFT)), shares[0], shares[1])
