"""Scores and truth from files, whole: the blocks of `hierlpr.io.table_files` put together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix
from hierlpr.data.label_sets import LabelSets
from hierlpr.data.tables import Table
from hierlpr.hierarchy import Hierarchy
from hierlpr.io._watch import ReadReport, Watch
from hierlpr.io.row_rules import (
    LabelNumbers,
    long_rows,
    no_rows,
    not_closed,
    number_names,
    tell_repeated_pairs,
    tell_repeated_samples,
    wide_columns,
    wide_rows,
)
from hierlpr.io.table_files import Layout, TableFile, TableFormat, open_table

__all__ = [
    "ReadTable",
    "ScoresFile",
    "TruthFile",
    "TruthSets",
    "read_scores",
    "read_truth",
    "read_truth_sets",
]


@dataclass(frozen=True, slots=True, eq=False)
class ReadTable:
    """Scores, or truth (0 and 1, closed upward), and what was seen.

    Scores are sparse if the file lacks some (sample, label) pairs. A wide table names all its
    samples; long truth (`layout` "long" or "cafa") names those with a label, so that a sample it
    lacks may have none, or may be unknown.
    """

    table: Table
    report: ReadReport
    layout: Layout

    @property
    def samples(self) -> tuple[str, ...]:
        """Names of the samples."""
        return self.table.samples or ()


ScoresFile = TruthFile = ReadTable


@dataclass(frozen=True, slots=True, eq=False)
class TruthSets:
    """Truth as in `ReadTable`, but as the set of labels of every sample."""

    sets: LabelSets
    samples: tuple[str, ...]
    report: ReadReport
    layout: Layout


def read_scores(
    path: str | os.PathLike[str],
    hierarchy: Hierarchy | None = None,
    *,
    aliases: Mapping[str, str] | None = None,
    allow_missing: bool = False,
    lenient: bool = False,
) -> ReadTable:
    """Read scores: wide, long or CAFA text, Parquet, or Clus predictions.

    Parameters
    ----------
    path : path
    hierarchy : Hierarchy, optional
        The columns become its labels, in its order. Without it the file sets the labels.
    aliases : mapping, optional
        Other names of labels, as `load_hierarchy` gives them.
    allow_missing : bool
        Let missing values of a wide table be NaN instead of a problem.
    lenient : bool
        Leave out bad rows and unknown labels, and count them; of repeated entries the highest
        score counts.

    Returns
    -------
    ReadTable
        A long file that lacks pairs gives a sparse matrix that stores what the file lists, zeros
        included: for what is not stored there is no score.

    Raises
    ------
    FileError
        Naming file, line and column.
    """
    watch = Watch(path, lenient=lenient)
    table = open_table(path, TableFormat.of("scores"), watch)
    if table.is_wide:
        found = _read_wide(table, hierarchy, aliases, watch, allow_missing)
    else:
        found = _read_long(table, LabelNumbers(hierarchy, aliases), watch).scores()
    report = watch.report(samples=found.n_samples, labels=len(found.labels))
    return ReadTable(found, report, table.layout)


def read_truth(
    path: str | os.PathLike[str],
    hierarchy: Hierarchy,
    *,
    aliases: Mapping[str, str] | None = None,
    close: bool = False,
    lenient: bool = False,
) -> ReadTable:
    """Read truth: wide 0/1, long pairs or CAFA pairs, text or Parquet, or Clus ARFF.

    CAFA and Clus files list the most specific labels and are closed upward. Elsewhere a label
    without its parent is a problem, unless `close` or `lenient` ask to add what is missing.

    Parameters
    ----------
    path : path
    hierarchy : Hierarchy
    aliases : mapping, optional
        Other names of labels, as `load_hierarchy` gives them.
    close : bool
        Close upward and count what was added.
    lenient : bool
        Leave out bad rows and unknown labels, close upward, and count all of it.
    """
    watch = Watch(path, lenient=lenient)
    table = open_table(path, TableFormat.of("truth"), watch)
    if not table.is_wide:
        known = _read_sets(table, hierarchy, aliases, close, watch)
        values = _matrix(known.sets)
        if table.layout == "arff":
            values = values.toarray()
        return ReadTable(Table(values, hierarchy.labels, known.samples), known.report, known.layout)
    found = _read_wide(table, hierarchy, aliases, watch, False)
    before = found.values
    closed = hierarchy.close_upward(before)
    missing = closed & (before == 0.0)
    if missing.any():
        _add_missing(
            before, found.samples or (), int(np.argmax(missing.any(axis=1))), int(missing.sum()),
            close, LabelNumbers(hierarchy, aliases), table, hierarchy, watch,
        )  # fmt: skip
        found = Table(closed.astype(np.float64), found.labels, found.samples)
    report = watch.report(samples=found.n_samples, labels=len(found.labels))
    return ReadTable(found, report, table.layout)


def read_truth_sets(
    path: str | os.PathLike[str],
    hierarchy: Hierarchy,
    *,
    aliases: Mapping[str, str] | None = None,
    close: bool = False,
    lenient: bool = False,
) -> TruthSets:
    """Read truth as `read_truth` does, without making a matrix of a long table."""
    watch = Watch(path, lenient=lenient)
    table = open_table(path, TableFormat.of("truth"), watch)
    if not table.is_wide:
        return _read_sets(table, hierarchy, aliases, close, watch)
    known = read_truth(path, hierarchy, aliases=aliases, close=close, lenient=lenient)
    return TruthSets(LabelSets.of(known.table.values), known.samples, known.report, known.layout)


# -- wide -------------------------------------------------------------------------------------


def _read_wide(
    table: TableFile,
    hierarchy: Hierarchy | None,
    aliases: Mapping[str, str] | None,
    watch: Watch,
    allow_missing: bool,
) -> Table:
    table = table.using(wide_columns(table.numbers, hierarchy, aliases, watch))
    names: list[str] = []
    values: list[NDArray[np.float64]] = []
    good: list[NDArray[np.bool_]] = []
    for block in table.blocks(watch):
        matrix, fine = wide_rows(
            block, table.numbers, table.format.content, watch, allow_missing=allow_missing
        )
        names += block.texts[0].to_pylist()
        values.append(matrix)
        good.append(fine)
    if not names:
        raise no_rows(table, watch)
    first: dict[str, int] = {}
    repeats = [
        (name, at, row) for row, name in enumerate(names)
        if name and name.strip() and (at := first.setdefault(name, row)) != row
    ]  # fmt: skip
    kept = np.concatenate(good)
    kept[tell_repeated_samples(repeats, table, watch)] = False
    if not kept.any():
        raise no_rows(table, watch)
    matrix = values[0] if len(values) == 1 else np.concatenate(values)
    if not kept.all():
        matrix = matrix[kept]
        names = [name for name, keep in zip(names, kept, strict=True) if keep]
    labels = tuple(table.numbers) if hierarchy is None else hierarchy.labels
    return Table(matrix, labels, tuple(names))


# -- long -------------------------------------------------------------------------------------


class _Entries(NamedTuple):
    """A long table as sorted rows of entries, one row for each sample."""

    row_ptr: NDArray[np.int64]
    column: NDArray[np.int32]
    value: NDArray[np.float64]
    samples: tuple[str, ...]
    labels: tuple[str, ...]

    def scores(self) -> Table:
        """Return the matrix that stores what is listed; dense if all scores are."""
        shape = (len(self.samples), len(self.labels))
        if self.value.size == shape[0] * shape[1]:
            return Table(self.value.reshape(shape), self.labels, self.samples, is_list=True)
        values = _csr(self.value, self.column, self.row_ptr, shape)
        return Table(values, self.labels, self.samples)


def _csr(
    value: NDArray[np.float64],
    column: NDArray[np.int32],
    row_ptr: NDArray[np.int64],
    shape: tuple[int, int],
) -> Matrix:
    from scipy import sparse

    return sparse.csr_array((value, column, row_ptr), shape=shape)


def _read_long(table: TableFile, numbers: LabelNumbers, watch: Watch) -> _Entries:
    """Entries of a long table; rows are the samples of good rows in order of first appearance."""
    samples: dict[str, int] = {}
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
    n_rows = 0
    for block in table.blocks(watch):
        label, value, good = long_rows(block, numbers, table, watch)
        n_rows += block.n_rows
        sample = number_names(block.texts[0], good, samples)
        label, value = label[good], value[good]
        entry = label >= 0
        parts.append((sample[entry], label[entry], value[entry]))
    if not parts or not (samples if table.format.content == "truth" else sum(
        part[0].size for part in parts
    )):  # fmt: skip
        raise no_rows(table, watch)
    watch.counts["rows"] = n_rows
    row, col, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _sorted_entries(row, col, value, tuple(samples), numbers, table, watch)


def _sorted_entries(
    row: NDArray[np.int64],
    col: NDArray[np.int64],
    value: NDArray[np.float64],
    samples: tuple[str, ...],
    numbers: LabelNumbers,
    table: TableFile,
    watch: Watch,
) -> _Entries:
    """Sort the entries by sample and label, each pair once: of repeated ones the highest."""
    labels = numbers.labels
    order = np.lexsort([-value, col, row])
    row, col, value = row[order], col[order], value[order]
    again = np.zeros(row.size, dtype=bool)
    again[1:] = (row[1:] == row[:-1]) & (col[1:] == col[:-1])
    if again.any():
        at = int(np.argmax(again))
        tell_repeated_pairs(
            int(again.sum()), samples[row[at]], int(col[at]), numbers, table, watch
        )  # fmt: skip
        row, col, value = row[~again], col[~again], value[~again]
    if table.format.content == "truth":
        positive = value != 0.0
        row, col, value = row[positive], col[positive], value[positive]
    row_ptr = np.zeros(len(samples) + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=len(samples)), out=row_ptr[1:])
    return _Entries(row_ptr, col.astype(np.int32), value, samples, labels)


# -- closure ----------------------------------------------------------------------------------


def _read_sets(
    table: TableFile,
    hierarchy: Hierarchy,
    aliases: Mapping[str, str] | None,
    close: bool,
    watch: Watch,
) -> TruthSets:
    """Read a long table as sets of labels, closed upward."""
    numbers = LabelNumbers(hierarchy, aliases)
    entries = _read_long(table, numbers, watch)
    sets = LabelSets(entries.row_ptr, entries.column, hierarchy.n_labels)
    closed = sets.closed(hierarchy)
    added = closed.label.size - sets.label.size
    if added:
        sample = int(np.argmax(np.diff(closed.row_ptr) != np.diff(sets.row_ptr)))
        row = np.zeros((1, hierarchy.n_labels))
        row[0, sets.run(sample, sample + 1)[0]] = 1.0
        close = close or table.layout in ("cafa", "arff")
        _add_missing(
            row, entries.samples[sample:], 0, added, close, numbers, table, hierarchy, watch
        )  # fmt: skip
    report = watch.report(samples=len(entries.samples), labels=hierarchy.n_labels)
    return TruthSets(closed, entries.samples, report, table.layout)


def _matrix(sets: LabelSets) -> Any:
    found: Any = _csr(np.ones(sets.label.size), sets.label, sets.row_ptr, sets.shape)
    found.sort_indices()
    return found


def _add_missing(
    values: Matrix,
    samples: tuple[str, ...],
    row: int,
    n_missing: int,
    close: bool,
    numbers: LabelNumbers,
    table: TableFile,
    hierarchy: Hierarchy,
    watch: Watch,
) -> None:
    """Count ancestors that are added, or refuse truth that lacks them from some row on."""
    if close or watch.lenient:
        watch.counts["ancestors_added"] += n_missing
        return
    _, parent, child = hierarchy.violations(values[[row]])[0]
    raise not_closed(samples[row], parent, child, n_missing, numbers, table, watch)
