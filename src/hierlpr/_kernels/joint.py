"""The joint posterior given all LPRs of a sample, and fits of the weights of its evidence."""

from typing import NamedTuple

import numpy as np

from hierlpr._kernels._jit import Bools, Bools2D, Floats, Floats2D, Int32s, Int64s, kernel

MAX_STEPS = 30


class Tree(NamedTuple):
    """A forest of labels with its prior; nodes are numbered with parents first.

    Node ``i`` is in column ``order[i]``. ``on[i]`` is its probability given that its parent holds,
    ``off[i]`` is one minus that, and ``prevalence[i]`` its probability before any score.
    """

    order: Int32s
    parent: Int32s
    on: Floats
    off: Floats
    prevalence: Floats


class Cliques(NamedTuple):
    """The cliques of a DAG with the tables of its prior.

    Clique ``q`` eliminates ``node[q]``, which is bit 0 of an index into its table
    ``table[table_ptr[q]:table_ptr[q + 1]]``; the other bits are the nodes it shares with its parent
    clique, a later one. In entry ``j`` of the parent's table the shared nodes have the state
    ``share_of[map_ptr[q] + j]``.
    """

    node: Int64s
    table_ptr: Int64s
    table: Floats
    parent: Int64s
    map_ptr: Int64s
    share_of: Int32s


class Bounds(NamedTuple):
    """LPRs are clipped to [floor, 1 - floor], and added log-odds to [-most, most].

    Added log-odds below `least` are rounding errors and set to 0.
    """

    floor: float
    least: float
    most: float


@kernel
def joint_forest(
    lpr: Floats2D,
    start: int,
    stop: int,
    tree: Tree,
    bounds: Bounds,
    posterior: Floats2D,
    others: Floats2D,
) -> None:
    """Write the posteriors of samples ``start`` to ``stop``: one pass up, one pass down.

    NaN in `lpr` means that a score is missing. `others` gets the log-odds of the posterior minus
    those of the label's own LPR. An output array that is empty is not written.

    A product of ratios is stored as ``value * BIG ** steps`` with ``value`` in [1 / BIG, BIG], so
    chains of any length neither overflow nor underflow. O(K) time per sample, O(K) memory.
    """
    order, parent, on, off, prevalence = tree
    floor, least, most = bounds
    n = order.size
    big = 2.0**400
    small = 2.0**-400
    below = np.empty(n)  # r times the messages of the children; then the share; then P
    steps = np.empty(n, np.int32)
    ratio = np.empty(n)  # r, the likelihood ratio of the label's own score; then of the others
    rest = np.empty(n)  # 1 - share, without cancellation; then 1 - P
    inverse_odds = np.empty(n)
    for i in range(n):
        inverse_odds[i] = (1.0 - prevalence[i]) / prevalence[i]
    for m in range(start, stop):
        for i in range(n):
            rest[i] = lpr[m, order[i]]
        for i in range(n):
            x = rest[i]
            here = min(max(x, floor), 1.0 - floor)
            ratio[i] = here / (1.0 - here) * inverse_odds[i] if x == x else 1.0
        for i in range(n):
            below[i] = ratio[i]
            steps[i] = 0
        # Invariant: when node i is reached, the messages of all its children are in below[i].
        for i in range(n - 1, -1, -1):
            yes = on[i] * below[i]
            no = off[i]
            e = steps[i]
            if e > 0:
                no = no * small if e == 1 else 0.0
            elif e < 0 and no > 0.0:
                yes = yes * small if e == -1 else 0.0
                e = 0
            message = yes + no
            below[i] = yes / message
            rest[i] = no / message
            p = parent[i]
            if p >= 0:
                product = below[p] * message
                e += steps[p]
                while product > big:
                    product *= small
                    e += 1
                while 0.0 < product < small:
                    product *= big
                    e -= 1
                below[p] = product
                steps[p] = e
        for i in range(n):
            p = parent[i]
            if p >= 0:
                rest[i] = rest[p] + below[p] * rest[i]
                below[i] *= below[p]
        if posterior.size > 0:
            for i in range(n):
                posterior[m, order[i]] = below[i]
        if others.size > 0:
            for i in range(n):
                odds = below[i] / max(rest[i], 1e-300) * inverse_odds[i] / ratio[i]
                ratio[i] = min(max(odds, 1e-300), 1e300)
            for i in range(n):
                added = np.log(ratio[i])
                others[m, order[i]] = min(max(added, -most), most) if abs(added) > least else 0.0


@kernel
def fill_tables(
    on: Floats, home: Int64s, own_bit: Int64s, parent_bits: Int64s, table_ptr: Int64s, table: Floats
) -> None:
    """Multiply each node's probability given its parents into the table of its home clique.

    Bit ``b`` of the index of an entry is the state of the clique's ``b``-th node. A node can hold
    only if all its parents do, and then has probability ``on``. O(size of the tables).
    """
    table[:] = 1.0
    for i in range(on.size):
        q = home[i]
        need = parent_bits[i]
        for j in range(table_ptr[q + 1] - table_ptr[q]):
            possible = (j & need) == need
            factor = 1.0 - on[i] if possible else 1.0
            if j & own_bit[i]:
                factor = on[i] if possible else 0.0
            table[table_ptr[q] + j] *= factor


@kernel
def joint_dag(
    lpr: Floats2D,
    start: int,
    stop: int,
    order: Int32s,
    prevalence: Floats,
    cliques: Cliques,
    bounds: Bounds,
    posterior: Floats2D,
    others: Floats2D,
    failed: Bools,
) -> None:
    """Write the posteriors of samples ``start`` to ``stop`` by a pass up and down the cliques.

    Arguments are as in `joint_forest`. A sample whose evidence exceeds the range of floats is
    marked in `failed`. O(size of the tables) per sample.
    """
    node, table_ptr, prior_table, parent, map_ptr, share_of = cliques
    floor, least, most = bounds
    n = node.size
    table = np.empty(prior_table.size)
    message = np.empty(prior_table.size)  # of clique q at table_ptr[q], half its size
    sums = np.empty(prior_table.size)
    for m in range(start, stop):
        table[:] = prior_table
        fine = True
        for q in range(n):
            x = lpr[m, order[node[q]]]
            r = 1.0
            if x == x:
                x = min(max(x, floor), 1.0 - floor)
                r = x / (1.0 - x) * (1.0 - prevalence[node[q]]) / prevalence[node[q]]
            at = table_ptr[q]
            half = (table_ptr[q + 1] - at) // 2
            total = 0.0
            for s in range(half):
                table[at + 2 * s + 1] *= r
                message[at + s] = table[at + 2 * s] + table[at + 2 * s + 1]
                total += message[at + s]
            if not 0.0 < total < np.inf:
                fine = False
                break
            p = parent[q]
            if p >= 0:
                up = table_ptr[p]
                for s in range(half):
                    message[at + s] /= total
                for j in range(table_ptr[p + 1] - up):
                    table[up + j] *= message[at + share_of[map_ptr[q] + j]]
        if not fine:
            failed[m] = True
            continue
        for q in range(n - 1, -1, -1):
            at = table_ptr[q]
            half = (table_ptr[q + 1] - at) // 2
            p = parent[q]
            if p >= 0:
                up = table_ptr[p]
                for s in range(half):
                    sums[s] = 0.0
                for j in range(table_ptr[p + 1] - up):
                    sums[share_of[map_ptr[q] + j]] += table[up + j]
                for s in range(half):
                    # What the parent knows beyond what this clique told it.
                    new = sums[s] / message[at + s] if message[at + s] > 0.0 else 0.0
                    table[at + 2 * s] *= new
                    table[at + 2 * s + 1] *= new
            yes = 0.0
            no = 0.0
            for s in range(half):
                no += table[at + 2 * s]
                yes += table[at + 2 * s + 1]
            total = yes + no
            if not 0.0 < total < np.inf:
                failed[m] = True
                break
            for s in range(2 * half):
                table[at + s] /= total
            k = order[node[q]]
            if posterior.size > 0:
                posterior[m, k] = yes / total
            if others.size > 0:
                x = lpr[m, k]
                x = min(max(x, floor), 1.0 - floor) if x == x else prevalence[node[q]]
                odds = yes / max(no, 1e-300) * (1.0 - x) / x
                added = np.log(min(max(odds, 1e-300), 1e300))
                others[m, k] = min(max(added, -most), most) if abs(added) > least else 0.0


# -- weights of the evidence ------------------------------------------------------------------


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
