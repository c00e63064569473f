"""Any table of scores -> a source of row groups that hold whole samples.

Wide Parquet stays where it is. Wide text becomes wide Parquet. Long tables, text or Parquet, become
rows (sample number, label number, score) grouped by sample, see `hierlpr.scale.long`. Nothing that
the file does not list is ever stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hierlpr.exceptions import FileError
from hierlpr.io._arrow import cast_column
from hierlpr.io._layout import Content, _long_columns, _note_extra
from hierlpr.io._watch import Watch
from hierlpr.scale.budget import Budget
from hierlpr.scale.files import is_parquet, open_parquet, parquet_files, reason
from hierlpr.scale.long import GROUP_ROWS, long_source, parquet_rows
from hierlpr.scale.names import NamesWriter, has_repeats, repeats
from hierlpr.scale.source import Source, wide_source
from hierlpr.scale.text import TextStream, open_stream, whole_gzip

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
    batch = budget.batch_instances
    if is_parquet(path):
        files = parquet_files(path)
        schema = open_parquet(files[0]).schema_arrow
        long = _long_columns(list(schema.names), content)
        if long is None:
            watch.format = f"wide Parquet {content}"
            source = wide_source(
                path,
                files,
                hierarchy,
                watch,
                batch_instances=batch,
                lenient=lenient,
                aliases=aliases,
                content=content,
            )
            return _with_names(source, files, folder, budget, watch), watch
        watch.format = f"long Parquet {content}"
        _note_extra(list(schema.names), long, watch)
        rows = parquet_rows(files, [name for name in long if name is not None], watch)
        source = long_source(path, rows, hierarchy, folder, budget, watch, aliases, content=content)
        return source, watch
    text = open_stream(path, watch, lenient=lenient, content=content)
    with whole_gzip(path):
        if text.layout != "wide":
            source = long_source(
                path, text.batches(watch), hierarchy, folder, budget, watch, aliases,
                merges=text.layout == "cafa", content=content,
            )  # fmt: skip
            return source, watch
        file = _wide_spool(text, folder, budget, watch)
    source = wide_source(
        path,
        [str(file)],
        hierarchy,
        watch,
        batch_instances=batch,
        lenient=lenient,
        aliases=aliases,
        content=content,
    )
    return _with_names(source, [str(file)], folder, budget, watch), watch


# -- wide -------------------------------------------------------------------------------------


def _wide_spool(text: TextStream, folder: Path, budget: Budget, watch: Watch) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    labels = text.columns[1:]
    schema = pa.schema([("sample", pa.string()), *((label, pa.float64()) for label in labels)])
    size = max(1, min(GROUP_ROWS, budget.batch_instances // len(labels)))
    file = folder / "wide.parquet"
    with pq.ParquetWriter(file, schema, compression="lz4", use_dictionary=False) as writer:
        for batch in text.batches(watch):
            if batch.num_rows:
                table = pa.Table.from_arrays(batch.columns, schema=schema)
                writer.write_table(table, row_group_size=size)
    return file


def _with_names(
    source: Source, files: list[str], folder: Path, budget: Budget, watch: Watch
) -> Source:
    """Write the names of a wide table; rows without one, or with an earlier one, are left out."""
    with closing(NamesWriter(folder)) as writer:
        left_out = [row for file in files for row in _add_names(writer, file, watch)]
    if has_repeats(folder, writer.count, budget):
        nameless = set(left_out)
        for name, first, row in repeats(folder, writer.count, budget):
            if row in nameless:
                continue
            watch.problem(
                f"sample {name!r} occurs again (first in row {first + 1:,}).",
                line=f"row {row + 1:,}",
                hint="each sample has one row; remove the others.",
            )
            left_out.append(row)
    return replace(source, left_out=tuple(sorted(left_out)))


def _add_names(writer: NamesWriter, file: str, watch: Watch) -> list[int]:
    """Append the names of a file; returns the rows without one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    opened = open_parquet(file)
    first = opened.schema_arrow.names[0]
    nameless: list[int] = []
    try:
        for batch in opened.iter_batches(1 << 18, columns=[first]):
            column = pc.fill_null(cast_column(batch.column(0), pa.string(), first, watch), "")
            blank = pc.equal(pc.utf8_trim_whitespace(column), "").to_numpy(zero_copy_only=False)
            for row in (np.flatnonzero(blank) + writer.count).tolist():
                watch.problem("the sample has no name.", line=f"row {row + 1:,}")
                nameless.append(row)
            writer.add(column)
    except (pa.ArrowException, OSError, EOFError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{file}: the sample names cannot be read ({reason(error)}).") from None
    finally:
        opened.close()
    return nameless
