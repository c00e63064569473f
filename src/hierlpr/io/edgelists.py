"""Hierarchies as edge lists, JSON and path lists."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection
from functools import partial
from typing import Any

from hierlpr._base.checks import listed
from hierlpr.exceptions import DataError
from hierlpr.hierarchy.graph import edges_of_paths
from hierlpr.io._watch import Watch
from hierlpr.io.delimited import wrong_delimiter
from hierlpr.io.obo import Graph
from hierlpr.io.table_files import read_cells

PARENT_NAMES = ("parent", "parent_id")
CHILD_NAMES = ("child", "child_id")
RELATION_NAMES = ("relation", "relationship", "type")
NAMESPACE_NAMES = ("namespace", "aspect")
NAME_NAMES = ("parent_name", "child_name", "name")
# A first row of such words is a header that we must not take for an edge.
_HEADER_WORDS = re.compile(
    "from|to|source|target|subject|object|node|term|label|name|id|parents|children|ancestor"
    "|descendant|head|tail|superclass|subclass"
)
_SEPARATORS = ("/", "|", ">", ";", "\\", "::")


def parse_edge_list(
    watch: Watch,
    delimiter: str | None,
    *,
    relationships: Collection[str] | None = None,
    namespaces: Collection[str] | None = None,
) -> Graph:
    """Rows ``parent,child``; a row with one of them empty is a standalone label.

    The columns are found by name if the first row is a header. Of further columns, `relation` and
    `namespace` can choose rows, `parent_name`, `child_name` and `name` (of the child) name labels
    for people, and others are ignored. The first row of Parquet is its schema.
    """
    used = (*PARENT_NAMES, *CHILD_NAMES, *RELATION_NAMES, *NAMESPACE_NAMES, *NAME_NAMES)
    rows = list(read_cells(watch, delimiter, used))
    if not rows:
        raise watch.fail("there are no rows, only comments.")
    first, header = rows[0][0], [cell.lower() for cell in rows[0][1]]
    columns = _edge_columns(rows[0][1], first, watch, delimiter)
    named = columns is not None
    if named and len(rows) == 1:
        what = "is a header" if isinstance(first, int) else "are columns"
        raise watch.fail(f"there {what} but no rows.", line=first)
    parent_at, child_at = columns or (0, 1)
    naming = [
        (at, parent_at if name == "parent_name" else child_at)
        for at, name in enumerate(header if named else ())
        if name in NAME_NAMES
    ]
    filters = _filters(header if named else [], relationships, namespaces, watch)
    graph = Graph()
    skipped: Counter[str] = Counter()
    for line, row in rows[1:] if named else rows:
        if len(row) != len(header):
            watch.problem(
                f"the row has {len(row)} columns, the first row has {len(header)}.",
                line=line,
                hint=wrong_delimiter(row, delimiter),
            )
            continue
        dropped = next((at for at, chosen in filters if row[at].strip() not in chosen), None)
        if dropped is not None:
            skipped[header[dropped]] += 1
            continue
        parent, child = row[parent_at], row[child_at]
        if not parent.strip() and not child.strip():
            watch.problem("both names are empty.", line=line)
        elif parent and child:
            graph.link(parent, child, watch, line=line, adds=True)
        else:
            graph.labels.setdefault(parent or child)
            watch.counts["standalone_rows"] += 1
        for at, of in naming:
            name = row[at].strip()
            if name and row[of] and graph.names.setdefault(row[of], name) != name:
                text = f"label {row[of]!r} has the name {graph.names[row[of]]!r} too."
                watch.problem(text, line=line, column=header[at])
    for what, n in skipped.items():
        watch.counts[f"rows of another {what}"] = n
    known = {parent_at, child_at, *(at for at, _ in naming)}
    extra = [h for i, h in enumerate(header) if i not in known] if named else []
    if extra and not filters:
        watch.note(f"{watch.path}: further columns are not used: {listed(extra)}")
    return graph


def _edge_columns(
    given: list[str], line: int | str, watch: Watch, delimiter: str | None
) -> tuple[int, int] | None:
    header = [name.lower() for name in given]
    places = []
    for wanted in (PARENT_NAMES, CHILD_NAMES):
        found = [i for i, name in enumerate(header) if name in wanted]
        if len(found) > 1:
            raise watch.fail("the column occurs twice.", line=line, column=header[found[0]])
        if not found and not isinstance(line, int):
            columns = ", ".join(given)
            raise watch.fail(
                f"there is no column {wanted[0]!r}; the columns are {columns}.", line=line
            )
        places += found
    if len(places) == 2:
        return places[0], places[1]
    if len(header) == 1:
        raise watch.fail(
            f"the first row has one column, {header[0][:60]!r}; expected parent and child.",
            line=line,
            hint=wrong_delimiter(header, delimiter) or "write: parent,child",
        )
    if places or len(header) > 2 or any(map(_HEADER_WORDS.fullmatch, header)):
        raise watch.fail(
            f"cannot tell which columns are parent and child from {listed(header)}.",
            line=line,
            hint="name the columns parent and child in the first row.",
        )
    return None


def _filters(
    header: list[str],
    relationships: Collection[str] | None,
    namespaces: Collection[str] | None,
    watch: Watch,
) -> list[tuple[int, set[str]]]:
    filters = []
    for wanted, names in ((relationships, RELATION_NAMES), (namespaces, NAMESPACE_NAMES)):
        if wanted is None:
            continue
        at = next((i for i, name in enumerate(header) if name in names), None)
        if at is None:
            raise watch.fail(f"there is no column {names[0]!r} to choose rows by.", line=1)
        filters.append((at, set(wanted)))
    return filters


# -- JSON -------------------------------------------------------------------------------------


def parse_json(lines: list[str], watch: Watch) -> Graph:
    """Nested objects, a map of each label to its parents, or ``{"labels": ..., "edges": ...}``."""
    try:
        data = json.loads("\n".join(lines), object_pairs_hook=partial(_object, lines, watch))
    except json.JSONDecodeError as error:
        text = f"this is not JSON: {error.msg} at column {error.colno}."
        raise watch.fail(text, line=error.lineno) from None
    except RecursionError:
        hint = "write it as a map of each label to its parent."
        raise watch.fail("the JSON is nested too deeply.", hint=hint) from None
    except ValueError as error:  # Python reads no integer of more than 4,300 digits
        longest = max(range(len(lines)), key=lambda i: len(lines[i])) + 1
        text = f"this JSON cannot be read ({str(error).split(';')[0]})."
        raise watch.fail(text, line=longest) from None
    return _JsonGraph(lines, watch).of(data)


def line_of_name(lines: list[str], name: str, *, is_key: bool = False) -> int | None:
    """Line of a JSON text on which a name first stands, None if it is written in another way."""
    for text in (json.dumps(name, ensure_ascii=False), json.dumps(name)):
        # The digits of an escape may be of either case.
        pattern = re.compile(re.escape(text) + (r"\s*:" if is_key else ""), re.IGNORECASE)
        for number, line in enumerate(lines, start=1):
            if pattern.search(line):
                return number
    return None


def _object(lines: list[str], watch: Watch, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object whose keys occur once."""
    built = dict(pairs)
    if len(built) != len(pairs):
        times = Counter(key for key, _ in pairs)
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if times[k] > 1 and (k in seen or seen.add(k)))  # type: ignore[func-returns-value]
        line = line_of_name(lines, twice, is_key=True)
        watch.problem(f"the key {twice!r} occurs twice in one object.", line=line)
    return built


class _JsonGraph:
    """Collect labels and edges of parsed JSON; names are found again in `lines` for messages."""

    def __init__(self, lines: list[str], watch: Watch) -> None:
        self._lines, self._watch, self._graph = lines, watch, Graph()

    def of(self, data: Any) -> Graph:
        kind = "nested"
        if isinstance(data, dict) and isinstance(data.get("edges"), list):
            kind, walk = "edges", self._edge_objects
        elif isinstance(data, list) or _node_name(data) is not None:
            walk = self._nested_nodes
        elif isinstance(data, dict) and data and all(isinstance(v, dict) for v in data.values()):
            walk = self._nested_map
        elif isinstance(data, dict) and data:
            kind, walk = "parent map", self._parent_map
        else:
            raise self._watch.fail(
                f"the JSON holds {type(data).__name__} at the top, no labels.",
                line=1,
                hint='write {"child": "parent", ...}, or {"name": "A", "children": [...]}.',
            )
        self._watch.format = f"JSON ({kind})"
        walk(data)
        return self._graph

    def _at(self, key: str) -> int | None:
        return line_of_name(self._lines, key, is_key=True)

    def _edge_objects(self, data: dict[str, Any]) -> None:
        labels = data.get("labels", [])
        if not isinstance(labels, list):
            raise self._watch.fail(
                f"labels is {_shown(labels)}, not a list of names.",
                line=self._at("labels"),
                hint='write "labels": ["A", "B"], or leave it out.',
            )
        for place, label in enumerate(labels):
            self._graph.labels.setdefault(self._name(label, f"labels[{place}]"))
        for place, edge in enumerate(data["edges"]):
            if isinstance(edge, list) and len(edge) == 2:
                parent, child = (self._name(end, f"edges[{place}]") for end in edge)
                self._edge(parent, child, f"edges[{place}]")
            else:
                text = f"edges[{place}] is {_shown(edge)}, not a pair [parent, child]."
                self._watch.problem(text, line=self._at("edges"))

    def _nested_nodes(self, data: Any) -> None:
        """Walk without recursion, so that a long chain is no trouble."""
        nodes = data if isinstance(data, list) else [data]
        stack: list[tuple[Any, str | None, str]] = []
        stack += [(node, None, f"item {i}") for i, node in reversed(list(enumerate(nodes)))]
        while stack:
            item, above, where = stack.pop()
            name = item if isinstance(item, str) else _node_name(item)
            if name is None:
                self._watch.problem(
                    f"{where} is {_shown(item)}, no label.",
                    line=None if above is None else line_of_name(self._lines, above),
                    hint='a label is a name, or {"name": ..., "children": [...]}.',
                )
                continue
            self._graph.labels.setdefault(name)
            if above is not None:
                self._edge(above, name, where)
            children = item.get("children", []) if isinstance(item, dict) else []
            for i, child in reversed(list(enumerate(children))):
                stack.append((child, name, f"child {i} of {name!r}"))

    def _nested_map(self, data: dict[str, Any]) -> None:
        stack: list[tuple[str | None, dict[str, Any]]] = [(None, data)]
        while stack:
            above, level = stack.pop()
            for name, below in level.items():
                self._graph.labels.setdefault(name)
                if above is not None:
                    self._edge(above, name, f"under {above!r}")
                if isinstance(below, dict):
                    stack.append((name, below))
                elif below is not None:
                    text = f"{name!r} holds {_shown(below)}, expected an object or null."
                    self._watch.problem(text, line=self._at(name))

    def _parent_map(self, data: dict[str, Any]) -> None:
        for child, given in data.items():
            self._graph.labels.setdefault(child)
            parents = [given] if isinstance(given, str) else [] if given is None else given
            if isinstance(parents, list) and all(isinstance(p, str) for p in parents):
                for parent in parents:
                    self._edge(parent, child, f"key {child!r}")
            else:
                self._watch.problem(
                    f"the parents of {child!r} are {_shown(given)}.",
                    line=self._at(child),
                    hint="give a name, a list of names, or null for a root.",
                )

    def _name(self, value: Any, place: str) -> str:
        if not isinstance(value, str):
            text = f"{place} holds {_shown(value)}; label names are strings."
            raise self._watch.fail(text, line=self._at(place.partition("[")[0]))
        return value

    def _edge(self, parent: str, child: str, place: str) -> None:
        line = line_of_name(self._lines, parent) if parent == child else None
        self._graph.link(parent, child, self._watch, line=line, where=f" ({place})")


def _shown(value: Any) -> str:
    """Write out a value, short enough to show; Python writes out no integer of 4,300 digits."""
    try:
        return repr(str(value)[:40])
    except ValueError:
        return "a huge integer"


def _node_name(node: Any) -> str | None:
    """Name of a node written as an object with children; None if it is no such object."""
    if isinstance(node, dict) and isinstance(node.get("children", []), list):
        for key in ("name", "id", "label"):
            is_node = "children" in node or "name" in node or not set(node) - {key}
            if isinstance(node.get(key), str) and is_node:
                return str(node[key])
    return None


# -- paths ------------------------------------------------------------------------------------


def parse_paths(lines: list[str], watch: Watch, *, sep: str | None = None) -> Graph:
    """One path a line from a root down; a label is named by its whole path."""
    if sep == "":
        raise DataError("The separator of a path list must not be empty.\nHint: --sep / is usual.")
    given = [(i, line.strip()) for i, line in enumerate(lines, start=1) if line.strip()]
    paths = [(i, text) for i, text in given if not text.startswith("#")]
    watch.counts["comments"] += len(given) - len(paths)
    if not paths:
        raise watch.fail("there are no paths, only comments.")
    if sep is None:
        counts = {s: sum(s in text for _, text in paths) for s in _SEPARATORS}
        best = max(counts, key=lambda s: counts[s])
        sep = best if counts[best] else _SEPARATORS[0]
        watch.note(f"{watch.path}: paths are split at {sep!r}")
    whole = []
    for line, text in paths:
        segments = [segment.strip() for segment in text.split(sep)]
        if not all(segments):
            watch.problem(
                f"the path {text[:60]!r} has an empty segment.",
                line=line,
                hint=f"segments are separated by {sep!r}; another separator is given with --sep.",
            )
            continue
        whole.append(sep.join(segments))
    watch.counts["paths"] += len(paths)
    edges, labels = edges_of_paths(whole, sep)
    return Graph(dict.fromkeys(labels), edges)
