"""Scores and truth from files, whole: the blocks of `hierlpr.io.table_files` put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base import AnyPath
from hierlpr.data.label_sets import LabelSets
from hierlpr.data.partial_truth import close_given, first_breach
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
from hierlpr.io.table_files import Content, Layout, TableFormat, open_table


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReadTable:
    """Scores, or truth (0 and 1, closed upward; NaN where it is unknown), and what was seen.

    Scores are sparse if the file lacks some (sample, label) pairs. A wide table names all its
    samples; long truth (`layout` "long" or "cafa") names those with a label, so that a sample it
    lacks may have none, or may be unknown.
    """

    table: Table
    report: ReadReport
    layout: Layout

    def __repr__(self) -> str:
        return f"<ReadTable: {self.layout}, {self.table.size_words()}>"

    @property
    def samples(self) -> tuple[str, ...]:
        """Names of the samples."""
        return self.table.samples or ()


@dataclass(frozen=True, slots=True, eq=False)
class TruthSets:
    """Truth as in `ReadTable`, but as the set of labels of every sample."""

    sets: LabelSets
    samples: tuple[str, ...]
    report: ReadReport
    layout: Layout


def read_scores(
    path: AnyPath,
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
    whole = _Whole(path, "scores", hierarchy, aliases, lenient)
    return whole.read(whole.wide(allow_missing) if whole.table.is_wide else whole.listed())


def read_truth(
    path: AnyPath,
    hierarchy: Hierarchy,
    *,
    aliases: Mapping[str, str] | None = None,
    close: bool = False,
    lenient: bool = False,
) -> ReadTable:
    """Read truth: wide 0/1, long pairs or CAFA pairs, text or Parquet, or Clus ARFF.

    CAFA and Clus files list the most specific labels and are closed upward. Elsewhere a label
    without its parent is a problem, unless `close` or `lenient` ask to add what is missing, or the
    parent is unknown: an empty cell, or ``unknown``.

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
    whole = _Whole(path, "truth", hierarchy, aliases, lenient)
    if whole.table.is_wide:
        return whole.read(whole.closed_wide(hierarchy, close))
    sets, samples = whole.sets(hierarchy, close)
    values = sets.as_given()
    is_dense = whole.table.layout == "arff"
    return whole.read(Table(values.toarray() if is_dense else values, hierarchy.labels, samples))


def read_truth_sets(
    path: AnyPath,
    hierarchy: Hierarchy,
    *,
    aliases: Mapping[str, str] | None = None,
    close: bool = False,
    lenient: bool = False,
) -> TruthSets:
    """Read truth as `read_truth` does, without making a matrix of a long table."""
    whole = _Whole(path, "truth", hierarchy, aliases, lenient)
    if whole.table.is_wide:
        found = whole.closed_wide(hierarchy, close)
        sets, samples = LabelSets.of(found.values).closed(hierarchy), found.samples or ()
    else:
        sets, samples = whole.sets(hierarchy, close)
    report = whole.watch.report(samples=len(samples), labels=hierarchy.n_labels)
    return TruthSets(sets, samples, report, whole.table.layout)


def _csr(value: Any, column: Any, row_ptr: Any, shape: tuple[int, int]) -> Any:
    from scipy import sparse

    return sparse.csr_array((value, column, row_ptr), shape=shape)


class _Whole:
    """A table whose blocks are put together."""

    def __init__(
        self,
        path: AnyPath,
        content: Content,
        hierarchy: Hierarchy | None,
        aliases: Mapping[str, str] | None,
        lenient: bool,
    ) -> None:
        self.watch = Watch(path, lenient=lenient)
        self.table = open_table(path, TableFormat.of(content), self.watch)
        self._hierarchy, self._aliases = hierarchy, aliases
        self._labels = LabelNumbers(hierarchy, aliases)

    def read(self, found: Table) -> ReadTable:
        """Return a table with what was seen."""
        report = self.watch.report(samples=found.n_samples, labels=len(found.labels))
        return ReadTable(found, report, self.table.layout)

    def wide(self, allow_missing: bool = False) -> Table:
        """Return the matrix of a wide table: its good rows, the first of each sample."""
        watch, content = self.watch, self.table.format.content
        columns = wide_columns(self.table.numbers, self._hierarchy, self._aliases, watch)
        table = self.table.using(columns)
        names: list[str] = []
        parts: list[tuple[NDArray[np.float64], NDArray[np.bool_]]] = []
        for block in table.blocks(watch):
            parts.append(wide_rows(block, columns, content, watch, allow_missing=allow_missing))
            names += block.texts[0].to_pylist()
        if not names:
            raise no_rows(table, watch)
        first: dict[str, int] = {}
        places = ((first.setdefault(name, row), row) for row, name in enumerate(names))
        again = [(at, row) for at, row in places if at != row and (names[row] or "").strip()]
        repeats = [(names[row], at, row) for at, row in again]
        matrix, kept = (
            x[0] if len(x) == 1 else np.concatenate(x) for x in zip(*parts, strict=True)
        )
        kept[tell_repeated_samples(repeats, table, watch)] = False
        if not kept.any():
            raise no_rows(table, watch)
        if not kept.all():
            matrix = matrix[kept]
            names = [name for name, keep in zip(names, kept, strict=True) if keep]
        labels = self._hierarchy.labels if self._hierarchy is not None else tuple(columns)
        return Table(matrix, labels, tuple(names))

    def listed(self) -> Table:
        """Return the matrix that stores what a long table lists; dense if all scores are."""
        row_ptr, column, value, samples = self._entries()
        labels = self._labels.labels
        shape = (len(samples), len(labels))
        if value.size == shape[0] * shape[1]:
            return Table(value.reshape(shape), labels, samples, is_list=True)
        return Table(_csr(value, column, row_ptr, shape), labels, samples)

    def _entries(self) -> tuple[Any, Any, Any, tuple[str, ...]]:
        """Pointers, labels and values of a long table, and its samples.

        Rows are the samples of good rows in order of first appearance, sorted by label, each pair
        once: of repeated ones the highest.
        """
        table, watch = self.table, self.watch
        is_truth = table.format.content == "truth"
        numbers: dict[str, int] = {}
        parts = []
        n_rows = 0
        for block in table.blocks(watch):
            label, value, good = long_rows(block, self._labels, table, watch)
            n_rows += block.n_rows
            sample = number_names(block.texts[0], good, numbers)
            label, value = label[good], value[good]
            entry = label >= 0
            parts.append((sample[entry], label[entry], value[entry]))
        if not (numbers if is_truth else any(part[0].size for part in parts)):
            raise no_rows(table, watch)
        watch.counts["rows"] = n_rows
        row, col, value = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort([-value, col, row])
        row, col, value = row[order], col[order], value[order]
        samples = tuple(numbers)
        again = np.zeros(row.size, dtype=bool)
        again[1:] = (row[1:] == row[:-1]) & (col[1:] == col[:-1])
        if again.any():
            at = int(np.argmax(again))
            n, name = int(again.sum()), samples[row[at]]
            tell_repeated_pairs(n, name, int(col[at]), self._labels, table, watch)
        kept = ~again & (value != 0.0) if is_truth else ~again
        row_ptr = np.zeros(len(samples) + 1, dtype=np.int64)
        np.cumsum(np.bincount(row[kept], minlength=len(samples)), out=row_ptr[1:])
        return row_ptr, col[kept].astype(np.int32), value[kept], samples

    # -- closure ------------------------------------------------------------------------------

    def closed_wide(self, hierarchy: Hierarchy, close: bool) -> Table:
        """Return wide truth, closed upward but for ancestors that are unknown unless `close`."""
        found = self.wide()
        given: NDArray[np.float64] = found.values
        closed = hierarchy.close_upward(given == 1.0)
        missing = closed & (given == 0.0)
        if missing.any():
            row = int(np.argmax(missing.any(axis=1)))
            name = (found.samples or ())[row]
            breach = first_breach(given[row], hierarchy)
            self._add_missing(name, *breach, int(missing.sum()), hierarchy, close)
        if close or self.watch.lenient:
            self.watch.counts["ancestors_added"] += int((closed & np.isnan(given)).sum())
            given = np.where(closed, 1.0, given)
        self.watch.counts["unknown_pairs"] += int(np.count_nonzero(np.isnan(given)))
        return Table(given, found.labels, found.samples)

    def sets(self, hierarchy: Hierarchy, close: bool) -> tuple[LabelSets, tuple[str, ...]]:
        """Return long truth as sets of labels, closed upward, and the samples."""
        row_ptr, column, value, samples = self._entries()
        given = LabelSets.of_entries(row_ptr, column, value, hierarchy.n_labels)
        close = close or self.watch.lenient or self.table.layout in ("cafa", "arff")
        closed = close_given(given, hierarchy, close=close)
        if closed.n_missing:
            sample, above, below = closed.breach
            self._add_missing(samples[sample], above, below, closed.n_missing, hierarchy, close)
        self.watch.counts["ancestors_added"] += closed.n_implied
        self.watch.counts["unknown_pairs"] += closed.n_open
        return closed.sets, samples

    def _add_missing(
        self,
        sample: str,
        above: str,
        below: str,
        n_missing: int,
        hierarchy: Hierarchy,
        close: bool,
    ) -> None:
        """Count ancestors that are added, or refuse truth that lacks them from some row on."""
        if close or self.watch.lenient:
            self.watch.counts["ancestors_added"] += n_missing
            return
        breach = (sample, above, below, above in hierarchy.parents(below))
        raise not_closed(breach, n_missing, self._labels, self.table, self.watch)
