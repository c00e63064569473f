"""Bring scores and truth to the same samples, and say what that left out or took as negative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base import AnyPath
from hierlpr._base.checks import MOST_WEIGHT, check_choice, listed
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError, FileError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io._watch import ReadReport, Watch
from hierlpr.io.opening import TablePath, written
from hierlpr.io.table_files import TableFormat, open_table
from hierlpr.io.whole_tables import ReadTable, TruthSets, read_scores

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


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """Row of each sample in the truth, -1 if it has none; whether it then counts as negative."""

    at: NDArray[np.int64]
    negative: bool
    notes: tuple[str, ...]


def match_samples(
    names: Sequence[str],
    truth: ReadTable | TruthSets,
    *,
    absent: Absent | None,
    source: str,
    word: str,
) -> Match:
    """Find samples by name in the truth; `absent` and the defaults as in `pair_samples`.

    `source` is the file the samples come from, `word` what they are there (scored, ranked).
    """
    known = truth.samples
    place = {name: i for i, name in enumerate(known)}
    at = np.array([place.get(name, -1) for name in names], dtype=np.int64)
    seen = Seen(
        source, word, len(names), names[:3], truth.report.path, truth.layout, len(known), known[:3],
        len(lost := [name for name in names if name not in place]), lost[:5],
    )  # fmt: skip
    return Match(at, *judge_absent(seen, absent))


class Seen(NamedTuple):
    """What a decision on samples without truth, and its words, are made from."""

    source: str
    word: str
    n_samples: int
    first_samples: Sequence[str]
    truth_path: str
    layout: str
    n_known: int
    first_known: Sequence[str]
    n_lost: int
    first_lost: Sequence[str]


def default_absent(absent: Absent | None, layout: str) -> str | None:
    """Say what becomes of samples without truth; None if the user must say it."""
    return absent or {"long": "negative", "cafa": "skip"}.get(layout)


def judge_absent(seen: Seen, absent: Absent | None) -> tuple[bool, tuple[str, ...]]:
    """Say whether samples without truth count as negative (else they are left out), and notes."""
    if absent is not None:
        check_choice(absent, ("negative", "skip"), name="absent")
    choice = default_absent(absent, seen.layout)
    lost = listed(seen.first_lost, total=seen.n_lost)
    if seen.n_lost == seen.n_samples:
        raise DataError(
            f"{seen.truth_path}: none of the {seen.n_samples:,} samples of {seen.source} has "
            f"truth.\nHint: samples are matched by name; {seen.source} has "
            f"{listed(seen.first_samples, most=3, total=seen.n_samples)}, the truth has "
            f"{listed(seen.first_known, most=3, total=seen.n_known)}."
        )
    if seen.n_lost and choice is None:
        raise DataError(
            f"{seen.truth_path}: {seen.n_lost:,} {seen.word} sample(s) have no row: {lost}.\n"
            "Hint: --absent skip leaves them out, --absent negative takes them as having no label."
        )
    notes: tuple[str, ...] = ()
    if seen.n_lost and choice == "skip":
        notes = (f"{seen.n_lost:,} {seen.word} samples without truth are left out: {lost}",)
    elif seen.n_lost:
        notes = (
            f"{seen.n_lost:,} {seen.word} samples that the truth file does not mention are taken "
            f"to have no positive label: {lost}",
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


class Weights(NamedTuple):
    """Weights of samples by name, and what was seen."""

    of: Mapping[str, float]
    report: ReadReport

    def match(self, names: Sequence[str], source: str) -> NDArray[np.float64]:
        """Return the weight of each sample."""
        lost = [name for name in names if name not in self.of]
        if lost:
            raise DataError(
                f"{self.report.path}: {len(lost):,} of {len(names):,} samples of {source} have no "
                f"weight: {listed(lost[:5], total=len(lost))}.\n"
                "Hint: samples are matched by name; a weight of 0 leaves one out."
            )
        found = np.array([self.of[name] for name in names], dtype=np.float64)
        if not found.any():
            raise DataError(
                f"{self.report.path}: all {len(names):,} samples of {source} have the weight 0.\n"
                "Hint: 0 leaves a sample out; give some of them a weight."
            )
        return found


def read_weights(
    path: AnyPath, *, lenient: bool = False, max_weight: float | None = None
) -> Weights:
    """Read a table with the columns ``sample`` and ``weight``; other columns are passed over.

    Weights are 0 or more, up to `max_weight` if there is such a bound; every sample has one row.
    """
    table = open_table(path, TableFormat.of("scores"), Watch(path, lenient=True))
    if not table.is_wide or "weight" not in table.numbers:
        raise FileError(
            f"{table.path}: there is no column 'weight'.\n"
            "Hint: a table of weights has the header sample,weight."
        )
    alone = TablePath(path, **{**written(path).options, "columns": "labels"})
    read = read_scores(alone, Hierarchy((), labels=("weight",)), lenient=lenient)
    values = np.asarray(read.table.values)[:, 0]
    most = MOST_WEIGHT if max_weight is None else min(max_weight, MOST_WEIGHT)
    bad = np.flatnonzero((values < 0.0) | (values > most))
    if bad.size:
        name, first = read.samples[int(bad[0])], float(values[bad[0]])
        what, hint = f"more than {most:g}", "only ratios of weights matter; give smaller ones."
        if first < 0.0:
            what, hint = "less than 0", "weights are 0 or more; 0 leaves a sample out."
        elif first <= MOST_WEIGHT:
            what = f"more than max_weight={most:g}"
            hint = "the bound must hold for every sample; give one that does, or clip the weights."
        raise Watch(path, lenient=True).fail(
            f"the weight of sample {name!r} is {first:g}, {what} ({bad.size:,} such).",
            line=next(table.find(name, None), None),
            column="weight",
            hint=hint,
        )
    return Weights(dict(zip(read.samples, values.tolist(), strict=True)), read.report)


def pair_samples(scores: ReadTable, truth: ReadTable, *, absent: Absent | None = None) -> Pair:
    """Match samples by name.

    A scored sample that the truth file lacks has no positive label if the truth is a long table
    (``absent="negative"``, the default there), and is left out if it is a CAFA file
    (``absent="skip"``, the default there). In a wide table it is an error unless `absent` says
    otherwise. Samples with truth but without scores are left out.
    """
    names = scores.table.samples or ()
    match = match_samples(names, truth, absent=absent, source=scores.report.path, word="scored")
    notes = list(match.notes)
    scored = set(names)
    unscored = [name for name in truth.table.samples or () if name not in scored]
    if unscored:
        notes.append(unscored_note(len(unscored), unscored))
    rows = np.arange(match.at.size) if match.negative else np.flatnonzero(match.at >= 0)
    return Pair(
        scores.table.rows(rows), _truth_rows(truth.table, match.at[rows], names, rows), tuple(notes)
    )


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
