"""Rankings by blocks: CSSA's relaxed selection, and the paper's way with DAGs.

The latter leaves each label one parent, tries all choices, and keeps the best eAUC.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from hierlpr.exceptions import DataError, HierarchyError
from hierlpr.hierarchy import Hierarchy
from hierlpr.ranking.order import Ranking, rank
from hierlpr.research.baselines.by_score import baseline, dense, with_score

Edges = tuple[tuple[str, str], ...]


@baseline(consistent=False)
def single_parent(
    lpr: Any,
    hierarchy: Hierarchy,
    *,
    top: int | None = None,
    weight: Any = None,
    most_choices: int = 4096,
) -> Ranking:
    """Assign each label to one of its parents so that the eAUC is largest, and rank that forest.

    The edges left out bind nothing, so labels may come before parents, which
    `hierlpr.metrics.order_violations_error` counts. On a forest it equals `hierlpr.rank`.

    Parameters
    ----------
    lpr : array-like of shape (n_samples, n_labels)
    hierarchy : Hierarchy
    top : int, optional
    weight : array-like of shape (n_labels,), optional
    most_choices : int
        Refuse if a connected part of the hierarchy allows more choices than this.

    References
    ----------
    Ho et al. (2018), key ``ho2018hierlpr``, the study of disease diagnosis.

    Examples
    --------
    C is called before its parent B, as only A counts.

    >>> from hierlpr.metrics import order_violations_error
    >>> h = Hierarchy([("A", "C"), ("B", "C")])
    >>> r = single_parent([[0.5, 0.9, 0.1]], h)
    >>> [h.labels[k] for k in r.label], order_violations_error(r.sample, r.label, h)
    (['A', 'C', 'B'], 1)
    """
    table, values = dense(lpr, hierarchy, name="lpr")
    chosen: list[tuple[str, str]] = []
    for part in _parts(hierarchy):
        columns = [hierarchy.index(label) for label in part]
        weights = None if weight is None else _take(weight, part, columns)
        choices = _choices(hierarchy, part, most_choices)
        areas = [
            rank(values[:, columns], Hierarchy(edges, labels=part), weight=weights).eauc()
            for edges in (choices if len(choices) > 1 else ())
        ]
        chosen.extend(choices[int(np.argmax(areas)) if areas else 0])
    forest = Hierarchy(chosen, labels=hierarchy.labels)
    return rank(table, forest, top=top, weight=weight)


def _parts(hierarchy: Hierarchy) -> list[list[str]]:
    """Labels of each connected part of the hierarchy."""
    parent = np.repeat(hierarchy.order, np.diff(hierarchy.child_ptr))
    child = hierarchy.order[hierarchy.child_idx]
    n = hierarchy.n_labels
    links = coo_array((np.ones(parent.size), (parent, child)), shape=(n, n))
    n_parts, part = connected_components(links, directed=False)
    members: list[list[str]] = [[] for _ in range(n_parts)]
    for label, number in zip(hierarchy.labels, part.tolist(), strict=True):
        members[number].append(label)
    return members


def _choices(hierarchy: Hierarchy, part: list[str], most: int) -> list[Edges]:
    options = [[(p, label) for p in hierarchy.parents(label)] for label in part]
    options = [parents for parents in options if parents]
    n_choices = float(np.prod([float(len(parents)) for parents in options]))
    if n_choices > most:
        raise HierarchyError(
            f"There are {n_choices:.3g} ways to leave each label one parent, over {most:,}.\n"
            "Hint: hierlpr.rank respects all parents and needs no such search."
        )
    return list(product(*options))


def _take(weight: Any, part: list[str], columns: list[int]) -> Any:
    if isinstance(weight, dict):
        return {label: weight[label] for label in part}
    return np.asarray(weight)[columns]


@baseline(consistent=True)
def cssa(
    lpr: Any,
    hierarchy: Hierarchy,
    *,
    top: int | None = None,
    weight: Any = None,
    each_sample: bool = False,
) -> Ranking:
    r"""Select `top` instances by condensing sort and select, in calling order.

    Maximizes :math:`\sum_k \mathrm{LPR}_k \Psi_k` subject to :math:`\sum_k \Psi_k \le L` and
    :math:`0 \le \Psi_k \le \Psi_{parent(k)} \le 1`. Whole blocks are taken while there is room;
    the last one only in part, all its labels with the same fraction
    :math:`(L - \Gamma) / n` of what is left over its size.

    Parameters
    ----------
    lpr : array-like of shape (n_samples, n_labels)
        LPRs, or any scores in [0, 1].
    hierarchy : Hierarchy
    top : int
        L, the number of calls. All instances if not given.
    weight : array-like of shape (n_labels,), optional
    each_sample : bool
        Call L labels of every sample, as Bi and Kwok do, instead of L instances altogether.

    Returns
    -------
    Ranking
        The selected instances. Its `score` is :math:`\Psi`: 1, and for the labels of the last
        block the fraction; so more than L instances are listed if that block does not fit.

    References
    ----------
    Baraniuk and Jones (1994), key ``baraniuk1994``; Bi and Kwok (2011), key ``bi2011``. The
    paper's Algorithm 6.

    Examples
    --------
    Of the block A, B, C only half fits.

    >>> h = Hierarchy([("A", "B"), ("B", "C")])
    >>> cssa([[0.2, 0.3, 0.9]], h, top=1).score
    array([0.33333333, 0.33333333, 0.33333333])
    >>> cssa([[0.9, 0.3, 0.2]], h, top=2).score
    array([1., 1.])
    """
    if top is not None and top < 1:
        raise DataError(f"top must be at least 1, got {top!r}.")
    ordered = rank(lpr, hierarchy, weight=weight)
    limit = len(ordered) if top is None else int(top)
    block = np.cumsum(ordered.first) - 1
    # Place of each block among those it competes with: all, or those of its own sample.
    rows = ordered.sample if each_sample else np.zeros(len(ordered), dtype=np.intp)
    by_row = np.argsort(rows, kind="stable")
    sizes = np.bincount(block, minlength=ordered.block_score.size)
    starts = np.zeros(len(ordered), dtype=np.intp)
    row_begin = np.searchsorted(rows[by_row], rows[by_row], side="left")
    starts[by_row] = np.arange(len(ordered)) - row_begin
    taken_before = starts[np.flatnonzero(ordered.first)]
    fraction = np.clip((limit - taken_before) / sizes, 0.0, 1.0)
    kept = np.flatnonzero(fraction[block] > 0)
    # Whole blocks first; among partial ones the larger share. Parents never have the smaller.
    kept = kept[np.argsort(-fraction[block[kept]], kind="stable")]
    selected = replace(
        ordered,
        place=ordered.place[kept],
        first=np.ones(kept.size, dtype=bool),
        source=ordered.lpr[kept],
        open_place=ordered.open_place[:0],
        open_lack=ordered.open_lack[:0],
    )
    return with_score(selected, fraction[block[kept]])
