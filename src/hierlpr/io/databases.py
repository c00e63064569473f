"""Tables of SQLite and DuckDB files, named as ``file::table``; read, never written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote

from hierlpr.exceptions import FileError
from hierlpr.io.opening import database_of, open_bytes, reason

__all__ = ["database_names", "database_rows"]

GROUP_ROWS = 1 << 16


@contextmanager
def _selected(path: str) -> Iterator[Any]:
    """Give a cursor over all rows of a table, whose name is taken as it is."""
    found = database_of(path)
    assert found is not None
    file, table = found
    with open_bytes(path) as stream:
        head = stream.read(16)
    query = 'SELECT * FROM "' + table.replace('"', '""') + '"'
    try:
        with closing(_connect(file, head)) as connection:
            yield connection.execute(query)
    except Exception as error:
        if type(error).__module__.partition(".")[0].lstrip("_") not in ("sqlite3", "duckdb"):
            raise
        raise FileError(
            f"{path}: the table cannot be read ({reason(error)}).\n"
            "Hint: write FILE::TABLE, with the name of a table or view in the file."
        ) from None


def _connect(file: str, head: bytes) -> Any:
    if head.startswith(b"SQLite format 3\x00"):
        import sqlite3

        return sqlite3.connect(f"file:{quote(file)}?mode=ro", uri=True)
    if head[8:12] == b"DUCK":
        try:
            import duckdb
        except ImportError:
            raise FileError(
                f"{file}: reading DuckDB needs the package duckdb.\nHint: pip install duckdb."
            ) from None
        return duckdb.connect(file, read_only=True)
    raise FileError(f"{file}: this is neither an SQLite nor a DuckDB file.")


def database_names(path: str) -> tuple[str, ...]:
    """Return the names of the columns of a table."""
    with _selected(path) as cursor:
        return tuple(str(column[0]) for column in cursor.description)


def database_rows(path: str) -> Iterator[list[tuple[str, list[bytes]]]]:
    """Yield rows as texts with their places, some at a time."""
    at = 0
    with _selected(path) as cursor:
        while rows := cursor.fetchmany(GROUP_ROWS):
            yield [(f"row {at + i}", list(map(_text, row))) for i, row in enumerate(rows, start=1)]
            at += len(rows)


def _text(value: Any) -> bytes:
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    return str(int(value) if isinstance(value, bool) else value).encode(errors="surrogatepass")
