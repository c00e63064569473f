"""A ranking against the truth: every measure that applies, in one place.

Measures are sums, either over samples (`SampleSums`) or along the list (`PooledSums`), so that a
list may be evaluated in parts: runs of samples, and stretches of the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_sample_weight, effective_number
from hierlpr._base.order_free import ExactSums, WholeWeights
from hierlpr.data.label_sets import LabelSets
from hierlpr.data.partial_truth import unknown_among
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.waves import Upper, sample_ranges
from hierlpr.metrics.cafa import THRESHOLDS, CafaSums, accretion_of, smallest_s
from hierlpr.metrics.calls import calibration_gaps
from hierlpr.metrics.curves import HitSums
from hierlpr.metrics.hierarchical import first_errors, label_costs, late_parents

if TYPE_CHECKING:
    from hierlpr._base.checks import Matrix

Index = NDArray[np.integer[Any]]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Measures = dict[str, float | int | None]
STRETCH = 1 << 20  # listed instances whose place along the list is measured at once


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Sizes and measures by name; a measure that the data do not define is None.

    Sizes and counts are plain; where samples have weights, everything that is a share or a mean is
    weighted, and the sizes tell the effective number of samples.
    """

    sizes: dict[str, int | float]
    ranking: Measures
    decisions: Measures

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"sizes": self.sizes, "ranking": self.ranking, "decisions": self.decisions}


class Rows(NamedTuple):
    """Listed instances, best first: row and column in the truth, score, and whether called."""

    sample: Index
    label: Index
    score: Float
    call: Bool | None

    def take(self, at: Any) -> Rows:
        """Return some of the rows."""
        return Rows(*(None if x is None else x[at] for x in self))  # type: ignore[arg-type]


def evaluate_ranking(
    sample: Index,
    label: Index,
    score: Float,
    truth: LabelSets | Matrix | Bool,
    hierarchy: Hierarchy,
    *,
    ordered: bool = True,
    call: Bool | None = None,
    sample_weight: Any = None,
) -> Evaluation:
    """Measure a list of instances, best first, against the truth of all samples.

    Parameters
    ----------
    sample, label : ndarray of int
        Row and column in `truth` of every listed instance.
    score : ndarray of float
    truth : LabelSets, ndarray or CSR of shape (n_samples, n_labels)
        Closed upward. Instances that are not listed come last, all tied. NaN where it is unknown:
        such instances are left out of all measures, unless the hierarchy tells what they are.
    hierarchy : Hierarchy
    ordered : bool
        Whether the order of the list counts among equal scores (a ranking), or equal scores are
        one group (scores of any other method).
    call : ndarray of bool, optional
        Which of the listed instances are called; then the decisions are measured too.
    sample_weight : array-like of shape (n_samples,), optional
        How much each row of `truth` counts; 0 leaves it out, equal weights are none.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> found = evaluate_ranking(
    ...     np.array([0, 0]), np.array([0, 1]), np.array([0.9, 0.4]), np.array([[1, 0], [0, 0]]), h
    ... )
    >>> found.ranking["normalized hit area"], found.ranking["parents after a child"]
    (1.0, 0)
    """
    held = truth if isinstance(truth, LabelSets) else LabelSets.of(truth)
    held = held if held.open is None else held.closed(hierarchy)
    rows = Rows(sample, label, score, call)
    given = check_sample_weight(sample_weight, held.shape[0])
    weight = None if given is None else WholeWeights.of(given, hierarchy.n_labels)
    accretion = accretion_of(held, hierarchy, weight)
    by_sample = SampleSums(hierarchy, accretion, has_calls=call is not None, weight=weight)
    worth = by_sample.add(rows, held, weight)
    pooled = PooledSums(by_sample.positives)
    if ordered:
        for start in range(0, worth.size, STRETCH):
            pooled.add_listed(worth[start : start + STRETCH])
    else:
        _, size, hits = groups_of(score, worth)
        pooled.add(size[::-1], hits[::-1])
    return by_sample.evaluation(pooled, None if given is None else effective_number(given))


def groups_of(score: Float, worth: Index) -> tuple[Float, Float, Float]:
    """Scores of known instances, ascending: what the instances of each weigh, and its hits."""
    known = worth != 0
    values, place = np.unique(score[known], return_inverse=True)
    own = worth[known].astype(np.float64)
    size, hits = (
        np.bincount(place, x, minlength=values.size).astype(np.float64)
        for x in (np.abs(own), np.maximum(own, 0.0))
    )
    return values, size, hits


class PooledSums:
    """Measures along the list of all instances."""

    def __init__(self, positives: int) -> None:
        self.hits = HitSums(positives)
        self._size, self._gained = np.empty(0), np.empty(0)

    def add(self, size: Float, gained: Float) -> None:
        """Add groups of equal place along the list: instances and hits of each.

        They are measured in stretches of one length, however they come, so that the sums are those
        of the whole list, bit by bit.
        """
        size, gained = np.append(self._size, size), np.append(self._gained, gained)
        whole = size.size // STRETCH * STRETCH
        for start in range(0, whole, STRETCH):
            self._measure(size[start : start + STRETCH], gained[start : start + STRETCH])
        self._size, self._gained = size[whole:], gained[whole:]

    def add_listed(self, worth: Index) -> None:
        """Add instances one after the other, as `SampleSums.add` tells what they are worth."""
        known = worth[worth != 0].astype(np.float64)
        self.add(np.abs(known), np.maximum(known, 0.0))

    def _measure(self, size: Float, gained: Float) -> None:
        calls, hits = (np.append(0.0, np.cumsum(x)) for x in (size, gained))
        self.hits.add(calls, hits)

    def measures(self, instances: int) -> Measures:
        """Return the measures; what is not listed of all instances is one group of ties at the end.

        Instances are added up by the weights of their samples, where these have any.
        """
        if self._size.size:
            self._measure(self._size, self._gained)
            self._size = self._gained = np.empty(0)
        rest = instances - self.hits.calls
        if rest:
            lost = self.hits.positives - self.hits.hits
            self.hits.add(np.array([0.0, rest]), np.array([0.0, lost]))
        return {
            "normalized hit area": _try(self.hits.normalized_area),
            "AU(PRC)": _try(self.hits.au_prc),
            "F-max, pooled": _try(self.hits.f_max),
            "precision to recall 0.5": _try(self.hits.early_precision),
        }


class SampleSums:
    """Measures that are sums over samples, added part by part.

    Parameters
    ----------
    hierarchy : Hierarchy
    accretion : ndarray of shape (n_labels,)
        Information accretion of every label, from the truth of all parts.
    has_calls : bool
        Whether rows tell what is called.
    weight : WholeWeights, optional
        Of all parts together: the samples that are added have weights of this scale.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        accretion: Float,
        *,
        has_calls: bool,
        weight: WholeWeights | None = None,
    ) -> None:
        self._h, self._scale = hierarchy, 1.0 if weight is None else weight.scale
        levels = [np.ones(hierarchy.n_labels), accretion]
        self._cafa = CafaSums(THRESHOLDS, levels, self._scale)
        self._gaps = ExactSums(10)
        self._bounds = np.zeros(2)  # lowest and highest score, and 0
        # Samples, positives, listed, out of order; unknown, of the listed; called, unknown of them.
        self._counts = np.zeros(8, dtype=np.int64)
        # By weight: samples, positives, unknown, known of the listed, samples of which nothing is
        # known.
        self._weighed = np.zeros(5, dtype=np.int64)
        self._calls = _CallCounts(hierarchy) if has_calls else None

    @property
    def positives(self) -> int:
        """Positive instances, by the weights of their samples."""
        return int(self._weighed[1])

    def add(self, rows: Rows, truth: LabelSets, weight: WholeWeights | None = None) -> Index:
        """Add samples with all their rows and their truth, closed upward.

        Returns what every row is worth along the list: the weight of its sample (1 without
        weights), negative if the label does not hold, 0 if that is unknown or the weight is 0.
        """
        if weight is not None and not weight.whole.all():
            return self._add_weighing(rows, truth, weight)
        order = np.argsort(_small(rows.sample), kind="stable")
        grouped = rows.take(order)
        worth: Index = np.empty(order.size, dtype=np.int8 if weight is None else np.int64)
        for start, stop in sample_ranges(truth.shape[0], truth.n_labels):
            part = slice(*np.searchsorted(grouped.sample, [start, stop]).tolist())
            own = None if weight is None else weight.take(slice(start, stop))
            worth[order[part]] = self._add_few(grouped.take(part), truth, start, stop, own)
        self._counts[:3] += truth.shape[0], truth.label.size, order.size
        size: tuple[Any, Any] = truth.shape[0], truth.label.size
        if weight is not None:
            size = weight.whole.sum(), weight.whole @ np.diff(truth.row_ptr)
        self._weighed[:2] += size
        if order.size:
            self._widen(float(rows.score.min()), float(rows.score.max()))
        return worth

    def _add_weighing(self, rows: Rows, truth: LabelSets, weight: WholeWeights) -> Index:
        """Add the samples that have a weight; the others are as if they were not there."""
        kept = weight.whole > 0
        listed = np.flatnonzero(kept[rows.sample])
        some = rows.take(listed)
        some = some._replace(sample=(np.cumsum(kept) - 1)[some.sample])
        worth = np.zeros(rows.sample.size, dtype=np.int64)
        worth[listed] = self.add(some, truth.take(np.flatnonzero(kept)), weight.take(kept))
        return worth

    def _widen(self, low: float, high: float) -> None:
        self._bounds[:] = min(self._bounds[0], low), max(self._bounds[1], high)

    def state(self) -> dict[str, NDArray[Any]]:
        """All that was added, as plain arrays."""
        own = {"counts": self._counts, "weighed": self._weighed, "bounds": self._bounds,
               "gaps": self._gaps.words}  # fmt: skip
        return {**own, **self._cafa.state(), **(self._calls.state() if self._calls else {})}

    def merge(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Add what another part gave as its `state`; the result is that of adding its samples."""
        self._counts += state["counts"]
        self._weighed += state["weighed"]
        self._widen(*state["bounds"].tolist())
        self._gaps.merge(state["gaps"])
        self._cafa.merge(state)
        if self._calls is not None:
            self._calls.merge(state)

    def _add_few(
        self, rows: Rows, truth: LabelSets, first: int, stop: int, weight: WholeWeights | None
    ) -> Index:
        h, n_samples = self._h, stop - first
        number, row = h.position[rows.label], rows.sample - first
        sets = (truth,) if truth.open is None else (truth, truth.open)
        true = [h.position[x.run(first, stop)[0]] for x in sets]
        upper = h.waves.above(np.concatenate([*true, number]))
        held, unknown, _ = unknown_among(truth, h, upper, first, stop)
        status, known = held[upper.place[number], row], ~unknown[upper.place[number], row]
        # CAFA knows no scores below 0; a score of 0 or less passes no threshold.
        passed = self._cafa.passed(upper, number, row, rows.score, n_samples)
        upper.raise_up(passed)
        each: Index = np.ones(n_samples, dtype=np.int8) if weight is None else weight.whole
        judged: Any = slice(None)
        if truth.open is not None:
            passed[unknown] = 0
            n_unknown = np.count_nonzero(unknown, axis=0)
            judged = n_unknown < h.n_labels  # of the others nothing is known
            self._counts[4:6] += int(n_unknown.sum()), int(np.count_nonzero(~known))
            self._weighed[[2, 4]] += n_unknown @ each.astype(np.int64), each[~judged].sum()
        own = None if weight is None else weight.take(judged)
        self._cafa.add(passed[:, judged], held[:, judged], h.order[upper.numbers], own)
        worth: Index = each[row] * np.where(status, np.int8(1), np.int8(-1))
        worth[~known] = 0
        self._weighed[3] += np.abs(worth).sum()
        place, gap = calibration_gaps(status[known], np.clip(rows.score[known], 0.0, 1.0))
        if weight is not None:
            gap *= each[row[known]] * weight.scale
        self._gaps.add_at(place, gap)
        self._counts[3] += late_parents(upper, number, row, n_samples)
        if self._calls is not None and rows.call is not None:
            called = upper.spread(number[rows.call], row[rows.call], n_samples)
            self._counts[6:8] += [int(np.count_nonzero(x)) for x in (called, called & unknown)]
            self._calls.add(called, held, unknown, upper, weight)
        return worth

    def evaluation(self, pooled: PooledSums, effective: float | None = None) -> Evaluation:
        """Return all measures, when all samples are added.

        `effective` is the effective number of samples, where they have weights.
        """
        n_labels = self._h.n_labels
        n_samples, n_positives, n_listed, n_disordered, n_unknown, *unjudged = self._counts.tolist()
        weighed, positives, unknown, judged, lost = self._weighed.tolist()
        sizes: dict[str, int | float] = {"samples": n_samples}
        if effective is not None:
            sizes["effective samples"] = effective
        sizes |= {"labels": n_labels, "instances": n_samples * n_labels, "positives": n_positives,
                  "listed": n_listed}  # fmt: skip
        if n_unknown:
            sizes |= {"unknown": n_unknown, "listed, unknown": unjudged[0]}
        are_scores = self._bounds[0] >= 0.0
        are_shares = are_scores and self._bounds[1] <= 1.0 and judged > 0
        ranking: Measures = {
            **pooled.measures(weighed * n_labels - unknown),
            "F-max, CAFA": float(self._cafa.curve().f.max()) if are_scores else None,
            "S-min, CAFA": _try(lambda: smallest_s(self._cafa.curve(1))) if are_scores else None,
            "calibration error": (
                float(np.abs(self._gaps.values()).sum() / (judged * self._scale))
                if are_shares
                else None
            ),
            "parents after a child": n_disordered,
        }
        if self._calls is None:
            return Evaluation(sizes, ranking, {})
        sizes["called"] = unjudged[1]
        if n_unknown:
            sizes["called, unknown"] = unjudged[2]
        return Evaluation(sizes, ranking, self._calls.measures(weighed - lost, positives))


class _CallCounts:
    """Counts that the measures of decisions are made of; integers, so parts add up exactly.

    All but orphans are counted by the weights of samples, where they have any.
    """

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._h = hierarchy
        self.counts = np.zeros(5, dtype=np.int64)  # calls, hits, closed, their hits, orphans
        self._n_wrong = np.zeros((2, hierarchy.n_labels), dtype=np.int64)  # all, first on a path

    def add(
        self, called: Bool, held: Bool, unknown: Bool, upper: Upper, weight: WholeWeights | None
    ) -> None:
        """Add the calls and the truth of some samples, arrays (labels x samples).

        What is unknown is neither right nor wrong: it is left out.
        """
        closed, judged = upper.close(called), ~unknown
        wrong = (called != held) & judged
        found = (called & judged, called & held, closed & judged, closed & held)
        count = (lambda x: np.count_nonzero(x, axis=1)) if weight is None else weight.add_up
        self.counts[:4] += [int(count(x).sum()) for x in found]
        self.counts[4] += upper.count_orphans(called)
        first = first_errors(wrong, upper)
        self._n_wrong[:, self._h.order[upper.numbers]] += count(wrong), count(first)

    def state(self) -> dict[str, NDArray[np.int64]]:
        """All that was added."""
        return {"calls": self.counts, "wrong": self._n_wrong}

    def merge(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Add what another part gave as its `state`."""
        self.counts += state["calls"]
        self._n_wrong += state["wrong"]

    def measures(self, n_samples: int, positives: int) -> Measures:
        """Return the measures of `n_samples` with that many positive instances, by weight."""
        n_calls, n_hits, n_closed, n_closed_hits, n_orphans = self.counts.tolist()
        precision = n_hits / n_calls if n_calls else None
        wrong, first = self._n_wrong
        siblings = label_costs(self._h, "sibling")
        return {
            "precision": precision,
            "FDR": None if precision is None else 1.0 - precision,
            "recall": n_hits / positives if positives else None,
            "F1": _share(2 * n_hits, n_calls + positives),
            "hierarchical precision": _share(n_closed_hits, n_closed),
            "hierarchical recall": _share(n_closed_hits, positives),
            "hierarchical F1": _share(2 * n_closed_hits, n_closed + positives),
            "H-loss": float(first.sum()) / n_samples if n_samples else None,
            "hierarchical Hamming loss": (
                float(np.dot(wrong, siblings)) / n_samples if n_samples else None
            ),
            "calls without a parent": n_orphans,
        }


def _small(values: Index) -> Index:
    """Integers in as few bytes as hold them: NumPy sorts up to two bytes in linear time."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _try(measure: Callable[[], float]) -> float | None:
    """Evaluate a measure; None where the data do not define it (no positives, no probabilities)."""
    try:
        value = float(measure())
    except DataError:
        return None
    return value if np.isfinite(value) else None
