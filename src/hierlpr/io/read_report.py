"""What a reader saw in a file: counts, notes, and problems, which raise unless it is lenient."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import nearest, quote_names
from hierlpr.exceptions import FileError
from hierlpr.hierarchy import Hierarchy

MAX_PROBLEMS = 10  # kept with their places; all are counted

Place = int | str | None  # a line number, or text such as "row 7"
Finder = Place | Callable[[], Place]  # a place, or a function that finds it if it is needed


def file_error(path: AnyPath, place: str, text: str, hint: str = "") -> FileError:
    """Return the error that names a place in a file; the caller raises it."""
    where = f"{path}, {place}" if place else f"{path}"
    return FileError(f"{where}: {text}" + (f"\nHint: {hint}" if hint else ""))


@dataclass(slots=True)
class ReadReport:
    """What was found in one file; readers fill it in."""

    path: str
    format: str = ""
    counts: dict[str, int] = field(default_factory=Counter)  # of rows, samples, labels, ...
    unknown_labels: dict[str, int] = field(default_factory=Counter)  # how often each occurred
    problems: list[str] = field(default_factory=list)  # the first, with rows that were skipped
    n_problems: int = 0
    notes: list[str] = field(default_factory=list)  # remarks about the whole file
    lenient: bool = False  # whether bad rows are skipped instead of raising
    _first: tuple[str, str, str] | None = None  # place, message and hint of the first problem

    def lines(self) -> list[str]:
        """Return sentences for a terminal: a summary first, then warnings."""
        counted = (
            (n, what.removesuffix("s") if n == 1 else what) for what, n in self.counts.items()
        )
        counts = "".join(f", {n:,} {what}" for n, what in counted)
        said = [f"{self.path}: {self.format}{counts}", *self.notes]
        if self.unknown_labels:
            said.append(
                f"{sum(self.unknown_labels.values()):,} entries for {len(self.unknown_labels):,} "
                f"unknown label(s) were skipped: {quote_names(list(self.unknown_labels))}"
            )
        if self.n_problems:
            first = self.problems[0]
            said.append(
                f"{self.n_problems:,} row(s) with problems were skipped; the first: {first}"
            )
        return said

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "_first"}

    def file_error(
        self, text: str, *, line: Place = None, column: str | None = None, hint: str = ""
    ) -> FileError:
        """Return the error that names file, place and column; the caller raises it."""
        return file_error(self.path, _place_text(line, column), text, hint)

    def problem(
        self, text: str, *, line: Finder = None, column: str | None = None, hint: str = ""
    ) -> None:
        """Remember a bad row; the caller leaves it out."""
        self.n_problems += 1
        if len(self.problems) < MAX_PROBLEMS:
            place = _place_text(line, column)
            self.problems.append(f"{place}: {text}" if place else text)
            self._first = self._first or (place, text, hint)

    def unknown_label(
        self, label: str, known: Hierarchy, *, line: Finder, hint: str = "", times: int = 1
    ) -> None:
        """Remember a label that is not in the hierarchy."""
        self.unknown_labels[label] += times
        if self._first is None:
            named = next((x for x, name in known.names.items() if name == label), None)
            hint = f"{nearest(label, known.labels)} {hint}".strip()
            if named is not None:
                hint = f"this is the name of {named!r}; use the labels instead of their names."
            self._first = _place_text(line), f"label {label!r} is not in the hierarchy.", hint

    def check(self, n_rows: int) -> None:
        """Raise for the first problem in `n_rows` rows, unless reading is lenient.

        Lenient reading is suggested if at most a tenth of the rows, or one row, have a problem;
        never without rows.
        """
        if self.lenient or self._first is None:
            return
        place, text, hint = self._first
        n_bad = self.n_problems + sum(self.unknown_labels.values())
        if n_rows and 10 * n_bad <= max(n_rows, 10):
            hint = f"{hint} --lenient (lenient=True) skips such rows and counts them.".strip()
        elif n_rows and n_bad > 1:
            text = f"{text.removesuffix('.')} ({n_bad:,} of {n_rows:,} rows have a problem)."
        raise file_error(self.path, place, text, hint)

    def complete(self, **counts: int) -> ReadReport:
        """Set the counts that come first, drop those that are zero, and return the report."""
        rows = {"rows": self.counts["rows"]} if "rows" in self.counts else {}
        self.counts = {**rows, **counts, **{what: n for what, n in self.counts.items() if n}}
        return self


def _place_text(line: Finder, column: str | None = None) -> str:
    line = line() if callable(line) else line
    place = f"line {line}" if isinstance(line, int) else line or ""
    return place if column is None else f"{place}, column {column!r}".removeprefix(", ")
