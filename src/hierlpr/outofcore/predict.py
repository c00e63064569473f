"""Use a model on a file of scores: rank its instances, or find sure and possible labels.

Each batch of samples gives rows of numbers. Rows of a ranking are sorted by two integers that hold
the whole order of :func:`hierlpr.rank`, so that the result does not depend on the batches.
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import check_choice
from hierlpr._utils.files import atomic_output, refuse_overlap
from hierlpr.cutoff.decisions import decide
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.cutoff.sets import SET_WORDS, SetRule, deepest_sure
from hierlpr.data.listed import as_kind
from hierlpr.data.tables import Table, roll_up
from hierlpr.exceptions import DataError, HierlprWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.io import ReadReport
from hierlpr.io.reading import ending
from hierlpr.io.table_output import CHANCES, ENDINGS, RANKING_SCHEMA, TableWriter
from hierlpr.lpr.drift import Drift
from hierlpr.model import HierLPR, load_model
from hierlpr.outofcore.batches import ScoreBatches, read_samples
from hierlpr.outofcore.resources import CHUNK_ROWS, RunKeywords, RunOptions, sorted_rows
from hierlpr.outofcore.workers import map_batches
from hierlpr.ranking.order import Ranking, rank

# Rows per sample: all labels, those that are possible, or the deepest sure label.
SetRows = Literal["all", "possible", "deepest"]
SURE = SET_WORDS.index("sure")
CODES = pa.dictionary(pa.int32(), pa.string())  # labels by number
Numbered = tuple[Table, int]  # samples, and how many come before them


def load_for_scores(model: AnyPath, **options: Unpack[RunKeywords]) -> tuple[HierLPR, RunOptions]:
    """Load a model of scores, and how scores are read for it; a classifier is refused."""
    fitted: HierLPR = load_model(model)
    missing: Any = fitted.missing_scores
    options.setdefault("missing_scores", missing)
    return fitted, RunOptions(fitted.hierarchy_, **options)


class PredictionJob:
    """A model, the scores it is used on, and the file for the result.

    `texts` are the columns of the output about labels, by the number of the label; `notes` say what
    is wrong with the scores.
    """

    def __init__(
        self,
        model: AnyPath,
        scores: AnyPath,
        out: AnyPath,
        *,
        with_names: bool,
        endings: tuple[str, ...] = ENDINGS,
        **options: Unpack[RunKeywords],
    ) -> None:
        refuse_overlap({"the output": out}, {"the model": model, "the scores": scores})
        self.model, self.options = load_for_scores(model, **options)
        self.scores, self.out = os.fspath(scores), os.fspath(out)
        kind = check_choice(ending(self.out), endings, name="the ending of the output")
        h = self.model.hierarchy_
        self.texts = {"label": pa.array(h.labels, pa.string())}
        if with_names:
            self.texts["name"] = pa.array(_captions(h, kind, self.out), pa.string())
        self.notes: list[str] = []

    def batches(
        self, source: ScoreBatches, names: deque[pa.Array] | None = None
    ) -> Iterator[Numbered]:
        """Yield batches and how many samples come before; compare the first with the fit.

        The names of the samples of each batch are appended to `names`.
        """
        n_before = 0
        for scores, samples in source:
            if names is not None:
                names.append(samples)
            model = self.model
            table = roll_up(as_kind(scores, model.kind_), model.hierarchy_, model.leaves_)
            if n_before == 0 and (note := model.difference_note(table)):
                self.notes.append(note)
            yield table, n_before
            n_before += table.n_samples

    def rows(
        self, function: Callable[[Numbered], pa.RecordBatch], source: ScoreBatches, by: str
    ) -> Generator[pa.RecordBatch]:
        """Yield the rows of all batches in order; those of each batch are in order already."""
        results = map_batches(function, self.batches(source), self.options.scheduler)
        first, second = next(results), next(results, None)
        if second is None:
            yield from (first.slice(i, CHUNK_ROWS) for i in range(0, len(first), CHUNK_ROWS))
            return
        unsorted = chain((first, second), results)
        names_size = lambda: source.names.nbytes  # noqa: E731
        rows = sorted_rows(unsorted, first.schema, by, self.options, names_size)
        del first, second, unsorted
        with closing(rows):
            yield from rows

    def label_columns(self, code: pa.Array) -> dict[str, pa.Array]:
        """Return the columns about the labels with these numbers."""
        return {x: pa.DictionaryArray.from_arrays(code, text) for x, text in self.texts.items()}

    def schema(self, columns: pa.Schema) -> pa.Schema:
        """Return the columns of the output."""
        return columns.append(pa.field("name", CODES)) if "name" in self.texts else columns


def _captions(hierarchy: Hierarchy, kind: str, out: str) -> list[str]:
    """Return the names for people of all labels, empty for those that have none."""
    if kind == ".tsv":
        raise DataError(
            f"{out}: the CAFA layout has no column for names.\nHint: write .csv or .parquet."
        )
    if not hierarchy.names:
        raise DataError(
            "The model has no names of labels.\nHint: fit it with a hierarchy that has them, such "
            "as an edge list with a column name."
        )
    return [hierarchy.names.get(label, "") for label in hierarchy.labels]


# -- rank -------------------------------------------------------------------------------------


class RankOutcome(NamedTuple):
    """What was written and read, the cutoff, and the drift if the model was adapted."""

    n_rows: int
    n_calls: int
    n_samples: int
    n_instances: int
    reports: tuple[ReadReport, ...]
    cutoff: Cutoff
    drift: Drift | None
    notes: tuple[str, ...]


def rank_file(
    model: AnyPath,
    scores: AnyPath,
    out: AnyPath,
    *,
    top: int | None = None,
    calls_only: bool = False,
    with_names: bool = False,
    adapt: bool = False,
    **options: Unpack[RunKeywords],
) -> RankOutcome:
    """Rank the samples of a file as ``HierLPR.rank`` does, and write the ranking.

    Parameters
    ----------
    model, scores : path
        A model file, and scores as in `fit_file`.
    out : path
        ``.parquet``, ``.csv`` or ``.tsv``, written whole or not at all.
    top : int, optional
        List only the first instances.
    calls_only : bool
        List only the calls.
    with_names : bool
        Add a last column with the names of the labels, which the model must have.
    adapt : bool
        First adapt the model to the prevalences of these samples, as ``HierLPR.adapt`` does; the
        cutoff is then 0.5.
    **options
        See `RunKeywords`.
    """
    job, drift = PredictionJob(model, scores, out, with_names=with_names, **options), None
    fitted = job.model
    if adapt:
        read, notes = read_samples(job.scores, job.options, seed=0)
        job.notes.extend(notes)
        fitted, drift = adapt_model(fitted, read.table)
    cutoff = fitted.cutoff_
    only_calls = calls_only and cutoff.is_level_alone
    source = ScoreBatches(job.scores, job.options, keep_names=True)
    function = partial(ranked_rows, fitted, top=top, calls_only=only_calls)
    schema, n_ranked, n_calls = job.schema(RANKING_SCHEMA), 0, 0

    def parts() -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield sorted rows and how many come before them."""
        n_before = 0
        for batch in rows:
            batch = batch.slice(0, None if top is None else top - n_before)
            yield batch, n_before
            n_before += len(batch)
            if n_before == top:
                return

    with (
        atomic_output(job.out) as part,
        closing(job.rows(function, source, "score_key, tie_key")) as rows,
        TableWriter(part, schema, chances=CHANCES) as writer,
    ):
        for ranked in map_batches(partial(_named_rows, job, schema, source), parts(), None):
            writer.write(ranked.filter(ranked.column("call")) if calls_only else ranked)
            n_ranked += len(ranked)
            n_calls += pc.sum(ranked.column("call")).as_py() or 0
            job.options.on_progress("writing", n_ranked, max(n_ranked, source.n_scores))
    n_samples = source.n_samples
    counts = writer.n_rows, n_calls, n_samples, n_samples * fitted.hierarchy_.n_labels
    return RankOutcome(*counts, (source.report,), cutoff, drift, tuple(job.notes))


def ranked_rows(
    model: HierLPR, batch: Numbered, *, top: int | None, calls_only: bool
) -> pa.RecordBatch:
    """Rank a batch of samples: rows in calling order, with two integers that sort all rows.

    `score_key` falls with the block score. `tie_key` holds, from its highest bit, the topological
    number of the first label of the block, the sample, and the position inside the block.
    `calls_only` needs a cutoff with one level, so that the calls come first.
    """
    table, n_before = batch
    lpr = model.lprs(table)
    order = rank(lpr, model.hierarchy_, top=top, n_jobs=model.n_jobs)
    call = called(order, model, lpr)
    n = int(np.count_nonzero(call)) if calls_only else len(order)
    bits = _label_bits(model.hierarchy_.n_labels)
    if n_before + table.n_samples > 1 << (64 - 2 * bits):
        raise DataError("There are too many samples and labels for one ranking.")
    start = np.flatnonzero(order.first)
    size = np.diff(np.append(start, len(order)))
    inside = np.arange(len(order)) - np.repeat(start, size)
    root = np.repeat(model.hierarchy_.position[order.label[start]], size).astype(np.uint64)
    sample = order.sample.astype(np.uint64) + np.uint64(n_before)
    shift = np.uint64(bits)
    tie_key = (root << np.uint64(64 - bits)) | (sample << shift) | inside.astype(np.uint64)
    columns = {
        "score_key": ~np.ascontiguousarray(order.score).view(np.uint64),
        "tie_key": tie_key,
        "label_and_call": (order.label.astype(np.uint32) << np.uint32(1)) | call,
        "lpr": order.lpr,
    }
    return pa.RecordBatch.from_pydict({name: pa.array(x[:n]) for name, x in columns.items()})


def _label_bits(n_labels: int) -> int:
    return max(1, (n_labels - 1).bit_length())


def _named_rows(
    job: PredictionJob, schema: pa.Schema, source: ScoreBatches, part: tuple[pa.RecordBatch, int]
) -> pa.Table:
    """Return the output for some sorted rows and how many come before them."""
    batch, n_before = part
    score_key, tie_key, label_and_call, lpr = (column.to_numpy() for column in batch.columns)
    bits = _label_bits(job.model.hierarchy_.n_labels)
    sample = (tie_key >> np.uint64(bits)) & np.uint64((1 << (64 - 2 * bits)) - 1)
    columns = {
        "rank": pa.array(np.arange(n_before + 1, n_before + len(batch) + 1)),
        "sample": source.names.take(pa.array(sample)).cast(pa.string()),
        "lpr": pa.array(lpr),
        "score": pa.array(np.invert(score_key).view(np.float64)),
        "call": pa.array((label_and_call & np.uint32(1)).astype(bool)),
        **job.label_columns(pa.array((label_and_call >> np.uint32(1)).astype(np.int32))),
    }
    return pa.table(columns).select(schema.names)


def called(order: Ranking, model: HierLPR, lpr: Table) -> NDArray[np.bool_]:
    """Return whether each instance of the ranking of some LPRs is called."""
    cutoff = model.cutoff_
    if cutoff.is_level_alone:
        return np.asarray(order.score >= cutoff.level)
    calls = decide(model.block_scores(lpr, lpr), cutoff, model.hierarchy_, lpr.values)
    return np.asarray(calls[order.sample, order.label], dtype=bool).ravel()


# -- drift ------------------------------------------------------------------------------------


def adapt_model(model: HierLPR, table: Table) -> tuple[HierLPR, Drift]:
    """Return a model for the prevalences of new scores, and their drift instead of a warning."""
    drift = model.check(table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HierlprWarning)
        return model.adapt(table), drift


# -- sets -------------------------------------------------------------------------------------


class SetsOutcome(NamedTuple):
    """What was written and read; `n_sure` and `n_possible` count the rows that say so."""

    n_rows: int
    n_samples: int
    n_sure: int
    n_possible: int
    reports: tuple[ReadReport, ...]
    rule: SetRule
    notes: tuple[str, ...]


def sets_file(
    model: AnyPath,
    scores: AnyPath,
    out: AnyPath,
    *,
    deepest: bool = False,
    possible_only: bool = False,
    with_names: bool = False,
    **options: Unpack[RunKeywords],
) -> SetsOutcome:
    """Write which labels of each sample are sure, possible or neither, as ``predict_sets`` does.

    Parameters
    ----------
    model, scores, with_names
        As in `rank_file`; the model was fitted with ``fit_file(..., sets=...)``.
    out : path
        ``.parquet`` or ``.csv`` with the columns sample, label and set. Samples are in the order of
        the scores, with their sure labels first.
    deepest : bool
        Write one row per sample: its deepest sure label, empty if no label is sure.
    possible_only : bool
        Leave out the labels that are neither sure nor possible.
    **options
        See `RunKeywords`.
    """
    if deepest and possible_only:
        raise DataError("deepest and possible-only exclude each other; give one.")
    endings = (".parquet", ".csv")
    job = PredictionJob(model, scores, out, with_names=with_names, endings=endings, **options)
    job.model.set_rule()  # raises before any work if the model has none
    wanted: SetRows = "deepest" if deepest else "possible" if possible_only else "all"
    source = ScoreBatches(job.scores, job.options)
    function = partial(set_rows, job.model, wanted=wanted)
    schema = pa.schema({"sample": pa.string(), "label": CODES})
    if wanted != "deepest":
        schema = schema.append(pa.field("set", pa.dictionary(pa.int8(), pa.string())))
    schema, n_sure, n_possible = job.schema(schema), 0, 0
    names: deque[pa.Array] = deque()  # of the batches under way
    with atomic_output(job.out) as part, TableWriter(part, schema, is_cafa=False) as writer:
        for batch in map_batches(function, job.batches(source, names), job.options.scheduler):
            sample, label, level = batch.columns
            columns = {
                "sample": names.popleft().take(sample),
                "set": pa.DictionaryArray.from_arrays(level, pa.array(SET_WORDS)),
                **job.label_columns(label),
            }
            writer.write(pa.table(columns).select(schema.names))
            n_sure += int(np.count_nonzero(level.to_numpy() == SURE))
            n_possible += int(np.count_nonzero(level.to_numpy()))
    counts = writer.n_rows, source.n_samples, n_sure, n_possible
    return SetsOutcome(*counts, (source.report,), job.model.set_rule(), tuple(job.notes))


def set_rows(model: HierLPR, batch: Numbered, *, wanted: SetRows) -> pa.RecordBatch:
    """Return the rows of some samples: sure labels first, then possible ones, parents first.

    Samples are numbered within the batch. The column `set` holds positions in ``SET_WORDS``; the
    label is null where none is sure.
    """
    table, _ = batch
    h, sets = model.hierarchy_, model.sets_on(table)
    sample = np.arange(table.n_samples)
    if wanted == "deepest":
        label = deepest_sure(sets, h)
        level = np.where(label >= 0, SURE, 0)
    else:
        level = sets.codes()[:, h.order]
        order = np.argsort(-level, axis=1, kind="stable")
        level = np.take_along_axis(level, order, axis=1)
        is_row = (level > 0) if wanted == "possible" else np.ones_like(level, dtype=bool)
        sample = np.broadcast_to(sample[:, None], level.shape)[is_row]
        label, level = h.order[order][is_row], level[is_row]
    code = pa.array(label.astype(np.int32), mask=label < 0)
    columns = [pa.array(sample), code, pa.array(level.astype(np.int8))]
    return pa.RecordBatch.from_arrays(columns, ["sample", "label", "set"])
