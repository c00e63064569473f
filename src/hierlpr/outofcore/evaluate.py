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
from hierlpr.data.label_sets import LabelSets
from hierlpr.data.partial_truth import implied_share
from hierlpr.io import ReadReport, ReadTable, open_table, read_ranking
from hierlpr.io.auxiliary_tables import Weights
from hierlpr.io.read_tables import match_samples
from hierlpr.metrics.cafa import accretion_of
from hierlpr.metrics.evaluation import (
    Evaluation,
    Rows,
    SampleSums,
    evaluate_ranking,
    listed_groups,
    score_groups,
)
from hierlpr.outofcore.batches import (
    ReadOptions,
    as_hierarchy_file,
    number_samples,
    read_sample_weights,
    split_options,
)
from hierlpr.outofcore.resources import (
    EVALUATE_BYTES,
    ExecutionOptions,
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
    sets: LabelSets
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
    given = {"aliases": loaded.aliases, **options}
    reading, execution = split_options(loaded.hierarchy, given)
    weighing = read_sample_weights(weights, reading)
    path = os.fspath(ranking)
    execution.on_progress("reading", 0, 1)
    known = reading.truth(os.fspath(truth))
    if not execution.fits(estimate_rows(path) * EVALUATE_BYTES):
        return _Streamed(path, known, reading, execution, weighing).outcome()
    ranked = read_ranking(path, reading.hierarchy, aliases=reading.aliases, lenient=reading.lenient)
    found = _match(ranked.samples, known, reading, path)
    row = found.row[ranked.sample]
    keep: Any = row >= 0
    keep = slice(None) if keep.all() else keep
    execution.on_progress("measuring", 0, len(ranked))
    evaluation = evaluate_ranking(
        row[keep],
        ranked.label[keep],
        ranked.score[keep],
        found.sets,
        reading.hierarchy,
        ordered=ranked.lpr is not None,
        call=None if ranked.call is None else ranked.call[keep],
        sample_weight=weighing and weighing.match(found.names, f"{truth} and {ranking}"),
    )
    reports = (ranked.report, known.report, *([weighing.report] if weighing else []))
    return EvaluateOutcome(evaluation, reports, tuple(found.notes))


def _match(
    samples: tuple[str, ...], known: ReadTable, reading: ReadOptions, source: str
) -> _Matched:
    """Find the samples of a ranking in the truth; those it lacks get no label or are left out."""
    row, is_negative, found = match_samples(
        samples, known, missing_truth=reading.missing_truth, source=source, word="ranked"
    )
    notes, names, truth = list(found), list(known.samples), known.table.values
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
    return _Matched(row, LabelSets.of(truth), names, notes)


class _Streamed:
    """An evaluation of a ranking that does not fit into memory."""

    def __init__(
        self,
        path: str,
        known: ReadTable,
        reading: ReadOptions,
        execution: ExecutionOptions,
        weights: Weights | None,
    ) -> None:
        self._known, self._reading, self._execution = known, reading, execution
        self._weights, self._path = weights, path
        self._file = open_table(
            path,
            "ranking",
            reading.hierarchy,
            aliases=reading.aliases,
            lenient=reading.lenient,
        )
        self._is_ordered = self._has_calls = False
        self._samples: dict[str, int] = {}  # in order of appearance
        self._key: list[NDArray[np.float64]] = []  # rank or falling score of every row
        self._n_rows = self._n_again = 0

    def outcome(self) -> EvaluateOutcome:
        """Read the ranking once, sorted by sample, and measure it."""
        by = "sample, key, row"
        with closing(sorted_rows(self._rows(), _ROW_SCHEMA, by, self._execution)) as rows:
            return self._outcome(whole_samples(rows, self._execution.batch_instances))

    def _outcome(self, batches: Iterator[dict[str, NDArray[Any]]]) -> EvaluateOutcome:
        first = next(batches, None)
        if first is None:
            raise self._file.no_rows_error()
        found = _match(tuple(self._samples), self._known, self._reading, self._path)
        truth = (
            found.sets if found.sets.open is None else found.sets.closed(self._reading.hierarchy)
        )
        source = f"{self._known.report.path} and {self._path}"
        given = self._weights and self._weights.match(found.names, source)
        weight = None if given is None else check_sample_weight(given, len(found.names))
        sums, signed = self._measure(first, batches, found.row, truth, weight)
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
        own = [self._weights.report] if self._weights else []
        return EvaluateOutcome(evaluation, (report, self._known.report, *own), tuple(found.notes))

    def _rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the ranking with numbers in place of names."""
        total = estimate_rows(self._path)
        for given in self._file.batches():
            batch = given.filter(pc.greater_equal(given.column("label"), 0))
            columns = set(batch.schema.names)
            # With LPRs it is a ranking, whose order counts among equal scores.
            self._is_ordered, self._has_calls = "lpr" in columns, "call" in columns
            score, n = batch.column("value").to_numpy(), len(batch)
            key = batch.column("rank").to_numpy() if "rank" in columns else -score
            self._key.append(key)
            call = batch.column("call").to_numpy() != 0 if self._has_calls else np.ones(n, bool)
            row = np.arange(self._n_rows, self._n_rows + n)
            sample = number_samples(batch.column("sample"), self._samples)
            label = batch.column("label")
            arrays = [pa.array(sample), pa.array(key), pa.array(row), label, pa.array(score)]
            arrays.append(pa.array(call))
            self._n_rows += n
            self._execution.on_progress("reading", self._n_rows, max(self._n_rows, total))
            yield pa.RecordBatch.from_arrays(arrays, schema=_ROW_SCHEMA)

    def _measure(
        self,
        first: dict[str, NDArray[Any]],
        batches: Iterator[dict[str, NDArray[Any]]],
        place: NDArray[np.int64],
        truth: LabelSets,
        weight: NDArray[np.float64] | None,
    ) -> tuple[SampleSums, NDArray[Any]]:
        """Add up the measures of samples; also return the signed weight of each row."""
        h = self._reading.hierarchy
        accretion = accretion_of(truth, h, weight)
        share = 0.0 if truth.open is None else implied_share(truth, h, weight)
        sums = SampleSums(h, accretion, has_calls=self._has_calls, share=share)
        signed = np.zeros(self._n_rows, dtype=np.int8 if weight is None else np.float64)
        is_ranked = np.zeros(truth.shape[0], dtype=bool)
        done = 0
        for batch in chain((first,), batches):
            once = self._first_of_pairs(batch)
            batch = {name: column[once] for name, column in batch.items()}
            kept = place[batch["sample"]] >= 0
            rows = place[batch["sample"][kept]]
            samples, sample = np.unique(rows, return_inverse=True)
            is_ranked[samples] = True
            call = batch["call"][kept] if self._has_calls else None
            listed = Rows(sample, batch["label"][kept], batch["score"][kept], call)
            own = None if weight is None else weight[samples]
            signed[batch["row"][kept]] = sums.add(listed, truth.take(samples), own)
            done += batch["row"].size
            self._execution.on_progress("measuring", done, self._n_rows)
        rest = np.flatnonzero(~is_ranked)  # samples that the ranking does not list
        if rest.size:
            nothing = Rows(np.empty(0, int), np.empty(0, int), np.empty(0), None)
            if self._has_calls:
                nothing = nothing._replace(call=np.empty(0, dtype=bool))
            own = None if weight is None else weight[rest]
            sums.add(nothing, truth.take(rest), own)
        return sums, signed

    def _first_of_pairs(self, batch: dict[str, NDArray[Any]]) -> Any:
        """Return which rows are the first of their pair; repeated pairs are reported."""
        sample, label = batch["sample"], batch["label"]
        pairs = sample * self._reading.hierarchy.n_labels + label
        first = np.unique(pairs, return_index=True)[1]
        if first.size == pairs.size:
            return slice(None)
        again = np.ones(pairs.size, dtype=bool)
        again[first] = False
        at = int(np.argmax(again))
        self._n_again += int(again.sum())
        pair = list(self._samples)[sample[at]], self._file.labels[label[at]]
        self._file.report_repeated_pairs(int(again.sum()), *pair)
        return ~again
