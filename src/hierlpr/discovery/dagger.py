r"""Top-down tests on a hierarchy (DAGGER), with Simes' p-values of whole branches.

At level :math:`\alpha` the nodes are tested depth by depth, each only if all its parents were
rejected. With :math:`\ell_v` and :math:`m_v` the effective numbers of leaves and of nodes below
and at :math:`v`, :math:`L` the number of leaves and :math:`R` the rejections at smaller depths,
depth :math:`d` rejects with the largest :math:`r` such that :math:`r` of its nodes have

.. math:: p_v \le \alpha \frac{\ell_v}{L} \frac{\beta_{d,v}(m_v + r + R - 1)}{m_v},

:math:`\beta(x) = x` under positive dependence. Under arbitrary dependence
:math:`\beta_{d,v}(x)` is the number of terms :math:`m_v + d - 1, m_v + d, \ldots` up to :math:`x`,
divided by the sum of the inverse terms up to :math:`m_v + n_d - 1` with :math:`n_d` the number of
nodes of depth at most :math:`d` (the reshaping of Benjamini and Yekutieli).

References: keys ``ramdas2019dagger``, ``simes1986``, ``benjamini2001``, ``blanchard2008`` in
``docs/references.bib``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from hierlpr._kernels.step_up import simes_below, step_up_levels
from hierlpr.hierarchy import Hierarchy

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Tested:
    """The nodes that have a p-value at or below them, numbered as in the hierarchy.

    They are closed upward, so nothing below them is lost but nodes that nothing is known about.

    Attributes
    ----------
    node : ndarray
        Their numbers in the hierarchy, rising.
    parent_ptr, parent_idx : ndarray
        The parents of each among them.
    depth : ndarray
        1 for roots, else one more than the deepest parent.
    """

    node: NDArray[np.intp]
    parent_ptr: NDArray[np.int32]
    parent_idx: NDArray[np.int32]
    depth: NDArray[np.int32]


def branch_p_values(p: Float, hierarchy: Hierarchy, *, arbitrary: bool) -> Float:
    r"""Simes' p-value of each node with all its descendants; NaN where none has a p-value.

    For the :math:`n` p-values at and below a node, :math:`\min_k p_{(k)} n / k`, at most 1: valid
    for "no signal at the node or below it" under positive dependence, and under any dependence
    after multiplying by :math:`1 + 1/2 + \ldots + 1/n` (`arbitrary`).

    Parameters
    ----------
    p : ndarray of shape (n_labels,)
        In the order of ``hierarchy.labels``; NaN where there is none.

    Examples
    --------
    >>> h = Hierarchy([("A", "B"), ("A", "C")])
    >>> branch_p_values(np.array([0.9, 0.01, 0.04]), h, arbitrary=False)
    array([0.03, 0.01, 0.04])
    """
    own = np.ascontiguousarray(p[hierarchy.order])
    rising = np.argsort(own, kind="stable")
    rising = rising[: np.count_nonzero(~np.isnan(own))]
    value, count = simes_below(own, rising, hierarchy.parent_ptr, hierarchy.parent_idx)
    if arbitrary:
        value = value * (digamma(count + 1.0) + np.euler_gamma)
    branch = np.where(count > 0, np.minimum(value, 1.0), np.nan)
    return np.asarray(branch[hierarchy.position])


def known_part(p: Float, hierarchy: Hierarchy) -> Tested:
    """Return the nodes where `p`, in the order of ``hierarchy.labels``, is not missing.

    They must be closed upward, as p-values of branches are.
    """
    h = hierarchy
    kept = ~np.isnan(p[h.order])
    place = np.cumsum(kept) - 1
    of_kept = np.repeat(kept, np.diff(h.parent_ptr))
    ptr = np.append(0, np.cumsum(np.diff(h.parent_ptr)[kept])).astype(np.int32)
    idx = place[h.parent_idx[of_kept]].astype(np.int32)
    depth = np.asarray(h.levels[h.order][kept], dtype=np.int32)
    return Tested(np.flatnonzero(kept), ptr, idx, depth)


def effective_counts(tested: Tested) -> tuple[Float, Float]:
    """Effective leaves and nodes: a node shares its own equally among its parents.

    A leaf has one leaf, every node has itself, and both add up along the edges.
    """
    ptr, idx = tested.parent_ptr.tolist(), tested.parent_idx.tolist()
    n = tested.node.size
    has_child = np.zeros(n, dtype=bool)
    has_child[tested.parent_idx] = True
    leaves, nodes = (~has_child).astype(float).tolist(), [1.0] * n
    for v in range(n - 1, -1, -1):  # children have larger numbers
        parents = idx[ptr[v] : ptr[v + 1]]
        for u in parents:
            leaves[u] += leaves[v] / len(parents)
            nodes[u] += nodes[v] / len(parents)
    return np.array(leaves), np.array(nodes)


def dagger_levels(p: Float, hierarchy: Hierarchy, *, arbitrary: bool) -> Float:
    """Smallest fdr at which DAGGER rejects each node, at most 1; in the order of the labels.

    Parameters
    ----------
    p : ndarray of shape (n_labels,)
        p-values to test, in the order of ``hierarchy.labels``. Nodes where it is missing must
        have no descendants with a p-value; they are left out.
    arbitrary : bool
        Reshape the levels, for p-values of arbitrary dependence.

    Examples
    --------
    >>> h = Hierarchy([("A", "B"), ("A", "C")])
    >>> dagger_levels(np.array([0.01, 0.02, 0.3]), h, arbitrary=False)
    array([0.01, 0.02, 0.2 ])
    """
    part = known_part(p, hierarchy)
    value = p[hierarchy.order][part.node]
    leaves, nodes = effective_counts(part)
    n_leaves = round(leaves[part.depth == 1].sum())  # every leaf is shared out among the roots
    need = value * nodes * n_leaves / leaves
    offset = nodes - 1.0
    by_depth = np.argsort(part.depth, kind="stable")
    n_by_depth = np.cumsum(np.bincount(part.depth)) if part.node.size else np.zeros(1, dtype=int)
    if arbitrary:
        most = n_by_depth[part.depth]
        need *= digamma(nodes + most) - digamma(nodes + part.depth - 1.0)
        offset = 1.0 - part.depth.astype(np.float64)
    level = np.ones(hierarchy.n_labels)
    level[part.node] = step_up_levels(
        need, offset, by_depth, n_by_depth.astype(np.intp), part.parent_ptr, part.parent_idx
    )
    return np.asarray(level[hierarchy.position])
