"""Scores made consistent along the edges: maxima upward, minima downward."""

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._jit import kernel

__all__ = ["max_up", "max_up_rows", "min_down"]


@kernel
def max_up(
    values: NDArray[np.float64], parent_ptr: NDArray[np.int32], parent_idx: NDArray[np.int32]
) -> None:
    """Raise every label to its highest descendant, in place; columns in topological order."""
    n_samples, n_labels = values.shape
    for m in range(n_samples):
        # Invariant: every label after k has its final value, as children have larger numbers.
        for k in range(n_labels - 1, -1, -1):
            for e in range(parent_ptr[k], parent_ptr[k + 1]):
                if values[m, k] > values[m, parent_idx[e]]:
                    values[m, parent_idx[e]] = values[m, k]


@kernel
def min_down(
    values: NDArray[np.float64], parent_ptr: NDArray[np.int32], parent_idx: NDArray[np.int32]
) -> None:
    """Lower every label to its lowest ancestor, in place; columns in topological order."""
    n_samples, n_labels = values.shape
    for m in range(n_samples):
        # Invariant: every label before k has its final value.
        for k in range(n_labels):
            for e in range(parent_ptr[k], parent_ptr[k + 1]):
                if values[m, parent_idx[e]] < values[m, k]:
                    values[m, k] = values[m, parent_idx[e]]


@kernel
def max_up_rows(
    row_ptr: NDArray[np.int64],
    nodes: NDArray[np.int32],
    values: NDArray[np.float64],
    parent_ptr: NDArray[np.int32],
    parent_idx: NDArray[np.int32],
) -> None:
    """`max_up` in place on sparse rows closed upward; numbers ascend within a row."""
    place = np.empty(parent_ptr.size - 1, np.int64)
    for m in range(row_ptr.size - 1):
        for at in range(row_ptr[m], row_ptr[m + 1]):
            place[nodes[at]] = at
        for at in range(row_ptr[m + 1] - 1, row_ptr[m] - 1, -1):
            k = nodes[at]
            for e in range(parent_ptr[k], parent_ptr[k + 1]):
                above = place[parent_idx[e]]
                if values[at] > values[above]:
                    values[above] = values[at]
