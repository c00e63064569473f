"""Scores as partitions: runs of samples that are read, ranked and finished on their own.

A wide Parquet file or folder is read where it is. Everything else is first rewritten, once and in
one pass, by `hierlpr.scale.spool`. A partition is a run of row groups; it is read in batches that
fit the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix
from hierlpr.data.tables import Table
from hierlpr.exceptions import FileError
from hierlpr.io._arrow import cast_column
from hierlpr.io._layout import Content, _wide_labels
from hierlpr.io._long import value_problem
from hierlpr.io._watch import Watch
from hierlpr.io.tables import _wide_table
from hierlpr.scale.files import open_parquet, reason

if TYPE_CHECKING:
    from hierlpr.hierarchy import Hierarchy

__all__ = ["Batch", "Partition", "Piece", "Source", "split_pieces", "wide_source"]

STREAM_BUFFER = 1 << 18  # bytes read ahead in a column of a row group too large to hold


class Piece(NamedTuple):
    """One row group and the samples in it."""

    file: str
    row_group: int
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
    merges_repeats: bool  # of repeated pairs the highest score counts, as in CAFA files
    lenient: bool
    is_complete: bool  # a long table that lists every pair
    columns: tuple[str, ...]
    pieces: tuple[Piece, ...]
    n_samples: int
    batch_instances: int
    content: Content = "scores"
    left_out: tuple[int, ...] = ()  # rows of a wide table whose names are missing or repeated

    @property
    def layout(self) -> Literal["wide", "long", "cafa"]:
        """Whether the user's file is a wide, a long or a CAFA table."""
        return "cafa" if self.merges_repeats else self.kind

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
                yield self._long_batch(piece, hierarchy, watch, most)

    # -- wide ---------------------------------------------------------------------------------

    def _wide_batches(
        self, piece: Piece, hierarchy: Hierarchy, watch: Watch, most: int | None
    ) -> Iterator[Batch]:
        n_labels = len(self.columns)
        size = max(1, self.batch_instances // n_labels)
        buffer_size = STREAM_BUFFER if piece.n_samples > size else 0
        at = piece.first_sample
        for record in self._read(piece, list(self.columns), min(size, most or size), buffer_size):
            values = np.empty((record.num_rows, n_labels))
            for i, name in enumerate(self.columns):
                column = _number_column(record.column(record.schema.get_field_index(name)), watch)
                values[:, i] = column
            numbers = np.arange(at, at + record.num_rows)
            at += record.num_rows
            if self.left_out:
                named = ~np.isin(numbers, self.left_out)
                values, numbers = values[named], numbers[named]
            good = self._good_rows(values, numbers, piece, watch)
            if good is not None:
                values, numbers = np.ascontiguousarray(values[good]), numbers[good]
            yield Batch(Table(values, hierarchy.labels), numbers)
            if most is not None:
                return

    def _good_rows(
        self, values: NDArray[np.float64], numbers: NDArray[np.int64], piece: Piece, watch: Watch
    ) -> NDArray[np.bool_] | None:
        """Mark the rows without bad values, None if all are; strictly, a bad one stops the run."""
        is_score = self.content == "scores"
        fine = np.isfinite(values) if is_score else (values == 0.0) | (values == 1.0)
        if fine.all():
            return None
        good: NDArray[np.bool_] = np.asarray(fine.all(axis=1))
        for row in np.flatnonzero(~good).tolist():
            column = int(np.argmin(fine[row]))
            watch.problem(
                value_problem(float(values[row, column]), self.content),
                line=f"sample number {int(numbers[row]) + 1:,} (row group {piece.row_group})",
                column=self.columns[column],
            )
        return good

    # -- long ---------------------------------------------------------------------------------

    def _long_batch(
        self, piece: Piece, hierarchy: Hierarchy, watch: Watch, most: int | None
    ) -> Batch:
        parts = list(self._read(piece, ["sample", "label", "score"], 1 << 20, 0))
        row, label, value = (
            np.concatenate([part.column(i).to_numpy() for part in parts]) for i in range(3)
        )
        row = row - piece.first_sample
        n_samples = piece.n_samples
        if most is not None and most < n_samples:
            n_samples = most
            kept = row < most
            row, label, value = row[kept], label[kept], value[kept]
        values = self._matrix(row, label, value, (n_samples, hierarchy.n_labels), watch)
        numbers = np.arange(piece.first_sample, piece.first_sample + n_samples)
        return Batch(Table(values, hierarchy.labels, is_list=True), numbers)

    def _matrix(
        self,
        row: NDArray[np.int64],
        label: NDArray[np.int32],
        value: NDArray[np.float64],
        shape: tuple[int, int],
        watch: Watch,
    ) -> Matrix:
        from scipy import sparse

        key = row * shape[1] + label
        order = np.lexsort((-value, key))
        key, value = key[order], value[order]
        again = np.zeros(key.size, dtype=bool)
        again[1:] = key[1:] == key[:-1]
        if again.any():
            n = int(again.sum())
            if self.merges_repeats:
                watch.counts["repeated_pairs_merged"] += n
            else:
                watch.problem(f"{n:,} (sample, label) pair(s) are listed again.")
                watch.n_problems += n - 1
            key, value = key[~again], value[~again]
        if self.is_complete:
            return value.reshape(shape)
        indptr = np.searchsorted(key, np.arange(shape[0] + 1) * shape[1])
        return sparse.csr_array((value, (key % shape[1]).astype(np.int32), indptr), shape=shape)

    def _read(
        self, piece: Piece, columns: list[str], batch_size: int, buffer_size: int
    ) -> Iterator[Any]:
        """Record batches of one row group."""
        import pyarrow as pa

        file = open_parquet(piece.file, buffer_size=buffer_size)
        seen = 0
        try:
            for record in file.iter_batches(batch_size, [piece.row_group], columns=columns):
                seen += record.num_rows
                yield record
        except (pa.ArrowException, OSError, EOFError) as error:
            raise FileError(
                f"{piece.file}: row group {piece.row_group} cannot be read after {seen:,} rows "
                f"({reason(error)}).\nHint: the file is damaged; copy or write it again."
            ) from None
        finally:
            file.close()


def _number_column(column: Any, watch: Watch) -> NDArray[np.float64]:
    import pyarrow as pa

    if not pa.types.is_float64(column.type):
        column = cast_column(column, pa.float64(), "scores", watch)
    values: NDArray[np.float64] = column.to_numpy(zero_copy_only=False)
    return values


def split_pieces(pieces: Sequence[Piece], n: int) -> list[Partition]:
    """Split row groups into at most `n` runs of about equal numbers of scores."""
    work = np.cumsum([0] + [piece.n_entries for piece in pieces])
    n = max(1, min(n, len(pieces)))
    targets = np.arange(1, n) * int(work[-1]) // n
    bounds = [0, *np.searchsorted(work, targets).tolist(), len(pieces)]
    runs = [tuple(pieces[a:b]) for a, b in pairwise(bounds) if b > a]
    return [Partition(number, run) for number, run in enumerate(runs)]


def wide_source(
    path: str,
    files: Sequence[str],
    hierarchy: Hierarchy,
    watch: Watch,
    *,
    batch_instances: int,
    lenient: bool,
    aliases: Mapping[str, str] | None = None,
    content: Content = "scores",
) -> Source:
    """Describe wide Parquet files; their labels must be those of the hierarchy."""
    pieces: list[Piece] = []
    columns: tuple[str, ...] = ()
    at = 0
    for file in files:
        opened = open_parquet(file)
        labels = _wide_labels(list(opened.schema_arrow.names), watch, line="the schema")
        if not columns:
            # An empty table is enough to check the labels and to count what is not used.
            empty = np.empty((0, len(labels)))
            _wide_table(empty, labels, (), hierarchy, aliases, watch)
            called = {
                name if name in hierarchy else (aliases or {}).get(name, name): name
                for name in labels
            }
            columns = tuple(called[label] for label in hierarchy.labels)
        elif missing := sorted(set(columns) - set(labels)):
            raise FileError(
                f"{file}: column {missing[0]!r} is missing, which the other files of the dataset "
                "have."
            )
        for group in range(opened.num_row_groups):
            n = opened.metadata.row_group(group).num_rows
            pieces.append(Piece(file, group, at, n, n * len(columns)))
            at += n
        opened.close()
    if at == 0:
        raise watch.fail("there is a header but no rows.")
    return Source(
        path, "wide", False, lenient, True, columns, tuple(pieces), at, batch_instances, content
    )  # fmt: skip
