"""Evaluate a ranking of any size: rows sorted by sample, then measures along the list.

The measures are those of `hierlpr.metrics.evaluation`. In memory are the truth as sets of labels
and a few bytes per row of the ranking.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import Any, NamedTuple, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import check_sample_weight, effective_number
from hierlpr.data.clusters import cluster_numbers
from hierlpr.data.truth import Truth
from hierlpr.io import ReadReport, ReadTable, open_table, read_ranking
from hierlpr.io.read_tables import match_samples
from hierlpr.io.table_files import TableFile
from hierlpr.metrics.evaluation import (
    Evaluation,
    Rows,
    SampleSums,
    evaluate_ranking,
    listed_groups,
    score_groups,
)
from hierlpr.outofcore.batches import PerSample, as_hierarchy_file, is_first_of_pair
from hierlpr.outofcore.names import NameNumbers
from hierlpr.outofcore.resources import (
    EVALUATE_BYTES,
    RunKeywords,
    RunOptions,
    estimate_rows,
    sorted_rows,
    whole_samples,
)

# `key` is the rank of a row or its falling score, `row` its number in the file.
_ROW_SCHEMA = pa.schema({
    "sample": pa.int64(), "key": pa.float64(), "row": pa.int64(), "label": pa.int32(),
    "score": pa.float64(), "call": pa.bool_(), "unlikely": pa.bool_(),
})  # fmt: skip


class EvaluateOutcome(NamedTuple):
    """An evaluation and what was read."""

    evaluation: Evaluation
    reports: tuple[ReadReport, ...]
    notes: tuple[str, ...]


class _Matched(NamedTuple):
    """Truth and weights of all samples that count, and the row of each sample of a ranking in it.

    The row is -1 for samples that are left out.
    """

    row: NDArray[np.int64]
    truth: Truth
    weight: NDArray[np.float64] | None
    notes: tuple[str, ...]


def evaluate_file(
    ranking: AnyPath,
    truth: AnyPath,
    hierarchy: Any,
    *,
    weights: AnyPath | None = None,
    **options: Unpack[RunKeywords],
) -> EvaluateOutcome:
    """Measure a ranking and its calls against the truth.

    Parameters
    ----------
    ranking : path
        A file that `rank_file` wrote, or CAFA predictions.
    truth : path
        As in `fit_file`.
    hierarchy : path, HierarchyFile or Hierarchy
        As in `fit_file`.
    weights : path, optional
        As in `fit_file`. Weights count in shares and means; sizes and counts are unweighted.
    **options
        See `RunKeywords`.
    """
    loaded = as_hierarchy_file(hierarchy)
    options.setdefault("aliases", loaded.aliases)
    run = RunOptions(loaded.hierarchy, **options)
    path = os.fspath(ranking)
    per_sample = PerSample(run, [os.fspath(truth), path], weights)
    run.on_progress("reading", 0, 1)
    labelled = run.truth(truth)
    evaluate = _in_memory if run.fits(estimate_rows(path) * EVALUATE_BYTES) else _streamed
    done = evaluate(path, labelled, run, per_sample)
    if (clusters := per_sample.clusters_of(labelled.table)) is not None:
        numbers = cluster_numbers(clusters, labelled.table)
        n_clusters = len(labelled.samples) if numbers is None else int(numbers.max()) + 1
        done.evaluation.sizes["clusters"] = n_clusters
    return done._replace(reports=(*done.reports, *per_sample.reports))


def _reading(run: RunOptions) -> dict[str, Any]:
    """Return how rankings are read: hierlpr wrote them, so their columns have a fixed form."""
    return {name: x for name, x in run.table.items() if name in ("aliases", "lenient")}


def _in_memory(
    path: str, labelled: ReadTable, run: RunOptions, per_sample: PerSample
) -> EvaluateOutcome:
    ranked = read_ranking(path, run.hierarchy, **_reading(run))
    matched = _match(ranked.samples, labelled, run, per_sample, path)
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
        lpr=None if ranked.lpr is None else ranked.lpr[is_evaluated],
        sample_weight=matched.weight,
    )
    return EvaluateOutcome(evaluation, (ranked.report, labelled.report), matched.notes)


def _match(
    samples: tuple[str, ...],
    labelled: ReadTable,
    run: RunOptions,
    per_sample: PerSample,
    source: str,
) -> _Matched:
    """Find the samples of a ranking in the truth; those it lacks get no label or are left out."""
    row, is_negative, notes = match_samples(
        samples, labelled, missing_truth=run.missing_truth, source=source, word="ranked"
    )
    names, truth = list(labelled.samples), labelled.table.values
    unlisted = len(names) - np.unique(row[row >= 0]).size
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
    weight = per_sample.weight_of(names, f"{labelled.report.path} and {source}")
    weight = check_sample_weight(weight, len(names))
    return _Matched(row, Truth.of(truth, run.hierarchy).tocsr(), weight, tuple(notes))


def _streamed(
    path: str, labelled: ReadTable, run: RunOptions, per_sample: PerSample
) -> EvaluateOutcome:
    """Read a ranking once, sorted by sample, and measure it in batches of samples."""
    file = open_table(path, "ranking", run.hierarchy, **_reading(run))
    numbers, columns = NameNumbers(), set[str]()
    keys: list[NDArray[np.float64]] = []
    numbered = _numbered_rows(file, numbers, columns, keys, run)
    rows = sorted_rows(numbered, _ROW_SCHEMA, "sample, key, row", run, lambda: numbers.n_bytes)
    with closing(rows):
        batches = whole_samples(rows, run.batch_instances)
        first = next(batches, None)  # all rows have been read then
        if first is None:
            raise file.no_rows_error()
        key, samples = np.concatenate(keys), tuple(numbers.release().to_pylist())
        keys.clear()
        matched = _match(samples, labelled, run, per_sample, path)
        truth, weight = matched.truth, matched.weight
        sums = SampleSums(truth, run.hierarchy, weight, has_calls="call" in columns)
        signed = np.zeros(key.size, dtype=np.int8 if weight is None else np.float64)
        is_ranked = np.zeros(truth.shape[0], dtype=bool)
        n_read = n_listed = 0
        for batch in chain((first,), batches):
            n_read += batch["row"].size
            is_first = is_first_of_pair(batch["sample"], batch["label"], samples, file)
            n_listed += int(np.count_nonzero(is_first))
            row = matched.row[batch["sample"]]
            is_used = is_first & (row >= 0)
            number, *listed = (batch[x][is_used] for x in ("row", *Rows._fields[1:]))
            at, sample = np.unique(row[is_used], return_inverse=True)
            is_ranked[at] = True
            some = None if weight is None else weight[at]
            signed[number] = sums.add(Rows(sample, *listed), truth[at], some)
            run.on_progress("measuring", n_read, key.size)
    rest = np.flatnonzero(~is_ranked)  # samples that the ranking does not list
    if rest.size:
        none = np.empty(0, dtype=np.int64)
        nothing = Rows(none, none, none.astype(np.float64), none.astype(bool))
        sums.add(nothing, truth[rest], None if weight is None else weight[rest])
    if "lpr" not in columns:
        groups = score_groups(-key, signed)
    else:  # a ranking, whose order counts among equal scores
        is_in_order = (np.diff(key) > 0).all()
        groups = listed_groups(signed if is_in_order else signed[np.argsort(key)])
    evaluation = sums.evaluation(*groups, None if weight is None else effective_number(weight))
    report = file.log.complete(rows=n_listed, samples=len(samples))
    return EvaluateOutcome(evaluation, (report, labelled.report), matched.notes)


def _numbered_rows(
    file: TableFile,
    numbers: NameNumbers,
    columns: set[str],
    keys: list[NDArray[np.float64]],
    run: RunOptions,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a ranking with numbers in place of names; add to `columns` and `keys`."""
    n_rows, n_expected = 0, estimate_rows(file.log.path)
    for batch in file.batches():
        batch = batch.filter(pc.greater_equal(batch.column("label"), 0))
        columns |= set(batch.schema.names)
        score, n = batch.column("value").to_numpy(), len(batch)
        keys.append(batch.column("rank").to_numpy() if "rank" in columns else -score)
        call = batch.column("call").to_numpy() != 0 if "call" in columns else np.ones(n, bool)
        has_lpr = "lpr" in columns
        unlikely = batch.column("lpr").to_numpy() < 0.5 if has_lpr else np.zeros(n, bool)
        row = np.arange(n_rows, n_rows + n)
        sample = numbers.numbers(batch.column("sample"))
        arrays = [sample, keys[-1], row, batch.column("label"), score, call, unlikely]
        n_rows += n
        run.on_progress("reading", n_rows, max(n_rows, n_expected))
        yield pa.RecordBatch.from_arrays([pa.array(x) for x in arrays], schema=_ROW_SCHEMA)
