"""Read and write rankings: rank, sample, label, lpr, score, call; or the CAFA layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from hierlpr._utils import AnyPath
from hierlpr._utils.files import atomic_output
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.read_log import ReadReport
from hierlpr.io.read_tables import label_codes
from hierlpr.io.table_files import TableOptions, open_table
from hierlpr.io.table_output import GROUP_ROWS, TableWriter, output_ending

_CODES = pa.dictionary(pa.int32(), pa.string())
RANKING_SCHEMA = pa.schema(
    {
        "rank": pa.int64(),
        "sample": pa.string(),
        "label": _CODES,
        "lpr": pa.float64(),
        "score": pa.float64(),
        "call": pa.bool_(),
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class RankingFile:
    """A ranking read from a file, best call first.

    `sample` and `label` are positions in `samples` and `labels`. `lpr` and `call` are None if the
    file does not have them (CAFA layout).
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


def read_ranking(
    path: AnyPath,
    hierarchy: Hierarchy | None = None,
    *,
    aliases: Mapping[str, str] | None = None,
    lenient: bool = False,
    **options: Unpack[TableOptions],
) -> RankingFile:
    """Read a ranking that `write_ranking` wrote, or a CAFA prediction file.

    Rows are ordered by the column `rank`, or by decreasing score without one. With a hierarchy,
    labels are numbered as there and unknown ones are an error.
    """
    file = open_table(path, "ranking", hierarchy, aliases=aliases, lenient=lenient, **options)
    batches = [batch for batch in file.batches() if batch.num_rows]
    if not batches:
        raise file.log.file_error("no row could be read.")
    label = np.concatenate([label_codes(batch) for batch in batches]).astype(np.int64)
    coded = pa.chunked_array([x.column("sample") for x in batches]).combine_chunks()
    coded = coded.dictionary_encode()
    sample, samples = coded.indices.to_numpy().astype(np.int64), coded.dictionary.to_pylist()
    names = batches[0].schema.names
    columns = {
        name: np.concatenate([batch.column(name).to_numpy() for batch in batches])[label >= 0]
        for name in ("value", "lpr", "call", "rank")
        if name in names
    }
    sample, label = sample[label >= 0], label[label >= 0]
    score = columns["value"]
    order = np.argsort(columns.get("rank", -score), kind="stable")
    key = sample[order] * max(1, len(file.labels)) + label[order]
    again = np.ones(key.size, dtype=bool)
    again[np.unique(key, return_index=True)[1]] = False
    if again.any():
        first = order[np.argmax(again)]
        pair = samples[sample[first]], file.labels[label[first]]
        file.report_repeated_pairs(int(again.sum()), *pair)
        order = order[~again]
    return RankingFile(
        sample=sample[order],
        label=label[order],
        score=score[order],
        lpr=columns["lpr"][order] if "lpr" in columns else None,
        call=columns["call"][order] != 0 if "call" in columns else None,
        samples=tuple(samples),
        labels=file.labels,
        report=file.log.report(rows=int(order.size), samples=len(samples)),
    )


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
    """Write a ranking; return the number of rows.

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
        Whether each instance is called; by default all are.
    keep : array-like of bool, optional
        Write only these instances; they keep their rank.
    captions : sequence of str, optional
        Readable names of the labels, written in a last column `name`.
    """
    output_ending(path, "ranking file")
    sample, label = np.asarray(ranking.sample), np.asarray(ranking.label).astype(np.int32)
    called = np.ones(sample.size, dtype=bool) if call is None else np.asarray(call, dtype=bool)
    if called.shape != (sample.size,):
        raise DataError(
            f"call has shape {called.shape}, but the ranking has {sample.size:,} instances."
        )
    rows = np.arange(sample.size) if keep is None else np.flatnonzero(np.asarray(keep, dtype=bool))
    if samples is None:
        samples = getattr(ranking, "samples", None) or _numbers(sample)
    if labels is None:
        labels = getattr(ranking, "labels", None) or _numbers(label)
    sample_names, label_names = pa.array(samples, pa.string()), pa.array(labels, pa.string())
    schema = RANKING_SCHEMA if captions is None else RANKING_SCHEMA.append(pa.field("name", _CODES))
    with atomic_output(path) as part, TableWriter(part, schema) as writer:
        for start in range(0, rows.size, GROUP_ROWS):
            at = rows[start : start + GROUP_ROWS]
            code = pa.array(label[at])
            columns = {
                "rank": pa.array(at + 1),
                "sample": sample_names.take(pa.array(sample[at])),
                "label": pa.DictionaryArray.from_arrays(code, label_names),
                "lpr": pa.array(np.asarray(ranking.lpr, dtype=np.float64)[at]),
                "score": pa.array(np.asarray(ranking.score, dtype=np.float64)[at]),
                "call": pa.array(called[at]),
            }
            if captions is not None:
                names = pa.array(captions, pa.string())
                columns["name"] = pa.DictionaryArray.from_arrays(code, names)
            writer.write(pa.table(columns, schema=schema))
    return writer.n_rows


def _numbers(codes: NDArray[Any]) -> list[str]:
    return [str(i) for i in range(int(codes.max(initial=-1)) + 1)]
