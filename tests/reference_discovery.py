"""Slow, literal twins of the procedures on p-values; written from the definitions, in fractions."""

from fractions import Fraction
from itertools import product

import numpy as np

from hierlpr import Hierarchy


def random_dag(rng, n, *, forest=False):
    """Return a random hierarchy of n labels in a random order of numbering."""
    edges = []
    for child in range(1, n):
        most = 1 if forest else 3
        parents = rng.choice(child, size=min(child, rng.integers(0, most + 1)), replace=False)
        edges += [(f"v{p}", f"v{child}") for p in parents]
    return Hierarchy(edges, labels=[f"v{i}" for i in rng.permutation(n)])


def branch(p, h, label):
    """List the p-values at and below a label, by rising size."""
    below = [p[h.index(x)] for x in (label, *h.descendants(label))]
    return sorted(Fraction(float(x)) for x in below if not np.isnan(x))


def simes(p, h, label, *, arbitrary=False):
    values = branch(p, h, label)
    n = len(values)
    if n == 0:
        return None
    value = min(x * n / k for k, x in enumerate(values, start=1))
    if arbitrary:
        value *= sum(Fraction(1, k) for k in range(1, n + 1))
    return min(value, Fraction(1))


def dagger(p, h, alpha, *, arbitrary=False):
    """Labels rejected at alpha: every r is tried at every depth."""
    alpha = Fraction(alpha)
    value = {x: Fraction(float(p[h.index(x)])) for x in h.labels}
    depth = dict(zip(h.labels, h.levels.tolist(), strict=True))
    leaves, nodes = {}, {}
    for x in sorted(h.labels, key=lambda x: -depth[x]):
        kids = h.children(x)
        share = {c: len(h.parents(c)) for c in kids}
        leaves[x] = sum(leaves[c] / share[c] for c in kids) if kids else Fraction(1)
        nodes[x] = Fraction(1) + sum(nodes[c] / share[c] for c in kids)
    total = len(h.leaves)
    rejected = set()
    for d in range(1, h.depth + 1):
        tested = [x for x in h.labels if depth[x] == d and rejected.issuperset(h.parents(x))]
        before = len(rejected)
        most = sum(depth[x] <= d for x in h.labels)

        def reshaped(x, size, d=d, most=most):
            if not arbitrary:
                return size
            terms = [nodes[x] + k for k in range(d - 1, most)]
            return sum(t <= size for t in terms) / sum(1 / t for t in terms)

        def passing(r, tested=tested, before=before, reshaped=reshaped):
            return {
                x
                for x in tested
                if value[x]
                <= alpha
                * leaves[x] / total
                * reshaped(x, nodes[x] + r + before - 1) / nodes[x]
            }  # fmt: skip

        for r in range(len(tested), 0, -1):
            if len(passing(r)) >= r:
                rejected |= passing(r)
                break
    return rejected


def worst_ratio(numerator, n_nulls):
    """Largest expected nulls / numerator(large nulls) that any way to stop can reach, literally.

    Tries every stopping rule by backward induction over (nulls left, large ones among them).
    """
    value = {(0, 0): 0.0}
    for n in range(1, n_nulls + 1):
        for large in range(n + 1):
            go_on = 0.0
            if large:
                go_on += large / n * value[n - 1, large - 1]
            if large < n:
                go_on += (n - large) / n * value[n - 1, large]
            value[n, large] = max(n / numerator(large), go_on)
    from math import comb

    return sum(comb(n_nulls, b) / 2**n_nulls * value[n_nulls, b] for b in range(n_nulls + 1))


def star_levels(p, removed, numerator):
    """Levels of the tested nodes: the least estimate while each was still there."""
    level = {}
    left = list(removed)
    least = 1.0
    while left:
        large = sum(p[v] >= 0.5 for v in left)
        least = min(least, numerator(large) / len(left))
        level[left.pop(0)] = least
    return level


def best_shift_posterior(evidence, on, h):
    """P(label) by summing over every set closed upward."""
    n = h.n_labels
    weight = np.zeros(n)
    total = 0.0
    for bits in product((0, 1), repeat=n):
        state = np.array(bits, dtype=bool)
        w = 1.0
        for k, x in enumerate(h.labels):
            possible = all(state[h.index(u)] for u in h.parents(x))
            if state[k] and not possible:
                w = 0.0
                break
            w *= (on[k] * evidence[k] if state[k] else 1 - on[k]) if possible else 1.0
        weight[state] += w
        total += w
    return weight / total
