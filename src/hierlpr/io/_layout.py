"""Tell wide, long and CAFA tables apart, and bring all to columns with known places."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hierlpr._base.checks import listed
from hierlpr.data.tables import SAMPLE_COLUMN
from hierlpr.io._arrow import cast_column, parquet_table
from hierlpr.io._files import ending, read_bytes
from hierlpr.io._text import TextTable, open_text, to_arrow, try_arrow, wrong_delimiter
from hierlpr.io._watch import Watch

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Columns", "Content", "read_columns"]

Content = Literal["scores", "truth"]
SAMPLE_NAMES = (SAMPLE_COLUMN, "target", "target_id", "entryid", "protein")
LABEL_NAMES = ("label", "term", "term_id", "go_id")
VALUE_NAMES = {
    "scores": ("score", "probability", "confidence", "prediction"),
    "truth": ("truth", "value"),
}


@dataclass(frozen=True, slots=True)
class Columns:
    """A table as Arrow columns.

    `layout` is wide, long or cafa; `labels` are the label columns of a wide table. A long table
    has the columns ``sample``, ``label`` and, unless every row is a positive, ``value``.
    `place` says where row number i is in the file, for messages.
    """

    table: pa.Table
    layout: Literal["wide", "long", "cafa"]
    labels: list[str]
    place: Callable[[int], int | str]


def read_columns(path: str | os.PathLike[str], content: Content, watch: Watch) -> Columns:
    """Read a Parquet or text table of scores or truth."""
    if os.path.isdir(path) or ending(path) == ".parquet":
        return _parquet(parquet_table(path), content, watch)
    raw = read_bytes(path)
    if raw.startswith(b"PAR1"):
        return _parquet(parquet_table(path, raw), content, watch)
    return _text(open_text(watch, raw), content, watch)


def _long_columns(names: list[str], content: Content) -> tuple[str, str, str | None] | None:
    lower = {name.strip().lower(): name for name in reversed(names)}
    sample = next((lower[n] for n in SAMPLE_NAMES if n in lower), None)
    label = next((lower[n] for n in LABEL_NAMES if n in lower), None)
    value = next((lower[n] for n in VALUE_NAMES[content] if n in lower), None)
    if sample is None or label is None or (content == "scores" and value is None):
        return None
    return sample, label, value


def _note_extra(names: list[str], used: tuple[str, str, str | None], watch: Watch) -> None:
    extra = [name for name in names if name not in used]
    if extra:
        watch.note(f"{watch.path}: further columns are not used: {listed(extra)}")


# -- Parquet ----------------------------------------------------------------------------------


def _parquet(table: pa.Table, content: Content, watch: Watch) -> Columns:
    import pyarrow as pa

    names = list(table.column_names)
    long = _long_columns(names, content)
    if long is not None:
        watch.format = f"long Parquet {content}"
        _note_extra(names, long, watch)
        chosen = {"sample": long[0], "label": long[1]}
        if long[2] is not None:
            chosen["value"] = long[2]
        columns = {new: table.column(old) for new, old in chosen.items()}
        types = {"sample": pa.string(), "label": pa.string(), "value": pa.float64()}
        cast = {n: cast_column(c, types[n], chosen[n], watch) for n, c in columns.items()}
        return Columns(pa.table(cast), "long", [], _row_words)
    labels = _wide_labels(names, watch, line="the schema")
    watch.format = f"wide Parquet {content}"
    wide = {"sample": cast_column(table.column(names[0]), pa.string(), names[0], watch)}
    arrays = [
        wide["sample"],
        *(cast_column(table.column(x), pa.float64(), x, watch) for x in labels),
    ]
    return Columns(pa.table(arrays, names=["sample", *labels]), "wide", labels, _row_words)


def _row_words(row: int) -> str:
    return f"row {row + 1}"


# -- text -------------------------------------------------------------------------------------


def _text(text: TextTable, content: Content, watch: Watch) -> Columns:
    import pyarrow as pa

    names = [cell.strip() for cell in text.first]
    long = _long_columns(names, content)
    if long is not None:
        watch.format = f"long {content}"
        _note_extra(names, long, watch)
        return _long_text(text, names, long, True, "long", watch)
    if content == "scores" and [name.lower() for name in names[:2]] == ["sample", "label"]:
        raise watch.fail(
            f"a long table of scores needs a column 'score'; the columns are {listed(names)}.",
            line=text.first_line,
        )
    cafa = _cafa_columns(text, names, content)
    if cafa is not None:
        watch.format = f"CAFA {content}"
        return _long_text(
            text, cafa, ("sample", "label", cafa_value(content)), False, "cafa", watch
        )
    labels = _wide_labels(names, watch, line=text.first_line, hint=wrong_delimiter(text))
    watch.format = f"wide {content}"
    columns = ["sample", *labels]
    types: dict[str, pa.DataType] = {"sample": pa.string()}
    if content == "truth":
        flags = types | dict.fromkeys(labels, pa.bool_())
        found = try_arrow(text, watch, names=columns, has_header=True, types=flags)
        if not isinstance(found, str):
            numbers = [found.column(0), *(found.column(x).cast(pa.int8()) for x in labels)]
            return Columns(
                pa.table(numbers, names=columns), "wide", labels, _place(text, None, True, watch)
            )
    types |= dict.fromkeys(labels, pa.float64())
    table, lines = to_arrow(text, watch, names=columns, has_header=True, types=types)
    return Columns(table, "wide", labels, _place(text, lines, True, watch))


def cafa_value(content: Content) -> str | None:
    """Name of the value column of a CAFA table; its truth has none."""
    return "score" if content == "scores" else None


def _cafa_columns(text: TextTable, names: list[str], content: Content) -> list[str] | None:
    """Columns of a table without header: sample, label, and a number in the third for scores."""
    if content == "truth":
        if len(names) not in (2, 3) or names[0].lower() in SAMPLE_NAMES or not names[0]:
            return None
        return ["sample", "label", "further"][: len(names)]
    if len(names) != 3 or names[0].lower() in SAMPLE_NAMES:
        return None
    if not text.is_cafa:
        try:
            float(names[2])
        except ValueError:
            return None
    return ["sample", "label", "score"]


def _long_text(
    text: TextTable,
    names: list[str],
    used: tuple[str, str, str | None],
    has_header: bool,
    layout: Literal["long", "cafa"],
    watch: Watch,
) -> Columns:
    import pyarrow as pa

    if len(set(names)) != len(names):
        raise watch.fail(f"columns are repeated in {listed(names)}.", line=text.first_line)
    coded = pa.dictionary(pa.int32(), pa.string())
    types: dict[str, pa.DataType] = {used[0]: coded, used[1]: coded}
    if used[2] is not None:
        types[used[2]] = pa.float64()
    table, lines = to_arrow(
        text, watch, names=names, has_header=has_header, types=types, include=list(types)
    )
    renamed = ["sample", "label", "value"][: len(types)]
    return Columns(
        table.rename_columns(renamed), layout, [], _place(text, lines, has_header, watch)
    )


def _place(
    text: TextTable, lines: list[int] | None, has_header: bool, watch: Watch
) -> Callable[[int], int]:
    if lines is not None:
        return lambda row: lines[row]
    # Counting lines takes a pass over the file, so it waits for the first problem.
    counted: list[int] = []

    def place(row: int) -> int:
        if not counted:
            counted.extend(text.lines(watch)[has_header:])
        return counted[row]

    return place


def _wide_labels(names: list[str], watch: Watch, *, line: int | str, hint: str = "") -> list[str]:
    first = names[0].strip()
    if first.lower() != SAMPLE_COLUMN and first:
        raise watch.fail(
            f"the first column is {first[:60]!r}; expected {SAMPLE_COLUMN!r}.",
            line=line,
            hint=hint
            or "a wide table has the header sample,LABEL,LABEL,...; a long one sample,label,score "
            "(for truth sample,label).",
        )
    if not first:
        watch.note(f"{watch.path}: the first column has no name and is taken as the samples")
    labels = names[1:]
    if not labels:
        raise watch.fail(
            "there is no label column.", line=line, hint=hint or "expected sample,LABEL,LABEL,..."
        )
    seen: set[str] = set()
    for place, label in enumerate(labels, start=2):
        if not label:
            raise watch.fail(f"column {place} of the header has no name.", line=line)
        if label in seen:
            raise watch.fail("the column occurs twice.", line=line, column=label)
        seen.add(label)
    return labels
