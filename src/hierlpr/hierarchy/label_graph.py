"""Hierarchy: an immutable label graph (tree, forest or DAG), checked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from hierlpr._utils.checks import nearest, quote_names
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
from hierlpr.hierarchy.matrices import SweepEdges, sweep_edges
from hierlpr.hierarchy.roll_up import RollUp, roll_up

if TYPE_CHECKING:
    import networkx as nx


class Hierarchy:
    """Immutable label graph with edges from parent to child, checked once at construction.

    `labels` keeps the user's order: `labels` as given, then first appearance in the edges.
    Internally labels are numbered topologically, so ``parent number < child number`` on every
    edge; ``order[i]`` is the user's index of number ``i``, and ``position`` is its inverse. The
    children of number ``i`` are ``child_idx[child_ptr[i]:child_ptr[i + 1]]``, and the parents
    likewise. On a tree the numbering is depth-first, so subtrees are contiguous.

    Parameters
    ----------
    edges : iterable of (parent, child)
        Label names. Repeated edges are merged and counted in `n_merged_edges`.
    labels : iterable of str, optional
        Fixes the order of the labels and adds standalone ones.
    names : mapping of str to str, optional
        Readable names for labels that are codes. Labels may lack a name or share one. Names are
        shown and saved, and have no other effect.

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
    _index: dict[str, int]
    _level: Index

    def __init__(
        self,
        edges: Iterable[tuple[str, str]] = (),
        labels: Iterable[str] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        all_labels, index = collect_labels(labels)
        parent, child = collect_edges(edges, all_labels, index)
        if not all_labels:
            raise HierarchyError(
                "The hierarchy has no labels.\nHint: give edges (parent, child), or labels=[...]."
            )
        key = np.sort(parent * len(all_labels) + child)
        key = key[np.append(True, key[1:] != key[:-1])[: key.size]]
        pairs = np.stack(np.divmod(key, len(all_labels)), axis=1)
        order = topological_order(all_labels, pairs)
        position = np.empty_like(order)
        position[order] = np.arange(order.size, dtype=np.int32)
        numbered = position[pairs]
        child_ptr, child_idx = adjacency(numbered[:, 0], numbered[:, 1], len(all_labels))
        parent_ptr, parent_idx = adjacency(numbered[:, 1], numbered[:, 0], len(all_labels))
        _freeze(
            self,
            labels=tuple(all_labels),
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

    # -- other constructors ---------------------------------------------------------

    @classmethod
    def from_parents(cls, parents: Mapping[str, str | Iterable[str] | None]) -> Hierarchy:
        """Build from a map of each label to its parent, its parents, or None for a root.

        Examples
        --------
        >>> Hierarchy.from_parents({"B": "A", "C": ["A", "D"], "E": None}).roots
        ('E', 'A', 'D')
        """
        if not isinstance(parents, Mapping):
            kind = type(parents).__name__
            raise HierarchyError(
                f"parents must map each label to its parents, got {kind}.\n"
                "Hint: {child: parent}; Hierarchy takes (parent, child) edges."
            )
        edges: list[tuple[Any, str]] = []
        for child, above in parents.items():
            several = () if above is None else above
            is_one = isinstance(several, str) or not isinstance(several, Iterable)
            edges += [(parent, child) for parent in ([above] if is_one else several)]
        return cls(edges, labels=parents.keys())

    @classmethod
    def from_paths(cls, paths: Iterable[str], *, sep: str = "/") -> Hierarchy:
        """Build from paths; a label is named by its whole path, so segments may repeat.

        Examples
        --------
        >>> Hierarchy.from_paths(["A/B/C", "A/D"]).labels
        ('A', 'A/B', 'A/B/C', 'A/D')
        """
        edges, labels = edges_of_paths(paths, sep)
        return cls(edges, labels=labels)

    @classmethod
    def from_networkx(cls, graph: nx.DiGraph) -> Hierarchy:
        """Build from a networkx graph whose edges point from parent to child.

        A text attribute ``name`` of a node becomes the label's name.
        """
        if not hasattr(graph, "is_directed"):
            raise HierarchyError(
                f"graph must be a networkx graph, got {type(graph).__name__}.\n"
                "Hint: Hierarchy takes (parent, child) edges."
            )
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
        """Return the same hierarchy with more names; new ones replace old ones.

        Examples
        --------
        >>> Hierarchy([("A", "B")], names={"A": "animal"}).with_names({"B": "bird"}).names["B"]
        'bird'
        """
        named = object.__new__(Hierarchy)
        merged = {**self.names, **collect_names(names, self._index)}
        _freeze(named, **{**vars(self), "names": MappingProxyType(merged)})
        return named

    def subset(self, labels: Iterable[str]) -> Hierarchy:
        """Return the hierarchy of some labels only; edges pass through labels that are dropped.

        The new parents of a label are its nearest kept ancestors; an edge that a longer path of
        kept labels implies is not added.

        Examples
        --------
        >>> Hierarchy([("A", "B"), ("B", "C")]).subset(["A", "C"]).edges
        (('A', 'C'),)
        """
        part = list(labels)
        unknown = [label for label in part if label not in self._index]
        if unknown:
            raise HierarchyError(
                f"{len(unknown):,} label(s) are not in the hierarchy: {quote_names(unknown)}."
                f"{self._hint(unknown[0])}"
            )
        through = edges_among(
            self.position[[self._index[x] for x in part]], self.parent_ptr, self.parent_idx
        )
        edges = [(parent, child) for parent, child in map(self._names, through)]
        names = {label: self.names[label] for label in part if label in self.names}
        return Hierarchy(edges, labels=part, names=names)

    # -- properties -----------------------------------------------------------------------

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
        return self._without_edges(self.parent_ptr)

    @property
    def leaves(self) -> tuple[str, ...]:
        """Labels without a child, in the user's order."""
        return self._without_edges(self.child_ptr)

    @property
    def levels(self) -> Index:
        """Level of each label, in the user's order: 1 for roots, else below its deepest parent."""
        return self._level[self.position]

    @property
    def depth(self) -> int:
        """Number of labels on the longest path; 1 without edges."""
        return int(self._level.max())

    def index(self, label: str) -> int:
        """Return the column of `label` in every matrix: its place in `labels`."""
        return int(self.order[self._number(label)])

    def name(self, label: str) -> str:
        """Return the name of `label`; the label itself if it has none."""
        self._number(label)
        return self.names.get(label, label)

    def caption(self, label: str) -> str:
        """Return the text to show for `label`: the label, with its name in brackets."""
        name = self.name(label)
        return label if name == label else f"{label} ({name})"

    def parents(self, label: str) -> tuple[str, ...]:
        """Return the direct parents."""
        number = self._number(label)
        return self._names(self.parent_idx[self.parent_ptr[number] : self.parent_ptr[number + 1]])

    def children(self, label: str) -> tuple[str, ...]:
        """Return the direct children."""
        number = self._number(label)
        return self._names(self.child_idx[self.child_ptr[number] : self.child_ptr[number + 1]])

    def ancestors(self, label: str) -> tuple[str, ...]:
        """Return all ancestors, without `label` itself; parents come before their children."""
        return self._names(reach(self._number(label), self.parent_ptr, self.parent_idx))

    def descendants(self, label: str) -> tuple[str, ...]:
        """Return all descendants, without `label` itself; parents come before their children."""
        return self._names(reach(self._number(label), self.child_ptr, self.child_idx))

    # -- matrices -------------------------------------------------------------------

    def close_upward(self, truth: Any) -> Any:
        """Add all ancestors of the labels of every sample.

        Parameters
        ----------
        truth : array-like, scipy sparse or data frame of shape (n_samples, n_labels)
            A label holds where the value is not 0. Data frames are read by their column names.

        Returns
        -------
        ndarray of bool, csr_array of bool for sparse input, or a data frame for a data frame

        Examples
        --------
        >>> Hierarchy([("A", "B"), ("B", "C")]).close_upward([[0, 0, 1], [0, 1, 0]])
        array([[ True,  True,  True],
               [ True,  True, False]])
        """
        return matrices.close_upward(self, truth)

    def violations(self, matrix: Any) -> list[tuple[int, str, str]]:
        """Find every (sample, parent, child) where the child's value exceeds the parent's.

        For truth (a label without its parent) and for scores (a child above its parent). Data
        frames are read by their column names.

        Examples
        --------
        >>> Hierarchy([("A", "B")]).violations([[0.2, 0.9], [0.9, 0.2]])
        [(0, 'A', 'B')]
        """
        return matrices.find_violations(self, matrix)

    def roll_up(self, leaf_scores: Any, how: RollUp = "auto") -> Any:
        """Return scores of all labels from scores of the leaves, or of some labels.

        Parameters
        ----------
        leaf_scores : array-like, scipy sparse or data frame
            Columns of matrices are ``hierarchy.leaves``, those of data frames are found by name.
            A label without a column needs one for each leaf below it.
        how : {"auto", "sum", "max"}
            Labels without a column get the sum of the scores below, each counted once, which is
            right for probabilities of classes that exclude each other, or the largest one.
            ``"auto"``: the sum if rows add up to 1.

        Returns
        -------
        ndarray or csr_array of shape (n_samples, n_labels), or a data frame for a data frame

        Examples
        --------
        >>> h = Hierarchy([("pet", "cat"), ("pet", "dog")], labels=["car"])
        >>> h.leaves, h.labels
        (('car', 'cat', 'dog'), ('car', 'pet', 'cat', 'dog'))
        >>> h.roll_up([[0.25, 0.5, 0.25]])
        array([[0.25, 0.75, 0.5 , 0.25]])
        """
        return roll_up(self, leaf_scores, how)

    @cached_property
    def sweeps(self) -> tuple[SweepEdges, SweepEdges]:
        """The edges in the order of an upward and of a downward sweep; see `UpperSet`."""
        return sweep_edges(self.parent_ptr, self.parent_idx, self._level)

    # -- details ---------------------------------------------------------------------------

    def _without_edges(self, ptr: Index) -> tuple[str, ...]:
        columns = np.flatnonzero(np.diff(ptr)[self.position] == 0)
        return tuple(self.labels[i] for i in columns)

    def _number(self, label: str) -> int:
        try:
            return int(self.position[self._index[label]])
        except (KeyError, TypeError):
            raise HierarchyError(
                f"The hierarchy has no label {label!r}.{self._hint(label)}"
            ) from None

    def _hint(self, unknown: object) -> str:
        near = nearest(unknown, self._index)
        return f"\nHint: {near}" if near else ""

    def _names(self, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.labels[int(self.order[number])] for number in numbers)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"A Hierarchy cannot be changed (tried to set {name!r}).")

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
        return hash((self.labels, self.child_ptr.tobytes(), self.child_idx.tobytes()))

    def __deepcopy__(self, memo: object) -> Hierarchy:
        return self  # immutable: a copy could never differ

    def __reduce__(self) -> tuple[type[Hierarchy], tuple[Any, ...]]:
        return Hierarchy, (self.edges, self.labels, dict(self.names))

    def __repr__(self) -> str:
        kind = "forest" if self.is_forest else "DAG"
        counts = {"label": self.n_labels, "edge": self.n_edges, "root": len(self.roots)}
        sizes = ", ".join(f"{n:,} {what}{'s' * (n != 1)}" for what, n in counts.items())
        return f"<Hierarchy: {kind}, {sizes}, depth {self.depth}>"

    def __str__(self) -> str:
        """Return the first labels as an indented tree."""
        return f"{self!r}\n{tree_text(self)}"

    def _repr_html_(self) -> str:
        """Return the same for notebooks."""
        style = "text-align:left;line-height:1.25;margin:0"
        title, tree = escape(repr(self)[1:-1]), escape(tree_text(self))
        return f'<div style="text-align:left"><b>{title}</b><pre style="{style}">{tree}</pre></div>'


def _freeze(hierarchy: Hierarchy, **fields: Any) -> None:
    for name, value in fields.items():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
        object.__setattr__(hierarchy, name, value)
