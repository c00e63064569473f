"""How large a file is, without reading it: what decides whether it is held at once."""

from __future__ import annotations

from hierlpr.io.opening import file_size, is_parquet, open_parquet, parquet_files
from hierlpr.io.table_files import names_pairs

__all__ = ["estimate_instances", "estimate_rows"]

# Bytes of a text table for one instance of a wide one, and for a row of a ranking: rules of thumb.
INSTANCE_BYTES = 6
ROW_BYTES = 20


def estimate_instances(path: str) -> int:
    """Guess how many instances a file of scores or truth holds, without reading it."""
    if not is_parquet(path):
        return _text_bytes(path) // INSTANCE_BYTES
    total = 0
    for file in parquet_files(path):
        opened = open_parquet(file)
        names = list(opened.schema_arrow.names)
        total += opened.metadata.num_rows * (4 if names_pairs(names) else len(names) - 1)
        opened.close()
    return total


def estimate_rows(path: str) -> int:
    """Count the rows of a Parquet ranking, or guess those of a text file."""
    if is_parquet(path):
        return sum(open_parquet(file).metadata.num_rows for file in parquet_files(path))
    return _text_bytes(path) // ROW_BYTES


def _text_bytes(path: str) -> int:
    """Size of a text file, about four times as much if it is gzipped."""
    size, is_packed = file_size(path)
    return size * (4 if is_packed else 1)
