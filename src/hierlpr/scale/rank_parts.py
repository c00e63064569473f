"""Rank a file of any size: partitions in, each ranked to rows that sort, one sort, one ranking out.

A row has 28 bytes: two words that hold the whole order (`hierlpr._kernels.keys`), the label with
its call in the lowest bit, and the LPR. The block score is read back out of the first word. So a
plain sort of integers reproduces the order of :func:`hierlpr.rank` for any split of the samples.

The sort is one ``ORDER BY`` of DuckDB over the rows of all partitions, which spills to the work
folder. Buckets by splitters, each sorted on its own, were no faster: beside DuckDB's own sort and
Parquet file of the same rows, all of `rank_file` took .74 to .86 of the CPU time with one sort and
.74 to .78 with buckets (10^7 rows, 1 GB of memory), .64 with either (10^7 in 128 MB), .50 and .51
(10^8 in 1 GB).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_choice
from hierlpr._base.files import (
    MADE,
    list_made,
    put_in_place,
    refuse_foreign_folder,
    work_subfolder,
    writing,
)
from hierlpr._base.own_folders import claimed
from hierlpr._kernels.keys import pack_rows, unpack_samples
from hierlpr.cutoff.decisions import decide
from hierlpr.data.listing import check_kind
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError, FileError
from hierlpr.io import ReadReport
from hierlpr.io.opening import ending, filesystem_of, is_remote
from hierlpr.io.rankings import RankingWriter
from hierlpr.io.table_output import ENDINGS, refuse_blanks
from hierlpr.scale.budget import engine, open_names, stream
from hierlpr.scale.parts import Parts, Record, fingerprint, part_file
from hierlpr.scale.source import Batch, Reading, over_partitions
from hierlpr.scale.spool import planned_source

if TYPE_CHECKING:
    import pyarrow as pa

    from hierlpr.hierarchy import Hierarchy
    from hierlpr.model import ScoreModel
    from hierlpr.ranking.order import Ranking

__all__ = [
    "Packing",
    "calls_along",
    "captions_of",
    "claimed_output",
    "output_kind",
    "rank_in_parts",
    "ranked_rows",
    "unpacked",
]

RUN = "run"  # kind of the parts
CHUNK_ROWS = 1 << 18


# -- rows -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Packing:
    """Bits of sample and place in the second word, for all samples of a run."""

    sample_bits: int
    place_bits: int

    @classmethod
    def of(cls, n_samples: int, n_labels: int) -> Packing:
        """Fit the words to the numbers of samples and labels."""
        label_bits = max(1, (n_labels - 1).bit_length())
        sample_bits = max(1, (n_samples - 1).bit_length())
        if 2 * label_bits + sample_bits > 64:
            raise DataError(
                f"{n_samples:,} samples of {n_labels:,} labels are too many for one ranking: at "
                f"most {1 << (64 - 2 * label_bits):,} samples.\nHint: rank them in parts."
            )
        return cls(sample_bits, label_bits)


def row_schema() -> pa.Schema:
    """Columns of a row."""
    import pyarrow as pa

    return pa.schema(
        [("depth", pa.uint64()), ("place", pa.uint64()), ("tag", pa.uint32()),
         ("lpr", pa.float64())]
    )  # fmt: skip


def calls_along(order: Ranking, model: ScoreModel, table: Table) -> NDArray[np.bool_]:
    """Whether each listed instance is called."""
    cutoff = model.cutoff_
    if cutoff.groups is None and cutoff.max_calls is None:
        return np.asarray(order.score >= cutoff.level)
    calls: Any = decide(model.predict_proba(table), cutoff, model.hierarchy_)
    return np.asarray(calls[order.sample, order.label], dtype=bool).ravel()


def ranked_rows(
    model: ScoreModel,
    table: Table,
    *,
    numbers: NDArray[np.int64],
    packing: Packing,
    top: int | None = None,
    calls_only: bool = False,
) -> pa.RecordBatch:
    """Rank one batch of samples: scores -> LPR -> blocks -> rows in calling order.

    The stages are those of the path in memory; `numbers` are those of the samples in the whole,
    rising. `calls_only` needs a cutoff that is one level for all, so that calls come first.
    """
    import pyarrow as pa

    order = model.rank(table, top=top)
    score = order.score
    call = calls_along(order, model, table)
    n = int(np.count_nonzero(call)) if calls_only else len(order)
    depth, place = np.empty(n, np.uint64), np.empty(n, np.uint64)
    first_sample = int(numbers[0]) if numbers.size else 0
    sample = order.sample[:n]
    if numbers.size and int(numbers[-1]) - first_sample + 1 != numbers.size:
        sample, first_sample = numbers[sample], 0  # some samples were left out
    pack_rows(
        sample, order.label[:n].astype(sample.dtype, copy=False), order.first[:n],
        np.ascontiguousarray(score[:n]).view(np.uint64),
        model.hierarchy_.position.astype(np.int32), first_sample, packing.sample_bits,
        packing.place_bits, depth, place,
    )  # fmt: skip
    tag = (order.label[:n].astype(np.uint32) << np.uint32(1)) | call[:n]
    columns = [pa.array(column) for column in (depth, place, tag, order.lpr[:n])]
    return pa.RecordBatch.from_arrays(columns, schema=row_schema())


def unpacked(batch: pa.RecordBatch, packing: Packing) -> dict[str, NDArray[Any]]:
    """Columns sample, label (numbers), lpr, score and call of sorted rows."""
    depth, place, tag, lpr = (batch.column(i).to_numpy(zero_copy_only=False) for i in range(4))
    sample = np.empty(place.size, dtype=np.int64)
    unpack_samples(place, packing.sample_bits, packing.place_bits, sample)
    return {
        "sample": sample,
        "label": (tag >> np.uint32(1)).astype(np.int32),
        "lpr": lpr,
        "score": np.invert(depth).view(np.float64),
        "call": (tag & np.uint32(1)).astype(bool),
    }


# -- partitions -------------------------------------------------------------------------------


class RankJob(NamedTuple):
    """All that ranking a partition needs, wherever it happens."""

    model: str
    digest: str
    is_list: bool
    packing: Packing
    top: int | None
    calls_first: bool  # keep only the calls, which are the first rows of each batch


@lru_cache(maxsize=2)
def _shared_model(path: str, digest: str) -> ScoreModel:
    """Load a model once in each process; `digest` tells apart models that share a path."""
    from hierlpr.model import load_score_model

    return load_score_model(path)


def write_run(job: RankJob, batches: Iterator[Batch], part: Path) -> Record:
    """Rank the samples of one partition into its file."""
    import pyarrow as pa

    model = _shared_model(job.model, job.digest)
    n_rows = n_samples = 0
    with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, row_schema()) as writer:
        for values, numbers in batches:
            table = Table(values, model.hierarchy_.labels, is_list=job.is_list)
            rows = ranked_rows(
                model, table, numbers=numbers, packing=job.packing, top=job.top,
                calls_only=job.calls_first,
            )  # fmt: skip
            writer.write_table(pa.Table.from_batches([rows]), max_chunksize=CHUNK_ROWS)
            n_samples += numbers.size
            n_rows += rows.num_rows
    return {"samples": n_samples, "rows": n_rows}


def _sorted_rows(parts: Parts, n_parts: int) -> Generator[pa.RecordBatch]:
    """Rows of all partitions in calling order: the engine's sort of two integers."""
    import pyarrow as pa

    def rows() -> Iterator[pa.RecordBatch]:
        for number in range(n_parts):
            with pa.OSFile(str(part_file(parts.folder, RUN, number)), "rb") as file:
                reader = pa.ipc.open_file(file)
                yield from (reader.get_batch(i) for i in range(reader.num_record_batches))

    with work_subfolder(parts.folder) as own, engine(own, parts.budget) as connection:
        connection.register("ranked", pa.RecordBatchReader.from_batches(row_schema(), rows()))
        yield from stream(connection, "SELECT * FROM ranked ORDER BY depth, place", CHUNK_ROWS)


def rank_in_parts(
    model_path: str,
    scores: str,
    out: str,
    reading: Reading,
    parts: Parts,
    *,
    model: ScoreModel,
    top: int | None,
    calls_only: bool,
    captions: tuple[str, ...] | None,
    kind: str,
) -> tuple[int, int, int, ReadReport]:
    """Rank scores that need not fit in memory.

    `kind` is the ending that decides the layout, empty for a folder of Parquet files. Returns how
    many rows and calls were written, the samples, and what was seen.
    """
    source, watch = planned_source(
        scores, reading, parts, parts.folder, {"model": model_path}, top=top, calls_only=calls_only
    )
    is_list, cutoff, labels = source.kind == "long", model.cutoff_, model.hierarchy_.labels
    check_kind(model.kind_, is_list=is_list, is_complete=source.is_complete)
    packing = Packing.of(source.n_samples, source.n_labels)
    calls_first = calls_only and cutoff.groups is None and cutoff.max_calls is None
    job = RankJob(model_path, fingerprint(model_path), is_list, packing, top, calls_first)
    records = over_partitions(
        parts, source, watch, write_run, job, folder=parts.folder, kind=RUN, stage="ranking"
    )
    names = open_names(parts.folder, source.n_samples)
    if kind == ".tsv":
        refuse_blanks(out, sample=names, label=labels)
    total = sum(record["rows"] for record in records)
    most, done = total if top is None else min(top, total), 0
    with (
        written(out, kind, parts.folder) as place,
        RankingWriter(
            place, kind, names, labels, is_packed=out.lower().endswith(".gz"), captions=captions
        ) as writer,
        closing(_sorted_rows(parts, len(records))) as rows,
    ):
        while done < most:
            batch = next(rows).slice(0, most - done)
            rows_out = unpacked(batch, packing)
            writer.write(rows_out, keep=rows_out["call"] if calls_only else None)
            done += batch.num_rows
            parts.say("sorting", done, most)
    n_samples = source.n_samples  # of wide tables, rows with problems are left out
    if not is_list:
        n_samples = sum(record["samples"] for record in records)
    report = watch.report(samples=n_samples, labels=source.n_labels)
    return writer.n_rows, writer.n_calls, n_samples, report


# -- the whole output, or none ----------------------------------------------------------------


def output_kind(out: str, *, on_cluster: bool) -> str:
    """Return the ending that decides the layout of a ranking; none means a folder of Parquet."""
    kind = ending(out)
    if kind and not on_cluster:
        return check_choice(kind, ENDINGS, name="the ending of the ranking file")
    if kind not in ("", ".parquet"):
        raise DataError(
            f"{out}: a run on a cluster writes a folder of Parquet files, not {kind}.\n"
            "Hint: give the name of a folder, with or without .parquet."
        )
    return ""


def captions_of(hierarchy: Hierarchy, kind: str, out: str) -> tuple[str, ...]:
    """Return the names for people of all labels, empty for those that have none."""
    if kind == ".tsv":
        raise DataError(
            f"{out}: the CAFA layout has no place for names.\nHint: write .csv or .parquet instead."
        )
    if not hierarchy.names:
        raise DataError(
            "The model has no names of labels.\nHint: fit it with a hierarchy that has them, or "
            "with a table of codes and names (--names)."
        )
    return tuple(hierarchy.names.get(label, "") for label in hierarchy.labels)


@contextmanager
def claimed_output(out: str, *, is_folder: bool = False) -> Iterator[None]:
    """Hold an output for this run alone; refuse what is not hierlpr's to write, before any work."""
    if is_remote(out):
        if is_folder:
            _stored(*filesystem_of(out), out)
        yield
        return
    if is_folder:
        refuse_foreign_folder(Path(out))
    with claimed(out):
        yield


@contextmanager
def written(out: str, kind: str, folder: Path) -> Iterator[Path]:
    """Give a place for a ranking, which appears as `out` when it is complete."""
    part = folder / "out"
    if kind and not is_remote(out):
        with writing(out) as part:
            yield part
        return
    if not kind:
        shutil.rmtree(part, ignore_errors=True)  # of an interrupted run
        part.mkdir()
    yield part
    if not kind:
        list_made(part, what="ranking")
    if is_remote(out):
        _upload(part, out)
    else:
        put_in_place(part, Path(out))


def _upload(part: Path, out: str) -> None:
    """Copy a finished file or folder to an object store, where an object appears whole."""
    filesystem, inside = filesystem_of(out)
    if not part.is_dir():
        filesystem.put_file(str(part), inside)
        return
    old = set(_stored(filesystem, inside, out))
    files = sorted(part.iterdir(), key=lambda file: (file.name == MADE, file.name))
    for file in files:  # the list of them comes last
        filesystem.put_file(str(file), f"{inside.rstrip('/')}/{file.name}")
    for name in sorted(old - {file.name for file in files}):
        filesystem.rm_file(f"{inside.rstrip('/')}/{name}")


def _stored(filesystem: Any, inside: str, out: str) -> list[str]:
    """Files of a folder in a store, all of them hierlpr's; refuse any other."""
    if not filesystem.exists(inside):
        return []
    names = [name.rsplit("/", 1)[-1] for name in filesystem.find(inside)]
    try:
        made = json.loads(filesystem.cat_file(f"{inside.rstrip('/')}/{MADE}"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        made = {}
    for name in names:
        if name not in made and not (made and name == MADE):
            raise FileError(
                f"{out}: this folder holds {name}, which is no part of a ranking that hierlpr "
                "made, so it is not replaced.\nHint: give the name of a new folder."
            )
    return names
