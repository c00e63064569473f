"""Counts, problems and notes that a reader collects; strict by default."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hierlpr._utils.checks import nearest, quote_names
from hierlpr.exceptions import FileError

MAX_PROBLEMS = 20  # kept with their places; all are counted

Place = int | str | None  # a line number, or text such as "row 7"


def describe_place(place: Place) -> str:
    """Return ``"line 7"`` for a line number, and other places unchanged."""
    return f"line {place}" if isinstance(place, int) else place or ""


@dataclass(frozen=True, slots=True)
class ReadReport:
    """What was found in one file.

    Attributes
    ----------
    path, format
        The file, and the format it was read as.
    counts
        Number of rows, samples, labels, ignored comments, and so on.
    unknown_labels
        How often each label that is not in the hierarchy occurred (lenient reading only).
    problems
        The first problems with rows that were skipped; `n_problems` counts all of them.
    notes
        Remarks about the whole file, such as possibly reversed edges.
    """

    path: str
    format: str
    counts: Mapping[str, int] = field(default_factory=dict)
    unknown_labels: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    n_problems: int = 0
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return sentences for a terminal: a summary first, then warnings."""
        counts = ", ".join(f"{n:,} {what}" for what, n in self.counts.items())
        said = [f"{self.path}: {self.format}" + (f", {counts}" if counts else "")]
        said += self.notes
        if self.unknown_labels:
            said.append(
                f"{sum(self.unknown_labels.values()):,} entries for {len(self.unknown_labels):,} "
                f"unknown label(s) were skipped: {quote_names(list(self.unknown_labels))}"
            )
        if self.n_problems:
            said.append(
                f"{self.n_problems:,} row(s) with problems were skipped; the first: "
                f"{self.problems[0]}"
            )
        return said

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "path": self.path,
            "format": self.format,
            "counts": dict(self.counts),
            "unknown_labels": dict(self.unknown_labels),
            "n_problems": self.n_problems,
            "problems": list(self.problems),
            "notes": list(self.notes),
        }


class ReadLog:
    """Collect what a reader sees. A problem raises, or is counted if `lenient`."""

    def __init__(
        self, path: str | os.PathLike[str], format: str = "", *, lenient: bool = False
    ) -> None:
        self.path = os.fspath(path)
        self.format = format
        self.lenient = lenient
        self.notes: list[str] = []
        self.counts: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.problems: list[str] = []
        self.n_problems = 0

    def file_error(
        self, text: str, *, line: Place = None, column: str | None = None, hint: str = ""
    ) -> FileError:
        """Return the error that names file, place and column; the caller raises it."""
        where = [self.path]
        if line is not None:
            where.append(describe_place(line))
        if column is not None:
            where.append(f"column {column!r}")
        return FileError(f"{', '.join(where)}: {text}" + (f"\nHint: {hint}" if hint else ""))

    def problem(
        self, text: str, *, line: Place = None, column: str | None = None, hint: str = ""
    ) -> None:
        """Raise for a bad row, or count it if reading is lenient."""
        if not self.lenient:
            lenient = "--lenient (lenient=True) skips such rows and counts them."
            raise self.file_error(text, line=line, column=column, hint=f"{hint} {lenient}".strip())
        self.n_problems += 1
        if len(self.problems) < MAX_PROBLEMS:
            where = [describe_place(line), f"column {column!r}" if column is not None else ""]
            self.problems.append(": ".join(filter(None, (*where, text))))

    def unknown_label(
        self,
        label: str,
        known: Iterable[str],
        *,
        line: Place = None,
        hint: str = "",
        times: int = 1,
    ) -> None:
        """Raise for a label that is not in the hierarchy, or count it if reading is lenient."""
        if not self.lenient:
            lenient = "--lenient (lenient=True) skips unknown labels."
            raise self.file_error(
                f"label {label!r} is not in the hierarchy.",
                line=line,
                hint=" ".join(filter(None, (nearest(label, known), hint, lenient))),
            )
        self.unknown[label] += times

    def note(self, text: str) -> None:
        """Remember a remark about the whole file."""
        self.notes.append(text)

    def report(self, **counts: int) -> ReadReport:
        """Return the report; the counts given here come first, other zero counts are omitted."""
        first = {"rows": self.counts["rows"]} if "rows" in self.counts else {}
        merged = {**first, **counts, **{what: n for what, n in self.counts.items() if n}}
        return ReadReport(
            path=self.path,
            format=self.format,
            counts={what.replace("_", " "): n for what, n in merged.items()},
            unknown_labels=dict(self.unknown.most_common()),
            problems=tuple(self.problems),
            n_problems=self.n_problems,
            notes=tuple(self.notes),
        )
