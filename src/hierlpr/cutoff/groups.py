"""Groups of labels with levels and limits of their own; calls stay closed upward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from hierlpr._kernels.traversal import min_down
from hierlpr._utils.checks import is_sparse, quote_names
from hierlpr.cutoff.instances import sample_places
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

Groups: TypeAlias = str | Mapping[str, str] | Sequence[str]


def label_groups(hierarchy: Hierarchy, groups: Groups) -> tuple[str, ...]:
    """Return the name of the group of every label, in the order of ``hierarchy.labels``.

    Parameters
    ----------
    hierarchy : Hierarchy
    groups : "tree", "depth", "label", mapping or sequence
        ``"tree"``: one group per connected component of the hierarchy, named by its first root.
        ``"depth"``: one per depth. ``"label"``: one per label. Otherwise a mapping from each label
        to its group, or the groups in label order.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")], labels=["C"])
    >>> label_groups(h, "tree"), label_groups(h, "depth")
    (('C', 'A', 'A'), ('1', '1', '2'))
    """
    if isinstance(groups, str):
        if groups == "tree":
            return _components(hierarchy)
        if groups == "depth":
            return tuple(str(level) for level in hierarchy.levels)
        if groups == "label":
            return hierarchy.labels
        raise DataError(
            f"groups must be 'tree', 'depth', 'label', a mapping or a list; got {groups!r}."
        )
    if isinstance(groups, Mapping):
        missing = [label for label in hierarchy.labels if label not in groups]
        unknown = [label for label in groups if label not in hierarchy]
        if missing or unknown:
            what = "no group for" if missing else "unknown labels in groups:"
            raise DataError(f"groups: {what} {quote_names(missing or unknown)}.")
        return tuple(str(groups[label]) for label in hierarchy.labels)
    if len(groups) != hierarchy.n_labels:
        raise DataError(
            f"groups has {len(groups):,} entries, but there are {hierarchy.n_labels:,} labels."
        )
    return tuple(str(group) for group in groups)


def _components(hierarchy: Hierarchy) -> tuple[str, ...]:
    h = hierarchy
    n = h.n_labels
    graph = scipy.sparse.csr_array((np.ones(h.n_edges), h.child_idx, h.child_ptr), shape=(n, n))
    _, part = connected_components(graph, directed=False)
    part = part[h.position]
    name: dict[int, str] = {}
    for root in h.roots:
        name.setdefault(int(part[h.index(root)]), root)
    return tuple(name[int(p)] for p in part)


def group_columns(groups: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """Return the columns of each group, groups in order of first appearance."""
    columns: dict[str, list[int]] = {}
    for column, group in enumerate(groups):
        columns.setdefault(group, []).append(column)
    return {group: np.array(where, dtype=np.intp) for group, where in columns.items()}


def group_parents(hierarchy: Hierarchy, group: NDArray[np.intp]) -> dict[int, list[int]]:
    """Return the groups with an edge into each group, in an order with parents first.

    `group` is the number of the group of each label.

    Raises
    ------
    DataError
        If edges lead from one group to another and back, so that there is no such order.
    """
    of_label, n = group[hierarchy.order], int(group.max(initial=-1)) + 1
    child, parent = (
        np.repeat(of_label, np.diff(hierarchy.parent_ptr)),
        of_label[hierarchy.parent_idx],
    )
    parents: dict[int, list[int]] = {g: [] for g in range(n)}
    for pair in np.unique((parent * n + child)[parent != child]).tolist():
        parents[pair % n].append(pair // n)
    try:
        return {g: parents[g] for g in TopologicalSorter(parents).static_order()}
    except CycleError as error:
        g = int(error.args[1][0])
        raise DataError(
            "With confidence=, groups must have an order in which no edge leads back, but edges "
            f"lead from the group of {hierarchy.labels[int(np.argmax(group == g))]!r} to other "
            'groups and back.\nHint: use groups="depth", "tree" or "label".'
        ) from None


def label_levels(cutoff: Cutoff, hierarchy: Hierarchy) -> NDArray[np.float64]:
    """Return the level of each label: the largest of those of its group and of all its ancestors.

    Block scores never rise from parent to child. With levels that never fall from parent to child,
    the ancestors of a called label reach their levels too, so calls are closed upward.
    """
    if cutoff.groups is None or cutoff.label_groups is None:
        return np.full(hierarchy.n_labels, cutoff.level)
    own = np.array([cutoff.groups[group].level for group in cutoff.label_groups])
    lowered = np.ascontiguousarray(-own[hierarchy.order][None])  # the largest is the smallest of -x
    min_down(lowered, hierarchy.parent_ptr, hierarchy.parent_idx)
    return np.asarray(-lowered[0][hierarchy.position])


def limit_thresholds(
    score: Any,
    columns: Sequence[NDArray[np.intp]],
    limits: Sequence[int | None],
    parents: Mapping[int, Sequence[int]],
) -> NDArray[np.float64]:
    """Return the score that instances of each sample and group must exceed because of limits.

    It is the highest score past the limit of calls per sample of the group, or of any group of its
    ancestors, so that calls stay closed upward; -1 if no limit is exceeded.
    """
    above = np.full((score.shape[0], len(columns)), -1.0)
    for g, groups_above in parents.items():
        limit = limits[g]
        if limit is not None and limit < columns[g].size:
            above[:, g] = _first_past(score[:, columns[g]], limit)
        for parent in groups_above:
            np.maximum(above[:, g], above[:, parent], out=above[:, g])
    return above


def _first_past(score: Any, limit: int) -> NDArray[np.float64]:
    """Return the (limit + 1)-th highest score of each row, -1 if there are fewer."""
    if not is_sparse(score):
        return np.asarray(np.partition(score, score.shape[1] - limit - 1, axis=1)[:, -limit - 1])
    csr = scipy.sparse.csr_array(score)
    past = np.full(csr.shape[0], -1.0)
    row = np.repeat(np.arange(csr.shape[0], dtype=np.intp), np.diff(csr.indptr))
    order, place, _ = sample_places(csr.data, row)
    at = order[place == limit + 1]
    past[row[at]] = csr.data[at]
    return past
