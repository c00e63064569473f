"""Where a table goes: one file, or a folder of Parquet files; the whole of it, or nothing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base import AnyPath
from hierlpr._base.checks import check_choice
from hierlpr._base.files import (
    MADE,
    list_made,
    put_in_place,
    refuse_foreign_folder,
    refuse_overlap,
    writing,
)
from hierlpr._base.own_folders import claimed
from hierlpr.data.label_sets import check_kind
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError, FileError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io import ReadTable, Watch
from hierlpr.io.opening import ending, filesystem_of, is_remote
from hierlpr.io.table_output import ENDINGS
from hierlpr.scale.budget import estimate_instances
from hierlpr.scale.parts import How, Parts, fingerprint
from hierlpr.scale.source import Batch, Reading, Source
from hierlpr.scale.spool import planned_source

if TYPE_CHECKING:
    from hierlpr.model import ScoreModel


def output_kind(
    out: str, how: How, *, endings: tuple[str, ...] = ENDINGS, what: str = "ranking file"
) -> str:
    """Return the ending that decides the layout of a table; none means a folder of Parquet."""
    kind = ending(out)
    on_cluster = isinstance(how.scheduler, str) or getattr(how.scheduler, "is_cluster", False)
    if kind and not on_cluster:
        return check_choice(kind, endings, name=f"the ending of the {what}")
    if kind not in ("", ".parquet"):
        raise DataError(
            f"{out}: a run on a cluster writes a folder of Parquet files, not {kind}.\n"
            "Hint: give the name of a folder, with or without .parquet."
        )
    return ""


def captions_of(hierarchy: Hierarchy, kind: str, out: str) -> tuple[str, ...]:
    """Return the names for people of all labels, empty for those that have none."""
    if kind == ".tsv":
        raise DataError(
            f"{out}: the CAFA layout has no place for names.\nHint: write .csv or .parquet instead."
        )
    if not hierarchy.names:
        raise DataError(
            "The model has no names of labels.\nHint: fit it with a hierarchy that has them, or "
            "with a table of codes and names (--names)."
        )
    return tuple(hierarchy.names.get(label, "") for label in hierarchy.labels)


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


# -- a model used on a file -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """A model that is used on a file of scores: where its rows go, how, and whether at once."""

    model: ScoreModel
    model_path: str
    scores: str
    out: str
    kind: str  # of the output
    reading: Reading
    captions: tuple[str, ...] | None
    how: How
    whole: bool

    def read(self) -> ReadTable:
        """Read all scores."""
        self.how.say("reading scores", 0, 1)
        return self.reading.scores(self.scores)

    def source(self, parts: Parts, **options: Any) -> tuple[Source, Watch]:
        """Make the scores ready to be read in partitions; `options` are what rows depend on."""
        files = {"model": self.model_path}
        source, watch = planned_source(
            self.scores, self.reading, parts, parts.folder, files, **options
        )
        is_list = source.kind == "long"
        check_kind(self.model.kind_, is_list=is_list, is_complete=source.is_complete)
        return source, watch

    @property
    def text(self) -> dict[str, Any]:
        """Options of a `TableWriter`."""
        return {"is_packed": self.out.lower().endswith(".gz"), "captions": self.captions}


@contextmanager
def use_model(
    model: AnyPath,
    scores: AnyPath,
    out: AnyPath,
    how: Mapping[str, Any],
    *,
    aliases: Mapping[str, str] | None,
    lenient: bool,
    with_names: bool,
    **layouts: Any,
) -> Iterator[Use]:
    """Load a model to be used on the samples of a file, and hold the output for it."""
    from hierlpr.model import load_score_model

    options, source, target = How(**how), os.fspath(scores), os.fspath(out)
    refuse_overlap({"the output": out}, {"the model": model, "the scores": source}, options.work)
    kind = output_kind(target, options, **layouts)
    with claimed_output(target, is_folder=not kind):
        fitted = load_score_model(model)
        reading = Reading.by(fitted, aliases, lenient=lenient)
        captions = captions_of(fitted.hierarchy_, kind, target) if with_names else None
        whole = bool(kind) and not options.asks_for_parts(source, target)
        whole = whole and options.budget.holds(estimate_instances(source))
        yield Use(fitted, os.fspath(model), source, target, kind, reading, captions, options, whole)


class Shared(NamedTuple):
    """A model file that tasks use, wherever they run, and whether scores come as a list."""

    path: str
    digest: str  # tells apart models that share a path
    is_list: bool

    @classmethod
    def of(cls, path: str, source: Source) -> Shared:
        """Describe a model for the scores of a source."""
        return cls(path, fingerprint(path), source.kind == "long")

    def load(self) -> ScoreModel:
        """Load the model, once in each process."""
        return _loaded(self)

    def tables(self, batches: Iterator[Batch]) -> Iterator[tuple[Table, NDArray[np.int64]]]:
        """Yield the scores of batches as the model takes them, and the numbers of the samples."""
        for values, numbers in batches:
            yield Table(values, self.load().hierarchy_.labels, is_list=self.is_list), numbers


@lru_cache(maxsize=2)
def _loaded(shared: Shared) -> ScoreModel:
    from hierlpr.model import load_score_model

    return load_score_model(shared.path)
