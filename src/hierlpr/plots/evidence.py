"""What a report is made from: a model's scores, blocks and calls for samples, and the truth.

A `Study` has scores and truth of all samples, checked once. What the model makes of them comes as
`Evidence` about a run of samples at a time, so that no more than that is ever held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix
from hierlpr._base.order_free import near_keys, row_keys
from hierlpr.cutoff.by_group import label_levels
from hierlpr.cutoff.decisions import decide
from hierlpr.cutoff.sets import CallSets
from hierlpr.data.partial_truth import PartialTruth, align_known
from hierlpr.data.tables import Table, align, align_labels, dense, growth, match_rows
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr import predict_known, without_gaps
from hierlpr.model.given_tables import new_scores, weighed
from hierlpr.ranking.blocks import consistent_scores

if TYPE_CHECKING:
    from hierlpr.model import ScoreModel

PART = 1 << 21  # instances that are looked at together


@runtime_checkable
class SampleSource(Protocol):
    """Scores of samples that are taken some at a time, wherever they lie, as from a `Table`."""

    @property
    def n_samples(self) -> int:
        """Number of samples."""

    @property
    def n_stored(self) -> int | None:
        """Number of listed scores, None where every label has one."""

    @property
    def samples(self) -> tuple[str, ...] | None:
        """Names of the samples."""

    def rows(self, rows: NDArray[np.intp]) -> Table:
        """Return some of the samples, by rising number."""


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """A model, and samples to judge it on: the `picked` rows of `scores`.

    `truth` holds what is true, `unknown` what may be (None: nothing is unknown); without truth
    (`has_truth`) nothing is known to be true, and nothing may be counted as wrong. `samples` are
    names (numbers if there are none), `level` is the level of each label. `weight` says how much
    each sample counts in shares, curves and means, 1 on average; None: all alike. Work files go to
    `folder`, by default that of the system.
    """

    model: ScoreModel
    scores: SampleSource
    picked: NDArray[np.intp]
    samples: tuple[str, ...]
    truth: Any
    unknown: Any
    level: NDArray[np.float64]
    has_truth: bool = True
    weight: NDArray[np.float64] | None = None
    folder: Any = None

    @property
    def hierarchy(self) -> Hierarchy:
        """The labels."""
        return self.model.hierarchy_

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.picked.size

    @property
    def n_listed(self) -> int:
        """About how many instances have a score, or are above one that has."""
        stored, n_labels = self.scores.n_stored, self.hierarchy.n_labels
        most = self.n_samples * n_labels
        return most if stored is None else min(most, stored * growth(self.hierarchy))

    def runs(self) -> Iterator[NDArray[np.intp]]:
        """Part the samples into runs that are looked at together."""
        step = max(1, PART * self.n_samples // max(1, self.n_listed))
        for start in range(0, self.n_samples, step):
            yield np.arange(start, min(start + step, self.n_samples))

    def table(self, rows: NDArray[np.intp]) -> Table:
        """Return the scores of some samples."""
        table = self.scores.rows(self.picked[rows])
        if isinstance(self.scores, Table):
            return table  # checked as a whole
        return new_scores(table, self.hierarchy, self.model.kind_, missing=self.model.missing)

    def held(self, rows: NDArray[np.intp], like: Matrix) -> tuple[Any, Any]:
        """Return what is true, and what is unknown, of some samples, in the layout of a matrix."""
        if not self.has_truth:
            return like != like, None  # nothing, in the same layout
        parts = (None if x is None else x[rows] for x in (self.truth, self.unknown))
        truth, unknown = parts if not isinstance(like, np.ndarray) else map(_dense, parts)
        return truth, unknown

    def take(self, rows: NDArray[np.intp]) -> Evidence:
        """Let the model do its work on some samples."""
        model, h, table = self.model, self.hierarchy, self.table(rows)
        known = predict_known(model.lpr_, table.values, n_threads=model.n_threads)
        lpr = model.lprs(table, known)
        if not isinstance(lpr.values, np.ndarray):
            lpr.values.sort_indices()
        block_score = consistent_scores(lpr, h, n_threads=model.n_threads)
        called = decide(block_score, model.cutoff_, h)
        truth, unknown = self.held(rows, block_score)
        judged = called
        if unknown is not None:
            is_dense = isinstance(called, np.ndarray)
            judged = called & ~unknown if is_dense else called != called.multiply(unknown)
        sets = None
        if model.sets_ is not None:
            sets = model.sets_of(table, model.sets_, block_score)
        return Evidence(
            rows=rows,
            scores=table.values,
            truth=truth,
            unknown=unknown,
            own_lpr=without_gaps(model.lpr_, known),
            lpr=lpr.values,
            block_score=block_score,
            called=called,
            judged=judged,
            keys=(row_keys(table.values), near_keys(table.values)),
            sets=sets,
            weight=None if self.weight is None else self.weight[rows],
        )


def _dense(matrix: Any) -> Any:
    return None if matrix is None else dense(matrix)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """One row for each of some samples, one column per label in every matrix; CSR if scores are.

    `own_lpr` is P(label | its own score); `lpr` is what was ranked, which may use the scores of the
    sample's other labels as well. Pairs whose truth is `unknown` (None: nothing is) hold
    neither in `truth` nor count in what is made of it; `judged` are the calls that can be judged.
    `sets` are the sure and possible labels, if the model knows about them, `keys` by which the
    samples are known again.
    """

    rows: NDArray[np.intp]
    scores: Matrix
    truth: Any
    unknown: Any
    own_lpr: Matrix
    lpr: Matrix
    block_score: Matrix
    called: Any
    judged: Any
    keys: tuple[NDArray[np.uint64], NDArray[np.uint64]]
    sets: CallSets | None
    weight: NDArray[np.float64] | None

    def pool(self, matrix: Matrix) -> Pool:
        """List the instances of a matrix whose truth is known."""
        return pool(matrix, self.truth, self.unknown, self.weight)

    @property
    def hits(self) -> Any:
        """Calls that are right."""
        return both(self.called, self.truth)

    def some(self, at: NDArray[np.intp]) -> Evidence:
        """Return what there is about some of the samples, by their place here."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        sets, keys = parts.pop("sets"), parts.pop("keys")
        if sets is not None:
            names = sets.samples and tuple(sets.samples[i] for i in at)
            sets = replace(sets, sure=sets.sure[at], possible=sets.possible[at], samples=names)
        picked: dict[str, Any] = {k: None if x is None else x[at] for k, x in parts.items()}
        return Evidence(**picked, keys=(keys[0][at], keys[1][at]), sets=sets)


def collect_evidence(
    model: ScoreModel,
    scores: Any,
    truth: Any,
    *,
    is_truth_needed: bool = True,
    sample_weight: Any = None,
    folder: Any = None,
) -> Study:
    """Check and align the data; `scores` may be a `SampleSource`. Samples of weight 0 are left out.

    Truth that is given sparse stays so.
    """
    model.check_fitted()
    h = model.hierarchy_
    is_source = not isinstance(scores, Table) and isinstance(scores, SampleSource)
    table: Any = scores if is_source else align(scores, h, name="scores")
    if table.n_samples == 0:
        raise DataError("scores: there are no samples to report on.")
    known = None
    if truth is not None or is_truth_needed:
        known = match_rows(align_labels(truth, h, name="truth"), table)
    rows, weight = weighed(sample_weight, table.n_samples)
    if known is not None:
        known = known.rows(rows)
    if isinstance(table, Table):
        table = new_scores(table, h, model.kind_, missing=model.missing)
    held = unknown = None
    if known is not None:
        beside = table.values if isinstance(known.values, np.ndarray) else known.values
        held = align_known(beside, known, h, close=model.close_truth)
        if isinstance(held, PartialTruth):
            held, unknown = held.held, held.unknown
    names = table.samples
    return Study(
        model=model,
        scores=table,
        picked=rows,
        samples=tuple(str(k) if names is None else names[i] for k, i in enumerate(rows.tolist())),
        truth=held,
        unknown=unknown,
        level=label_levels(model.cutoff_, h),
        has_truth=truth is not None,
        weight=None if weight is None else weight / weight.mean(),
        folder=folder,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Listed instances of some samples in one line: value, truth, and where they stand.

    `at` is the place of each in the matrix, row by row; None: all of it is listed. Of sparse
    matrices the stored ones are; `n_instances` and `n_positives` count all. Instances that
    are not listed come last in every order. `weight` is that of each listed one's sample, with what
    all instances and all positives weigh in `weighed`; None: they are counted.
    """

    value: NDArray[np.float64]
    truth: NDArray[np.bool_]
    at: NDArray[np.intp] | None
    shape: tuple[int, int]
    n_instances: int
    n_positives: int
    weight: NDArray[np.float64] | None = None
    weighed: tuple[float, float] = (0.0, 0.0)


def pool(
    matrix: Matrix, truth: Any, unknown: Any = None, weight: NDArray[np.float64] | None = None
) -> Pool:
    """List the instances of a matrix with their truth, but for those where it is unknown."""
    n_samples, n_labels = shape = matrix.shape
    at = None
    if isinstance(matrix, np.ndarray):
        value, held = matrix.reshape(-1), np.asarray(truth).reshape(-1)
        # A missing score tells nothing: its instance is not listed. A sum shows whether any is.
        if unknown is not None or np.isnan(value.sum()):
            known = ~np.isnan(value)
            if unknown is not None:
                known &= ~np.asarray(unknown).reshape(-1)
            at = np.flatnonzero(known)
            value, held = value[at], held[at]
    else:
        sample = np.repeat(np.arange(n_samples), np.diff(matrix.indptr))
        label = matrix.indices.astype(np.intp)
        value, held = matrix.data, np.asarray(truth[sample, label]).ravel().astype(bool)
        at = sample * n_labels + label
        if unknown is not None:
            kept = ~np.asarray(unknown[sample, label]).ravel().astype(bool)
            value, held, at = value[kept], held[kept], at[kept]
    by_sample = np.full(n_samples, n_labels, dtype=np.int64)
    if unknown is not None:
        by_sample -= np.asarray(unknown.sum(axis=1)).ravel().astype(np.int64)
    positives = np.asarray(truth.sum(axis=1)).ravel()
    counts = int(by_sample.sum()), int(positives.sum())
    if weight is None:
        return Pool(value, held, at, shape, *counts)
    totals = float(by_sample @ weight), float(positives @ weight)
    own = np.repeat(weight, n_labels) if at is None else weight[at // max(1, n_labels)]
    return Pool(value, held, at, shape, *counts, weight=own, weighed=totals)


def both(some: Any, others: Any) -> Any:
    """Return the pairs that are in both of two matrices."""
    return some & others if isinstance(some, np.ndarray) else some.multiply(others)
