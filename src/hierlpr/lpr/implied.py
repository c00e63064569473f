"""LPRs of labels that are not listed themselves, but a descendant of theirs is.

Such a label has no score. What speaks for it is the largest LPR listed below it, which is
comparable across labels while scores need not be. So its LPR is learned as a curve over that
number, from the samples in which the label was implied in just this way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._base.order_free import mix, row_keys
from hierlpr.data.label_sets import Closed, close_listed
from hierlpr.data.partial_truth import AnyTruth, PartialTruth
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr.base import LPRCurves, ScoreGroups
from hierlpr.lpr.fitting import LPRModel, fit_data
from hierlpr.lpr.groups import Gaps, PairWeights, TruthCounts, read_training_data

LEAST_IMPLIED = 20  # samples that imply a label, below which it shares a curve with other such
Float = NDArray[np.float64]
Column = Callable[[int], tuple[Float, NDArray[np.bool_], Float | None]]
RowsOf = Callable[[int], tuple[NDArray[np.int64], NDArray[np.int64]]]


@dataclass(frozen=True, slots=True, eq=False)
class ImpliedLPR:
    """Curves from the largest LPR listed below a label to its own LPR.

    `curve_of` is the number of each label's curve. Labels that were implied too rarely have the
    curve `shared`; -1 means that nothing could be learned, and the LPR is the largest one below.
    `absent` is P(label | it is not listed), whatever else is: what the joint posterior asks for.
    """

    curve_of: NDArray[np.int32]
    curves: LPRCurves
    shared: int
    absent: NDArray[np.float64]

    def __post_init__(self) -> None:
        number = np.append(self.curve_of, self.shared)
        if not (number.min() >= -1 and number.max() < self.curves.n_labels):
            raise DataError("Implied LPRs: a label has a curve that does not exist.")
        if self.absent.shape != self.curve_of.shape or not np.all(
            (self.absent >= 0.0) & (self.absent <= 1.0)
        ):
            raise DataError("Implied LPRs: there must be one LPR a label of what is not listed.")

    def close(
        self, lpr: scipy.sparse.csr_array, hierarchy: Hierarchy, *, n_threads: int | None = None
    ) -> scipy.sparse.csr_array:
        """Add the ancestors of every listed label, with their LPRs; the others stay as they are."""
        closed = close_listed(lpr, hierarchy)
        if not closed.is_implied.any():
            return lpr
        at = np.flatnonzero(closed.is_implied & (self.curve_of[closed.label] >= 0))
        closed.value[at] = self.curves.evaluate_each(
            self.curve_of[closed.label[at]], closed.value[at], n_threads=n_threads
        )
        return scipy.sparse.csr_array((closed.value, closed.label, closed.row_ptr), shape=lpr.shape)

    def select(
        self, labels: Sequence[int] | NDArray[np.integer], prevalence: NDArray[np.float64]
    ) -> ImpliedLPR:
        """Return the curves of some labels, given their prevalence.

        A new label, with a number past the last, has the shared curve, and nothing is known of it
        where it is not listed.
        """
        index = np.minimum(np.asarray(labels, dtype=np.int64), self.curve_of.size)
        number = np.append(self.curve_of, self.shared)[index].astype(np.int32)
        absent = np.where(
            index < self.curve_of.size, np.append(self.absent, 0.0)[index], prevalence
        )
        return ImpliedLPR(number, self.curves, self.shared, absent)


def fit_listed(
    scores: scipy.sparse.csr_array,
    truth: AnyTruth,
    hierarchy: Hierarchy,
    *,
    method: Any,
    n_threads: int | None = None,
    sample_weight: Float | None = None,
) -> tuple[LPRModel, ImpliedLPR]:
    """Fit the curves of listed scores, and those of labels that are implied.

    The curve of a label is learned from all samples but those in which it is implied: it is never
    used for such a sample. What is implied is learned from LPRs that did not see the sample.
    """
    known = truth.held if isinstance(truth, PartialTruth) else truth
    held = scipy.sparse.csr_array(known, dtype=np.bool_)
    pairs = pairs_of(truth, hierarchy, np.diff(scores.indptr) == 0, sample_weight)
    half = halves_of(row_keys(scores))
    parts = [np.flatnonzero(half == side) for side in (0, 1)]
    options: dict[str, Any] = {"method": method, "n_threads": n_threads}

    def count(rows: Any) -> ListedCounts:
        closed = close_listed(scores[rows], hierarchy)
        if pairs is None:
            return count_listed(closed, held[rows])
        return weigh_listed(_rows_by_label(closed, hierarchy.n_labels), pairs.take(rows))

    def fit(rows: Any, gaps: Gaps) -> LPRModel:
        own = None if pairs is None else pairs.take(rows)
        data = read_training_data(scores[rows], held[rows], None, hierarchy.labels, gaps, pairs=own)
        return fit_data(data, **options)

    counts = [count(x) for x in parts]
    both = ListedCounts.sum(counts) if pairs is None else count(slice(None))
    model = fit(slice(None), both.implied)
    others = model, model
    if both.implied.total.any() and all(scores[x].nnz for x in parts):
        others = fit(parts[1], counts[1].implied), fit(parts[0], counts[0].implied)
    closed = close_listed(unseen_lpr(others, half, scores), hierarchy)
    at = np.flatnonzero(closed.is_implied)
    at = at[np.argsort(closed.label[at], kind="stable")]
    row = np.repeat(np.arange(closed.row_ptr.size - 1), np.diff(closed.row_ptr))[at]
    below, status = closed.value[at], closed.holds(held)[at]
    ptr = np.append(0, np.cumsum(np.bincount(closed.label[at], minlength=hierarchy.n_labels)))

    def column(label: int) -> tuple[Float, NDArray[np.bool_], Float | None]:
        mine = slice(ptr[label], ptr[label + 1])
        weight = None if pairs is None else pairs.weight(label)[row[mine]]
        return below[mine], status[mine], weight

    return model, fit_implied(model, both, column, **options)


def pairs_of(
    truth: AnyTruth,
    hierarchy: Hierarchy,
    is_empty: NDArray[np.bool_],
    weight: Float | None = None,
) -> PairWeights | None:
    """Return the weights of pairs; None if all weigh alike in the samples that list anything.

    A sample that lists nothing was not looked at, see `read_training_data`.
    """
    if weight is None and not isinstance(truth, PartialTruth):
        return None
    if is_empty.any():
        weight = np.where(is_empty, 0.0, 1.0 if weight is None else weight)
    return PairWeights(truth, hierarchy, sample_weight=weight)


def _rows_by_label(closed: Closed, n_labels: int) -> RowsOf:
    """Return a function that gives the samples that imply a label, and those that list it."""
    row = np.repeat(np.arange(closed.row_ptr.size - 1), np.diff(closed.row_ptr))
    order = np.argsort(closed.label, kind="stable")
    row, is_implied = row[order], closed.is_implied[order]
    ptr = np.append(0, np.cumsum(np.bincount(closed.label, minlength=n_labels)))

    def rows_of(label: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        mine = slice(ptr[label], ptr[label + 1])
        return row[mine][is_implied[mine]], row[mine][~is_implied[mine]]

    return rows_of


def halves_of(keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Part samples in two by the keys of their rows: in any order alike, and copies together."""
    return (mix(keys) & np.uint64(1)).astype(np.intp)


def unseen_lpr(
    models: Sequence[LPRModel], half: NDArray[np.intp], scores: scipy.sparse.csr_array
) -> scipy.sparse.csr_array:
    """LPRs of the samples of each half by the model of that number, fitted on the other half.

    Where labels have few scores, LPRs of the samples they were learned from know too well which
    of them are right, and what is above would be trusted far too much.
    """
    first, second = (model.curves.evaluate(scores) for model in models)
    lpr = np.where(np.repeat(half, np.diff(scores.indptr)) == 0, first.data, second.data)
    return scipy.sparse.csr_array((lpr, scores.indices, scores.indptr), shape=scores.shape)


class ListedCounts(NamedTuple):
    """Samples, and the positive ones, in which each label is implied, and in which it is listed.

    Where pairs weigh differently it is their weight; `everyone` is then that of all samples, and
    `n_implied` their number.
    """

    implied: Gaps
    listed: Gaps
    everyone: Gaps | None = None
    n_implied: NDArray[np.int64] | None = None

    @classmethod
    def none(cls, n_labels: int) -> ListedCounts:
        """Count nothing yet."""
        return cls(Gaps.none(n_labels), Gaps.none(n_labels))

    def add(self, other: ListedCounts) -> None:
        """Add the counts of other samples, which weigh the same."""
        for mine, more in zip(self[:2], other[:2], strict=True):
            for count, one in zip(mine, more, strict=True):
                count += one

    @classmethod
    def sum(cls, parts: Sequence[ListedCounts]) -> ListedCounts:
        """Return the counts of all parts."""
        total = cls.none(parts[0].implied.total.size)
        for part in parts:
            total.add(part)
        return total


def weigh_listed(rows_of: RowsOf, pairs: PairWeights) -> ListedCounts:
    """Weigh the samples that imply and that list each label, as `rows_of` gives them."""
    n_labels = pairs.hierarchy.n_labels
    sums, n_implied = np.zeros((3, 2, n_labels)), np.zeros(n_labels, dtype=np.int64)
    for label in range(n_labels):
        weight, held = pairs.weight(label), pairs.held(label)
        implied, listed = rows_of(label)
        everyone = np.arange(weight.size)
        for out, rows in zip(sums, (implied, listed, everyone), strict=True):
            own = weight[rows]
            out[:, label] = own.sum(), own[held[rows]].sum()
        n_implied[label] = np.count_nonzero(weight[implied])
    return ListedCounts(Gaps(*sums[0]), Gaps(*sums[1]), Gaps(*sums[2]), n_implied)


def count_listed(closed: Closed, truth: scipy.sparse.csr_array) -> ListedCounts:
    """Count the labels of closed rows, beside their truth."""
    status, n_labels = closed.holds(truth), truth.shape[1]

    def count(mask: NDArray[np.bool_]) -> Gaps:
        both = (closed.label[mask], closed.label[mask & status])
        return Gaps(*(np.bincount(x, minlength=n_labels).astype(np.float64) for x in both))

    return ListedCounts(count(closed.is_implied), count(~closed.is_implied))


def fit_implied(
    model: LPRModel,
    counts: ListedCounts,
    column: Column,
    *,
    method: Any,
    n_threads: int | None = None,
) -> ImpliedLPR:
    """Learn the LPRs of labels that are not listed.

    Parameters
    ----------
    model : LPRModel
        The curves of those that are.
    counts : ListedCounts
    column : callable
        Returns, of a label, the largest LPR listed below it in each sample that implies it,
        whether it holds there, and what it weighs (None: all alike). Called from several threads
        at once.
    method : str, estimator, or one of them a label
        As in `fit_lpr`.
    """
    sizes: NDArray[Any] = counts.implied.total
    report = model.report
    n_all: NDArray[Any] = report.positives + report.negatives
    n_positive: NDArray[Any] = report.positives
    if counts.everyone is not None and counts.n_implied is not None:
        sizes, (n_all, n_positive) = counts.n_implied, counts.everyone
    n_absent, n_held = n_all - counts.listed.total, n_positive - counts.listed.positive
    # Sums of weights may differ by their rounding where nobody is left.
    absent = (np.maximum(n_held, 0.0) + report.base_rate) / (np.maximum(n_absent, 0.0) + 1.0)
    absent = np.minimum(absent, 1.0)
    own = np.flatnonzero(sizes >= LEAST_IMPLIED)
    rare = np.flatnonzero((sizes > 0) & (sizes < LEAST_IMPLIED))
    shared = own.size if rare.size else -1
    curve_of = np.full(sizes.size, shared, dtype=np.int32)
    curve_of[own] = np.arange(own.size)
    sources = [np.array([label]) for label in own] + ([rare] if rare.size else [])
    if not sources:
        none = LPRCurves(np.zeros(1, np.int64), np.empty(0), np.empty(0))
        return ImpliedLPR(curve_of, none, shared, absent)
    if isinstance(method, Sequence) and not isinstance(method, str):
        method = [method[int(labels[0])] for labels in sources]
    data = _ImpliedData(sources, column, int(sizes.sum()) // len(sources) + 1)
    fitted = fit_data(data, method=method, n_threads=n_threads)
    return ImpliedLPR(curve_of, fitted.curves, shared, absent)


@dataclass(frozen=True, slots=True, eq=False)
class _ImpliedData:
    """Training data of curves, each from the columns of one or more labels."""

    sources: list[NDArray[np.intp]]
    column: Column
    values_per_label: int

    @property
    def n_labels(self) -> int:
        return len(self.sources)

    def _joined(self, curve: int) -> tuple[Float, NDArray[np.bool_], Float | None]:
        parts = [self.column(int(label)) for label in self.sources[curve]]
        below, status = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        if parts[0][2] is None:
            return below, status, None
        weight = np.concatenate([w for _, _, w in parts if w is not None])
        used = weight > 0.0
        return below[used], status[used], weight[used]

    def groups(self, labels: NDArray[np.int64]) -> ScoreGroups:
        found = []
        for curve in labels:
            below, status, weight = self._joined(int(curve))
            value, place, total = np.unique(below, return_inverse=True, return_counts=True)
            right = status if weight is None else status * weight
            positive = np.bincount(place, weights=right, minlength=value.size)
            if weight is not None:
                total = np.bincount(place, weights=weight, minlength=value.size)
            found.append((value, positive, total.astype(np.float64)))
        ptr = np.cumsum([0, *(value.size for value, _, _ in found)])
        values, positives, totals = (np.concatenate([x[i] for x in found]) for i in range(3))
        return ScoreGroups(ptr, values, positives, totals)

    def count_truth(self, labels: NDArray[np.int64]) -> TruthCounts:
        status = [self._joined(int(curve))[1] for curve in labels]
        positives = np.array([int(part.sum()) for part in status], dtype=np.int64)
        sizes = np.array([part.size for part in status], dtype=np.int64)
        return TruthCounts.of(positives, sizes - positives)
