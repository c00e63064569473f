"""Components of directed graphs."""

import numpy as np

from hierlpr._kernels._arrays import Int32s
from hierlpr._kernels._jit import kernel


@kernel
def weak_components(n: int, tails: Int32s, heads: Int32s) -> Int32s:
    """Return of each of `n` nodes the smallest node that edges in any direction lead to."""
    root = np.arange(n).astype(np.int32)
    for e in range(tails.size):
        a = tails[e]
        b = heads[e]
        while root[a] != a:
            root[a] = root[root[a]]  # halves the path, so that all take almost linear time
            a = root[a]
        while root[b] != b:
            root[b] = root[root[b]]
            b = root[b]
        root[max(a, b)] = min(a, b)
    for i in range(n):
        root[i] = root[root[i]]  # roots are smaller, so final already
    return root


@kernel
def strong_components(n: int, tails: Int32s, heads: Int32s) -> Int32s:
    """Return of each of `n` nodes a number of its strongly connected component.

    Tarjan (1972), with a stack of its own instead of recursion. O(nodes + edges).
    """
    ptr = np.zeros(n + 1, np.int64)
    for e in range(tails.size):
        ptr[tails[e] + 1] += 1
    for i in range(n):
        ptr[i + 1] += ptr[i]
    idx = np.empty(tails.size, np.int32)
    at = ptr[:n].copy()
    for e in range(tails.size):
        idx[at[tails[e]]] = heads[e]
        at[tails[e]] += 1

    component = np.full(n, -1, np.int32)
    visited = np.full(n, -1, np.int32)  # order of the first visits
    lowest = np.empty(n, np.int32)  # earliest visit that is reached from here
    at[:] = ptr[:n]  # next edge to follow
    path = np.empty(n, np.int32)  # from the start of the search to the current node
    pending = np.empty(n, np.int32)  # nodes visited whose component is not complete
    n_visited = n_pending = n_components = 0
    for start in range(n):
        if visited[start] >= 0:
            continue
        depth = 0
        path[0] = start
        while depth >= 0:
            v = path[depth]
            if visited[v] < 0:
                visited[v] = lowest[v] = n_visited
                n_visited += 1
                pending[n_pending] = v
                n_pending += 1
            if at[v] < ptr[v + 1]:
                w = idx[at[v]]
                if visited[w] < 0:
                    depth += 1  # comes back to this edge, which then updates `lowest`
                    path[depth] = w
                else:
                    at[v] += 1
                    if component[w] < 0:
                        lowest[v] = min(lowest[v], lowest[w])
                continue
            depth -= 1
            if lowest[v] == visited[v]:
                while component[v] < 0:
                    n_pending -= 1
                    component[pending[n_pending]] = n_components
                n_components += 1
    return component
