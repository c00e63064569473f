"""Arrow at the edge: columns of Parquet to names and numbers, with errors a user can act on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.exceptions import FileError
from hierlpr.io._watch import Watch
from hierlpr.io.opening import reason

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "as_numbers",
    "cast_column",
    "named_column",
    "parquet_table",
]


def parquet_table(path: str | os.PathLike[str], raw: bytes) -> pa.Table:
    """Read a whole Parquet file, whose bytes are given."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(pa.BufferReader(raw)).read()
    except (pa.ArrowException, OSError, EOFError) as error:
        raise FileError(
            f"{path}: this is no readable Parquet file ({reason(error)}).\n"
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
