"""Sheets of Excel workbooks: ``file.xlsx`` or ``file.xlsx::sheet``; read, never written."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, time
from typing import Any

from hierlpr._base.checks import listed
from hierlpr.exceptions import FileError, HierlprError
from hierlpr.io.opening import open_bytes, reason, workbook_of

__all__ = ["sheet_names", "sheet_note", "sheet_rows"]

GROUP_ROWS = 1 << 14
MOST_ROWS = 1 << 20  # of a sheet of Excel; a forged row number would count up to it for ever
MOST_BYTES = 1 << 30  # unpacked; a sheet of 20 million cells


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
            cells = [_text(value) for value in row]
            while cells and not cells[-1].strip():
                cells.pop()
            if cells:
                yield number, cells


def sheet_note(path: str) -> str | None:
    """Say which of several sheets is read, where the path does not."""
    found = workbook_of(path)
    assert found is not None
    if found[1]:
        return None
    with _opened(path) as (sheet, names):
        if len(names) == 1:
            return None
        others = listed([name for name in names if name != sheet.title])
        return f"{path}: the sheet {sheet.title!r} is read; others, as FILE::SHEET: {others}"


def sheet_names(path: str) -> tuple[str, ...]:
    """Return the names of the columns: the first row that holds anything."""
    for _, cells in _numbered(path):
        return tuple(cell.strip() for cell in cells)
    raise FileError(f"{path}: the sheet is empty.\nHint: its first row names the columns.")


def sheet_rows(path: str) -> Iterator[list[tuple[str, list[str]]]]:
    """Yield the rows below the header as texts with their places, some at a time."""
    width = 0
    rows: list[tuple[str, list[str]]] = []
    for number, cells in _numbered(path):
        if not width:
            width = len(cells)
            continue
        rows.append((f"row {number}", cells + [""] * (width - len(cells))))
        if len(rows) == GROUP_ROWS:
            yield rows
            rows = []
    if rows:
        yield rows


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))  # a number that is a name
    return value.isoformat() if isinstance(value, date | time) else str(value)
