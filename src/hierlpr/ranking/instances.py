"""LPRs and weights of all samples in one flat layout for the kernels, dense or sparse, checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels import traversal
from hierlpr._kernels._jit import read_only
from hierlpr._utils.checks import check_label_weights, check_unit_interval
from hierlpr.data.tables import Table
from hierlpr.exceptions import HierarchyError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import close_rows

GRID_BITS = 30  # LPRs are rounded to multiples of 2**-30, so that sums and ties are exact
GRID = 2.0**GRID_BITS
MOST_LABELS = 1 << (53 - GRID_BITS)

_NONE = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Instances:
    """The instances of all samples in one flat layout, dense or sparse.

    Sample ``m`` has the nodes ``i = 0, 1, ...`` in topological order; node ``i`` has its LPR at
    ``lpr[row_ptr[m] + slot[i]]``. `priority`, in the same places, is what is maximized: the LPR
    times the label's share of the largest weight.

    Dense samples hold every label: `slot` is the column of each node, `node_of` is empty, and the
    parents of node ``i`` are ``parent_idx[parent_ptr[i]:parent_ptr[i + 1]]``. Sparse samples hold
    the labels stored and their ancestors: ``node_of[row_ptr[m] + i]`` is the label's number in the
    hierarchy, and its parents within the sample stand at ``row_ptr[m] + i`` of `parent_ptr`.
    On a forest, `parent` has the only parent or -1 in the same way, and both others are empty.
    """

    lpr: NDArray[np.float64]
    priority: NDArray[np.float64]
    row_ptr: NDArray[np.int64]
    slot: NDArray[np.int32]
    node_of: NDArray[np.int32]
    parent: NDArray[np.int32]
    parent_ptr: NDArray[np.int64]
    parent_idx: NDArray[np.int32]
    weight: NDArray[np.float64] | None
    hierarchy: Hierarchy

    @property
    def is_dense(self) -> bool:
        """Whether every sample holds every label."""
        return self.node_of.size == 0


def list_instances(table: Table, hierarchy: Hierarchy, *, weight: Any = None) -> Instances:
    """Lay out the LPRs of `table` for the kernels; raise for values that are not LPRs."""
    if hierarchy.n_labels > MOST_LABELS:
        raise HierarchyError(f"At most {MOST_LABELS:,} labels can be ranked exactly.")
    values, weights = table.values, weight
    check_unit_interval(values, hierarchy.labels, name="lpr")
    if weight is not None:
        weights = check_label_weights(weight, hierarchy.labels, name="weight")
    share = relative_weights(weights).share
    parent, parent_ptr, parent_idx = _parents(hierarchy)
    if isinstance(values, np.ndarray):
        row_ptr = np.arange(values.shape[0] + 1, dtype=np.int64) * hierarchy.n_labels
        lpr = read_only(values.reshape(-1))
        priority = lpr if weights is None else read_only((values * share).reshape(-1))
        edges = (parent, parent_ptr, parent_idx)
        return Instances(lpr, priority, row_ptr, hierarchy.order, _NONE, *edges, weights, hierarchy)
    stored_ptr = values.indptr.astype(np.int64)
    stored = hierarchy.position[values.indices]
    row_ptr, node_of = close_rows(hierarchy, stored_ptr, stored)
    lpr = read_only(
        traversal.close_values(
            stored_ptr, stored, values.data, row_ptr, node_of, hierarchy.n_labels
        )
    )
    priority = lpr if weights is None else read_only(lpr * share[hierarchy.order[node_of]])
    slot = np.arange(int(np.diff(row_ptr).max(initial=0)), dtype=np.int32)
    if hierarchy.is_forest:
        parent = traversal.local_parents(row_ptr, node_of, parent)
    else:
        parent_ptr, parent_idx = traversal.local_edges(
            row_ptr, node_of, hierarchy.parent_ptr, hierarchy.parent_idx
        )
    return Instances(
        lpr, priority, row_ptr, slot, node_of, parent, parent_ptr, parent_idx, weights, hierarchy
    )


@lru_cache(maxsize=8)  # for one sample at a time it would cost as much as the blocks
def _parents(
    hierarchy: Hierarchy,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
    """Return the parents in samples that hold every label, as in `Instances`."""
    if not hierarchy.is_forest:
        return _NONE, hierarchy.parent_ptr.astype(np.int64), hierarchy.parent_idx
    parent = np.full(hierarchy.n_labels, -1, dtype=np.int32)
    parent[np.diff(hierarchy.parent_ptr) == 1] = hierarchy.parent_idx
    return parent, np.empty(0, dtype=np.int64), _NONE


class RelativeWeights(NamedTuple):
    """Weights as shares of the largest, so that only their ratios decide the order.

    Products of shares and LPRs fit the grid of the LPRs whatever the weights. `share` is empty if
    all labels count the same.
    """

    share: NDArray[np.float64]
    largest: float

    def rescale(self, values: Any) -> Any:
        """Multiply values by the largest weight; what exceeds the largest float is infinite."""
        if self.largest == 1.0:  # saves a pass over all instances
            return values
        with np.errstate(over="ignore", under="ignore"):
            return values * np.float64(self.largest)


def relative_weights(weight: NDArray[np.float64] | None) -> RelativeWeights:
    """Divide checked weights by the largest of them."""
    if weight is None:
        return RelativeWeights(np.empty(0), 1.0)
    largest = float(weight.max(initial=0.0))
    if largest == 0.0:
        return RelativeWeights(weight, 1.0)
    with np.errstate(under="ignore"):
        return RelativeWeights(weight / largest, largest)
