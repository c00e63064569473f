"""Read Clus ARFF files: features, labels, and the hierarchy in the header.

Clus ARFF is plain ARFF with one attribute of type ``hierarchical`` whose values list labels as
``a@b``. The header holds the hierarchy, as whole paths for a tree (``1,1/1,1/2``) and as
parent/child pairs for a DAG (``root/a,a/b``).
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils import AnyPath
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.graph import edges_of_paths
from hierlpr.io.hierarchy_formats import Graph
from hierlpr.io.opening import read_lines
from hierlpr.io.read_report import ReadReport
from hierlpr.io.sources import parse_number

_MISSING = "?"
_SEPARATOR = "/"
_TOP = "root"  # an artificial label above all others in the header of a DAG
_DECLARATION = re.compile(
    r"""@attribute\s+(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)"|(?P<bare>[^\s'"]\S*))\s+(?P<type>.+)""",
    re.IGNORECASE,
)

Lines = Iterator[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class _Attribute:
    """A column; `type` is numeric, nominal, string, key, date or hierarchical."""

    name: str
    type: str
    values: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class ArffData:
    """A Clus data set.

    Attributes
    ----------
    features : ndarray of shape (n_samples, n_features)
        NaN for ``?``; nominal values as their position in `categories`.
    feature_names : tuple of str
    categories : mapping of str to tuple of str
        The values of each nominal feature.
    hierarchy : Hierarchy
    truth : ndarray of bool of shape (n_samples, n_labels)
        Closed upward; a row without labels (``?``) is all False and not `labelled`.
    labelled : ndarray of bool of shape (n_samples,)
    samples : tuple of str
        Values of the first string or key attribute, or the row numbers from 1.
    report : ReadReport
    """

    features: NDArray[np.float64]
    feature_names: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]
    hierarchy: Hierarchy
    truth: NDArray[np.bool_]
    labelled: NDArray[np.bool_]
    samples: tuple[str, ...]
    report: ReadReport


def read_arff(path: AnyPath, *, hierarchy: Hierarchy | None = None) -> ArffData:
    """Read features, labels and hierarchy of a Clus ARFF file (``.arff`` or ``.arff.gz``).

    Parameters
    ----------
    path : path
    hierarchy : Hierarchy, optional
        Use this hierarchy instead of the header, for instance that of the training part.

    Raises
    ------
    FileError
        For the first problem, with file and line.
    """
    log = ReadReport(os.fspath(path), "Clus ARFF")
    lines = _content(read_lines(path), log)
    attributes = _read_header(lines, log)
    labels_at = _labels_column(attributes, log)
    if hierarchy is None:
        graph = _read_graph(attributes[labels_at], log)
        hierarchy = Hierarchy(graph.edges, labels=graph.labels)
    features = {i: a for i, a in enumerate(attributes) if a.type in ("numeric", "nominal")}
    key = next((i for i, a in enumerate(attributes) if a.type in ("string", "key")), None)
    rows: list[list[float]] = []
    held: list[tuple[int, str]] = []
    names: list[str] = []
    for line, text in lines:
        values = _split(text, attributes, line, log)
        rows.append([_number(values[i], a, line, log) for i, a in features.items()])
        held.append((line, values[labels_at]))
        names.append(values[key] if key is not None else str(len(rows)))
    labelled = np.array([text != _MISSING for _, text in held], dtype=bool)
    matrix = np.array(rows, dtype=np.float64).reshape(len(rows), len(features))
    log.counts["missing values"] = int(np.isnan(matrix).sum())
    log.counts["unlabelled samples"] = int((~labelled).sum())
    truth = _truth(held, hierarchy, log)
    sizes = {"labels": hierarchy.n_labels, "edges": hierarchy.n_edges}
    return ArffData(
        features=matrix,
        feature_names=tuple(a.name for a in features.values()),
        categories={a.name: a.values for a in features.values() if a.type == "nominal"},
        hierarchy=hierarchy,
        truth=truth,
        labelled=labelled,
        samples=tuple(names),
        report=log.complete(samples=len(names), features=len(features), **sizes),
    )


def arff_hierarchy(lines: list[str], log: ReadReport) -> Graph:
    """Return the hierarchy in an ARFF header; the file may have no rows."""
    attributes = _read_header(_content(lines, log), log)
    return _read_graph(attributes[_labels_column(attributes, log)], log)


def _content(lines: list[str], log: ReadReport) -> Lines:
    """Yield the lines that are not blank; comments are counted."""
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text.startswith("%"):
            log.counts["comments"] += 1
        elif text:
            yield number, text


# -- header -----------------------------------------------------------------------------------


def _read_header(lines: Lines, log: ReadReport) -> list[_Attribute]:
    """Read declarations up to ``@data``."""
    attributes: list[_Attribute] = []
    for line, text in lines:
        keyword = text.split(None, 1)[0].lower()
        if keyword == "@attribute":
            attributes.append(_read_attribute(text, line, log))
        elif keyword == "@data":
            return attributes
        elif keyword != "@relation":
            hint = "an ARFF header has lines @RELATION, @ATTRIBUTE and @DATA."
            raise log.file_error(f"{text[:40]!r} is not an ARFF declaration.", line=line, hint=hint)
    raise log.file_error("there is no @DATA line.")


def _read_attribute(text: str, line: int, log: ReadReport) -> _Attribute:
    match = _DECLARATION.fullmatch(text)
    if match is None:
        hint = "write: @ATTRIBUTE name type"
        raise log.file_error(f"{text[:60]!r} is not a declaration.", line=line, hint=hint)
    name = next(x for x in (match["single"], match["double"], match["bare"]) if x is not None)
    declared = match["type"].strip()
    kind = declared.split(None, 1)[0].lower()
    values: list[str] | None = []
    if declared.startswith("{") and declared.endswith("}"):
        kind, values = "nominal", split_row(declared[1:-1])
    elif kind in ("numeric", "real", "integer"):
        kind = "numeric"
    elif kind == "hierarchical":
        values = [x.strip() for x in declared[len(kind) :].split(",") if x.strip()]
    elif kind not in ("string", "key", "date"):
        text = f"attribute type {declared[:30]!r} is unknown."
        hint = "types are numeric, {a,b}, string, key, date and hierarchical."
        raise log.file_error(text, line=line, column=name, hint=hint)
    if values is None:
        raise log.file_error("the quotes do not match.", line=line, column=name)
    return _Attribute(name, kind, tuple(values), line)


def _labels_column(attributes: list[_Attribute], log: ReadReport) -> int:
    """Return the position of the attribute that holds the labels."""
    found = [i for i, a in enumerate(attributes) if a.type == "hierarchical"]
    if len(found) != 1:
        text = f"the header has {len(found)} attributes of type hierarchical; expected one."
        hint = "labels are declared as: @ATTRIBUTE class hierarchical a,a/b,a/c"
        raise log.file_error(text, hint=hint)
    return found[0]


def _read_graph(attribute: _Attribute, log: ReadReport) -> Graph:
    """Return the hierarchy of the paths or pairs that an attribute lists.

    They are edges of a DAG if all are pairs, and some start at the artificial root or form chains.
    """
    paths = [entry.split(_SEPARATOR) for entry in attribute.values]
    bad = next((path for path in paths if not all(path)), None)
    if bad is not None or not paths:
        text = "the attribute lists no labels."
        text = text if bad is None else f"{_SEPARATOR.join(bad)!r} has an empty segment."
        raise log.file_error(text, line=attribute.line, column=attribute.name)
    parents = {path[0] for path in paths}
    is_dag = all(len(path) == 2 and path[0] != path[1] for path in paths)
    if not (is_dag and (_TOP in parents or any(path[1] in parents for path in paths))):
        log.format = "Clus ARFF (tree)"
        edges, labels = edges_of_paths(attribute.values, _SEPARATOR)
        return Graph(dict.fromkeys(labels), edges)
    log.format = "Clus ARFF (DAG)"
    names = dict.fromkeys(name for path in paths for name in path if name != _TOP)
    return Graph(names, [(parent, child) for parent, child in paths if parent != _TOP])


# -- rows -------------------------------------------------------------------------------------


def split_row(text: str) -> list[str] | None:
    """Split at commas outside quotes; None if a quote is not closed.

    >>> split_row("1, 'a, b',?")
    ['1', 'a, b', '?']
    """
    quote = next((c for c in text if c in "'\""), None)
    if quote is None:
        return [part.strip() for part in text.split(",")]
    cells = csv.reader([text], quotechar=quote, escapechar="\\", skipinitialspace=True, strict=True)
    try:
        return [cell.strip() for cell in next(cells)]
    except csv.Error:
        return None


def _split(text: str, attributes: Sequence[_Attribute], line: int, log: ReadReport) -> list[str]:
    """Return one value per attribute."""
    cells = split_row(text)
    if cells is None:
        raise log.file_error("the quotes do not match.", line=line)
    if len(cells) != len(attributes):
        text = f"the row has {len(cells)} values, but there are {len(attributes)} attributes."
        raise log.file_error(text, line=line)
    return cells


def _number(text: str, attribute: _Attribute, line: int, log: ReadReport) -> float:
    """Return a feature as a number, NaN where missing."""
    if text == _MISSING:
        return np.nan
    if attribute.values:
        value = float(attribute.values.index(text)) if text in attribute.values else None
    else:
        value = parse_number(text)
    if value is None or not np.isfinite(value):
        expected = "one of the declared values" if attribute.values else "a number"
        text = f"{text[:40]!r} is not {expected}."
        raise log.file_error(text, line=line, column=attribute.name)
    return value


def _truth(held: list[tuple[int, str]], hierarchy: Hierarchy, log: ReadReport) -> NDArray[np.bool_]:
    column = {label: i for i, label in enumerate(hierarchy.labels)}
    truth = np.zeros((len(held), hierarchy.n_labels), dtype=bool)
    for row, (line, text) in enumerate(held):
        for name in map(str.strip, text.split("@") if text not in ("", _MISSING) else ()):
            if name in column:
                truth[row, column[name]] = True
            elif name != _TOP:
                log.unknown_label(name, hierarchy.labels, line=line)
    log.check(len(held))
    closed: NDArray[np.bool_] = hierarchy.close_upward(truth)
    return closed
