"""Posterior of every label of a sample given the LPRs of all its labels.

A sample may have any number of labels; for taxonomies in which siblings exclude each other see
`hierlpr.joint.prior`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._kernels._jit import row_chunks, run_chunks, threads_for
from hierlpr._kernels.joint import (
    Bounds,
    Cliques,
    Tree,
    fill_tables,
    joint_dag,
    joint_forest,
)
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.graph import rarest_parents
from hierlpr.joint.prior import LabelPrior

Float = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_CLIQUE = 14  # nodes per clique: tables of 2**14 entries
MAX_ENTRIES = 256  # entries of all tables together, per label
LPR_EDGE = 1e-15  # LPRs are clipped, so that no label overrules all others
LEAST_EVIDENCE = 1e-12  # log-odds; smaller values are rounding errors and set to 0
MOST_EVIDENCE = 30.0  # log-odds that other labels can add at most
BOUNDS = Bounds(LPR_EDGE, LEAST_EVIDENCE, MOST_EVIDENCE)


def posteriors(
    lpr: Float,
    prior: LabelPrior,
    hierarchy: Hierarchy,
    *,
    with_posterior: bool = True,
    with_others: bool = False,
    n_jobs: int | None = None,
) -> tuple[Float, Float]:
    r"""Return P(label | all scores of its sample), and the evidence of the other labels.

    Parameters
    ----------
    lpr : ndarray of shape (n_samples, n_labels)
        In [0, 1]; NaN where the score is missing.
    prior : LabelPrior
    hierarchy : Hierarchy
    with_posterior, with_others : bool
        Whether to return the posterior, and the log-odds that the other labels add to the LPR.
    n_jobs : int, optional

    Returns
    -------
    posterior, others : ndarray of shape (n_samples, n_labels)
        Empty unless requested.

    Notes
    -----
    With the likelihood ratio :math:`r_k = \frac{\ell_k}{1 - \ell_k} \frac{1 - \pi_k}{\pi_k}` of
    the score of label :math:`k` and :math:`c_k` its probability given its parent, a pass up a
    forest gives :math:`U_k = r_k \prod_{j\ \mathrm{child}} (c_j U_j + 1 - c_j)` and a pass down
    :math:`P_k = P_{parent}\, c_k U_k / (c_k U_k + 1 - c_k)`: exact if the scores of a sample are
    independent given its labels. This is belief propagation (Pearl, 1988).

    On a DAG a label is possible only if all its parents hold, and then has probability
    :math:`c_k`. The posterior is exact, by a junction tree (Lauritzen and Spiegelhalter, 1988),
    if that has at most `MAX_CLIQUE` labels per clique and `MAX_ENTRIES` table entries per label.
    Otherwise every label keeps only its rarest parent, which gives the nearest forest (Chow and
    Liu, 1968); the ranking respects the other edges. ``docs/joint.md`` reports its accuracy.

    References
    ----------
    Keys ``pearl1988``, ``lauritzen1988``, ``chow1968`` in ``docs/references.bib``.
    """
    options: Any = {"with_posterior": with_posterior, "with_others": with_others}
    options["n_jobs"] = n_jobs
    tree = None if hierarchy.is_forest else junction_tree(hierarchy)
    if tree is None:
        return forest_posteriors(lpr, prior, hierarchy, **options)
    # One parent per label instead of the tree loses up to .004 in AU(PRC) and 5 % in log-loss where
    # labels have several parents and are likely given them, so the exact pass is worth its code.
    cliques = tree.cliques(prior.conditional[hierarchy.order])
    prevalence = prior.prevalence[hierarchy.order]
    is_beyond = np.zeros(lpr.shape[0], dtype=bool)  # samples that exceed the range of floats

    def run(values: Float, start: int, stop: int, posterior: Float, others: Float) -> None:
        shared = hierarchy.order, prevalence, cliques, BOUNDS
        joint_dag(values, start, stop, *shared, posterior, others, is_beyond)

    outputs = _pass(run, lpr, **options)
    failed = np.flatnonzero(is_beyond)
    if failed.size:
        again = forest_posteriors(lpr[failed], prior, hierarchy, **options)
        for whole, part in zip(outputs, again, strict=True):
            if whole.size:
                whole[failed] = part
    return outputs


def forest_posteriors(
    lpr: Float, prior: LabelPrior, hierarchy: Hierarchy, **options: Any
) -> tuple[Float, Float]:
    """Return `posteriors` on the forest in which every label keeps only its rarest parent."""
    parent, on = main_forest(prior, hierarchy)
    order = hierarchy.order
    tree = Tree(order, parent, on, 1.0 - on, prior.prevalence[order])

    def run(values: Float, start: int, stop: int, posterior: Float, others: Float) -> None:
        joint_forest(values, start, stop, tree, BOUNDS, posterior, others)

    return _pass(run, lpr, **options)


def _pass(
    run: Callable[[Float, int, int, Float, Float], None],
    lpr: Float,
    with_posterior: bool = True,
    with_others: bool = False,
    n_jobs: int | None = None,
) -> tuple[Float, Float]:
    """Call ``run(lpr, start, stop, posterior, others)`` on chunks of samples; return outputs."""
    threads = threads_for(lpr.size, n_jobs)
    values = np.ascontiguousarray(lpr)
    posterior, others = (
        np.empty_like(values) if is_wanted else np.empty((0, 0))
        for is_wanted in (with_posterior, with_others)
    )
    run_chunks(
        lambda start, stop: run(values, start, stop, posterior, others),
        row_chunks(values.shape, threads),
        threads,
    )
    return posterior, others


def is_exact(hierarchy: Hierarchy) -> bool:
    """Whether `posteriors` is exact on this hierarchy; otherwise it drops edges."""
    return hierarchy.is_forest or junction_tree(hierarchy) is not None


@lru_cache(maxsize=8)  # for single samples it would cost more than the pass itself
def main_forest(prior: LabelPrior, hierarchy: Hierarchy) -> tuple[NDArray[np.int32], Float]:
    """Return the rarest parent of each node, and P(label | that parent).

    A label implies its parents, so the rarest one shares the most information with it: among the
    forests of the hierarchy's edges this is the nearest one (Chow and Liu, 1968).
    """
    h = hierarchy
    prevalence, on = prior.prevalence[h.order], prior.conditional[h.order]
    parent = rarest_parents(h, prior.prevalence)
    several = np.flatnonzero(np.diff(h.parent_ptr) > 1)
    # P(label | one parent) is at most P(label | all of them).
    share = prevalence[several] / prevalence[parent[several]]
    on[several] = np.minimum(on[several], share)
    return parent, on


def joint_posterior(log_evidence: Float, conditional: Float, hierarchy: Hierarchy) -> Float:
    r"""Return P(label | all scores of its sample) on a forest, from likelihood ratios.

    Parameters
    ----------
    log_evidence : ndarray of shape (n_samples, n_labels)
        :math:`\log r_k`, of the densities of a score with and without the label.
    conditional : ndarray of shape (n_labels,)
    hierarchy : Hierarchy
        A forest.

    Examples
    --------
    A label that is certain makes its parent certain too.

    >>> import numpy as np
    >>> h = Hierarchy([("A", "B")])
    >>> joint_posterior(np.array([[0.0, 50.0]]), np.array([0.1, 0.5]), h).round(6)
    array([[1., 1.]])
    """
    if not hierarchy.is_forest:
        raise DataError("The exact pass up and down needs a forest, but the hierarchy is a DAG.")
    # Any prevalence will do: it cancels in the likelihood ratios.
    share = np.clip(conditional, LPR_EDGE, 1.0 - LPR_EDGE)
    prior = LabelPrior(np.full(hierarchy.n_labels, 0.5), share)
    return posteriors(scipy.special.expit(log_evidence), prior, hierarchy)[0]


# -- junction trees -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class JunctionTree:
    """Cliques in elimination order, each named after the node that it eliminates.

    Nodes are topological numbers. In the index of an entry of clique ``q``'s table, bit 0 is the
    state of ``node[q]``; the other bits are the nodes shared with clique ``parent[q]`` (-1 if
    none), which comes later. ``share_of[map_ptr[q] + j]`` is the state of the shared nodes in entry
    ``j`` of the parent. The probability of node ``i`` given its parents is in the table of clique
    ``home[i]``, where it has bit ``own_bit[i]`` and its parents have bits ``parent_bits[i]``.
    """

    node: Ints
    table_ptr: Ints
    parent: Ints
    map_ptr: Ints
    share_of: NDArray[np.int32]
    home: Ints
    own_bit: Ints
    parent_bits: Ints

    def cliques(self, on: NDArray[np.float64]) -> Cliques:
        """Return the cliques with their tables; `on` is P(node | parents)."""
        table = np.empty(self.table_ptr[-1])
        fill_tables(on, self.home, self.own_bit, self.parent_bits, self.table_ptr, table)
        return Cliques(self.node, self.table_ptr, table, self.parent, self.map_ptr, self.share_of)


@lru_cache(maxsize=4)
def junction_tree(hierarchy: Hierarchy) -> JunctionTree | None:
    """Return a junction tree by greedy elimination, or None if its tables would be too large.

    The node whose elimination joins the fewest pairs of neighbours goes first (min-fill, Kjaerulff
    1990). Returns None if a clique has more than `MAX_CLIQUE` nodes or all tables together more
    than `MAX_ENTRIES` entries per label.
    """
    cliques = _eliminate(hierarchy)
    if cliques is None:
        return None
    n = len(cliques)
    node = np.array([clique[0] for clique in cliques], dtype=np.int64)
    turn = np.empty(n, dtype=np.int64)
    turn[node] = np.arange(n)
    # Nodes of a clique in elimination order: the second one is the node of the parent clique.
    ordered = [sorted(clique, key=lambda v: int(turn[v])) for clique in cliques]
    sizes = np.array([1 << len(clique) for clique in ordered], dtype=np.int64)
    table_ptr = np.concatenate([np.zeros(1, np.int64), sizes.cumsum()])
    parent = np.array([turn[c[1]] if len(c) > 1 else -1 for c in ordered], dtype=np.int64)
    maps = [_shares(ordered[q], ordered[parent[q]]) for q in range(n) if parent[q] >= 0]
    lengths = np.array([sizes[p] if p >= 0 else 0 for p in parent], dtype=np.int64)
    home = np.empty(n, dtype=np.int64)
    own_bit = np.empty(n, dtype=np.int64)
    parent_bits = np.zeros(n, dtype=np.int64)
    for i in range(n):
        family = [i, *_parents(hierarchy, i)]
        home[i] = q = min(int(turn[v]) for v in family)
        place = {v: 1 << b for b, v in enumerate(ordered[q])}
        own_bit[i] = place[i]
        parent_bits[i] = sum(place[v] for v in family[1:])
    return JunctionTree(
        node,
        table_ptr,
        parent,
        np.concatenate([np.zeros(1, np.int64), lengths.cumsum()])[:-1],
        np.concatenate([np.empty(0, np.int32), *maps]),
        home,
        own_bit,
        parent_bits,
    )


def _eliminate(h: Hierarchy) -> list[list[int]] | None:
    """Return the cliques in elimination order, each with its eliminated node first."""
    near: list[set[int]] = [set() for _ in range(h.n_labels)]
    for i in range(h.n_labels):
        family = [i, *_parents(h, i)]
        for v in family:
            near[v].update(family)
    for i in range(h.n_labels):
        near[i].discard(i)
    # Entries of the heap may be outdated: the fill of a node is checked again when it is popped.
    heap = [(_fill(near, i), len(near[i]), i) for i in range(h.n_labels)]
    heapify(heap)
    done = [False] * h.n_labels
    cliques: list[list[int]] = []
    budget = MAX_ENTRIES * h.n_labels
    while heap:
        fill, degree, i = heappop(heap)
        if done[i]:
            continue
        now = _fill(near, i)
        if degree != len(near[i]) or fill != now:
            heappush(heap, (now, len(near[i]), i))
            continue
        around = sorted(near[i])
        budget -= 2 << len(around)
        if len(around) + 1 > MAX_CLIQUE or budget < 0:
            return None
        done[i] = True
        cliques.append([i, *around])
        for v in around:
            near[v].update(around)
            near[v] -= {v, i}
        for v in around:
            heappush(heap, (_fill(near, v), len(near[v]), v))
    return cliques


def _fill(near: list[set[int]], i: int) -> int:
    """Count pairs of neighbours that are not joined yet; an upper bound for large cliques."""
    around = near[i]
    if len(around) >= MAX_CLIQUE:
        return len(around) ** 2
    return sum(len(around - near[v]) - 1 for v in around) // 2


def _parents(h: Hierarchy, number: int) -> list[int]:
    parents: list[int] = h.parent_idx[h.parent_ptr[number] : h.parent_ptr[number + 1]].tolist()
    return parents


def _shares(clique: list[int], parent: list[int]) -> NDArray[np.int32]:
    """Return the state of the shared nodes of `clique` for every entry of its parent's table."""
    entry = np.arange(1 << len(parent), dtype=np.int32)
    share = np.zeros_like(entry)
    for bit, v in enumerate(clique[1:]):
        share |= ((entry >> parent.index(v)) & 1) << bit
    return share
