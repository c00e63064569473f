"""What a row of a table must hold: one rule for names, labels and numbers, in memory and in parts.

A problem with a row stops the reading with its place; leniently the row is left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import listed, nearest
from hierlpr.io._watch import MOST_KEPT, Watch
from hierlpr.io.cell_values import Block, as_numbers
from hierlpr.io.opening import written
from hierlpr.io.table_files import Content, TableFile

if TYPE_CHECKING:
    from hierlpr.exceptions import FileError
    from hierlpr.hierarchy import Hierarchy

UNKNOWN, NAMELESS = -1, -2
_MAYBE_BLANK = np.zeros(256, dtype=bool)  # bytes that white space may begin with
_MAYBE_BLANK[[9, 10, 11, 12, 13, 28, 29, 30, 31, 32]] = True
_MAYBE_BLANK[0x80:] = True


# -- names ------------------------------------------------------------------------------------


def name_codes(column: Any) -> tuple[NDArray[np.int64], list[str]]:
    """Return the code of each name of a block, and the names; a missing name is ``""``."""
    encoded = coded(column)
    names = [name or "" for name in encoded.dictionary.to_pylist()]
    indices = encoded.indices
    if indices.null_count:
        names.append("")
        indices = indices.fill_null(len(names) - 1)
    codes = as_numbers(indices).astype(np.int64)
    number: dict[str, int] = {}
    place = [number.setdefault(name, len(number)) for name in names]
    if len(number) < len(names):  # a stored dictionary may hold a name twice
        return np.array(place, dtype=np.int64)[codes], list(number)
    return codes, names


def nameless_rows(column: Any) -> NDArray[np.bool_]:
    """Mark the names that are missing, empty or blank."""
    if hasattr(column, "dictionary"):
        known = np.append(nameless_rows(column.dictionary), True)  # the last is for no code
        indices = column.indices
        if indices.null_count:
            indices = indices.cast("int64").fill_null(known.size - 1)
        return np.asarray(known[as_numbers(indices)])
    n = len(column)
    missing = np.zeros(n, dtype=bool)
    if n == 0:
        return missing
    if column.null_count:
        missing = np.array([name is None for name in column.to_pylist()], dtype=bool)
    _, starts, data = column.buffers()
    kind = np.int64 if str(column.type) == "large_string" else np.int32
    start = np.frombuffer(starts, kind)[column.offset : column.offset + n + 1]
    found: NDArray[np.bool_] = missing | (start[1:] == start[:-1])
    if data is not None and len(data):
        first = np.frombuffer(data, np.uint8)[np.minimum(start[:-1], len(data) - 1)]
        for row in np.flatnonzero(_MAYBE_BLANK[first] & ~found).tolist():
            found[row] = not column[row].as_py().strip()
    return found


def coded(column: Any) -> Any:
    """Return names as codes and a dictionary, which take less room."""
    return column if hasattr(column, "dictionary") else column.dictionary_encode()


def number_names(columns: Sequence[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Give numbers to names in the order in which they appear in columns of blocks (`coded`).

    Returns the number of every row, and the names. Arrow finds equal names: with many in every
    block, a loop over them would take longer than all the rest of the reading.
    """
    import pyarrow as pa

    if not columns:
        return np.empty(0, dtype=np.int64), ()
    distinct = pa.concat_arrays([x.dictionary for x in columns]).dictionary_encode()
    code_of = as_numbers(distinct.indices)
    first = np.cumsum([0, *(len(x.dictionary) for x in columns)]).tolist()
    codes = np.concatenate(
        [code_of[as_numbers(x.indices) + at] for x, at in zip(columns, first, strict=False)]
    )
    used = in_order(codes, len(distinct.dictionary))
    number = np.empty(len(distinct.dictionary), dtype=np.int64)
    number[used] = np.arange(used.size)
    names = distinct.dictionary.to_pylist()
    return number[codes], tuple(names[code] for code in used.tolist())


def in_order(codes: NDArray[np.int64], n_codes: int) -> NDArray[np.int64]:
    """Return the codes that occur, in order of their first places. O(n)."""
    first = np.full(n_codes, codes.size, dtype=np.int64)
    first[codes[::-1]] = np.arange(codes.size)[::-1]  # of equal codes the last one written stays
    used = np.flatnonzero(first < codes.size)
    return used[np.argsort(first[used])]


class LabelNumbers:
    """Numbers of labels by name: those of the hierarchy, or in order of appearance without one.

    Parameters
    ----------
    hierarchy : Hierarchy or None
    aliases : mapping, optional
        Other names of labels.
    hint : str
        What to do about an unknown label.
    """

    def __init__(
        self,
        hierarchy: Hierarchy | None,
        aliases: Mapping[str, str] | None,
        *,
        hint: str = "--lenient (lenient=True) leaves unknown labels out and counts them.",
    ) -> None:
        self._grows = hierarchy is None
        self._known = {name: i for i, name in enumerate(hierarchy.labels if hierarchy else ())}
        self._aliases = aliases or {}
        self.hint = hint

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of their numbers."""
        return tuple(self._known)

    def of(self, name: str) -> int:
        """Return the number of a label, `UNKNOWN` or `NAMELESS`."""
        if name in self._known:
            return self._known[name]
        if not name.strip():
            return NAMELESS
        if self._grows:
            return self._known.setdefault(name, len(self._known))
        return self._known.get(self._aliases.get(name, name), UNKNOWN)

    def is_other_name(self, name: str) -> bool:
        """Whether a known label goes by another name here."""
        return name not in self._known and self.of(name) >= 0

    def unknown(self, name: str, watch: Watch, line: int | str) -> FileError:
        """Make the error for a label that the hierarchy lacks."""
        return watch.fail(
            f"label {name!r} is not in the hierarchy.",
            line=line,
            hint=f"{nearest(name, self._known)} {self.hint}".lstrip(),
        )


# -- wide tables ------------------------------------------------------------------------------


def wide_columns(
    labels: Sequence[str],
    hierarchy: Hierarchy | None,
    aliases: Mapping[str, str] | None,
    watch: Watch,
) -> list[str]:
    """Return the columns of a wide table in the order of the hierarchy; every label needs one."""
    if hierarchy is None:
        return list(labels)
    column: dict[str, str] = {}
    unused: list[str] = []
    for given in labels:
        label = given if given in hierarchy or not aliases else aliases.get(given, given)
        if label not in hierarchy and written(watch.path).columns == "labels":
            unused.append(given)
        elif label not in hierarchy:
            more = "--columns labels (columns= of hierlpr.io.TablePath) reads labels alone; "
            watch.unknown_label(given, hierarchy.labels, line="the header", hint=more)
        elif label in column:
            raise watch.fail(
                f"is another name of column {column[label]!r}.",
                line="the header",
                column=given,
                hint=f"both are label {label!r}; keep one.",
            )
        else:
            column[label] = given
            watch.counts["labels_by_another_name"] += label != given
    if unused:
        watch.note(f"{watch.path}: columns that are no labels are not used: {listed(unused)}")
    absent = [label for label in hierarchy.labels if label not in column]
    if absent:
        raise watch.fail(
            f"{len(absent):,} label(s) of the hierarchy have no column: {listed(absent)}.",
            line="the header",
            hint="add the columns, or use a long table, which may lack entries.",
        )
    return [column[label] for label in hierarchy.labels]


def wide_rows(
    block: Block,
    columns: Sequence[str],
    content: Content,
    watch: Watch,
    *,
    skip: NDArray[np.bool_] | None = None,
    allow_missing: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Values of a block as a matrix, and which rows are good; rows to `skip` are not looked at."""
    if block.matrix is not None:
        values = block.matrix
    else:
        values = np.empty((block.n_rows, len(block.numbers)))
        for i, column in enumerate(block.numbers):
            values[:, i] = column
    skipped = np.zeros(block.n_rows, dtype=bool) if skip is None else skip
    nameless = nameless_rows(block.texts[0]) if block.texts else np.zeros(block.n_rows, dtype=bool)
    fine = good_values(values, content, allow_missing=allow_missing)
    if fine.all() and not nameless.any():
        return values, ~skipped
    good = np.asarray(fine.all(axis=1)) & ~nameless & ~skipped
    for row in np.flatnonzero(~good & ~skipped).tolist():
        if nameless[row]:
            watch.problem("the sample has no name.", line=block.place(row))
        else:
            at = int(np.argmin(fine[row]))
            text = _value_problem(float(values[row, at]), content)
            is_gap = content == "scores" and bool(np.isnan(values[row, at]))
            hint = "fit --missing allow (missing='allow') lets scores be missing." if is_gap else ""
            watch.problem(text, line=block.place(row), column=columns[at], hint=hint)
    return values, good


def good_values(
    values: NDArray[np.float64], content: Content, *, allow_missing: bool = False
) -> NDArray[np.bool_]:
    """Mark what is a score: a finite number; or truth: 0, 1 or unknown (NaN)."""
    if content == "truth":
        return np.asarray((values == 0.0) | (values == 1.0) | np.isnan(values))
    return np.asarray(~np.isinf(values) if allow_missing else np.isfinite(values))


def _value_problem(value: float, content: Content) -> str:
    """Say what is wrong with a number that is no score, or no truth."""
    if np.isnan(value):
        return "the value is missing or not a number (NaN)."
    if np.isinf(value):
        return "the value is infinite."
    truth = f"the value is {value:g}; truth is 0 or 1 (or unknown)."
    return truth if content == "truth" else f"{value:g}"


def tell_repeated_samples(
    repeats: Iterable[tuple[str, int, int]], table: TableFile, watch: Watch
) -> list[int]:
    """Tell of (name, first row, later row); returns the later rows, which are left out."""
    later: list[int] = []
    told: list[tuple[str, int, int]] = []
    for name, first, row in repeats:
        later.append(row)
        if len(told) < (MOST_KEPT if watch.lenient else 1):
            told.append((name, first, row))
    rows = sorted({row for _, first, again in told for row in (first, again)})
    place = dict(zip(rows, table.places(rows) if rows else [], strict=True))
    for name, first, row in told:
        where = place[first]
        watch.problem(
            f"sample {name!r} occurs again (first on "
            f"{f'line {where}' if isinstance(where, int) else where}).",
            line=place[row],
            hint="each sample has one row; remove the others.",
        )
    watch.n_problems += len(later) - len(told)
    return later


# -- long tables ------------------------------------------------------------------------------


def long_rows(
    block: Block, labels: LabelNumbers, table: TableFile, watch: Watch
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """Check the rows of a long table or a ranking.

    Returns the number of the label (negative for none), the value, and whether the row is good.
    In truth a row without a label only says that the sample is known, and in a table without
    values every row is a positive. Rows of unknown labels are good (the sample is there), but have
    no label.
    """
    content = table.content
    value = block.numbers[0] if block.numbers else np.ones(block.n_rows)
    nameless = nameless_rows(block.texts[0])
    codes, names = name_codes(block.texts[1])
    number = np.array([labels.of(name) for name in names], dtype=np.int64)
    label = number[codes]
    fine = [np.isfinite(column) & good_values(column, _kind(name)) for name, column in
            zip(table.numbers, block.numbers, strict=True)] if content == "ranking" else [
            good_values(value, content)]  # fmt: skip
    unlabelled = (label == NAMELESS) & ((content != "truth") | np.isnan(value))
    good = ~nameless & ~unlabelled
    for is_fine in fine:
        good &= is_fine
    unknown = good & (label == UNKNOWN)
    stops = ~good if watch.lenient else ~good | unknown
    for row in np.flatnonzero(stops).tolist():
        if good[row]:
            raise labels.unknown(names[codes[row]], watch, block.place(row))
        text, column = _row_problem(row, block, table, nameless, fine)
        watch.problem(text, line=block.place(row), column=column)
    if unknown.any():
        times = np.bincount(codes[unknown], minlength=len(names))
        watch.unknown.update({names[i]: int(times[i]) for i in np.flatnonzero(times)})
    others = [i for i, name in enumerate(names) if number[i] >= 0 and labels.is_other_name(name)]
    if others:
        times = np.bincount(codes[good], minlength=len(names))
        watch.counts["entries_by_another_name"] += int(times[others].sum())
    return label, value, good


def _kind(column: str) -> Content:
    return "truth" if column.strip().lower() == "call" else "scores"


def _row_problem(
    row: int,
    block: Block,
    table: TableFile,
    nameless: NDArray[np.bool_],
    fine: list[NDArray[np.bool_]],
) -> tuple[str, str | None]:
    """Say what is wrong with a row, and in which column."""
    if nameless[row]:
        return "the sample has no name.", None
    content = table.content
    for i, column in enumerate(fine):
        if not column[row]:
            value = float(block.numbers[i][row])
            if content != "ranking":
                return _value_problem(value, content), None
            name = table.numbers[i]
            if _kind(name) == "truth" and np.isfinite(value):
                return f"the call is {value:g}; expected 0 or 1.", name
            return f"the {name.strip().lower()} is missing or not finite.", name
    return "the label has no name.", None


def repeated_pairs(
    sample: NDArray[Any], label: NDArray[Any], n_labels: int
) -> NDArray[np.bool_] | None:
    """Mark the pairs that were there before; None if there are none, as nearly always."""
    key = sample.astype(np.int64) * n_labels + label
    ordered = np.sort(key)
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    again = np.ones(key.size, dtype=bool)
    again[np.unique(key, return_index=True)[1]] = False
    return again


def tell_repeated_pairs(
    n: int, sample: str, label: int, labels: LabelNumbers, table: TableFile, watch: Watch
) -> None:
    """Tell of `n` pairs that are listed again, the first of them by name; CAFA files may do so."""
    if table.layout == "cafa":  # common there; the evaluators take the highest
        watch.counts["repeated_pairs_merged"] += n
        return
    places = table.find(sample, lambda name: labels.of(name) == label)
    second = [place for place, _ in zip(places, range(2), strict=False)]
    watch.problem(f"sample {sample!r} has label {labels.labels[label]!r} again.", line=second[-1])
    watch.n_problems += n - 1


# -- whole tables -----------------------------------------------------------------------------


def none_left(watch: Watch) -> FileError:
    """Make the error for a table all of whose rows have problems."""
    return watch.fail(f"no row could be read; the first problem: {watch.problems[0]}")


def no_rows(table: TableFile, watch: Watch) -> FileError:
    """Make the error for a table of which no row is left."""
    if watch.problems:
        return none_left(watch)
    if watch.unknown:
        return watch.fail("no row could be read: no label is in the hierarchy.", line=table.header)
    return watch.fail("there is a header but no rows.", line=table.header)
