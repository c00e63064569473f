"""Two files -> samples with scores and truth: scores in a store on disk, positives in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._base.files import work_subfolder
from hierlpr.data.tables import Table, draw_samples, sample_limit
from hierlpr.io import ReadReport, Watch
from hierlpr.io.opening import parquet_files
from hierlpr.io.pairing import Absent, Pair
from hierlpr.io.row_rules import none_left
from hierlpr.scale.budget import Budget, parse_memory
from hierlpr.scale.names import open_names
from hierlpr.scale.parts import Executor, Here, OnProgress, add_seen, run_parts, seen
from hierlpr.scale.source import Source
from hierlpr.scale.spool import open_source
from hierlpr.scale.store import STORED, Store, StoreJob, store_partition
from hierlpr.scale.truth import match_names, stream_truth, truth_rows
from hierlpr.scale.work import Plan, work_folder

if TYPE_CHECKING:
    from hierlpr.hierarchy import Hierarchy

__all__ = ["Samples", "SamplesReader", "drawn_pair"]


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Samples that have scores and truth.

    `rows` are their rows in the store, rising; `truth` has one row for each of them, closed
    upward. `reports` say what the two files held, `notes` what happened to other samples.
    """

    hierarchy: Hierarchy
    store: Store
    rows: NDArray[np.intp]
    truth: sparse.csr_array
    reports: tuple[ReadReport, ...]
    notes: tuple[str, ...]
    source: Source

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.rows.size

    def limit(self) -> int:
        """How many of the samples are few enough to hold."""
        return sample_limit(self.n_samples, self.hierarchy, self.store.stored_in(self.rows))

    def table(self, chosen: NDArray[np.intp]) -> Table:
        """Return the scores of some of the samples."""
        values = self.store.take(self.rows[chosen])
        return Table(values, self.hierarchy.labels, is_list=self.source.kind == "long")


@dataclass(frozen=True, slots=True, eq=False)
class SamplesReader:
    """Everything that reading a pair of files depends on."""

    hierarchy: Hierarchy
    budget: Budget
    aliases: Mapping[str, str]
    close: bool
    lenient: bool
    absent: Absent | None
    on_progress: OnProgress
    executor: Executor = field(default_factory=Here)
    resume: bool = False
    partitions: int | None = None

    def read(self, scores: str, truth: str, folder: Path) -> Samples:
        """Read both files; work files go to `folder`."""
        folder.mkdir(exist_ok=True)
        options: dict[str, Any] = {"aliases": self.aliases, "lenient": self.lenient}
        source, watch = self._opened(scores, folder, options)
        store = self._stored(source, watch, folder)
        _release()
        with work_subfolder(folder) as own:
            known = stream_truth(
                truth, self.hierarchy, own / "truth", self.budget, close=self.close, **options
            )
            _release()
            match = match_names(
                folder, source.n_samples, store.numbers, known, self.budget,
                absent=self.absent, source=scores,
            )  # fmt: skip
        rows = np.arange(match.at.size) if match.negative else np.flatnonzero(match.at >= 0)
        report = watch.report(samples=store.n_rows, labels=self.hierarchy.n_labels)
        return Samples(
            self.hierarchy, store, rows, truth_rows(known.values, match.at[rows]),
            (report, known.report), match.notes, source,
        )  # fmt: skip

    def _opened(self, scores: str, folder: Path, options: dict[str, Any]) -> tuple[Source, Watch]:
        """Make the scores ready to be read in partitions, or find that they are."""
        known = {"hierarchy": [self.hierarchy.labels, self.hierarchy.edges],
                 "aliases": dict(sorted(self.aliases.items())),
                 "lenient": self.lenient}  # fmt: skip
        files = {"scores": parquet_files(scores)}
        plan = Plan.open(folder, files, known, resume=self.resume)
        if plan.found is None:
            source, watch = open_source(scores, self.hierarchy, folder, self.budget, **options)
            found = {"source": source.to_dict(), "format": watch.format, "seen": seen(watch)}
            plan.write(found)
            return source, watch
        watch = Watch(scores, plan.found["format"], lenient=self.lenient)
        add_seen(watch, plan.found["seen"])
        return Source.from_dict(plan.found["source"]), watch

    def _stored(self, source: Source, watch: Watch, folder: Path) -> Store:
        """Bring the scores to a store, partition by partition."""
        parts = tuple(source.partitions(self.partitions))
        records = run_parts(
            self.executor, store_partition, StoreJob(str(folder), source, parts, self.hierarchy),
            [part.n_entries for part in parts], folder=folder, kind=STORED,
            stage="reading instances", on_progress=self.on_progress,
        )  # fmt: skip
        for record in records:
            add_seen(watch, record)
        n_rows = None if source.is_complete else source.n_samples
        store = Store.of(folder, records, self.hierarchy.n_labels, n_rows)
        if store.n_rows == 0:
            raise none_left(watch)
        return store


def drawn_pair(
    hierarchy: Hierarchy,
    scores: str,
    truth: str,
    *,
    memory: str | int,
    work: str | os.PathLike[str],
    aliases: Mapping[str, str] | None,
    absent: Absent | None,
    close_truth: bool,
    lenient: bool,
    on_progress: OnProgress,
) -> tuple[Pair, tuple[ReadReport, ...]]:
    """Read files of any size; hold as many samples as can be, drawn at random, and say so."""
    with work_folder(work, "") as folder:
        reader = SamplesReader(
            hierarchy, Budget(parse_memory(memory)), aliases or {}, close_truth, lenient, absent,
            on_progress,
        )  # fmt: skip
        data = reader.read(scores, truth, folder / "pair")
        chosen = draw_samples(data.n_samples, data.limit(), 0)
        notes = data.notes
        if chosen.size < data.n_samples:
            notes = (*notes, f"{chosen.size:,} of {data.n_samples:,} samples are looked at, drawn "
                     "at random; more would not fit")  # fmt: skip
        names = open_names(folder / "pair", data.source.n_samples)
        samples = tuple(names.take(data.store.numbers[data.rows[chosen]]).to_pylist())
        held = data.truth[chosen].astype(np.float64)
        tables = (
            replace(data.table(chosen), samples=samples),
            Table(held if data.store.is_sparse else held.toarray(), hierarchy.labels, samples),
        )
        return Pair(*tables, notes), data.reports


def _release() -> None:
    """Give back what reading took: Arrow keeps it for later use, which counts as memory."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
