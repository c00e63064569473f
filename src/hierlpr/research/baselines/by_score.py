"""Rankings by a score: as it is, or made consistent along the edges one value at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_unit_interval
from hierlpr.hierarchy import Hierarchy
from hierlpr.ranking.order import Ranking
from hierlpr.research.baselines._order import baseline, call_by_score, dense, weighted

__all__ = [
    "gpav",
    "gpav_scores",
    "lpr_alone",
    "max_propagation",
    "propagate_max",
    "propagate_min",
    "raw_scores",
    "top_down",
]

Float = NDArray[np.float64]


@baseline(consistent=False)
def lpr_alone(
    lpr: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
) -> Ranking:
    """Sort by LPR and ignore the hierarchy: best pooled precision where no hierarchy binds.

    References
    ----------
    Jiang et al. (2014), key ``jiang2014``.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> [h.labels[k] for k in lpr_alone([[0.2, 0.8]], h).label]
    ['B', 'A']
    """
    table, values = dense(lpr, hierarchy, name="lpr")
    check_unit_interval(values, hierarchy.labels, name="lpr")
    return call_by_score(weighted(values, weight, hierarchy), values, table, hierarchy, top=top)


@baseline(consistent=False)
def raw_scores(
    scores: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
) -> Ranking:
    """Sort by the classifiers' own scores, of any real range, as if they were comparable.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> raw_scores([[-3.0, 7.0]], h).score
    array([ 7., -3.])
    """
    table, values = dense(scores, hierarchy, name="scores")
    return call_by_score(weighted(values, weight, hierarchy), values, table, hierarchy, top=top)


@baseline(consistent=True)
def max_propagation(
    scores: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
) -> Ranking:
    r"""Raise every label to its highest descendant, then sort.

    :math:`s_k' = \max_{j \in \{k\} \cup desc(k)} s_j`. A confident label lifts all its ancestors,
    however weak they are.

    Examples
    --------
    >>> max_propagation([[0.2, 0.8, 0.4]], Hierarchy([("A", "B"), ("A", "C")])).score
    array([0.8, 0.8, 0.4])
    """
    return _by(propagate_max, scores, hierarchy, top, weight)


@baseline(consistent=True)
def top_down(
    scores: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
) -> Ranking:
    r"""Lower every label to its lowest ancestor, then sort.

    :math:`s_k' = \min_{j \in \{k\} \cup anc(k)} s_j`. A weak label blocks all its descendants,
    however strong they are.

    Examples
    --------
    >>> top_down([[0.2, 0.8, 0.1]], Hierarchy([("A", "B"), ("A", "C")])).score
    array([0.2, 0.2, 0.1])
    """
    return _by(propagate_min, scores, hierarchy, top, weight)


@baseline(consistent=True)
def gpav(
    scores: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
) -> Ranking:
    """Sort by generalized pooled adjacent violators, an approximate isotonic regression on DAGs.

    On a forest the scores are those of `hierlpr.consistent_scores`; on a DAG they respect every
    edge, but need not be the nearest that do.

    References
    ----------
    Burdakov et al. (2006), key ``burdakov2006``; Notaro et al. (2017), key ``notaro2017``.

    Examples
    --------
    >>> gpav([[0.2, 0.8, 0.1]], Hierarchy([("A", "B"), ("A", "C")])).score
    array([0.5, 0.5, 0.1])
    """
    return _by(gpav_scores, scores, hierarchy, top, weight)


def propagate_max(values: Float, hierarchy: Hierarchy) -> Float:
    """Return scores raised to those of the highest descendant."""
    from hierlpr._kernels import propagation

    return _along(propagation.max_up, values, hierarchy)


def propagate_min(values: Float, hierarchy: Hierarchy) -> Float:
    """Return scores lowered to those of the lowest ancestor."""
    from hierlpr._kernels import propagation

    return _along(propagation.min_down, values, hierarchy)


def gpav_scores(values: Float, hierarchy: Hierarchy) -> Float:
    """Return the fitted values of generalized pooled adjacent violators."""
    from hierlpr._kernels.propagation import gpav_rows

    h = hierarchy
    numbered = np.ascontiguousarray(values[:, h.order])
    gpav_rows(numbered, h.child_ptr, h.child_idx)
    return numbered[:, h.position]


def _along(kernel: Callable[..., None], values: Float, h: Hierarchy) -> Float:
    numbered = np.ascontiguousarray(values[:, h.order])
    kernel(numbered, h.parent_ptr, h.parent_idx)
    return numbered[:, h.position]


def _by(
    change: Callable[[Float, Hierarchy], Float],
    scores: Any,
    hierarchy: Hierarchy,
    top: int | None,
    weight: Any,
) -> Ranking:
    table, values = dense(scores, hierarchy, name="scores")
    changed = change(weighted(values, weight, hierarchy), hierarchy)
    return call_by_score(changed, values, table, hierarchy, top=top)
