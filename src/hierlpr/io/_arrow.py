"""Arrow at the edge: Parquet and delimited text to columns, with errors a user can act on."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import listed
from hierlpr.exceptions import DataError, FileError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["as_numbers", "parquet_table", "refuse_blanks", "text_column", "write_text_table"]


def parquet_table(
    path: str | os.PathLike[str], raw: bytes | None = None, columns: list[str] | None = None
) -> pa.Table:
    """Read a whole Parquet file (or a folder of them)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        source = os.fspath(path) if raw is None else pa.BufferReader(raw)
        return pq.read_table(source, columns=columns)
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file.") from None
    except (pa.ArrowException, OSError, EOFError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise FileError(
            f"{path}: this is no readable Parquet file ({reason[:200]}).\n"
            "Hint: was it cut off while being copied or written?"
        ) from None


def as_numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of numbers as an array; missing ones become NaN.

    Arrow's own conversion imports pandas where it is installed, which takes longer than reading
    most files; without missing values the memory is shared instead.
    """
    array = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if getattr(array, "num_chunks", 1) != 1 or array.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if hasattr(array, "chunk"):
        array = array.chunk(0)
    return np.from_dlpack(array)


def text_column(table: pa.Table, name: str) -> list[str | None]:
    """Return a column as text; numbers become their digits."""
    import pyarrow as pa

    return list(table.column(name).cast(pa.string()).to_pylist())


def write_text_table(table: pa.Table, part: Path, *, delimiter: str, header: bool) -> None:
    """Write delimited text, with quotes only if some value needs them."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    # Arrow quotes either all texts or none, and refuses none if one needs it.
    for style in ("none", "needed"):
        with part.open("wb") as stream:
            if header:
                line = io.StringIO()
                csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(
                    table.column_names
                )
                stream.write(line.getvalue().encode())
            options = pacsv.WriteOptions(
                include_header=False, delimiter=delimiter, quoting_style=style
            )
            try:
                pacsv.write_csv(table, stream, options)
            except pa.ArrowInvalid:
                if style == "needed":
                    raise
                continue
        return


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
