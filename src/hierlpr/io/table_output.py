"""Write scores, truth, rankings and discoveries: ``.parquet``, ``.csv``, or CAFA ``.tsv``."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import ArrayLike
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import check_choice, quote_names
from hierlpr._utils.files import atomic_output
from hierlpr.data.listed import as_kind
from hierlpr.data.tables import Table, dense
from hierlpr.exceptions import DataError
from hierlpr.io.reading import ending

ENDINGS = (".parquet", ".csv", ".tsv")
DIGITS = 6  # of chances in text files; Parquet keeps them whole
CHANCES = ("lpr", "score")  # of a ranking
CAFA_COLUMNS = ("sample", "label", "score")
GROUP_ROWS = 1 << 20
_CODES = pa.dictionary(pa.int32(), pa.string())
RANKING_SCHEMA = pa.schema(
    {
        "rank": pa.int64(),
        "sample": pa.string(),
        "label": _CODES,
        "lpr": pa.float64(),
        "score": pa.float64(),
        "call": pa.bool_(),
    }
)


def write_scores(path: AnyPath, scores: Table) -> None:
    """Write scores as ``.csv`` or ``.parquet``, or as ``.tsv`` in the CAFA layout.

    A sparse matrix is written long and a dense one wide; ``.tsv`` is always long. Text may end in
    ``.gz``.
    """
    is_sparse = not isinstance(scores.values, np.ndarray)
    is_long = output_ending(path, "scores file") == ".tsv" or is_sparse
    write_table(path, _long(scores, "score") if is_long else _wide(scores, pa.float64()))


def write_truth(path: AnyPath, truth: Table) -> None:
    """Write truth as wide 0/1, with empty cells (null) if unknown, or as ``.tsv`` pairs for CAFA.

    The CAFA layout omits samples without labels, and cannot hold unknown truth (NaN).
    """
    if output_ending(path, "truth file") != ".tsv":
        write_table(path, _wide(truth, pa.int8()))
        return
    positive = sparse.csr_array(truth.values, copy=True)
    positive.eliminate_zeros()
    if np.isnan(positive.data).any():
        raise DataError(f"{path}: the CAFA layout cannot hold unknown truth; write .csv.")
    write_table(path, _long(Table(positive, truth.labels, truth.samples), "truth"))


def write_ranking(path: AnyPath, ranking: Any, *, call: ArrayLike | None = None) -> int:
    """Write a ranking; return the number of rows.

    ``.parquet`` and ``.csv`` hold rank, sample, label, lpr, score and call; ``.tsv`` the CAFA
    layout (sample, label, score; no header). Text may end in ``.gz``. Samples without names have
    numbers. `call` says whether each instance is called, by default all are.
    """
    output_ending(path, "ranking file")
    n = len(ranking)
    called = np.ones(n, dtype=bool) if call is None else np.asarray(call, dtype=bool)
    if called.shape != (n,):
        raise DataError(f"call has shape {called.shape}, but the ranking has {n:,} instances.")
    table = ranking.to_frame("pyarrow").append_column("call", pa.array(called))
    table = table.set_column(2, "label", table["label"].dictionary_encode())
    return write_table(path, table.cast(RANKING_SCHEMA), chances=CHANCES)


def write_discoveries(path: AnyPath, found: Any) -> int:
    """Write rank, label, p, lpr, level and rejected; return the number of rows.

    `found` is what `hierlpr.discover` returns. The file ends in ``.parquet``, ``.csv`` or ``.tsv``;
    text may end in ``.gz`` and holds 0 and 1 for `rejected`.
    """
    table = found.to_frame("pyarrow")
    new = {"p": pa.array(found.p[found.order], from_pandas=True)}
    if output_ending(path, "file of discoveries") != ".parquet":
        new["level"] = pa.array([float(f"{x:.{DIGITS}g}") for x in table["level"].to_pylist()])
    for name, column in new.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return write_table(path, table, is_cafa=False, chances=CHANCES)


def output_ending(path: AnyPath, what: str) -> str:
    """Return the ending of an output file; raise if it is none of `ENDINGS`."""
    return check_choice(ending(path), ENDINGS, name=f"the ending of the {what}")


# -- Arrow tables -----------------------------------------------------------------------------


def _sample_names(table: Table) -> Sequence[str]:
    return table.samples or [str(i + 1) for i in range(table.n_samples)]


def _wide(table: Table, kind: pa.DataType) -> pa.Table:
    values = np.ascontiguousarray(dense(table.values).T)
    columns = [pa.array(_sample_names(table), pa.string())]
    columns += [pa.array(x, from_pandas=True).cast(kind) for x in values]
    return pa.table(columns, names=["sample", *table.labels])


def _long(table: Table, value: str) -> pa.Table:
    """Return one row per stored entry; a dense matrix stores all of them."""
    values: Any = as_kind(replace(table, from_complete_list=True), "listed").values
    row = np.repeat(np.arange(table.n_samples), np.diff(values.indptr))
    names = {"sample": (_sample_names(table), row), "label": (table.labels, values.indices)}
    columns = {
        x: pa.array(given, pa.string()).take(pa.array(at)) for x, (given, at) in names.items()
    }
    return pa.table({**columns, value: pa.array(values.data)})


# -- files ------------------------------------------------------------------------------------


def write_table(path: AnyPath, table: pa.Table, **options: Any) -> int:
    """Write a table with the options of `TableWriter`; return the number of rows."""
    with atomic_output(path) as part, TableWriter(part, table.schema, **options) as writer:
        writer.write(table)
    return writer.n_rows


class TableWriter:
    """Write batches of rows with the columns of `schema` to one file, in the format of its ending.

    `path` is the temporary path of `atomic_output`, so that the file appears when it is complete.
    With `is_cafa`, ``.tsv`` means the CAFA layout: sample, label and score without a header. Text
    holds `chances` with six digits.
    """

    def __init__(
        self, path: Path, schema: pa.Schema, *, is_cafa: bool = True, chances: Sequence[str] = ()
    ) -> None:
        kind = output_ending(path, "file")
        self._delimiter = "\t" if kind == ".tsv" else ","
        self._is_cafa = is_cafa and kind == ".tsv"
        self._chances = chances
        self._files = ExitStack()
        self._stream: Any = self._files.enter_context(path.open("wb"))
        self._parquet: Any = None
        self.n_rows = 0
        if kind == ".parquet":
            coded = [f.name for f in schema if pa.types.is_dictionary(f.type)]
            ranks = [f.name for f in schema if pa.types.is_int64(f.type)]
            # Statistics of names would cost more time than they can save.
            counted = [f.name for f in schema if not pa.types.is_string(f.type)]
            writer = pq.ParquetWriter(
                self._stream,
                schema,
                use_dictionary=coded or False,
                column_encoding=dict.fromkeys(ranks, "DELTA_BINARY_PACKED") or None,
                write_statistics=counted,
            )
            self._parquet = self._files.enter_context(writer)
            return
        if os.fspath(path).lower().endswith(".gz"):
            # Without a name and a time, equal content gives equal files.
            packed = gzip.GzipFile("", "wb", fileobj=self._stream, mtime=0)
            self._stream = self._files.enter_context(packed)
        if not self._is_cafa:
            line = io.StringIO()
            csv.writer(line, delimiter=self._delimiter, lineterminator="\n").writerow(schema.names)
            self._stream.write(line.getvalue().encode())

    def write(self, rows: pa.Table) -> None:
        """Append rows."""
        self.n_rows += rows.num_rows
        if self._parquet is not None:
            self._parquet.write_table(rows, GROUP_ROWS)
            return
        if self._is_cafa:
            rows = rows.select([x for x in CAFA_COLUMNS if x in rows.column_names])
        names = rows.column_names
        columns = [self._as_text(*pair) for pair in zip(names, rows.columns, strict=True)]
        texts = [column for column in columns if pa.types.is_string(column.type)]
        pattern = f'["{self._delimiter}]|^#'
        quoted = any(pc.any(pc.match_substring_regex(x, pattern)).as_py() for x in texts)
        # "needed" quotes every text, so it is used only where a name needs quotes.
        options = pacsv.WriteOptions(
            include_header=False,
            delimiter=self._delimiter,
            quoting_style="needed" if quoted else "none",
        )
        pacsv.write_csv(pa.table(columns, names=names), self._stream, options)

    def _as_text(self, name: str, column: Any) -> Any:
        """Return a column as text holds it; raise for names that the layout cannot hold."""
        if pa.types.is_boolean(column.type):
            return column.cast(pa.int8())
        if name in self._chances:
            return pc.round(column, DIGITS)
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        if not pa.types.is_string(column.type):
            return column
        pattern = r"^$|\s" if self._is_cafa else r"[\r\n]"
        bad = column.filter(pc.match_substring_regex(column, pattern)).unique().to_pylist()
        if bad:
            layout = "the CAFA layout" if self._is_cafa else "a text table"
            what = "blanks" if self._is_cafa else "line ends"
            raise DataError(
                f"{layout} cannot hold names with {what} (column {name}): {quote_names(bad)}.\n"
                "Hint: write .parquet instead."
            )
        return column

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._files.close()
