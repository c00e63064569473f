"""What a model gives for some samples beside their truth: the data of all displays and reports."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from hierlpr._utils.checks import Matrix
from hierlpr.baselines import propagate_max
from hierlpr.baselines.rank_functions import propagate_max_sparse
from hierlpr.cutoff.decisions import decide, label_levels
from hierlpr.cutoff.instances import holds_at
from hierlpr.cutoff.sets import CallSets
from hierlpr.data.duplicates import overlap_note
from hierlpr.data.tables import align, sum_by_label
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr import own_lpr
from hierlpr.metrics.hits import HitCurve
from hierlpr.model.inputs import LabelledSamples

if TYPE_CHECKING:
    from hierlpr.model import HierLPR

Float = NDArray[np.float64]

MOST_CORNERS = 1 << 16  # of a curve that is kept
N_BINS = 10  # of a calibration curve
TARGETS = (0.99, 0.95, 0.9, 0.8, 0.7, 0.5)  # precision targets whose trade-off is shown


@dataclass(frozen=True, slots=True, eq=False)
class ModelOutput:
    """A model, samples, and matrices (samples x labels) of what it predicts for them.

    The matrices are CSR if the scores are, and arrays otherwise.

    Attributes
    ----------
    samples : tuple of str
        Names of the samples; their numbers if they have none.
    scores, own_lpr, lpr, block_score : matrices
        `own_lpr` is P(label | its own score). `lpr` is what was ranked, which may use the scores
        of the sample's other labels as well.
    called : matrix of bool
        Labels called; `evaluated` are those of them whose truth is known.
    truth, unknown, implied : matrices of bool
        Labels known to hold; pairs of unknown truth; those of them that hold because a descendant
        does. Without truth (`has_truth`), nothing is known to hold, and nothing is unknown.
    sets : CallSets, optional
        Sure and possible labels, if the model has been calibrated for them.
    weight : ndarray of shape (n_samples,), optional
        Weight of each sample in shares, means and curves, 1 on average.
    """

    model: HierLPR
    samples: tuple[str, ...]
    scores: Matrix
    own_lpr: Matrix
    lpr: Matrix
    block_score: Matrix
    called: Any
    truth: Any
    unknown: Any
    implied: Any
    sets: CallSets | None
    has_truth: bool
    weight: Float | None

    @property
    def hierarchy(self) -> Hierarchy:
        """The hierarchy of the labels."""
        return self.model.hierarchy_

    @property
    def evaluated(self) -> Any:
        """Labels called whose truth is known."""
        return self.called > self.unknown

    @property
    def level(self) -> Float:
        """Cutoff of every label."""
        return label_levels(self.model.cutoff_, self.hierarchy)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.samples)

    @property
    def is_dense(self) -> bool:
        """Whether every label has a score."""
        return isinstance(self.scores, np.ndarray)

    def instances(self, matrix: Matrix) -> tuple[Float, NDArray[np.bool_], NDArray[np.intp]]:
        """Return value, truth and sample of the instances that a matrix has and truth is known."""
        if isinstance(matrix, np.ndarray):
            is_used = ~(np.isnan(matrix) | self.unknown)
            return matrix[is_used], self.truth[is_used], np.nonzero(is_used)[0]
        sample, label = np.repeat(np.arange(self.n_samples), np.diff(matrix.indptr)), matrix.indices
        is_known = ~holds_at(self.unknown, sample, label)
        sample, label = sample[is_known], label[is_known]
        return matrix.data[is_known], holds_at(self.truth, sample, label), sample

    def curve(self, matrix: Matrix) -> HitCurve:
        """Return the hit curve by falling values; instances without a value are called last."""
        value, truth, sample = self.instances(matrix)
        each = np.ones(self.n_samples) if self.weight is None else self.weight
        n_known = self.hierarchy.n_labels - _by_sample(self.unknown)
        counts = np.stack([n_known, _by_sample(self.truth)]).astype(np.float64)
        total: Any = (*counts.sum(axis=1).tolist(), *(counts @ each).tolist())
        return HitCurve.of(truth, value, None if self.weight is None else each[sample], total)


def apply_model(
    model: HierLPR,
    scores: Any,
    truth: Any,
    *,
    is_truth_needed: bool = True,
    sample_weight: Any = None,
) -> ModelOutput:
    """Check and align the data, and let the model predict; samples of weight 0 are left out."""
    check_is_fitted(model)
    h = model.hierarchy_
    table = align(scores, h, name="scores", allow_leaves=True)
    if table.n_samples == 0:
        raise DataError("scores: there are no samples to report on.")
    has_truth = truth is not None or is_truth_needed
    y = truth if has_truth else sparse.csr_array((table.n_samples, h.n_labels), dtype=bool)
    options: dict[str, Any] = {"propagate_truth": model.propagate_truth, "is_first": False}
    samples = LabelledSamples.of(table, y, h, sample_weight=sample_weight, **options).used()
    table, weight = model.aligned_scores(samples.table), samples.weight
    truths = samples.truth.tocsr() if table.n_stored is not None else samples.truth.toarray()
    truths = truths.evaluated(h, weight)
    lpr = model.lprs(table)
    block_score = model.block_scores(table, lpr)
    nothing = block_score != block_score
    return ModelOutput(
        model=model,
        samples=table.samples or tuple(map(str, range(table.n_samples))),
        scores=table.values,
        own_lpr=own_lpr(model.lpr_, table.values, n_jobs=model.n_jobs),
        lpr=lpr.values,
        block_score=block_score,
        called=decide(block_score, model.cutoff_, h, lpr.values),
        truth=truths.positive,
        unknown=nothing if truths.unknown is None else truths.unknown,
        implied=nothing if truths.implied is None else truths.implied,
        sets=None if model.sets_ is None else model.sets_on(table, block_score),
        has_truth=has_truth,
        weight=None if weight is None else weight / weight.mean(),
    )


class Counts:
    """Calls, correct calls and positives, counted by sample and by label.

    Attributes
    ----------
    called, evaluated, hits, positives, unknown : ndarray of shape (n_samples,)
        Calls, calls whose truth is known, correct calls, true labels, labels of unknown truth.
    expected_hits : ndarray of shape (n_samples,)
        Sum of the block scores of the evaluated calls.
    sure, possible, false_sure, missed : ndarray of shape (n_samples,)
        Labels of the two sets; whether a sure label is false; whether a true one is not possible.
    by_label, weighted_by_label : dict of ndarray of shape (n_labels,)
        "calls", "hits", "positives" and "unknown".
    n_violations : int
        Labels called without a parent.
    """

    def __init__(self, output: ModelOutput) -> None:
        self.output, weight = output, output.weight
        called, truth, evaluated = output.called, output.truth, output.evaluated
        correct = called * truth
        names = ("calls", "hits", "positives", "unknown")
        matrices = dict(zip(names, (evaluated, correct, truth, output.unknown), strict=True))
        self.by_label = {name: sum_by_label(matrix) for name, matrix in matrices.items()}
        self.weighted_by_label: dict[str, Any] = self.by_label
        if weight is not None:
            self.weighted_by_label = {name: weight @ x for name, x in matrices.items()}
        self.called = _by_sample(called)
        self.evaluated, self.hits, self.positives, self.unknown = map(_by_sample, matrices.values())
        self.expected_hits = np.asarray((output.block_score * evaluated).sum(axis=1)).ravel()
        self.n_violations = int(output.hierarchy.close_upward(called).sum() - called.sum())
        self.sure, self.possible = np.zeros((2, output.n_samples), dtype=np.int64)
        self.false_sure, self.missed = np.zeros((2, output.n_samples), dtype=bool)
        if output.sets is not None:
            sure, possible = output.sets.sure, output.sets.possible
            self.sure, self.possible = _by_sample(sure), _by_sample(possible)
            self.false_sure = self.sure > _by_sample(sure * (truth + output.unknown))
            self.missed = self.positives > _by_sample(truth * possible)

    def total(self, by_sample: NDArray[Any]) -> float:
        """Add up samples by their weights."""
        weight = self.output.weight
        return float(by_sample.sum() if weight is None else by_sample @ weight)

    def share(self, part: NDArray[Any], whole: NDArray[Any]) -> float | None:
        """Return the weighted share of one count in another; None if that is 0."""
        total = self.total(whole)
        return self.total(part) / total if total else None

    @property
    def n_calls(self) -> int:
        """Number of calls whose truth is known."""
        return int(self.evaluated.sum())

    @property
    def n_hits(self) -> int:
        """Number of correct calls."""
        return int(self.hits.sum())

    @property
    def precision(self) -> float | None:
        """Weighted share of the calls that are correct."""
        return self.share(self.hits, self.evaluated)

    @property
    def recall(self) -> float | None:
        """Weighted share of the true labels that are called."""
        return self.share(self.hits, self.positives)

    @property
    def axis_end(self) -> int:
        """Where an axis of calls ends: beyond the calls that anybody would make."""
        wanted = max(3 * self.n_positives, round(1.5 * self.n_calls), 10)
        return max(1, min(wanted, self.n_instances))

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
    def reused(self) -> dict[str, str]:
        """How many samples were used for "fit", "cutoff" and "sets", if more than by chance."""
        used, scores = self.output.model.keys_, self.output.scores
        return {name: note for name, x in used.items() if (note := overlap_note(x.like(scores), x))}


class MethodCurve(NamedTuple):
    """The hit curve of one method with its areas, NaN without positives or negatives.

    `precision_at_cutoff` is the precision after as many calls as the model makes. `violations`
    counts the (sample, parent, child) triples that the method calls in the wrong order, None where
    that was not counted.
    """

    name: str
    curve: HitCurve
    au_prc: float
    hit_area: float
    precision_at_cutoff: float | None
    violations: int | None


class CalibrationCurve(NamedTuple):
    """Number, mean prediction and observed frequency of instances, in bins by rising prediction.

    `low` and `high` bound the frequency with about 95 % confidence; `error` is the mean absolute
    gap over all instances (ECE).
    """

    n: NDArray[np.int64]
    predicted: Float
    observed: Float
    low: Float
    high: Float
    error: float


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """Aggregates over the evaluated samples; without truth, nothing is compared with it.

    `curve` is the hit curve of the model's ranking. `methods` are the model, LPRs without the
    hierarchy, maxima over descendants, and raw scores. Each row of `tradeoffs` has a target, and
    the most calls, with their recall, at which the precision still reaches it.
    """

    output: ModelOutput
    counts: Counts
    curve: HitCurve
    tradeoffs: tuple[dict[str, Any], ...]
    methods: tuple[MethodCurve, ...] = ()
    calibration: CalibrationCurve | None = None
    block_calibration: CalibrationCurve | None = None


def summarize(output: ModelOutput) -> Summary:
    """Count calls and hits, and compare the model with simpler orders of the same instances."""
    counts, h = Counts(output), output.hierarchy
    n_calls, curve = counts.n_calls, output.curve(output.block_score)
    parts = output, counts, curve.thinned(MOST_CORNERS), _tradeoffs(curve, output.has_truth)
    if not output.has_truth:
        return Summary(*parts)
    largest = (propagate_max if output.is_dense else propagate_max_sparse)(output.scores, h)
    orders = {
        "HierLPR": output.block_score,
        "LPR alone": output.own_lpr,
        "Max-propagation": largest,
        "Raw scores": output.scores,
    }
    methods = []
    for name, matrix in orders.items():
        along = output.curve(matrix)
        sums, areas = along.sums(), (float("nan"), float("nan"))
        if 0 < sums.positives < sums.calls:
            areas = sums.au_prc(), sums.normalized_area()
        n_wrong = len(h.violations(matrix)) if output.is_dense else None
        row = along.thinned(MOST_CORNERS), *areas, along.precision_after(n_calls), n_wrong
        methods.append(MethodCurve(name, *row))
    pair = (calibration_curve(output, matrix) for matrix in (output.lpr, output.block_score))
    return Summary(*parts, tuple(methods), *pair)


def _tradeoffs(curve: HitCurve, has_truth: bool) -> tuple[dict[str, Any], ...]:
    """Return the most calls for each precision target; without truth, for the expected precision.

    Ties are never split.
    """
    precision, rows = curve.precision if has_truth else curve.mean_score, []
    for target in TARGETS:
        enough = np.flatnonzero(precision >= target - 1e-12)
        at = int(enough[-1]) if enough.size else -1
        row = {"target": target, "n_calls": int(curve.n_calls[at + 1])}
        rows.append({**row, "recall": float(curve.recall[at]) if at >= 0 else None})
    return tuple(rows)


def calibration_curve(output: ModelOutput, matrix: Matrix) -> CalibrationCurve:
    """Compare predictions with the truth in bins of equal width.

    The labels of one sample are dependent, so intervals count samples, not instances.
    """
    value, truth, sample = output.instances(matrix)
    weight, n = output.weight, output.n_samples
    cell = np.minimum((value * N_BINS).astype(np.intp), N_BINS - 1) * n + sample
    shape = (N_BINS, n)
    trials, hits, total = (
        np.bincount(cell, x, N_BINS * n).reshape(shape) for x in (None, truth, value)
    )
    used = np.flatnonzero(trials.any(axis=1))
    bounds = [share_interval(hits[b], trials[b], weight) for b in used]
    each = np.ones(n) if weight is None else weight
    size, n_hits, predicted = (x[used] @ each for x in (trials, hits, total))
    low, high = np.array(bounds).reshape(-1, 2).T
    error = float(np.abs(predicted - n_hits).sum() / max(size.sum(), 1e-300))
    counts = trials[used].sum(axis=1).astype(np.int64)
    return CalibrationCurve(counts, predicted / size, n_hits / size, low, high, error)


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


def _by_sample(matrix: Any) -> NDArray[np.int64]:
    """Count the labels of each sample."""
    return np.asarray(matrix.sum(axis=1), dtype=np.int64).ravel()
