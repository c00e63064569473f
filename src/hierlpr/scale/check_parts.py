"""The samples of a file of any size that are compared with those fitted on.

Which ones, `rows_compared` says of their number alone, so that they are those of the whole in
memory, and few enough to hold; each part picks its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr.data.label_sets import check_kind
from hierlpr.data.tables import Table
from hierlpr.exceptions import HierlprWarning
from hierlpr.hierarchy import Hierarchy
from hierlpr.io import ReadReport, Watch
from hierlpr.model.changing import adapted, rows_compared
from hierlpr.scale.parts import Parts, Record, part_file
from hierlpr.scale.source import Batch, Reading, Source, over_partitions
from hierlpr.scale.spool import planned_source

if TYPE_CHECKING:
    from hierlpr.lpr.drift import Drift
    from hierlpr.model import ScoreModel

Numbers = NDArray[np.int64]


def adapt_to(model: ScoreModel, table: Table) -> tuple[ScoreModel, Drift]:
    """Move a model to the prevalences of new scores; how far they differ is told, not warned of."""
    drift = model.check(table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HierlprWarning)
        return adapted(model, drift), drift


def compared(source: Source, watch: Watch, parts: Parts, hierarchy: Hierarchy) -> Table:
    """Read the samples that are compared, those that would be chosen of the whole in memory."""
    split = source.partitions(parts.partitions)
    start = np.array([part.pieces[0].first_sample for part in split], dtype=np.int64)
    first, n_samples = start, source.n_samples
    if source.lenient:  # rows with problems are only found by reading
        counted = _folder(parts, "counted")
        nowhere = Watch(source.path, lenient=True)
        records = over_partitions(
            parts, source, nowhere, count_rows, folder=counted, stage="counting samples"
        )
        size = np.array([record["samples"] for record in records], dtype=np.int64)
        first, n_samples = np.cumsum(size) - size, int(size.sum())
    chosen = rows_compared(n_samples, hierarchy)
    write = partial(pick_rows, start=start, first=first, chosen=chosen)
    folder = _folder(parts, "compared")
    records = over_partitions(parts, source, watch, write, folder=folder, stage="reading samples")
    is_list, labels = source.kind == "long", hierarchy.labels
    if any(record["listed"] for record in records):  # which a model does not compare, and says so
        return Table(scipy.sparse.csr_array((chosen.size, len(labels))), labels, is_list=is_list)
    rows = [np.load(part_file(folder, record["number"])) for record in records]
    return Table(np.concatenate(rows), labels, is_list=is_list)


def check_in_parts(
    model: ScoreModel, model_path: str, scores: str, reading: Reading, parts: Parts
) -> tuple[Table, ReadReport]:
    """Read the samples of a file that are compared; the report counts all of them."""
    source, watch = planned_source(scores, reading, parts, parts.folder, {"model": model_path})
    is_list = source.kind == "long"
    check_kind(model.kind_, is_list=is_list, is_complete=source.is_complete)
    table = compared(source, watch, parts, model.hierarchy_)
    return table, watch.report(samples=source.n_samples, labels=source.n_labels)


def count_rows(batches: Iterator[Batch], part: Path) -> Record:
    """Count the samples of a partition that have no problem."""
    part.touch()
    return {"samples": sum(int(numbers.size) for _, numbers in batches)}


def pick_rows(
    batches: Iterator[Batch], part: Path, *, start: Numbers, first: Numbers, chosen: NDArray[Any]
) -> Record:
    """Write the chosen samples of one partition.

    Partitions begin at the numbers `start`; their first sample without problems is the `first` of
    all such, among which `chosen` counts.
    """
    found, at, n_samples, n_labels = list[Any](), -1, 0, 0
    for values, numbers in batches:
        n_labels = values.shape[1]
        if not isinstance(values, np.ndarray):
            part.touch()
            return {"samples": int(numbers.size), "listed": True}
        if at < 0 and numbers.size:
            at = int(first[np.searchsorted(start, numbers[0], side="right") - 1])
        low, high = np.searchsorted(chosen, (at, at + numbers.size))
        found.append(values[chosen[low:high] - at])
        at += numbers.size
        n_samples += int(numbers.size)
    with part.open("wb") as file:
        np.save(file, np.concatenate(found) if found else np.empty((0, n_labels)))
    return {"samples": n_samples, "listed": False}


def _folder(parts: Parts, name: str) -> Path:
    folder = parts.folder / name
    folder.mkdir(exist_ok=True)
    return folder
