"""Delimited text: fast with Arrow, and row by row where a row is bad, to say which."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierlpr.io._files import check_text, ending, read_lines
from hierlpr.io._watch import Watch

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TextTable", "open_text", "to_arrow", "try_arrow", "wrong_delimiter"]

# A CAFA submission may open with these lines and close with END.
_CAFA_LINE = re.compile(rb"(?:AUTHOR|MODEL|KEYWORDS|ACCURACY|END)(?:[ \t].*)?\r?")
_NAMES = {",": "commas", "\t": "tabs", " ": "spaces", ";": "semicolons", "|": "bars"}


@dataclass(slots=True)
class TextTable:
    """A text table before parsing: bytes, delimiter, and the first row's cells and line."""

    raw: bytes
    delimiter: str
    first: list[str]
    first_line: int
    is_cafa: bool  # it opened with CAFA lines

    def rows(self, watch: Watch) -> Iterator[tuple[int, list[str]]]:
        """Line number and cells of every row, the first included; slow, for bad files."""
        for number, line in enumerate(read_lines(watch.path, self.raw), start=1):
            if _is_data(line.encode()):
                yield number, _cells(line, self.delimiter)

    def lines(self, watch: Watch) -> list[int]:
        """Line number of every row, the first included."""
        return [line for line, _ in self.rows(watch)]


def open_text(watch: Watch, raw: bytes) -> TextTable:
    """Find delimiter and first row; comments (``#`` at the start of a line) are blanked."""
    check_text(watch.path, raw)
    if raw.startswith(b"\xef\xbb\xbf"):
        raw = raw[3:]
    lines_before = 0
    is_cafa = False
    if raw.startswith(b"#") or b"\n#" in raw:
        raw, n = re.subn(rb"(?m)^#[^\n]*", b"", raw)
        watch.counts["comments"] += n
    start = 0
    while start < len(raw):
        end = raw.find(b"\n", start)
        end = len(raw) if end < 0 else end
        line = raw[start:end]
        if _CAFA_LINE.fullmatch(line):
            is_cafa = True
        elif line.strip():
            break
        start, lines_before = end + 1, lines_before + 1
    if is_cafa:
        kept = b"\n" * lines_before + raw[start:]
        raw = re.sub(rb"\n" + _CAFA_LINE.pattern + rb"(?=\n|\Z)", b"\n", kept)
        start = lines_before
    if not raw[start:].strip():
        raise watch.fail("there are no rows, only comments.")
    end = raw.find(b"\n", start)
    text = read_lines(watch.path, raw[start : end if end >= 0 else len(raw)])[0]
    delimiter = _delimiter(watch.path, text)
    return TextTable(raw, delimiter, _cells(text, delimiter), lines_before + 1, is_cafa)


def _is_data(line: bytes) -> bool:
    return bool(line.strip())


def _cells(line: str, delimiter: str) -> list[str]:
    if '"' in line:
        return next(csv.reader([line], delimiter=delimiter), [])
    return line.split(delimiter)


def _delimiter(path: str, first: str) -> str:
    by_ending = {".csv": ",", ".tsv": "\t", ".tab": "\t"}.get(ending(path))
    if by_ending == "\t" and "\t" not in first and len(first.split(" ")) in (2, 3):
        return " "  # CAFA files are sometimes written with spaces
    if by_ending is not None:
        return by_ending
    return max(("\t", ",", " "), key=first.count) if first.strip() else ","


def wrong_delimiter(table: TextTable) -> str:
    """Explain a table that seems to have one column because it is split elsewhere."""
    if len(table.first) == 1:
        for other in ("\t", ";", ",", "|"):
            if other != table.delimiter and other in table.first[0]:
                return (
                    f"columns are read as separated by {_NAMES[table.delimiter]}, but the file "
                    f"has {_NAMES[other]}; .csv means commas, .tsv means tabs."
                )
    return ""


def to_arrow(
    table: TextTable,
    watch: Watch,
    *,
    names: list[str],
    has_header: bool,
    types: Mapping[str, pa.DataType],
    include: list[str] | None = None,
) -> tuple[pa.Table, list[int] | None]:
    """Parse to columns of the given types; ``?``, ``NA``, ``nan`` and nothing are missing numbers.

    If Arrow cannot, the rows are gone through one by one: the first bad one is an error with its
    line and column, or is left out if lenient. Then the second value is the line of each row.
    """
    found = try_arrow(
        table, watch, names=names, has_header=has_header, types=types, include=include
    )
    if not isinstance(found, str):
        return found, None
    return _row_by_row(table, watch, names, has_header, types, include or names, found)


def try_arrow(
    table: TextTable,
    watch: Watch,
    *,
    names: list[str],
    has_header: bool,
    types: Mapping[str, pa.DataType],
    include: list[str] | None = None,
) -> pa.Table | str:
    """Parse with Arrow alone; the reason, if it refuses."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    skip = table.raw.count(b"\n", 0, _offset(table)) + (1 if has_header else 0)
    body = table.raw[_after_lines(table.raw, skip) :]
    if not body.strip():
        raise watch.fail("there is a header but no rows.", line=table.first_line)
    read = pacsv.ReadOptions(column_names=names, block_size=1 << 24, use_threads=True)
    parse = pacsv.ParseOptions(delimiter=table.delimiter, newlines_in_values=False)
    convert = pacsv.ConvertOptions(
        column_types=dict(types),
        include_columns=include or names,
        strings_can_be_null=False,
        null_values=list(MISSING),
    )
    try:
        return pacsv.read_csv(
            pa.BufferReader(body), read_options=read, parse_options=parse, convert_options=convert
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        return str(error)


MISSING = ("", "NA", "N/A", "nan", "NaN", "NAN", "null", "None", "?")


def _offset(table: TextTable) -> int:
    return _after_lines(table.raw, table.first_line - 1)


def _after_lines(raw: bytes, n: int) -> int:
    at = 0
    for _ in range(n):
        at = raw.find(b"\n", at) + 1
        if at == 0:
            return len(raw)
    return at


def _row_by_row(
    table: TextTable,
    watch: Watch,
    names: list[str],
    has_header: bool,
    types: Mapping[str, pa.DataType],
    include: list[str],
    reason: str,
) -> tuple[pa.Table, list[int]]:
    import pyarrow as pa

    columns: dict[str, list[object]] = {name: [] for name in include}
    lines: list[int] = []
    rows = table.rows(watch)
    if has_header:
        next(rows)
    for line, cells in rows:
        values = _typed(cells, line, names, types, watch)
        if values is None:
            continue
        for name in include:
            columns[name].append(values[name])
        lines.append(line)
    if not watch.n_problems:
        # Arrow refused something that this reading accepts: pass its reason on.
        raise watch.fail(f"the table cannot be read ({reason.splitlines()[0][:200]}).")
    if not lines:
        raise watch.fail(f"no row could be read; the first problem: {watch.problems[0]}")
    arrays = {name: pa.array(column, type=types[name]) for name, column in columns.items()}
    return pa.table(arrays), lines


def _typed(
    cells: list[str],
    line: int,
    names: list[str],
    types: Mapping[str, pa.DataType],
    watch: Watch,
) -> dict[str, object] | None:
    import pyarrow as pa

    if len(cells) != len(names):
        watch.problem(
            f"the row has {len(cells):,} columns, expected {len(names):,}.", line=line,
            hint="is the delimiter right, and is a value with a comma in quotes?"
            if len(cells) != 1 else "is the delimiter right?",
        )  # fmt: skip
        return None
    values: dict[str, object] = {}
    for name, text in zip(names, cells, strict=True):
        if name in types and pa.types.is_floating(types[name]):
            try:
                values[name] = None if text.strip() in MISSING else float(text)
            except ValueError:
                watch.problem(f"{text[:40]!r} is not a number.", line=line, column=name)
                return None
        else:
            values[name] = text
    return values
