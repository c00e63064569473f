"""Scores and truth to files, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_choice
from hierlpr._base.files import writing, writing_text
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError, FileError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io._write_hierarchy import arff_entries
from hierlpr.io.opening import ending
from hierlpr.io.text_output import refuse_blanks, write_text_table

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy import sparse

__all__ = ["write_arff", "write_scores", "write_truth"]

_ENDINGS = (".csv", ".tsv", ".parquet")


def write_scores(path: str | os.PathLike[str], scores: Table, *, long: bool | None = None) -> None:
    """Write scores: ``.csv`` or ``.parquet``, wide or long, or ``.tsv`` in the CAFA layout.

    A sparse matrix is written long, a dense one wide, unless `long` says otherwise; ``.tsv`` is
    always long. Text may end in ``.gz``.
    """
    kind = check_choice(ending(path), _ENDINGS, name="the ending of the scores file")
    is_sparse = not isinstance(scores.values, np.ndarray)
    if long is False and is_sparse:
        raise DataError("A sparse matrix lacks scores, which a wide table cannot say; write long.")
    if kind == ".tsv" or long or (long is None and is_sparse):
        table = _long(scores, "score")
        header = kind != ".tsv"
    else:
        table, header = _wide(scores, integer=False), True
    _write(path, table, header=header)


def write_truth(path: str | os.PathLike[str], truth: Table, *, long: bool = False) -> None:
    """Write truth: wide 0/1, long pairs, or ``.tsv`` pairs in the CAFA layout.

    In a long table a sample without labels has one row with an empty label; CAFA cannot say
    that, so such samples are missing from it.
    """
    kind = check_choice(ending(path), _ENDINGS, name="the ending of the truth file")
    if kind == ".tsv" or long:
        from scipy import sparse

        held = sparse.csr_array(truth.values != 0.0)
        table = _long(Table(held, truth.labels, truth.samples), None)
        if kind != ".tsv":
            table = _with_bare_samples(table, held, _names(truth))
        _write(path, table, header=kind != ".tsv")
    else:
        _write(path, _wide(truth, integer=True), header=True)


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


def _with_bare_samples(table: pa.Table, held: sparse.csr_array, names: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    bare = np.flatnonzero(np.diff(held.indptr) == 0).tolist()
    rows = {"sample": [names[i] for i in bare], "label": [""] * len(bare)}
    return pa.concat_tables([table, pa.table(rows, schema=table.schema)])


def _write(path: str | os.PathLike[str], table: pa.Table, *, header: bool) -> None:
    if ending(path) == ".parquet":
        import pyarrow.parquet as pq

        with writing(path) as part:
            pq.write_table(table, part)
        return
    is_cafa = ending(path) == ".tsv"
    if is_cafa:
        refuse_blanks(path, table)
    with writing_text(path) as part:
        write_text_table(table, part, delimiter="\t" if is_cafa else ",", header=header)


def write_arff(
    path: str | os.PathLike[str],
    features: NDArray[np.float64],
    truth: NDArray[Any],
    hierarchy: Hierarchy,
    *,
    feature_names: Sequence[str] | None = None,
    relation: str = "hierlpr",
) -> None:
    """Write a Clus data set: numeric features (NaN as ``?``) and most specific labels."""
    features = np.asarray(features, dtype=np.float64)
    held = np.asarray(truth) != 0
    if held.shape != (features.shape[0], hierarchy.n_labels):
        raise DataError(
            f"truth has shape {held.shape}; expected ({features.shape[0]}, {hierarchy.n_labels})."
        )
    names = feature_names or [f"x{i + 1}" for i in range(features.shape[1])]
    quoted = ["'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'" for name in names]
    entries = arff_entries(path, hierarchy)
    if not all(name.strip() and "\n" not in name for name in names):
        raise FileError(f"{path}: feature names must be visible and on one line.")
    lines = [f"@RELATION '{relation}'", ""]
    lines += [f"@ATTRIBUTE {name} numeric" for name in quoted]
    lines += [f"@ATTRIBUTE class hierarchical {','.join(entries)}", "", "@DATA"]
    has_child = np.zeros_like(held)
    column = {label: i for i, label in enumerate(hierarchy.labels)}
    for parent, child in hierarchy.edges:
        has_child[:, column[parent]] |= held[:, column[child]]
    specific = held & ~has_child
    for row, chosen in zip(features.tolist(), specific, strict=True):
        values = ["?" if value != value else repr(value) for value in row]
        values.append("@".join(hierarchy.labels[i] for i in np.flatnonzero(chosen)))
        lines.append(",".join(values))
    with writing_text(path) as part:
        part.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
