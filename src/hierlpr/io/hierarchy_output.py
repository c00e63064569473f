"""Hierarchies, and data sets with theirs, to files, whole or not at all."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base import AnyPath
from hierlpr._base.checks import check_choice
from hierlpr._base.files import writing, writing_text
from hierlpr.exceptions import DataError, FileError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.obo import escape
from hierlpr.io.opening import ending

_ENDINGS = (".obo", ".csv", ".tsv", ".tab", ".json", ".paths", ".txt", ".arff", ".parquet")


def write_hierarchy(
    path: AnyPath,
    hierarchy: Hierarchy,
    *,
    names: Mapping[str, str] | None = None,
    aliases: Mapping[str, str] | None = None,
    nested: bool = False,
    sep: str = "/",
) -> None:
    """Write a hierarchy in the format of the ending; `read_hierarchy` gives the same labels back.

    Names for people are kept where the format has a place for them: OBO and edge lists (``.csv``,
    ``.tsv``, ``.parquet``), in a column ``name``.

    Parameters
    ----------
    path : path
        ``.obo``, ``.csv``, ``.tsv``, ``.json``, ``.paths`` or ``.txt``, ``.arff`` (header only),
        ``.parquet``; text is gzipped if ``.gz`` follows.
    hierarchy : Hierarchy
    names, aliases : mapping, optional
        Names for people beside those of the hierarchy, and other identifiers of labels (OBO only).
    nested : bool
        For JSON, nested objects (forests only) instead of a map of each label to its parents.
    sep : str
        For path lists.

    Raises
    ------
    FileError
        If the format cannot hold the hierarchy, such as a path list for labels that are no paths.
    """
    kind = check_choice(ending(path), _ENDINGS, name="the ending of the file")
    named = {**hierarchy.names, **(names or {})}
    if kind == ".parquet":
        _write_parquet(path, _columns(hierarchy, named))
        return
    if kind == ".obo":
        text = _obo(hierarchy, named, aliases or {})
    elif kind == ".json":
        text = _nested(path, hierarchy) if nested else _parent_map(hierarchy)
    elif kind in (".paths", ".txt"):
        text = _paths(path, hierarchy, sep)
    elif kind == ".arff":
        entries = ",".join(_arff_entries(path, hierarchy))
        text = f"@RELATION hierarchy\n\n@ATTRIBUTE class hierarchical {entries}\n\n@DATA\n"
    else:
        text = _edges(_columns(hierarchy, named), "," if kind == ".csv" else "\t")
    _write(path, text)


def _write(path: AnyPath, text: str) -> None:
    with writing_text(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def _rows(hierarchy: Hierarchy) -> list[tuple[str, str]]:
    """Edges such that labels first appear in their own order; ``(label, "")`` only declares one."""
    rows: list[tuple[str, str]] = []
    later: list[tuple[str, str]] = []
    seen: set[str] = set()
    for label in hierarchy.labels:
        edges = [(parent, label) for parent in hierarchy.parents(label)]
        if edges and all(parent in seen for parent, _ in edges):
            rows += edges
        else:
            rows.append((label, ""))
            later += edges
        seen.add(label)
    return rows + later


def _columns(hierarchy: Hierarchy, names: Mapping[str, str]) -> dict[str, list[str]]:
    """Columns of an edge list; one of names if there are any, each beside its label once."""
    rows = _rows(hierarchy)
    if not any(label in hierarchy for label in names):
        parents, children = zip(*rows, strict=True)
        return {"parent": list(parents), "child": list(children)}
    # A name stands beside the child, so a label that is only declared is a child without a parent.
    left = {label: name for label, name in names.items() if label in hierarchy}
    ends = [(parent, child) if child else ("", parent) for parent, child in rows]
    parents, children = zip(*ends, strict=True)
    named = [left.pop(child, "") for child in children]
    return {"parent": list(parents), "child": list(children), "name": named}


def _edges(columns: dict[str, list[str]], delimiter: str) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return stream.getvalue()


def _write_parquet(path: AnyPath, columns: dict[str, list[str]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with writing(path) as part:
        pq.write_table(pa.table(columns), part)


def _obo(hierarchy: Hierarchy, names: Mapping[str, str], aliases: Mapping[str, str]) -> str:
    alternatives: dict[str, list[str]] = {}
    for alias, label in aliases.items():
        alternatives.setdefault(label, []).append(alias)
    out = ["format-version: 1.2"]
    for label in hierarchy.labels:
        out += ["", "[Term]", f"id: {escape(label, word=True)}"]
        out.append(f"name: {escape(names.get(label, label))}")
        out.append("namespace: hierlpr")
        out += [f"alt_id: {escape(alt, word=True)}" for alt in alternatives.get(label, ())]
        out += [f"is_a: {escape(p, word=True)}" for p in hierarchy.parents(label)]
    return "\n".join(out) + "\n"


def _parent_map(hierarchy: Hierarchy) -> str:
    entries = []
    for label in hierarchy.labels:
        above = hierarchy.parents(label)
        value = None if not above else above[0] if len(above) == 1 else list(above)
        key = json.dumps(label, ensure_ascii=False)
        entries.append(f"  {key}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _nested(path: AnyPath, hierarchy: Hierarchy) -> str:
    if not hierarchy.is_forest:
        raise FileError(f"{path}: nested JSON holds forests only, and this is a DAG.")
    nodes: dict[str, dict[str, Any]] = {x: {"name": x, "children": []} for x in hierarchy.labels}
    for parent, child in _rows(hierarchy):
        if child:
            nodes[parent]["children"].append(nodes[child])
    try:
        return json.dumps([nodes[x] for x in hierarchy.roots], ensure_ascii=False, indent=1) + "\n"
    except RecursionError:
        raise FileError(
            f"{path}: the hierarchy is too deep for nested JSON.\nHint: use nested=False."
        ) from None


def _paths(path: AnyPath, hierarchy: Hierarchy, sep: str) -> str:
    for parent, child in hierarchy.edges:
        if child.rpartition(sep)[0] != parent:
            raise FileError(
                f"{path}: a path list names labels by their path, but {child!r} is not {parent!r} "
                f"plus one segment after {sep!r}.\nHint: write an edge list (.csv) instead."
            )
    lone = next((x for x in hierarchy.roots if sep in x), None)
    if lone is not None:
        raise FileError(f"{path}: the root {lone!r} has {sep!r} in its name; choose another sep.")
    return "\n".join(hierarchy.labels) + "\n"


def _arff_entries(path: AnyPath, hierarchy: Hierarchy) -> list[str]:
    """Class entries of a Clus header: whole paths if the names are paths, else parent/child."""
    bad = next((x for x in hierarchy.labels if set(x) & set(",@% \t")), None)
    if bad is not None:
        raise FileError(f"{path}: Clus ARFF cannot hold the label name {bad!r}.")
    try:
        entries = _paths(path, hierarchy, "/").split() if hierarchy.is_forest else []
    except FileError:
        entries = []
    if not entries:
        slash = next((x for x in hierarchy.labels if "/" in x), None)
        if slash is not None:
            raise FileError(f"{path}: a Clus DAG cannot hold the label name {slash!r}.")
        entries = [
            f"{parent}/{label}"
            for label in hierarchy.labels
            for parent in hierarchy.parents(label) or ("root",)
        ]
    return entries


def write_arff(
    path: AnyPath,
    features: NDArray[np.float64],
    truth: NDArray[Any],
    hierarchy: Hierarchy,
    *,
    feature_names: Sequence[str] | None = None,
    relation: str = "hierlpr",
) -> None:
    """Write a Clus data set: numeric features (NaN as ``?``) and most specific labels."""
    features = np.asarray(features, dtype=np.float64)
    held = np.asarray(truth) != 0
    if held.shape != (features.shape[0], hierarchy.n_labels):
        raise DataError(
            f"truth has shape {held.shape}; expected ({features.shape[0]}, {hierarchy.n_labels})."
        )
    names = feature_names or [f"x{i + 1}" for i in range(features.shape[1])]
    quoted = ["'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'" for name in names]
    entries = _arff_entries(path, hierarchy)
    if not all(name.strip() and "\n" not in name for name in names):
        raise FileError(f"{path}: feature names must be visible and on one line.")
    lines = [f"@RELATION '{relation}'", ""]
    lines += [f"@ATTRIBUTE {name} numeric" for name in quoted]
    lines += [f"@ATTRIBUTE class hierarchical {','.join(entries)}", "", "@DATA"]
    has_child = np.zeros_like(held)
    column = {label: i for i, label in enumerate(hierarchy.labels)}
    for parent, child in hierarchy.edges:
        has_child[:, column[parent]] |= held[:, column[child]]
    specific = held & ~has_child
    for row, chosen in zip(features.tolist(), specific, strict=True):
        values = ["?" if value != value else repr(value) for value in row]
        values.append("@".join(hierarchy.labels[i] for i in np.flatnonzero(chosen)))
        lines.append(",".join(values))
    _write(path, "\n".join(lines) + "\n")
