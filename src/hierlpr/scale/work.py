"""The folder a run works in: one run at a time, a plan to resume from, nothing left behind."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hierlpr import __version__
from hierlpr.exceptions import FileError
from hierlpr.scale.files import fingerprint_file

__all__ = ["WORK_VERSION", "Inputs", "file_digest", "read_plan", "work_folder", "write_plan"]

WORK_VERSION = 2
_PLAN = "plan.json"
_LOCK = "lock"
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
def work_folder(folder: Path, *, resume: bool) -> Iterator[Path]:
    """Give a folder that no other run uses; empty unless `resume`.

    It is removed at the end. After an error it stays if `resume` asks to go on later.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / _LOCK).open("w")
    except OSError as error:
        raise FileError(
            f"{folder}: cannot be made ({error.strerror or error}).\n"
            f"Hint: does the folder {folder.parent} exist, and may you write there?"
        ) from None
    with lock:
        _take(lock, folder)
        if not resume:
            _clear(folder)
        try:
            yield folder
        except BaseException:
            if not resume:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)


def _take(lock: Any, folder: Path) -> None:
    with suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileError(
                f"{folder}: another run is writing the same output.\n"
                "Hint: wait for it, or give another --out."
            ) from None
        except OSError:  # a file system without locks
            return


def _clear(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.name == _LOCK:
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def read_plan(folder: Path, inputs: Inputs) -> dict[str, Any] | None:
    """Return the plan of an interrupted run, None if there is none; refuse another run's."""
    try:
        plan: dict[str, Any] = json.loads((folder / _PLAN).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        _clear(folder)
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
    part = folder / f"{_PLAN}.part"
    part.write_text(json.dumps(plan), encoding="utf-8")
    os.replace(part, folder / _PLAN)
