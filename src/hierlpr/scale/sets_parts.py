"""Sure and possible labels of a file of any size: samples in, their labels out, in the same order.

No sample depends on another, so that there is nothing to sort: the parts are written one after the
other. In memory there is one part, and the same writer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.files import writing
from hierlpr.cutoff.sets import SET_WORDS, CallSets, SetRule, deepest_sure
from hierlpr.data.tables import Table
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.waves import sample_ranges
from hierlpr.io import ReadReport
from hierlpr.io.table_output import TableWriter, arrow_numbers, arrow_texts
from hierlpr.scale.budget import open_names
from hierlpr.scale.output import Shared, Use, written
from hierlpr.scale.parts import Parts, Record, arrow_batches
from hierlpr.scale.source import Batch, over_partitions

if TYPE_CHECKING:
    from hierlpr.model import ScoreModel

# What is written of a sample: its labels, all or the possible ones; or the deepest sure label.
Wanted = Literal["all", "possible", "deepest"]
Rows = dict[str, NDArray[Any]]


class SetsFound(NamedTuple):
    """How much was written, and what was seen; `n_sure` and `n_possible` count (sample, label)."""

    n_rows: int
    n_samples: int
    n_sure: int
    n_possible: int
    report: ReadReport
    rule: SetRule


def set_rows(sets: CallSets, h: Hierarchy, numbers: NDArray[np.int64], wanted: Wanted) -> Rows:
    """Rows of some samples: the sure labels first, then the possible, each parents first."""
    if wanted == "deepest":
        return {"sample": numbers, "label": deepest_sure(sets, h).astype(np.int32)}
    place = sets.places()[:, h.order]
    order = np.argsort(-place, axis=1, kind="stable")
    level = np.take_along_axis(place, order, axis=1).ravel()
    label = h.order[order].astype(np.int32).ravel()
    sample = np.repeat(numbers, h.n_labels)
    if wanted == "possible":
        kept = level > 0
        level, label, sample = level[kept], label[kept], sample[kept]
    return {"sample": sample, "label": label, "set": level}


def _rows_of(
    model: ScoreModel,
    table: Table,
    numbers: NDArray[np.int64],
    wanted: Wanted,
    count: Counter[str],
) -> Iterator[Rows]:
    """Yield the rows of a table, some samples at a time, and count what they hold."""
    h = model.hierarchy_
    for start, stop in sample_ranges(table.n_samples, h.n_labels):
        sets = model.predict_sets(table.rows(np.arange(start, stop)))
        count.update(sure=int(sets.sure.sum()), possible=int(sets.possible.sum()))
        yield set_rows(sets, h, numbers[start:stop], wanted)


def _write(use: Use, place: Path, names: Any, wanted: Wanted, found: Iterable[Rows]) -> int:
    """Write rows: numbers of samples and labels (-1 for none), and places of the words."""
    import pyarrow as pa

    fields: dict[str, Any] = {"sample": None, "label": None}
    if wanted != "deepest":
        fields["set"] = pa.dictionary(pa.int8(), pa.string())
    labels = use.model.hierarchy_.labels
    with TableWriter(place, use.kind, names, labels, fields, **use.text) as writer:
        for rows in found:
            words: dict[str, Any] = {}
            if "set" in rows:
                place_of = arrow_numbers(rows["set"])
                words["set"] = pa.DictionaryArray.from_arrays(place_of, list(SET_WORDS))
            writer.add({**rows, **words})
    return writer.n_rows


# -- in memory --------------------------------------------------------------------------------


def sets_at_once(use: Use, wanted: Wanted) -> SetsFound:
    """Write the sets of scores that fit in memory."""
    read, count = use.read(), Counter[str]()
    n, names = read.table.n_samples, arrow_texts(read.samples)
    rows = _rows_of(use.model, read.table, np.arange(n), wanted, count)
    with writing(use.out) as place:
        n_rows = _write(use, place, names, wanted, rows)
    found = count["sure"], count["possible"]
    return SetsFound(n_rows, n, *found, read.report, use.model.set_rule())


# -- in parts ---------------------------------------------------------------------------------


def write_part(batches: Iterator[Batch], part: Path, *, shared: Shared, wanted: Wanted) -> Record:
    """Put the rows of one partition into its file."""
    import pyarrow as pa

    model, count = shared.load(), Counter(samples=0, sure=0, possible=0)
    fields = [("sample", pa.int64()), ("label", pa.int32()), ("set", pa.int8())]
    schema = pa.schema(fields[:2] if wanted == "deepest" else fields)
    with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for table, numbers in shared.tables(batches):
            for rows in _rows_of(model, table, numbers, wanted, count):
                columns = [arrow_numbers(rows[name]) for name in schema.names]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            count["samples"] += numbers.size
    return dict(count)


def sets_in_parts(use: Use, wanted: Wanted, parts: Parts) -> SetsFound:
    """Write the sets of scores that need not fit in memory."""
    source, watch = use.source(parts, wanted=wanted)
    write = partial(write_part, shared=Shared.of(use.model_path, source), wanted=wanted)
    records = over_partitions(parts, source, watch, write, folder=parts.folder, stage="sets")
    rows = (
        {name: batch.column(name).to_numpy() for name in batch.schema.names}
        for batch in arrow_batches(parts.folder, len(records))
    )
    with written(use.out, use.kind, parts.folder) as place:
        n_rows = _write(use, place, open_names(parts.folder, source.n_samples), wanted, rows)
    samples, sure, possible = (
        sum(record[name] for record in records) for name in ("samples", "sure", "possible")
    )
    report = watch.report(samples=samples, labels=source.n_labels)
    return SetsFound(n_rows, samples, sure, possible, report, use.model.set_rule())
