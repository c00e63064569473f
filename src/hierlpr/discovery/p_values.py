"""p-values as users have them -> one array in label order, NaN where there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_real_array, listed
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

__all__ = ["LABEL_COLUMN", "P_COLUMN", "align_p_values"]

Float = NDArray[np.float64]

LABEL_COLUMN = "label"
P_COLUMN = "p"


def align_p_values(data: Any, hierarchy: Hierarchy) -> Float:
    """Bring p-values to the order of ``hierarchy.labels``; NaN where a label has none.

    Parameters
    ----------
    data : array-like of shape (n_labels,), mapping, pandas Series or data frame
        An array follows ``hierarchy.labels``, with NaN for missing. A mapping or a Series goes by
        label, a data frame by its columns ``label`` and ``p``; labels they leave out, and None or
        NaN, are missing.

    Raises
    ------
    DataError
        For a wrong length, unknown or repeated labels, text, values outside [0, 1], and if no
        label has a p-value.
    """
    if isinstance(data, Mapping):
        values = _by_label(list(data.keys()), list(data.values()), hierarchy)
    elif (named := _named_series(data)) is not None:
        values = _by_label(*named, hierarchy)
    elif (columns := _frame_columns(data)) is not None:
        values = _by_label(*columns, hierarchy)
    else:
        values = check_real_array(data, name="p_values")
        if values.shape != (hierarchy.n_labels,):
            raise DataError(
                f"p_values has shape {values.shape}, but the hierarchy has "
                f"{hierarchy.n_labels:,} labels: expected one p-value for each of them.\n"
                "Hint: an array follows hierarchy.labels, with NaN for missing p-values; a dict "
                "or a data frame with columns label and p goes by name."
            )
    _check_range(values, hierarchy.labels)
    return values


def _named_series(data: Any) -> tuple[list[Any], list[Any]] | None:
    """Names and values of a pandas Series that is indexed by text."""
    index = getattr(data, "index", None)
    if index is None or callable(index) or not hasattr(data, "to_numpy") or data.ndim != 1:
        return None
    names = list(index)
    return (names, list(data)) if names and isinstance(names[0], str) else None


def _frame_columns(data: Any) -> tuple[list[Any], list[Any]] | None:
    """Return the columns label and p of a data frame of any library, or None if it is none."""
    if isinstance(data, np.ndarray | list | tuple):
        return None
    import narwhals.stable.v1 as nw

    frame = nw.from_native(data, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        return None
    absent = [name for name in (LABEL_COLUMN, P_COLUMN) if name not in frame.columns]
    if absent:
        raise DataError(
            f"p_values has no column {listed(absent)}; it has {listed(frame.columns)}.\n"
            "Hint: a data frame needs the columns label and p; rename yours."
        )
    return frame[LABEL_COLUMN].to_list(), frame[P_COLUMN].to_list()


def _by_label(names: Sequence[Any], given: Sequence[Any], hierarchy: Hierarchy) -> Float:
    unknown = [name for name in names if name not in hierarchy]
    if unknown:
        raise DataError(
            f"p_values has {len(unknown):,} label(s) that the hierarchy does not have: "
            f"{listed(unknown)}.\nHint: leave them out, or add them to the hierarchy."
        )
    place = np.array([hierarchy.index(name) for name in names], dtype=np.intp)
    if np.unique(place).size != place.size:
        count = np.bincount(place)
        repeated = [hierarchy.labels[k] for k in np.flatnonzero(count > 1)]
        raise DataError(
            f"p_values has {len(repeated):,} label(s) more than once: {listed(repeated)}.\n"
            "Hint: give one p-value a label."
        )
    values = np.full(hierarchy.n_labels, np.nan)
    for at, name, value in zip(place.tolist(), names, given, strict=True):
        if value is None:
            continue
        if isinstance(value, bool | str | complex):
            raise DataError(f"The p-value of label {name!r} is {value!r}, which is no number.")
        try:
            values[at] = float(value)
        except (TypeError, ValueError):
            if str(value) in ("<NA>", "NaT"):  # how pandas spells a missing value
                continue
            raise DataError(
                f"The p-value of label {name!r} is {value!r}, which is no number."
            ) from None
    return values


def _check_range(values: Float, labels: Sequence[str]) -> None:
    bad = np.flatnonzero((values < 0.0) | (values > 1.0))
    if bad.size:
        raise DataError(
            f"p_values has a value outside [0, 1]: {values[bad[0]]} at label {labels[bad[0]]!r} "
            f"({bad.size:,} such {'value' if bad.size == 1 else 'values'}).\n"
            "Hint: give p-values, not test statistics or their logarithms."
        )
    if np.isnan(values).all():
        raise DataError("p_values has no p-value: every one is missing.")
