"""Evaluate a ranking of any size: rows spread over parts by sample, then part by part.

    ranking -> rows (sample, label, score, call) by sample -> sums over samples, truth of every row
            -> sums along the list

The measures are those of `hierlpr.metrics.evaluation`; the truth is held as sets of labels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.files import refuse_overlap
from hierlpr.data.label_sets import LabelSets
from hierlpr.hierarchy import Hierarchy
from hierlpr.io._watch import ReadReport, Watch
from hierlpr.io.pairing import Absent
from hierlpr.metrics.cafa import accretion_of
from hierlpr.metrics.curves import hit_curve
from hierlpr.metrics.evaluation import STRETCH, Evaluation, PooledSums, Rows, SampleSums
from hierlpr.scale.budget import DEFAULT_MEMORY, Budget, parse_memory
from hierlpr.scale.engine import engine, stream
from hierlpr.scale.estimate import estimate_rows
from hierlpr.scale.files import absolute
from hierlpr.scale.listing import Listed, Listing, open_listing
from hierlpr.scale.sample_rows import SampleRows
from hierlpr.scale.truth import stream_truth
from hierlpr.scale.work import work_folder

__all__ = ["Evaluated", "evaluate_file"]

MOST_PARTS = 500  # files that are open at once
LOOKED_UP = 4  # batches of rows whose samples are looked up at once
ROW = np.dtype([("place", "<i8"), ("score", "<f8"), ("sample", "<i4"), ("label", "<i4"),
                ("call", "?")])  # fmt: skip
MISSED, HIT, DROPPED = 0, 1, 2  # what the file of states says of a listed instance
OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An evaluation, and what was seen on the way."""

    evaluation: Evaluation
    ranking: ReadReport
    truth: ReadReport
    notes: tuple[str, ...]


def evaluate_file(
    ranking: str | os.PathLike[str],
    truth: str | os.PathLike[str],
    hierarchy: Hierarchy,
    *,
    memory: str | int = DEFAULT_MEMORY,
    absent: Absent | None = None,
    aliases: Mapping[str, str] | None = None,
    close: bool = False,
    lenient: bool = False,
    partitions: int | None = None,
    work: str | os.PathLike[str] | None = None,
    on_progress: OnProgress | None = None,
) -> Evaluated:
    """Measure a ranking that need not fit in memory against the truth.

    Parameters
    ----------
    ranking : path
        What `hierlpr.scale.rank_file` or `hierlpr.io.write_ranking` write: Parquet (a file or a
        folder) or CSV; or CAFA predictions. Text may be gzipped.
    truth : path
        Truth in any layout of `hierlpr.io.read_truth`.
    hierarchy : Hierarchy
    memory : str or int
        Working memory, beside the interpreter and its libraries.
    absent, aliases, close, lenient
        As in `hierlpr.io.pair_samples` and `hierlpr.io.read_truth`.
    partitions : int, optional
        Number of parts; by default as many as the memory needs. No result depends on it.
    work : path, optional
        Where a folder for work files is made, about 25 bytes a row; the system's temporary folder
        by default.
    on_progress : callable, optional
        Called with stage, done and total.

    Returns
    -------
    Evaluated
    """
    budget = Budget(parse_memory(memory))
    say = on_progress or (lambda stage, done, total: None)
    path = os.fspath(ranking)
    key = f"evaluate {absolute(path)} {absolute(os.fspath(truth))}"
    refuse_overlap({}, {"the ranking": path, "the truth": truth}, work)
    with work_folder(work, key) as folder:
        known = stream_truth(
            os.fspath(truth), hierarchy, folder / "truth", budget, aliases=aliases, close=close,
            lenient=lenient,
        )  # fmt: skip
        total = estimate_rows(path)
        n_parts = max(1, min(MOST_PARTS, partitions or -(-total // budget.evaluated_rows)))

        def attempt(arrange: Callable[[Iterable[Listed]], Iterable[Listed]]) -> _Attempt:
            watch, samples = Watch(path, lenient=lenient), SampleRows(known, absent)
            listing = open_listing(path, watch)
            rows = listing.rows(
                hierarchy, watch, aliases=aliases, batch_rows=budget.listed_rows
            )  # fmt: skip
            run = _Run(listing, hierarchy, folder, n_parts, samples)
            return _Attempt(run, run.spread(arrange(_counted(rows, say, total))), watch, samples)

        try:
            run, n_rows, watch, samples = attempt(lambda rows: rows)
        except _OutOfOrderError:
            run, n_rows, watch, samples = attempt(lambda rows: _sorted_rows(rows, folder, budget))
        if n_rows == 0:
            first = str(watch.problems[0]) if watch.problems else ""
            raise watch.fail("no row could be read.", hint=first)
        notes = samples.notes(path)
        sets = LabelSets(
            known.values.indptr.astype(np.int64), known.values.indices, hierarchy.n_labels
        ).with_empty(samples.n_negative)  # fmt: skip
        found = run.measure(sets, n_rows, watch, budget, say)
        report = watch.report(rows=found.sizes["listed"], samples=samples.n_ranked)
        return Evaluated(found, report, known.report, notes)


def _counted(rows: Iterable[Listed], say: OnProgress, total: int) -> Iterator[Listed]:
    done = 0
    for listed in rows:
        yield listed
        done += listed.label.size
        say("reading", done, max(done, total))


def _numbered(
    rows: Iterable[Listed], samples: SampleRows
) -> Iterator[tuple[Listed, NDArray[np.int64]]]:
    """Find samples by name for a few batches at once: each lookup takes in all known names."""
    for several in _batched(rows, LOOKED_UP):
        number = samples.numbers([listed.sample for listed in several])
        ends = np.cumsum([listed.label.size for listed in several])[:-1]
        yield from zip(several, np.split(number, ends), strict=True)


def _batched(rows: Iterable[Listed], n: int) -> Iterator[list[Listed]]:
    rows = iter(rows)
    while several := list(islice(rows, n)):
        yield several


class _Attempt(NamedTuple):
    """Rows that are spread over parts, and what was seen on the way."""

    run: _Run
    n_rows: int
    watch: Watch
    samples: SampleRows


class _OutOfOrderError(Exception):
    """The rows do not come in the order that counts."""


class _Run:
    """Rows in parts by sample: sample number ``i`` is number ``i // n`` of part ``i % n``."""

    def __init__(
        self, listing: Listing, hierarchy: Hierarchy, folder: Path, n_parts: int,
        samples: SampleRows,
    ) -> None:  # fmt: skip
        self._listing, self._hierarchy, self._folder = listing, hierarchy, folder
        self._n_parts, self._samples = n_parts, samples
        self._has_calls = "call" in listing.columns
        self._has_ranks = "rank" in listing.columns

    def spread(self, rows: Iterable[Listed]) -> int:
        """Write every row to the file of its part; return how many there are."""
        n_rows, last = 0, -np.inf
        with ExitStack() as stack:
            files = [
                stack.enter_context(self._part(p).open("wb")) for p in range(self._n_parts)
            ]  # fmt: skip
            for listed, number in _numbered(rows, self._samples):
                last = self._check_order(listed, last)
                kept = number >= 0
                part = (number % self._n_parts).astype(np.uint16)
                part[~kept] = self._n_parts
                order = np.argsort(part, kind="stable")[: np.count_nonzero(kept)]
                found = np.empty(number.size, dtype=ROW)
                found["place"] = n_rows + np.cumsum(kept) - 1
                found["sample"], found["label"] = number // self._n_parts, listed.label
                found["score"] = listed.score
                found["call"] = True if listed.call is None else listed.call
                found = found[order]
                bounds = np.searchsorted(part[order], np.arange(self._n_parts + 1)).tolist()
                for p, file in enumerate(files):
                    found[bounds[p] : bounds[p + 1]].tofile(file)
                n_rows += order.size
        return n_rows

    def _check_order(self, listed: Listed, last: float) -> float:
        """Return the key of the last row; stop where an earlier row has a later place."""
        if listed.rank is not None:
            key = listed.rank
        elif self._listing.is_ordered and not self._has_ranks:
            key = -listed.score
        else:
            return last
        if key.size and (key[0] < last or (np.diff(key) < 0).any()):
            raise _OutOfOrderError
        return float(key[-1]) if key.size else last

    def _part(self, p: int) -> Path:
        return self._folder / f"rows-{p:04d}"

    def measure(
        self, truth: LabelSets, n_rows: int, watch: Watch, budget: Budget, say: OnProgress
    ) -> Evaluation:
        """Add up the measures, one part after the other."""
        h = self._hierarchy
        sums = SampleSums(h, accretion_of(truth, h), has_calls=self._has_calls)
        states = self._folder / "states"
        with states.open("wb") as file:
            file.truncate(n_rows)
        done = 0
        for p in range(self._n_parts):
            found = self._distinct(np.fromfile(self._part(p), dtype=ROW), p, states, watch)
            self._part(p).unlink()
            rows = Rows(found["sample"], found["label"].astype(np.int64), found["score"].copy(),
                        found["call"].copy() if self._has_calls else None)  # fmt: skip
            status = sums.add(rows, truth.every(p, self._n_parts))
            if self._listing.is_ordered:
                _put(states, found["place"], np.where(status, HIT, MISSED))
            else:
                _put_groups(self._folder / f"groups-{p:04d}.parquet", rows.score, status)
            done += found.size
            say("measuring", done, n_rows)
        pooled = PooledSums(truth.label.size)
        curve = _stretches(states) if self._listing.is_ordered else _groups(self._folder, budget)
        for calls, hits in curve:
            pooled.add(calls, hits)
        return sums.evaluation(pooled)

    def _distinct(
        self, found: NDArray[Any], p: int, states: Path, watch: Watch
    ) -> NDArray[Any]:  # fmt: skip
        """Rows of a part in the order of the list, each pair once: the first."""
        if not (self._has_ranks or self._listing.is_ordered):
            found = found[np.argsort(-found["score"], kind="stable")]
        n_labels = self._hierarchy.n_labels
        key = found["sample"].astype(np.int64) * n_labels + found["label"]
        ordered = np.sort(key)
        if not (ordered[1:] == ordered[:-1]).any():
            return found
        again = np.ones(key.size, dtype=bool)
        again[np.unique(key, return_index=True)[1]] = False
        if self._listing.is_cafa:
            watch.counts["repeated_pairs_merged"] += int(again.sum())
        else:
            for row in found[again]:
                name = self._samples.name(int(row["sample"]) * self._n_parts + p)
                label = self._hierarchy.labels[int(row["label"])]
                watch.problem(
                    f"sample {name!r} has label {label!r} again.", line=f"row {row['place'] + 1:,}"
                )
        _put(states, found["place"][again], DROPPED)
        return found[~again]


# -- along the list ---------------------------------------------------------------------------


def _put(states: Path, place: NDArray[np.int64], state: Any) -> None:
    """Note what became of listed instances; the file is mapped only while it is written."""
    if place.size:
        mapped = np.memmap(states, dtype=np.uint8, mode="r+")
        mapped[place] = state
        mapped.flush()


def _stretches(states: Path) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    with states.open("rb") as file:
        while (state := np.fromfile(file, dtype=np.uint8, count=STRETCH)).size:
            yield hit_curve(state[state != DROPPED] == HIT)


def _put_groups(file: Path, score: NDArray[np.float64], status: NDArray[np.bool_]) -> None:
    """Count instances and hits of each score in a part."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    values, place, size = np.unique(score, return_inverse=True, return_counts=True)
    hits = np.bincount(place[status], minlength=values.size)
    pq.write_table(pa.table({"score": values, "size": size, "hits": hits}), file)


def _groups(
    folder: Path, budget: Budget
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:  # fmt: skip
    """Corners of the hit curve by falling score over all parts."""
    files = str(folder / "groups-*.parquet").replace("'", "''")
    query = (
        f"SELECT sum(size)::DOUBLE, sum(hits)::DOUBLE FROM read_parquet('{files}') "
        "GROUP BY score ORDER BY score DESC"
    )
    with engine(folder, budget.engine_memory) as connection:
        for batch in stream(connection, query, STRETCH):
            calls, hits = (np.append(0.0, np.cumsum(batch.column(i).to_numpy())) for i in range(2))
            yield calls, hits


def _sorted_rows(rows: Iterable[Listed], folder: Path, budget: Budget) -> Iterator[Listed]:
    """Bring rows into the order of their ranks, or of falling scores, by an external sort."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = folder / "unsorted.parquet"
    writer = None
    place = 0
    try:
        for x in rows:
            key = x.rank if x.rank is not None else -x.score
            call = np.ones(key.size, dtype=bool) if x.call is None else x.call
            columns = {"sample": x.sample.cast(pa.large_string()), "label": x.label,
                       "score": x.score, "call": call, "key": key,
                       "place": np.arange(place, place + key.size)}  # fmt: skip
            place += key.size
            table = pa.table(columns)
            writer = writer or pq.ParquetWriter(file, table.schema, compression="lz4")
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        return
    source = str(file).replace("'", "''")
    query = (
        f"SELECT sample, label, score, call FROM read_parquet('{source}') ORDER BY key, place"
    )  # fmt: skip
    with engine(folder, budget.engine_memory) as connection:
        for batch in stream(connection, query, STRETCH):
            label, score, call = (
                batch.column(i).to_numpy(zero_copy_only=False) for i in (1, 2, 3)
            )  # fmt: skip
            yield Listed(batch.column(0), label, score, call, None)
    file.unlink()
