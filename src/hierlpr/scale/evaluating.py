"""Evaluate a ranking of any size: rows spread over parts by sample, then part by part.

    ranking -> rows (sample, label, score, call) by sample -> sums over samples, truth of every row
            -> sums along the list

The measures are those of `hierlpr.metrics.evaluation`; the truth is held as sets of labels.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.files import refuse_overlap, work_file, work_subfolder
from hierlpr.data.label_sets import LabelSets
from hierlpr.hierarchy import Hierarchy
from hierlpr.io import ReadReport, Watch
from hierlpr.io.opening import parquet_files
from hierlpr.io.pairing import Absent
from hierlpr.io.rankings import Listed, listed_rows, ranking_labels
from hierlpr.io.row_rules import no_rows, tell_repeated_pairs
from hierlpr.io.table_files import TableFormat, open_table
from hierlpr.metrics.cafa import accretion_of
from hierlpr.metrics.evaluation import STRETCH, Evaluation, PooledSums, Rows, SampleSums
from hierlpr.scale.budget import DEFAULT_MEMORY, Budget, parse_memory
from hierlpr.scale.engine import engine, stream
from hierlpr.scale.estimate import estimate_rows
from hierlpr.scale.inputs import absolute
from hierlpr.scale.parts import (
    Executor,
    Here,
    OnProgress,
    add_seen,
    keep,
    part_file,
    run_parts,
    say_nothing,
    seen,
)
from hierlpr.scale.sample_rows import SampleRows
from hierlpr.scale.truth import stream_truth
from hierlpr.scale.work import Plan, work_folder

__all__ = ["Evaluated", "evaluate_file"]

MOST_PARTS = 500  # files that are open at once
LOOKED_UP = 4  # batches of rows whose samples are looked up at once
ROW = np.dtype([("place", "<i8"), ("score", "<f8"), ("sample", "<i4"), ("label", "<i4"),
                ("call", "?")])  # fmt: skip
MISSED, HIT, DROPPED = 0, 1, 2  # what the file of states says of a listed instance
MEASURED = "measured"  # kind of the parts


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
    resume: bool = False,
    executor: Executor | None = None,
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
    resume : bool
        Continue from the finished parts of an interrupted run, and keep them if this run fails.
    executor : Executor, optional
        Where parts are measured; here by default.
    on_progress : callable, optional
        Called with stage, done and total.

    Returns
    -------
    Evaluated
    """
    budget = Budget(parse_memory(memory))
    say = on_progress or say_nothing
    path, truth_path = os.fspath(ranking), os.fspath(truth)
    refuse_overlap({}, {"the ranking": path, "the truth": truth_path}, work)
    options = {"absent": absent, "close": close, "lenient": lenient, "partitions": partitions,
               "aliases": dict(sorted((aliases or {}).items())),
               "hierarchy": [hierarchy.labels, hierarchy.edges]}  # fmt: skip
    key = f"evaluate {absolute(path)} {absolute(truth_path)}"
    with work_folder(work, key, resume=resume) as folder:
        inputs = {"ranking": parquet_files(path), "truth": parquet_files(truth_path)}
        plan = Plan.open(folder, inputs, options, resume=resume)
        with work_subfolder(folder) as own:
            known = stream_truth(
                truth_path, hierarchy, own / "truth", budget, aliases=aliases, close=close,
                lenient=lenient,
            )  # fmt: skip
            samples = SampleRows(known, absent)
            spread = _Spread(path, hierarchy, aliases, folder, budget, samples, say)
            if plan.found:
                spread.restore(plan.found)
            else:
                spread.run(lenient=lenient, partitions=partitions)
                plan.write(spread.state())
            samples = spread.samples
            notes = samples.notes(path)
            sets = LabelSets(
                known.values.indptr.astype(np.int64), known.values.indices, hierarchy.n_labels
            ).with_empty(samples.n_negative)  # fmt: skip
            found = _measured(spread, sets, executor or Here(), say)
            report = spread.watch.report(rows=found.sizes["listed"], samples=samples.n_ranked)
            return Evaluated(found, report, known.report, notes)


class _OutOfOrderError(Exception):
    """The rows do not come in the order that counts."""


class _Spread:
    """Rows of a ranking in parts by sample: sample ``i`` is number ``i // n`` of part ``i % n``."""

    def __init__(
        self,
        path: str,
        hierarchy: Hierarchy,
        aliases: Mapping[str, str] | None,
        folder: Path,
        budget: Budget,
        samples: SampleRows,
        say: OnProgress,
    ) -> None:
        self.hierarchy, self.folder, self.budget, self.samples = hierarchy, folder, budget, samples
        self._path, self._say = path, say
        self._labels = ranking_labels(hierarchy, aliases)
        self.watch = Watch(path)
        self.n_parts, self.n_rows = 1, 0
        self.is_ordered = self.has_calls = self.has_ranks = False

    def state(self) -> dict[str, Any]:
        """All that a run needs to go on from here, as plain values."""
        own = {name: getattr(self, name) for name in _SPREAD}
        return {**own, "format": self.watch.format, "lenient": self.watch.lenient,
                "seen": seen(self.watch), "samples": self.samples.state()}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        for name in _SPREAD:
            setattr(self, name, state[name])
        self.watch = Watch(self._path, state["format"], lenient=state["lenient"])
        add_seen(self.watch, state["seen"])
        self.samples.restore(state["samples"])

    def run(self, *, lenient: bool, partitions: int | None) -> None:
        """Read the ranking once, or if it is out of order twice, and write its parts."""
        total = estimate_rows(self._path)
        most = partitions or -(-total // self.budget.evaluated_rows)
        self.n_parts = max(1, min(MOST_PARTS, most))
        for is_sorted in (False, True):
            self.watch = Watch(self._path, lenient=lenient)
            table = open_table(self._path, TableFormat.of("ranking"), self.watch)
            columns = {name.strip().lower() for name in table.numbers}
            # With LPRs, its order counts among equal scores.
            self.is_ordered = "lpr" in columns
            self.has_calls, self.has_ranks = "call" in columns, "rank" in columns
            read = listed_rows(table, self._labels, self.watch, n_rows=self.budget.listed_rows)
            rows: Iterable[Listed] = _counted(read, self._say, total)
            if is_sorted:
                self.samples = self.samples.fresh()
                rows = _sorted_rows(rows, self.folder, self.budget)
            try:
                self.n_rows = self._write(rows)
                break
            except _OutOfOrderError:
                continue
        if self.n_rows == 0:
            raise no_rows(table, self.watch)

    def tell_repeated(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Tell of pairs that the parts found listed again, naming the first in the list."""
        found = [(*record["first"], record["number"]) for record in records if record["again"]]
        if found:
            _, sample, label, part = min(found)
            table = open_table(self._path, TableFormat.of("ranking"), Watch(self._path))
            tell_repeated_pairs(
                sum(record["again"] for record in records),
                self.samples.name(sample * self.n_parts + part), label, self._labels, table,
                self.watch,
            )  # fmt: skip

    def _write(self, rows: Iterable[Listed]) -> int:
        """Write every row to the file of its part; return how many there are."""
        n_rows, last = 0, -np.inf
        with ExitStack() as stack:
            files = [
                stack.enter_context(_rows_file(self.folder, p).open("wb"))
                for p in range(self.n_parts)
            ]
            for listed, number in _numbered(rows, self.samples):
                last = self._check_order(listed, last)
                kept = number >= 0
                part = (number % self.n_parts).astype(np.uint16)
                part[~kept] = self.n_parts
                order = np.argsort(part, kind="stable")[: np.count_nonzero(kept)]
                found = np.empty(number.size, dtype=ROW)
                found["place"] = n_rows + np.cumsum(kept) - 1
                found["sample"], found["label"] = number // self.n_parts, listed.label
                found["score"] = listed.score
                found["call"] = True if listed.call is None else listed.call
                found = found[order]
                bounds = np.searchsorted(part[order], np.arange(self.n_parts + 1)).tolist()
                for p, file in enumerate(files):
                    found[bounds[p] : bounds[p + 1]].tofile(file)
                n_rows += order.size
        return n_rows

    def _check_order(self, listed: Listed, last: float) -> float:
        """Return the key of the last row; stop where an earlier row has a later place."""
        if listed.rank is not None:
            key = listed.rank
        elif self.is_ordered and not self.has_ranks:
            key = -listed.score
        else:
            return last
        if key.size and (key[0] < last or (np.diff(key) < 0).any()):
            raise _OutOfOrderError
        return float(key[-1]) if key.size else last


_SPREAD = ("n_parts", "n_rows", "is_ordered", "has_calls", "has_ranks")


def _rows_file(folder: Path, part: int) -> Path:
    return folder / f"rows-{part:04d}"


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
    rows = iter(rows)
    while several := list(islice(rows, LOOKED_UP)):
        number = samples.numbers([listed.sample for listed in several])
        ends = np.cumsum([listed.label.size for listed in several])[:-1]
        yield from zip(several, np.split(number, ends), strict=True)


# -- part by part -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class MeasureJob:
    """All that measuring a part needs, wherever it happens; the truth lies in `folder`."""

    folder: Path
    hierarchy: Hierarchy
    n_parts: int
    is_listed_in_order: bool
    has_calls: bool

    def put(self, truth: LabelSets) -> SampleSums:
        """Write the truth to the folder; return sums without any sample."""
        accretion = accretion_of(truth, self.hierarchy)
        for name, values in (("ptr", truth.row_ptr), ("label", truth.label), ("bits", accretion)):
            with work_file(self.folder / f"truth-{name}.npy") as part:
                np.save(part, values)
        return SampleSums(self.hierarchy, accretion, has_calls=self.has_calls)

    def take(self, number: int) -> tuple[LabelSets, SampleSums]:
        """Return the truth of a part, and sums without any sample."""
        ptr, label, accretion = (
            np.load(self.folder / f"truth-{name}.npy", mmap_mode="r")
            for name in ("ptr", "label", "bits")
        )
        sets = LabelSets(ptr, label, self.hierarchy.n_labels).every(number, self.n_parts)
        return sets, SampleSums(self.hierarchy, np.array(accretion), has_calls=self.has_calls)


def measure_part(job: MeasureJob, number: int) -> dict[str, Any]:
    """Add up the measures of one part, and note the truth of its rows."""
    return keep(job.folder, MEASURED, number, lambda part: _measure(job, number, part))


def _measure(job: MeasureJob, number: int, part: Path) -> dict[str, Any]:
    truth, sums = job.take(number)
    found = np.fromfile(_rows_file(job.folder, number), dtype=ROW)
    order = np.arange(found.size)
    if not job.is_listed_in_order:
        order = np.argsort(-found["score"], kind="stable")
    again = _repeated(found[order], job.hierarchy.n_labels)
    first = order[~again]
    rows = Rows(found["sample"][first], found["label"][first].astype(np.int64),
                found["score"][first], found["call"][first] if job.has_calls else None)  # fmt: skip
    state = np.full(found.size, DROPPED, dtype=np.uint8)
    state[first] = sums.add(rows, truth)
    with part.open("wb") as file:
        np.savez(file, **{"state": state, **sums.state()})  # type: ignore[arg-type]
    repeated = found[order[again]]
    first_again = repeated[np.argmin(repeated["place"])] if repeated.size else None
    return {"again": repeated.size,
            "first": None if first_again is None else
            [int(first_again[name]) for name in ("place", "sample", "label")]}  # fmt: skip


def _repeated(found: NDArray[Any], n_labels: int) -> NDArray[np.bool_]:
    """Mark rows whose pair was there before."""
    key = found["sample"].astype(np.int64) * n_labels + found["label"]
    again = np.zeros(key.size, dtype=bool)
    ordered = np.sort(key)
    if (ordered[1:] == ordered[:-1]).any():
        again[:] = True
        again[np.unique(key, return_index=True)[1]] = False
    return again


def _measured(
    spread: _Spread, truth: LabelSets, executor: Executor, say: OnProgress
) -> Evaluation:  # fmt: skip
    """Measure all parts, and merge what they give."""
    job = MeasureJob(
        spread.folder, spread.hierarchy, spread.n_parts,
        spread.has_ranks or spread.is_ordered, spread.has_calls,
    )  # fmt: skip
    sums = job.put(truth)
    sizes = [
        _rows_file(job.folder, p).stat().st_size // ROW.itemsize for p in range(job.n_parts)
    ]  # fmt: skip
    records = run_parts(
        executor, measure_part, job, sizes, folder=job.folder, kind=MEASURED, stage="measuring",
        on_progress=say,
    )  # fmt: skip
    spread.tell_repeated(records)
    pooled = PooledSums(truth.label.size)
    with work_subfolder(job.folder) as own:
        states = own / "states"
        with states.open("wb") as file:
            file.truncate(spread.n_rows)
        for record in records:
            p = record["number"]
            found = np.fromfile(_rows_file(job.folder, p), dtype=ROW)
            with np.load(part_file(job.folder, MEASURED, p)) as part:
                state = part["state"]
                sums.merge(part)
            if spread.is_ordered:
                _put(states, found["place"], state)
            else:
                kept = state != DROPPED
                _put_groups(own / f"groups-{p:04d}.parquet", found["score"][kept],
                            state[kept] == HIT)  # fmt: skip
        if spread.is_ordered:
            for status in _stretches(states):
                pooled.add_listed(status)
        else:
            for size, hits in _groups(own, spread.budget):
                pooled.add(size, hits)
    return sums.evaluation(pooled)


# -- along the list ---------------------------------------------------------------------------


def _put(states: Path, place: NDArray[np.int64], state: Any) -> None:
    """Note what became of listed instances; the file is mapped only while it is written."""
    if place.size:
        mapped = np.memmap(states, dtype=np.uint8, mode="r+")
        mapped[place] = state
        mapped.flush()


def _stretches(states: Path) -> Iterator[NDArray[np.bool_]]:
    """Truth of the listed instances, in order, each pair once."""
    with states.open("rb") as file:
        while (state := np.fromfile(file, dtype=np.uint8, count=STRETCH)).size:
            yield state[state != DROPPED] == HIT


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
    """Instances and hits of each score over all parts, by falling score."""
    files = str(folder / "groups-*.parquet").replace("'", "''")
    query = (
        f"SELECT sum(size)::DOUBLE, sum(hits)::DOUBLE FROM read_parquet('{files}') "
        "GROUP BY score ORDER BY score DESC"
    )
    with engine(folder, budget.engine_memory) as connection:
        for batch in stream(connection, query, STRETCH):
            yield batch.column(0).to_numpy(), batch.column(1).to_numpy()


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
            yield Listed(batch.column(0), label, score, None, call, None)
    file.unlink()
