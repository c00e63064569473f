"""Truth of which some (sample, label) pairs are unknown: what follows from it, and what it weighs.

The hierarchy is asked first. A label that holds makes its ancestors hold, one that does not makes
its descendants not hold; so a pair is unknown only if neither says anything about it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix, refuse_entries
from hierlpr.data.label_sets import LabelSets
from hierlpr.data.tables import align, align_truth_to
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.waves import Upper, sample_ranges

if TYPE_CHECKING:
    from scipy import sparse

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PartialTruth:
    """What is known of the labels of samples; three bool matrices of one shape, dense or CSR.

    Attributes
    ----------
    held : ndarray or csr_array
        Labels that are known to hold, closed upward.
    unknown : ndarray or csr_array
        Pairs of which neither they themselves nor the hierarchy tell anything.
    open : ndarray or csr_array
        Pairs that were not given of themselves. Whether such a pair is known by the hierarchy
        depends on its truth, so that among those positives and negatives are out of proportion.
    """

    held: Any
    unknown: Any
    open: Any

    @classmethod
    def of_sets(cls, sets: LabelSets, hierarchy: Hierarchy) -> PartialTruth:
        """Take sets that are closed upward, some labels of which are open; CSR matrices."""
        assert sets.open is not None
        return cls(_csr(sets), _csr(still_unknown(sets, hierarchy)), _csr(sets.open))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and labels."""
        return self.held.shape[0], self.held.shape[1]

    @property
    def is_dense(self) -> bool:
        """Whether the matrices are arrays."""
        return isinstance(self.held, np.ndarray)

    @property
    def known(self) -> Bool:
        """Pairs that are known, of themselves or by the hierarchy; of dense matrices."""
        return np.asarray(~self.unknown)

    @property
    def given(self) -> Bool:
        """Pairs that are known of themselves; of dense matrices."""
        return np.asarray(~self.open)

    @property
    def learnable(self) -> Bool:
        """Pairs to train on one by one: given, or lacking with a parent; of dense matrices.

        A pair that is known to hold only by a label below is known because it holds: among those
        that were not given, training on it would count positives alone. Where a label has no other
        pairs, all that are known.
        """
        known = self.known
        pairs = known & (self.given | ~self.held)
        return np.where(pairs.any(axis=0), pairs, known)

    @property
    def n_unknown(self) -> NDArray[np.int64]:
        """Samples in which each label is unknown."""
        return _column_sums(self.unknown)

    @property
    def n_given(self) -> NDArray[np.int64]:
        """Samples in which each label is given."""
        return self.shape[0] - _column_sums(self.open)

    @property
    def n_given_held(self) -> NDArray[np.int64]:
        """Samples in which each label is given to hold."""
        both = self.held & self.open if self.is_dense else self.held.multiply(self.open)
        return _column_sums(self.held) - _column_sums(both)

    def __getitem__(self, at: Any) -> PartialTruth:
        """Take rows, or rows and columns, as of an array."""
        return PartialTruth(self.held[at], self.unknown[at], self.open[at])

    def toarray(self) -> PartialTruth:
        """Return the same with dense matrices."""
        if self.is_dense:
            return self
        return PartialTruth(*(x.toarray() for x in (self.held, self.unknown, self.open)))

    def as_given(self) -> Any:
        """Return 1, 0 and NaN as they were given: an array, or CSR without the zeros."""
        if self.is_dense:
            return np.where(self.open, np.nan, self.held)
        return replace(LabelSets.of(self.held), open=LabelSets.of(self.open)).as_given()

    def column(self, label: int) -> tuple[Bool, Bool, Bool]:
        """Return what holds, what is known and what is given of one label."""
        if self.is_dense:
            return self.held[:, label], ~self.unknown[:, label], ~self.open[:, label]
        held, unknown, open_ = (_marked(x, label) for x in self._by_label)
        return held, ~unknown, ~open_

    @cached_property
    def _by_label(self) -> tuple[Any, ...]:
        return tuple(x.tocsc() for x in (self.held, self.unknown, self.open))


def truth_of_sets(sets: LabelSets, hierarchy: Hierarchy) -> sparse.csr_array | PartialTruth:
    """Return CSR matrices of truth that is closed upward."""
    return _csr(sets) if sets.open is None else PartialTruth.of_sets(sets, hierarchy)


def held_and_known(truth: Any) -> tuple[Bool, Bool]:
    """Return which labels hold and which pairs are known, as arrays."""
    if isinstance(truth, PartialTruth):
        whole = truth.toarray()
        return np.asarray(whole.held, dtype=bool), whole.known
    held = np.asarray(truth if isinstance(truth, np.ndarray) else truth.toarray(), dtype=bool)
    return held, np.ones(held.shape, dtype=bool)


def as_given(truth: AnyTruth) -> Any:
    """Return truth as users give it: NaN where it was not given."""
    return truth.as_given() if isinstance(truth, PartialTruth) else truth


def truth_column(truth: Any, label: int) -> Bool:
    """Return which samples are known to have a label."""
    if isinstance(truth, PartialTruth):
        return truth.column(label)[0]
    if isinstance(truth, np.ndarray):
        return truth[:, label]
    return _marked(truth, label) if truth.format == "csc" else truth[:, [label]].toarray()[:, 0]


def _marked(columns: Any, label: int) -> Bool:
    """One column of a CSC matrix of bool."""
    out = np.zeros(columns.shape[0], dtype=bool)
    out[columns.indices[columns.indptr[label] : columns.indptr[label + 1]]] = True
    return out


def _column_sums(matrix: Any) -> NDArray[np.int64]:
    return np.asarray(matrix.sum(axis=0), dtype=np.int64).ravel()


def _csr(sets: LabelSets) -> Any:
    from scipy import sparse

    # SciPy makes labels and places equally wide.
    ptr = sets.row_ptr.astype(np.int32 if sets.row_ptr[-1] < 2**31 else np.int64)
    matrix = sparse.csr_array((np.ones(sets.label.size, bool), sets.label, ptr), shape=sets.shape)
    matrix.sort_indices()
    return matrix


class ClosedSets(NamedTuple):
    """Sets of labels as they were given, closed upward.

    `n_missing` ancestors were given not to hold; if they are not to be added, `breach` is the
    first: a sample, an ancestor and a label of it. `n_implied` were open and no longer are;
    `n_open` still are.
    """

    sets: LabelSets
    n_missing: int
    n_implied: int
    n_open: int
    breach: tuple[int, str, str]


def close_given(given: LabelSets, hierarchy: Hierarchy, *, close: bool) -> ClosedSets:
    """Close truth upward; with `close`, ancestors that are open are given with the labels below."""
    closed, open_ = given.closed(hierarchy), given.open
    n_added, n_implied, n_open = closed.label.size - given.label.size, 0, 0
    if open_ is not None:
        left = open_.without(closed)
        n_implied = open_.label.size - left.label.size
        closed = replace(closed, open=left) if close else closed
        n_open = left.label.size if close else open_.label.size
    n_missing, breach = n_added - n_implied, (0, "", "")
    if n_missing and not close:
        added = closed.without(given)
        added = added if open_ is None else added.without(open_)
        sample = int(np.argmax(np.diff(added.row_ptr) > 0))
        row = np.zeros(given.n_labels)
        for sets, value in ((given, 1.0), (open_, np.nan)):
            row[[] if sets is None else sets.run(sample, sample + 1)[0]] = value
        breach = (sample, *first_breach(row, hierarchy))
    return ClosedSets(closed, n_missing, n_implied if close else 0, n_open, breach)


def first_breach(row: Float, hierarchy: Hierarchy) -> tuple[str, str]:
    """Return an ancestor that one sample was given not to have, and a label below that it has.

    >>> first_breach(np.array([0, np.nan, 1]), Hierarchy([("A", "B"), ("B", "C")]))
    ('A', 'C')
    """
    held = hierarchy.close_upward((row == 1.0)[None])[0] & (row != 0.0)
    _, above, below = hierarchy.violations(held[None])[0]
    if row[hierarchy.index(below)] != 1.0:  # it is only implied itself
        below = next(x for x in hierarchy.descendants(below) if row[hierarchy.index(x)] == 1.0)
    return above, below


def still_unknown(sets: LabelSets, hierarchy: Hierarchy) -> LabelSets:
    """Of the labels that are open, return those of which the hierarchy tells nothing.

    `sets` are closed upward. A label that does not hold and is not open was given not to.

    Examples
    --------
    >>> h = Hierarchy([("A", "B"), ("B", "C"), ("A", "D")])
    >>> sets = LabelSets.of(np.array([[1, np.nan, 1, np.nan], [0, np.nan, np.nan, 0]])).closed(h)
    >>> still_unknown(sets, h).label
    array([3], dtype=int32)
    """
    if sets.open is None:
        return LabelSets(np.zeros_like(sets.row_ptr), np.empty(0, np.int32), sets.n_labels)
    sizes, labels = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
    for start, stop in sample_ranges(*sets.shape):
        upper = hierarchy.waves.above(
            np.concatenate([hierarchy.position[x.run(start, stop)[0]] for x in (sets, sets.open)])
        )
        unknown = unknown_among(sets, hierarchy, upper, start, stop)[1].T
        sizes.append(np.count_nonzero(unknown, axis=1))
        labels.append(hierarchy.order[upper.numbers[np.nonzero(unknown)[1]]].astype(np.int32))
    return LabelSets(np.cumsum(np.concatenate(sizes)), np.concatenate(labels), sets.n_labels)


def unknown_among(
    sets: LabelSets, hierarchy: Hierarchy, upper: Upper, start: int, stop: int
) -> tuple[Bool, Bool, Bool]:
    """Mark what holds, what is unknown and what is open of some samples (labels x samples).

    `upper` has all labels that hold or are open in these samples.
    """
    held, open_ = (
        upper.spread(hierarchy.position[label], row, stop - start)
        for label, row in (x.run(start, stop) for x in (sets, sets.open or sets))
    )
    if sets.open is None:
        nothing = np.zeros_like(held)
        return held, nothing, nothing
    denied = upper.any_above(~held & ~open_)
    return held, open_ & ~held & ~denied, open_


AnyTruth: TypeAlias = "Bool | sparse.csr_array | PartialTruth"


def align_known(
    scores: Matrix, data: Any, hierarchy: Hierarchy, *, close: bool = False
) -> AnyTruth:
    """Bring truth to label order as `align_truth_to` does; NaN where a pair is unknown.

    Examples
    --------
    >>> h = Hierarchy([("A", "B"), ("B", "C")])
    >>> truth = align_known(np.zeros((2, 3)), [[np.nan, np.nan, 1], [1, 0, np.nan]], h)
    >>> truth.held.astype(int).tolist(), bool(truth.known.all())
    ([[1, 1, 1], [1, 0, 0]], True)
    """
    table = align(data, hierarchy, name="truth")
    stored = table.values if isinstance(table.values, np.ndarray) else table.values.data
    if stored.size == 0 or not np.isnan(stored.sum()):
        return align_truth_to(scores, table, hierarchy, close=close)
    refuse_entries(
        ~((stored == 0.0) | (stored == 1.0) | np.isnan(stored)), table.values, hierarchy.labels,
        name="truth", what="a value other than 0, 1 and unknown", hint="1 where the label holds.",
    )  # fmt: skip
    if not isinstance(scores, np.ndarray):  # beside sparse scores the truth is sparse too
        return _completed_sets(LabelSets.of(table.values), hierarchy, close=close)
    values = table.values if isinstance(table.values, np.ndarray) else table.values.toarray()
    return _completed(values == 1.0, values == 0.0, hierarchy, close=close)


def _completed_sets(sets: LabelSets, hierarchy: Hierarchy, *, close: bool) -> PartialTruth:
    """Do as `_completed`, from sets."""
    closed = close_given(sets, hierarchy, close=close)
    if closed.n_missing and not close:
        raise _contradicts(closed.n_missing, *closed.breach)
    return PartialTruth.of_sets(closed.sets, hierarchy)


def _completed(
    positive: Bool, negative: Bool, hierarchy: Hierarchy, *, close: bool
) -> PartialTruth:
    """Apply the rules of the hierarchy; what contradicts them is refused, or closed upward."""
    held: Bool = hierarchy.close_upward(positive)
    clash = held & negative
    if clash.any() and not close:
        sample = int(np.argmax(clash.any(axis=1)))
        row = np.where(positive[sample] | negative[sample], positive[sample], np.nan)
        n = int(np.count_nonzero(clash))
        raise _contradicts(n, sample, *first_breach(row, hierarchy))
    no = negative & ~held
    upper = hierarchy.waves.everything
    denied = upper.any_above(np.ascontiguousarray(no[:, hierarchy.order].T)).T[
        :, hierarchy.position
    ]
    open_ = ~(positive | negative)
    # Who says that ancestors follow has given them with the labels below.
    return PartialTruth(held, open_ & ~held & ~denied, open_ & ~held if close else open_)


def _contradicts(n: int, sample: int, above: str, below: str) -> DataError:
    return DataError(
        f"truth contradicts the hierarchy {n:,} time(s); the first: sample {sample} has {below!r} "
        f"but not {above!r}, which is above it.\n"
        "Hint: correct it, or say that ancestors follow (close_truth=True)."
    )


def strata(truth: AnyTruth, hierarchy: Hierarchy, label: int) -> tuple[Bool, Bool]:
    """Mark samples in which a parent is known not to hold, and in which all are given to hold."""
    away = np.zeros(truth.shape[0], dtype=bool)
    there = np.ones(truth.shape[0], dtype=bool)
    for parent in _parents(hierarchy, label).tolist():
        if not isinstance(truth, PartialTruth):
            there &= truth_column(truth, parent)
            continue
        held, known, given = truth.column(parent)
        away |= known & ~held
        there &= given & held
    return (away if isinstance(truth, PartialTruth) else ~there), there


def _parents(hierarchy: Hierarchy, label: int) -> NDArray[Any]:
    number, ptr = int(hierarchy.position[label]), hierarchy.parent_ptr
    return hierarchy.order[hierarchy.parent_idx[ptr[number] : ptr[number + 1]]]


def curve_weights(
    truth: AnyTruth, hierarchy: Hierarchy, label: int, sample_weight: Float | None = None
) -> Float:
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

    With weights of the samples, each counts in all of this as so many samples like it.

    The weights are then scaled down so that neither positives nor negatives count as more samples
    than there are (Kish's effective number).
    """
    weight, held = np.ones(truth.shape[0]), truth_column(truth, label)
    if isinstance(truth, PartialTruth):
        weight = _weights(truth, hierarchy, label, sample_weight)
    if sample_weight is not None:
        weight = weight * sample_weight
    used = weight > 0.0
    if not used.any() or np.all(weight[used] == weight[used][0]):
        return used.astype(np.float64)
    return np.asarray(weight * min(_kish(weight[used & side]) for side in (held, ~held)))


def _weights(
    truth: PartialTruth, hierarchy: Hierarchy, label: int, sample_weight: Float | None = None
) -> Float:
    def size(part: Bool) -> float:
        if sample_weight is None:
            return int(np.count_nonzero(part))
        return _total(sample_weight[part])

    def stood_for(part: Bool) -> float:
        return _total(stands_for[part] * (1.0 if sample_weight is None else sample_weight[part]))

    away, there = strata(truth, hierarchy, label)
    other, given = ~(away | there), truth.column(label)[2]
    n_other, n_given = size(other), size(other & given)
    n_there, n_there_given = size(there), size(there & given)
    share = 1.0
    if n_other and n_there_given:
        share = min(1.0, n_given / n_other * n_there / n_there_given)
    stands_for = np.ones(away.size)
    parents = _parents(hierarchy, label)
    if share < 1.0 and parents.size == 1:
        above = _weights(truth, hierarchy, int(parents[0]), sample_weight)
        stands_for = share + (1.0 - share) * above
    weight = np.where(away, stands_for, 0.0)
    if n_there_given:
        used = there & given
        weight[used] = stands_for[used] * (stood_for(there) / stood_for(used))
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
