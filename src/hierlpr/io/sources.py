"""Tables of text and Parquet as chunks of Arrow columns.

Text is read in blocks of whole lines. A block that Arrow refuses is read a second time, line by
line with the `csv` module, to name the first bad line. A row is one line: values may be quoted,
but a quoted value may not contain a line end. Lines that begin with ``#`` are comments.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import check_choice
from hierlpr.exceptions import FileError
from hierlpr.io.reading import (
    BLOCK,
    Place,
    ReadReport,
    decoded_lines,
    ending,
    is_parquet,
    numbered_lines,
    open_parquet,
    open_plain,
    reason,
    refuse_abundances,
    text_blocks,
)

TEXT_ENDINGS = (".csv", ".tsv", ".txt", "")  # stdin has none
READ_ENDINGS = (
    "tables are .csv, .tsv, .txt or .parquet, also with .gz; scores may also be .json or .jsonl, "
    "truth .gaf or .json, a hierarchy .obo, .json, .paths or .arff. hierlpr assign reads the files "
    "of other tools."
)
MISSING = ("", "NA", "N/A", "nan", "NaN", "NAN", "null", "None", "?")
FLAGS = {"1": 1.0, "1.0": 1.0, "true": 1.0, "0": 0.0, "0.0": 0.0, "false": 0.0}
FLAGS |= dict.fromkeys((*(x.lower() for x in MISSING), "unknown"), math.nan)
_ROWS = 1 << 16
# Possessive, so that millions of digits before a letter are refused in one pass.
_NUMBER = re.compile(
    r"[-+]?(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:e[-+]?\d++)?|inf(?:inity)?|nan)", re.IGNORECASE
)


# Some rows: the chosen columns, and a function that returns the place of a row.
Chunk: TypeAlias = tuple[pa.RecordBatch, Callable[[int], Place]]


@dataclass(slots=True)
class Source:
    """A table whose names of columns, or first row, have been read."""

    log: ReadReport
    columns: tuple[str, ...]
    first_place: Place
    delimiter: str = ""  # empty for Parquet
    decimal: str = "."
    has_header: bool = True
    batch: pa.RecordBatch | None = None  # the rows of a file that is no table
    places: Sequence[Place] = ()  # of these rows
    raw: bytes | None = None  # the text of a file that was read before

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line number and cells of the rows of a text; without a header, of any length.

        A quote is part of a name in files with tabs.
        """
        start, width = int(self.first_place or 0) + self.has_header, len(self.columns)
        for number, line in numbered_lines(self.log.path, BytesIO(self.raw or b"")):
            if number < start or line.startswith("#") or not line.strip():
                continue
            is_tabs = self.delimiter == "\t"
            cells = line.split("\t") if is_tabs else split_line(line, self.delimiter)
            if cells is None:
                raise self._quote_error(number)
            if self.has_header and len(cells) != width:
                raise self._width_error(number, len(cells))
            yield number, cells

    def chunks(self, columns: Sequence[int], n_rows: int = _ROWS) -> Iterator[Chunk]:
        """Yield some columns of all rows, at most `n_rows` at a time; those of text as text."""
        if self.batch is not None:
            for start in range(0, self.batch.num_rows, n_rows):
                part = self.batch.slice(start, n_rows).select([self.columns[at] for at in columns])
                yield part, self.places[start : start + n_rows].__getitem__
            return
        if self.delimiter:
            yield from self._text_chunks(columns, n_rows)
            return
        names, start = [self.columns[at] for at in columns], 1
        with open_parquet(self.log.path) as opened:
            for batch in _read_ahead(opened.iter_batches(n_rows, columns=names)):
                yield batch.select(names), partial(_row_text, start)
                start += batch.num_rows

    def _text_chunks(self, columns: Sequence[int], n_rows: int) -> Iterator[Chunk]:
        path, start = self.log.path, int(self.first_place or 0) + self.has_header
        with open_plain(path) as stream:
            size = max(BLOCK, 1024 * len(self.columns))  # about 100 rows
            for first, block in text_blocks(path, stream, size):
                if first < start:
                    block = b"\n".join(block.split(b"\n")[start - first :])
                if not block.strip():
                    continue
                first = max(first, start)
                batch = self._parse(block, first, columns)
                for n_before in range(0, batch.num_rows, n_rows):
                    place = partial(self._line_of_row, first, block, n_before)
                    yield batch.slice(n_before, n_rows), place

    def _parse(self, block: bytes, first: int, columns: Sequence[int]) -> pa.RecordBatch:
        names = [str(i) for i in range(len(self.columns))]
        wanted = [str(i) for i in columns]
        text = block
        if b"\n#" in block or block.startswith(b"#"):
            lines = block.split(b"\n")
            rows = [x for x in lines if not x.startswith(b"#")]
            self.log.counts["lines with # left out"] += len(lines) - len(rows)
            text = b"\n".join(rows)
        # A quote that is not closed may be in any column.
        read = names if b'"' in text else wanted
        try:
            size, types = max(len(text), 1), dict.fromkeys(names, pa.string())
            table = pacsv.read_csv(
                pa.BufferReader(text),
                pacsv.ReadOptions(column_names=names, use_threads=False, block_size=size),
                pacsv.ParseOptions(delimiter=self.delimiter, invalid_row_handler=self._ragged_row),
                pacsv.ConvertOptions(column_types=types, include_columns=read),
            )
            # Fewer rows than lines: a quoted value may extend over lines.
            is_short = table.num_rows <= text.rstrip().count(b"\n")
            # Arrow takes the end of the text for a missing quote.
            last = text.rstrip().rpartition(b"\n")[2].decode(errors="replace")
            if not self.log.lenient and split_line(last, self.delimiter) is None:
                raise pa.ArrowInvalid("a quote is not closed")
            if is_short and any(pc.any(pc.match_substring(x, "\n")).as_py() for x in table.columns):
                raise pa.ArrowInvalid("a quoted value contains a line end")
        except pa.ArrowInvalid as error:
            raise self._bad_line(first, block, reason(error)) from None
        arrays = [table.column(name).combine_chunks() for name in wanted]
        return pa.RecordBatch.from_arrays(arrays, wanted)

    def _ragged_row(self, row: Any) -> str:
        """Decide what Arrow does with a row that has more or fewer cells than there are columns."""
        if not row.text.strip():
            return "skip"
        if not self.log.lenient:
            return "error"
        text = f"the row has {row.actual_columns:,} columns, expected {row.expected_columns:,}"
        self.log.problem(f"{text}: {row.text[:40]!r}.")
        return "skip"

    def _rows(self, first: int, block: bytes) -> Iterator[tuple[int, list[str] | None]]:
        """Yield number and cells of the lines of a block that are rows; None for bad quotes."""
        for number, line in decoded_lines(self.log.path, first, block):
            if line.strip() and not line.startswith("#"):
                yield number, split_line(line, self.delimiter)

    def _line_of_row(self, first: int, block: bytes, n_before: int, row: int) -> Place:
        width = len(self.columns)
        rows = (n for n, cells in self._rows(first, block) if cells and len(cells) == width)
        return next(islice(rows, n_before + row, None), None)

    def _bad_line(self, first: int, block: bytes, why: str) -> FileError:
        """Return the error for the first line of a block that is not a row."""
        width = len(self.columns)
        for number, cells in self._rows(first, block):
            if cells is None:
                return self._quote_error(number)
            if len(cells) != width:
                return self._width_error(number, len(cells))
        return self.log.file_error(f"the rows cannot be read ({why}).", line=first)

    def _quote_error(self, number: int) -> FileError:
        hint = "a quoted value ends on its line; a quote inside it is written twice."
        return self.log.file_error("the quotes do not match.", line=number, hint=hint)

    def _width_error(self, number: int, n_cells: int) -> FileError:
        hint = "is the delimiter right, and is a value with a comma in quotes?"
        text = f"the row has {n_cells:,} columns, expected {len(self.columns):,}."
        return self.log.file_error(text, line=number, hint=hint)


def _row_text(start: int, row: int) -> str:
    return f"row {start + row}"


def _read_ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches; the next one is read meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, batches, None)
        while (batch := following.result()) is not None:
            following = pool.submit(next, batches, None)
            yield batch


def open_source(log: ReadReport, *, sep: str | None = None, decimal: str = ".") -> Source:
    """Open a table by its ending or its first bytes, and read its first row or its schema."""
    check_choice(decimal, (".", ","), name="decimal")
    if is_parquet(log.path):
        with open_parquet(log.path) as opened:
            names = tuple(opened.schema_arrow.names)
        if not names:
            raise log.file_error("the table has no columns.")
        return Source(log, names, "the schema")
    if (kind := ending(log.path)) not in TEXT_ENDINGS:
        raise log.file_error(f"files that end in {kind} are not read.", hint=READ_ENDINGS)
    with open_plain(log.path) as stream:
        number = 0
        for number, line in numbered_lines(log.path, stream):  # noqa: B007
            if line.strip() and not line.startswith("#"):
                break
        else:
            raise log.file_error("the file has no rows." if number else "the file is empty.")
    refuse_abundances(log.path, [line])
    delimiter = _find_delimiter(log.path, line, sep)
    cells = split_line(line, delimiter)
    if cells is None:
        raise log.file_error("the quotes of the first row do not match.", line=number)
    return Source(log, tuple(cell.strip() for cell in cells), number, delimiter, decimal)


def open_text(path: AnyPath, raw: bytes, header_at: int | None = None) -> Source:
    """Return the text of a tool's file for `Source.rows`; `header_at` counts lines from 0.

    Files without a header have tabs.
    """
    log = ReadReport(os.fspath(path))
    if header_at is None:
        return Source(log, (), 1, "\t", has_header=False, raw=raw)
    _, line = next(islice(numbered_lines(path, BytesIO(raw)), header_at, None))
    delimiter = "\t" if "\t" in line else ","
    cells = line.split("\t") if delimiter == "\t" else split_line(line, ",")
    if cells is None:
        raise log.file_error("the quotes of the first row do not match.", line=header_at + 1)
    names = tuple(cell.strip(' "') for cell in cells)
    if twice := [name for name in names if names.count(name) > 1]:
        raise log.file_error("the column occurs twice.", line=header_at + 1, column=twice[0])
    return Source(log, names, header_at + 1, delimiter, raw=raw)


def is_table(path: AnyPath) -> bool:
    """Return whether a file is a table, by its ending."""
    return ending(path) in (*TEXT_ENDINGS, ".parquet")


def split_line(line: str, delimiter: str) -> list[str] | None:
    """Return the cells of a line, or None if its quotes do not match."""
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return None


def _find_delimiter(path: str, first_line: str, sep: str | None) -> str:
    """Return the delimiter by option, by the ending of the file, or by its first line.

    An option that the first line does not contain is meant for another file.
    """
    sep = "\t" if sep in ("tab", "\\t") else sep
    if sep is not None and (len(sep) != 1 or not sep.isascii() or sep in '"\r\n\0'):
        text = f"sep must be one character or 'tab'; got {sep!r}."
        raise FileError(f"{text}\nHint: for example ';'.", options=("sep",))
    if sep is not None and sep in first_line:
        return sep
    by_ending = {".tsv": "\t", ".csv": ","}.get(ending(path))
    if by_ending == "\t" and "\t" not in first_line and len(first_line.split(" ")) in (2, 3):
        return " "  # CAFA files are sometimes written with spaces
    usual = (by_ending, "\t", ",", ";") if by_ending else ("\t", ",", ";", " ")
    return next((x for x in usual if x in first_line), by_ending or ",")


# -- values -------------------------------------------------------------------------------------


def as_names(column: Any, log: ReadReport, name: str) -> Any:
    """Return a column as strings; numbers with a fraction and nested types are refused."""
    types = pa.types
    if types.is_floating(column.type):  # whole numbers, of which some are missing
        with suppress(pa.ArrowInvalid):
            column = column.cast(pa.int64())
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    is_text = types.is_string(kind) or types.is_large_string(kind)
    is_whole = types.is_integer(kind) or types.is_decimal(kind) or types.is_temporal(kind)
    if not (is_text or is_whole or types.is_null(kind)):
        text = f"the column holds {str(kind)[:60]}, expected names."
        raise log.file_error(text, line="the schema", column=name)
    try:
        column = column.cast(pa.string())
        column.validate(full=True)
    except pa.ArrowInvalid:
        raise log.file_error("a name is not UTF-8 text.", column=name) from None
    return column


def as_numbers(
    column: Any, log: ReadReport, name: str, *, decimal: str = ".", is_flag: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return a column as numbers, NaN where missing, and which cells are not numbers.

    Flags are 0, 1, true, false and unknown.
    """
    types = pa.types
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    is_text = types.is_string(kind) or types.is_large_string(kind)
    if is_text and is_flag:
        text = pc.fill_null(pc.utf8_lower(pc.utf8_trim_whitespace(column)), "")
        code = pc.index_in(text, pa.array(list(FLAGS), text.type)).fill_null(-1).to_numpy()
        return np.append(list(FLAGS.values()), math.nan)[code], code < 0
    if is_text:
        return _parse_numbers(column, decimal)
    is_number = types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind)
    if not (is_number or types.is_boolean(kind) or types.is_null(kind)):
        text = f"the column holds {str(kind)[:60]}, expected numbers."
        raise log.file_error(text, line="the schema", column=name)
    # A decimal with many digits and a half-precision number have no direct way to float64.
    step = pa.float32() if kind == pa.float16() else pa.float64()
    return _floats(column.cast(step, safe=False)), np.zeros(len(column), dtype=bool)


def _floats(column: Any) -> NDArray[np.float64]:
    """Return a column as float64, NaN where it is null."""
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def _parse_numbers(column: Any, decimal: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    none = np.zeros(len(column), dtype=bool)
    text = column
    if decimal == ",":
        text = pc.replace_substring(pc.replace_substring(text, ".", "?."), ",", ".")
    with suppress(pa.ArrowInvalid):
        return _floats(text), none
    text = pc.utf8_trim_whitespace(text)
    missing = pc.is_in(text, pa.array(MISSING, text.type))
    with suppress(pa.ArrowInvalid):
        return _floats(pc.if_else(missing, None, text)), none
    values = [math.nan if x is None else parse_number(x, decimal) for x in column.to_pylist()]
    bad = np.array([value is None for value in values])
    return np.array([math.nan if x is None else x for x in values]), bad


def parse_number(text: str, decimal: str = ".") -> float | None:
    """Return a number written in decimal digits, NaN for a missing one, None for other text.

    >>> parse_number("85%"), parse_number("0,5", ","), parse_number("0,5")
    (0.85, 0.5, None)
    """
    text = text.strip()
    if text in MISSING:
        return math.nan
    if decimal != ".":
        text = text.replace(".", "?").replace(decimal, ".")
    digits = text.removesuffix("%").rstrip()
    if not (digits.isascii() and _NUMBER.fullmatch(digits)):
        return None
    return float(digits) / 100.0 if text.endswith("%") else float(digits)


def number_hint(text: str, decimal: str) -> tuple[str, tuple[str, ...]]:
    """Return how a number with the other decimal mark or thousands is read, with the options."""
    mark = "." if decimal == "," else ","
    group = rf"[{mark}'_ \xa0\u202f]"
    plain = re.sub(group, "", text.strip())
    is_grouped = re.fullmatch(rf"[-+]?[1-9]\d{{0,2}}({group}\d{{3}})+([.,]\d+)?", text.strip())
    hint, options = "", tuple[str, ...]()
    if parse_number(text, mark) is not None:
        hint, options = f"decimal={mark!r} reads {text.strip()!r}.", (f"decimal={mark}",)
    if is_grouped:
        hint = f"{hint} Thousands are written without a separator: {plain}.".strip()
    return hint, options


def read_cells(
    source: Source, columns: Sequence[int]
) -> Iterator[tuple[Callable[[], Place], list[str]]]:
    """Yield place and stripped cells of every row of a small table."""
    for batch, place in source.chunks(columns):
        named = zip(batch.columns, columns, strict=True)
        cells = [as_names(x, source.log, source.columns[at]).to_pylist() for x, at in named]
        for i, row in enumerate(zip(*cells, strict=True)):
            yield partial(place, i), ["" if cell is None else cell.strip() for cell in row]
