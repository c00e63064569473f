"""LPRs and weights of all samples in one flat layout for the kernels, dense or sparse, checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_label_weights, check_unit_interval
from hierlpr._kernels import traversal
from hierlpr._kernels.layout import Dag, Forest, Rows
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
    ``lpr[row_ptr[m] + slot[i]]``. Dense samples all hold every label, so `slot` and the parents
    are shared by all of them and `node_of` is empty. Sparse samples hold the labels stored and
    their ancestors; there ``node_of[row_ptr[m] + i]`` is the label's number in the hierarchy.

    `rows` has this layout for the kernels. Its values are what is maximized: the LPR times the
    label's weight in `units`, which kernels round to steps of ``1 / GRID``. `graph` tells the
    parents within each sample. `weight` is as given, None if all labels count the same.
    """

    lpr: NDArray[np.float64]
    rows: Rows
    graph: Forest | Dag
    weight: NDArray[np.float64] | None
    units: Units
    hierarchy: Hierarchy

    @property
    def is_dense(self) -> bool:
        """Whether every sample holds every label."""
        return self.rows.node_of.size == 0 and self.lpr.size > 0

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.rows.row_ptr.size - 1


def list_instances(table: Table, hierarchy: Hierarchy, *, weight: Any = None) -> Instances:
    """Lay out the LPRs of `table` for the kernels; refuse what is not an LPR."""
    if hierarchy.n_labels > MOST_LABELS:
        raise HierarchyError(f"At most {MOST_LABELS:,} labels can be ranked exactly.")
    values = table.values
    check_unit_interval(values, hierarchy.labels, name="lpr")
    weights = (
        None if weight is None else check_label_weights(weight, hierarchy.labels, name="weight")
    )
    units = in_units(weights)
    if isinstance(values, np.ndarray):
        row_ptr = np.arange(values.shape[0] + 1, dtype=np.int64) * hierarchy.n_labels
        lpr = values.reshape(-1)
        priority = lpr if weights is None else (values * units.share).reshape(-1)
        rows = Rows(priority, row_ptr, hierarchy.order, _NONE, GRID)
        return Instances(lpr, rows, _shared_graph(hierarchy), weights, units, hierarchy)
    stored_ptr = values.indptr.astype(np.int64)
    stored = hierarchy.position[values.indices]
    row_ptr, node_of = close_rows(hierarchy, stored_ptr, stored)
    lpr = traversal.close_values(
        stored_ptr, stored, values.data, row_ptr, node_of, hierarchy.n_labels
    )
    priority = lpr if weights is None else lpr * units.share[hierarchy.order[node_of]]
    slot = np.arange(int(np.diff(row_ptr).max(initial=0)), dtype=np.int32)
    rows = Rows(priority, row_ptr, slot, node_of, GRID)
    shared = _shared_graph(hierarchy)
    graph: Forest | Dag
    if isinstance(shared, Forest):
        graph = Forest(traversal.local_parents(row_ptr, node_of, shared.parent), False)
    else:
        edges = traversal.local_edges(row_ptr, node_of, hierarchy.parent_ptr, hierarchy.parent_idx)
        graph = Dag(*edges, False)
    return Instances(lpr, rows, graph, weights, units, hierarchy)


@lru_cache(maxsize=8)  # one sample at a time, it would cost as much as the blocks
def _shared_graph(hierarchy: Hierarchy) -> Forest | Dag:
    """Return the parents in samples that hold every label."""
    if not hierarchy.is_forest:
        return Dag(hierarchy.parent_ptr.astype(np.int64), hierarchy.parent_idx, True)
    parent = np.full(hierarchy.n_labels, -1, dtype=np.int32)
    parent[np.diff(hierarchy.parent_ptr) == 1] = hierarchy.parent_idx
    return Forest(parent, True)


class Units(NamedTuple):
    """Weights as shares of the largest, `largest`, so that equal ratios give equal numbers.

    Whatever the weights, their products with LPRs then fit the grid of the LPRs themselves.
    `share` is empty if all labels count the same.
    """

    share: NDArray[np.float64]
    largest: float

    def given(self, values: Any) -> Any:
        """Bring numbers in these units back to those of the weights as given.

        Beyond the largest float they are infinite.
        """
        if self.largest == 1.0:  # saves a pass over all instances
            return values
        with np.errstate(over="ignore", under="ignore"):
            return values * np.float64(self.largest)


def in_units(weight: NDArray[np.float64] | None) -> Units:
    """Divide checked weights by the largest of them."""
    if weight is None:
        return Units(np.empty(0), 1.0)
    largest = float(weight.max(initial=0.0))
    if largest == 0.0:
        return Units(weight, 1.0)
    with np.errstate(under="ignore"):
        return Units(weight / largest, largest)
