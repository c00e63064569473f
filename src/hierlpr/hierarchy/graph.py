"""Check and number a label graph: names to indices, cycles, topological order, text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import quote_names
from hierlpr._utils.display import escape_control
from hierlpr.exceptions import HierarchyError

if TYPE_CHECKING:
    from hierlpr.hierarchy.label_graph import Hierarchy

MOST_CHARACTERS = 1 << 28  # of all labels that are paths
MOST_LINES = 24  # of a tree as text
MOST_SIBLINGS = 6
WIDEST = 70  # characters of a label and its name
Index = NDArray[np.int32]


def collect_labels(labels: Iterable[str] | None) -> tuple[list[str], dict[str, int]]:
    """Return the names in the user's order and the index of each; duplicates are an error."""
    names: list[str] = []
    index: dict[str, int] = {}
    if isinstance(labels, str):
        raise HierarchyError(f"labels must be a list of names, got the single string {labels!r}.")
    if labels is not None and not isinstance(labels, Iterable):
        raise HierarchyError(f"labels must be a list of names, got {type(labels).__name__}.")
    for name in labels if labels is not None else ():
        _check_name(name)
        if name in index:
            raise HierarchyError(
                f"Duplicate label {name!r}, at positions {index[name]} and {len(names)}.\n"
                "Hint: list each label once."
            )
        index[name] = len(names)
        names.append(str(name))
    return names, index


def collect_edges(
    edges: Iterable[tuple[str, str]], names: list[str], index: dict[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return parent and child of every edge as indices; new names are added to both arguments."""
    if not isinstance(edges, Iterable):
        raise HierarchyError(
            f"edges must be a list of pairs (parent, child), got {type(edges).__name__}.\n"
            "Hint: read_hierarchy reads files; Hierarchy.from_parents takes {child: parent}."
        )
    ends: tuple[list[int], list[int]] = ([], [])
    for place, edge in enumerate(edges):
        if isinstance(edge, str) or not hasattr(edge, "__len__") or len(edge) != 2:
            raise HierarchyError(
                f"Edge {place} is {edge!r}; expected a pair (parent, child).\n"
                "Hint: read_hierarchy reads files; Hierarchy.from_parents takes {child: parent}."
            )
        for name, numbers in zip(edge, ends, strict=True):
            number = index.get(name) if isinstance(name, str) else None
            if number is None:
                _check_name(name)
                number = index[name] = len(names)
                names.append(str(name))
            numbers.append(number)
        if ends[0][-1] == ends[1][-1]:
            raise HierarchyError(
                f"Label {edge[0]!r} is its own parent (edge {place}).\nHint: remove this edge."
            )
    return np.array(ends[0], dtype=np.int64), np.array(ends[1], dtype=np.int64)


def edges_of_paths(paths: Iterable[str], sep: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the edges and labels of paths; a label is named by its whole path."""
    if not sep:
        raise HierarchyError("sep must not be empty.")
    if isinstance(paths, str) or not isinstance(paths, Iterable):
        raise HierarchyError(
            f"paths must be a list such as ['A/B', 'A/C'], got {type(paths).__name__}."
        )
    labels: dict[str, None] = {}
    edges: list[tuple[str, str]] = []
    n_characters = 0
    for path in map(str, paths):
        if not all(path.split(sep)):
            raise HierarchyError(
                f"The path {path[:200]!r} has an empty segment.\n"
                f"Hint: segments are separated by {sep!r}; remove a doubled, leading or "
                "trailing one, or choose another sep."
            )
        chain = []  # the labels that are new, from the path upward
        while path and path not in labels:
            chain.append(path)
            n_characters += len(path)
            path = path.rpartition(sep)[0]
            if n_characters > MOST_CHARACTERS:
                raise HierarchyError(
                    f"The labels have more than {MOST_CHARACTERS >> 20} million characters, since "
                    "each is named by its whole path.\nHint: give edges (parent, child) instead."
                )
        labels.update(dict.fromkeys(chain[::-1]))
        edges += pairwise([path, *chain[::-1]] if path else chain[::-1])
    return edges, list(labels)


def collect_names(names: Mapping[str, str] | None, index: Mapping[str, int]) -> Mapping[str, str]:
    """Check the readable names of labels; a name for an unknown label is an error."""
    name_of = dict(names) if names is not None else {}
    unknown = [label for label in name_of if label not in index]
    if unknown:
        raise HierarchyError(
            f"{len(unknown):,} name(s) are for labels that are not in the hierarchy: "
            f"{quote_names(unknown)}.\n"
            "Hint: leave them out: {k: v for k, v in names.items() if k in hierarchy}."
        )
    for label, name in name_of.items():
        if not isinstance(name, str) or not name.strip():
            raise HierarchyError(
                f"The name of label {label!r} must be visible text, got {name!r}.\n"
                "Hint: leave labels without a name out of names."
            )
    return MappingProxyType(name_of)


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise HierarchyError(
            f"Label names must be strings, got {name!r} ({type(name).__name__}).\n"
            "Hint: convert them with str(), and leave out edges without a parent; labels= adds "
            "labels without edges."
        )
    if not name.strip():
        raise HierarchyError("A label has an empty name.\nHint: every label needs a visible name.")


def topological_order(names: list[str], pairs: NDArray[np.int64]) -> Index:
    """Return a depth-first order with parents first; on a tree, the preorder.

    It is the reverse of the order in which a depth-first search that visits roots and children
    backwards leaves the labels. An edge into a label that is still open closes a cycle.
    """
    n = len(names)
    ptr, idx = adjacency(pairs[:, 0], pairs[:, 1], n)
    child_ptr, child_idx = ptr.tolist(), idx.tolist()
    is_root = np.ones(n, dtype=bool)
    is_root[pairs[:, 1]] = False
    roots = np.flatnonzero(is_root)
    # Labels that no root reaches lie on or below a cycle; starting there finds it.
    starts = [*roots[::-1].tolist(), *np.flatnonzero(~is_root).tolist()]
    new, open_, left = 0, 1, 2
    state = [new] * n
    cursor = child_ptr[1:]  # walks backwards to child_ptr[node]
    left_order: list[int] = []
    for start in starts:
        if state[start] != new:
            continue
        path = [start]
        state[start] = open_
        while path:
            node = path[-1]
            if cursor[node] == child_ptr[node]:
                state[node] = left
                left_order.append(node)
                path.pop()
                continue
            cursor[node] -= 1
            child = child_idx[cursor[node]]
            if state[child] == new:
                state[child] = open_
                path.append(child)
            elif state[child] == open_:
                _refuse_cycle([names[i] for i in path[path.index(child) :]])
    return np.array(left_order[::-1], dtype=np.int32)


def _refuse_cycle(cycle: list[str]) -> NoReturn:
    shown = [escape_control(name, most=WIDEST) for name in (*cycle, cycle[0])]
    if len(shown) > 12:
        shown = [*shown[:6], f"... {len(shown) - 11} more ...", *shown[-5:]]
    raise HierarchyError(
        f"The hierarchy has a cycle: {' -> '.join(shown)}.\n"
        "Hint: edges point from parent to child; remove one edge of this path."
    )


def adjacency(source: NDArray[Any], target: NDArray[Any], n: int) -> tuple[Index, Index]:
    """Return the CSR adjacency; targets ascend within each source."""
    by_source = np.lexsort([target, source])
    ptr = np.zeros(n + 1, dtype=np.int32)
    np.cumsum(np.bincount(source, minlength=n), out=ptr[1:])
    return ptr, target[by_source].astype(np.int32)


def levels(parent_ptr: Index, parent_idx: Index) -> Index:
    """Return the level of each number; parents have smaller numbers, so one pass suffices."""
    ptr, idx = parent_ptr.tolist(), parent_idx.tolist()
    level: list[int] = []
    for i in range(len(ptr) - 1):
        level.append(1 + max((level[p] for p in idx[ptr[i] : ptr[i + 1]]), default=0))
    return np.array(level, dtype=np.int32)


def reach(start: int, ptr: Index, idx: Index) -> list[int]:
    """Return every number reached from `start` along the edges, ascending, without `start`."""
    reached: set[int] = set()
    stack = [start]
    while stack:
        node = stack.pop()
        for near in idx[ptr[node] : ptr[node + 1]].tolist():
            if near not in reached:
                reached.add(near)
                stack.append(near)
    return sorted(reached)


def rarest_parents(hierarchy: Hierarchy, prevalence: NDArray[np.float64]) -> Index:
    """Return the number of the rarest parent of each number, -1 for roots.

    `prevalence` is in the order of ``hierarchy.labels``. Equally rare parents: the smaller number.
    """
    h = hierarchy
    n_parents = np.diff(h.parent_ptr)
    child = np.repeat(np.arange(h.n_labels), n_parents)
    keys = (h.parent_idx, prevalence[h.order][h.parent_idx], child)  # the last one decides first
    by_rarity = h.parent_idx[np.lexsort(keys)]
    rarest = np.full(h.n_labels, -1, dtype=np.int32)
    rarest[n_parents > 0] = by_rarity[h.parent_ptr[:-1][n_parents > 0]]
    return rarest


def edges_among(kept: Index, parent_ptr: Index, parent_idx: Index) -> list[tuple[int, int]]:
    """Return the edges (parent, child) among some numbers, passing through all others.

    The parents of a kept number are its nearest kept ancestors, except those that a longer path of
    kept numbers implies.
    """
    is_kept = np.zeros(parent_ptr.size - 1, dtype=bool)
    is_kept[kept] = True
    nearest: list[set[int]] = []  # by number: the kept ones right above it
    edges: list[tuple[int, int]] = []
    for number in range(is_kept.size):
        above: set[int] = set()
        added: set[int] = set()
        for parent in parent_idx[parent_ptr[number] : parent_ptr[number + 1]].tolist():
            if is_kept[parent]:
                above.add(parent)
            else:
                added |= nearest[parent]
        for candidate in added - above:
            others = (above | added) - {candidate}
            if not any(candidate in reach(other, parent_ptr, parent_idx) for other in others):
                above.add(candidate)
        nearest.append(above)
        if is_kept[number]:
            edges.extend((parent, number) for parent in above)
    return edges


# -- text -------------------------------------------------------------------------------------


def tree_text(hierarchy: Hierarchy) -> str:
    """Return the first labels as an indented tree; the others are counted.

    A label with several parents appears below each of them, its children only the first time. In
    a path, ``…`` stands for the label above.

    >>> from hierlpr import Hierarchy
    >>> print(tree_text(Hierarchy([("A", "B"), ("A", "C"), ("B", "D"), ("C", "D")])))
    A
    ├─ B
    │  └─ D
    └─ C
       └─ D (see above)
    """
    lines: list[str] = []
    shown: set[str] = set()
    # A stack of (label, its branch, indentation of its children).
    stack = _siblings(hierarchy.roots, "", is_root=True)
    while stack and len(lines) < MOST_LINES:
        label, lead, indent = stack.pop()
        if label is None:
            lines.append(lead)
            continue
        again = label in shown and bool(hierarchy.children(label) or hierarchy.parents(label))
        note = " (see above)" if again else ""
        lines.append(f"{lead}{escape_control(_caption(hierarchy, label), most=WIDEST)}{note}")
        if not again:
            shown.add(label)
            stack.extend(_siblings(hierarchy.children(label), indent, is_root=False))
    left = hierarchy.n_labels - len(shown)
    if stack:
        lines.append(f"... {left:,} more labels")
    return "\n".join(lines)


def _caption(hierarchy: Hierarchy, label: str) -> str:
    """Return the text to show for a label; of a path, ``…`` stands for the label above."""
    name = hierarchy.name(label)
    for above in hierarchy.parents(label):
        if re.match(rf"{re.escape(above)}\s*[/|>;:\\]", label):
            end = label[len(above) :]
            return f"…{end}" if end.endswith(name) or name == label else f"…{end} ({name})"
    return hierarchy.caption(label)


def _siblings(
    labels: Sequence[str], indent: str, *, is_root: bool
) -> list[tuple[str | None, str, str]]:
    """Return the lines of siblings in reverse: (label, its branch, indentation of its children)."""
    n_shown = len(labels) if len(labels) <= MOST_SIBLINGS else MOST_SIBLINGS - 1
    lines: list[tuple[str | None, str, str]] = []
    for place, label in enumerate(labels[:n_shown]):
        is_last = place == len(labels) - 1
        branch, below = ("", "") if is_root else (("└─ ", "   ") if is_last else ("├─ ", "│  "))
        lines.append((label, indent + branch, indent + below))
    if n_shown < len(labels):
        branch = "" if is_root else "└─ "
        lines.append((None, f"{indent}{branch}... {len(labels) - n_shown:,} more", ""))
    return lines[::-1]
