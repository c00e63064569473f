"""Predictions in text files: SINTAX, mothur, RDP, QIIME 2, DADA2 and the CSV of MapMyCells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from hierlpr._utils import AnyPath
from hierlpr.exceptions import FileError
from hierlpr.io.lineages import (
    RANKS,
    Predictions,
    as_scores,
    check_samples,
    from_paths,
    quote,
    refuse,
)

_LINES = {
    "sintax": r"^(?P<sample>[^\t]+)\t(?P<path>[^\t]*)(?:\t(?P<rest>[^\t]*))?(?:\t[^\t]*)?$",
    "mothur": r"^(?P<sample>[^\t]+)\t(?P<rest>(?:[0-9]+\t)?)(?P<path>[^\t]*)$",
    "rdp": r"^(?P<sample>[^\t]+)\t(?P<rest>[-+]?)\t(?P<path>.*)$",
}
_HINTS = {
    "sintax": "expected sequence, tab, d:NAME(0.99),p:NAME(0.95),... as vsearch --sintax writes",
    "mothur": "expected sequence, tab, NAME(100);NAME(98);... as mothur's classify.seqs writes",
    "rdp": "expected sequence, strand, then name, rank and confidence of each rank, separated by "
    "tabs, as the RDP classifier writes with -f fixrank or -f allrank",
    "qiime2": "a QIIME 2 taxonomy has the columns Feature ID, Taxon, Confidence (or Consensus)",
    "dada2": "assignTaxonomy(..., outputBootstraps=TRUE) gives $tax and $boot: write.csv both into "
    "one table, or into two and give the second with --confidences",
    "mapmycells": "each level has a label and a probability from 0 to 1",
    "anndata": "lines count cells; each level has names and confidences from 0 to 1",
}
_CONFIDENCES = ("_bootstrapping_probability", "_correlation_coefficient")


class TextFile:
    """A text file of one kind, one sample per line from line `first`."""

    def __init__(self, path: AnyPath, kind: str, first: int = 1) -> None:
        self.path, self.kind, self.first = path, kind, first

    def line(self, row: int) -> str:
        """Say where a sample is."""
        return f"line {row + self.first}"

    def fail(self, row: int, text: str) -> FileError:
        """Make the error for a sample, with what the format looks like."""
        return refuse(self.path, self.line(row), text, f"{_HINTS[self.kind]}.")

    def split(self, raw: bytes) -> dict[str, pa.Array]:
        """Split lines without quotes into the sample, the path and the rest."""
        lines = text_lines(self.path, raw)
        if self.kind == "mothur" and lines[0].as_py().lower() == "otu\tsize\ttaxonomy":
            lines, self.first = lines.slice(1), 2
        parts = pc.extract_regex(lines, _LINES[self.kind])
        if parts.null_count:
            row = pc.index(pc.is_null(parts), True).as_py()
            raise self.fail(row, f"cannot read {quote(lines[row])}.")
        return {name: pc.struct_field(parts, name) for name in ("sample", "path", "rest")}

    def build(
        self,
        samples: pa.Array,
        pieces: pa.Array,
        names: pa.Array,
        scores: pa.Array,
        ranks: Sequence[str],
        content: dict[str, Any],
        **others: Any,
    ) -> Predictions:
        """Build predictions from one list of pieces per sample, their names and confidences."""
        row, place = entry_places(pieces)
        levels = [
            *ranks,
            *(f"level {i + 1}" for i in range(len(ranks), int(place.max(initial=0)) + 1)),
        ]
        rank_of = others.pop("rank_of", lambda i: levels[place[i]])
        value = as_scores(scores, lambda entry, text: self.fail(int(row[entry]), text))
        named = check_samples(self.path, samples.to_pylist(), self.line)
        content = {"pieces": pieces, "sample": samples, **content}
        return from_paths(
            self.path, self.kind, named, row, place, names, value, rank_of, content=content,
            **others,
        )  # fmt: skip


def entry_places(pieces: pa.Array) -> tuple[Any, Any]:
    """Return the list of each item of a list array, and its place in the list."""
    ptr = pieces.offsets.to_numpy()
    row = np.repeat(np.arange(ptr.size - 1), np.diff(ptr))
    return row, np.arange(row.size) - ptr[row]


def text_lines(path: AnyPath, raw: bytes) -> pa.Array:
    """Return the lines of UTF-8 text; line ``i + 1`` of the file is item ``i``."""
    raw = raw.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n")
    raw = raw.replace(b"\r\n", b"\n") if b"\r" in raw else raw
    at, text = raw.find(b"\0"), ""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        at = error.start
    if at >= 0:
        line = raw.count(b"\n", 0, at) + 1
        hint = "save the file as UTF-8 text, for example with iconv -f latin1 -t utf-8."
        raise refuse(path, f"line {line}", f"byte 0x{raw[at]:02x} is not UTF-8 text.", hint)
    return pc.split_pattern(pa.array([text], pa.large_string()), "\n").flatten()


def read_table(
    path: AnyPath, raw: bytes, delimiter: str, *, n_comments: int = 0, quotes: bool = True
) -> pa.Table:
    """Read a table with a header; every column is text."""
    lines = text_lines(path, raw)
    header = lines[n_comments].as_py().split(delimiter)
    names = [name.strip().strip('"') for name in header]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise refuse(path, f"line {n_comments + 1}", f"the column {quote(twice[0])} occurs twice.")
    try:
        found = pacsv.read_csv(
            pa.BufferReader(raw.removeprefix(b"\xef\xbb\xbf")),
            pacsv.ReadOptions(column_names=names, skip_rows=n_comments + 1, use_threads=False),
            pacsv.ParseOptions(delimiter=delimiter, quote_char='"' if quotes else False),
            pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.large_string())),
        )
    except pa.ArrowInvalid:
        counts = pc.count_substring(lines, delimiter).to_numpy() + 1
        odd = np.flatnonzero((counts != len(names)) & (np.arange(counts.size) > n_comments))
        place = f"line {int(odd[0]) + 1}" if odd.size else "the last line"
        text = f"expected {len(names)} columns as in the header."
        hint = "a name that holds the separator must be in double quotes."
        raise refuse(path, place, text, hint) from None
    if not found.num_rows:
        raise refuse(path, f"line {n_comments + 1}", "there is no row below the header.")
    return found.combine_chunks()


def read_sintax(path: AnyPath, raw: bytes, ranks: Sequence[str]) -> Predictions:
    """Read what vsearch and usearch write with ``--sintax`` and ``--tabbedout``."""
    file = TextFile(path, "sintax")
    cells = file.split(raw)
    pieces = pc.split_pattern(cells["path"], ",")
    columns = pa.table({"taxonomy": cells["path"], "strand": cells["rest"]})
    return file.build(
        cells["sample"], pieces, *_name_and_score(file, pieces), ranks, {"rest": cells["rest"]},
        style={"separator": ","}, columns=columns,
    )  # fmt: skip


def read_mothur(path: AnyPath, raw: bytes, ranks: Sequence[str]) -> Predictions:
    """Read what mothur's ``classify.seqs`` and ``classify.otu`` write."""
    file = TextFile(path, "mothur")
    cells = file.split(raw)
    pieces = pc.split_pattern(pc.utf8_rtrim(cells["path"], ";"), ";")
    content = {"rest": cells["rest"], "header": "OTU\tSize\tTaxonomy\n" * (file.first - 1)}
    return file.build(
        cells["sample"], pieces, *_name_and_score(file, pieces), ranks, content,
        style={"separator": ";", "end": ";"}, columns=pa.table({"taxonomy": cells["path"]}),
    )  # fmt: skip


def read_rdp(path: AnyPath, raw: bytes, ranks: Sequence[str]) -> Predictions:
    """Read what the RDP classifier writes as ``fixrank`` or ``allrank``."""
    file = TextFile(path, "rdp")
    parts = file.split(raw)
    whole = pc.if_else(pc.equal(parts["path"], ""), "\t\t0", parts["path"])
    cells = pc.split_pattern(whole, "\t")
    odd = np.flatnonzero(pc.list_value_length(cells).to_numpy() % 3)
    if odd.size:
        raise file.fail(int(odd[0]), "the cells do not come in threes.")
    flat = cells.flatten()
    name, rank, score = (flat.take(np.arange(i, len(flat), 3)) for i in range(3))
    name = pc.if_else(pc.equal(rank, "rootrank"), "", name)
    pieces = pa.ListArray.from_arrays(cells.offsets.to_numpy() // 3, name)
    return file.build(
        parts["sample"], pieces, name, score, ranks, {"rest": parts["rest"], "cells": cells},
        style={}, columns=pa.table({"strand": parts["rest"]}), rank_of=lambda i: rank[i].as_py(),
    )  # fmt: skip


def _name_and_score(file: TextFile, pieces: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Parse NAME(SCORE), each distinct text once; an empty path is one empty piece."""
    coded = pieces.flatten().dictionary_encode()
    words = pc.if_else(pc.equal(coded.dictionary, ""), "(0)", coded.dictionary)
    parts = pc.extract_regex(words, r"^(?P<name>.*)\((?P<score>[^()]*)\)$")
    if parts.null_count:
        code = pc.index(pc.is_null(parts), True).as_py()
        entry = pc.index(coded.indices, pa.scalar(code, coded.indices.type)).as_py()
        row = int(entry_places(pieces)[0][entry])
        raise file.fail(row, f"{quote(words[code])} has no confidence in parentheses.")
    name, score = (pc.struct_field(parts, x).take(coded.indices) for x in ("name", "score"))
    return name, score


def read_qiime2(path: AnyPath, raw: bytes, ranks: Sequence[str]) -> Predictions:
    """Read a QIIME 2 taxonomy: one confidence for the deepest name, or one per rank.

    Ancestors are at least as sure as the deepest name, so they take its confidence.
    """
    table = read_table(path, raw, "\t", quotes=False)
    has_types = table.column(0)[0].as_py().startswith("#q2:types")
    file = TextFile(path, "qiime2", first=2 + has_types)
    table = table.slice(int(has_types)).combine_chunks()
    lower = {name.lower(): name for name in table.column_names}
    wanted = next((lower[x] for x in ("confidence", "consensus") if x in lower), None)
    if wanted is None:
        raise file.fail(1 - file.first, "there is no column of confidences.")
    taxon = table[lower["taxon"]].combine_chunks()
    pieces = pc.split_pattern(taxon, ";")
    given = pc.split_pattern(table[wanted].combine_chunks(), ";")
    count, n_given = (pc.list_value_length(x).to_numpy() for x in (pieces, given))
    odd = np.flatnonzero((n_given != 1) & (n_given != count))
    if odd.size:
        raise file.fail(int(odd[0]), f"{n_given[odd[0]]} confidences for {count[odd[0]]} ranks.")
    row, place = entry_places(pieces)
    scores = given.flatten().take(
        given.offsets.to_numpy()[row] + np.minimum(place, n_given[row] - 1)
    )
    per_rank = wanted if n_given.max(initial=1) > 1 else None
    separator = "; " if pc.any(pc.match_substring(taxon, "; ")).as_py() else ";"
    return file.build(
        table.column(0).combine_chunks(), pieces, pieces.flatten(), scores, ranks,
        {"table": table, "taxon": lower["taxon"], "per_rank": per_rank},
        style={"separator": separator},
        columns=table.select(table.column_names[1:]),
    )  # fmt: skip


def read_dada2(path: AnyPath, raw: bytes, confidences: tuple[AnyPath, bytes] | None) -> Predictions:
    """Read DADA2's names and bootstraps: one table with ``tax.`` and ``boot.``, or two tables."""
    table = read_table(path, raw, delimiter_of(raw))
    file = TextFile(path, "dada2", first=2)
    levels = {x.removeprefix("tax."): x for x in table.column_names[1:] if _is_rank(x)}
    other, prefix = table, "boot."
    if confidences is not None:
        other, prefix = read_table(*confidences, delimiter_of(confidences[1])), ""
        if other.column(0) != table.column(0):
            text = "its rows are not the sequences of the table of names, in the same order."
            raise refuse(confidences[0], "", text, _HINTS["dada2"])
        file.path = confidences[0]
    missing = [x for x in levels if prefix + x not in other.column_names]
    if missing:
        raise file.fail(-1, f"there are no bootstraps for {quote(missing[0])}.")
    chosen = [(table[levels[x]], other[prefix + x]) for x in levels]
    content = {"table": table, "levels": [[x] for x in levels.values()], "missing": "NA"}
    ranks = [x.lower() for x in levels]
    return from_levels(file, table, chosen, ranks, content, style={})


def _is_rank(column: str) -> bool:
    return column.removeprefix("tax.").lower() in RANKS.values()


def delimiter_of(raw: bytes) -> str:
    """Return the separator of a table: a tab if its first line has one, else a comma."""
    return "\t" if b"\t" in raw.partition(b"\n")[0] else ","


def from_levels(
    file: TextFile,
    table: pa.Table,
    levels: Sequence[tuple[pa.ChunkedArray, pa.ChunkedArray]],
    ranks: Sequence[str],
    content: Any,
    **others: Any,
) -> Predictions:
    """Build predictions from a column of names and one of confidences for each level."""
    samples = check_samples(file.path, table.column(0).to_pylist(), file.line)
    n, k = len(samples), len(levels)
    flat = np.arange(n * k).reshape(k, n).T.ravel()  # by sample, then by level
    names, given = (
        pa.chunked_array([c for pair in levels for c in pair[i].chunks]).combine_chunks()
        for i in (0, 1)
    )
    # A confidence without a name says nothing: DADA2 writes 34 beside NA, others nothing.
    texts = pc.if_else(pc.equal(given, ""), "0", given).take(flat)
    row, place = np.arange(n * k) // k, np.arange(n * k) % k
    scores = as_scores(texts, lambda i, text: file.fail(int(row[i]), f"{ranks[place[i]]}: {text}"))
    return from_paths(
        file.path, file.kind, samples, row, place, names.take(flat), scores,
        lambda i: ranks[place[i]], columns=table.select(table.column_names[1:]), content=content,
        **others,
    )  # fmt: skip


def read_mapmycells_csv(path: AnyPath, raw: bytes) -> Predictions:
    """Read comment lines, then for each level the columns of its label, name and confidence."""
    lines = raw.rstrip(b"\r\n").split(b"\n")
    n_comments = next((i for i, x in enumerate(lines) if not x.startswith(b"#")), len(lines) - 1)
    table = read_table(path, raw, ",", n_comments=n_comments)
    has, header = set(table.column_names), f"line {n_comments + 1}"
    levels = [x.removesuffix("_label") for x in table.column_names if x.endswith("_label")]
    if not levels:
        hint = (
            "MapMyCells writes cell_id, LEVEL_label, LEVEL_name, LEVEL_bootstrapping_probability."
        )
        raise refuse(path, header, "there is no column LEVEL_label.", hint)
    chosen, own = [], []
    shown: dict[str, str] = {}
    for level in levels:
        score = next((level + x for x in _CONFIDENCES if level + x in has), None)
        if score is None:
            text = f"the level {quote(level)} has no column {quote(level + _CONFIDENCES[0])}."
            raise refuse(path, header, text, "write it with --csv_result_path again.")
        chosen.append((table[f"{level}_label"], table[score]))
        own.append([x for x in table.column_names if x.startswith(f"{level}_")])
        if f"{level}_name" in has:
            pairs = (table[f"{level}{x}"].to_pylist() for x in ("_label", "_name"))
            shown.update(x for x in zip(*pairs, strict=True) if x[1])
    content = {
        "table": table,
        "levels": own,
        "missing": "",
        "comments": [line.rstrip(b"\r") for line in lines[:n_comments]],
    }
    file = TextFile(path, "mapmycells", first=n_comments + 2)
    style = {"names": True}
    return from_levels(file, table, chosen, levels, content, style=style, shown=shown)
