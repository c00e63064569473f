"""Read whole tables of scores and truth, and match their samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import check_choice, quote_names
from hierlpr.data.label_sets import LabelSets
from hierlpr.data.partial_truth import close_given
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.read_log import ReadReport
from hierlpr.io.table_files import (
    MissingScores,
    TableFile,
    TableOptions,
    batch_matrix,
    open_table,
)

MissingTruth = Literal["negative", "skip"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReadTable:
    """A table read from a file.

    Attributes
    ----------
    table : Table
        Scores, or truth: 0 and 1, closed upward, NaN where unknown. Scores are sparse if the file
        omits some (sample, label) pairs.
    report : ReadReport
    layout : {"wide", "long"}
    is_cafa : bool
    """

    table: Table
    report: ReadReport
    layout: Literal["wide", "long"]
    is_cafa: bool = False

    def __repr__(self) -> str:
        return f"<ReadTable: {self.layout}, {self.table.size_words()}>"

    @property
    def samples(self) -> tuple[str, ...]:
        """Names of the samples."""
        return self.table.samples or ()


@dataclass(frozen=True, slots=True, eq=False)
class TruthSets:
    """Truth as in `ReadTable`, held as the set of labels of each sample."""

    sets: LabelSets
    samples: tuple[str, ...]
    report: ReadReport
    layout: Literal["wide", "long"]
    is_cafa: bool = False


def read_scores(
    path: AnyPath,
    hierarchy: Hierarchy | None = None,
    *,
    aliases: Mapping[str, str] | None = None,
    missing_scores: MissingScores = "error",
    lenient: bool = False,
    **options: Unpack[TableOptions],
) -> ReadTable:
    r"""Read a table of scores.

    Parameters
    ----------
    path : path
        Wide, long or CAFA text, Parquet, or an Excel sheet.
    hierarchy : Hierarchy, optional
        The columns become its labels, in its order. Without it the file defines the labels.
    aliases : mapping, optional
        Other names of labels, as `load_hierarchy` returns them.
    missing_scores : {"error", "allow"}
        Whether scores of a wide table may be missing (NaN).
    lenient : bool
        Skip bad rows and unknown labels, and count them. Of repeated pairs the highest score is
        kept.
    **options
        How the table is written: `sep`, `decimal`, `sample_column`, `columns`; see `TableOptions`.

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
    >>> _ = path.write_text("age;patient;A;B\n61;p1;0,5;0,25\n")
    >>> h = Hierarchy([("A", "B")])
    >>> read_scores(
    ...     path, h, sep=";", decimal=",", sample_column="patient", columns="labels"
    ... ).table.values
    array([[0.5 , 0.25]])
    """
    file = open_table(
        path,
        "scores",
        hierarchy,
        aliases=aliases,
        missing_scores=missing_scores,
        lenient=lenient,
        **options,
    )
    table = _read_wide(file) if file.layout == "wide" else _read_long(file)
    report = file.log.report(samples=table.n_samples, labels=len(table.labels))
    return ReadTable(table, report, file.layout, file.is_cafa)


def read_truth(
    path: AnyPath,
    hierarchy: Hierarchy,
    *,
    aliases: Mapping[str, str] | None = None,
    propagate_truth: bool = False,
    lenient: bool = False,
    **options: Unpack[TableOptions],
) -> ReadTable:
    """Read a table of truth: wide 0/1, long pairs or CAFA pairs; text, Parquet or Excel.

    CAFA files list the most specific labels and are closed upward. In other layouts a label without
    its parent is an error, unless `propagate_truth` or `lenient` adds the missing ancestors, or the
    parent is unknown: an empty cell, or ``unknown``.

    Parameters
    ----------
    path : path
    hierarchy : Hierarchy
    aliases : mapping, optional
        Other names of labels, as `load_hierarchy` returns them.
    propagate_truth : bool
        Add the missing ancestors of true labels, and count them.
    lenient : bool
        Skip bad rows and unknown labels, add missing ancestors, and count all of it.
    **options
        How the table is written, as in `read_scores`.
    """
    read = read_truth_sets(
        path,
        hierarchy,
        aliases=aliases,
        propagate_truth=propagate_truth,
        lenient=lenient,
        **options,
    )
    values = read.sets.as_given(is_dense=read.layout == "wide")
    table = Table(values, hierarchy.labels, read.samples)
    return ReadTable(table, read.report, read.layout, read.is_cafa)


def read_truth_sets(
    path: AnyPath,
    hierarchy: Hierarchy,
    *,
    aliases: Mapping[str, str] | None = None,
    propagate_truth: bool = False,
    lenient: bool = False,
    **options: Unpack[TableOptions],
) -> TruthSets:
    """Read truth as `read_truth` does, as sets of labels instead of a matrix."""
    file = open_table(path, "truth", hierarchy, aliases=aliases, lenient=lenient, **options)
    if file.layout == "wide":
        wide = _read_wide(file)
        given, samples = LabelSets.of(wide.values), wide.samples or ()
    else:
        pairs = _read_pairs(file)
        samples = pairs.samples
        given = LabelSets.of_entries(pairs.ptr, pairs.label, pairs.value, hierarchy.n_labels)
    propagates = propagate_truth or lenient or file.is_cafa
    closed = close_given(given, hierarchy, close=propagates)
    if closed.n_missing and not propagates:
        sample, above, below = closed.breach
        raise file.log.file_error(
            f"sample {samples[sample]!r} has {below!r} but not {above!r}, which is above it "
            f"({closed.n_missing:,} label(s) are missing in total).",
            hint="--propagate-truth (propagate_truth=True) adds missing ancestors. Or is the "
            "hierarchy reversed? hierlpr inspect shows its roots.",
        )
    file.log.counts["ancestors_added"] += closed.n_missing + closed.n_implied
    file.log.counts["unknown_pairs"] += closed.n_open
    report = file.log.report(samples=len(samples), labels=hierarchy.n_labels)
    return TruthSets(closed.sets, samples, report, file.layout, file.is_cafa)


def _read_wide(file: TableFile) -> Table:
    """Return the rows of a wide table as a matrix."""
    names: list[str] = []
    parts: list[NDArray[np.float64]] = []
    for batch in file.batches():
        names += batch.column(0).to_pylist()
        parts.append(batch_matrix(batch))
    if not names:
        raise _no_rows_left(file)
    return Table(np.concatenate(parts), file.labels, tuple(names))


@dataclass(slots=True)
class _Pairs:
    """Entries of a long table as in a CSR matrix: sorted, each pair once."""

    ptr: NDArray[np.int64]
    label: NDArray[np.int32]
    value: NDArray[np.float64]
    samples: tuple[str, ...]


def _read_long(file: TableFile) -> Table:
    """Return the listed scores as a sparse matrix, or as a dense one if no pair is missing."""
    pairs = _read_pairs(file)
    shape = (len(pairs.samples), len(file.labels))
    if pairs.value.size == 0:
        raise _no_rows_left(file)
    if pairs.value.size == shape[0] * shape[1]:
        return Table(pairs.value.reshape(shape), file.labels, pairs.samples, is_list=True)
    matrix = sparse.csr_array((pairs.value, pairs.label, pairs.ptr), shape=shape)
    return Table(matrix, file.labels, pairs.samples)


def _read_pairs(file: TableFile) -> _Pairs:
    """Collect the entries of a long table; samples are in order of first appearance.

    Of repeated pairs the highest value is kept. Truth keeps only true and unknown pairs.
    """
    names, labels, values = [], [], []
    for batch in file.batches():
        names.append(batch.column("sample"))
        labels.append(label_codes(batch))
        values.append(batch.column("value").to_numpy())
    if not names:
        raise _no_rows_left(file)
    coded = pa.chunked_array(names).combine_chunks().dictionary_encode()
    samples = tuple(coded.dictionary.to_pylist())
    row = coded.indices.to_numpy().astype(np.int64)
    label, value = np.concatenate(labels), np.concatenate(values)
    listed = label >= 0
    row, label, value = row[listed], label[listed], value[listed]
    order = np.lexsort([-value, label, row])
    row, label, value = row[order], label[order], value[order]
    again = np.zeros(row.size, dtype=bool)
    again[1:] = (row[1:] == row[:-1]) & (label[1:] == label[:-1])
    if again.any():
        at = int(np.argmax(again))
        first = samples[row[at]], file.labels[label[at]]
        file.report_repeated_pairs(int(again.sum()), *first)
    keep = ~again & (value != 0.0) if file.content == "truth" else ~again
    ptr = np.zeros(len(samples) + 1, dtype=np.int64)
    np.cumsum(np.bincount(row[keep], minlength=len(samples)), out=ptr[1:])
    return _Pairs(ptr, label[keep], value[keep], samples)


def label_codes(batch: pa.RecordBatch) -> NDArray[np.int32]:
    """Return the numbers of the labels of a batch of a long table, -1 for none."""
    codes: Any = batch.column("label").indices.fill_null(-1)
    return np.asarray(codes.to_numpy(), dtype=np.int32)


def _no_rows_left(file: TableFile) -> Exception:
    """Return the error for a table without good rows."""
    log = file.log
    first = f": {log.problems[0]}" if log.problems else ""
    if not first and log.unknown:
        first = f": no label is in the hierarchy, for example {next(iter(log.unknown))!r}"
    return log.file_error(f"no row could be read{first}.")


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

    Parameters
    ----------
    scores, truth : ReadTable
    missing_truth : {"negative", "skip"}, optional
        Scored samples that the truth file does not mention: they have no positive label, or they
        are left out. By default they are negative if the truth is a long table and left out if it
        is a CAFA file; if it is a wide table they are an error.

    Returns
    -------
    Pair
        Samples with truth but without scores are left out.
    """
    names = scores.samples
    at, is_negative, notes = match_samples(
        names, truth, missing_truth=missing_truth, source=scores.report.path, word="scored"
    )
    scored = set(names)
    unscored = [name for name in truth.samples if name not in scored]
    if unscored:
        notes.append(
            f"{len(unscored):,} samples with truth but without scores are left out: "
            f"{quote_names(unscored)}"
        )
    rows = np.arange(at.size) if is_negative else np.flatnonzero(at >= 0)
    held = _truth_rows(truth.table, at[rows], tuple(names[i] for i in rows))
    return Pair(scores.table.rows(rows), held, tuple(notes))


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
    truth: ReadTable | TruthSets,
    *,
    missing_truth: MissingTruth | None,
    source: str,
    word: str,
) -> tuple[NDArray[np.int64], bool, list[str]]:
    """Find samples by name in the truth.

    Parameters
    ----------
    names : sequence of str
    truth : ReadTable or TruthSets
    missing_truth : {"negative", "skip"}, optional
        As in `pair_samples`.
    source, word : str
        The file of the samples, and what they are there ("scored", "ranked"), for messages.

    Returns
    -------
    at : ndarray of int
        The row of each sample in the truth, -1 if it has none.
    is_negative : bool
        Whether samples without a row count as negative; otherwise they are left out.
    notes : list of str
    """
    if missing_truth is not None:
        check_choice(missing_truth, ("negative", "skip"), name="missing_truth")
    elif truth.layout == "long":
        missing_truth = "skip" if truth.is_cafa else "negative"
    row = {name: i for i, name in enumerate(truth.samples)}
    at = np.array([row.get(name, -1) for name in names], dtype=np.int64)
    lost = [name for name in names if name not in row]
    path = truth.report.path
    if len(lost) == len(names):
        raise DataError(
            f"{path}: none of the {len(names):,} samples of {source} has truth.\n"
            f"Hint: samples are matched by name; {source} has {quote_names(names, most=3)}, the "
            f"truth has {quote_names(truth.samples, most=3)}."
        )
    if lost and missing_truth is None:
        raise DataError(
            f"{path}: {len(lost):,} {word} sample(s) have no row: {quote_names(lost)}.\n"
            "Hint: --missing-truth skip leaves them out, --missing-truth negative takes them as "
            "samples without labels."
        )
    notes = []
    if lost:
        what = "without truth are left out"
        if missing_truth == "negative":
            what = "that the truth file does not mention are taken to have no positive label"
        notes.append(f"{len(lost):,} {word} samples {what}: {quote_names(lost)}")
    return at, missing_truth != "skip", notes
