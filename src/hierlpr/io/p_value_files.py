"""p-values of labels from files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import listed
from hierlpr.hierarchy import Hierarchy
from hierlpr.io._watch import ReadReport, Watch
from hierlpr.io.delimited import is_number
from hierlpr.io.opening import AnyPath, ending, is_parquet
from hierlpr.io.table_files import read_cells

__all__ = ["PValuesFile", "read_p_values"]

P_NAMES = ("p", "p_value", "pvalue", "p-value", "p.value", "pval")
MISSING = ("", "na", "n/a", "nan", "null", "none", "?")


@dataclass(frozen=True, slots=True, eq=False)
class PValuesFile:
    """p-values as read from a file, in the order of ``hierarchy.labels``; NaN where missing."""

    p: NDArray[np.float64]
    report: ReadReport


def read_p_values(
    path: AnyPath,
    hierarchy: Hierarchy,
    *,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
) -> PValuesFile:
    """Read a table with a column ``label`` and one of p-values.

    Parameters
    ----------
    path : path
        ``.csv``, ``.tsv`` (both may end in ``.gz``) or ``.parquet``. The column of p-values is
        called ``p``, ``p_value``, ``pvalue``, ``p-value``, ``p.value`` or ``pval``; others are
        passed over. Labels that are not listed, and empty or NA cells, have no p-value.
    aliases : mapping, optional
        Other names of labels.
    lenient : bool
        Leave out unknown labels and bad rows, and count them.
    """
    watch = Watch(path, "p-values", lenient=lenient)
    delimiter = None if is_parquet(watch.path) else "\t" if ending(path) == ".tsv" else ","
    rows = read_cells(watch, delimiter, ("label", *P_NAMES))
    first, header = next(rows, (1, None))
    if header is None:
        raise watch.fail("the file is empty, or has comments only.")
    label_at, p_at = _columns(header, watch, first)
    known = {name: i for i, name in enumerate(hierarchy.labels)}
    p = np.full(hierarchy.n_labels, np.nan)
    given: dict[int, int | str] = {}
    for place, cells in rows:
        if len(cells) != len(header):
            text = f"the row has {len(cells):,} columns, expected {len(header):,}."
            watch.problem(text, line=place)
            continue
        name = cells[label_at]
        at = known.get(name if name in known or not aliases else aliases.get(name, name))
        if at is None:
            watch.unknown_label(name, known, line=place)
        elif at in given:
            watch.problem(f"label {name!r} is there again; it was at {given[at]}.", line=place)
        elif (value := _number(cells[p_at], place, watch)) is not None:
            given[at] = f"line {place}" if isinstance(place, int) else place
            p[at] = value
    if np.isnan(p).all():
        raise watch.fail("no label of the hierarchy has a p-value here.")
    counts = {"p-values": int((~np.isnan(p)).sum()), "labels without one": int(np.isnan(p).sum())}
    return PValuesFile(p, watch.report(**counts))


def _columns(names: list[str], watch: Watch, line: int | str) -> tuple[int, int]:
    """Find the columns of labels and of p-values."""
    low = [name.strip().lower() for name in names]
    labels = [i for i, name in enumerate(low) if name == "label"]
    values = [i for i, name in enumerate(low) if name in P_NAMES]
    for found, what in ((labels, "label"), (values, "p")):
        if len(found) != 1:
            problem = "there is no column" if not found else "there is more than one column"
            raise watch.fail(
                f"{problem} {what!r} among {listed(names)}.",
                line=line,
                hint="the table needs a header with the columns label and p; .csv means commas, "
                ".tsv means tabs.",
            )
    return labels[0], values[0]


def _number(cell: str, place: int | str, watch: Watch) -> float | None:
    """Return a p-value, NaN if it is missing, or None after a problem."""
    if cell.strip().lower() in MISSING:
        return float("nan")
    if not is_number(cell.encode()):
        watch.problem(f"{cell[:40]!r} is not a number.", line=place, column="p")
    elif not 0.0 <= float(cell) <= 1.0:
        hint = "give p-values, not test statistics or their logarithms."
        watch.problem(f"{cell} is outside [0, 1].", line=place, column="p", hint=hint)
    else:
        return float(cell)
    return None
