"""Counts over samples, added up from the evidence about runs of them: by sample and by label."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix
from hierlpr.data.repeats import SampleKeys
from hierlpr.hierarchy.matrices import count_violations
from hierlpr.plots.evidence import Evidence, Study, both

Counts = NDArray[np.int64]


class Tally:
    """What a model called, and what of it is right, counted by sample and by label.

    `called`, `judged`, `hits`, `true` and `unknown` count by sample; `chance` adds the block scores
    of the judged calls. `sure` and `possible` count the labels of sets, and `false_sure` and
    `missed` tell of which samples something sure does not hold, or something true is not possible.
    `by_label` has calls, hits, positives and unknown truth of labels; `weighed_by_label` calls and
    hits by the weights of samples. `n_violations` are calls without a parent's. `is_dense` tells
    whether every label has a score.
    """

    def __init__(self, study: Study) -> None:
        n, n_labels = study.n_samples, study.hierarchy.n_labels
        self.study = study
        self.called, self.judged, self.hits, self.true, self.unknown, self.sure, self.possible = (
            np.zeros((7, n), dtype=np.int64)
        )
        self.false_sure, self.missed = np.zeros((2, n), dtype=bool)
        self.chance = np.zeros(n)
        names = ("calls", "hits", "positives", "unknown")
        self.by_label = {name: np.zeros(n_labels, dtype=np.int64) for name in names}
        self.weighed_by_label = {name: np.zeros(n_labels) for name in names[:2]}
        self.n_violations = 0
        self.is_dense = True
        self._keys: list[tuple[Any, Any]] = []

    def add(self, part: Evidence) -> None:
        """Count one more run of samples."""
        rows, hits = part.rows, part.hits
        counted = {"calls": part.judged, "hits": hits, "positives": part.truth}
        columns = (self.judged, self.hits, self.true)
        for column, matrix in zip(columns, counted.values(), strict=True):
            column[rows] = _by_sample(matrix)
        self.called[rows] = _by_sample(part.called)
        if part.unknown is not None:
            counted["unknown"] = part.unknown
            self.unknown[rows] = _by_sample(part.unknown)
        for name, matrix in counted.items():
            self.by_label[name] += _by_label(matrix)
        if part.weight is not None:
            for name, sums in self.weighed_by_label.items():
                sums += np.asarray(part.weight @ counted[name]).ravel()
        self.chance[rows] = _sum_of(part.block_score, part.judged)
        self.n_violations += violations_of(self.study, part.called)
        self.is_dense = isinstance(part.called, np.ndarray)
        self._keys.append(part.keys)
        if part.sets is not None:
            self._add_sets(part)

    def _add_sets(self, part: Evidence) -> None:
        rows, sets = part.rows, part.sets
        assert sets is not None
        may_hold = part.truth if part.unknown is None else part.truth + part.unknown
        self.sure[rows], self.possible[rows] = _by_sample(sets.sure), _by_sample(sets.possible)
        self.false_sure[rows] = self.sure[rows] > _by_sample(both(sets.sure, may_hold))
        self.missed[rows] = self.true[rows] > _by_sample(both(part.truth, sets.possible))

    def total(self, by_sample: NDArray[Any]) -> float:
        """Add up samples by their weights."""
        weight = self.study.weight
        return float(by_sample.sum() if weight is None else by_sample @ weight)

    def share(self, some: NDArray[Any], among: NDArray[Any]) -> float | None:
        """Return what share of one count another is, by the weights of samples; None of nothing."""
        part, whole = self.total(some), self.total(among)
        return part / whole if whole else None

    @property
    def n_instances(self) -> int:
        """Samples times labels, of which the truth is known."""
        return self.study.n_samples * self.study.hierarchy.n_labels - self.n_unknown

    @property
    def n_unknown(self) -> int:
        """Instances whose truth is unknown."""
        return int(self.unknown.sum())

    @property
    def n_positives(self) -> int:
        """Number of true instances."""
        return int(self.true.sum())

    @cached_property
    def seen(self) -> dict[str, str]:
        """Tell how many of the samples the model has learned from; see `ScoreModel.seen`."""
        keys = (np.concatenate(x) for x in zip(*self._keys, strict=True))
        return self.study.model.met(SampleKeys.of(*keys))


def violations_of(study: Study, calls: Matrix) -> int:
    """Count the (sample, parent, child) of which the child alone is called, or has more."""
    h = study.hierarchy
    if isinstance(calls, np.ndarray):
        return count_violations(h, calls)
    return int(h.close_upward(calls).nnz - calls.nnz)


def _by_sample(matrix: Any) -> Counts:
    return np.asarray(matrix.sum(axis=1)).ravel().astype(np.int64)


def _by_label(matrix: Any) -> Counts:
    return np.asarray(matrix.sum(axis=0)).ravel().astype(np.int64)


def _sum_of(values: Any, among: Any) -> NDArray[np.float64]:
    """Add up the values of some instances, by sample."""
    if not isinstance(values, np.ndarray):
        return np.asarray(values.multiply(among).sum(axis=1)).ravel()
    row = np.repeat(np.arange(values.shape[0]), np.count_nonzero(among, axis=1))
    return np.bincount(row, values[among], minlength=values.shape[0]).astype(np.float64)
