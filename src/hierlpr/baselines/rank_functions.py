"""Competitors of `hierlpr.rank` that learn nothing.

They sort by a score as given, or propagated along the edges; `single_parent` is the paper's method
for DAGs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._kernels.traversal import max_up, min_down
from hierlpr._utils.checks import check_finite, check_label_weights, check_unit_interval
from hierlpr.cutoff.decisions import group_columns, label_groups
from hierlpr.data.tables import Table, align, dense
from hierlpr.exceptions import HierarchyError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import UpperSet, sample_ranges
from hierlpr.ranking.order import Ranking, rank

Float = NDArray[np.float64]
MOST_CHOICES = 4096  # of parents, in a connected component


def align_dense(values: Any, hierarchy: Hierarchy, *, name: str) -> tuple[Table, Float]:
    """Align finite scores with the hierarchy; absent entries of sparse scores are 0."""
    table = align(values, hierarchy, name=name)
    check_finite(table.values, hierarchy.labels, name=name)
    return table, np.asarray(dense(table.values))


def weighted(values: Float, weight: Any, hierarchy: Hierarchy) -> Float:
    """Multiply each column by the weight of its label."""
    if weight is None:
        return values
    return values * check_label_weights(weight, hierarchy.labels, name="weight")


def order_by(
    score: Float, lpr: Float, table: Table, hierarchy: Hierarchy, *, top: int | None = None
) -> Ranking:
    """Rank instances by decreasing score; ties by topological position, then sample.

    Scores that never rise from parent to child then give a consistent order.
    """
    h, n_samples = hierarchy, table.n_samples
    by_number = np.ascontiguousarray(score[:, h.order].T).ravel()
    place = np.argsort(-by_number, kind="stable")[:top]
    number, sample = np.divmod(place, max(1, n_samples))
    label = h.order[number]
    return Ranking(
        place=sample * h.n_labels + label,
        first=np.ones(place.size, dtype=bool),
        source=lpr[sample, label],
        labels=h.labels,
        n_instances=n_samples * h.n_labels,
        samples=table.samples,
        backend=table.backend,
        called_by=by_number[place],
    )


def lpr_alone(
    lpr: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
) -> Ranking:
    """Rank by LPR and ignore the hierarchy; optimal for labels without edges.

    References
    ----------
    Jiang et al. (2014), key ``jiang2014``.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> [h.labels[k] for k in lpr_alone([[0.2, 0.8]], h).label]
    ['B', 'A']
    """
    table, values = align_dense(lpr, hierarchy, name="lpr")
    check_unit_interval(values, hierarchy.labels, name="lpr")
    return order_by(weighted(values, weight, hierarchy), values, table, hierarchy, top=top)


def raw_scores(
    scores: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
) -> Ranking:
    """Rank by the classifiers' scores as given, as if they were comparable.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> raw_scores([[-3.0, 7.0]], h).score
    array([ 7., -3.])
    """
    return _order_by_changed(lambda values, _: values, scores, hierarchy, top, weight)


def max_propagation(
    scores: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
) -> Ranking:
    r"""Raise every label to its highest descendant, then rank.

    :math:`s_k' = \max_{j \in \{k\} \cup desc(k)} s_j`. A high score raises all
    ancestors, however low theirs are.

    Examples
    --------
    >>> max_propagation([[0.2, 0.8, 0.4]], Hierarchy([("A", "B"), ("A", "C")])).score
    array([0.8, 0.8, 0.4])
    """
    return _order_by_changed(propagate_max, scores, hierarchy, top, weight)


def top_down(
    scores: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
) -> Ranking:
    r"""Lower every label to its lowest ancestor, then rank.

    :math:`s_k' = \min_{j \in \{k\} \cup anc(k)} s_j`. A low score lowers all
    descendants, however high theirs are.

    Examples
    --------
    >>> top_down([[0.2, 0.8, 0.1]], Hierarchy([("A", "B"), ("A", "C")])).score
    array([0.2, 0.2, 0.1])
    """
    return _order_by_changed(propagate_min, scores, hierarchy, top, weight)


def propagate_max(scores: Any, hierarchy: Hierarchy) -> Float:
    """Return scores raised to that of the highest descendant."""
    raised = np.array(dense(align(scores, hierarchy, name="scores").values), order="C")
    max_up(raised, hierarchy.order, hierarchy.parent_ptr, hierarchy.parent_idx)
    return raised


def propagate_max_sparse(scores: sparse.csr_array, hierarchy: Hierarchy) -> sparse.csr_array:
    """Raise every stored label and its ancestors to their highest stored descendant."""
    h = hierarchy
    sizes, columns, values = [np.zeros(1, dtype=np.int64)], [], []
    for start, stop in sample_ranges(*scores.shape):
        part = slice(scores.indptr[start], scores.indptr[stop])
        sample = np.repeat(np.arange(stop - start), np.diff(scores.indptr[start : stop + 1]))
        number = h.position[scores.indices[part]]
        upper = UpperSet.above(h, number)
        raised = np.full((upper.size, stop - start), -np.inf)
        raised[upper.row[number], sample] = scores.data[part]
        upper.raise_up(raised)
        by_sample = np.ascontiguousarray(raised.T)
        stored = by_sample > -np.inf
        sizes.append(stored.sum(axis=1))
        columns.append(np.broadcast_to(h.order[upper.numbers], stored.shape)[stored])
        values.append(by_sample[stored])
    row_ptr = np.cumsum(np.concatenate(sizes))
    stored_values = np.concatenate([*values, np.empty(0)])
    stored_columns = np.concatenate([*columns, np.empty(0, dtype=np.int32)])
    return sparse.csr_array((stored_values, stored_columns, row_ptr), shape=scores.shape)


def propagate_min(scores: Any, hierarchy: Hierarchy) -> Float:
    """Return scores lowered to that of the lowest ancestor."""
    values = dense(align(scores, hierarchy, name="scores").values)
    numbered = np.ascontiguousarray(values[:, hierarchy.order])
    min_down(numbered, hierarchy.parent_ptr, hierarchy.parent_idx)
    return numbered[:, hierarchy.position]


def _order_by_changed(
    change: Callable[[Float, Hierarchy], Float],
    scores: Any,
    hierarchy: Hierarchy,
    top: int | None,
    weight: Any,
) -> Ranking:
    table, values = align_dense(scores, hierarchy, name="scores")
    score = change(weighted(values, weight, hierarchy), hierarchy)
    return order_by(score, values, table, hierarchy, top=top)


def single_parent(
    lpr: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
) -> Ranking:
    """Keep one parent per label, chosen for the largest eAUC, and rank that forest.

    The dropped edges are ignored, so a label may come before one of its parents;
    `hierlpr.metrics.order_violations_error` counts this. On a forest it equals `hierlpr.rank`.

    All choices are tried; more than 4,096 in a connected component are an error.

    References
    ----------
    Ho et al. (2018), key ``ho2018hierlpr``, the study of disease diagnosis.

    Examples
    --------
    C comes before its parent B, because only the edge from A is kept.

    >>> from hierlpr.metrics import order_violations_error
    >>> h = Hierarchy([("A", "C"), ("B", "C")])
    >>> r = single_parent([[0.5, 0.9, 0.1]], h)
    >>> [h.labels[k] for k in r.label], order_violations_error(r.sample, r.label, h)
    (['A', 'C', 'B'], 1)
    """
    table, values = align_dense(lpr, hierarchy, name="lpr")
    weights = None
    if weight is not None:
        weights = check_label_weights(weight, hierarchy.labels, name="weight")
    chosen: list[tuple[str, str]] = []
    for columns in group_columns(label_groups(hierarchy, "tree")).values():
        part = [hierarchy.labels[k] for k in columns]
        options = [[(p, x) for p in hierarchy.parents(x)] for x in part if hierarchy.parents(x)]
        n_choices = math.prod(len(parents) for parents in options)
        if n_choices > MOST_CHOICES:
            raise HierarchyError(
                f"There are {n_choices:.3g} ways to keep one parent per label, more than "
                f"{MOST_CHOICES:,}.\nHint: hierlpr.rank respects all parents without such a search."
            )
        choices = list(product(*options))
        areas = [
            rank(
                values[:, columns],
                Hierarchy(edges, labels=part),
                weight=None if weights is None else weights[columns],
            ).eauc()
            for edges in (choices if len(choices) > 1 else ())
        ]
        chosen += choices[int(np.argmax(areas)) if areas else 0]
    forest = Hierarchy(chosen, labels=hierarchy.labels)
    return rank(table, forest, top=top, weight=weights)
