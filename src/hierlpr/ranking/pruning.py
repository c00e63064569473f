"""Leave labels of small LPR out of the search for blocks, in a stated order, at a bounded cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._base.checks import check_fraction
from hierlpr._kernels.traversal import prune_rows
from hierlpr.data.tables import Table
from hierlpr.hierarchy import Hierarchy
from hierlpr.ranking.instances import list_instances


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """The pruned instances in calling order: row, column, LPR, and LPR times weight in units."""

    sample: NDArray[np.intp]
    label: NDArray[np.int32]
    lpr: NDArray[np.float64]
    priority: NDArray[np.float64]


def prune(
    table: Table, hierarchy: Hierarchy, *, min_lpr: float, weight: Any = None
) -> tuple[Table, Tail]:
    """Part a table into the labels of LPR at least `min_lpr` with their ancestors, and the rest.

    The first comes back as a sparse table. The rest is ordered by the smallest priority (LPR times
    weight) among a label and those of its ancestors that are pruned too, falling, which puts
    parents first; ties go to the smaller topological number, then to the earlier sample.
    """
    min_lpr = check_fraction(min_lpr, name="min_lpr")
    whole = list_instances(table, hierarchy, weight=weight)
    kept = np.empty(whole.lpr.size, dtype=bool)
    least = np.empty(whole.lpr.size)
    prune_rows(
        whole.rows, whole.lpr, hierarchy.parent_ptr, hierarchy.parent_idx, min_lpr, kept, least
    )
    row_ptr = whole.rows.row_ptr
    sample = np.repeat(np.arange(whole.n_samples), np.diff(row_ptr))
    place = np.arange(whole.lpr.size) - row_ptr[sample]
    where = row_ptr[sample] + whole.rows.slot[place]
    number = place if whole.is_dense else whole.rows.node_of
    rows = np.concatenate(([0], np.cumsum(np.bincount(sample[kept], minlength=whole.n_samples))))
    part = scipy.sparse.csr_array(
        (whole.lpr[where[kept]], hierarchy.order[number[kept]], rows),
        shape=(whole.n_samples, hierarchy.n_labels),
    )
    rest = np.flatnonzero(~kept)
    rest = rest[np.lexsort((sample[rest], number[rest], -least[rest]))]
    tail = Tail(
        sample[rest],
        hierarchy.order[number[rest]],
        whole.lpr[where[rest]],
        whole.rows.value[where[rest]],
    )
    return replace(table, values=part), tail


def cost_bound(block_mean: NDArray[np.float64], block_size: NDArray[np.intp], tail: Tail) -> float:
    r"""Bound from above how much eAUC is lost by calling `tail` after the given sorted blocks.

    If the pruned labels had no parents, the best order would sort them, as blocks of their own,
    among the others. Against that, a label of priority :math:`t` that comes after a block of mean
    :math:`\mu < t` and size :math:`s` loses :math:`s (t - \mu)`; and the tail loses what sorting it
    would gain. All in the units of the weights.
    """
    # Means fall along the blocks: suffix sums over those of mean below t.
    size_after = np.concatenate((np.cumsum(block_size[::-1])[::-1], [0]))
    total_after = np.concatenate((np.cumsum((block_size * block_mean)[::-1])[::-1], [0.0]))
    first_below = np.searchsorted(-block_mean, -tail.priority, side="right")
    passed = tail.priority * size_after[first_below] - total_after[first_below]
    places = np.arange(tail.priority.size, 0, -1, dtype=np.float64)
    unsorted = np.dot(places, np.sort(tail.priority)[::-1] - tail.priority)
    return float(max(0.0, passed.sum() + unsorted))
