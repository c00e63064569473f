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
