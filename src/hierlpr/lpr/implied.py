"""LPRs of labels that are implied: not listed themselves, but a descendant is.

Such a label has no score of its own. The evidence for it is the largest LPR listed below it, which
is comparable across labels even where scores are not. Its LPR is a curve of that number, learned
from the samples in which the label is implied, and blended with a curve shared by its depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr.data.label_sets import close_listed
from hierlpr.data.partial_truth import AnyTruth, PartialTruth
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr.auto import Auto
from hierlpr.lpr.base import LPRCurves, ScoreGroups
from hierlpr.lpr.fitting import LPRModel, fit_data, with_sharing
from hierlpr.lpr.shared import SharedCurves
from hierlpr.lpr.training import Excluded, PairWeights, TruthCounts, read_training_data

Float = NDArray[np.float64]
IMPLIED_KAPPA = 10.0  # LPRs are comparable across labels, so implied labels share curves


@dataclass(frozen=True, slots=True, eq=False)
class ImpliedLPR:
    """Curves from the largest LPR listed below a label to its own LPR, one per label.

    `absent` is P(label | it is not listed), which the joint posterior uses. `shared` are the
    curves shared by labels, for labels that are added later.
    """

    curves: LPRCurves
    shared: SharedCurves
    absent: Float

    def __post_init__(self) -> None:
        if self.absent.shape != (self.curves.n_labels,) or not np.all(
            (self.absent >= 0.0) & (self.absent <= 1.0)
        ):
            raise DataError("Implied LPRs: `absent` must hold one LPR per label.")

    def close(
        self, lpr: scipy.sparse.csr_array, hierarchy: Hierarchy, *, n_threads: int | None = None
    ) -> scipy.sparse.csr_array:
        """Add the ancestors of every listed label, with their LPRs."""
        closed = close_listed(lpr, hierarchy)
        if not closed.is_implied.any():
            return lpr
        at = np.flatnonzero(closed.is_implied)
        closed.value[at] = self.curves.evaluate_each(
            closed.label[at], closed.value[at], n_threads=n_threads
        )
        return scipy.sparse.csr_array((closed.value, closed.label, closed.row_ptr), shape=lpr.shape)

    def select(self, labels: Sequence[int], depth: NDArray[np.integer], rate: Float) -> ImpliedLPR:
        """Return the curves of some labels; a number past the last stands for a new label.

        A new label gets the shared curve of its depth, and its prevalence where it is not listed.
        """
        index, size = np.asarray(labels, dtype=np.int64), self.absent.size
        curves = LPRCurves.join([self.curves, self.shared.curves])
        number = np.where(index < size, index, size + self.shared.curve_of(depth))
        known = self.absent[np.minimum(index, size - 1)]
        return ImpliedLPR(curves.select(number), self.shared, np.where(index < size, known, rate))


def fit_listed(
    scores: scipy.sparse.csr_array,
    truth: AnyTruth,
    hierarchy: Hierarchy,
    *,
    method: Any,
    n_threads: int | None = None,
    sample_weight: Float | None = None,
    depth: NDArray[np.integer] | None = None,
    shared: SharedCurves | None = None,
) -> tuple[LPRModel, ImpliedLPR]:
    """Fit the curves of listed scores, and those of implied labels.

    The curve of a label is learned from all samples except those in which it is implied, because it
    is never applied to them. The curves of implied labels are learned from out-of-fold LPRs: LPRs
    of the training samples themselves would be far too optimistic for rare labels.
    """
    known = truth.held if isinstance(truth, PartialTruth) else truth
    held = scipy.sparse.csr_array(known, dtype=np.bool_)
    levels = np.asarray(hierarchy.levels if depth is None else depth, dtype=np.int64)
    pairs = None
    if sample_weight is not None or isinstance(truth, PartialTruth):
        # A sample that lists nothing was not scored, see `read_training_data`.
        weight = np.ones(scores.shape[0]) if sample_weight is None else sample_weight
        weight = np.where(np.diff(scores.indptr) > 0, weight, 0.0)
        pairs = PairWeights(truth, hierarchy, sample_weight=weight)

    def fit(rows: Any, method: Any) -> tuple[LPRModel, _ImpliedPairs]:
        own = None if pairs is None else pairs.take(rows)
        implied = _ImpliedPairs.of(scores[rows], held[rows], hierarchy, own)
        data = read_training_data(
            scores[rows], held[rows], None, hierarchy.labels, own, implied.excluded()
        )
        options: dict[str, Any] = {"depth": levels, "shared": shared, "n_threads": n_threads}
        return fit_data(data, method=method, **options), implied

    model, implied = fit(slice(None), method)
    half = np.random.default_rng(0).permutation(scores.shape[0]) % 2
    rows = [np.flatnonzero(half == side) for side in (0, 1)]
    lpr = model.curves.evaluate(scores).data
    if implied.label.size and all(scores[x].nnz for x in rows):
        chosen = with_sharing(method, model.shared)
        first, second = (fit(x, chosen)[0].curves.evaluate(scores).data for x in rows)
        lpr = np.where(np.repeat(half, np.diff(scores.indptr)) == 0, second, first)
    unseen = scipy.sparse.csr_array((lpr, scores.indices, scores.indptr), shape=scores.shape)
    closed = close_listed(unseen, hierarchy)
    order = np.lexsort((closed.value[closed.is_implied], implied.label))
    data = _ImpliedData(
        np.searchsorted(implied.label[order], np.arange(hierarchy.n_labels + 1)),
        closed.value[closed.is_implied][order],
        implied.held[order],
        implied.weight[order],
    )
    above = fit_data(data, method=Auto(scale="score", kappa=IMPLIED_KAPPA), depth=levels)
    assert above.shared is not None
    absent = implied.absent_rate(model.report.base_rate)
    return model, ImpliedLPR(above.curves, above.shared, absent)


@dataclass(frozen=True, slots=True, eq=False)
class _ImpliedPairs:
    """The implied (sample, label) pairs: label, truth and weight; and weights of other pairs.

    `listed` and `everyone` are (2, n_labels): total and positive weight of listed and of all pairs.
    """

    label: NDArray[np.int32]
    held: NDArray[np.bool_]
    weight: Float
    listed: Float
    everyone: Float

    @classmethod
    def of(
        cls,
        scores: scipy.sparse.csr_array,
        held: scipy.sparse.csr_array,
        hierarchy: Hierarchy,
        pairs: PairWeights | None,
    ) -> _ImpliedPairs:
        closed, n_labels = close_listed(scores, hierarchy), hierarchy.n_labels
        holds = closed.holds(held)
        weight = np.ones(closed.label.size)
        used = np.diff(scores.indptr) > 0
        positives = np.asarray(held[used].sum(axis=0), dtype=np.float64)
        everyone = np.stack([np.full(n_labels, float(used.sum())), positives])
        if pairs is not None:
            row = np.repeat(np.arange(closed.row_ptr.size - 1), np.diff(closed.row_ptr))
            columns = held.tocsc()
            for k in range(n_labels):
                own = pairs.weight(k)
                mine = closed.label == k
                weight[mine] = own[row[mine]]
                at = columns.indices[columns.indptr[k] : columns.indptr[k + 1]]
                everyone[:, k] = own.sum(), own[at].sum()
        at = ~closed.is_implied
        listed = _sums(closed.label[at], holds[at], weight[at], n_labels)
        at = closed.is_implied
        return cls(closed.label[at], holds[at], weight[at], listed, everyone)

    def excluded(self) -> Excluded:
        """Return the weights of implied pairs per label."""
        return Excluded(*_sums(self.label, self.held, self.weight, self.listed.shape[1]))

    def absent_rate(self, base_rate: Float) -> Float:
        """Return the smoothed P(label | it is not listed)."""
        total, held = np.maximum(self.everyone - self.listed, 0.0)
        return np.asarray(np.minimum((held + base_rate) / (total + 1.0), 1.0))


def _sums(label: NDArray[np.int32], held: NDArray[np.bool_], weight: Float, n: int) -> Float:
    """Total and positive weight per label."""
    sums = [np.bincount(label, weights=w, minlength=n) for w in (weight, weight * held)]
    return np.stack(sums).astype(np.float64)  # counts of nothing are integers


@dataclass(frozen=True, slots=True, eq=False)
class _ImpliedData:
    """Training data of implied labels; the pairs of label ``k`` are ``ptr[k]:ptr[k + 1]``, sorted.

    A label without pairs has one of nearly no weight.
    """

    ptr: NDArray[np.intp]
    value: Float
    held: NDArray[np.bool_]
    weight: Float

    @property
    def n_labels(self) -> int:
        return self.ptr.size - 1

    @property
    def values_per_label(self) -> int:
        return 1 + self.value.size // self.n_labels

    def groups(self, labels: NDArray[np.int64]) -> ScoreGroups:
        parts: list[tuple[Float, ...]] = []
        for k in labels:
            at = slice(self.ptr[k], self.ptr[k + 1])
            used = self.weight[at] > 0.0
            value, weight = self.value[at][used], self.weight[at][used]
            if value.size == 0:
                parts.append((np.zeros(1), np.zeros(1), np.full(1, 1e-9)))
                continue
            score, first = np.unique(value, return_index=True)
            sums = (weight * self.held[at][used], weight)
            parts.append((score, *(np.add.reduceat(w, first) for w in sums)))
        ptr = np.cumsum([0, *(part[0].size for part in parts)])
        score, positive, total = (np.concatenate(x) for x in zip(*parts, strict=True))
        return ScoreGroups(ptr, score, positive, total, max(1.0, float(self.weight.sum())))

    def count_truth(self, labels: NDArray[np.int64]) -> TruthCounts:
        running = np.append(0, np.cumsum(self.held))
        positives = np.diff(running[self.ptr])[labels]
        return TruthCounts.of(positives, np.diff(self.ptr)[labels] - positives)
