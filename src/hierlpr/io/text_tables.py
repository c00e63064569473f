"""Columns of text tables: read by Arrow and, where Arrow refuses a row, line by line.

Arrow reads a file block by block. The first time it refuses something, the rest of the file is
read again with the `csv` module, one line at a time. That second pass names the line of the
first bad row or, if reading is lenient, skips bad rows and counts them.

A row is one line. Values may be quoted, but a quoted value may not contain a line end. Lines
that begin with ``#`` are comments.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from hierlpr.io.opening import find_delimiter, numbered_lines, open_plain
from hierlpr.io.read_log import Place, ReadLog

Kind = Literal["name", "code", "number", "flag"]  # code: a name that occurs in many rows
Column = tuple[int, Kind]  # position in the file, and what it holds
Row = tuple[Place, list[str]]

MISSING = ("", "NA", "N/A", "nan", "NaN", "NAN", "null", "None", "?")
_UNKNOWN = ("unknown", "Unknown", "UNKNOWN")
_TRUE = ("1", "1.0", " 1", "true", "True", "TRUE")
_FALSE = ("0", "0.0", " 0", "false", "False", "FALSE")
_TYPES = {
    "name": pa.string(),
    "code": pa.dictionary(pa.int32(), pa.string()),
    "number": pa.float64(),
    "flag": pa.bool_(),
}
# Possessive, so that millions of digits before a letter are refused in one pass.
_NUMBER = re.compile(
    r"\s*[-+]?(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:e[-+]?\d++)?|inf(?:inity)?|nan)\s*", re.IGNORECASE
)
# Lines of a CAFA submission that are not rows.
_CAFA_LINE = re.compile(r"(AUTHOR|MODEL|KEYWORDS|ACCURACY|END)(\s.*)?")
_BLOCK = 1 << 22  # bytes
_SLOW_ROWS = 1 << 14


@dataclass(slots=True)
class TextTable:
    """A text table whose first row has been read; `columns` are the cells of that row."""

    log: ReadLog
    delimiter: str
    decimal: str
    columns: tuple[str, ...]
    first_line: int
    is_submission: bool  # the file begins with lines of a CAFA submission
    n_comments: int  # before the first row
    has_header: bool = True
    kind: str = ""

    @property
    def first_place(self) -> Place:
        """Line of the first row."""
        return self.first_line

    def place(self, row: int) -> Place:
        """Return the line of a row; takes a pass over the file."""
        return next(islice(self.rows(), row, None))[0]

    def rows(self) -> Iterator[Row]:
        """Yield line number and cells of the rows that have the right number of cells."""
        log, width = self.log, len(self.columns)
        with open_plain(log.path) as stream:
            for number, line in numbered_lines(log.path, stream):
                if self._is_ignored(line) or number < self.first_line + self.has_header:
                    continue
                cells = split_line(line, self.delimiter)
                if cells is not None and len(cells) == width:
                    yield number, cells
                elif cells is None:
                    hint = "a quoted value ends on its line, and contains a quote as two."
                    log.problem("the quotes do not match.", line=number, hint=hint)
                else:
                    hint = "is the delimiter right, and is a value with a comma in quotes?"
                    text = f"the row has {len(cells):,} columns, expected {width:,}."
                    log.problem(text, line=number, hint=hint)

    def batches(self, columns: Sequence[Column], n_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows, names as strings and numbers as float64."""
        n_done = 0
        with suppress(pa.ArrowInvalid):
            for batch in self._arrow_batches(columns):
                yield batch
                n_done += batch.num_rows
            return
        self.log.counts["comments"] = 0  # the second pass counts them again
        yield from convert_rows(self.rows(), self.columns, columns, self.log, self.decimal, n_done)

    def _is_ignored(self, line: str) -> bool:
        """Return whether a line is blank, a comment, or a CAFA line that is not a row."""
        if line.startswith("#"):
            self.log.counts["comments"] += 1
            return True
        return not line.strip() or (not self.has_header and is_cafa_line(line, self.delimiter))

    def _arrow_batches(self, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        width = len(self.columns)
        kinds = dict(columns)
        # Columns that are not used are read as text, to find quotes that extend over lines.
        types = {str(i): _TYPES[kinds.get(i, "name")] for i in range(width)}
        log = self.log
        log.counts["comments"] = self.n_comments

        def skip(row: Any) -> Literal["skip", "error"]:
            return "skip" if "\n" not in row.text and self._is_ignored(row.text) else "error"

        missing = [*MISSING, *_UNKNOWN] if "flag" in kinds.values() else MISSING
        with open_plain(log.path) as stream:
            for _ in range(self.first_line - 1 + self.has_header):
                stream.readline()
            reader = pacsv.open_csv(
                pa.PythonFile(stream, "r"),
                pacsv.ReadOptions(column_names=list(types), block_size=max(_BLOCK, 128 * width)),
                pacsv.ParseOptions(delimiter=self.delimiter, invalid_row_handler=skip),
                pacsv.ConvertOptions(
                    column_types=types,
                    strings_can_be_null=False,
                    null_values=missing,
                    true_values=_TRUE,
                    false_values=_FALSE,
                    decimal_point=self.decimal,
                ),
            )
            for batch in reader:
                if _has_ambiguous_text(batch):
                    raise pa.ArrowInvalid("a comment or a quoted line end")
                yield pa.RecordBatch.from_arrays(
                    [as_float(batch.column(i)) for i, _ in columns], [str(i) for i, _ in columns]
                )


def _has_ambiguous_text(batch: pa.RecordBatch) -> bool:
    """Return whether a name contains a line end or NUL, or a row may be a comment."""
    texts = [column for column in batch.columns if not _is_number(column.type)]
    texts = [x.dictionary if isinstance(x, pa.DictionaryArray) else x for x in texts]
    is_odd = any(pc.any(pc.match_substring_regex(text, r"[\n\x00]")).as_py() for text in texts)
    first = batch.column(0)
    if _is_number(first.type):
        return is_odd
    first = first.dictionary if isinstance(first, pa.DictionaryArray) else first
    return bool(is_odd or pc.any(pc.starts_with(first, "#")).as_py())


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def as_float(column: Any) -> Any:
    """Return numbers and flags as float64 with NaN for nulls; other columns are unchanged."""
    if not _is_number(column.type):
        return column
    return pc.fill_null(column.cast(pa.float64()), math.nan)


def open_text(log: ReadLog, *, sep: str | None = None, decimal: str = ".") -> TextTable:
    """Find the first row of a text table; it is a single line."""
    is_submission = False
    number = n_comments = 0
    with open_plain(log.path) as stream:
        for number, line in numbered_lines(log.path, stream):  # noqa: B007
            delimiter = find_delimiter(log.path, line, sep)
            if line.startswith("#"):
                n_comments += 1
            elif is_cafa_line(line, delimiter):
                is_submission = True
            elif line.strip():
                break
        else:
            raise log.file_error("the file has no rows." if number else "the file is empty.")
    if "\r" in line:
        hint = "save the file with line ends that every system knows."
        raise log.file_error("the lines end with a carriage return alone.", line=number, hint=hint)
    cells = split_line(line, delimiter)
    if cells is None:
        raise log.file_error("the quotes of the first row do not match.", line=number)
    names = tuple(cell.strip() for cell in cells)
    return TextTable(log, delimiter, decimal, names, number, is_submission, n_comments)


def split_line(line: str, delimiter: str) -> list[str] | None:
    """Return the cells of a line, or None if its quotes do not match.

    >>> split_line('a,"b, c"', ","), split_line('a,"b', ",")
    (['a', 'b, c'], None)
    """
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return None


def is_cafa_line(line: str, delimiter: str) -> bool:
    """Return whether a line belongs to a CAFA submission without being a row of it.

    A sample may also be called MODEL: a line with two or three cells is a row, unless
    the delimiter is a space, where only one with a number in the third cell is.
    """
    if not _CAFA_LINE.fullmatch(line):
        return False
    cells = line.strip().split(delimiter)
    is_row = len(cells) == 3 and parse_number(cells[2]) is not None
    return not (is_row or (delimiter != " " and len(cells) in (2, 3)))


# -- value by value ---------------------------------------------------------------------------


def parse_number(text: str, decimal: str = ".") -> float | None:
    """Return a number written in decimal digits, NaN for a missing one, None for other text.

    >>> parse_number("1e-3"), parse_number("0,5", ","), parse_number("1_000")
    (0.001, 0.5, None)
    """
    if text.strip() in MISSING:
        return math.nan
    if decimal != ".":
        text = text.replace(".", "?").replace(decimal, ".")
    return float(text) if text.isascii() and _NUMBER.fullmatch(text) else None


def parse_flag(text: str) -> float | None:
    """Return 1, 0, NaN for a missing or unknown value, and None for anything else."""
    if text.strip() in (*MISSING, *_UNKNOWN):
        return math.nan
    return 1.0 if text.strip() in _TRUE else 0.0 if text.strip() in _FALSE else None


def convert_rows(
    rows: Iterable[Row],
    names: Sequence[str],
    columns: Sequence[Column],
    log: ReadLog,
    decimal: str = ".",
    n_done: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Convert rows of text to batches; the first `n_done` good rows are skipped."""
    schema = pa.schema(
        [(str(i), pa.string() if kind in ("name", "code") else pa.float64()) for i, kind in columns]
    )
    kept: list[list[Any]] = []
    for place, cells in rows:
        values = []
        for at, kind in columns:
            value: Any = cells[at]
            if kind == "number":
                value = parse_number(cells[at], decimal)
            elif kind == "flag":
                value = parse_flag(cells[at])
            if value is None:
                hint = _value_hint(cells[at], kind, decimal)
                what = "a number" if kind == "number" else "0, 1 or unknown"
                text = f"{cells[at][:40]!r} is not {what}."
                log.problem(text, line=place, column=names[at], hint=hint)
                break
            values.append(value)
        else:
            if n_done:
                n_done -= 1
                continue
            kept.append(values)
        if len(kept) == _SLOW_ROWS:
            yield _batch(kept, schema)
            kept = []
    if kept:
        yield _batch(kept, schema)


def _batch(rows: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array(x, f.type) for x, f in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _value_hint(text: str, kind: Kind, decimal: str) -> str:
    if kind == "flag" and text.strip().lower() in ("yes", "no", "y", "n", "t", "f"):
        return "write 1 for yes and 0 for no."
    if kind == "flag" and parse_number(text) is not None:
        return "are the files of scores and truth interchanged?"
    if kind == "number" and decimal == "." and parse_number(text, ",") is not None:
        return "--decimal , (decimal=',') reads decimal commas."
    return ""
