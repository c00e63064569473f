"""How far to trust a label's own and the others' evidence: penalized logistic fits."""

from typing import NamedTuple

import numpy as np

from hierlpr._kernels._arrays import Bools2, Floats, Floats2, Ints
from hierlpr._kernels._jit import kernel

__all__ = ["Evidence", "Weights", "fit_weights", "sample_losses", "weigh_evidence"]

MOST_STEPS = 30
LARGE = 2.0**1000


class Evidence(NamedTuple):
    """Held-out evidence in log-odds: what each label's own score says, and the others'.

    `own`, `others` and `truth` are (n_labels, n_samples); ``prior[f, k]`` are the log-odds of
    label ``k`` before any score in the fit that left out fold ``f``, and ``fold`` tells which fit
    a sample's evidence comes from. `weight`, of shape (n_labels, n_samples), is what each pair
    counts, or of shape (n_labels, 0) if all count alike.
    """

    own: Floats2
    others: Floats2
    truth: Bools2
    prior: Floats2
    fold: Ints
    weight: Floats2


class Weights(NamedTuple):
    """The log-odds of each label before any score, the weights of its evidence, and its shift."""

    prior: Floats
    own: Floats
    others: Floats
    shift: Floats


@kernel
def fit_weights(
    evidence: Evidence,
    group_ptr: Ints,
    group_label: Ints,
    target: Floats2,
    strength: float,
    start: int,
    stop: int,
    weights: Floats2,
) -> None:
    """Fit (own, others, shift) of the groups ``start`` to ``stop`` of labels; see `Tempering`.

    Maximizes the log-likelihood minus ``strength / 2 * |w - target|**2`` with both weights in
    [0, 1], by Newton steps on the free coordinates. O(size) a step.
    """
    own, others, truth, prior, fold, weight = evidence
    n_samples = own.shape[1]
    is_weighted = weight.shape[1] > 0
    for g in range(start, stop):
        w0, w1, w2 = target[g, 0], target[g, 1], target[g, 2]
        best = -np.inf
        b0, b1, b2 = w0, w1, w2
        s0 = s1 = s2 = 0.0
        for _ in range(MOST_STEPS):
            value = (
                -0.5
                * strength
                * ((w0 - target[g, 0]) ** 2 + (w1 - target[g, 1]) ** 2 + (w2 - target[g, 2]) ** 2)
            )
            g0 = strength * (target[g, 0] - w0)
            g1 = strength * (target[g, 1] - w1)
            g2 = strength * (target[g, 2] - w2)
            h00 = h11 = h22 = strength
            h01 = h02 = h12 = 0.0
            for at in range(group_ptr[g], group_ptr[g + 1]):
                k = group_label[at]
                odds = 1.0
                for m in range(n_samples):
                    t = weight[k, m] if is_weighted else 1.0
                    a, e = own[k, m], others[k, m]
                    z = prior[fold[m], k] + w0 * a + w1 * e + w2
                    q = np.exp(-abs(z))
                    inverse = 1.0 / (1.0 + q)
                    p = inverse if z > 0.0 else q * inverse
                    y = 1.0 if truth[k, m] else 0.0
                    value += t * ((y - 1.0) * z + min(z, 0.0))
                    if is_weighted:
                        value -= t * np.log1p(q)
                    else:
                        # One logarithm of a product, as long as that fits a float.
                        odds *= 1.0 + q
                        if odds > LARGE:
                            value -= np.log(odds)
                            odds = 1.0
                    d = t * (y - p)
                    v = t * p * (1.0 - p)
                    g0 += d * a
                    g1 += d * e
                    g2 += d
                    h00 += v * a * a
                    h01 += v * a * e
                    h02 += v * a
                    h11 += v * e * e
                    h12 += v * e
                    h22 += v
                value -= np.log(odds)
            if value < best:
                # The step went too far: go back half of it, from the best weights so far.
                s0, s1, s2 = 0.5 * s0, 0.5 * s1, 0.5 * s2
                if abs(s0) + abs(s1) + abs(s2) < 1e-6:
                    break
                w0 = min(max(b0 + s0, 0.0), 1.0)
                w1 = min(max(b1 + s1, 0.0), 1.0)
                w2 = b2 + s2
                continue
            gained = value - best
            best, b0, b1, b2 = value, w0, w1, w2
            if gained < 1e-6:
                break
            # Weights at a bound that the gradient pushes outward stay there.
            if (w0 <= 0.0 and g0 < 0.0) or (w0 >= 1.0 and g0 > 0.0):
                g0 = h01 = h02 = 0.0
            if (w1 <= 0.0 and g1 < 0.0) or (w1 >= 1.0 and g1 > 0.0):
                g1 = h01 = h12 = 0.0
            # Solve the 3 x 3 system by elimination; the matrix is positive definite.
            f1, f2 = h01 / h00, h02 / h00
            k11, k12, k22 = h11 - f1 * h01, h12 - f1 * h02, h22 - f2 * h02
            c1, c2 = g1 - f1 * g0, g2 - f2 * g0
            f3 = k12 / k11
            s2 = (c2 - f3 * c1) / (k22 - f3 * k12)
            s1 = (c1 - k12 * s2) / k11
            s0 = (g0 - h01 * s1 - h02 * s2) / h00
            w0 = min(max(b0 + s0, 0.0), 1.0)
            w1 = min(max(b1 + s1, 0.0), 1.0)
            w2 = b2 + s2
        weights[g, 0], weights[g, 1], weights[g, 2] = b0, b1, b2


@kernel
def sample_losses(
    evidence: Evidence,
    weights: Floats2,
    loss: Floats,
) -> None:
    """Set ``loss[m]`` to the log-loss of sample ``m``, summed over the labels. O(size)."""
    own, others, truth, prior, fold, weight = evidence
    n_labels, n_samples = own.shape
    is_weighted = weight.shape[1] > 0
    loss[:] = 0.0
    for k in range(n_labels):
        for m in range(n_samples):
            z = prior[fold[m], k] + weights[k, 0] * own[k, m] + weights[k, 1] * others[k, m]
            z += weights[k, 2]
            worst = -z if truth[k, m] else z
            t = weight[k, m] if is_weighted else 1.0
            loss[m] += t * (max(worst, 0.0) + np.log1p(np.exp(-abs(z))))


@kernel
def weigh_evidence(
    lpr: Floats2,
    others: Floats2,
    start: int,
    stop: int,
    weights: Weights,
    floor: float,
    out: Floats2,
) -> None:
    """Write the probability of each label from its own and the others' evidence, both weighted.

    The log-odds are those of the prior and the shift, plus the weighted evidence, that of a label's
    own score being ``logit(lpr) - prior``; a missing LPR (NaN) adds nothing. O(size).
    """
    prior, own, rest, shift = weights
    for m in range(start, stop):
        for k in range(lpr.shape[1]):
            x = lpr[m, k]
            z = shift[k] + prior[k] + rest[k] * others[m, k]
            if x == x:
                x = min(max(x, floor), 1.0 - floor)
                z += own[k] * (np.log(x / (1.0 - x)) - prior[k])
            out[m, k] = 1.0 / (1.0 + np.exp(-z))
