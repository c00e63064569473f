"""Evaluate a ranking of any size: rows spread over parts by sample, then part by part.

    ranking -> rows (sample, label, score, call) by sample -> sums over samples, truth of every row
            -> sums along the list

The measures are those of `hierlpr.metrics.evaluation`; the truth is held as sets of labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_sample_weight, effective_number
from hierlpr._base.files import work_file, work_subfolder
from hierlpr._base.order_free import WholeWeights
from hierlpr.data.label_sets import LabelSets
from hierlpr.hierarchy import Hierarchy
from hierlpr.io import RankingFile, ReadReport, TruthSets, Watch, read_ranking, read_truth_sets
from hierlpr.io.rankings import Listed, listed_rows, ranking_labels
from hierlpr.io.row_rules import no_rows, repeated_pairs, tell_repeated_pairs
from hierlpr.io.side_tables import Weights
from hierlpr.io.table_files import open_table
from hierlpr.io.table_output import arrow_numbers
from hierlpr.io.whole_tables import Absent, match_samples, unlisted_note
from hierlpr.metrics.cafa import accretion_of
from hierlpr.metrics.evaluation import (
    STRETCH,
    Evaluation,
    PooledSums,
    Rows,
    SampleSums,
    evaluate_ranking,
    groups_of,
)
from hierlpr.scale.budget import Budget, engine, estimate_rows, parquet_rows, stream
from hierlpr.scale.parts import How, Parts, Plan, Record, add_seen, keep, part_file, seen
from hierlpr.scale.source import Reading
from hierlpr.scale.truth import TruthRows, stream_truth

MOST_PARTS = 500  # files that are open at once
LOOKED_UP = 4  # batches of rows whose samples are looked up at once
ROW = np.dtype([("score", "<f8"), ("sample", "<i4"), ("label", "<i4"), ("call", "?")])
Float = NDArray[np.float64]
Worth = NDArray[np.integer[Any]]


class Evaluated(NamedTuple):
    """An evaluation, and what was seen on the way."""

    evaluation: Evaluation
    ranking: ReadReport
    truth: ReadReport
    notes: tuple[str, ...]
    weights: ReadReport | None = None


def evaluate_at_once(
    ranking: str, truth: str, reading: Reading, how: How, weights: Weights
) -> Evaluated:
    """Measure a ranking against the truth."""
    options: dict[str, Any] = {"aliases": reading.aliases, "lenient": reading.lenient}
    how.say("reading", 0, 1)
    ranked = read_ranking(ranking, reading.hierarchy, **options)
    known = read_truth_sets(truth, reading.hierarchy, close=reading.close, **options)
    keep, sample, sets, names, notes = _match(ranked, known, reading.absent)
    weight = weights.match(lambda: names, f"{truth} and {ranking}")
    how.say("measuring", 0, len(ranked))
    found = evaluate_ranking(
        sample, ranked.label[keep], ranked.score[keep], sets, reading.hierarchy,
        ordered=ranked.lpr is not None,
        call=None if ranked.call is None else ranked.call[keep], sample_weight=weight,
    )  # fmt: skip
    return Evaluated(found, ranked.report, known.report, tuple(notes), weights.report)


def _match(
    ranked: RankingFile, known: TruthSets, absent: Absent | None
) -> tuple[NDArray[np.bool_], NDArray[np.int64], LabelSets, list[str], list[str]]:
    """Rows of the ranking to keep, their rows in the truth, the truth, its names, what to say."""
    at, is_negative, found = match_samples(
        ranked.samples, known, absent=absent, source=ranked.report.path, word="ranked"
    )
    notes, sets, names = list(found), known.sets, list(known.samples)
    lost = np.flatnonzero(at < 0)
    unlisted = len(set(names) - set(ranked.samples))
    if lost.size and is_negative:
        at[lost] = len(names) + np.arange(lost.size)
        sets = sets.with_empty(lost.size)
        names += [ranked.samples[i] for i in lost.tolist()]
    if unlisted:
        notes.append(unlisted_note(unlisted))
    row = at[ranked.sample]
    keep = row >= 0
    return keep, row[keep], sets, names, notes


def evaluate_in_parts(
    ranking: str, truth: str, reading: Reading, parts: Parts, weights: Weights
) -> Evaluated:
    """Measure a ranking that need not fit in memory against the truth."""
    options = {**reading.to_dict(), "absent": reading.absent, "close": reading.close,
               "partitions": parts.partitions, "weighted": weights.of is not None}  # fmt: skip
    files = {"ranking": ranking, "truth": truth}
    if weights.report is not None:
        files["weights"] = weights.report.path
    plan = Plan.open(parts.folder, files, reading.hierarchy, options, resume=parts.resume)
    with work_subfolder(parts.folder) as own:
        known = stream_truth(truth, reading, own / "truth", parts.budget)
        spread = _Spread(ranking, reading, parts, TruthRows(known, reading.absent))
        if plan.found:
            spread.restore(plan.found)
        else:
            spread.run()
            plan.write(spread.state())
        notes = spread.samples.notes(ranking, "ranked")
        n_unlisted, _ = spread.samples.unmet()
        if n_unlisted:
            notes = (*notes, unlisted_note(n_unlisted))
        given = weights.match(spread.samples.names, f"{truth} and {ranking}")
        weight = None if given is None else check_sample_weight(given, given.size)
        found = _measured(spread, spread.samples.sets, parts, weight)
        report = spread.watch.report(rows=int(found.sizes["listed"]), samples=spread.samples.n_met)
        return Evaluated(found, report, known.report, notes, weights.report)


# -- rows by sample ---------------------------------------------------------------------------


class _OutOfOrderError(Exception):
    """The rows do not come in the order that counts."""


class _Spread:
    """Rows of a ranking in parts by sample: sample ``i`` is number ``i // n`` of part ``i % n``.

    The file of a part holds its rows as they are listed; another file holds the part of every
    listed row, so that what the parts find out can be put back in order.
    """

    def __init__(self, path: str, reading: Reading, parts: Parts, samples: TruthRows) -> None:
        self.folder, self.samples = parts.folder, samples
        self._path, self._parts = path, parts
        self._labels = ranking_labels(reading.hierarchy, reading.aliases)
        self.hierarchy = reading.hierarchy
        self.watch = Watch(path, lenient=reading.lenient)
        self.n_parts = 1
        self.is_ordered = self.has_calls = self.has_ranks = False

    def state(self) -> dict[str, Any]:
        """All that a run needs to go on from here, as plain values."""
        own = {name: getattr(self, name) for name in _SPREAD}
        return {**own, "format": self.watch.format, "seen": seen(self.watch),
                "samples": self.samples.state()}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        for name in _SPREAD:
            setattr(self, name, state[name])
        self.watch.format = state["format"]
        add_seen(self.watch, state["seen"])
        self.samples.restore(state["samples"])

    def run(self) -> None:
        """Read the ranking once, or if it is out of order twice, and write its parts."""
        total, budget, lenient = estimate_rows(self._path), self._parts.budget, self.watch.lenient
        most = self._parts.partitions or -(-total // budget.evaluated_rows)
        self.n_parts = max(1, min(MOST_PARTS, most))
        for is_sorted in (False, True):
            self.watch = Watch(self._path, lenient=lenient)
            table = open_table(self._path, "ranking", self.watch)
            columns = {name.strip().lower() for name in table.numbers}
            # With LPRs, its order counts among equal scores.
            self.is_ordered = "lpr" in columns
            self.has_calls, self.has_ranks = "call" in columns, "rank" in columns
            read = listed_rows(table, self._labels, self.watch, n_rows=budget.listed_rows)
            rows = self._counted(read, total)
            if is_sorted:
                self.samples = self.samples.fresh()
                rows = _sorted_rows(rows, self.folder, budget)
            try:
                if self._write(rows) == 0:
                    if self.samples.n_met:
                        self.samples.notes(self._path, "ranked")  # says that none has truth
                    raise no_rows(table, self.watch)
                break
            except _OutOfOrderError:
                continue

    def _counted(self, rows: Iterable[Listed], total: int) -> Iterator[Listed]:
        done = 0
        for listed in rows:
            yield listed
            done += listed.label.size
            self._parts.say("reading", done, max(done, total))

    def _write(self, rows: Iterable[Listed]) -> int:
        """Write every row to the file of its part; return how many there are."""
        n_rows, last = 0, -np.inf
        with ExitStack() as stack:
            paths = [
                self.folder / "parts",
                *(_rows_file(self.folder, p) for p in range(self.n_parts)),
            ]
            all_parts, *files = (stack.enter_context(path.open("wb")) for path in paths)
            for listed, number in _numbered(rows, self.samples):
                last = self._check_order(listed, last)
                kept: Any = slice(None) if (number >= 0).all() else np.flatnonzero(number >= 0)
                part = (number[kept] % self.n_parts).astype(np.uint16)
                part.tofile(all_parts)
                order, bounds = _by_part(part, self.n_parts)
                found = np.empty(part.size, dtype=ROW)
                found["sample"] = (number[kept] // self.n_parts)[order]
                found["label"] = listed.label[kept][order]
                found["score"] = listed.score[kept][order]
                found["call"] = True if listed.call is None else listed.call[kept][order]
                for p, file in enumerate(files):
                    found[bounds[p] : bounds[p + 1]].tofile(file)
                n_rows += part.size
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

    def stretches(self) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Stretches of the list: its rows by part, and where each part begins among them."""
        with (self.folder / "parts").open("rb") as file:
            while (part := np.fromfile(file, dtype=np.uint16, count=STRETCH)).size:
                yield _by_part(part, self.n_parts)

    def tell_repeated(self, records: Sequence[Record]) -> None:
        """Tell of pairs that the parts found listed again, naming the first in the list."""
        waiting = {r["number"]: r["first"] for r in records if r["again"]}
        done = np.zeros(self.n_parts, dtype=np.int64)
        for order, bounds in self.stretches() if waiting else ():
            found = [
                (order[bounds[p] + row - done[p]], p, sample, label)
                for p, (row, sample, label) in waiting.items()
                if row - done[p] < bounds[p + 1] - bounds[p]
            ]
            if found:
                _, part, sample, label = min(found)
                table = open_table(self._path, "ranking", Watch(self._path))
                tell_repeated_pairs(
                    sum(record["again"] for record in records),
                    self.samples.name(sample * self.n_parts + part), label, self._labels, table,
                    self.watch,
                )  # fmt: skip
                return
            done += np.diff(bounds)


_SPREAD = ("n_parts", "is_ordered", "has_calls", "has_ranks")


def _rows_file(folder: Path, part: int) -> Path:
    return folder / f"rows-{part:04d}"


def _by_part(part: NDArray[np.uint16], n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows by their part, as they come in each, and where each part begins."""
    order = np.argsort(part, kind="stable")
    return order, np.append(0, np.cumsum(np.bincount(part, minlength=n)))


def _numbered(
    rows: Iterable[Listed], samples: TruthRows
) -> Iterator[tuple[Listed, NDArray[np.int64]]]:
    """Find samples by name for a few batches at once: each lookup takes in all known names."""
    rows = iter(rows)
    while several := list(islice(rows, LOOKED_UP)):
        number = samples.numbers([listed.sample for listed in several])
        ends = np.cumsum([listed.label.size for listed in several])[:-1]
        yield from zip(several, np.split(number, ends), strict=True)


def _sorted_rows(rows: Iterable[Listed], folder: Path, budget: Budget) -> Iterator[Listed]:
    """Bring rows into the order of their ranks, or of falling scores, by an external sort."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = folder / "unsorted.parquet"
    place = 0
    with ExitStack() as stack:
        writer = None
        for x in rows:
            key = x.rank if x.rank is not None else -x.score
            call = np.ones(key.size, dtype=bool) if x.call is None else x.call
            columns = {"sample": x.sample.cast(pa.large_string()), "label": x.label,
                       "score": x.score, "call": call, "key": key,
                       "place": np.arange(place, place + key.size)}  # fmt: skip
            place += key.size
            table = pa.table(columns)
            writer = writer or stack.enter_context(
                pq.ParquetWriter(file, table.schema, compression="lz4")
            )
            writer.write_table(table)
    query = "SELECT sample, label, score, call FROM unsorted ORDER BY key, place"
    with engine(folder, budget) as connection:
        connection.register("unsorted", parquet_rows(file))
        for batch in stream(connection, query, STRETCH):
            label, score, call = (
                batch.column(i).to_numpy(zero_copy_only=False) for i in (1, 2, 3)
            )  # fmt: skip
            yield Listed(batch.column(0), label, score, None, call, None)
    file.unlink()


# -- part by part -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class MeasureJob:
    """All that measuring a part needs, wherever it happens; the truth lies in `folder`."""

    folder: Path
    hierarchy: Hierarchy
    n_parts: int
    is_ordered: bool  # the order of the list counts among equal scores
    is_listed_in_order: bool
    has_calls: bool
    has_open: bool  # some of the truth was not given
    scale: float | None  # of the weights of samples, if they have any

    @property
    def worth(self) -> np.dtype[np.signedinteger[Any]]:
        """What listed instances are worth (`SampleSums.add`) is written as such numbers."""
        return np.dtype(np.int8 if self.scale is None else np.int64)

    def put(self, truth: LabelSets, weight: WholeWeights | None) -> SampleSums:
        """Write the truth and weights to the folder; return sums without any sample."""
        accretion = accretion_of(truth, self.hierarchy, weight)
        arrays: dict[str, NDArray[Any]] = {"ptr": truth.row_ptr, "label": truth.label}
        arrays["bits"] = accretion
        if truth.open is not None:
            arrays |= {"open-ptr": truth.open.row_ptr, "open-label": truth.open.label}
        if weight is not None:
            arrays["weight"] = weight.whole
        for name, values in arrays.items():
            with work_file(self.folder / f"truth-{name}.npy") as part:
                np.save(part, values)
        return SampleSums(self.hierarchy, accretion, has_calls=self.has_calls, weight=weight)

    def take(self, number: int) -> tuple[LabelSets, WholeWeights | None, SampleSums]:
        """Return the truth and the weights of a part, and sums without any sample."""

        def load(name: str) -> NDArray[Any]:
            values: NDArray[Any] = np.load(self.folder / f"truth-{name}.npy", mmap_mode="r")
            return values

        n_labels = self.hierarchy.n_labels
        ptr, label, accretion = load("ptr"), load("label"), load("bits")
        some = None
        if self.has_open:
            some = LabelSets(load("open-ptr"), load("open-label"), n_labels)
        rows = np.arange(number, ptr.size - 1, self.n_parts)
        sets = LabelSets(ptr, label, n_labels, some).take(rows)
        weight = None
        if self.scale is not None:
            weight = WholeWeights(np.array(load("weight")[rows]), self.scale)
        sums = SampleSums(
            self.hierarchy, np.array(accretion), has_calls=self.has_calls, weight=weight
        )
        return sets, weight, sums

    def listed(self, number: int) -> Path:
        """File of what a part says of its place in the list: worth of rows, or groups."""
        return self.folder / f"listed-{number:04d}"


def measure_part(job: MeasureJob, number: int) -> Record:
    """Add up the measures of one part, and note the truth of its rows."""
    return keep(job.folder, number, lambda part: _measure(job, number, part))


def _measure(job: MeasureJob, number: int, part: Path) -> Record:
    truth, weight, sums = job.take(number)
    found = np.fromfile(_rows_file(job.folder, number), dtype=ROW)
    order = slice(None) if job.is_listed_in_order else np.argsort(-found["score"], kind="stable")
    place = np.arange(found.size)[order]
    listed = found[order]
    again = repeated_pairs(listed["sample"], listed["label"], job.hierarchy.n_labels)
    if again is None:
        again = np.zeros(listed.size, dtype=bool)
    else:
        listed = listed[~again]
    score, sample, label, call = (np.ascontiguousarray(listed[name]) for name in ROW.names or ())
    rows = Rows(sample, label.astype(np.int64), score, call if job.has_calls else None)
    worth = sums.add(rows, truth, weight)
    with work_file(job.listed(number)) as file:
        if job.is_ordered:
            listed_worth = np.zeros(found.size, dtype=job.worth)
            listed_worth[place[~again]] = worth
            listed_worth.tofile(file)
        else:
            _write_groups(file, rows.score, worth)
    with part.open("wb") as stream:
        np.savez(stream, **sums.state())  # type: ignore[arg-type]
    repeated = place[again]
    row = int(repeated.min()) if repeated.size else 0
    return {"again": repeated.size, "first": [row, *(int(found[x][row]) for x in
            ("sample", "label"))] if repeated.size else None}  # fmt: skip


def _write_groups(file: Path, score: Float, worth: Worth) -> None:
    """Add up instances and hits of each score in a part."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    values, size, hits = groups_of(score, worth)
    counts = {"score": values, "size": size.astype(np.int64), "hits": hits.astype(np.int64)}
    pq.write_table(pa.table({name: arrow_numbers(x) for name, x in counts.items()}), file)


# -- along the list ---------------------------------------------------------------------------


def _measured(
    spread: _Spread, truth: LabelSets, parts: Parts, given: Float | None
) -> Evaluation:  # fmt: skip
    """Measure all parts, and merge what they give."""
    weight = None if given is None else WholeWeights.of(given, truth.n_labels)
    job = MeasureJob(
        spread.folder, spread.hierarchy, spread.n_parts, spread.is_ordered,
        spread.has_ranks or spread.is_ordered, spread.has_calls, truth.open is not None,
        None if weight is None else weight.scale,
    )  # fmt: skip
    sums = job.put(truth, weight)
    numbers = range(job.n_parts)
    sizes = [_rows_file(job.folder, p).stat().st_size // ROW.itemsize for p in numbers]
    tasks = [(job,)] * job.n_parts
    records = parts.make(measure_part, tasks, sizes, folder=job.folder, stage="measuring")
    spread.tell_repeated(records)
    for p in numbers:
        with np.load(part_file(job.folder, p)) as part:
            sums.merge(part)
    pooled = PooledSums(sums.positives)
    if job.is_ordered:
        for worth in _listed_worth(spread, job):
            pooled.add_listed(worth)
    else:
        for size, hits in _groups(job, parts.budget):
            pooled.add(size, hits)
    return sums.evaluation(pooled, None if given is None else effective_number(given))


def _listed_worth(spread: _Spread, job: MeasureJob) -> Iterator[Worth]:
    """Say what the listed instances are worth, in order."""
    with ExitStack() as stack:
        files = [stack.enter_context(job.listed(p).open("rb")) for p in range(job.n_parts)]
        for order, bounds in spread.stretches():
            worth = np.empty(order.size, dtype=job.worth)
            worth[order] = np.concatenate(
                [np.fromfile(file, dtype=job.worth, count=n)
                 for file, n in zip(files, np.diff(bounds).tolist(), strict=True)]
            )  # fmt: skip
            yield worth


def _groups(
    job: MeasureJob, budget: Budget
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:  # fmt: skip
    """Instances and hits of each score over all parts, by falling score."""
    query = (
        "SELECT sum(size)::DOUBLE, sum(hits)::DOUBLE FROM counted GROUP BY score "
        "ORDER BY score DESC"
    )
    with work_subfolder(job.folder) as own, engine(own, budget) as connection:
        connection.register("counted", parquet_rows(*map(job.listed, range(job.n_parts))))
        for batch in stream(connection, query, STRETCH):
            yield batch.column(0).to_numpy(), batch.column(1).to_numpy()
