"""Delimited text as a stream: the layouts of `hierlpr.io`, a block of rows at a time."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hierlpr.exceptions import FileError
from hierlpr.io._files import GZIP_MAGIC, LONGEST_LINE
from hierlpr.io._layout import Content, _cafa_columns, _long_columns, _note_extra, _wide_labels
from hierlpr.io._text import _CAFA_LINE, MISSING, TextTable, open_text, wrong_delimiter
from hierlpr.io._watch import Watch
from hierlpr.scale.files import open_bytes, reason

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TextStream", "open_head", "open_stream", "whole_gzip"]

BLOCK = 1 << 23
HEAD = 1 << 20
_NUMBER = r"^\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*$"
_FLAG = re.compile(rb"(?i)[,;\t ](?:true|false)[,;\t\r\n ]")
_COMMENT = re.compile(rb"(?m)^#[^\n]*(?:\n|\Z)")
_COMMENT_OR_CAFA = re.compile(rb"(?m)^(?:#[^\n]*|" + _CAFA_LINE.pattern + rb")(?:\n|\Z)")


@dataclass(frozen=True, slots=True)
class TextStream:
    """A text table of scores, told apart by its first lines.

    `columns` are those to read, in the order sample, label, value for a long table and sample,
    then labels, for a wide one.
    """

    path: str
    layout: Literal["wide", "long", "cafa"]
    delimiter: str
    names: list[str]
    columns: list[str]
    skip_rows: int
    lenient: bool
    is_flags: bool = False  # true and false instead of numbers

    def batches(self, watch: Watch) -> Iterator[pa.RecordBatch]:
        """Read the rows: text first (one or two columns), then numbers."""
        import pyarrow as pa
        import pyarrow.csv as pacsv

        n_text = 1 if self.layout == "wide" else 2
        text, numbers = self.columns[:n_text], self.columns[n_text:]
        types = dict.fromkeys(text, pa.string())
        # Leniently, numbers are read as text first: a bad one must not stop the stream.
        as_read = pa.string() if self.lenient else pa.float64()
        types |= dict.fromkeys(numbers, pa.bool_() if self.is_flags else as_read)
        options = {
            "read_options": pacsv.ReadOptions(
                column_names=self.names, skip_rows=self.skip_rows, block_size=BLOCK
            ),
            "parse_options": pacsv.ParseOptions(
                delimiter=self.delimiter,
                newlines_in_values=False,
                invalid_row_handler=_skip_and_count(watch) if self.lenient else None,
            ),
            "convert_options": pacsv.ConvertOptions(
                column_types=types,
                include_columns=self.columns,
                strings_can_be_null=False,
                null_values=list(MISSING),
            ),
        }
        not_data = _COMMENT_OR_CAFA if self.layout == "cafa" else _COMMENT
        try:
            with (
                closing(_DataLines(self.path, not_data)) as lines,
                pacsv.open_csv(pa.PythonFile(lines, "r"), **options) as reader,
            ):
                for batch in reader:
                    yield _with_numbers(batch, n_text)
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            raise watch.fail(
                f"the table cannot be read ({reason(error)}).",
                hint="rows are counted from the first row of the table; --lenient passes over "
                "rows with problems and counts them.",
            ) from None


def open_stream(
    path: str, watch: Watch, *, lenient: bool, content: Content = "scores"
) -> TextStream:
    """Look at the first lines of a text table of scores or truth and find its layout."""
    table, head = open_head(path, watch)
    names = [cell.strip() for cell in table.first]
    long = _long_columns(names, content)
    cafa = None if long is not None else _cafa_columns(table, names, content)
    if long is not None:
        watch.format = f"long {content}"
        _note_extra(names, long, watch)
        used = [name for name in long if name is not None]
        return TextStream(path, "long", table.delimiter, names, used, 1, lenient)
    if cafa is not None:
        watch.format = f"CAFA {content}"
        used = cafa if content == "scores" else cafa[:2]
        return TextStream(path, "cafa", table.delimiter, cafa, used, 0, lenient)
    labels = _wide_labels(names, watch, line=table.first_line, hint=wrong_delimiter(table))
    watch.format = f"wide {content}"
    columns = ["sample", *labels]
    is_flags = content == "truth" and _FLAG.search(head) is not None
    return TextStream(path, "wide", table.delimiter, columns, columns, 1, lenient, is_flags)


def open_head(path: str, watch: Watch) -> tuple[TextTable, bytes]:
    """Read the first lines of a text table, and their bytes."""
    with _plain_bytes(path) as stream, whole_gzip(path):
        head = stream.read(HEAD)
        while b"\n" not in head and len(head) < LONGEST_LINE:
            more = stream.read(HEAD)
            if not more:
                break
            head += more
    if not head.strip():
        raise watch.fail("the file is empty.")
    end = head.rfind(b"\n")
    return open_text(watch, head[: end + 1] if end >= 0 else head), head


@contextmanager
def whole_gzip(path: str) -> Iterator[None]:
    """Say so if gzip data turn out to be damaged."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FileError(
            f"{path}: the gzip data is damaged or cut off ({reason(error)}).\n"
            "Hint: copy or download the file again."
        ) from None


class _Unpacked(gzip.GzipFile):
    """A gzipped stream that closes the file below it too."""

    def __init__(self, stream: Any) -> None:
        super().__init__(fileobj=stream)
        self._below = stream

    def close(self) -> None:
        super().close()
        self._below.close()


def _plain_bytes(path: str) -> Any:
    stream = open_bytes(path)
    packed = stream.read(2) == GZIP_MAGIC
    stream.seek(0)
    return _Unpacked(stream) if packed else stream


class _DataLines(io.RawIOBase):
    """A text file without comments and CAFA's own lines, which Arrow takes for rows."""

    def __init__(self, path: str, not_data: re.Pattern[bytes]) -> None:
        self._stream = _plain_bytes(path)
        self._not_data = not_data
        self._ready = b""
        self._rest = b""
        self._is_first = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            block = self._stream.read(BLOCK)
            if not block and not self._rest:
                return 0
            data = self._rest + block
            # Only whole lines can be judged; the last piece waits for its end.
            cut = data.rfind(b"\n") + 1 if block else len(data)
            self._ready, self._rest = self._kept(data[:cut]), data[cut:]
        n = min(len(buffer), len(self._ready))
        buffer[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        return n

    def _kept(self, lines: bytes) -> bytes:
        if self._is_first:
            lines = lines.removeprefix(b"\xef\xbb\xbf")
        if self._not_data.search(lines):
            lines = self._not_data.sub(b"", lines)
        if self._is_first:
            lines = lines.lstrip(b"\r\n")
            self._is_first = not lines
        return lines

    def close(self) -> None:
        self._stream.close()
        super().close()


def _skip_and_count(watch: Watch) -> Any:
    def handle(row: Any) -> str:
        watch.problem(
            f"the row has {row.actual_columns:,} columns, expected {row.expected_columns:,}."
        )
        return "skip"

    return handle


def _with_numbers(batch: pa.RecordBatch, n_text: int) -> pa.RecordBatch:
    """Turn text and flags into numbers; text that is none becomes missing, a problem of its row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = list(batch.columns)
    for i in range(n_text, len(arrays)):
        if pa.types.is_floating(arrays[i].type):
            continue
        if pa.types.is_boolean(arrays[i].type):
            arrays[i] = arrays[i].cast(pa.int8()).cast(pa.float64())
            continue
        is_number = pc.match_substring_regex(arrays[i], _NUMBER)
        text = pc.utf8_trim_whitespace(pc.if_else(is_number, arrays[i], None))
        arrays[i] = text.cast(pa.float64())
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
