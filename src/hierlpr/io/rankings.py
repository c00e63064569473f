"""Rankings from and to files: rank, sample, label, lpr, score, call; or the CAFA layout."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hierlpr._base import AnyPath
from hierlpr._base.checks import check_choice
from hierlpr._base.files import writing
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io._watch import ReadReport, Watch
from hierlpr.io.opening import ending
from hierlpr.io.row_rules import (
    LabelNumbers,
    coded,
    long_rows,
    no_rows,
    number_names,
    repeated_pairs,
    tell_repeated_pairs,
)
from hierlpr.io.table_files import TableFile, open_table
from hierlpr.io.table_output import (
    ENDINGS,
    GROUP_ROWS,
    TableWriter,
    arrow_texts,
    refuse_blanks,
)


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
    table = open_table(path, "ranking", watch)
    numbers = ranking_labels(hierarchy, aliases)
    parts = [x._replace(sample=coded(x.sample)) for x in listed_rows(table, numbers, watch)]
    sample, samples = number_names([rows.sample for rows in parts])
    if not samples:
        raise no_rows(table, watch)
    columns: Any = (
        None if column[0] is None else np.concatenate(column)
        for column in list(zip(*parts, strict=True))[1:]
    )
    label, score, lpr, call, rank = columns
    order = np.argsort(-score if rank is None else rank, kind="stable")
    again = repeated_pairs(sample[order], label[order], len(numbers.labels))
    if again is not None:  # CAFA files repeat, and the highest counts
        first = int(order[np.argmax(again)])
        pair = samples[sample[first]], int(label[first])
        tell_repeated_pairs(int(again.sum()), *pair, numbers, table, watch)
        order = order[~again]
    return RankingFile(
        sample=sample[order],
        label=label[order],
        score=score[order],
        lpr=None if lpr is None else lpr[order],
        call=None if call is None else call[order],
        samples=samples,
        labels=numbers.labels,
        report=watch.report(rows=int(order.size), samples=len(samples)),
    )


# -- writing ----------------------------------------------------------------------------------


def write_ranking(
    path: AnyPath,
    ranking: Any,
    *,
    samples: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    call: ArrayLike | None = None,
    keep: ArrayLike | None = None,
    captions: Sequence[str] | None = None,
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
    captions : sequence of str, optional
        Names for people of the labels, written in a last column `name`.
    """
    kind = check_choice(ending(path), ENDINGS, name="the ending of the ranking file")
    rows = {
        "sample": np.asarray(ranking.sample),
        "label": np.asarray(ranking.label).astype(np.int32),
        "lpr": np.asarray(ranking.lpr, dtype=np.float64),
        "score": np.asarray(ranking.score, dtype=np.float64),
    }
    n = rows["sample"].size
    rows["call"] = np.ones(n, dtype=bool) if call is None else np.asarray(call, dtype=bool)
    if rows["call"].shape != (n,):
        raise DataError(
            f"call has shape {rows['call'].shape}, but the ranking has {n:,} instances."
        )
    kept = None if keep is None else np.asarray(keep, dtype=bool)
    names, named = (
        given if given is not None else getattr(ranking, what, None) or _numbered(rows[what[:-1]])
        for what, given in (("samples", samples), ("labels", labels))
    )
    columns = arrow_texts(names), tuple(named)
    if kind == ".tsv":
        refuse_blanks(path, sample=columns[0], label=named)
    is_packed = os.fspath(path).lower().endswith(".gz")
    options: dict[str, Any] = {"is_packed": is_packed, "captions": captions}
    with writing(path) as part, RankingWriter(part, kind, *columns, **options) as writer:
        for at in range(0, n, GROUP_ROWS):
            cut = slice(at, at + GROUP_ROWS)
            block = {name: values[cut] for name, values in rows.items()}
            writer.write(block, keep=None if kept is None else kept[cut])
    return writer.n_rows


def _numbered(codes: NDArray[Any]) -> list[str]:
    return [str(i) for i in range(int(codes.max(initial=-1)) + 1)]


class RankingWriter(TableWriter):
    """Write ranked rows as rank, sample, label, lpr, score, call; or the CAFA layout."""

    def __init__(
        self,
        path: Path,
        kind: str,
        names: Any,
        labels: tuple[str, ...],
        *,
        is_packed: bool,
        captions: tuple[str, ...] | None = None,
    ) -> None:
        import pyarrow as pa

        fields = {"rank": pa.int64(), "sample": None, "label": None, "lpr": pa.float64()}
        fields |= {"score": pa.float64(), "call": pa.bool_()}
        if kind == ".tsv":
            fields = {name: fields[name] for name in ("sample", "label", "score")}
            captions = None
        super().__init__(path, kind, names, labels, fields, is_packed=is_packed, captions=captions)
        self._n_ranked = self.n_calls = 0

    def write(self, rows: Mapping[str, NDArray[Any]], *, keep: NDArray[Any] | None = None) -> None:
        """Append rows, or some of them; those that are not kept count in the ranks all the same."""
        first, n = self._n_ranked + 1, rows["sample"].size
        self._n_ranked += n
        self.n_calls += int(np.count_nonzero(rows["call"]))
        self.add({**rows, "rank": np.arange(first, first + n)}, keep=keep)
