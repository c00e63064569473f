"""Rank a file of any size: partitions in, sorted runs, buckets sorted, one ranking out.

    scores -> partitions -> rows in calling order, cut at the buckets -> sort each bucket -> output

Every stage is that of the path in memory; the executor says where the partitions are ranked.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hierlpr._base.files import list_made, put_in_place, writing
from hierlpr.cutoff.choose import Cutoff
from hierlpr.data.listing import check_kind
from hierlpr.io import ReadReport, Watch
from hierlpr.io.opening import is_remote, parquet_files
from hierlpr.io.row_rules import none_left
from hierlpr.scale.budget import DEFAULT_MEMORY, Budget, parse_memory
from hierlpr.scale.finish import Stretch, bucket_stretches, write_bucket, write_file
from hierlpr.scale.inputs import absolute, output, upload
from hierlpr.scale.names import open_names
from hierlpr.scale.output import output_kind, refuse_blanks
from hierlpr.scale.parts import Executor, Here, OnProgress, add_seen, run_parts, say_nothing, seen
from hierlpr.scale.ranked_rows import Packing, Splitters, ranked_rows
from hierlpr.scale.runs import RUN, Job, load_shared, rank_partition
from hierlpr.scale.source import Partition, Source
from hierlpr.scale.spool import open_source
from hierlpr.scale.work import Plan, file_digest, work_folder

__all__ = ["Executor", "Outcome", "rank_file"]

SAMPLED_PIECES = 16
SAMPLED_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did."""

    n_rows: int
    n_calls: int
    n_samples: int
    n_instances: int
    report: ReadReport
    cutoff: Cutoff


def rank_file(
    model: str | os.PathLike[str],
    scores: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    memory: str | int = DEFAULT_MEMORY,
    top: int | None = None,
    calls_only: bool = False,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
    partitions: int | None = None,
    resume: bool = False,
    executor: Executor | None = None,
    dataset: bool | None = None,
    work: str | os.PathLike[str] | None = None,
    n_threads: int | None = None,
    on_progress: OnProgress | None = None,
) -> Outcome:
    """Rank scores that need not fit in memory; the result is that of ``HierLPR.rank``.

    Parameters
    ----------
    model : path
        A model file.
    scores : path
        Wide or long Parquet (a file or a folder), wide or long CSV, CAFA TSV; text may be
        gzipped. Addresses such as ``s3://bucket/scores.parquet`` are read by fsspec.
    out : path
        ``.parquet``, ``.csv`` or ``.tsv``; without an ending, or on a cluster, a folder of
        Parquet files. It appears whole at the end, or stays as it was. A folder that hierlpr did
        not make is not replaced.
    memory : str or int
        Working memory, beside the interpreter and its libraries.
    top : int, optional
        List only the first instances.
    calls_only : bool
        List only what is called; if one level cuts all labels, nothing else is sorted.
    aliases : mapping, optional
        Other names of labels, as `hierlpr.io.load_hierarchy` gives them.
    lenient : bool
        Pass over rows with problems and count them.
    partitions : int, optional
        Number of partitions; by default one for each batch that fits the memory.
    resume : bool
        Continue from the finished partitions of an interrupted run, and keep them if this run
        fails.
    executor : Executor, optional
        Where partitions are ranked and buckets sorted; here by default.
    dataset : bool, optional
        Write a folder of Parquet files.
    work : path, optional
        Where a folder for work files is made; beside the output by default. A cluster must share
        it.
    n_threads : int, optional
        Threads of each task; no result depends on it.
    on_progress : callable, optional
        Called with stage, done and total.

    Returns
    -------
    Outcome
    """
    target, model_path, scores_path = os.fspath(out), os.fspath(model), os.fspath(scores)
    executor = executor or Here()
    on_progress = on_progress or say_nothing
    if dataset is None:
        dataset = executor.is_cluster or not Path(target).suffix
    kind = output_kind(target, dataset=dataset)
    budget = Budget(parse_memory(memory))
    digest = file_digest(model_path)
    fitted = load_shared(model_path, digest, n_threads)
    options = {"top": top, "calls_only": calls_only, "lenient": lenient, "partitions": partitions,
               "aliases": dict(sorted((aliases or {}).items()))}  # fmt: skip
    with (
        output(target, {"the model": model_path, "the scores": scores_path}, work=work,
               is_folder=dataset),
        work_folder(_place(work, target), f"rank {absolute(target)}", resume=resume) as folder,
    ):  # fmt: skip
        inputs = {"model": digest, "scores": parquet_files(scores_path)}
        plan = Plan.open(folder, inputs, options, resume=resume)
        if plan.found is None:
            source, watch = open_source(
                scores_path, fitted.hierarchy_, folder, budget, aliases=aliases, lenient=lenient
            )
        else:
            source = Source.from_dict(plan.found["source"])
            watch = Watch(scores_path, plan.found["format"], lenient=lenient)
            add_seen(watch, plan.found["seen"])
        check_kind(
            fitted.kind_, is_list=source.kind == "long", is_complete=source.is_complete
        )  # fmt: skip
        parts = source.partitions(partitions)
        cutoff = fitted.cutoff_
        job = Job(
            model=model_path,
            model_digest=digest,
            folder=str(folder),
            source=source,
            parts=tuple(parts),
            packing=Packing.of(source.n_samples, fitted.hierarchy_.n_labels),
            splitters=Splitters.none(),
            top=top,
            calls_first=calls_only and cutoff.groups is None and cutoff.max_calls is None,
            engine_memory=budget.engine_memory,
            n_threads=n_threads,
        )
        job = _with_splitters(job, parts, budget, plan.found)
        if plan.found is None:
            plan.write(_found(job, watch))
        records = run_parts(
            executor, rank_partition, job, [part.n_entries for part in parts], folder=folder,
            kind=RUN, stage="ranking", on_progress=on_progress,
        )  # fmt: skip
        for record in records:
            add_seen(watch, record)
        if source.kind == "wide" and not any(record["samples"] for record in records):
            raise none_left(watch)
        names = open_names(folder, source.n_samples)
        if kind == ".tsv":
            refuse_blanks(target, names, fitted.hierarchy_.labels)
        sizes = np.sum([record["sizes"] for record in records], axis=0).tolist()
        stretches = list(bucket_stretches(sizes, top))
        if dataset:
            counts = _write_dataset(job, stretches, target, calls_only, executor,
                                    on_progress)  # fmt: skip
        else:
            counts = _write_file(job, stretches, target, kind, calls_only, on_progress)
        n_rows, n_calls = counts
    n_samples, n_labels = source.n_samples, fitted.hierarchy_.n_labels
    if source.kind == "wide":  # rows with problems are left out
        n_samples = sum(record["samples"] for record in records)
    return Outcome(
        n_rows, n_calls, n_samples, n_samples * n_labels,
        watch.report(samples=n_samples, labels=n_labels), cutoff,
    )  # fmt: skip


def _place(work: str | os.PathLike[str] | None, target: str) -> str | os.PathLike[str] | None:
    """Return where work files lie: beside the output, so that renaming needs no copying."""
    return work if work is not None or is_remote(target) else Path(os.path.realpath(target)).parent


def _found(job: Job, watch: Watch) -> dict[str, Any]:
    return {
        "format": watch.format,
        "seen": seen(watch),
        "source": job.source.to_dict(),
        "splitters": [job.splitters.depth.tolist(), job.splitters.place.tolist()],
    }


def _with_splitters(
    job: Job, parts: list[Partition], budget: Budget, found: dict[str, Any] | None
) -> Job:
    """Choose the buckets from the rows of a few samples all over the file."""
    if found is not None:
        depth, place = (np.array(words, dtype=np.uint64) for words in found["splitters"])
        return replace(job, splitters=Splitters(depth, place))
    n_entries = sum(piece.n_entries for piece in job.source.pieces)
    few = np.unique(np.linspace(0, len(job.source.pieces) - 1, SAMPLED_PIECES).astype(int))
    model = load_shared(job.model, job.model_digest, job.n_threads)
    rows, read = [], 0
    for at in few.tolist():
        piece = job.source.pieces[at]
        most = max(1, SAMPLED_ROWS * piece.n_samples // max(1, piece.n_entries))
        watch = Watch(job.source.path, lenient=True)  # problems are met again, and told, later
        for batch in job.source.batches(Partition(0, (piece,)), model.hierarchy_, watch, most=most):
            rows.append(ranked_rows(model, batch.table, numbers=batch.numbers, packing=job.packing,
                                    calls_only=job.calls_first))  # fmt: skip
            values: Any = batch.table.values
            read += values.size if isinstance(values, np.ndarray) else values.nnz
    n_rows = n_entries * sum(len(part) for part in rows) // max(1, read)
    if job.top is not None:
        n_rows = min(n_rows, job.top * len(parts))
    n_buckets = -(-n_rows // budget.bucket_rows)
    return replace(job, splitters=Splitters.from_sample(rows, n_buckets))


def _write_file(
    job: Job,
    stretches: list[Stretch],
    target: str,
    kind: str,
    calls_only: bool,
    on_progress: OnProgress,
) -> tuple[int, int]:
    """Append the buckets to one file, which appears when it is complete."""
    total = sum(stretch.size for stretch in stretches)
    with _finished(job, target) as part:
        return write_file(
            job, stretches, part, kind, calls_only,
            is_packed=target.lower().endswith(".gz"),
            on_rows=lambda done: on_progress("sorting", done, total),
        )  # fmt: skip


@contextmanager
def _finished(job: Job, target: str) -> Iterator[Path]:
    """Give a place for one file, which is then moved to the target."""
    if is_remote(target):
        part = Path(job.folder) / "out"
        yield part
        upload(part, target)
    else:
        with writing(target) as part:
            yield part


def _write_dataset(
    job: Job,
    stretches: list[Stretch],
    target: str,
    calls_only: bool,
    executor: Executor,
    on_progress: OnProgress,
) -> tuple[int, int]:
    """Sort the buckets wherever the executor does, each into a file of the folder."""
    total = sum(stretch.size for stretch in stretches)
    done = n_rows = n_calls = 0
    folder = Path(job.folder) / "out"
    shutil.rmtree(folder, ignore_errors=True)  # of an interrupted run
    folder.mkdir()
    tasks = ((job, stretch, str(folder), calls_only) for stretch in stretches)
    for size, rows, calls in executor.run(write_bucket, tasks):
        done, n_rows, n_calls = done + size, n_rows + rows, n_calls + calls
        on_progress("sorting", done, total)
    list_made(folder, what="ranking")
    if is_remote(target):
        upload(folder, target)
    else:
        put_in_place(folder, Path(target))
    return n_rows, n_calls
