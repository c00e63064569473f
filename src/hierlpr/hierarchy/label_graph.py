"""Hierarchy: an immutable label graph (tree, forest or DAG), checked once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from hierlpr._base.checks import listed, nearest
from hierlpr.exceptions import HierarchyError
from hierlpr.hierarchy import matrices
from hierlpr.hierarchy.graph import (
    Index,
    adjacency,
    collect_edges,
    collect_labels,
    collect_names,
    edges_among,
    edges_of_paths,
    levels,
    reach,
    topological_order,
    tree_text,
)
from hierlpr.hierarchy.waves import Waves

if TYPE_CHECKING:
    import networkx as nx


class Hierarchy:
    """Immutable label graph with edges from parent to child, checked once at construction.

    Users see `labels` in their own order: `labels` as given, then first appearance in the
    edges. Kernels see labels numbered topologically, so ``parent number < child number`` on
    every edge; ``order[i]`` is the user's index of label number ``i`` and ``position`` is its
    inverse. The children of number ``i`` are ``child_idx[child_ptr[i]:child_ptr[i + 1]]``, and
    the parents likewise; on a tree the numbering is depth-first, so subtrees are contiguous.

    Parameters
    ----------
    edges : iterable of (parent, child)
        Label names. Repeated edges are merged and counted in `n_merged_edges`.
    labels : iterable of str, optional
        Fixes the order of the labels and adds standalone ones.
    names : mapping of str to str, optional
        Words for people beside labels that are codes. A label may have none, and two labels the
        same. They are shown and saved, and never decide anything.

    Examples
    --------
    >>> h = Hierarchy([("disease", "cancer"), ("cancer", "leukemia")], labels=["healthy"])
    >>> h.labels
    ('healthy', 'disease', 'cancer', 'leukemia')
    >>> h.ancestors("leukemia")
    ('disease', 'cancer')
    >>> h.depth, h.is_forest
    (3, True)
    >>> Hierarchy([("C81-C96", "C91")], names={"C91": "lymphoid leukemia"}).caption("C91")
    'C91 (lymphoid leukemia)'
    """

    __slots__ = (
        "_hash",
        "_index",
        "_level",
        "_waves",
        "child_idx",
        "child_ptr",
        "is_forest",
        "labels",
        "n_merged_edges",
        "names",
        "order",
        "parent_idx",
        "parent_ptr",
        "position",
    )

    labels: tuple[str, ...]
    is_forest: bool
    n_merged_edges: int
    names: Mapping[str, str]
    order: Index
    position: Index
    child_ptr: Index
    child_idx: Index
    parent_ptr: Index
    parent_idx: Index
    _hash: int
    _index: dict[str, int]
    _level: Index
    _waves: Waves

    def __init__(
        self,
        edges: Iterable[tuple[str, str]] = (),
        labels: Iterable[str] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        found, index = collect_labels(labels)
        parent, child = collect_edges(edges, found, index)
        if not found:
            raise HierarchyError(
                "The hierarchy has no labels.\nHint: give edges (parent, child), or labels=[...]."
            )
        key = np.sort(parent * len(found) + child)
        key = key[np.append(True, key[1:] != key[:-1])[: key.size]]
        pairs = np.stack(np.divmod(key, len(found)), axis=1)
        order = topological_order(found, pairs)
        position = np.empty_like(order)
        position[order] = np.arange(order.size, dtype=np.int32)
        numbered = position[pairs]
        child_ptr, child_idx = adjacency(numbered[:, 0], numbered[:, 1], len(found))
        parent_ptr, parent_idx = adjacency(numbered[:, 1], numbered[:, 0], len(found))
        _freeze(
            self,
            labels=tuple(found),
            names=collect_names(names, index),
            _index=index,
            n_merged_edges=int(parent.size - pairs.shape[0]),
            order=order,
            position=position,
            child_ptr=child_ptr,
            child_idx=child_idx,
            parent_ptr=parent_ptr,
            parent_idx=parent_idx,
            is_forest=bool(np.all(np.diff(parent_ptr) <= 1)),
            _level=levels(parent_ptr, parent_idx),
        )

    # -- other ways to build one ---------------------------------------------------------

    @classmethod
    def from_parents(
        cls,
        parents: Mapping[str, str | Iterable[str] | None],
        *,
        names: Mapping[str, str] | None = None,
    ) -> Hierarchy:
        """Build from a map of each label to its parent, its parents, or None for a root.

        Examples
        --------
        >>> Hierarchy.from_parents({"B": "A", "C": ["A", "D"], "E": None}).roots
        ('E', 'A', 'D')
        """
        edges = []
        for child, given in parents.items():
            for parent in [given] if isinstance(given, str) else given or ():
                edges.append((parent, child))
        return cls(edges, labels=parents.keys(), names=names)

    @classmethod
    def from_paths(
        cls, paths: Iterable[str], *, sep: str = "/", names: Mapping[str, str] | None = None
    ) -> Hierarchy:
        """Build from paths; a label is named by its whole path, so segments may repeat.

        Examples
        --------
        >>> Hierarchy.from_paths(["A/B/C", "A/D"]).labels
        ('A', 'A/B', 'A/B/C', 'A/D')
        """
        edges, labels = edges_of_paths(paths, sep)
        return cls(edges, labels=labels, names=names)

    @classmethod
    def from_networkx(cls, graph: nx.DiGraph) -> Hierarchy:
        """Build from a networkx graph whose edges point from parent to child.

        An attribute ``name`` of a node, where it is text, is the label's name.
        """
        if not graph.is_directed():
            raise HierarchyError(
                "The networkx graph is undirected.\nHint: use a DiGraph, parent -> child."
            )
        named = graph.nodes(data="name")
        names = {label: name for label, name in named if isinstance(name, str) and name.strip()}
        return cls(graph.edges(), labels=graph.nodes(), names=names)

    def to_networkx(self) -> nx.DiGraph:
        """Return a networkx ``DiGraph`` with the same labels, names and edges."""
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_nodes_from(self.labels)
        graph.add_edges_from(self.edges)
        nx.set_node_attributes(graph, dict(self.names), "name")
        return graph

    def with_names(self, names: Mapping[str, str]) -> Hierarchy:
        """Return the same hierarchy with these names beside those it has; the new ones win.

        Examples
        --------
        >>> Hierarchy([("A", "B")], names={"A": "animal"}).with_names({"B": "bird"}).names["B"]
        'bird'
        """
        named = object.__new__(Hierarchy)
        shared = {slot: getattr(self, slot) for slot in self.__slots__ if hasattr(self, slot)}
        merged = {**self.names, **collect_names(names, self._index)}
        _freeze(named, **{**shared, "names": MappingProxyType(merged)})
        return named

    def subset(self, labels: Iterable[str]) -> Hierarchy:
        """Keep `labels` only; edges pass through what is dropped.

        A kept label's new parents are its nearest kept ancestors; an edge that a longer path of
        kept labels already implies is not added.

        Examples
        --------
        >>> Hierarchy([("A", "B"), ("B", "C")]).subset(["A", "C"]).edges
        (('A', 'C'),)
        """
        kept = list(labels)
        numbers = self._numbers(kept)
        if len(set(kept)) != len(kept):
            repeated = [label for label, count in Counter(kept).items() if count > 1]
            raise HierarchyError(f"subset: duplicate labels: {listed(repeated)}.")
        through = edges_among(numbers, self.parent_ptr, self.parent_idx)
        edges = [(self._name(parent), self._name(child)) for parent, child in through]
        names = {label: self.names[label] for label in kept if label in self.names}
        return Hierarchy(edges, labels=kept, names=names)

    # -- reading it -----------------------------------------------------------------------

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.labels)

    @property
    def n_edges(self) -> int:
        """Number of distinct edges."""
        return int(self.child_idx.size)

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Every (parent, child) pair of names, in topological order."""
        parents = np.repeat(self.order, np.diff(self.child_ptr)).tolist()
        children = self.order[self.child_idx].tolist()
        name = self.labels
        return tuple((name[p], name[c]) for p, c in zip(parents, children, strict=True))

    @property
    def roots(self) -> tuple[str, ...]:
        """Labels without a parent, in the user's order."""
        is_root = np.diff(self.parent_ptr)[self.position] == 0
        return tuple(self.labels[i] for i in np.flatnonzero(is_root))

    @property
    def leaves(self) -> tuple[str, ...]:
        """Labels without a child, in the user's order."""
        is_leaf = np.diff(self.child_ptr)[self.position] == 0
        return tuple(self.labels[i] for i in np.flatnonzero(is_leaf))

    @property
    def levels(self) -> Index:
        """Level of each label, in the user's order: 1 for roots, else below its deepest parent."""
        return self._level[self.position]

    @property
    def depth(self) -> int:
        """Number of labels on the longest path; 1 if every label stands alone."""
        return int(self._level.max())

    def index(self, label: str) -> int:
        """Column of `label` in every matrix, that is its place in `labels`."""
        return int(self.order[self._number(label)])

    def name(self, label: str) -> str:
        """Name of `label`; the label itself if it has none."""
        self._number(label)
        return self.names.get(label, label)

    def caption(self, label: str) -> str:
        """Text to show for `label`: the label, and its name in brackets if that says more."""
        name = self.name(label)
        return label if name == label else f"{label} ({name})"

    def parents(self, label: str) -> tuple[str, ...]:
        """Direct parents."""
        return self._names(self._parents_of(self._number(label)))

    def children(self, label: str) -> tuple[str, ...]:
        """Direct children."""
        return self._names(self._children_of(self._number(label)))

    def ancestors(self, label: str) -> tuple[str, ...]:
        """Every label above, without `label` itself; parents come before their children."""
        return self._names(reach(self._number(label), self.parent_ptr, self.parent_idx))

    def descendants(self, label: str) -> tuple[str, ...]:
        """Every label below, without `label` itself; parents come before their children."""
        return self._names(reach(self._number(label), self.child_ptr, self.child_idx))

    # -- matrices over it -------------------------------------------------------------------

    def close_upward(self, truth: Any) -> Any:
        """Add to every sample all ancestors of its labels.

        Parameters
        ----------
        truth : array-like, scipy sparse or data frame of shape (n_samples, n_labels)
            Anything nonzero is a label that holds. Frames go by the names of their columns.

        Returns
        -------
        ndarray of bool, csr_array of bool for sparse input, or the frame with its labels closed

        Examples
        --------
        >>> Hierarchy([("A", "B"), ("B", "C")]).close_upward([[0, 0, 1], [0, 1, 0]])
        array([[ True,  True,  True],
               [ True,  True, False]])
        """
        return matrices.close_upward(self, truth)

    def violations(self, matrix: Any) -> matrices.Violations:
        """Find every (sample, parent, child) where the child's value exceeds the parent's.

        Works for truth (a label without its parent) as for scores (a child above its parent).

        Examples
        --------
        >>> list(Hierarchy([("A", "B")]).violations([[0.2, 0.9], [0.9, 0.2]]))
        [(0, 'A', 'B')]
        """
        return matrices.find_violations(self, matrix)

    @property
    def waves(self) -> Waves:
        """The edges in waves, for sweeps over arrays (labels x samples)."""
        try:
            return self._waves
        except AttributeError:
            _freeze(self, _waves=Waves(self.parent_ptr, self.parent_idx, self._level))
            return self._waves

    # -- plumbing ---------------------------------------------------------------------------

    def _number(self, label: str) -> int:
        try:
            return int(self.position[self._index[label]])
        except (KeyError, TypeError):
            raise HierarchyError(
                f"The hierarchy has no label {label!r}.{self._hint(label)}"
            ) from None

    def _numbers(self, labels: Sequence[str]) -> Index:
        unknown = [x for x in labels if x not in self._index]
        if unknown:
            raise HierarchyError(
                f"{len(unknown):,} label(s) are not in the hierarchy: {listed(unknown)}."
                f"{self._hint(unknown[0])}"
            )
        return self.position[[self._index[x] for x in labels]]

    def _hint(self, unknown: object) -> str:
        near = nearest(unknown, self._index)
        return f"\nHint: {near}" if near else ""

    def _name(self, number: int) -> str:
        return self.labels[int(self.order[number])]

    def _names(self, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(self._name(number) for number in numbers)

    def _parents_of(self, number: int) -> Index:
        return self.parent_idx[self.parent_ptr[number] : self.parent_ptr[number + 1]]

    def _children_of(self, number: int) -> Index:
        return self.child_idx[self.child_ptr[number] : self.child_ptr[number + 1]]

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"A Hierarchy cannot be changed (tried to set {name!r}).")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"A Hierarchy cannot be changed (tried to delete {name!r}).")

    def __len__(self) -> int:
        return self.n_labels

    def __contains__(self, label: object) -> bool:
        return label in self._index

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hierarchy):
            return NotImplemented
        return (
            self.labels == other.labels
            and np.array_equal(self.child_ptr, other.child_ptr)
            and np.array_equal(self.child_idx, other.child_idx)
            and self.names == other.names
        )

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            parts = (self.labels, self.child_ptr.tobytes(), self.child_idx.tobytes())
            _freeze(self, _hash=hash(parts))
            return self._hash

    def __deepcopy__(self, memo: object) -> Hierarchy:
        return self  # immutable: a copy could never differ

    def __reduce__(self) -> tuple[type[Hierarchy], tuple[Any, ...]]:
        return Hierarchy, (self.edges, self.labels, dict(self.names))

    def __repr__(self) -> str:
        kind = "forest" if self.is_forest else "DAG"
        return (
            f"<Hierarchy: {kind}, {self.n_labels:,} labels, {self.n_edges:,} edges, "
            f"{len(self.roots):,} roots, depth {self.depth}>"
        )

    def __str__(self) -> str:
        """Show the first labels as a tree."""
        return f"{self!r}\n{tree_text(self)}"

    def _repr_html_(self) -> str:
        """Show the same in a notebook."""
        return f"<pre>{escape(str(self))}</pre>"


def _freeze(hierarchy: Hierarchy, **fields: Any) -> None:
    for name, value in fields.items():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
        object.__setattr__(hierarchy, name, value)
