"""Scores as partitions: runs of samples that are read, ranked and finished on their own.

A wide Parquet file or folder is read where it is. Everything else is first rewritten, once and in
one pass, by `hierlpr.scale.spool`. A partition is a run of row groups; it is read in batches that
fit the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix
from hierlpr.data.tables import Table
from hierlpr.io import Watch
from hierlpr.io.opening import open_parquet
from hierlpr.io.row_rules import wide_rows
from hierlpr.io.table_files import Content, Layout, group_blocks

if TYPE_CHECKING:
    from hierlpr.hierarchy import Hierarchy

__all__ = ["Batch", "Partition", "Piece", "Source", "split_pieces"]

STREAM_BUFFER = 1 << 18  # bytes read ahead in a column of a row group too large to hold


class Piece(NamedTuple):
    """One row group and the samples in it; `first_row` counts in the file."""

    file: str
    row_group: int
    first_row: int
    first_sample: int
    n_samples: int
    n_entries: int


@dataclass(frozen=True, slots=True)
class Partition:
    """A run of pieces: the unit of distribution and of resuming."""

    number: int
    pieces: tuple[Piece, ...]

    @property
    def n_entries(self) -> int:
        """Scores stored in it."""
        return sum(piece.n_entries for piece in self.pieces)


class Batch(NamedTuple):
    """Scores of some samples, and the number of each sample in the whole."""

    table: Table
    numbers: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Source:
    """Scores in row groups, with all that reading them anywhere needs.

    `path` is the user's file, for messages; the pieces may lie in a spool made from it. Labels
    are numbered as in the hierarchy; `columns` are their names in a wide file.
    """

    path: str
    kind: Literal["wide", "long"]
    layout: Layout  # of the user's file
    lenient: bool
    is_complete: bool  # every pair is listed
    columns: tuple[str, ...]
    pieces: tuple[Piece, ...]
    n_samples: int
    batch_instances: int
    content: Content = "scores"
    left_out: tuple[int, ...] = ()  # rows of a wide table with problems

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self) | {"pieces": [list(piece) for piece in self.pieces]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Source:
        """Rebuild from `to_dict`."""
        pieces = tuple(Piece(*piece) for piece in data["pieces"])
        return cls(
            **{
                **data,
                "pieces": pieces,
                "columns": tuple(data["columns"]),
                "left_out": tuple(data["left_out"]),
            }
        )

    def partitions(self, n: int | None = None) -> list[Partition]:
        """Split the row groups into `n` runs, or into runs of about one batch."""
        if n is None:
            total = sum(piece.n_entries for piece in self.pieces)
            n = -(-total // self.batch_instances)
        return split_pieces(self.pieces, n)

    def batches(
        self, partition: Partition, hierarchy: Hierarchy, watch: Watch, *, most: int | None = None
    ) -> Iterator[Batch]:
        """Read a partition in order; `most` limits the samples of each piece."""
        for piece in partition.pieces:
            if self.kind == "wide":
                yield from self._wide_batches(piece, hierarchy, watch, most)
            else:
                yield self._long_batch(piece, hierarchy, most)

    def _wide_batches(
        self, piece: Piece, hierarchy: Hierarchy, watch: Watch, most: int | None
    ) -> Iterator[Batch]:
        size = max(1, self.batch_instances // len(self.columns))
        at = piece.first_sample
        for block in group_blocks(
            piece.file, piece.row_group, (), self.columns, watch,
            n_rows=min(size, most or size), at=piece.first_row,
            is_one_of_many=self.pieces[0].file != self.pieces[-1].file,
            buffer_size=STREAM_BUFFER if piece.n_samples > size else 0,
        ):  # fmt: skip
            numbers = np.arange(at, at + block.n_rows)
            at += block.n_rows
            skip = np.isin(numbers, self.left_out) if self.left_out else None
            values, good = wide_rows(block, self.columns, self.content, watch, skip=skip)
            if not good.all():
                values, numbers = np.ascontiguousarray(values[good]), numbers[good]
            yield Batch(Table(values, hierarchy.labels), numbers)
            if most is not None:
                return

    def _long_batch(self, piece: Piece, hierarchy: Hierarchy, most: int | None) -> Batch:
        """Read a row group of a spool, whose rows are sorted and different."""
        with open_parquet(piece.file) as spool:
            stored = spool.read_row_group(piece.row_group)
        row, label, value = (stored.column(i).to_numpy() for i in range(3))
        row = row - piece.first_sample
        n_samples = piece.n_samples
        if most is not None and most < n_samples:
            n_samples = most
            kept = row < most
            row, label, value = row[kept], label[kept], value[kept]
        values = self._matrix(row, label, value, (n_samples, hierarchy.n_labels))
        numbers = np.arange(piece.first_sample, piece.first_sample + n_samples)
        return Batch(Table(values, hierarchy.labels, is_list=True), numbers)

    def _matrix(
        self,
        row: NDArray[np.int64],
        label: NDArray[np.int32],
        value: NDArray[np.float64],
        shape: tuple[int, int],
    ) -> Matrix:
        from scipy import sparse

        if self.is_complete:
            return value.reshape(shape)
        indptr = np.searchsorted(row, np.arange(shape[0] + 1))
        return sparse.csr_array((value, label, indptr), shape=shape)


def split_pieces(pieces: Sequence[Piece], n: int) -> list[Partition]:
    """Split row groups into at most `n` runs of about equal numbers of scores."""
    work = np.cumsum([0] + [piece.n_entries for piece in pieces])
    n = max(1, min(n, len(pieces)))
    targets = np.arange(1, n) * int(work[-1]) // n
    bounds = [0, *np.searchsorted(work, targets).tolist(), len(pieces)]
    runs = [tuple(pieces[a:b]) for a, b in pairwise(bounds) if b > a]
    return [Partition(number, run) for number, run in enumerate(runs)]
