"""Two files -> samples with scores and truth: scores in a store on disk, positives in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr.data.tables import Table, sample_limit
from hierlpr.io import ReadReport, Watch
from hierlpr.io.pairing import Absent
from hierlpr.scale.budget import Budget
from hierlpr.scale.source import Batch, Partition, Source
from hierlpr.scale.spool import open_source
from hierlpr.scale.store import DenseStore, SparseStore, Store
from hierlpr.scale.truth import match_names, stream_truth, truth_rows

if TYPE_CHECKING:
    from hierlpr.hierarchy import Hierarchy

__all__ = ["OnProgress", "Samples", "SamplesReader"]

OnProgress = Callable[[str, int, int], None]


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

    def batches(self) -> Iterator[Batch]:
        """Read all scores again, sample by sample; problems were told the first time."""
        watch = Watch(self.source.path, lenient=True)
        for piece in self.source.pieces:
            yield from self.source.batches(Partition(0, (piece,)), self.hierarchy, watch)


@dataclass(frozen=True, slots=True, eq=False)
class SamplesReader:
    """Everything that reading a pair of files depends on; `stack` closes what stays open."""

    hierarchy: Hierarchy
    budget: Budget
    aliases: Mapping[str, str]
    close: bool
    lenient: bool
    absent: Absent | None
    on_progress: OnProgress
    stack: ExitStack

    def read(self, scores: str, truth: str, folder: Path) -> Samples:
        """Read both files; work files go to `folder`."""
        folder.mkdir()
        options: dict[str, Any] = {"aliases": self.aliases, "lenient": self.lenient}
        source, watch = open_source(scores, self.hierarchy, folder, self.budget, **options)
        store = self._filled(source, watch, folder)
        _release()
        known = stream_truth(
            truth, self.hierarchy, folder / "truth", self.budget, close=self.close, **options
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

    def _filled(self, source: Source, watch: Watch, folder: Path) -> Store:
        """Bring the scores to a store."""
        n_labels = self.hierarchy.n_labels
        total = sum(piece.n_entries for piece in source.pieces)
        store: Any = None
        if source.is_complete:
            store = DenseStore(folder, source.n_samples, n_labels)
        else:
            n_buckets = max(1, -(-total // self.budget.sorted_entries))
            store = SparseStore(folder, source.n_samples, n_labels, n_buckets)
        self.stack.callback(store.close)
        done = 0
        self.on_progress("reading instances", 0, total)
        for piece in source.pieces:
            for batch in source.batches(Partition(0, (piece,)), self.hierarchy, watch):
                store.add(batch.table.values, batch.numbers)
            done += piece.n_entries
            self.on_progress("reading instances", done, total)
        store.finish()
        if store.n_rows == 0:
            raise watch.fail(f"no row could be read; the first problem: {watch.problems[0]}")
        filled: Store = store
        return filled


def _release() -> None:
    """Give back what reading took: Arrow keeps it for later use, which counts as memory."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
