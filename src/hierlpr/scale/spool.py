"""Any table of scores -> a source of row groups that hold whole samples.

Wide Parquet stays where it is. Wide text becomes wide Parquet. Long tables, text or Parquet, become
rows (sample number, label number, score) grouped by sample, see `hierlpr.scale.long`. Nothing that
the file does not list is ever stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hierlpr.exceptions import FileError
from hierlpr.io._layout import Content, _cast, _long_columns, _note_extra
from hierlpr.io._watch import Watch
from hierlpr.scale.budget import Budget
from hierlpr.scale.files import is_parquet, open_parquet, parquet_files, reason
from hierlpr.scale.long import GROUP_ROWS, long_source, parquet_rows
from hierlpr.scale.names import NamesWriter, repeated_name
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
            _wide_names(files, folder, budget, watch)
            return source, watch
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
    _wide_names([str(file)], folder, budget, watch)
    return source, watch


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


def _wide_names(files: list[str], folder: Path, budget: Budget, watch: Watch) -> None:
    with closing(NamesWriter(folder)) as writer:
        for file in files:
            _add_names(writer, file, watch)
    repeated = repeated_name(folder, writer.count, budget)
    if repeated is not None:
        name, first_row, second_row = repeated
        raise watch.fail(
            f"sample {name!r} occurs again (first in row {first_row + 1:,}).",
            line=f"row {second_row + 1:,}",
            hint="each sample has one row; remove the others.",
        )


def _add_names(writer: NamesWriter, file: str, watch: Watch) -> None:
    import pyarrow as pa

    opened = open_parquet(file)
    first = opened.schema_arrow.names[0]
    try:
        for batch in opened.iter_batches(1 << 18, columns=[first]):
            column = _cast(batch.column(0), pa.string(), first, watch)
            _refuse_nameless(column, writer.count, watch)
            writer.add(column)
    except (pa.ArrowException, OSError, EOFError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{file}: the sample names cannot be read ({reason(error)}).") from None
    finally:
        opened.close()


def _refuse_nameless(column: Any, at: int, watch: Watch) -> None:
    import pyarrow.compute as pc

    blank = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(column), ""), True)
    if pc.any(blank).as_py():
        row = at + pc.index(blank, True).as_py()
        raise watch.fail("the sample has no name.", line=f"row {row + 1:,}")
