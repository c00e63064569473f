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


def by_cost(chance, floor):
    """Values of labels in their order: 1 less the isotonic cost, by the min-max formula."""
    likely = [v for v in chance if v >= floor]
    cost = -np.diff([1.0, *likely])
    out = []
    for j in range(len(likely)):
        means = [[cost[a : b + 1].mean() for b in range(j, len(cost))] for a in range(j + 1)]
        out.append(1.0 - max(min(row) for row in means))
    return np.array([*out, *chance[len(likely) :]])


def end_posterior(lpr, prior, weight, hierarchy):
    """Where the path of one sample ends, by listing all ends; last, nowhere."""
    known, rate = (np.clip(x, 2.0**-30, 1 - 2.0**-30) for x in (lpr, prior))
    ratio = known / (1 - known) / (rate / (1 - rate))
    mass = []
    for j, label in enumerate(hierarchy.labels):
        path = [label, *hierarchy.ancestors(label)]
        own = max(prior[j] - sum(prior[hierarchy.index(c)] for c in hierarchy.children(label)), 0.0)
        for name in path:
            depth = len(hierarchy.ancestors(name))
            own *= ratio[hierarchy.index(name)] ** weight[depth]
        mass.append(own)
    mass.append(max(1.0 - sum(prior[hierarchy.index(r)] for r in hierarchy.roots), 0.0))
    return np.array(mass) / sum(mass)


def depth_loss(weight, lpr, truth, prior, hierarchy):
    """Log-loss of the true ends with a pull toward 1, which weights of depths minimize."""
    total = 0.5 * ((np.asarray(weight) - 1.0) ** 2).sum()
    for values, held in zip(lpr, truth, strict=True):
        names = [label for label, here in zip(hierarchy.labels, held, strict=True) if here]
        deepest = max(names, key=lambda name: len(hierarchy.ancestors(name)), default=None)
        end = hierarchy.n_labels if deepest is None else hierarchy.index(deepest)
        found = end_posterior(values, prior, weight, hierarchy)[end]
        total -= np.log(max(found, 1e-300))
    return total
