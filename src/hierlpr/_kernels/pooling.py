"""One sample on a DAG -> blocks by pooling: a child above its parent joins it, and parts may leave.

A block is held together by a tree of edges along which children pay for parents, each more than
nothing. A child in a block of larger mean than that of a parent starts to pay for it: its
block sinks and the parent's rises, until they meet and are one. Parts of a block leave on the
way, when the edge to the rest has nothing left to pay. Every meeting raises the objective of the
dual problem, so it ends, and then block means are the isotonic regression of the values. This is
the dual active-set method (Goldfarb and Idnani, 1983); with trees it needs no linear algebra.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._arrays import Index, Ints
from hierlpr._kernels._jit import inner
from hierlpr._kernels.forest_blocks import merge_sample, node_room
from hierlpr._kernels.layout import Forest, Rows

# Totals of so many nodes times their number fit 63 bits, and different means of so many nodes lie
# at least 2**-32 grid steps apart, so that whole numbers of these compare as the means do.
MOST_NODES = 1 << 16
MOST_ROUNDS = 64

NODE = np.dtype(
    [
        ("value", np.int64),
        ("total", np.int64),  # of the part of the tree that hangs on `via`, in the last walk
        ("count", np.int32),  # of its nodes
        ("link", np.int32),  # the first of the node's list, or -1
        ("via", np.int32),  # the link back to where the walk came from, or -1
        ("rest", np.int32),  # so that whole numbers of 8 bytes lie where they are read fastest
    ]
)
# Links come in pairs, one in the list of either node: the even one leads from child to parent.
LINK = np.dtype([("to", np.int32), ("next", np.int32), ("prior", np.int32)])
Nodes = NDArray[Any]
Links = NDArray[Any]


class Pooled(NamedTuple):
    """Of each node a name of its block, one of the nodes in it, and the mean, see `_mean_of`."""

    block: Index
    mean: Ints


@inner
def _mean_of(total: int, count: int) -> int:
    """Mean in whole steps of 2**-32, rounded down."""
    whole = total // count
    return (whole << 32) + ((total - whole * count) << 32) // count


@inner
def _join(node: Nodes, link: Links, pair: int, child: int, parent: int) -> None:
    """Put a pair of links at the head of the lists of a child and a parent."""
    for h in range(pair, pair + 2):
        v = child if h == pair else parent
        link[h]["to"] = parent if h == pair else child
        first = node[v]["link"]
        link[h]["next"] = first
        link[h]["prior"] = -1
        if first >= 0:
            link[first]["prior"] = h
        node[v]["link"] = h


@inner
def _part(node: Nodes, link: Links, pair: int) -> None:
    """Take a pair of links out of their lists."""
    for h in range(pair, pair + 2):
        after, prior = link[h]["next"], link[h]["prior"]
        if prior >= 0:
            link[prior]["next"] = after
        else:
            node[link[h ^ 1]["to"]]["link"] = after
        if after >= 0:
            link[after]["prior"] = prior


@inner
def _walk(node: Nodes, link: Links, root: int, order: Index, begin: int) -> int:
    """List the nodes of the tree of `root`, it first, in ``order[begin:end]``; returns the end."""
    node[root]["via"] = -1
    order[begin] = root
    end = begin + 1
    at = begin
    while at < end:
        v = order[at]
        at += 1
        node[v]["total"] = node[v]["value"]
        node[v]["count"] = 1
        via = node[v]["via"]
        h = node[v]["link"]
        while h >= 0:
            if h != via:
                w = link[h]["to"]
                node[w]["via"] = h ^ 1
                order[end] = w
                end += 1
            h = link[h]["next"]
    return end


@inner
def _weigh(node: Nodes, link: Links, order: Index, begin: int, end: int, rises: bool) -> int:
    """Sum up the parts of a tree that was walked; returns the part that is first to leave, or -1.

    While a block rises, parts below an edge pay less and less for the rest; the one of least
    mean is the first to have nothing left. While it sinks, parts above an edge need less and less;
    the one of largest mean is the first to need nothing.
    """
    found = -1
    for at in range(end - 1, begin, -1):
        w = order[at]
        via = node[w]["via"]
        v = link[via]["to"]
        node[v]["total"] += node[w]["total"]
        node[v]["count"] += node[w]["count"]
        if (via & 1 == 0) != rises:
            continue
        if found >= 0:
            mine = node[w]["total"] * node[found]["count"]
            least = node[found]["total"] * node[w]["count"]
            if (mine >= least) if rises else (mine <= least):
                continue
        found = w
    return found


@inner
def _first_to_leave(node: Nodes, link: Links, order: Index, bound: int, size: int) -> int:
    """Return the part that leaves before two blocks meet, or at that moment; -1 if there is none.

    The trees in ``order[:bound]`` and ``order[bound:size]`` were walked from the child that sinks
    and the parent that rises.
    """
    upper = _weigh(node, link, order, 0, bound, False)
    lower = _weigh(node, link, order, bound, size, True)
    child, parent = node[order[0]], node[order[bound]]
    total = child["total"] + parent["total"]
    if upper >= 0 and node[upper]["total"] * size < total * node[upper]["count"]:
        upper = -1
    if lower >= 0 and node[lower]["total"] * size > total * node[lower]["count"]:
        lower = -1
    if upper < 0 or lower < 0:
        return max(upper, lower)
    # Both do: what has been paid until then tells which is first. If it is close, both leave.
    high = node[upper]["total"] / node[upper]["count"]
    low = node[lower]["total"] / node[lower]["count"]
    given = child["total"] - high * child["count"]
    taken = low * parent["count"] - parent["total"]
    return upper if given <= taken else lower


@inner
def _start(
    rows: Rows, m: int, value: Ints, up_ptr: Ints, up_idx: Index, pooled: Pooled,
    node: Nodes, link: Links,
) -> int:  # fmt: skip
    """Merge the forest of one parent each; returns the number of links, -1 for too large a block.

    The parent is the one with the lowest value among it and its own such ancestors.
    """
    block, mean = pooled
    n = value.size
    parent = np.empty(n, np.int32)
    for i in range(n):
        parent[i] = -1
        for e in range(up_ptr[i], up_ptr[i + 1]):
            if parent[i] < 0 or mean[up_idx[e]] < mean[parent[i]]:
                parent[i] = up_idx[e]
        mean[i] = value[i] if parent[i] < 0 else min(value[i], mean[parent[i]])
    merged, tail, next_node = node_room(n)
    merge_sample(rows, Forest(parent, True), m, merged, tail, next_node)
    n_links = 0
    for i in range(n):
        node[i]["value"] = value[i]
        node[i]["link"] = -1
        count = merged[i]["count"]
        if count > MOST_NODES:
            return -1
        if count > 0:
            block[i] = i
            mean[i] = _mean_of(int(merged[i]["total"]), count)
        else:
            block[i] = block[parent[i]]
            mean[i] = mean[parent[i]]
            _join(node, link, n_links, i, parent[i])
            n_links += 2
    return n_links


@inner
def pool(
    rows: Rows, m: int, value: Ints, up_ptr: Ints, up_idx: Index, patience: int, pooled: Pooled
) -> bool:
    """Find the blocks of sample `m`, from the leaves up and again until no child is above a parent.

    The parents of node ``i`` are ``up_idx[up_ptr[i]:up_ptr[i + 1]]``, all smaller than ``i``.
    Blocks of equal mean may still have to be joined, see `join_circles`. Returns False, and
    nothing of use, if a round walks over more than `patience` nodes for each node: blocks that
    are large all the way are cut faster than they are pooled. A handful of rounds is the rule.
    """
    block, mean = pooled
    n = value.size
    node = np.empty(n, NODE)
    link = np.empty(2 * n, LINK)
    order = np.empty(n, np.int32)
    n_links = _start(rows, m, value, up_ptr, up_idx, pooled, node, link)
    if n_links < 0:
        return False
    spare = -1  # the first pair of links that was in use and is not any more
    for _ in range(MOST_ROUNDS):
        changed = False
        left = patience * n
        for c in range(n - 1, -1, -1):
            e = up_ptr[c]
            while e < up_ptr[c + 1]:
                p = up_idx[e]
                e += 1
                if mean[p] >= mean[c]:
                    continue
                while True:
                    bound = _walk(node, link, c, order, 0)
                    size = _walk(node, link, p, order, bound)
                    left -= size
                    if left < 0 or size > MOST_NODES:
                        return False
                    part = _first_to_leave(node, link, order, bound, size)
                    if part < 0:
                        break
                    level = _mean_of(node[part]["total"], node[part]["count"])
                    pair = node[part]["via"] & ~1
                    _part(node, link, pair)
                    link[pair]["next"] = spare
                    spare = pair
                    for at in range(_walk(node, link, part, order, 0)):
                        mean[order[at]] = level
                        block[order[at]] = part
                level = _mean_of(node[c]["total"] + node[p]["total"], size)
                for at in range(size):
                    mean[order[at]] = level
                    block[order[at]] = c
                pair = spare if spare >= 0 else n_links
                if spare >= 0:
                    spare = link[spare]["next"]
                else:
                    n_links += 2
                _join(node, link, pair, c, p)
                changed = True
        if not changed:
            return True
    return False
