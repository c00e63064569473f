"""Sweeps along the edges over arrays (labels x samples) of labels that are closed upward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr.hierarchy.matrices import close_rows

if TYPE_CHECKING:
    from hierlpr.hierarchy.label_graph import Hierarchy

CELLS = 1 << 18  # of an array (labels x samples) held at once, so that it fits into the caches
FEWEST_SAMPLES = 256  # per array, unless it would have more than MOST_CELLS
MOST_CELLS = 1 << 24
Index = NDArray[np.int32]
Bool = NDArray[np.bool_]
Batches = list[tuple[Index, Index]]


@dataclass(frozen=True, slots=True, eq=False)
class UpperSet:
    """A set of labels that is closed upward; arrays over it have one row per label.

    Attributes
    ----------
    numbers : ndarray
        Topological numbers of the labels, ascending.
    row : ndarray of shape (n_labels,)
        Row of each topological number, -1 for labels outside.
    up, down : list of (parents, children)
        Rows of all edges, in batches that no label is written to twice in, for sweeps from the
        leaves to the roots (which write to parents) and back (which write to children).
    """

    numbers: Index
    row: Index
    up: Batches
    down: Batches

    @classmethod
    def above(cls, hierarchy: Hierarchy, numbers: Any = None) -> UpperSet:
        """Return these topological numbers with all their ancestors; by default all labels."""
        kept = np.arange(hierarchy.n_labels, dtype=np.int32)
        if numbers is not None:
            own = np.unique(np.asarray(numbers, dtype=np.int32))
            kept = close_rows(hierarchy, np.array([0, own.size]), own)[1]
        row = np.full(hierarchy.n_labels, -1, dtype=np.int32)
        row[kept] = np.arange(kept.size, dtype=np.int32)
        up, down = (_among(edges, row) for edges in hierarchy.sweeps)
        return cls(kept, row, up, down)

    @property
    def size(self) -> int:
        """Number of labels."""
        return self.numbers.size

    @property
    def edges(self) -> tuple[Index, Index]:
        """Rows of parent and child of all edges."""
        none = np.empty(0, dtype=np.int32)
        parents, children = zip(*[(none, none), *self.down], strict=True)
        return np.concatenate(parents), np.concatenate(children)

    def mark(self, numbers: Any, sample: Any, n_samples: int) -> Bool:
        """Return an array (labels x samples) that is True at some (label, sample) pairs."""
        held = np.zeros((self.size, n_samples), dtype=bool)
        held[self.row[numbers], sample] = True
        return held

    def raise_up(self, values: NDArray[Any]) -> None:
        """Raise every label to the maximum over its descendants, in place."""
        for parents, children in self.up:
            values[parents] = np.maximum(values[parents], values[children])

    def any_above(self, flags: Bool) -> Bool:
        """Return whether any ancestor of a label is flagged."""
        above = np.zeros_like(flags)
        for parents, children in self.down:
            above[children] |= above[parents] | flags[parents]
        return above

    def all_parents(self, held: Bool) -> Bool:
        """Return whether all parents of a label hold."""
        found = np.ones_like(held)
        for parents, children in self.down:
            found[children] &= held[parents]
        return found


class SweepEdges(NamedTuple):
    """All edges by topological numbers, sorted for a sweep; targets are unique in a batch."""

    parent: Index
    child: Index
    batch: NDArray[np.int64]

    @classmethod
    def of(cls, parent: Index, child: Index, stage: NDArray[Any], target: Index) -> SweepEdges:
        """Sort edges by stage, and part each stage into batches without repeated targets."""
        order = np.lexsort((target, stage))
        is_first = np.ones(order.size, dtype=bool)
        is_first[1:] = (np.diff(stage[order]) != 0) | (np.diff(target[order]) != 0)
        first = np.flatnonzero(is_first)
        turn = np.arange(order.size) - np.repeat(first, np.diff(first, append=order.size))
        by_turn = np.lexsort((turn, stage[order]))
        order, turn = order[by_turn], turn[by_turn]
        starts = (np.diff(stage[order], prepend=0) != 0) | (np.diff(turn, prepend=0) != 0)
        return cls(parent[order], child[order], np.cumsum(starts))


def sweep_edges(
    parent_ptr: Index, parent_idx: Index, level: Index
) -> tuple[SweepEdges, SweepEdges]:
    """Return the edges for a sweep from the leaves to the roots, and back."""
    child = np.repeat(np.arange(level.size, dtype=np.int32), np.diff(parent_ptr))
    stage = level[child]
    up = SweepEdges.of(parent_idx, child, -stage, target=parent_idx)
    return up, SweepEdges.of(parent_idx, child, stage, target=child)


def _among(edges: SweepEdges, row: Index) -> Batches:
    """Return the batches of edges into labels that have a row; so have their parents."""
    kept = row[edges.child] >= 0
    parents, children = row[edges.parent[kept]], row[edges.child[kept]]
    starts = np.flatnonzero(np.diff(edges.batch[kept], prepend=-1))
    bounds = np.append(starts, parents.size).tolist()
    return [(parents[a:b], children[a:b]) for a, b in pairwise(bounds)]


def sample_ranges(n_samples: int, n_labels: int) -> Iterator[tuple[int, int]]:
    """Split samples into ranges whose arrays (labels x samples) are small."""
    n = max(n_labels, 1)
    step = max(8, CELLS // n, min(FEWEST_SAMPLES, MOST_CELLS // n))
    for start in range(0, n_samples, step):
        yield start, min(start + step, n_samples)
