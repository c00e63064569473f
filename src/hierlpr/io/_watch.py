"""What a reader saw: counts, problems and notes, strict by default."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from hierlpr._base.checks import listed, nearest
from hierlpr.exceptions import FileError

MOST_KEPT = 20


@dataclass(frozen=True, slots=True)
class Problem:
    """One row-level problem that a lenient reading passed over."""

    text: str
    line: int | str | None = None

    def __str__(self) -> str:
        if self.line is None:
            return self.text
        return f"{f'line {self.line}' if isinstance(self.line, int) else self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class ReadReport:
    """What was found in one file.

    Attributes
    ----------
    path, format
        The file, and what it was read as.
    counts
        How many of what: rows, samples, labels, comments ignored, and so on.
    unknown_labels
        How often each label that the hierarchy lacks occurred (lenient reading only).
    problems
        The first row-level problems passed over; `n_problems` counts them all.
    notes
        Whole-file remarks, such as a suspected reversal of the edges.
    """

    path: str
    format: str
    counts: Mapping[str, int] = field(default_factory=dict)
    unknown_labels: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    n_problems: int = 0
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Sentences for a terminal: what it is first, then what a user should know."""
        seen = ", ".join(f"{n:,} {what}" for what, n in self.counts.items())
        said = [f"{self.path}: {self.format}, {seen}" if seen else f"{self.path}: {self.format}"]
        said += self.notes
        if self.unknown_labels:
            total = sum(self.unknown_labels.values())
            said.append(
                f"{total:,} entries for {len(self.unknown_labels):,} unknown label(s) were left "
                f"out: {listed(list(self.unknown_labels))}"
            )
        if self.n_problems:
            said.append(
                f"{self.n_problems:,} row(s) with problems were passed over; the first: "
                f"{self.problems[0]}"
            )
        return said

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "path": self.path,
            "format": self.format,
            "counts": dict(self.counts),
            "unknown_labels": dict(self.unknown_labels),
            "n_problems": self.n_problems,
            "problems": [str(problem) for problem in self.problems],
            "notes": list(self.notes),
        }


class Watch:
    """Collects what a reader sees; a problem stops it, or is counted if `lenient`."""

    def __init__(
        self, path: str | os.PathLike[str], format: str = "", *, lenient: bool = False
    ) -> None:
        self.path = os.fspath(path)
        self.format = format
        self.lenient = lenient
        self.counts: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.problems: list[Problem] = []
        self.n_problems = 0
        self.notes: list[str] = []

    def fail(
        self,
        text: str,
        *,
        line: int | str | None = None,
        column: str | None = None,
        hint: str = "",
    ) -> FileError:
        """Make the error that names the place; the caller raises it.

        `line` is a line number, or words for files without lines (``"row 7"``).
        """
        place = self.path
        if line is not None:
            place += f", line {line}" if isinstance(line, int) else f", {line}"
        if column is not None:
            place += f", column {column!r}"
        return FileError(f"{place}: {text}" + (f"\nHint: {hint}" if hint else ""))

    def problem(
        self,
        text: str,
        *,
        line: int | str | None = None,
        column: str | None = None,
        hint: str = "",
    ) -> None:
        """Stop at a row-level problem, or count it and go on."""
        if not self.lenient:
            more = "--lenient (lenient=True) leaves such rows out and counts them."
            raise self.fail(text, line=line, column=column, hint=f"{hint} {more}".strip())
        self.n_problems += 1
        if len(self.problems) < MOST_KEPT:
            where = f"column {column!r}: " if column is not None else ""
            self.problems.append(Problem(where + text, line))

    def note(self, text: str) -> None:
        """Remember a remark about the whole file."""
        self.notes.append(text)

    def unknown_label(
        self, label: str, known: Iterable[str], *, line: int | str | None = None, hint: str = ""
    ) -> None:
        """Stop at a label that the hierarchy lacks, or count it by name."""
        if not self.lenient:
            raise self.fail(
                f"label {label!r} is not in the hierarchy.",
                line=line,
                hint=f"{nearest(label, known)} {hint}"
                "--lenient (lenient=True) leaves unknown labels out.".lstrip(),
            )
        self.unknown[label] += 1

    def report(self, **counts: int) -> ReadReport:
        """Freeze; counts given here come first, zero counts of other things are left out."""
        first = {"rows": self.counts["rows"]} if "rows" in self.counts else {}
        merged = {**first, **counts, **{what: n for what, n in self.counts.items() if n}}
        return ReadReport(
            path=self.path,
            format=self.format,
            counts=MappingProxyType({what.replace("_", " "): n for what, n in merged.items()}),
            unknown_labels=MappingProxyType(dict(self.unknown.most_common())),
            problems=tuple(self.problems),
            n_problems=self.n_problems,
            notes=tuple(self.notes),
        )
