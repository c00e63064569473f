"""Scores, truth and discoveries to files, whole or not at all.

Text has quotes only where a name needs them, and refuses names that its layout cannot hold.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from hierlpr._base import AnyPath
from hierlpr._base.checks import check_choice, listed
from hierlpr._base.files import writing, writing_text
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError
from hierlpr.io.opening import ending

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy import sparse

ENDINGS = (".parquet", ".csv", ".tsv")
GROUP_ROWS = 1 << 20
FILE_ROWS = 1 << 24  # of each file in a folder
_MAYBE_BLANK = r"^$|[\x09-\x0d\x1c-\x20]|[^\x00-\x7f]"  # what is no ASCII may be a blank too


def write_scores(path: AnyPath, scores: Table, *, long: bool | None = None) -> None:
    """Write scores: ``.csv`` or ``.parquet``, wide or long, or ``.tsv`` in the CAFA layout.

    A sparse matrix is written long, a dense one wide, unless `long` says otherwise; ``.tsv`` is
    always long. Text may end in ``.gz``.
    """
    kind = _ending(path, "scores file")
    is_sparse = not isinstance(scores.values, np.ndarray)
    if long is False and is_sparse:
        raise DataError("A sparse matrix lacks scores, which a wide table cannot say; write long.")
    is_long = kind == ".tsv" or long or (long is None and is_sparse)
    _write(path, _long(scores, "score") if is_long else _wide(scores, integer=False))


def write_truth(path: AnyPath, truth: Table, *, long: bool = False) -> None:
    """Write truth: wide 0/1, long pairs, or ``.tsv`` pairs in the CAFA layout.

    In a long table a sample without labels has one row with an empty label; CAFA cannot say
    that, so such samples are missing from it. NaN is written as an empty cell (null); a long table
    then has a column `truth`, and the CAFA layout cannot say it.
    """
    kind = _ending(path, "truth file")
    if kind != ".tsv" and not long:
        _write(path, _wide(truth, integer=True))
        return
    import pyarrow as pa
    from scipy import sparse

    held = sparse.csr_array(truth.values, copy=True)
    held.eliminate_zeros()
    has_unknown = bool(np.isnan(held.data.sum())) if held.nnz else False
    if has_unknown and kind == ".tsv":
        raise DataError(f"{path}: the CAFA layout cannot say that truth is unknown; write .csv.")
    table = _long(Table(held, truth.labels, truth.samples), "truth" if has_unknown else None)
    if has_unknown:
        values = table.column("truth").to_numpy()
        known = pa.array(np.nan_to_num(values).astype(np.int8), mask=np.isnan(values))
        table = table.set_column(2, "truth", known)
    if kind != ".tsv":
        names = _names(truth)
        bare = [names[i] for i in np.flatnonzero(np.diff(held.indptr) == 0).tolist()]
        rows: dict[str, list[Any]] = {"sample": bare, "label": [""] * len(bare)}
        if has_unknown:
            rows["truth"] = [0] * len(bare)
        table = pa.concat_tables([table, pa.table(rows, schema=table.schema)])
    _write(path, table)


def write_discoveries(path: AnyPath, found: Any) -> int:
    """Write rank, label, p, lpr, level and rejected, whole or not at all; returns the rows.

    `found` is what `hierlpr.discover` returns. ``.parquet``, ``.csv`` or ``.tsv``; text may end in
    ``.gz``, and holds 0 and 1 for `rejected`.
    """
    import pyarrow as pa

    _ending(path, "file of discoveries")
    table = found.to_frame("pyarrow")
    p = table.column_names.index("p")
    table = table.set_column(p, "p", pa.array(found.p[found.order], from_pandas=True))
    return _write(path, table, is_cafa=False)


# -- tables of Arrow --------------------------------------------------------------------------


def _names(table: Table) -> Sequence[str]:
    return table.samples or [str(i + 1) for i in range(table.n_samples)]


def _wide(table: Table, *, integer: bool) -> pa.Table:
    import pyarrow as pa

    values = table.values if isinstance(table.values, np.ndarray) else table.values.toarray()
    columns = [pa.array(list(_names(table)), type=pa.string())]
    for column in np.ascontiguousarray(values.T):
        unknown = np.isnan(column) if integer else None
        if unknown is not None and unknown.any():
            columns.append(pa.array(np.nan_to_num(column).astype(np.int8), mask=unknown))
        else:
            columns.append(pa.array(column.astype(np.int8) if integer else column))
    return pa.table(columns, names=["sample", *table.labels])


def _long(table: Table, value: str | None) -> pa.Table:
    import pyarrow as pa

    csr = _stored(table.values)
    rows = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    samples, labels = np.array(_names(table), dtype=object), np.array(table.labels, dtype=object)
    columns = {
        "sample": pa.array(samples[rows], type=pa.string()),
        "label": pa.array(labels[csr.indices], type=pa.string()),
    }
    if value is not None:
        columns[value] = pa.array(csr.data)
    return pa.table(columns)


def arrow_texts(texts: Sequence[str]) -> pa.StringArray:
    """Return texts as Arrow has them; ``pa.array`` would load pandas to ask if they are its own."""
    import pyarrow as pa

    written = [text.encode() for text in texts]
    size = np.fromiter(map(len, written), np.int64, len(written))
    if size.sum() >= 2**31:  # beyond what one array of Arrow can address
        return pa.array(texts, pa.string())
    ends = np.concatenate(([0], size.cumsum())).astype(np.int32)
    return pa.StringArray.from_buffers(
        len(written), pa.py_buffer(ends), pa.py_buffer(b"".join(written))
    )


def arrow_numbers(values: NDArray[Any], known: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return numbers or truth values as Arrow has them, null where not known; without pandas."""
    import pyarrow as pa

    def packed(bits: NDArray[np.bool_]) -> pa.Buffer:
        return pa.py_buffer(np.packbits(bits, bitorder="little"))

    is_bits = values.dtype == np.bool_
    data = packed(values) if is_bits else pa.py_buffer(np.ascontiguousarray(values))
    valid = None if known is None or known.all() else packed(known)
    kind = pa.bool_() if is_bits else pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, values.size, [valid, data])


def _stored(values: Any) -> sparse.csr_array:
    """CSR that stores every entry of a dense matrix, zeros too, or what a sparse one stores."""
    if not isinstance(values, np.ndarray):
        return values
    n, k = values.shape
    indices = np.tile(np.arange(k), n)
    from scipy import sparse

    return sparse.csr_array((values.ravel(), indices, np.arange(n + 1) * k), shape=(n, k))


# -- files ------------------------------------------------------------------------------------


def _ending(path: AnyPath, what: str) -> str:
    return check_choice(ending(path), ENDINGS, name=f"the ending of the {what}")


def _write(
    path: AnyPath,
    table: pa.Table,
    *,
    is_cafa: bool = True,
) -> int:
    """Write in the format of the ending; returns the rows. ``.tsv`` is CAFA's if `is_cafa`."""
    import pyarrow as pa

    kind = ending(path)
    if kind == ".parquet":
        import pyarrow.parquet as pq

        with writing(path) as part:
            pq.write_table(table, part)
        return int(table.num_rows)
    import pyarrow.csv as pacsv

    delimiter, is_cafa = "\t" if kind == ".tsv" else ",", is_cafa and kind == ".tsv"
    if is_cafa:
        refuse_blanks(path, sample=table.column("sample"), label=table.column("label"))
        table = table.select([x for x in ("sample", "label", "score") if x in table.column_names])
    table = plain_columns(table)
    names = [column for column in table.columns if pa.types.is_string(column.type)]
    with writing_text(path) as part, part.open("wb") as stream:
        if not is_cafa:
            stream.write(header_line(table.column_names, delimiter))
        pacsv.write_csv(table, stream, text_options(names, delimiter))
    return int(table.num_rows)


def plain_columns(table: pa.Table) -> pa.Table:
    """CSV has no dictionaries; text spelled out, calls as 0 and 1."""
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.string()))
        elif pa.types.is_boolean(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.int8()))
    return table


def header_line(names: Sequence[str], delimiter: str) -> bytes:
    """Names of columns as a line of text; Arrow would quote them all."""
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(names)
    return line.getvalue().encode()


def text_options(names: Iterable[Any], delimiter: str) -> Any:
    """Options to write text tables whose names are these Arrow arrays.

    Arrow quotes either all texts or none, and refuses none if one needs it.
    """
    import pyarrow.compute as pc
    import pyarrow.csv as pacsv

    needed = any(
        pc.any(pc.match_substring_regex(array, f'["\r\n{delimiter}]')).as_py() for array in names
    )
    return pacsv.WriteOptions(
        include_header=False, delimiter=delimiter, quoting_style="needed" if needed else "none"
    )


def refuse_blanks(path: AnyPath, **columns: Any) -> None:
    """Refuse names (Arrow, or texts) that the CAFA layout, split at blanks, cannot hold."""
    import pyarrow.compute as pc

    for column, given in columns.items():
        names = given if hasattr(given, "filter") else arrow_texts(given)
        doubtful = names.filter(pc.match_substring_regex(names, _MAYBE_BLANK)).unique()
        bad = [name for name in doubtful.to_pylist() if name.split() != [name]]
        if bad:
            raise DataError(
                f"{path}: the CAFA layout cannot hold {column} names with blanks: {listed(bad)}.\n"
                "Hint: write .csv or .parquet instead."
            )


# -- rows as they come ------------------------------------------------------------------------


class TableWriter:
    """Write rows about samples and labels as they come: one file, or a folder of Parquet files.

    `kind` is the ending that decides the layout; without one, `path` is a folder of Parquet files.
    `names` (Arrow) and `labels` are what rows give by number; `fields` are the types of the other
    columns, in order around ``sample`` and ``label``. With `captions`, names of the labels for
    people, there is a last column `name`.
    """

    def __init__(
        self,
        path: Path,
        kind: str,
        names: Any,
        labels: Sequence[str],
        fields: Mapping[str, Any],
        *,
        is_packed: bool,
        captions: Sequence[str] | None,
    ) -> None:
        import pyarrow as pa

        self._path, self._kind, self._is_packed = path, kind, is_packed
        self._names, self._labels = names, {"label": arrow_texts(labels)}
        if captions is not None:
            self._labels["name"] = arrow_texts(captions)
        named = dict.fromkeys(self._labels, pa.dictionary(pa.int32(), pa.string()))
        self._schema = pa.schema({**fields, "sample": pa.string(), **named})
        self._open: list[Any] = []  # writer, and what it writes to
        self._held: list[pa.RecordBatch] = []
        self._n_files = self._n_in_file = 0
        self.n_rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None:
                if self._held or not self._n_files:
                    self._flush()
                self._close()
        finally:
            for part in self._open:  # let go of the file after an error
                with suppress(Exception):
                    part.close()

    def add(self, rows: Mapping[str, Any], *, keep: Any = None) -> None:
        """Append rows, or some of them; samples and labels by number, -1 for no label."""
        import pyarrow as pa

        label = arrow_numbers(rows["label"], known=rows["label"] >= 0)
        named = {x: pa.DictionaryArray.from_arrays(label, of) for x, of in self._labels.items()}
        named["sample"] = self._names.take(arrow_numbers(rows["sample"])).cast(pa.string())
        columns = {**rows, **named}
        arrays = [columns[x] for x in self._schema.names]
        arrays = [arrow_numbers(x) if isinstance(x, np.ndarray) else x for x in arrays]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        batch = batch if keep is None else batch.filter(arrow_numbers(keep))
        self._held.append(batch)
        self.n_rows += batch.num_rows
        if sum(held.num_rows for held in self._held) >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        table = pa.Table.from_batches(self._held, schema=self._schema)
        self._held = []
        if self._kind not in ("", ".parquet"):
            table = plain_columns(table)
        if not self._open:
            self._open = self._begin(table.schema)
        self._open[0].write_table(table, GROUP_ROWS)
        self._n_in_file += table.num_rows
        if not self._kind and self._n_in_file >= FILE_ROWS:
            self._close()

    def _close(self) -> None:
        for part in self._open:
            part.close()
        self._open, self._n_in_file = [], 0

    def _begin(self, schema: pa.Schema) -> list[Any]:
        """Open a file; names are quoted only where one of them needs it."""
        import pyarrow as pa
        import pyarrow.csv as pacsv

        path = self._path if self._kind else self._path / f"part-{self._n_files:06d}.parquet"
        self._n_files += 1
        sink: Any = pa.OSFile(str(path), "wb")  # closed whatever becomes of the writer
        if self._kind in ("", ".parquet"):
            return [_parquet_writer(sink, schema), sink]
        if self._is_packed:
            sink = pa.CompressedOutputStream(sink, "gzip")
        delimiter = "," if self._kind == ".csv" else "\t"
        if self._kind == ".csv":
            sink.write(header_line(schema.names, delimiter))
        options = text_options([self._names, *self._labels.values()], delimiter)
        return [pacsv.CSVWriter(sink, schema, write_options=options), sink]


def _parquet_writer(sink: Any, schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    plain = {"rank": "DELTA_BINARY_PACKED", "sample": "PLAIN", "lpr": "PLAIN", "score": "PLAIN"}
    return pq.ParquetWriter(
        sink,
        schema,
        compression="snappy",
        use_dictionary=["label"],
        column_encoding={name: how for name, how in plain.items() if name in schema.names},
    )
