"""Rows of delimited text to columns: by Arrow, and value by value where a row is bad, to say which.

What the slow way accepts is the rule; Arrow accepts less, and reads what it accepts to the same
texts and numbers. So no row is read in another way because of the rows around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr.io._arrow import as_numbers
from hierlpr.io._watch import Watch
from hierlpr.io.delimited import TextBlock, is_number
from hierlpr.io.opening import BYTE_ORDER_MARK, not_utf8

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MISSING", "Block", "parse_block"]

MISSING = ("", "NA", "N/A", "nan", "NaN", "NAN", "null", "None", "?")
_MISSING = frozenset(text.encode() for text in MISSING)
_FLAGS = {b"true": 1.0, b"false": 0.0}
_CHUNK = 1 << 20  # what Arrow parses at once


class Block(NamedTuple):
    """Some rows of a table as they stand in the file.

    `texts` are the names: of the sample and, in a long table, of the label; as text or as codes
    with a dictionary. `numbers` are one array for each other column, NaN where nothing stands.
    `place` says where a row is in the file, for messages.
    """

    n_rows: int
    texts: list[Any]
    numbers: list[NDArray[np.float64]]
    place: Callable[[int], int | str]


def parse_block(
    block: TextBlock,
    names: Sequence[str],
    texts: Sequence[int],
    numbers: Sequence[int],
    watch: Watch,
    *,
    has_flags: bool,
) -> Block | None:
    """Parse the chosen columns, `texts` and `numbers` by place, of rows with all these `names`.

    In truth (`has_flags`) ``true`` and ``false`` are numbers too. None if no row is left.
    """
    import pyarrow as pa

    # Names of samples that have one row each are not worth a dictionary.
    text = pa.string() if len(texts) == 1 else pa.dictionary(pa.int32(), pa.string())
    for number in (pa.bool_(), pa.float64()) if has_flags else (pa.float64(),):
        types = dict.fromkeys(texts, text) | dict.fromkeys(numbers, number)
        found = _by_arrow(block, len(names), types)
        if found is not None:
            return _Places(block).of(found, len(texts))
    return _by_row(block, names, texts, numbers, watch, has_flags)


class _Places:
    """Lines of the rows of a block; counting them takes a pass, so it waits for a problem."""

    def __init__(self, block: TextBlock) -> None:
        self._block = block
        self._lines: NDArray[np.int64] | None = None

    def of(self, table: pa.Table, n_texts: int) -> Block | None:
        if table.num_rows == 0:
            return None
        arrays = [_one(column) for column in table.columns]
        numbers = [_numbers(x) for x in arrays[n_texts:]]
        return Block(table.num_rows, arrays[:n_texts], numbers, self._line)

    def _line(self, row: int) -> int:
        if self._lines is None:
            self._lines = self._block.lines()
        return int(self._lines[row])


def _one(column: pa.ChunkedArray) -> Any:
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.unify_dictionaries().combine_chunks() if hasattr(
        column.type, "value_type"
    ) else column.combine_chunks()  # fmt: skip


def _numbers(column: Any) -> NDArray[np.float64]:
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return as_numbers(column).astype(np.float64, copy=False)


def _by_arrow(block: TextBlock, width: int, types: dict[int, pa.DataType]) -> pa.Table | None:
    """Parse with Arrow; None if it refuses anything."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    raw = block.raw
    if raw.startswith(BYTE_ORDER_MARK):
        raw = b"\n" + raw  # Arrow would drop the mark, which here is part of a name
    # Arrow splits at any chunk, but a row must fit into one.
    chunk = _CHUNK if len(raw) > _CHUNK * 2 and width < _CHUNK // 256 else len(raw) + 1
    columns = [str(i) for i in range(width)]
    try:
        return pacsv.read_csv(
            pa.BufferReader(raw),
            read_options=pacsv.ReadOptions(column_names=columns, block_size=chunk),
            parse_options=pacsv.ParseOptions(
                delimiter=block.delimiter, newlines_in_values=block.has_quotes
            ),
            convert_options=pacsv.ConvertOptions(
                column_types={str(i): kind for i, kind in types.items()},
                include_columns=[str(i) for i in types],
                strings_can_be_null=False,
                null_values=list(MISSING),
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return None


def _by_row(
    block: TextBlock,
    names: Sequence[str],
    texts: Sequence[int],
    numbers: Sequence[int],
    watch: Watch,
    has_flags: bool,
) -> Block | None:
    import pyarrow as pa

    found_texts: list[list[str]] = [[] for _ in texts]
    found: list[list[float]] = []
    lines: list[int] = []
    for line, cells in _rows_of_width(block, len(names), watch):
        values = _typed(cells, names, numbers, line, watch, has_flags)
        if values is None:
            continue
        for column, at in zip(found_texts, texts, strict=True):
            column.append(_decoded(cells[at], watch, line))
        found.append(values)
        lines.append(line)
    if not lines:
        return None
    arrays = [pa.array(column, pa.string()) for column in found_texts]
    matrix = np.array(found, dtype=np.float64).reshape(len(lines), len(numbers))
    return Block(
        len(lines), arrays if len(arrays) == 1 else [array.dictionary_encode() for array in arrays],
        list(np.ascontiguousarray(matrix.T)), lambda row: lines[row],
    )  # fmt: skip


def _rows_of_width(block: TextBlock, width: int, watch: Watch) -> Iterator[tuple[int, list[bytes]]]:
    for line, cells in block.rows():
        if len(cells) == width:
            yield line, cells
            continue
        hint = "is the delimiter right, and is a value with a comma in quotes?"
        watch.problem(
            f"the row has {len(cells):,} columns, expected {width:,}.",
            line=line,
            hint=hint if len(cells) != 1 else "is the delimiter right?",
        )


def _typed(
    cells: list[bytes],
    names: Sequence[str],
    numbers: Sequence[int],
    line: int,
    watch: Watch,
    has_flags: bool,
) -> list[float] | None:
    values = []
    for at in numbers:
        text = cells[at]
        if is_number(text):
            values.append(float(text))
        elif text.strip() in _MISSING:
            values.append(np.nan)
        elif has_flags and text.strip().lower() in _FLAGS:
            values.append(_FLAGS[text.strip().lower()])
        else:
            shown = text.decode(errors="replace")
            watch.problem(f"{shown[:40]!r} is not a number.", line=line, column=names[at])
            return None
    return values


def _decoded(cell: bytes, watch: Watch, line: int) -> str:
    try:
        return cell.decode()
    except UnicodeDecodeError as error:
        raise not_utf8(watch.path, cell, error, line) from None
