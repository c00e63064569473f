"""Scores of a file of any size as batches of whole samples, and random subsets of samples."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr.data.tables import Table
from hierlpr.exceptions import FileError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io import (
    HierarchyFile,
    ReadReport,
    ReadTable,
    load_hierarchy,
    open_table,
    pair_samples,
    read_scores,
    read_truth,
)
from hierlpr.io.auxiliary_tables import Weights, read_weights
from hierlpr.io.read_tables import MissingTruth, Pair, batch_matrix
from hierlpr.io.table_files import MissingScores, TableFile
from hierlpr.outofcore.resources import (
    FIT_BYTES,
    RANK_BYTES,
    ExecutionOptions,
    estimate_instances,
    sorted_rows,
    whole_samples,
)


@dataclass(frozen=True, slots=True, eq=False)
class ReadOptions:
    """How tables are read.

    Attributes
    ----------
    hierarchy : Hierarchy
        The labels of the tables.
    aliases : mapping
        Other names of labels, as `hierlpr.io.load_hierarchy` returns them.
    lenient : bool
        Skip rows with problems and count them.
    propagate_truth : bool
        Add the missing ancestors of true labels.
    missing_truth : {"negative", "skip"}, optional
        What to do with samples without truth; see :func:`hierlpr.io.pair_samples`.
    missing_scores : {"error", "allow"}
        Whether scores may be missing.
    table : mapping
        How the tables are written: see :class:`hierlpr.io.TableOptions`.
    """

    hierarchy: Hierarchy
    aliases: Mapping[str, str] = field(default_factory=dict)
    lenient: bool = False
    propagate_truth: bool = False
    missing_truth: MissingTruth | None = None
    missing_scores: MissingScores = "error"
    table: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shared(self) -> dict[str, Any]:
        """Options of all readers."""
        return {"aliases": self.aliases, "lenient": self.lenient, **self.table}

    def scores(self, path: str) -> ReadTable:
        """Read a whole table of scores."""
        missing = self.missing_scores
        return read_scores(path, self.hierarchy, missing_scores=missing, **self.shared)

    def truth(self, path: str) -> ReadTable:
        """Read a whole table of truth."""
        return read_truth(path, self.hierarchy, propagate_truth=self.propagate_truth, **self.shared)


def split_options(
    hierarchy: Hierarchy, options: Mapping[str, Any]
) -> tuple[ReadOptions, ExecutionOptions]:
    """Return how tables are read and how a run is executed."""
    names = {option.name for option in fields(ExecutionOptions)}
    execution = {name: value for name, value in options.items() if name in names}
    reading = {name: value for name, value in options.items() if name not in names}
    return ReadOptions(hierarchy, **reading), ExecutionOptions(**execution)


def read_sample_weights(
    path: AnyPath | None, reading: ReadOptions, max_weight: float | None = None
) -> Weights | None:
    """Read the weights of samples, if a file has them."""
    options = {**reading.table, "lenient": reading.lenient}
    return None if path is None else read_weights(path, max_weight=max_weight, **options)


def as_hierarchy_file(hierarchy: Any) -> HierarchyFile:
    """Return a hierarchy with its other names, from a path or an object."""
    if isinstance(hierarchy, HierarchyFile):
        return hierarchy
    if isinstance(hierarchy, Hierarchy):
        return HierarchyFile(hierarchy, ReadReport("", "hierarchy"), {})
    return load_hierarchy(hierarchy)


class ScoreBatches:
    """Scores of a file as tables of whole samples; one table if all of them fit into memory.

    A wide table is read as it stands. A long one is first sorted by sample. Sample names,
    `n_samples` and `report` are complete after the iteration.
    """

    def __init__(
        self,
        path: str,
        reading: ReadOptions,
        execution: ExecutionOptions,
        *,
        n_bytes: int | None = None,
    ) -> None:
        self._path, self._reading, self._execution = path, reading, execution
        self.n_instances = estimate_instances(path)
        needed = self.n_instances * (n_bytes or RANK_BYTES)
        self.is_whole = execution.scheduler is None and execution.fits(needed)
        self.names: list[str] = []
        self.report = ReadReport(path, "scores")

    @property
    def n_samples(self) -> int:
        """Number of samples read so far."""
        return len(self.names)

    def __iter__(self) -> Iterator[Table]:
        reading, execution = self._reading, self._execution
        if self.is_whole:
            execution.on_progress("reading scores", 0, 1)
            found = reading.scores(self._path)
            self.names, self.report = list(found.samples), found.report
            yield found.table
            return
        missing = reading.missing_scores
        file = open_table(
            self._path, "scores", reading.hierarchy, missing_scores=missing, **reading.shared
        )
        done = 0
        with closing(self._wide(file) if file.layout == "wide" else self._long(file)) as batches:
            for batch in batches:
                self.names += batch.samples or ()
                yield batch
                done += batch.n_samples * len(batch.labels)
                execution.on_progress("reading scores", done, max(done, self.n_instances))
        if not self.names:
            raise file.no_rows_error()
        self.report = file.log.complete(samples=self.n_samples, labels=reading.hierarchy.n_labels)

    def _wide(self, file: TableFile) -> Generator[Table]:
        """Read a wide table, some rows at a time."""
        size = max(1, self._execution.batch_instances // len(file.labels))
        for batch in file.batches(size):
            names = tuple(batch.column(0).to_pylist())
            yield Table(batch_matrix(batch), file.labels, names)

    def _long(self, file: TableFile) -> Generator[Table]:
        """Sort a long table by sample, in order of first appearance, and cut it into batches."""
        numbers: dict[str, int] = {}
        schema = pa.schema({"sample": pa.int64(), "label": pa.int32(), "value": pa.float64()})
        names: list[str] = []
        n_rows = 0

        def entries() -> Iterator[pa.RecordBatch]:
            nonlocal n_rows
            for batch in file.batches():
                sample = number_samples(batch.column("sample"), numbers)
                label = batch.column("label").to_numpy()
                listed = label >= 0
                n_rows += int(np.count_nonzero(listed))
                columns = [sample, label, batch.column("value").to_numpy()]
                arrays = [pa.array(column[listed]) for column in columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

        by = "sample, label, value DESC"
        with closing(sorted_rows(entries(), schema, by, self._execution)) as ordered:
            first = 0
            for batch in whole_samples(ordered, self._execution.batch_instances):
                names = list(numbers) if first == 0 else names
                sample, label, value = _without_repeated(batch, names, file)
                n_rows -= batch["sample"].size - sample.size
                is_complete = n_rows == len(names) * len(file.labels)
                stop = int(sample[-1]) + 1
                rows, shape = tuple(names[first:stop]), (stop - first, len(file.labels))
                if is_complete and value.size == shape[0] * shape[1]:
                    yield Table(value.reshape(shape), file.labels, rows, is_list=True)
                else:
                    ptr = np.searchsorted(sample, np.arange(first, stop + 1))
                    matrix = sparse.csr_array((value, label, ptr), shape=shape)
                    yield Table(matrix, file.labels, rows)
                first = stop
        if 0 < first < len(numbers):  # samples whose labels are all unknown
            rest = tuple(names[first:])
            yield Table(sparse.csr_array((len(rest), len(file.labels))), file.labels, rest)


def _without_repeated(
    batch: dict[str, NDArray[Any]], names: list[str], file: TableFile
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Return sorted entries without repeated pairs, after reporting these."""
    sample, label, value = batch.values()
    again = np.append(False, (np.diff(sample) == 0) & (np.diff(label) == 0))
    if not again.any():
        return sample, label, value
    at = int(np.argmax(again))
    file.report_repeated_pairs(int(again.sum()), names[sample[at]], file.labels[label[at]])
    return sample[~again], label[~again], value[~again]


def number_samples(column: pa.Array, numbers: dict[str, int]) -> NDArray[np.int64]:
    """Return the number of each sample; `numbers` grows in order of first appearance."""
    coded = column.dictionary_encode()
    names = coded.dictionary.to_pylist()
    number = [numbers.setdefault(name, len(numbers)) for name in names]
    return np.asarray(np.array(number, dtype=np.int64)[coded.indices.to_numpy()])


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


def read_pair(
    scores: str, truth: str | None, reading: ReadOptions, execution: ExecutionOptions, seed: int
) -> Samples:
    """Read scores and truth of the same samples: all of them, or a random subset.

    Without truth, the scores take its place in the pair.
    """
    execution.on_progress("reading scores", 0, 1)
    scored, notes = read_samples(scores, reading, execution, seed)
    if truth is None:
        return Samples(Pair(scored.table, scored.table, ()), (scored.report,), notes)
    if notes or not execution.fits(estimate_instances(truth) * FIT_BYTES):
        known = _read_truth_of(truth, scored.samples, reading, execution)
    else:
        known = reading.truth(truth)
    pair = pair_samples(scored, known, missing_truth=reading.missing_truth)
    return Samples(pair, (scored.report, known.report), (*notes, *pair.notes))


def read_samples(
    scores: str, reading: ReadOptions, execution: ExecutionOptions, seed: int
) -> tuple[ReadTable, tuple[str, ...]]:
    """Read all scores of a file or, if they do not fit into memory, those of a random subset.

    Every sample has the same chance to be in the subset. Also returns a note about it.
    """
    source = ScoreBatches(scores, reading, execution, n_bytes=FIT_BYTES)
    capacity = np.inf if source.is_whole else int(execution.memory) // FIT_BYTES
    rng = np.random.default_rng(seed)
    # Each sample gets a random key; those with the smallest keys are kept as far as they fit.
    held: list[tuple[NDArray[np.float64], Table]] = []
    largest = 1.0
    for table in source:
        held.append((rng.random(table.n_samples), table))
        key = np.concatenate([own for own, _ in held])
        size = np.concatenate([_instances_per_sample(part) for _, part in held])
        order = np.argsort(key)
        fitting = np.cumsum(size[order]) <= capacity
        if fitting.all() and largest == 1.0:
            continue
        largest = min(largest, float(key[order][fitting][-1]) if fitting.any() else 0.0)
        held = [
            (own[own <= largest], part.rows(np.flatnonzero(own <= largest))) for own, part in held
        ]
    table = _concatenate([part for _, part in held])
    notes: tuple[str, ...] = ()
    if table.n_samples < source.n_samples:
        notes = (
            f"{table.n_samples:,} of {source.n_samples:,} samples are used, drawn at random; more "
            "do not fit into --memory",
        )
    return ReadTable(table, source.report, "long" if table.is_list else "wide"), notes


def _instances_per_sample(table: Table) -> NDArray[np.int64]:
    if isinstance(table.values, np.ndarray):
        return np.full(table.n_samples, table.values.shape[1])
    return np.asarray(4 * np.diff(table.values.indptr), dtype=np.int64)


def _concatenate(tables: list[Table]) -> Table:
    names = tuple(name for table in tables for name in table.samples or ())
    values = [table.values for table in tables]
    if len(tables) == 1:
        return tables[0]
    joined: Any = np.concatenate(values) if isinstance(values[0], np.ndarray) else None
    if joined is None:
        joined = sparse.csr_array(sparse.vstack(values, format="csr"))
    return replace(tables[0], values=joined, samples=names)


def _read_truth_of(
    truth: str, names: tuple[str, ...], reading: ReadOptions, execution: ExecutionOptions
) -> ReadTable:
    """Read the truth of some samples, through a temporary file of their rows."""
    file = open_table(truth, "truth", reading.hierarchy, **reading.shared)
    wanted = pa.array(names, pa.string())
    with tempfile.TemporaryDirectory(prefix="hierlpr-", dir=execution.work) as folder:
        part = Path(folder) / "truth.parquet"
        writer: Any = None
        for batch in file.batches():
            rows = pa.Table.from_batches([batch]).filter(pc.is_in(batch.column(0), wanted))
            if file.layout == "long":
                code = rows.column("label").to_numpy()
                label = pa.array(file.labels).take(pa.array(code, mask=code < 0))
                rows = rows.set_column(1, "label", label).rename_columns(
                    ["sample", "label", "truth"]
                )
            writer = writer or pq.ParquetWriter(part, rows.schema)
            writer.write_table(rows)
        if writer is None:
            raise file.no_rows_error()
        writer.close()
        options = replace(reading, table={}, aliases={})
        if file.is_cafa:
            options = replace(options, propagate_truth=True)
        try:
            read = options.truth(str(part))
        except FileError as error:
            raise FileError(str(error).replace(str(part), truth)) from None
    report = replace(read.report, path=truth, format=file.log.format)
    return ReadTable(read.table, report, file.layout, file.is_cafa)
