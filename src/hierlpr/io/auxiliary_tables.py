"""Read weights of samples, p-values of labels, and readable names of labels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import MOST_WEIGHT, quote_names
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.read_report import ReadReport
from hierlpr.io.read_tables import read_scores
from hierlpr.io.sources import Source, as_names, as_numbers, open_source, read_cells
from hierlpr.io.table_files import TableOptions

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
    path: AnyPath, *, max_weight: float | None = None, **options: Unpack[TableOptions]
) -> Weights:
    """Read a table with the columns ``sample`` and ``weight``; other columns are ignored.

    Weights are 0 or more, and at most `max_weight` if that is given.
    """
    options["columns"] = "labels"
    read = read_scores(path, Hierarchy((), labels=("weight",)), **options)
    values = np.asarray(read.table.values)[:, 0]
    largest = MOST_WEIGHT if max_weight is None else min(max_weight, MOST_WEIGHT)
    bad = np.flatnonzero((values < 0.0) | (values > largest))
    if bad.size:
        first = int(bad[0])
        raise ReadReport(os.fspath(path)).file_error(
            f"the weight of sample {read.samples[first]!r} is {values[first]:g}; weights lie "
            f"between 0 and {largest:g} ({bad.size:,} do not).",
            column="weight",
        )
    return Weights(dict(zip(read.samples, values.tolist(), strict=True)), read.report)


def read_p_values(
    path: AnyPath,
    hierarchy: Hierarchy,
    *,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
    sep: str | None = None,
) -> tuple[NDArray[np.float64], ReadReport]:
    """Read a table with a column ``label`` and one of p-values; other columns are ignored.

    The column of p-values is called ``p``, ``p_value``, ``pvalue``, ``p-value``, ``p.value`` or
    ``pval``. Returns p-values in the order of ``hierarchy.labels``, NaN for labels without one. The
    options are those of `TableOptions`.
    """
    log = ReadReport(os.fspath(path), "p-values", lenient=lenient)
    source = open_source(log, sep=sep)
    position = {name: i for i, name in enumerate(hierarchy.labels)}
    p = np.full(hierarchy.n_labels, np.nan)
    given: set[int] = set()
    n_rows = 0
    for batch, place in source.chunks(_two_columns(source, ("label",), P_NAMES)):
        n_rows += batch.num_rows
        values, bad = as_numbers(batch.column(1), log, "p")
        for i, name in enumerate(as_names(batch.column(0), log, "label").to_pylist()):
            name, line = (name or "").strip(), partial(place, i)
            at = position.get(name if name in position else (aliases or {}).get(name, name))
            if at is None:
                log.unknown_label(name, position, line=line)
            elif at in given:
                log.problem(f"label {name!r} occurs again.", line=line)
            elif bad[i]:
                log.problem(f"{str(batch.column(1)[i])[:40]!r} is not a number.", line=line)
            elif values[i] < 0.0 or values[i] > 1.0:
                hint = "give p-values, not test statistics or their logarithms."
                log.problem(f"{values[i]:g} is outside [0, 1].", line=line, column="p", hint=hint)
            else:
                given.add(at)
                p[at] = values[i]
    log.check(n_rows)
    if np.isnan(p).all():
        raise log.file_error("no label of the hierarchy has a p-value.")
    counts = {"p-values": int((~np.isnan(p)).sum()), "labels without one": int(np.isnan(p).sum())}
    return p, log.complete(**counts)


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
    log = ReadReport(os.fspath(path), "names", lenient=lenient)
    source = open_source(log, sep=sep)
    names: dict[str, str] = {}
    rows: Any = read_cells(source, _two_columns(source, LABEL_NAMES, CAPTION_NAMES))
    for n_rows, (place, (given, name)) in enumerate(rows, start=1):
        label = given if given in hierarchy else (aliases or {}).get(given, given)
        log.counts["rows"] = n_rows
        if label not in hierarchy:
            log.counts["names of other labels"] += 1
        elif not name:
            log.counts["labels with an empty name"] += 1
        elif names.setdefault(label, name) != name:
            log.problem(f"label {given!r} also has the name {names[label]!r}.", line=place)
    log.check(log.counts["rows"])
    if not names:
        raise log.file_error("no label of the hierarchy has a name.")
    return names, log.complete(names=len(names), labels=hierarchy.n_labels)


def _two_columns(source: Source, *names: tuple[str, ...]) -> list[int]:
    """Return the positions of the columns of labels and of values."""
    header = source.columns
    positions = []
    for known in names:
        found = [i for i, name in enumerate(header) if name.lower() in known]
        if len(found) != 1:
            problem = "there is no column" if not found else "there is more than one column"
            raise source.log.file_error(
                f"{problem} {known[0]!r}; the columns are {quote_names(header)}.",
                line=source.first_place,
                hint=f"the header has the columns {names[0][0]} and {names[1][0]}; .csv has "
                "commas, .tsv tabs, --sep (sep=) changes that.",
            )
        positions += found
    return positions
