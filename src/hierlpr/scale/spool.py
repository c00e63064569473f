"""Any table of scores or truth -> a source of row groups that hold whole samples.

Wide Parquet stays where it is. Other wide tables become wide Parquet. Long tables become rows
(sample number, label number, value) by sample: as they come if they are grouped by sample already,
else by an external sort. Nothing that the file does not list is ever stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr.data.tables import growth
from hierlpr.io import Watch
from hierlpr.io.cell_values import Block
from hierlpr.io.opening import open_parquet
from hierlpr.io.row_rules import (
    LabelNumbers,
    in_order,
    long_rows,
    name_codes,
    nameless_rows,
    no_rows,
    tell_repeated_pairs,
    tell_repeated_samples,
    wide_columns,
    wide_rows,
)
from hierlpr.io.table_files import Content, TableFile, open_table
from hierlpr.io.table_output import arrow_numbers, arrow_texts
from hierlpr.scale.budget import (
    Budget,
    NamesWriter,
    engine,
    names_table,
    open_names,
    parquet_rows,
    repeats,
    stream,
)
from hierlpr.scale.parts import Parts, Plan, add_seen, seen
from hierlpr.scale.source import Piece, Reading, Source

GROUP_ROWS = 1 << 19
SHORT_RUN = 4  # rows of a sample one after the other, below which a table is not grouped by sample


def planned_source(
    path: str,
    reading: Reading,
    parts: Parts,
    folder: Path,
    files: Mapping[str, str] | None = None,
    **options: Any,
) -> tuple[Source, Watch]:
    """Make scores ready to be read in partitions, or find that an interrupted run did.

    `files` and `options` are what else the parts depend on.
    """
    options = {**reading.to_dict(), "partitions": parts.partitions, **options}
    inputs = {"scores": path, **(files or {})}
    plan = Plan.open(folder, inputs, reading.hierarchy, options, resume=parts.resume)
    if plan.found is None:
        source, watch = open_source(path, reading, folder, parts.budget)
        plan.write({"source": source.to_dict(), "format": watch.format, "seen": seen(watch)})
        return source, watch
    watch = Watch(path, plan.found["format"], lenient=reading.lenient)
    add_seen(watch, plan.found["seen"])
    return Source.from_dict(plan.found["source"]), watch


def open_source(
    path: str, reading: Reading, folder: Path, budget: Budget, content: Content = "scores"
) -> tuple[Source, Watch]:
    """Make scores or truth ready to be read in partitions; names and spools go to `folder`."""
    watch = Watch(path, lenient=reading.lenient)
    table = open_table(path, content, watch)
    given = (table, reading, folder, budget, watch)
    return _Wide(*given).source() if table.is_wide else _long_source(*given), watch


# -- wide tables ------------------------------------------------------------------------------


class _Wide:
    """A wide table on its way to a source: the rows that cannot be used are `left_out`."""

    def __init__(
        self, table: TableFile, reading: Reading, folder: Path, budget: Budget, watch: Watch
    ) -> None:
        chosen = wide_columns(table.numbers, reading.hierarchy, reading.aliases, watch)
        self._table, self._reading, self._watch = table.using(chosen), reading, watch
        self._folder, self._budget = folder, budget
        self._left_out: set[int] = set()

    def source(self) -> Source:
        """Write the names, and of what is no Parquet the scores too."""
        table, watch, budget = self._table, self._watch, self._budget
        columns, files = table.numbers, table.files
        with closing(NamesWriter(self._folder)) as names:
            if files:
                self._add_names(names)
            else:
                columns = tuple(map(str, range(len(columns))))
                files = (str(self._folder / "wide.parquet"),)
                self._spool(files[0], columns, names)
        if names.count:
            self._add_repeated(names.count)
        if len(self._left_out) == names.count:
            raise no_rows(table, watch)
        return Source(
            table.path, table.content, "wide", table.layout, watch.lenient, True, names.count,
            len(columns), tuple(_pieces(files, len(columns))), budget.batch_instances, columns,
            tuple(sorted(self._left_out)), len(files) > 1, self._reading.allow_missing,
        )  # fmt: skip

    def _add_names(self, names: NamesWriter) -> None:
        """Write the names of Parquet files that stay where they are; leave out rows without one."""
        for block in self._table.using(()).blocks(self._watch, n_rows=1 << 18):
            for row in np.flatnonzero(nameless_rows(block.texts[0])).tolist():
                self._stop_earlier()
                self._watch.problem("the sample has no name.", line=block.place(row))
                self._left_out.add(names.count + row)
            names.add(block.texts[0])

    def _spool(self, file: str, columns: tuple[str, ...], names: NamesWriter) -> None:
        """Rewrite the table; rows with problems are there all the same."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema([(name, pa.float64()) for name in columns])
        size = max(1, min(GROUP_ROWS, self._budget.batch_instances // len(schema)))
        with pq.ParquetWriter(file, schema, compression="lz4", use_dictionary=False) as writer:
            for block in self._table.blocks(self._watch):
                bad = np.flatnonzero(~self._good_rows(block))
                self._left_out.update((bad + names.count).tolist())
                names.add(block.texts[0])
                numbers = [arrow_numbers(column) for column in block.numbers]
                writer.write_table(pa.table(numbers, schema=schema), row_group_size=size)

    def _add_repeated(self, count: int) -> None:
        """Leave out the rows whose names occurred before."""
        found = repeats(self._folder, count, self._budget)
        named = (again for again in found if again[0].strip())
        first = next(named, None)
        if first is not None:
            if self._table.files:
                self._stop_earlier()
            repeated = chain([first], named)
            self._left_out.update(tell_repeated_samples(repeated, self._table, self._watch))

    def _stop_earlier(self) -> None:
        """Stop at the first row with a problem of its own, before any that others make."""
        if not self._watch.lenient:
            size = max(1, (1 << 22) // len(self._table.numbers))
            for block in self._table.blocks(self._watch, n_rows=size):
                self._good_rows(block)

    def _good_rows(self, block: Block) -> NDArray[np.bool_]:
        table, allows = self._table, self._reading.allow_missing
        return wide_rows(block, table.numbers, table.content, self._watch, allow_missing=allows)[1]


def _pieces(files: tuple[str, ...], n_labels: int) -> Iterator[Piece]:
    at = 0
    for file in files:
        first_row = 0
        with open_parquet(file) as opened:
            for group in range(opened.num_row_groups):
                n = opened.metadata.row_group(group).num_rows
                yield Piece(file, group, first_row, at, n, n * n_labels)
                at += n
                first_row += n


# -- long tables ------------------------------------------------------------------------------


class _Entries(NamedTuple):
    """Stored values, grouped by sample."""

    sample: NDArray[np.int64]
    label: NDArray[np.int32]
    value: NDArray[np.float64]

    def take(self, at: Any) -> _Entries:
        return _Entries(self.sample[at], self.label[at], self.value[at])


def _long_source(
    table: TableFile, reading: Reading, folder: Path, budget: Budget, watch: Watch
) -> Source:
    """Rewrite a long table as row groups of whole samples; names go to `folder`."""
    h = reading.hierarchy
    numbers = LabelNumbers(h, reading.aliases)
    target = max(1, budget.batch_instances // growth(h))
    n_entries = 0
    with (
        closing(NamesWriter(folder)) as names,
        closing(_GroupWriter(folder / "long.parquet", target, h.n_labels)) as writer,
    ):
        runs = _Runs(names)
        for block in table.blocks(watch, n_rows=GROUP_ROWS):
            label, value, good = long_rows(block, numbers, table, watch)
            watch.counts["rows"] += block.n_rows
            if good.any():
                # A sample is there even if none of its labels is known.
                sample, rows = runs.numbered(block.texts[0], np.flatnonzero(good))
                entries = _Entries(sample, label[rows].astype(np.int32), value[rows])
                entries = entries.take(entries.label >= 0)
                n_entries += entries.sample.size
                writer.add(entries)
    is_score = table.content == "scores"
    if names.count == 0 or (is_score and writer.n_pairs == 0):
        raise no_rows(table, watch)
    n_samples = names.count
    if next(repeats(folder, n_samples, budget), None) is not None:
        writer, n_samples = _regroup(folder, n_samples, writer, budget)
    if n_entries > writer.n_pairs:
        first = divmod(int(min(part[0] for part in writer.repeated)), h.n_labels)
        name = open_names(folder, n_samples)[first[0]].as_py()
        tell_repeated_pairs(n_entries - writer.n_pairs, name, first[1], numbers, table, watch)
    return Source(
        table.path, table.content, "long", table.layout, watch.lenient,
        is_score and writer.n_pairs == n_samples * h.n_labels, n_samples, h.n_labels,
        tuple(writer.pieces), budget.batch_instances,
    )  # fmt: skip


class _Runs:
    """Numbers of samples in a long table: those of the runs of rows with one name."""

    def __init__(self, names: NamesWriter) -> None:
        self._names = names
        self._last: str | None = None

    def numbered(
        self, column: Any, rows: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """Give numbers to some rows of a block; returns the numbers, and the rows they belong to.

        Where most runs are short, the rows of a name are first brought together: there is then
        far less to sort later.
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
                order = np.argsort(place[codes], kind="stable")
                sample = place[codes[order]] + self._names.count
                self._add([names[code] for code in used.tolist()])
                self._last = None
                return sample, rows[order]
        starts[0] = names[codes[0]] != self._last
        sample = np.cumsum(starts) + (self._names.count - 1)
        self._add([names[code] for code in codes[starts].tolist()])
        self._last = names[codes[-1]]
        return sample, rows

    def _add(self, names: list[str]) -> None:
        self._names.add(arrow_texts(names))


class _GroupWriter:
    """Write entries in row groups that never part a sample, sorted, each pair once.

    Of repeated pairs the highest value counts; `repeated` are their keys, rising in each part.
    """

    def __init__(self, file: Path, target: int, n_labels: int) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._schema = pa.schema(
            [("sample", pa.int64()), ("label", pa.int32()), ("value", pa.float64())]
        )
        self._writer = pq.ParquetWriter(file, self._schema, compression="lz4")
        self._file = file
        self.target, self.n_labels = target, n_labels
        self._held: list[_Entries] = []
        self._n_held = 0
        self.pieces: list[Piece] = []
        self.n_pairs = 0
        self.repeated: list[NDArray[np.int64]] = []

    def add(self, entries: _Entries) -> None:
        if entries.sample.size:
            self._held.append(entries)
            self._n_held += entries.sample.size
            if self._n_held >= 2 * self.target:
                self._flush(is_last=False)

    def close(self) -> None:
        if self._n_held:
            self._flush(is_last=True)
        self._writer.close()

    def _flush(self, *, is_last: bool) -> None:
        held = _Entries(*(np.concatenate(part) for part in zip(*self._held, strict=True)))
        start, size = 0, held.sample.size
        while start < size:
            stop = min(start + self.target, size)
            # The sample at the cut goes whole into this group.
            stop = int(np.searchsorted(held.sample, held.sample[stop - 1], side="right"))
            if stop == size and not is_last:
                break  # its rows may go on in the next batch
            self._write(held.take(slice(start, stop)))
            start = stop
        self._held, self._n_held = [held.take(slice(start, None))], size - start

    def _write(self, entries: _Entries) -> None:
        import pyarrow as pa

        key = entries.sample * self.n_labels + entries.label
        if not (key[1:] > key[:-1]).all():
            order = np.lexsort((-entries.value, key))
            key = key[order]
            again = np.append(False, key[1:] == key[:-1])
            if again.any():
                self.repeated.append(key[again])
            entries = entries.take(order[~again])
        table = pa.table([arrow_numbers(column) for column in entries], schema=self._schema)
        self._writer.write_table(table, row_group_size=table.num_rows)
        first = int(entries.sample[0])
        n_samples = int(entries.sample[-1]) + 1 - first
        piece = Piece(str(self._file), len(self.pieces), 0, first, n_samples, table.num_rows)
        self.pieces.append(piece)
        self.n_pairs += table.num_rows


def _regroup(
    folder: Path, n_runs: int, by_run: _GroupWriter, budget: Budget
) -> tuple[_GroupWriter, int]:
    """Bring the rows of each sample together, samples in order of first appearance."""
    import pyarrow as pa

    file, n_labels = folder / "ungrouped.parquet", by_run.n_labels
    (folder / "long.parquet").rename(file)
    writer = _GroupWriter(folder / "long.parquet", by_run.target, n_labels)
    with engine(folder, budget) as connection:
        connection.register("names", names_table(folder, n_runs))
        connection.execute(
            "CREATE TEMP TABLE number AS SELECT run, dense_rank() OVER (ORDER BY first) - 1 AS "
            "sample, run = first AS is_first FROM (SELECT run, min(run) OVER (PARTITION BY name) "
            "AS first FROM names)"
        )
        connection.register("entries", parquet_rows(file))
        query = (
            "SELECT n.sample, e.label, e.value FROM entries e JOIN number n ON n.run = e.sample "
            "ORDER BY n.sample, e.label"
        )
        for batch in stream(connection, query, GROUP_ROWS):
            columns = [batch.column(i).to_numpy(zero_copy_only=False) for i in range(3)]
            writer.add(_Entries(*columns))
        writer.close()
        if by_run.repeated:
            run, label = np.divmod(np.concatenate(by_run.repeated), n_labels)
            connection.register("repeated", pa.table({"run": run, "label": label}))
            first = connection.execute(
                f"SELECT min(n.sample * {n_labels} + r.label) FROM repeated r "
                "JOIN number n ON n.run = r.run"
            ).fetchall()
            writer.repeated.append(np.array(first[0], dtype=np.int64))
        n_samples = _rewrite_names(connection, folder)
    file.unlink()
    return writer, n_samples


def _rewrite_names(connection: Any, folder: Path) -> int:
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
