"""Evaluate a ranking of any size: rows sorted by sample, then measures along the list.

The measures are those of `hierlpr.metrics.evaluation`. In memory are the truth as sets of labels
and a few bytes per row of the ranking.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import check_sample_weight, effective_number
from hierlpr.data.truth import Truth
from hierlpr.io import ReadReport, ReadTable, open_table, read_ranking
from hierlpr.io.auxiliary_tables import Weights
from hierlpr.io.read_tables import match_samples
from hierlpr.metrics.evaluation import (
    Evaluation,
    Rows,
    SampleSums,
    evaluate_ranking,
    listed_groups,
    score_groups,
)
from hierlpr.outofcore.batches import (
    RunOptions,
    as_hierarchy_file,
    read_sample_weights,
)
from hierlpr.outofcore.names import NameNumbers
from hierlpr.outofcore.resources import (
    EVALUATE_BYTES,
    estimate_rows,
    sorted_rows,
    whole_samples,
)

_ROW_SCHEMA = pa.schema(
    {
        "sample": pa.int64(),
        "key": pa.float64(),
        "row": pa.int64(),
        "label": pa.int32(),
        "score": pa.float64(),
        "call": pa.bool_(),
    }
)


class EvaluateOutcome(NamedTuple):
    """An evaluation and what was read."""

    evaluation: Evaluation
    reports: tuple[ReadReport, ...]
    notes: tuple[str, ...]


class _Matched(NamedTuple):
    """Truth of all samples that count, and where the samples of a ranking are in it (-1: out)."""

    row: NDArray[np.int64]
    truth: Truth
    names: list[str]
    notes: list[str]


def evaluate_file(
    ranking: AnyPath,
    truth: AnyPath,
    hierarchy: Any,
    *,
    weights: AnyPath | None = None,
    **options: Any,
) -> EvaluateOutcome:
    """Measure a ranking against the truth.

    Parameters
    ----------
    ranking : path
        A file that `rank_file` or `hierlpr.io.write_ranking` wrote, or CAFA predictions.
    truth : path
        As in `fit_file`.
    hierarchy : path, HierarchyFile or Hierarchy
        As in `fit_file`.
    weights : path, optional
        As in `fit_file`. Weights count in shares and means; sizes and counts are unweighted.
    **options
        As in `fit_file`.
    """
    loaded = as_hierarchy_file(hierarchy)
    run = RunOptions(hierarchy=loaded.hierarchy, **{"aliases": loaded.aliases, **options})
    weights_file = read_sample_weights(weights, run)
    path = os.fspath(ranking)
    run.on_progress("reading", 0, 1)
    labelled = run.truth(os.fspath(truth))
    if not run.fits(estimate_rows(path) * EVALUATE_BYTES):
        return _Streamed(path, labelled, run, weights_file).outcome()
    ranked = read_ranking(path, run.hierarchy, aliases=run.aliases, lenient=run.lenient)
    matched = _match(ranked.samples, labelled, run, path)
    row = matched.row[ranked.sample]
    is_evaluated: Any = row >= 0
    is_evaluated = slice(None) if is_evaluated.all() else is_evaluated
    run.on_progress("measuring", 0, len(ranked))
    evaluation = evaluate_ranking(
        row[is_evaluated],
        ranked.label[is_evaluated],
        ranked.score[is_evaluated],
        matched.truth,
        run.hierarchy,
        ordered=ranked.lpr is not None,
        call=None if ranked.call is None else ranked.call[is_evaluated],
        sample_weight=weights_file and weights_file.match(matched.names, f"{truth} and {ranking}"),
    )
    reports = (ranked.report, labelled.report, *([weights_file.report] if weights_file else []))
    return EvaluateOutcome(evaluation, reports, tuple(matched.notes))


def _match(
    samples: tuple[str, ...], labelled: ReadTable, options: RunOptions, source: str
) -> _Matched:
    """Find the samples of a ranking in the truth; those it lacks get no label or are left out."""
    row, is_negative, notes = match_samples(
        samples, labelled, missing_truth=options.missing_truth, source=source, word="ranked"
    )
    names, truth = list(labelled.samples), labelled.table.values
    unlisted = len(set(names) - set(samples))
    lost = np.flatnonzero(row < 0)
    if lost.size and is_negative:
        row[lost] = len(names) + np.arange(lost.size)
        truth = sparse.vstack([truth, sparse.csr_array((lost.size, truth.shape[1]))])
        names += [samples[i] for i in lost.tolist()]
    if unlisted:
        notes.append(
            f"{unlisted:,} samples with truth are not in the ranking; their labels count as not "
            "called"
        )
    return _Matched(row, Truth.of(truth, options.hierarchy).tocsr(), names, notes)


class _Streamed:
    """An evaluation of a ranking that does not fit into memory."""

    def __init__(
        self,
        path: str,
        labelled: ReadTable,
        options: RunOptions,
        weights: Weights | None,
    ) -> None:
        self._labelled, self._options, self._weights = labelled, options, weights
        self._path = path
        self._file = open_table(
            path, "ranking", options.hierarchy, aliases=options.aliases, lenient=options.lenient
        )
        self._is_ordered = self._has_calls = False
        self._numbers, self._samples = NameNumbers(), ()
        self._key: list[NDArray[np.float64]] = []  # rank or falling score of every row
        self._n_rows = self._n_again = 0

    def outcome(self) -> EvaluateOutcome:
        """Read the ranking once, sorted by sample, and measure it."""
        by = "sample, key, row"
        options, numbers = self._options, self._numbers
        ordered = sorted_rows(self._rows(), _ROW_SCHEMA, by, options, lambda: numbers.n_bytes)
        with closing(ordered) as rows:
            return self._outcome(whole_samples(rows, self._options.batch_instances))

    def _outcome(self, batches: Iterator[dict[str, NDArray[Any]]]) -> EvaluateOutcome:
        first = next(batches, None)
        if first is None:
            raise self._file.no_rows_error()
        self._samples = tuple(self._numbers.release().to_pylist())
        matched = _match(self._samples, self._labelled, self._options, self._path)
        truth = matched.truth
        source = f"{self._labelled.report.path} and {self._path}"
        read = self._weights and self._weights.match(matched.names, source)
        weight = None if read is None else check_sample_weight(read, len(matched.names))
        sums, signed = self._measure(first, batches, matched.row, truth, weight)
        key = np.concatenate(self._key)
        if not self._is_ordered:
            groups = score_groups(-key, signed)
        elif (np.diff(key) > 0).all():
            groups = listed_groups(signed)
        else:
            groups = listed_groups(signed[np.argsort(key)])
        evaluation = sums.evaluation(*groups, None if weight is None else effective_number(weight))
        n_rows = self._n_rows - self._n_again
        report = self._file.log.complete(rows=n_rows, samples=len(self._samples))
        reports = [report, self._labelled.report]
        reports += [self._weights.report] if self._weights else []
        return EvaluateOutcome(evaluation, tuple(reports), tuple(matched.notes))

    def _rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the ranking with numbers in place of names."""
        total = estimate_rows(self._path)
        for rows in self._file.batches():
            batch = rows.filter(pc.greater_equal(rows.column("label"), 0))
            columns = set(batch.schema.names)
            # With LPRs it is a ranking, whose order counts among equal scores.
            self._is_ordered, self._has_calls = "lpr" in columns, "call" in columns
            score, n = batch.column("value").to_numpy(), len(batch)
            key = batch.column("rank").to_numpy() if "rank" in columns else -score
            self._key.append(key)
            call = batch.column("call").to_numpy() != 0 if self._has_calls else np.ones(n, bool)
            row = np.arange(self._n_rows, self._n_rows + n)
            sample = self._numbers.numbers(batch.column("sample"))
            label = batch.column("label")
            arrays = [pa.array(sample), pa.array(key), pa.array(row), label, pa.array(score)]
            arrays.append(pa.array(call))
            self._n_rows += n
            self._options.on_progress("reading", self._n_rows, max(self._n_rows, total))
            yield pa.RecordBatch.from_arrays(arrays, schema=_ROW_SCHEMA)

    def _measure(
        self,
        first: dict[str, NDArray[Any]],
        batches: Iterator[dict[str, NDArray[Any]]],
        row_of: NDArray[np.int64],
        truth: Truth,
        weight: NDArray[np.float64] | None,
    ) -> tuple[SampleSums, NDArray[Any]]:
        """Add up the measures of samples; also return the signed weight of each row."""
        sums = SampleSums(truth, self._options.hierarchy, weight, has_calls=self._has_calls)
        signed = np.zeros(self._n_rows, dtype=np.int8 if weight is None else np.float64)
        is_ranked = np.zeros(truth.shape[0], dtype=bool)
        done = 0
        for batch in chain((first,), batches):
            once = self._first_of_pairs(batch)
            batch = {name: column[once] for name, column in batch.items()}
            is_evaluated = row_of[batch["sample"]] >= 0
            rows = row_of[batch["sample"][is_evaluated]]
            samples, sample = np.unique(rows, return_inverse=True)
            is_ranked[samples] = True
            call = batch["call"][is_evaluated] if self._has_calls else None
            listed = Rows(sample, batch["label"][is_evaluated], batch["score"][is_evaluated], call)
            counts = None if weight is None else weight[samples]
            signed[batch["row"][is_evaluated]] = sums.add(listed, truth[samples], counts)
            done += batch["row"].size
            self._options.on_progress("measuring", done, self._n_rows)
        rest = np.flatnonzero(~is_ranked)  # samples that the ranking does not list
        if rest.size:
            nothing = Rows(np.empty(0, int), np.empty(0, int), np.empty(0), None)
            if self._has_calls:
                nothing = nothing._replace(call=np.empty(0, dtype=bool))
            sums.add(nothing, truth[rest], None if weight is None else weight[rest])
        return sums, signed

    def _first_of_pairs(self, batch: dict[str, NDArray[Any]]) -> Any:
        """Return which rows are the first of their pair; repeated pairs are reported."""
        sample, label = batch["sample"], batch["label"]
        pairs = sample * self._options.hierarchy.n_labels + label
        first = np.unique(pairs, return_index=True)[1]
        if first.size == pairs.size:
            return slice(None)
        again = np.ones(pairs.size, dtype=bool)
        again[first] = False
        at = int(np.argmax(again))
        self._n_again += int(again.sum())
        pair = self._samples[sample[at]], self._file.labels[label[at]]
        self._file.report_repeated_pairs(int(again.sum()), *pair)
        return ~again
