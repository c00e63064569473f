"""Tables to delimited text: quotes only where a name needs them, names that a layout can hold."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hierlpr._base.checks import listed
from hierlpr.exceptions import DataError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["header_line", "refuse_blanks", "text_options", "write_text_table"]


def write_text_table(
    table: pa.Table, part: Path, *, delimiter: str, header: bool, names: Iterable[Any] | None = None
) -> None:
    """Write delimited text, with quotes only if one of the `names` needs them.

    They are Arrow arrays; by default the columns of text.
    """
    import pyarrow as pa
    import pyarrow.csv as pacsv

    if names is None:
        names = [column for column in table.columns if pa.types.is_string(column.type)]
    with part.open("wb") as stream:
        if header:
            stream.write(header_line(table.column_names, delimiter))
        pacsv.write_csv(table, stream, text_options(names, delimiter))


def header_line(names: Sequence[str], delimiter: str) -> bytes:
    """Names of columns as a line of text; Arrow would quote them all."""
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(names)
    return line.getvalue().encode()


def text_options(names: Iterable[Any], delimiter: str) -> Any:
    """Options to write text tables whose names are these Arrow arrays.

    Arrow quotes either all texts or none, and refuses none if one needs it.
    """
    import pyarrow.compute as pc
    import pyarrow.csv as pacsv

    needed = any(
        pc.any(pc.match_substring_regex(array, f'["\r\n{delimiter}]')).as_py() for array in names
    )
    return pacsv.WriteOptions(
        include_header=False, delimiter=delimiter, quoting_style="needed" if needed else "none"
    )


def refuse_blanks(path: str | os.PathLike[str], table: pa.Table) -> None:
    """Refuse names that the CAFA layout, which is split at blanks, cannot hold."""
    for column in ("sample", "label"):
        names = table.column(column).unique().to_pylist()
        bad = [name for name in names if name.split() != [name]]
        if bad:
            raise DataError(
                f"{path}: the CAFA layout cannot hold {column} names with blanks: {listed(bad)}.\n"
                "Hint: write .csv or .parquet instead."
            )
