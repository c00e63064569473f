"""The measures of the CAFA challenge: F-max and S-min with information accretion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import (
    Matrix,
    check_choice,
    check_finite,
    check_label_weights,
    check_real_array,
)
from hierlpr._base.order_free import ExactSums, WholeWeights
from hierlpr.data.label_sets import LabelSets
from hierlpr.data.tables import align
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.waves import Upper, sample_ranges
from hierlpr.metrics.curves import f_of, ratio

if TYPE_CHECKING:
    from scipy import sparse

Float = NDArray[np.float64]
Normalization = Literal["cafa", "pred", "gt"]
THRESHOLDS = np.arange(0.01, 1, 0.01)


@dataclass(frozen=True, slots=True, eq=False)
class CafaCurve:
    """Measures at each threshold.

    Attributes
    ----------
    threshold : ndarray
        A label is called where its score is at least this.
    precision, recall : ndarray
        Means over samples: precision over those with calls, recall over all.
    pooled_precision, pooled_recall : ndarray
        Over all instances at once.
    coverage : ndarray
        Share of the samples with calls.
    remaining_uncertainty, misinformation : ndarray
        Mean weight of the labels that are missed, and of those falsely called.
    """

    threshold: Float
    precision: Float
    recall: Float
    pooled_precision: Float
    pooled_recall: Float
    coverage: Float
    remaining_uncertainty: Float
    misinformation: Float

    @property
    def f(self) -> Float:
        """Harmonic mean of `precision` and `recall`."""
        return f_of(self.precision, self.recall, 1.0)

    @property
    def pooled_f(self) -> Float:
        """Harmonic mean of `pooled_precision` and `pooled_recall`."""
        return f_of(self.pooled_precision, self.pooled_recall, 1.0)

    @property
    def s(self) -> Float:
        """Semantic distance: the root of the summed squares of the two kinds of error."""
        return np.asarray(np.hypot(self.remaining_uncertainty, self.misinformation))


def information_accretion(truth: Any, hierarchy: Hierarchy) -> Float:
    r"""Information that a label adds to its parents, in bits.

    :math:`ia(k) = -\log_2 P(Q_k = 1 \mid Q_p = 1\ \forall p \in parents(k))`, by counting samples.
    A label that no sample has, whose estimate would be infinite, gets 0, and so is left out of
    weighted measures: this is what the CAFA evaluation does.

    References
    ----------
    Clark and Radivojac (2013), key ``clark2013``.

    Examples
    --------
    All four samples have A; half of them B; of these half C.

    >>> h = Hierarchy([("A", "B"), ("B", "C")])
    >>> information_accretion([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 0, 0]], h)
    array([0., 1., 1.])
    """
    return accretion_of(LabelSets.of(_sparse(truth, hierarchy, "truth")), hierarchy)


def accretion_of(
    truth: LabelSets, hierarchy: Hierarchy, weight: WholeWeights | None = None
) -> Float:
    """`information_accretion` of sets of labels, each sample counted by its weight.

    Where some labels are open, only samples count in which a label and its parents are given: a
    parent that is known from below is known because the label holds.
    """
    h = hierarchy
    # Labels that nobody has get 0, so only the others and what is above them need be looked at.
    upper = h.waves.above(h.position[truth.label])
    counts = np.zeros((2, upper.size), dtype=np.int64)
    for start, stop in sample_ranges(truth.shape[0], h.n_labels):
        label, row = truth.run(start, stop)
        held, given = upper.spread(h.position[label], row, stop - start), None
        if truth.open is not None:
            label, row = truth.open.run(start, stop)
            number = h.position[label]
            inside = upper.place[number] >= 0
            given = ~upper.spread(number[inside], row[inside], stop - start)
            held &= given
        if weight is None:
            positive = held.sum(axis=1)
            if given is not None:  # with all parents given, as the others are
                positive = upper.count_with_parents(held, held)
            counts += positive, upper.count_with_parents(held, given)
            continue
        own = weight.take(slice(start, stop))
        for i, among in enumerate((held, given)):
            marked = np.unpackbits(upper.have_parents(held, among), axis=1, count=stop - start)
            counts[i] += own.add_up(marked.view(bool))
    known = counts[0] > 0
    out = np.zeros(h.n_labels)
    out[h.order[upper.numbers[known]]] = np.log2(counts[1, known] / counts[0, known])
    return out


def cafa_curve(
    truth: Any,
    scores: Any,
    hierarchy: Hierarchy,
    *,
    weight: Any = None,
    thresholds: Any = None,
    normalization: Normalization = "cafa",
    propagate: bool = True,
) -> CafaCurve:
    r"""Evaluate scores at a series of thresholds, as the CAFA challenge does.

    Parameters
    ----------
    truth : array-like or sparse of shape (n_samples, n_labels)
    scores : array-like or sparse of shape (n_samples, n_labels)
        Zero, or absent, means not predicted.
    hierarchy : Hierarchy
    weight : array-like of shape (n_labels,), optional
        Weight of every label, such as `information_accretion`; labels of weight 0 are left out.
    thresholds : array-like, optional
        Ascending and positive; 0.01, 0.02, ... 0.99 if not given.
    normalization : {"cafa", "pred", "gt"}
        What means are taken over. ``"cafa"``: precision over the samples with calls, all else
        over all samples; ``"pred"``: everything over the samples with calls; ``"gt"``:
        everything over all samples.
    propagate : bool
        First raise every label to the score of its highest descendant, and close the truth.

    References
    ----------
    Radivojac et al. (2013), key ``radivojac2013``; Piovesan et al. (2024), key ``piovesan2024``.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> curve = cafa_curve([[1, 1], [1, 0]], [[0.9, 0.8], [0.7, 0.6]], h, thresholds=[0.5, 0.75])
    >>> curve.precision, curve.recall, curve.coverage
    (array([0.75, 1.  ]), array([1. , 0.5]), array([1. , 0.5]))
    """
    check_choice(normalization, get_args(Normalization), name="normalization")
    h = hierarchy
    weights = np.ones(h.n_labels)
    if weight is not None:
        weights = check_label_weights(weight, h.labels, name="weight")
    levels = THRESHOLDS if thresholds is None else check_real_array(thresholds, name="thresholds")
    if levels.ndim != 1 or levels.size == 0 or levels[0] <= 0 or (np.diff(levels) <= 0).any():
        raise DataError("thresholds must be positive and ascend.")
    status, given = _sparse(truth, h, "truth"), _sparse(scores, h, "scores")
    if status.shape != given.shape:
        raise DataError(f"scores has shape {given.shape}, truth {status.shape}; they must agree.")
    sums = CafaSums(levels, [weights])
    for own, scored in zip(_parts(status, h.n_labels), _parts(given, h.n_labels), strict=True):
        number, scored_number = h.position[own.label], h.position[scored.label]
        upper = h.waves.above(np.concatenate([number, scored_number]))
        held = upper.spread(number, own.row, own.n_samples)
        passed = sums.passed(upper, scored_number, scored.row, scored.value, own.n_samples)
        if propagate:
            held = upper.close(held)
            upper.raise_up(passed)
        sums.add(passed, held, h.order[upper.numbers])
    return sums.curve(normalization=normalization)


class CafaSums:
    """Sums over samples that CAFA curves are made of: add samples part by part, then ask.

    Parameters
    ----------
    levels : ndarray
        Ascending thresholds.
    weights : list of ndarray of shape (n_labels,)
        A curve for each.
    scale : float
        That of the weights of samples, if they have any.
    """

    def __init__(self, levels: Float, weights: list[Float], scale: float = 1.0) -> None:
        self.levels = levels
        self.weights = weights
        # Scaled so that the weight of a sample is at most 1; powers of two change no digit.
        self._sample_scale = scale
        self._scale = [2.0 ** -np.frexp(max(1e-300, w.sum()))[1] for w in weights]
        # By threshold: weight of calls, of hits, precisions, recalls; in the end of positives.
        self._sums = [ExactSums(4 * levels.size + 1) for _ in weights]
        # Samples, of weight 1 if they have none.
        self._n_called = np.zeros((len(weights), levels.size), dtype=np.int64)
        self._n_samples = 0

    def passed(
        self, upper: Upper, number: Any, sample: Any, score: Float, n_samples: int
    ) -> NDArray[np.unsignedinteger[Any]]:
        """How many thresholds each score passes, as an array (labels x samples)."""
        out = np.zeros((upper.size, n_samples), dtype=np.min_scalar_type(self.levels.size))
        out[upper.place[number], sample] = np.searchsorted(self.levels, score, side="right")
        return out

    def add(
        self,
        passed: NDArray[np.unsignedinteger[Any]],
        held: NDArray[np.bool_],
        columns: NDArray[np.integer[Any]],
        of_samples: WholeWeights | None = None,
    ) -> None:
        """Add samples: thresholds passed and truth, (labels x samples); `columns` are the labels.

        The number of thresholds that a score passes says all about it, and the highest number
        below a label is that of the highest score: so scores are propagated as small integers.
        """
        n_samples, width = held.shape[1], self.levels.size + 1
        self._n_samples += n_samples if of_samples is None else int(of_samples.whole.sum())
        called, n_called, sample = _entries(passed != 0)
        _, n_true, true_sample = _entries(held)
        cell = sample * width + passed.ravel()[called]
        is_hit = held.ravel()[called]
        hit_cell = cell[is_hit]
        n_hit = np.count_nonzero(held & (passed != 0), axis=1)
        size = n_samples * width
        for i, weight in enumerate(self.weights):
            own = weight[columns] * self._scale[i]
            calls = _weigh(cell, np.repeat(own, n_called), size)
            hits = _weigh(hit_cell, np.repeat(own, n_hit), size)
            positive = _weigh(true_sample, np.repeat(own, n_true), n_samples)
            with_calls, terms = _by_threshold(
                calls.reshape(n_samples, width), hits.reshape(n_samples, width), positive
            )
            if of_samples is None:
                self._n_called[i] += np.count_nonzero(with_calls, axis=0)
            else:
                self._n_called[i] += of_samples.add_up(with_calls.T)
                terms *= (of_samples.whole * of_samples.scale)[:, None]
            self._sums[i].add(terms)

    def state(self) -> dict[str, NDArray[np.int64]]:
        """All that was added, as integers."""
        words = [sums.words.ravel() for sums in self._sums]
        return {"cafa": np.concatenate([[self._n_samples], self._n_called.ravel(), *words])}

    def merge(self, state: Mapping[str, NDArray[np.int64]]) -> None:
        """Add what another part gave as its `state`."""
        n_samples, n_called, words = np.split(state["cafa"], [1, 1 + self._n_called.size])
        self._n_samples += int(n_samples[0])
        self._n_called += n_called.reshape(self._n_called.shape)
        for sums, part in zip(self._sums, np.split(words, len(self._sums)), strict=True):
            sums.merge(part)

    def curve(self, which: int = 0, *, normalization: Normalization = "cafa") -> CafaCurve:
        """Return the curve for one of the weights."""
        values = self._sums[which].values()
        called, hits, precision, recall = values[:-1].reshape(4, -1)
        called, hits, positive = (x / self._scale[which] for x in (called, hits, values[-1]))
        n_called = self._n_called[which] * self._sample_scale
        n_samples = np.full(self.levels.size, self._n_samples * self._sample_scale)
        over_all = n_called if normalization == "pred" else n_samples
        over_called = n_samples if normalization == "gt" else n_called
        return CafaCurve(
            threshold=self.levels,
            precision=ratio(precision, over_called),
            recall=ratio(recall, over_all),
            pooled_precision=ratio(hits, called),
            pooled_recall=ratio(hits, np.full_like(hits, positive)),
            coverage=ratio(n_called, n_samples),
            remaining_uncertainty=ratio(positive - hits, over_all),
            misinformation=ratio(called - hits, over_all),
        )


def _entries(
    mask: NDArray[np.bool_],
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Flat places of what is True, how many there are in each row, and their columns."""
    flat, in_row = np.flatnonzero(mask), np.count_nonzero(mask, axis=1)
    # They come row by row, so that repeating spares a division for each of them.
    return flat, in_row, flat - np.repeat(np.arange(in_row.size) * mask.shape[1], in_row)


def _weigh(place: NDArray[np.intp], weight: Float, size: int) -> Float:
    return np.asarray(np.bincount(place, weight, minlength=size), dtype=np.float64)


def _by_threshold(calls: Float, hits: Float, positive: Float) -> tuple[NDArray[np.bool_], Float]:
    """Whether there are calls, and the terms of samples.

    Given is the weight of the labels that pass exactly so many thresholds.
    """
    # Summing from the right gives the weight of the labels that pass so many or more.
    called, hit = (np.cumsum(x[:, :0:-1], axis=1, dtype=np.float64)[:, ::-1] for x in (calls, hits))
    recall = ratio(hit, np.broadcast_to(positive[:, None], hit.shape))
    terms = [called, hit, ratio(hit, called), recall, positive[:, None]]
    return called > 0, np.concatenate(terms, axis=1)


def cafa_f_max_score(truth: Any, scores: Any, hierarchy: Hierarchy, **options: Any) -> float:
    r"""F-max of CAFA, :math:`\max_\tau 2 P(\tau) R(\tau) / (P(\tau) + R(\tau))`.

    Options as in `cafa_curve`; with ``weight=`` it is the weighted F-max.

    References
    ----------
    Radivojac et al. (2013), key ``radivojac2013``.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> round(cafa_f_max_score([[1, 1], [1, 0]], [[0.9, 0.6], [0.7, 0.65]], h), 4)
    0.8571
    """
    return float(cafa_curve(truth, scores, hierarchy, **options).f.max())


def s_min_error(
    truth: Any, scores: Any, hierarchy: Hierarchy, *, weight: Any = None, **options: Any
) -> float:
    r"""S-min of CAFA, :math:`\min_\tau \sqrt{ru(\tau)^2 + mi(\tau)^2}`.

    `ru` is the mean information of the labels missed, `mi` of those falsely called. Only
    thresholds at which something is called compete. `weight` is the information accretion, from
    `truth` itself if not given; options as in `cafa_curve`.

    References
    ----------
    Clark and Radivojac (2013), key ``clark2013``.

    Examples
    --------
    With ia(A) = 0, ia(B) = 1: calling everything falsely calls B once in two samples.

    >>> h = Hierarchy([("A", "B")])
    >>> s_min_error([[1, 1], [1, 0]], [[0.9, 0.5], [0.9, 0.6]], h)
    0.5
    """
    if weight is None:
        weight = information_accretion(hierarchy.close_upward(truth), hierarchy)
    return smallest_s(cafa_curve(truth, scores, hierarchy, weight=weight, **options))


def smallest_s(curve: CafaCurve) -> float:
    """S-min of a curve."""
    reached = curve.s[curve.coverage > 0]
    if reached.size == 0:
        raise DataError("S-min is not defined: nothing is called at any threshold.")
    return float(reached.min())


def _sparse(data: Any, hierarchy: Hierarchy, name: str) -> sparse.csr_array:
    from scipy import sparse

    values: Matrix = align(data, hierarchy, name=name).values
    check_finite(values, hierarchy.labels, name=name)
    csr = sparse.csr_array(values)
    if csr.nnz and csr.data.min() < 0:
        raise DataError(f"{name} has negative values, but 0 means not predicted here.")
    csr.eliminate_zeros()
    return csr


class _Part(NamedTuple):
    """Stored entries of a run of samples."""

    row: NDArray[np.intp]
    label: NDArray[np.integer[Any]]
    value: Float
    n_samples: int


def _parts(matrix: sparse.csr_array, n_labels: int) -> Iterator[_Part]:
    for start, stop in sample_ranges(matrix.shape[0], n_labels):
        stored = slice(matrix.indptr[start], matrix.indptr[stop])
        row = np.repeat(np.arange(stop - start), np.diff(matrix.indptr[start : stop + 1]))
        yield _Part(row, matrix.indices[stored], matrix.data[stored], stop - start)


def propagate_max_sparse(scores: sparse.csr_array, h: Hierarchy) -> sparse.csr_array:
    """Raise every stored label and its ancestors to their highest stored descendant."""
    from scipy import sparse

    sizes, columns, values = [np.zeros(1, dtype=np.int64)], [], []
    for part in _parts(scores, h.n_labels):
        number = h.position[part.label]
        upper = h.waves.above(number)
        raised = np.full((upper.size, part.n_samples), -np.inf)
        raised[upper.place[number], part.row] = part.value
        upper.raise_up(raised)
        by_sample = np.ascontiguousarray(raised.T)
        stored = by_sample > -np.inf
        sizes.append(stored.sum(axis=1))
        columns.append(np.broadcast_to(h.order[upper.numbers], stored.shape)[stored])
        values.append(by_sample[stored])
    row_ptr = np.cumsum(np.concatenate(sizes))
    return sparse.csr_array(
        (np.concatenate([*values, np.empty(0)]),
         np.concatenate([*columns, np.empty(0, dtype=np.int32)]), row_ptr), shape=scores.shape,
    )  # fmt: skip
