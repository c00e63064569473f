"""Rankings by a score: as it is, or made consistent along the edges one value at a time.

Here is also what all baselines share: instances sorted by a score, marked as consistent or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_finite, check_label_weights, check_unit_interval
from hierlpr.data.tables import Table, align
from hierlpr.hierarchy import Hierarchy
from hierlpr.ranking.order import Ranking

Float = NDArray[np.float64]


class RankFunction(Protocol):
    """A competitor of `hierlpr.rank`, with its signature.

    `consistent` tells whether no label ever comes before one of its parents.
    """

    consistent: bool
    __name__: str

    def __call__(
        self, lpr: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
    ) -> Ranking:
        """Return all instances, or the first `top`, in calling order."""


def baseline(*, consistent: bool) -> Callable[[Callable[..., Ranking]], RankFunction]:
    """Mark a ranking function as consistent with the hierarchy or not."""

    def mark(function: Callable[..., Ranking]) -> RankFunction:
        function.consistent = consistent  # type: ignore[attr-defined]
        return cast("RankFunction", function)

    return mark


def dense(values: Any, hierarchy: Hierarchy, *, name: str) -> tuple[Table, Float]:
    """Align scores of any real range with the hierarchy; absent entries of sparse ones are 0."""
    table = align(values, hierarchy, name=name)
    check_finite(table.values, hierarchy.labels, name=name)
    matrix = table.values
    return table, matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


def weighted(values: Float, weight: Any, hierarchy: Hierarchy) -> Float:
    """Multiply each column by the weight of its label."""
    if weight is None:
        return values
    return values * check_label_weights(weight, hierarchy.labels, name="weight")


def call_by_score(
    score: Float, own: Float, table: Table, hierarchy: Hierarchy, *, top: int | None = None
) -> Ranking:
    """Call instances by falling score; ties go to the smaller topological number, then sample.

    With this rule scores that never rise from parent to child give a consistent order.
    """
    h = hierarchy
    n_samples = table.n_samples
    by_number = np.ascontiguousarray(score[:, h.order].T).ravel()
    place = np.argsort(-by_number, kind="stable")[:top]
    number, sample = np.divmod(place, max(1, n_samples))
    label = h.order[number]
    ranking = Ranking(
        place=sample * h.n_labels + label,
        first=np.ones(place.size, dtype=bool),
        source=own[sample, label],
        labels=h.labels,
        n_instances=n_samples * h.n_labels,
        samples=table.samples,
        backend=table.backend,
    )
    return with_score(ranking, by_number[place])


def with_score(ranking: Ranking, score: Float) -> Ranking:
    """Set the score that the instances were called by, in place of their block's mean LPR."""
    return replace(ranking, called_by=score)


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
