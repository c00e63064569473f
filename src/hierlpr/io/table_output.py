"""Write scores, truth, rankings and discoveries: ``.parquet``, ``.csv``, or CAFA ``.tsv``."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Sequence
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
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError
from hierlpr.io.opening import ending

ENDINGS = (".parquet", ".csv", ".tsv")
DIGITS = 6  # of chances in text files; Parquet keeps them whole
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
    held = sparse.csr_array(truth.values, copy=True)
    held.eliminate_zeros()
    if np.isnan(held.data).any():
        raise DataError(f"{path}: the CAFA layout cannot hold unknown truth; write .csv.")
    table = _long(Table(held, truth.labels, truth.samples), "truth")
    write_table(path, table.drop_columns(["truth"]))


def write_ranking(
    path: AnyPath,
    ranking: Any,
    *,
    samples: Sequence[str] | None = None,
    call: ArrayLike | None = None,
) -> int:
    """Write a ranking; return the number of rows.

    ``.parquet`` and ``.csv`` hold rank, sample, label, lpr, score and call; ``.tsv`` the CAFA
    layout (sample, label, score; no header). Text may end in ``.gz``. `samples` are names of the
    samples, by default those of the ranking, or numbers. `call` says whether each instance is
    called, by default all are.
    """
    output_ending(path, "ranking file")
    n = len(ranking.sample)
    called = np.ones(n, dtype=bool) if call is None else np.asarray(call, dtype=bool)
    if called.shape != (n,):
        raise DataError(f"call has shape {called.shape}, but the ranking has {n:,} instances.")
    names = {"sample": samples or ranking.samples, "label": ranking.labels}
    columns: dict[str, Any] = {"rank": np.arange(1, n + 1)}
    for name, codes in (("sample", ranking.sample), ("label", ranking.label)):
        numbers = np.asarray(codes).astype(np.int32)
        known = names[name] or [str(i) for i in range(int(numbers.max(initial=-1)) + 1)]
        coded = pa.DictionaryArray.from_arrays(numbers, pa.array(known, pa.string()))
        columns[name] = coded.cast(RANKING_SCHEMA.field(name).type)
    columns |= {"lpr": ranking.lpr, "score": ranking.score, "call": called}
    return write_table(path, pa.table(columns, schema=RANKING_SCHEMA))


def write_discoveries(path: AnyPath, found: Any) -> int:
    """Write rank, label, p, lpr, level and rejected; return the number of rows.

    `found` is what `hierlpr.discover` returns. The file ends in ``.parquet``, ``.csv`` or ``.tsv``;
    text may end in ``.gz`` and holds 0 and 1 for `rejected`.
    """
    output_ending(path, "file of discoveries")
    table = found.to_frame("pyarrow")
    p = table.column_names.index("p")
    table = table.set_column(p, "p", pa.array(found.p[found.order], from_pandas=True))
    return write_table(path, table, is_cafa=False)


def output_ending(path: AnyPath, what: str) -> str:
    """Return the ending of an output file; raise if it is none of `ENDINGS`."""
    return check_choice(ending(path), ENDINGS, name=f"the ending of the {what}")


# -- Arrow tables -----------------------------------------------------------------------------


def _sample_names(table: Table) -> Sequence[str]:
    return table.samples or [str(i + 1) for i in range(table.n_samples)]


def _wide(table: Table, kind: pa.DataType) -> pa.Table:
    values = table.values if isinstance(table.values, np.ndarray) else table.values.toarray()
    columns = [pa.array(_sample_names(table), pa.string())]
    columns += [pa.array(x, from_pandas=True).cast(kind) for x in np.ascontiguousarray(values.T)]
    return pa.table(columns, names=["sample", *table.labels])


def _long(table: Table, value: str) -> pa.Table:
    """Return one row per stored entry; a dense matrix stores all of them."""
    values = table.values
    if isinstance(values, np.ndarray):
        row, column = (x.ravel() for x in np.indices(values.shape))
        data = values.ravel()
    else:
        row = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))
        column, data = values.indices, values.data
    names = {"sample": (_sample_names(table), row), "label": (table.labels, column)}
    columns = {
        x: pa.array(given, pa.string()).take(pa.array(at)) for x, (given, at) in names.items()
    }
    return pa.table({**columns, value: pa.array(data)})


# -- files ------------------------------------------------------------------------------------


def write_table(path: AnyPath, table: pa.Table, *, is_cafa: bool = True) -> int:
    """Write a table in the format of the ending of `path`; return the number of rows."""
    with atomic_output(path) as part, TableWriter(part, table.schema, is_cafa=is_cafa) as writer:
        writer.write(table)
    return writer.n_rows


class TableWriter:
    """Write batches of rows with the columns of `schema` to one file, in the format of its ending.

    `path` is the temporary path of `atomic_output`, so that the file appears when it is complete.
    With `is_cafa`, ``.tsv`` means the CAFA layout: sample, label and score without a header.
    """

    def __init__(self, path: Path, schema: pa.Schema, *, is_cafa: bool = True) -> None:
        kind = output_ending(path, "file")
        self._delimiter = "\t" if kind == ".tsv" else ","
        self._is_cafa = is_cafa and kind == ".tsv"
        self._stream: Any = path.open("wb")
        self._parquet: Any = None
        self.n_rows = 0
        if kind == ".parquet":
            coded = [f.name for f in schema if pa.types.is_dictionary(f.type)]
            is_rising = "rank" in schema.names and pa.types.is_integer(schema.field("rank").type)
            encoding = {"rank": "DELTA_BINARY_PACKED"} if is_rising else None
            # Statistics of names would cost more time than they can save.
            counted = [f.name for f in schema if not pa.types.is_string(f.type)]
            self._parquet = pq.ParquetWriter(
                self._stream,
                schema,
                use_dictionary=coded or False,
                column_encoding=encoding,
                write_statistics=counted,
            )
        elif os.fspath(path).lower().endswith(".gz"):
            # mtime=0: equal content gives equal files.
            self._stream = gzip.GzipFile(fileobj=self._stream, mode="wb", mtime=0)
        if self._parquet is None and not self._is_cafa:
            line = io.StringIO()
            csv.writer(line, delimiter=self._delimiter, lineterminator="\n").writerow(schema.names)
            self._stream.write(line.getvalue().encode())

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows."""
        if isinstance(rows, pa.RecordBatch):
            rows = pa.Table.from_batches([rows])
        self.n_rows += rows.num_rows
        if self._parquet is not None:
            self._parquet.write_table(rows, GROUP_ROWS)
            return
        if "lpr" in rows.column_names:  # a ranking or discoveries: chances, not a user's scores
            for name in {"lpr", "score"} & set(rows.column_names):
                at = rows.column_names.index(name)
                rows = rows.set_column(at, name, pc.round(rows.column(name), DIGITS))
            if "level" in rows.column_names:  # discoveries
                level = [float(f"{x:.{DIGITS}g}") for x in rows.column("level").to_pylist()]
                rows = rows.set_column(rows.column_names.index("level"), "level", pa.array(level))
        if self._is_cafa:
            rows = rows.select([x for x in CAFA_COLUMNS if x in rows.column_names])
        rows = _as_text_columns(rows)
        texts = {f.name: rows.column(f.name) for f in rows.schema if pa.types.is_string(f.type)}
        for name, column in texts.items():
            self._refuse_names(name, column)
        pattern = f'["{self._delimiter}]|^#'
        quoted = any(pc.any(pc.match_substring_regex(x, pattern)).as_py() for x in texts.values())
        # "needed" quotes every text, so it is used only where a name needs quotes.
        options = pacsv.WriteOptions(
            include_header=False,
            delimiter=self._delimiter,
            quoting_style="needed" if quoted else "none",
        )
        pacsv.write_csv(rows, self._stream, options)

    def _refuse_names(self, name: str, column: Any) -> None:
        """Raise for names that the layout cannot hold."""
        pattern = r"^$|\s" if self._is_cafa else r"[\r\n]"
        what = "blanks" if self._is_cafa else "line ends"
        bad = column.filter(pc.match_substring_regex(column, pattern)).unique().to_pylist()
        if bad:
            layout = "the CAFA layout" if self._is_cafa else "a text table"
            raise DataError(
                f"{layout} cannot hold names with {what} (column {name}): {quote_names(bad)}.\n"
                "Hint: write .parquet instead."
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._parquet is not None:
            self._parquet.close()
        stream = getattr(self._stream, "fileobj", None)
        self._stream.close()
        if stream is not None:
            stream.close()


def _as_text_columns(table: pa.Table) -> pa.Table:
    """Decode dictionaries, and write flags as 0 and 1."""
    for i, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(i, column.name, table.column(i).cast(pa.string()))
        elif pa.types.is_boolean(column.type):
            table = table.set_column(i, column.name, table.column(i).cast(pa.int8()))
    return table
