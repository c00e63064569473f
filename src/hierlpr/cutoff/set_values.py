"""Values that decide how many labels of a sample are sure or possible.

Both kinds of sets are prefixes of an order of a sample's labels that puts parents first. Each label
has a value that falls along the order; where to stop is learned by `hierlpr.cutoff.sets`. A value
is a function of the scores of its own sample alone, which is all that the promises need.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_level
from hierlpr._kernels.smoothing import make_monotone
from hierlpr.data.tables import dense
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.waves import sample_ranges
from hierlpr.joint.one_path import reach_of

HAIR = 2.0**-20  # by how much values may move to part those that tie
RISKY = 5.0  # a sample's own chance of a wrong label may be so many times the error promised

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


def call_order(score: Float, hierarchy: Hierarchy) -> NDArray[np.intp]:
    """Columns of each sample in calling order: falling block score, ties parents first."""
    order = np.argsort(-score[:, hierarchy.order], axis=1, kind="stable")
    return np.asarray(hierarchy.order[order], dtype=np.intp)


def all_true_values(
    score: Float, hierarchy: Hierarchy, order: NDArray[np.intp] | None = None
) -> Float:
    r"""Estimate for every label that it and all labels called before it are true.

    With :math:`s` the block scores, a label holds given its parents with probability about
    :math:`s_k / \min_{\text{parents}} s`; the value is the product of these along the order. What
    is promised does not depend on how good the estimate is. `order` is that of `call_order`, if
    it is known.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")], labels=["A", "B", "C"])
    >>> all_true_values(np.array([[0.8, 0.4, 0.5]]), h)
    array([[0.8, 0.2, 0.4]])
    """
    above = np.ones_like(score)
    for parents, children in _edges(hierarchy):
        above[:, children] = np.minimum(above[:, children], score[:, parents])
    given = np.divide(score, above, out=np.zeros_like(score), where=above > 0.0)
    order = call_order(score, hierarchy) if order is None else order
    values = np.cumprod(np.take_along_axis(np.minimum(given, 1.0), order, axis=1), axis=1)
    return _place(values, order)


def any_true_values(
    score: Float, hierarchy: Hierarchy, order: NDArray[np.intp] | None = None
) -> Float:
    r"""Estimate for every label that it or a label called after it is true.

    If any of them is true then so is one whose parents were all called before:
    :math:`1 - \prod (1 - s)` over these. `order` is as in `all_true_values`.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")], labels=["A", "B", "C"])
    >>> any_true_values(np.array([[0.8, 0.4, 0.5]]), h).round(6)
    array([[0.9, 0.4, 0.7]])
    """
    order = call_order(score, hierarchy) if order is None else order
    n_samples, n_labels = score.shape
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(n_labels)[None, :], axis=1)
    # Beyond a prefix that lacks k, a child of k does not count: it is true only if k is.
    last = np.full((n_samples, n_labels), -1, dtype=np.intp)
    for parents, children in _edges(hierarchy):
        last[:, children] = np.maximum(last[:, children], place[:, parents])
    none = np.log1p(-np.minimum(score, 1.0 - 2.0**-40))
    gained = np.take_along_axis(none, order, axis=1)
    row, child = np.nonzero(last >= 0)
    np.subtract.at(gained, (row, last[row, child]), none[row, child])
    tail = -np.expm1(np.cumsum(gained[:, ::-1], axis=1))
    values = np.maximum.accumulate(np.clip(tail, 0.0, 1.0), axis=1)[:, ::-1]
    return _place(np.ascontiguousarray(values), order)


def least_chance(error: float) -> float:
    """From which chance on that all its labels hold a set is weighed by what each label costs.

    The error promised is an average over samples. No single one should bear more than `RISKY`
    times as much of it, or be wrong more likely than right, while others have less at stake.
    """
    return max(0.5, 1.0 - RISKY * check_level(error, name="error"))


def by_cost(chance: Float, order: NDArray[np.intp], floor: float) -> Float:
    r"""Order labels by what each adds to the error, where their sets hold likely enough.

    With :math:`V_j` the chance that the first :math:`j` labels of a sample all hold, the most
    labels for a given error come from adding label after label, over all samples, where
    :math:`V_{j-1} - V_j` is least: the value of a label is 1 less that cost. A later label that is
    cheaper than an earlier one is taken together with it, at their mean cost (the convex hull), so
    that values fall along the order. Beyond the last label with :math:`V \ge` `floor` the value is
    :math:`V` itself, which is less than all others of any sample; a floor of 1 leaves all as it is.

    Parameters
    ----------
    chance : ndarray of shape (n_samples, n_labels)
        Falling along `order`, from 0 to 1.
    order : ndarray of the same shape
        Columns of each sample.
    floor : float
        At least 1/2, so that the costs of a sample cannot reach it.

    Examples
    --------
    >>> chance = np.array([[0.9, 0.6, 0.5, 0.4], [0.9, 0.9, 0.7, 0.5]])
    >>> by_cost(chance, np.tile(np.arange(4), (2, 1)), 0.5).round(6)
    array([[0.9 , 0.8 , 0.8 , 0.4 ],
           [0.95, 0.95, 0.8 , 0.8 ]])
    """
    along = _rounded(np.take_along_axis(chance, order, axis=1))
    likely = along >= _rounded(np.array(floor))
    cost = np.concatenate([1.0 - along[:, :1], along[:, :-1] - along[:, 1:]], axis=1)[likely]
    ptr = np.concatenate([[0], np.cumsum(np.count_nonzero(likely, axis=1))]).astype(np.int64)
    make_monotone(ptr, cost, np.ones_like(cost))
    along[likely] = 1.0 - cost
    return _place(along, order)


class SetValues(NamedTuple):
    """Values of some samples' labels, both falling along an order that puts parents first."""

    sure: Float
    possible: Float

    def settled(self) -> SetValues:
        """Round to 40 bits: samples that tie must also tie on a machine with other logarithms.

        Promises about tied samples hang on it, because a value just above a level is called and
        the level itself is not. Rounding keeps the order, so nothing else changes.
        """
        return SetValues(*map(_rounded, self))

    def parted(self, score: Float) -> SetValues:
        """Part samples whose values tie by a hair: by how much their other scores promise.

        A level cannot part samples that tie, and what it may not spend on all it would leave
        unused. Any function of a sample's own scores keeps the samples exchangeable; one factor a
        sample keeps the order of its labels. Samples with the same scores still tie.
        """
        hair = 1.0 - HAIR * (1.0 - np.ascontiguousarray(score).mean(axis=1, keepdims=True))
        return SetValues(self.sure * hair, self.possible * hair)


def many_label_values(score: Any, hierarchy: Hierarchy, floor: float) -> Iterator[SetValues]:
    """Values from block scores, some samples at a time; an absent score is 0.

    `floor` is that of `by_cost`.
    """
    n_samples, n_labels = score.shape
    for start, stop in sample_ranges(n_samples, n_labels):
        part = np.asarray(dense(score[start:stop]), dtype=np.float64)
        order = call_order(part, hierarchy)
        sure = by_cost(all_true_values(part, hierarchy, order), order, floor)
        possible = any_true_values(part, hierarchy, order)
        yield SetValues(sure, possible).parted(part).settled()


def one_path_values(ends: Float, hierarchy: Hierarchy, floor: float) -> Iterator[SetValues]:
    """Values where every sample has one path, from the posterior of where it ends.

    A label is likely as its path ends at or below it; a second path beside the likeliest excludes
    it, so only the labels of the likeliest can be sure.
    """
    reach = reach_of(ends, hierarchy)
    order = call_order(reach, hierarchy)
    along = np.take_along_axis(ends, order, axis=1)
    tail = np.cumsum(along[:, ::-1], axis=1)[:, ::-1]
    chance = np.where(_likeliest_path(reach, hierarchy), reach, 0.0)
    sure = by_cost(chance, call_order(chance, hierarchy), floor)
    tail = _place(np.ascontiguousarray(tail), order)
    yield SetValues(sure, tail).parted(reach).settled()


def _likeliest_path(reach: Float, hierarchy: Hierarchy) -> Bool:
    """Mark the labels from the likeliest root down to the likeliest child each time."""
    best = np.zeros(reach.shape, dtype=bool)
    rows = np.arange(len(reach))
    groups = [[hierarchy.index(root) for root in hierarchy.roots]]
    groups += [[hierarchy.index(c) for c in hierarchy.children(x)] for x in hierarchy.labels]
    for group in groups:
        if group:
            best[rows, np.asarray(group)[reach[:, group].argmax(axis=1)]] = True
    for parents, children in _edges(hierarchy):
        best[:, children] &= best[:, parents]
    return best


# -- details ------------------------------------------------------------------------------------


def _rounded(values: Float) -> Float:
    """Round to 40 bits."""
    part, power = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(part * 2.0**40), power - 40))


def _edges(hierarchy: Hierarchy) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Columns at the ends of the edges, such that no child occurs twice at a time."""
    upper = hierarchy.waves.everything
    for parents, children in upper.down:
        yield hierarchy.order[parents], hierarchy.order[children]


def _place(values: Float, order: NDArray[np.intp]) -> Float:
    placed = np.empty_like(values)
    np.put_along_axis(placed, order, values, axis=1)
    return placed
