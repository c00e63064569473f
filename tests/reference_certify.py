"""A slow twin of the certified cutoff: every pair of level and limit counted by itself."""

import math
from statistics import NormalDist

NORMAL = NormalDist()


def count(score, truth, level, limit):
    """(calls, right calls) of each sample: whole ties from the best on, never over the limit."""
    out = []
    for row, held in zip(score, truth, strict=True):
        called = [j for j, s in enumerate(row) if s >= level]
        called = [j for j in called if sum(s >= row[j] for s in row) <= limit]
        out.append((len(called), sum(bool(held[j]) for j in called)))
    return out


def stake(log_wealth, goal, beyond, left, square):
    """Hedge of a bet that pays 1 / delta if a normal sum ends high enough, at this wealth."""
    d = NORMAL.inv_cdf(math.exp(log_wealth - goal - beyond))
    return NORMAL.pdf(d) / NORMAL.cdf(d) / math.sqrt(left * square)


def log_wealth(counts, precision, largest, square, weight, goal, beyond):
    """Log wealth after all samples, or once it has reached the goal."""
    wealth, seen = 0.0, 0.0
    for k, (calls, hits) in enumerate(counts):
        if calls == 0:
            continue
        if goal - wealth > 59.9:
            return wealth
        expected = (weight * square + seen) / (weight + k)
        size = min(stake(wealth, goal, beyond, len(counts) - k, expected), largest)
        gain = hits - precision * calls
        wealth += math.log(1 + size * gain)
        seen += gain**2
        if wealth >= goal:
            return wealth
    return wealth


def binomial_p(calls, hits, precision):
    """Chance of at least so many right calls at the target."""
    return sum(
        math.comb(calls, k) * precision**k * (1 - precision) ** (calls - k)
        for k in range(hits, calls + 1)
    )


def plan(fit_score, fit_truth, levels, limits, n_samples, n_labels, alpha, delta, largest_stake):
    """(level, limit, square) of the pairs that no other beats in margin and hits, surest first."""
    goal, p, m = math.log(1 / delta), 1 - alpha, len(fit_score)
    pairs = []
    for limit in limits:
        for level in levels:
            counts = count(fit_score, fit_truth, level, limit)
            gains = [h - p * c for c, h in counts]
            drift = sum(gains) / m
            square = max(sum(g * g for g in gains) / m, 1e-12)
            wanted = math.sqrt(2 * goal / (n_samples * square))
            size = min(wanted, largest_stake / (p * limit))
            spread = math.sqrt(max(square - drift**2, 1e-3 * square) * n_samples)
            margin = (n_samples * (drift - size * square / 2) - goal / size) / spread
            idle = limit > 1 and counts == count(fit_score, fit_truth, level, limits[-1])
            useful = int(min(largest_stake / (p * wanted), n_labels))
            raised = max(limit, useful) if idle else limit
            pairs.append((margin, sum(h for _, h in counts) / m, level, raised, square))
    front = []
    for a in pairs:
        if not any(_beats(b, a) for b in pairs) and not any(b[:2] == a[:2] for b in front):
            front.append(a)
    return [pair[2:] for pair in sorted(front, key=lambda pair: -pair[0])]


def _beats(b, a):
    return b[0] >= a[0] and b[1] >= a[1] and (b[0] > a[0] or b[1] > a[1])


# -- groups of labels along edges -----------------------------------------------------------------


def group_calls(score, level, limit, group, above):
    """Calls of one sample, as label -> bool, with levels and limits per group, by definition.

    `above` maps each group to all groups that have an edge, directly or not, into it. A limit of a
    group removes everything that does not exceed the first score past it, in the groups below too.
    """
    threshold = {}
    for g, own_limit in limit.items():
        own = sorted((s for k, s in score.items() if group[k] == g), reverse=True)
        threshold[g] = own[own_limit] if own_limit is not None and len(own) > own_limit else -1.0
    return {
        k: s >= level[group[k]] and all(s > threshold[g] for g in [group[k], *above[group[k]]])
        for k, s in score.items()
    }


def lowest_allowed(certified, above):
    """Level of each group: its lowest certified level no lower than those of the groups above."""
    level = {}
    while len(level) < len(certified):
        for g in certified:
            if g not in level and all(a in level for a in above[g]):
                least = max([level[a] for a in above[g]], default=0.0)
                level[g] = min([x for x in certified[g] if x >= least], default=math.inf)
    return level
