"""Delimited text as blocks of whole rows, with the line of every row.

The one grammar of text tables. A row ends with its line; a value in double quotes may hold
delimiters and line ends, and doubled quotes; a quote inside an unquoted value is a character like
any other. A row that begins with ``#`` is a comment. A byte order mark is dropped where the file
begins, and nowhere else.

Rows are found here, and Arrow parses the values of a block (`hierlpr.io.cell_values`). Neither
Arrow nor DuckDB does the whole job; tried with Arrow 26 and DuckDB 2.0:

- Numbers are no reason: both read 10^5 decimal texts of all magnitudes to the very doubles of
  Python's ``float``.
- Arrow has no comments, says neither the line of a bad value nor that of a good one whose sample
  occurs again, and joins ``"a"x`` to ``ax``.
- DuckDB gives the lines of the rows it rejects (`store_rejects`), not of those it accepts; it
  takes ``a#b`` for ``a`` and a comment, ``1_0`` for 10, the name ``NA`` for a missing one where
  ``NA`` is a missing number, swallows the rest of the file after a quote that is not closed, and
  gives up on a lone carriage return. In one run it took 1.3 s for a wide table of 97 MB and 1.7 s
  for a long one of 50 MB, Arrow 1.3 s and 0.6 s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr.io._watch import Watch
from hierlpr.io.opening import (
    BYTE_ORDER_MARK,
    LONGEST_LINE,
    decode,
    ending,
    open_plain,
    refuse_binary,
    refuse_long_lines,
    too_long,
    written,
)

DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}  # by ending
BLOCK = 1 << 23
HEAD = 1 << 16
# A CAFA submission opens with such lines and closes with END.
_CAFA_WORDS = re.compile(rb"(?:AUTHOR|MODEL|KEYWORDS|ACCURACY|END)(?:[ \t][^\r\n]*)?(?=[\r\n]|\Z)")
_LINE_END = re.compile(rb"\r\n?|\n")
_NAMES = {",": "comma", "\t": "tab", " ": "space", ";": "semicolon", "|": "bar"}
_NUMBER = re.compile(
    # Possessive, so that millions of digits with a letter at the end are refused at once.
    rb"[ \t]*+[-+]?(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?|(?i:inf(?:inity)?|nan))[ \t]*+"
)


def is_number(text: bytes, decimal: str = ".") -> bool:
    """Whether a text is a number: digits of ASCII, without the underscores that Python allows."""
    if decimal != "." and b"." not in text:
        text = text.replace(decimal.encode(), b".")
    elif decimal != ".":
        return False
    return _NUMBER.fullmatch(text) is not None


class _Grammar(NamedTuple):
    """Patterns for one delimiter: a row with its end, many rows or comments, one value."""

    row: re.Pattern[bytes]
    rows: re.Pattern[bytes]
    value: re.Pattern[bytes]


@lru_cache
def _grammar(delimiter: str) -> _Grammar:
    cut = re.escape(delimiter.encode())
    end = rb"(?:\r\n?|\n)"
    value = (
        rb'(?:"(?:[^"]++|"")*+"(?=' + cut + rb"|[\r\n])|"
        rb'[^"\r\n' + cut + rb"][^\r\n" + cut + rb"]*+|)"
    )
    row = value + rb"(?:" + cut + value + rb")*+" + end
    rows = rb"(?:#[^\r\n]*+" + end + rb"|" + row + rb")*+"
    return _Grammar(
        re.compile(row), re.compile(rows), re.compile(value + rb"(?:" + cut + rb"|(?=[\r\n]))")
    )


class TextBlock(NamedTuple):
    """Whole rows of a text table; comments are blanked, so that lines keep their numbers."""

    raw: bytes
    first_line: int
    delimiter: str
    has_quotes: bool
    decimal: str = "."

    def rows(self) -> Iterator[tuple[int, list[bytes]]]:
        """Line number and values of every row; slow, for blocks that Arrow refuses."""
        cut = self.delimiter.encode()
        for line, text in self._texts():
            has_quotes = b'"' in text
            plain = text.rstrip(b"\r\n")
            yield line, _values(text, self.delimiter) if has_quotes else plain.split(cut)

    def lines(self) -> NDArray[np.int64]:
        """Line number of every row."""
        return np.array([line for line, _ in self._texts()], dtype=np.int64)

    def _texts(self) -> Iterator[tuple[int, bytes]]:
        """Line number and text of every row; blank lines are none."""
        line = self.first_line
        texts = (
            _matches(_grammar(self.delimiter).row, self.raw)
            if self.has_quotes
            else self.raw.splitlines(keepends=True)
        )
        for text in texts:
            if text.strip():
                yield line, text
            line += count_lines(text)


def _matches(pattern: re.Pattern[bytes], raw: bytes) -> Iterator[bytes]:
    """Yield what a pattern matches one after the other; it must match to the end."""
    at = 0
    while at < len(raw):
        found = pattern.match(raw, at)
        assert found is not None  # a block holds nothing but rows
        yield found[0]
        at = found.end()


def count_lines(raw: bytes) -> int:
    """Count line ends; one may be a newline, a carriage return, or both."""
    n = raw.count(b"\n")
    return n + raw.count(b"\r") - raw.count(b"\r\n") if b"\r" in raw else n


def _values(text: bytes, delimiter: str) -> list[bytes]:
    """Split a row that holds quotes."""
    value, at, found = _grammar(delimiter).value, 0, []
    cut = delimiter.encode()
    while True:
        match = value.match(text, at)
        assert match is not None
        cell = match[0].removesuffix(cut)
        found.append(cell[1:-1].replace(b'""', b'"') if cell[:1] == b'"' else cell)
        if not match[0].endswith(cut):
            return found
        at = match.end()


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text table by its first row: how it is split, and where the row is."""

    path: str
    delimiter: str
    first: list[str]
    first_line: int
    is_cafa: bool  # it opened with CAFA lines
    is_truth: bool

    def blocks(self, watch: Watch, *, has_header: bool, is_cafa: bool) -> Iterator[TextBlock]:
        """Read the rows after the header; `is_cafa` passes over the lines of a CAFA file.

        Strictly, quotes that do not match stop the reading; else their line is left out.
        """
        with open_plain(self.path) as stream:
            for raw, line in _Stream(stream, self.delimiter, watch).blocks():
                if has_header and line + count_lines(raw) > self.first_line:
                    raw = _blank_first(raw, self.first_line - line, self.delimiter)
                    has_header = False
                raw = self._blanked(raw, watch, is_cafa)
                if raw.strip():
                    decimal = written(self.path).decimal
                    yield TextBlock(raw, line, self.delimiter, b'"' in raw, decimal)

    def _blanked(self, raw: bytes, watch: Watch, is_cafa: bool) -> bytes:
        """Blank comments and, in a CAFA file, its own lines; but nothing inside of quotes."""
        has_comments = raw.startswith(b"#") or b"\n#" in raw or b"\r#" in raw
        if not has_comments and not (is_cafa and _CAFA_WORDS.search(raw)):
            return raw
        kept, row, at = [], _grammar(self.delimiter).row, 0
        while at < len(raw):
            is_comment = raw[at : at + 1] == b"#"
            text = _LINE_END.search(raw, at) if is_comment else row.match(raw, at)
            assert text is not None
            watch.counts["comments"] += is_comment
            blank = not is_comment and is_cafa
            blank = blank and _is_cafa_line(text[0], self.delimiter, self.is_truth)
            kept.append(b"\n" if blank else text[0])
            at = text.end()
        return b"".join(kept)


def _is_cafa_line(line: bytes, delimiter: str, is_truth: bool) -> bool:
    """Whether a line is one of CAFA's own, and no row: a sample may be called MODEL."""
    if not _CAFA_WORDS.fullmatch(line.rstrip(b"\r\n")):
        return False
    cells = line.strip().split(delimiter.encode())
    if is_truth:
        return not (delimiter == "\t" and len(cells) in (2, 3))
    return not (len(cells) == 3 and is_number(cells[2]))


def _blank_first(raw: bytes, lines_before: int, delimiter: str) -> bytes:
    """Blank the header, which begins after some lines."""
    at = 0
    for _ in range(lines_before):
        found = _LINE_END.search(raw, at)
        assert found is not None
        at = found.end()
    match = _grammar(delimiter).row.match(raw, at)
    assert match is not None
    ends = b"".join(_LINE_END.findall(match[0]))
    return raw[:at] + ends + raw[match.end() :]


class _Stream:
    """Cut a stream of bytes where rows end."""

    def __init__(self, stream: Any, delimiter: str, watch: Watch) -> None:
        self._stream, self._delimiter, self._watch = stream, delimiter, watch
        self._is_first, self._is_last = True, False
        self.line = 1

    def blocks(self) -> Iterator[tuple[bytes, int]]:
        """Yield bytes that hold whole rows and comments, and the number of their first line."""
        data = b""
        while True:
            if len(data) <= LONGEST_LINE:
                data += self._read()
            if self._is_last and data and not data.endswith((b"\n", b"\r")):
                data += b"\n"
            cut = self._whole_rows(data)
            if cut:
                yield data[:cut], self.line
                self.line += count_lines(data[:cut])
                data = data[cut:]
            elif self._is_last or len(data) > LONGEST_LINE:
                if not data:
                    return
                data = self._after_bad_line(data)

    def _read(self) -> bytes:
        if self._is_last:
            return b""
        wanted = BLOCK
        parts: list[bytes] = []
        while wanted > 0:
            part = self._stream.read(wanted)
            if not part:
                self._is_last = True
                break
            parts.append(part)
            wanted -= len(part)
        if parts and parts[-1].endswith(b"\r") and not self._is_last:
            parts.append(self._stream.read(1))  # a line end must not be parted
        data = b"".join(parts)
        if self._is_first and data:
            data = data.removeprefix(BYTE_ORDER_MARK)
            self._is_first = False
        refuse_binary(self._watch.path, data, self.line)
        return data

    def _whole_rows(self, data: bytes) -> int:
        """Length of the whole rows that data begin with."""
        if b'"' in data:
            found = _grammar(self._delimiter).rows.match(data)
            assert found is not None
            cut = found.end()
        else:
            cut = data.rfind(b"\n") + 1 if not self._is_last else len(data)
        if cut > LONGEST_LINE:
            refuse_long_lines(self._watch.path, data[:cut], self.line)
        return cut

    def _after_bad_line(self, data: bytes) -> bytes:
        """Tell of a line whose quotes do not match, and return what comes after it."""
        end = _LINE_END.search(data)
        if (end.start() if end else len(data)) > LONGEST_LINE:
            raise too_long(self._watch.path, self.line)
        hint = (
            "a quoted value ends with a quote before the next delimiter, and holds a quote as two."
        )
        self._watch.problem("the quotes do not match.", line=self.line, hint=hint)
        self.line += 1
        return data[end.end() :] if end else b""


def read_rows(watch: Watch, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and values of every row of a text file, the first included."""
    table = TextFile(watch.path, delimiter, [], 1, False, False)
    for block in table.blocks(watch, has_header=False, is_cafa=False):
        for line, cells in block.rows():
            yield line, [decode(watch.path, cell, line) for cell in cells]


# -- the first row ----------------------------------------------------------------------------


def open_text(watch: Watch, *, is_truth: bool = False) -> TextFile:
    """Find the first row of a text table that is no comment and no line of CAFA's own."""
    line, is_cafa = 1, False
    with open_plain(watch.path) as stream:
        lines = _head_lines(stream, watch)
        for text in lines:
            delimiter = delimiter_of(watch.path, text.decode(errors="replace"))
            if _is_cafa_line(text, delimiter, is_truth):
                is_cafa = True
            elif text.strip() and not text.startswith(b"#"):
                break
            line += count_lines(text)
        else:
            empty = "the file is empty." if line == 1 else "there are no rows, only comments."
            raise watch.fail(empty)
        decode(watch.path, text, line)
        while (match := _grammar(delimiter).row.match(text)) is None:  # line ends in quotes
            more = next(lines, None)
            if more is None or len(text) > LONGEST_LINE:
                raise watch.fail("the quotes of the header do not match.", line=line)
            text += more
    cells = [decode(watch.path, cell, line) for cell in _values(match[0], delimiter)]
    return TextFile(watch.path, delimiter, cells, line, is_cafa, is_truth)


def _head_lines(stream: Any, watch: Watch) -> Iterator[bytes]:
    """Read the first lines of a file with their ends, one at a time."""
    data, number = bytes(stream.read(HEAD)).removeprefix(BYTE_ORDER_MARK), 1
    refuse_binary(watch.path, data, 1)
    while data:
        end = _LINE_END.search(data)
        is_whole = end is not None and end.end() < len(data)  # a line end must not be parted
        if not is_whole and len(data) <= LONGEST_LINE and (more := stream.read(HEAD)):
            data += more
            continue
        cut = end.end() if end else len(data)
        if cut > LONGEST_LINE:
            raise too_long(watch.path, number)
        line, data = data[:cut], data[cut:]
        refuse_binary(watch.path, line, number)
        number += 1
        yield line if end else line + b"\n"


def delimiter_of(path: str, first: str) -> str:
    """Return the delimiter that the ending of a file, or its first row, tells."""
    first = first.rstrip("\r\n")
    sep = written(path).sep
    if sep is not None and sep in first:
        return sep
    by_ending = DELIMITERS.get(ending(path))
    if by_ending == "\t" and "\t" not in first and len(first.split(" ")) in (2, 3):
        return " "  # CAFA files are sometimes written with spaces
    if by_ending is not None:
        return by_ending
    return max(("\t", ",", " "), key=first.count) if first.strip() else ","


def wrong_delimiter(first: Sequence[str], delimiter: str | None) -> str:
    """Explain a table that seems to have one column because it is split elsewhere."""
    for other in ("\t", ";", ",", "|"):
        if delimiter and len(first) == 1 and other != delimiter and other in first[0]:
            return (
                f"columns are read as separated by {_NAMES.get(delimiter, delimiter)}s, but the "
                f"file has {_NAMES[other]}s; .csv means commas, .tsv means tabs, and --sep "
                f"{'tab' if other == chr(9) else repr(other)} (sep= of hierlpr.io.TablePath) reads "
                "it so."
            )
    return ""
