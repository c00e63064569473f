"""Scores on disk, label after label: read one label, or a few samples, never all of it.

A batch of samples comes in rows; curves are fitted by label. A dense batch is written transposed,
each label at its own place of one file. Sparse entries go to buckets of labels, each small enough
to be sorted by label in memory. Slices are read explicitly: mapped files would count as memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._base.hashing import row_keys
from hierlpr.exceptions import FileError

__all__ = ["DenseStore", "SparseStore", "Store"]

Float = NDArray[np.float64]
Rows = NDArray[np.intp]
BLOCK = 1 << 20  # scores read at a time
_ENTRY = np.dtype([("row", np.int32), ("label", np.int32), ("score", np.float64)])


class DenseStore:
    """Every score of every sample; label ``k`` lies at ``k * most_rows`` of the file."""

    n_stored: int | None = None

    def __init__(self, folder: Path, most_rows: int, n_labels: int) -> None:
        self.n_labels = n_labels
        self.n_rows = 0
        self._most_rows = most_rows
        self._numbers: list[NDArray[np.int64]] = []
        self._keys: list[NDArray[np.uint64]] = []
        self._file = _File(folder / "scores.dense")

    def add(self, values: Float, numbers: NDArray[np.int64]) -> None:
        """Append samples; `numbers` are theirs in the file they come from."""
        self._keys.append(row_keys(values))
        self._numbers.append(numbers)
        columns = np.ascontiguousarray(values.T)
        for label in range(self.n_labels):
            self._file.write(columns[label], label * self._most_rows + self.n_rows)
        self.n_rows += len(values)

    def finish(self) -> None:
        """Nothing is left to do once all samples are there."""

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Number of each row in the file the scores come from."""
        return np.concatenate(self._numbers)

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Hash of each row, see `hierlpr._base.hashing.row_keys`."""
        return np.concatenate(self._keys)

    def blocks(self, label: int, rows: Rows) -> Iterator[tuple[int, Float]]:
        """Scores of a label, of some rows in order, with the place of the first of each block."""
        if rows.size == 0:
            return
        for start in range(int(rows[0]), int(rows[-1]) + 1, BLOCK):
            size = min(BLOCK, self.n_rows - start)
            first, last = np.searchsorted(rows, [start, start + size])
            if first < last:
                read = self._file.read(np.float64, label * self._most_rows + start, size)
                whole = last - first == size
                yield int(first), read if whole else read[rows[first:last] - start]

    def column(self, label: int, rows: Rows) -> Float:
        """Scores of a label, of some rows in order."""
        out = np.empty(rows.size)
        for first, part in self.blocks(label, rows):
            out[first : first + part.size] = part
        return out

    def take(self, rows: Rows) -> Float:
        """All scores of some rows, in order."""
        out = np.empty((rows.size, self.n_labels))
        for label in range(self.n_labels):
            for first, part in self.blocks(label, rows):
                out[first : first + part.size, label] = part
        return out

    def stored_in(self, rows: Rows) -> int | None:
        """Scores are not sparse: None."""
        return None

    def size_of(self, label: int) -> int:
        """Scores of a label."""
        return self.n_rows

    def close(self) -> None:
        """Close the file; the folder is its owner's."""
        self._file.close()


class SparseStore:
    """The scores that are listed; those of a label lie together, by rising row.

    Label ``k`` belongs to bucket ``k % n_buckets``. A bucket is a log of entries at first and
    sorted by label at the end.
    """

    def __init__(self, folder: Path, n_rows: int, n_labels: int, n_buckets: int) -> None:
        if n_rows >= 2**31:
            raise FileError(f"{n_rows:,} samples are too many for a table that lacks pairs.")
        self.n_labels, self.n_rows = n_labels, n_rows
        self.numbers = np.arange(n_rows, dtype=np.int64)
        self.keys = np.zeros(n_rows, dtype=np.uint64)
        self._sizes = np.zeros(n_rows, dtype=np.int32)
        self._counts = np.zeros(n_labels, dtype=np.int64)
        self._starts = np.zeros(n_labels, dtype=np.int64)
        self._logs = [folder / f"entries-{b}.log" for b in range(n_buckets)]
        self._rows = [_File(folder / f"entries-{b}.row") for b in range(n_buckets)]
        self._scores = [_File(folder / f"entries-{b}.score") for b in range(n_buckets)]

    @property
    def n_stored(self) -> int:
        """Number of entries."""
        return int(self._counts.sum())

    def add(self, values: sparse.csr_array, numbers: NDArray[np.int64]) -> None:
        """Append samples; a row is the sample's number, and rows that never come are empty."""
        sizes = np.diff(values.indptr)
        self.keys[numbers] = row_keys(values)
        self._sizes[numbers] = sizes
        self._counts += np.bincount(values.indices, minlength=self.n_labels)
        entries = np.empty(values.nnz, dtype=_ENTRY)
        entries["row"] = np.repeat(numbers, sizes)
        entries["label"], entries["score"] = values.indices, values.data
        bucket = values.indices % len(self._logs)
        for b, log in enumerate(self._logs):
            chosen = entries if len(self._logs) == 1 else entries[bucket == b]
            with log.open("ab") as file:
                chosen.tofile(file)

    def finish(self) -> None:
        """Sort every bucket by label."""
        for b, log in enumerate(self._logs):
            if not log.exists():
                continue
            entries = np.fromfile(log, dtype=_ENTRY)
            log.unlink()
            mine = np.arange(b, self.n_labels, len(self._logs))
            self._starts[mine] = np.cumsum(self._counts[mine]) - self._counts[mine]
            # Making columns is a counting sort that keeps rows in order.
            places = (entries["row"], entries["label"] // len(self._logs))
            shape = (self.n_rows, mine.size)
            columns = sparse.coo_array((entries["score"], places), shape=shape).tocsc()
            self._rows[b].write(columns.indices.astype(np.int32), 0)
            self._scores[b].write(columns.data, 0)

    def size_of(self, label: int) -> int:
        """Scores of a label."""
        return int(self._counts[label])

    def stored_in(self, rows: Rows) -> int:
        """Scores of some rows."""
        return int(self._sizes[rows].sum(dtype=np.int64))

    def is_empty(self, rows: Rows) -> NDArray[np.bool_]:
        """Whether each of some rows has no score."""
        empty: NDArray[np.bool_] = self._sizes[rows] == 0
        return empty

    def blocks(self, label: int) -> Iterator[tuple[NDArray[np.int32], Float]]:
        """Rows and scores of a label."""
        b, start = label % len(self._logs), int(self._starts[label])
        stop = start + int(self._counts[label])
        for at in range(start, stop, BLOCK):
            size = min(BLOCK, stop - at)
            yield self._rows[b].read(np.int32, at, size), self._scores[b].read(np.float64, at, size)

    def column(self, label: int, place: NDArray[np.int32]) -> tuple[NDArray[np.int64], Float]:
        """Places and scores of a label; `place` is that of each row, -1 if it is left out."""
        rows, scores = [np.empty(0, np.int64)], [np.empty(0)]
        for row, score in self.blocks(label):
            at = place[row]
            kept = at >= 0
            rows.append(at[kept].astype(np.int64))
            scores.append(score[kept])
        return np.concatenate(rows), np.concatenate(scores)

    def places(self, rows: Rows) -> NDArray[np.int32]:
        """Place of each row of the store among `rows`, -1 if it is not one of them."""
        place = np.full(self.n_rows, -1, dtype=np.int32)
        place[rows] = np.arange(rows.size, dtype=np.int32)
        return place

    def take(self, rows: Rows) -> sparse.csr_array:
        """All scores of some rows, in order."""
        place = self.places(rows)
        columns = [self.column(label, place) for label in range(self.n_labels)]
        sizes = np.array([row.size for row, _ in columns])
        data = (
            np.concatenate([score for _, score in columns]),
            np.concatenate([row for row, _ in columns]).astype(np.int32),
            np.concatenate([[0], np.cumsum(sizes)]),
        )
        csr = sparse.csr_array(sparse.csc_array(data, shape=(rows.size, self.n_labels)))
        csr.sort_indices()
        return csr

    def close(self) -> None:
        """Close the files; the folder is its owner's."""
        for file in (*self._rows, *self._scores):
            file.close()


Store: TypeAlias = DenseStore | SparseStore


class _File:
    """A file of numbers that is written and read at any place, by several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("x+b", buffering=0)
        self._lock = threading.Lock()  # reading at a place without moving there is not everywhere

    def write(self, values: NDArray[Any], at: int) -> None:
        data = values.view(np.uint8).data
        with self._lock:
            self._file.seek(at * values.itemsize)
            while data:
                data = data[self._file.write(data) :]

    def read(self, dtype: Any, at: int, size: int) -> NDArray[Any]:
        values = np.empty(size, dtype=dtype)
        data = values.view(np.uint8).data
        with self._lock:
            self._file.seek(at * values.itemsize)
            while data:
                done = self._file.readinto(data)
                if not done:
                    raise FileError(f"{self._path}: the work file is shorter than it was written.")
                data = data[done:]
        return values

    def close(self) -> None:
        self._file.close()
