"""Sorted rows -> the ranking a user asked for: one file, or a folder of Parquet files; whole."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hierlpr._base.checks import check_choice
from hierlpr.exceptions import DataError
from hierlpr.io.opening import ending
from hierlpr.io.table_output import ENDINGS, header_line, plain_columns, text_options
from hierlpr.scale.ranked_rows import Packing, unpacked

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RankingWriter", "output_kind", "refuse_blanks"]

GROUP_ROWS = 1 << 20


class RankingWriter:
    """Write sorted rows as rank, sample, label, lpr, score, call; or the CAFA layout."""

    def __init__(
        self,
        path: Path,
        kind: str,
        names: Any,
        labels: tuple[str, ...],
        packing: Packing,
        *,
        is_packed: bool = False,
    ) -> None:
        import pyarrow as pa

        self._names = names
        self._labels = pa.array(labels, type=pa.string())
        self._packing = packing
        self._kind = kind
        self.schema = pa.schema(
            [("rank", pa.int64()), ("sample", pa.string()),
             ("label", pa.dictionary(pa.int32(), pa.string())), ("lpr", pa.float64()),
             ("score", pa.float64()), ("call", pa.bool_())]
        )  # fmt: skip
        self._path = path
        self._is_packed = is_packed
        self._writer: Any = None
        self._held: list[pa.RecordBatch] = []
        self._n_held = 0
        self._sink: Any = None
        self.n_rows = 0
        self.n_calls = 0

    def write(
        self, rows: Iterable[pa.RecordBatch], *, first_rank: int, most: int | None, calls_only: bool
    ) -> int:
        """Append rows that begin at `first_rank`; returns how many were read."""
        import pyarrow as pa

        at = 0
        for batch in rows:
            room = batch.num_rows if most is None else min(batch.num_rows, most - at)
            if room <= 0:
                break
            found = unpacked(batch.slice(0, room), self._packing)
            arrays = [
                pa.array(np.arange(first_rank + at, first_rank + at + room)),
                self._names.take(pa.array(found["sample"])).cast(pa.string()),
                pa.DictionaryArray.from_arrays(pa.array(found["label"]), self._labels),
                pa.array(found["lpr"]),
                pa.array(found["score"]),
                pa.array(found["call"]),
            ]
            at += room
            ranked = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            if calls_only:
                ranked = ranked.filter(arrays[5])
            self._held.append(ranked)
            self._n_held += ranked.num_rows
            self.n_rows += ranked.num_rows
            self.n_calls += int(np.count_nonzero(found["call"]))
            if self._n_held >= GROUP_ROWS:
                self._flush()
        return at

    def close(self) -> None:
        """Write what is held and finish the file."""
        self._flush()
        self._writer.close()
        if self._sink is not None:
            self._sink.close()

    def abandon(self) -> None:
        """Let go of the file after an error."""
        for part in (self._writer, self._sink):
            if part is not None:
                with suppress(Exception):
                    part.close()

    def _flush(self) -> None:
        import pyarrow as pa

        table = pa.Table.from_batches(self._held, schema=self.schema)
        self._held, self._n_held = [], 0
        if self._kind == ".parquet":
            if self._writer is None:
                self._writer = _parquet_writer(self._path, self.schema)
            self._writer.write_table(table, row_group_size=GROUP_ROWS)
            return
        if self._kind == ".tsv":
            table = table.select(["sample", "label", "score"])
        table = plain_columns(table)
        if self._writer is None:
            self._sink, self._writer = self._text_writer(table.schema)
        self._writer.write_table(table)

    def _text_writer(self, schema: pa.Schema) -> tuple[Any, Any]:
        """Open the file; names are quoted as `hierlpr.io.write_ranking` does."""
        import pyarrow as pa
        import pyarrow.csv as pacsv

        sink: Any = pa.OSFile(str(self._path), "wb")
        if self._is_packed:
            sink = pa.CompressedOutputStream(sink, "gzip")
        delimiter = "," if self._kind == ".csv" else "\t"
        if self._kind == ".csv":
            sink.write(header_line(schema.names, delimiter))
        options = text_options([self._names, self._labels], delimiter)
        return sink, pacsv.CSVWriter(sink, schema, write_options=options)


def _parquet_writer(path: Path, schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(
        path, schema, compression="snappy", use_dictionary=["label"],
        column_encoding={"rank": "DELTA_BINARY_PACKED", "sample": "PLAIN", "lpr": "PLAIN",
                         "score": "PLAIN"},
    )  # fmt: skip


def output_kind(out: str, *, dataset: bool) -> str:
    """Return the ending that decides the layout of the output; a folder holds Parquet."""
    if dataset:
        kind = ending(out)
        if kind not in ("", ".parquet"):
            raise DataError(
                f"{out}: a run on a cluster writes a folder of Parquet files, not {kind}.\n"
                "Hint: give the name of a folder, with or without .parquet."
            )
        return ".parquet"
    return check_choice(ending(out), ENDINGS, name="the ending of the ranking file")


def refuse_blanks(out: str, names: Any, labels: tuple[str, ...]) -> None:
    """Refuse names that the CAFA layout cannot hold."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for column, values in (("sample", names), ("label", pa.array(labels, pa.string()))):
        blank = pc.match_substring_regex(values, r"\s")
        if pc.any(blank).as_py():
            name = values[pc.index(blank, True).as_py()].as_py()
            raise DataError(
                f"{out}: the CAFA layout cannot hold {column} names with blanks: {name!r}.\n"
                "Hint: write .csv or .parquet instead."
            )
