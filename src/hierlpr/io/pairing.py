"""Bring scores and truth to the same samples, and say what that left out or took as negative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hierlpr._validation import check_choice, listed
from hierlpr.exceptions import DataError
from hierlpr.io.tables import ScoresFile, TruthFile, TruthSets
from hierlpr.scores import Table

__all__ = ["Absent", "Match", "Pair", "match_samples", "pair_samples"]

Absent = Literal["negative", "skip"]


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Scores and truth with the same rows; `notes` say what happened to the other samples."""

    scores: Table
    truth: Table
    notes: tuple[str, ...]

    def rows(self, rows: NDArray[np.int64]) -> Pair:
        """Return some of the samples."""
        return Pair(_rows(self.scores, rows), _rows(self.truth, rows), self.notes)


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """Row of each sample in the truth, -1 if it has none; whether it then counts as negative."""

    at: NDArray[np.int64]
    negative: bool
    notes: tuple[str, ...]


def match_samples(
    names: Sequence[str],
    truth: TruthFile | TruthSets,
    *,
    absent: Absent | None,
    source: str,
    word: str,
) -> Match:
    """Find samples by name in the truth; `absent` and the defaults as in `pair_samples`.

    `source` is the file the samples come from, `word` what they are there (scored, ranked).
    """
    if absent is not None:
        check_choice(absent, ("negative", "skip"), name="absent")
    known = truth.samples
    place = {name: i for i, name in enumerate(known)}
    at = np.array([place.get(name, -1) for name in names], dtype=np.int64)
    lost = [name for name in names if name not in place]
    choice = absent or {"long": "negative", "cafa": "skip"}.get(truth.layout)
    if len(lost) == len(names):
        raise DataError(
            f"{truth.report.path}: none of the {len(names):,} samples of {source} has truth.\n"
            f"Hint: samples are matched by name; {source} has {listed(names, most=3)}, the truth "
            f"has {listed(known, most=3)}."
        )
    if lost and choice is None:
        raise DataError(
            f"{truth.report.path}: {len(lost):,} {word} sample(s) have no row: {listed(lost)}.\n"
            "Hint: --absent skip leaves them out, --absent negative takes them as having no label."
        )
    notes: tuple[str, ...] = ()
    if lost and choice == "skip":
        notes = (f"{len(lost):,} {word} samples without truth are left out: {listed(lost)}",)
    elif lost:
        notes = (
            f"{len(lost):,} {word} samples that the truth file does not mention are taken to have "
            f"no positive label: {listed(lost)}",
        )
    return Match(at, choice != "skip", notes)


def pair_samples(scores: ScoresFile, truth: TruthFile, *, absent: Absent | None = None) -> Pair:
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
        notes.append(f"{len(unscored):,} samples with truth but no scores are left out: "
                     f"{listed(unscored)}")  # fmt: skip
    rows = np.arange(match.at.size) if match.negative else np.flatnonzero(match.at >= 0)
    return Pair(_rows(scores.table, rows), _truth_rows(truth.table, match.at[rows], names, rows),
                tuple(notes))  # fmt: skip


def _rows(table: Table, rows: NDArray[np.int64]) -> Table:
    if np.array_equal(rows, np.arange(table.n_samples)):
        return table
    samples = table.samples or ()
    return Table(table.values[rows], table.labels, tuple(samples[i] for i in rows))


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
