"""Data frames of any library: their rows' names, and results in the frame's own kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.exceptions import DataError

SAMPLE_COLUMN = "sample"


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
