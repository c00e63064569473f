"""Block merging on DAGs: all samples, each reduced to a forest whose blocks are its own."""

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._jit import kernel
from hierlpr._kernels.block_order import order_block
from hierlpr._kernels.forest_blocks import forest_blocks
from hierlpr._kernels.ideals import TABLE_BITS
from hierlpr._kernels.keys import SIZE_BITS, pack
from hierlpr._kernels.partition import partition
from hierlpr._kernels.tied_order import join_ties

__all__ = ["dag_blocks"]


@kernel
def dag_blocks(
    values: NDArray[np.float64],
    row_ptr: NDArray[np.int64],
    slot: NDArray[np.int32],
    parent_ptr: NDArray[np.int64],
    parent_idx: NDArray[np.int32],
    shared: bool,
    scale: float,
    start: int,
    stop: int,
    node_of: NDArray[np.int32],
    node_bits: int,
    sample_bits: int,
    state_cap: int,
    next_node: NDArray[np.int32],
    keys: NDArray[np.uint64],
    score: NDArray[np.float64],
) -> tuple[int, NDArray[np.int64], NDArray[np.float64]]:
    """Merge the labels of samples ``start`` to ``stop`` into blocks; see `forest_blocks`.

    The parents of node ``i`` of sample ``m`` are ``parent_idx[parent_ptr[base + i]:...]`` with
    ``base`` 0 if all samples share one DAG, else ``row_ptr[m]``. Writes what `forest_blocks`
    writes. Returns the number of keys, and of each block whose order is not certified the place
    ``row_ptr[m] + i`` of its first node and how much area, in grid steps, it may lack.

    A block that is no tree, once put in order, is merged as a path: as no closed part of it has
    a larger mean, the path becomes one block again, and forests and DAGs share what follows.
    """
    width = 0
    for m in range(start, stop):
        width = max(width, row_ptr[m + 1] - row_ptr[m])
    value = np.empty(width, np.int64)
    path_value = np.empty(width)
    node_at = np.empty(width, np.int32)
    parent = np.empty(width, np.int32)
    hard = np.empty(width, np.int32)
    hard_ptr = np.empty(width + 2, np.int64)
    exact = np.empty(width + 1, np.bool_)
    lack = np.zeros(width)
    index = np.zeros(width, np.int32)  # place in its block; stale for others, so look twice
    identity = np.arange(width).astype(np.int32)
    path_next = np.empty(width, np.int32)
    path_keys = np.empty(width, np.uint64)
    path_score = np.empty(width if score.size > 0 else 0)
    block = np.empty(width, np.int32)
    head = np.empty(width, np.int32)
    tail = np.empty(width, np.int32)
    count = np.empty(width, np.int32)
    mean = np.empty(width)
    mean_bits = mean.view(np.int64)
    table = np.full(1 << TABLE_BITS, -1, np.int32)
    whole = np.zeros(2, np.int64)
    open_place = np.empty(16, np.int64)
    open_lack = np.empty(16)
    n_open = 0
    first_key = row_ptr[start]
    n_keys = 0

    for m in range(start, stop):
        row = row_ptr[m]
        n = row_ptr[m + 1] - row
        base = 0 if shared else row
        edge = parent_ptr[base]
        up_ptr = parent_ptr[base : base + n + 1] - edge
        up_idx = parent_idx[edge : edge + up_ptr[n]]
        for i in range(n):
            value[i] = np.int64(np.rint(values[row + slot[i]] * scale))
            node_at[i] = i
        n_hard = partition(value[:n], up_ptr, up_idx, parent, hard, hard_ptr, exact)
        for b in range(n_hard):
            begin = hard_ptr[b]
            size = hard_ptr[b + 1] - begin
            nodes = hard[begin : begin + size]
            if score.size == 0:
                for k in range(size):
                    index[nodes[k]] = k
                local_value = np.empty(size, np.int64)
                local_ptr = np.zeros(size + 1, np.int64)
                n_edges = 0
                for k in range(size):
                    i = nodes[k]
                    local_value[k] = value[i]
                    n_edges += up_ptr[i + 1] - up_ptr[i]
                local_idx = np.empty(n_edges, np.int32)
                n_edges = 0
                for k in range(size):
                    i = nodes[k]
                    for e in range(up_ptr[i], up_ptr[i + 1]):
                        p = up_idx[e]
                        q = index[p]
                        if 0 <= q < size and nodes[q] == p:
                            local_idx[n_edges] = q
                            n_edges += 1
                    local_ptr[k + 1] = n_edges
                order = np.empty(size, np.int32)
                missing = order_block(
                    local_value, local_ptr, local_idx[:n_edges], state_cap, table, order
                )
                if not exact[b]:
                    missing = np.inf
                for k in range(size):
                    node_at[nodes[k]] = nodes[order[k]]
                lack[nodes[order[0]]] = missing
            for k in range(1, size):
                parent[nodes[k]] = nodes[k - 1]
        for i in range(n):
            path_value[i] = value[node_at[i]]
        whole[1] = n
        n_blocks = forest_blocks(
            path_value, whole, identity, parent, True, 1.0, 0, 1, identity, node_bits, 0,
            path_next, path_keys, path_score,
        )  # fmt: skip
        if score.size > 0:
            for i in range(n):
                score[row + slot[i]] = path_score[i] / scale
            continue
        for b in range(n_blocks):
            at = (np.int64(path_keys[b]) >> SIZE_BITS) & ((1 << node_bits) - 1)
            head[b] = node_at[at]
            total = 0.0
            count[b] = 0
            while at >= 0:
                i = node_at[at]
                block[i] = b
                tail[b] = i
                total += value[i]
                count[b] += 1
                at = path_next[at]
                next_node[row + i] = node_at[at] if at >= 0 else -1
            mean[b] = total / count[b]
        n_blocks = join_ties(
            up_ptr, up_idx, n_blocks, block, head, tail, count, mean, next_node[row : row + n], lack
        )
        for b in range(n_blocks):
            i = head[b]
            node = node_of[row + i] if node_of.size > 0 else i
            keys[first_key + n_keys] = pack(mean_bits[b], node, m, count[b], node_bits, sample_bits)
            n_keys += 1
            if lack[i] > 0.0:
                if n_open == open_lack.size:
                    open_place = np.concatenate((open_place, np.empty_like(open_place)))
                    open_lack = np.concatenate((open_lack, np.empty_like(open_lack)))
                open_place[n_open] = row + i
                open_lack[n_open] = lack[i]
                n_open += 1
                lack[i] = 0.0
        for b in range(n_hard):
            for k in range(hard_ptr[b], hard_ptr[b + 1]):
                lack[hard[k]] = 0.0
    return n_keys, open_place[:n_open], open_lack[:n_open]
