"""Rankings from files: rank, sample, label, lpr, score, call; or the CAFA layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr.hierarchy import Hierarchy
from hierlpr.io._watch import ReadReport, Watch
from hierlpr.io.opening import AnyPath
from hierlpr.io.row_rules import (
    LabelNumbers,
    long_rows,
    no_rows,
    number_names,
    tell_repeated_pairs,
)
from hierlpr.io.table_files import TableFile, TableFormat, open_table

__all__ = [
    "Listed",
    "RankingFile",
    "listed_rows",
    "ranking_labels",
    "read_ranking",
]


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
    hint = "is this the hierarchy the ranking was made with? --lenient (lenient=True) leaves "
    return LabelNumbers(hierarchy, aliases, hint=hint + "unknown labels out.")


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
        called = None if call is None else call != 0
        yield Listed(sample, label[kept], score[kept], lpr, called, rank)


def read_ranking(
    path: AnyPath,
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
