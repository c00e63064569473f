"""Scores of a file of any size as batches of whole samples, and random subsets of samples."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr.data.tables import Table, without_unlisted
from hierlpr.hierarchy import Hierarchy
from hierlpr.io import (
    HierarchyFile,
    ReadReport,
    ReadTable,
    load_hierarchy,
    open_table,
    pair_samples,
    read_scores,
)
from hierlpr.io.auxiliary_tables import Weights, read_clusters, read_weights
from hierlpr.io.read_tables import Pair, batch_matrix
from hierlpr.io.table_files import TableFile
from hierlpr.outofcore.names import NameList, NameNumbers, joined_names
from hierlpr.outofcore.resources import (
    FIT_BYTES,
    GROWTH,
    NAME_BYTES,
    RANK_BYTES,
    RunOptions,
    needed_memory,
    sorted_rows,
    whole_samples,
)


class PerSample:
    """Weights and clusters of the samples of tables (scores, truth, and others in pairs)."""

    def __init__(
        self,
        options: RunOptions,
        tables: Sequence[str],
        weights: AnyPath | None = None,
        *,
        max_weight: float | None = None,
    ) -> None:
        self._weights: Weights | None = None
        if weights is not None:
            self._weights = read_weights(weights, max_weight=max_weight, **options.table)
        self._clusters: dict[str, str] = {}
        for first in range(0, len(tables), 2):
            self._clusters |= read_clusters(tables[first : first + 2], **options.table)

    @property
    def reports(self) -> tuple[ReadReport, ...]:
        """Reports of the files that were read."""
        return () if self._weights is None else (self._weights.report,)

    def clusters_of(self, table: Table) -> dict[str, str | None] | None:
        """Return the cluster of each sample, None where it is missing; None without clusters."""
        names = table.samples or ()
        return {x: self._clusters.get(x) for x in names} if self._clusters else None

    def weight_of(self, samples: Sequence[str], source: str) -> NDArray[np.float64] | None:
        """Return the weights of samples of the file `source`, if a file has them."""
        return None if self._weights is None else self._weights.match(samples, source)

    def of(self, table: Table, source: str) -> dict[str, Any]:
        """Return weights and clusters as `HierLPR.fit` takes them."""
        weight = self.weight_of(table.samples or (), source)
        return {"sample_weight": weight, "clusters": self.clusters_of(table)}


def as_hierarchy_file(hierarchy: Any) -> HierarchyFile:
    """Return a hierarchy with its other names, from a path or an object."""
    if isinstance(hierarchy, HierarchyFile):
        return hierarchy
    if isinstance(hierarchy, Hierarchy):
        return HierarchyFile(hierarchy, ReadReport("", "hierarchy"), {})
    return load_hierarchy(hierarchy)


class ScoreBatches:
    """Scores of a file as tables of whole samples; one table if all of them fit into memory.

    Each table comes with the names of its samples as Arrow text. A wide table is read as it
    stands. A long one is first sorted by sample. `n_samples`, `report` and, with `keep_names`,
    `names` of all samples are complete after the iteration.
    """

    def __init__(
        self, path: str, options: RunOptions, *, n_bytes: int = 0, keep_names: bool = False
    ) -> None:
        self._path, self._options, self._keep_names = path, options, keep_names
        self._file = open_table(path, "scores", options.hierarchy, **options.table)
        self.n_scores, needed = needed_memory(self._file, n_bytes or RANK_BYTES)
        self.is_whole = options.scheduler is None and options.fits(needed)
        self.n_samples, self.names = 0, pa.array([], pa.string())
        self.report = ReadReport(path, "scores")

    def __iter__(self) -> Iterator[tuple[Table, pa.Array]]:
        options, file = self._options, self._file
        if self.is_whole:
            options.on_progress("reading scores", 0, 1)
            read = read_scores(self._path, options.hierarchy, **options.table)
            names = pa.array(read.samples, pa.string())
            self.n_samples, self.names, self.report = len(names), names, read.report
            yield read.table, names
            return
        done = 0
        with closing(self._wide() if file.layout == "wide" else self._long()) as batches:
            for table, names in batches:
                self.n_samples += len(names)
                yield table, names
                done += table.values.size
                options.on_progress("reading scores", done, max(done, self.n_scores))
        if not self.n_samples:
            raise file.no_rows_error()
        self.report = file.log.complete(samples=self.n_samples, labels=len(file.labels))

    def _wide(self) -> Generator[tuple[Table, pa.Array]]:
        """Read a wide table, some rows at a time."""
        file, options, names = self._file, self._options, NameList()
        for batch in file.batches(max(1, options.batch_instances // options.hierarchy.n_labels)):
            if self._keep_names:
                options.require_memory(file.name_bytes, "the names of all samples")
                names.append(batch.column(0))
            yield Table(batch_matrix(batch), file.labels), batch.column(0)
        self.names = names.array()

    def _long(self) -> Generator[tuple[Table, pa.Array]]:
        """Sort a long table by sample, in order of first appearance, and cut it into batches."""
        file, options = self._file, self._options
        numbers = NameNumbers()
        schema = pa.schema({"sample": pa.int64(), "label": pa.int32(), "value": pa.float64()})
        n_rows, occurs = 0, np.zeros(len(file.labels), dtype=bool)

        def entries() -> Iterator[pa.RecordBatch]:
            nonlocal n_rows
            for batch in file.batches(options.batch_instances):
                sample = numbers.numbers(batch.column("sample"))
                options.require_memory(numbers.n_bytes, f"the names of {len(numbers):,} samples")
                label = batch.column("label").to_numpy()
                is_label = label >= 0
                n_rows += int(np.count_nonzero(is_label))
                occurs[label[is_label]] = True
                columns = [sample, label, batch.column("value").to_numpy()]
                arrays = [pa.array(column[is_label]) for column in columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
                options.on_progress("sorting scores", n_rows, max(n_rows, self.n_scores))

        by = "sample, label, value DESC"
        ordered = sorted_rows(entries(), schema, by, options, lambda: numbers.n_bytes)
        with closing(ordered):
            first, names = 0, self.names
            for batch in whole_samples(ordered, options.batch_instances):
                self.names = names = names if first else numbers.release()
                is_first = is_first_of_pair(batch["sample"], batch["label"], names, file)
                sample, label, value = (column[is_first] for column in batch.values())
                n_rows -= batch["sample"].size - sample.size
                is_complete = n_rows == len(names) * np.count_nonzero(occurs)
                stop = int(sample[-1]) + 1
                part, shape = names.slice(first, stop - first), (stop - first, len(file.labels))
                ptr = np.searchsorted(sample, np.arange(first, stop + 1))
                table = Table(sparse.csr_array((value, label, ptr), shape=shape), file.labels)
                yield without_unlisted(table, options.hierarchy) if is_complete else table, part
                first = stop
        if 0 < first < len(names):  # samples whose labels are all unknown
            rest = names.slice(first)
            yield Table(sparse.csr_array((len(rest), len(file.labels))), file.labels), rest


def is_first_of_pair(
    sample: NDArray[np.int64], label: NDArray[np.int32], names: Any, file: TableFile
) -> NDArray[np.bool_]:
    """Mark the first row of each (sample, label) pair, after reporting the others."""
    pairs = sample * len(file.labels) + label
    is_first = np.zeros(pairs.size, dtype=bool)
    is_first[np.unique(pairs, return_index=True)[1]] = True
    if not is_first.all():
        at = int(np.argmin(is_first))
        name = str(names[int(sample[at])])
        file.report_repeated_pairs(int((~is_first).sum()), name, file.labels[label[at]])
    return is_first


# -- random subsets ---------------------------------------------------------------------------


class Samples(NamedTuple):
    """Scores and truth of the same samples, what was read, and what was left out or drawn."""

    pair: Pair
    reports: tuple[ReadReport, ...]
    notes: tuple[str, ...]

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.pair.scores.n_samples


def read_pair(scores: str, truth: str | None, options: RunOptions, seed: int) -> Samples:
    """Read scores and truth of the same samples: all of them, or a random subset.

    Without truth, the scores take its place in the pair.
    """
    options.on_progress("reading scores", 0, 1)
    scored, notes = read_samples(scores, options, seed)
    if truth is None:
        return Samples(Pair(scored.table, scored.table, ()), (scored.report,), notes)
    file = open_table(truth, "truth", options.hierarchy, **options.table)
    is_part = bool(notes) or not options.fits(needed_memory(file, FIT_BYTES)[1])
    labelled = options.truth(truth, pa.array(scored.samples) if is_part else None)
    pair = pair_samples(scored, labelled, missing_truth=options.missing_truth)
    return Samples(pair, (scored.report, labelled.report), (*notes, *pair.notes))


def read_samples(scores: str, options: RunOptions, seed: int) -> tuple[ReadTable, tuple[str, ...]]:
    """Read all scores of a file or, if they do not fit into memory, those of a random subset.

    Every sample has the same chance to be in the subset, whose instances take up the working memory
    with `FIT_BYTES` each. Also returns a note about it.
    """
    source = ScoreBatches(scores, options, n_bytes=FIT_BYTES)
    capacity = np.inf if source.is_whole else options.memory
    rng = np.random.default_rng(seed)
    # Each sample gets a random key; those with the smallest keys are kept as far as they fit.
    parts: list[tuple[NDArray[np.float64], Table, pa.Array]] = []
    largest = 1.0
    for table, names in source:
        parts.append((rng.random(table.n_samples), table, names))
        key = np.concatenate([keys for keys, _, _ in parts])
        size = np.concatenate([_bytes_per_sample(part) for _, part, _ in parts])
        order = np.argsort(key)
        fitting = np.cumsum(size[order]) <= capacity
        if fitting.all() and largest == 1.0:
            continue
        largest = min(largest, float(key[order][fitting][-1]) if fitting.any() else 0.0)
        drawn = [np.flatnonzero(keys <= largest) for keys, _, _ in parts]
        parts = [
            (keys[rows], part.rows(rows), part_names.take(pa.array(rows)))
            for (keys, part, part_names), rows in zip(parts, drawn, strict=True)
        ]
    table = _concatenate([part for _, part, _ in parts])
    names = joined_names([part_names for _, _, part_names in parts])
    table = replace(table, samples=tuple(names.to_pylist()))
    notes = (
        f"{table.n_samples:,} of {source.n_samples:,} samples are used, drawn at random; more do "
        "not fit into the working memory",
    )
    read = ReadTable(table, source.report, "long" if table.from_complete_list else "wide")
    return read, notes if table.n_samples < source.n_samples else ()


def _bytes_per_sample(table: Table) -> NDArray[np.int64]:
    if isinstance(table.values, np.ndarray):
        return np.full(table.n_samples, NAME_BYTES + FIT_BYTES * table.values.shape[1])
    n_instances = GROWTH * np.diff(table.values.indptr)
    return np.asarray(NAME_BYTES + FIT_BYTES * n_instances, dtype=np.int64)


def _concatenate(tables: list[Table]) -> Table:
    values = [table.values for table in tables]
    if len(tables) == 1:
        return tables[0]
    if isinstance(values[0], np.ndarray):
        return replace(tables[0], values=np.concatenate(values))
    return replace(tables[0], values=sparse.csr_array(sparse.vstack(values, format="csr")))
