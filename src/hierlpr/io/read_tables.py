"""Read whole tables of scores, truth and ranked instances, and match their samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import check_choice, quote_names
from hierlpr.data.tables import (
    Table,
    dense,
    refuse_truth_as_scores,
    with_all_labels,
    without_unlisted,
)
from hierlpr.data.truth import close_annotated, names_only_leaves
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import split_unknown
from hierlpr.io.reading import ReadReport
from hierlpr.io.table_files import TableFile, TableOptions, open_table
from hierlpr.io.true_names import SampleNames

_FEW = 20  # samples, from which on most must be mentioned in the truth
MissingTruth = Literal["negative", "skip"]
Rows = dict[str, NDArray[Any]]  # columns of a long table; samples and labels as numbers


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReadTable:
    """A table read from a file."""

    table: Table  # scores, sparse if pairs are omitted; or truth, closed upward, NaN where unknown
    report: ReadReport
    layout: Literal["wide", "long"]
    is_cafa: bool = False

    def __repr__(self) -> str:
        return f"<ReadTable: {self.layout}, {self.table!r}>"

    @property
    def samples(self) -> tuple[str, ...]:
        """Names of the samples."""
        return self.table.samples or ()


def read_scores(
    path: AnyPath, hierarchy: Hierarchy | None = None, **options: Unpack[TableOptions]
) -> ReadTable:
    r"""Read a table of scores: wide, long or CAFA; text or Parquet.

    Parameters
    ----------
    path : path
    hierarchy : Hierarchy, optional
        The columns become its labels, in its order. Without it the file defines the labels.
    **options
        `lenient`, `aliases`, `missing_scores`, `sep` and `decimal`: see
        :class:`hierlpr.io.TableOptions`.

    Returns
    -------
    ReadTable
        A long file that omits pairs gives a sparse matrix. It stores the pairs of the file, zeros
        included; a pair that is not stored has no score.

    Raises
    ------
    FileError
        Naming file, line and column.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "scores.csv"
    >>> _ = path.write_text("sample;A;B\np1;0,5;0,25\n")
    >>> h = Hierarchy([("A", "B")])
    >>> read_scores(path, h, sep=";", decimal=",").table.values
    array([[0.5 , 0.25]])
    """
    file = open_table(path, "scores", hierarchy, **options)
    table = _read_table(file)
    if table.n_stored is not None:
        table = without_unlisted(table, hierarchy)
    report = file.log.complete(samples=table.n_samples, labels=len(table.labels))
    return ReadTable(table, report, file.layout, file.is_cafa)


def read_truth(
    path: AnyPath,
    hierarchy: Hierarchy,
    *,
    propagate_truth: bool = False,
    only: pa.Array | None = None,
    **options: Unpack[TableOptions],
) -> ReadTable:
    """Read a table of truth: wide 0/1, long pairs or CAFA pairs; text or Parquet.

    CAFA files list the most specific labels and are closed upward, as is truth that only names
    leaves. Otherwise a label without its parent is an error, unless `propagate_truth` or `lenient`
    adds the missing ancestors, or the parent is unknown: an empty cell, or ``unknown``. With
    `only`, rows of other samples are left out. See `read_scores` for the options.
    """
    file = open_table(path, "truth", hierarchy, **options)
    table = _read_table(file, only)
    is_part = len(table.labels) < hierarchy.n_labels
    names_leaves = is_part or (file.layout == "long" and names_only_leaves(table, hierarchy))
    propagates = propagate_truth or file.log.lenient or file.is_cafa or names_leaves
    table = with_all_labels(table, hierarchy)
    positive, unknown = split_unknown(table.values)
    closed = close_annotated(positive, unknown, hierarchy, propagate_truth=propagates)
    if closed.breach is not None:
        sample, above, below = closed.breach
        name = table.samples and table.samples[sample]
        text = f"sample {name!r} has {below!r} but not {above!r}, which is above it"
        hint = "propagate_truth=True adds missing ancestors. Or is the "
        hint += "hierarchy reversed? hierlpr inspect shows its roots."
        n_added = f"({closed.n_added:,} label(s) are missing in total)"
        raise file.log.file_error(f"{text} {n_added}.", hint=hint, options=("propagate_truth",))
    file.log.counts["ancestors added"] = closed.n_added
    left = closed.not_annotated
    file.log.counts["unknown pairs"] = 0 if left is None else left.nnz
    report = file.log.complete(samples=table.n_samples, labels=hierarchy.n_labels)
    values = closed.positive.astype(np.float64)
    if left is not None:
        values = sparse.csr_array((closed.positive > left) + left * np.nan)
    table = replace(table, values=dense(values) if file.layout == "wide" else values)
    return ReadTable(table, report, file.layout, file.is_cafa)


@dataclass(frozen=True, slots=True, eq=False)
class RankingFile:
    """A ranking read from a file, best call first."""

    sample: NDArray[np.int64]  # positions in `samples`
    label: NDArray[np.int32]  # positions in `labels`
    score: NDArray[np.float64]
    lpr: NDArray[np.float64] | None  # None in the CAFA layout, as `call`
    call: NDArray[np.bool_] | None
    samples: tuple[str, ...]
    labels: tuple[str, ...]
    report: ReadReport

    def __len__(self) -> int:
        return int(self.sample.size)


def read_ranking(
    path: AnyPath, hierarchy: Hierarchy | None = None, **options: Unpack[TableOptions]
) -> RankingFile:
    """Read a ranking that `write_ranking` wrote, or a CAFA prediction file.

    Rows are ordered by the column `rank`, or by decreasing score without one. With a hierarchy,
    labels are numbered as there and unknown ones are an error. See `read_scores` for the options.
    """
    file = open_table(path, "ranking", hierarchy, **options)
    samples, rows = _read_entries(file)
    place = _place(rows)
    if (place[1:] < place[:-1]).any():
        rows = _take(rows, np.argsort(place, kind="stable"))
    return RankingFile(
        sample=rows["sample"],
        label=rows["label"],
        score=rows["value"],
        lpr=rows.get("lpr"),
        call=rows["call"] != 0 if "call" in rows else None,
        samples=samples,
        labels=file.labels,
        report=file.log.complete(rows=place.size, samples=len(samples)),
    )


# -- collecting batches -----------------------------------------------------------------------


def _read_table(file: TableFile, only: pa.Array | None = None) -> Table:
    """Return a wide table as an array, a long one as a sparse matrix with zeros stored."""
    if file.layout == "long":
        samples, rows = _read_entries(file, only)
        shape = (len(samples), len(file.labels))
        entries = (rows["value"], (rows["sample"], rows["label"]))
        return Table(sparse.csr_array(entries, shape=shape), file.labels, samples)
    names: list[str] = []
    parts: list[NDArray[np.float64]] = []
    for batch in _batches(file, only):
        names += batch.column(0).to_pylist()
        parts.append(batch_matrix(batch))
    if not names:
        raise file.no_rows_error()
    return Table(np.concatenate(parts), file.labels, tuple(names))


def _batches(file: TableFile, only: pa.Array | None) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a table, as far as they are of the samples in `only`."""
    for batch in file.batches():
        yield batch if only is None else batch.filter(pc.is_in(batch.column(0), only))


def _read_entries(file: TableFile, only: pa.Array | None = None) -> tuple[tuple[str, ...], Rows]:
    """Return the samples of a long table, in order of appearance, and its rows with a label.

    Of repeated pairs the row with the best rank or, without ranks, the highest value is kept.
    """
    parts: dict[str, list[Any]] = defaultdict(list)
    for batch in _batches(file, only):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            parts[name].append(column if name == "sample" else column.to_numpy())
    if not parts:
        raise file.no_rows_error()
    coded = pa.chunked_array(parts.pop("sample")).dictionary_encode().combine_chunks()
    samples = tuple(coded.dictionary.to_pylist())
    rows: Rows = {"sample": coded.indices.to_numpy().astype(np.int64)}
    for name in list(parts):
        rows[name] = np.concatenate(parts.pop(name))
        pa.default_memory_pool().release_unused()  # now: it is a large part of the memory
    has_label = rows["label"] >= 0
    if not has_label.any() and file.content != "truth":
        raise file.no_rows_error()
    if not has_label.all():
        rows = _take(rows, has_label)
    n_labels = len(file.labels)
    pair = rows["sample"] * n_labels + rows["label"]
    if not _has_repeats(pair, len(samples) * n_labels):
        return samples, rows
    order = np.lexsort((_place(rows), pair))
    again = np.diff(pair[order], prepend=-1) == 0
    at, column = divmod(int(pair[order[np.argmax(again)]]), n_labels)
    file.report_repeated_pairs(int(again.sum()), samples[at], file.labels[column])
    return samples, _take(rows, np.sort(order[~again]))


def _has_repeats(numbers: NDArray[np.int64], n: int) -> bool:
    """Return whether any of some numbers below `n` occurs again."""
    if n > 8 * numbers.size:  # sorting needs less memory than a flag for every number
        ordered = np.sort(numbers)
        return bool((ordered[1:] == ordered[:-1]).any())
    occurs = np.zeros(n, dtype=bool)
    occurs[numbers] = True
    return bool(np.count_nonzero(occurs) < numbers.size)


def _take(rows: Rows, at: Any) -> Rows:
    return {name: column[at] for name, column in rows.items()}


def _place(rows: Rows) -> NDArray[Any]:
    """Return the rank of every row; by falling value, if the file has no ranks."""
    return rows["rank"] if "rank" in rows else -rows["value"]


def batch_matrix(batch: pa.RecordBatch) -> NDArray[np.float64]:
    """Return the values of a batch of a wide table, one row per sample."""
    columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns[1:]]
    return np.ascontiguousarray(np.stack(columns).T)


# -- the same samples -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Scores and truth of the same samples; `notes` say what happened to other samples."""

    scores: Table
    truth: Table
    notes: tuple[str, ...]

    def rows(self, rows: NDArray[np.int64]) -> Pair:
        """Return some of the samples."""
        return Pair(self.scores.rows(rows), self.truth.rows(rows), self.notes)


def pair_samples(
    scores: ReadTable, truth: ReadTable, *, missing_truth: MissingTruth | None = None
) -> Pair:
    """Match the samples of scores and truth by name.

    Samples with truth but without scores are left out. Scored samples that the truth file does not
    mention have no positive label (`missing_truth` is "negative"), or are left out ("skip"). By
    default they are negative if the truth is a long table and left out if it is a CAFA file; if it
    is a wide table they are an error.
    """
    names = scores.samples
    at, is_negative, notes = match_samples(
        names, truth, missing_truth=missing_truth, source=scores.report.path, word="scored"
    )
    unscored = [truth.samples[i] for i in np.setdiff1d(np.arange(len(truth.samples)), at)]
    if unscored:
        left_out = f"{len(unscored):,} samples with truth but without scores are left out"
        notes.append(f"{left_out}: {quote_names(unscored)}")
    rows = np.arange(at.size) if is_negative else np.flatnonzero(at >= 0)
    scored = scores.table.rows(rows)
    labelled = _truth_rows(truth.table, at[rows], scored.samples or ())
    names = f"{truth.report.path}: the truth", f"the scores of {scores.report.path}"
    refuse_truth_as_scores(scored.values, labelled.values, name=names[0], scores_name=names[1])
    return Pair(scored, labelled, tuple(notes))


def _truth_rows(truth: Table, at: NDArray[np.int64], names: tuple[str, ...]) -> Table:
    """Return rows of the truth by position; -1 is a sample without labels."""
    n_labels = truth.values.shape[1]
    if isinstance(truth.values, np.ndarray):
        values: Any = np.vstack([truth.values, np.zeros((1, n_labels))])[at]
    else:
        empty = sparse.csr_array((1, n_labels))
        values = sparse.csr_array(sparse.vstack([truth.values, empty], format="csr"))[at]
    return Table(values, truth.labels, names)


def match_samples(
    names: Sequence[str],
    truth: ReadTable,
    *,
    missing_truth: MissingTruth | None,
    source: str,
    word: str,
) -> tuple[NDArray[np.int64], bool, list[str]]:
    """Return the row of each sample in the truth, -1 if it has none.

    Also returns whether samples without a row count as negative (otherwise they are left out), and
    notes about them. Samples of the file `source` are called "scored" or "ranked", as `word` says.
    """
    if missing_truth is not None:
        check_choice(missing_truth, ("negative", "skip"), name="missing_truth")
    elif truth.is_cafa:
        missing_truth = "skip"
    row = {name: i for i, name in enumerate(truth.samples)}
    at = np.array([row.get(name, -1) for name in names], dtype=np.int64)
    notes, path = [], truth.report.path
    if (at < 0).all():
        finder = SampleNames(truth.samples)
        found = [finder.row(name) for name in names]
        at = np.array([-1 if i is None else i for i in found], dtype=np.int64)
        if np.unique(at[at >= 0]).size < np.count_nonzero(at >= 0):  # several for one row
            at[:] = -1
        elif (at >= 0).any():
            notes.append("samples are matched without sizes (;size=9) and folders in their names")
    lost = [name for name, i in zip(names, at.tolist(), strict=True) if i < 0]
    if len(lost) == len(names):
        raise DataError(
            f"{path}: none of the {len(names):,} samples of {source} has truth.\n"
            f"Hint: samples are matched by name; {source} has {quote_names(names, most=3)}, the "
            f"truth has {quote_names(truth.samples, most=3)}. sample_column= names another column "
            "(in GAF: symbol).",
            options=("sample_column",),
        )
    is_doubtful = truth.layout == "wide" or 2 * len(lost) > len(names) > _FEW
    if lost and missing_truth is None and is_doubtful:
        raise DataError(
            f"{path}: {len(lost):,} of {len(names):,} {word} samples are not mentioned: "
            f"{quote_names(lost)}.\n"
            "Hint: missing_truth='skip' leaves them out, 'negative' takes them as samples without "
            "labels.",
            options=("missing_truth=skip", "missing_truth=negative"),
        )
    if lost:
        what = "without truth are left out"
        if missing_truth != "skip":
            what = "that the truth file does not mention are taken to have no positive label"
        notes.append(f"{len(lost):,} {word} samples {what}: {quote_names(lost)}")
    return at, missing_truth != "skip", notes
