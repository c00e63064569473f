"""Penalized logistic fits of the weights of a label's own and the other labels' evidence."""

from typing import NamedTuple

import numpy as np

from hierlpr._kernels._jit import Bools2D, Floats, Floats2D, Int32s, Int64s, kernel

MAX_STEPS = 30


class HeldOutEvidence(NamedTuple):
    """Held-out evidence in log-odds, of each label's own score and of the other labels' scores.

    `own`, `others` and `truth` are (n_labels, n_samples). The samples of fold ``f`` are
    ``fold_ptr[f]:fold_ptr[f + 1]``; their evidence comes from the fit without that fold, in which
    ``prior[f, k]`` are the log-odds of label ``k`` before any score. `weight` holds one weight per
    pair, or is empty if all weights are equal.
    """

    own: Floats2D
    others: Floats2D
    truth: Bools2D
    prior: Floats2D
    fold_ptr: Int64s
    weight: Floats2D


class Cells(NamedTuple):
    """Pairs of similar evidence, merged; those of label ``k`` are ``ptr[k]:ptr[k + 1]``.

    `own`, `others` and `prior` are means over a cell, `positive` and `total` are sums of weights.
    """

    ptr: Int64s
    own: Floats
    others: Floats
    prior: Floats
    positive: Floats
    total: Floats


@kernel
def gather_cells(
    evidence: HeldOutEvidence, interval_of: Int32s, per_unit: float, start: int, stop: int
) -> tuple[Int64s, Floats, Floats, Floats, Floats, Floats]:
    """Merge the pairs of labels ``start`` to ``stop`` into cells; returns the fields of `Cells`.

    A cell is an interval of the log-odds of the LPR (own evidence plus prior) times an interval of
    the other labels' evidence. Absolute values from ``i / per_unit`` on are in interval
    ``interval_of[i]``. O(pairs + possible cells).
    """
    own, others, truth, prior, fold_ptr, weight = evidence
    n_samples = own.shape[1]
    is_weighted = weight.size > 0
    last = interval_of.size - 1
    side = 2 * (interval_of[last] + 1)
    ptr = np.zeros(stop - start + 1, np.int64)
    found = np.empty((5, min(n_samples, side * side) * (stop - start)))
    sums = np.zeros((side * side, 5))  # of one label
    cell_of = np.empty(n_samples, np.int64)
    size = 0
    for k in range(start, stop):
        for f in range(fold_ptr.size - 1):
            b = prior[f, k]
            for m in range(fold_ptr[f], fold_ptr[f + 1]):
                e = others[k, m]
                x = own[k, m] + b
                i = interval_of[min(int(abs(x) * per_unit), last)]
                j = interval_of[min(int(abs(e) * per_unit), last)]
                cell_of[m] = (2 * i + (1 if x < 0.0 else 0)) * side + 2 * j + (1 if e < 0.0 else 0)
            for m in range(fold_ptr[f], fold_ptr[f + 1]):
                t = weight[k, m] if is_weighted else 1.0
                at = cell_of[m]
                sums[at, 0] += t * own[k, m]
                sums[at, 1] += t * others[k, m]
                sums[at, 2] += t * b
                sums[at, 3] += t if truth[k, m] else 0.0
                sums[at, 4] += t
        for at in range(side * side):
            if sums[at, 4] > 0.0:
                for d in range(3):
                    found[d, size] = sums[at, d] / sums[at, 4]
                found[3, size] = sums[at, 3]
                found[4, size] = sums[at, 4]
                size += 1
                for d in range(5):
                    sums[at, d] = 0.0
        ptr[k - start + 1] = size
    return ptr, found[0, :size], found[1, :size], found[2, :size], found[3, :size], found[4, :size]


@kernel
def fit_weights(
    cells: Cells,
    group_ptr: Int64s,
    group_label: Int64s,
    target: Floats2D,
    strength: float,
    start: int,
    stop: int,
    weights: Floats2D,
) -> None:
    """Fit (own, others, shift) of the groups ``start`` to ``stop`` of labels; see `Tempering`.

    Maximizes the log-likelihood minus ``strength / 2 * |w - target|**2`` with both weights in
    [0, 1], by Newton steps on the free coordinates, starting at `weights`. O(cells) per step.
    """
    ptr, own, others, prior, positive, total = cells
    most = 0
    for k in range(ptr.size - 1):
        most = max(most, ptr[k + 1] - ptr[k])
    log_odds = np.empty(most)
    share = np.empty(most)
    gain = np.empty(most)
    for g in range(start, stop):
        w0, w1, w2 = weights[g, 0], weights[g, 1], weights[g, 2]
        best = -np.inf
        b0, b1, b2 = w0, w1, w2
        s0 = s1 = s2 = 0.0
        for _ in range(MAX_STEPS):
            value = (
                -0.5
                * strength
                * ((w0 - target[g, 0]) ** 2 + (w1 - target[g, 1]) ** 2 + (w2 - target[g, 2]) ** 2)
            )
            g0 = strength * (target[g, 0] - w0)
            g1 = strength * (target[g, 1] - w1)
            g2 = strength * (target[g, 2] - w2)
            h00 = h11 = h22 = strength
            h01 = h02 = h12 = 0.0
            for at in range(group_ptr[g], group_ptr[g + 1]):
                begin = ptr[group_label[at]]
                size = ptr[group_label[at] + 1] - begin
                # Separate loops, so that the compiler can vectorize the simple ones.
                for i in range(size):
                    c = begin + i
                    log_odds[i] = prior[c] + w0 * own[c] + w1 * others[c] + w2
                for i in range(size):
                    share[i] = np.exp(-abs(log_odds[i]))
                for i in range(size):
                    c, z = begin + i, log_odds[i]
                    gain[i] = positive[c] * z - total[c] * (max(z, 0.0) + np.log1p(share[i]))
                    inverse = 1.0 / (1.0 + share[i])
                    share[i] = inverse if z > 0.0 else share[i] * inverse
                for i in range(size):
                    c = begin + i
                    a, e = own[c], others[c]
                    d = positive[c] - total[c] * share[i]
                    v = total[c] * share[i] * (1.0 - share[i])
                    va, ve = v * a, v * e
                    value += gain[i]
                    g0 += d * a
                    g1 += d * e
                    g2 += d
                    h00 += va * a
                    h01 += va * e
                    h02 += va
                    h11 += ve * e
                    h12 += ve
                    h22 += v
            if value < best:
                # The step overshot: halve it, starting from the best weights so far.
                s0, s1, s2 = 0.5 * s0, 0.5 * s1, 0.5 * s2
                if abs(s0) + abs(s1) + abs(s2) < 1e-6:
                    break
                w0 = min(max(b0 + s0, 0.0), 1.0)
                w1 = min(max(b1 + s1, 0.0), 1.0)
                w2 = b2 + s2
                continue
            gained = value - best
            best, b0, b1, b2 = value, w0, w1, w2
            if gained < 1e-6:
                break
            # A weight at a bound stays there while the gradient points outward.
            if (w0 <= 0.0 and g0 < 0.0) or (w0 >= 1.0 and g0 > 0.0):
                g0 = h01 = h02 = 0.0
            if (w1 <= 0.0 and g1 < 0.0) or (w1 >= 1.0 and g1 > 0.0):
                g1 = h01 = h12 = 0.0
            # Solve the 3 x 3 system by elimination; the matrix is positive definite.
            f1, f2 = h01 / h00, h02 / h00
            k11, k12, k22 = h11 - f1 * h01, h12 - f1 * h02, h22 - f2 * h02
            c1, c2 = g1 - f1 * g0, g2 - f2 * g0
            f3 = k12 / k11
            s2 = (c2 - f3 * c1) / (k22 - f3 * k12)
            s1 = (c1 - k12 * s2) / k11
            s0 = (g0 - h01 * s1 - h02 * s2) / h00
            w0 = min(max(b0 + s0, 0.0), 1.0)
            w1 = min(max(b1 + s1, 0.0), 1.0)
            w2 = b2 + s2
            # An unclipped Newton step gains about half of this product: if that is little, it is
            # the last step.
            if g0 * s0 + g1 * s1 + g2 * s2 < 1e-6 and w0 == b0 + s0 and w1 == b1 + s1:
                b0, b1, b2 = w0, w1, w2
                break
        weights[g, 0], weights[g, 1], weights[g, 2] = b0, b1, b2
