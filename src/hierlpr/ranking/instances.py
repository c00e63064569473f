"""The LPRs of all samples in one flat layout for the kernels, dense or sparse, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_label_weights, check_unit_interval
from hierlpr._kernels import traversal
from hierlpr.data.tables import Table
from hierlpr.exceptions import HierarchyError
from hierlpr.hierarchy import Hierarchy
from hierlpr.ranking.weights import Units, in_units

__all__ = ["GRID", "Instances", "list_instances"]

GRID_BITS = 30  # LPRs are rounded to multiples of 2**-30, so that sums and ties are exact
GRID = 2.0**GRID_BITS
MOST_LABELS = 1 << (53 - GRID_BITS)

_NONE_INT = np.empty(0, dtype=np.int32)
_NONE_LONG = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Instances:
    """The instances of all samples in one flat layout, dense or sparse.

    Sample ``m`` has the nodes ``i = 0, 1, ...`` in topological order; node ``i`` has its LPR at
    ``lpr[row_ptr[m] + slot[i]]``. Dense samples all hold every label, so `slot` and the parents
    are shared by all of them and `node_of` is empty. Sparse samples hold the labels stored and
    their ancestors; there ``node_of[row_ptr[m] + i]`` is the label's number in the hierarchy.

    With ``base`` 0 for dense samples, else ``row_ptr[m]``, the parents of node ``i`` are the nodes
    ``parent_idx[parent_ptr[base + i]:parent_ptr[base + i + 1]]`` of the same sample. On a forest
    that pair is empty, and the parent is ``parent[base + i]``, -1 for roots.

    `priority` is what is maximized: the LPR times the label's weight in `units`, which kernels
    round to steps of ``1 / GRID``. `weight` is as given, None if all labels count the same.
    """

    lpr: NDArray[np.float64]
    priority: NDArray[np.float64]
    row_ptr: NDArray[np.int64]
    slot: NDArray[np.int32]
    parent: NDArray[np.int32]
    parent_ptr: NDArray[np.int64]
    parent_idx: NDArray[np.int32]
    node_of: NDArray[np.int32]
    weight: NDArray[np.float64] | None
    units: Units
    hierarchy: Hierarchy

    @property
    def is_dense(self) -> bool:
        """Whether every sample holds every label."""
        return self.node_of.size == 0 and self.lpr.size > 0

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.row_ptr.size - 1


def list_instances(
    table: Table, hierarchy: Hierarchy, *, weight: Any = None, name: str = "lpr"
) -> Instances:
    """Lay out the LPRs of `table` for the kernels; refuse what is not an LPR."""
    if hierarchy.n_labels > MOST_LABELS:
        raise HierarchyError(f"At most {MOST_LABELS:,} labels can be ranked exactly.")
    values = table.values
    check_unit_interval(values, hierarchy.labels, name=name)
    weights = (
        None if weight is None else check_label_weights(weight, hierarchy.labels, name="weight")
    )
    units = in_units(weights)
    if isinstance(values, np.ndarray):
        row_ptr = np.arange(values.shape[0] + 1, dtype=np.int64) * hierarchy.n_labels
        lpr = values.reshape(-1)
        priority = lpr if weights is None else (values * units.share).reshape(-1)
        return Instances(
            lpr, priority, row_ptr, hierarchy.order, *_parents(hierarchy), _NONE_INT,
            weights, units, hierarchy,
        )  # fmt: skip
    stored_ptr = values.indptr.astype(np.int64)
    stored = hierarchy.position[values.indices]
    row_ptr, node_of = traversal.close_rows(
        stored_ptr, stored, hierarchy.parent_ptr, hierarchy.parent_idx
    )
    lpr = traversal.close_values(
        stored_ptr, stored, values.data, row_ptr, node_of, hierarchy.n_labels
    )
    priority = lpr if weights is None else lpr * units.share[hierarchy.order[node_of]]
    parent, parent_ptr, parent_idx = _NONE_INT, _NONE_LONG, _NONE_INT
    if hierarchy.is_forest:
        parent = traversal.local_parents(row_ptr, node_of, _parents(hierarchy)[0])
    else:
        parent_ptr, parent_idx = traversal.local_edges(
            row_ptr, node_of, hierarchy.parent_ptr, hierarchy.parent_idx
        )
    slot = np.arange(int(np.diff(row_ptr).max(initial=0)), dtype=np.int32)
    return Instances(
        lpr, priority, row_ptr, slot, parent, parent_ptr, parent_idx, node_of, weights, units,
        hierarchy,
    )  # fmt: skip


def _parents(
    hierarchy: Hierarchy,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
    """Return `parent`, `parent_ptr` and `parent_idx` of samples that hold every label."""
    if not hierarchy.is_forest:
        return _NONE_INT, hierarchy.parent_ptr.astype(np.int64), hierarchy.parent_idx
    parent = np.full(hierarchy.n_labels, -1, dtype=np.int32)
    parent[np.diff(hierarchy.parent_ptr) == 1] = hierarchy.parent_idx
    return parent, _NONE_LONG, _NONE_INT
