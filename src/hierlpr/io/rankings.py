"""Rankings to and from files: rank, sample, label, lpr, score, call; or the CAFA layout."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hierlpr._base.checks import check_choice, listed
from hierlpr._base.files import writing, writing_text
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io._arrow import as_numbers, parquet_table, refuse_blanks, write_text_table
from hierlpr.io._files import ending, read_bytes
from hierlpr.io._long import text_codes
from hierlpr.io._text import open_text, to_arrow
from hierlpr.io._watch import ReadReport, Watch, closest

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RANKING_COLUMNS", "RankingFile", "read_ranking", "write_ranking"]

RANKING_COLUMNS = ("rank", "sample", "label", "lpr", "score", "call")
_ENDINGS = (".parquet", ".csv", ".tsv")


@dataclass(frozen=True, slots=True, eq=False)
class RankingFile:
    """A ranking as read from a file, best call first.

    `sample` and `label` are places in `samples` and `labels`. `lpr` and `call` are None where
    the layout (CAFA) does not hold them.
    """

    sample: NDArray[np.int64]
    label: NDArray[np.int64]
    score: NDArray[np.float64]
    lpr: NDArray[np.float64] | None
    call: NDArray[np.bool_] | None
    samples: tuple[str, ...]
    labels: tuple[str, ...]
    report: ReadReport

    def __len__(self) -> int:
        return int(self.sample.size)


def write_ranking(
    path: str | os.PathLike[str],
    ranking: Any,
    *,
    samples: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    call: ArrayLike | None = None,
    keep: ArrayLike | None = None,
) -> int:
    """Write a ranking whole or not at all; returns the number of rows.

    Parameters
    ----------
    path : path
        ``.parquet`` and ``.csv`` hold rank, sample, label, lpr, score, call. ``.tsv`` holds the
        CAFA layout (sample, label, score; no header). Text may end in ``.gz``.
    ranking : Ranking
        Anything with the arrays `sample`, `label`, `lpr` and `score`.
    samples, labels : sequence of str, optional
        Names of rows and columns; by default those of the ranking, or numbers.
    call : array-like of bool, optional
        Whether each instance is called; all are if not given.
    keep : array-like of bool, optional
        Write only these instances; they keep their rank.
    """
    kind = check_choice(ending(path), _ENDINGS, name="the ending of the ranking file")
    table = ranking_table(ranking, samples=samples, labels=labels, call=call)
    names = [chunk.dictionary for i in (1, 2) for chunk in table.column(i).chunks]
    if keep is not None:
        table = table.filter(np.asarray(keep, dtype=bool))
    if kind == ".parquet":
        import pyarrow.parquet as pq

        with writing(path) as part:
            pq.write_table(table, part, row_group_size=1 << 20)
        return int(table.num_rows)
    if kind == ".tsv":
        refuse_blanks(path, table)
        table = table.select(["sample", "label", "score"])
    table = _plain(table)
    with writing_text(path) as part:
        write_text_table(
            table, part, delimiter="\t" if kind == ".tsv" else ",", header=kind != ".tsv",
            names=names,
        )  # fmt: skip
    return int(table.num_rows)


def ranking_table(
    ranking: Any,
    *,
    samples: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    call: ArrayLike | None = None,
) -> pa.Table:
    """Arrow table of a ranking; names are stored once and pointed to."""
    import pyarrow as pa

    samples = samples if samples is not None else getattr(ranking, "samples", None)
    labels = labels if labels is not None else getattr(ranking, "labels", None)
    sample, label = np.asarray(ranking.sample), np.asarray(ranking.label)
    n = sample.size
    called = np.ones(n, dtype=bool) if call is None else np.asarray(call, dtype=bool)
    if called.shape != (n,):
        raise DataError(f"call has shape {called.shape}, but the ranking has {n:,} instances.")
    return pa.table(
        {
            "rank": pa.array(np.arange(1, n + 1, dtype=np.int64)),
            "sample": _named(sample, samples),
            "label": _named(label, labels),
            "lpr": pa.array(np.asarray(ranking.lpr, dtype=np.float64)),
            "score": pa.array(np.asarray(ranking.score, dtype=np.float64)),
            "call": pa.array(called),
        }
    )


def _named(codes: NDArray[Any], names: Sequence[str] | None) -> pa.Array:
    import pyarrow as pa

    if names is None:
        names = [str(i) for i in range(int(codes.max(initial=-1)) + 1)]
    indices = pa.array(codes.astype(np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(names), type=pa.string()))


def _plain(table: pa.Table) -> pa.Table:
    """CSV has no dictionaries; text spelled out, calls as 0 and 1."""
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.string()))
        elif pa.types.is_boolean(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.int8()))
    return table


# -- reading ----------------------------------------------------------------------------------


def read_ranking(
    path: str | os.PathLike[str],
    hierarchy: Hierarchy | None = None,
    *,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
) -> RankingFile:
    """Read a ranking that `write_ranking` wrote, or any CAFA prediction file.

    Rows of a CAFA file are put in order of falling score; elsewhere the column `rank` orders
    them. With a hierarchy, labels are numbered as there and unknown ones are a problem.
    """
    watch = Watch(path, "ranking", lenient=lenient)
    table, place = _ranking_columns(path, watch)
    sample, samples = text_codes(table.column("sample"))
    label, names = text_codes(table.column("label"))
    score = as_numbers(table.column("score")).astype(np.float64)
    good = np.isfinite(score)
    for row in np.flatnonzero(~good).tolist():
        watch.problem("the score is missing or not finite.", line=place(row), column="score")
    label, labels = _numbered(label, names, hierarchy, aliases, good, place, watch)
    order = _order(table, score)
    order = order[good[order]]
    order = _distinct(sample[order], label[order], order, samples, labels, place, watch)

    def column(name: str) -> NDArray[Any] | None:
        return as_numbers(table.column(name))[order] if name in table.column_names else None

    call = column("call")
    return RankingFile(
        sample=sample[order],
        label=label[order],
        score=score[order],
        lpr=column("lpr"),
        call=None if call is None else call.astype(bool),
        samples=tuple(samples[:-1]),
        labels=tuple(labels),
        report=watch.report(rows=int(order.size), samples=len(samples) - 1),
    )


def _order(table: pa.Table, score: NDArray[np.float64]) -> NDArray[np.int64]:
    if "rank" in table.column_names:
        return np.argsort(as_numbers(table.column("rank")), kind="stable")
    return np.argsort(-score, kind="stable")


def _ranking_columns(path: str | os.PathLike[str], watch: Watch) -> tuple[pa.Table, Any]:
    import pyarrow as pa

    coded = pa.dictionary(pa.int32(), pa.string())
    types = {"rank": pa.float64(), "sample": coded, "label": coded,
             "lpr": pa.float64(), "score": pa.float64(), "call": pa.float64()}  # fmt: skip
    raw = None if os.path.isdir(path) else read_bytes(path)
    if raw is None or ending(path) == ".parquet" or raw.startswith(b"PAR1"):
        table = parquet_table(path, raw)
        _need(table.column_names, watch, "the schema")
        columns = {}
        for name in table.column_names:
            if name in types:
                kind = pa.int8() if pa.types.is_boolean(table.schema.field(name).type) else None
                given = table.column(name) if kind is None else table.column(name).cast(kind)
                if name not in ("sample", "label"):
                    given = given.cast(types[name])
                elif not pa.types.is_dictionary(given.type):
                    given = given.cast(pa.string())
                columns[name] = given
        return pa.table(columns), lambda row: f"row {row + 1}"
    text = open_text(watch, raw)
    names = [cell.strip() for cell in text.first]
    has_header = "sample" in names
    if not has_header:
        if len(names) != 3:
            _need(names, watch, text.first_line)
        watch.format = "CAFA ranking"
        names = ["sample", "label", "score"]
    else:
        _need(names, watch, text.first_line)
    include = [name for name in names if name in types]
    table, lines = to_arrow(
        text, watch, names=names, has_header=has_header,
        types={n: types[n] for n in include}, include=include,
    )  # fmt: skip
    counted: list[int] = []

    def place(row: int) -> int:
        if not counted:
            counted.extend(lines if lines is not None else text.lines(watch)[has_header:])
        return counted[row]

    return table, place


def _need(names: Sequence[str], watch: Watch, line: int | str) -> None:
    missing = [name for name in ("sample", "label", "score") if name not in names]
    if missing:
        raise watch.fail(
            f"this is no ranking: there is no column {listed(missing)}.",
            line=line,
            hint="a ranking has the columns rank,sample,label,lpr,score,call; a CAFA file has "
            "sample, label and score without a header.",
        )


def _numbered(
    label: NDArray[np.int64],
    names: list[str],
    hierarchy: Hierarchy | None,
    aliases: Mapping[str, str] | None,
    good: NDArray[np.bool_],
    place: Any,
    watch: Watch,
) -> tuple[NDArray[np.int64], Sequence[str]]:
    """Renumber labels as in the hierarchy; rows of unknown ones turn bad."""
    if hierarchy is None:
        return label, names[:-1]
    known = {name: i for i, name in enumerate(hierarchy.labels)}
    target = np.full(len(names), -1, dtype=np.int64)
    for code, name in enumerate(names[:-1]):
        real = name if name in known or not aliases else aliases.get(name, name)
        if real in known:
            target[code] = known[real]
            continue
        rows = np.flatnonzero(label == code)
        if not watch.lenient:
            raise watch.fail(
                f"label {name!r} is not in the hierarchy ({rows.size:,} row(s)).",
                line=place(int(rows[0])),
                hint=f"{closest(name, known)}is this the hierarchy the ranking was made with? "
                "--lenient (lenient=True) leaves unknown labels out.",
            )
        watch.unknown[name] += int(rows.size)
    good &= target[label] >= 0
    return target[label], hierarchy.labels


def _distinct(
    sample: NDArray[np.int64],
    label: NDArray[np.int64],
    order: NDArray[np.int64],
    samples: list[str],
    labels: Sequence[str],
    place: Any,
    watch: Watch,
) -> NDArray[np.int64]:
    """Rows without repeated instances: CAFA files repeat, and the highest counts."""
    if not sample.size:
        raise watch.fail("no row could be read.")
    key = sample * max(len(labels), 1) + label
    ordered = np.sort(key)
    if not (ordered[1:] == ordered[:-1]).any():
        return order
    _, first = np.unique(key, return_index=True)
    again = np.ones(key.size, dtype=bool)
    again[first] = False
    if watch.format == "CAFA ranking":
        watch.counts["repeated_pairs_merged"] += int(again.sum())
    else:
        for at in np.flatnonzero(again).tolist():
            watch.problem(
                f"sample {samples[sample[at]]!r} has label {labels[label[at]]!r} again.",
                line=place(int(order[at])),
            )
    return order[~again]
