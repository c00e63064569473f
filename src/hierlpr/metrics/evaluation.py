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

from hierlpr._base.order_free import ExactSums
from hierlpr.data.label_sets import LabelSets
from hierlpr.data.partial_truth import unknown_among
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.waves import Upper, sample_ranges
from hierlpr.metrics.cafa import THRESHOLDS, CafaSums, accretion_of, smallest_s
from hierlpr.metrics.calls import calibration_gaps
from hierlpr.metrics.curves import HitSums, hit_curve
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
    """Sizes and measures by name; a measure that the data do not define is None."""

    sizes: dict[str, int]
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
    by_sample = SampleSums(hierarchy, accretion_of(held, hierarchy), has_calls=call is not None)
    status, known = by_sample.add(rows, held)
    if known is not None:
        status, score = status[known], score[known]
    pooled = PooledSums(held.label.size)
    if ordered:
        for start in range(0, status.size, STRETCH):
            pooled.add_listed(status[start : start + STRETCH])
    else:
        pooled.add(*(np.diff(corners) for corners in hit_curve(status, score)))
    return by_sample.evaluation(pooled)


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

    def add_listed(self, status: Bool) -> None:
        """Add instances one after the other."""
        self.add(np.ones(status.size), status.astype(np.float64))

    def _measure(self, size: Float, gained: Float) -> None:
        calls, hits = (np.append(0.0, np.cumsum(x)) for x in (size, gained))
        self.hits.add(calls, hits)

    def measures(self, n_instances: int) -> Measures:
        """Return the measures; what is not listed is one group of ties at the end."""
        if self._size.size:
            self._measure(self._size, self._gained)
            self._size = self._gained = np.empty(0)
        rest = n_instances - self.hits.calls
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
    """

    def __init__(self, hierarchy: Hierarchy, accretion: Float, *, has_calls: bool) -> None:
        self._h = hierarchy
        self._cafa = CafaSums(THRESHOLDS, [np.ones(hierarchy.n_labels), accretion])
        self._gaps = ExactSums(10)
        self._bounds = np.zeros(2)  # lowest and highest score, and 0
        # Samples, positives, listed, out of order; unknown, of the listed, of the called, and
        # samples of which nothing is known.
        self._counts = np.zeros(8, dtype=np.int64)
        self._calls = _CallCounts(hierarchy) if has_calls else None

    def add(self, rows: Rows, truth: LabelSets) -> tuple[Bool, Bool | None]:
        """Add samples with all their rows and their truth, closed upward.

        Returns the truth of every row, and whether it is known (None: all of it).
        """
        order = np.argsort(_small(rows.sample), kind="stable")
        grouped = rows.take(order)
        status, known = np.empty(order.size, dtype=bool), np.empty(order.size, dtype=bool)
        for start, stop in sample_ranges(truth.shape[0], truth.n_labels):
            part = slice(*np.searchsorted(grouped.sample, [start, stop]).tolist())
            at = order[part]
            status[at], known[at] = self._add_few(grouped.take(part), truth, start, stop)
        self._counts[:3] += truth.shape[0], truth.label.size, order.size
        if order.size:
            self._widen(float(rows.score.min()), float(rows.score.max()))
        return status, None if truth.open is None else known

    def _widen(self, low: float, high: float) -> None:
        self._bounds[:] = min(self._bounds[0], low), max(self._bounds[1], high)

    def state(self) -> dict[str, NDArray[Any]]:
        """All that was added, as plain arrays."""
        own = {"counts": self._counts, "bounds": self._bounds, "gaps": self._gaps.words}
        return {**own, **self._cafa.state(), **(self._calls.state() if self._calls else {})}

    def merge(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Add what another part gave as its `state`; the result is that of adding its samples."""
        self._counts += state["counts"]
        self._widen(*state["bounds"].tolist())
        self._gaps.merge(state["gaps"])
        self._cafa.merge(state)
        if self._calls is not None:
            self._calls.merge(state)

    def _add_few(self, rows: Rows, truth: LabelSets, first: int, stop: int) -> tuple[Bool, Bool]:
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
        judged: Any = slice(None)
        if truth.open is not None:
            passed[unknown] = 0
            n_unknown = np.count_nonzero(unknown, axis=0)
            judged = n_unknown < h.n_labels  # of the others nothing is known
            self._counts[4:6] += int(n_unknown.sum()), int(np.count_nonzero(~known))
            self._counts[7] += int(np.count_nonzero(~judged))
        self._cafa.add(passed[:, judged], held[:, judged], h.order[upper.numbers])
        gaps = calibration_gaps(status[known], np.clip(rows.score[known], 0.0, 1.0))
        self._gaps.add_at(*gaps)
        self._counts[3] += late_parents(upper, number, row, n_samples)
        if self._calls is not None and rows.call is not None:
            called = upper.spread(number[rows.call], row[rows.call], n_samples)
            self._counts[6] += int(np.count_nonzero(called & unknown))
            self._calls.add(called, held, unknown, upper)
        return status, known

    def evaluation(self, pooled: PooledSums) -> Evaluation:
        """Return all measures, when all samples are added."""
        n_labels = self._h.n_labels
        n_samples, n_positives, n_listed, n_disordered, n_unknown, *unjudged = self._counts.tolist()
        sizes = {"samples": n_samples, "labels": n_labels, "instances": n_samples * n_labels,
                 "positives": n_positives, "listed": n_listed}  # fmt: skip
        n_judged = n_listed - unjudged[0]
        if n_unknown:
            sizes |= {"unknown": n_unknown, "listed, unknown": unjudged[0]}
        are_scores = self._bounds[0] >= 0.0
        are_shares = are_scores and self._bounds[1] <= 1.0 and n_judged > 0
        ranking: Measures = {
            **pooled.measures(sizes["instances"] - n_unknown),
            "F-max, CAFA": float(self._cafa.curve().f.max()) if are_scores else None,
            "S-min, CAFA": _try(lambda: smallest_s(self._cafa.curve(1))) if are_scores else None,
            "calibration error": (
                float(np.abs(self._gaps.values()).sum() / n_judged) if are_shares else None
            ),
            "parents after a child": n_disordered,
        }
        if self._calls is None:
            return Evaluation(sizes, ranking, {})
        sizes["called"] = int(self._calls.counts[0]) + unjudged[1]
        if n_unknown:
            sizes["called, unknown"] = unjudged[1]
        decisions = self._calls.measures(n_samples - unjudged[2], sizes["positives"])
        return Evaluation(sizes, ranking, decisions)


class _CallCounts:
    """Counts that the measures of decisions are made of; integers, so parts add up exactly."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._h = hierarchy
        self.counts = np.zeros(5, dtype=np.int64)  # calls, hits, closed, their hits, orphans
        self._n_wrong = np.zeros((2, hierarchy.n_labels), dtype=np.int64)  # all, first on a path

    def add(self, called: Bool, held: Bool, unknown: Bool, upper: Upper) -> None:
        """Add the calls and the truth of some samples, arrays (labels x samples).

        What is unknown is neither right nor wrong: it is left out.
        """
        closed, judged = upper.close(called), ~unknown
        wrong = (called != held) & judged
        found = (called & judged, called & held, closed & judged, closed & held)
        self.counts[:4] += [int(np.count_nonzero(x)) for x in found]
        self.counts[4] += upper.count_orphans(called)
        first = first_errors(wrong, upper)
        self._n_wrong[:, self._h.order[upper.numbers]] += wrong.sum(axis=1), first.sum(axis=1)

    def state(self) -> dict[str, NDArray[np.int64]]:
        """All that was added."""
        return {"calls": self.counts, "wrong": self._n_wrong}

    def merge(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Add what another part gave as its `state`."""
        self.counts += state["calls"]
        self._n_wrong += state["wrong"]

    def measures(self, n_samples: int, positives: int) -> Measures:
        """Return the measures of `n_samples` with that many positive instances."""
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
