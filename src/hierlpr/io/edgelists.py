"""Hierarchies as edge lists, JSON and path lists."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection
from typing import Any

from hierlpr._base.checks import listed
from hierlpr.exceptions import DataError
from hierlpr.io._watch import Watch
from hierlpr.io.delimited import read_rows
from hierlpr.io.obo import Graph

__all__ = ["line_of_name", "parse_edge_list", "parse_json", "parse_paths"]

PARENT_NAMES = ("parent", "parent_id")
CHILD_NAMES = ("child", "child_id")
RELATION_NAMES = ("relation", "relationship", "type")
NAMESPACE_NAMES = ("namespace", "aspect")
# A first row of such words is a header that we must not take for an edge.
_HEADER_WORDS = {
    "from", "to", "source", "target", "subject", "object", "node", "term", "label", "name", "id",
    "parents", "children", "ancestor", "descendant", "head", "tail", "superclass", "subclass",
}  # fmt: skip
_SEPARATORS = ("/", "|", ">", ";", "\\", "::")


def parse_edge_list(
    watch: Watch,
    *,
    delimiter: str,
    relationships: Collection[str] | None = None,
    namespaces: Collection[str] | None = None,
) -> Graph:
    """Rows ``parent,child``; a row with one of them empty is a standalone label.

    The columns are found by name if the first row is a header, and further columns are ignored,
    except that `relation` and `namespace` can choose rows.
    """
    rows = list(read_rows(watch, delimiter))
    if not rows:
        raise watch.fail("there are no rows, only comments.")
    header = [cell.strip().lower() for cell in rows[0][1]]
    columns = _edge_columns(header, rows[0][0], watch, delimiter)
    named = columns is not None
    if named and len(rows) == 1:
        raise watch.fail("there is a header but no rows.", line=rows[0][0])
    parent_at, child_at = columns or (0, 1)
    filters = _filters(header if named else [], relationships, namespaces, watch)
    width = len(header)
    graph = Graph()
    skipped: Counter[str] = Counter()
    for line, row in rows[1:] if named else rows:
        if len(row) != width:
            watch.problem(
                f"the row has {len(row)} columns, the first row has {width}.",
                line=line,
                hint=_delimiter_hint(row, delimiter),
            )
            continue
        dropped = next((at for at, chosen in filters if row[at].strip() not in chosen), None)
        if dropped is not None:
            skipped[header[dropped]] += 1
            continue
        parent, child = row[parent_at].strip(), row[child_at].strip()
        if not parent and not child:
            watch.problem("both names are empty.", line=line)
        elif parent == child:
            watch.problem(f"label {parent!r} is its own parent.", line=line)
        elif parent and child:
            graph.labels.setdefault(parent)
            graph.labels.setdefault(child)
            graph.edges.append((parent, child))
        else:
            graph.labels.setdefault(parent or child)
            watch.counts["standalone_rows"] += 1
    for what, n in skipped.items():
        watch.counts[f"rows of another {what}"] = n
    if named and width > 2 and not filters:
        extra = [h for i, h in enumerate(header) if i not in (parent_at, child_at)]
        watch.note(f"{watch.path}: further columns are not used: {listed(extra)}")
    return graph


def _edge_columns(
    header: list[str], line: int, watch: Watch, delimiter: str
) -> tuple[int, int] | None:
    parent = [i for i, name in enumerate(header) if name in PARENT_NAMES]
    child = [i for i, name in enumerate(header) if name in CHILD_NAMES]
    for found in (parent, child):
        if len(found) > 1:
            raise watch.fail(f"the column {header[found[0]]!r} occurs twice.", line=line)
    if parent and child:
        return parent[0], child[0]
    if len(header) == 1:
        raise watch.fail(
            f"the first row has one column, {header[0][:60]!r}; expected parent and child.",
            line=line,
            hint=_delimiter_hint(header, delimiter) or "write: parent,child",
        )
    if parent or child or len(header) > 2 or set(header) & _HEADER_WORDS:
        raise watch.fail(
            f"cannot tell which columns are parent and child from {listed(header)}.",
            line=line,
            hint="name the columns parent and child in the first row.",
        )
    return None


def _delimiter_hint(row: list[str], delimiter: str) -> str:
    names = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}
    for other in ("\t", ";", ",", "|"):
        if other != delimiter and len(row) == 1 and other in row[0]:
            return (
                f"columns are read as separated by {names[delimiter]}, but this row has a "
                f"{names[other]}; .csv means comma, .tsv means tab."
            )
    return ""


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
        data = json.loads("\n".join(lines), object_pairs_hook=_no_repeats(lines, watch))
    except json.JSONDecodeError as error:
        raise watch.fail(
            f"this is not JSON: {error.msg} at column {error.colno}.", line=error.lineno
        ) from None
    except RecursionError:
        raise watch.fail(
            "the JSON is nested too deeply.", hint="write it as a map of each label to its parent."
        ) from None
    except ValueError as error:  # Python reads no integer of more than 4,300 digits
        raise watch.fail(
            f"this JSON cannot be read ({str(error).split(';')[0]}).", line=_longest(lines)
        ) from None
    return _JsonGraph(lines, watch).of(data)


def _longest(lines: list[str]) -> int:
    return max(range(len(lines)), key=lambda i: len(lines[i])) + 1


def line_of_name(lines: list[str], name: str, *, is_key: bool = False) -> int | None:
    """Line of a JSON text on which a name first stands, None if it is written in another way."""
    for text in (json.dumps(name, ensure_ascii=False), json.dumps(name)):
        # The digits of an escape may be of either case.
        pattern = re.compile(re.escape(text) + (r"\s*:" if is_key else ""), re.IGNORECASE)
        for number, line in enumerate(lines, start=1):
            if pattern.search(line):
                return number
    return None


def _no_repeats(lines: list[str], watch: Watch) -> Any:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) != len(pairs):
            seen: set[str] = set()
            twice = [k for k, _ in pairs if k in seen or seen.add(k)]  # type: ignore[func-returns-value]
            watch.problem(
                f"the key {twice[0]!r} occurs twice in one object.",
                line=line_of_name(lines, twice[0], is_key=True),
            )
        return built

    return build


class _JsonGraph:
    """Collect labels and edges of parsed JSON; names are found again in `lines` for messages."""

    def __init__(self, lines: list[str], watch: Watch) -> None:
        self._lines, self._watch = lines, watch
        self._graph = Graph()

    def of(self, data: Any) -> Graph:
        if isinstance(data, dict) and "edges" in data and isinstance(data["edges"], list):
            self._edge_objects(data)
        elif isinstance(data, list) or _node_name(data) is not None:
            self._watch.format = "JSON (nested)"
            for place, node in enumerate(data if isinstance(data, list) else [data]):
                self._nested_node(node, f"item {place}")
        elif isinstance(data, dict) and data and all(isinstance(v, dict) for v in data.values()):
            self._watch.format = "JSON (nested)"
            self._nested_map(data)
        elif isinstance(data, dict) and data:
            self._watch.format = "JSON (parent map)"
            self._parent_map(data)
        else:
            raise self._watch.fail(
                f"the JSON holds {type(data).__name__} at the top, no labels.",
                line=1,
                hint='write {"child": "parent", ...}, or {"name": "A", "children": [...]}.',
            )
        return self._graph

    def _edge_objects(self, data: dict[str, Any]) -> None:
        self._watch.format = "JSON (edges)"
        labels = data.get("labels", [])
        if not isinstance(labels, list):
            raise self._watch.fail(
                f"labels is {_shown(labels)}, not a list of names.",
                line=line_of_name(self._lines, "labels", is_key=True),
                hint='write "labels": ["A", "B"], or leave it out.',
            )
        for place, label in enumerate(labels):
            self._graph.labels.setdefault(self._name(label, f"labels[{place}]"))
        for place, edge in enumerate(data["edges"]):
            if not isinstance(edge, list) or len(edge) != 2:
                self._watch.problem(
                    f"edges[{place}] is {_shown(edge)}, not a pair [parent, child].",
                    line=line_of_name(self._lines, "edges", is_key=True),
                )
                continue
            parent, child = (self._name(end, f"edges[{place}]") for end in edge)
            self._edge(parent, child, f"edges[{place}]")

    def _nested_node(self, node: Any, place: str) -> None:
        """Walk without recursion, so that a long chain is no trouble."""
        stack: list[tuple[Any, str | None, str]] = [(node, None, place)]
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
                    self._watch.problem(
                        f"{name!r} holds {_shown(below)}, expected an object or null.",
                        line=line_of_name(self._lines, name, is_key=True),
                    )

    def _parent_map(self, data: dict[str, Any]) -> None:
        for child, given in data.items():
            self._graph.labels.setdefault(child)
            if given is None:
                continue
            parents = [given] if isinstance(given, str) else given
            if not isinstance(parents, list) or not all(isinstance(p, str) for p in parents):
                self._watch.problem(
                    f"the parents of {child!r} are {_shown(given)}.",
                    line=line_of_name(self._lines, child, is_key=True),
                    hint="give a name, a list of names, or null for a root.",
                )
                continue
            for parent in parents:
                self._edge(parent, child, f"key {child!r}")

    def _name(self, value: Any, place: str) -> str:
        if not isinstance(value, str):
            raise self._watch.fail(
                f"{place} holds {_shown(value)}; label names are strings.",
                line=line_of_name(self._lines, place.partition("[")[0], is_key=True),
            )
        return value

    def _edge(self, parent: str, child: str, place: str) -> None:
        if parent == child:
            self._watch.problem(
                f"label {parent!r} is its own parent ({place}).",
                line=line_of_name(self._lines, parent),
            )
        else:
            self._graph.edges.append((parent, child))


def _shown(value: Any) -> str:
    """Write out a value, short enough to show; Python writes out no integer of 4,300 digits."""
    try:
        return repr(str(value)[:40])
    except ValueError:
        return "a huge integer"


def _node_name(node: Any) -> str | None:
    """Name of a node written as an object with children; None if it is no such object."""
    if isinstance(node, dict):
        for key in ("name", "id", "label"):
            if isinstance(node.get(key), str) and isinstance(node.get("children", []), list):
                others = set(node) - {key, "children"}
                if "children" in node or not others or "name" in node:
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
    graph = Graph()
    for line, text in paths:
        segments = [segment.strip() for segment in text.split(sep)]
        if not all(segments):
            watch.problem(
                f"the path {text[:60]!r} has an empty segment.",
                line=line,
                hint=f"segments are separated by {sep!r}; another separator is given with --sep.",
            )
            continue
        for depth in range(1, len(segments) + 1):
            name = sep.join(segments[:depth])
            if name not in graph.labels:
                graph.labels[name] = None
                if depth > 1:
                    graph.edges.append((sep.join(segments[: depth - 1]), name))
    watch.counts["paths"] += len(paths)
    return graph
