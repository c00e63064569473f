"""Competitors of `hierlpr.discover`.

Each takes p-values as `hierlpr.discover` does and returns, in the order of ``hierarchy.labels``,
whether each node is rejected. Nodes without a p-value are not rejected except by `simes_max_bh`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import check_level
from hierlpr.baselines.rank_functions import propagate_min
from hierlpr.discovery.p_values import align_p_values
from hierlpr.discovery.procedures import (
    branch_p_values,
    dagger_levels,
    effective_counts,
    known_part,
)
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

Float = NDArray[np.float64]
Mask = NDArray[np.bool_]

YEKUTIELI_BOUND = 2 * 1.44  # FDR of all discoveries over the level of each family


def benjamini_hochberg(p_values: Any, hierarchy: Hierarchy, fdr: float = 0.1) -> Mask:
    """Reject by Benjamini and Hochberg's procedure, which ignores the hierarchy.

    References
    ----------
    Key ``benjamini1995``.

    Examples
    --------
    >>> benjamini_hochberg([0.9, 0.01], Hierarchy([("A", "B")]))
    array([False,  True])
    """
    p = align_p_values(p_values, hierarchy)
    return _step_up(p, check_level(fdr, name="fdr"))


def dagger(p_values: Any, hierarchy: Hierarchy, fdr: float = 0.1) -> Mask:
    """Reject by DAGGER on the nodes' own p-values; for independent or PRDS p-values.

    The null of a node is about the node itself. Every label needs a p-value.

    References
    ----------
    Key ``ramdas2019dagger``.

    Examples
    --------
    >>> dagger([0.01, 0.01, 0.5], Hierarchy([("A", "B"), ("A", "C")]), 0.05)
    array([ True,  True, False])
    """
    p = _complete(p_values, hierarchy, "DAGGER")
    return dagger_levels(p, hierarchy, arbitrary=False) <= check_level(fdr, name="fdr")


def yekutieli(p_values: Any, hierarchy: Hierarchy, fdr: float = 0.1) -> Mask:
    """Reject from the roots down, the children of a rejected node being one family; forests only.

    Benjamini and Hochberg's procedure at level ``fdr / 2.88`` in each family keeps the FDR of all
    discoveries at `fdr` for independent p-values. Every label needs a p-value.

    References
    ----------
    Key ``yekutieli2008``.

    Examples
    --------
    >>> yekutieli([0.01, 0.01, 0.5], Hierarchy([("A", "B"), ("A", "C")]))
    array([ True,  True, False])
    """
    if not hierarchy.is_forest:
        raise DataError("Yekutieli's procedure needs a forest, but the hierarchy is a DAG.")
    p = _complete(p_values, hierarchy, "Yekutieli's procedure")[hierarchy.order]
    level = check_level(fdr, name="fdr") / YEKUTIELI_BOUND
    h = hierarchy
    rejected = np.zeros(h.n_labels, dtype=bool)
    families: list[NDArray[Any]] = [np.flatnonzero(np.diff(h.parent_ptr) == 0)]
    while families:
        family = families.pop()
        passing = family[_step_up(p[family], level)]
        rejected[passing] = True
        families += [h.child_idx[h.child_ptr[v] : h.child_ptr[v + 1]] for v in passing.tolist()]
    return np.asarray(rejected[h.position])


def meinshausen(p_values: Any, hierarchy: Hierarchy, alpha: float = 0.1) -> Mask:
    """Reject from the roots down, with a familywise error rate of at most `alpha`.

    A node whose parents are rejected is tested at `alpha` times its share of the leaves (on a DAG,
    leaves are divided equally among parents). For any dependence. Every label needs a p-value.

    References
    ----------
    Key ``meinshausen2008``.

    Examples
    --------
    >>> meinshausen([0.04, 0.04, 0.02], Hierarchy([("A", "B"), ("A", "C")]), 0.05)
    array([ True, False,  True])
    """
    p = _complete(p_values, hierarchy, "Meinshausen's procedure")
    leaves, _ = effective_counts(known_part(p, hierarchy))
    alpha = check_level(alpha, name="alpha")
    passes = p * len(hierarchy.leaves) <= alpha * leaves[hierarchy.position]
    return np.asarray(propagate_min(passes[None].astype(np.float64), hierarchy)[0] > 0.0)


def simes_max_bh(p_values: Any, hierarchy: Hierarchy, fdr: float = 0.1) -> Mask:
    """Reject by Benjamini and Hochberg's procedure on Simes' p-values of branches.

    A node's p-value is the largest Simes p-value of the branches of the node and its ancestors, so
    discoveries are closed upward. The null is "no signal at the node or below".

    References
    ----------
    Keys ``simes1986``, ``benjamini1995``.

    Examples
    --------
    >>> simes_max_bh([0.9, 0.001, 0.5], Hierarchy([("A", "B"), ("A", "C")]))
    array([ True,  True, False])
    """
    p = align_p_values(p_values, hierarchy)
    branch = branch_p_values(p, hierarchy, arbitrary=False)
    highest = -propagate_min(-branch[None], hierarchy)[0]
    return _step_up(highest, check_level(fdr, name="fdr"))


def _step_up(p: Float, level: float) -> Mask:
    """Benjamini and Hochberg's procedure, ignoring missing p-values."""
    rising = np.sort(p[~np.isnan(p)])
    passing = np.flatnonzero(rising <= level * np.arange(1, rising.size + 1) / max(rising.size, 1))
    if not passing.size:
        return np.zeros(p.size, dtype=bool)
    return np.asarray(p <= rising[passing[-1]])


def _complete(p_values: Any, hierarchy: Hierarchy, name: str) -> Float:
    p = align_p_values(p_values, hierarchy)
    missing = np.flatnonzero(np.isnan(p))
    if missing.size:
        raise DataError(
            f"{name} needs a p-value for every label, but {missing.size:,} have none, such as "
            f"{hierarchy.labels[missing[0]]!r}."
        )
    return p
