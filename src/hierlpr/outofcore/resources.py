"""What a run may use: memory, temporary files, and DuckDB to sort on disk."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hierlpr._kernels._jit import n_jobs_or_default
from hierlpr._utils import AnyPath, require
from hierlpr.exceptions import DataError, FileError, HierlprError
from hierlpr.io.reading import (
    GZIP_MAGIC,
    is_parquet,
    open_bytes,
    open_parquet,
    open_plain,
    reason,
)
from hierlpr.io.table_files import LABEL_NAMES

DEFAULT_MEMORY = "1GB"
SMALLEST_MEMORY = 1 << 26
CHUNK_ROWS = 1 << 18

# Bytes of working memory per instance, measured: to rank a batch, to rank a whole file, to fit, and
# per row of a ranking that is evaluated in memory.
BATCH_BYTES = 200
RANK_BYTES = 140
FIT_BYTES = 80
EVALUATE_BYTES = 100
# Bytes of text per instance of a wide table, and per row of a ranking; rough.
TEXT_INSTANCE_BYTES = 6
TEXT_ROW_BYTES = 20
MOST_UNPACKED = 1 << 34  # more is not counted

OnProgress = Callable[[str, int, int], None]


def _no_progress(stage: str, done: int, total: int) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionOptions:
    """How a run is executed: keyword arguments of every function of `hierlpr.workflows`.

    Attributes
    ----------
    memory : str or int
        Working memory, such as ``"1GB"``, in addition to the interpreter and its libraries (about
        0.3 GB). Larger files are streamed in batches, or a random subset of their samples is drawn.
    work : path, optional
        Directory for temporary files; by default that of the operating system.
    scheduler : str, optional
        Address of a Dask scheduler whose workers process the batches; ``"local"`` starts one
        worker per core on this machine.
    on_progress : callable, optional
        Called with stage, done and total.
    """

    memory: str | int = DEFAULT_MEMORY
    work: AnyPath | None = None
    scheduler: str | None = None
    on_progress: OnProgress = _no_progress

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", parse_memory(self.memory))
        if self.work is not None and not Path(self.work).is_dir():
            raise FileError(f"{self.work}: this folder for temporary files does not exist.")

    def fits(self, n_bytes: int) -> bool:
        """Whether this many bytes fit into the working memory."""
        return n_bytes <= int(self.memory)

    @property
    def batch_instances(self) -> int:
        """Number of instances per batch."""
        return max(1 << 12, min(int(self.memory) // 4 // BATCH_BYTES, 1 << 22))


def parse_memory(text: str | int) -> int:
    """Return the number of bytes of an amount such as ``"1GB"``, ``"500 MB"`` or ``"2GiB"``.

    >>> parse_memory("1.5GB"), parse_memory("64MiB")
    (1500000000, 67108864)
    """
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", str(text).lower())
    if match is None:
        raise DataError(
            f"{text!r} is not an amount of memory.\nHint: write it as 500MB, 1GB or 2GiB."
        )
    number, unit, binary = match.groups()
    amount = int(float(number) * (1024 if binary else 1000) ** "bkmgt".index(unit or "b"))
    if amount < SMALLEST_MEMORY:
        raise DataError(
            f"{text!r} is too little memory: give at least {SMALLEST_MEMORY // 2**20} MiB."
        )
    return amount


# -- sizes of files ---------------------------------------------------------------------------


def estimate_instances(path: str) -> int:
    """Estimate the number of instances in a file of scores or truth without reading it."""
    if not is_parquet(path):
        return _text_bytes(path) // TEXT_INSTANCE_BYTES
    with open_parquet(path) as opened:
        names = [name.strip().lower() for name in opened.schema_arrow.names]
        is_long = len(names) < 10 and not set(names).isdisjoint(LABEL_NAMES)
        return int(opened.metadata.num_rows * (4 if is_long else len(names) - 1))


def estimate_rows(path: str) -> int:
    """Count the rows of a Parquet ranking, or estimate those of a text file."""
    if is_parquet(path):
        with open_parquet(path) as opened:
            return int(opened.metadata.num_rows)
    return _text_bytes(path) // TEXT_ROW_BYTES


def _text_bytes(path: str) -> int:
    """Size of a text file, unpacked; at most about `MOST_UNPACKED`.

    Compressed text is unpacked to find it, because the size of the file says little.
    """
    with open_bytes(path) as stream:
        is_packed = stream.read(2) == GZIP_MAGIC
        if not is_packed:
            return int(stream.seek(0, os.SEEK_END))
    size = 0
    with open_plain(path) as unpacked:
        while size < MOST_UNPACKED and (block := unpacked.read(1 << 20)):
            size += len(block)
    return size


# -- DuckDB -----------------------------------------------------------------------------------


@contextmanager
def duckdb_connection(folder: Path, memory: int) -> Iterator[Any]:
    """Yield a DuckDB connection that writes to `folder` what does not fit into `memory`."""
    duckdb = _load_duckdb()
    config: dict[str, Any] = {
        "memory_limit": f"{memory * 4 // 5 // 2**20}MiB",
        "temp_directory": str(folder / "spill"),
        "threads": n_jobs_or_default(None),
    }
    connection = duckdb.connect(config=config)
    try:
        connection.execute("SET enable_external_access = false")
        yield connection
    except duckdb.OutOfMemoryException as error:
        raise HierlprError(
            f"The sort needs more space than is available ({reason(error)}).\n"
            f"Hint: give more --memory, or free space on the disk of {folder} (--work)."
        ) from None
    except duckdb.IOException as error:
        raise OSError(None, reason(error), str(folder)) from None
    finally:
        connection.close()


def _load_duckdb() -> Any:
    require("duckdb", extra="scale", what="Sorting what does not fit in memory")
    import duckdb

    return duckdb


def sorted_rows(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, by: str, options: ExecutionOptions
) -> Generator[pa.RecordBatch]:
    """Yield the rows of all batches, sorted by the columns `by`.

    The rows wait in a temporary Arrow file; all batches are consumed before the first row is
    returned.
    """
    with tempfile.TemporaryDirectory(prefix="hierlpr-", dir=options.work) as name:
        _load_duckdb()  # takes a while, during which other threads still process batches
        file = Path(name) / "rows.arrow"
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for batch in batches:
                writer.write_table(pa.Table.from_batches([batch]), max_chunksize=CHUNK_ROWS)
        with (
            pa.OSFile(str(file), "rb") as source,
            duckdb_connection(Path(name), int(options.memory)) as connection,
        ):
            stored = pa.ipc.open_file(source)
            rows = (stored.get_batch(i) for i in range(stored.num_record_batches))
            connection.register("rows", pa.RecordBatchReader.from_batches(schema, rows))
            relation = connection.sql(f"SELECT * FROM rows ORDER BY {by}")
            fetch = getattr(relation, "to_arrow_reader", relation.fetch_arrow_reader)
            yield from fetch(CHUNK_ROWS)


def whole_samples(
    batches: Iterable[pa.RecordBatch], size: int
) -> Iterator[dict[str, NDArray[Any]]]:
    """Regroup rows, sorted by their column `sample`, into batches that end with a sample."""
    held: list[pa.RecordBatch] = []

    def arrays(table: pa.Table) -> dict[str, NDArray[Any]]:
        return {name: table.column(name).to_numpy() for name in table.column_names}

    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= size:
            table = pa.Table.from_batches(held)
            sample = table.column("sample").to_numpy()
            end = int(np.searchsorted(sample, sample[-1]))
            held = table.slice(end).to_batches()
            if end:
                yield arrays(table.slice(0, end))
    if held:
        yield arrays(pa.Table.from_batches(held))
