"""One partition ranked: a file of sorted rows, cut at the buckets, and a record that it is done.

Both appear by renaming, the record last, so that a partition is either finished or was never
there. The function is the same on one machine and on a cluster, and may be repeated at will.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hierlpr._base.files import work_file, work_subfolder
from hierlpr.io._watch import Problem, Watch
from hierlpr.scale.engine import engine, stream
from hierlpr.scale.rows import Packing, Rows, Splitters, ranked_rows, row_schema
from hierlpr.scale.source import Partition, Source

if TYPE_CHECKING:
    import pyarrow as pa

    from hierlpr.model import ScoreModel

__all__ = ["Job", "bucket_rows", "finished_run", "load_shared", "rank_partition", "sorted_bucket"]

CHUNK_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class Job:
    """All that ranking a partition needs, wherever it happens."""

    model: str
    model_digest: str
    folder: str
    source: Source
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


def run_paths(folder: str, number: int) -> tuple[Path, Path]:
    """Files of rows and record of a partition."""
    stem = Path(folder) / f"run-{number:06d}"
    return stem.with_suffix(".arrow"), stem.with_suffix(".json")


def finished_run(folder: str, number: int) -> dict[str, Any] | None:
    """Return the record of a finished partition, None if it is not finished."""
    file, record = run_paths(folder, number)
    try:
        found: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
        return found if file.stat().st_size == found["bytes"] else None
    except (FileNotFoundError, json.JSONDecodeError, KeyError):
        return None


def rank_partition(job: Job, partition: Partition) -> dict[str, Any]:
    """Rank the samples of a partition and write their rows; returns the record."""
    import pyarrow as pa

    model = load_shared(job.model, job.model_digest, job.n_threads)
    watch = Watch(job.source.path, lenient=job.source.lenient)
    file, record_file = run_paths(job.folder, partition.number)
    buckets: list[list[int]] = [[] for _ in range(job.splitters.n_buckets)]
    sizes = [0] * job.splitters.n_buckets
    n_calls = n_batches = n_samples = 0
    with (
        work_file(file) as part,
        pa.OSFile(str(part), "wb") as sink,
        pa.ipc.new_file(sink, row_schema()) as writer,
    ):
        for batch in job.source.batches(partition, model.hierarchy_, watch):
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
    record = {
        "bytes": file.stat().st_size,
        "entries": partition.n_entries,
        "calls": n_calls,
        "samples": n_samples,
        "sizes": sizes,
        "buckets": buckets,
        "counts": dict(watch.counts),
        "problems": [[problem.text, problem.line] for problem in watch.problems],
        "n_problems": watch.n_problems,
    }
    with work_file(record_file) as part:
        part.write_text(json.dumps(record), encoding="utf-8")
    return record


def _stretches(rows: Rows, splitters: Splitters) -> Iterator[tuple[int, int, int]]:
    """Bucket, start and stop of stretches of rows, none of them large."""
    bounds = splitters.bounds(rows)
    for bucket, (low, high) in enumerate(pairwise(bounds)):
        for start in range(low, high, CHUNK_ROWS):
            yield bucket, start, min(start + CHUNK_ROWS, high)


def add_record(watch: Watch, record: dict[str, Any]) -> None:
    """Add what was seen in a partition to the report of the whole."""
    watch.counts.update(Counter(record["counts"]))
    watch.n_problems += record["n_problems"]
    room = 20 - len(watch.problems)
    watch.problems += [Problem(text, line) for text, line in record["problems"][:room]]


def bucket_rows(
    folder: str, records: list[dict[str, Any]], bucket: int
) -> Iterator[pa.RecordBatch]:
    """Read the rows of one bucket from the runs of all partitions."""
    import pyarrow as pa

    for number, record in enumerate(records):
        chosen = record["buckets"][bucket]
        if chosen:
            with pa.OSFile(str(run_paths(folder, number)[0]), "rb") as file:
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
