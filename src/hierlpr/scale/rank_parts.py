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

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.files import work_subfolder
from hierlpr._kernels.keys import pack_rows, unpack_samples
from hierlpr.cutoff.decisions import decide
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError
from hierlpr.io import ReadReport, Watch
from hierlpr.io.cell_values import as_numbers
from hierlpr.io.rankings import RankingWriter, write_ranking
from hierlpr.io.table_output import arrow_numbers, refuse_blanks
from hierlpr.scale.budget import engine, open_names, stream
from hierlpr.scale.check_parts import adapt_to, compared
from hierlpr.scale.output import Shared, Use, written
from hierlpr.scale.parts import Parts, Record, arrow_batches
from hierlpr.scale.source import Batch, over_partitions

if TYPE_CHECKING:
    import pyarrow as pa

    from hierlpr.cutoff.outcome import Cutoff
    from hierlpr.lpr.drift import Drift
    from hierlpr.model import ScoreModel
    from hierlpr.ranking.order import Ranking

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
    if (
        len(order) == order.n_instances
    ):  # all block scores are known; else what is not listed counts
        score = np.empty((table.n_samples, model.hierarchy_.n_labels))
        score[order.sample, order.label] = order.score
    else:
        score = model.block_scores(table)
    calls: Any = decide(score, cutoff, model.hierarchy_)
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
    columns = [arrow_numbers(column) for column in (depth, place, tag, order.lpr[:n])]
    return pa.RecordBatch.from_arrays(columns, schema=row_schema())


def unpacked(batch: pa.RecordBatch, packing: Packing) -> dict[str, NDArray[Any]]:
    """Columns sample, label (numbers), lpr, score and call of sorted rows."""
    depth, place, tag, lpr = (as_numbers(batch.column(i)) for i in range(4))
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


class Ranked(NamedTuple):
    """What was written and seen, where it was cut, and how far an adapted model moved."""

    n_rows: int
    n_calls: int
    n_samples: int
    n_instances: int
    report: ReadReport
    cutoff: Cutoff
    drift: Drift | None


def write_run(
    batches: Iterator[Batch],
    part: Path,
    *,
    shared: Shared,
    packing: Packing,
    top: int | None,
    calls_first: bool,
) -> Record:
    """Rank the samples of one partition into its file.

    With `calls_first` only the calls are kept, which are the first rows of each batch.
    """
    import pyarrow as pa

    model = shared.load()
    n_rows = n_samples = 0
    with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, row_schema()) as writer:
        for table, numbers in shared.tables(batches):
            rows = ranked_rows(
                model, table, numbers=numbers, packing=packing, top=top, calls_only=calls_first
            )
            writer.write_table(pa.Table.from_batches([rows]), max_chunksize=CHUNK_ROWS)
            n_samples += numbers.size
            n_rows += rows.num_rows
    return {"samples": n_samples, "rows": n_rows}


def _sorted_rows(parts: Parts, n_parts: int) -> Generator[pa.RecordBatch]:
    """Rows of all partitions in calling order: the engine's sort of two integers."""
    import pyarrow as pa

    rows = pa.RecordBatchReader.from_batches(row_schema(), arrow_batches(parts.folder, n_parts))
    with work_subfolder(parts.folder) as own, engine(own, parts.budget) as connection:
        connection.register("ranked", rows)
        yield from stream(connection, "SELECT * FROM ranked ORDER BY depth, place", CHUNK_ROWS)


def rank_in_parts(
    use: Use, parts: Parts, *, top: int | None, calls_only: bool, adapt: bool
) -> Ranked:
    """Rank scores that need not fit in memory."""
    source, watch = use.source(parts, top=top, calls_only=calls_only, adapt=adapt)
    model, model_path, drift = use.model, use.model_path, None
    if adapt:
        seen = Watch(source.path, lenient=source.lenient)  # ranking counts what is passed over
        model, drift = adapt_to(model, compared(source, seen, parts, model.hierarchy_))
        model_path = str(parts.folder / "adapted.hlpr")  # where all workers find it
        model.save(model_path)
    cutoff, labels = model.cutoff_, model.hierarchy_.labels
    packing = Packing.of(source.n_samples, source.n_labels)
    calls_first = calls_only and cutoff.groups is None and cutoff.max_calls is None
    write = partial(
        write_run, shared=Shared.of(model_path, source), packing=packing, top=top,
        calls_first=calls_first,
    )  # fmt: skip
    records = over_partitions(parts, source, watch, write, folder=parts.folder, stage="ranking")
    names = open_names(parts.folder, source.n_samples)
    if use.kind == ".tsv":
        refuse_blanks(use.out, sample=names, label=labels)
    total = sum(record["rows"] for record in records)
    most, done = total if top is None else min(top, total), 0
    with (
        written(use.out, use.kind, parts.folder) as place,
        RankingWriter(place, use.kind, names, labels, **use.text) as writer,
        closing(_sorted_rows(parts, len(records))) as rows,
    ):
        while done < most:
            batch = next(rows).slice(0, most - done)
            rows_out = unpacked(batch, packing)
            writer.write(rows_out, keep=rows_out["call"] if calls_only else None)
            done += batch.num_rows
            parts.say("sorting", done, most)
    n_samples = source.n_samples  # of wide tables, rows with problems are left out
    if source.kind == "wide":
        n_samples = sum(record["samples"] for record in records)
    report = watch.report(samples=n_samples, labels=source.n_labels)
    counts = writer.n_rows, writer.n_calls, n_samples, n_samples * source.n_labels
    return Ranked(*counts, report, cutoff, drift)


def rank_at_once(use: Use, *, top: int | None, calls_only: bool, adapt: bool) -> Ranked:
    """Rank scores that fit in memory, after moving the model to their prevalences if asked."""
    read, model, drift = use.read(), use.model, None
    if adapt:
        model, drift = adapt_to(model, read.table)
    use.how.say("ranking", 0, 1)
    order = model.rank(read.table, top=top)
    call = calls_along(order, model, read.table)
    keep = call if calls_only else None
    n_rows = write_ranking(use.out, order, call=call, keep=keep, captions=use.captions)
    counts = n_rows, int(call.sum()), read.table.n_samples, order.n_instances
    return Ranked(*counts, read.report, model.cutoff_, drift)
