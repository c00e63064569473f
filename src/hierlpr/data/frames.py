"""Data frames of any library, and labels of samples given as lists, sets or strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from scipy import sparse

from hierlpr._utils.checks import nearest, quote_names
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

SAMPLE_COLUMN = "sample"
_LIST_SEPARATORS = (";", "|", ",", "\t")  # between labels in one cell of a table

# Labels of each sample, sample names, and the library of a series.
SampleLabels = tuple[list[Any], tuple[str, ...] | None, str | None]


def as_frame(data: Any, name: str, *, allow_series: bool = False) -> Any:
    """Return a narwhals data frame (or series), or None if `data` is something else."""
    if isinstance(data, np.ndarray | list | tuple):
        return None
    try:
        frame = nw.from_native(data, pass_through=True, allow_series=allow_series or None)
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"{name} has repeated columns. {error}") from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    return frame if isinstance(frame, nw.DataFrame | nw.Series) else None


def index_names(frame: Any) -> tuple[str, ...] | None:
    """Return the index of a narwhals frame or series as names; None for a default index."""
    index = nw.maybe_get_index(frame)
    if index is None:
        return None
    names = tuple(str(name) for name in index)
    return None if names == tuple(map(str, range(len(names)))) else names


def row_names(data: Any, name: str) -> tuple[tuple[str, ...] | None, str | None]:
    """Return the index of a data frame or series as names, and its library; None for other data."""
    frame = as_frame(data, name, allow_series=True)
    return (None, None) if frame is None else (index_names(frame), frame.implementation.value)


def new_frame(columns: Mapping[str, Any], backend: str | None = None) -> Any:
    """Return a data frame of the library `backend`; by default pandas if installed, else Arrow."""
    library: Any = backend or ("pandas" if find_spec("pandas") else "pyarrow")
    return nw.from_dict(columns, backend=library).to_native()


def like_given(
    data: Any, values: Any, labels: Sequence[str], *, samples_column: bool = True
) -> Any:
    """Return a matrix of `values` (samples x labels) in the container of `data`.

    A data frame gives a frame of the same library with the labels as columns, the same index and,
    with `samples_column`, the column ``sample``. Anything else gives the matrix.
    """
    frame = None if isinstance(data, np.ndarray) else as_frame(data, "data")
    if frame is None:
        return values
    is_named = samples_column and SAMPLE_COLUMN in frame.columns and SAMPLE_COLUMN not in labels
    native = frame.to_native()
    if nw.dependencies.is_pandas_like_dataframe(native):
        out = type(native)(values, index=native.index, columns=list(labels))
        if is_named:
            out.insert(0, SAMPLE_COLUMN, native[SAMPLE_COLUMN])
        return out
    columns: dict[str, Any] = {SAMPLE_COLUMN: frame[SAMPLE_COLUMN]} if is_named else {}
    columns |= {label: values[:, i] for i, label in enumerate(labels)}
    return nw.from_dict(columns, backend=frame.implementation).to_native()


# -- lists of labels ----------------------------------------------------------------------------


def sample_labels(data: Any) -> SampleLabels | None:
    """Return the labels of each sample, and the names of the samples; None for other data.

    Accepts lists, tuples, series and object arrays of strings, lists, tuples or sets; arrays of
    strings with one row per sample; and mappings of sample to labels.
    """
    samples = backend = None
    if isinstance(data, Mapping):
        return list(data.values()), tuple(map(str, data)), None
    if isinstance(data, np.ndarray):
        if data.dtype.kind not in "OUT" or data.ndim not in (1, 2):
            return None
        data = data.tolist()
    elif not isinstance(data, list | tuple):
        series = as_frame(data, "truth", allow_series=True)
        if not isinstance(series, nw.Series):
            return None
        data, samples, backend = series.to_list(), *row_names(data, "truth")
    rows = list(data)
    # The first row that is not empty decides; without one, all rows must be collections.
    first = next((row for row in rows if not _is_empty(row)), None)
    if first is None:
        is_labels = bool(rows) and all(isinstance(row, list | tuple | set) for row in rows)
    elif isinstance(first, np.ndarray):
        is_labels = first.dtype.kind in "OUT"
    elif isinstance(first, list | tuple):
        is_labels = any(isinstance(item, str) for item in first)
    else:
        is_labels = isinstance(first, str | set | frozenset)
    return (rows, samples, backend) if is_labels else None


def _is_empty(row: Any) -> bool:
    is_collection = isinstance(row, list | tuple | set | frozenset)
    return row is None or isinstance(row, float) or (is_collection and not row)


def label_matrix(
    rows: list[Any], labels: Hierarchy | Sequence[str] | None, *, name: str
) -> tuple[sparse.csr_array, tuple[str, ...]]:
    """Return a matrix with 1 where a sample has a label, and the labels of its columns.

    Without `labels`, the columns are the labels that occur, sorted.
    """
    names = labels.labels if isinstance(labels, Hierarchy) else labels
    texts = [_labels_of(row, i, name) for i, row in enumerate(rows)]
    if names is None:
        names = sorted({text for row in texts for text in row})
    column = {label: i for i, label in enumerate(names)}
    unknown = [(text, i) for i, row in enumerate(texts) for text in row if text not in column]
    if unknown:
        first, sample = unknown[0]
        given = list(dict(unknown))
        raise DataError(
            f"{name} names {len(given):,} label(s) that the hierarchy does not have: "
            f"{quote_names(given)}; the first in sample {sample}.\n"
            f"Hint: {_unknown_label_hint(first, column)}"
        )
    held = [sorted({column[text] for text in row}) for row in texts]
    ptr = np.cumsum([0, *map(len, held)])
    index = np.array([at for row in held for at in row], dtype=np.int32)
    matrix = sparse.csr_array((np.ones(index.size), index, ptr), shape=(len(held), len(column)))
    return matrix, tuple(names)


def _labels_of(row: Any, sample: int, name: str) -> list[str]:
    """Return the labels of one sample; empty values, which fill rows of a table, are skipped."""
    if isinstance(row, str):
        row = [row]
    elif not isinstance(row, list | tuple | set | frozenset | np.ndarray):
        raise DataError(
            f"{name}: sample {sample} has {row!r}, where the labels of a sample are expected.\n"
            "Hint: give a list of labels for each sample; an empty list if it has none."
        )
    labels = [x for x in row if not (x is None or x == "" or (isinstance(x, float) and x != x))]
    for item in labels:
        if not isinstance(item, str):
            raise DataError(
                f"{name}: sample {sample} has the label {item!r} ({type(item).__name__}), but "
                "labels are strings.\nHint: convert them with str()."
            )
    return [str(item) for item in labels]


def _unknown_label_hint(text: str, known: Mapping[str, int]) -> str:
    for sep in _LIST_SEPARATORS:
        parts = [part for part in text.split(sep) if part]
        if len(parts) > 1 and all(part.strip() in known for part in parts):
            shown = sep if all(part.strip() == part for part in parts) else f"{sep} "
            return f"{text!r} is several labels: give lists, [x.split({shown!r}) for x in truth]."
    return nearest(text, known) or "the labels are those of hierarchy.labels."
