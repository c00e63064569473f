"""Scores coarsened to a few values a label: sorted once, then counted and looked up in any part."""

import numpy as np

from hierlpr._kernels._arrays import Bools, Bools2, Floats, Floats2, Ints, Ints2, Sides2
from hierlpr._kernels._jit import kernel


@kernel
def coarsen_scores(
    scores: Floats2,
    order: Ints2,
    normal_table: Floats,
    n_codes: int,
    start: int,
    code: Sides2,
    place: Floats2,
    n_scores: Ints,
) -> None:
    """Give scores codes: numbers of intervals of the normal score of their rank in the label.

    Rows of `scores` are the labels from `start` on; ``order[k]`` sorts row ``k``, NaN last. Up to
    `n_codes` distinct scores of a label have a code each; beyond, scores in one of `n_codes`
    intervals of equal width share it. Writes to columns of `code` (-1 if missing), and to `place`
    where the score lies on the scale of codes, on which each code stands at the mean normal score
    of its own: so that a function known at the codes can be interpolated. `n_scores` gets the
    number of distinct scores of each label. O(size).
    """
    n_labels, n_samples = scores.shape
    last = normal_table.size - 1
    z = np.empty(n_samples)
    mean = np.empty(n_codes)
    for k in range(n_labels):
        n_there = 0
        n_distinct = 0
        while n_there < n_samples:
            score = scores[k, order[k, n_there]]
            if score != score:
                break
            if n_there == 0 or score > scores[k, order[k, n_there - 1]]:
                n_distinct += 1
            n_there += 1
        for i in range(n_there, n_samples):
            code[order[k, i], start + k] = -1
            place[order[k, i], start + k] = np.nan
        n_scores[start + k] = n_distinct
        few = n_distinct <= n_codes
        i = 0
        while i < n_there:  # ties have one normal score, that of their middle rank
            end = i + 1
            while end < n_there and scores[k, order[k, end]] == scores[k, order[k, i]]:
                end += 1
            at = 0.5 * (i + end) / n_there * last
            j = min(max(int(at), 1), last - 2)
            t = min(max(at - j, 0.0), 1.0)
            value = normal_table[j] + t * (normal_table[j + 1] - normal_table[j])
            for r in range(i, end):
                z[r] = value
            i = end
        per_unit = 0.0 if few else n_codes / (z[n_there - 1] - z[0])
        c = -1
        interval = -1
        weight = 0.0
        for i in range(n_there):
            at_interval = min(int((z[i] - z[0]) * per_unit), n_codes - 1)
            is_new = i == 0 or (z[i] > z[i - 1] if few else at_interval > interval)
            if is_new:  # intervals without a score have no code
                interval = at_interval
                c += 1
                mean[c] = 0.0
                weight = 0.0
            weight += 1.0
            mean[c] += (z[i] - mean[c]) / weight
            code[order[k, i], start + k] = c
        size = c + 1
        for i in range(n_there):
            m = order[k, i]
            c = code[m, start + k]
            x = float(c)
            if not few:
                if z[i] > mean[c] and c < size - 1:
                    x += (z[i] - mean[c]) / (mean[c + 1] - mean[c])
                elif z[i] < mean[c] and c > 0:
                    x -= (mean[c] - z[i]) / (mean[c] - mean[c - 1])
            place[m, start + k] = x


@kernel
def count_codes(
    code: Sides2, truth: Bools2, use: Bools, weight: Floats2, positive: Floats2, total: Floats2
) -> None:
    """Add up the samples of each (label, code) to `total`, and those that hold to `positive`.

    Only samples with ``use`` count, by `weight` (n_labels, n_samples), or alike if that is empty.
    O(size).
    """
    n_samples, n_labels = code.shape
    is_weighted = weight.size > 0
    for begin in range(0, n_labels, 64):  # a cache line of codes; their counts stay in the cache
        for m in range(n_samples):
            if use[m]:
                for k in range(begin, min(begin + 64, n_labels)):
                    c = code[m, k]
                    if c >= 0:
                        w = weight[k, m] if is_weighted else 1.0
                        total[k, c] += w
                        if truth[m, k]:
                            positive[k, c] += w


@kernel
def look_up_codes(
    place: Floats2, log_odds: Floats2, prior: Floats, lpr: Floats2, own: Floats2
) -> None:
    """Interpolate the LPRs of samples from their log-odds at the codes, (n_codes, n_labels).

    Log-odds are nearly straight on the scale of codes. Writes the LPR to `lpr`, NaN if the score
    is missing, and to `own` its log-odds over those of `prior`, then 0. O(size).
    """
    n_samples, n_labels = place.shape
    for m in range(n_samples):
        for k in range(n_labels):
            at = place[m, k]
            if at != at:
                lpr[m, k] = np.nan
                own[m, k] = 0.0
                continue
            c = min(int(at), log_odds.shape[0] - 2)
            x = log_odds[c, k] + (at - c) * (log_odds[c + 1, k] - log_odds[c, k])
            lpr[m, k] = 1.0 / (1.0 + np.exp(-x))
            own[m, k] = x - prior[k]
