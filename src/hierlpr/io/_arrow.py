"""Arrow at the edge: Parquet and delimited text to columns, with errors a user can act on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hierlpr.exceptions import FileError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["parquet_table", "text_column"]


def parquet_table(
    path: str | os.PathLike[str], raw: bytes | None = None, columns: list[str] | None = None
) -> pa.Table:
    """Read a whole Parquet file (or a folder of them)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        source = os.fspath(path) if raw is None else pa.BufferReader(raw)
        return pq.read_table(source, columns=columns)
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file.") from None
    except (pa.ArrowException, OSError, EOFError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise FileError(
            f"{path}: this is no readable Parquet file ({reason[:200]}).\n"
            "Hint: was it cut off while being copied or written?"
        ) from None


def text_column(table: pa.Table, name: str) -> list[str | None]:
    """Return a column as text; numbers become their digits."""
    import pyarrow as pa

    return list(table.column(name).cast(pa.string()).to_pylist())
