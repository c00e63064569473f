"""Rankings as rows that any engine can sort, and sorted rows as rankings.

A row has 28 bytes: two words that hold the whole order (`hierlpr._kernels.rows`), the label with
its call in the lowest bit, and the LPR. The block score is read back out of the first word. So a
plain sort of integers reproduces the order of :func:`hierlpr.rank` for any split of the samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels.rows import pack_rows, unpack_samples
from hierlpr.cutoff.decisions import decide
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError

if TYPE_CHECKING:
    import pyarrow as pa

    from hierlpr.model import ScoreModel
    from hierlpr.ranking.order import Ranking

__all__ = ["ROW_BYTES", "Packing", "Splitters", "calls_along", "ranked_rows", "row_schema"]

ROW_BYTES = 28


@dataclass(frozen=True, slots=True)
class Packing:
    """Bits of sample and place in the second word, for all samples of a run."""

    sample_bits: int
    place_bits: int

    @classmethod
    def of(cls, n_samples: int, n_labels: int) -> Packing:
        """Fit the words to the numbers of samples and labels."""
        label_bits = max(1, (n_labels - 1).bit_length())
        sample_bits = max(1, (n_samples - 1).bit_length())
        if 2 * label_bits + sample_bits > 64:
            raise DataError(
                f"{n_samples:,} samples of {n_labels:,} labels are too many for one ranking: at "
                f"most {1 << (64 - 2 * label_bits):,} samples.\nHint: rank them in parts."
            )
        return cls(sample_bits, label_bits)


def row_schema() -> pa.Schema:
    """Columns of a row."""
    import pyarrow as pa

    return pa.schema(
        [("depth", pa.uint64()), ("place", pa.uint64()), ("tag", pa.uint32()),
         ("lpr", pa.float64())]
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of some samples in calling order."""

    depth: NDArray[np.uint64]
    place: NDArray[np.uint64]
    tag: NDArray[np.uint32]
    lpr: NDArray[np.float64]

    def __len__(self) -> int:
        return int(self.depth.size)

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Arrow batch of a stretch of rows, without copying."""
        import pyarrow as pa

        columns = (self.depth, self.place, self.tag, self.lpr)
        arrays = [pa.array(column[start:stop]) for column in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=row_schema())


def calls_along(order: Ranking, model: ScoreModel, table: Table) -> NDArray[np.bool_]:
    """Whether each listed instance is called."""
    cutoff = model.cutoff_
    if cutoff.groups is None and cutoff.max_calls is None:
        return np.asarray(order.score >= cutoff.level)
    calls: Any = decide(model.predict_proba(table), cutoff, model.hierarchy_)
    return np.asarray(calls[order.sample, order.label], dtype=bool).ravel()


def ranked_rows(
    model: ScoreModel,
    table: Table,
    *,
    numbers: NDArray[np.int64],
    packing: Packing,
    top: int | None = None,
    calls_only: bool = False,
) -> Rows:
    """Rank one batch of samples: scores -> LPR -> blocks -> rows in calling order.

    The stages are those of the path in memory; `numbers` are those of the samples in the whole,
    rising. `calls_only` needs a cutoff that is one level for all, so that calls come first.
    """
    order = model.rank(table, top=top)
    score = order.score
    call = calls_along(order, model, table)
    n = int(np.count_nonzero(call)) if calls_only else len(order)
    depth, place = np.empty(n, np.uint64), np.empty(n, np.uint64)
    first_sample = int(numbers[0]) if numbers.size else 0
    sample = order.sample[:n]
    if numbers.size and int(numbers[-1]) - first_sample + 1 != numbers.size:
        sample, first_sample = numbers[sample], 0  # some samples were left out
    pack_rows(
        sample, order.label[:n].astype(sample.dtype, copy=False), order.first[:n],
        np.ascontiguousarray(score[:n]).view(np.uint64),
        model.hierarchy_.position.astype(np.int32), first_sample, packing.sample_bits,
        packing.place_bits, depth, place,
    )  # fmt: skip
    tag = (order.label[:n].astype(np.uint32) << np.uint32(1)) | call[:n]
    return Rows(depth, place, tag, order.lpr[:n])


def unpacked(batch: pa.RecordBatch, packing: Packing) -> dict[str, NDArray[Any]]:
    """Columns sample, label (numbers), lpr, score and call of sorted rows."""
    depth, place, tag, lpr = (batch.column(i).to_numpy(zero_copy_only=False) for i in range(4))
    sample = np.empty(place.size, dtype=np.int64)
    unpack_samples(place, packing.sample_bits, packing.place_bits, sample)
    return {
        "sample": sample,
        "label": (tag >> np.uint32(1)).astype(np.int32),
        "lpr": lpr,
        "score": np.invert(depth).view(np.float64),
        "call": (tag & np.uint32(1)).astype(bool),
    }


@dataclass(frozen=True, slots=True, eq=False)
class Splitters:
    """Rows that part the order into buckets of about equal size, each sorted on its own."""

    depth: NDArray[np.uint64]
    place: NDArray[np.uint64]

    @classmethod
    def none(cls) -> Splitters:
        """One bucket."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.uint64))

    @classmethod
    def from_sample(cls, rows: list[Rows], n_buckets: int) -> Splitters:
        """Take the quantiles of some rows; any choice gives the same ranking in the end."""
        depth = np.concatenate([part.depth for part in rows])
        place = np.concatenate([part.place for part in rows])
        if n_buckets < 2 or depth.size == 0:
            return cls.none()
        order = np.lexsort((place, depth))
        at = order[(np.arange(1, n_buckets) * depth.size) // n_buckets]
        return cls(depth[at], place[at])

    @property
    def n_buckets(self) -> int:
        """Number of buckets."""
        return int(self.depth.size) + 1

    def bounds(self, rows: Rows) -> list[int]:
        """Where the buckets begin and end in rows that are in order."""
        bounds = [0]
        for depth, place in zip(self.depth, self.place, strict=True):
            start = int(np.searchsorted(rows.depth, depth, side="left"))
            stop = int(np.searchsorted(rows.depth, depth, side="right"))
            bounds.append(start + int(np.searchsorted(rows.place[start:stop], place, side="left")))
        return [*bounds, len(rows)]
