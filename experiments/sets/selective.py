"""Rules that follow one path per sample, for comparison with sure labels.

Both give the labels of one path from a root values that fall along it, and -1 to all others. The
labels above a threshold are called.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hierlpr.hierarchy import Hierarchy

Float = NDArray[np.float64]


def climb_values(lpr: Float, hierarchy: Hierarchy) -> Float:
    """Sum the probabilities of the leaves below each label on the path of the most likely leaf.

    The LPRs of the leaves, scaled to sum to 1, are used as class probabilities; on a DAG the path
    goes up to the parent with the largest sum.

    References
    ----------
    Key ``goren2024hierarchical`` in ``docs/references.bib``.

    Examples
    --------
    >>> h = Hierarchy([("A", "B"), ("A", "C")], labels=["A", "B", "C", "D"])
    >>> climb_values(np.array([[0.9, 0.4, 0.2, 0.2]]), h)
    array([[ 0.75,  0.5 , -1.  , -1.  ]])
    """
    leaves = [hierarchy.index(leaf) for leaf in hierarchy.leaves]
    share = np.zeros_like(lpr)
    total = lpr[:, leaves].sum(axis=1, keepdims=True)
    share[:, leaves] = np.divide(
        lpr[:, leaves], total, out=np.full((len(lpr), len(leaves)), 1 / len(leaves)),
        where=total > 0,
    )  # fmt: skip
    below = np.eye(hierarchy.n_labels, dtype=bool)
    below = np.asarray(hierarchy.close_upward(below))  # row: a label, columns: it and what is above
    mass = share @ below
    values = np.full_like(lpr, -1.0)
    for i, leaf in enumerate(np.asarray(leaves)[share[:, leaves].argmax(axis=1)].tolist()):
        _write_path(values[i], mass[i], leaf, hierarchy)
    return values


def descent_values(lpr: Float, hierarchy: Hierarchy) -> Float:
    """Return the smallest LPR so far on the path from the most likely root to likely children.

    Examples
    --------
    >>> h = Hierarchy([("A", "B"), ("A", "C")], labels=["A", "B", "C", "D"])
    >>> descent_values(np.array([[0.9, 0.4, 0.2, 0.2]]), h)
    array([[ 0.9,  0.4, -1. , -1. ]])
    """
    values = np.full_like(lpr, -1.0)
    roots = [hierarchy.index(root) for root in hierarchy.roots]
    children = [[hierarchy.index(c) for c in hierarchy.children(x)] for x in hierarchy.labels]
    for i, row in enumerate(lpr):
        at, least = max(roots, key=lambda j: row[j]), 1.0
        while True:
            least = min(least, float(row[at]))
            values[i, at] = least
            if not children[at]:
                break
            at = max(children[at], key=lambda j: row[j])
    return values


def _write_path(values: Float, mass: Float, leaf: int, hierarchy: Hierarchy) -> None:
    at: int | None = leaf
    while at is not None:
        values[at] = mass[at]
        parents = [hierarchy.index(p) for p in hierarchy.parents(hierarchy.labels[at])]
        at = max(parents, key=lambda j: mass[j]) if parents else None
