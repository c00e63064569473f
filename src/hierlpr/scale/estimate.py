"""How large a file is, without reading it: what decides whether it is held at once."""

from __future__ import annotations

import os

from hierlpr.io._files import GZIP_MAGIC, ending
from hierlpr.io._layout import _long_columns
from hierlpr.scale.files import is_parquet, open_bytes, open_parquet, parquet_files

__all__ = ["estimate_instances", "estimate_rows"]

# Bytes of a text table for one instance of a wide one, and for a row of a ranking: rules of thumb.
INSTANCE_BYTES = 6
ROW_BYTES = 20


def estimate_instances(path: str) -> int:
    """Guess how many instances a file of scores or truth holds, without reading it."""
    if ending(path) == ".arff":
        return 0  # read whole in any case
    if is_parquet(path):
        total = 0
        for file in parquet_files(path):
            opened = open_parquet(file)
            names = list(opened.schema_arrow.names)
            is_long = _long_columns(names, "scores") is not None
            total += opened.metadata.num_rows * (4 if is_long else len(names) - 1)
            opened.close()
        return total
    return _text_bytes(path) // INSTANCE_BYTES


def estimate_rows(path: str) -> int:
    """Count the rows of a Parquet ranking, or guess those of a text file."""
    if is_parquet(path):
        return sum(open_parquet(file).metadata.num_rows for file in parquet_files(path))
    return _text_bytes(path) // ROW_BYTES


def _text_bytes(path: str) -> int:
    """Size of a text file, about four times as much if it is gzipped."""
    with open_bytes(path) as stream:
        is_packed = stream.read(2) == GZIP_MAGIC
        size = int(stream.seek(0, os.SEEK_END))
    return size * (4 if is_packed else 1)
