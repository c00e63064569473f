"""Read Clus ARFF files: features, labels, and the hierarchy in the header.

Clus ARFF is plain ARFF with one attribute of type ``hierarchical`` whose values list labels as
``a@b``. The header holds the hierarchy, as whole paths for a tree (``1,1/1,1/2``) and as
parent/child pairs for a DAG (``root/a,a/b``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils import AnyPath
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.opening import read_lines
from hierlpr.io.read_log import ReadLog, ReadReport
from hierlpr.io.text_tables import parse_number

_MISSING = "?"
_SEPARATOR = "/"
_TOP = "root"  # an artificial label above all others in the header of a DAG
_DECLARATION = re.compile(
    r"""@attribute\s+(?:'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s'"]\S*))
        \s+(?P<type>.+)""",
    re.IGNORECASE | re.VERBOSE,
)
# Possessive, so that a quote that is not closed is found in one pass.
_VALUE = r"""(?:\s*+(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|(?!\s*['"])[^,]*+)\s*+)"""
_QUOTED_ROW = re.compile(f"{_VALUE}(?:,{_VALUE})*+")
_CELL = re.compile(f"({_VALUE}),")

Kind = Literal["auto", "tree", "dag"]
_Feature = tuple[int, str, dict[str, float]]  # position, name, number of each nominal value
Lines = Iterator[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class _Attribute:
    """A column; `type` is numeric, nominal, string, key, date or hierarchical."""

    name: str
    type: str
    values: tuple[str, ...]
    line: int

    @property
    def omitted(self) -> str:
        """What a sparse row means if it does not mention this column."""
        if self.type == "nominal":
            return self.values[0]
        return "" if self.type == "hierarchical" else "0"


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


def read_arff(
    path: AnyPath,
    *,
    kind: Kind = "auto",
    hierarchy: Hierarchy | None = None,
    lenient: bool = False,
) -> ArffData:
    """Read features, labels and hierarchy of a Clus ARFF file (``.arff`` or ``.arff.gz``).

    Parameters
    ----------
    path : path
    kind : {"auto", "tree", "dag"}
        How to read the header; "auto" reads a DAG if it lists parent/child pairs.
    hierarchy : Hierarchy, optional
        Use this hierarchy instead of the header, for instance that of the training part.
    lenient : bool
        Skip and count bad rows and unknown labels.

    Raises
    ------
    FileError
        For the first problem, with file and line.
    """
    log = ReadLog(path, "Clus ARFF", lenient=lenient)
    lines = _content(read_lines(path), log)
    attributes = _read_header(lines, log)
    labels_at = _labels_column(attributes, log)
    if hierarchy is None:
        hierarchy = _build_hierarchy(attributes[labels_at], kind, log)
    chosen = {i: a for i, a in enumerate(attributes) if a.type in ("numeric", "nominal")}
    columns = [
        (i, a.name, {x: float(j) for j, x in enumerate(a.values)}) for i, a in chosen.items()
    ]
    key = next((i for i, a in enumerate(attributes) if a.type in ("string", "key")), None)
    features: list[list[float]] = []
    held: list[tuple[int, str]] = []
    names: list[str] = []
    for number, (line, text) in enumerate(lines, start=1):
        values = _split(text, attributes, line, log)
        row = None if values is None else _numbers(values, columns, line, log)
        if values is not None and row is not None:
            features.append(row)
            held.append((line, values[labels_at]))
            names.append(values[key] if key is not None else str(number))
    labelled = np.array([text != _MISSING for _, text in held], dtype=bool)
    matrix = np.array(features, dtype=np.float64).reshape(len(features), len(chosen))
    log.counts["missing_values"] = int(np.isnan(matrix).sum())
    log.counts["unlabelled_samples"] = int((~labelled).sum())
    sizes = {"labels": hierarchy.n_labels, "edges": hierarchy.n_edges}
    return ArffData(
        features=matrix,
        feature_names=tuple(a.name for a in chosen.values()),
        categories={a.name: a.values for a in chosen.values() if a.type == "nominal"},
        hierarchy=hierarchy,
        truth=_truth(held, hierarchy, log),
        labelled=labelled,
        samples=tuple(names),
        report=log.report(samples=len(names), features=len(chosen), **sizes),
    )


def _content(lines: list[str], log: ReadLog) -> Lines:
    """Yield the lines that are not blank; comments are counted."""
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text.startswith("%"):
            log.counts["comments"] += 1
        elif text:
            yield number, text


# -- header -----------------------------------------------------------------------------------


def arff_hierarchy(lines: list[str], kind: Kind, log: ReadLog) -> Hierarchy:
    """Return the hierarchy in an ARFF header; the file may have no rows."""
    attributes = _read_header(_content(lines, log), log, needs_data=False)
    return _build_hierarchy(attributes[_labels_column(attributes, log)], kind, log)


def _read_header(lines: Lines, log: ReadLog, *, needs_data: bool = True) -> list[_Attribute]:
    """Read declarations up to ``@data``."""
    attributes: list[_Attribute] = []
    line = 0
    for line, text in lines:
        keyword = text.split(None, 1)[0].lower()
        if keyword == "@attribute":
            attributes.append(_read_attribute(text, line, log))
        elif keyword == "@data":
            needs_data = False
            break
        elif keyword != "@relation":
            hint = "an ARFF header has lines @RELATION, @ATTRIBUTE and @DATA."
            raise log.file_error(f"{text[:40]!r} is not an ARFF declaration.", line=line, hint=hint)
    if not attributes:
        raise log.file_error("the ARFF header declares no attributes.", line=line)
    if needs_data:
        raise log.file_error("there is no @DATA line.", line=line)
    return attributes


def _read_attribute(text: str, line: int, log: ReadLog) -> _Attribute:
    match = _DECLARATION.fullmatch(text)
    if match is None:
        hint = "write: @ATTRIBUTE name type"
        raise log.file_error(f"{text[:60]!r} is not an attribute.", line=line, hint=hint)
    quoted = match["single"] if match["single"] is not None else match["double"]
    name = match["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
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


def _labels_column(attributes: list[_Attribute], log: ReadLog) -> int:
    """Return the position of the attribute that holds the labels."""
    found = [i for i, a in enumerate(attributes) if a.type == "hierarchical"]
    if len(found) != 1:
        text = f"the header has {len(found)} attributes of type hierarchical; expected one."
        hint = "labels are declared as: @ATTRIBUTE class hierarchical a,a/b,a/c"
        raise log.file_error(text, hint=hint)
    return found[0]


def _build_hierarchy(attribute: _Attribute, kind: Kind, log: ReadLog) -> Hierarchy:
    """Build the hierarchy from the paths or pairs that an attribute lists."""
    entries = list(attribute.values)
    paths = [entry.split(_SEPARATOR) for entry in entries]
    bad = next((entry for entry, path in zip(entries, paths, strict=True) if not all(path)), None)
    if bad is not None or not entries:
        text = "the attribute lists no labels." if bad is None else f"{bad!r} has an empty segment."
        raise log.file_error(text, line=attribute.line, column=attribute.name)
    if kind == "auto":
        kind = "dag" if _lists_edges(paths) else "tree"
    log.format = f"Clus ARFF ({'DAG' if kind == 'dag' else 'tree'})"
    if kind == "tree":
        hierarchy = Hierarchy.from_paths(entries, sep=_SEPARATOR)
        log.counts["labels_implied_by_longer_paths"] = hierarchy.n_labels - len(set(entries))
        return hierarchy
    bad = next((entry for entry in entries if entry.count(_SEPARATOR) != 1), None)
    if bad is not None:
        text, hint = f"{bad!r} is not a parent/child pair.", "read it with kind='tree'."
        raise log.file_error(text, line=attribute.line, hint=hint)
    labels = dict.fromkeys(name for path in paths for name in path if name != _TOP)
    return Hierarchy([(p, c) for p, c in paths if p != _TOP], labels=labels)


def _lists_edges(paths: list[list[str]]) -> bool:
    """Return whether all paths are pairs that start at the artificial root or form chains."""
    if any(len(path) != 2 or path[0] == path[1] for path in paths):
        return False
    parents = {parent for parent, _ in paths}
    return _TOP in parents or any(child in parents for _, child in paths)


# -- rows -------------------------------------------------------------------------------------


def split_row(text: str) -> list[str] | None:
    """Split at commas outside quotes; None if a quote is not closed.

    >>> split_row("1, 'a, b',?")
    ['1', 'a, b', '?']
    """
    if "'" not in text and '"' not in text:
        return [part.strip() for part in text.split(",")]
    if not _QUOTED_ROW.fullmatch(text):
        return None
    cells = [cell.strip() for cell in _CELL.findall(text + ",")]
    return [
        re.sub(r"\\(.)", r"\1", cell[1:-1]) if cell[:1] in ("'", '"') else cell for cell in cells
    ]


def _split(text: str, attributes: list[_Attribute], line: int, log: ReadLog) -> list[str] | None:
    """Return one value per attribute, or None after a problem.

    A sparse row ``{place value, ...}`` omits zeros, first nominal values and missing labels.
    """
    is_sparse = text.startswith("{") and text.endswith("}")
    cells = split_row(text[1:-1] if is_sparse else text)
    if cells is None:
        log.problem("the quotes do not match.", line=line)
        return None
    if not is_sparse:
        if len(cells) == len(attributes):
            return cells
        text = f"the row has {len(cells)} values, but there are {len(attributes)} attributes."
        log.problem(text, line=line)
        return None
    values = [attribute.omitted for attribute in attributes]
    for cell in filter(None, cells):
        place, _, value = cell.partition(" ")
        if not (place.isascii() and place.isdigit()) or int(place[:9]) >= len(values):
            log.problem(f"{cell[:30]!r} is not an entry 'place value' of a sparse row.", line=line)
            return None
        values[int(place)] = value.strip().strip("'\"")
    return values


def _numbers(
    values: list[str], features: Sequence[_Feature], line: int, log: ReadLog
) -> list[float] | None:
    """Return the features of a row, NaN where missing; None after a problem."""
    row: list[float] = []
    for at, name, codes in features:
        text = values[at]
        if text == _MISSING:
            row.append(np.nan)
            continue
        value = codes.get(text) if codes else parse_number(text)
        if value is None or not np.isfinite(value):
            expected = "one of the declared values" if codes else "a number"
            log.problem(f"{text[:40]!r} is not {expected}.", line=line, column=name)
            return None
        row.append(value)
    return row


def _truth(held: list[tuple[int, str]], hierarchy: Hierarchy, log: ReadLog) -> NDArray[np.bool_]:
    column = {label: i for i, label in enumerate(hierarchy.labels)}
    truth = np.zeros((len(held), hierarchy.n_labels), dtype=bool)
    for row, (line, text) in enumerate(held):
        for name in map(str.strip, text.split("@") if text not in ("", _MISSING) else ()):
            if name in column:
                truth[row, column[name]] = True
            elif name != _TOP:
                log.unknown_label(name, hierarchy.labels, line=line)
    closed: NDArray[np.bool_] = hierarchy.close_upward(truth)
    return closed
