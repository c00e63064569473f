"""Block merging on DAGs: all samples, each reduced to a forest whose blocks are its own.

Three kernels in a row, as small ones compile faster: part each sample into trees and other
blocks; put the other blocks in order; merge everything as a forest.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._jit import kernel
from hierlpr._kernels.block_order import order_block
from hierlpr._kernels.forest_blocks import forest_blocks
from hierlpr._kernels.ideals import TABLE_BITS
from hierlpr._kernels.keys import SIZE_BITS, pack
from hierlpr._kernels.partition import partition
from hierlpr._kernels.tied_order import join_ties

__all__ = ["Merged", "dag_blocks"]

BATCH = 1 << 20  # instances whose forests are held in memory at a time

Merged = tuple[int, NDArray[np.int64], NDArray[np.float64]]


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
) -> Merged:
    """Merge the labels of samples ``start`` to ``stop`` into blocks; see `forest_blocks`.

    The parents of node ``i`` of sample ``m`` are ``parent_idx[parent_ptr[base + i]:...]`` with
    ``base`` 0 if all samples share one DAG, else ``row_ptr[m]``. Writes what `forest_blocks`
    writes. Returns the number of keys, and of each block whose order is not certified the place
    ``row_ptr[m] + i`` of its first node and how much area, in grid steps, it may lack.
    """
    # Numba compiles anew for arrays that may be written to: let none of the inputs be.
    values, row_ptr, slot, parent_ptr, parent_idx, node_of = (
        _read_only(array) for array in (values, row_ptr, slot, parent_ptr, parent_idx, node_of)
    )
    dag = (values, row_ptr, slot, parent_ptr, parent_idx, shared, scale)
    first_key = int(row_ptr[start])
    n_keys = 0
    places, lacks = [], []
    while start < stop:
        end = int(np.searchsorted(row_ptr, row_ptr[start] + BATCH, side="right")) - 1
        end = min(stop, max(start + 1, end))
        parent, hard, hard_ptr, hard_sample, exact = part_rows(*dag, start, end)
        lack = np.zeros(exact.size)
        if score.size == 0 and exact.size > 0:
            order_rows(*dag, state_cap, hard, hard_ptr, hard_sample, exact, lack)
        count, place, missing = merge_rows(
            *dag, start, end, parent, hard, hard_ptr, hard_sample, lack, node_of, node_bits,
            sample_bits, first_key + n_keys, next_node, keys, score,
        )  # fmt: skip
        n_keys += count
        places.append(place)
        lacks.append(missing)
        start = end
    if not places:
        return 0, np.empty(0, np.int64), np.empty(0)
    return n_keys, np.concatenate(places), np.concatenate(lacks)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.setflags(write=False)
    return view


@kernel
def part_rows(
    values: NDArray[np.float64],
    row_ptr: NDArray[np.int64],
    slot: NDArray[np.int32],
    parent_ptr: NDArray[np.int64],
    parent_idx: NDArray[np.int32],
    shared: bool,
    scale: float,
    start: int,
    stop: int,
) -> tuple[
    NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]
]:
    """Part samples into trees and other blocks, see `partition`.

    Returns the only parent of each node that still matters, from ``row_ptr[start]`` on; and of
    the blocks that are no trees the nodes, as a CSR pair, the sample, and whether they are exact.
    """
    width = 0
    for m in range(start, stop):
        width = max(width, row_ptr[m + 1] - row_ptr[m])
    value = np.empty(width, np.int64)
    row_hard = np.empty(width, np.int32)
    row_hard_ptr = np.empty(width + 2, np.int64)
    row_exact = np.empty(width + 1, np.bool_)
    offset = row_ptr[start]
    parent = np.empty(row_ptr[stop] - offset, np.int32)
    hard = np.empty(64, np.int32)
    hard_ptr = np.zeros(64, np.int64)
    hard_sample = np.empty(64, np.int64)
    exact = np.empty(64, np.bool_)
    n_hard = 0
    n_nodes = 0
    for m in range(start, stop):
        row = row_ptr[m]
        n = row_ptr[m + 1] - row
        base = 0 if shared else row
        edge = parent_ptr[base]
        up_ptr = parent_ptr[base : base + n + 1] - edge
        up_idx = parent_idx[edge : edge + up_ptr[n]]
        for i in range(n):
            value[i] = np.int64(np.rint(values[row + slot[i]] * scale))
        found = partition(
            value[:n], up_ptr, up_idx, parent[row - offset : row - offset + n], row_hard,
            row_hard_ptr, row_exact,
        )  # fmt: skip
        while n_nodes + row_hard_ptr[found] > hard.size:
            hard = np.concatenate((hard, np.empty_like(hard)))
        while n_hard + found + 1 > hard_sample.size:
            hard_ptr = np.concatenate((hard_ptr, np.empty_like(hard_ptr)))
            hard_sample = np.concatenate((hard_sample, np.empty_like(hard_sample)))
            exact = np.concatenate((exact, np.empty_like(exact)))
        for b in range(found):
            hard_sample[n_hard] = m
            exact[n_hard] = row_exact[b]
            for k in range(row_hard_ptr[b], row_hard_ptr[b + 1]):
                hard[n_nodes] = row_hard[k]
                n_nodes += 1
            n_hard += 1
            hard_ptr[n_hard] = n_nodes
    return parent, hard[:n_nodes], hard_ptr[: n_hard + 1], hard_sample[:n_hard], exact[:n_hard]


@kernel
def order_rows(
    values: NDArray[np.float64],
    row_ptr: NDArray[np.int64],
    slot: NDArray[np.int32],
    parent_ptr: NDArray[np.int64],
    parent_idx: NDArray[np.int32],
    shared: bool,
    scale: float,
    state_cap: int,
    hard: NDArray[np.int32],
    hard_ptr: NDArray[np.int64],
    hard_sample: NDArray[np.int64],
    exact: NDArray[np.bool_],
    lack: NDArray[np.float64],
) -> None:
    """Put the nodes of each block in `hard` in order, in place, and write what it may lack."""
    width = 0
    for m in range(row_ptr.size - 1):
        width = max(width, row_ptr[m + 1] - row_ptr[m])
    index = np.zeros(width, np.int32)  # place in its block; stale for others, so look twice
    table = np.full(1 << TABLE_BITS, -1, np.int32)
    for b in range(hard_sample.size):
        nodes = hard[hard_ptr[b] : hard_ptr[b + 1]].copy()
        size = nodes.size
        m = hard_sample[b]
        row = row_ptr[m]
        base = 0 if shared else row
        value = np.empty(size, np.int64)
        n_edges = 0
        for k in range(size):
            i = nodes[k]
            index[i] = k
            value[k] = np.int64(np.rint(values[row + slot[i]] * scale))
            n_edges += parent_ptr[base + i + 1] - parent_ptr[base + i]
        up_ptr = np.zeros(size + 1, np.int64)
        up_idx = np.empty(n_edges, np.int32)
        n_edges = 0
        for k in range(size):
            i = nodes[k]
            for e in range(parent_ptr[base + i], parent_ptr[base + i + 1]):
                q = index[parent_idx[e]]
                if q < size and nodes[q] == parent_idx[e]:
                    up_idx[n_edges] = q
                    n_edges += 1
            up_ptr[k + 1] = n_edges
        order = np.empty(size, np.int32)
        lack[b] = order_block(value, up_ptr, up_idx[:n_edges].copy(), state_cap, table, order)
        if not exact[b]:
            lack[b] = np.inf
        for k in range(size):
            hard[hard_ptr[b] + k] = nodes[order[k]]


@kernel
def merge_rows(
    values: NDArray[np.float64],
    row_ptr: NDArray[np.int64],
    slot: NDArray[np.int32],
    parent_ptr: NDArray[np.int64],
    parent_idx: NDArray[np.int32],
    shared: bool,
    scale: float,
    start: int,
    stop: int,
    forest: NDArray[np.int32],
    hard: NDArray[np.int32],
    hard_ptr: NDArray[np.int64],
    hard_sample: NDArray[np.int64],
    hard_lack: NDArray[np.float64],
    node_of: NDArray[np.int32],
    node_bits: int,
    sample_bits: int,
    first_key: int,
    next_node: NDArray[np.int32],
    keys: NDArray[np.uint64],
    score: NDArray[np.float64],
) -> tuple[int, NDArray[np.int64], NDArray[np.float64]]:
    """Merge the forests found into blocks, write keys and links or else scores.

    A block that is no tree is merged as a path in its calling order: as no closed part of it has
    a larger mean, the path becomes one block again, and forests and DAGs share what follows.
    """
    width = 0
    for m in range(start, stop):
        width = max(width, row_ptr[m + 1] - row_ptr[m])
    value = np.empty(width)
    node_at = np.empty(width, np.int32)
    parent = np.empty(width, np.int32)
    lack = np.zeros(width)
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
    whole = np.zeros(2, np.int64)
    open_place = np.empty(16, np.int64)
    open_lack = np.empty(16)
    n_open = 0
    n_keys = 0
    b_hard = 0
    for m in range(start, stop):
        row = row_ptr[m]
        n = row_ptr[m + 1] - row
        for i in range(n):
            node_at[i] = i
            parent[i] = forest[row - row_ptr[start] + i]
        first_hard = b_hard
        while b_hard < hard_sample.size and hard_sample[b_hard] == m:
            # The block's nodes, sorted, are the places of its path; nodes take them in order.
            nodes = np.sort(hard[hard_ptr[b_hard] : hard_ptr[b_hard + 1]])
            for k in range(nodes.size):
                node_at[nodes[k]] = hard[hard_ptr[b_hard] + k]
                parent[nodes[k]] = nodes[k - 1] if k > 0 else -1
            lack[hard[hard_ptr[b_hard]]] = hard_lack[b_hard]
            b_hard += 1
        for i in range(n):
            value[i] = np.rint(values[row + slot[node_at[i]]] * scale)
        whole[1] = n
        n_blocks = forest_blocks(
            value, whole, identity, parent, True, 1.0, 0, 1, identity, node_bits, 0,
            path_next, path_keys, path_score,
        )  # fmt: skip
        if score.size > 0:
            for i in range(n):
                score[row + slot[node_at[i]]] = path_score[i] / scale
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
                total += value[at]
                count[b] += 1
                at = path_next[at]
                next_node[row + i] = node_at[at] if at >= 0 else -1
            mean[b] = total / count[b]
        base = 0 if shared else row
        edge = parent_ptr[base]
        n_blocks = join_ties(
            parent_ptr[base : base + n + 1] - edge, parent_idx[edge:], n_blocks, block, head, tail,
            count, mean, next_node[row : row + n], lack,
        )  # fmt: skip
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
        for b in range(first_hard, b_hard):
            lack[hard[hard_ptr[b]]] = 0.0
    return n_keys, open_place[:n_open], open_lack[:n_open]
