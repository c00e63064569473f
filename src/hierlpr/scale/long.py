"""Long tables of scores or truth -> rows (sample number, label number, value), by sample.

They are written as they come if they are grouped by sample already, else by an external sort.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr.data.tables import growth
from hierlpr.io._arrow import cast_column
from hierlpr.io._layout import Content
from hierlpr.io._long import value_problem
from hierlpr.io._watch import Watch
from hierlpr.scale.budget import Budget
from hierlpr.scale.engine import engine, stream
from hierlpr.scale.files import group_batches
from hierlpr.scale.names import NamesWriter, has_repeats, names_table
from hierlpr.scale.numbers import NAMELESS, LabelNumbers
from hierlpr.scale.source import Piece, Source

if TYPE_CHECKING:
    import pyarrow as pa

    from hierlpr.hierarchy import Hierarchy

__all__ = ["long_source", "parquet_rows"]

GROUP_ROWS = 1 << 19
SHORT_RUN = 4  # rows of a sample one after the other, below which a table is not grouped by sample


class _Entries(NamedTuple):
    """Stored scores, grouped by sample."""

    sample: NDArray[np.int64]
    label: NDArray[np.int32]
    score: NDArray[np.float64]


def parquet_rows(files: list[str], columns: list[str], watch: Watch) -> Iterator[pa.RecordBatch]:
    """Read the rows of long Parquet files: sample, label and, if there is one, value."""
    import pyarrow as pa

    types = (pa.string(), pa.string(), pa.float64())[: len(columns)]
    names = ["sample", "label", "value"][: len(columns)]
    for file in files:
        for batch in group_batches(file, GROUP_ROWS, columns):
            arrays = [
                cast_column(batch.column(batch.schema.get_field_index(name)), kind, name, watch)
                for name, kind in zip(columns, types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=names)


def long_source(
    path: str,
    rows: Iterable[pa.RecordBatch],
    hierarchy: Hierarchy,
    folder: Path,
    budget: Budget,
    watch: Watch,
    aliases: Mapping[str, str] | None,
    *,
    merges: bool = False,
    content: Content = "scores",
) -> Source:
    """Rewrite a long table as row groups of whole samples; names go to `folder`."""
    target = max(1, budget.batch_instances // growth(hierarchy))
    with (
        closing(NamesWriter(folder)) as names,
        closing(_GroupWriter(folder / "long.parquet", target, hierarchy.n_labels)) as writer,
    ):
        reader = _LongReader(hierarchy, names, watch, aliases, content)
        for entries in reader.entries(rows):
            writer.add(entries)
    if reader.labels.n_by_another_name:
        watch.counts["entries_by_another_name"] = reader.labels.n_by_another_name
    if writer.n_entries == 0 and (content == "scores" or names.count == 0):
        problem = str(watch.problems[0]) if watch.problems else ""
        raise watch.fail("no row could be read.", hint=problem)
    n_samples = names.count
    if has_repeats(folder, n_samples, budget):
        writer, n_samples = _regroup(folder, n_samples, target, hierarchy.n_labels, budget)
    is_score = content == "scores"
    is_complete = is_score and writer.n_pairs == n_samples * hierarchy.n_labels
    watch.counts["rows"] = reader.n_rows
    return Source(
        path, "long", merges, watch.lenient, is_complete, (), tuple(writer.pieces), n_samples,
        budget.batch_instances, content,
    )  # fmt: skip


class _LongReader:
    """Turn names into numbers; the sample number is that of the run of rows with its name."""

    def __init__(
        self,
        hierarchy: Hierarchy,
        names: NamesWriter,
        watch: Watch,
        aliases: Mapping[str, str] | None,
        content: Content,
    ) -> None:
        self._names = names
        self._content = content
        self.lowest = 0.0
        self.n_rows = 0
        self._watch = watch
        self.labels = LabelNumbers(
            hierarchy, watch, aliases,
            hint="--lenient (lenient=True) leaves unknown labels out and counts them.",
        )  # fmt: skip
        self._last: str | None = None

    def entries(self, rows: Iterable[pa.RecordBatch]) -> Iterator[_Entries]:
        for batch in rows:
            score = np.ones(batch.num_rows)  # in truth, a row without a value is a positive
            if batch.num_columns > 2:
                score = batch.column(2).to_numpy(zero_copy_only=False).astype(np.float64)
            label = self.labels.of(batch.column(1), self.n_rows)
            good = np.flatnonzero(self._good(batch.column(0), score, label))
            self.n_rows += batch.num_rows
            if good.size == 0:
                continue
            # A sample is there even if none of its labels is known.
            sample, order = self._samples(batch.column(0).take(good))
            if order is not None:
                good = good[order]
            entry = label[good] >= 0
            kept = good[entry]
            self.lowest = min(self.lowest, float(score[kept].min(initial=0.0)))
            yield _Entries(sample[entry], label[kept].astype(np.int32), score[kept])

    def _good(
        self, names: Any, score: NDArray[np.float64], label: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        import pyarrow.compute as pc

        blank = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(names), ""), True)
        nameless = blank.to_numpy(zero_copy_only=False)
        is_score = self._content == "scores"
        bad_score = ~np.isfinite(score) if is_score else (score != 0.0) & (score != 1.0)
        unlabelled = (label == NAMELESS) & is_score  # in truth, it says that the sample is known
        for row in np.flatnonzero(nameless | bad_score | unlabelled).tolist():
            text = (
                "the sample has no name." if nameless[row]
                else value_problem(float(score[row]), self._content) if bad_score[row]
                else "the label has no name."
            )  # fmt: skip
            self._watch.problem(text, line=f"row {self.n_rows + row + 1:,}")
        good: NDArray[np.bool_] = ~nameless & ~bad_score & ~unlabelled
        return good

    def _samples(self, column: Any) -> tuple[NDArray[np.int64], NDArray[np.intp] | None]:
        """Give numbers to the runs of equal names, one after the other.

        Where most runs are short, the rows of a name are first brought together: there is then
        far less to sort later. Returns the numbers and the order of the rows, None if they stay.
        """
        import pyarrow.compute as pc

        starts = np.ones(len(column), dtype=bool)
        starts[1:] = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy(
            zero_copy_only=False
        )
        n_runs = np.count_nonzero(starts)
        encoded = column.dictionary_encode() if n_runs > len(column) // SHORT_RUN else None
        if encoded is not None and 2 * len(encoded.dictionary) < n_runs:
            codes = encoded.indices.to_numpy()
            order = np.argsort(codes, kind="stable")
            number = codes[order].astype(np.int64) + self._names.count
            self._names.add(encoded.dictionary)
            self._last = None
            return number, order
        starts[0] = column[0].as_py() != self._last
        number = np.cumsum(starts) + (self._names.count - 1)
        self._names.add(column.filter(starts))
        self._last = column[len(column) - 1].as_py()
        return number, None


class _GroupWriter:
    """Write entries in row groups that never part a sample."""

    def __init__(self, file: Path, target: int, n_labels: int) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._schema = pa.schema(
            [("sample", pa.int64()), ("label", pa.int32()), ("score", pa.float64())]
        )
        self._writer = pq.ParquetWriter(file, self._schema, compression="lz4")
        self._file = file
        self._target = target
        self._n_labels = n_labels
        self._held: list[_Entries] = []
        self._n_held = 0
        self.pieces: list[Piece] = []
        self.n_entries = self.n_pairs = 0

    def add(self, entries: _Entries) -> None:
        if entries.sample.size == 0:
            return
        self._held.append(entries)
        self._n_held += entries.sample.size
        if self._n_held >= 2 * self._target:
            self._flush(is_last=False)

    def close(self) -> None:
        if self._n_held:
            self._flush(is_last=True)
        self._writer.close()

    def _flush(self, *, is_last: bool) -> None:
        sample, label, score = (np.concatenate(part) for part in zip(*self._held, strict=True))
        start = 0
        while start < sample.size:
            stop = min(start + self._target, sample.size)
            # The sample at the cut goes whole into this group.
            stop = int(np.searchsorted(sample, sample[stop - 1], side="right"))
            if stop == sample.size and not is_last:
                break  # its rows may go on in the next batch
            self._write(_Entries(sample[start:stop], label[start:stop], score[start:stop]))
            start = stop
        self._held = [_Entries(sample[start:], label[start:], score[start:])]
        self._n_held = sample.size - start

    def _write(self, entries: _Entries) -> None:
        import pyarrow as pa

        table = pa.table(list(entries), schema=self._schema)
        self._writer.write_table(table, row_group_size=table.num_rows)
        first = int(entries.sample[0])
        n_samples = int(entries.sample[-1]) + 1 - first
        piece = Piece(str(self._file), len(self.pieces), first, n_samples, table.num_rows)
        self.pieces.append(piece)
        self.n_entries += table.num_rows
        self.n_pairs += self._count_pairs(entries, n_samples)

    def _count_pairs(self, entries: _Entries, n_samples: int) -> int:
        """Count the different pairs, if there are enough for all labels of all samples."""
        if entries.sample.size < n_samples * self._n_labels:
            return entries.sample.size  # too few, however many of them are different
        return np.unique(entries.sample * self._n_labels + entries.label).size


def _regroup(
    folder: Path, n_runs: int, target: int, n_labels: int, budget: Budget
) -> tuple[_GroupWriter, int]:
    """Bring the rows of each sample together, samples in order of first appearance."""
    ungrouped = folder / "long.parquet"
    ungrouped.rename(folder / "ungrouped.parquet")
    writer = _GroupWriter(ungrouped, target, n_labels)
    with engine(folder, budget.engine_memory) as connection:
        connection.register("names", names_table(folder, n_runs))
        connection.execute(
            "CREATE TEMP TABLE number AS SELECT run, dense_rank() OVER (ORDER BY first) - 1 AS "
            "sample, run = first AS is_first FROM (SELECT run, min(run) OVER (PARTITION BY name) "
            "AS first FROM names)"
        )
        source = str(folder / "ungrouped.parquet").replace("'", "''")
        query = (
            f"SELECT n.sample, e.label, e.score FROM read_parquet('{source}') e "
            "JOIN number n ON n.run = e.sample ORDER BY n.sample, e.label"
        )
        for batch in stream(connection, query, GROUP_ROWS):
            columns = [batch.column(i).to_numpy(zero_copy_only=False) for i in range(3)]
            writer.add(_Entries(*columns))
        writer.close()
        n_samples = _rewrite_names(connection, folder, n_runs)
    (folder / "ungrouped.parquet").unlink()
    return writer, n_samples


def _rewrite_names(connection: Any, folder: Path, n_runs: int) -> int:
    fresh = folder / "names.fresh"
    fresh.mkdir()
    query = (
        "SELECT s.name FROM names s JOIN number n USING (run) WHERE n.is_first ORDER BY n.sample"
    )
    with closing(NamesWriter(fresh)) as names:
        for batch in stream(connection, query, GROUP_ROWS):
            names.add(batch.column(0))
    for file in fresh.iterdir():
        file.replace(folder / file.name)
    fresh.rmdir()
    return names.count
