"""Scores on disk, label after label: read a few labels, or a few samples, never all of it.

A batch of samples comes in rows; curves are fitted by label. Each batch is written transposed, as
a segment of its partition's file, so that partitions can be stored anywhere and in any order; a
label is what the segments hold of it, one after the other. Slices are read explicitly: mapped
files would count as memory.

Scores of a label that are too many to sort become groups whose ranks are off by no more than is
stated (`sketch`). The scores go by twice. Quantiles of a sample of them are the edges; then every
score is counted, exactly, at an edge or in the open interval between two. So scores that many
samples share stay groups of their own, and only neighbours between two edges are taken together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._base.checks import is_sparse
from hierlpr._base.order_free import mix, near_keys, row_keys
from hierlpr.exceptions import FileError
from hierlpr.scale.parts import Record, part_file
from hierlpr.scale.source import Batch

Float = NDArray[np.float64]
Rows = NDArray[np.intp]
Column = tuple[NDArray[np.int64], Float]
Blocks = Iterable[tuple[Float, NDArray[np.bool_], Float]]

N_EDGES = 1 << 15
DRAWS_PER_EDGE = 16


def write_partition(batches: Iterator[Batch], part: Path) -> Record:
    """Write the scores of a partition, label after label."""
    with part.open("wb") as stream:
        segments = [write_segment(stream, values, numbers) for values, numbers in batches]
    return {"segments": segments, "samples": sum(segment[1] for segment in segments)}


def write_segment(
    stream: IO[bytes], values: Any, numbers: NDArray[np.int64]
) -> tuple[int, int, int]:
    """Append samples to a file; returns where, how many, and their entries (-1 if dense).

    The segment holds numbers and both keys of the samples, then the scores by label; of sparse ones
    first how many each sample has, where each label begins, and the sample of every score.
    """
    at = stream.tell()
    head = [numbers.astype(np.int64), row_keys(values), near_keys(values)]
    if not is_sparse(values):
        _write(stream, *head, np.ascontiguousarray(values.T))
        return at, numbers.size, -1
    columns = scipy.sparse.csc_array(values)
    columns.sort_indices()
    _write(stream, *head, np.diff(values.indptr).astype(np.int64), columns.indptr.astype(np.int64),
           columns.indices.astype(np.int64), columns.data)  # fmt: skip
    return at, numbers.size, int(columns.nnz)


def _write(stream: IO[bytes], *arrays: NDArray[Any]) -> None:
    for array in arrays:
        stream.write(array.view(np.uint8).data if array.size else b"")


class Segment(NamedTuple):
    """Where the scores of some samples lie, and the row of the first."""

    file: str
    at: int
    n_samples: int
    n_entries: int
    first_row: int

    def read(self, dtype: Any, start: int, size: int) -> NDArray[Any]:
        """Read words of 8 bytes, from a place in the segment."""
        with open(self.file, "rb") as stream:
            found = np.fromfile(stream, dtype=dtype, count=size, offset=self.at + 8 * start)
        if found.size != size:
            raise FileError(f"{self.file}: the work file is shorter than it was written.")
        return found


class Store:
    """The stored scores of all samples.

    A row of complete scores is a sample that was read; a row of listed ones is a sample's number,
    and rows that never came are empty.
    """

    def __init__(self, segments: Iterable[Segment], n_labels: int, n_rows: int | None) -> None:
        self.segments, self.n_labels = tuple(segments), n_labels
        self.is_sparse = n_rows is not None
        numbers, keys, near = (
            [x.read(kind, i * x.n_samples, x.n_samples) for x in self.segments]
            for i, kind in enumerate((np.int64, np.uint64, np.uint64))
        )
        self._numbers = np.concatenate([np.empty(0, np.int64), *numbers])
        self._sizes = np.zeros(0, dtype=np.int64)
        self._counts = np.full(n_labels, self._numbers.size)
        self.keys = np.concatenate([np.empty(0, np.uint64), *keys])
        self.near = np.concatenate([np.empty(0, np.uint64), *near])
        self.n_rows = self._numbers.size
        if n_rows is not None:
            self._read_sparse_sizes(n_rows)

    @classmethod
    def of(
        cls, folder: str | Path, records: Sequence[Record], n_labels: int, n_rows: int | None
    ) -> Store:
        """Open the store that the parts make; `n_rows` is given of listed scores."""
        segments, first = [], 0
        for record in records:
            file = str(part_file(folder, record["number"]))
            for at, n_samples, n_entries in record["segments"]:
                segments.append(Segment(file, at, n_samples, n_entries, first))
                first += n_samples
        return cls(segments, n_labels, n_rows)

    def _read_sparse_sizes(self, n_rows: int) -> None:
        self.keys, self.near = (self._spread(keys, n_rows) for keys in (self.keys, self.near))
        self._sizes = np.zeros(n_rows, dtype=np.int64)
        self._counts = np.zeros(self.n_labels, dtype=np.int64)
        for segment in self.segments:
            n = segment.n_samples
            self._sizes[self._numbers_of(segment)] = segment.read(np.int64, 3 * n, n)
            self._counts += np.diff(segment.read(np.int64, 4 * n, self.n_labels + 1))
        self.n_rows = n_rows

    def _spread(self, keys: NDArray[np.uint64], n_rows: int) -> NDArray[np.uint64]:
        """Put keys of the rows that came where these belong."""
        spread = np.zeros(n_rows, dtype=np.uint64)
        spread[self._numbers] = keys
        return spread

    def _numbers_of(self, segment: Segment) -> NDArray[np.int64]:
        return self._numbers[segment.first_row : segment.first_row + segment.n_samples]

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Number of each row in the file the scores come from."""
        return np.arange(self.n_rows) if self.is_sparse else self._numbers

    def size_of(self, label: int) -> int:
        """Scores of a label."""
        return int(self._counts[label])

    def stored_in(self, rows: Rows) -> int | None:
        """Scores of some rows; None if scores are complete."""
        return int(self._sizes[rows].sum()) if self.is_sparse else None

    def is_empty(self, rows: Rows) -> NDArray[np.bool_]:
        """Whether each of some rows has no score."""
        if not self.is_sparse:
            return np.zeros(rows.size, dtype=bool)
        return np.asarray(self._sizes[rows] == 0)

    def places(self, rows: Rows) -> NDArray[np.int32]:
        """Place of each row of the store among `rows`, -1 if it is not one of them."""
        if self.n_rows >= 2**31:
            raise FileError(f"{self.n_rows:,} samples are too many for a table that lacks pairs.")
        place = np.full(self.n_rows, -1, dtype=np.int32)
        place[rows] = np.arange(rows.size, dtype=np.int32)
        return place

    # -- complete scores ----------------------------------------------------------------------

    def dense_blocks(
        self, first: int, n_labels: int, rows: Rows
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Scores of labels that follow each other, of some rows: where they belong, and what."""
        for segment in self.segments:
            n = segment.n_samples
            mine = slice(*np.searchsorted(rows, [segment.first_row, segment.first_row + n]))
            if mine.start < mine.stop:
                read = segment.read(np.float64, (3 + first) * n, n_labels * n).reshape(n_labels, n)
                whole = mine.stop - mine.start == n
                yield mine, read if whole else read[:, rows[mine] - segment.first_row]

    def dense(self, labels: Sequence[int], rows: Rows) -> Float:
        """Scores of some labels and rows, one line a label."""
        out = np.empty((len(labels), rows.size))
        for at, first, n_labels in _runs(labels):
            for mine, read in self.dense_blocks(first, n_labels, rows):
                out[at : at + n_labels, mine] = read
        return out

    # -- listed scores ------------------------------------------------------------------------

    def _sparse_run(self, segment: Segment, first: int, n_labels: int) -> tuple[Any, Any, Any]:
        """Where each label begins, row and score of entries of labels that follow each other."""
        ptr_at = 4 * segment.n_samples
        row_at = ptr_at + self.n_labels + 1
        ptr = segment.read(np.int64, ptr_at + first, n_labels + 1)
        start, size = int(ptr[0]), int(ptr[-1] - ptr[0])
        local = segment.read(np.int64, row_at + start, size)
        score = segment.read(np.float64, row_at + segment.n_entries + start, size)
        return ptr - start, self._numbers_of(segment)[local], score

    def columns(self, labels: Sequence[int], place: NDArray[np.int32]) -> list[Column]:
        """Places and scores of some labels; `place` is that of each row, -1 if it is left out."""
        found: list[list[Column]] = [[(np.empty(0, np.int64), np.empty(0))] for _ in labels]
        for at, first, n_labels in _runs(labels):
            for segment in self.segments:
                ptr, row, score = self._sparse_run(segment, first, n_labels)
                places = place[row].astype(np.int64)
                for i in range(n_labels):
                    mine = slice(ptr[i], ptr[i + 1])
                    found[at + i].append(_kept(places[mine], score[mine]))
        return [
            (np.concatenate([row for row, _ in parts]), np.concatenate([s for _, s in parts]))
            for parts in found
        ]

    def column_blocks(self, label: int, place: NDArray[np.int32]) -> Iterator[Column]:
        """Places and scores of one label, a segment at a time."""
        for segment in self.segments:
            _, row, score = self._sparse_run(segment, label, 1)
            yield _kept(place[row].astype(np.int64), score)

    def batches(self) -> Iterator[tuple[scipy.sparse.csr_array, NDArray[np.int64]]]:
        """Read all samples again, a batch at a time: their scores and numbers."""
        for segment in self.segments:
            ptr, row, score = self._sparse_run(segment, 0, self.n_labels)
            numbers = self._numbers_of(segment)
            shape = (segment.n_samples, self.n_labels)
            local = np.searchsorted(numbers, row)
            csr = scipy.sparse.csr_array(scipy.sparse.csc_array((score, local, ptr), shape=shape))
            csr.sort_indices()
            yield csr, numbers

    # -- samples ------------------------------------------------------------------------------

    def take(self, rows: Rows) -> Any:
        """All scores of some rows, in order."""
        if not self.is_sparse:
            out = np.empty((rows.size, self.n_labels))
            for mine, read in self.dense_blocks(0, self.n_labels, rows):
                out[mine] = read.T
            return out
        place, shape = self.places(rows), (rows.size, self.n_labels)
        parts = []
        for values, numbers in self.batches():
            at = place[numbers]
            if (at >= 0).any():
                coo = scipy.sparse.coo_array(values[at >= 0])
                parts.append((coo.data, at[at >= 0][coo.row], coo.col))
        if not parts:
            return scipy.sparse.csr_array(shape)
        data, row, label = (np.concatenate([part[i] for part in parts]) for i in range(3))
        # Rows and labels come in order, so that no sum and no sort is needed.
        ptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows.size))])
        ptr = ptr.astype(np.int32 if ptr[-1] < 2**31 else np.int64)
        return scipy.sparse.csr_array((data, label.astype(ptr.dtype), ptr), shape=shape)


def _kept(places: NDArray[np.int64], score: Float) -> Column:
    kept = places >= 0
    return places[kept], score[kept]


def _runs(labels: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Stretches of labels that follow each other: place of the first, its number, how many."""
    if not len(labels):
        return
    breaks = np.flatnonzero(np.diff(labels) != 1) + 1
    bounds = [0, *breaks.tolist(), len(labels)]
    for start, stop in pairwise(bounds):
        yield start, int(labels[start]), stop - start


# -- too many to sort -------------------------------------------------------------------------


class Sketch(NamedTuple):
    """Groups by rising score: weight of the samples and of the positives.

    `rank_error` bounds how far the rank of any score is off, as a share of the samples: the
    share of the largest group that took different scores together.
    """

    score: Float
    positive: Float
    total: Float
    rank_error: float


def sketch(blocks: Callable[[], Blocks], n_scores: int, *, n_edges: int | None = None) -> Sketch:
    """Group scores and truth that come in blocks, twice the same.

    Parameters
    ----------
    blocks : callable
        Gives an iterator over blocks of scores, truth and positive weights; called twice.
    n_scores : int
        Their number, at least 1.
    n_edges : int
        About so many edges; 2**15 by default. Memory grows with it,
        not with `n_scores`.

    Notes
    -----
    Let an open interval hold a share :math:`w` of the scores. Its scores get the rank of their
    group, and their own ranks lie inside the same stretch, so that they differ by at most
    :math:`w`; all other ranks are exact. Half of the edges are even quantiles of a random sample,
    so that :math:`w` is about ``2 / n_edges``, but the bound that is returned is counted, not
    expected. The others lie toward both ends, where it is far smaller. A strictly increasing
    transform of the scores gives the same counts.

    Examples
    --------
    >>> import numpy as np
    >>> scores, truth = np.arange(8.0), np.arange(8) > 3
    >>> found = sketch(lambda: iter([(scores, truth, np.ones(8))]), 8, n_edges=1)
    >>> found.total.tolist(), found.positive.tolist(), found.rank_error
    ([1.0, 3.0, 1.0, 2.0, 1.0], [0.0, 0.0, 1.0, 2.0, 1.0], 0.375)
    """
    edges = _edges(blocks(), n_scores, N_EDGES if n_edges is None else n_edges)
    # Bin 2i + 1 is edge i; bin 2i is what lies below it, above the edge before.
    n_bins = 2 * edges.size
    total, positive, summed, number = (np.zeros(n_bins) for _ in range(4))
    lowest, highest = np.full(n_bins, np.inf), np.full(n_bins, -np.inf)
    for scores, truth, weight in blocks():
        at = np.searchsorted(edges, scores)
        place = 2 * at + (edges[at] == scores)
        number += np.bincount(place, minlength=n_bins)
        total += np.bincount(place, weights=weight, minlength=n_bins)
        positive += np.bincount(place, weights=truth * weight, minlength=n_bins)
        summed += np.bincount(place, weights=scores, minlength=n_bins)
        np.minimum.at(lowest, place, scores)
        np.maximum.at(highest, place, scores)
    used = np.flatnonzero(total)
    mixed = lowest[used] < highest[used]
    middle = np.clip(summed[used] / number[used], lowest[used], highest[used])
    error = float(number[used][mixed].max()) / n_scores if mixed.any() else 0.0
    return Sketch(middle, positive[used], total[used], error)


def _edges(blocks: Blocks, n_scores: int, n_edges: int) -> Float:
    """Quantiles of scores drawn by a hash of their place, and the scores at both ends.

    LPRs change most among the highest scores, which are few: half of the quantiles are even, half
    ever closer toward the ends, and the very ends are edges themselves.
    """
    stride = np.uint64(max(1, n_scores // (DRAWS_PER_EDGE * n_edges)))
    n_ends = max(1, n_edges // 8)
    low, high, drawn, at = np.empty(0), np.empty(0), [], 0
    for scores, _, _ in blocks:
        place = np.arange(at, at + scores.size, dtype=np.uint64)
        at += scores.size
        drawn.append(scores[mix(place) % stride == 0])
        low = np.sort(np.concatenate([low, _lowest(scores, n_ends)]))[:n_ends]
        high = -np.sort(np.concatenate([-high, _lowest(-scores, n_ends)]))[:n_ends]
    ordered = np.sort(np.concatenate(drawn))
    if ordered.size:
        even = np.linspace(0, ordered.size - 1, n_edges - n_edges // 2 + 2)[1:-1]
        close = np.geomspace(1, max(1, ordered.size // 2), n_edges // 4) - 1
        places = np.concatenate([even, close, ordered.size - 1 - close]).round().astype(np.intp)
        ordered = ordered[np.unique(places)]
    return np.unique(np.concatenate([low, ordered, high]))


def _lowest(scores: Float, n: int) -> Float:
    return scores if scores.size <= n else np.partition(scores, n - 1)[:n]
