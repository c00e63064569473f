"""p-values of labels in files, and discoveries out."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_choice, listed
from hierlpr._base.files import writing, writing_text
from hierlpr.hierarchy import Hierarchy
from hierlpr.io._arrow import parquet_table
from hierlpr.io._watch import ReadReport, Watch
from hierlpr.io.opening import ending, read_bytes, read_lines
from hierlpr.io.rankings import ENDINGS, plain_columns
from hierlpr.io.text_output import write_text_table

if TYPE_CHECKING:
    from hierlpr.discovery import Discoveries

__all__ = ["PValuesFile", "read_p_values", "write_discoveries"]

P_NAMES = ("p", "p_value", "pvalue", "p-value", "p.value", "pval")
MISSING = ("", "na", "n/a", "nan", "null", "none", "?")


@dataclass(frozen=True, slots=True, eq=False)
class PValuesFile:
    """p-values as read from a file, in the order of ``hierarchy.labels``; NaN where missing."""

    p: NDArray[np.float64]
    report: ReadReport


def read_p_values(
    path: str | os.PathLike[str],
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
    known = {name: i for i, name in enumerate(hierarchy.labels)}
    p = np.full(hierarchy.n_labels, np.nan)
    given: dict[int, int | str] = {}
    n_missing = 0
    for place, name, cell in _rows(path, watch):
        label = name if name in known or not aliases else aliases.get(name, name)
        if label not in known:
            watch.unknown_label(name, known, line=place)
            continue
        at = known[label]
        if at in given:
            watch.problem(f"label {name!r} is there again; it was at {given[at]}.", line=place)
            continue
        value = _number(cell, place, watch)
        if value is None:
            continue
        given[at] = f"line {place}" if isinstance(place, int) else place
        p[at] = value
        n_missing += bool(np.isnan(value))
    if np.isnan(p).all():
        raise watch.fail("no label of the hierarchy has a p-value here.")
    counts = {"p-values": int((~np.isnan(p)).sum()), "labels without one": int(np.isnan(p).sum())}
    return PValuesFile(p, watch.report(**counts))


def _rows(path: str | os.PathLike[str], watch: Watch) -> Iterator[tuple[int | str, str, Any]]:
    """Place, label and p-value of every row."""
    kind = ending(path)
    raw = read_bytes(path)
    if kind == ".parquet" or raw.startswith(b"PAR1"):
        table = parquet_table(path, raw)
        label, p = _columns(table.column_names, watch, "the schema")
        names, values = table.column(label).to_pylist(), table.column(p).to_pylist()
        for row, (name, value) in enumerate(zip(names, values, strict=True), start=1):
            yield f"row {row}", "" if name is None else str(name), value
        return
    lines = read_lines(path, raw)
    delimiter = "\t" if kind == ".tsv" else ","
    numbered = ((n, text) for n, text in enumerate(lines, 1) if text.strip() and text[0] != "#")
    first, header = next(numbered, (1, ""))
    columns = next(csv.reader([header], delimiter=delimiter), [])
    label, p = _columns(columns, watch, first)
    for number, text in numbered:
        cells = next(csv.reader([text], delimiter=delimiter))
        if len(cells) != len(columns):
            watch.problem(
                f"the row has {len(cells):,} columns, expected {len(columns):,}.", line=number
            )
            continue
        yield number, cells[label], cells[p]


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


def _number(cell: Any, place: int | str, watch: Watch) -> float | None:
    """Return a p-value, NaN if it is missing, or None after a problem."""
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING):
        return float("nan")
    try:
        value = float("x" if isinstance(cell, bool) else cell)
    except (TypeError, ValueError):
        watch.problem(f"{str(cell)[:40]!r} is not a number.", line=place, column="p")
        return None
    if value < 0.0 or value > 1.0:
        watch.problem(
            f"{cell} is outside [0, 1].", line=place, column="p",
            hint="give p-values, not test statistics or their logarithms.",
        )  # fmt: skip
        return None
    return value


def write_discoveries(path: str | os.PathLike[str], found: Discoveries) -> int:
    """Write rank, label, p, lpr, level and rejected, whole or not at all; returns the rows.

    ``.parquet``, ``.csv`` or ``.tsv``; text may end in ``.gz``, and holds 0 and 1 for `rejected`.
    """
    import pyarrow as pa

    kind = check_choice(ending(path), ENDINGS, name="the ending of the file of discoveries")
    table = found.to_frame("pyarrow")
    p = table.column_names.index("p")
    table = table.set_column(p, "p", pa.array(found.p[found.order], from_pandas=True))
    if kind == ".parquet":
        import pyarrow.parquet as pq

        with writing(path) as part:
            pq.write_table(table, part)
        return int(table.num_rows)
    with writing_text(path) as part:
        write_text_table(
            plain_columns(table), part, delimiter="\t" if kind == ".tsv" else ",", header=True
        )
    return int(table.num_rows)
