"""What a run may use: memory, and a disk on which DuckDB sorts what memory does not hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hierlpr._base import require
from hierlpr._kernels._threads import n_threads_or_default
from hierlpr.exceptions import DataError, HierlprError
from hierlpr.io.opening import file_size, is_parquet, open_parquet, parquet_files, reason
from hierlpr.io.table_files import names_pairs
from hierlpr.io.table_output import arrow_numbers

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_MEMORY = "1GB"
SMALLEST = 1 << 26
_UNITS = "bkmgt"

# Bytes of working memory for one instance, measured: from the scores of a batch to its ranked
# rows; in the path that holds everything at once; and there while fitting.
BATCH_BYTES = 200
WHOLE_BYTES = 140
FIT_BYTES = 80
# In a report, which holds scores and truth alone: of a wide Parquet file of scores, which is read
# column by column, and of Parquet truth; and for a true instance of a report of whatever size.
REPORT_BYTES = 10
REPORT_TRUE_BYTES = 200
# And for evaluating: a row while its part is measured; a row, and an instance of the truth, in the
# path that holds everything at once.
EVALUATED_BYTES = 150
LISTED_BYTES = 250
TRUTH_BYTES = 40
# Bytes of a text table for one instance of a wide one, and for a row of a ranking: rules of thumb.
TEXT_INSTANCE_BYTES = 6
TEXT_ROW_BYTES = 20


@dataclass(frozen=True, slots=True)
class Budget:
    """Working memory in bytes, beside the interpreter and its libraries (about 0.3 GB)."""

    memory: int

    @classmethod
    def of(cls, text: str | int) -> Budget:
        """Read an amount such as ``"1GB"``, ``"500 MB"`` or ``"2GiB"``.

        >>> Budget.of("1.5GB").memory, Budget.of("64MiB").memory
        (1500000000, 67108864)
        """
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", str(text).lower())
        if match is None:
            raise DataError(
                f"{text!r} is no amount of memory.\nHint: write it as 500MB, 1GB or 2GiB."
            )
        number, unit, binary = match.groups()
        factor = (1024 if binary else 1000) ** _UNITS.index(unit or "b")
        amount = int(float(number) * factor)
        if amount < SMALLEST:
            raise DataError(
                f"{text!r} is too little memory: give at least {SMALLEST // 2**20} MiB."
            )
        return cls(amount)

    @property
    def batch_instances(self) -> int:
        """Instances ranked at once."""
        return max(1 << 12, min(self.memory // 2 // BATCH_BYTES, 1 << 22))

    @property
    def engine_memory(self) -> int:
        """What the sorting engine may hold before it spills."""
        return self.memory * 4 // 5

    @property
    def evaluated_rows(self) -> int:
        """Rows of a ranking that are measured at once."""
        return max(1 << 12, self.memory // 2 // EVALUATED_BYTES)

    @property
    def listed_rows(self) -> int:
        """Rows of a ranking that are read at once."""
        return max(1 << 12, min(1 << 20, self.memory // 4 // LISTED_BYTES))

    def holds_evaluation(self, n_rows: int, n_true: int) -> bool:
        """Whether an evaluation that holds everything at once stays within the budget."""
        return n_rows * LISTED_BYTES + n_true * TRUTH_BYTES <= self.memory

    def holds_fit(self, n_instances: int) -> bool:
        """Whether a fit that holds everything at once stays within the budget."""
        return n_instances * FIT_BYTES <= self.memory

    def holds_report(self, files: Sequence[str]) -> bool:
        """Whether a report that holds the scores, and the truth if it is given, stays within it."""
        scores, *truth = files
        n_instances, is_wide = _extent(scores)
        needed = n_instances * (REPORT_BYTES if is_wide else FIT_BYTES)
        for file in truth:
            each = REPORT_BYTES if is_parquet(file) else FIT_BYTES
            needed += estimate_instances(file) * each
        return needed <= self.memory

    @property
    def report_positives(self) -> int:
        """True instances that a report may be about, if their scores are not held."""
        return self.memory // 2 // REPORT_TRUE_BYTES

    def holds(self, n_instances: int) -> bool:
        """Whether the path that holds everything at once stays within the budget."""
        return n_instances * WHOLE_BYTES <= self.memory


def estimate_instances(path: str) -> int:
    """Guess how many instances a file of scores or truth holds, without reading it."""
    return _extent(path)[0]


def _extent(path: str) -> tuple[int, bool]:
    """Guess the instances of a file, and tell whether it is Parquet, and wide."""
    if not is_parquet(path):
        return _text_bytes(path) // TEXT_INSTANCE_BYTES, False
    total, are_wide = 0, True
    for file in parquet_files(path):
        with open_parquet(file) as opened:
            names = list(opened.schema_arrow.names)
            is_long = names_pairs(names)
            total += opened.metadata.num_rows * (4 if is_long else len(names) - 1)
            are_wide &= not is_long
    return total, are_wide


def estimate_rows(path: str) -> int:
    """Count the rows of a Parquet ranking, or guess those of a text file."""
    if is_parquet(path):
        return sum(open_parquet(file).metadata.num_rows for file in parquet_files(path))
    return _text_bytes(path) // TEXT_ROW_BYTES


def _text_bytes(path: str) -> int:
    """Size of a text file, about four times as much if it is gzipped."""
    size, is_packed = file_size(path)
    return size * (4 if is_packed else 1)


# -- on disk ----------------------------------------------------------------------------------


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
        """Append a text column; a missing name is empty."""
        import pyarrow as pa

        names = names.cast(pa.large_string())
        if names.null_count:  # to ask for it loads pandas, which takes longer than most names
            names = names.fill_null("")
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
    numbers = arrow_numbers(np.arange(count, dtype=kind))
    return pa.table({"name": open_names(folder, count), "run": numbers})


def repeats(folder: Path, count: int, budget: Budget) -> Iterator[tuple[str, int, int]]:
    """Yield every name that occurred before, with its first place and this one, in order."""
    query = (
        "SELECT name, first, run FROM names JOIN (SELECT name, min(run) AS first FROM names "
        "GROUP BY name HAVING count(*) > 1) USING (name) WHERE run > first ORDER BY run"
    )
    with engine(folder, budget) as connection:
        connection.register("names", names_table(folder, count))
        for batch in stream(connection, query, 1 << 16):
            yield from zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True)
