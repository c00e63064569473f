"""Open files for reading, and report what was found in them.

Gzip is unpacked. Limits keep damaged or hostile files from using all memory: a line has at most
`MAX_LINE` bytes, and a file that is read whole (a hierarchy) at most `MAX_TEXT`.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import nearest, quote_names
from hierlpr._utils.files import file_of
from hierlpr.exceptions import FileError, HierlprError, Note
from hierlpr.hierarchy import Hierarchy

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLOCK = 1 << 22  # bytes of text that are processed at a time
MAX_LINE = 1 << 24  # a header of 500,000 labels fits
MAX_TEXT = 1 << 29  # the Gene Ontology has 35 MB
MAX_PROBLEMS = 10  # kept with their places; all are counted

# Tables that count taxa; they have no samples to name.
_ABUNDANCES = {
    "Kraken": r"^\s*[0-9.]+\t\d+\t\d+\t([A-Z]\d*|-)\t\d+\t",
    "Bracken": r"^name\ttaxonomy_id\ttaxonomy_lvl\t",
    "MetaPhlAn": r"^#mpa_v|^#?clade_name\t|^k__[^\t;]*\|?[^\t;]*\t[0-9|]*\t?[0-9.]+(\t|$)",
    "Kaiju": r"^file\tpercent\treads\ttaxon_id\t",
}

Place = int | str | None  # a line number, or text such as "row 7"
Finder = Place | Callable[[], Place]  # a place, or a function that finds it if it is needed


def file_error(
    path: AnyPath, place: str, text: str, hint: str = "", options: Sequence[str] = ()
) -> FileError:
    """Return the error that names a place in a file; the caller raises it.

    `options` are the options of Python that the hint is about.
    """
    where = f"{path}, {place}" if place else f"{path}"
    return FileError(f"{where}: {text}" + (f"\nHint: {hint}" if hint else ""), options=options)


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
    # Place, message, hint and options of the first problem.
    _first: tuple[str, str, str, Sequence[str]] | None = None

    def lines(self) -> list[Note]:
        """Return sentences for a terminal: a summary first; what was lost is a warning."""
        names = ((what.removesuffix("s") if n == 1 else what, n) for what, n in self.counts.items())
        counts = "".join(f", {n:,} {what}" for what, n in names)
        notes = [x if isinstance(x, Note) else Note(x) for x in self.notes]
        lines = [Note(f"{self.path}: {self.format}{counts}"), *notes]
        if self.unknown_labels:
            n, unknown = sum(self.unknown_labels.values()), list(self.unknown_labels)
            skipped = f"{n:,} entries for {len(unknown):,} unknown label(s) were skipped"
            lines.append(Note(f"{skipped}: {quote_names(unknown)}", is_warning=True))
        if self.n_problems:
            skipped = f"{self.n_problems:,} row(s) with problems were skipped"
            lines.append(Note(f"{skipped}; the first: {self.problems[0]}", is_warning=True))
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "_first"}

    def file_error(
        self,
        text: str,
        *,
        line: Place = None,
        column: str | None = None,
        hint: str = "",
        options: Sequence[str] = (),
    ) -> FileError:
        """Return the error that names file, place and column; the caller raises it."""
        return file_error(self.path, _place_text(line, column), text, hint, options)

    def problem(
        self,
        text: str,
        *,
        line: Finder = None,
        column: str | None = None,
        hint: str = "",
        options: Sequence[str] = (),
    ) -> None:
        """Remember a bad row; the caller leaves it out."""
        self.n_problems += 1
        if len(self.problems) < MAX_PROBLEMS:
            place = _place_text(line, column)
            self.problems.append(f"{place}: {text}" if place else text)
            self._first = self._first or (place, text, hint, options)

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
            text = f"label {label!r} is not in the hierarchy."
            self._first = _place_text(line), text, hint, ()

    def check(self, n_rows: int) -> None:
        """Raise for the first problem in `n_rows` rows, unless reading is lenient."""
        if self.lenient or self._first is None:
            return
        place, text, hint, options = self._first
        n_bad = self.n_problems + sum(self.unknown_labels.values())
        # Lenient reading is suggested if at most a tenth of the rows, or one row, have a problem.
        if n_rows and 10 * n_bad <= max(n_rows, 10):
            hint = f"{hint} lenient=True skips such rows and counts them.".strip()
            options = (*options, "lenient")
        elif n_rows and n_bad > 1:
            text = f"{text.removesuffix('.')} ({n_bad:,} of {n_rows:,} rows have a problem)."
        raise file_error(self.path, place, text, hint, options)

    def complete(self, **counts: int) -> ReadReport:
        """Set the counts that come first, drop those that are zero, and return the report."""
        rows = {"rows": self.counts["rows"]} if "rows" in self.counts else {}
        self.counts = {**rows, **counts, **{what: n for what, n in self.counts.items() if n}}
        return self


def _place_text(line: Finder, column: str | None = None) -> str:
    line = line() if callable(line) else line
    place = f"line {line}" if isinstance(line, int) else line or ""
    return place if column is None else f"{place}, column {column!r}".removeprefix(", ")


# -- bytes ------------------------------------------------------------------------------------


def ending(path: AnyPath) -> str:
    """Return the lower-case ending of a file name without ``.gz``: ``.csv`` of ``a.CSV.gz``."""
    return Path(Path(path).name.lower().removesuffix(".gz")).suffix


def open_bytes(path: str) -> Any:
    """Open a file for reading bytes."""
    try:
        if not Path(file_of(path)).is_fifo():
            return open(file_of(path), "rb")
    except FileNotFoundError:
        raise file_error(path, "", "there is no such file.") from None
    except (OSError, ValueError) as error:
        raise file_error(path, "", f"cannot be read ({reason(error)}).") from None
    raise file_error(path, "", "this is a pipe.", "save it to a file first.")


@contextmanager
def open_plain(path: str) -> Iterator[Any]:
    """Open a file for reading bytes; gzip is recognised by its first bytes and unpacked."""
    with open_bytes(path) as stream:
        is_packed = stream.read(2) == GZIP_MAGIC
        stream.seek(0)
        if not is_packed:
            yield stream
            return
        try:
            with gzip.GzipFile(fileobj=stream) as unpacked:
                yield unpacked
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            text = f"the gzip data is damaged or cut off ({reason(error)})."
            raise file_error(path, "", text, "copy or download the file again.") from None


# -- text -------------------------------------------------------------------------------------


def text_blocks(path: AnyPath, stream: Any, size: int = BLOCK) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of whole lines, each with the number of its first line."""
    number = 1
    while block := bytes(stream.read(size)):
        rest = bytes(stream.readline(MAX_LINE + 1))
        if len(block) - block.rfind(b"\n") + len(rest) > MAX_LINE:
            number += block.count(b"\n")
            text = f"the line is longer than {MAX_LINE >> 20} MB."
            raise file_error(path, f"line {number}", text, "rows end with a newline; is this text?")
        block += rest
        if b"\0" in block:
            number += block.count(b"\n", 0, block.index(b"\0"))
            hint = "the ending decides how a file is read; Parquet files end in .parquet."
            if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                hint = "this is UTF-16 text; save it as UTF-8 (in Excel: CSV UTF-8)."
            raise file_error(path, f"line {number}", "this is binary data, not text.", hint)
        if b"\n" not in block and block.count(b"\r") > 1:
            hint = "save the file with Unix or Windows line ends."
            raise file_error(path, f"line {number}", "lines end with carriage returns only.", hint)
        yield number, block.removeprefix(BYTE_ORDER_MARK) if number == 1 else block
        number += block.count(b"\n")


def decoded_lines(path: AnyPath, first_number: int, block: bytes) -> Iterator[tuple[int, str]]:
    """Yield the lines of a block of UTF-8 text with their numbers, without line ends."""
    for number, raw in enumerate(block.removesuffix(b"\n").split(b"\n"), start=first_number):
        try:
            yield number, raw.decode().removesuffix("\r")
        except UnicodeDecodeError as error:
            text = f"byte 0x{raw[error.start]:02x} is not UTF-8 text."
            hint = "save the file as UTF-8, for example with iconv -f latin1 -t utf-8."
            raise file_error(path, f"line {number}", text, hint) from None


def numbered_lines(path: AnyPath, stream: Any) -> Iterator[tuple[int, str]]:
    """Yield all lines of UTF-8 text with their numbers, without line ends."""
    for first, block in text_blocks(path, stream):
        yield from decoded_lines(path, first, block)


def read_bytes(path: AnyPath) -> bytes:
    """Return the whole content of a file, unpacked; at most `MAX_TEXT` bytes."""
    name = os.fspath(path)
    with open_plain(name) as stream:
        raw = bytes(stream.read(MAX_TEXT + 1)).removeprefix(BYTE_ORDER_MARK)
    if len(raw) > MAX_TEXT:
        raise file_error(name, "", f"the content is larger than {MAX_TEXT >> 20} MB.")
    if not raw.strip():
        raise file_error(name, "", "the file is empty.")
    return raw


def load_json(path: AnyPath, text: bytes | str, *, first_line: int = 1, **options: Any) -> Any:
    """Parse JSON with the options of `json.loads`; raise if it is damaged or nested too deeply."""
    try:
        content = json.loads(text, **options)
        if b"\\ud" in (text if isinstance(text, bytes) else text.encode()).lower():
            json.dumps(content, ensure_ascii=False).encode()  # half a character cannot be written
        return content
    except json.JSONDecodeError as error:
        place = f"line {first_line + error.lineno - 1}, column {error.colno}"
        raise file_error(path, place, f"not valid JSON: {error.msg}.", "was it cut off?") from None
    except FileError:
        raise
    except (RecursionError, ValueError) as error:  # an integer may have too many digits
        raise file_error(path, "", f"the JSON cannot be read ({reason(error)}).") from None


def read_lines(path: AnyPath) -> list[str]:
    """Return all lines of a UTF-8 text file; line ``i + 1`` of the file is item ``i``."""
    raw = read_bytes(path)
    if len(raw) + 64 * raw.count(b"\n") > MAX_TEXT:  # what Python needs for short lines
        raise file_error(path, "", f"the text is larger than {MAX_TEXT >> 20} MB.")
    return [line for _, line in numbered_lines(path, io.BytesIO(raw))]


def refuse_abundances(path: AnyPath, lines: Sequence[str]) -> None:
    """Raise if a table counts taxa instead of naming samples."""
    for tool, pattern in _ABUNDANCES.items():
        if any(re.match(pattern, line) for line in lines[:5]):
            text = (
                f"this is an abundance table ({tool}): it counts taxa and has no samples to name."
            )
            hint = "give the classification of each sequence instead."
            raise file_error(path, "line 1", text, hint)


# -- Parquet ----------------------------------------------------------------------------------


def is_parquet(path: str) -> bool:
    """Return whether a file is Parquet, by its ending or its first bytes."""
    if ending(path) == ".parquet":
        return True
    with open_bytes(path) as stream:
        return bool(stream.read(4) == b"PAR1")


@contextmanager
def open_parquet(path: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; what is wrong in it, now or later, raises a `FileError`."""
    open_bytes(path).close()  # says what is wrong with the path
    try:
        # Arrow takes a path as UTF-8, whatever the locale; bytes stay as they are.
        with (
            pa.OSFile(os.fsencode(file_of(path))) as stream,
            pq.ParquetFile(stream, pre_buffer=False) as opened,
        ):
            yield opened
    except HierlprError:
        raise
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        text = f"this is not a readable Parquet file ({reason(error)})."
        hint = "was it cut off while it was copied or written?"
        raise file_error(path, "", text, hint) from None


def reason(error: BaseException) -> str:
    """Return the first line of an error, short enough to show."""
    text = str(getattr(error, "strerror", None) or error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__
