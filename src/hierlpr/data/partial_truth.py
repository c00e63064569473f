"""Truth of which some (sample, label) pairs are unknown: what follows from it, and what it weighs.

The hierarchy is asked first. A label that holds makes its ancestors hold, one that does not makes
its descendants not hold; so a pair is unknown only if neither says anything about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix, refuse_entries
from hierlpr.data.tables import align, align_truth_to
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

if TYPE_CHECKING:
    from scipy import sparse

__all__ = ["AnyTruth", "PartialTruth", "align_known", "base_rate", "curve_weights", "strata"]

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class PartialTruth:
    """What is known of the labels of samples; three bool matrices of one shape.

    Attributes
    ----------
    held : ndarray
        Labels that are known to hold, closed upward.
    known : ndarray
        Pairs that are known, of themselves or by the hierarchy.
    given : ndarray
        Pairs that are known of themselves. Whether a pair is known by the hierarchy alone depends
        on its truth, so that among these alone positives and negatives would be out of proportion.
    """

    held: Bool
    known: Bool
    given: Bool

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and labels."""
        return self.held.shape[0], self.held.shape[1]

    @property
    def n_unknown(self) -> NDArray[np.int64]:
        """Samples in which each label is unknown."""
        return np.asarray(np.count_nonzero(~self.known, axis=0), dtype=np.int64)

    def __getitem__(self, at: Any) -> PartialTruth:
        """Take rows, or rows and columns, as of an array."""
        return PartialTruth(self.held[at], self.known[at], self.given[at])


AnyTruth: TypeAlias = "Bool | sparse.csr_array | PartialTruth"


def align_known(
    scores: Matrix, data: Any, hierarchy: Hierarchy, *, name: str = "truth", close: bool = False
) -> AnyTruth:
    """Bring truth to label order as `align_truth_to` does; NaN where a pair is unknown.

    Examples
    --------
    >>> h = Hierarchy([("A", "B"), ("B", "C")])
    >>> truth = align_known(np.zeros((2, 3)), [[np.nan, np.nan, 1], [1, 0, np.nan]], h)
    >>> truth.held.astype(int).tolist(), bool(truth.known.all())
    ([[1, 1, 1], [1, 0, 0]], True)
    """
    table = align(data, hierarchy, name=name)
    stored = table.values if isinstance(table.values, np.ndarray) else table.values.data
    if stored.size == 0 or not np.isnan(stored.sum()):
        return align_truth_to(scores, table, hierarchy, name=name, close=close)
    if not isinstance(scores, np.ndarray):
        raise DataError(
            f"{name} has unknown pairs, but the scores are listed (sparse): whether a label that "
            "is not listed was unknown cannot be told apart yet.\n"
            "Hint: give complete scores, or leave out the samples with unknown pairs."
        )
    values = table.values if isinstance(table.values, np.ndarray) else table.values.toarray()
    refuse_entries(
        ~((values == 0.0) | (values == 1.0) | np.isnan(values)), values, hierarchy.labels,
        name=name, what="a value other than 0, 1 and unknown", hint="1 where the label holds.",
    )  # fmt: skip
    return _completed(values == 1.0, values == 0.0, hierarchy, name=name, close=close)


def _completed(
    positive: Bool, negative: Bool, hierarchy: Hierarchy, *, name: str, close: bool
) -> PartialTruth:
    """Apply the rules of the hierarchy; what contradicts them is refused, or closed upward."""
    held: Bool = hierarchy.close_upward(positive)
    clash = held & negative
    if clash.any() and not close:
        sample, above = (int(i) for i in np.argwhere(clash)[0])
        ancestor = hierarchy.labels[above]
        below = [x for x in hierarchy.descendants(ancestor) if positive[sample, hierarchy.index(x)]]
        raise DataError(
            f"{name} contradicts the hierarchy {np.count_nonzero(clash):,} time(s); the first: "
            f"sample {sample} has {below[0]!r} but not {ancestor!r}, which is above it.\n"
            "Hint: correct it, or say that ancestors follow (close_truth=True)."
        )
    no = negative & ~held
    upper = hierarchy.waves.above(np.arange(hierarchy.n_labels))
    denied = upper.any_above(np.ascontiguousarray(no[:, hierarchy.order].T)).T[
        :, hierarchy.position
    ]
    given = positive | negative
    # Who says that ancestors follow has given them with the labels below.
    return PartialTruth(held, held | no | denied, given | held if close else given)


def strata(truth: PartialTruth, hierarchy: Hierarchy, label: int) -> tuple[Bool, Bool]:
    """Mark samples in which a parent is known not to hold, and in which all are given to hold."""
    parents = _parents(hierarchy, label)
    held = truth.held[:, parents]
    away = np.logical_or.reduce(truth.known[:, parents] & ~held, axis=1)
    there = np.logical_and.reduce(truth.given[:, parents] & held, axis=1)
    return np.asarray(away), np.asarray(there)


def _parents(hierarchy: Hierarchy, label: int) -> NDArray[Any]:
    number, ptr = int(hierarchy.position[label]), hierarchy.parent_ptr
    return hierarchy.order[hierarchy.parent_idx[ptr[number] : ptr[number + 1]]]


def curve_weights(truth: PartialTruth, hierarchy: Hierarchy, label: int) -> Float:
    r"""Weigh the samples for all that is learned about one label alone; 0 leaves one out.

    Notes
    -----
    Samples that lack a parent of the label lack the label too, given or not: all of them count.
    Where the parents hold, the samples whose label is given stand for all such samples. Where a
    parent is unknown, those whose label is given stand for as many each, and so perhaps for a part
    :math:`\varphi` of such samples only; for the rest stand the samples in which the parent is
    known, with the weights they have for the parent itself (of several parents, with weight 1).
    This is right if what is given of a label depends on neither its truth nor its score, once it is
    known what holds of the labels above: where pairs are unknown at random (then
    :math:`\varphi = 1`), and where somebody has stopped at some label on the way down
    (:math:`\varphi = 0`). Which labels are implied from below has no part in it, because that does
    depend on the truth.

    The weights are then scaled down so that neither positives nor negatives count as more samples
    than there are (Kish's effective number).
    """
    weight, held = _weights(truth, hierarchy, label), truth.held[:, label]
    used = weight > 0.0
    if not used.any() or np.all(weight[used] == weight[used][0]):
        return used.astype(np.float64)
    return weight * min(_kish(weight[used & side]) for side in (held, ~held))


def _weights(truth: PartialTruth, hierarchy: Hierarchy, label: int) -> Float:
    away, there = strata(truth, hierarchy, label)
    other, given = ~(away | there), truth.given[:, label]
    n_other, n_given = (int(np.count_nonzero(x)) for x in (other, other & given))
    n_there, n_there_given = (int(np.count_nonzero(x)) for x in (there, there & given))
    share = 1.0
    if n_other and n_there_given:
        share = min(1.0, n_given / n_other * n_there / n_there_given)
    stands_for = np.ones(away.size)
    parents = _parents(hierarchy, label)
    if share < 1.0 and parents.size == 1:
        above = _weights(truth, hierarchy, int(parents[0]))
        stands_for = share + (1.0 - share) * above
    weight = np.where(away, stands_for, 0.0)
    if n_there_given:
        used = there & given
        weight[used] = stands_for[used] * (_total(stands_for[there]) / _total(stands_for[used]))
    if n_given:
        most = n_there / n_there_given if n_there_given else np.inf
        weight[other & given] = min(n_other / n_given, most)
    return weight


def _total(weight: Float) -> float:
    """Sum few values that occur many times, so that no order of the samples has a part in it."""
    value, count = np.unique(weight, return_counts=True)
    return float((value * count).sum())


def _kish(weight: Float) -> float:
    return _total(weight) / _total(weight * weight) if weight.size else 1.0


def base_rate(held: Bool, weight: Float) -> float:
    """Share of the samples that have a label, with half a sample more of each class."""
    return (_total(weight[held]) + 0.5) / (_total(weight) + 1.0)
