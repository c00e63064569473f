"""What people give: data frames of any library, and the labels of samples in lists, sets or texts.

Of frames the names of their rows are kept, and results come in the frame's own kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import listed, nearest
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

if TYPE_CHECKING:
    from scipy import sparse

SAMPLE_COLUMN = "sample"
PATH_SEP = "/"
_JOINTS = (";", "|", ",", "\t")  # between labels in one text, as tables of others have it


def as_frame(data: Any, name: str) -> Any:
    """Return a narwhals data frame, or None if `data` is something else."""
    if isinstance(data, np.ndarray | list | tuple):
        return None
    import narwhals.stable.v1 as nw

    try:
        frame = nw.from_native(data, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"{name} has repeated columns. {error}") from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    return frame if isinstance(frame, nw.DataFrame) else None


def index_names(frame: Any) -> tuple[str, ...] | None:
    """Names of the rows by the index of a narwhals frame or series; None if it only counts them."""
    import narwhals.stable.v1 as nw

    index = nw.maybe_get_index(frame)
    if index is None or (type(index).__name__ == "RangeIndex" and index.start == 0):
        return None
    return tuple(str(name) for name in index)


def row_names(data: Any, name: str = "data") -> tuple[str, ...] | None:
    """Names of the rows of any data by the index of a frame, None where there are none."""
    frame = as_frame(data, name)
    return None if frame is None else index_names(frame)


def new_frame(columns: Mapping[str, Any], backend: str | None = None) -> Any:
    """Return a data frame of the library named, or of pandas if it is installed, else of Arrow."""
    from importlib.util import find_spec

    import narwhals.stable.v1 as nw

    library: Any = backend or ("pandas" if find_spec("pandas") else "pyarrow")
    return nw.from_dict(columns, backend=library).to_native()


def like_given(
    data: Any, values: NDArray[Any], labels: Sequence[str], *, samples_column: bool = True
) -> Any:
    """Return `values` (samples x labels) in the container of `data`.

    A frame comes back as a frame of the same library with the labels as columns, with the index
    and, unless told otherwise, the column ``sample`` that `data` has; an array for anything else.
    """
    frame = None if isinstance(data, np.ndarray) else as_frame(data, "data")
    if frame is None:
        return values
    import narwhals.stable.v1 as nw

    named = samples_column and SAMPLE_COLUMN in frame.columns and SAMPLE_COLUMN not in labels
    native = frame.to_native()
    if nw.dependencies.is_pandas_like_dataframe(native):
        out = type(native)(values, index=native.index, columns=list(labels))
        if named:
            out.insert(0, SAMPLE_COLUMN, native[SAMPLE_COLUMN])
        return out
    columns: dict[str, Any] = {SAMPLE_COLUMN: frame[SAMPLE_COLUMN]} if named else {}
    for place, label in enumerate(labels):
        columns[label] = values[:, place]
    return nw.from_dict(columns, backend=frame.implementation).to_native()


# -- labels as people list them -----------------------------------------------------------------


class SampleLabels(NamedTuple):
    """The labels of every sample as they were given, and the names of the samples if they have any.

    `rows` holds a text (one label) or a collection of texts a sample.
    """

    rows: list[Any]
    samples: tuple[str, ...] | None


def sample_labels(data: Any) -> SampleLabels | None:
    """Return labels listed sample by sample, or None if `data` is something else.

    Lists, tuples, Series and object arrays of texts, lists, tuples or sets; arrays of text with a
    row for each sample; and mappings of sample to labels.
    """
    if isinstance(data, Mapping):
        return SampleLabels(list(data.values()), tuple(str(name) for name in data))
    samples = None
    if isinstance(data, np.ndarray):
        if data.dtype.kind not in "OUT" or data.ndim not in (1, 2):
            return None
        data = data.tolist()
    elif not isinstance(data, list | tuple):
        series = _as_series(data)
        if series is None:
            return None
        data, samples = series
    rows = list(data)
    first = next((row for row in rows if not _is_empty(row)), None)
    if first is None:
        lists = bool(rows) and all(isinstance(row, list | tuple | set | frozenset) for row in rows)
        return SampleLabels(rows, samples) if lists else None
    return SampleLabels(rows, samples) if _is_labels(first) else None


def label_matrix(
    given: SampleLabels, labels: Hierarchy | Sequence[str] | None, *, name: str
) -> tuple[sparse.csr_array, tuple[str, ...]]:
    """Return a matrix with 1 where a sample has a label, and the labels of its columns.

    Without `labels` they are those that occur, sorted. A path such as ``"A/B"`` that is no label
    itself, but a path of labels down the hierarchy, stands for all labels on it.
    """
    from scipy import sparse

    names = labels.labels if isinstance(labels, Hierarchy) else labels
    rows = [_texts(row, at, name) for at, row in enumerate(given.rows)]
    if names is None:
        names = sorted({text for row in rows for text in row})
    column = {label: place for place, label in enumerate(names)}
    graph = labels if isinstance(labels, Hierarchy) else None
    known: dict[str, tuple[int, ...]] = {}
    unknown: dict[str, int] = {}  # text: the first sample that has it
    held: list[list[int]] = []
    for at, row in enumerate(rows):
        found: set[int] = set()
        for text in row:
            if text not in known:
                known[text] = _columns_of(text, column, graph)
                if not known[text]:
                    unknown[text] = at
            found.update(known[text])
        held.append(sorted(found))
    if unknown:
        raise _unknown(unknown, column, name)
    ptr = np.cumsum([0, *map(len, held)])
    index = np.array([place for row in held for place in row], dtype=np.int32)
    matrix = sparse.csr_array((np.ones(index.size), index, ptr), shape=(len(held), len(column)))
    return matrix, tuple(names)


def _as_series(data: Any) -> tuple[list[Any], tuple[str, ...] | None] | None:
    import narwhals.stable.v1 as nw

    series = nw.from_native(data, allow_series=True, pass_through=True)
    if not isinstance(series, nw.Series):
        return None
    return series.to_list(), index_names(series)


def _is_empty(row: Any) -> bool:
    """Whether nothing in `row` tells what the rows are."""
    if row is None or isinstance(row, float):
        return True
    return isinstance(row, list | tuple | set | frozenset) and not row


def _is_labels(row: Any) -> bool:
    if isinstance(row, str | set | frozenset):
        return True
    if isinstance(row, np.ndarray):
        return row.dtype.kind in "OUT"
    return isinstance(row, list | tuple) and any(isinstance(item, str) for item in row)


def _texts(row: Any, at: int, name: str) -> list[str]:
    """Return the labels of one sample; what is empty in a row of an array is no label."""
    items: Iterable[Any]
    if isinstance(row, str):
        items = [row]
    elif isinstance(row, list | tuple | set | frozenset | np.ndarray):
        items = row
    else:
        raise DataError(
            f"{name}: sample {at} has {row!r}, where the labels of a sample are expected.\n"
            "Hint: a list of labels for each sample; an empty list if it has none."
        )
    texts = []
    for item in items:
        if item is None or (isinstance(item, float) and np.isnan(item)) or item == "":
            continue  # short paths in a table of texts are filled up so
        if not isinstance(item, str):
            raise DataError(
                f"{name}: sample {at} has the label {item!r} ({type(item).__name__}), but labels "
                "are texts.\nHint: convert them with str()."
            )
        texts.append(str(item))
    return texts


def _columns_of(text: str, column: Mapping[str, int], graph: Hierarchy | None) -> tuple[int, ...]:
    if text in column:
        return (column[text],)
    if graph is None or PATH_SEP not in text:
        return ()
    steps = text.split(PATH_SEP)
    if any(step not in column for step in steps):
        return ()
    if any(above not in graph.parents(below) for above, below in pairwise(steps)):
        return ()
    return tuple(column[step] for step in steps)


def _unknown(unknown: Mapping[str, int], column: Mapping[str, int], name: str) -> DataError:
    first, at = next(iter(unknown.items()))
    meant = _joined(first, column) or nearest(first, column)
    meant = meant or "the labels are those of hierarchy.labels."
    return DataError(
        f"{name} names {len(unknown):,} label(s) that the hierarchy does not have: "
        f"{listed(list(unknown))}; the first in sample {at}.\nHint: {meant}"
    )


def _joined(text: str, column: Mapping[str, int]) -> str:
    """Say how to take apart a text that holds several labels, as a column of a table often does."""
    for sep in _JOINTS:
        parts = [part for part in text.split(sep) if part]
        if len(parts) > 1 and all(part.strip() in column for part in parts):
            shown = sep if all(part.strip() == part for part in parts) else f"{sep} "
            return (
                f"{text!r} holds several labels: give lists, "
                f"[text.split({shown!r}) for text in truth]."
            )
    return ""
