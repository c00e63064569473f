"""What a run may use: memory, temporary files, and DuckDB to sort on disk."""

from __future__ import annotations

import errno
import math
import os
import re
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hierlpr._kernels._jit import n_jobs_or_default
from hierlpr._utils import AnyPath, require
from hierlpr.exceptions import DataError, FileError, ResourceError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.read_tables import MissingTruth, ReadTable, read_truth
from hierlpr.io.reading import (
    BLOCK,
    MAX_LINE,
    is_parquet,
    open_parquet,
    open_plain,
    reason,
)
from hierlpr.io.table_files import TableFile, TableOptions

SMALLEST_MEMORY = 1 << 26
CHUNK_ROWS = 1 << 18

# Bytes of working memory per instance, measured: to rank a batch, to rank a whole file, to fit, and
# per row of a ranking that is evaluated in memory. The name of a sample takes more than its text.
BATCH_BYTES = 200
RANK_BYTES = 140
FIT_BYTES = 80
EVALUATE_BYTES = 100
NAME_BYTES = 160
GROWTH = 4  # instances per score of a long table: its ancestors get a score too
SORT_SHARE = 0.5  # of the working memory, that DuckDB may use
SORT_UNIT = 1 << 24  # it sorts n bytes within sqrt(n * SORT_UNIT), measured, with a margin
NAMES_SHARE = 0.6  # of the working memory, that names of samples may take

OnProgress = Callable[[str, int, int], None]


def _no_progress(stage: str, done: int, total: int) -> None:
    """Show nothing."""


class RunKeywords(TableOptions, total=False):
    """Keyword arguments of the functions of `hierlpr.workflows`; all are optional.

    Those of :class:`hierlpr.io.TableOptions` say how tables are read; the others are:

    missing_truth : {"negative", "skip"}
        What to do with samples without truth; see :func:`hierlpr.io.pair_samples`.
    propagate_truth : bool
        Add the missing ancestors of true labels.
    memory : str or int
        Working memory, such as ``"1GB"``, in addition to the interpreter and its libraries (about
        0.3 GB). Larger files are streamed in batches, or a random subset of their samples is drawn.
    work : path
        Directory for temporary files; by default that of the operating system.
    scheduler : str
        Address of a Dask scheduler whose workers process the batches of `rank_file` and
        `sets_file`; ``"local"`` starts one worker per core on this machine.
    on_progress : callable
        Called with stage, done and total.
    """

    missing_truth: MissingTruth | None
    propagate_truth: bool
    memory: str | int
    work: AnyPath | None
    scheduler: str | None
    on_progress: OnProgress


class RunOptions:
    """The `RunKeywords` of a run with their defaults, and the hierarchy of its tables."""

    def __init__(
        self,
        hierarchy: Hierarchy,
        *,
        missing_truth: MissingTruth | None = None,
        propagate_truth: bool = False,
        memory: str | int = "1GB",
        work: AnyPath | None = None,
        scheduler: str | None = None,
        on_progress: OnProgress = _no_progress,
        **table: Unpack[TableOptions],
    ) -> None:
        self.hierarchy, self.table, self.scheduler = hierarchy, table, scheduler
        self.missing_truth, self.propagate_truth = missing_truth, propagate_truth
        self.memory, self.work, self.on_progress = parse_memory(memory), work, on_progress
        if work is not None and not Path(work).is_dir():
            raise FileError(f"{work}: this folder for temporary files does not exist.")

    def truth(self, path: AnyPath, samples: pa.Array | None = None) -> ReadTable:
        """Read a table of truth, of all samples or of those in an array of names."""
        more: Any = {"propagate_truth": self.propagate_truth, "only": samples}
        return read_truth(path, self.hierarchy, **more, **self.table)

    def fits(self, n_bytes: int) -> bool:
        """Return whether this many bytes fit into the working memory."""
        return n_bytes <= self.memory

    def require_memory(self, n_bytes: int, what: str) -> None:
        """Raise if `what` takes more than its share of the working memory."""
        if n_bytes > NAMES_SHARE * self.memory:
            least = math.ceil(n_bytes / NAMES_SHARE / 1e8) / 10
            raise ResourceError(
                f"{self.memory / 1e9:.2g} GB of working memory are too little for {what}: at "
                f"least {least:.1f} GB are needed.",
                options=("memory",),
            )

    @property
    def batch_instances(self) -> int:
        """Number of instances per batch."""
        return max(1 << 12, min(self.memory // 4 // BATCH_BYTES, 1 << 22))


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


def needed_memory(file: TableFile, n_bytes: int) -> tuple[int, int]:
    """Estimate how many scores a table lists, and the memory for them with `n_bytes` each."""
    n_rows = estimate_rows(file.log.path) if file.n_rows is None else file.n_rows
    if file.layout == "long":
        return n_rows, n_rows * GROWTH * n_bytes
    n_scores = n_rows * len(file.labels)
    return n_scores, n_scores * n_bytes + n_rows * NAME_BYTES


def estimate_rows(path: str) -> int:
    """Count the rows of a Parquet file, or estimate those of a text file from its first ones."""
    if is_parquet(path):
        with open_parquet(path) as opened:
            return int(opened.metadata.num_rows)
    with open_plain(path) as stream:
        header = len(stream.readline(MAX_LINE))
        block = bytes(stream.read(BLOCK))
        n_bytes = stream.seek(0, os.SEEK_END)  # unpacks gzip: the size of the file says little
    return int(n_bytes - header) * max(1, block.count(b"\n")) // max(1, len(block))


# -- temporary files, and DuckDB --------------------------------------------------------------


@contextmanager
def work_folder(options: RunOptions) -> Iterator[Path]:
    """Yield a private folder for temporary files; a full disk is reported with its name."""
    parent = tempfile.gettempdir() if options.work is None else options.work
    try:
        with tempfile.TemporaryDirectory(prefix="hierlpr-", dir=parent) as name:
            yield Path(name)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS):
            raise
        raise ResourceError(
            f"{parent}: this folder for temporary files is full or not writable ({reason(error)}).",
            options=("work", "memory"),
        ) from None


@contextmanager
def duckdb_connection(folder: Path, memory: int) -> Iterator[Any]:
    """Yield a DuckDB connection that writes to `folder` what does not fit into `memory`."""
    duckdb = _load_duckdb()
    config: dict[str, Any] = {
        "memory_limit": f"{memory // 2**20}MiB",
        "temp_directory": str(folder / "spill"),
        "threads": n_jobs_or_default(None),
    }
    connection = duckdb.connect(config=config)
    try:
        connection.execute("SET enable_external_access = false")
        yield connection
    except (duckdb.Error, OSError, pa.ArrowException) as error:
        # Batches that Arrow reads from DuckDB raise errors of Arrow, with the text of DuckDB.
        is_full = isinstance(error, duckdb.OutOfMemoryException | duckdb.IOException)
        if not is_full and "Out of Memory Error" not in str(error):
            raise
        raise ResourceError(
            f"{folder.parent}: the sort needs more memory, or more space in this folder for "
            f"temporary files ({reason(error)}).",
            options=("work", "memory"),
        ) from None
    finally:
        connection.close()


def _load_duckdb() -> Any:
    require("duckdb", extra="scale", what="Sorting what does not fit in memory")
    import duckdb

    return duckdb


def sorted_rows(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    by: str,
    options: RunOptions,
    names_size: Callable[[], int] = lambda: 0,
) -> Generator[pa.RecordBatch]:
    """Yield the rows of all batches, sorted by the columns `by`.

    The rows wait in a temporary Arrow file; all batches are consumed before the first row is
    returned. `names_size` returns how many bytes names take by then.
    """
    with work_folder(options) as folder:
        _load_duckdb()  # takes a while, during which other threads still process batches
        file = folder / "rows.arrow"
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for batch in batches:
                writer.write_table(pa.Table.from_batches([batch]), max_chunksize=CHUNK_ROWS)
        pa.default_memory_pool().release_unused()
        # Names leave less for the sort, but never less than it needs.
        most, least = options.memory, math.sqrt(SORT_UNIT * file.stat().st_size)
        memory = int(min(SORT_SHARE * most, max(least, SORT_SHARE * (most - names_size()))))
        with pa.OSFile(str(file), "rb") as source, duckdb_connection(folder, memory) as connection:
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
    parts: list[pa.RecordBatch] = []

    def arrays(table: pa.Table) -> dict[str, NDArray[Any]]:
        return {name: table.column(name).to_numpy() for name in table.column_names}

    for batch in batches:
        parts.append(batch)
        if sum(map(len, parts)) >= size:
            table = pa.Table.from_batches(parts)
            sample = table.column("sample").to_numpy()
            end = int(np.searchsorted(sample, sample[-1]))
            parts = table.slice(end).to_batches()
            if end:
                yield arrays(table.slice(0, end))
    if parts:
        yield arrays(pa.Table.from_batches(parts))
