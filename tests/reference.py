"""Slow twins that anyone can believe. Parents are given by number; -1 marks a root."""

from fractions import Fraction
from itertools import permutations

import numpy as np


def respects(order, parents):
    """Whether every node comes after all of its parents; `parents[i]` lists them."""
    place = {node: k for k, node in enumerate(order)}
    return all(place[p] < place[i] for i in range(len(parents)) for p in parents[i])


def eauc(order, value):
    """Sum of (n - k + 1) * value along the order, exactly."""
    n = len(order)
    return sum(Fraction(value[node]) * (n - k) for k, node in enumerate(order))


def best_eauc(parents, value):
    """The largest eAUC of any order that respects the parents: a program over closed sets."""
    n = len(parents)
    needs = [sum(1 << p for p in parents[i]) for i in range(n)]
    best = {0: Fraction(0)}
    for size in range(n):
        step = {}
        for taken, so_far in best.items():
            for i in range(n):
                if not taken >> i & 1 and needs[i] & taken == needs[i]:
                    gain = so_far + Fraction(value[i]) * (n - size)
                    key = taken | 1 << i
                    if key not in step or gain > step[key]:
                        step[key] = gain
        best = step
    return best[(1 << n) - 1]


def best_eauc_by_permutation(parents, value):
    """The same by trying all n! orders, to check the program above."""
    orders = permutations(range(len(parents)))
    return max(eauc(order, value) for order in orders if respects(order, parents))


def on_grid(value, bits=30):
    """Round to multiples of 2**-bits, as the library does before it compares anything."""
    return np.rint(np.asarray(value, dtype=float) * 2.0**bits) / 2.0**bits


def isotonic_by_projection(parents, value):
    """Isotonic regression on a DAG by the minimax formula over closed sets; tiny cases only.

    The score of node i is the largest mean, over closed sets U that hold i, of the smallest
    mean over closed sets L without i of U minus L.
    """
    n = len(parents)
    closed = [
        s
        for s in range(1 << n)
        if all(s >> p & 1 for i in range(n) if s >> i & 1 for p in parents[i])
    ]

    def mean(mask):
        members = [Fraction(value[i]) for i in range(n) if mask >> i & 1]
        return sum(members) / len(members)

    def score(i):
        return max(
            min(mean(upper & ~lower) for lower in closed if not lower >> i & 1 and upper & ~lower)
            for upper in closed
            if upper >> i & 1
        )

    return [float(score(i)) for i in range(n)]
