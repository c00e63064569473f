"""Scores coarsened to a few values a label: sorted once, then counted and looked up in any part."""

import numpy as np

from hierlpr._kernels._arrays import Bools2, Floats, Floats2, Ints, Ints2, Sides2
from hierlpr._kernels._jit import kernel

AT_ONCE = 128  # samples whose rows stay in the cache while labels are written to them


@kernel
def coarsen_scores(
    scores: Floats2,
    order: Ints2,
    column_of: Ints,
    normal_table: Floats,
    start: int,
    code: Sides2,
    place: Floats2,
    middle: Floats2,
    n_scores: Ints,
) -> None:
    """Give scores codes: numbers of intervals of the normal score of their rank in the label.

    Rows of `scores` are the labels from `start` on; ``order[k]`` sorts row ``k``, NaN last. With
    ``n_codes`` the width of `middle`, up to that many distinct scores of a label have a code each;
    beyond, scores in one of as many intervals of equal width share it. Sample ``m`` is column
    ``column_of[m]`` of `code` (-1 if missing) and of `place`: where the score lies on the scale of
    codes, on which each code stands at the mean normal score of its own, so that a function known
    at the codes can be interpolated. `middle` gets the middle score of each code, that of the last
    beyond it, and `n_scores` the number of distinct scores of each label. O(size).
    """
    n_labels, n_samples = scores.shape
    n_codes = middle.shape[1]
    last = normal_table.size - 1
    score = np.empty(n_samples)
    z = np.empty(n_samples)
    mean = np.empty(n_codes)
    first = np.empty(n_codes + 1, np.int64)
    for k in range(n_labels):
        row = start + k
        n_there = 0
        n_distinct = 0
        while n_there < n_samples:
            value = scores[k, order[k, n_there]]
            if value != value:
                break
            if n_there == 0 or value > score[n_there - 1]:
                n_distinct += 1
            score[n_there] = value
            n_there += 1
        for i in range(n_there, n_samples):
            m = column_of[order[k, i]]
            code[row, m] = -1
            place[row, m] = np.nan
        n_scores[row] = n_distinct
        few = n_distinct <= n_codes
        i = 0
        while i < n_there:  # ties have one normal score, that of their middle rank
            end = i + 1
            while end < n_there and score[end] == score[i]:
                end += 1
            at = 0.5 * (i + end) / n_there * last
            j = min(max(int(at), 1), last - 2)
            t = min(max(at - j, 0.0), 1.0)
            value = normal_table[j] + t * (normal_table[j + 1] - normal_table[j])
            for r in range(i, end):
                z[r] = value
            i = end
        per_unit = 0.0 if few else n_codes / (z[n_there - 1] - z[0])
        size = 0
        interval = 0
        for i in range(n_there):  # intervals without a score have no code
            at_interval = min(int((z[i] - z[0]) * per_unit), n_codes - 1)
            if i == 0 or (z[i] > z[i - 1] if few else at_interval > interval):
                first[size] = i
                size += 1
            interval = at_interval
        first[size] = n_there
        for c in range(size):
            total = 0.0
            for i in range(first[c], first[c + 1]):
                total += z[i]
            mean[c] = total / (first[c + 1] - first[c])
        for c in range(size):
            middle[row, c] = score[(first[c] + first[c + 1] - 1) // 2]
            below = mean[c] - mean[c - 1] if c > 0 and not few else np.inf
            above = mean[c + 1] - mean[c] if c < size - 1 and not few else np.inf
            for i in range(first[c], first[c + 1]):
                away = z[i] - mean[c]
                z[i] = c + away / (above if away > 0.0 else below)
            for i in range(first[c], first[c + 1]):
                m = column_of[order[k, i]]
                code[row, m] = c
                place[row, m] = z[i]
        for c in range(size, n_codes if size > 0 else 0):
            middle[row, c] = middle[row, size - 1]


@kernel
def count_codes(
    code: Sides2,
    truth: Bools2,
    weight: Floats2,
    start: int,
    stop: int,
    positive: Floats2,
    total: Floats2,
) -> None:
    """Add up the samples of each (label, code) to `total`, and those that hold to `positive`.

    Rows are labels. Samples ``start`` to ``stop`` count, by `weight`, or alike if that is empty.
    O(size).
    """
    is_weighted = weight.size > 0
    for k in range(code.shape[0]):
        for m in range(start, stop):
            c = code[k, m]
            if c >= 0:
                w = weight[k, m] if is_weighted else 1.0
                total[k, c] += w
                if truth[k, m]:
                    positive[k, c] += w


@kernel
def look_up_codes(
    place: Floats2,
    start: int,
    stop: int,
    log_odds: Floats2,
    prior: Floats,
    lpr: Floats2,
    own: Floats2,
    first: int,
) -> None:
    """Interpolate the LPRs of samples ``start`` to ``stop`` from log-odds (n_labels, n_codes).

    Log-odds are nearly straight on the scale of codes. Rows of `lpr` are samples from its first on;
    it gets NaN where the score is missing. Rows of `own` are labels, like those of `place`; its
    columns from `first` on get the log-odds over those of `prior`, 0 if missing. O(size).
    """
    n_labels = place.shape[0]
    last = log_odds.shape[1] - 2
    x = np.empty(AT_ONCE)
    for begin in range(start, stop, AT_ONCE):
        size = min(AT_ONCE, stop - begin)
        for k in range(n_labels):
            for i in range(size):
                at = place[k, begin + i]
                c = min(int(at), last) if at == at else 0
                x[i] = log_odds[k, c] + (at - c) * (log_odds[k, c + 1] - log_odds[k, c])
            for i in range(size):
                evidence = x[i] - prior[k]
                own[k, first + begin - start + i] = evidence if x[i] == x[i] else 0.0
            for i in range(size):
                lpr[begin - start + i, k] = 1.0 / (1.0 + np.exp(-x[i]))
