"""Hierarchies as edge lists, JSON and path lists."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from hierlpr._base.checks import listed
from hierlpr.io._watch import Watch
from hierlpr.io.obo import Graph

__all__ = ["parse_edge_list", "parse_json", "parse_paths"]

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
    lines: list[str],
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
    rows = list(_csv_rows(lines, watch, delimiter))
    if not rows:
        raise watch.fail("there are no rows, only comments.")
    header = [cell.strip().lower() for cell in rows[0][1]]
    columns = _edge_columns(header, rows[0][0], watch, delimiter)
    named = columns is not None
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


def _csv_rows(lines: list[str], watch: Watch, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if line.startswith("#"):
            watch.counts["comments"] += 1
            continue
        if '"' in line:
            try:
                yield number, next(csv.reader([line], delimiter=delimiter, strict=True))
            except (csv.Error, StopIteration) as error:
                watch.problem(f"the quotes do not match ({error}).", line=number)
        else:
            yield number, line.split(delimiter)


def _edge_columns(
    header: list[str], line: int, watch: Watch, delimiter: str
) -> tuple[int, int] | None:
    parent = [i for i, name in enumerate(header) if name in PARENT_NAMES]
    child = [i for i, name in enumerate(header) if name in CHILD_NAMES]
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
        data = json.loads("\n".join(lines), object_pairs_hook=_no_repeats(watch))
    except json.JSONDecodeError as error:
        raise watch.fail(
            f"this is not JSON: {error.msg} at column {error.colno}.", line=error.lineno
        ) from None
    except RecursionError:
        raise watch.fail(
            "the JSON is nested too deeply.", hint="write it as a map of each label to its parent."
        ) from None
    graph = Graph()
    if isinstance(data, dict) and "edges" in data and isinstance(data["edges"], list):
        _edge_objects(data, graph, watch)
    elif isinstance(data, list) or _node_name(data) is not None:
        watch.format = "JSON (nested)"
        nodes = data if isinstance(data, list) else [data]
        for place, node in enumerate(nodes):
            _nested_node(node, None, f"item {place}", graph, watch)
    elif isinstance(data, dict) and data and all(isinstance(v, dict) for v in data.values()):
        watch.format = "JSON (nested)"
        _nested_map(data, graph, watch)
    elif isinstance(data, dict) and data:
        watch.format = "JSON (parent map)"
        _parent_map(data, graph, watch)
    else:
        raise watch.fail(
            f"the JSON holds {type(data).__name__} at the top, no labels.",
            hint='write {"child": "parent", ...}, or {"name": "A", "children": [...]}.',
        )
    return graph


def _no_repeats(watch: Watch) -> Any:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) != len(pairs):
            seen: set[str] = set()
            twice = [k for k, _ in pairs if k in seen or seen.add(k)]  # type: ignore[func-returns-value]
            watch.problem(f"the key {twice[0]!r} occurs twice in one object.")
        return built

    return build


def _edge_objects(data: dict[str, Any], graph: Graph, watch: Watch) -> None:
    watch.format = "JSON (edges)"
    for label in data.get("labels", ()):
        graph.labels.setdefault(_name(label, "labels", watch))
    for place, edge in enumerate(data["edges"]):
        if not isinstance(edge, list) or len(edge) != 2:
            watch.problem(f"edges[{place}] is {str(edge)[:40]!r}, not a pair [parent, child].")
            continue
        parent, child = (_name(end, f"edges[{place}]", watch) for end in edge)
        _add_edge(graph, parent, child, f"edges[{place}]", watch)


def _node_name(node: Any) -> str | None:
    """Name of a node written as an object with children; None if it is no such object."""
    if isinstance(node, dict):
        for key in ("name", "id", "label"):
            if isinstance(node.get(key), str) and isinstance(node.get("children", []), list):
                others = set(node) - {key, "children"}
                if "children" in node or not others or "name" in node:
                    return str(node[key])
    return None


def _nested_node(node: Any, parent: str | None, place: str, graph: Graph, watch: Watch) -> None:
    """Walk without recursion, so that a long chain is no trouble."""
    stack = [(node, parent, place)]
    while stack:
        item, above, where = stack.pop()
        name = item if isinstance(item, str) else _node_name(item)
        if name is None:
            watch.problem(
                f"{where} is {str(item)[:40]!r}, no label.",
                hint='a label is a name, or {"name": ..., "children": [...]}.',
            )
            continue
        graph.labels.setdefault(name)
        if above is not None:
            _add_edge(graph, above, name, where, watch)
        children = item.get("children", []) if isinstance(item, dict) else []
        for i, child in reversed(list(enumerate(children))):
            stack.append((child, name, f"child {i} of {name!r}"))


def _nested_map(data: dict[str, Any], graph: Graph, watch: Watch) -> None:
    stack: list[tuple[str | None, dict[str, Any]]] = [(None, data)]
    while stack:
        above, level = stack.pop()
        for name, below in level.items():
            graph.labels.setdefault(name)
            if above is not None:
                _add_edge(graph, above, name, f"under {above!r}", watch)
            if isinstance(below, dict):
                stack.append((name, below))
            elif below is not None:
                watch.problem(f"{name!r} holds {str(below)[:40]!r}, expected an object or null.")


def _parent_map(data: dict[str, Any], graph: Graph, watch: Watch) -> None:
    for child, given in data.items():
        graph.labels.setdefault(child)
        if given is None:
            continue
        parents = [given] if isinstance(given, str) else given
        if not isinstance(parents, list) or not all(isinstance(p, str) for p in parents):
            watch.problem(
                f"the parents of {child!r} are {str(given)[:40]!r}.",
                hint="give a name, a list of names, or null for a root.",
            )
            continue
        for parent in parents:
            _add_edge(graph, parent, child, f"key {child!r}", watch)


def _name(value: Any, place: str, watch: Watch) -> str:
    if not isinstance(value, str):
        raise watch.fail(f"{place} holds {str(value)[:40]!r}; label names are strings.")
    return value


def _add_edge(graph: Graph, parent: str, child: str, place: str, watch: Watch) -> None:
    if parent == child:
        watch.problem(f"label {parent!r} is its own parent ({place}).")
    else:
        graph.edges.append((parent, child))


# -- paths ------------------------------------------------------------------------------------


def parse_paths(lines: list[str], watch: Watch, *, sep: str | None = None) -> Graph:
    """One path a line from a root down; a label is named by its whole path."""
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
