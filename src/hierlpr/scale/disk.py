"""What a run keeps on disk: names of samples, and rows that DuckDB sorts within the budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hierlpr._base.lazy import require
from hierlpr._kernels._threads import n_threads_or_default
from hierlpr.exceptions import HierlprError
from hierlpr.io.opening import reason
from hierlpr.scale.budget import Budget

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "NamesWriter",
    "engine",
    "has_repeats",
    "names_table",
    "open_names",
    "parquet_rows",
    "repeats",
    "stream",
]


@contextmanager
def engine(folder: Path, budget: Budget) -> Iterator[Any]:
    """Give a DuckDB connection that spills to `folder` when it would need more than the budget."""
    require("duckdb", extra="scale", what="Sorting what does not fit in memory")
    import duckdb

    config: dict[str, Any] = {
        "memory_limit": f"{budget.engine_memory // 2**20}MiB",
        "temp_directory": str(folder / "spill"),
        "preserve_insertion_order": True,
        "threads": n_threads_or_default(None),
    }
    connection = duckdb.connect(config=config)
    try:
        yield connection
    except duckdb.OutOfMemoryException as error:
        raise HierlprError(
            f"The sort needs more room than there is ({reason(error)}).\n"
            f"Hint: give more --memory, or free space on the disk that holds {folder}."
        ) from None
    except duckdb.IOException as error:
        raise OSError(None, reason(error), str(folder)) from None
    finally:
        connection.close()


def stream(connection: Any, query: str, n_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the result of a query in batches, never all of it."""
    relation = connection.sql(query)
    if hasattr(relation, "to_arrow_reader"):
        reader = relation.to_arrow_reader(n_rows)
    else:
        reader = relation.fetch_arrow_reader(n_rows)
    yield from reader


def parquet_rows(*files: Path) -> pa.RecordBatchReader:
    """Rows of Parquet files for the engine, which would take a star in a name for a pattern."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            with pq.ParquetFile(file) as opened:
                yield from opened.iter_batches(1 << 18)

    return pa.RecordBatchReader.from_batches(pq.read_schema(files[0]), batches())


# -- names ------------------------------------------------------------------------------------


class NamesWriter:
    """Append names; two plain files hold their bytes and where each name begins."""

    def __init__(self, folder: Path) -> None:
        self._bytes = (folder / "names.bytes").open("wb")
        self._starts = (folder / "names.starts").open("wb")
        self._end = 0
        self.count = 0
        self._starts.write(np.zeros(1, np.int64).tobytes())

    def add(self, names: pa.Array) -> None:
        """Append a text column without nulls."""
        import pyarrow as pa

        names = names.cast(pa.large_string())
        _, starts_buffer, data = names.buffers()
        starts = np.frombuffer(starts_buffer, np.int64)[
            names.offset : names.offset + len(names) + 1
        ]
        if data is not None:
            self._bytes.write(memoryview(data)[int(starts[0]) : int(starts[-1])])
        self._starts.write((starts[1:] - starts[0] + self._end).tobytes())
        self._end += int(starts[-1] - starts[0])
        self.count += len(names)

    def close(self) -> None:
        """Finish both files."""
        self._bytes.close()
        self._starts.close()


def open_names(folder: Path, count: int) -> Any:
    """Return the names as one Arrow array over mapped files: only what is used is read."""
    import pyarrow as pa

    starts = pa.memory_map(str(folder / "names.starts")).read_buffer()
    path = folder / "names.bytes"
    data = pa.memory_map(str(path)).read_buffer() if path.stat().st_size else pa.py_buffer(b"")
    return pa.LargeStringArray.from_buffers(count, starts, data)


def names_table(folder: Path, count: int) -> pa.Table:
    """Return the names with their numbers, as columns `name` and `run`."""
    import pyarrow as pa

    kind = np.int32 if count < 2**31 else np.int64
    return pa.table({"name": open_names(folder, count), "run": np.arange(count, dtype=kind)})


def has_repeats(folder: Path, count: int, budget: Budget) -> bool:
    """Whether any name occurs twice."""
    with engine(folder, budget) as connection:
        connection.register("names", names_table(folder, count))
        distinct = connection.execute("SELECT count(DISTINCT name) FROM names").fetchone()[0]
        return bool(distinct < count)


def repeats(folder: Path, count: int, budget: Budget) -> Iterator[tuple[str, int, int]]:
    """Yield every name that occurred before, with its first place and this one, in order."""
    query = (
        "SELECT name, first, run FROM (SELECT name, run, min(run) OVER (PARTITION BY name) "
        "AS first FROM names) WHERE run > first ORDER BY run"
    )
    with engine(folder, budget) as connection:
        connection.register("names", names_table(folder, count))
        for batch in stream(connection, query, 1 << 16):
            yield from zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True)
