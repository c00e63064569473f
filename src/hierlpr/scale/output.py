"""Sorted rows -> the ranking a user asked for: one file, or a folder of Parquet files; whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import check_choice
from hierlpr._base.files import MADE, list_made, put_in_place, refuse_foreign_folder, writing
from hierlpr._base.own_folders import claimed
from hierlpr.exceptions import DataError, FileError
from hierlpr.io.opening import ending, filesystem_of, is_remote
from hierlpr.io.table_output import ENDINGS, header_line, plain_columns, text_options

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RankingWriter", "claimed_output", "output_kind", "refuse_blanks", "written"]

GROUP_ROWS = 1 << 20
FILE_ROWS = 1 << 24  # of each file in a folder


class RankingWriter:
    """Write sorted rows as rank, sample, label, lpr, score, call; or the CAFA layout.

    `kind` is the ending that decides the layout; without one, `path` is a folder of Parquet files.
    """

    def __init__(
        self,
        path: Path,
        kind: str,
        names: Any,
        labels: tuple[str, ...],
        *,
        is_packed: bool,
        captions: tuple[str, ...] | None = None,
    ) -> None:
        import pyarrow as pa

        self._path, self._kind, self._is_packed = path, kind, is_packed
        self._names, self._labels = names, pa.array(labels, type=pa.string())
        self._schema = pa.schema(
            [("rank", pa.int64()), ("sample", pa.string()),
             ("label", pa.dictionary(pa.int32(), pa.string())), ("lpr", pa.float64()),
             ("score", pa.float64()), ("call", pa.bool_())]
        )  # fmt: skip
        self._captions = None if captions is None else pa.array(captions, type=pa.string())
        if captions is not None:
            self._schema = self._schema.append(pa.field("name", self._schema.field("label").type))
        self._open: list[Any] = []  # writer, and what it writes to
        self._held: list[pa.RecordBatch] = []
        self._n_files = self._n_ranked = self._n_in_file = 0
        self.n_rows = self.n_calls = 0

    def __enter__(self) -> RankingWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None:
                if self._held or not self._n_files:
                    self._flush()
                self._close()
        finally:
            for part in self._open:  # let go of the file after an error
                with suppress(Exception):
                    part.close()

    def write(self, rows: Mapping[str, NDArray[Any]], *, calls_only: bool) -> None:
        """Append rows; those that are not listed count in the ranks all the same."""
        import pyarrow as pa

        first, n = self._n_ranked + 1, rows["sample"].size
        arrays = [
            pa.array(np.arange(first, first + n)),
            self._names.take(pa.array(rows["sample"])).cast(pa.string()),
            pa.DictionaryArray.from_arrays(pa.array(rows["label"]), self._labels),
            pa.array(rows["lpr"]),
            pa.array(rows["score"]),
            pa.array(rows["call"]),
        ]
        if self._captions is not None:
            arrays.append(pa.DictionaryArray.from_arrays(arrays[2].indices, self._captions))
        ranked = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if calls_only:
            ranked = ranked.filter(arrays[5])
        self._held.append(ranked)
        self._n_ranked += n
        self.n_rows += ranked.num_rows
        self.n_calls += int(np.count_nonzero(rows["call"]))
        if sum(batch.num_rows for batch in self._held) >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        table = pa.Table.from_batches(self._held, schema=self._schema)
        self._held = []
        if self._kind not in ("", ".parquet"):
            if self._kind == ".tsv":
                table = table.select(["sample", "label", "score"])
            table = plain_columns(table)
        if not self._open:
            self._open = self._begin(table.schema)
        if self._kind in ("", ".parquet"):
            self._open[0].write_table(table, row_group_size=GROUP_ROWS)
        else:
            self._open[0].write_table(table)
        self._n_in_file += table.num_rows
        if not self._kind and self._n_in_file >= FILE_ROWS:
            self._close()

    def _close(self) -> None:
        for part in self._open:
            part.close()
        self._open, self._n_in_file = [], 0

    def _begin(self, schema: pa.Schema) -> list[Any]:
        """Open a file; names are quoted as `hierlpr.io.write_ranking` does."""
        import pyarrow as pa
        import pyarrow.csv as pacsv

        path = self._path if self._kind else self._path / f"part-{self._n_files:06d}.parquet"
        self._n_files += 1
        sink: Any = pa.OSFile(str(path), "wb")  # closed whatever becomes of the writer
        if self._kind in ("", ".parquet"):
            return [_parquet_writer(sink, schema), sink]
        if self._is_packed:
            sink = pa.CompressedOutputStream(sink, "gzip")
        delimiter = "," if self._kind == ".csv" else "\t"
        if self._kind == ".csv":
            sink.write(header_line(schema.names, delimiter))
        texts = [self._names, self._labels, *([] if self._captions is None else [self._captions])]
        options = text_options(texts, delimiter)
        return [pacsv.CSVWriter(sink, schema, write_options=options), sink]


def _parquet_writer(sink: Any, schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(
        sink, schema, compression="snappy", use_dictionary=["label"],
        column_encoding={"rank": "DELTA_BINARY_PACKED", "sample": "PLAIN", "lpr": "PLAIN",
                         "score": "PLAIN"},
    )  # fmt: skip


def output_kind(out: str, *, on_cluster: bool) -> str:
    """Return the ending that decides the layout of a ranking; none means a folder of Parquet."""
    kind = ending(out)
    if kind and not on_cluster:
        return check_choice(kind, ENDINGS, name="the ending of the ranking file")
    if kind not in ("", ".parquet"):
        raise DataError(
            f"{out}: a run on a cluster writes a folder of Parquet files, not {kind}.\n"
            "Hint: give the name of a folder, with or without .parquet."
        )
    return ""


def refuse_blanks(out: str, names: Any, labels: tuple[str, ...]) -> None:
    """Refuse names that the CAFA layout cannot hold."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for column, values in (("sample", names), ("label", pa.array(labels, pa.string()))):
        blank = pc.match_substring_regex(values, r"\s")
        if pc.any(blank).as_py():
            name = values[pc.index(blank, True).as_py()].as_py()
            raise DataError(
                f"{out}: the CAFA layout cannot hold {column} names with blanks: {name!r}.\n"
                "Hint: write .csv or .parquet instead."
            )


# -- the whole output, or none ----------------------------------------------------------------


@contextmanager
def claimed_output(out: str, *, is_folder: bool = False) -> Iterator[None]:
    """Hold an output for this run alone; refuse what is not hierlpr's to write, before any work."""
    if is_remote(out):
        if is_folder:
            _stored(*filesystem_of(out), out)
        yield
        return
    if is_folder:
        refuse_foreign_folder(Path(out))
    with claimed(out):
        yield


@contextmanager
def written(out: str, kind: str, folder: Path) -> Iterator[Path]:
    """Give a place for a ranking, which appears as `out` when it is complete."""
    part = folder / "out"
    if kind and not is_remote(out):
        with writing(out) as part:
            yield part
        return
    if not kind:
        shutil.rmtree(part, ignore_errors=True)  # of an interrupted run
        part.mkdir()
    yield part
    if not kind:
        list_made(part, what="ranking")
    if is_remote(out):
        _upload(part, out)
    else:
        put_in_place(part, Path(out))


def _upload(part: Path, out: str) -> None:
    """Copy a finished file or folder to an object store, where an object appears whole."""
    filesystem, inside = filesystem_of(out)
    if not part.is_dir():
        filesystem.put_file(str(part), inside)
        return
    old = set(_stored(filesystem, inside, out))
    files = sorted(part.iterdir(), key=lambda file: (file.name == MADE, file.name))
    for file in files:  # the list of them comes last
        filesystem.put_file(str(file), f"{inside.rstrip('/')}/{file.name}")
    for name in sorted(old - {file.name for file in files}):
        filesystem.rm_file(f"{inside.rstrip('/')}/{name}")


def _stored(filesystem: Any, inside: str, out: str) -> list[str]:
    """Files of a folder in a store, all of them hierlpr's; refuse any other."""
    if not filesystem.exists(inside):
        return []
    names = [name.rsplit("/", 1)[-1] for name in filesystem.find(inside)]
    try:
        made = json.loads(filesystem.cat_file(f"{inside.rstrip('/')}/{MADE}"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        made = {}
    for name in names:
        if name not in made and not (made and name == MADE):
            raise FileError(
                f"{out}: this folder holds {name}, which is no part of a ranking that hierlpr "
                "made, so it is not replaced.\nHint: give the name of a new folder."
            )
    return names
