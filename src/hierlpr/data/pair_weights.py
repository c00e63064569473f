"""Weights of samples for estimates about one label, where truth is partly unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import effective_number
from hierlpr.data.truth import Bool, Float, Truth
from hierlpr.hierarchy import Hierarchy


def strata(truth: Truth, hierarchy: Hierarchy, label: int) -> tuple[Bool, Bool]:
    """Return in which samples a parent is false, and in which all are annotated as true."""
    parent_false = np.zeros(truth.shape[0], dtype=bool)
    parents_true = np.ones(truth.shape[0], dtype=bool)
    for parent in _parents(hierarchy, label).tolist():
        positive, is_known, is_annotated = truth.column(parent)
        parent_false |= is_known & ~positive
        parents_true &= is_annotated & positive
    return parent_false, parents_true


def _parents(hierarchy: Hierarchy, label: int) -> NDArray[Any]:
    number, ptr = int(hierarchy.position[label]), hierarchy.parent_ptr
    return hierarchy.order[hierarchy.parent_idx[ptr[number] : ptr[number + 1]]]


def curve_weights(
    truth: Truth, hierarchy: Hierarchy, label: int, sample_weight: Float | None = None
) -> Float:
    r"""Return weights of samples for estimates about one label; 0 leaves a sample out.

    Notes
    -----
    Samples that lack a parent of the label lack the label too, so all of them count. Where all
    parents are true, the annotated samples represent all such samples. Where a parent is unknown,
    they represent equally many each, and so possibly only a part :math:`\varphi` of such
    samples. The rest is represented by the samples in which the parent is known, with their weights
    for the parent (with several parents, with weight 1).

    This is correct if, given the truth of the labels above, whether a label was annotated depends
    on neither its truth nor its score: pairs may be unknown at random (:math:`\varphi = 1`), or
    annotation may have stopped at some label on the way down (:math:`\varphi = 0`). Labels implied
    from below are not used, because they do depend on the truth. A sample of weight w counts as w
    samples. Weights are scaled down so that neither positives nor negatives count as more samples
    than there are (Kish's effective sample size).
    """
    weight, positive = np.ones(truth.shape[0]), truth.column(label)[0]
    if not truth.is_complete:
        weight = _weights(truth, hierarchy, label, sample_weight)
    if sample_weight is not None:
        weight = weight * sample_weight
    used = weight > 0.0
    if not used.any() or np.all(weight[used] == weight[used][0]):
        return used.astype(np.float64)
    classes = [weight[used & side] for side in (positive, ~positive)]
    # Sorted, so that rounding does not depend on the order of the samples.
    return np.asarray(
        weight * min(effective_number(np.sort(w)) / _total(w) if w.size else 1.0 for w in classes)
    )


def _weights(
    truth: Truth, hierarchy: Hierarchy, label: int, sample_weight: Float | None = None
) -> Float:
    weight_of = np.ones(truth.shape[0]) if sample_weight is None else sample_weight
    parent_false, parents_true = strata(truth, hierarchy, label)
    other, is_annotated = ~(parent_false | parents_true), truth.column(label)[2]
    n_other, n_other_annotated = _total(weight_of[other]), _total(weight_of[other & is_annotated])
    n_true, n_annotated = (
        _total(weight_of[parents_true]),
        _total(weight_of[parents_true & is_annotated]),
    )
    share = 1.0
    if n_other and n_annotated:
        share = min(1.0, n_other_annotated / n_other * n_true / n_annotated)
    represented = np.ones(parent_false.size)
    parents = _parents(hierarchy, label)
    if share < 1.0 and parents.size == 1:
        above = _weights(truth, hierarchy, int(parents[0]), sample_weight)
        represented = share + (1.0 - share) * above
    weight = np.where(parent_false, represented, 0.0)
    if n_annotated:
        used, total = parents_true & is_annotated, represented * weight_of
        weight[used] = represented[used] * (_total(total[parents_true]) / _total(total[used]))
    if n_other_annotated:
        most = n_true / n_annotated if n_annotated else np.inf
        weight[other & is_annotated] = min(n_other / n_other_annotated, most)
    return weight


def _total(weight: Float) -> float:
    """Return the sum of repeated values; it does not depend on the order of the samples."""
    if weight.size and np.all(weight == weight[0]):
        return float(weight[0] * weight.size)
    value, count = np.unique(weight, return_counts=True)
    return float((value * count).sum())


def base_rate(positive: Bool, weight: Float) -> float:
    """Return the share of samples with a label, with half a sample added to each class."""
    return (_total(weight[positive]) + 0.5) / (_total(weight) + 1.0)
