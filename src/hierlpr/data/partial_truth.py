"""Truth with unknown (sample, label) pairs: what the hierarchy implies, and weights of samples.

If a label holds, its ancestors hold; if it does not, its descendants do not. A pair is unknown only
if neither rule determines it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils.checks import quote_names, refuse_entries, stored_values
from hierlpr.data.duplicates import mix
from hierlpr.data.label_sets import LabelSets, close_given
from hierlpr.data.tables import align_labels, dense, sum_by_label
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import UpperSet, fits_if_sorted, sample_ranges

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
AnyTruth: TypeAlias = "Bool | sparse.csr_array | PartialTruth"
_SORTED_COLUMNS = (
    "the columns have no names, and sorted by label, as MultiLabelBinarizer makes them, no label "
    "would lack its parent. Use MultiLabelBinarizer(classes=hierarchy.labels), a data frame whose "
    "columns are the labels, or the lists of labels themselves."
)


@dataclass(frozen=True, eq=False)
class PartialTruth:
    """Truth with unknown pairs: bool matrices of shape (n_samples, n_labels), dense or CSR.

    Whether the truth of an open pair follows from the hierarchy depends on this truth itself, so
    the positives and negatives among open pairs are a biased selection.
    """

    held: Any  # labels that are known to hold, closed upward
    unknown: Any  # pairs whose truth neither was given nor follows from the hierarchy
    open: Any  # pairs whose truth was not given
    implied: Any = None  # positives that `judged` removed, if it did

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and labels."""
        return self.held.shape[0], self.held.shape[1]

    @property
    def known(self) -> Bool:
        """Pairs that were given or follow from the hierarchy (dense matrices only)."""
        return np.asarray(~self.unknown)

    @property
    def learnable(self) -> Bool:
        """Pairs to train a classifier on, pair by pair (dense matrices only).

        These are the given pairs and the negatives implied by an ancestor. Positives implied by a
        descendant are known only because they hold, so training on them would be biased. A label
        without any such pairs uses all known ones.
        """
        known = self.known
        pairs = known & ~(self.open & self.held)
        return np.where(pairs.any(axis=0), pairs, known)

    @property
    def n_unknown(self) -> NDArray[np.int64]:
        """Number of samples in which each label is unknown."""
        return sum_by_label(self.unknown)

    def __getitem__(self, at: Any) -> PartialTruth:
        """Return some rows, or rows and columns, as with an array."""
        return self._each(lambda matrix: matrix[at])

    def toarray(self) -> PartialTruth:
        """Return the same with dense matrices."""
        return self._each(dense)

    def _each(self, change: Callable[[Any], Any]) -> PartialTruth:
        matrices = (self.held, self.unknown, self.open, self.implied)
        return PartialTruth(*(None if x is None else change(x) for x in matrices))

    @cached_property
    def by_label(self) -> tuple[Any, ...]:
        """The matrices `held`, `unknown` and `open`, with fast access to columns."""
        matrices = (self.held, self.unknown, self.open)
        return tuple(x if isinstance(x, np.ndarray) else x.tocsc() for x in matrices)

    def sets(self) -> LabelSets:
        """Return the labels that hold as sets, with the open ones."""
        return replace(LabelSets.of(self.held), open=LabelSets.of(self.open))

    def judged(
        self, hierarchy: Hierarchy, weight: Float | None = None, *, share: float | None = None
    ) -> PartialTruth:
        """Return the truth to measure with: what is known only because of itself is unknown.

        See `judged_among`; `share` is by default the `implied_share` of these samples.
        """
        sets, upper = self.sets(), UpperSet.above(hierarchy)
        is_dense = isinstance(self.held, np.ndarray)
        share = implied_share(sets, hierarchy, weight) if share is None else share
        parts = []
        for start, stop in sample_ranges(*self.shape):
            known = unknown_among(sets, hierarchy, upper, start, stop)
            found = judged_among(*known, hierarchy.order, share)
            whole = [x[hierarchy.position].T for x in (*found, known[0] & ~found[0])]
            parts.append(whole if is_dense else [sparse.csr_array(x) for x in whole])
        held, unknown, implied = (
            np.concatenate(x) if is_dense else sparse.vstack(x, format="csr")
            for x in zip(*parts, strict=True)
        )
        return PartialTruth(held, unknown, self.open, implied)


def held_and_known(truth: Any) -> tuple[Bool, Bool]:
    """Return which labels hold and which pairs are known, as arrays."""
    if isinstance(truth, PartialTruth):
        whole = truth.toarray()
        return whole.held, whole.known
    held = np.asarray(dense(truth), dtype=bool)
    return held, np.ones_like(held)


def truth_columns(truth: AnyTruth, label: int) -> tuple[Bool, Bool, Bool]:
    """Return in which samples a label is known to hold, is known, and was given."""
    if not isinstance(truth, PartialTruth):
        held = _column(truth, label)
        return held, np.ones_like(held), np.ones_like(held)
    held, unknown, open_ = (_column(matrix, label) for matrix in truth.by_label)
    return held, ~unknown, ~open_


def _column(matrix: Any, label: int) -> Bool:
    if isinstance(matrix, np.ndarray):
        return matrix[:, label]
    if matrix.format != "csc":
        return np.asarray(matrix[:, [label]].toarray()[:, 0])
    column = np.zeros(matrix.shape[0], dtype=bool)
    column[matrix.indices[matrix.indptr[label] : matrix.indptr[label + 1]]] = True
    return column


def still_unknown(sets: LabelSets, hierarchy: Hierarchy) -> LabelSets:
    """Return the open labels whose truth does not follow from the hierarchy.

    `sets` are closed upward. A label that neither holds nor is open was given as negative.
    """
    if sets.open is None:
        return LabelSets(np.zeros_like(sets.row_ptr), np.empty(0, np.int32), sets.n_labels)
    sizes, labels = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
    for start, stop in sample_ranges(*sets.shape):
        numbers = [hierarchy.position[x.run(start, stop)[0]] for x in (sets, sets.open)]
        upper = UpperSet.above(hierarchy, np.concatenate(numbers))
        unknown = unknown_among(sets, hierarchy, upper, start, stop)[1].T
        sizes.append(np.count_nonzero(unknown, axis=1))
        labels.append(hierarchy.order[upper.numbers[np.nonzero(unknown)[1]]].astype(np.int32))
    return LabelSets(np.cumsum(np.concatenate(sizes)), np.concatenate(labels), sets.n_labels)


def unknown_among(
    sets: LabelSets, hierarchy: Hierarchy, upper: UpperSet, start: int, stop: int
) -> tuple[Bool, Bool, Bool]:
    """Return bool matrices (labels x samples) of what holds, is unknown and is open.

    `upper` contains all labels that hold or are open in the samples from `start` to `stop`.
    """
    held, open_ = (
        upper.mark(hierarchy.position[label], row, stop - start)
        for label, row in (x.run(start, stop) for x in (sets, sets.open or sets))
    )
    if sets.open is None:
        nothing = np.zeros_like(held)
        return held, nothing, nothing
    denied = upper.any_above(~held & ~open_)
    return held, open_ & ~held & ~denied, open_


def judged_among(
    held: Bool, unknown: Bool, open_: Bool, label: NDArray[Any], share: float
) -> tuple[Bool, Bool]:
    """Return what holds and what is unknown if only pairs count that were judged.

    Whether an open pair follows from the hierarchy depends on its own truth. So a positive that
    follows from a descendant does not count, and of the negatives that follow from an ancestor a
    `share` counts, chosen at random. Arrays are those of `unknown_among`, `label` are their labels.

    Notes
    -----
    With a share of 0 only given pairs count: correct if, within a label, whether a pair is given
    depends on neither its truth nor its score. With a share of 1 all implied negatives count:
    correct if a label is only judged where its parents hold. `implied_share` estimates it.
    """
    implied = open_ & ~held & ~unknown
    salt = mix(np.asarray(label).astype(np.uint64))[:, None]
    key = np.where(open_, salt, np.uint64(0)).sum(axis=0, dtype=np.uint64)
    implied &= (mix(key ^ salt) >> np.uint64(11)) < share * 2.0**53
    return held & ~open_, open_ & ~implied


def implied_share(truth: LabelSets, hierarchy: Hierarchy, weight: Float | None = None) -> float:
    r"""Return the share of implied negatives that are as likely to count as other pairs.

    Of the pairs whose parents were all given as positive a share :math:`g_1` was given, of those
    with a parent given as negative a share :math:`g_0`. If a share :math:`\theta` of the rest
    counts, :math:`g_0 + \theta (1 - g_0) = g_1`. Means are over the pairs of the first kind.
    """
    h, upper = hierarchy, UpperSet.above(hierarchy)
    counts = np.zeros((4, h.n_labels))
    for start, stop in sample_ranges(*truth.shape):
        held, _, open_ = unknown_among(truth, h, upper, start, stop)
        there, away = upper.all_parents(held & ~open_), ~upper.all_parents(held | open_)
        own = np.ones(stop - start) if weight is None else weight[start:stop] / weight.max()
        counts += [x @ own for x in (there, there & ~open_, away, away & ~open_)]
    used = (counts[0] > 0.0) & (counts[2] > 0.0)
    n_there, n_there_given, n_away, n_away_given = counts[:, used]
    share_away = n_away_given / n_away
    rest = float(n_there @ (1.0 - share_away))
    gap = float((n_there_given - n_there * share_away).sum())
    return min(1.0, max(0.0, gap / rest)) if rest > 0.0 else float(not used.any())


def align_truth(
    data: Any,
    hierarchy: Hierarchy,
    *,
    close: bool = False,
    as_sparse: bool = False,
    allow_unknown: bool = True,
) -> Any:
    """Convert truth in any form to bool in label order, closed upward; NaN is an unknown pair.

    Returns an array, with `as_sparse` a CSR matrix, or `PartialTruth` of these if a pair is
    unknown. A label without its parent is an error, or with `close` its ancestors are added, with
    a warning.

    >>> h = Hierarchy([("A", "B"), ("B", "C")])
    >>> truth = align_truth([[np.nan, np.nan, 1], [1, 0, np.nan]], h)
    >>> truth.held.astype(int).tolist(), bool(truth.known.all())
    ([[1, 1, 1], [1, 0, 0]], True)
    """
    table = align_labels(data, hierarchy, name="truth")
    stored = stored_values(table.values)
    bad = ~((stored == 0.0) | (stored == 1.0) | (np.isnan(stored) & allow_unknown))
    what = "a value other than 0" + (", 1 and unknown" if allow_unknown else " and 1")
    hint = "scores come first, truth second; truth may also be lists of labels."
    refuse_entries(bad, table.values, hierarchy.labels, name="truth", what=what, hint=hint)
    given = LabelSets.of(table.values)
    closed = close_given(given, hierarchy, close=close)
    if closed.n_added:
        hint = (
            "add the missing ancestors with propagate_truth=True or hierarchy.close_upward(truth)."
        )
        # Of few labels, all parents may be there by chance.
        least = 20 if close else 1
        if table.by_place and fits_if_sorted(hierarchy, given.to_csr(), least=least):
            hint = _SORTED_COLUMNS
        elif table.by_place:
            names = quote_names(hierarchy.labels, most=3)
            hint += f" The columns have no names and were taken as {names}: is this their order?"
        else:
            hint += f" Or is the hierarchy reversed? Its roots are {quote_names(hierarchy.roots)}."
        if closed.breach is not None:
            sample, above, below = closed.breach
            raise DataError(
                f"truth contradicts the hierarchy {closed.n_added:,} time(s); the first: sample "
                f"{sample} has {below!r} but not {above!r}, which is above it.\nHint: {hint}"
            )
        note = f"{closed.n_added:,} missing ancestors were added to the truth."
        note += f"\nHint: {hint}" if hint == _SORTED_COLUMNS else ""
        warnings.warn(note, HierlprWarning, stacklevel=5)
    truth: Any = closed.sets.to_csr()
    if closed.sets.open is not None:
        unknown = still_unknown(closed.sets, hierarchy)
        truth = PartialTruth(truth, unknown.to_csr(), closed.sets.open.to_csr())
    return truth if as_sparse else truth.toarray()


def strata(truth: AnyTruth, hierarchy: Hierarchy, label: int) -> tuple[Bool, Bool]:
    """Return in which samples a parent is known not to hold, and all parents are given to hold."""
    away = np.zeros(truth.shape[0], dtype=bool)
    there = np.ones(truth.shape[0], dtype=bool)
    for parent in _parents(hierarchy, label).tolist():
        held, known, given = truth_columns(truth, parent)
        away |= known & ~held
        there &= given & held
    return away, there


def _parents(hierarchy: Hierarchy, label: int) -> NDArray[Any]:
    number, ptr = int(hierarchy.position[label]), hierarchy.parent_ptr
    return hierarchy.order[hierarchy.parent_idx[ptr[number] : ptr[number + 1]]]


def curve_weights(
    truth: AnyTruth, hierarchy: Hierarchy, label: int, sample_weight: Float | None = None
) -> Float:
    r"""Return weights of samples for estimates about one label; 0 leaves a sample out.

    Notes
    -----
    Samples that lack a parent of the label lack the label too, so all of them count. Where all
    parents hold, the samples whose label was given represent all such samples. Where a parent is
    unknown, they represent equally many each, and so possibly only a part :math:`\varphi` of such
    samples. The rest is represented by the samples in which the parent is known, with their weights
    for the parent (with several parents, with weight 1).

    This is correct if, given the truth of the labels above, whether a label was given depends on
    neither its truth nor its score: pairs may be unknown at random (:math:`\varphi = 1`), or
    annotation may have stopped at some label on the way down (:math:`\varphi = 0`). Labels implied
    from below are not used, because they do depend on the truth. A sample of weight w counts as w
    samples. Weights are scaled down so that neither positives nor negatives count as more samples
    than there are (Kish's effective sample size).
    """
    weight, held = np.ones(truth.shape[0]), truth_columns(truth, label)[0]
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
    own = np.ones(truth.shape[0]) if sample_weight is None else sample_weight
    away, there = strata(truth, hierarchy, label)
    other, given = ~(away | there), truth_columns(truth, label)[2]
    n_other, n_given = _total(own[other]), _total(own[other & given])
    n_there, n_there_given = _total(own[there]), _total(own[there & given])
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
        used, stood_for = there & given, stands_for * own
        weight[used] = stands_for[used] * (_total(stood_for[there]) / _total(stood_for[used]))
    if n_given:
        most = n_there / n_there_given if n_there_given else np.inf
        weight[other & given] = min(n_other / n_given, most)
    return weight


def _total(weight: Float) -> float:
    """Return the sum of repeated values; it does not depend on the order of the samples."""
    if weight.size and np.all(weight == weight[0]):
        return float(weight[0] * weight.size)
    value, count = np.unique(weight, return_counts=True)
    return float((value * count).sum())


def _kish(weight: Float) -> float:
    return _total(weight) / _total(weight * weight) if weight.size else 1.0


def base_rate(held: Bool, weight: Float) -> float:
    """Return the share of samples with a label, with half a sample added to each class."""
    return (_total(weight[held]) + 0.5) / (_total(weight) + 1.0)
