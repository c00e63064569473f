"""Junction tree of a hierarchy, for exact inference on DAGs where that is affordable."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels.joint_passes import Cliques, fill_tables
from hierlpr.hierarchy import Hierarchy

Ints = NDArray[np.int64]

MAX_CLIQUE = 14  # nodes per clique: tables of 2**14 entries
MAX_ENTRIES = 256  # entries of all tables together, per label


@dataclass(frozen=True, slots=True, eq=False)
class JunctionTree:
    """Cliques in elimination order, each named after the node that it eliminates.

    Nodes are topological numbers. In the index of an entry of clique ``q``'s table, bit 0 is the
    state of ``node[q]``; the other bits are the nodes shared with clique ``parent[q]`` (-1 if
    none), which comes later. ``share_of[map_ptr[q] + j]`` is the state of the shared nodes in entry
    ``j`` of the parent. The probability of node ``i`` given its parents is in the table of clique
    ``home[i]``, where it has bit ``own_bit[i]`` and its parents have bits ``parent_bits[i]``.
    """

    node: Ints
    table_ptr: Ints
    parent: Ints
    map_ptr: Ints
    share_of: NDArray[np.int32]
    home: Ints
    own_bit: Ints
    parent_bits: Ints

    def cliques(self, on: NDArray[np.float64]) -> Cliques:
        """Return the cliques with their tables; `on` is P(node | parents)."""
        table = np.empty(self.table_ptr[-1])
        fill_tables(on, self.home, self.own_bit, self.parent_bits, self.table_ptr, table)
        return Cliques(self.node, self.table_ptr, table, self.parent, self.map_ptr, self.share_of)


@lru_cache(maxsize=4)
def junction_tree(hierarchy: Hierarchy) -> JunctionTree | None:
    """Return a junction tree by greedy elimination, or None if its tables would be too large.

    The node whose elimination joins the fewest pairs of neighbours goes first (min-fill, Kjaerulff
    1990). Returns None if a clique has more than `MAX_CLIQUE` nodes or all tables together more
    than `MAX_ENTRIES` entries per label.
    """
    cliques = _eliminate(hierarchy)
    if cliques is None:
        return None
    n = len(cliques)
    node = np.array([clique[0] for clique in cliques], dtype=np.int64)
    turn = np.empty(n, dtype=np.int64)
    turn[node] = np.arange(n)
    # Nodes of a clique in elimination order: the second one is the node of the parent clique.
    ordered = [sorted(clique, key=lambda v: int(turn[v])) for clique in cliques]
    sizes = np.array([1 << len(clique) for clique in ordered], dtype=np.int64)
    table_ptr = np.concatenate([np.zeros(1, np.int64), sizes.cumsum()])
    parent = np.array([turn[c[1]] if len(c) > 1 else -1 for c in ordered], dtype=np.int64)
    maps = [_shares(ordered[q], ordered[parent[q]]) for q in range(n) if parent[q] >= 0]
    lengths = np.array([sizes[p] if p >= 0 else 0 for p in parent], dtype=np.int64)
    home = np.empty(n, dtype=np.int64)
    own_bit = np.empty(n, dtype=np.int64)
    parent_bits = np.zeros(n, dtype=np.int64)
    for i in range(n):
        family = [i, *_parents(hierarchy, i)]
        home[i] = q = min(int(turn[v]) for v in family)
        place = {v: 1 << b for b, v in enumerate(ordered[q])}
        own_bit[i] = place[i]
        parent_bits[i] = sum(place[v] for v in family[1:])
    return JunctionTree(
        node,
        table_ptr,
        parent,
        np.concatenate([np.zeros(1, np.int64), lengths.cumsum()])[:-1],
        np.concatenate([np.empty(0, np.int32), *maps]),
        home,
        own_bit,
        parent_bits,
    )


def _eliminate(h: Hierarchy) -> list[list[int]] | None:
    """Return the cliques in elimination order, each with its eliminated node first."""
    near: list[set[int]] = [set() for _ in range(h.n_labels)]
    for i in range(h.n_labels):
        family = [i, *_parents(h, i)]
        for v in family:
            near[v].update(family)
    for i in range(h.n_labels):
        near[i].discard(i)
    # Entries of the heap may be outdated: the fill of a node is checked again when it is popped.
    heap = [(_fill(near, i), len(near[i]), i) for i in range(h.n_labels)]
    heapify(heap)
    done = [False] * h.n_labels
    cliques: list[list[int]] = []
    budget = MAX_ENTRIES * h.n_labels
    while heap:
        fill, degree, i = heappop(heap)
        if done[i]:
            continue
        now = _fill(near, i)
        if degree != len(near[i]) or fill != now:
            heappush(heap, (now, len(near[i]), i))
            continue
        around = sorted(near[i])
        budget -= 2 << len(around)
        if len(around) + 1 > MAX_CLIQUE or budget < 0:
            return None
        done[i] = True
        cliques.append([i, *around])
        for v in around:
            near[v].update(around)
            near[v] -= {v, i}
        for v in around:
            heappush(heap, (_fill(near, v), len(near[v]), v))
    return cliques


def _fill(near: list[set[int]], i: int) -> int:
    """Count pairs of neighbours that are not joined yet; an upper bound for large cliques."""
    around = near[i]
    if len(around) >= MAX_CLIQUE:
        return len(around) ** 2
    return sum(len(around - near[v]) - 1 for v in around) // 2


def _parents(h: Hierarchy, number: int) -> list[int]:
    parents: list[int] = h.parent_idx[h.parent_ptr[number] : h.parent_ptr[number + 1]].tolist()
    return parents


def _shares(clique: list[int], parent: list[int]) -> NDArray[np.int32]:
    """Return the state of the shared nodes of `clique` for every entry of its parent's table."""
    entry = np.arange(1 << len(parent), dtype=np.int32)
    share = np.zeros_like(entry)
    for bit, v in enumerate(clique[1:]):
        share |= ((entry >> parent.index(v)) & 1) << bit
    return share
