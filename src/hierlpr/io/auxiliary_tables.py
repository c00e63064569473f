"""Read weights of samples, p-values of labels, and readable names of labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import MOST_WEIGHT, quote_names
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.read_log import Place, ReadLog, ReadReport, describe_place
from hierlpr.io.read_tables import read_scores
from hierlpr.io.sources import read_cells
from hierlpr.io.table_files import TableOptions
from hierlpr.io.text_tables import parse_number

P_NAMES = ("p", "p_value", "pvalue", "p-value", "p.value", "pval")
LABEL_NAMES = ("label", "code", "id", "term")
CAPTION_NAMES = ("name", "title", "description", "text")


class Weights(NamedTuple):
    """Weights of samples by name, and the report of the file."""

    of: Mapping[str, float]
    report: ReadReport

    def match(self, samples: Sequence[str], source: str) -> NDArray[np.float64]:
        """Return the weights of samples of the file `source`; each must have one."""
        lost = [name for name in samples if name not in self.of]
        if lost:
            raise DataError(
                f"{self.report.path}: {len(lost):,} of {len(samples):,} samples of {source} have "
                f"no weight: {quote_names(lost)}.\n"
                "Hint: samples are matched by name; a weight of 0 leaves one out."
            )
        weights = np.array([self.of[name] for name in samples], dtype=np.float64)
        if not weights.any():
            raise DataError(
                f"{self.report.path}: all {len(samples):,} samples of {source} have weight 0."
            )
        return weights


def read_weights(
    path: AnyPath,
    *,
    lenient: bool = False,
    max_weight: float | None = None,
    **options: Unpack[TableOptions],
) -> Weights:
    """Read a table with the columns ``sample`` and ``weight``; other columns are ignored.

    Weights are 0 or more, and at most `max_weight` if that is given.
    """
    options["columns"] = "labels"
    read = read_scores(path, Hierarchy((), labels=("weight",)), lenient=lenient, **options)
    values = np.asarray(read.table.values)[:, 0]
    largest = MOST_WEIGHT if max_weight is None else min(max_weight, MOST_WEIGHT)
    bad = np.flatnonzero((values < 0.0) | (values > largest))
    if bad.size:
        first = int(bad[0])
        raise ReadLog(path).file_error(
            f"the weight of sample {read.samples[first]!r} is {values[first]:g}; weights lie "
            f"between 0 and {largest:g} ({bad.size:,} do not).",
            column="weight",
        )
    return Weights(dict(zip(read.samples, values.tolist(), strict=True)), read.report)


@dataclass(frozen=True, slots=True, eq=False)
class PValuesFile:
    """p-values in the order of ``hierarchy.labels``, NaN where missing."""

    p: NDArray[np.float64]
    report: ReadReport


def read_p_values(
    path: AnyPath,
    hierarchy: Hierarchy,
    *,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
    sep: str | None = None,
) -> PValuesFile:
    """Read a table with a column ``label`` and one of p-values.

    Parameters
    ----------
    path : path
        Text, Parquet or an Excel sheet. The column of p-values is called ``p``, ``p_value``,
        ``pvalue``, ``p-value``, ``p.value`` or ``pval``; other columns are ignored. Labels that are
        not listed, and empty or NA cells, have no p-value.
    hierarchy : Hierarchy
    aliases : mapping, optional
        Other names of labels.
    lenient : bool
        Skip unknown labels and bad rows, and count them.
    sep : str, optional
        The character between columns; by default ``.csv`` has commas and ``.tsv`` tabs.
    """
    log = ReadLog(path, "p-values", lenient=lenient)
    position = {name: i for i, name in enumerate(hierarchy.labels)}
    p = np.full(hierarchy.n_labels, np.nan)
    given: dict[int, Place] = {}
    for place, name, cell in _label_rows(log, ("label",), P_NAMES, sep):
        at = position.get(name if name in position else (aliases or {}).get(name, name))
        value = parse_number(cell)
        if at is None:
            log.unknown_label(name, position, line=place)
        elif at in given:
            first = describe_place(given[at])
            log.problem(f"label {name!r} occurs again (first: {first}).", line=place)
        elif value is None:
            log.problem(f"{cell[:40]!r} is not a number.", line=place, column="p")
        elif not (0.0 <= value <= 1.0 or math.isnan(value)):
            hint = "give p-values, not test statistics or their logarithms."
            log.problem(f"{cell} is outside [0, 1].", line=place, column="p", hint=hint)
        else:
            given[at] = place
            p[at] = value
    if np.isnan(p).all():
        raise log.file_error("no label of the hierarchy has a p-value.")
    counts = {"p-values": int((~np.isnan(p)).sum()), "labels without one": int(np.isnan(p).sum())}
    return PValuesFile(p, log.report(**counts))


def read_names(
    path: AnyPath,
    hierarchy: Hierarchy,
    *,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
    sep: str | None = None,
) -> tuple[dict[str, str], ReadReport]:
    """Read a table of readable names with the columns ``code`` and ``name``.

    The columns may also be called ``label``, ``id`` or ``term``, and ``title``, ``description`` or
    ``text``. Names of labels that are not in the hierarchy are counted.
    """
    log = ReadLog(path, "names", lenient=lenient)
    names: dict[str, str] = {}
    for place, given, name in _label_rows(log, LABEL_NAMES, CAPTION_NAMES, sep):
        label = given if given in hierarchy else (aliases or {}).get(given, given)
        if label not in hierarchy:
            log.counts["names_of_other_labels"] += 1
        elif not name:
            log.counts["labels_with_an_empty_name"] += 1
        elif names.setdefault(label, name) != name:
            log.problem(f"label {given!r} also has the name {names[label]!r}.", line=place)
    if not names:
        raise log.file_error("no label of the hierarchy has a name.")
    return names, log.report(names=len(names), labels=hierarchy.n_labels)


def _label_rows(
    log: ReadLog, labels: tuple[str, ...], values: tuple[str, ...], sep: str | None
) -> Iterator[tuple[Place, str, str]]:
    """Yield place, label and value of every row."""
    rows = read_cells(log, (*labels, *values), sep=sep)
    first, header = next(rows)
    positions = []
    for names in (labels, values):
        found = [i for i, name in enumerate(header) if name.lower() in names]
        if len(found) != 1:
            problem = "there is no column" if not found else "there is more than one column"
            raise log.file_error(
                f"{problem} {names[0]!r}; the columns are {quote_names(header)}.",
                line=first,
                hint=f"the header has the columns {labels[0]} and {values[0]}; .csv has commas, "
                ".tsv tabs, --sep (sep=) changes that.",
            )
        positions += found
    for place, cells in rows:
        yield place, cells[positions[0]], cells[positions[1]]
