"""Read and write files of hierarchies."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
import pyarrow as pa

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import quote_names
from hierlpr.exceptions import FileError, HierarchyError, HierlprWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.io import hierarchy_formats as formats
from hierlpr.io.hierarchy_json import parse_json
from hierlpr.io.reading import ReadReport, ending, read_lines, refuse_abundances
from hierlpr.io.table_output import output_ending, write_table

_TEXTS = (".obo", ".json", ".arff", ".txt", ".paths", ".dmp")
_MANY = 100  # labels without any edge, or below each other, are not accepted in silence
_DEEP = 40
_FEW = 4  # edges
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")


class HierarchyOptions(TypedDict, total=False):
    """Options of `read_hierarchy`, which describes them."""

    relationships: Collection[str] | None
    prefix: str | None
    prefixes: bool
    path_sep: str | None
    sep: str | None
    lenient: bool


@dataclass(frozen=True, slots=True, eq=False)
class HierarchyFile:
    """A hierarchy read from a file."""

    hierarchy: Hierarchy
    report: ReadReport
    aliases: Mapping[str, str]  # the labels of alternative and of replaced identifiers


def read_hierarchy(path: AnyPath, **options: Unpack[HierarchyOptions]) -> Hierarchy:
    r"""Read a hierarchy from a file in the format of its ending; gzip is unpacked.

    ``.obo`` is OBO, ``.csv``, ``.tsv`` and ``.parquet`` are edge lists, ``.json`` maps each label
    to its parents or is a nested tree or obographs, ``.txt`` and ``.paths`` list paths, ``.arff``
    has a Clus header, and ``nodes.dmp`` is NCBI's taxonomy.
    `hierlpr.io.load_hierarchy` also returns aliases and a report.

    Parameters
    ----------
    path : path

    Other Parameters
    ----------------
    relationships : collection of str, optional
        OBO relationships that are edges, by default ``("is_a",)``.
    prefix : str, optional
        Of OBO files and obographs: keep the labels that begin so, such as ``"CL:"``.
    prefixes : bool
        The file lists codes whose prefixes are the hierarchy, such as ICD-10.
    path_sep : str, optional
        Separator of a path list; by default the most frequent one.
    sep : str, optional
        Separator of the columns of an edge list; by default ``.csv`` has commas and ``.tsv`` tabs.
    lenient : bool
        Skip and count bad rows instead of stopping at the first.

    Raises
    ------
    FileError
        For the first problem, with file and line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tree.csv"
    >>> _ = path.write_text("parent,child\nanimal,dog\nanimal,cat\n")
    >>> read_hierarchy(path)
    <Hierarchy: forest, 3 labels, 2 edges, 1 root, depth 2>
    """
    loaded = load_hierarchy(path, **options)
    if loaded.report.n_problems:
        warnings.warn(loaded.report.lines()[-1], HierlprWarning, stacklevel=2)
    return loaded.hierarchy


def load_hierarchy(path: AnyPath, **options: Unpack[HierarchyOptions]) -> HierarchyFile:
    """Read a hierarchy as `read_hierarchy` does; return it with aliases and a report."""
    log = ReadReport(os.fspath(path), lenient=options.get("lenient", False))
    try:
        graph = _read_graph(path, options, log)
        if (prefix := options.get("prefix")) is not None:
            graph = _with_prefix(graph, prefix, log)
        names = {x: name for x, name in graph.names.items() if name.strip() and name != x}
        hierarchy = Hierarchy(graph.edges, labels=graph.labels, names=names)
    except HierarchyError as error:
        raise FileError(f"{log.path}: {error}") from None
    bad = next((label for label in hierarchy.labels if _UNWRITABLE.search(label)), None)
    if bad is not None:
        raise log.file_error(f"the name {bad!r} has a character that is not valid in text.")
    log.counts["repeated edges merged"] = hierarchy.n_merged_edges
    n_children, n_parents = np.diff(hierarchy.child_ptr), np.diff(hierarchy.parent_ptr)
    if n_parents.max() >= 3 and n_children.max() <= 1:
        label = max(hierarchy.labels, key=lambda x: len(hierarchy.parents(x)))
        found = f"no label has two children, while {label!r} has {n_parents.max():,} parents"
        hint = "edges point from parent to child; if these do not, exchange the columns."
        text = f"{log.path}: the edges look reversed: {found}.\nHint: {hint}"
        warnings.warn(text, HierlprWarning, stacklevel=2)
    doubt = ""
    if hierarchy.n_edges == 0 and hierarchy.n_labels >= _MANY:
        doubt = f"none of its {hierarchy.n_labels:,} labels has a parent"
    elif hierarchy.n_edges > _FEW and (n_children + n_parents == 1).all():
        doubt = "no two of its edges have a label in common"
    elif hierarchy.depth > _DEEP:
        doubt = f"its longest path has {hierarchy.depth} labels"
    if doubt:
        hint = "is this a hierarchy? path_sep= separates the names of a path; prefixes=True reads "
        text = f"{log.path}: {doubt}.\nHint: {hint}codes whose prefixes are the hierarchy."
        warnings.warn(text, HierlprWarning, stacklevel=2)
    sizes = {"labels": hierarchy.n_labels, "edges": hierarchy.n_edges}
    report = log.complete(**sizes, roots=len(hierarchy.roots))
    return HierarchyFile(hierarchy, report, graph.aliases)


def _read_graph(path: AnyPath, options: HierarchyOptions, log: ReadReport) -> formats.Graph:
    kind, relationships = ending(path), options.get("relationships")
    if kind != ".obo" and relationships:
        raise log.file_error("only OBO files have relationships to choose.")
    if options.get("prefixes"):
        return formats.parse_codes(log, sep=options.get("sep"))
    if kind not in _TEXTS:
        return formats.parse_edge_list(log, sep=options.get("sep"))
    lines = read_lines(path)
    refuse_abundances(path, lines)
    if kind == ".dmp":
        names = Path(path).with_name("names.dmp")
        return formats.parse_dump(lines, read_lines(names) if names.exists() else None, log)
    if kind == ".obo":
        return formats.parse_obo(lines, log, relationships or ("is_a",))
    if kind in (".txt", ".paths"):
        return formats.parse_paths(lines, log, path_sep=options.get("path_sep"))
    return (formats.parse_arff if kind == ".arff" else parse_json)(lines, log)


def _with_prefix(graph: formats.Graph, prefix: str, log: ReadReport) -> formats.Graph:
    """Return the labels that begin with a prefix, and the edges between them."""
    labels = [label for label in graph.labels if label.startswith(prefix)]
    if not labels:
        first = quote_names(list(graph.labels))
        raise log.file_error(f"no label begins with {prefix!r}.", hint=f"labels are {first}.")
    kept = set(labels)
    log.counts["labels with other prefixes left out"] = len(graph.labels) - len(labels)
    return formats.Graph(
        labels=dict.fromkeys(labels),
        edges=[pair for pair in graph.edges if kept.issuperset(pair)],
        aliases={x: label for x, label in graph.aliases.items() if label in kept},
        names={x: name for x, name in graph.names.items() if x in kept},
    )


# -- writing ------------------------------------------------------------------------------------


def write_hierarchy(path: AnyPath, hierarchy: Hierarchy) -> None:
    """Write an edge list (``.csv``, ``.tsv``, ``.parquet``; text also with ``.gz``).

    `read_hierarchy` returns the same labels in the same order. A row without a parent declares a
    label. Names stand beside the child, each once.
    """
    output_ending(path, "hierarchy file")
    h = hierarchy
    if all(h.index(parent) < h.index(child) for parent, child in h.edges):
        rows = [(parent, label) for label in h.labels for parent in h.parents(label) or ("",)]
    else:  # all labels are declared first, in their order
        rows = [*(("", label) for label in h.labels), *h.edges]
    columns = {"parent": [row[0] for row in rows], "child": [row[1] for row in rows]}
    if hierarchy.names:
        left = dict(hierarchy.names)
        columns["name"] = [left.pop(child, "") for child in columns["child"]]
    write_table(path, pa.table(columns), is_cafa=False)
