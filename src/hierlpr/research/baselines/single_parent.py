"""The paper's way with DAGs: leave each label one parent, try all choices, keep the best eAUC."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from hierlpr.exceptions import HierarchyError
from hierlpr.hierarchy import Hierarchy
from hierlpr.ranking.order import Ranking, rank
from hierlpr.research.baselines._order import baseline, dense

__all__ = ["single_parent"]

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
