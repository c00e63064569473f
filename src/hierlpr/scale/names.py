"""Names of samples on disk: written once in order, fetched in any order, never all in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hierlpr.scale.budget import Budget
from hierlpr.scale.engine import engine, stream

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NamesWriter", "has_repeats", "names_table", "open_names", "repeats"]


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
    with engine(folder, budget.engine_memory) as connection:
        connection.register("names", names_table(folder, count))
        distinct = connection.execute("SELECT count(DISTINCT name) FROM names").fetchone()[0]
        return bool(distinct < count)


def repeats(folder: Path, count: int, budget: Budget) -> Iterator[tuple[str, int, int]]:
    """Yield every name that occurred before, with its first place and this one, in order."""
    query = (
        "SELECT name, first, run FROM (SELECT name, run, min(run) OVER (PARTITION BY name) "
        "AS first FROM names) WHERE run > first ORDER BY run"
    )
    with engine(folder, budget.engine_memory) as connection:
        connection.register("names", names_table(folder, count))
        for batch in stream(connection, query, 1 << 16):
            yield from zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True)
