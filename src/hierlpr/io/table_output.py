"""Scores, truth, rankings and discoveries to files, whole or not at all.

Text has quotes only where a name needs them, and refuses names that its layout cannot hold.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hierlpr._base.checks import check_choice, listed
from hierlpr._base.files import writing, writing_text
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError
from hierlpr.io.opening import AnyPath, ending

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy import sparse

__all__ = [
    "ENDINGS",
    "header_line",
    "plain_columns",
    "text_options",
    "write_discoveries",
    "write_ranking",
    "write_scores",
    "write_truth",
]

ENDINGS = (".parquet", ".csv", ".tsv")


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
    that, so such samples are missing from it.
    """
    kind = _ending(path, "truth file")
    if kind != ".tsv" and not long:
        _write(path, _wide(truth, integer=True))
        return
    import pyarrow as pa
    from scipy import sparse

    held = sparse.csr_array(truth.values != 0.0)
    table = _long(Table(held, truth.labels, truth.samples), None)
    if kind != ".tsv":
        names = _names(truth)
        bare = [names[i] for i in np.flatnonzero(np.diff(held.indptr) == 0).tolist()]
        rows = {"sample": bare, "label": [""] * len(bare)}
        table = pa.concat_tables([table, pa.table(rows, schema=table.schema)])
    _write(path, table)


def write_ranking(
    path: AnyPath,
    ranking: Any,
    *,
    samples: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    call: ArrayLike | None = None,
    keep: ArrayLike | None = None,
    captions: Sequence[str] | None = None,
) -> int:
    """Write a ranking whole or not at all; returns the number of rows.

    Parameters
    ----------
    path : path
        ``.parquet`` and ``.csv`` hold rank, sample, label, lpr, score, call. ``.tsv`` holds the
        CAFA layout (sample, label, score; no header). Text may end in ``.gz``.
    ranking : Ranking
        Anything with the arrays `sample`, `label`, `lpr` and `score`.
    samples, labels : sequence of str, optional
        Names of rows and columns; by default those of the ranking, or numbers.
    call : array-like of bool, optional
        Whether each instance is called; all are if not given.
    keep : array-like of bool, optional
        Write only these instances; they keep their rank.
    captions : sequence of str, optional
        Names for people of the labels, written in a last column `name`.
    """
    _ending(path, "ranking file")
    table = ranking_table(ranking, samples=samples, labels=labels, call=call)
    if captions is not None:
        table = table.append_column("name", _named(np.asarray(ranking.label), captions))
    texts = [i for i in (1, 2, 6) if i < table.num_columns]
    names = [chunk.dictionary for i in texts for chunk in table.column(i).chunks]
    if keep is not None:
        table = table.filter(np.asarray(keep, dtype=bool))
    return _write(path, table, names=names, row_group_size=1 << 20)


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


def ranking_table(
    ranking: Any,
    *,
    samples: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    call: ArrayLike | None = None,
) -> pa.Table:
    """Arrow table of a ranking; names are stored once and pointed to."""
    import pyarrow as pa

    samples = samples if samples is not None else getattr(ranking, "samples", None)
    labels = labels if labels is not None else getattr(ranking, "labels", None)
    sample, label = np.asarray(ranking.sample), np.asarray(ranking.label)
    n = sample.size
    called = np.ones(n, dtype=bool) if call is None else np.asarray(call, dtype=bool)
    if called.shape != (n,):
        raise DataError(f"call has shape {called.shape}, but the ranking has {n:,} instances.")
    return pa.table(
        {
            "rank": pa.array(np.arange(1, n + 1, dtype=np.int64)),
            "sample": _named(sample, samples),
            "label": _named(label, labels),
            "lpr": pa.array(np.asarray(ranking.lpr, dtype=np.float64)),
            "score": pa.array(np.asarray(ranking.score, dtype=np.float64)),
            "call": pa.array(called),
        }
    )


def _named(codes: NDArray[Any], names: Sequence[str] | None) -> pa.Array:
    import pyarrow as pa

    if names is None:
        names = [str(i) for i in range(int(codes.max(initial=-1)) + 1)]
    indices = pa.array(codes.astype(np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(names), type=pa.string()))


def _names(table: Table) -> Sequence[str]:
    return table.samples or [str(i + 1) for i in range(table.n_samples)]


def _wide(table: Table, *, integer: bool) -> pa.Table:
    import pyarrow as pa

    values = table.values if isinstance(table.values, np.ndarray) else table.values.toarray()
    if integer:
        values = values.astype(np.int8)
    columns = [pa.array(list(_names(table)), type=pa.string())]
    columns += [pa.array(np.ascontiguousarray(values[:, i])) for i in range(values.shape[1])]
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
    names: Iterable[Any] | None = None,
    row_group_size: int | None = None,
) -> int:
    """Write in the format of the ending; returns the rows.

    ``.tsv`` has the CAFA layout if `is_cafa`. `names` are Arrow arrays, by default the columns of
    text: quotes are written only if one of them needs them.
    """
    import pyarrow as pa

    kind = ending(path)
    if kind == ".parquet":
        import pyarrow.parquet as pq

        with writing(path) as part:
            pq.write_table(table, part, row_group_size=row_group_size)
        return int(table.num_rows)
    import pyarrow.csv as pacsv

    delimiter, is_cafa = "\t" if kind == ".tsv" else ",", is_cafa and kind == ".tsv"
    if is_cafa:
        refuse_blanks(path, table)
        table = table.select([x for x in ("sample", "label", "score") if x in table.column_names])
    table = plain_columns(table)
    if names is None:
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


def refuse_blanks(path: AnyPath, table: pa.Table) -> None:
    """Refuse names that the CAFA layout, which is split at blanks, cannot hold."""
    for column in ("sample", "label"):
        names = table.column(column).unique().to_pylist()
        bad = [name for name in names if name.split() != [name]]
        if bad:
            raise DataError(
                f"{path}: the CAFA layout cannot hold {column} names with blanks: {listed(bad)}.\n"
                "Hint: write .csv or .parquet instead."
            )
