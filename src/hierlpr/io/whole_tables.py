"""Scores and truth from files, whole: the blocks of `hierlpr.io.table_files` put together.

And brought to the same samples, with notes of what that left out or took as negative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from hierlpr._base import AnyPath
from hierlpr._base.checks import check_choice, listed
from hierlpr.data.label_sets import LabelSets
from hierlpr.data.partial_truth import close_given
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io._watch import ReadReport, Watch
from hierlpr.io.row_rules import (
    LabelNumbers,
    coded,
    long_rows,
    no_rows,
    number_names,
    tell_repeated_pairs,
    tell_repeated_samples,
    wide_columns,
    wide_rows,
)
from hierlpr.io.table_files import Content, Layout, open_table
from hierlpr.io.table_output import arrow_numbers

if TYPE_CHECKING:
    from hierlpr.exceptions import FileError


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
    """Truth as in `ReadTable`, but as the set of labels of every sample.

    `samples` are their names: a tuple or, read in parts, an array of Arrow over mapped files.
    """

    sets: LabelSets
    samples: Any
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
    found = whole.wide(allow_missing) if whole.table.is_wide else whole.listed()
    report = whole.watch.report(samples=found.n_samples, labels=len(found.labels))
    return ReadTable(found, report, whole.table.layout)


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
    found = read_truth_sets(path, hierarchy, aliases=aliases, close=close, lenient=lenient)
    is_dense = found.layout in ("wide", "arff")
    values = found.sets.as_given(is_dense=is_dense)
    return ReadTable(Table(values, hierarchy.labels, found.samples), found.report, found.layout)


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
        found = whole.wide()
        given, samples = LabelSets.of(found.values), found.samples or ()
    else:
        row_ptr, column, value, samples = whole.entries()
        given = LabelSets.of_entries(row_ptr, column, value, hierarchy.n_labels)
    closing = Closing(hierarchy, aliases, whole.table.layout, whole.watch, close)
    sets = closing.add(given, samples.__getitem__)
    closing.finish()
    report = whole.watch.report(samples=len(samples), labels=hierarchy.n_labels)
    return TruthSets(sets, samples, report, whole.table.layout)


class Closing:
    """Truth closed upward as it comes: what that adds is counted, or refused at the end."""

    def __init__(
        self,
        hierarchy: Hierarchy,
        aliases: Mapping[str, str] | None,
        layout: Layout,
        watch: Watch,
        close: bool,
    ) -> None:
        self._hierarchy, self._watch = hierarchy, watch
        self._labels = LabelNumbers(hierarchy, aliases)
        self._close = close or watch.lenient or layout in ("cafa", "arff")
        self._breach = ("", "", "")
        self._n_missing = self._n_implied = self.n_open = 0

    def add(self, given: LabelSets, name: Callable[[int], str]) -> LabelSets:
        """Add the ancestors of some samples, each of which has a name."""
        found = close_given(given, self._hierarchy, close=self._close)
        if found.n_missing and not (self._n_missing or self._close):
            sample, above, below = found.breach
            self._breach = name(sample), above, below
        self._n_missing += found.n_missing
        self._n_implied += found.n_implied
        self.n_open += found.n_open
        return found.sets

    def finish(self) -> None:
        """Note what was added; refuse truth that has a label without an ancestor, unless asked."""
        if self._n_missing and not self._close:
            raise self._refused()
        self._watch.counts["ancestors_added"] += self._n_missing + self._n_implied
        self._watch.counts["unknown_pairs"] += self.n_open

    def _refused(self) -> FileError:
        sample, above, below = self._breach
        is_parent = above in self._hierarchy.parents(below)
        number, of = self._hierarchy.index(below), self._labels.of
        table = open_table(self._watch.path, "truth", Watch(self._watch.path, lenient=True))
        is_label = None if table.is_wide else lambda name: of(name) == number
        return self._watch.fail(
            f"sample {sample!r} has {below!r} but not {'its parent ' if is_parent else ''}{above!r}"
            f"{'' if is_parent else ', which is above it'} "
            f"({self._n_missing:,} label(s) are missing in all).",
            line=next(table.find(sample, is_label), None),
            hint="add the missing ancestors with --close-truth (close=True). Or is the hierarchy "
            "reversed? hierlpr inspect shows its roots.",
        )


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
        self.table = open_table(path, content, self.watch)
        self._hierarchy, self._aliases = hierarchy, aliases
        self._labels = LabelNumbers(hierarchy, aliases)

    def wide(self, allow_missing: bool = False) -> Table:
        """Return the matrix of a wide table: its good rows, the first of each sample."""
        watch, content = self.watch, self.table.content
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
        row_ptr, column, value, samples = self.entries()
        labels = self._labels.labels
        shape = (len(samples), len(labels))
        if value.size == shape[0] * shape[1]:
            return Table(value.reshape(shape), labels, samples, is_list=True)
        from scipy import sparse

        return Table(sparse.csr_array((value, column, row_ptr), shape=shape), labels, samples)

    def entries(self) -> tuple[Any, Any, Any, tuple[str, ...]]:
        """Pointers, labels and values of a long table, and its samples.

        Rows are the samples of good rows in order of first appearance, sorted by label, each pair
        once: of repeated ones the highest.
        """
        table, watch = self.table, self.watch
        is_truth = table.content == "truth"
        names: list[Any] = []
        parts = [(np.empty(0, np.int64), np.empty(0))]
        n_rows = 0
        for block in table.blocks(watch):
            label, value, good = long_rows(block, self._labels, table, watch)
            n_rows += block.n_rows
            column = coded(block.texts[0])
            names.append(column if good.all() else column.filter(arrow_numbers(good)))
            parts.append((label[good], value[good]))
        row, samples = number_names(names)
        col, value = (np.concatenate(column) for column in zip(*parts, strict=True))
        entry = col >= 0
        if not (samples if is_truth else entry.any()):
            raise no_rows(table, watch)
        watch.counts["rows"] = n_rows
        if not entry.all():
            row, col, value = row[entry], col[entry], value[entry]
        order = np.lexsort([-value, col, row])
        row, col, value = row[order], col[order], value[order]
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


# -- the same samples -------------------------------------------------------------------------

Absent = Literal["negative", "skip"]


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Scores and truth with the same rows; `notes` say what happened to the other samples."""

    scores: Table
    truth: Table
    notes: tuple[str, ...]

    def rows(self, rows: NDArray[np.int64]) -> Pair:
        """Return some of the samples."""
        return Pair(self.scores.rows(rows), self.truth.rows(rows), self.notes)


def pair_samples(scores: ReadTable, truth: ReadTable, *, absent: Absent | None = None) -> Pair:
    """Match samples by name.

    A scored sample that the truth file lacks has no positive label if the truth is a long table
    (``absent="negative"``, the default there), and is left out if it is a CAFA file
    (``absent="skip"``, the default there). In a wide table it is an error unless `absent` says
    otherwise. Samples with truth but without scores are left out.
    """
    names = scores.table.samples or ()
    at, is_negative, found = match_samples(
        names, truth, absent=absent, source=scores.report.path, word="scored"
    )
    notes = list(found)
    scored = set(names)
    unscored = [name for name in truth.table.samples or () if name not in scored]
    if unscored:
        notes.append(unscored_note(len(unscored), unscored))
    rows = np.arange(at.size) if is_negative else np.flatnonzero(at >= 0)
    held = _truth_rows(truth.table, at[rows], names, rows)
    return Pair(scores.table.rows(rows), held, tuple(notes))


def _truth_rows(
    truth: Table, at: NDArray[np.int64], names: tuple[str, ...], rows: NDArray[np.int64]
) -> Table:
    # Place -1 is the row of zeros put at the end: a sample without any label.
    if isinstance(truth.values, np.ndarray):
        values = np.vstack([truth.values, np.zeros((1, truth.values.shape[1]))])[at]
    else:
        from scipy import sparse

        empty = sparse.csr_array((1, truth.values.shape[1]))
        values = sparse.csr_array(sparse.vstack([truth.values, empty], format="csr"))[at]
    return Table(values, truth.labels, tuple(names[i] for i in rows))


def match_samples(
    names: Sequence[str],
    truth: ReadTable | TruthSets,
    *,
    absent: Absent | None,
    source: str,
    word: str,
) -> tuple[NDArray[np.int64], bool, tuple[str, ...]]:
    """Find samples by name in the truth; `absent` and the defaults as in `pair_samples`.

    `source` is the file the samples come from, `word` what they are there (scored, ranked).
    Returns the row of each in the truth, -1 if it has none; whether it then counts as negative;
    and notes.
    """
    place = {name: i for i, name in enumerate(truth.samples)}
    at = np.array([place.get(name, -1) for name in names], dtype=np.int64)
    lost = [name for name in names if name not in place]
    given = (len(names), names[:3]), (len(lost), lost[:5])
    return at, *judge_absent(truth, absent, source, word, *given)


def default_absent(absent: Absent | None, layout: str) -> str | None:
    """Say what becomes of samples without truth; None if the user must say it."""
    return absent or {"long": "negative", "cafa": "skip"}.get(layout)


def judge_absent(
    truth: ReadTable | TruthSets,
    absent: Absent | None,
    source: str,
    word: str,
    samples: tuple[int, Sequence[str]],
    lost: tuple[int, Sequence[str]],
) -> tuple[bool, tuple[str, ...]]:
    """Say whether samples without truth count as negative (else they are left out), and notes.

    `samples` and `lost` are how many there are, and how many of them without truth, each with the
    names of the first; `source` and `word` as in `match_samples`.
    """
    if absent is not None:
        check_choice(absent, ("negative", "skip"), name="absent")
    choice, path = default_absent(absent, truth.layout), truth.report.path
    (n_samples, first), (n_lost, lost_names) = samples, lost
    named = listed(lost_names, total=n_lost)
    if n_lost == n_samples:
        raise DataError(
            f"{path}: none of the {n_samples:,} samples of {source} has truth.\n"
            f"Hint: samples are matched by name; {source} has "
            f"{listed(first, most=3, total=n_samples)}, the truth has "
            f"{listed(truth.samples[:3], most=3, total=len(truth.samples))}."
        )
    if n_lost and choice is None:
        raise DataError(
            f"{path}: {n_lost:,} {word} sample(s) have no row: {named}.\n"
            "Hint: --absent skip leaves them out, --absent negative takes them as having no label."
        )
    notes: tuple[str, ...] = ()
    if n_lost and choice == "skip":
        notes = (f"{n_lost:,} {word} samples without truth are left out: {named}",)
    elif n_lost:
        notes = (
            f"{n_lost:,} {word} samples that the truth file does not mention are taken "
            f"to have no positive label: {named}",
        )
    return choice != "skip", notes


def unscored_note(n_unscored: int, first: Sequence[str]) -> str:
    """Say how many samples with truth have no scores."""
    named = listed(first, total=n_unscored)
    return f"{n_unscored:,} samples with truth but no scores are left out: {named}"


def unlisted_note(n_unlisted: int) -> str:
    """Say how many samples with truth are not in a ranking."""
    return (
        f"{n_unlisted:,} samples with truth are not in the ranking; their labels count as not "
        "called"
    )
