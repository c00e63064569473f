"""Tables in files of other programs, read and never written: SQLite, DuckDB and Excel.

A table of a database is named ``file::table``, a sheet of a workbook ``file.xlsx::sheet``, the
first one ``file.xlsx``.
"""

from __future__ import annotations

import os
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import date, time
from typing import Any, NamedTuple
from urllib.parse import quote

from hierlpr._base.checks import listed
from hierlpr.exceptions import FileError, HierlprError
from hierlpr.io.opening import database_of, open_bytes, reason, workbook_of

GROUP_ROWS = 1 << 14
MOST_ROWS = 1 << 20  # of a sheet of Excel; a forged row number would count up to it for ever
MOST_BYTES = 1 << 30  # unpacked; a sheet of 20 million cells

Row = tuple[str, list[bytes]]  # its place, and its cells as text


class ForeignTable(NamedTuple):
    """A table of another program: what it is, the names of its columns, its rows some at a time."""

    kind: str
    header: str  # where the names are
    names: tuple[str, ...]
    rows: Callable[[], Iterator[list[Row]]]
    note: str = ""


def open_foreign(path: str) -> ForeignTable | None:
    """Return the table of a database, or the sheet of a workbook; None if a path is neither."""
    if database_of(path) is not None:
        return ForeignTable(
            "database", "the schema", _database_names(path), lambda: _database_rows(path)
        )
    if workbook_of(path) is not None:
        names, note = _sheet_names(path), _sheet_note(path)
        return ForeignTable("Excel", "the header", names, lambda: _sheet_rows(path), note)
    return None


# -- databases --------------------------------------------------------------------------------


@contextmanager
def _selected(path: str) -> Iterator[Any]:
    """Give a cursor over all rows of a table, whose name is taken as it is."""
    found = database_of(path)
    assert found is not None
    file, table = found
    with open_bytes(path) as stream:
        head = stream.read(20)
    query = 'SELECT * FROM "' + table.replace('"', '""') + '"'
    before = _state(file)
    try:
        with closing(_connect(file, head)) as connection:
            yield connection.execute(query)
        if _state(file) != before:
            raise FileError(
                f"{path}: the file changed while it was read.\n"
                "Hint: run it again when nothing writes to it."
            )
    except Exception as error:
        if type(error).__module__.partition(".")[0].lstrip("_") not in ("sqlite3", "duckdb"):
            raise
        why = re.sub(r"^[A-Z][A-Za-z ]* Error: ", "", reason(error))  # as DuckDB begins
        there = _table_names(file, head)
        which = (
            f"; the tables are {listed(there)}" if there else " with a table or view of the file"
        )
        raise FileError(
            f"{path}: the table cannot be read ({why}).\nHint: write FILE::TABLE{which}."
        ) from None


def _table_names(file: str, head: bytes) -> list[str]:
    """Return the tables and views of a database, none if it cannot tell."""
    is_sqlite = head.startswith(b"SQLite")
    names = (
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        if is_sqlite
        else "SELECT table_name FROM information_schema.tables ORDER BY table_name"
    )
    try:
        with closing(_connect(file, head)) as connection:
            return [str(row[0]) for row in connection.execute(names).fetchall()]
    except Exception:  # the file is damaged, which the first error has told
        return []


def _state(file: str) -> tuple[int, int] | None:
    """Tell one state of a file from another; None for what is no file here."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _connect(file: str, head: bytes) -> Any:
    if head.startswith(b"SQLite format 3\x00"):
        import sqlite3

        # Readers of a database with a log (2 in its head) leave files of theirs beside it. Where
        # that log is not there nothing is in it, and the file by itself is the whole database.
        is_whole = head[18:19] == b"\x02" and not os.path.exists(f"{file}-wal")
        alone = "&immutable=1" if is_whole else ""
        return sqlite3.connect(f"file:{quote(file)}?mode=ro{alone}", uri=True)
    if head[8:12] == b"DUCK":
        try:
            import duckdb
        except ImportError:
            raise FileError(
                f"{file}: reading DuckDB needs the package duckdb.\nHint: pip install duckdb."
            ) from None
        return duckdb.connect(file, read_only=True)
    raise FileError(f"{file}: this is neither an SQLite nor a DuckDB file.")


def _database_names(path: str) -> tuple[str, ...]:
    """Return the names of the columns of a table."""
    with _selected(path) as cursor:
        return tuple(str(column[0]) for column in cursor.description)


def _database_rows(path: str) -> Iterator[list[Row]]:
    """Yield rows as texts with their places, some at a time."""
    at = 0
    with _selected(path) as cursor:
        while rows := cursor.fetchmany(GROUP_ROWS):
            yield [
                (f"row {at + i}", list(map(_value_text, row)))
                for i, row in enumerate(rows, start=1)
            ]
            at += len(rows)


def _value_text(value: Any) -> bytes:
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    return str(int(value) if isinstance(value, bool) else value).encode(errors="surrogatepass")


# -- workbooks --------------------------------------------------------------------------------


@contextmanager
def _opened(path: str) -> Iterator[tuple[Any, list[str]]]:
    """Give the sheet of a path, and the names of all sheets."""
    found = workbook_of(path)
    assert found is not None
    file, sheet = found
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise FileError(
            f"{file}: reading workbooks needs the package openpyxl.\n"
            "Hint: pip install 'hierlpr[excel]', or save the sheet as .csv."
        ) from None
    with open_bytes(path) as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of styles and validations, which are not read
        try:
            _refuse_large(file, stream)
            book = load_workbook(stream, read_only=True, data_only=True, keep_links=False)
            sheets = {str(one.title): one for one in book.worksheets}
            if not sheets or (sheet and sheet not in sheets):
                what = f"there is no sheet {sheet!r}" if sheet else "there is no sheet"
                raise FileError(f"{file}: {what}.\nHint: the sheets are {listed(list(sheets))}.")
            chosen = sheets[sheet or next(iter(sheets))]
            chosen.reset_dimensions()  # what the file says of its size may be anything
            yield chosen, list(sheets)
        except (HierlprError, MemoryError):
            raise
        except Exception as error:  # anything may be wrong with the XML inside
            raise FileError(
                f"{file}: this is no readable Excel workbook ({reason(error)}).\n"
                "Hint: save it as .xlsx without a password, or as .csv."
            ) from None


def _refuse_large(file: str, stream: Any) -> None:
    with zipfile.ZipFile(stream) as packed:
        size = sum(entry.file_size for entry in packed.infolist())
    if size > MOST_BYTES:
        raise FileError(
            f"{file}: the workbook unpacks to {size / 1e9:.1f} GB; at most "
            f"{MOST_BYTES / 1e9:.1f} GB are read.\nHint: save the sheet as .csv, or use Parquet."
        )
    stream.seek(0)


def _numbered(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that hold anything as texts up to their last cell, numbered as Excel does."""
    with _opened(path) as (sheet, _):
        for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
            if number > MOST_ROWS:
                raise FileError(f"{path}: the sheet has a row {number:,}, which no sheet can have.")
            cells = [_cell_text(value) for value in row]
            while cells and not cells[-1].strip():
                cells.pop()
            if cells:
                yield number, cells


def _sheet_note(path: str) -> str:
    """Say which of several sheets is read, where the path does not."""
    found = workbook_of(path)
    assert found is not None
    if found[1]:
        return ""
    with _opened(path) as (sheet, names):
        if len(names) == 1:
            return ""
        others = listed([name for name in names if name != sheet.title])
        return f"{path}: the sheet {sheet.title!r} is read; others, as FILE::SHEET: {others}"


def _sheet_names(path: str) -> tuple[str, ...]:
    """Return the names of the columns: the first row that holds anything."""
    for _, cells in _numbered(path):
        return tuple(cell.strip() for cell in cells)
    raise FileError(f"{path}: the sheet is empty.\nHint: its first row names the columns.")


def _sheet_rows(path: str) -> Iterator[list[Row]]:
    """Yield the rows below the header as texts with their places, some at a time."""
    width = 0
    rows: list[Row] = []
    for number, cells in _numbered(path):
        if not width:
            width = len(cells)
            continue
        texts = [cell.encode(errors="surrogatepass") for cell in cells]
        rows.append((f"row {number}", texts + [b""] * (width - len(cells))))
        if len(rows) == GROUP_ROWS:
            yield rows
            rows = []
    if rows:
        yield rows


def _cell_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))  # a number that is a name
    return value.isoformat() if isinstance(value, date | time) else str(value)
