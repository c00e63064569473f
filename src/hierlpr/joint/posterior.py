"""Posterior of every label of a sample given the LPRs of all its labels.

A sample may have any number of labels; for taxonomies in which siblings exclude each other see
`hierlpr.joint.prior`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from heapq import heapify, heappop, heappush

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._kernels._jit import row_chunks, run_chunks, threads_for
from hierlpr._kernels.joint import Bounds, Cliques, Tree, fill_tables, joint_dag, joint_forest
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
    of_others: bool = False,
    n_jobs: int | None = None,
) -> Float:
    r"""Return P(label | all scores of its sample).

    `lpr` (samples x labels) is in [0, 1], and NaN where the score is missing. With `of_others`,
    return the evidence of the other labels instead: the log-odds that they add to the LPR.

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
    tree = None if hierarchy.is_forest else junction_tree(hierarchy)
    if tree is None:
        return forest_posteriors(lpr, prior, hierarchy, of_others=of_others, n_jobs=n_jobs)
    # One parent per label instead of the tree loses up to .004 in AU(PRC) and 5 % in log-loss where
    # labels have several parents and are likely given them, so the exact pass is worth its code.
    cliques, families = tree
    order, table = hierarchy.order, np.empty(cliques.table_ptr[-1])
    fill_tables(prior.conditional[order], *families, cliques.table_ptr, table)
    is_beyond = np.zeros(lpr.shape[0], dtype=bool)  # samples that exceed the range of floats
    shared = order, prior.prevalence[order], cliques._replace(table=table), BOUNDS, of_others

    def run(values: Float, start: int, stop: int, out: Float) -> None:
        joint_dag(values, start, stop, *shared, out, is_beyond)

    out = _by_sample(run, lpr, n_jobs)
    if is_beyond.any():
        out[is_beyond] = forest_posteriors(lpr[is_beyond], prior, hierarchy, of_others=of_others)
    return out


def forest_posteriors(
    lpr: Float,
    prior: LabelPrior,
    hierarchy: Hierarchy,
    *,
    of_others: bool = False,
    n_jobs: int | None = None,
) -> Float:
    """Return `posteriors` on the forest in which every label keeps only its rarest parent."""
    parent, on = main_forest(prior, hierarchy)
    tree = Tree(hierarchy.order, parent, on, 1.0 - on, prior.prevalence[hierarchy.order])

    def run(values: Float, start: int, stop: int, out: Float) -> None:
        joint_forest(values, start, stop, tree, BOUNDS, of_others, out)

    return _by_sample(run, lpr, n_jobs)


def _by_sample(kernel: Callable[..., None], lpr: Float, n_jobs: int | None) -> Float:
    """Call ``kernel(lpr, start, stop, out)`` on chunks of samples."""
    values, threads = np.ascontiguousarray(lpr), threads_for(lpr.size, n_jobs)
    out = np.empty(values.shape)
    bounds = row_chunks(values.shape, threads)
    run_chunks(lambda start, stop: kernel(values, start, stop, out), bounds, threads)
    return out


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

    `log_evidence` (samples x labels) is :math:`\log r_k`, of the densities of a score with and
    without the label; `conditional` is P(label | its parent).

    Examples
    --------
    A label that is certain makes its parent certain too.

    >>> h = Hierarchy([("A", "B")])
    >>> joint_posterior(np.array([[0.0, 50.0]]), np.array([0.1, 0.5]), h).round(6)
    array([[1., 1.]])
    """
    if not hierarchy.is_forest:
        raise DataError("The exact pass up and down needs a forest, but the hierarchy is a DAG.")
    # Any prevalence will do: it cancels in the likelihood ratios.
    share = np.clip(conditional, LPR_EDGE, 1.0 - LPR_EDGE)
    prior = LabelPrior(np.full(hierarchy.n_labels, 0.5), share)
    return posteriors(scipy.special.expit(log_evidence), prior, hierarchy)


# -- junction trees -------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def junction_tree(hierarchy: Hierarchy) -> tuple[Cliques, tuple[Ints, Ints, Ints]] | None:
    """Return the cliques of a junction tree, their tables empty, and where each node's prior goes.

    Nodes are topological numbers. The probability of node ``i`` given its parents is in the table
    of the clique ``home[i]``, where it has bit ``own_bit[i]`` and its parents have the bits
    ``parent_bits[i]``; the three arrays are returned in this order. Returns None if a clique has
    more than `MAX_CLIQUE` nodes or all tables together more than `MAX_ENTRIES` entries per label.
    """
    families = _families(hierarchy)
    cliques = _eliminate(families)
    if cliques is None:
        return None
    n = len(cliques)
    node = np.array([clique[0] for clique in cliques], dtype=np.int64)
    turn = np.empty(n, dtype=np.int64)
    turn[node] = np.arange(n)
    # Nodes of a clique in elimination order: the second one is the node of the parent clique.
    ordered = [sorted(clique, key=lambda v: int(turn[v])) for clique in cliques]
    sizes = np.array([1 << len(clique) for clique in ordered], dtype=np.int64)
    parent = np.array([turn[c[1]] if len(c) > 1 else -1 for c in ordered], dtype=np.int64)
    maps = [_shares(ordered[q], ordered[parent[q]]) for q in range(n) if parent[q] >= 0]
    lengths = np.where(parent >= 0, sizes[parent], 0)
    home, own_bit, parent_bits = np.zeros((3, n), dtype=np.int64)
    for i, family in enumerate(families):
        home[i] = q = min(int(turn[v]) for v in family)
        own_bit[i], *bits = (1 << ordered[q].index(v) for v in family)
        parent_bits[i] = sum(bits)
    table_ptr, map_ptr = (np.append(0, x.cumsum()) for x in (sizes, lengths))
    share_of = np.concatenate([np.empty(0, np.int32), *maps])
    tree = Cliques(node, table_ptr, np.empty(0), parent, map_ptr[:-1], share_of)
    return tree, (home, own_bit, parent_bits)


def _families(h: Hierarchy) -> list[list[int]]:
    """Return every node followed by its parents."""
    above = np.split(h.parent_idx, h.parent_ptr[1:-1])
    return [[i, *parents.tolist()] for i, parents in enumerate(above)]


def _eliminate(families: list[list[int]]) -> list[list[int]] | None:
    """Return the cliques in elimination order, each with its eliminated node first.

    The node whose elimination joins the fewest pairs of neighbours goes first (min-fill, Kjaerulff
    1990). Returns None if the tables would be too large.
    """
    near: list[set[int]] = [set() for _ in families]
    for family in families:
        for v in family:
            near[v].update(u for u in family if u != v)

    def key(i: int) -> tuple[int, int, int]:
        """Pairs of neighbours that are not joined yet (a bound for large cliques), and ties."""
        size = len(near[i])
        if size >= MAX_CLIQUE:
            return size**2, size, i
        return sum(len(near[i] - near[v]) - 1 for v in near[i]) // 2, size, i

    # Keys in the heap may be outdated: that of a node is computed again when it is popped.
    heap = [key(i) for i in range(len(families))]
    heapify(heap)
    is_done = [False] * len(families)
    cliques: list[list[int]] = []
    budget = MAX_ENTRIES * len(families)
    while heap:
        entry = heappop(heap)
        i = entry[2]
        if is_done[i]:
            continue
        if entry != (current := key(i)):
            heappush(heap, current)
            continue
        around = sorted(near[i])
        budget -= 2 << len(around)
        if len(around) + 1 > MAX_CLIQUE or budget < 0:
            return None
        is_done[i] = True
        cliques.append([i, *around])
        for v in around:
            near[v].update(around)
            near[v] -= {v, i}
        for v in around:
            heappush(heap, key(v))
    return cliques


def _shares(clique: list[int], parent: list[int]) -> NDArray[np.int32]:
    """Return the state of the shared nodes of `clique` for every entry of its parent's table."""
    entry = np.arange(1 << len(parent), dtype=np.int32)
    share = np.zeros_like(entry)
    for bit, v in enumerate(clique[1:]):
        share |= ((entry >> parent.index(v)) & 1) << bit
    return share
