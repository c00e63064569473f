"""Hierarchies however people hold them: files in any format, parents, edges, paths or a graph.

The format of a file is told by its ending, and by the content in doubt.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from hierlpr._base import AnyPath
from hierlpr._base.checks import check_choice
from hierlpr.exceptions import FileError, HierarchyError, HierlprWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.io._watch import ReadReport, Watch
from hierlpr.io.arff import Kind, arff_hierarchy
from hierlpr.io.delimited import DELIMITERS
from hierlpr.io.edgelists import line_of_name, parse_edge_list, parse_json, parse_paths
from hierlpr.io.obo import Graph, parse_obo
from hierlpr.io.opening import ending, read_bytes, read_lines, workbook_of, written

FORMATS = ("obo", "edges", "json", "paths", "arff", "parquet")
_BY_ENDING = {f".{name}": name for name in ("obo", "json", "arff", "paths", "parquet")}
_BY_ENDING |= dict.fromkeys((".csv", ".tsv", ".tab"), "edges")
_SHEETS = ("edge list", "Parquet edge list", "Excel edge list")
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
_UNDIRECTED = (*_SHEETS, "JSON (parent map)", "JSON (edges)")

Format = Literal["obo", "edges", "json", "paths", "arff", "parquet"]
Direction = Literal["auto", "parent-child", "child-parent"]


@dataclass(frozen=True, slots=True, eq=False)
class HierarchyFile:
    """A hierarchy with what its file says besides.

    Attributes
    ----------
    hierarchy : Hierarchy
    report : ReadReport
    aliases : mapping of str to str
        Other identifiers of labels: alternative ones, and obsolete ones with one replacement.
    """

    hierarchy: Hierarchy
    report: ReadReport
    aliases: Mapping[str, str]

    @property
    def names(self) -> Mapping[str, str]:
        """Names for people of labels, where there are any: those of the hierarchy."""
        return self.hierarchy.names


def read_hierarchy(
    path: AnyPath,
    *,
    format: Format | None = None,
    relationships: Collection[str] | None = None,
    namespaces: Collection[str] | None = None,
    direction: Direction = "auto",
    sep: str | None = None,
    kind: Kind = "auto",
    lenient: bool = False,
) -> Hierarchy:
    r"""Read a hierarchy from an OBO, edge list, JSON, path list, Clus ARFF, Parquet or Excel file.

    The ending tells the format (``.obo``, ``.csv``, ``.tsv``, ``.json``, ``.txt``, ``.paths``,
    ``.arff``, ``.parquet``, ``.xlsx``; gzip is unpacked), and the content where the ending does
    not. What else the file says, and what was seen, comes from `hierlpr.io.load_hierarchy`.

    Parameters
    ----------
    path : path
    format : {"obo", "edges", "json", "paths", "arff", "parquet"}, optional
        Overrides the ending.
    relationships : collection of str, optional
        Which OBO relationships are edges, ``("is_a",)`` if not given; for an edge list, which
        values of its column `relation` (all if not given).
    namespaces : collection of str, optional
        Keep only terms of these OBO namespaces; for an edge list, rows by column `namespace`.
    direction : {"auto", "parent-child", "child-parent"}
        Which way edges are written. "auto" reads parent, child (or goes by the header) and
        refuses a hierarchy that stands on its head; the other two are taken at their word.
    sep : str, optional
        Separator of a path list; found by itself if not given.
    kind : {"auto", "tree", "dag"}
        How to read a Clus ARFF header.
    lenient : bool
        Pass over row-level problems and count them, instead of stopping at the first.

    Raises
    ------
    FileError
        Naming file and line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tree.csv"
    >>> _ = path.write_text("parent,child\nanimal,dog\nanimal,cat\n")
    >>> read_hierarchy(path)
    <Hierarchy: forest, 3 labels, 2 edges, 1 roots, depth 2>
    """
    edges: Any = {"relationships": relationships, "namespaces": namespaces, "direction": direction}
    other: Any = {"format": format, "sep": sep, "kind": kind, "lenient": lenient}
    loaded = load_hierarchy(path, **edges, **other)
    report = loaded.report
    said = [note for note in report.notes if "reversed" in note]
    if report.n_problems:
        said.append(report.lines()[-1])
    for text in said:
        warnings.warn(text, HierlprWarning, stacklevel=2)
    return loaded.hierarchy


def load_hierarchy(
    path: AnyPath,
    *,
    format: Format | None = None,
    relationships: Collection[str] | None = None,
    namespaces: Collection[str] | None = None,
    direction: Direction = "auto",
    sep: str | None = None,
    kind: Kind = "auto",
    lenient: bool = False,
) -> HierarchyFile:
    """Read a hierarchy as `read_hierarchy` does, with aliases, names and a report."""
    check_choice(direction, ("auto", "parent-child", "child-parent"), name="direction")
    if format is not None:
        check_choice(format, FORMATS, name="format")
    watch = Watch(path, lenient=lenient)
    is_sheet = workbook_of(path) is not None
    raw = b"" if is_sheet else read_bytes(path)
    chosen = "parquet" if raw.startswith(b"PAR1") else format or _BY_ENDING.get(ending(path))
    lines = read_lines(path, raw) if chosen != "parquet" and not is_sheet else []
    chosen = "sheet" if is_sheet else chosen or _guess(lines)
    try:
        if chosen == "arff":
            return _finish(arff_hierarchy(lines, kind, watch), Graph(), direction, watch)
        if chosen == "obo":
            watch.format = "OBO"
            graph = parse_obo(
                lines, watch, relationships=relationships or ("is_a",), namespaces=namespaces
            )
        elif chosen == "json":
            graph = parse_json(lines, watch)
        elif chosen == "paths":
            watch.format = "path list"
            graph = parse_paths(lines, watch, sep=sep)
        else:
            kinds = {"edges": "edge list", "sheet": "Excel edge list"}
            watch.format = kinds.get(chosen, "Parquet edge list")
            first = next((x for x in lines if x.strip() and not x.startswith("#")), "")
            sep = written(path).sep
            delimiter = DELIMITERS.get(ending(path)) or ("\t" if "\t" in first else ",")
            delimiter = sep if sep is not None and sep in first else delimiter
            graph = parse_edge_list(
                watch,
                delimiter if chosen == "edges" else None,
                relationships=relationships,
                namespaces=namespaces,
            )
        _check_writable(graph, lines, watch)
        if direction == "child-parent":
            graph.edges = [(child, parent) for parent, child in graph.edges]
        built = Hierarchy(graph.edges, labels=graph.labels)
        given = graph.names.items()
        named = {x: name for x, name in given if x in built and name.strip() and name != x}
        return _finish(built.with_names(named) if named else built, graph, direction, watch)
    except HierarchyError as error:
        raise FileError(f"{watch.path}: {error}") from None


def _check_writable(graph: Graph, lines: list[str], watch: Watch) -> None:
    """Refuse what JSON can write in a name and no other file can hold: half a character, NUL."""
    names = dict.fromkeys([*graph.labels, *(end for edge in graph.edges for end in edge)])
    if _UNWRITABLE.search("".join(names)):
        bad = next(name for name in names if _UNWRITABLE.search(name))
        what = "the character 0" if "\x00" in bad else "half a character (a lone surrogate)"
        line = line_of_name(lines, bad)
        raise watch.fail(f"the name {bad!r} holds {what}.", line=line)


def _finish(
    hierarchy: Hierarchy, graph: Graph, direction: Direction, watch: Watch
) -> HierarchyFile:
    if hierarchy.n_merged_edges:
        watch.counts["repeated_edges_merged"] = hierarchy.n_merged_edges
    # Only where the file itself does not say which end is the parent.
    in_doubt = direction == "auto" and watch.format in _UNDIRECTED
    doubt = reversal(hierarchy) if in_doubt else "no"
    if doubt == "certain" and not watch.lenient:
        parents = max(hierarchy.labels, key=lambda x: len(hierarchy.parents(x)))
        raise watch.fail(
            "the edges look reversed: no label has two children, while "
            f"{parents!r} has {len(hierarchy.parents(parents)):,} parents.",
            hint="name the columns parent and child, or say --direction child-parent to turn "
            "them round, --direction parent-child to keep them.",
        )
    if doubt != "no":
        watch.note(
            f"{watch.path}: the edges may be reversed (more roots than leaves, and no label has as "
            "many children as one has parents); --direction child-parent turns them round"
        )
    report = watch.report(
        labels=hierarchy.n_labels, edges=hierarchy.n_edges, roots=len(hierarchy.roots)
    )
    return HierarchyFile(hierarchy, report, dict(graph.aliases))


def reversal(hierarchy: Hierarchy) -> Literal["no", "possible", "certain"]:
    """Judge whether edges run from child to parent.

    Hierarchies widen downward: read the right way, labels have many children and few parents.
    Certain is only a forest standing on its head: nobody has two children, somebody has three
    parents or more.
    """
    n_children, n_parents = np.diff(hierarchy.child_ptr), np.diff(hierarchy.parent_ptr)
    if n_parents.max() < 3:
        return "no"
    if n_children.max() <= 1:
        return "certain"
    roots, leaves = int((n_parents == 0).sum()), int((n_children == 0).sum())
    return "possible" if roots > leaves and n_parents.max() > n_children.max() else "no"


def _guess(lines: list[str]) -> str:
    """Format of a text file whose ending says nothing, from its first lines."""
    first = [text for line in lines[:200] if (text := line.strip()) and text[0] not in "#%!"][:20]
    if not first:
        return "paths"
    if first[0][0] in "{[" and not first[0].lower().startswith(("[term]", "[typedef]")):
        return "json"
    if any(text.lower().startswith("@attribute") for text in first):
        return "arff"
    if any(text in ("[Term]", "[Typedef]") for text in first) or first[0].startswith("format-v"):
        return "obo"
    if all(text.count("\t") == 1 for text in first) or all(text.count(",") == 1 for text in first):
        return "edges"
    return "paths"


# -- not from a file ----------------------------------------------------------------------------

HierarchyLike: TypeAlias = (
    Hierarchy | str | os.PathLike[str] | Mapping[str, Any] | Iterable[Any]  # or a networkx graph
)

_FORMS = (
    "a Hierarchy, a path to a file, a dict of each label to its parent or parents, "
    "(parent, child) edges, label paths such as 'A/B', or a networkx graph"
)


def as_hierarchy(given: HierarchyLike) -> Hierarchy:
    """Return the hierarchy that `given` stands for.

    Parameters
    ----------
    given : Hierarchy, path, dict, iterable or networkx graph
        A text or path names a file, see :func:`hierlpr.read_hierarchy`. A dict maps each label to
        its parent, its parents, or None for a root. A list holds (parent, child) edges, or texts:
        paths such as ``"A/B"``, each naming a label. A data frame has columns ``parent`` and
        ``child``. Edges of a networkx graph point from parent to child.

    Examples
    --------
    >>> as_hierarchy({"dog": "animal", "cat": "animal"}).roots
    ('animal',)
    >>> as_hierarchy([("animal", "dog"), ("animal", "cat")]).labels
    ('animal', 'dog', 'cat')
    >>> as_hierarchy(["animal/dog", "animal/cat"]).labels
    ('animal', 'animal/dog', 'animal/cat')
    """
    if isinstance(given, Hierarchy):
        return given
    if isinstance(given, str | os.PathLike):
        return read_hierarchy(given)
    if hasattr(given, "is_directed") and hasattr(given, "edges"):
        return Hierarchy.from_networkx(given)
    if isinstance(given, Mapping):
        return Hierarchy.from_parents(given)
    columns = getattr(given, "columns", None)
    if columns is not None:
        return Hierarchy(_edges_of_frame(given))
    if not isinstance(given, Iterable):
        raise HierarchyError(f"hierarchy must be {_FORMS}; got {type(given).__name__}.")
    listed = list(given)
    if listed and all(isinstance(one, str) for one in listed):
        return Hierarchy.from_paths(listed)
    if not all(_is_pair(one) for one in listed):
        bad = next(one for one in listed if not _is_pair(one))
        raise HierarchyError(f"hierarchy must be {_FORMS}; its list holds {bad!r}.")
    return Hierarchy(listed)


def _is_pair(one: Any) -> bool:
    return isinstance(one, tuple | list) and len(one) == 2


def _edges_of_frame(given: Any) -> list[tuple[Any, Any]]:
    import narwhals.stable.v1 as nw

    frame = nw.from_native(given, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame) or not {"parent", "child"} <= set(frame.columns):
        raise HierarchyError(
            "hierarchy: a data frame of edges needs columns 'parent' and 'child'.\n"
            f"Hint: or give {_FORMS}."
        )
    return list(zip(frame["parent"].to_list(), frame["child"].to_list(), strict=True))
