"""Long tables of scores or truth -> rows (sample number, label number, value), by sample.

They are written as they come if they are grouped by sample already, else by an external sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr.data.tables import growth
from hierlpr.io import Watch
from hierlpr.io.row_rules import (
    LabelNumbers,
    in_order,
    long_rows,
    name_codes,
    no_rows,
    tell_repeated_pairs,
)
from hierlpr.io.table_files import TableFile
from hierlpr.scale.budget import Budget
from hierlpr.scale.engine import engine, stream
from hierlpr.scale.names import NamesWriter, has_repeats, names_table, open_names
from hierlpr.scale.source import Piece, Source

if TYPE_CHECKING:
    from hierlpr.hierarchy import Hierarchy

__all__ = ["GROUP_ROWS", "long_source"]

GROUP_ROWS = 1 << 19
SHORT_RUN = 4  # rows of a sample one after the other, below which a table is not grouped by sample


class _Entries(NamedTuple):
    """Stored scores, grouped by sample."""

    sample: NDArray[np.int64]
    label: NDArray[np.int32]
    score: NDArray[np.float64]


def long_source(
    table: TableFile,
    hierarchy: Hierarchy,
    folder: Path,
    budget: Budget,
    watch: Watch,
    aliases: Mapping[str, str] | None,
) -> Source:
    """Rewrite a long table as row groups of whole samples; names go to `folder`."""
    target = max(1, budget.batch_instances // growth(hierarchy))
    numbers = LabelNumbers(hierarchy, aliases)
    with (
        closing(NamesWriter(folder)) as names,
        closing(_GroupWriter(folder / "long.parquet", target, hierarchy.n_labels)) as writer,
    ):
        reader = _LongReader(table, numbers, names, watch)
        for entries in reader.entries():
            writer.add(entries)
    is_score = table.format.content == "scores"
    if names.count == 0 or (is_score and writer.n_pairs == 0):
        raise no_rows(table, watch)
    n_samples = names.count
    if has_repeats(folder, n_samples, budget):
        writer, n_samples = _regroup(folder, n_samples, writer, budget)
    n_repeated = reader.n_entries - writer.n_pairs
    if n_repeated:
        sample, label = divmod(int(min(part[0] for part in writer.repeated)), hierarchy.n_labels)
        name = open_names(folder, n_samples)[sample].as_py()
        tell_repeated_pairs(n_repeated, name, label, numbers, table, watch)
    is_complete = is_score and writer.n_pairs == n_samples * hierarchy.n_labels
    watch.counts["rows"] = reader.n_rows
    return Source(
        table.path, "long", table.layout, watch.lenient, is_complete, (), tuple(writer.pieces),
        n_samples, budget.batch_instances, table.format.content,
    )  # fmt: skip


class _LongReader:
    """Turn names into numbers; the sample number is that of the run of rows with its name."""

    def __init__(
        self, table: TableFile, numbers: LabelNumbers, names: NamesWriter, watch: Watch
    ) -> None:
        self._table, self._numbers = table, numbers
        self._names, self._watch = names, watch
        self.n_rows = self.n_entries = 0
        self._last: str | None = None

    def entries(self) -> Iterator[_Entries]:
        for block in self._table.blocks(self._watch, n_rows=GROUP_ROWS):
            label, value, fine = long_rows(block, self._numbers, self._table, self._watch)
            self.n_rows += block.n_rows
            good = np.flatnonzero(fine)
            if good.size == 0:
                continue
            # A sample is there even if none of its labels is known.
            sample, order = self._samples(block.texts[0], good)
            if order is not None:
                good = good[order]
            entry = label[good] >= 0
            kept = good[entry]
            self.n_entries += kept.size
            yield _Entries(sample[entry], label[kept].astype(np.int32), value[kept])

    def _samples(
        self, column: Any, rows: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.intp] | None]:
        """Give numbers to the runs of equal names in some rows, one after the other.

        Where most runs are short, the rows of a name are first brought together: there is then
        far less to sort later. Returns the numbers and the order of the rows, None if they stay.
        """
        codes, names = name_codes(column)
        codes = codes[rows]
        starts = np.ones(codes.size, dtype=bool)
        starts[1:] = codes[1:] != codes[:-1]
        n_runs = np.count_nonzero(starts)
        if n_runs > codes.size // SHORT_RUN:
            used = in_order(codes, len(names))
            if 2 * used.size < n_runs:
                place = np.empty(len(names), dtype=np.int64)
                place[used] = np.arange(used.size)
                number = place[codes]
                order = np.argsort(number, kind="stable")
                sample = number[order] + self._names.count
                self._add([names[code] for code in used.tolist()])
                self._last = None
                return sample, order
        starts[0] = names[codes[0]] != self._last
        sample = np.cumsum(starts) + (self._names.count - 1)
        self._add([names[code] for code in codes[starts].tolist()])
        self._last = names[codes[-1]]
        return sample, None

    def _add(self, names: list[str]) -> None:
        import pyarrow as pa

        self._names.add(pa.array(names, pa.large_string()))


class _GroupWriter:
    """Write entries in row groups that never part a sample, sorted, each pair once.

    Of repeated pairs the highest score counts; `repeated` are their keys, rising in each part.
    """

    def __init__(self, file: Path, target: int, n_labels: int) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._schema = pa.schema(
            [("sample", pa.int64()), ("label", pa.int32()), ("score", pa.float64())]
        )
        self._writer = pq.ParquetWriter(file, self._schema, compression="lz4")
        self._file = file
        self.target = target
        self.n_labels = n_labels
        self._held: list[_Entries] = []
        self._n_held = 0
        self.pieces: list[Piece] = []
        self.n_pairs = 0
        self.repeated: list[NDArray[np.int64]] = []

    def add(self, entries: _Entries) -> None:
        if entries.sample.size == 0:
            return
        self._held.append(entries)
        self._n_held += entries.sample.size
        if self._n_held >= 2 * self.target:
            self._flush(is_last=False)

    def close(self) -> None:
        if self._n_held:
            self._flush(is_last=True)
        self._writer.close()

    def _flush(self, *, is_last: bool) -> None:
        sample, label, score = (np.concatenate(part) for part in zip(*self._held, strict=True))
        start = 0
        while start < sample.size:
            stop = min(start + self.target, sample.size)
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

        entries = self._sorted(entries)
        table = pa.table(list(entries), schema=self._schema)
        self._writer.write_table(table, row_group_size=table.num_rows)
        first = int(entries.sample[0])
        n_samples = int(entries.sample[-1]) + 1 - first
        piece = Piece(str(self._file), len(self.pieces), 0, first, n_samples, table.num_rows)
        self.pieces.append(piece)
        self.n_pairs += table.num_rows

    def _sorted(self, entries: _Entries) -> _Entries:
        key = entries.sample * self.n_labels + entries.label
        if (key[1:] > key[:-1]).all():
            return entries
        order = np.lexsort((-entries.score, key))
        key = key[order]
        again = np.zeros(key.size, dtype=bool)
        again[1:] = key[1:] == key[:-1]
        if again.any():
            self.repeated.append(key[again])
        order = order[~again]
        return _Entries(entries.sample[order], entries.label[order], entries.score[order])


def _regroup(
    folder: Path, n_runs: int, by_run: _GroupWriter, budget: Budget
) -> tuple[_GroupWriter, int]:
    """Bring the rows of each sample together, samples in order of first appearance."""
    import pyarrow as pa

    ungrouped = folder / "long.parquet"
    ungrouped.rename(folder / "ungrouped.parquet")
    writer = _GroupWriter(ungrouped, by_run.target, by_run.n_labels)
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
        if by_run.repeated:
            run, label = np.divmod(np.concatenate(by_run.repeated), by_run.n_labels)
            connection.register("repeated", pa.table({"run": run, "label": label}))
            first = connection.execute(
                f"SELECT min(n.sample * {by_run.n_labels} + r.label) FROM repeated r "
                "JOIN number n ON n.run = r.run"
            ).fetchall()
            writer.repeated.append(np.array(first[0], dtype=np.int64))
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
