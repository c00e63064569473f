"""Tables of scores, truth and ranked instances in any file, read as checked Arrow batches.

This is the one way into tables: `hierlpr.io.read_scores` and its relatives collect the batches
in memory, and `hierlpr.outofcore` processes them one by one. A wide table has one row per sample
and one column per label, a long table one row per (sample, label) pair. The header shows which.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import check_choice, quote_names
from hierlpr.data.frames import SAMPLE_COLUMN
from hierlpr.data.tables import mismatch_hint
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.layouts import Content, Layout, find_layout
from hierlpr.io.read_log import MAX_PROBLEMS, Place, ReadLog
from hierlpr.io.sources import Source, open_source

MissingScores = Literal["error", "allow"]
BATCH_VALUES = 1 << 22  # numbers per batch, if the number of rows is not given

Flags = NDArray[np.bool_]


class TableOptions(TypedDict, total=False):
    """How a table is written, where that differs from the default.

    `sep` is the character between columns (or ``"tab"``); by default ``.csv`` has commas and
    ``.tsv`` tabs. `decimal` is the decimal mark, ``"."`` or ``","``. `sample_column` is the column
    that names the samples. ``columns="labels"`` ignores the columns of a wide table that are not
    labels of the hierarchy, which are an error by default (``"all"``). A table whose first row
    does not contain `sep` or `sample_column` is read as if the option were not given.
    """

    sep: str | None
    decimal: str
    sample_column: str | None
    columns: str


@dataclass(slots=True)
class TableFile:
    """A table that is open for reading.

    Attributes
    ----------
    path : str
    content : {"scores", "truth", "ranking"}
    layout : {"wide", "long"}
    is_cafa : bool
        CAFA layout: no header, and truth lists only the most specific labels.
    labels : tuple of str
        Those of the hierarchy or, without one, of the header; a long table without a hierarchy
        has the labels of the batches read so far.
    log : ReadLog
        What was seen; it is complete after the last batch.
    """

    path: str
    content: Content
    layout: Literal["wide", "long"]
    is_cafa: bool
    log: ReadLog
    _source: Source
    _layout: Layout
    _codes: dict[str, int]
    _aliases: Mapping[str, str]
    _is_open: bool  # labels are numbered as they appear
    _missing_scores: MissingScores

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in the order of their numbers."""
        return tuple(self._codes)

    def batches(self, n_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the good rows in the order of the file, at most `n_rows` at a time.

        Batches of a wide table have the column ``sample`` and one float64 column per label, in
        the order of `labels`. Those of a long table have ``sample``, ``label`` (a dictionary array
        whose indices are positions in `labels`) and ``value``, a ranking also ``lpr``, ``call``
        and ``rank`` where the file has them. A null label belongs to a sample that is listed
        without a known label. NaN is a missing score or unknown truth.

        A bad row raises; if reading is lenient it is skipped and counted in `log`. Samples that
        occur again in a wide table are bad rows; of long tables the caller finds repeated pairs
        and calls `report_repeated_pairs`. Open the table again to read it again.
        """
        columns, log = self._layout.columns, self.log
        if n_rows is None:
            n_rows = max(1, BATCH_VALUES // len(columns))
        check = self._check_wide if self.layout == "wide" else self._check_long
        seen: set[str] = set()
        at = 0
        for batch in self._source.batches(columns, n_rows):
            for start in range(0, batch.num_rows, n_rows):
                part = batch.slice(start, n_rows)
                checked = check(part, at, seen)
                if checked.num_rows:
                    yield checked
                at += part.num_rows
        log.counts["rows"] = at
        if at == 0:
            raise log.file_error("the table has no rows.", line=self._source.first_place)

    def place(self, row: int) -> Place:
        """Return the line of the row with this number (from 0); takes a pass over a text file."""
        return self._source.place(row)

    def report_repeated_pairs(self, n: int, sample: str, label: str) -> None:
        """Raise for (sample, label) pairs that occur again, or count them.

        The CAFA layout allows repeated pairs; the highest score counts.
        """
        if self.is_cafa:
            self.log.counts["repeated_pairs_merged"] += n
            return
        hint = "each pair has one row."
        text = f"sample {sample!r} has label {label!r} more than once ({n:,} repeated pairs)."
        self.log.problem(text, line=self._place_of_pair(sample, label), hint=hint)
        self.log.n_problems += n - 1

    def _place_of_pair(self, sample: str, label: str) -> Place:
        """Return the place where a pair occurs the second time."""
        if self.log.lenient:
            return None
        at, n_found = 0, 0
        for batch in self._source.batches(self._layout.columns[:2], BATCH_VALUES):
            pairs = zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
            for name, given in pairs:
                n_found += name == sample and self._aliases.get(given, given) == label
                if n_found == 2:
                    return self.place(at)
                at += 1
        return None

    # -- checks -------------------------------------------------------------------------------

    def _check_wide(self, batch: pa.RecordBatch, at: int, seen: set[str]) -> pa.RecordBatch:
        """Return the rows with a new name and good values."""
        sample = batch.column(0).cast(pa.string())
        problems: list[_Check] = [(_is_blank(sample), lambda _: "the sample has no name.", None)]
        for i, name in enumerate(self._layout.names[1:], start=1):
            values = batch.column(i).to_numpy(zero_copy_only=False)
            bad = ~self._is_good(values)
            if bad.any():
                problems.append((bad, _value_problem(values, self.content), name))
        again = np.zeros(batch.num_rows, dtype=bool)
        names = sample.to_pylist()
        for i, name in enumerate(names):
            again[i] = name in seen
            seen.add(name)
        problems.append((again, lambda row: f"sample {names[row]!r} occurs again.", None))
        columns = [sample, *batch.columns[1:]]
        checked = pa.RecordBatch.from_arrays(columns, [SAMPLE_COLUMN, *self._codes])
        return self._keep_good(checked, problems, at)

    def _check_long(self, batch: pa.RecordBatch, at: int, seen: set[str]) -> pa.RecordBatch:
        """Return the rows with a sample, a known label and good values."""
        sample = batch.column(0).cast(pa.string())
        names, codes = _encoded(batch.column(1))
        number = np.array([self._code_of(name) for name in names], dtype=np.int32)
        label = number[codes]
        extra = [x.to_numpy(zero_copy_only=False) for x in batch.columns[2:]]
        value = extra[0] if extra else np.ones(batch.num_rows)
        blank = label == _BLANK
        if self.content == "truth":  # a row without a label says that the sample has none
            blank &= np.isnan(value)
        problems: list[_Check] = [
            (_is_blank(sample), lambda _: "the sample has no name.", None),
            (blank, lambda _: "the label has no name.", None),
        ]
        for values, name in zip(extra, self._layout.names[2:], strict=True):
            is_flag = name == "call"
            good = (values == 0.0) | (values == 1.0) if is_flag else self._is_good(values)
            text = _value_problem(values, "truth" if is_flag else self.content)
            problems.append((~good, text, name))
        unknown = np.flatnonzero(number == _UNKNOWN)
        for i in unknown.tolist():
            rows = np.flatnonzero(codes == i)
            place = None if self.log.lenient else self.place(at + int(rows[0]))
            self.log.unknown_label(names[i], self._codes, line=place, times=rows.size)
        n_aliases = np.isin(codes, [i for i, x in enumerate(names) if self._is_alias(x)]).sum()
        self.log.counts["entries_by_another_name"] += int(n_aliases)
        coded = pa.DictionaryArray.from_arrays(
            pa.array(np.maximum(label, 0), mask=label < 0), pa.array(self.labels, pa.string())
        )
        arrays = {SAMPLE_COLUMN: sample, "label": coded, "value": pa.array(value)}
        arrays |= dict(zip(self._layout.names[3:], batch.columns[3:], strict=True))
        return self._keep_good(pa.RecordBatch.from_pydict(arrays), problems, at)

    def _code_of(self, name: str) -> int:
        """Return the number of a label, or that it is blank or unknown."""
        if name in self._codes:
            return self._codes[name]
        if not name.strip():
            return _BLANK
        if self._is_open:
            return self._codes.setdefault(name, len(self._codes))
        return self._codes.get(self._aliases.get(name, name), _UNKNOWN)

    def _is_alias(self, name: str) -> bool:
        return name not in self._codes and self._aliases.get(name) in self._codes

    def _is_good(self, values: NDArray[np.float64]) -> Flags:
        if self.content == "truth":
            return np.asarray((values == 0.0) | (values == 1.0) | np.isnan(values))
        may_miss = self.content == "scores" and self._missing_scores == "allow"
        return ~np.isinf(values) if may_miss and self.layout == "wide" else np.isfinite(values)

    def _keep_good(
        self, batch: pa.RecordBatch, problems: Sequence[_Check], at: int
    ) -> pa.RecordBatch:
        """Raise for the first bad row, or count bad rows and leave them out."""
        bad = np.logical_or.reduce([mask for mask, _, _ in problems])
        rows = np.flatnonzero(bad)
        for row in rows[:MAX_PROBLEMS].tolist():
            text, column = next((text, column) for mask, text, column in problems if mask[row])
            place = f"row {at + row + 1}" if self.log.lenient else self.place(at + row)
            hint = ""
            if "missing" in text(row) and self.content == "scores":
                hint = "--missing-scores allow (missing_scores='allow') allows missing scores."
            self.log.problem(text(row), line=place, column=column, hint=hint)
        self.log.n_problems += max(0, rows.size - MAX_PROBLEMS)
        return batch.filter(pa.array(~bad)) if rows.size else batch


_Check = tuple[Flags, Callable[[int], str], str | None]  # bad rows, message, column
_UNKNOWN, _BLANK = -1, -2


def open_table(
    path: AnyPath,
    content: Content,
    hierarchy: Hierarchy | None = None,
    *,
    aliases: Mapping[str, str] | None = None,
    missing_scores: MissingScores = "error",
    lenient: bool = False,
    **options: Unpack[TableOptions],
) -> TableFile:
    """Open a table of scores, truth or ranked instances.

    Parameters
    ----------
    path : path
        Text (``.csv``, ``.tsv``, also ``.gz``), Parquet, a folder of Parquet files, or a sheet of
        an Excel workbook; a local path or an address that fsspec knows.
    content : {"scores", "truth", "ranking"}
    hierarchy : Hierarchy, optional
        Its labels number those of the table. Without it the table defines the labels.
    aliases : mapping, optional
        Other names of labels, as `load_hierarchy` returns them.
    missing_scores : {"error", "allow"}
        Whether scores of a wide table may be missing (NaN).
    lenient : bool
        Skip bad rows and unknown labels, and count them in `TableFile.log`.
    **options
        See `TableOptions`.

    Raises
    ------
    FileError
        If the file cannot be read, or its columns do not fit.
    """
    check_choice(missing_scores, ("error", "allow"), name="missing_scores")
    decimal = check_choice(options.get("decimal", "."), (".", ","), name="decimal")
    only_labels = check_choice(options.get("columns", "all"), ("all", "labels"), name="columns")
    log = ReadLog(path, lenient=lenient)
    source = open_source(log, sep=options.get("sep"), decimal=decimal)
    layout = find_layout(source, content, log, options.get("sample_column"))
    log.format = layout.format
    aliases = {} if aliases is None else aliases
    labels: Sequence[str] = () if hierarchy is None else hierarchy.labels
    if layout.is_wide:
        layout = _match_columns(layout, hierarchy, aliases, source, only_labels == "labels")
        labels = labels or layout.names[1:]
    return TableFile(
        path=os.fspath(path),
        content=content,
        layout="wide" if layout.is_wide else "long",
        is_cafa=layout.is_cafa,
        log=log,
        _source=source,
        _layout=layout,
        _codes={label: i for i, label in enumerate(labels)},
        _aliases=aliases,
        _is_open=hierarchy is None,
        _missing_scores=missing_scores,
    )


def _match_columns(
    layout: Layout,
    hierarchy: Hierarchy | None,
    aliases: Mapping[str, str],
    source: Source,
    only_labels: bool,
) -> Layout:
    """Sort the columns of a wide table in the order of the hierarchy; every label needs one."""
    if hierarchy is None:
        return layout
    log = source.log
    found: dict[str, int] = {}
    extra: list[str] = []
    for at, given in enumerate(layout.names[1:], start=1):
        label = given if given in hierarchy else aliases.get(given, given)
        if label not in hierarchy:
            extra.append(given)
        elif label in found:
            text = f"label {label!r} has two columns, {layout.names[found[label]]!r} and {given!r}."
            raise log.file_error(text, line="the header")
        else:
            found[label] = at
    missing = [label for label in hierarchy.labels if label not in found]
    if not found:
        batch = next(source.batches(layout.columns[:1], 100), None)
        rows = [] if batch is None else batch.column(0).slice(0, 100).to_pylist()
        hint = mismatch_hint(extra, missing, hierarchy, rows)
        raise log.file_error(
            f"none of the {len(extra):,} columns is a label: {quote_names(extra, most=3)}.",
            line="the header",
            hint=hint or f"the hierarchy has {quote_names(hierarchy.labels, most=3)}.",
        )
    if extra and not only_labels:
        hint = mismatch_hint(extra, missing, hierarchy)
        hint = hint or "--columns labels (columns='labels') ignores columns that are not labels."
        for given in extra:
            log.unknown_label(given, hierarchy.labels, line="the header", hint=hint)
    elif extra:
        log.note(f"{log.path}: columns that are not labels are ignored: {quote_names(extra)}")
    if missing:
        raise log.file_error(
            f"{len(missing):,} label(s) of the hierarchy have no column: {quote_names(missing)}.",
            line="the header",
            hint="add the columns, or use a long table, which may omit pairs.",
        )
    return layout.take([0, *(found[label] for label in hierarchy.labels)])


def _encoded(column: Any) -> tuple[list[str], NDArray[np.intp]]:
    """Return the distinct names of a column, and the position of each row's name among them."""
    coded = column.dictionary_encode()
    names = ["" if name is None else name for name in coded.dictionary.to_pylist()]
    codes = coded.indices.cast(pa.int64())
    if codes.null_count:
        names.append("")
        codes = codes.fill_null(len(names) - 1)
    return names, codes.to_numpy().astype(np.intp, copy=False)


def _is_blank(names: Any) -> Flags:
    blank = pc.or_(pc.equal(pc.binary_length(names), 0), pc.utf8_is_space(names))
    return np.asarray(pc.fill_null(blank, True).to_numpy(zero_copy_only=False))


def _value_problem(values: NDArray[np.float64], content: Content) -> Callable[[int], str]:
    def text(row: int) -> str:
        value = float(values[row])
        if np.isnan(value):
            return "the value is missing or not a number (NaN)."
        if np.isinf(value):
            return "the value is infinite."
        return f"the value is {value:g}; expected 0 or 1."

    return text


def batch_matrix(batch: pa.RecordBatch) -> NDArray[np.float64]:
    """Return the values of a batch of a wide table, one row per sample."""
    columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns[1:]]
    return np.ascontiguousarray(np.stack(columns).T)
