"""What a model gives for some samples, beside their truth: the data of all displays and reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from hierlpr._utils.checks import Matrix
from hierlpr.cutoff.decisions import decide, label_levels
from hierlpr.cutoff.instances import holds_at
from hierlpr.cutoff.sets import CallSets
from hierlpr.data.tables import align
from hierlpr.data.truth import align_truth
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr import own_lpr
from hierlpr.metrics.hits import HitCurve
from hierlpr.model.inputs import LabelledSamples

if TYPE_CHECKING:
    from hierlpr.model import HierLPR

Float = NDArray[np.float64]


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
        Labels called; `judged` are those of them whose truth is known.
    truth, unknown, implied : matrices of bool
        Labels known to hold; pairs of unknown truth; those of them that hold because a descendant
        does (None: all truth is known). Without truth (`has_truth`), nothing is known to hold.
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
    def judged(self) -> Any:
        """Labels called whose truth is known."""
        if self.unknown is None:
            return self.called
        return self.called != both(self.called, self.unknown)

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

    def instances(self, matrix: Matrix) -> KnownInstances:
        """List the instances of a matrix whose truth is known."""
        return known_instances(matrix, self.truth, self.unknown, self.weight)


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
    aligned: Any = None
    if truth is not None or is_truth_needed:
        options: dict[str, Any] = {"propagate_truth": model.propagate_truth, "is_first": False}
        aligned = align_truth(truth, h, table, **options)
    table, aligned, weight = LabelledSamples.of(table, aligned, sample_weight).used()
    table = model.aligned_scores(table)
    lpr = model.lprs(table)
    block_score = model.block_scores(table, lpr)
    positive, unknown, implied = block_score != block_score, None, None
    if aligned is not None:
        aligned = (aligned if table.n_stored is None else aligned.tocsr()).evaluated(h, weight)
        positive, unknown, implied = aligned.positive, aligned.unknown, aligned.implied
    return ModelOutput(
        model=model,
        samples=table.samples or tuple(map(str, range(table.n_samples))),
        scores=table.values,
        own_lpr=own_lpr(model.lpr_, table.values, n_jobs=model.n_jobs),
        lpr=lpr.values,
        block_score=block_score,
        called=decide(block_score, model.cutoff_, h, lpr.values),
        truth=positive,
        unknown=unknown,
        implied=implied,
        sets=None if model.sets_ is None else model.sets_on(table, block_score),
        has_truth=truth is not None,
        weight=None if weight is None else weight / weight.mean(),
    )


class KnownInstances(NamedTuple):
    """Instances that have a score and whose truth is known, as vectors.

    `total` gives the number of instances and of positives whose truth is known, scored or not, and
    their weights; instances without a score are called last.
    """

    score: Float
    truth: NDArray[np.bool_]
    sample: NDArray[np.integer[Any]]
    weight: Float | None
    total: tuple[float, float, float, float]

    def curve(self) -> HitCurve:
        """Return the hit curve by falling score."""
        return HitCurve.of(self.truth, self.score, self.weight, self.total)


def known_instances(
    matrix: Matrix, truth: Any, unknown: Any = None, weight: Float | None = None
) -> KnownInstances:
    """List the instances of a matrix with their truth, without those where it is unknown."""
    n_samples, n_labels = matrix.shape
    if isinstance(matrix, np.ndarray):
        score, positive = matrix.reshape(-1), np.asarray(truth).reshape(-1)
        sample = np.repeat(np.arange(n_samples, dtype=np.int32), n_labels)
        is_known = ~np.isnan(score)
        if unknown is not None:
            is_known &= ~np.asarray(unknown).reshape(-1)
    else:
        sample = np.repeat(np.arange(n_samples), np.diff(matrix.indptr))
        score, positive = matrix.data, holds_at(truth, sample, matrix.indices)
        is_known = np.ones(score.size, dtype=bool)
        if unknown is not None:
            is_known = ~holds_at(unknown, sample, matrix.indices)
    if not is_known.all():
        score, positive, sample = score[is_known], positive[is_known], sample[is_known]
    sizes = np.full(n_samples, n_labels) - (0 if unknown is None else sum_by_sample(unknown))
    counts = np.stack([sizes, sum_by_sample(truth)]).astype(np.float64)
    weighted = counts.sum(axis=1) if weight is None else counts @ weight
    total: Any = (*map(float, counts.sum(axis=1)), *map(float, weighted))
    return KnownInstances(
        score, positive, sample, None if weight is None else weight[sample], total
    )


def both(some: Any, others: Any) -> Any:
    """Return the pairs that are in both of two bool matrices."""
    return some & others if isinstance(some, np.ndarray) else some.multiply(others)


def sum_by_sample(matrix: Any) -> NDArray[np.int64]:
    """Count the labels of each sample."""
    return np.asarray(matrix.sum(axis=1)).ravel().astype(np.int64)
