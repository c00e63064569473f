"""Any table of scores -> a source of row groups that hold whole samples.

Wide Parquet stays where it is. Other wide tables become wide Parquet. Long tables become rows
(sample number, label number, score) grouped by sample, see `hierlpr.scale.long`. Nothing that the
file does not list is ever stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hierlpr.io import Watch
from hierlpr.io.opening import open_parquet
from hierlpr.io.row_rules import (
    nameless_rows,
    no_rows,
    tell_repeated_samples,
    wide_columns,
    wide_rows,
)
from hierlpr.io.table_files import Content, TableFile, TableFormat, open_table
from hierlpr.scale.budget import Budget
from hierlpr.scale.long import GROUP_ROWS, long_source
from hierlpr.scale.names import NamesWriter, has_repeats, repeats
from hierlpr.scale.source import Piece, Source

if TYPE_CHECKING:
    from hierlpr.hierarchy import Hierarchy

__all__ = ["open_source"]


def open_source(
    path: str,
    hierarchy: Hierarchy,
    folder: Path,
    budget: Budget,
    *,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
    content: Content = "scores",
) -> tuple[Source, Watch]:
    """Make scores or truth ready to be read in partitions; names and spools go to `folder`."""
    watch = Watch(path, lenient=lenient)
    table = open_table(path, TableFormat.of(content), watch)
    if not table.is_wide:
        return long_source(table, hierarchy, folder, budget, watch, aliases), watch
    table = table.using(wide_columns(table.numbers, hierarchy, aliases, watch))
    with closing(NamesWriter(folder)) as names:
        if table.files:
            left_out = _add_names(table, names, watch)
        else:
            left_out = _spool(table, folder / "wide.parquet", names, budget, watch)
    if names.count == 0:
        raise no_rows(table, watch)
    if has_repeats(folder, names.count, budget):
        left_out |= _repeated(table, folder, names.count, budget, watch)
    if len(left_out) == names.count:
        raise no_rows(table, watch)
    columns = table.numbers if table.files else _spool_columns(table)
    pieces = _pieces(table.files or (str(folder / "wide.parquet"),), len(columns))
    return Source(
        path, "wide", table.layout, lenient, True, columns, tuple(pieces), names.count,
        budget.batch_instances, content, tuple(sorted(left_out)),
    ), watch  # fmt: skip


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


def _add_names(table: TableFile, names: NamesWriter, watch: Watch) -> set[int]:
    """Write the names of Parquet files that stay where they are; return the rows without one."""
    nameless: set[int] = set()
    for block in table.using(()).blocks(watch, n_rows=1 << 18):
        for row in np.flatnonzero(nameless_rows(block.texts[0])).tolist():
            if not watch.lenient:
                _check_rows(table, watch)
            watch.problem("the sample has no name.", line=block.place(row))
            nameless.add(names.count + row)
        names.add(block.texts[0].fill_null(""))
    return nameless


def _check_rows(table: TableFile, watch: Watch) -> None:
    """Stop at the first row with a problem of its own, before any that others make."""
    for block in table.blocks(watch, n_rows=max(1, (1 << 22) // len(table.numbers))):
        wide_rows(block, table.numbers, table.format.content, watch)


def _spool(
    table: TableFile, file: Path, names: NamesWriter, budget: Budget, watch: Watch
) -> set[int]:
    """Rewrite a wide table; return the rows with problems, which are there all the same."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.float64()) for name in _spool_columns(table)])
    size = max(1, min(GROUP_ROWS, budget.batch_instances // len(schema)))
    left_out: set[int] = set()
    with pq.ParquetWriter(file, schema, compression="lz4", use_dictionary=False) as writer:
        for block in table.blocks(watch):
            _, good = wide_rows(block, table.numbers, table.format.content, watch)
            left_out.update((np.flatnonzero(~good) + names.count).tolist())
            names.add(block.texts[0].fill_null(""))
            writer.write_table(pa.table(block.numbers, schema=schema), row_group_size=size)
    return left_out


def _spool_columns(table: TableFile) -> tuple[str, ...]:
    return tuple(map(str, range(len(table.numbers))))


def _repeated(table: TableFile, folder: Path, count: int, budget: Budget, watch: Watch) -> set[int]:
    """Return the rows whose names occurred before."""
    found: Iterator[tuple[str, int, int]]
    found = ((name, first, row) for name, first, row in repeats(folder, count, budget)
             if name.strip())  # fmt: skip
    if table.files and not watch.lenient and (first := next(found, None)) is not None:
        _check_rows(table, watch)
        found = iter([first])
    return set(tell_repeated_samples(found, table, watch))
