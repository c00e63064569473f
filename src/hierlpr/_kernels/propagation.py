"""Scores made consistent along the edges: maxima upward, minima downward, pooled blocks."""

import numpy as np

from hierlpr._kernels._arrays import Floats2, Index
from hierlpr._kernels._jit import kernel

__all__ = ["gpav_rows", "max_up", "min_down"]


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


@kernel
def gpav_rows(values: Floats2, child_ptr: Index, child_idx: Index) -> None:
    """Replace each row by means over blocks, children never above parents; topological columns.

    Generalized pooled adjacent violators: an approximate isotonic regression on DAGs.
    Labels join from the bottom up. A new block takes in, one after another, the highest of the
    blocks right below it as long as that is higher than itself. Exact on forests.
    O(labels x edges) at worst.
    """
    n_samples, n_labels = values.shape
    block = np.empty(n_labels, np.int64)  # name of the block of each label
    total = np.empty(n_labels)
    size = np.empty(n_labels, np.int64)
    last = np.empty(n_labels, np.int64)  # labels of a block form a linked list
    following = np.empty(n_labels, np.int64)
    for m in range(n_samples):
        # Invariant: blocks of labels after k respect every edge among them.
        for k in range(n_labels - 1, -1, -1):
            block[k] = k
            total[k] = values[m, k]
            size[k] = 1
            last[k] = k
            following[k] = -1
            while True:
                highest = total[k] / size[k]
                found = -1
                j = k
                while j >= 0:
                    for e in range(child_ptr[j], child_ptr[j + 1]):
                        b = block[child_idx[e]]
                        if b != k and total[b] / size[b] > highest:
                            highest = total[b] / size[b]
                            found = b
                    j = following[j]
                if found < 0:
                    break
                j = found
                while j >= 0:
                    block[j] = k
                    j = following[j]
                following[last[k]] = found
                last[k] = last[found]
                total[k] += total[found]
                size[k] += size[found]
        for k in range(n_labels):
            values[m, k] = total[block[k]] / size[block[k]]
