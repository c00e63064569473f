"""Slow, obviously right twins of what the first stage computes fast."""

import numpy as np


def log_loss(layers, x, y):
    """Mean over samples of the log-loss summed over labels, in float64, no dropout, no noise."""
    hidden = x.astype(np.float64)
    for weight, bias in layers[:-1]:
        hidden = np.maximum(hidden @ weight.astype(np.float64) + bias, 0.0)
    weight, bias = layers[-1]
    odds = hidden @ weight.astype(np.float64) + bias
    return float((np.logaddexp(0.0, odds) - y * odds).sum() / len(x))


def adam(w, slopes, *, rates, decay, first=0.9, second=0.999, tiny=1e-8):
    """Follow Adam as printed, one parameter vector, the slopes given for each step."""
    w = w.astype(np.float64).copy()
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, (slope, rate) in enumerate(zip(slopes, rates, strict=True), start=1):
        g = slope + decay * w
        m = first * m + (1 - first) * g
        v = second * v + (1 - second) * g * g
        w -= rate * (m / (1 - first**t)) / (np.sqrt(v / (1 - second**t)) + tiny)
    return w


def left_one_out(kernel, y, penalty, cluster=None, used=True):
    """Fit again to the samples `used` without each sample, or its cluster, and predict it."""
    cluster = np.arange(len(kernel)) if cluster is None else cluster
    out = np.empty_like(y, dtype=np.float64)
    for i in range(len(kernel)):
        rest = (cluster != cluster[i]) & used
        penalized = kernel[np.ix_(rest, rest)] + penalty * np.eye(rest.sum())
        out[i] = kernel[i, rest] @ np.linalg.solve(penalized, y[rest])
    return out


def leaf_shares(leaves, in_bag, y, leaves_new, used):
    """Average label shares of leaves, sample by sample and tree by tree."""
    out = np.zeros((len(leaves_new), y.shape[1]))
    for i, row in enumerate(leaves_new):
        found = []
        for t, leaf in enumerate(row):
            if used[i, t]:
                weight = np.where(leaves[:, t] == leaf, in_bag[t], 0)
                found.append((weight[:, None] * y).sum(axis=0) / weight.sum())
        out[i] = np.mean(found, axis=0)
    return out


def best_two_weights(p, q, y, steps=2001):
    """Weight of `p` in a mix with `q` that has the smallest log-loss, on a grid."""
    best = (np.inf, 0.0)
    for w in np.linspace(0.0, 1.0, steps):
        mix = np.clip(w * p + (1 - w) * q, 1e-6, 1 - 1e-6)
        best = min(best, (-np.where(y, np.log(mix), np.log(1 - mix)).sum(), w))
    return best[1]
