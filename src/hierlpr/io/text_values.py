"""Rows of delimited text to columns: by Arrow, and value by value where a row is bad, to say which.

What the slow way accepts is the rule; Arrow accepts less, and reads what it accepts to the same
texts and numbers. So no row is read in another way because of the rows around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr.exceptions import FileError
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
_CHUNK = 1 << 22  # what Arrow parses at once; smaller ones take more memory together


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
) -> Iterator[Block]:
    """Parse the chosen columns, `texts` and `numbers` by place, of rows with all these `names`.

    In truth (`has_flags`) ``true`` and ``false`` are numbers too. Rows before one that stops the
    reading are given first, so that the first problem in the file is the one that is told.
    """
    import pyarrow as pa

    # Names of samples that have one row each are not worth a dictionary.
    text = pa.string() if len(texts) == 1 else pa.dictionary(pa.int32(), pa.string())
    for number in (pa.bool_(), pa.float64()) if has_flags else (pa.float64(),):
        types = dict.fromkeys(texts, text) | dict.fromkeys(numbers, number)
        found = _by_arrow(block, len(names), types)
        if found is not None:
            if found.num_rows:
                yield _Places(block).of(found, len(texts))
            return
    rows = _Rows(names, texts, numbers, watch, has_flags)
    try:
        for line, cells in block.rows():
            rows.add(cells, line)
    except FileError:
        if rows.lines:
            yield rows.block()
        raise
    if rows.lines:
        yield rows.block()


class _Places:
    """Lines of the rows of a block; counting them takes a pass, so it waits for a problem."""

    def __init__(self, block: TextBlock) -> None:
        self._block = block
        self._lines: NDArray[np.int64] | None = None

    def of(self, table: pa.Table, n_texts: int) -> Block:
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


class _Rows:
    """Rows value by value, with the line of each."""

    def __init__(
        self,
        names: Sequence[str],
        texts: Sequence[int],
        numbers: Sequence[int],
        watch: Watch,
        has_flags: bool,
    ) -> None:
        self._names, self._texts, self._numbers = names, texts, numbers
        self._watch, self._has_flags = watch, has_flags
        self._found: list[list[str]] = [[] for _ in texts]
        self._values: list[list[float]] = []
        self.lines: list[int] = []

    def add(self, cells: list[bytes], line: int) -> None:
        """Take a row, or tell what is wrong with it."""
        if len(cells) != len(self._names):
            hint = "is the delimiter right, and is a value with a comma in quotes?"
            self._watch.problem(
                f"the row has {len(cells):,} columns, expected {len(self._names):,}.",
                line=line,
                hint=hint if len(cells) != 1 else "is the delimiter right?",
            )
            return
        texts = [_decoded(cells[at], self._watch, line) for at in self._texts]
        values = [self._value(cells[at]) for at in self._numbers]
        if None in values:
            at = self._numbers[values.index(None)]
            shown = cells[at].decode(errors="replace")[:40]
            self._watch.problem(f"{shown!r} is not a number.", line=line, column=self._names[at])
            return
        for column, text in zip(self._found, texts, strict=True):
            column.append(text)
        self._values.append([value for value in values if value is not None])
        self.lines.append(line)

    def _value(self, text: bytes) -> float | None:
        if is_number(text):
            return float(text)
        word = text.strip()
        if word in _MISSING:
            return float("nan")
        return _FLAGS.get(word.lower()) if self._has_flags else None

    def block(self) -> Block:
        """Return the rows that were taken."""
        import pyarrow as pa

        lines = self.lines
        texts = [pa.array(column, pa.string()) for column in self._found]
        if len(texts) > 1:
            texts = [text.dictionary_encode() for text in texts]
        matrix = np.array(self._values, dtype=np.float64).reshape(len(lines), len(self._numbers))
        numbers = list(np.ascontiguousarray(matrix.T))
        return Block(len(lines), texts, numbers, lambda row: lines[row])


def _decoded(cell: bytes, watch: Watch, line: int) -> str:
    try:
        return cell.decode()
    except UnicodeDecodeError as error:
        raise not_utf8(watch.path, cell, error, line) from None
