"""A ranking of any size as a stream of rows, with labels numbered as in the hierarchy."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr.exceptions import FileError
from hierlpr.io._arrow import as_numbers, cast_column
from hierlpr.io._watch import Watch
from hierlpr.io.rankings import RANKING_COLUMNS, _need
from hierlpr.scale.files import (
    group_batches,
    is_parquet,
    open_parquet,
    parquet_files,
)
from hierlpr.scale.numbers import NAMELESS, LabelNumbers
from hierlpr.scale.text import TextStream, open_head, whole_gzip

if TYPE_CHECKING:
    import pyarrow as pa

    from hierlpr.hierarchy import Hierarchy

__all__ = ["Listed", "Listing", "open_listing"]

BATCH_ROWS = 1 << 20


class Listed(NamedTuple):
    """Rows of a ranking as they come: names of samples (Arrow), labels, scores, calls, ranks."""

    sample: pa.Array
    label: NDArray[np.int64]
    score: NDArray[np.float64]
    call: NDArray[np.bool_] | None
    rank: NDArray[np.float64] | None


@dataclass(frozen=True, slots=True)
class Listing:
    """A ranking file, a folder of them, or CAFA predictions, told apart by name and header.

    `columns` are those that are read, sample and label first.
    """

    path: str
    files: tuple[str, ...]
    columns: tuple[str, ...]
    text: TextStream | None
    is_ordered: bool  # it has LPRs, so that its order counts among equal scores

    @property
    def is_cafa(self) -> bool:
        """Whether it is a CAFA file, in which repeated pairs are common."""
        return self.text is not None and self.text.layout == "cafa"

    def rows(
        self,
        hierarchy: Hierarchy,
        watch: Watch,
        *,
        aliases: Mapping[str, str] | None,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[Listed]:
        """Read the good rows in the order of the file, a batch at a time."""
        numbers = LabelNumbers(
            hierarchy, watch, aliases,
            hint="is this the hierarchy the ranking was made with? --lenient (lenient=True) leaves "
            "unknown labels out.",
        )  # fmt: skip
        at = 0
        for batch in self._batches(watch, batch_rows):
            found = {name: batch.column(i) for i, name in enumerate(self.columns)}
            label = numbers.of(found["label"], at)
            score = as_numbers(found["score"]).astype(np.float64)
            good = np.isfinite(score)
            for row in np.flatnonzero(~good).tolist():
                watch.problem(
                    "the score is missing or not finite.", line=f"row {at + row + 1:,}",
                    column="score",
                )  # fmt: skip
            for row in np.flatnonzero(label == NAMELESS).tolist():
                watch.problem("the label has no name.", line=f"row {at + row + 1:,}")
            good &= label >= 0
            at += batch.num_rows
            kept = slice(None) if good.all() else np.flatnonzero(good)
            names = found["sample"] if isinstance(kept, slice) else found["sample"].take(kept)
            call, rank = (
                as_numbers(found[name])[kept] if name in found else None
                for name in ("call", "rank")
            )
            yield Listed(
                names, label[kept], score[kept], None if call is None else call != 0, rank
            )  # fmt: skip

    def _batches(self, watch: Watch, batch_rows: int) -> Iterator[pa.RecordBatch]:
        if self.text is not None:
            with whole_gzip(self.path):
                yield from self.text.batches(watch)
            return
        for file in self.files:
            yield from _parquet_batches(file, self.columns, watch, batch_rows)


def open_listing(path: str | os.PathLike[str], watch: Watch) -> Listing:
    """Look at the schema or the first lines of a ranking."""
    name = os.fspath(path)
    watch.format = "ranking"
    if is_parquet(name):
        files = parquet_files(name)
        found = list(open_parquet(files[0]).schema_arrow.names)
        _need(found, watch, "the schema")
        return Listing(name, tuple(files), _used(found), None, "lpr" in found)
    table, _ = open_head(name, watch)
    names = [cell.strip() for cell in table.first]
    if "sample" not in names:
        if len(names) != 3:
            _need(names, watch, table.first_line)
        watch.format = "CAFA ranking"
        columns = ["sample", "label", "score"]
        text = TextStream(name, "cafa", table.delimiter, columns, columns, 0, watch.lenient)
        return Listing(name, (), tuple(columns), text, False)
    _need(names, watch, table.first_line)
    used = _used(names)
    text = TextStream(name, "long", table.delimiter, names, list(used), 1, watch.lenient)
    return Listing(name, (), used, text, "lpr" in names)


def _used(names: list[str]) -> tuple[str, ...]:
    wanted = ("sample", "label", "score", "call", "rank")
    return tuple(name for name in wanted if name in names and name in RANKING_COLUMNS)


def _parquet_batches(
    file: str, columns: tuple[str, ...], watch: Watch, batch_rows: int
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Rows of one file; labels stay encoded where the file has them so."""
    import pyarrow as pa

    missing = [name for name in columns if name not in open_parquet(file).schema_arrow.names]
    if missing:
        raise FileError(
            f"{file}: column {missing[0]!r} is missing, which the other files of the dataset have."
        )
    for batch in group_batches(file, batch_rows, columns, dictionaries=("label",)):
        arrays = []
        for name in columns:
            array = batch.column(batch.schema.get_field_index(name))
            if name == "sample":
                array = cast_column(array, pa.large_string(), name, watch)
            elif name != "label" or not pa.types.is_dictionary(array.type):
                kind = pa.string() if name == "label" else pa.float64()
                array = cast_column(array, kind, name, watch)
            arrays.append(array)
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
