"""The joint posterior given all LPRs of a sample, and fits of the weights of its evidence."""

from typing import Any, NamedTuple

import numpy as np

from hierlpr._kernels._jit import Bools, Bools2D, Floats, Floats2D, Int32s, Int64s, kernel

MAX_STEPS = 30
# Bounds of the weights of own evidence, of other evidence, and of the shift.
LEAST = np.array([0.0, 0.0, -np.inf])
MOST = np.array([1.0, 1.0, np.inf])


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
    of_others: bool,
    out: Floats2D,
) -> None:
    """Write the posteriors of samples ``start`` to ``stop``: one pass up, one pass down.

    NaN in `lpr` means that a score is missing. With `of_others`, `out` gets the log-odds of the
    posterior minus those of the label's own LPR instead.

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
        if not of_others:
            for i in range(n):
                out[m, order[i]] = below[i]
            continue
        for i in range(n):
            odds = below[i] / max(rest[i], 1e-300) * inverse_odds[i] / ratio[i]
            ratio[i] = min(max(odds, 1e-300), 1e300)
        for i in range(n):
            added = np.log(ratio[i])
            out[m, order[i]] = min(max(added, -most), most) if abs(added) > least else 0.0


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
    of_others: bool,
    out: Floats2D,
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
        for j in range(table.size):  # an assignment of slices compiles for more than a second
            table[j] = prior_table[j]
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
                    # The parent's evidence without the message of this clique.
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
            if not of_others:
                out[m, k] = yes / total
                continue
            x = lpr[m, k]
            x = min(max(x, floor), 1.0 - floor) if x == x else prevalence[node[q]]
            odds = yes / max(no, 1e-300) * (1.0 - x) / x
            added = np.log(min(max(odds, 1e-300), 1e300))
            out[m, k] = min(max(added, -most), most) if abs(added) > least else 0.0


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


def gather_cells(
    evidence: HeldOutEvidence, interval_of: Int32s, per_unit: float, start: int, stop: int
) -> Cells:
    """Merge the pairs of labels ``start`` to ``stop`` into cells.

    A cell is an interval of the log-odds of the LPR (own evidence plus prior) times an interval of
    the other labels' evidence. Absolute values from ``i / per_unit`` on are in interval
    ``interval_of[i]``. O(pairs + possible cells).
    """
    n_labels, last = stop - start, interval_of.size - 1
    side = 2 * (int(interval_of[last]) + 1)
    own, others = evidence.own[start:stop], evidence.others[start:stop]
    truth = evidence.truth[start:stop]
    prior = np.repeat(evidence.prior[:, start:stop].T, np.diff(evidence.fold_ptr), axis=1)

    def interval(x: Floats2D) -> Int64s:
        place = np.minimum(np.abs(x) * per_unit, last).astype(np.int64)
        return np.asarray(2 * interval_of[place] + (x < 0.0), dtype=np.int64)

    cell = interval(own + prior) * side + interval(others)
    cell += side * side * np.arange(n_labels)[:, None]
    weight = evidence.weight[start:stop] if evidence.weight.size else np.ones(cell.shape)
    total, *sums = (
        np.bincount(cell.ravel(), (weight * x).ravel(), n_labels * side * side)
        for x in (1.0, own, others, prior, truth)
    )
    used = np.flatnonzero(total > 0.0)
    mass = np.asarray(total[used], dtype=np.float64)
    own, others, prior, positive = (np.asarray(x[used], dtype=np.float64) for x in sums)
    ptr = np.searchsorted(used, side * side * np.arange(n_labels + 1))
    return Cells(ptr, own / mass, others / mass, prior / mass, positive, mass)


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
    labels = group_label[group_ptr[start] : group_ptr[stop]]
    sizes, active = np.diff(cells.ptr)[labels], np.arange(start, stop)
    take = np.repeat(cells.ptr[labels] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
    columns = np.stack(cells[1:])[:, take]
    group = np.repeat(np.arange(stop - start), np.diff(group_ptr[start : stop + 1])).repeat(sizes)
    goal, best, w = (x[start:stop].copy() for x in (target, weights, weights))
    value, step = np.full(active.size, -np.inf), np.zeros(w.shape)
    for _ in range(MAX_STEPS):
        new, gradient, information = _log_likelihood(columns, group, w)
        new -= 0.5 * strength * ((goal - w) ** 2).sum(axis=1)
        gradient += strength * (goal - w)
        information += strength * np.eye(3)
        is_worse = new < value  # the step overshot: halve it, starting from the best weights
        is_last = np.where(is_worse, np.abs(step).sum(axis=1) < 2e-6, new - value < 1e-6)
        value = np.where(is_worse, value, new)
        best = np.where(is_worse[:, None], best, w)
        # A weight at a bound stays there while the gradient points outward.
        is_free = (best > LEAST) | (gradient >= 0.0)
        is_free &= (best < MOST) | (gradient <= 0.0)
        gradient *= is_free
        both_free = is_free[:, :, None] & is_free[:, None, :]
        newton = np.linalg.solve(np.where(both_free, information, np.eye(3)), gradient[..., None])
        step = np.where(is_worse[:, None], 0.5 * step, newton[..., 0])
        w = np.clip(best + step, LEAST, MOST)
        # An unclipped Newton step gains about half of this product: if that is little, it is the
        # last step.
        ends = ~is_worse & ~is_last & (w == best + step).all(axis=1)
        ends &= (gradient * step).sum(axis=1) < 1e-6
        weights[active] = np.where(ends[:, None], w, best)
        stays = ~(is_last | ends)
        if not stays.any():
            break
        active, goal, best, w, value, step = (
            x[stays] for x in (active, goal, best, w, value, step)
        )
        used = stays[group]
        columns, group = columns[:, used], (np.cumsum(stays) - 1)[group[used]]


def _log_likelihood(columns: Floats2D, group: Int64s, w: Floats2D) -> tuple[Any, Any, Any]:
    """Return the log-likelihood of each group, its gradient and its information by `w`."""
    own, others, prior, positive, total = columns
    w0, w1, w2 = w.T[:, group]
    log_odds = prior + w0 * own + w1 * others + w2
    small = np.exp(-np.abs(log_odds))
    share = np.where(log_odds > 0.0, 1.0, small) / (1.0 + small)
    gain = positive * log_odds - total * (np.maximum(log_odds, 0.0) + np.log1p(small))
    residual, v = positive - total * share, total * share * (1.0 - share)
    va, ve = v * own, v * others
    first = (gain, residual * own, residual * others, residual)
    second = (va * own, va * others, va, ve * others, ve, v)
    value, *gradient, h00, h01, h02, h11, h12, h22 = (
        np.bincount(group, x, len(w)) for x in (*first, *second)
    )
    information = np.array([[h00, h01, h02], [h01, h11, h12], [h02, h12, h22]])
    return np.asarray(value), np.stack(gradient, axis=1), information.transpose(2, 0, 1)
