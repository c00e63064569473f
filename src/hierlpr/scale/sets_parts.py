"""Sure and possible labels of a file of any size: samples in, their labels out, in the same order.

No sample depends on another, so that there is nothing to sort: the parts are written one after the
other. In memory there is one part, and the same writer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.files import writing
from hierlpr.cutoff.sets import SET_WORDS, CallSets, SetRule, deepest_sure
from hierlpr.data.listing import check_kind
from hierlpr.data.tables import Table
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.waves import sample_ranges
from hierlpr.io import ReadReport
from hierlpr.io.table_output import TableWriter
from hierlpr.scale.budget import open_names
from hierlpr.scale.output import written
from hierlpr.scale.parts import How, Parts, Record, fingerprint, part_file
from hierlpr.scale.rank_parts import shared_model
from hierlpr.scale.source import Batch, Reading, over_partitions
from hierlpr.scale.spool import planned_source

if TYPE_CHECKING:
    import pyarrow as pa

    from hierlpr.model import ScoreModel

PART = "sets"  # kind of the parts
Rows = dict[str, NDArray[Any]]


class SetsWanted(NamedTuple):
    """What to write: the deepest sure label of samples, or their labels: all, or the possible."""

    deepest: bool = False
    possible_only: bool = False


class SetsFound(NamedTuple):
    """How much was written, and what was seen; `n_sure` and `n_possible` count (sample, label)."""

    n_rows: int
    n_samples: int
    n_sure: int
    n_possible: int
    report: ReadReport
    rule: SetRule


def set_rows(sets: CallSets, h: Hierarchy, numbers: NDArray[np.int64], wanted: SetsWanted) -> Rows:
    """Rows of some samples: the sure labels first, then the possible, each parents first."""
    if wanted.deepest:
        return {"sample": numbers, "label": deepest_sure(sets, h).astype(np.int32)}
    place = sets.places()[:, h.order]
    order = np.argsort(-place, axis=1, kind="stable")
    level = np.take_along_axis(place, order, axis=1).ravel()
    label = h.order[order].astype(np.int32).ravel()
    sample = np.repeat(numbers, h.n_labels)
    if wanted.possible_only:
        kept = level > 0
        level, label, sample = level[kept], label[kept], sample[kept]
    return {"sample": sample, "label": label, "set": level}


def _rows_of(
    model: ScoreModel, table: Table, numbers: NDArray[np.int64], wanted: SetsWanted
) -> Iterator[tuple[CallSets, Rows]]:
    """Yield sets and rows of a table, some samples at a time."""
    h = model.hierarchy_
    for start, stop in sample_ranges(table.n_samples, h.n_labels):
        sets = model.predict_sets(table.rows(np.arange(start, stop)))
        yield sets, set_rows(sets, h, numbers[start:stop], wanted)


class SetsWriter(TableWriter):
    """Write sample, label and set of every pair, or the one deepest sure label of every sample."""

    def __init__(
        self,
        path: Path,
        kind: str,
        names: Any,
        labels: Sequence[str],
        deepest: bool,
        **options: Any,
    ) -> None:
        import pyarrow as pa

        fields: dict[str, Any] = {"sample": None, "label": None}
        if not deepest:
            fields["set"] = pa.dictionary(pa.int8(), pa.string())
        super().__init__(path, kind, names, labels, fields, **options)

    def write(self, rows: Rows) -> None:
        """Append rows: numbers of samples and labels (-1 for none), and places of the words."""
        import pyarrow as pa

        words: dict[str, Any] = {}
        if "set" in rows:
            words["set"] = pa.DictionaryArray.from_arrays(pa.array(rows["set"]), list(SET_WORDS))
        self.add({**rows, **words})


# -- in memory --------------------------------------------------------------------------------


def sets_at_once(
    scores: str,
    out: str,
    reading: Reading,
    how: How,
    *,
    model: ScoreModel,
    wanted: SetsWanted,
    kind: str,
    captions: tuple[str, ...] | None,
) -> SetsFound:
    """Write the sets of scores that fit in memory."""
    import pyarrow as pa

    how.say("reading scores", 0, 1)
    read = reading.scores(scores)
    table, n = read.table, read.table.n_samples
    names = pa.array(table.samples or [str(i) for i in range(n)], type=pa.large_string())
    options: Any = {"is_packed": out.lower().endswith(".gz"), "captions": captions}
    about = model.hierarchy_.labels, wanted.deepest
    n_sure = n_possible = 0
    with (
        writing(out) as place,
        SetsWriter(Path(place), kind, names, *about, **options) as writer,
    ):
        for sets, rows in _rows_of(model, table, np.arange(n), wanted):
            writer.write(rows)
            n_sure += int(sets.sure.sum())
            n_possible += int(sets.possible.sum())
    return SetsFound(writer.n_rows, n, n_sure, n_possible, read.report, model.set_rule())


# -- in parts ---------------------------------------------------------------------------------


class SetsJob(NamedTuple):
    """All that a partition needs, wherever it is done."""

    model: str
    digest: str
    is_list: bool
    wanted: SetsWanted


def write_part(job: SetsJob, batches: Iterator[Batch], part: Path) -> Record:
    """Put the rows of one partition into its file."""
    import pyarrow as pa

    model = shared_model(job.model, job.digest)
    count = {"samples": 0, "sure": 0, "possible": 0}
    schema = _schema(job.wanted)
    with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for values, numbers in batches:
            table = Table(values, model.hierarchy_.labels, is_list=job.is_list)
            for sets, rows in _rows_of(model, table, numbers, job.wanted):
                columns = [pa.array(rows[name]) for name in schema.names]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
                count["sure"] += int(sets.sure.sum())
                count["possible"] += int(sets.possible.sum())
            count["samples"] += numbers.size
    return dict(count)


def _schema(wanted: SetsWanted) -> pa.Schema:
    import pyarrow as pa

    fields = [("sample", pa.int64()), ("label", pa.int32())]
    return pa.schema(fields if wanted.deepest else [*fields, ("set", pa.int8())])


def _stored(parts: Parts, n_parts: int) -> Iterator[Rows]:
    import pyarrow as pa

    for number in range(n_parts):
        with pa.OSFile(str(part_file(parts.folder, PART, number)), "rb") as file:
            reader = pa.ipc.open_file(file)
            for i in range(reader.num_record_batches):
                batch = reader.get_batch(i)
                yield {name: batch.column(name).to_numpy() for name in batch.schema.names}


def sets_in_parts(
    model_path: str,
    scores: str,
    out: str,
    reading: Reading,
    parts: Parts,
    *,
    model: ScoreModel,
    wanted: SetsWanted,
    kind: str,
    captions: tuple[str, ...] | None,
) -> SetsFound:
    """Write the sets of scores that need not fit in memory."""
    source, watch = planned_source(
        scores, reading, parts, parts.folder, {"model": model_path}, **wanted._asdict()
    )
    is_list = source.kind == "long"
    check_kind(model.kind_, is_list=is_list, is_complete=source.is_complete)
    job = SetsJob(model_path, fingerprint(model_path), is_list, wanted)
    records = over_partitions(
        parts, source, watch, write_part, job, folder=parts.folder, kind=PART, stage="sets"
    )
    names = open_names(parts.folder, source.n_samples)
    options: Any = {"is_packed": out.lower().endswith(".gz"), "captions": captions}
    about = model.hierarchy_.labels, wanted.deepest
    with (
        written(out, kind, parts.folder) as place,
        SetsWriter(place, kind, names, *about, **options) as writer,
    ):
        for rows in _stored(parts, len(records)):
            writer.write(rows)
    samples, sure, possible = (
        sum(record[name] for record in records) for name in ("samples", "sure", "possible")
    )
    report = watch.report(samples=samples, labels=source.n_labels)
    return SetsFound(writer.n_rows, samples, sure, possible, report, model.set_rule())
