"""Clus ARFF as tables: predictions as a wide table of scores, classes as a long table of truth."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hierlpr.data.tables import Table
from hierlpr.io._arff_rows import MISSING, Attribute, Header, read_header, rows
from hierlpr.io._watch import ReadReport, Watch
from hierlpr.io.arff import TOP, class_column, numeric_value
from hierlpr.io.opening import numbered_lines, open_plain
from hierlpr.io.text_values import Block

__all__ = ["ClusPredictions", "arff_blocks", "open_arff", "read_clus_predictions"]

_PREDICTED = re.compile(r"(?P<model>.*?)-p-(?P<label>.+)")
_BLOCK_VALUES = 1 << 20


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
            yield from _truth_blocks(found, header, watch)
        else:
            columns = _predicted(header, None, watch)
            yield from _score_blocks(found, [(x, columns[x].place) for x in labels], watch)


def _truth_blocks(
    found: Iterator[tuple[int, list[str] | None]], header: Header, watch: Watch
) -> Iterator[Block]:
    class_at = class_column(header, watch)
    keys = [i for i, a in enumerate(header.attributes) if a.type in ("string", "key")]
    held: list[tuple[str, str, int]] = []
    seen: set[str] = set()
    for number, (line, values) in enumerate(found, start=1):
        if values is None:
            continue
        if values[class_at] == MISSING:
            watch.counts["unlabelled_samples"] += 1
            continue
        sample = values[keys[0]] if keys else str(number)
        if sample in seen:
            watch.problem(f"sample {sample!r} occurs again.", line=line)
            continue
        seen.add(sample)
        labels = [label.strip() for label in values[class_at].split("@")]
        given = [label for label in labels if label and label != TOP]
        held += [(sample, label, line) for label in dict.fromkeys(given) or ("",)]
        if len(held) >= _BLOCK_VALUES:
            yield _coded(held)
            held = []
    if held:
        yield _coded(held)


def _coded(held: list[tuple[str, str, int]]) -> Block:
    import pyarrow as pa

    samples, labels, lines = zip(*held, strict=True)
    texts = [pa.array(column, pa.string()).dictionary_encode() for column in (samples, labels)]
    return Block(len(lines), texts, [], lambda row: lines[row])


def _score_blocks(
    found: Iterator[tuple[int, list[str] | None]],
    chosen: list[tuple[str, int]],
    watch: Watch,
) -> Iterator[Block]:
    size = max(1, _BLOCK_VALUES // max(1, len(chosen)))
    names: list[str] = []
    lines: list[int] = []
    values: list[list[float]] = []
    for number, (line, cells) in enumerate(found, start=1):
        row = None if cells is None else _scores(cells, chosen, line, watch)
        if row is None:
            continue
        names.append(str(number))
        lines.append(line)
        values.append(row)
        if len(names) == size:
            yield _stacked(names, values, lines)
            names, lines, values = [], [], []
    if names:
        yield _stacked(names, values, lines)


def _stacked(names: list[str], values: list[list[float]], lines: list[int]) -> Block:
    import pyarrow as pa

    matrix = np.array(values, dtype=np.float64).reshape(len(names), -1)
    place: Callable[[int], int] = lines.__getitem__
    texts = [pa.array(names, pa.string())]
    return Block(len(names), texts, list(np.ascontiguousarray(matrix.T)), place)


def _scores(
    cells: list[str], chosen: list[tuple[str, int]], line: int, watch: Watch
) -> list[float] | None:
    row: list[float] = []
    for label, at in chosen:
        try:
            row.append(np.nan if cells[at] == MISSING else numeric_value(cells[at]))
        except ValueError:
            watch.problem(f"{cells[at][:40]!r} is not a number.", line=line, column=label)
            return None
    return row


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
            f"no predictions of model {model!r}.", line=header.data_line,
            hint=f"it has: {', '.join(found)}.",
        )  # fmt: skip
    return found[model]


# -- predictions with their truth -------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ClusPredictions:
    """Scores of a Clus prediction file, with its truth where the file holds it."""

    scores: Table
    truth: Table | None
    report: ReadReport


def read_clus_predictions(
    path: str | os.PathLike[str], *, model: str | None = None, lenient: bool = False
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
        header = read_header(numbered_lines(watch.path, stream), watch)
    columns = _predicted(header, model, watch)
    true_at = {
        match[1]: attribute
        for attribute in header.attributes
        if (match := re.fullmatch(r"class-a-(.+)", attribute.name))
        and attribute.type in ("nominal", "numeric")
    }
    labels = tuple(columns)
    known = all(label in true_at for label in labels)
    chosen = [(x, columns[x].place) for x in labels]
    chosen += [(x, true_at[x].place) for x in labels if known]
    with open_plain(watch.path) as stream:
        lines = numbered_lines(watch.path, stream)
        read_header(lines, Watch(path, lenient=True))
        found = list(_score_blocks(rows(lines, header, watch), chosen, watch))
    names = tuple(name for block in found for name in block.texts[0].to_pylist())
    values = np.concatenate(
        [np.empty((len(chosen), 0)), *(np.stack(block.numbers) for block in found)], axis=1
    ).T.copy()
    n = len(labels)
    return ClusPredictions(
        scores=Table(values[:, :n].copy(), labels, names),
        truth=Table(values[:, n:].copy(), labels, names) if known and names else None,
        report=watch.report(samples=len(names), labels=n),
    )
