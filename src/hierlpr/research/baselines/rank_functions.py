"""Competitors of `hierlpr.rank` with its signature, which learn nothing.

Orders by a score as it is, or made consistent along the edges one value at a time; and by blocks:
CSSA's relaxed selection, and the paper's way with DAGs, which leaves each label one parent, tries
all choices, and keeps the best eAUC. Here is also what all baselines share: instances sorted by a
score, marked as consistent or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_finite, check_label_weights, check_unit_interval
from hierlpr._kernels.traversal import gpav_rows, max_up, min_down
from hierlpr.cutoff.by_group import group_columns, label_groups
from hierlpr.data.tables import Table, align
from hierlpr.exceptions import DataError, HierarchyError
from hierlpr.hierarchy import Hierarchy
from hierlpr.ranking.order import Ranking, rank

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
    return Ranking(
        place=sample * h.n_labels + label,
        first=np.ones(place.size, dtype=bool),
        source=own[sample, label],
        labels=h.labels,
        n_instances=n_samples * h.n_labels,
        samples=table.samples,
        backend=table.backend,
        called_by=by_number[place],
    )


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
    raised = np.array(values, dtype=np.float64, order="C")
    max_up(raised, hierarchy.order, hierarchy.parent_ptr, hierarchy.parent_idx)
    return raised


def propagate_min(values: Float, hierarchy: Hierarchy) -> Float:
    """Return scores lowered to those of the lowest ancestor."""
    return _along(min_down, values, hierarchy, hierarchy.parent_ptr, hierarchy.parent_idx)


def gpav_scores(values: Float, hierarchy: Hierarchy) -> Float:
    """Return the fitted values of generalized pooled adjacent violators."""
    return _along(gpav_rows, values, hierarchy, hierarchy.child_ptr, hierarchy.child_idx)


def _along(kernel: Callable[..., None], values: Float, h: Hierarchy, *edges: Any) -> Float:
    numbered = np.ascontiguousarray(values[:, h.order])
    kernel(numbered, *edges)
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
    for columns in group_columns(label_groups(hierarchy, "tree")).values():
        part = [hierarchy.labels[k] for k in columns]
        weights = None if weight is None else _take(weight, part, columns)
        choices = _choices(hierarchy, part, most_choices)
        areas = [
            rank(values[:, columns], Hierarchy(edges, labels=part), weight=weights).eauc()
            for edges in (choices if len(choices) > 1 else ())
        ]
        chosen.extend(choices[int(np.argmax(areas)) if areas else 0])
    forest = Hierarchy(chosen, labels=hierarchy.labels)
    return rank(table, forest, top=top, weight=weight)


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


def _take(weight: Any, part: list[str], columns: NDArray[np.intp]) -> Any:
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
    return replace(
        ordered,
        place=ordered.place[kept],
        first=np.ones(kept.size, dtype=bool),
        source=ordered.lpr[kept],
        open_place=ordered.open_place[:0],
        open_lack=ordered.open_lack[:0],
        called_by=fraction[block[kept]],
    )
