"""One partition ranked: a file of rows in calling order, cut at the buckets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hierlpr._base.files import work_subfolder
from hierlpr.io import Watch
from hierlpr.scale.engine import engine, stream
from hierlpr.scale.parts import keep, part_file, seen
from hierlpr.scale.ranked_rows import Packing, Rows, Splitters, ranked_rows, row_schema
from hierlpr.scale.source import Partition, Source

if TYPE_CHECKING:
    import pyarrow as pa

    from hierlpr.model import ScoreModel

__all__ = ["RUN", "Job", "bucket_rows", "load_shared", "rank_partition", "sorted_bucket"]

CHUNK_ROWS = 1 << 18
RUN = "run"  # kind of the parts


@dataclass(frozen=True, slots=True)
class Job:
    """All that ranking a partition needs, wherever it happens."""

    model: str
    model_digest: str
    folder: str
    source: Source
    parts: tuple[Partition, ...]
    packing: Packing
    splitters: Splitters
    top: int | None
    calls_first: bool  # keep only the calls, which are the first rows of each batch
    engine_memory: int
    n_threads: int | None = None


@lru_cache(maxsize=2)
def load_shared(path: str, digest: str, n_threads: int | None) -> ScoreModel:
    """Load a model once in each process; `digest` tells apart models that share a path."""
    from hierlpr.model import load_score_model

    model = load_score_model(path)
    model.n_threads = n_threads
    return model


def rank_partition(job: Job, number: int) -> dict[str, Any]:
    """Rank the samples of one partition into its file; returns the record of it."""
    return keep(job.folder, RUN, number, lambda part: _rank(job, number, part))


def _rank(job: Job, number: int, part: Path) -> dict[str, Any]:
    import pyarrow as pa

    model = load_shared(job.model, job.model_digest, job.n_threads)
    watch = Watch(job.source.path, lenient=job.source.lenient)
    buckets: list[list[int]] = [[] for _ in range(job.splitters.n_buckets)]
    sizes = [0] * job.splitters.n_buckets
    n_calls = n_batches = n_samples = 0
    with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, row_schema()) as writer:
        for batch in job.source.batches(job.parts[number], model.hierarchy_, watch):
            rows = ranked_rows(
                model, batch.table, numbers=batch.numbers, packing=job.packing, top=job.top,
                calls_only=job.calls_first,
            )  # fmt: skip
            n_samples += batch.numbers.size
            n_calls += int(np.count_nonzero(rows.tag & np.uint32(1)))
            for bucket, start, stop in _stretches(rows, job.splitters):
                writer.write_batch(rows.batch(start, stop))
                buckets[bucket].append(n_batches)
                sizes[bucket] += stop - start
                n_batches += 1
    counts = {"calls": n_calls, "samples": n_samples, "sizes": sizes, "buckets": buckets}
    return {**counts, **seen(watch)}


def _stretches(rows: Rows, splitters: Splitters) -> Iterator[tuple[int, int, int]]:
    """Bucket, start and stop of stretches of rows, none of them large."""
    bounds = splitters.bounds(rows)
    for bucket, (low, high) in enumerate(pairwise(bounds)):
        for start in range(low, high, CHUNK_ROWS):
            yield bucket, start, min(start + CHUNK_ROWS, high)


def bucket_rows(
    folder: str, records: list[dict[str, Any]], bucket: int
) -> Iterator[pa.RecordBatch]:
    """Read the rows of one bucket from the runs of all partitions."""
    import pyarrow as pa

    for number, record in enumerate(records):
        chosen = record["buckets"][bucket]
        if chosen:
            with pa.OSFile(str(part_file(folder, RUN, number)), "rb") as file:
                reader = pa.ipc.open_file(file)
                for index in chosen:
                    yield reader.get_batch(index)


def sorted_bucket(job: Job, records: list[dict[str, Any]], bucket: int) -> Iterator[pa.RecordBatch]:
    """Rows of one bucket in calling order: the engine's sort of two integers."""
    import pyarrow as pa

    rows = bucket_rows(job.folder, records, bucket)
    with (
        work_subfolder(Path(job.folder)) as scratch,
        engine(scratch, job.engine_memory, n_threads=job.n_threads) as connection,
    ):
        reader = pa.RecordBatchReader.from_batches(row_schema(), rows)
        connection.register("bucket", reader)
        yield from stream(connection, "SELECT * FROM bucket ORDER BY depth, place", CHUNK_ROWS)
