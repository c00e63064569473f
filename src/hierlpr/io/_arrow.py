"""Arrow at the edge: Parquet and delimited text to columns, with errors a user can act on."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import listed
from hierlpr.exceptions import DataError, FileError
from hierlpr.io._watch import Watch

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "as_numbers",
    "cast_column",
    "header_line",
    "named_column",
    "parquet_table",
    "refuse_blanks",
    "text_options",
    "write_text_table",
]


def parquet_table(path: str | os.PathLike[str], raw: bytes | None = None) -> pa.Table:
    """Read a whole Parquet file (or a folder of them)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if os.path.isdir(path):
            return pq.read_table(os.fspath(path))
        source = os.fspath(path) if raw is None else pa.BufferReader(raw)
        return pq.ParquetFile(source).read()
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


def named_column(table: Any, name: str, type_: pa.DataType, watch: Watch) -> Any:
    """Return the column of a table or batch with this name, which must be there once."""
    places = table.schema.get_all_field_indices(name)
    if len(places) != 1:
        what = "is missing." if not places else "occurs twice."
        raise watch.fail(f"the column {what}", line="the schema", column=name)
    return cast_column(table.column(places[0]), type_, name, watch)


def cast_column(
    column: Any,
    type_: pa.DataType,
    name: str,
    watch: Watch,
    *,
    place: Callable[[int], str] = lambda row: f"row {row + 1}",
) -> Any:
    """Bring a column to text or to numbers; what is neither is refused.

    Names may be stored as text, bytes of text, numbers or dates; numbers as numbers or flags.
    Integers beyond 2**53 are rounded, as they are in text files.
    """
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    given = column.type
    to_number = kinds.is_floating(type_)
    if to_number and kinds.is_boolean(given):
        column = column.cast(pa.int8())
    is_number = kinds.is_integer(given) or kinds.is_floating(given) or kinds.is_decimal(given)
    if to_number and not (is_number or kinds.is_boolean(given) or kinds.is_null(given)):
        is_text = kinds.is_string(given) or kinds.is_large_string(given)
        what = "text" if is_text else str(given)
        raise watch.fail(f"holds {what}, expected numbers.", line="the schema", column=name)
    if not to_number and kinds.is_nested(given):
        raise watch.fail(f"holds {given}, expected names.", line="the schema", column=name)
    try:
        return column.cast(type_, safe=not to_number)
    except pa.ArrowInvalid:  # bytes that are no text
        row = next(i for i, x in enumerate(column.to_pylist()) if not _is_text(x))
        raise watch.fail("the name is not UTF-8 text.", line=place(row), column=name) from None
    except pa.ArrowNotImplementedError:
        what = "numbers" if to_number else "names"
        raise watch.fail(
            f"holds {given}, expected {what}.", line="the schema", column=name
        ) from None


def _is_text(value: Any) -> bool:
    try:
        return not isinstance(value, bytes) or bool(value.decode() or True)
    except UnicodeDecodeError:
        return False


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
