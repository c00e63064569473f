"""Scores and truth from files: wide, long, CAFA, Clus; text or Parquet."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix, listed
from hierlpr.data.label_sets import LabelSets
from hierlpr.data.tables import Table
from hierlpr.exceptions import FileError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io._files import ending
from hierlpr.io._layout import Columns, Content, read_columns
from hierlpr.io._long import read_long, read_long_entries, value_problem
from hierlpr.io._watch import ReadReport, Watch
from hierlpr.io.arff import read_arff, read_clus_predictions

__all__ = [
    "ScoresFile", "TruthFile", "TruthSets", "read_scores", "read_truth", "read_truth_sets",
]  # fmt: skip

Layout = Literal["wide", "long", "cafa", "arff"]


@dataclass(frozen=True, slots=True, eq=False)
class ScoresFile:
    """Scores and what was seen. `table` is sparse if the file lacks some (sample, label) pairs."""

    table: Table
    report: ReadReport
    layout: Layout


@dataclass(frozen=True, slots=True, eq=False)
class TruthFile:
    """Truth (0 and 1, closed upward) and what was seen.

    A wide table names all its samples; a long one (`layout` "long" or "cafa") names those with a
    label, so that a sample it lacks may have none, or may be unknown.
    """

    table: Table
    report: ReadReport
    layout: Layout

    @property
    def samples(self) -> tuple[str, ...]:
        """Names of the samples."""
        return self.table.samples or ()


@dataclass(frozen=True, slots=True, eq=False)
class TruthSets:
    """Truth as in `TruthFile`, but as the set of labels of every sample."""

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
) -> ScoresFile:
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
    ScoresFile
        A long file that lacks pairs gives a sparse matrix that stores what the file lists, zeros
        included: for what is not stored there is no score.

    Raises
    ------
    FileError
        Naming file, line and column.
    """
    watch = Watch(path, lenient=lenient)
    if ending(path) == ".arff":
        predictions = read_clus_predictions(path, lenient=lenient)
        table = _wide_table(
            predictions.scores.values, predictions.scores.labels, predictions.scores.samples or (),
            hierarchy, aliases, watch,
        )  # fmt: skip
        return ScoresFile(table, predictions.report, "arff")
    columns = read_columns(path, "scores", watch)
    if columns.layout == "wide":
        table = _read_wide(columns, "scores", hierarchy, aliases, watch, allow_missing)
    else:
        table = read_long(columns, "scores", hierarchy, aliases, watch)
    return ScoresFile(
        table, _report(table.n_samples, len(table.labels), columns, watch), columns.layout
    )


def read_truth(
    path: str | os.PathLike[str],
    hierarchy: Hierarchy,
    *,
    aliases: Mapping[str, str] | None = None,
    close: bool = False,
    lenient: bool = False,
) -> TruthFile:
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
    if ending(path) == ".arff":
        data = read_arff(path, hierarchy=hierarchy, lenient=lenient)
        kept = np.flatnonzero(data.labelled)
        table = Table(
            data.truth[kept].astype(np.float64), hierarchy.labels,
            tuple(data.samples[i] for i in kept),
        )  # fmt: skip
        return TruthFile(table, data.report, "arff")
    columns = read_columns(path, "truth", watch)
    if columns.layout == "wide":
        table = _read_wide(columns, "truth", hierarchy, aliases, watch, False)
    else:
        table = read_long(columns, "truth", hierarchy, aliases, watch)
    closing = close or lenient or columns.layout == "cafa"
    table = _closed(table, hierarchy, columns, closing, watch)
    return TruthFile(
        table, _report(table.n_samples, len(table.labels), columns, watch), columns.layout
    )


def read_truth_sets(
    path: str | os.PathLike[str],
    hierarchy: Hierarchy,
    *,
    aliases: Mapping[str, str] | None = None,
    close: bool = False,
    lenient: bool = False,
) -> TruthSets:
    """Read truth as `read_truth` does, without making a matrix of a long table."""
    if ending(path) != ".arff":
        watch = Watch(path, lenient=lenient)
        columns = read_columns(path, "truth", watch)
        if columns.layout != "wide":
            entries = read_long_entries(columns, "truth", hierarchy, aliases, watch)
            sets = LabelSets(entries.row_ptr, entries.column, hierarchy.n_labels)
            closed = sets.closed(hierarchy)
            added = closed.label.size - sets.label.size
            if added and not (close or lenient or columns.layout == "cafa"):
                sample = int(np.argmax(np.diff(closed.row_ptr) != np.diff(sets.row_ptr)))
                row = np.zeros((1, hierarchy.n_labels))
                row[0, sets.run(sample, sample + 1)[0]] = 1.0
                name = entries.samples[sample]
                raise _not_closed(row, name, added, hierarchy, columns, watch)
            watch.counts["ancestors_added"] += added
            report = _report(len(entries.samples), len(entries.labels), columns, watch)
            return TruthSets(closed, entries.samples, report, columns.layout)
    known = read_truth(path, hierarchy, aliases=aliases, close=close, lenient=lenient)
    return TruthSets(LabelSets.of(known.table.values), known.samples, known.report, known.layout)


def _report(n_samples: int, n_labels: int, columns: Columns, watch: Watch) -> ReadReport:
    counts = {"samples": n_samples, "labels": n_labels}
    if columns.layout != "wide":
        counts = {"rows": columns.table.num_rows, **counts}
    return watch.report(**counts)


# -- wide -------------------------------------------------------------------------------------


def _read_wide(
    columns: Columns,
    content: Content,
    hierarchy: Hierarchy | None,
    aliases: Mapping[str, str] | None,
    watch: Watch,
    allow_missing: bool,
) -> Table:
    samples = columns.table.column(0).to_pylist()
    values = np.empty((columns.table.num_rows, len(columns.labels)))
    for i in range(len(columns.labels)):
        values[:, i] = columns.table.column(i + 1).to_numpy()
    good = _good_samples(samples, columns, watch)
    _check_values(values, good, content, columns, watch, allow_missing)
    if not good.all():
        values = values[good]
        samples = [sample for sample, keep in zip(samples, good, strict=True) if keep]
        if not samples:
            raise watch.fail(f"no row could be read; the first problem: {watch.problems[0]}")
    return _wide_table(values, columns.labels, samples, hierarchy, aliases, watch)


def _good_samples(samples: list[Any], columns: Columns, watch: Watch) -> NDArray[np.bool_]:
    good = np.ones(len(samples), dtype=bool)
    first: dict[str, int] = {}
    for row, sample in enumerate(samples):
        if sample is None or not sample.strip():
            watch.problem("the sample has no name.", line=columns.place(row))
            good[row] = False
        elif sample in first:
            watch.problem(
                f"sample {sample!r} occurs again (first on {_words(columns, first[sample])}).",
                line=columns.place(row),
            )
            good[row] = False
        else:
            first[sample] = row
    return good


def _words(columns: Columns, row: int) -> str:
    place = columns.place(row)
    return f"line {place}" if isinstance(place, int) else place


def _check_values(
    values: NDArray[np.float64],
    good: NDArray[np.bool_],
    content: Content,
    columns: Columns,
    watch: Watch,
    allow_missing: bool,
) -> None:
    if content == "truth":
        bad = (values != 0.0) & (values != 1.0)
    elif allow_missing:
        bad = np.isinf(values)
    else:
        bad = ~np.isfinite(values)
    bad &= good[:, None]
    for row in np.flatnonzero(bad.any(axis=1)).tolist():
        column = int(np.argmax(bad[row]))
        watch.problem(
            value_problem(float(values[row, column]), content),
            line=columns.place(row),
            column=columns.labels[column],
        )
        good[row] = False


def _wide_table(
    values: Any,
    labels: Sequence[str],
    samples: Sequence[str],
    hierarchy: Hierarchy | None,
    aliases: Mapping[str, str] | None,
    watch: Watch,
) -> Table:
    """Bring columns into the hierarchy's order; every label needs one."""
    if hierarchy is None:
        return Table(values, tuple(labels), tuple(samples))
    column: dict[str, int] = {}
    for i, given in enumerate(labels):
        label = given if given in hierarchy or not aliases else aliases.get(given, given)
        if label not in hierarchy:
            watch.unknown_label(given, hierarchy.labels, line="the header")
        elif label in column:
            raise watch.fail(
                f"is another name of column {labels[column[label]]!r}.", column=given,
                hint=f"both are label {label!r}; keep one.",
            )  # fmt: skip
        else:
            column[label] = i
            watch.counts["labels_by_another_name"] += label != given
    absent = [label for label in hierarchy.labels if label not in column]
    if absent:
        raise watch.fail(
            f"{len(absent):,} label(s) of the hierarchy have no column: {listed(absent)}.",
            line="the header",
            hint="add the columns, or use a long table, which may lack entries.",
        )
    order = [column[label] for label in hierarchy.labels]
    if order != list(range(len(labels))):
        values = np.ascontiguousarray(values[:, order])
    return Table(values, hierarchy.labels, tuple(samples))


# -- closure ----------------------------------------------------------------------------------


def _closed(
    table: Table, hierarchy: Hierarchy, columns: Columns, closing: bool, watch: Watch
) -> Table:
    before = table.values
    closed = hierarchy.close_upward(before)
    if isinstance(before, np.ndarray):
        missing = np.argwhere(closed & (before == 0.0))
        added = len(missing)
    else:
        added = int(closed.nnz - before.nnz)
        missing = np.array([np.flatnonzero(np.diff(closed.indptr) != np.diff(before.indptr))]).T
    if added and not closing:
        sample = int(missing[0][0])
        name = (table.samples or ())[sample]
        raise _not_closed(before[[sample]], name, added, hierarchy, columns, watch)
    if not added:
        return table
    watch.counts["ancestors_added"] = added
    values = closed.astype(np.float64)
    return Table(values, table.labels, table.samples)


def _not_closed(
    row: Matrix, name: str, added: int, hierarchy: Hierarchy, columns: Columns, watch: Watch
) -> FileError:
    """Name the first label without its parent in the row of a sample."""
    _, parent, child = hierarchy.violations(row)[0]
    return watch.fail(
        f"sample {name!r} has {child!r} but not its parent "
        f"{parent!r} ({added:,} label(s) are missing in all).",
        line=_line_of_entry(columns, name, child),
        hint="add the missing ancestors with --close-truth (close=True). Or is the hierarchy "
        "reversed? hierlpr inspect shows its roots.",
    )


def _line_of_entry(columns: Columns, name: str, child: str) -> int | str | None:
    found = columns.table.column("sample" if columns.layout != "wide" else 0).to_pylist()
    if columns.layout == "wide":
        return columns.place(found.index(name))
    labels = columns.table.column("label").to_pylist()
    pairs = zip(found, labels, strict=True)
    row = next((i for i, pair in enumerate(pairs) if pair == (name, child)), None)
    return columns.place(row if row is not None else found.index(name))
