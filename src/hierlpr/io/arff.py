"""Clus ARFF: features with hierarchical labels, trees and DAGs in the header, predictions.

The format is that of the Clus system: plain ARFF with one attribute of type ``hierarchical``
whose value lists the labels, ``a@b``. The header holds the hierarchy, as whole paths for a tree
(``1,1/1,1/2``) and as parent/child pairs for a DAG (``root/a,a/b``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hierlpr.hierarchy import Hierarchy
from hierlpr.io._arff_rows import MISSING, Attribute, Header, read_header, rows
from hierlpr.io._watch import ReadReport, Watch
from hierlpr.io.delimited import is_number
from hierlpr.io.opening import read_lines

__all__ = [
    "TOP",
    "ArffData",
    "arff_hierarchy",
    "class_column",
    "read_arff",
]

SEPARATOR = "/"
TOP = "root"  # the artificial label above all others in a DAG header

Kind = Literal["auto", "tree", "dag"]


@dataclass(frozen=True, slots=True, eq=False)
class ArffData:
    """A Clus data set.

    Attributes
    ----------
    features : ndarray of shape (n_samples, n_features)
        NaN where the file says ``?``; nominal values as their place in `categories`.
    feature_names : tuple of str
    categories : mapping of str to tuple of str
        The values of each nominal feature.
    hierarchy : Hierarchy
    truth : ndarray of bool of shape (n_samples, n_labels)
        Closed upward; a row without labels (``?``) is False throughout and not `labelled`.
    labelled : ndarray of bool of shape (n_samples,)
    samples : tuple of str
        The first string attribute (a key), or the number of the row from 1.
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
    path: str | os.PathLike[str],
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
        How to read the header; "auto" takes a DAG if it lists parent/child pairs.
    hierarchy : Hierarchy, optional
        Use this one instead of the header's, for instance that of the training part.
    lenient : bool
        Leave out rows that cannot be read and labels that the hierarchy lacks, and count them,
        instead of stopping at the first.

    Raises
    ------
    FileError
        Naming file and line.
    """
    watch = Watch(path, "Clus ARFF", lenient=lenient)
    lines = iter(enumerate(read_lines(path), start=1))
    header = read_header(lines, watch)
    class_at = class_column(header, watch)
    if hierarchy is None:
        hierarchy = _build(header.attributes[class_at], kind, watch)
    plan = _plan(header.attributes)
    features: list[list[float]] = []
    sample_labels: list[str] = []
    names: list[str] = []
    where: list[int] = []
    for number, (line, values) in enumerate(rows(lines, header, watch), start=1):
        row = None if values is None else _numbers(values, plan, watch, line)
        if values is None or row is None:
            continue
        features.append(row)
        sample_labels.append(values[class_at])
        names.append(values[plan.key] if plan.key is not None else str(number))
        where.append(line)
    truth, labelled = _labels(sample_labels, where, hierarchy, watch)
    chosen = [header.attributes[i] for i in plan.columns]
    matrix = np.array(features, dtype=np.float64).reshape(len(features), len(chosen))
    watch.counts["missing_values"] = int(np.isnan(matrix).sum())
    watch.counts["unlabelled_samples"] = int((~labelled).sum())
    return ArffData(
        features=matrix,
        feature_names=tuple(a.name for a in chosen),
        categories={a.name: a.values for a in chosen if a.type == "nominal"},
        hierarchy=hierarchy,
        truth=truth,
        labelled=labelled,
        samples=tuple(names),
        report=watch.report(
            samples=len(names), features=len(chosen), labels=hierarchy.n_labels,
            edges=hierarchy.n_edges,
        ),
    )  # fmt: skip


def arff_hierarchy(lines: list[str], kind: Kind, watch: Watch) -> Hierarchy:
    """Hierarchy of an ARFF header; the data need not be there."""
    header = read_header(iter(enumerate(lines, start=1)), watch)
    return _build(header.attributes[class_column(header, watch)], kind, watch)


def class_column(header: Header, watch: Watch) -> int:
    """Place of the attribute that holds the labels."""
    found = [i for i, a in enumerate(header.attributes) if a.type == "hierarchical"]
    if len(found) != 1:
        raise watch.fail(
            f"the header has {len(found)} attributes of type hierarchical; expected one.",
            line=header.data_line,
            hint="the labels are declared as: @ATTRIBUTE class hierarchical a,a/b,a/c",
        )
    return found[0]


def _build(attribute: Attribute, kind: Kind, watch: Watch) -> Hierarchy:
    entries = list(attribute.values)
    pairs = [entry.split(SEPARATOR) for entry in entries]
    for entry, segments in zip(entries, pairs, strict=True):
        if not all(segments):
            raise watch.fail(
                f"the class entry {entry!r} has an empty segment.", line=attribute.line
            )
    if kind == "auto":
        kind = "dag" if _lists_edges(pairs) else "tree"
    watch.format = f"Clus ARFF ({'DAG' if kind == 'dag' else 'tree'})"
    if kind == "tree":
        hierarchy = Hierarchy.from_paths(entries, sep=SEPARATOR)
        added = hierarchy.n_labels - len(set(entries))
        if added:
            watch.counts["labels_implied_by_longer_paths"] = added
        return hierarchy
    wrong = next((entry for entry in entries if entry.count(SEPARATOR) != 1), None)
    if wrong is not None:
        raise watch.fail(
            f"the class entry {wrong!r} is no parent/child pair.", line=attribute.line,
            hint="read it with kind='tree'.",
        )  # fmt: skip
    # Clus puts one artificial label above all; it is no label of any sample.
    labels = dict.fromkeys(name for pair in pairs for name in pair if name != TOP)
    return Hierarchy([(p, c) for p, c in pairs if p != TOP], labels=labels)


def _lists_edges(pairs: list[list[str]]) -> bool:
    """Pairs only, no label under itself, and they chain up or hang on the artificial top."""
    if any(len(pair) != 2 or pair[0] == pair[1] for pair in pairs):
        return False
    parents = {parent for parent, _ in pairs}
    return TOP in parents or any(child in parents for _, child in pairs)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which columns are features, how nominal ones are numbered, which names the samples."""

    columns: tuple[int, ...]
    codes: Mapping[int, Mapping[str, float]]
    names: tuple[str, ...]
    key: int | None


def _plan(attributes: tuple[Attribute, ...]) -> _Plan:
    columns = tuple(i for i, a in enumerate(attributes) if a.type in ("numeric", "nominal"))
    codes = {
        i: {value: float(code) for code, value in enumerate(attributes[i].values)}
        for i in columns
        if attributes[i].type == "nominal"
    }
    keys = [i for i, a in enumerate(attributes) if a.type in ("string", "key")]
    names = tuple(a.name for a in attributes)
    return _Plan(columns, codes, names, keys[0] if keys else None)


def _numbers(values: list[str], plan: _Plan, watch: Watch, line: int) -> list[float] | None:
    row: list[float] = []
    for i in plan.columns:
        text = values[i]
        if text == MISSING:
            row.append(np.nan)
            continue
        try:
            row.append(plan.codes[i][text] if i in plan.codes else numeric_value(text))
        except (ValueError, KeyError):
            kind = "one of the declared values" if i in plan.codes else "a number"
            watch.problem(f"{text!r} is not {kind}.", line=line, column=plan.names[i])
            return None
    return row


def numeric_value(text: str) -> float:
    """Read a number that stands for itself; ValueError if it is none, or not finite."""
    if not (is_number(text.encode()) and np.isfinite(value := float(text))):
        raise ValueError
    return value


def _labels(
    texts: list[str], where: list[int], hierarchy: Hierarchy, watch: Watch
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    column = {label: i for i, label in enumerate(hierarchy.labels)}
    truth = np.zeros((len(texts), hierarchy.n_labels), dtype=bool)
    labelled = np.ones(len(texts), dtype=bool)
    for row, text in enumerate(texts):
        if text == MISSING:
            labelled[row] = False
            continue
        for label in text.split("@") if text else ():
            name = label.strip()
            if name in column:
                truth[row, column[name]] = True
            elif name != TOP:
                watch.unknown_label(name, hierarchy.labels, line=where[row])
    return hierarchy.close_upward(truth), labelled
