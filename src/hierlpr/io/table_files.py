"""Tables of scores, truth and ranked instances in any file, read as checked Arrow batches.

This is the one way into tables: `hierlpr.io.read_scores` and its relatives collect the batches
in memory, and `hierlpr.outofcore` processes them one by one. A wide table has one row per sample
and one column per label, a long table one row per (sample, label) pair. The header shows which.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import check_choice
from hierlpr.data.frames import SAMPLE_COLUMN, path_labels
from hierlpr.exceptions import FileError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.annotations import open_annotations
from hierlpr.io.reading import MAX_PROBLEMS, Place, ReadReport
from hierlpr.io.sources import (
    Source,
    as_names,
    as_numbers,
    number_hint,
    open_source,
    parse_number,
)
from hierlpr.io.table_columns import EXPECTED, Content, find_columns, match_columns

MissingScores = Literal["error", "allow"]
Flags = NDArray[np.bool_]

BATCH_VALUES = 1 << 22  # numbers per batch, if the number of rows is not given
_SWAPPED = "are the files of scores and truth interchanged?"
_UNKNOWN, _BLANK = -1, -2


class TableOptions(TypedDict, total=False):
    """How tables are read; all are optional.

    aliases : mapping
        Other names of labels, as `load_hierarchy` returns them.
    lenient : bool
        Skip bad rows and unknown labels, and count them.
    missing_scores : {"error", "allow"}
        Whether scores of a wide table may be missing (NaN).
    sep : str
        Character between columns, or ``"tab"``; by default ``.csv`` has commas and ``.tsv`` tabs.
        It is ignored if the first row does not contain it.
    decimal : {".", ","}
        The decimal mark.
    sample_column : str
        The column with the samples; it is ignored if the header does not have it.
    without_evidence : str or list of str
        Of truth in GAF files: evidence codes to leave out, such as ``"IEA,ND"``.
    clusters : str
        What samples belong to (patients, donors, cameras): a column, which is then no label, or a
        table with the columns ``sample`` and ``cluster``. Each cluster counts as one observation.
    """

    aliases: Mapping[str, str] | None
    lenient: bool
    missing_scores: MissingScores
    sep: str | None
    decimal: str
    sample_column: str | None
    without_evidence: str | Collection[str]
    clusters: str | None


class _Numbers(NamedTuple):
    """A column of numbers; `is_bad` marks the cells that are refused."""

    name: str
    cells: Any
    values: NDArray[np.float64]
    is_text: Flags  # cells that are not numbers
    is_bad: Flags


@dataclass(slots=True)
class TableFile:
    """A table that is open for reading."""

    content: Content
    layout: Literal["wide", "long"]
    is_cafa: bool  # pairs may be repeated, and truth lists only the most specific labels
    log: ReadReport  # complete after the last batch
    _source: Source
    _columns: dict[str, int]  # of the file, by name
    _codes: dict[str, int]  # of labels
    _aliases: Mapping[str, str]
    _hierarchy: Hierarchy | None  # without it, labels are numbered as they appear
    _may_miss: bool
    name_bytes: int = 0  # of the samples of a wide table as Arrow text; set by the first batch

    @property
    def n_rows(self) -> int | None:
        """Number of rows of a file that was read whole, otherwise None."""
        return None if self._source.batch is None else self._source.batch.num_rows

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels by number: of the hierarchy, of the header, or of the batches read so far."""
        return tuple(self._codes)

    def batches(self, n_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the good rows in the order of the file, at most `n_rows` at a time.

        Batches of a wide table have the column ``sample`` and one float64 column per label, in
        the order of `labels`. Those of a long table have ``sample``, ``label`` (a position in
        `labels`, negative for a sample without a known label) and ``value``, a ranking also
        ``lpr``, ``call`` and ``rank`` where the file has them. NaN is a missing score or unknown
        truth. Of long tables the caller finds repeated pairs and calls `report_repeated_pairs`.
        """
        n_rows = n_rows or max(1, BATCH_VALUES // len(self._columns))
        repeated = self._repeated_hashes() if self.layout == "wide" else np.empty(0, np.int64)
        earlier: set[str] = set()
        n_read = 0
        for batch, place in self._source.chunks(list(self._columns.values()), n_rows):
            checked = self._good_rows(batch, place, repeated, earlier)
            self.log.check(batch.num_rows)
            if checked.num_rows:
                yield checked
            n_read += batch.num_rows
        self.log.counts["rows"] = n_read
        if n_read == 0:
            raise self.log.file_error("the table has no rows.", line=self._source.first_place)

    def report_repeated_pairs(self, n: int, sample: str, label: str) -> None:
        """Raise for (sample, label) pairs that occur again, or count them."""
        if self.is_cafa:  # allowed there; the highest score counts
            self.log.counts["repeated pairs merged"] += n
            return
        text = f"sample {sample!r} has label {label!r} more than once ({n:,} repeated pairs)."
        self.log.problem(text, hint="each pair has one row.")
        self.log.n_problems += n - 1
        self.log.check(self.log.counts["rows"])

    def no_rows_error(self) -> FileError:
        """Return the error for a table of which no row could be used."""
        unknown = (f"label {x!r} is not in the hierarchy." for x in self.log.unknown_labels)
        first = next(chain(self.log.problems, unknown), "it has no label.")
        return self.log.file_error(f"no row could be read; the first: {first}")

    # -- checks -------------------------------------------------------------------------------

    def _repeated_hashes(self) -> NDArray[np.int64]:
        """Return the hashes that several samples of a wide table have, sorted.

        They come from a pass over the names alone, because names take much more memory.
        """
        # What is wrong with a row is reported by the pass that reads the scores.
        names = replace(self._source, log=ReadReport(self.log.path, lenient=True))
        parts = []
        for batch, _ in names.chunks([self._columns[""]]):
            column = as_names(batch.column(0), self.log, SAMPLE_COLUMN)
            parts.append(name_hashes(column))
            self.name_bytes += 4 * len(column) + (pc.sum(pc.binary_length(column)).as_py() or 0)
        hashes = np.concatenate(parts) if parts else np.empty(0, np.int64)
        del parts
        hashes.sort()
        return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])

    def _good_rows(
        self,
        batch: pa.RecordBatch,
        place: Callable[[int], Place],
        repeated: NDArray[np.int64],
        earlier: set[str],
    ) -> pa.RecordBatch:
        """Return the rows with a sample, a label and good values; log the others.

        Of the samples of a wide table whose hashes are `repeated`, the names are added to
        `earlier`, and a name that is there already is a problem.
        """
        sample = as_names(batch.column(0), self.log, SAMPLE_COLUMN)
        if self.layout == "wide":
            columns, again = self._numbers(batch, 1), np.zeros(batch.num_rows, dtype=bool)
            shared = np.isin(name_hashes(sample), repeated) if repeated.size else again
            for i in np.flatnonzero(shared).tolist():
                again[i] = (name := sample[i].as_py()) in earlier
                earlier.add(name)
            other, names = again, list(self._codes)
            arrays: list[NDArray[Any]] = [column.values for column in columns]
        else:
            label = self._label_numbers(batch.column(1), place)
            columns = self._numbers(batch, 2)
            value = columns[0].values if columns else np.ones(batch.num_rows)
            # A row of truth without a label says that the sample has none.
            other = (label == _BLANK) & (np.isnan(value) if self.content == "truth" else True)
            names = ["label", "value", *(column.name for column in columns[1:])]
            arrays = [label, value, *(column.values for column in columns[1:])]
        blank = pc.fill_null(pc.or_(pc.equal(sample, ""), pc.utf8_is_space(sample)), True)
        nameless = blank.to_numpy(zero_copy_only=False)
        is_bad = np.logical_or.reduce([nameless, other, *(x.is_bad for x in columns)])
        rows = np.flatnonzero(is_bad)
        for row in rows[:MAX_PROBLEMS].tolist():
            column_name, hint, text = None, "", "the sample has no name."
            options: tuple[str, ...] = ()
            if not nameless[row] and other[row]:
                text = "the label has no name."
                if self.layout == "wide":
                    text = f"sample {sample[row].as_py()!r} occurs more than once."
            elif not nameless[row]:
                column = next(x for x in columns if x.is_bad[row])
                column_name = column.name
                text, hint, options = self._value_problem(column, row)
            line = partial(place, row)
            self.log.problem(text, line=line, column=column_name, hint=hint, options=options)
        self.log.n_problems += max(0, rows.size - MAX_PROBLEMS)
        checked = pa.RecordBatch.from_arrays(
            [sample, *map(pa.array, arrays)], [SAMPLE_COLUMN, *names]
        )
        return checked.filter(pa.array(~is_bad)) if rows.size else checked

    def _label_numbers(self, column: Any, place: Callable[[int], Place]) -> NDArray[np.int32]:
        """Return the number of the label of each row, or that it is blank or unknown."""
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        names = as_names(coded.dictionary, self.log, "label").fill_null("").to_pylist()
        codes = coded.indices.fill_null(-1).to_numpy().astype(np.int64, copy=False)
        number = np.full(len(names) + 1, _BLANK, dtype=np.int32)  # the last one is that of null
        for i, times in enumerate(np.bincount(codes + 1, minlength=len(names) + 1)[1:].tolist()):
            if times == 0:
                continue
            number[i] = self._code_of(names[i])
            if number[i] == _UNKNOWN and self._hierarchy is not None:
                row = int(np.argmax(codes == i))
                is_header = self.is_cafa and times == 1 and row == 0 and place(0) == 1
                hint = f"is this the header? {EXPECTED}" if is_header else ""
                line = partial(place, row)
                self.log.unknown_label(names[i], self._hierarchy, line=line, hint=hint, times=times)
            elif number[i] >= 0 and names[i] not in self._codes:
                self.log.counts["entries by another name"] += times
        return np.asarray(number[codes])

    def _code_of(self, name: str) -> int:
        """Return the number of a label, or that it is blank or unknown."""
        if name in self._codes:
            return self._codes[name]
        if not name.strip():
            return _BLANK
        if self._hierarchy is None:
            return self._codes.setdefault(name, len(self._codes))
        label = self._aliases.get(name) or path_labels(name, self._hierarchy)[-1]
        return self._codes.get(label, _UNKNOWN)

    def _is_flag(self, name: str) -> bool:
        return self.content == "truth" or (self.content == "ranking" and name == "call")

    def _numbers(self, batch: pa.RecordBatch, first: int) -> list[_Numbers]:
        """Return the columns from `first` on as numbers."""
        columns = []
        for name, cells in zip(list(self._columns)[first:], batch.columns[first:], strict=True):
            is_flag, decimal = self._is_flag(name), self._source.decimal
            values, is_text = as_numbers(cells, self.log, name, decimal=decimal, is_flag=is_flag)
            is_bad = ~np.isfinite(values)
            if is_flag:
                is_bad = (values != 0.0) & (values != 1.0)
            if self.content == "truth" or self._may_miss:
                is_bad &= ~np.isnan(values)
            columns.append(_Numbers(name, cells, values, is_text, is_bad | is_text))
        return columns

    def _value_problem(self, column: _Numbers, row: int) -> tuple[str, str, tuple[str, ...]]:
        """Return what is wrong with a value, a hint, and the options that it names."""
        options: tuple[str, ...] = ()
        value, cell = float(column.values[row]), str(column.cells[row])
        text, hint = f"the value is {value:g}; expected 0 or 1.", _SWAPPED
        if column.is_text[row] and self._is_flag(column.name):
            text = f"{cell[:40]!r} is not 0, 1 or unknown."
            if parse_number(cell) is None:
                words = ("yes", "no", "y", "n", "t", "f", "positive", "negative")
                hint = "write 1 for yes and 0 for no." if cell.strip().lower() in words else ""
        elif column.is_text[row]:
            text = f"{cell[:40]!r} is not a number."
            hint, options = number_hint(cell[:40], self._source.decimal)
        elif np.isnan(value):
            text = "the value is missing or not a number (NaN)."
            hint = ""
            if self.content == "scores":
                hint = "missing_scores='allow' allows missing scores."
                options = ("missing_scores=allow",)
        elif np.isinf(value):
            text, hint = "the value is infinite.", ""
        return text, hint, options


def open_table(
    path: AnyPath,
    content: Content,
    hierarchy: Hierarchy | None = None,
    **options: Unpack[TableOptions],
) -> TableFile:
    """Open a table of scores, truth or ranked instances.

    The path is text (``.csv``, ``.tsv``, ``.txt``, also ``.gz``) or Parquet. The labels of the
    hierarchy number those of the table; without it the table defines the labels.
    """
    missing = options.get("missing_scores", "error")
    check_choice(missing, ("error", "allow"), name="missing_scores")
    log = ReadReport(os.fspath(path), lenient=options.get("lenient", False))
    codes = options.get("without_evidence") or ()
    source = open_annotations(log, content, hierarchy, options.get("sample_column"), codes)
    if source is None:
        sep, decimal = options.get("sep"), options.get("decimal", ".")
        source = open_source(log, sep=sep, decimal=decimal)
    places = find_columns(source, content, options.get("sample_column"), options.get("clusters"))
    is_wide = "" in places
    aliases = options.get("aliases") or {}
    labels = () if hierarchy is None else hierarchy.labels
    if is_wide and hierarchy is not None:
        places = match_columns(places, hierarchy, aliases, source, content)
    labels = tuple(places)[1:] if is_wide else labels
    return TableFile(
        content=content,
        layout="wide" if is_wide else "long",
        is_cafa=log.format.startswith("CAFA") or source.batch is not None,
        log=log,
        _source=source,
        _columns=places,
        _codes={label: i for i, label in enumerate(labels)},
        _aliases=aliases,
        _hierarchy=hierarchy,
        _may_miss=is_wide and missing == "allow",
    )


def name_hashes(names: Any) -> NDArray[np.int64]:
    """Return the 64-bit hashes of names, the same throughout a process."""
    objects = names.to_numpy(zero_copy_only=False)
    return np.fromiter(map(hash, objects), np.int64, len(objects))
