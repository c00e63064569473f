"""Labels of samples closed upward: dense matrices, sparse rows, data frames."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import listed
from hierlpr.exceptions import DataError
from hierlpr.hierarchy.label_graph import Hierarchy

__all__ = ["close_dense", "close_frame", "close_rows"]


def close_dense(hierarchy: Hierarchy, truth: NDArray[Any]) -> NDArray[np.bool_]:
    """Add all ancestors to a matrix whose columns are ``hierarchy.labels``, whatever it holds."""
    from hierlpr._kernels import traversal

    numbered = np.ascontiguousarray(truth[:, hierarchy.order] != 0)
    traversal.close_dense(numbered, hierarchy.parent_ptr, hierarchy.parent_idx)
    return numbered[:, hierarchy.position]


def close_rows(
    hierarchy: Hierarchy, row_ptr: NDArray[Any], numbers: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Add all ancestors to sparse rows of topological numbers; they rise within a row."""
    from hierlpr._kernels import traversal

    return traversal.close_rows(
        np.asarray(row_ptr, np.int64), numbers, hierarchy.parent_ptr, hierarchy.parent_idx
    )


def close_frame(hierarchy: Hierarchy, truth: Any) -> Any:
    """Close the label columns of a data frame upward, found by name; other columns stay."""
    import narwhals.stable.v1 as nw

    frame = nw.from_native(truth, eager_only=True)
    missing = [label for label in hierarchy.labels if label not in frame.columns]
    if missing:
        raise DataError(f"truth: {len(missing):,} label(s) have no column: {listed(missing)}.")
    closed = close_dense(hierarchy, frame.select(hierarchy.labels).to_numpy())
    columns = {label: closed[:, place] for place, label in enumerate(hierarchy.labels)}
    native = frame.to_native()
    if nw.dependencies.is_pandas_like_dataframe(native):
        return native.assign(**columns)  # which keeps the index
    backend = frame.implementation
    series = (nw.new_series(k, v, nw.Boolean, backend=backend) for k, v in columns.items())
    return frame.with_columns(*series).to_native()
