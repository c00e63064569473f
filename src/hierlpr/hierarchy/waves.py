"""Sweeps along the edges in NumPy alone, over arrays (labels x samples).

The edges are parted into waves. All edges of a wave are followed at once, so no label may be
written to twice in one: among the edges from the children of one level, the first edge of every
parent is a wave, then the second of every parent, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Of an array (labels x samples) that is held at once: best, and at most to hold enough samples
# that the work on a wave outweighs its call.
CELLS = 1 << 18  # fit into the caches: with 2**21 an evaluation took twice as long
MOST_CELLS = 1 << 24
ENOUGH_SAMPLES = 256
Index = NDArray[np.int32]
Bool = NDArray[np.bool_]
_N_BITS = np.array([i.bit_count() for i in range(256)], dtype=np.uint8)


class Edges(NamedTuple):
    """Edges by topological numbers, in waves."""

    parent: Index
    child: Index
    wave: NDArray[np.int64]


class Waves:
    """The edges of a hierarchy in the order of an upward and of a downward sweep.

    Numbers are topological, ``parent < child``; `level` is 1 for roots.
    """

    __slots__ = ("_by_level", "_down", "_everything", "_up", "n_labels")

    def __init__(self, parent_ptr: Index, parent_idx: Index, level: Index) -> None:
        self.n_labels = level.size
        child = np.repeat(np.arange(level.size, dtype=np.int32), np.diff(parent_ptr))
        # A child passes its value on when all below it have done so, hence deep levels first.
        self._up = _in_waves(parent_idx, child, -level[child], writes_to=parent_idx)
        self._down = _in_waves(parent_idx, child, level[child], writes_to=child)
        depth = level[self._up.child]
        self._by_level = np.append(np.flatnonzero(np.diff(depth, prepend=0)), depth.size)

    @property
    def everything(self) -> Upper:
        """Sweeps over all labels, prepared once."""
        try:
            return self._everything
        except AttributeError:
            self._everything: Upper = self.above(np.arange(self.n_labels))
            return self._everything

    def above(self, numbers: Any) -> Upper:
        """Prepare sweeps over these labels and all above them."""
        is_kept = np.zeros(self.n_labels, dtype=bool)
        is_kept[numbers] = True
        parent, child, _ = self._up
        for start, stop in pairwise(self._by_level.tolist()):
            is_kept[parent[start:stop][is_kept[child[start:stop]]]] = True
        kept = np.flatnonzero(is_kept)
        place = np.full(self.n_labels, -1, dtype=np.int32)
        place[kept] = np.arange(kept.size, dtype=np.int32)
        edges, up = _among(self._up, place)
        return Upper(kept, place, edges, up, _among(self._down, place)[1])


@dataclass(frozen=True, slots=True, eq=False)
class Upper:
    """A set of labels that is closed upward; arrays over it have one row for each.

    Attributes
    ----------
    numbers : ndarray
        Topological numbers, ascending.
    place : ndarray of shape (n_labels,)
        Row of each number, -1 for labels outside.
    edges : (parents, children)
        Rows at the ends of all edges.
    up, down : list of (parents, children)
        The same for each wave.
    """

    numbers: NDArray[np.intp]
    place: Index
    edges: tuple[Index, Index]
    up: list[tuple[Index, Index]]
    down: list[tuple[Index, Index]]

    @property
    def size(self) -> int:
        """Number of labels."""
        return self.numbers.size

    def spread(self, numbers: Any, sample: Any, n_samples: int) -> Bool:
        """Mark (label, sample) pairs in an array (labels x samples)."""
        held = np.zeros((self.size, n_samples), dtype=bool)
        held[self.place[numbers], sample] = True
        return held

    def raise_up(self, values: NDArray[Any]) -> None:
        """Raise every label to its highest descendant, in place."""
        for parents, children in self.up:
            values[parents] = np.maximum(values[parents], values[children])

    def close(self, held: Bool) -> Bool:
        """Add to every sample the ancestors of its labels; eight samples at a time."""
        bits = np.packbits(held, axis=1)
        for parents, children in self.up:
            bits[parents] |= bits[children]
        return np.unpackbits(bits, axis=1, count=held.shape[1]).view(bool)

    def any_above(self, flags: Bool) -> Bool:
        """Whether any ancestor of a label is flagged."""
        bits = np.packbits(flags, axis=1)
        above = np.zeros_like(bits)
        for parents, children in self.down:
            above[children] |= above[parents] | bits[parents]
        return np.unpackbits(above, axis=1, count=flags.shape[1]).view(bool)

    def have_parents(self, held: Bool, among: Bool | None = None) -> NDArray[np.uint8]:
        """Mark, as bits, for every label the samples (of its row of `among`) with all parents."""
        bits = np.packbits(held, axis=1)
        with_all = np.packbits(np.ones((1, held.shape[1]), dtype=bool), axis=1)
        with_all = np.repeat(with_all, self.size, axis=0)
        for parents, children in self.down:
            with_all[children] &= bits[parents]
        if among is not None:
            with_all &= np.packbits(among, axis=1)
        return with_all

    def count_with_parents(self, held: Bool, among: Bool | None = None) -> NDArray[np.int64]:
        """Count for every label the samples (marked in its row of `among`) with all its parents."""
        return np.asarray(_N_BITS[self.have_parents(held, among)].sum(axis=1, dtype=np.int64))

    def count_orphans(self, held: Bool) -> int:
        """Count the (sample, parent, child) where the child is held without that parent."""
        bits = np.packbits(held, axis=1)
        parents, children = self.edges
        return int(_N_BITS[bits[children] & ~bits[parents]].sum(dtype=np.int64))

    def count_less(self, values: NDArray[Any]) -> int:
        """Count the (sample, parent, child) where the child has the smaller value."""
        parents, children = self.edges
        step = max(1, CELLS // max(values.shape[1], 1))
        return sum(
            int(np.count_nonzero(values[children[i : i + step]] < values[parents[i : i + step]]))
            for i in range(0, parents.size, step)
        )


def sample_ranges(n_samples: int, n_labels: int) -> Iterator[tuple[int, int]]:
    """Part samples into runs whose arrays (labels x samples) are small."""
    n = max(n_labels, 1)
    step = max(8, CELLS // n, min(ENOUGH_SAMPLES, MOST_CELLS // n))
    for start in range(0, n_samples, step):
        yield start, min(start + step, n_samples)


def _in_waves(parent: Index, child: Index, stage: Index, *, writes_to: Index) -> Edges:
    """Sort edges by stage; within a stage no two edges of a wave write to the same label."""
    by_target = np.lexsort((writes_to, stage))
    starts = np.ones(by_target.size, dtype=bool)
    stage, target = stage[by_target], writes_to[by_target]
    starts[1:] = (stage[1:] != stage[:-1]) | (target[1:] != target[:-1])
    first = np.flatnonzero(starts)
    turn = np.arange(by_target.size) - np.repeat(first, np.diff(first, append=by_target.size))
    order = np.lexsort((turn, stage))
    stage, turn, chosen = stage[order], turn[order], by_target[order]
    wave = np.cumsum(np.append(False, (stage[1:] != stage[:-1]) | (turn[1:] != turn[:-1])))
    return Edges(parent[chosen], child[chosen], wave[: chosen.size])


def _among(edges: Edges, place: Index) -> tuple[tuple[Index, Index], list[tuple[Index, Index]]]:
    """Edges into labels that have a place, and their waves; the parents have a place too."""
    kept = place[edges.child] >= 0
    parents, children = place[edges.parent[kept]], place[edges.child[kept]]
    bounds = np.append(np.flatnonzero(np.diff(edges.wave[kept], prepend=-1)), parents.size).tolist()
    return (parents, children), [(parents[a:b], children[a:b]) for a, b in pairwise(bounds)]
