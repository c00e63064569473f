"""The exact posterior on DAGs whose junction tree is small: collect and distribute."""

import numpy as np

from hierlpr._kernels._arrays import Bools, Floats, Floats2, Index, Ints
from hierlpr._kernels._jit import kernel

__all__ = ["fill_tables", "joint_dag"]


@kernel
def fill_tables(
    on: Floats, home: Ints, own_bit: Ints, parent_bits: Ints, table_ptr: Ints, table: Floats
) -> None:
    """Multiply each node's probability given its parents into the table of its home clique.

    Bit ``b`` of an entry's place tells whether the clique's ``b``-th node holds. A node can hold
    only if all its parents do, and then does with probability ``on``. O(size of the tables).
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
    lpr: Floats2,
    start: int,
    stop: int,
    order: Index,
    node: Ints,
    table_ptr: Ints,
    prior_table: Floats,
    parent: Ints,
    map_ptr: Ints,
    share_of: Index,
    prevalence: Floats,
    floor: float,
    most: float,
    posterior: Floats2,
    others: Floats2,
    failed: Bools,
) -> None:
    """Write the posteriors of samples ``start`` to ``stop`` by a pass up and down the cliques.

    Clique ``q`` is named after the node it eliminates, ``node[q]``, which is bit 0 of the places in
    its table ``prior_table[table_ptr[q]:table_ptr[q + 1]]``; the other bits are the nodes it
    shares with its parent clique, a later one. Entry ``j`` of the parent's table agrees with the
    shared nodes' state ``share_of[map_ptr[q] + j]``. See `joint_forest` for the rest.

    A sample whose evidence contradicts itself beyond the range of floats is marked in `failed`.
    O(size of the tables) a sample.
    """
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
            posterior[m, k] = yes / total
            if others.size > 0:
                x = lpr[m, k]
                x = min(max(x, floor), 1.0 - floor) if x == x else prevalence[node[q]]
                odds = yes / max(no, 1e-300) * (1.0 - x) / x
                added = np.log(min(max(odds, 1e-300), 1e300))
                others[m, k] = min(max(added, -most), most)
