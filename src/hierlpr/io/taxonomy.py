"""Predictions in text files: one reader of tables, and what each tool writes into them.

Of each format, `parse` turns the cells of a row into a path of scored names, or raises ValueError,
and `cut` keeps of the cells only the first names. A table of `PATH_FORMATS` describes files without
a header; files with one have a column of paths, columns for each rank, or a row per name.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np

from hierlpr._utils import AnyPath
from hierlpr.exceptions import DataError
from hierlpr.io.lineages import RANKS, Collector, Entry, Float, Index, Listed, Predictions, quote
from hierlpr.io.reading import file_error
from hierlpr.io.sources import Source, open_text

Cells = list[str]
Parse = Callable[[Cells], Iterable[Entry]]
Cut = Callable[[Cells, int], Cells]
# The product along the path before the last step alone, which says nothing of the steps above.
_CONFIDENCES = (
    "_aggregate_probability",
    "_bootstrapping_probability",
    "_correlation_coefficient",
)
_HINTS = {
    "sintax": "expected sequence, tab, d:NAME(0.99),p:NAME(0.95),... as vsearch --sintax writes.",
    "mothur": "expected sequence, tab, NAME(100);NAME(98);... as mothur's classify.seqs writes.",
    "rdp": "expected sequence, strand, then name, rank and confidence of each rank, separated by "
    "tabs, as the RDP classifier writes with -f fixrank or -f allrank.",
    "blca": "expected sequence, tab, rank:NAME;confidence;rank:NAME;confidence;... as BLCA writes.",
    "qiime1": "expected sequence, path and confidence, separated by tabs, as QIIME 1 writes.",
    "qiime2": "a QIIME 2 taxonomy has the columns Feature ID, Taxon, Confidence (or Consensus).",
    "dada2": "assignTaxonomy(..., outputBootstraps=TRUE) gives $tax and $boot: write.csv both into "
    "one table, or into two and give the second as confidences.",
    "mapmycells": "MapMyCells writes cell_id, and for each level LEVEL_label, LEVEL_name and "
    "LEVEL_bootstrapping_probability.",
}


def _read_table(
    table: Source,
    kind: str,
    functions: tuple[Parse, Cut],
    columns: Sequence[str],
    shown: dict[str, str] | None = None,
    **style: Any,
) -> Predictions:
    """Read a text file; `columns` names the cells after the first, `shown` has readable names."""
    parse, cut = functions
    collector = Collector(table.log.path, kind, "line {}", shown)
    for number, cells in table.rows():
        try:
            entries = parse(cells)
        except ValueError as error:
            raise collector.error(number, str(error), _HINTS[kind]) from None
        collector.add_path(number, cells[0], entries)
    n_own = len(columns)

    def own_cells() -> Iterator[Cells]:
        for _, cells in table.rows():
            yield [*cells[1 : n_own + 1], *repeat("", n_own + 1 - len(cells))]

    def rewrite(predictions: Predictions, label: Index, chance: Float, out: AnyPath) -> None:
        if predictions.place is None:
            text = "its paths were replaced by another hierarchy and cannot be cut."
            hint = "leave out the hierarchy or like_input."
            options = ("hierarchy", "like_input")
            raise DataError(f"{predictions.path}: {text}\nHint: {hint}", options=options)
        row = np.repeat(np.arange(label.size), np.diff(predictions.scores.indptr))
        at = np.flatnonzero(predictions.scores.indices == label[row])
        n_kept = np.zeros(label.size, dtype=np.int64)
        n_kept[row[at]] = predictions.place[at] + 1  # placeholder names count
        cuts = zip(table.rows(), n_kept.tolist(), strict=True)
        rows = (cut(cells, n) for (_, cells), n in cuts)
        head = (table.raw or b"").split(b"\n")[: next(table.rows())[0] - 1]
        with open(out, "w", encoding="utf-8", newline="") as stream:
            stream.writelines(line.decode().rstrip("\r") + "\n" for line in head)
            if table.delimiter == ",":
                csv.writer(stream, lineterminator="\n").writerows(rows)
            else:
                stream.writelines("\t".join(cells) + "\n" for cells in rows)

    return collector.finish(style=style, columns=tuple(columns), cells=own_cells, rewrite=rewrite)


@dataclass(frozen=True, slots=True)
class PathFormat:
    """How a text file without a header of its own writes the path of a sample.

    The cells from `first` on, or that cell alone if there is a `separator`, are pieces of which
    `width` make one name with its rank and confidence, as `entry` reads them.
    """

    kind: str
    pattern: str  # of a row with a path
    first: int
    entry: Callable[..., Entry]
    separator: str = ""
    width: int = 1
    columns: tuple[str, ...] = ("taxonomy",)  # names of the cells after the sample
    end: str = ""  # of a written path
    is_row: Callable[[Cells], bool] = lambda cells: len(cells) > 1
    # Completes the cells after a cut: gets them and the pieces kept and removed.
    complete: Callable[[Cells, Cells, Cells], Cells] = lambda cells, kept, rest: cells


def _scored_name(piece: str) -> Entry:
    """Split NAME(SCORE)."""
    name, _, score = piece.rpartition("(")
    if not score.endswith(")") or not name:
        raise ValueError(f"{quote(piece)} has no confidence in parentheses.")
    return name, "", score[:-1]


def _ranked_name(piece: str, score: str) -> Entry:
    """Split RANK:NAME."""
    rank, _, name = piece.partition(":")
    return name, rank, score


def _complete_sintax(cells: Cells, kept: Cells, rest: Cells) -> Cells:
    names = (piece.rpartition("(")[0] for piece in kept)
    return [*cells[:2], "".join(cells[2:3]), ",".join(names)]


def _complete_mothur(cells: Cells, kept: Cells, rest: Cells) -> Cells:
    """Write ranks below the last name as ``NAME_unclassified(CONFIDENCE)``, as mothur does."""
    stay = kept or ["unknown(100)"]
    name, _, confidence = stay[-1].rpartition("(")
    fill = [f"{name}_unclassified({confidence}"] * (len(kept) + len(rest) - len(stay))
    return [*cells[:-1], ";".join([*stay, *fill]) + ";"]


PATH_FORMATS = (
    PathFormat(
        "sintax",
        r"^[^\t]+\t[a-z]:[^,\t]*\([^()]*\)(,|\t|$)",
        first=1,
        entry=_scored_name,
        separator=",",
        columns=("taxonomy", "strand"),
        is_row=lambda cells: 2 <= len(cells) <= 4,
        complete=_complete_sintax,
    ),
    PathFormat(
        "mothur",
        r"^[^\t]+\t(\d+\t)?[^;\t]+\([^()]*\)(;|$)|^OTU\tSize\tTaxonomy$",
        first=-1,
        entry=_scored_name,
        separator=";",
        end=";",
        is_row=lambda cells: len(cells) in (2, 3) and all(x.isdecimal() for x in cells[1:-1]),
        complete=_complete_mothur,
    ),
    PathFormat(
        "rdp",
        r"^[^\t]+\t[-+]?\t[^\t]*\t[^\t]*\t[0-9.]+(\t|$)",
        first=2,
        entry=lambda name, rank, score: ("" if rank == "rootrank" else name, rank, score),
        width=3,
        columns=("strand",),
    ),
    PathFormat(
        "blca",
        r"^[^\t]+\t[a-z]+:[^;\t]*;[0-9.]+;",
        first=1,
        entry=_ranked_name,
        separator=";",
        width=2,
        end=";",
    ),
)


def read_paths(path: AnyPath, raw: bytes, form: PathFormat) -> Predictions:
    """Read a file with one path per sample in which every name has its confidence."""
    has_header = raw[:20].lower().startswith(b"otu\tsize\ttaxonomy")
    table = open_text(path, raw, 0 if has_header else None)
    first, sep = form.first, form.separator

    def pieces(cells: Cells) -> Cells:
        if not form.is_row(cells):
            raise ValueError(f"cannot read {quote(cells[0])}.")
        parts = cells[first].rstrip(sep).split(sep) if sep else cells[first:]
        return [] if parts == [""] else parts

    def parse(cells: Cells) -> Iterator[Entry]:
        parts, width = pieces(cells), form.width
        if len(parts) % width:
            raise ValueError(f"the parts of the path do not come in groups of {width}.")
        return (form.entry(*parts[i : i + width]) for i in range(0, len(parts), width))

    def cut(cells: Cells, n_kept: int) -> Cells:
        parts, n = pieces(cells), n_kept * form.width
        if not sep:
            return [*cells[:first], *(parts[:n] or [""])]
        at = first % len(cells)
        text = sep.join(parts[:n]) + (form.end if n else "")
        changed = [*cells[:at], text, *cells[at + 1 :]]
        return form.complete(changed, parts[:n], parts[n:])

    columns = table.columns[1:] or form.columns
    style: dict[str, Any] = {"separator": sep, "end": form.end} if sep else {}
    return _read_table(table, form.kind, (parse, cut), columns, **style)


def read_qiime(path: AnyPath, raw: bytes, at: int | None = None) -> Predictions:
    """Read a table with a column of paths and one of confidences, such as a QIIME 2 taxonomy.

    There is one confidence per rank, or one that all names take. QIIME 1 has no header: sample,
    path and confidence, and perhaps more, with the path in column `at`.
    """
    table = open_text(path, raw, 0 if at is None else None)
    score: int | None = 2
    if at is None:
        lower = [name.lower() for name in table.columns]
        at = lower.index("taxon")
        score = next((lower.index(x) for x in ("confidence", "consensus") if x in lower), None)
    if score is None:
        text = "there is no column of confidences."
        if len(table.columns) == 2:
            text += " These are names alone, as of a reference database."
        raise file_error(path, "line 1", text, _HINTS["qiime2"])

    def parse(cells: Cells) -> Iterable[Entry]:
        if len(cells) < 3:
            raise ValueError(f"cannot read {quote(cells[0])}.")
        names, scores = cells[at].split(";"), cells[score].split(";")
        if len(scores) not in (1, len(names)):
            raise ValueError(f"{len(scores)} confidences for {len(names)} ranks.")
        scores = scores * len(names) if len(scores) == 1 else scores
        return zip(names, repeat(""), scores, strict=False)

    def cut(cells: Cells, kept: int) -> Cells:
        taxon = ";".join(cells[at].split(";")[:kept]).strip() or "Unassigned"
        confidence = ";".join(cells[score].split(";")[: max(kept, 1)])
        changed = {at: taxon, score: confidence}
        return [changed.get(i, cell) for i, cell in enumerate(cells)]

    separator = "; " if b"; " in raw else ";"
    columns = table.columns[1:] or ("taxonomy", "confidence")
    kind = "qiime2" if table.columns else "qiime1"
    return _read_table(table, kind, (parse, cut), columns, separator=separator)


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
    table = open_text(path, raw, 0)
    columns, prefix = table.columns, "boot."
    scores: dict[str, Cells] | None = None
    if confidences is not None:
        other = open_text(*confidences, 0)
        columns, prefix = other.columns, ""
        scores = {}
        for line, cells in other.rows():
            if scores.setdefault(cells[0], cells) is not cells:
                text = f"the sequence {quote(cells[0])} occurs more than once."
                raise file_error(other.log.path, f"line {line}", text, "give one row per sequence.")
    levels = []
    for at, name in enumerate(table.columns):
        rank = name.removeprefix("tax.")
        if at == 0 or rank.lower() not in RANKS.values():
            continue
        if prefix + rank not in columns:
            text = f"there are no bootstraps for {quote(rank)}."
            raise file_error(path, "line 1", text, _HINTS["dada2"])
        levels.append((rank.lower(), at, columns.index(prefix + rank), (at,)))
    functions = _level_functions(levels, "NA", scores)
    return _read_table(table, "dada2", functions, table.columns[1:])


def read_mapmycells_csv(path: AnyPath, raw: bytes) -> Predictions:
    """Read comment lines, then for each level the columns of its label, name and confidence."""
    lines = raw[: 1 << 20].rstrip(b"\r\n").split(b"\n")
    at = next((i for i, x in enumerate(lines) if not x.startswith(b"#")), len(lines) - 1)
    table = open_text(path, raw, at)
    column = {name: i for i, name in enumerate(table.columns)}
    levels, shown_at = [], []
    for rank in (x.removesuffix("_label") for x in column if x.endswith("_label")):
        score = next((rank + x for x in _CONFIDENCES if rank + x in column), None)
        if score is None:
            text = f"the level {quote(rank)} has no column {quote(rank + _CONFIDENCES[1])}."
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
    return _read_table(table, "mapmycells", functions, table.columns[1:], names, names=True)


# -- one row per sample and name ----------------------------------------------------------------

_FILES = ("file", "filepath", "begin path", "begin file", "file_path", "sample", "image", "id")
_STARTS = ("start (s)", "begin time (s)", "start")
_NAMES = ("scientific name", "prediction", "label", "name", "species")
_SCORES = ("confidence", "score", "probability")


def row_columns(
    header: Sequence[str],
) -> tuple[int | None, int | None, int, int | None, int] | None:
    """Return the columns of file, start of the window, name, other name and confidence of a table.

    BirdNET and animl have one row per detection, other tools one per sample and label. None if the
    table has no sample, no name or no confidence.
    """
    lower = [name.strip().lower() for name in header]
    wanted = (_FILES, _STARTS, _NAMES, ("common name",), _SCORES)
    file, start, name, other, score = (
        next((lower.index(x) for x in names if x in lower), None) for names in wanted
    )
    name = other if name is None else name
    if name is None or score is None or (file is None and start is None):
        return None
    return file, start, name, other, score


def sample_of_row(cells: Cells, file: int | None, start: int | None) -> str:
    """Return the sample of a row: its file and, of windows, their start in seconds."""
    return " ".join(cells[at] for at in (file, start) if at is not None)


def read_detections(path: AnyPath, raw: bytes) -> Predictions:
    """Read a table with one row per sample and name, of which the highest confidence counts."""
    table = open_text(path, raw, 0)
    file, start, at, other, score = row_columns(table.columns) or (0, None, 1, None, 2)
    collector = Collector(path, "detections" if start is None else "windows", "line {}")

    def rows() -> Iterator[Listed]:
        for number, cells in table.rows():
            name = cells[at], "" if other is None else cells[other], cells[score]
            yield number, sample_of_row(cells, file, start), [name]

    is_species = table.columns[at].strip().lower() == "scientific name"
    collector.add_listed(rows(), rank="species" if is_species else "")
    return collector.finish(style={})
