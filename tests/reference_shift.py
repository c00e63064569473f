"""Slow, obviously right twins of what is estimated of another population."""

from itertools import combinations, product

import numpy as np

STEPS = np.linspace(-1.6, 1.6, 9)


def tilted_prevalences(base, tilt, h):
    """Sum over all label sets that are closed upward, each weighed by the tilts of its labels."""
    total, held = _sums(base, tilt, h)
    return held / total


def log_sum(base, tilt, h):
    """Logarithm of the weights of all label sets."""
    return np.log(_sums(base, tilt, h)[0])


def _sums(base, tilt, h):
    total, held = 0.0, np.zeros(h.n_labels)
    for bits in product([0, 1], repeat=h.n_labels):
        chance = 1.0
        for k, label in enumerate(h.labels):
            (parent,) = [h.index(p) for p in h.parents(label)] or [None]
            share = base[k] / (1.0 if parent is None else base[parent])
            if parent is not None and not bits[parent]:
                share = 0.0
            chance *= share if bits[k] else 1.0 - share
        weight = chance * np.exp(np.dot(bits, tilt))
        total += weight
        held += weight * np.array(bits)
    return total, held


def best_tilts(base, table, moves, h, price, steps=STEPS):
    """Best value, less the price of each tilt, over all choices of up to two tilts on a grid."""
    best = -np.inf
    for n in range(3):
        for chosen in combinations(range(h.n_labels), n):
            for values in product(steps, repeat=n):
                tilt = np.zeros(h.n_labels)
                tilt[list(chosen)] = values
                rate = tilted_prevalences(base, tilt, h)
                moved = np.log(rate / (1 - rate)) - np.log(base / (1 - base))
                worth = sum(np.interp(moved[k], moves, table[k]) for k in range(h.n_labels))
                best = max(best, worth - n * price)
    return best


def place_of(edges, score):
    """Place among 16 bins, from -1 to 1: how many edges lie below."""
    return sum(edge < score for edge in edges) * 2 / 15 - 1


def kinds_of(edges, scores, truth, pair, weight):
    """Effective number, mean and covariance of the three moments by how many labels hold."""
    out = []
    for kind in range(3):
        rows, counts = [], []
        for i in range(len(scores)):
            if int(truth[i, pair[0]]) + int(truth[i, pair[1]]) == kind:
                a, b = (place_of(edges[k], scores[i, k]) for k in pair)
                rows.append([a, b, a * b])
                counts.append(weight[i])
        rows, counts = np.array(rows).reshape(-1, 3), np.array(counts)
        n = counts.sum() ** 2 / (counts**2).sum() if len(counts) else 0.0
        mean = np.average(rows, axis=0, weights=counts) if n else np.zeros(3)
        spread = np.cov(rows.T, aweights=counts, ddof=0) if n else np.zeros((3, 3))
        out.append((n, mean, spread))
    return out


def least_chi_squared(count, mean, spread, now, error):
    """The best mixture of three kinds, over a fine grid of all shares."""
    best = np.inf
    for first in np.linspace(0.0, 1.0, 201):
        for second in np.linspace(0.0, 1.0 - first, 201):
            share = np.array([1.0 - first - second, first, second])
            away = now - share @ mean
            used = [k for k in range(3) if count[k] > 0]
            if share[[k for k in range(3) if k not in used]].sum() > 0:
                continue
            variance = error + sum(share[k] ** 2 * spread[k] / count[k] for k in used)
            best = min(best, away @ np.linalg.solve(variance, away))
    return best
