"""Rankings to and from files: rank, sample, label, lpr, score, call; or the CAFA layout."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hierlpr._base.checks import check_choice
from hierlpr._base.files import writing, writing_text
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io._watch import ReadReport, Watch
from hierlpr.io.opening import ending
from hierlpr.io.row_rules import (
    LabelNumbers,
    long_rows,
    no_rows,
    number_names,
    tell_repeated_pairs,
)
from hierlpr.io.table_files import TableFile, TableFormat, open_table
from hierlpr.io.text_output import refuse_blanks, write_text_table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ENDINGS",
    "Listed",
    "RankingFile",
    "listed_rows",
    "plain_columns",
    "ranking_labels",
    "read_ranking",
    "write_ranking",
]

ENDINGS = (".parquet", ".csv", ".tsv")


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
    kind = check_choice(ending(path), ENDINGS, name="the ending of the ranking file")
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
    table = plain_columns(table)
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


def plain_columns(table: pa.Table) -> pa.Table:
    """CSV has no dictionaries; text spelled out, calls as 0 and 1."""
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.string()))
        elif pa.types.is_boolean(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.int8()))
    return table


# -- reading ----------------------------------------------------------------------------------


class Listed(NamedTuple):
    """Good rows of a ranking as they stand in the file; `sample` are names (Arrow)."""

    sample: Any
    label: NDArray[np.int64]
    score: NDArray[np.float64]
    lpr: NDArray[np.float64] | None
    call: NDArray[np.bool_] | None
    rank: NDArray[np.float64] | None


def ranking_labels(hierarchy: Hierarchy | None, aliases: Mapping[str, str] | None) -> LabelNumbers:
    """Make the numbers of the labels of a ranking."""
    return LabelNumbers(
        hierarchy, aliases,
        hint="is this the hierarchy the ranking was made with? --lenient (lenient=True) leaves "
        "unknown labels out.",
    )  # fmt: skip


def listed_rows(
    table: TableFile, numbers: LabelNumbers, watch: Watch, *, n_rows: int = 1 << 19
) -> Iterator[Listed]:
    """Read a ranking that `hierlpr.io.open_table` opened, a block of rows at a time."""
    names = [name.strip().lower() for name in table.numbers]
    for block in table.blocks(watch, n_rows=n_rows):
        label, score, good = long_rows(block, numbers, table, watch)
        good = good & (label >= 0)
        kept: Any = slice(None) if good.all() else np.flatnonzero(good)
        sample = block.texts[0] if isinstance(kept, slice) else block.texts[0].take(kept)
        further = dict(zip(names, block.numbers, strict=True))
        lpr, call, rank = (
            further[name][kept] if name in further else None for name in ("lpr", "call", "rank")
        )
        yield Listed(
            sample, label[kept], score[kept], lpr, None if call is None else call != 0, rank
        )  # fmt: skip


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
    table = open_table(path, TableFormat.of("ranking"), watch)
    numbers = ranking_labels(hierarchy, aliases)
    samples: dict[str, int] = {}
    parts: list[Listed] = []
    for rows in listed_rows(table, numbers, watch):
        parts.append(rows._replace(sample=number_names(rows.sample, slice(None), samples)))
    if not samples:
        raise no_rows(table, watch)
    columns: Any = (
        None if column[0] is None else np.concatenate(column) for column in zip(*parts, strict=True)
    )
    sample, label, score, lpr, call, rank = columns
    order = np.argsort(-score if rank is None else rank, kind="stable")
    order = _distinct(sample, label, order, tuple(samples), numbers, table, watch)
    return RankingFile(
        sample=sample[order],
        label=label[order],
        score=score[order],
        lpr=None if lpr is None else lpr[order],
        call=None if call is None else call[order],
        samples=tuple(samples),
        labels=numbers.labels,
        report=watch.report(rows=int(order.size), samples=len(samples)),
    )


def _distinct(
    sample: NDArray[np.int64],
    label: NDArray[np.int64],
    order: NDArray[np.int64],
    samples: tuple[str, ...],
    numbers: LabelNumbers,
    table: TableFile,
    watch: Watch,
) -> NDArray[np.int64]:
    """Rows in order without repeated pairs: CAFA files repeat, and the highest counts."""
    key = (sample * len(numbers.labels) + label)[order]
    ordered = np.sort(key)
    if not (ordered[1:] == ordered[:-1]).any():
        return order
    again = np.ones(key.size, dtype=bool)
    again[np.unique(key, return_index=True)[1]] = False
    first = int(order[np.argmax(again)])
    tell_repeated_pairs(
        int(again.sum()), samples[sample[first]], int(label[first]), numbers, table, watch
    )  # fmt: skip
    return order[~again]
