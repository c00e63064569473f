"""What a report is made from: a model's scores, blocks and calls for some samples, and the truth.

Everything is computed once here; the other modules of the report only count and draw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix
from hierlpr.cutoff.by_group import label_levels
from hierlpr.cutoff.decisions import decide
from hierlpr.cutoff.sets import CallSets
from hierlpr.data.partial_truth import PartialTruth, align_known
from hierlpr.data.tables import align, align_labels, match_rows
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr import own_lpr
from hierlpr.model.given_tables import weighed

if TYPE_CHECKING:
    from hierlpr.model import ScoreModel


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """One row per sample, one column per label in every matrix; CSR if the scores are.

    `own_lpr` is P(label | its own score); `lpr` is what was ranked, which may use the scores of the
    sample's other labels as well. `level` is the level of each label, `samples` the names of the
    rows (numbers if they have none), and `seen` tells how many of the samples the model has
    learned from, see `ScoreModel.seen`. Without truth (`has_truth`) nothing is known to be true,
    and nothing may be counted as wrong. Pairs whose truth is `unknown` (None: nothing is) hold
    neither in `truth` nor count in what is made of it; `judged` are the calls that can be judged.
    `sets` are the sure and possible labels, if the model knows about them. `weight` says how much
    each sample counts in shares, curves and means, 1 on average; None: all alike.
    """

    model: ScoreModel
    hierarchy: Hierarchy
    samples: tuple[str, ...]
    scores: Matrix
    truth: Any
    own_lpr: Matrix
    lpr: Matrix
    block_score: Matrix
    called: Any
    judged: Any
    unknown: Any
    level: NDArray[np.float64]
    seen: dict[str, str]
    has_truth: bool = True
    sets: CallSets | None = None
    weight: NDArray[np.float64] | None = None

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.scores.shape[0])

    @property
    def n_instances(self) -> int:
        """Samples times labels, of which the truth is known."""
        return self.n_samples * self.hierarchy.n_labels - self.n_unknown

    @property
    def n_unknown(self) -> int:
        """Instances whose truth is unknown."""
        return 0 if self.unknown is None else int(self.unknown.sum())

    def pool(self, matrix: Matrix) -> Pool:
        """List the instances of a matrix whose truth is known."""
        return pool(matrix, self.truth, self.unknown, self.weight)

    def share(self, some: Any, among: Any) -> float | None:
        """Return the share of the pairs in one matrix that is in another too; None of nothing."""
        part, whole = (self.total(x) for x in (both(some, among), among))
        return part / whole if whole else None

    def total(self, matrix: Any) -> float:
        """Add up a matrix, its samples by their weights."""
        by_sample = np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()
        return float(by_sample.sum() if self.weight is None else by_sample @ self.weight)

    @property
    def hits(self) -> Any:
        """Calls that are right."""
        return both(self.called, self.truth)

    @property
    def n_positives(self) -> int:
        """Number of true instances."""
        return int(self.truth.sum())


def collect_evidence(
    model: ScoreModel,
    scores: Any,
    truth: Any,
    *,
    is_truth_needed: bool = True,
    sample_weight: Any = None,
) -> Evidence:
    """Check and align the data, and let the model do its work on them.

    Samples of weight 0 are left out.
    """
    model.check_fitted()
    h = model.hierarchy_
    table = align(scores, h, name="scores")
    if table.n_samples == 0:
        raise DataError("scores: there are no samples to report on.")
    known = None
    if truth is not None or is_truth_needed:
        known = match_rows(align_labels(truth, h, name="truth"), table)
    rows, weight = weighed(sample_weight, table.n_samples)
    if rows.size < table.n_samples:
        table, known = table.rows(rows), None if known is None else known.rows(rows)
    block_score = model.block_scores(table)
    called = decide(block_score, model.cutoff_, h)
    held: Any
    if known is None:
        held = called != called  # nothing, in the same layout
    else:
        held = align_known(table.values, known, h, close=model.close_truth)
    judged, unknown = called, None
    if isinstance(held, PartialTruth):
        held, unknown = held.held, held.unknown
        is_dense = isinstance(called, np.ndarray)
        judged = called & ~unknown if is_dense else called != called.multiply(unknown)
    return Evidence(
        model=model,
        hierarchy=h,
        samples=table.samples or tuple(str(i) for i in range(table.n_samples)),
        scores=table.values,
        truth=held,
        own_lpr=own_lpr(model.lpr_, table.values),
        lpr=model.transform(table),
        block_score=block_score,
        called=called,
        judged=judged,
        unknown=unknown,
        level=label_levels(model.cutoff_, h),
        seen=model.seen(table),
        has_truth=truth is not None,
        sets=None if model.sets_ is None else model.predict_sets(table),
        weight=None if weight is None else weight / weight.mean(),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Listed instances of all samples in one line: value, truth, sample and label.

    Of sparse matrices the stored ones; `n_instances` and `n_positives` count all. Instances that
    are not listed come last in every order. `weight` is that of each listed one's sample, with what
    all instances and all positives weigh in `weighed`; None: they are counted.
    """

    value: NDArray[np.float64]
    truth: NDArray[np.bool_]
    sample: NDArray[np.intp]
    label: NDArray[np.intp]
    n_instances: int
    n_positives: int
    weight: NDArray[np.float64] | None = None
    weighed: tuple[float, float] = (0.0, 0.0)


def pool(
    matrix: Matrix, truth: Any, unknown: Any = None, weight: NDArray[np.float64] | None = None
) -> Pool:
    """List the instances of a matrix with their truth, but for those where it is unknown."""
    n_samples, n_labels = matrix.shape
    if isinstance(matrix, np.ndarray):
        sample, label = np.divmod(np.arange(matrix.size), n_labels)
        value, held = matrix.ravel(), np.asarray(truth).ravel()
        known = ~np.isnan(value)
        if not known.all():  # a missing score tells nothing: its instance is not listed
            value, held, sample, label = (x[known] for x in (value, held, sample, label))
    else:
        sample = np.repeat(np.arange(n_samples), np.diff(matrix.indptr))
        label = matrix.indices.astype(np.intp)
        value, held = matrix.data, np.asarray(truth[sample, label]).ravel().astype(bool)
    n_instances = n_samples * n_labels
    if unknown is not None:
        kept = ~np.asarray(unknown[sample, label]).ravel().astype(bool)
        value, held, sample, label = value[kept], held[kept], sample[kept], label[kept]
        n_instances -= int(unknown.sum())
    found = Pool(value, held, sample, label, n_instances, int(truth.sum()))
    if weight is None:
        return found
    by_sample = np.full(n_samples, float(n_labels))
    if unknown is not None:
        by_sample -= np.asarray(unknown.sum(axis=1)).ravel()
    positives = np.asarray(truth.sum(axis=1)).ravel()
    weighed = float(by_sample @ weight), float(positives @ weight)
    return replace(found, weight=weight[sample], weighed=weighed)


def both(some: Any, others: Any) -> Any:
    """Return the pairs that are in both of two matrices."""
    return some & others if isinstance(some, np.ndarray) else some.multiply(others)
