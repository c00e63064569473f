"""What all baselines share: instances sorted by a score, marked as consistent or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_finite, check_label_weights
from hierlpr.data.tables import Table, align
from hierlpr.hierarchy import Hierarchy
from hierlpr.ranking.order import Ranking

__all__ = ["RankFunction", "baseline", "call_by_score", "dense", "weighted", "with_score"]

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
