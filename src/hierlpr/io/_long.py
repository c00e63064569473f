"""Long tables (sample, label, value) to matrices that store what is listed, and only that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr.data.tables import Table
from hierlpr.hierarchy import Hierarchy
from hierlpr.io._arrow import as_numbers
from hierlpr.io._layout import Columns, Content
from hierlpr.io._watch import Watch, closest

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Entries", "read_long", "read_long_entries", "text_codes", "value_problem"]


def value_problem(value: float, content: Content) -> str:
    """Say what is wrong with a number that is no score, or no truth."""
    if np.isnan(value):
        return "the value is missing or not a number (NaN)."
    if np.isinf(value):
        return "the value is infinite."
    return f"the value is {value:g}; truth is 0 or 1." if content == "truth" else f"{value:g}"


def text_codes(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[str]]:
    """Return the number of each text in order of first appearance, and the texts."""
    if not hasattr(column.type, "value_type"):  # readers of text encode it already
        column = column.combine_chunks().dictionary_encode()
    encoded = column
    if hasattr(encoded, "combine_chunks"):
        encoded = encoded.unify_dictionaries().combine_chunks()
        if hasattr(encoded, "chunk"):
            encoded = encoded.chunk(0)
    names = ["" if name is None else name for name in encoded.dictionary.to_pylist()]
    indices = encoded.indices
    if indices.null_count:
        indices = indices.fill_null(len(names))
    return as_numbers(indices).astype(np.int64), [*names, ""]


class Entries(NamedTuple):
    """A long table as sorted rows of entries, one row for each sample."""

    row_ptr: NDArray[np.int64]
    column: NDArray[np.int32]
    value: NDArray[np.float64]
    samples: tuple[str, ...]
    labels: tuple[str, ...]


def read_long(
    columns: Columns,
    content: Content,
    hierarchy: Hierarchy | None,
    aliases: Mapping[str, str] | None,
    watch: Watch,
) -> Table:
    """Matrix of a long table that stores what is listed; dense if all scores are."""
    from scipy import sparse

    row_ptr, column, value, samples, labels = read_long_entries(
        columns, content, hierarchy, aliases, watch
    )
    shape = (len(samples), len(labels))
    if content == "scores" and value.size == shape[0] * shape[1]:
        return Table(value.reshape(shape), labels, samples, is_list=True)
    return Table(sparse.csr_array((value, column, row_ptr), shape=shape), labels, samples)


def read_long_entries(
    columns: Columns,
    content: Content,
    hierarchy: Hierarchy | None,
    aliases: Mapping[str, str] | None,
    watch: Watch,
) -> Entries:
    """Entries of a long table; rows are the samples in order of first appearance."""
    sample, samples = text_codes(columns.table.column("sample"))
    label, names = text_codes(columns.table.column("label"))
    has_value = "value" in columns.table.column_names
    value = (
        as_numbers(columns.table.column("value")) if has_value else np.ones(sample.size)
    ).astype(np.float64)
    good = np.ones(sample.size, dtype=bool)
    _check_long_rows(sample, samples, value, good, content, columns, watch)
    target, labels = _label_columns(names, label, good, content, hierarchy, aliases, columns, watch)
    col = target[label]
    # The samples that count: those of good rows, in order of first appearance. In truth a row
    # without a label only says that the sample is known.
    numbers = np.full(len(samples), -1, dtype=np.int64)
    used = np.flatnonzero(np.bincount(sample[good], minlength=len(samples)))
    numbers[used] = np.arange(used.size)
    entry = good & (col >= 0)
    row, col, value = numbers[sample[entry]], col[entry], value[entry]
    known = [samples[i] for i in used]
    row_ptr, column, value = _sorted_rows(
        row, col, value, np.flatnonzero(entry), (used.size, len(labels)), content, known, labels,
        columns, watch,
    )  # fmt: skip
    if used.size == 0:
        raise watch.fail(
            "no row could be read.", hint=str(watch.problems[0]) if watch.problems else ""
        )
    return Entries(row_ptr, column, value, tuple(known), tuple(labels))


def _check_long_rows(
    sample: NDArray[np.int64],
    samples: list[str],
    value: NDArray[np.float64],
    good: NDArray[np.bool_],
    content: Content,
    columns: Columns,
    watch: Watch,
) -> None:
    nameless = np.array([not name.strip() for name in samples])[sample]
    bad = ~np.isfinite(value) if content == "scores" else (value != 0.0) & (value != 1.0)
    for row in np.flatnonzero(nameless | bad).tolist():
        text = "the sample has no name." if nameless[row] else value_problem(value[row], content)
        watch.problem(text, line=columns.place(row))
        good[row] = False


def _label_columns(
    names: list[str],
    label: NDArray[np.int64],
    good: NDArray[np.bool_],
    content: Content,
    hierarchy: Hierarchy | None,
    aliases: Mapping[str, str] | None,
    columns: Columns,
    watch: Watch,
) -> tuple[NDArray[np.int64], Sequence[str]]:
    """Column of each label name, -1 for none; problems are raised or counted by name."""
    target = np.full(len(names), -1, dtype=np.int64)
    times = np.bincount(label[good], minlength=len(names))
    known: dict[str, int] = {}
    if hierarchy is not None:
        known = {name: i for i, name in enumerate(hierarchy.labels)}
    for code, name in enumerate(names):
        if not times[code]:
            continue
        real = name if name in known or not aliases else aliases.get(name, name)
        if not name.strip():
            if content == "scores":
                rows = np.flatnonzero((label == code) & good)
                for row in rows.tolist():
                    watch.problem("the label has no name.", line=columns.place(row))
                good[rows] = False
        elif hierarchy is None:
            target[code] = known.setdefault(name, len(known))
        elif real in known:
            target[code] = known[real]
            watch.counts["entries_by_another_name"] += int(times[code]) if real != name else 0
        else:
            rows = np.flatnonzero((label == code) & good)
            if not watch.lenient:
                raise watch.fail(
                    f"label {name!r} is not in the hierarchy ({rows.size:,} row(s)).",
                    line=columns.place(int(rows[0])),
                    hint=f"{closest(name, known)}--lenient (lenient=True) leaves unknown labels "
                    "out and counts them.",
                )
            watch.unknown[name] += int(rows.size)
    return target, hierarchy.labels if hierarchy is not None else list(known)


def _sorted_rows(
    row: NDArray[np.int64],
    col: NDArray[np.int64],
    value: NDArray[np.float64],
    origin: NDArray[np.int64],
    shape: tuple[int, int],
    content: Content,
    samples: list[str],
    labels: Sequence[str],
    columns: Columns,
    watch: Watch,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Pointer, columns and values of every listed entry, each pair once."""
    # Within equal pairs the highest value comes first, then the earlier row.
    order = np.lexsort([origin, -value, col, row])
    row, col, value, origin = row[order], col[order], value[order], origin[order]
    again = np.zeros(row.size, dtype=bool)
    again[1:] = (row[1:] == row[:-1]) & (col[1:] == col[:-1])
    if again.any():
        at = int(np.argmax(again))
        second = max(int(origin[at]), int(origin[at - 1]))
        n = int(again.sum())
        text = f"sample {samples[row[at]]!r} has label {labels[col[at]]!r} again."
        if columns.layout == "cafa":  # common there; the evaluators take the highest
            watch.counts["repeated_pairs_merged"] += n
        else:
            watch.problem(text, line=columns.place(second))
            watch.n_problems += n - 1
        row, col, value, origin = row[~again], col[~again], value[~again], origin[~again]
    if content == "truth":
        positive = value != 0.0
        row, col, value = row[positive], col[positive], value[positive]
    indptr = np.zeros(shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=shape[0]), out=indptr[1:])
    return indptr, col.astype(np.int32), value
