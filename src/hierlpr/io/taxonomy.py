"""Predictions in text files: SINTAX, mothur, RDP, QIIME 2, DADA2 and the CSV of MapMyCells.

Every format is a table with one sample per row. Of each, `parse` turns the cells of a row into a
path of scored names, or raises ValueError, and `cut` keeps of the cells only the first names.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from hierlpr._utils import AnyPath
from hierlpr.exceptions import DataError
from hierlpr.io.lineages import RANKS, Collector, Entry, Float, Index, Predictions, quote
from hierlpr.io.reading import file_error, numbered_lines

Cells = list[str]
Parse = Callable[[Cells], Iterable[Entry]]
Cut = Callable[[Cells, int], Cells]
_CONFIDENCES = ("_bootstrapping_probability", "_correlation_coefficient")
_HINTS = {
    "sintax": "expected sequence, tab, d:NAME(0.99),p:NAME(0.95),... as vsearch --sintax writes.",
    "mothur": "expected sequence, tab, NAME(100);NAME(98);... as mothur's classify.seqs writes.",
    "rdp": "expected sequence, strand, then name, rank and confidence of each rank, separated by "
    "tabs, as the RDP classifier writes with -f fixrank or -f allrank.",
    "qiime2": "a QIIME 2 taxonomy has the columns Feature ID, Taxon, Confidence (or Consensus).",
    "dada2": "assignTaxonomy(..., outputBootstraps=TRUE) gives $tax and $boot: write.csv both into "
    "one table, or into two and give the second as confidences.",
    "mapmycells": "MapMyCells writes cell_id, and for each level LEVEL_label, LEVEL_name and "
    "LEVEL_bootstrapping_probability.",
}


class TextTable:
    """The rows of a text file below its head: comments, a header, and the types of QIIME 2.

    `header_at` is the line of the header, counted from 0; files without one have tabs. A quote is
    part of a name in files with tabs.
    """

    def __init__(self, path: AnyPath, raw: bytes, header_at: int | None = None) -> None:
        self.path, self.raw = path, raw.rstrip(b"\r\n")
        self.header: Cells = []
        self.head: list[bytes] = []
        self.delimiter = "\t"
        if header_at is None:
            return
        lines = self.raw.split(b"\n", header_at + 2)
        has_types = b"".join(lines[header_at + 1 :][:1]).startswith(b"#q2:types")
        self.head = lines[: header_at + 1 + has_types]
        header = lines[min(header_at, len(lines) - 1)].decode(errors="replace")
        self.delimiter = "\t" if "\t" in header else ","
        try:
            cells = next(csv.reader([header], delimiter=self.delimiter))
        except csv.Error as error:
            hint = "is this a table whose lines end with a newline?"
            raise file_error(path, f"line {header_at + 1}", f"{quote(error)}.", hint) from None
        self.header = [x.strip(' "\r') for x in cells]
        if twice := [x for x in self.header if self.header.count(x) > 1]:
            text = f"the column {quote(twice[0])} occurs twice."
            raise file_error(path, f"line {header_at + 1}", text)

    def rows(self) -> Iterator[tuple[int, Cells]]:
        """Yield the number of the line and the cells of each sample."""
        lines = (line for _, line in numbered_lines(self.path, io.BytesIO(self.raw)))
        for _ in self.head:
            next(lines)
        options: Any = {} if self.delimiter == "," else {"quoting": csv.QUOTE_NONE}
        reader = csv.reader(lines, delimiter=self.delimiter, **options)
        try:
            for cells in reader:
                if not cells or (self.header and len(cells) != len(self.header)):
                    expected = len(self.header) or 2
                    raise csv.Error(f"expected {expected} columns, got {len(cells)}")
                yield len(self.head) + reader.line_num, cells
        except csv.Error as error:
            hint = "a name that holds the separator must be in double quotes."
            place = f"line {len(self.head) + reader.line_num}"
            text = "a carriage return inside a row" if "new-line" in str(error) else str(error)
            raise file_error(self.path, place, f"{text}.", hint) from None


def _read_table(
    table: TextTable,
    kind: str,
    functions: tuple[Parse, Cut],
    columns: Sequence[str],
    shown: dict[str, str] | None = None,
    **style: Any,
) -> Predictions:
    """Read a text file; `columns` names the cells after the first, `shown` has readable names."""
    parse, cut = functions
    found = Collector(table.path, kind, "line {}", shown)
    for number, cells in table.rows():
        try:
            entries = parse(cells)
        except ValueError as error:
            raise found.error(number, str(error), _HINTS[kind]) from None
        found.add_path(number, cells[0], entries)
    n_own = len(columns)

    def own_cells() -> Iterator[Cells]:
        for _, cells in table.rows():
            yield [*cells[1 : n_own + 1], *repeat("", n_own + 1 - len(cells))]

    def rewrite(found: Predictions, label: Index, chance: Float, out: AnyPath) -> None:
        if found.place is None:
            text = "its paths were replaced by another hierarchy and cannot be cut."
            hint = "leave out the hierarchy or like_input."
            options = ("hierarchy", "like_input")
            raise DataError(f"{found.path}: {text}\nHint: {hint}", options=options)
        row = np.repeat(np.arange(label.size), np.diff(found.scores.indptr))
        at = np.flatnonzero(found.scores.indices == label[row])
        n_kept = np.zeros(label.size, dtype=np.int64)
        n_kept[row[at]] = found.place[at] + 1  # names that name nothing count
        cuts = zip(table.rows(), n_kept.tolist(), strict=True)
        rows = (cut(cells, n) for (_, cells), n in cuts)
        with open(out, "w", encoding="utf-8", newline="") as stream:
            stream.writelines(line.decode().rstrip("\r") + "\n" for line in table.head)
            if table.delimiter == ",":
                csv.writer(stream, lineterminator="\n").writerows(rows)
            else:
                stream.writelines("\t".join(cells) + "\n" for cells in rows)

    return found.finish(style=style, columns=tuple(columns), cells=own_cells, rewrite=rewrite)


def _split_score(piece: str) -> Entry:
    """Split NAME(SCORE)."""
    name, _, score = piece.rpartition("(")
    if not score.endswith(")") or not name:
        raise ValueError(f"{quote(piece)} has no confidence in parentheses.")
    return name, "", score[:-1]


def read_sintax(path: AnyPath, raw: bytes) -> Predictions:
    """Read what vsearch and usearch write with ``--sintax`` and ``--tabbedout``."""

    def parse(cells: Cells) -> list[Entry]:
        if not 2 <= len(cells) <= 4:
            raise ValueError(f"cannot read {quote(cells[0])}.")
        return [_split_score(x) for x in cells[1].split(",")] if cells[1] else []

    def cut(cells: Cells, kept: int) -> Cells:
        pieces = cells[1].split(",")[:kept]
        names = (piece.rpartition("(")[0] for piece in pieces)
        return [cells[0], ",".join(pieces), "".join(cells[2:3]), ",".join(names)]

    columns = ("taxonomy", "strand")
    return _read_table(TextTable(path, raw), "sintax", (parse, cut), columns, separator=",")


def read_mothur(path: AnyPath, raw: bytes) -> Predictions:
    """Read what mothur's ``classify.seqs`` and ``classify.otu`` write.

    Ranks below the last name are written as ``NAME_unclassified(CONFIDENCE)``, as mothur does.
    """
    has_header = raw[:20].lower().startswith(b"otu\tsize\ttaxonomy")
    table = TextTable(path, raw, 0 if has_header else None)

    def parse(cells: Cells) -> list[Entry]:
        if len(cells) != 2 + has_header or not all(x.isdecimal() for x in cells[1:-1]):
            raise ValueError(f"cannot read {quote(cells[0])}.")
        return [_split_score(x) for x in cells[-1].rstrip(";").split(";")]

    def cut(cells: Cells, kept: int) -> Cells:
        pieces = cells[-1].rstrip(";").split(";")
        stay = pieces[:kept] or ["unknown(100)"]
        name, _, confidence = stay[-1].rpartition("(")
        fill = [f"{name}_unclassified({confidence}"] * (len(pieces) - len(stay))
        return [*cells[:-1], ";".join([*stay, *fill]) + ";"]

    columns = table.header[1:] or ("taxonomy",)
    return _read_table(table, "mothur", (parse, cut), columns, separator=";", end=";")


def read_rdp(path: AnyPath, raw: bytes) -> Predictions:
    """Read what the RDP classifier writes as ``fixrank`` or ``allrank``."""

    def parse(cells: Cells) -> Iterator[Entry]:
        parts = [] if cells[2:] == [""] else cells[2:]
        if len(parts) % 3:
            raise ValueError("the cells after the strand do not come in threes.")
        triples = zip(*(parts[i::3] for i in range(3)), strict=True)
        return (("" if rank == "rootrank" else x, rank, score) for x, rank, score in triples)

    def cut(cells: Cells, kept: int) -> Cells:
        return [*cells[:2], *(cells[2 : 2 + 3 * kept] or [""])]

    return _read_table(TextTable(path, raw), "rdp", (parse, cut), ("strand",))


def read_qiime2(path: AnyPath, raw: bytes) -> Predictions:
    """Read a QIIME 2 taxonomy: one confidence per rank, or one that all names take."""
    table = TextTable(path, raw, 0)
    lower = [name.lower() for name in table.header]
    at = lower.index("taxon")
    score = next((lower.index(x) for x in ("confidence", "consensus") if x in lower), None)
    if score is None:
        raise file_error(path, "line 1", "there is no column of confidences.", _HINTS["qiime2"])

    def parse(cells: Cells) -> Iterable[Entry]:
        names, given = cells[at].split(";"), cells[score].split(";")
        if len(given) not in (1, len(names)):
            raise ValueError(f"{len(given)} confidences for {len(names)} ranks.")
        given = given * len(names) if len(given) == 1 else given
        return zip(names, repeat(""), given, strict=False)

    def cut(cells: Cells, kept: int) -> Cells:
        taxon = ";".join(cells[at].split(";")[:kept]).strip() or "Unassigned"
        confidence = ";".join(cells[score].split(";")[: max(kept, 1)])
        changed = {at: taxon, score: confidence}
        return [changed.get(i, cell) for i, cell in enumerate(cells)]

    separator = "; " if b"; " in raw else ";"
    return _read_table(table, "qiime2", (parse, cut), table.header[1:], separator=separator)


def _level_functions(
    levels: Sequence[tuple[str, int, int, Sequence[int]]],
    missing: str,
    scores: Mapping[str, Cells] | None = None,
) -> tuple[Parse, Cut]:
    """Return the functions for a table with columns for each rank; `missing` stands below a cut.

    A level is a rank, the columns of its name and confidence, and all columns that a cut empties.
    `scores` has the row with the confidences of each sample if they are in another table.
    """

    def parse(cells: Cells) -> list[Entry]:
        given = cells if scores is None else scores.get(cells[0])
        if given is None:
            raise ValueError(f"there are no bootstraps for the sequence {quote(cells[0])}.")
        # Where there is no name, DADA2 writes a confidence all the same, and others nothing.
        return [(cells[name], rank, given[score] or "0") for rank, name, score, _ in levels]

    def cut(cells: Cells, kept: int) -> Cells:
        blank = {i for *_, own in levels[kept:] for i in own}
        return [missing if i in blank else cell for i, cell in enumerate(cells)]

    return parse, cut


def read_dada2(path: AnyPath, raw: bytes, confidences: tuple[AnyPath, bytes] | None) -> Predictions:
    """Read DADA2's names and bootstraps: one table with ``tax.`` and ``boot.``, or two tables."""
    table = TextTable(path, raw, 0)
    columns, prefix = table.header, "boot."
    scores: dict[str, Cells] | None = None
    if confidences is not None:
        other = TextTable(*confidences, 0)
        columns, prefix = other.header, ""
        scores = {}
        for line, cells in other.rows():
            if scores.setdefault(cells[0], cells) is not cells:
                text = f"the sequence {quote(cells[0])} occurs more than once."
                raise file_error(other.path, f"line {line}", text, "give one row per sequence.")
    levels = []
    for at, name in enumerate(table.header):
        rank = name.removeprefix("tax.")
        if at == 0 or rank.lower() not in RANKS.values():
            continue
        if prefix + rank not in columns:
            text = f"there are no bootstraps for {quote(rank)}."
            raise file_error(path, "line 1", text, _HINTS["dada2"])
        levels.append((rank.lower(), at, columns.index(prefix + rank), (at,)))
    functions = _level_functions(levels, "NA", scores)
    return _read_table(table, "dada2", functions, table.header[1:])


def read_mapmycells_csv(path: AnyPath, raw: bytes) -> Predictions:
    """Read comment lines, then for each level the columns of its label, name and confidence."""
    lines = raw[: 1 << 20].rstrip(b"\r\n").split(b"\n")
    at = next((i for i, x in enumerate(lines) if not x.startswith(b"#")), len(lines) - 1)
    table = TextTable(path, raw, at)
    column = {name: i for i, name in enumerate(table.header)}
    levels, shown_at = [], []
    for rank in (x.removesuffix("_label") for x in column if x.endswith("_label")):
        score = next((rank + x for x in _CONFIDENCES if rank + x in column), None)
        if score is None:
            text = f"the level {quote(rank)} has no column {quote(rank + _CONFIDENCES[0])}."
            raise file_error(path, f"line {at + 1}", text, _HINTS["mapmycells"])
        own = [i for name, i in column.items() if name.startswith(f"{rank}_")]
        levels.append((rank, column[f"{rank}_label"], column[score], own))
        if f"{rank}_name" in column:
            shown_at.append((column[f"{rank}_label"], column[f"{rank}_name"]))
    if not levels:
        text = "there is no column LEVEL_label."
        raise file_error(path, f"line {at + 1}", text, _HINTS["mapmycells"])
    names = {cells[i]: cells[k] for _, cells in table.rows() for i, k in shown_at if cells[k]}
    functions = _level_functions(levels, "")
    return _read_table(table, "mapmycells", functions, table.header[1:], names, names=True)
