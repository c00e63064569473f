"""The folder of an audit: a plan that is written once, and a log to which answers are appended."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils import AnyPath
from hierlpr._utils.files import atomic_output
from hierlpr.exceptions import FileError

FORMAT, VERSION = "hierlpr audit", 1
PLAN, LOG = "plan.npz", "answers.jsonl"
HINT = "Hint: give a folder that `hierlpr audit --out` or Audit.save wrote."

Arrays = dict[str, NDArray[Any]]
Entry = dict[str, Any]


def write_plan(folder: AnyPath, meta: dict[str, Any], arrays: Arrays) -> None:
    """Write the plan, unless the folder has it already; refuse the folder of another audit."""
    path = Path(folder) / PLAN
    if path.exists():
        present, _ = read_plan(folder)
        if present["fingerprint"] != meta["fingerprint"]:
            raise FileError(
                f"{folder}: this folder holds an audit of other scores or with other options.\n"
                "Hint: give another folder, or continue this audit with its own answers."
            )
        return
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{folder}: cannot create this folder ({error.strerror}).") from None
    text = json.dumps({"format": FORMAT, "version": VERSION, **meta})
    with atomic_output(path) as part, part.open("wb") as stream:
        np.savez(stream, meta=np.array(text), **arrays)  # type: ignore[arg-type]


def read_plan(folder: AnyPath) -> tuple[dict[str, Any], Arrays]:
    """Read the plan; nothing in it can run code."""
    path = Path(folder) / PLAN
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
            meta: dict[str, Any] = json.loads(str(arrays.pop("meta")))
        if (meta["format"], meta["version"]) != (FORMAT, VERSION):
            raise ValueError("another format")
    except FileNotFoundError:
        raise FileError(f"{folder}: this folder holds no audit.\n{HINT}") from None
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise FileError(f"{path}: this is not the plan of an audit ({error}).\n{HINT}") from None
    return meta, arrays


def read_log(folder: AnyPath) -> list[Entry]:
    """Read the log; a last line that an interruption cut off does not count."""
    path = Path(folder) / LOG
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    try:
        entries = [json.loads(line) for line in lines]
    except ValueError:
        raise FileError(f"{path}: this is not the log of an audit.\n{HINT}") from None
    if not all(isinstance(entry, dict) for entry in entries):
        raise FileError(f"{path}: this is not the log of an audit.\n{HINT}")
    return entries


def append_to_log(folder: AnyPath, entries: Iterable[Entry]) -> None:
    """Append what the log does not have yet; nothing in it is ever replaced."""
    present = {json.dumps(entry, sort_keys=True) for entry in read_log(folder)}
    lines = [json.dumps(entry, sort_keys=True) for entry in entries]
    missing = [line for line in lines if line not in present]
    if not missing:
        return
    try:
        with (Path(folder) / LOG).open("ab+") as stream:
            stream.seek(0)
            whole = stream.read().rfind(b"\n") + 1
            stream.truncate(whole)
            stream.write("".join(f"{line}\n" for line in missing).encode())
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise FileError(f"{folder}: cannot be written ({error.strerror}).") from None
