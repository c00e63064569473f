"""Walks along the edges of a hierarchy: closures, breaches, consistent scores, over all samples."""

import numpy as np

from hierlpr._kernels._jit import Bools, Bools2D, Floats, Floats2D, Int32s, Int64s, kernel


@kernel
def close_dense(truth: Bools2D, parent_ptr: Int32s, parent_idx: Int32s) -> None:
    """Close each row upward in place; columns are in topological order. O(samples x edges)."""
    n_samples, n_labels = truth.shape
    for m in range(n_samples):
        # Invariant: every label after k is closed already, as children have larger numbers.
        for k in range(n_labels - 1, -1, -1):
            if truth[m, k]:
                for e in range(parent_ptr[k], parent_ptr[k + 1]):
                    truth[m, parent_idx[e]] = True


def close_rows(
    row_ptr: Int64s, nodes: Int32s, parent_ptr: Int32s, parent_idx: Int32s
) -> tuple[Int64s, Int32s]:
    """Add all ancestors to sparse rows of topological numbers; the rows returned are not sorted.

    Time and memory O(closure x parents), plus O(labels) once.
    """
    closed_ptr = np.zeros(row_ptr.size, np.int64)
    rows, graph = (row_ptr, nodes), (parent_ptr, parent_idx)
    _write_closure(*rows, *graph, closed_ptr, np.empty(0, np.int32))  # only counts
    closed = np.empty(closed_ptr[-1], np.int32)
    _write_closure(*rows, *graph, closed_ptr, closed)
    return closed_ptr, closed


@kernel
def _write_closure(
    row_ptr: Int64s,
    nodes: Int32s,
    parent_ptr: Int32s,
    parent_idx: Int32s,
    closed_ptr: Int64s,
    closed: Int32s,
) -> None:
    """Write where each row of the closure begins, and its labels unless `closed` is empty."""
    last_row = np.full(parent_ptr.size - 1, -1, np.int64)  # the last row that holds the label
    row = np.empty(last_row.size, np.int32)
    for m in range(row_ptr.size - 1):
        size = 0
        for e in range(row_ptr[m], row_ptr[m + 1]):
            if last_row[nodes[e]] != m:
                last_row[nodes[e]] = m
                row[size] = nodes[e]
                size += 1
        # The row is also the queue of labels whose parents are not added yet.
        at = 0
        while at < size:
            for e in range(parent_ptr[row[at]], parent_ptr[row[at] + 1]):
                p = parent_idx[e]
                if last_row[p] != m:
                    last_row[p] = m
                    row[size] = p
                    size += 1
            at += 1
        closed_ptr[m + 1] = closed_ptr[m] + size
        if closed.size > 0:
            for at in range(size):
                closed[closed_ptr[m] + at] = row[at]


@kernel
def close_values(
    row_ptr: Int64s,
    nodes: Int32s,
    values: Floats,
    closed_ptr: Int64s,
    closed: Int32s,
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
    row_ptr: Int64s,
    nodes: Int32s,
    values: Floats,
    closed_ptr: Int64s,
    closed: Int32s,
    parent_ptr: Int32s,
    parent_idx: Int32s,
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
    row_ptr: Int64s,
    labels: Int32s,
    other_ptr: Int64s,
    other: Int32s,
    n_labels: int,
) -> Bools:
    """Return whether other rows have each entry of sparse rows too. O(entries)."""
    is_stored = np.empty(labels.size, np.bool_)
    last = np.full(n_labels, -1, np.int64)  # the last of the other rows that holds the label
    for m in range(row_ptr.size - 1):
        for e in range(other_ptr[m], other_ptr[m + 1]):
            last[other[e]] = m
        for e in range(row_ptr[m], row_ptr[m + 1]):
            is_stored[e] = last[labels[e]] == m
    return is_stored


@kernel
def find_violations(matrix: Floats2D, parent: Int32s, child: Int32s) -> tuple[Int64s, Int64s]:
    """Sample and edge of every ``matrix[m, child] > matrix[m, parent]``, by sample then edge."""
    n_violations = 0
    for m in range(matrix.shape[0]):
        for e in range(parent.size):
            n_violations += matrix[m, child[e]] > matrix[m, parent[e]]
    sample = np.empty(n_violations, np.int64)
    edge = np.empty(n_violations, np.int64)
    at = 0
    for m in range(matrix.shape[0]):
        for e in range(parent.size):
            if matrix[m, child[e]] > matrix[m, parent[e]]:
                sample[at] = m
                edge[at] = e
                at += 1
    return sample, edge


@kernel
def max_up(values: Floats2D, order: Int32s, parent_ptr: Int32s, parent_idx: Int32s) -> None:
    """Raise every label to its highest descendant, in place; label ``k`` is column ``order[k]``."""
    n_samples, n_labels = values.shape
    for m in range(n_samples):
        # Invariant: every label after k has its final value, as children have larger numbers.
        for k in range(n_labels - 1, -1, -1):
            value = values[m, order[k]]
            for e in range(parent_ptr[k], parent_ptr[k + 1]):
                above = order[parent_idx[e]]
                if value > values[m, above]:
                    values[m, above] = value


@kernel
def min_down(values: Floats2D, parent_ptr: Int32s, parent_idx: Int32s) -> None:
    """Lower every label to its lowest ancestor, in place; columns in topological order."""
    n_samples, n_labels = values.shape
    for m in range(n_samples):
        # Invariant: every label before k has its final value.
        for k in range(n_labels):
            for e in range(parent_ptr[k], parent_ptr[k + 1]):
                if values[m, parent_idx[e]] < values[m, k]:
                    values[m, k] = values[m, parent_idx[e]]


@kernel
def local_parents(row_ptr: Int64s, nodes: Int32s, parent: Int32s) -> Int32s:
    """Place of each node's parent within its closed row, -1 for roots; forests only."""
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
    row_ptr: Int64s,
    nodes: Int32s,
    parent_ptr: Int32s,
    parent_idx: Int32s,
) -> tuple[Int64s, Int32s]:
    """Places of each node's parents within its closed row, as one CSR pair over all rows."""
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
