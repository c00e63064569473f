"""Block merging on DAGs: all samples, each reduced to a forest whose blocks are its own.

Four kernels in a row, as small ones compile faster: part each sample into trees and other blocks;
put the other blocks in order; lay these out as paths, so that all is a forest to be merged; and
read the blocks back. One more, which few need, parts samples with very large blocks.
"""

from typing import NamedTuple

import numpy as np

from hierlpr._kernels._arrays import Bools, Floats, Index, Ints
from hierlpr._kernels._jit import inner, kernel
from hierlpr._kernels.block_order import block_graph, order_open_block
from hierlpr._kernels.circles import join_circles, list_blocks
from hierlpr._kernels.filing import Filed, file_row
from hierlpr._kernels.forest_blocks import forest_scores, link_forest, longest_row
from hierlpr._kernels.ideals import TABLE_BITS, best_order
from hierlpr._kernels.keys import on_grid, pack
from hierlpr._kernels.layout import Dag, Forest, Hard, KeyBits, Linked, Rows
from hierlpr._kernels.partition import partition
from hierlpr._kernels.pooling import Pooled, pool
from hierlpr._kernels.tied_order import RowBlocks, join_ties

NONE = np.empty(0, dtype=np.int32)
PATIENCE = 16  # nodes to walk in a round for each node of a sample before it is cut instead


class OpenBlocks(NamedTuple):
    """Blocks whose order is not certified: the place of the first node, and what they may lack.

    Places are ``row_ptr[m] + i``; what lacks is area in grid steps.
    """

    place: Ints
    lack: Floats


def dag_keys(
    rows: Rows,
    dag: Dag,
    start: int,
    stop: int,
    bits: KeyBits,
    state_cap: int,
    filed: Filed,
) -> OpenBlocks:
    """Merge the labels of samples ``start`` to ``stop`` into blocks and file them."""
    parent, hard = _part(rows, dag, start, stop)
    lack = _order(rows, dag, hard, state_cap)
    path_rows, forest, node_at = _lay(rows, start, stop, parent, hard)
    linked = Linked.empty(np.empty_like(parent))
    link_forest(path_rows, forest, 0, stop - start, linked)
    lack_at = np.zeros(parent.size)
    first = hard.nodes[hard.ptr[:-1]]
    lack_at[rows.row_ptr[hard.sample] - rows.row_ptr[start] + first] = lack
    _join_rows(rows, dag, start, stop, linked, node_at, bits, lack_at, filed)
    place = np.flatnonzero(lack_at)
    return OpenBlocks(place + rows.row_ptr[start], lack_at[place])


def dag_scores(rows: Rows, dag: Dag, start: int, stop: int, score: Floats) -> None:
    """Write the block score of every instance of samples ``start`` to ``stop``."""
    parent, hard = _part(rows, dag, start, stop)
    path_rows, forest, node_at = _lay(rows, start, stop, parent, hard)
    on_path = np.empty(parent.size)
    forest_scores(path_rows, forest, 0, stop - start, on_path)
    row = np.repeat(rows.row_ptr[start:stop], np.diff(rows.row_ptr[start : stop + 1]))
    score[row + rows.slot[node_at]] = on_path / rows.scale


def _part(rows: Rows, dag: Dag, start: int, stop: int) -> tuple[Index, Hard]:
    """Part samples into trees and other blocks.

    Returns the only parent of each node that still matters, from ``row_ptr[start]`` on, and the
    blocks that are no trees.
    """
    offset = rows.row_ptr[start]
    parent = np.empty(int(rows.row_ptr[stop] - offset), dtype=np.int32)
    found = _pool_rows(rows, dag, start, stop, PATIENCE, parent)
    hard = [Hard(*found[:4])]
    for m in found[4].tolist():
        own = parent[rows.row_ptr[m] - offset : rows.row_ptr[m + 1] - offset]
        hard.append(Hard(*_cut_row(rows, dag, m, own)))
    return parent, hard[0] if len(hard) == 1 else Hard.chained(hard)


def _order(rows: Rows, dag: Dag, hard: Hard, state_cap: int) -> Floats:
    """Put the nodes of blocks that are no trees in order, in place; what each may lack."""
    lack = np.zeros(hard.sample.size)
    if lack.size == 0:
        return lack
    table = np.full(1 << TABLE_BITS, -1, dtype=np.int32)
    _order_rows(rows, dag, state_cap, hard, table, lack)
    # Few blocks are too large for the exact search, and most users have none.
    for b in np.flatnonzero(lack):
        nodes = hard.nodes[hard.ptr[b] : hard.ptr[b + 1]]
        graph = block_graph(rows, dag, int(hard.sample[b]), nodes)
        order, lack[b] = order_open_block(*graph, table)
        nodes[:] = nodes[order]
    lack[~hard.exact] = np.inf
    return lack


def _lay(
    rows: Rows, start: int, stop: int, parent: Index, hard: Hard
) -> tuple[Rows, Forest, Index]:
    """Lay samples out with each block that is no tree as a path in its calling order.

    Returns the samples as a forest, and for which node of its sample each node of it stands.
    As no closed part of such a block has a larger mean, the path becomes one block again, and
    forests and DAGs share what follows.
    """
    node_at = np.empty(parent.size, dtype=np.int32)
    value = np.empty(parent.size)
    _lay_paths(rows, start, stop, hard, parent, node_at, value)
    row_ptr = rows.row_ptr[start : stop + 1] - rows.row_ptr[start]
    width = int(np.diff(row_ptr).max(initial=0))
    path_rows = Rows(value, row_ptr, np.arange(width, dtype=np.int32), NONE, 1.0)
    return path_rows, Forest(parent, False), node_at


@inner
def _graph_of(rows: Rows, dag: Dag, m: int, value: Ints, up_ptr: Ints) -> Index:
    """Write the values of sample `m` and where the parents of each node begin in what is returned.

    Of its ``n`` nodes, ``value[:n]`` and ``up_ptr[:n + 1]`` are set.
    """
    row = rows.row_ptr[m]
    n = rows.row_ptr[m + 1] - row
    base = 0 if dag.is_shared else row
    edge = dag.parent_ptr[base]
    for i in range(n):
        value[i] = np.int64(on_grid(rows.value[row + rows.slot[i]], rows.scale))
    for i in range(n + 1):
        up_ptr[i] = dag.parent_ptr[base + i] - edge
    return dag.parent_idx[edge : edge + up_ptr[n]]


@kernel
def _pool_rows(
    rows: Rows, dag: Dag, start: int, stop: int, patience: int, parent: Index
) -> tuple[Index, Ints, Ints, Bools, Ints]:
    """Part samples into trees and other blocks by `pool`.

    Writes the only parent of each node that still matters, from ``row_ptr[start]`` on. Returns the
    fields of `Hard`, and the samples on which it gave up.
    """
    offset = rows.row_ptr[start]
    width = longest_row(rows, start, stop)
    value = np.empty(width, np.int64)
    up_ptr = np.empty(width + 1, np.int64)
    block = np.empty(width, np.int32)
    mean = np.empty(width, np.int64)
    nodes = np.empty(parent.size, np.int32)
    ptr = np.zeros(parent.size + 1, np.int64)
    sample = np.empty(parent.size, np.int64)
    given_up = np.empty(stop - start, np.int64)
    n_given_up = 0
    n_hard: int = np.int64(0)  # a plain constant would compile `list_blocks` once more
    for m in range(start, stop):
        at = rows.row_ptr[m] - offset
        n = rows.row_ptr[m + 1] - rows.row_ptr[m]
        up_idx = _graph_of(rows, dag, m, value, up_ptr)
        pooled = Pooled(block[:n], mean[:n])
        up = up_ptr[: n + 1]
        if not pool(rows, m, value[:n], up, up_idx, patience, pooled):
            given_up[n_given_up] = m
            n_given_up += 1
            continue
        join_circles(up, up_idx, pooled)
        before = n_hard
        n_hard = list_blocks(up, up_idx, block[:n], parent[at : at + n], n_hard, nodes, ptr)
        for b in range(before, n_hard):
            sample[b] = m
    exact = np.ones(n_hard, np.bool_)
    return nodes[: ptr[n_hard]], ptr[: n_hard + 1], sample[:n_hard], exact, given_up[:n_given_up]


@kernel
def _cut_row(rows: Rows, dag: Dag, m: int, parent: Index) -> tuple[Index, Ints, Ints, Bools]:
    """Part a sample as `_pool_rows` does, but by `partition`."""
    n = parent.size
    value = np.empty(n, np.int64)
    up_ptr = np.empty(n + 1, np.int64)
    up_idx = _graph_of(rows, dag, m, value, up_ptr)
    nodes = np.empty(n, np.int32)
    ptr = np.zeros(n + 1, np.int64)
    exact = np.empty(n, np.bool_)
    n_hard = partition(value, up_ptr, up_idx, parent, nodes, ptr, exact)
    sample = np.full(n_hard, m)
    return nodes[: ptr[n_hard]], ptr[: n_hard + 1], sample, exact[:n_hard]


@kernel
def _order_rows(
    rows: Rows, dag: Dag, state_cap: int, hard: Hard, table: Index, lack: Floats
) -> None:
    """Put the nodes of each block in `hard` in their best order, in place.

    Where that takes over `state_cap` states they stay as they are, and `lack` is set to 1.
    """
    for b in range(hard.sample.size):
        nodes = hard.nodes[hard.ptr[b] : hard.ptr[b + 1]]
        value, up_ptr, up_idx = block_graph(rows, dag, hard.sample[b], nodes)
        order = np.empty(nodes.size, np.int32)
        if best_order(value, up_ptr, up_idx, state_cap, table, order):
            for k in range(order.size):
                order[k] = nodes[order[k]]
            for k in range(order.size):
                nodes[k] = order[k]
        else:
            lack[b] = 1.0


@kernel
def _lay_paths(
    rows: Rows, start: int, stop: int, hard: Hard, parent: Index, node_at: Index, value: Floats
) -> None:
    """Write node and value of each place of the forest; change `parent` along the paths.

    The block's nodes, sorted, are the places of its path; nodes take them in order.
    """
    offset = rows.row_ptr[start]
    for m in range(start, stop):
        for i in range(rows.row_ptr[m + 1] - rows.row_ptr[m]):
            node_at[rows.row_ptr[m] - offset + i] = i
    for b in range(hard.sample.size):
        at = rows.row_ptr[hard.sample[b]] - offset
        nodes = hard.nodes[hard.ptr[b] : hard.ptr[b + 1]]
        places = np.sort(nodes)  # a block is small, the labels between its first and last many
        above = -1
        for k in range(nodes.size):
            i = places[k]
            node_at[at + i] = nodes[k]
            parent[at + i] = above
            above = i
    for m in range(start, stop):
        row = rows.row_ptr[m]
        for at in range(row - offset, rows.row_ptr[m + 1] - offset):
            value[at] = on_grid(rows.value[row + rows.slot[node_at[at]]], rows.scale)


@kernel
def _join_rows(
    rows: Rows,
    dag: Dag,
    start: int,
    stop: int,
    linked: Linked,
    node_at: Index,
    bits: KeyBits,
    lack: Floats,
    filed: Filed,
) -> None:
    """Read the blocks of a forest of paths back as those of the DAG, and file them.

    ``lack[row_ptr[m] - row_ptr[start] + i]`` is what the block that begins with ``i`` may lack;
    blocks that join others pass it on.
    """
    offset = rows.row_ptr[start]
    width = longest_row(rows, start, stop)
    block = np.empty(width, np.int32)
    head = np.empty(width, np.int32)
    tail = np.empty(width, np.int32)
    count = np.empty(width, np.int32)
    mean = np.empty(width)
    next_node = np.empty(width, np.int32)
    keys = np.empty(width, np.uint64)
    for m in range(start, stop):
        row = rows.row_ptr[m]
        n = rows.row_ptr[m + 1] - row
        at = row - offset
        n_blocks: int = np.int64(0)  # as above
        for first in range(n):
            if linked.count[at + first] == 0:
                continue
            head[n_blocks] = node_at[at + first]
            count[n_blocks] = linked.count[at + first]
            mean[n_blocks] = linked.mean[at + first]
            place = first
            while place >= 0:
                i = node_at[at + place]
                block[i] = n_blocks
                tail[n_blocks] = i
                place = linked.next_node[at + place]
                next_node[i] = node_at[at + place] if place >= 0 else -1
            n_blocks += 1
        base = 0 if dag.is_shared else row
        n_blocks = join_ties(
            dag.parent_ptr[base : base + n + 1], dag.parent_idx, n_blocks,
            RowBlocks(block, head, tail, count, mean), next_node, lack[at : at + n],
        )  # fmt: skip
        for b in range(n_blocks):
            i = head[b]
            node = rows.node_of[row + i] if rows.node_of.size > 0 else i
            keys[b] = pack(mean[b], node, m, count[b], bits)
        file_row(n_blocks, keys, head, next_node, filed)
