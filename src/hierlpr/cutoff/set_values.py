"""Values that determine which labels of a sample are sure or possible.

Both sets are prefixes of an order of a sample's labels with parents first. Each label has a value
that decreases along the order; `hierlpr.cutoff.sets` learns the levels. A value depends only on the
scores of its own sample, which is all that the guarantees need.

If every sample has one path of labels and only some scores are listed, only labels on the most
likely listed path have a value; memory and time then depend on the number of listed scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hierlpr._kernels.curves import make_monotone
from hierlpr._utils.checks import check_level
from hierlpr.data.tables import dense
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import UpperSet, sample_ranges
from hierlpr.joint.prior import reach_of

TIE_BREAK = 2.0**-20  # largest relative change of a value to break ties, far below what matters
RISKY = 5.0  # largest probability of a false label per sample, in multiples of the error

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Index = NDArray[np.intp]


def call_order(score: Float, hierarchy: Hierarchy) -> Index:
    """Return the columns of each sample by decreasing block score, ties parents first."""
    order = np.argsort(-score[:, hierarchy.order], axis=1, kind="stable")
    return np.asarray(hierarchy.order[order], dtype=np.intp)


def all_true_values(score: Float, hierarchy: Hierarchy, order: Index) -> Float:
    r"""Estimate for every label the probability that it and all labels before it are true.

    With :math:`s` the block scores, a label holds given its parents with probability about
    :math:`s_k / \min_{\text{parents}} s`; the value is the product of these along the order. The
    guarantee does not depend on the quality of the estimate. `order` is that of `call_order`.
    """
    above = np.ones_like(score)
    for parents, children in edge_columns(hierarchy):
        above[:, children] = np.minimum(above[:, children], score[:, parents])
    conditional = np.divide(score, above, out=np.zeros_like(score), where=above > 0.0)
    values = np.cumprod(np.take_along_axis(np.minimum(conditional, 1.0), order, axis=1), axis=1)
    return _place(values, order)


def any_true_values(score: Float, hierarchy: Hierarchy, order: Index) -> Float:
    r"""Estimate for every label the probability that it or a label after it is true.

    If any of them is true, so is one whose parents all come before:
    :math:`1 - \prod (1 - s)` over these. `order` is that of `call_order`.
    """
    n_samples, n_labels = score.shape
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(n_labels)[None, :], axis=1)
    # After a prefix without k, a child of k adds nothing: it is true only if k is.
    last = np.full((n_samples, n_labels), -1, dtype=np.intp)
    for parents, children in edge_columns(hierarchy):
        last[:, children] = np.maximum(last[:, children], place[:, parents])
    none = np.log1p(-np.minimum(score, 1.0 - 2.0**-40))  # finite: it is subtracted below
    gained = np.take_along_axis(none, order, axis=1)
    row, child = np.nonzero(last >= 0)
    np.subtract.at(gained, (row, last[row, child]), none[row, child])
    tail = -np.expm1(np.cumsum(gained[:, ::-1], axis=1))
    values = np.maximum.accumulate(np.clip(tail, 0.0, 1.0), axis=1)[:, ::-1]
    return _place(np.ascontiguousarray(values), order)


def least_chance(error: float) -> float:
    """Return the probability of a set being all true from which on `by_cost` applies.

    The guaranteed error is an average over samples. No sample should have more than `RISKY` times
    that error, or be more likely wrong than right.
    """
    return max(0.5, 1.0 - RISKY * check_level(error, name="error"))


def by_cost(chance: Float, order: Index, floor: float) -> Float:
    r"""Return values by what each label adds to the error, while its set is likely all true.

    With :math:`V_j` the probability that the first :math:`j` labels of a sample are all true, the
    most labels for a given error result from adding labels, over all samples, in order of
    :math:`V_{j-1} - V_j`: the value of a label is 1 minus that cost. A later label that is cheaper
    than an earlier one is combined with it, at their mean cost (the convex hull), so values
    decrease along the order. After the last label with :math:`V \ge` `floor` the value is
    :math:`V` itself, which is lower than all other values; a floor of 1 changes nothing.

    `order` has the columns of each sample; `floor` is at least 1/2, so that costs cannot reach it.

    Examples
    --------
    >>> chance = np.array([[0.9, 0.6, 0.5, 0.4], [0.9, 0.9, 0.7, 0.5]])
    >>> by_cost(chance, np.tile(np.arange(4), (2, 1)), 0.5).round(6)
    array([[0.9 , 0.8 , 0.8 , 0.4 ],
           [0.95, 0.95, 0.8 , 0.8 ]])
    """
    n_samples, n_labels = chance.shape
    along = np.take_along_axis(chance, order, axis=1)
    sample = np.repeat(np.arange(n_samples), n_labels)
    return _place(_by_cost(along.ravel(), sample, n_samples, floor).reshape(chance.shape), order)


def _by_cost(chance: Float, sample: Index, n_samples: int, floor: float) -> Float:
    """Return the values of `by_cost` for lists of any lengths, one after the other."""
    value = _rounded(chance)
    is_first = np.diff(sample, prepend=-1) != 0
    before = np.where(is_first, 1.0, np.append(1.0, value)[: value.size])
    likely = value >= _rounded(np.array(floor))
    cost = (before - value)[likely]
    counts = np.bincount(sample[likely], minlength=n_samples)
    make_monotone(np.append(0, np.cumsum(counts)).astype(np.int64), cost, np.ones_like(cost))
    value[likely] = 1.0 - cost
    return value


class SetValues(NamedTuple):
    """Values of labels of some samples, both decreasing along an order with parents first."""

    sure: Float
    possible: Float

    @classmethod
    def of(cls, sure: Float, possible: Float, score: Float) -> SetValues:
        """Break ties between samples, then round to 40 bits.

        A level cannot separate tied samples, so ties waste part of the allowed error: values are
        lowered by a tiny factor that grows with a sample's mean score. Any function of a sample's
        own scores keeps samples exchangeable. Rounded ties do not depend on the machine.
        """
        factor = 1.0 - TIE_BREAK * (1.0 - np.ascontiguousarray(score).mean(axis=1, keepdims=True))
        return cls(_rounded(sure * factor), _rounded(possible * factor))


def many_label_values(score: Any, hierarchy: Hierarchy, floor: float) -> Iterator[SetValues]:
    """Yield values from block scores, some samples at a time; `floor` is that of `by_cost`."""
    n_samples, n_labels = score.shape
    for start, stop in sample_ranges(n_samples, n_labels):
        part = np.asarray(dense(score[start:stop]), dtype=np.float64)
        order = call_order(part, hierarchy)
        sure = by_cost(all_true_values(part, hierarchy, order), order, floor)
        possible = any_true_values(part, hierarchy, order)
        yield SetValues.of(sure, possible, part)


def one_path_values(ends: Float, hierarchy: Hierarchy, floor: float) -> Iterator[SetValues]:
    """Yield values if every sample has one path, from the posterior of where the path ends.

    The probability of a label is that of paths which end at or below it. Paths exclude each other,
    so only the labels of the most likely path can be sure.
    """
    reach = reach_of(ends, hierarchy)
    order = call_order(reach, hierarchy)
    along = np.take_along_axis(ends, order, axis=1)
    tail = _place(np.cumsum(along[:, ::-1], axis=1)[:, ::-1].copy(), order)
    paths = likely_paths(reach, hierarchy)
    chance = np.zeros_like(reach)
    chance[paths.sample, paths.label] = paths.chance
    sure = by_cost(chance, call_order(chance, hierarchy), floor)
    yield SetValues.of(sure, tail, reach)


# -- listed scores, one path per sample ------------------------------------------------------------


class LikelyPaths(NamedTuple):
    """The most likely path of each sample, the top first; all arrays have one entry per label.

    `sample` is sorted, `chance` is the block score, which never rises along a path.
    """

    sample: Index
    label: Index
    chance: Float

    def last(self, is_trusted: Bool, n_samples: int) -> Index:
        """Return the last trusted entry of each sample, -1 for none."""
        last = np.full(n_samples, -1, dtype=np.intp)
        entries = np.flatnonzero(is_trusted)
        last[self.sample[entries]] = entries  # the last assignment stays
        return last


def likely_paths(score: Any, hierarchy: Hierarchy) -> LikelyPaths:
    """Follow the largest block score from the roots down, in each sample.

    In a DAG a label stands below the first of its parents.
    """
    listed = scipy.sparse.csr_array(score)
    n_samples = int(listed.shape[0])
    sample = np.repeat(np.arange(n_samples), np.diff(listed.indptr))
    label, chance = listed.indices.astype(np.intp), listed.data
    has_parent = np.diff(hierarchy.parent_ptr) > 0
    first = hierarchy.parent_idx[hierarchy.parent_ptr[:-1][has_parent]]
    parent = np.full(hierarchy.n_labels, -1, dtype=np.intp)
    parent[hierarchy.order[has_parent]] = hierarchy.order[first]
    # By rising score; of equal ones the first label comes last.
    rest = label.size - 1 - np.argsort(chance[::-1], kind="stable")
    reached = np.full(n_samples, -1, dtype=np.intp)  # the label that each path has come to
    entries = [np.empty(0, dtype=np.intp)]
    for _ in range(hierarchy.depth):
        is_next = parent[label[rest]] == reached[sample[rest]]
        best = np.full(n_samples, -1, dtype=np.intp)
        best[sample[rest[is_next]]] = rest[is_next]  # the largest score is assigned last
        best = best[best >= 0]
        reached = np.full(n_samples, -2, dtype=np.intp)
        reached[sample[best]] = label[best]
        entries.append(best)
        rest = rest[~is_next]
    entry = np.concatenate(entries)
    entry = entry[np.argsort(sample[entry], kind="stable")]
    return LikelyPaths(sample[entry], label[entry], chance[entry])


def path_values(paths: LikelyPaths, n_samples: int, floor: float) -> Float:
    """Return values that fall along each path, as `by_cost` does, with ties broken."""
    value = _by_cost(paths.chance, paths.sample, n_samples, floor)
    length = np.bincount(paths.sample, minlength=n_samples)
    mean = np.bincount(paths.sample, paths.chance, n_samples) / np.maximum(length, 1)
    return _rounded(value * (1.0 - TIE_BREAK * (1.0 - mean[paths.sample])))


def _rounded(values: Float) -> Float:
    """Round to 40 bits."""
    part, power = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(part * 2.0**40), power - 40))


def edge_columns(hierarchy: Hierarchy) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield columns of parents and children, with no child twice in one step."""
    for parents, children in UpperSet.above(hierarchy).down:
        yield hierarchy.order[parents], hierarchy.order[children]


def _place(values: Float, order: Index) -> Float:
    placed = np.empty_like(values)
    np.put_along_axis(placed, order, values, axis=1)
    return placed
