"""The folder a run works in: one run at a time, a plan to resume from, nothing left behind."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hierlpr import __version__
from hierlpr._base.files import work_file
from hierlpr._base.own_folders import own_folder
from hierlpr.exceptions import FileError
from hierlpr.scale.files import fingerprint_file

__all__ = ["WORK_VERSION", "Inputs", "file_digest", "read_plan", "work_folder", "write_plan"]

WORK_VERSION = 2
_PLAN = "plan.json"
Inputs = dict[str, Any]


def file_digest(path: str) -> str:
    """Digest of a whole file."""
    try:
        return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error}).") from None


def inputs_of(files: list[str], model: str, options: dict[str, Any]) -> Inputs:
    """Everything a result depends on, as far as it can change between two runs."""
    return {
        "version": WORK_VERSION,
        "hierlpr": __version__,
        "model": file_digest(model),
        "scores": {file: fingerprint_file(file) for file in files},
        "options": options,
    }


@contextmanager
def work_folder(
    work: str | os.PathLike[str] | None, key: str, *, resume: bool = False
) -> Iterator[Path]:
    """Give a folder of this run's own in `work`, or among the system's temporary files.

    It is removed at the end. After an error it stays if `resume` asks to go on later, and a later
    run with the same `key` finds it again.
    """
    parent = Path(work) if work is not None else Path(tempfile.gettempdir())
    with own_folder(parent, name=parent, key=key, resume=resume, make_parent=True) as own:
        folder = own / "work"  # apart from the mark
        folder.mkdir(exist_ok=True)
        yield folder


def read_plan(folder: Path, inputs: Inputs) -> dict[str, Any] | None:
    """Return the plan of an interrupted run, None if there is none; refuse another run's."""
    try:
        plan: dict[str, Any] = json.loads((folder / _PLAN).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        shutil.rmtree(folder)  # killed before there was a plan
        folder.mkdir()
        return None
    changed = [what for what, value in inputs.items() if plan["inputs"].get(what) != value]
    if changed:
        words = {
            "version": "the format of the work files",
            "hierlpr": "the version of hierlpr",
            "model": "the model",
            "scores": "the scores",
            "options": "the options",
        }
        named = " and ".join(words[what] for what in changed)
        raise FileError(
            f"{folder}: {named} changed since the run that was interrupted, so it cannot be "
            "resumed.\nHint: run again without --resume to start over."
        )
    return plan


def write_plan(folder: Path, plan: dict[str, Any]) -> None:
    """Store the plan, whole or not at all."""
    with work_file(folder / _PLAN) as part:
        part.write_text(json.dumps(plan), encoding="utf-8")
