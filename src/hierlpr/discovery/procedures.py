r"""DAGGER on Simes' p-values of branches, and HierLPR-STAR.

**DAGGER** tests from the roots down. At level :math:`\alpha` the nodes are tested depth by depth,
each only if all its parents were rejected. With :math:`\ell_v` and :math:`m_v` the effective
numbers of leaves and of nodes at and below :math:`v`, :math:`L` the number of leaves and :math:`R`
the rejections at smaller depths, depth :math:`d` rejects with the largest :math:`r` such that
:math:`r` of its nodes have

.. math:: p_v \le \alpha \frac{\ell_v}{L} \frac{\beta_{d,v}(m_v + r + R - 1)}{m_v},

:math:`\beta(x) = x` under positive dependence. Under arbitrary dependence
:math:`\beta_{d,v}(x)` is the number of terms :math:`m_v + d - 1, m_v + d, \ldots` up to :math:`x`,
divided by the sum of the inverse terms up to :math:`m_v + n_d - 1` with :math:`n_d` the number of
nodes of depth at most :math:`d` (the reshaping of Benjamini and Yekutieli).

**HierLPR-STAR** peels the hierarchy from below while the p-values are half hidden. The candidates
:math:`R` start as all nodes that have a p-value. Every candidate shows only
:math:`g = \min(p, 1 - p)`. Repeatedly a model is fitted to what is shown, and the candidates
that are least likely to have a small p-value (below 1/2) are shown in full and leave :math:`R`, so
that no node leaves after one of its ancestors: their order is the ranking of hierlpr with
P(p < 1/2 | what is shown) instead of the LPR. The false discovery rate of rejecting all of
:math:`R` is estimated by

.. math:: \widehat{\mathrm{FDR}}(R) = 2.1\,(\#\{v \in R : p_v \ge 1/2\} + 0.65) / |R|

and all of :math:`R` is rejected the first time this is at most the requested level.

Proof, for any model. Given all :math:`g`, each p-value of a null node is 1/2 or more
with probability at least 1/2, independently, and which node leaves next does not depend on it.
So with :math:`N` nulls left, :math:`B` of them large, the next null to leave is large with
probability :math:`B / N`. The largest value of :math:`E[N / (2.1 (B + 0.65))]` that any way of
stopping can reach is at most 1: backward induction over :math:`(N, B)` gives 0.978 for every
number of nulls up to 4,000, and from there on :math:`N / (2.1 (B + 0.65))` is below
:math:`(N + 1) / (2 (B + 1))` unless :math:`B < 7`, which has a probability below :math:`10^{-300}`;
the latter is a martingale with mean at most 1 (Barber and Candès; Lei, Ramdas and Fithian). At the
stop, FDP :math:`= N / |R| \le \alpha N / (2.1 (B + 0.65))`, whose mean is at most
:math:`\alpha`. The estimate of Lei, Ramdas and Fithian is :math:`2 (B + 1) / (|R| + 1)`: it needs
19 candidates without a large p-value to reject anything at level 0.1, this one 14.

With few signals there are fewer. So a tenth of the requested level goes to DAGGER on the
nodes' own p-values, which can reject a single node, and the union is rejected: with
:math:`V_i` false among the :math:`R_i` of each, the union has
:math:`\mathrm{FDP} \le V_1 / R_1 + V_2 / R_2`, so its FDR is at most the sum of the two levels.

References: keys ``ramdas2019dagger``, ``simes1986``, ``benjamini2001``, ``blanchard2008``,
``lei2021star``, ``barber2015``, ``lei2018adapt`` in ``docs/references.bib``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from hierlpr._kernels.hypothesis_tests import simes_below, step_up_levels
from hierlpr.discovery.p_values import ShiftModel, fit_shift, normal_scores
from hierlpr.hierarchy import Hierarchy
from hierlpr.ranking.blocks import consistent_scores

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Tested:
    """The nodes with a p-value at or below them, which are closed upward.

    `node` has their topological numbers in the hierarchy, increasing, `parent_ptr` and `parent_idx`
    the parents of each among them, and `depth` is 1 for roots, else one more than that of the
    deepest parent.
    """

    node: NDArray[np.intp]
    parent_ptr: NDArray[np.int32]
    parent_idx: NDArray[np.int32]
    depth: NDArray[np.int32]


def branch_p_values(p: Float, hierarchy: Hierarchy, *, arbitrary: bool) -> Float:
    r"""Return Simes' p-value of each node with all its descendants; NaN if none has a p-value.

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
    by_number = np.ascontiguousarray(p[hierarchy.order])
    rising = np.argsort(by_number, kind="stable")
    rising = rising[: np.count_nonzero(~np.isnan(by_number))]
    value, count = simes_below(by_number, rising, hierarchy.parent_ptr, hierarchy.parent_idx)
    if arbitrary:
        value = value * (digamma(count + 1.0) + np.euler_gamma)
    branch = np.where(count > 0, np.minimum(value, 1.0), np.nan)
    return np.asarray(branch[hierarchy.position])


def known_part(p: Float, hierarchy: Hierarchy) -> Tested:
    """Return the nodes where `p`, in the order of ``hierarchy.labels``, is not missing.

    They must be closed upward, as p-values of branches are.
    """
    h = hierarchy
    has_p = ~np.isnan(p[h.order])
    place = np.cumsum(has_p) - 1
    edge_has_p = np.repeat(has_p, np.diff(h.parent_ptr))
    ptr = np.append(0, np.cumsum(np.diff(h.parent_ptr)[has_p])).astype(np.int32)
    idx = place[h.parent_idx[edge_has_p]].astype(np.int32)
    depth = np.asarray(h.levels[h.order][has_p], dtype=np.int32)
    return Tested(np.flatnonzero(has_p), ptr, idx, depth)


def effective_counts(tested: Tested) -> tuple[Float, Float]:
    """Return the effective numbers of leaves and of nodes at and below each node.

    The counts of a node are divided equally among its parents.
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
    """Return the smallest fdr at which DAGGER rejects each node, at most 1, in label order.

    Parameters
    ----------
    p : ndarray of shape (n_labels,)
        p-values to test, in the order of ``hierarchy.labels``. Nodes without one are left out;
        they must have no descendants with a p-value.
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
    n_leaves = round(leaves[part.depth == 1].sum())  # every leaf is divided among the roots
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


Order = NDArray[np.intp]

SLOPE, SHARE = 2.1, 0.65  # of the estimate; see the module's text
FEW = 0.1  # share of the level for DAGGER, which finds few signals

# Share of the candidates that leave between two fits: smaller when there are few.
LARGE_STEP, SMALL_STEP, MANY = 0.25, 0.1, 2_000
FIRST_STEPS, LATER_STEPS = 20, 2  # EM steps before the first and between later rounds


def fdr_numerator(n_large: NDArray[Any]) -> Float:
    """Estimate the number of nulls among candidates from their number of large p-values."""
    return np.asarray(SLOPE * (n_large + SHARE))


def star_levels(p: Float, hierarchy: Hierarchy, rng: np.random.Generator | None) -> Float:
    """Return the smallest fdr at which each node is rejected, at most 1, in label order.

    Parameters
    ----------
    p : ndarray of shape (n_labels,)
        NaN where there is none: such a node is not counted, and is rejected only together with a
        descendant.
    rng : numpy.random.Generator or None
        Breaks ties; by default they are broken by the order of the hierarchy.
    """
    tested = np.flatnonzero(~np.isnan(p))
    among = hierarchy
    if tested.size < hierarchy.n_labels:
        among = hierarchy.subset([hierarchy.labels[k] for k in tested])
    leaving = peel(p, hierarchy, among, rng)
    many = np.ones(hierarchy.n_labels)
    many[leaving] = peeled_levels(p[leaving] >= 0.5)
    few = dagger_levels(p[tested], among, arbitrary=False)
    level = np.ones(hierarchy.n_labels)
    level[tested] = np.minimum(np.minimum(many[tested] / (1.0 - FEW), few / FEW), 1.0)
    numbered = level[hierarchy.order]
    untested = np.isnan(p[hierarchy.order])
    if untested.any():
        ptr, idx = hierarchy.child_ptr.tolist(), hierarchy.child_idx
        for v in np.flatnonzero(untested)[::-1].tolist():  # children have larger numbers
            numbered[v] = numbered[idx[ptr[v] : ptr[v + 1]]].min(initial=1.0)
    return np.asarray(numbered[hierarchy.position])


def peeled_levels(large: NDArray[np.bool_]) -> Float:
    """Return the level of each candidate, in the order of leaving.

    It is the smallest estimate of the FDR while the node was a candidate.

    Examples
    --------
    >>> peeled_levels(np.array([True, False, False])).round(3)
    array([1.   , 0.683, 0.683])
    """
    n_large = np.cumsum(large[::-1])[::-1]
    n_left = np.arange(large.size, 0, -1)
    return np.asarray(np.minimum(np.minimum.accumulate(fdr_numerator(n_large) / n_left), 1.0))


def peel(
    p: Float, hierarchy: Hierarchy, among: Hierarchy, rng: np.random.Generator | None
) -> Order:
    """Return the nodes with a p-value in the order of leaving, descendants first.

    `among` is the hierarchy of these nodes alone. Which node leaves next depends only on
    ``min(p, 1 - p)`` of the candidates, on the p-values of those that left, and on p-values of
    exactly 1: a null node never has a p-value of 0, so for it ``min(p, 1 - p) = 0`` implies 1.
    """
    tested = np.flatnonzero(~np.isnan(p))
    tie = np.arange(tested.size) if rng is None else rng.permutation(tested.size)
    z = normal_scores(p)
    inside = np.ones(tested.size, dtype=bool)
    hidden = np.zeros(hierarchy.n_labels, dtype=bool)
    hidden[tested] = p[tested] < 1.0
    leaving: list[Order] = []
    model, n_steps = ShiftModel(), FIRST_STEPS
    while inside.any():
        posterior, model = fit_shift(z, hidden, hierarchy, model, n_steps)
        n_steps = LATER_STEPS
        small = np.where(hidden, model.small_share(np.nan_to_num(z), posterior), 0.0)[tested]
        score = consistent_scores(small[None], among, n_jobs=1)[0]
        left = np.flatnonzero(inside)
        step = LARGE_STEP if left.size > MANY else SMALL_STEP
        order = np.lexsort((tie[left], -among.levels[left], score[left]))
        out = left[order[: max(1, int(step * left.size))]]
        inside[out] = False
        hidden[tested[out]] = False
        leaving.append(tested[out])
    return np.concatenate(leaving)
