"""Scores or truth as partitions: runs of samples that are read and finished on their own.

A wide Parquet file or folder is read where it is. Everything else is first rewritten, once and in
one pass, by `hierlpr.scale.spool`. A partition is a source of some of the row groups; it is read in
batches that fit the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix
from hierlpr.data.label_sets import LabelSets
from hierlpr.io import ReadTable, Watch, read_scores, read_truth
from hierlpr.io.cell_values import as_numbers, group_blocks
from hierlpr.io.opening import open_parquet
from hierlpr.io.row_rules import none_left, wide_rows
from hierlpr.io.table_files import Content, Layout
from hierlpr.scale.parts import Parts, Record, add_seen, keep, seen

if TYPE_CHECKING:
    from hierlpr.hierarchy import Hierarchy
    from hierlpr.io.whole_tables import Absent
    from hierlpr.model import ScoreModel

STREAM_BUFFER = 1 << 18  # bytes read ahead in a column of a row group too large to hold


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """How tables are read: the labels and their other names, and what becomes of problems."""

    hierarchy: Hierarchy
    aliases: Mapping[str, str] = field(default_factory=dict)
    lenient: bool = False
    close: bool = False  # add the missing ancestors of true labels
    absent: Absent | None = None  # what becomes of samples without truth
    allow_missing: bool = False  # scores may be NaN

    @classmethod
    def by(cls, model: ScoreModel, aliases: Mapping[str, str] | None, **options: Any) -> Reading:
        """Read what a model is used on: its labels, and scores missing where it allows them."""
        allows = model.missing == "allow"
        return cls(model.hierarchy_, dict(aliases or {}), allow_missing=allows, **options)

    def scores(self, path: str) -> ReadTable:
        """Read a whole table of scores."""
        options: dict[str, Any] = {"aliases": self.aliases, "lenient": self.lenient}
        return read_scores(path, self.hierarchy, allow_missing=self.allow_missing, **options)

    def truth(self, path: str) -> ReadTable:
        """Read a whole table of truth."""
        options: dict[str, Any] = {"aliases": self.aliases, "lenient": self.lenient}
        return read_truth(path, self.hierarchy, close=self.close, **options)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: what rows, once read, depend on beside the hierarchy."""
        aliases = dict(sorted(self.aliases.items()))
        return {"aliases": aliases, "lenient": self.lenient, "missing": self.allow_missing}


class Piece(NamedTuple):
    """One row group and the samples in it; `first_row` counts in the file."""

    file: str
    row_group: int
    first_row: int
    first_sample: int
    n_samples: int
    n_entries: int


class Batch(NamedTuple):
    """Values of some samples by label, and the number of each sample in the whole."""

    values: Matrix
    numbers: NDArray[np.int64]


class Entries(NamedTuple):
    """Values that a long table lists of some samples, as in a CSR matrix, and their numbers."""

    row_ptr: NDArray[np.int64]
    label: NDArray[np.int32]
    value: NDArray[np.float64]
    numbers: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Source:
    """Values in row groups, with all that reading them anywhere needs.

    `path` is the user's file, for messages; the pieces may lie in a spool made from it. Labels
    are numbered as in the hierarchy; `columns` are their names in a wide file.
    """

    path: str
    content: Content
    kind: Literal["wide", "long"]
    layout: Layout  # of the user's file
    lenient: bool
    is_complete: bool  # every pair is listed
    n_samples: int
    n_labels: int
    pieces: tuple[Piece, ...]
    batch_instances: int
    columns: tuple[str, ...] = ()
    left_out: tuple[int, ...] = ()  # rows of a wide table with problems
    is_folder: bool = False  # messages then say which file
    allow_missing: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self) | {"pieces": [list(piece) for piece in self.pieces]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Source:
        """Rebuild from `to_dict`."""
        rest = {name: tuple(data[name]) for name in ("columns", "left_out")}
        return cls(**{**data, **rest, "pieces": tuple(Piece(*piece) for piece in data["pieces"])})

    @property
    def n_entries(self) -> int:
        """Values stored in the pieces."""
        return sum(piece.n_entries for piece in self.pieces)

    def partitions(self, n: int | None = None) -> list[Source]:
        """Split the row groups into at most `n` runs of about equal size, or of about one batch."""
        work = np.cumsum([0] + [piece.n_entries for piece in self.pieces])
        if n is None:
            n = -(-int(work[-1]) // self.batch_instances)
        n = max(1, min(n, len(self.pieces)))
        targets = np.arange(1, n) * int(work[-1]) // n
        bounds = [0, *np.searchsorted(work, targets).tolist(), len(self.pieces)]
        return [replace(self, pieces=self.pieces[a:b]) for a, b in pairwise(bounds) if b > a]

    def batches(self, watch: Watch) -> Iterator[Batch]:
        """Read all pieces in order."""
        for piece in self.pieces:
            if self.kind == "wide":
                yield from self._wide_batches(piece, watch)
            else:
                yield self._long_batch(piece)

    def _wide_batches(self, piece: Piece, watch: Watch) -> Iterator[Batch]:
        size = max(1, self.batch_instances // len(self.columns))
        at = piece.first_sample
        for block in group_blocks(
            piece.file, piece.row_group, (), self.columns, watch, n_rows=size, at=piece.first_row,
            is_one_of_many=self.is_folder,
            buffer_size=STREAM_BUFFER if piece.n_samples > size else 0,
        ):  # fmt: skip
            numbers = np.arange(at, at + block.n_rows)
            at += block.n_rows
            skip = np.isin(numbers, self.left_out) if self.left_out else None
            values, good = wide_rows(
                block, self.columns, self.content, watch, skip=skip,
                allow_missing=self.allow_missing,
            )  # fmt: skip
            if not good.all():
                values, numbers = np.ascontiguousarray(values[good]), numbers[good]
            yield Batch(values, numbers)

    def _long_batch(self, piece: Piece) -> Batch:
        entries = self._entries(piece)
        shape = (piece.n_samples, self.n_labels)
        if self.is_complete:
            return Batch(entries.value.reshape(shape), entries.numbers)
        from scipy import sparse

        parts = (entries.value, entries.label, entries.row_ptr)
        return Batch(sparse.csr_array(parts, shape=shape), entries.numbers)

    def _entries(self, piece: Piece) -> Entries:
        """Read a row group of a spool, whose rows are sorted and different."""
        with open_parquet(piece.file) as spool:
            stored = spool.read_row_group(piece.row_group)
        row, label, value = (as_numbers(stored.column(i)) for i in range(3))
        numbers = np.arange(piece.first_sample, piece.first_sample + piece.n_samples)
        ptr = np.searchsorted(row, np.append(numbers, numbers[-1] + 1))
        return Entries(ptr, label, value, numbers)

    def sets(self, watch: Watch) -> Iterator[tuple[LabelSets, NDArray[np.int64]]]:
        """Read truth of all pieces in order, as sets of labels, with the number of each sample."""
        for piece in self.pieces:
            if self.kind == "wide":
                for values, numbers in self._wide_batches(piece, watch):
                    yield LabelSets.of(values), numbers
            else:  # a matrix would load SciPy, which takes as long as to evaluate 10^5 rows
                row_ptr, label, value, numbers = self._entries(piece)
                yield LabelSets.of_entries(row_ptr, label, value, self.n_labels), numbers


def make_part(
    source: Source, folder: str, write: Callable[[Iterator[Batch], Path], Record], number: int
) -> Record:
    """Make the part of one partition; returns the record of it."""
    watch = Watch(source.path, lenient=source.lenient)
    return keep(folder, number, lambda part: {**write(source.batches(watch), part), **seen(watch)})


def over_partitions(
    parts: Parts,
    source: Source,
    watch: Watch,
    write: Callable[[Iterator[Batch], Path], Record],
    *,
    folder: Path,
    stage: str,
) -> list[Record]:
    """Make a part of every partition of a source; return the records of all, in order.

    ``write(batches, file)``, wherever it happens, puts the batches of a partition into its file;
    its record says how many samples there were.
    """
    split = source.partitions(parts.partitions)
    tasks = [(partition, str(folder), write) for partition in split]
    sizes = [partition.n_entries for partition in split]
    records = parts.make(make_part, tasks, sizes, folder=folder, stage=stage)
    for record in records:
        add_seen(watch, record)
    if not any(record["samples"] for record in records):
        raise none_left(watch)
    return records
