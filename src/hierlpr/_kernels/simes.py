"""Simes' p-value of every node with all its descendants."""

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._jit import kernel

__all__ = ["simes_below"]


@kernel
def simes_below(
    p: NDArray[np.float64],
    rising: NDArray[np.intp],
    parent_ptr: NDArray[np.int32],
    parent_idx: NDArray[np.int32],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Simes' p-value of each node and the number of p-values it combines.

    `rising` lists the nodes that have a p-value, by rising p-value. Each one in turn is counted at
    itself and at all its ancestors: when it is the k-th at a node, it is that node's k-th smallest
    p-value. Time is that of visiting the ancestors of every node; memory is O(nodes).
    """
    n = p.size
    least = np.full(n, np.inf)  # min over k of the k-th smallest p-value over k
    count = np.zeros(n, np.int64)
    seen = np.full(n, -1, np.int64)
    stack = np.empty(n, np.int64)
    for node in rising:
        height = 1
        stack[0] = node
        seen[node] = node
        while height > 0:
            height -= 1
            at = stack[height]
            count[at] += 1
            share = p[node] / count[at]
            if share < least[at]:
                least[at] = share
            for k in range(parent_ptr[at], parent_ptr[at + 1]):
                above = parent_idx[k]
                if seen[above] != node:
                    seen[above] = node
                    stack[height] = above
                    height += 1
    return least * count, count
