"""Read hierarchies from edge lists, JSON and path lists."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any

from hierlpr._utils.checks import quote_names
from hierlpr.exceptions import DataError
from hierlpr.hierarchy.graph import edges_of_paths
from hierlpr.io.obo import Graph
from hierlpr.io.read_log import Place, ReadLog
from hierlpr.io.sources import read_cells

PARENT_NAMES = ("parent", "parent_id")
CHILD_NAMES = ("child", "child_id")
RELATION_NAMES = ("relation", "relationship", "type")
NAMESPACE_NAMES = ("namespace", "aspect")
NAME_NAMES = ("parent_name", "child_name", "name")
MAX_LEVELS = 256  # of a path, whose labels are named by their whole path
# A first row of such words is a header that must not be taken for an edge.
_HEADER_WORDS = re.compile(
    "from|to|source|target|subject|object|node|term|label|name|id|parents|children|ancestor"
    "|descendant|head|tail|superclass|subclass"
)
_SEPARATORS = ("/", "|", ">", ";", "\\", "::")


def parse_edge_list(
    log: ReadLog,
    *,
    relationships: Collection[str] | None = None,
    namespaces: Collection[str] | None = None,
    sep: str | None = None,
) -> Graph:
    """Read rows ``parent,child``; a row with one of them empty declares a label.

    With a header the columns are found by name: `relation` and `namespace` select rows,
    `parent_name`, `child_name` and `name` (of the child) are readable names of labels, and other
    columns are ignored.
    """
    used = (*PARENT_NAMES, *CHILD_NAMES, *RELATION_NAMES, *NAMESPACE_NAMES, *NAME_NAMES)
    rows = read_cells(log, used, sep=sep)
    first, cells = next(rows)
    columns = _edge_columns(cells, first, log)
    header = [] if columns is None else [cell.lower() for cell in cells]
    parent_at, child_at = columns or (0, 1)
    naming = [
        (at, parent_at if name == "parent_name" else child_at)
        for at, name in enumerate(header)
        if name in NAME_NAMES
    ]
    filters = []
    for wanted, names in ((relationships, RELATION_NAMES), (namespaces, NAMESPACE_NAMES)):
        if wanted is not None:
            column = next((i for i, name in enumerate(header) if name in names), None)
            if column is None:
                raise log.file_error(f"there is no column {names[0]!r} to select rows by.")
            filters.append((column, set(wanted)))
    graph = Graph()
    for line, row in rows if header else chain([(first, cells)], rows):
        dropped = next((at for at, chosen in filters if row[at] not in chosen), None)
        parent, child = row[parent_at], row[child_at]
        if dropped is not None:
            log.counts[f"rows of another {header[dropped]}"] += 1
            continue
        graph.labels |= dict.fromkeys(filter(None, (parent, child)))
        if parent and child:
            graph.link(parent, child, log, line)
        elif parent or child:
            log.counts["standalone_rows"] += 1
        else:
            log.problem("both names are empty.", line=line)
        for at, of in naming:
            if row[at] and row[of] and graph.names.setdefault(row[of], row[at]) != row[at]:
                text = f"label {row[of]!r} also has the name {graph.names[row[of]]!r}."
                log.problem(text, line=line, column=header[at])
    if not graph.labels and not log.n_problems:
        raise log.file_error("the table has no rows.", line=first)
    known = {parent_at, child_at, *(at for at, _ in naming)}
    extra = [name for i, name in enumerate(header) if i not in known]
    if extra and not filters:
        log.note(f"{log.path}: other columns are ignored: {quote_names(extra)}")
    return graph


def _edge_columns(given: list[str], line: Place, log: ReadLog) -> tuple[int, int] | None:
    """Return the positions of parent and child, or None if the first row is not a header."""
    header = [name.lower() for name in given]
    parents = [i for i, name in enumerate(header) if name in PARENT_NAMES]
    children = [i for i, name in enumerate(header) if name in CHILD_NAMES]
    if len(parents) == len(children) == 1:
        return parents[0], children[0]
    is_edge = len(header) == 2 and not parents and not children and isinstance(line, int)
    if is_edge and not any(map(_HEADER_WORDS.fullmatch, header)):
        return None
    raise log.file_error(
        f"expected one column 'parent' and one 'child', got {quote_names(given)}.",
        line=line,
        hint="the first row is parent,child; .csv has commas, .tsv tabs, --sep changes that.",
    )


# -- JSON -------------------------------------------------------------------------------------


def parse_json(lines: list[str], log: ReadLog) -> Graph:
    """Read nested objects, a map of labels to parents, or ``{"labels": ..., "edges": ...}``."""

    def check_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        times = Counter(key for key, _ in pairs)
        twice = next((key for key, n in times.items() if n > 1), None)
        if twice is not None:
            log.problem(f"the key {twice!r} occurs twice in one object.")
        return dict(pairs)

    try:
        data = json.loads("\n".join(lines), object_pairs_hook=check_keys)
    except json.JSONDecodeError as error:
        text = f"this is not JSON: {error.msg} at column {error.colno}."
        raise log.file_error(text, line=error.lineno) from None
    except RecursionError:
        hint = "write it as a map of each label to its parent."
        raise log.file_error("the JSON is nested too deeply.", hint=hint) from None
    except ValueError as error:  # an integer with more than 4,300 digits
        raise log.file_error(f"the JSON cannot be read ({error}).") from None
    graph = Graph()
    if isinstance(data, dict) and isinstance(data.get("edges"), list):
        log.format = "JSON (edges)"
        _read_edges(data, graph, log)
    elif isinstance(data, list) or _node_name(data) or _is_nested_map(data):
        log.format = "JSON (nested)"
        _read_nested(data, graph, log)
    elif isinstance(data, dict) and data:
        log.format = "JSON (parent map)"
        _read_parent_map(data, graph, log)
    else:
        hint = 'write {"child": "parent", ...}, or {"name": "A", "children": [...]}.'
        raise log.file_error("the JSON holds no labels.", line=1, hint=hint)
    return graph


def _is_nested_map(data: Any) -> bool:
    return isinstance(data, dict) and bool(data) and all(isinstance(x, dict) for x in data.values())


def _read_edges(data: dict[str, Any], graph: Graph, log: ReadLog) -> None:
    labels = data.get("labels", [])
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise log.file_error("labels must be a list of names.", column="labels")
    graph.labels.update(dict.fromkeys(labels))
    for i, edge in enumerate(data["edges"]):
        is_pair = isinstance(edge, list) and len(edge) == 2
        if is_pair and all(isinstance(end, str) for end in edge):
            graph.link(edge[0], edge[1], log, f"edges[{i}]")
        else:
            log.problem("this is not a pair [parent, child] of names.", line=f"edges[{i}]")


def _read_nested(data: Any, graph: Graph, log: ReadLog) -> None:
    """Read nodes with children, or maps of a name to the map below it, without recursion."""
    stack = [(data, "")]
    while stack:
        level, above = stack.pop()
        for name, below in _nodes_of(level, above, log):
            graph.labels.setdefault(name)
            if above:
                graph.link(above, name, log)
            stack.append((below, name))


def _nodes_of(level: Any, above: str, log: ReadLog) -> Iterator[tuple[str, Any]]:
    """Yield the names of one level of a nested hierarchy, and what is below each."""
    if isinstance(level, dict) and _node_name(level) is None:
        yield from level.items()
        return
    for node in level if isinstance(level, list) else [] if level is None else [level]:
        name = node if isinstance(node, str) else _node_name(node)
        if name is not None:
            yield name, node.get("children") if isinstance(node, dict) else None
            continue
        where = f"a child of {above!r}" if above else "the top"
        hint = 'a label is a name, or {"name": ..., "children": [...]}.'
        log.problem("an item is not a label.", line=where, hint=hint)


def _read_parent_map(data: dict[str, Any], graph: Graph, log: ReadLog) -> None:
    for child, given in data.items():
        graph.labels.setdefault(child)
        parents = [given] if isinstance(given, str) else [] if given is None else given
        if isinstance(parents, list) and all(isinstance(p, str) for p in parents):
            for parent in parents:
                graph.link(parent, child, log)
        else:
            hint = "give a name, a list of names, or null for a root."
            log.problem("the parents are not names.", line=f"key {child!r}", hint=hint)


def _node_name(node: Any) -> str | None:
    """Return the name of a node written as an object with children; None for other values."""
    if isinstance(node, dict) and isinstance(node.get("children", []), list):
        for key in ("name", "id", "label"):
            is_node = "children" in node or "name" in node or not set(node) - {key}
            if isinstance(node.get(key), str) and is_node:
                return str(node[key])
    return None


# -- paths ------------------------------------------------------------------------------------


def parse_paths(lines: list[str], log: ReadLog, *, sep: str | None = None) -> Graph:
    """Read one path per line, from a root down; a label is named by its whole path."""
    if sep == "":
        raise DataError("The separator of a path list must not be empty.\nHint: --path-sep /.")
    given = [(i, line.strip()) for i, line in enumerate(lines, start=1) if line.strip()]
    paths = [(i, text) for i, text in given if not text.startswith("#")]
    log.counts["comments"] += len(given) - len(paths)
    if not paths:
        raise log.file_error("there are no paths, only comments.")
    if sep is None:
        counts = {s: sum(s in text for _, text in paths) for s in _SEPARATORS}
        best = max(counts, key=lambda s: counts[s])
        sep = best if counts[best] else _SEPARATORS[0]
        log.note(f"{log.path}: paths are split at {sep!r}")
    whole = []
    for line, text in paths:
        segments = [segment.strip() for segment in text.split(sep)]
        if not all(segments):
            hint = f"segments are separated by {sep!r}; --path-sep changes that."
            log.problem(f"the path {text[:60]!r} has an empty segment.", line=line, hint=hint)
        elif len(segments) > MAX_LEVELS:
            log.problem(f"the path has more than {MAX_LEVELS} levels.", line=line)
        else:
            whole.append(sep.join(segments))
    log.counts["paths"] += len(paths)
    edges, labels = edges_of_paths(whole, sep)
    return Graph(dict.fromkeys(labels), edges)
