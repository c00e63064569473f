"""Open tables of text, Parquet and Excel as sources of Arrow batches.

A source has the names of its columns, yields batches of some of them, and finds the place of a row.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import pyarrow as pa

from hierlpr._utils import require
from hierlpr._utils.checks import check_choice
from hierlpr.exceptions import FileError
from hierlpr.io.opening import is_parquet, open_bytes, open_parquet, parquet_files, reason
from hierlpr.io.read_log import Place, ReadLog
from hierlpr.io.text_tables import Column, Kind, Row, TextTable, as_float, convert_rows, open_text

MAX_BYTES = 1 << 29  # of an unpacked workbook


def is_workbook(path: str) -> bool:
    """Return whether a path is an Excel workbook; ``x.xlsx::scores`` is its sheet ``scores``."""
    return path.partition("::")[0].lower().endswith((".xlsx", ".xlsm"))


def _sheet_rows(path: str) -> Iterator[Row]:
    """Yield place and cells of the rows that are not empty; the first one names the columns."""
    require("openpyxl", extra="excel", what="Reading Excel workbooks")
    from openpyxl import load_workbook

    file, _, sheet = path.partition("::")
    try:
        with open_bytes(file) as stream:
            if sum(part.file_size for part in zipfile.ZipFile(stream).infolist()) > MAX_BYTES:
                raise FileError(f"{file}: the workbook is larger than {MAX_BYTES >> 20} MB.")
            book = load_workbook(stream, read_only=True, data_only=True, keep_links=False)
            for i, row in enumerate(book[sheet or book.sheetnames[0]].iter_rows(values_only=True)):
                if any(value is not None for value in row):
                    yield f"row {i + 1}", [_text(value) for value in row]
    except FileError:
        raise
    except Exception as error:  # anything may be wrong inside a damaged workbook
        raise FileError(f"{path}: this sheet cannot be read ({reason(error)}).") from None


def _text(value: Any) -> str:
    if isinstance(value, bool | float) and value == int(value):
        return str(int(value))
    return "" if value is None else str(value)


@dataclass(slots=True)
class SheetTable:
    """A sheet of an Excel workbook."""

    log: ReadLog
    columns: tuple[str, ...]
    first_place: Place
    kind: str = "Excel"

    def rows(self) -> Iterator[Row]:
        """Yield place and cells of the rows after the header."""
        for place, cells in islice(_sheet_rows(self.log.path), 1, None):
            width = len(self.columns)
            yield place, (cells + [""] * width)[:width]

    def batches(self, columns: Sequence[Column], n_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows."""
        return convert_rows(self.rows(), self.columns, columns, self.log)

    def place(self, row: int) -> Place:
        """Return the place of a row."""
        return next(islice(self.rows(), row, None))[0]


@dataclass(slots=True)
class ParquetTable:
    """A Parquet file, or a folder of files that are read in the order of their names."""

    log: ReadLog
    files: list[str]
    columns: tuple[str, ...]
    first_place: Place = "the schema"
    kind: str = "Parquet"

    def batches(self, columns: Sequence[Column], n_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows, at most `n_rows` at a time."""
        names = [self.columns[at] for at, _ in columns]
        for name in names:
            if self.columns.count(name) > 1:
                raise self.log.file_error(
                    "the column occurs twice.", line="the schema", column=name
                )
        for file in self.files:
            with open_parquet(file) as opened:
                lost = set(names).difference(opened.schema_arrow.names)
                if lost:
                    raise FileError(f"{file}: there is no column {min(lost)!r}.")
                for group in range(opened.num_row_groups):
                    yield from self._group_batches(opened, group, file, names, columns, n_rows)

    def _group_batches(
        self,
        opened: Any,
        group: int,
        file: str,
        names: list[str],
        columns: Sequence[Column],
        n_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        try:
            for batch in opened.iter_batches(n_rows, row_groups=[group], columns=names):
                arrays = [
                    self._cast(batch.column(name), kind, name)
                    for name, (_, kind) in zip(names, columns, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, names)
        except (pa.ArrowException, OSError, EOFError) as error:
            raise FileError(
                f"{file}, row group {group + 1}: cannot be read ({reason(error)}).\n"
                "Hint: the file is damaged; copy or write it again."
            ) from None

    def _cast(self, column: Any, kind: Kind, name: str) -> Any:
        """Return names as strings and numbers as float64; other types are refused."""
        types, given = pa.types, column.type
        if types.is_dictionary(given):
            column, given = column.dictionary_decode(), given.value_type
        is_text = types.is_string(given) or types.is_large_string(given)
        is_integer = types.is_integer(given) or types.is_decimal(given)
        is_number = is_integer or types.is_floating(given) or types.is_boolean(given)
        if kind in ("name", "code"):
            if is_text or is_integer or types.is_temporal(given) or types.is_null(given):
                return column.cast(pa.string())
        elif types.is_boolean(given) or types.is_floating(given):
            return as_float(column)
        elif is_number or types.is_null(given):
            return as_float(column.cast(pa.float64(), safe=False))
        expected = "names" if kind in ("name", "code") else "numbers"
        held = "text" if is_text else str(given)[:60]
        text = f"the column holds {held}, expected {expected}."
        raise self.log.file_error(text, line="the schema", column=name)

    def place(self, row: int) -> Place:
        """Return the place of a row, with its file if there are several."""
        for file in self.files:
            with open_parquet(file) as opened:
                n = opened.metadata.num_rows
            if row < n:
                where = f"{os.path.basename(file)}, " if len(self.files) > 1 else ""
                return f"{where}row {row + 1}"
            row -= n
        return None


Source: TypeAlias = TextTable | ParquetTable | SheetTable


def open_source(log: ReadLog, *, sep: str | None = None, decimal: str = ".") -> Source:
    """Open a table by its ending or its first bytes, and read the names of its columns."""
    path = log.path
    check_choice(decimal, (".", ","), name="decimal")
    if is_workbook(path):
        place, cells = next(_sheet_rows(path), (None, []))
        while cells and not cells[-1].strip():
            cells.pop()
        if not cells:
            raise log.file_error("the sheet is empty.")
        return SheetTable(log, tuple(cell.strip() for cell in cells), place)
    if is_parquet(path):
        files = parquet_files(path)
        with open_parquet(files[0]) as opened:
            names = tuple(opened.schema_arrow.names)
        if not names:
            raise log.file_error("the table has no columns.")
        return ParquetTable(log, files, names)
    return open_text(log, sep=sep, decimal=decimal)


def read_cells(
    log: ReadLog, used: Sequence[str] = (), *, sep: str | None = None
) -> Iterator[tuple[Place, list[str]]]:
    """Yield place and cells of every row of a small table, the first row included.

    Of a Parquet file only the columns whose lower-case names are in `used` have text.
    """
    source = open_source(log, sep=sep)
    yield source.first_place, list(source.columns)
    if not isinstance(source, ParquetTable):
        for place, cells in source.rows():
            yield place, [cell.strip() for cell in cells]
        return
    columns = [i for i, name in enumerate(source.columns) if name.strip().lower() in used]
    row = 0
    for file in source.files:
        with open_parquet(file) as opened:
            table = opened.read([source.columns[i] for i in columns])
        for column in table.schema:
            if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
                text = f"the column holds {column.type}, expected text or numbers."
                raise log.file_error(text, line="the schema", column=column.name)
        for values in zip(*(column.to_pylist() for column in table.columns), strict=True):
            row += 1
            cells = [""] * len(source.columns)
            for i, value in zip(columns, values, strict=True):
                cells[i] = "" if value is None else str(value)
            yield f"row {row}", cells
