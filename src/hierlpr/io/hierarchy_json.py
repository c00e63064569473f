"""Read hierarchies from JSON: a map of labels to parents, a nested tree, or obographs."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from hierlpr.io.hierarchy_formats import Graph
from hierlpr.io.reading import ReadReport, load_json

_CHILDREN = ("children", "Subcategory")


def parse_json(lines: list[str], log: ReadReport) -> Graph:
    """Read a map of each label to its parent, its parents, or null; a nested tree; obographs."""

    def check_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            twice = next(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)
            raise log.file_error(f"the key {twice!r} occurs twice in one object.")
        return dict(pairs)

    data = load_json(log.path, "\n".join(lines), object_pairs_hook=check_keys)
    if isinstance(data, dict) and isinstance(data.get("graphs"), list):
        return _parse_obographs(data["graphs"], log)
    nodes = data if isinstance(data, list) else [data]
    if any(isinstance(x, dict) and not set(_CHILDREN).isdisjoint(x) for x in nodes):
        return _parse_nested(nodes, log)
    if isinstance(data, dict) and any(isinstance(x, dict) for x in data.values()):
        return _parse_nested(_children(data), log)
    if not isinstance(data, dict) or not data:
        text = "the JSON is neither a map of labels to parents nor a nested tree."
        hint = 'write {"child": "parent", ...} or {"name": ..., "children": [...]}.'
        raise log.file_error(text, line=1, hint=hint)
    log.format = "JSON (parent map)"
    graph = Graph()
    for child, above in data.items():
        graph.labels.setdefault(child)
        parents = above if isinstance(above, list) else [] if above is None else [above]
        if not all(isinstance(parent, str) for parent in parents):
            hint = "give a name, a list of names, or null for a root."
            log.problem("the parents are not names.", line=f"key {child!r}", hint=hint)
            continue
        for parent in parents:
            graph.link(parent, child, log)
    log.check(len(graph.labels))
    return graph


def _children(below: Any) -> Any:
    """Return nodes as a list, also from an object of names."""
    if not isinstance(below, dict):
        return below or []
    return [{"name": name, "children": x} for name, x in below.items()]


def _parse_nested(roots: list[Any], log: ReadReport) -> Graph:
    """Read nodes with a name and children, or Open Images' LabelName and Subcategory."""
    log.format = "JSON (nested tree)"
    graph = Graph()
    nodes: list[tuple[str | None, Any]] = [(None, root) for root in roots]
    for parent, node in nodes:
        about = node if isinstance(node, dict) else {"name": node}
        label = about.get("LabelName", about.get("id", about.get("name")))
        below = _children(next((about[key] for key in _CHILDREN if key in about), []))
        if not isinstance(label, str) or not isinstance(below, list):
            hint = "each node has a name and, if there are labels below it, a list of children."
            log.problem("the node has no name.", line=f"below {parent!r}", hint=hint)
            continue
        graph.labels.setdefault(label)
        if isinstance(about.get("name"), str):
            graph.names[label] = about["name"]
        if parent is not None:
            graph.link(parent, label, log)
        nodes += [(label, child) for child in below]
    log.check(len(nodes))
    return graph


def _parse_obographs(graphs: list[Any], log: ReadReport) -> Graph:
    """Read the classes and is_a edges of ontologies in the obographs layout."""
    log.format = "JSON (obographs)"
    graph = Graph()
    n_others = 0

    def short(text: Any) -> str:
        """Return ``CL:0000738`` of ``http://purl.obolibrary.org/obo/CL_0000738``."""
        return re.sub(r"^.*/([A-Za-z]+)_([^/]+)$", r"\1:\2", str(text))

    for part in graphs:
        for node in part.get("nodes", ()):
            about = node.get("meta") or {}
            if node.get("type") != "CLASS" or about.get("deprecated"):
                continue
            graph.labels.setdefault(short(node["id"]))
            if isinstance(node.get("lbl"), str):
                graph.names[short(node["id"])] = node["lbl"]
        for edge in part.get("edges", ()):
            child, parent = short(edge["sub"]), short(edge["obj"])
            is_edge = edge["pred"] == "is_a" and child in graph.labels and parent in graph.labels
            n_others += not is_edge
            if is_edge:
                graph.link(parent, child, log)
    if n_others:
        log.notes.append(f"{n_others:,} edges other than is_a between classes are not used")
    log.check(len(graph.labels))
    return graph
