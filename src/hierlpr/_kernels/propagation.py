"""Scores made consistent along the edges: maxima upward, minima downward."""

from hierlpr._kernels._arrays import Floats2, Index
from hierlpr._kernels._jit import kernel

__all__ = ["max_up", "min_down"]


@kernel
def max_up(values: Floats2, parent_ptr: Index, parent_idx: Index) -> None:
    """Raise every label to its highest descendant, in place; columns in topological order."""
    n_samples, n_labels = values.shape
    for m in range(n_samples):
        # Invariant: every label after k has its final value, as children have larger numbers.
        for k in range(n_labels - 1, -1, -1):
            for e in range(parent_ptr[k], parent_ptr[k + 1]):
                if values[m, k] > values[m, parent_idx[e]]:
                    values[m, parent_idx[e]] = values[m, k]


@kernel
def min_down(values: Floats2, parent_ptr: Index, parent_idx: Index) -> None:
    """Lower every label to its lowest ancestor, in place; columns in topological order."""
    n_samples, n_labels = values.shape
    for m in range(n_samples):
        # Invariant: every label before k has its final value.
        for k in range(n_labels):
            for e in range(parent_ptr[k], parent_ptr[k + 1]):
                if values[m, parent_idx[e]] < values[m, k]:
                    values[m, k] = values[m, parent_idx[e]]
