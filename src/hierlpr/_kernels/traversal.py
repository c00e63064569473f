"""Walks along the edges of a hierarchy: closures, breaches, consistent scores, over all samples."""

import numpy as np

from hierlpr._kernels._arrays import Bools, Bools2, Floats, Floats2, Index, Ints
from hierlpr._kernels._jit import kernel
from hierlpr._kernels.layout import Rows


@kernel
def close_dense(truth: Bools2, parent_ptr: Index, parent_idx: Index) -> None:
    """Close each row upward in place; columns are in topological order. O(samples x edges)."""
    n_samples, n_labels = truth.shape
    for m in range(n_samples):
        # Invariant: every label after k is closed already, as children have larger numbers.
        for k in range(n_labels - 1, -1, -1):
            if truth[m, k]:
                for e in range(parent_ptr[k], parent_ptr[k + 1]):
                    truth[m, parent_idx[e]] = True


@kernel
def close_rows(
    row_ptr: Ints,
    nodes: Index,
    parent_ptr: Index,
    parent_idx: Index,
) -> tuple[Ints, Index]:
    """Upward closure of sparse rows of topological numbers; numbers ascend within a row.

    Time and memory O(closure x parents), plus O(labels) once.
    """
    n_samples = row_ptr.size - 1
    seen = np.full(parent_ptr.size - 1, -1, np.int64)  # the last row that holds the label
    closed_ptr = np.zeros(n_samples + 1, np.int64)
    closed = np.empty(2 * nodes.size + seen.size, np.int32)
    size = 0
    for m in range(n_samples):
        begin = size
        if closed.size - begin < seen.size:
            closed = np.concatenate((closed, np.empty(closed.size, np.int32)))
        for e in range(row_ptr[m], row_ptr[m + 1]):
            if seen[nodes[e]] != m:
                seen[nodes[e]] = m
                closed[size] = nodes[e]
                size += 1
        # closed[begin:size] is also the queue of labels whose parents are not added yet.
        at = begin
        while at < size:
            k = closed[at]
            at += 1
            for e in range(parent_ptr[k], parent_ptr[k + 1]):
                p = parent_idx[e]
                if seen[p] != m:
                    seen[p] = m
                    closed[size] = p
                    size += 1
        closed[begin:size].sort()
        closed_ptr[m + 1] = size
    return closed_ptr, closed[:size].copy()


@kernel
def close_values(
    row_ptr: Ints,
    nodes: Index,
    values: Floats,
    closed_ptr: Ints,
    closed: Index,
    n_labels: int,
) -> Floats:
    """Spread the stored values over the closed rows; labels that only the closure added get 0."""
    out = np.zeros(closed.size)
    place = np.empty(n_labels, np.int64)
    for m in range(row_ptr.size - 1):
        for at in range(closed_ptr[m], closed_ptr[m + 1]):
            place[closed[at]] = at
        for e in range(row_ptr[m], row_ptr[m + 1]):
            out[place[nodes[e]]] += values[e]
    return out


@kernel
def raise_rows(
    row_ptr: Ints,
    nodes: Index,
    values: Floats,
    closed_ptr: Ints,
    closed: Index,
    parent_ptr: Index,
    parent_idx: Index,
) -> tuple[Floats, Bools]:
    """Spread the stored values over the closed rows, and mark which were stored.

    A label that only the closure added gets the largest value stored below it. Stored labels are
    distinct within a row. O(closure x parents), plus O(labels) once.
    """
    out = np.empty(closed.size)
    is_stored = np.zeros(closed.size, np.bool_)
    place = np.empty(parent_ptr.size - 1, np.int64)
    below = np.full(parent_ptr.size - 1, -np.inf)
    for m in range(row_ptr.size - 1):
        for at in range(closed_ptr[m], closed_ptr[m + 1]):
            place[closed[at]] = at
        for e in range(row_ptr[m], row_ptr[m + 1]):
            out[place[nodes[e]]] = values[e]
            is_stored[place[nodes[e]]] = True
        # Invariant: below[k] is the largest value stored under k, as children come first.
        for at in range(closed_ptr[m + 1] - 1, closed_ptr[m] - 1, -1):
            k = closed[at]
            largest = below[k]
            below[k] = -np.inf
            if is_stored[at]:
                largest = max(largest, out[at])
            else:
                out[at] = largest
            for e in range(parent_ptr[k], parent_ptr[k + 1]):
                below[parent_idx[e]] = max(below[parent_idx[e]], largest)
    return out, is_stored


@kernel
def find_stored(
    row_ptr: Ints,
    labels: Index,
    other_ptr: Ints,
    other: Index,
    n_labels: int,
) -> Bools:
    """Say of every entry of sparse rows whether other rows have it too. O(entries)."""
    found = np.empty(labels.size, np.bool_)
    last = np.full(n_labels, -1, np.int64)  # the last of the other rows that holds the label
    for m in range(row_ptr.size - 1):
        for e in range(other_ptr[m], other_ptr[m + 1]):
            last[other[e]] = m
        for e in range(row_ptr[m], row_ptr[m + 1]):
            found[e] = last[labels[e]] == m
    return found


@kernel
def find_violations(matrix: Floats2, parent: Index, child: Index) -> tuple[Ints, Ints]:
    """Sample and edge of every ``matrix[m, child] > matrix[m, parent]``, by sample then edge."""
    n_found = 0
    for m in range(matrix.shape[0]):
        for e in range(parent.size):
            n_found += matrix[m, child[e]] > matrix[m, parent[e]]
    sample = np.empty(n_found, np.int64)
    edge = np.empty(n_found, np.int64)
    at = 0
    for m in range(matrix.shape[0]):
        for e in range(parent.size):
            if matrix[m, child[e]] > matrix[m, parent[e]]:
                sample[at] = m
                edge[at] = e
                at += 1
    return sample, edge


@kernel
def count_violations(matrix: Floats2, parent: Index, child: Index) -> int:
    """Count what `find_violations` finds."""
    n_found = 0
    for m in range(matrix.shape[0]):
        for e in range(parent.size):
            n_found += matrix[m, child[e]] > matrix[m, parent[e]]
    return n_found


@kernel
def max_up(values: Floats2, order: Index, parent_ptr: Index, parent_idx: Index) -> None:
    """Raise every label to its highest descendant, in place; label ``k`` is column ``order[k]``."""
    n_samples, n_labels = values.shape
    for m in range(n_samples):
        # Invariant: every label after k has its final value, as children have larger numbers.
        for k in range(n_labels - 1, -1, -1):
            own = values[m, order[k]]
            for e in range(parent_ptr[k], parent_ptr[k + 1]):
                above = order[parent_idx[e]]
                if own > values[m, above]:
                    values[m, above] = own


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


@kernel
def local_parents(row_ptr: Ints, nodes: Index, parent: Index) -> Index:
    """Place of each node's parent within its own closed row, -1 for roots; forests only."""
    out = np.empty(nodes.size, np.int32)
    place = np.empty(parent.size, np.int32)
    for m in range(row_ptr.size - 1):
        for at in range(row_ptr[m], row_ptr[m + 1]):
            place[nodes[at]] = at - row_ptr[m]
            p = parent[nodes[at]]
            out[at] = place[p] if p >= 0 else -1
    return out


@kernel
def local_edges(
    row_ptr: Ints,
    nodes: Index,
    parent_ptr: Index,
    parent_idx: Index,
) -> tuple[Ints, Index]:
    """Places of each node's parents within its own closed row, as one CSR pair over all rows."""
    ptr = np.zeros(nodes.size + 1, np.int64)
    for at in range(nodes.size):
        ptr[at + 1] = ptr[at] + parent_ptr[nodes[at] + 1] - parent_ptr[nodes[at]]
    idx = np.empty(ptr[nodes.size], np.int32)
    place = np.empty(parent_ptr.size - 1, np.int32)
    for m in range(row_ptr.size - 1):
        for at in range(row_ptr[m], row_ptr[m + 1]):
            place[nodes[at]] = at - row_ptr[m]
            for k in range(ptr[at + 1] - ptr[at]):
                idx[ptr[at] + k] = place[parent_idx[parent_ptr[nodes[at]] + k]]
    return ptr, idx


@kernel
def prune_rows(
    rows: Rows,
    lpr: Floats,
    parent_ptr: Index,
    parent_idx: Index,
    min_lpr: float,
    kept: Bools,
    least: Floats,
) -> None:
    """Mark the labels of LPR at least `min_lpr` and their ancestors, in rows that are closed.

    ``kept[row_ptr[m] + i]`` tells of node ``i``; of the others, ``least[row_ptr[m] + i]`` becomes
    the smallest priority of the node and those of its ancestors that are not kept.
    """
    row_ptr, slot, node_of = rows.row_ptr, rows.slot, rows.node_of
    needed = np.zeros(parent_ptr.size - 1, np.bool_)
    lowest = np.empty(parent_ptr.size - 1)
    for m in range(row_ptr.size - 1):
        row = row_ptr[m]
        n = row_ptr[m + 1] - row
        for i in range(n - 1, -1, -1):
            k = node_of[row + i] if node_of.size > 0 else i
            kept[row + i] = needed[k] or lpr[row + slot[i]] >= min_lpr
            needed[k] = False
            if kept[row + i]:
                for e in range(parent_ptr[k], parent_ptr[k + 1]):
                    needed[parent_idx[e]] = True
        for i in range(n):
            k = node_of[row + i] if node_of.size > 0 else i
            lowest[k] = np.inf
            if not kept[row + i]:
                lowest[k] = rows.value[row + slot[i]]
                for e in range(parent_ptr[k], parent_ptr[k + 1]):
                    lowest[k] = min(lowest[k], lowest[parent_idx[e]])
            least[row + i] = lowest[k]
