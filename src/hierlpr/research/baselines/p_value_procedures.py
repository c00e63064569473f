"""Other ways to reject nodes of a hierarchy by their p-values, to compare `discover` with.

Each takes p-values as `hierlpr.discover` does and returns, in the order of ``hierarchy.labels``,
whether each node is rejected; a node without a p-value is rejected only where that is said.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_level
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
    """Reject by DAGGER with the nodes' own p-values: a null is about the node itself.

    Every label needs a p-value. For independent or positively dependent (PRDS) p-values.

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
    """Reject family by family down a forest: the children of a rejected node are one family.

    Each family is tested by Benjamini and Hochberg's procedure at level ``fdr / 2.88``, which
    keeps the FDR of all discoveries at `fdr` for independent p-values. Every label needs one.

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
        found = family[_step_up(p[family], level)]
        rejected[found] = True
        families += [h.child_idx[h.child_ptr[v] : h.child_ptr[v + 1]] for v in found.tolist()]
    return np.asarray(rejected[h.position])


def meinshausen(p_values: Any, hierarchy: Hierarchy, alpha: float = 0.1) -> Mask:
    """Reject top down so that any false rejection has a probability of at most `alpha` (FWER).

    A node whose parents are rejected is tested at `alpha` times its share of the leaves, shared
    equally among several parents on a DAG; for any dependence. Every label needs a p-value.

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
    passes = p[hierarchy.order] * len(hierarchy.leaves) <= alpha * leaves
    ptr, idx = hierarchy.parent_ptr.tolist(), hierarchy.parent_idx
    for v in range(hierarchy.n_labels):
        passes[v] &= passes[idx[ptr[v] : ptr[v + 1]]].all()
    return np.asarray(passes[hierarchy.position])


def simes_max_bh(p_values: Any, hierarchy: Hierarchy, fdr: float = 0.1) -> Mask:
    """Reject by Benjamini and Hochberg on Simes' p-values of branches, raised to those above.

    A node's p-value is the largest of Simes' p-values of it and all its ancestors with their
    descendants, so no child passes without its parents. A null reads "no signal here nor below".

    References
    ----------
    Keys ``simes1986``, ``benjamini1995``.

    Examples
    --------
    >>> simes_max_bh([0.9, 0.001, 0.5], Hierarchy([("A", "B"), ("A", "C")]))
    array([ True,  True, False])
    """
    p = align_p_values(p_values, hierarchy)
    h = hierarchy
    branch = branch_p_values(p, h, arbitrary=False)[h.order]
    ptr, idx = h.parent_ptr.tolist(), h.parent_idx
    for v in range(h.n_labels):
        above = branch[idx[ptr[v] : ptr[v + 1]]]
        if above.size:
            branch[v] = max(branch[v], above.max())
    return _step_up(branch[h.position], check_level(fdr, name="fdr"))


def _step_up(p: Float, level: float) -> Mask:
    """Benjamini and Hochberg's procedure; missing p-values are not counted."""
    given = np.sort(p[~np.isnan(p)])
    passing = np.flatnonzero(given <= level * np.arange(1, given.size + 1) / max(given.size, 1))
    if not passing.size:
        return np.zeros(p.size, dtype=bool)
    return np.asarray(p <= given[passing[-1]])


def _complete(p_values: Any, hierarchy: Hierarchy, name: str) -> Float:
    p = align_p_values(p_values, hierarchy)
    missing = np.flatnonzero(np.isnan(p))
    if missing.size:
        raise DataError(
            f"{name} needs a p-value for every label, but {missing.size:,} have none, such as "
            f"{hierarchy.labels[missing[0]]!r}."
        )
    return p
