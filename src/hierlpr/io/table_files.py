"""A table of scores, truth or ranked instances in any file, opened once and read as blocks of rows.

The one reader: `hierlpr.io.read_scores` and its fellows put the blocks together in memory, and
`hierlpr.scale` takes them one by one. Layouts are told apart by the header; a long table has one
row for each (sample, label) pair, a wide one a row for each sample and a column for each label.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

from hierlpr._base import AnyPath
from hierlpr._base.checks import listed
from hierlpr.data.frames import SAMPLE_COLUMN
from hierlpr.io._watch import Watch
from hierlpr.io.arff_tables import arff_blocks, open_arff
from hierlpr.io.cell_values import Block, cast_column, group_blocks, parse_block, parse_rows
from hierlpr.io.delimited import TextFile, is_number, open_text, read_rows, wrong_delimiter
from hierlpr.io.foreign_tables import ForeignTable, open_foreign
from hierlpr.io.opening import (
    ending,
    is_parquet,
    open_parquet,
    parquet_files,
    workbook_of,
    written,
)

Content = Literal["scores", "truth", "ranking"]
Layout = Literal["wide", "long", "cafa", "arff"]
GROUP_ROWS = 1 << 19


_SAMPLES = (SAMPLE_COLUMN, "target", "target_id", "entryid", "protein")
_LABELS = ("label", "term", "term_id", "go_id")
# What columns of a long table may be called: samples, labels, and the one of numbers; of what is
# called as the last ones are, all that are there are read too.
_COLUMNS: dict[Content, tuple[tuple[str, ...], ...]] = {
    "scores": (_SAMPLES, _LABELS, ("score", "probability", "confidence", "prediction"), ()),
    "truth": (_SAMPLES, _LABELS, ("truth", "value"), ()),
    "ranking": ((SAMPLE_COLUMN,), ("label",), ("score",), ("lpr", "call", "rank")),
}


@dataclass(frozen=True, slots=True)
class TableFile:
    """A table that is open for reading: its layout, and which columns are read.

    `texts` are the names of the columns that name the sample and, unless the layout is wide, the
    label; `numbers` those of the others: labels in a wide table.
    """

    path: str
    content: Content
    layout: Layout
    is_wide: bool
    header: int | str  # where it is in the file
    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    read: Callable[[TableFile, Watch, int], Iterator[Block]]
    files: tuple[str, ...] = ()  # of Parquet

    def blocks(self, watch: Watch, *, n_rows: int = GROUP_ROWS) -> Iterator[Block]:
        """Read the rows; Parquet at most `n_rows` at a time. Row-level problems go to `watch`."""
        return self.read(self, watch, n_rows)

    def using(self, numbers: Sequence[str]) -> TableFile:
        """Read only some of the number columns, in this order."""
        return replace(self, numbers=tuple(numbers))

    def places(self, rows: Sequence[int]) -> list[int | str]:
        """Say where some rows are in the file, by rising number; takes a pass over it."""
        found: list[int | str] = []
        at = 0
        for block in self.blocks(_muted(self.path)):
            while len(found) < len(rows) and rows[len(found)] < at + block.n_rows:
                found.append(block.place(rows[len(found)] - at))
            if len(found) == len(rows):
                break
            at += block.n_rows
        return found

    def find(self, sample: str, is_label: Callable[[str], bool] | None = None) -> Iterator[Any]:
        """Yield the places of the rows of a sample, of those with such a label in a long table."""
        for block in self.blocks(_muted(self.path)):
            names = block.texts[0].to_pylist()
            labels = block.texts[1].to_pylist() if is_label is not None else names
            for row, name in enumerate(names):
                if name == sample and (is_label is None or is_label(labels[row] or "")):
                    yield block.place(row)


def _muted(path: str) -> Watch:
    """Make a watch for a second reading, whose problems were told at the first."""
    return Watch(path, lenient=True)


def open_table(path: AnyPath, content: Content, watch: Watch) -> TableFile:
    """Look at the schema or the first row of a table and find its layout."""
    name = os.fspath(path)
    if (foreign := open_foreign(name)) is not None:
        if foreign.note:
            watch.note(foreign.note)
        table = _laid_out(
            name, content, foreign.names, foreign.header, None, watch, store=f"{foreign.kind} "
        )
        return replace(table, read=_foreign_reader(foreign))
    if is_parquet(name):
        files = tuple(parquet_files(name))
        opened = open_parquet(files[0])
        names = tuple(opened.schema_arrow.names)
        opened.close()
        table = _laid_out(name, content, names, "the schema", None, watch)
        return replace(table, read=_parquet_blocks, files=files)
    if ending(name) == ".arff" and content != "ranking":
        texts, numbers, line = open_arff(name, content, watch)
        is_wide = content == "scores"
        return TableFile(name, content, "arff", is_wide, line, texts, numbers, _arff_blocks)
    text = open_text(watch, is_truth=content == "truth")
    names = tuple(cell.strip() for cell in text.first)
    return _laid_out(name, content, names, text.first_line, text, watch)


def _foreign_reader(
    foreign: ForeignTable,
) -> Callable[[TableFile, Watch, int], Iterator[Block]]:
    names = foreign.names

    def read(table: TableFile, watch: Watch, n_rows: int) -> Iterator[Block]:
        # A label may be called as the samples are, which come first then.
        texts = [names.index(name) for name in table.texts]
        numbers = [len(names) - 1 - names[::-1].index(name) for name in table.numbers]
        has_flags = table.content == "truth"
        for rows in foreign.rows():
            yield from parse_rows(rows, names, texts, numbers, watch, has_flags)

    return read


def _arff_blocks(table: TableFile, watch: Watch, n_rows: int) -> Iterator[Block]:
    yield from arff_blocks(table.path, table.content, table.numbers, watch)


def names_pairs(names: Sequence[str]) -> bool:
    """Whether a header names samples and labels, as that of a long table does."""
    lower = {name.strip().lower() for name in names}
    return bool(lower & set(_SAMPLES)) and bool(lower & set(_LABELS))


# -- layouts ----------------------------------------------------------------------------------


def _laid_out(
    path: str,
    what: Content,
    names: tuple[str, ...],
    line: int | str,
    text: TextFile | None,
    watch: Watch,
    *,
    store: str = "Parquet ",
) -> TableFile:
    """Find the layout of a table by the names of its columns; `text` is None if it is no text."""
    kind = what if text is not None else store + what
    chosen = (written(path).sample_column or "").strip().lower()
    long = _long_columns(names, what, chosen, watch, line)
    if long is not None:
        watch.format = "ranking" if what == "ranking" else f"long {kind}"
        read = _text_reader(text, names, True)
        return TableFile(path, what, "long", False, line, *long, read)
    if what == "scores" and [name.lower() for name in names[:2]] == ["sample", "label"]:
        raise watch.fail(
            f"a long table of scores needs a column 'score'; the columns are {listed(names)}.",
            line=line,
        )
    if text is not None and _is_cafa(text, names, what, chosen):
        watch.format = f"CAFA {what}"
        columns = ("sample", "label", "score" if what != "truth" else "further")[: len(names)]
        numbers = columns[2:] if what != "truth" else ()
        read = _text_reader(text, columns, False)
        return TableFile(path, what, "cafa", False, line, columns[:2], numbers, read)
    if what == "ranking":
        missing = [name for name in ("sample", "label", "score") if name not in names]
        raise watch.fail(
            f"this is no ranking: there is no column {listed(missing)}.",
            line=line,
            hint="a ranking has the columns rank,sample,label,lpr,score,call; a CAFA file has "
            "sample, label and score without a header.",
        )
    if not names:
        raise watch.fail("there are no columns.", line=line)
    lower = [name.strip().lower() for name in names]
    at = lower.index(chosen) if chosen and chosen in lower else 0
    labels = (*names[:at], *names[at + 1 :])
    hint = wrong_delimiter(text.first, text.delimiter) if text is not None else ""
    first = SAMPLE_COLUMN if chosen and lower[at] == chosen else names[at]
    _check_labels(first, labels, watch, line, hint)
    watch.format = f"wide {kind}"
    # A label may be called as the samples are, so columns of text go by their place.
    read = _text_reader(text, names, True, at)
    return TableFile(path, what, "wide", True, line, (names[at],), labels, read)


def _long_columns(
    names: Sequence[str], content: Content, chosen: str, watch: Watch, line: int | str
) -> tuple[tuple[str, str], tuple[str, ...]] | None:
    """Return the text and the number columns of a long table; None if it is none."""
    lower: dict[str, str] = {}
    for name in names:
        lower.setdefault(name.strip().lower(), name)
    samples, *others, further = _COLUMNS[content]
    sample, label, value = (
        next((lower[n] for n in wanted if n in lower), None)
        for wanted in ((chosen, *samples) if chosen else samples, *others)
    )
    if sample is None or label is None or (value is None and content != "truth"):
        return None
    numbers = [value] if value is not None else []
    numbers += [lower[name] for name in further if name in lower]
    for name in (sample, label, *numbers):
        if sum(other.strip().lower() == name.strip().lower() for other in names) > 1:
            raise watch.fail("the column occurs twice.", line=line, column=name.strip())
    extra = [name for name in names if name not in (sample, label, *numbers)]
    if extra and content != "ranking":
        watch.note(f"{watch.path}: further columns are not used: {listed(extra)}")
    return (sample, label), tuple(numbers)


def _check_labels(
    first: str, labels: Sequence[str], watch: Watch, line: int | str, hint: str
) -> None:
    """Refuse a header that is none of a wide table."""
    first = first.strip()
    if first.lower() != SAMPLE_COLUMN and first:
        raise watch.fail(
            f"the first column is {first[:60]!r}; expected {SAMPLE_COLUMN!r}.",
            line=line,
            hint=hint
            or (
                "scores without a header have three columns (sample, label, score), truth has two: "
                "are they in each other's place? Otherwise: "
                if len(labels) == 1
                else ""
            )
            + "a wide table has the header sample,LABEL,LABEL,...; a long one sample,label,score "
            f"(for truth sample,label). If the column names the samples, --sample-column "
            f"{first[:60]!r} (sample_column= of hierlpr.io.TablePath) says so.",
        )
    if not first:
        watch.note(f"{watch.path}: the first column has no name and is taken as the samples")
    if not labels:
        raise watch.fail(
            "there is no label column.", line=line, hint=hint or "expected sample,LABEL,LABEL,..."
        )
    seen: set[str] = set()
    for place, label in enumerate(labels, start=2):
        if not label.strip():
            raise watch.fail(f"column {place} of the header has no name.", line=line)
        if label in seen:
            raise watch.fail("the column occurs twice.", line=line, column=label)
        seen.add(label)


def _is_cafa(text: TextFile, names: Sequence[str], content: Content, chosen: str) -> bool:
    """Whether a table has no header: sample, label, and for scores a number in the third place."""
    is_named = names[0].lower() in _SAMPLES
    is_named = is_named or (bool(chosen) and chosen in map(str.lower, names))
    decimal = written(text.path).decimal
    if content == "truth":
        return len(names) in (2, 3) and not is_named and bool(names[0])
    if content == "ranking":
        return len(names) == 3 and "sample" not in names
    return (
        len(names) == 3 and not is_named and (text.is_cafa or is_number(names[2].encode(), decimal))
    )


def _text_reader(
    text: TextFile | None, names: tuple[str, ...], has_header: bool, sample_at: int | None = None
) -> Callable[[TableFile, Watch, int], Iterator[Block]]:
    def read(table: TableFile, watch: Watch, n_rows: int) -> Iterator[Block]:
        assert text is not None
        at = {names[i]: i for i in reversed(range(len(names))) if i != sample_at}
        texts = tuple(at[x] for x in table.texts) if sample_at is None else (sample_at,)
        numbers = tuple(at[name] for name in table.numbers)
        is_truth = table.content == "truth"
        for block in text.blocks(watch, has_header=has_header, is_cafa=table.layout == "cafa"):
            yield from parse_block(block, names, texts, numbers, watch, has_flags=is_truth)

    return read


def read_cells(
    watch: Watch, delimiter: str | None, used: Collection[str]
) -> Iterator[tuple[int | str, list[str]]]:
    """Place and texts of every row of a small table, the first included.

    Without a delimiter the table is a sheet, or Parquet: its first row is then the schema, and only
    columns whose names are in `used` have texts.
    """
    if workbook_of(watch.path) is not None and (sheet := open_foreign(watch.path)) is not None:
        if sheet.note:
            watch.note(sheet.note)
        yield sheet.header, list(sheet.names)
        for place, texts in chain.from_iterable(sheet.rows()):
            yield place, [text.decode(errors="surrogatepass").strip() for text in texts]
        return
    if delimiter is not None:
        for line, cells in read_rows(watch, delimiter):
            yield line, [cell.strip() for cell in cells]
        return
    import pyarrow as pa

    opened = open_parquet(watch.path)
    names = opened.schema_arrow.names
    yield "the schema", names
    table = opened.read()
    columns: list[Sequence[str]] = [[""] * table.num_rows for _ in names]
    for i, name in enumerate(names):
        if name.strip().lower() in used:
            column = table.column(i)
            if not pa.types.is_floating(column.type):  # Arrow drops digits of numbers
                column = cast_column(column, pa.string(), name, watch)
            columns[i] = ["" if x is None else str(x) for x in column.to_pylist()]
    for row, values in enumerate(zip(*columns, strict=True), start=1):
        yield f"row {row}", list(values)


def _parquet_blocks(table: TableFile, watch: Watch, n_rows: int) -> Iterator[Block]:
    for file in table.files:
        first_row = 0
        with open_parquet(file) as opened:
            metadata = opened.metadata
        columns, is_one = (table.texts, table.numbers), len(table.files) > 1
        # Names that come again and again are read as codes; samples of a ranking hardly do.
        coded = table.texts[1:] if table.content == "ranking" else table.texts
        for group in range(metadata.num_row_groups):
            for block in group_blocks(
                file, group, *columns, watch, n_rows=n_rows, at=first_row, is_one_of_many=is_one,
                coded=() if table.is_wide else coded, metadata=metadata,
            ):  # fmt: skip
                yield block
                first_row += block.n_rows
