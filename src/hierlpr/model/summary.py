"""Aggregates over the evaluated samples: counts, trade-offs, calibration, other methods."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import Matrix
from hierlpr.baselines import propagate_max
from hierlpr.baselines.rank_functions import propagate_max_sparse
from hierlpr.data.duplicates import overlap_note
from hierlpr.data.tables import sum_by_label
from hierlpr.hierarchy import Hierarchy
from hierlpr.metrics.hits import HitCurve
from hierlpr.model.model_output import KnownInstances, ModelOutput, both, sum_by_sample

Float = NDArray[np.float64]

MOST_CORNERS = 1 << 16  # kept of a curve
N_BINS = 10  # of a calibration curve
TARGETS = (0.99, 0.95, 0.9, 0.8, 0.7, 0.5)  # precision targets whose trade-off is shown
METHODS = {
    "hierlpr": "HierLPR",
    "lpr": "LPR alone",
    "max": "Max-propagation",
    "raw": "Raw scores",
}


class MethodCurve(NamedTuple):
    """The hit curve of one method with its areas, NaN without positives or negatives.

    `violations` counts the (sample, parent, child) triples that the method calls in the wrong
    order, None where that was not counted. `precision_at_cutoff` is the precision after as many
    calls as the model makes.
    """

    key: str
    name: str
    curve: HitCurve
    au_prc: float
    hit_area: float
    precision_at_cutoff: float | None = None
    violations: int | None = None


class Tradeoff(NamedTuple):
    """The most calls at which the precision on these samples still reaches `target`.

    `n_calls` is 0 where no number of calls reaches it.
    """

    target: float
    n_calls: int = 0
    precision: float | None = None
    recall: float | None = None


def tradeoffs(curve: HitCurve, *, has_truth: bool = True) -> tuple[Tradeoff, ...]:
    """Return the most calls for each precision target; without truth, for the expected precision.

    Ties are never split.
    """
    precision, rows = curve.precision if has_truth else curve.mean_score, []
    for target in TARGETS:
        enough = np.flatnonzero(precision >= target - 1e-12)
        row = Tradeoff(target)
        if enough.size:
            at = int(enough[-1])
            recall = float(curve.recall[at]) if has_truth else None
            row = Tradeoff(target, int(curve.n_calls[at + 1]), float(precision[at]), recall)
        rows.append(row)
    return tuple(rows)


class CalibrationBin(NamedTuple):
    """Instances predicted in one bin: number, mean prediction, and observed frequency.

    `low` and `high` bound the frequency with about 95 % confidence; see `share_interval`.
    """

    n: int
    predicted: float
    observed: float
    low: float
    high: float


class CalibrationCurve(NamedTuple):
    """Bins by rising prediction, and the mean absolute gap over all instances (ECE)."""

    bins: tuple[CalibrationBin, ...]
    error: float


def calibration_curve(
    instances: KnownInstances, n_samples: int, weight: Float | None = None
) -> CalibrationCurve:
    """Compare predictions with the truth in bins of equal width; `weight` is that of each sample.

    The labels of one sample are dependent, so intervals count samples, not instances.
    """
    place = np.minimum((instances.score * N_BINS).astype(np.intp), N_BINS - 1)
    cell = place * n_samples + instances.sample
    sums = [
        np.bincount(cell, x, N_BINS * n_samples).reshape(N_BINS, n_samples)
        for x in (None, instances.truth, instances.score)
    ]
    each = np.ones(n_samples) if weight is None else weight
    bins = []
    gap = size = 0.0
    for trials, hits, predicted in zip(*sums, strict=True):
        if not trials.any():
            continue
        n, n_hits, total = (float(x @ each) for x in (trials, hits, predicted))
        some = trials > 0
        low, high = share_interval(hits[some], trials[some], None if weight is None else each[some])
        bins.append(CalibrationBin(int(trials.sum()), total / n, n_hits / n, low, high))
        gap += abs(total - n_hits)
        size += n
    return CalibrationCurve(tuple(bins), gap / max(size, 1e-300))


def share_interval(
    hits: NDArray[Any], trials: NDArray[Any], weight: Float | None = None
) -> tuple[float, float]:
    r"""Bound the pooled share of hits with about 95 % confidence, from the counts of each sample.

    Notes
    -----
    Samples are independent; the instances of one sample are not. With :math:`n_m` trials and
    :math:`h_m` hits of sample :math:`m`, the variance of the share :math:`p = \sum h_m / \sum n_m`
    is about :math:`\sum_m (h_m - p n_m)^2 / n^2`. Its ratio to the binomial variance, if above 1,
    divides the number of trials in Wilson's score interval (key ``wilson1927`` in
    ``docs/references.bib``). With sample weights the trials are scaled to their effective number.

    Examples
    --------
    >>> [round(x, 3) for x in share_interval(np.array([1.0, 0, 1, 1]), np.array([1, 1, 1, 1]))]
    [0.301, 0.954]
    """
    if weight is not None:
        scale = float(weight @ trials) / float(weight**2 @ trials)
        hits, trials = hits * weight * scale, trials * weight * scale
    n = float(trials.sum())
    share = float(hits.sum()) / n
    smoothed = (hits.sum() + 0.5) / (n + 1.0)
    variance = float(np.sum((hits - share * trials) ** 2))
    inflation = max(1.0, variance / (n * smoothed * (1.0 - smoothed)))
    z, n = 1.96, n / inflation
    middle = (share + z * z / (2.0 * n)) / (1.0 + z * z / n)
    half = z / (1.0 + z * z / n) * float(np.sqrt(share * (1.0 - share) / n + (z / (2.0 * n)) ** 2))
    return max(0.0, middle - half), min(1.0, middle + half)


class Counts:
    """Calls, correct calls and positives, counted by sample and by label.

    Attributes
    ----------
    called, judged, hits, positives, unknown : ndarray of shape (n_samples,)
        Calls, calls whose truth is known, correct calls, true labels, labels of unknown truth.
    expected_hits : ndarray of shape (n_samples,)
        Sum of the block scores of the judged calls.
    sure, possible, false_sure, missed : ndarray of shape (n_samples,)
        Labels of the two sets; whether a sure label is false; whether a true one is not possible.
    by_label : dict of ndarray of shape (n_labels,)
        "calls", "hits", "positives" and "unknown".
    n_violations : int
        Labels called without a parent.
    """

    def __init__(self, output: ModelOutput) -> None:
        self.output = output
        correct = both(output.called, output.truth)
        unknown = correct != correct if output.unknown is None else output.unknown
        self.called, self.judged, self.hits, self.positives, self.unknown = map(
            sum_by_sample, (output.called, output.judged, correct, output.truth, unknown)
        )
        names = ("calls", "hits", "positives", "unknown")
        matrices = dict(zip(names, (output.judged, correct, output.truth, unknown), strict=True))
        self.by_label = {name: sum_by_label(matrix) for name, matrix in matrices.items()}
        self.weighted_by_label: dict[str, Any] = self.by_label
        if output.weight is not None:
            weigh = output.weight
            weighted = {name: np.asarray(weigh @ x).ravel() for name, x in matrices.items()}
            self.weighted_by_label = weighted
        if isinstance(output.block_score, np.ndarray):
            self.expected_hits = np.einsum("ij,ij->i", output.block_score, output.judged)
        else:
            expected = output.block_score.multiply(output.judged)
            self.expected_hits = np.asarray(expected.sum(axis=1)).ravel()
        self.n_violations = _violations(output.hierarchy, output.called)
        self.sure, self.possible = np.zeros((2, output.n_samples), dtype=np.int64)
        self.false_sure, self.missed = np.zeros((2, output.n_samples), dtype=bool)
        if output.sets is not None:
            may_hold = output.truth if output.unknown is None else output.truth + output.unknown
            sure, possible = output.sets.sure, output.sets.possible
            self.sure, self.possible = sum_by_sample(sure), sum_by_sample(possible)
            self.false_sure = self.sure > sum_by_sample(both(sure, may_hold))
            self.missed = self.positives > sum_by_sample(both(output.truth, possible))

    def total(self, by_sample: NDArray[Any]) -> float:
        """Add up samples by their weights."""
        weight = self.output.weight
        return float(by_sample.sum() if weight is None else by_sample @ weight)

    def share(self, part: NDArray[Any], whole: NDArray[Any]) -> float | None:
        """Return the weighted share of one count in another; None if that is 0."""
        total = self.total(whole)
        return self.total(part) / total if total else None

    @property
    def n_unknown(self) -> int:
        """Number of instances whose truth is unknown."""
        return int(self.unknown.sum())

    @property
    def n_instances(self) -> int:
        """Number of instances whose truth is known."""
        return self.output.n_samples * self.output.hierarchy.n_labels - self.n_unknown

    @property
    def n_positives(self) -> int:
        """Number of true instances."""
        return int(self.positives.sum())

    @cached_property
    def seen(self) -> dict[str, str]:
        """How many samples were used for "fit", "cutoff" and "sets", if more than by chance."""
        used, scores = self.output.model.keys_, self.output.scores
        return {name: note for name, x in used.items() if (note := overlap_note(x.like(scores), x))}


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """Aggregates over the evaluated samples; without truth, nothing is compared with it.

    `curve` is the hit curve of the model's ranking. `methods` are the model, LPRs without the
    hierarchy, maxima over descendants, and raw scores.
    """

    output: ModelOutput
    counts: Counts
    curve: HitCurve
    tradeoffs: tuple[Tradeoff, ...]
    methods: tuple[MethodCurve, ...]
    calibration: CalibrationCurve | None
    block_calibration: CalibrationCurve | None


def summarize(output: ModelOutput) -> Summary:
    """Count calls and hits, and compare the model with simpler orders of the same instances."""
    counts = Counts(output)
    n_calls = int(counts.judged.sum())
    ours = output.instances(output.block_score)
    curve = ours.curve()
    methods: list[MethodCurve] = []
    calibrations: list[CalibrationCurve | None] = [None, None]
    if output.has_truth:
        for key, name in METHODS.items():
            matrix = _method_scores(key, output)
            along = curve if key == "hierlpr" else output.instances(matrix).curve()
            n_wrong = _violations(output.hierarchy, matrix) if output.is_dense else None
            sums, areas = along.sums(), (float("nan"), float("nan"))
            if 0 < sums.positives < sums.calls:
                areas = sums.au_prc(), sums.normalized_area()
            at_cutoff, few = along.precision_after(n_calls), along.thinned(MOST_CORNERS)
            methods.append(MethodCurve(key, name, few, *areas, at_cutoff, n_wrong))
        pair = output.instances(output.lpr), ours
        calibrations = [calibration_curve(x, output.n_samples, output.weight) for x in pair]
    return Summary(
        output=output,
        counts=counts,
        curve=curve.thinned(MOST_CORNERS),
        tradeoffs=tradeoffs(curve, has_truth=output.has_truth),
        methods=tuple(methods),
        calibration=calibrations[0],
        block_calibration=calibrations[1],
    )


def _method_scores(key: str, output: ModelOutput) -> Matrix:
    """Return the values by which a method orders the instances."""
    if key == "max":
        h, scores = output.hierarchy, output.scores
        is_dense = isinstance(scores, np.ndarray)
        return propagate_max(scores, h) if is_dense else propagate_max_sparse(scores, h)
    return {"hierlpr": output.block_score, "lpr": output.own_lpr, "raw": output.scores}[key]


def _violations(hierarchy: Hierarchy, matrix: Any) -> int:
    """Count the (sample, parent, child) triples in which the child exceeds the parent."""
    if isinstance(matrix, np.ndarray):
        return len(hierarchy.violations(matrix))
    return int(hierarchy.close_upward(matrix).nnz - matrix.nnz)
