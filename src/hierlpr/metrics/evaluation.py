"""Evaluate a ranking against the truth: all measures that apply.

Measures are sums, either over samples (`SampleSums`) or along the list of instances, so that a
large ranking can be evaluated in batches of samples.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import check_sample_weight, effective_number
from hierlpr.data.truth import Truth, evaluated_among, implied_share
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import parts_by_sample
from hierlpr.metrics.cafa import THRESHOLDS, CafaSums, accretion_of, smallest_s
from hierlpr.metrics.calls import CalibrationSums
from hierlpr.metrics.hierarchical import CallSums, late_parents
from hierlpr.metrics.hits import HitSums

if TYPE_CHECKING:
    from hierlpr._utils.checks import Matrix

Index = NDArray[np.integer[Any]]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Measures = dict[str, float | int | None]
STRETCH = 1 << 20  # instances per step along the list


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Sizes and measures by name; a measure that is not defined for the data is None.

    Sizes and counts are plain; with sample weights, all shares and means are weighted, and the
    sizes include the effective number of samples.
    """

    sizes: dict[str, int | float]
    ranking: Measures
    decisions: Measures

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"sizes": self.sizes, "ranking": self.ranking, "decisions": self.decisions}


class Rows(NamedTuple):
    """Listed instances, best first: row and column in the truth, score, and whether called.

    `unlikely` says whether the LPR is below 1/2, if it is known.
    """

    sample: Index
    label: Index
    score: Float
    call: Bool | None
    unlikely: Bool | None = None

    def take(self, at: Any) -> Rows:
        """Return some of the rows."""
        return Rows(*(None if x is None else x[at] for x in self))  # type: ignore[arg-type]


def evaluate_ranking(
    sample: Index,
    label: Index,
    score: Float,
    truth: Truth | Matrix | Bool,
    hierarchy: Hierarchy,
    *,
    ordered: bool = True,
    call: Bool | None = None,
    lpr: Float | None = None,
    sample_weight: Any = None,
) -> Evaluation:
    """Measure a list of instances, best first, against the truth of all samples.

    Parameters
    ----------
    sample, label : ndarray of int
        Row and column in `truth` of every listed instance.
    score : ndarray of float
    truth : Truth, ndarray or CSR of shape (n_samples, n_labels)
        Closed upward. Instances that are not listed come last, all tied. Instances of unknown truth
        (NaN) are left out of all measures; see `hierlpr.data.truth.evaluated_among` for those
        whose truth follows from the hierarchy.
    hierarchy : Hierarchy
    ordered : bool
        Whether the order of the list counts among equal scores (a ranking), or equal scores are
        one group (scores of any other method).
    call : ndarray of bool, optional
        Which of the listed instances are called; then the decisions are measured too.
    lpr : ndarray of float, optional
        With these, calls that are more likely wrong than right are counted.
    sample_weight : array-like of shape (n_samples,), optional
        Weight of each row of `truth`; 0 leaves it out.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> evaluation = evaluate_ranking(
    ...     np.array([0, 0]), np.array([0, 1]), np.array([0.9, 0.4]), np.array([[1, 0], [0, 0]]), h
    ... )
    >>> evaluation.ranking["normalized hit area"], evaluation.ranking["parents after a child"]
    (1.0, 0)
    """
    truth = Truth.of(truth, hierarchy).tocsr()
    weight = check_sample_weight(sample_weight, truth.shape[0])
    sums = SampleSums(truth, hierarchy, weight, has_calls=call is not None)
    unlikely = None if lpr is None else lpr < 0.5
    signed = sums.add(Rows(sample, label, score, call, unlikely), truth, weight)
    groups = listed_groups(signed) if ordered else score_groups(score, signed)
    return sums.evaluation(*groups, None if weight is None else effective_number(weight))


def listed_groups(signed: NDArray[Any]) -> tuple[Float, Float]:
    """Return calls and hits, by weight, of each instance of a list; see `SampleSums.add`."""
    evaluated = signed[signed != 0]
    return np.abs(evaluated), np.maximum(evaluated, 0)


def score_groups(score: Float, signed: NDArray[Any]) -> tuple[Float, Float]:
    """Return calls and hits, by weight, of each group of equal scores, best first."""
    values, place = np.unique(-score[signed != 0], return_inverse=True)
    calls, hits = (np.bincount(place, x, values.size) for x in listed_groups(signed))
    return calls.astype(np.float64), hits.astype(np.float64)


class SampleSums:
    """Measures that are sums over samples, added in batches.

    Parameters
    ----------
    truth : Truth
        Of all samples that will be added.
    hierarchy : Hierarchy
    weight : ndarray of shape (n_samples,) or None
        Of the same samples.
    has_calls : bool
        Whether the rows say what is called.
    """

    def __init__(
        self, truth: Truth, hierarchy: Hierarchy, weight: Float | None, *, has_calls: bool
    ) -> None:
        self._h = hierarchy
        # Of the negatives that follow from the hierarchy; see `evaluated_among`.
        self._share = 0.0 if truth.is_complete else implied_share(truth, hierarchy, weight)
        accretion = accretion_of(truth, hierarchy, weight)
        self._cafa = CafaSums(THRESHOLDS, [np.ones(hierarchy.n_labels), accretion])
        self._calibration = CalibrationSums()
        self._lowest = self._highest = 0.0
        self._n: Counter[str] = Counter()  # plain counts
        self._w: dict[str, Any] = defaultdict(float)  # the same by the weights of samples
        self._calls = CallSums(hierarchy) if has_calls else None

    def add(self, rows: Rows, truth: Truth, weight: Float | None = None) -> Float:
        """Add samples with all their rows and their truth, closed upward.

        Returns the signed weight of every row: that of its sample (1 without weights), negative if
        the label does not hold, and 0 if that is unknown.
        """
        if weight is not None and not weight.all():
            return self._add_weighted(rows, truth, weight)
        by_sample = np.ones(truth.shape[0]) if weight is None else weight
        signed = np.empty(rows.sample.size)
        for start, stop, part in parts_by_sample(rows.sample, *truth.shape):
            some = rows.take(part)
            some = some._replace(sample=some.sample - start)
            signed[part] = self._add_batch(some, truth, start, stop, by_sample[start:stop])
        self._n.update({"samples": truth.shape[0], "listed": signed.size})
        self._w["samples"] += by_sample.sum()
        if signed.size:
            self._lowest = min(self._lowest, float(rows.score.min()))
            self._highest = max(self._highest, float(rows.score.max()))
        return signed

    def _add_weighted(self, rows: Rows, truth: Truth, weight: Float) -> Float:
        """Add the samples whose weight is not 0."""
        is_used = weight > 0.0
        listed = np.flatnonzero(is_used[rows.sample])
        some = rows.take(listed)
        some = some._replace(sample=(np.cumsum(is_used) - 1)[some.sample])
        signed = np.zeros(rows.sample.size)
        signed[listed] = self.add(some, truth[np.flatnonzero(is_used)], weight[is_used])
        return signed

    def _add_batch(self, rows: Rows, truth: Truth, start: int, stop: int, weight: Float) -> Float:
        h, n_samples = self._h, stop - start
        number, sample = h.position[rows.label], rows.sample
        upper = truth.upper_set(h, start, stop, number)
        marks = truth.marked(h, upper, start, stop)
        columns, (is_true, unknown, _) = h.order[upper.numbers], marks
        if not truth.is_complete:
            is_true, unknown = evaluated_among(*marks, columns, self._share)
        row = upper.row[number]
        status, is_known = is_true[row, sample], ~unknown[row, sample]
        n_true = np.count_nonzero(is_true, axis=0)
        self._n["positives"] += int(n_true.sum())
        self._w["positives"] += n_true @ weight
        # CAFA has no scores below 0; a score of 0 or less passes no threshold.
        passed = self._cafa.passed(upper, number, sample, rows.score, n_samples)
        is_evaluated: Any = slice(None)
        if not truth.is_complete:
            passed[unknown] = 0
            n_unknown = np.count_nonzero(unknown, axis=0)
            is_evaluated = n_unknown < h.n_labels
            self._n["unknown"] += int(n_unknown.sum())
            self._n["listed, unknown"] += int(np.count_nonzero(~is_known))
            self._w["unknown"] += n_unknown @ weight
        used = passed[:, is_evaluated], is_true[:, is_evaluated]
        self._cafa.add(*used, columns, weight[is_evaluated])
        row_weight = weight[sample]
        signed = np.where(status, row_weight, -row_weight) * is_known
        probability = np.clip(rows.score[is_known], 0.0, 1.0)
        self._calibration.add(status[is_known], probability, row_weight[is_known])
        self._n["late parents"] += late_parents(upper, number, sample, n_samples)
        if self._calls is not None and rows.call is not None:
            called = upper.mark(number[rows.call], sample[rows.call], n_samples)
            self._calls.add(called, is_true, unknown, upper, weight)
            if rows.unlikely is not None:
                unlikely = rows.call & rows.unlikely
                low = upper.mark(number[unlikely], sample[unlikely], n_samples)
                rest = called & ~(low | upper.any_above(low))
                self._n["unlikely"] += int(np.count_nonzero(called & ~rest))
                self._w["likely"] += np.count_nonzero(rest & ~unknown, axis=0) @ weight
                self._w["likely, true"] += np.count_nonzero(rest & is_true, axis=0) @ weight
        return signed

    def evaluation(self, calls: Float, hits: Float, effective: float | None = None) -> Evaluation:
        """Return all measures after all samples have been added.

        `calls` and `hits` are those of the groups along the whole list (`listed_groups` or
        `score_groups`); `effective` is the effective number of samples, if they have weights.
        """
        n_labels, n, w = self._h.n_labels, self._n, self._w
        sizes: dict[str, int | float] = {"samples": n["samples"]}
        if effective is not None:
            sizes["effective samples"] = effective
        sizes |= {"labels": n_labels, "instances": n["samples"] * n_labels}
        sizes |= {name: n[name] for name in ("positives", "listed")}
        if n["unknown"]:
            sizes |= {name: n[name] for name in ("unknown", "listed, unknown")}
        pooled = HitSums(w["positives"])
        for start in range(0, calls.size, STRETCH):
            part = slice(start, start + STRETCH)
            pooled.add(*(np.append(0.0, np.cumsum(x[part])) for x in (calls, hits)))
        n_rest = w["samples"] * n_labels - w["unknown"] - pooled.calls
        if n["listed"] < n["samples"] * n_labels - n["unknown"] + n["listed, unknown"]:
            lost = max(0.0, pooled.positives - pooled.hits)  # not listed: one group of ties
            pooled.add(np.array([0.0, n_rest]), np.array([0.0, lost]))
        are_scores = self._lowest >= 0.0
        are_probabilities = are_scores and self._highest <= 1.0 and self._calibration.weight > 0.0
        ranking: Measures = {
            "normalized hit area": _try(pooled.normalized_area),
            "AU(PRC)": _try(pooled.au_prc),
            "F-max, pooled": _try(pooled.f_max),
            "precision to recall 0.5": _try(pooled.early_precision),
            "F-max, CAFA": float(self._cafa.curve().f.max()) if are_scores else None,
            "S-min, CAFA": _try(lambda: smallest_s(self._cafa.curve(1))) if are_scores else None,
            "calibration error": self._calibration.error() if are_probabilities else None,
            "parents after a child": n["late parents"],
        }
        if self._calls is None:
            return Evaluation(sizes, ranking, {})
        sizes["called"] = self._calls.n_called
        if n["unknown"]:
            sizes["called, unknown"] = self._calls.n_unknown
        decisions = self._calls.measures()
        if n["unlikely"]:
            decisions |= {
                "calls with a chance below 1/2, or below one": n["unlikely"],
                "precision without them": w["likely, true"] / w["likely"] if w["likely"] else None,
                "recall without them": w["likely, true"] / w["positives"]
                if w["positives"]
                else None,
            }
        return Evaluation(sizes, ranking, decisions)


def _try(measure: Callable[[], float]) -> float | None:
    """Return a measure, None where it is not defined (no positives, no probabilities)."""
    try:
        value = float(measure())
    except DataError:
        return None
    return value if np.isfinite(value) else None
