"""Call sets by their definitions, one sample and one prefix at a time."""

import numpy as np


def order_of(score, hierarchy):
    """Falling score; ties in topological order."""
    return sorted(range(hierarchy.n_labels), key=lambda j: (-score[j], int(hierarchy.position[j])))


def all_true(score, hierarchy):
    value, out = 1.0, {}
    for j in order_of(score, hierarchy):
        parents = [score[hierarchy.index(p)] for p in hierarchy.parents(hierarchy.labels[j])]
        above = min(parents, default=1.0)
        value *= min(score[j] / above, 1.0) if above > 0 else 0.0
        out[j] = value
    return np.array([out[j] for j in range(hierarchy.n_labels)])


def any_true(score, hierarchy):
    order = order_of(score, hierarchy)
    tails = []
    for start in range(len(order)):
        tail = set(order[start:])
        none = 1.0
        for j in tail:
            parents = {hierarchy.index(p) for p in hierarchy.parents(hierarchy.labels[j])}
            if not parents & tail:
                none *= 1.0 - score[j]
        tails.append(1.0 - none)
    out = np.empty(len(order))
    for place, j in enumerate(order):
        out[j] = max(tails[place:])
    return out
