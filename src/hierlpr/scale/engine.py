"""DuckDB, set up to stay within the budget: the one place that imports it for scale."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hierlpr._base.lazy import require
from hierlpr.exceptions import HierlprError
from hierlpr.io.opening import reason

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["engine", "stream"]


@contextmanager
def engine(folder: Path, memory: int, *, n_threads: int | None = None) -> Iterator[Any]:
    """Give a connection that spills to `folder` when it would need more than `memory` bytes."""
    require("duckdb", extra="scale", what="Sorting what does not fit in memory")
    import duckdb

    spill = folder / "spill"
    config: dict[str, Any] = {
        "memory_limit": f"{memory // 2**20}MiB",
        "temp_directory": str(spill),
        "preserve_insertion_order": True,
    }
    if n_threads is not None:
        config["threads"] = n_threads
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
