"""Data in Clus ARFF: features with labels; predictions as wide scores, classes as long truth."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base import AnyPath
from hierlpr.data.tables import Table
from hierlpr.hierarchy import Hierarchy
from hierlpr.io._watch import ReadReport, Watch
from hierlpr.io.arff import (
    MISSING,
    TOP,
    Attribute,
    Found,
    Header,
    Kind,
    build_hierarchy,
    class_column,
    read_header,
    rows,
)
from hierlpr.io.cell_values import Block
from hierlpr.io.delimited import is_number
from hierlpr.io.opening import numbered_lines, open_plain, read_bytes, read_lines

_PREDICTED = re.compile(r"(?P<model>.*?)-p-(?P<label>.+)")
_BLOCK_VALUES = 1 << 20
Row = tuple[int, list[str], list[float]]  # line, names, numbers


class _Column(NamedTuple):
    """A column of numbers: its name and place, and the numbers of its words if it is nominal."""

    name: str
    at: int
    codes: Mapping[str, float] | None = None


def _numbers(
    values: list[str], columns: Sequence[_Column], line: int, watch: Watch
) -> list[float] | None:
    """Read numbers that stand for themselves, NaN if missing; None after a problem."""
    row: list[float] = []
    for name, at, codes in columns:
        text = values[at]
        if text == MISSING:
            row.append(np.nan)
        elif codes is not None and text in codes:
            row.append(codes[text])
        elif codes is None and is_number(text.encode()) and np.isfinite(value := float(text)):
            row.append(value)
        else:
            kind = "one of the declared values" if codes is not None else "a number"
            watch.problem(f"{text[:40]!r} is not {kind}.", line=line, column=name)
            return None
    return row


def _key(header: Header) -> int | None:
    """Place of the attribute that names the samples."""
    return next((a.place for a in header.attributes if a.type in ("string", "key")), None)


# -- data sets --------------------------------------------------------------------------------


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
    lines = iter(enumerate(read_lines(path, read_bytes(path)), start=1))
    header = read_header(lines, watch)
    class_at = class_column(header, watch)
    if hierarchy is None:
        hierarchy = build_hierarchy(header.attributes[class_at], kind, watch)
    chosen = [a for a in header.attributes if a.type in ("numeric", "nominal")]
    columns = [
        _Column(
            a.name, a.place, {x: float(i) for i, x in enumerate(a.values)} if a.values else None
        )
        for a in chosen
    ]
    key = _key(header)
    features: list[list[float]] = []
    held: list[tuple[int, str]] = []
    names: list[str] = []
    for number, (line, values) in enumerate(rows(lines, header, watch), start=1):
        row = None if values is None else _numbers(values, columns, line, watch)
        if values is None or row is None:
            continue
        features.append(row)
        held.append((line, values[class_at]))
        names.append(values[key] if key is not None else str(number))
    truth, labelled = _labels(held, hierarchy, watch)
    matrix = np.array(features, dtype=np.float64).reshape(len(features), len(chosen))
    watch.counts["missing_values"] = int(np.isnan(matrix).sum())
    watch.counts["unlabelled_samples"] = int((~labelled).sum())
    sizes = {"labels": hierarchy.n_labels, "edges": hierarchy.n_edges}
    return ArffData(
        features=matrix,
        feature_names=tuple(a.name for a in chosen),
        categories={a.name: a.values for a in chosen if a.type == "nominal"},
        hierarchy=hierarchy,
        truth=truth,
        labelled=labelled,
        samples=tuple(names),
        report=watch.report(samples=len(names), features=len(chosen), **sizes),
    )


def _labels(
    held: list[tuple[int, str]], hierarchy: Hierarchy, watch: Watch
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    column = {label: i for i, label in enumerate(hierarchy.labels)}
    truth = np.zeros((len(held), hierarchy.n_labels), dtype=bool)
    labelled = np.array([text != MISSING for _, text in held], dtype=bool)
    for row in np.flatnonzero(labelled).tolist():
        line, text = held[row]
        for name in map(str.strip, text.split("@") if text else ()):
            if name in column:
                truth[row, column[name]] = True
            elif name != TOP:
                watch.unknown_label(name, hierarchy.labels, line=line)
    return hierarchy.close_upward(truth), labelled


# -- tables -----------------------------------------------------------------------------------


def open_arff(
    path: str, content: str, watch: Watch
) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Columns of a Clus file as a table of scores or truth: texts, numbers, line of the data."""
    with open_plain(path) as stream:
        header = read_header(numbered_lines(path, stream), Watch(path, lenient=watch.lenient))
    if content == "truth":
        watch.format = "Clus ARFF"
        class_column(header, watch)
        return ("sample", "label"), (), header.data_line or 1
    watch.format = "Clus predictions"
    return ("sample",), tuple(_predicted(header, None, watch)), header.data_line or 1


def arff_blocks(path: str, content: str, labels: Sequence[str], watch: Watch) -> Iterator[Block]:
    """Read the rows of a Clus file: scores of these labels, or one row for each true label.

    A sample without labels has one row of truth without a label; where the file says ``?``,
    nothing is known of the sample and it has none.
    """
    with open_plain(path) as stream:
        lines = numbered_lines(path, stream)
        header = read_header(lines, watch)
        found = rows(lines, header, watch)
        if content == "truth":
            named = _truth_rows(found, header, watch)
            size = _BLOCK_VALUES
        else:
            predicted = _predicted(header, None, watch)
            named = _score_rows(found, [_Column(x, predicted[x].place) for x in labels], watch)
            size = max(1, _BLOCK_VALUES // max(1, len(labels)))
        while held := list(islice(named, size)):
            yield Block.of(held)


def _truth_rows(found: Found, header: Header, watch: Watch) -> Iterator[Row]:
    class_at, key = class_column(header, watch), _key(header)
    seen: set[str] = set()
    for number, (line, values) in enumerate(found, start=1):
        if values is None:
            continue
        if values[class_at] == MISSING:
            watch.counts["unlabelled_samples"] += 1
            continue
        sample = values[key] if key is not None else str(number)
        if sample in seen:
            watch.problem(f"sample {sample!r} occurs again.", line=line)
            continue
        seen.add(sample)
        labels = [label.strip() for label in values[class_at].split("@")]
        given = [label for label in labels if label and label != TOP]
        for label in dict.fromkeys(given) or ("",):
            yield line, [sample, label], []


def _score_rows(found: Found, columns: Sequence[_Column], watch: Watch) -> Iterator[Row]:
    for number, (line, cells) in enumerate(found, start=1):
        row = None if cells is None else _numbers(cells, columns, line, watch)
        if row is not None:
            yield line, [str(number)], row


def _predicted(header: Header, model: str | None, watch: Watch) -> dict[str, Attribute]:
    """Attributes ``MODEL-p-LABEL`` of a model by label."""
    found: dict[str, dict[str, Attribute]] = {}
    for attribute in header.attributes:
        match = _PREDICTED.fullmatch(attribute.name)
        if match and attribute.type == "numeric":
            of_model = found.setdefault(match["model"], {})
            if match["label"] in of_model:
                raise watch.fail(
                    "the attribute occurs twice.", line=attribute.line, column=attribute.name
                )
            of_model[match["label"]] = attribute
    if not found:
        raise watch.fail(
            "no attribute is called MODEL-p-LABEL, so this is no Clus prediction file.",
            line=header.data_line,
        )
    if model is None:
        model = next(iter(found)) if len(found) == 1 else "Original"
    if model not in found:
        raise watch.fail(
            f"no predictions of model {model!r}.",
            line=header.data_line,
            hint=f"it has: {', '.join(found)}.",
        )
    return found[model]


@dataclass(frozen=True, slots=True, eq=False)
class ClusPredictions:
    """Scores of a Clus prediction file, with its truth where the file holds it."""

    scores: Table
    truth: Table | None
    report: ReadReport


def read_clus_predictions(
    path: AnyPath, *, model: str | None = None, lenient: bool = False
) -> ClusPredictions:
    """Read a Clus prediction file (``.pred.arff``): attributes ``MODEL-p-LABEL``.

    Parameters
    ----------
    path : path
    model : str, optional
        Which of the models in the file (``"Original"``, ``"Pruned"``, ...); may be left out if
        there is only one, or if one is called Original.
    lenient : bool
        Leave out rows that cannot be read and count them.
    """
    watch = Watch(path, "Clus predictions", lenient=lenient)
    with open_plain(watch.path) as stream:
        lines = numbered_lines(watch.path, stream)
        header = read_header(lines, watch)
        predicted = _predicted(header, model, watch)
        true_at = {
            match[1]: a.place
            for a in header.attributes
            if (match := re.fullmatch(r"class-a-(.+)", a.name)) and a.type in ("nominal", "numeric")
        }
        labels = tuple(predicted)
        known = all(label in true_at for label in labels)
        columns = [_Column(x, predicted[x].place) for x in labels]
        columns += [_Column(x, true_at[x]) for x in labels if known]
        found = list(_score_rows(rows(lines, header, watch), columns, watch))
    names = tuple(sample for _, (sample,), _ in found)
    values = np.array([row for _, _, row in found], dtype=np.float64).reshape(-1, len(columns))
    n = len(labels)
    return ClusPredictions(
        scores=Table(values[:, :n].copy(), labels, names),
        truth=Table(values[:, n:].copy(), labels, names) if known and names else None,
        report=watch.report(samples=len(names), labels=n),
    )
