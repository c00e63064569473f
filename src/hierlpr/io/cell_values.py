"""Cells of text and columns of Parquet to names and numbers.

Text is parsed by Arrow, and value by value where a row is bad, to say which. What the slow way
accepts is the rule; Arrow accepts less, and reads what it accepts to the same texts and numbers.
So no row is read in another way because of the rows around it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr.exceptions import FileError
from hierlpr.io._watch import Watch
from hierlpr.io.delimited import TextBlock, is_number
from hierlpr.io.opening import BYTE_ORDER_MARK, decode, open_parquet, reason

if TYPE_CHECKING:
    import pyarrow as pa

MISSING = ("", "NA", "N/A", "nan", "NaN", "NAN", "null", "None", "?")
_MISSING = frozenset(text.encode() for text in MISSING)
_FLAGS = {b"true": 1.0, b"false": 0.0, b"unknown": float("nan")}  # of truth
MANY_COLUMNS = 1 << 10  # of Parquet that are read at a time, if a row group is read whole
_CHUNK = 1 << 22  # what Arrow parses at once; smaller ones take more memory together


class Block(NamedTuple):
    """Some rows of a table as they stand in the file.

    `texts` are the names: of the sample and, in a long table, of the label; as text or as codes
    with a dictionary. `numbers` are one array for each other column, NaN where nothing stands.
    `place` says where a row is in the file, for messages. `matrix` has the numbers as one array,
    of whose columns `numbers` are then views; None where they are arrays of their own.
    """

    n_rows: int
    texts: list[Any]
    numbers: list[NDArray[np.float64]]
    place: Callable[[int], int | str]
    matrix: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, rows: Sequence[tuple[int | str, list[str], list[float]]]) -> Block:
        """Make a block of rows: line, names and numbers of each."""
        import pyarrow as pa

        lines, names, values = zip(*rows, strict=True)
        texts = [pa.array(column, pa.string()) for column in zip(*names, strict=True)]
        if len(texts) > 1:
            texts = [text.dictionary_encode() for text in texts]
        matrix = np.array(values, dtype=np.float64).reshape(len(rows), len(values[0]))
        return cls(len(rows), texts, list(np.ascontiguousarray(matrix.T)), lines.__getitem__)


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

    In truth (`has_flags`) ``true``, ``false`` and ``unknown`` are numbers too. Rows before one that
    stops the reading are given first, so that the first problem in the file is the one told.
    """
    import pyarrow as pa

    # Names of samples that have one row each are not worth a dictionary.
    text = pa.string() if len(texts) == 1 else pa.dictionary(pa.int32(), pa.string())
    for number in (pa.bool_(), pa.float64()) if has_flags else (pa.float64(),):
        types = dict.fromkeys(texts, text) | dict.fromkeys(numbers, number)
        found = _by_arrow(block, len(names), types, has_flags)
        if found is not None:
            if found.num_rows:
                yield _block_of(found, len(texts), block)
            return
    yield from parse_rows(block.rows(), names, texts, numbers, watch, has_flags, block.decimal)


def parse_rows(
    given_rows: Iterable[tuple[int | str, list[bytes]]],
    names: Sequence[str],
    texts: Sequence[int],
    numbers: Sequence[int],
    watch: Watch,
    has_flags: bool,
    decimal: str = ".",
) -> Iterator[Block]:
    """Parse rows value by value, with their places, as `parse_block` does."""
    rows: list[tuple[int | str, list[str], list[float]]] = []
    try:
        for line, cells in given_rows:
            if len(cells) != len(names):
                hint = "is the delimiter right, and is a value with a comma in quotes?"
                watch.problem(
                    f"the row has {len(cells):,} columns, expected {len(names):,}.",
                    line=line,
                    hint=hint if len(cells) != 1 else "is the delimiter right?",
                )
                continue
            given = [_name(cells[at], watch, line) for at in texts]
            values = [_value(cells[at], has_flags, decimal) for at in numbers]
            if None in values:
                at = numbers[values.index(None)]
                shown = cells[at].decode(errors="replace")[:40]
                has_comma = decimal == "." and is_number(cells[at], ",")
                hint = "truth is 1, 0 or unknown (or an empty cell)." if has_flags else ""
                if has_comma:
                    hint = "--decimal , (decimal= of hierlpr.io.TablePath) reads decimal commas."
                text = f"{shown!r} is not a number."
                watch.problem(text, line=line, column=names[at], hint=hint)
            else:
                rows.append((line, given, values))  # type: ignore[arg-type]
    except FileError:
        if rows:
            yield Block.of(rows)
        raise
    if rows:
        yield Block.of(rows)


def _name(cell: bytes, watch: Watch, place: int | str) -> str:
    if isinstance(place, int):
        return decode(watch.path, cell, place)
    try:
        return cell.decode()
    except UnicodeDecodeError:
        raise watch.fail("the name is not UTF-8 text.", line=place) from None


def _value(text: bytes, has_flags: bool, decimal: str) -> float | None:
    if is_number(text, decimal):
        return float(text.replace(decimal.encode(), b"."))
    word = text.strip()
    if word in _MISSING:
        return float("nan")
    return _FLAGS.get(word.lower()) if has_flags else None


def _by_arrow(
    block: TextBlock, width: int, types: dict[int, pa.DataType], has_flags: bool
) -> pa.Table | None:
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
                null_values=[*MISSING, "unknown"] if has_flags else list(MISSING),
                decimal_point=block.decimal,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return None


def _block_of(table: pa.Table, n_texts: int, block: TextBlock) -> Block:
    import pyarrow as pa

    lines = cache(block.lines)  # takes a pass, so it waits for a problem
    texts = [
        column.chunk(0) if column.num_chunks == 1 else column.unify_dictionaries().combine_chunks()
        for column in table.columns[:n_texts]
    ]
    numbers = [
        _flags(column) if pa.types.is_boolean(column.type) else as_numbers(column)
        for column in table.columns[n_texts:]
    ]
    numbers = [column.astype(np.float64, copy=False) for column in numbers]
    return Block(table.num_rows, texts, numbers, lambda row: int(lines()[row]))


# -- columns of Arrow -------------------------------------------------------------------------


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


def _flags(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return a column of flags as 0 and 1, NaN where one is missing.

    Arrow packs them into bits; to cast them would load all its functions, which takes longer than
    to read a small file.
    """
    parts = []
    for chunk in column.chunks:
        known, held = chunk.buffers()
        flags = _unpacked(held, chunk).astype(np.float64)
        if known is not None:
            flags[_unpacked(known, chunk) == 0] = np.nan
        parts.append(flags)
    return np.concatenate([np.empty(0), *parts])


def _unpacked(bits: pa.Buffer, chunk: pa.BooleanArray) -> NDArray[np.uint8]:
    packed, end = np.frombuffer(bits, np.uint8), chunk.offset + len(chunk)
    return np.unpackbits(packed, count=end, bitorder="little")[chunk.offset :]


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
    is_text = kinds.is_string(given) or kinds.is_large_string(given)
    is_number = kinds.is_integer(given) or kinds.is_floating(given) or kinds.is_decimal(given)
    is_number |= kinds.is_boolean(given) or kinds.is_null(given)
    expected = "numbers" if to_number else "names"
    wrong = watch.fail(
        f"holds {'text' if is_text else given}, expected {expected}.",
        line="the schema",
        column=name,
    )
    if (not is_number) if to_number else kinds.is_nested(given):
        raise wrong
    try:
        if to_number and kinds.is_boolean(given):
            column = column.cast(pa.int8())
        if not to_number and kinds.is_floating(given):
            column = _without_nan(column)
        return column.cast(type_, safe=not to_number)
    except pa.ArrowInvalid:  # bytes that are no text
        row = next(i for i, x in enumerate(column.to_pylist()) if not _is_text(x))
        raise watch.fail("the name is not UTF-8 text.", line=place(row), column=name) from None
    except pa.ArrowNotImplementedError:
        raise wrong from None


def _without_nan(column: Any) -> Any:
    """Numbers that are names: NaN is what some programs write where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)


def _is_text(value: Any) -> bool:
    try:
        return not isinstance(value, bytes) or bool(value.decode() or True)
    except UnicodeDecodeError:
        return False


# -- Parquet ----------------------------------------------------------------------------------


def group_blocks(
    file: str,
    group: int,
    texts: Sequence[str],
    numbers: Sequence[str],
    watch: Watch,
    *,
    n_rows: int,
    at: int,
    is_one_of_many: bool = False,
    coded: Sequence[str] = (),
    buffer_size: int = 1 << 20,
    metadata: Any = None,
) -> Iterator[Block]:
    """Read columns of one row group of a Parquet file; `at` is how many rows are before it.

    Texts in `coded` come as codes and a dictionary; `metadata` are those of the file, if known.
    Read in one go, Arrow would keep a part of every row group until the end.
    """
    import pyarrow as pa

    n_texts, float64 = len(texts), pa.float64()
    opened = open_parquet(file, buffer_size=buffer_size, dictionaries=coded, metadata=metadata)
    where = f"{os.path.basename(file)}, " if is_one_of_many else ""
    try:
        _check_columns(opened.schema_arrow.names, texts, numbers, file, watch)
        size, there = opened.metadata.row_group(group).num_rows, opened.schema_arrow.names
        if len(numbers) > MANY_COLUMNS and size <= n_rows and len(set(there)) == len(there):
            # Each column is read whole, so that a buffer would only take time to fill.
            with open_parquet(file, metadata=opened.metadata) as whole:
                yield _by_columns(whole, group, texts, numbers, watch, _row_place(where, at))
            return
        chosen = list(dict.fromkeys((*texts, *numbers)))
        for batch in opened.iter_batches(n_rows, row_groups=[group], columns=chosen):
            place = _row_place(where, at)
            arrays = _in_order(batch, texts, numbers)
            names = [
                _names(array, name, watch, place)
                for array, name in zip(arrays[:n_texts], texts, strict=True)
            ]
            values = [
                array if array.type == float64 else cast_column(array, float64, name, watch)
                for array, name in zip(arrays[n_texts:], numbers, strict=True)
            ]
            values = [as_numbers(array) for array in values]
            yield Block(batch.num_rows, names, values, place)
            at += batch.num_rows
    except (pa.ArrowException, OSError, EOFError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            f"{file}: row group {group} cannot be read after row {at:,} ({reason(error)}).\n"
            "Hint: the file is damaged; copy or write it again."
        ) from None
    finally:
        opened.close()


def _by_columns(
    opened: Any,
    group: int,
    texts: Sequence[str],
    numbers: Sequence[str],
    watch: Watch,
    place: Callable[[int], str],
) -> Block:
    """Read a row group some columns at a time: beside its numbers little is held."""
    import pyarrow as pa

    float64 = pa.float64()
    matrix = np.empty((opened.metadata.row_group(group).num_rows, len(numbers)))
    room = np.empty((MANY_COLUMNS, matrix.shape[0]))  # one for all: new memory costs as much
    for start, read in _columns_ahead(opened, group, numbers):
        some = numbers[start : start + MANY_COLUMNS]
        run = room[: len(some)]
        for row, name in zip(run, some, strict=True):
            array = read.column(name).combine_chunks()
            row[:] = as_numbers(
                array if array.type == float64 else cast_column(array, float64, name, watch)
            )
        matrix[:, start : start + len(some)] = run.T
    read = opened.read_row_group(group, columns=list(texts))
    names = [_names(read.column(x).combine_chunks(), x, watch, place) for x in texts]
    return Block(matrix.shape[0], names, list(matrix.T), place, matrix)


def _columns_ahead(opened: Any, group: int, numbers: Sequence[str]) -> Iterator[tuple[int, Any]]:
    """Read some columns at a time, the next ones while these are used; each with its place."""

    def read(start: int) -> Any:
        return opened.read_row_group(group, columns=list(numbers[start : start + MANY_COLUMNS]))

    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(read, 0)
        for start in range(0, len(numbers), MANY_COLUMNS):
            found = coming.result()
            if start + MANY_COLUMNS < len(numbers):
                coming = pool.submit(read, start + MANY_COLUMNS)
            yield start, found


def _row_place(where: str, at: int) -> Callable[[int], str]:
    return lambda row: f"{where}row {at + row + 1}"


def _check_columns(
    names: Sequence[str], texts: Sequence[str], numbers: Sequence[str], file: str, watch: Watch
) -> None:
    there = Counter(names)
    for name in (*texts, *numbers):
        if not there[name]:
            raise FileError(
                f"{file}: column {name!r} is missing, which the other files of the dataset have."
            )
        # The first column of a wide table may have the name of a label.
        if there[name] > (2 if name == names[0] and len(texts) < 2 else 1):
            raise watch.fail("the column occurs twice.", line="the schema", column=name)


def _in_order(batch: Any, texts: Sequence[str], numbers: Sequence[str]) -> list[Any]:
    """Columns of a batch by name; of two, names are in the first and numbers in the last."""
    names = batch.schema.names
    if names == [*texts, *numbers]:
        return list(batch.columns)
    last = {name: i for i, name in enumerate(names)}
    return [
        *(batch.column(names.index(name)) for name in texts),
        *(batch.column(last[name]) for name in numbers),
    ]


def _names(array: Any, name: str, watch: Watch, place: Callable[[int], str]) -> Any:
    """Names as text, or as codes where the file has them so."""
    import pyarrow as pa

    if pa.types.is_dictionary(array.type) and pa.types.is_string(array.type.value_type):
        return array
    return cast_column(array, pa.string(), name, watch, place=place)
