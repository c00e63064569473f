"""A junction tree of the hierarchy: where exact inference on a DAG is affordable, and how."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels.joint_passes import Cliques, fill_tables
from hierlpr.hierarchy import Hierarchy

Ints = NDArray[np.int64]

MOST_CLIQUE = 14  # nodes in a clique: tables of 2**14 entries
MOST_ENTRIES = 256  # entries of all tables, a label


@dataclass(frozen=True, slots=True, eq=False)
class JunctionTree:
    """Cliques in the order in which they are eliminated, each named after its node.

    Nodes are topological numbers. Bit 0 of a place in clique ``q``'s table is ``node[q]``, the
    others are the nodes shared with clique ``parent[q]`` (-1 for none), which comes later;
    ``share_of[map_ptr[q] + j]`` is the state of the shared nodes in entry ``j`` of the parent.
    The probability of node ``i`` given its parents belongs into the table of clique ``home[i]``, in
    which it has the bit ``own_bit[i]`` and its parents have the bits ``parent_bits[i]``.
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
        """Return the cliques with their tables, from the probability of nodes given parents."""
        table = np.empty(self.table_ptr[-1])
        fill_tables(on, self.home, self.own_bit, self.parent_bits, self.table_ptr, table)
        return Cliques(self.node, self.table_ptr, table, self.parent, self.map_ptr, self.share_of)


@lru_cache(maxsize=4)
def junction_tree(hierarchy: Hierarchy) -> JunctionTree | None:
    """Return a junction tree by greedy elimination, or None if its tables would be too large.

    The node whose elimination joins the fewest pairs of its neighbours goes first (min-fill,
    Kjaerulff 1990). The tree is given up when a clique has more than `MOST_CLIQUE` nodes or all
    tables together more than `MOST_ENTRIES` entries a label.
    """
    cliques = _eliminate(hierarchy)
    if cliques is None:
        return None
    n = len(cliques)
    node = np.array([clique[0] for clique in cliques], dtype=np.int64)
    turn = np.empty(n, dtype=np.int64)
    turn[node] = np.arange(n)
    # Nodes of a clique by the turn in which they go: the next one is the parent clique's own.
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
    """Cliques in order of elimination, each with the eliminated node first."""
    near: list[set[int]] = [set() for _ in range(h.n_labels)]
    for i in range(h.n_labels):
        family = [i, *_parents(h, i)]
        for v in family:
            near[v].update(family)
    for i in range(h.n_labels):
        near[i].discard(i)
    # Entries of the heap may be out of date: a node's fill is checked again when it comes up.
    heap = [(_fill(near, i), len(near[i]), i) for i in range(h.n_labels)]
    heapify(heap)
    done = [False] * h.n_labels
    cliques: list[list[int]] = []
    budget = MOST_ENTRIES * h.n_labels
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
        if len(around) + 1 > MOST_CLIQUE or budget < 0:
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
    """Pairs of neighbours that are not joined yet; nodes with many are never looked into."""
    around = near[i]
    if len(around) >= MOST_CLIQUE:
        return len(around) ** 2
    return sum(len(around - near[v]) - 1 for v in around) // 2


def _parents(h: Hierarchy, number: int) -> list[int]:
    listed: list[int] = h.parent_idx[h.parent_ptr[number] : h.parent_ptr[number + 1]].tolist()
    return listed


def _shares(clique: list[int], parent: list[int]) -> NDArray[np.int32]:
    """State of the nodes that `clique` shares, for every entry of its parent's table."""
    entry = np.arange(1 << len(parent), dtype=np.int32)
    share = np.zeros_like(entry)
    for bit, v in enumerate(clique[1:]):
        share |= ((entry >> parent.index(v)) & 1) << bit
    return share
