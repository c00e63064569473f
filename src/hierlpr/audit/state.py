"""The folder of an audit: a plan that is written once, and a log to which answers are appended."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils import AnyPath
from hierlpr._utils.files import atomic_output
from hierlpr.exceptions import FileError

FORMAT, VERSION = "hierlpr audit", 2
PLAN, LOG = "plan.npz", "answers.jsonl"
HINT = "Hint: give a folder that `hierlpr audit --out` or Audit.save wrote."

Arrays = dict[str, NDArray[Any]]
Entry = dict[str, Any]


def fingerprint(meta: dict[str, Any], arrays: Arrays) -> str:
    """Return a hash of the plan, which depends on the scores, the options and the seed."""
    digest = hashlib.blake2b(json.dumps(meta, sort_keys=True).encode(), digest_size=16)
    for name in sorted(arrays):
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def write_state(folder: AnyPath, meta: dict[str, Any], arrays: Arrays, log: list[Entry]) -> None:
    """Write the plan unless the folder has it, and append what its log does not have yet."""
    path, mark = Path(folder) / PLAN, fingerprint(meta, arrays)
    if path.exists():
        *present, before = read_state(folder)
        if fingerprint(*present) != mark:
            raise FileError(
                f"{folder}: this folder holds an audit of other scores or with other options.\n"
                "Hint: give another folder, or continue this audit with its own answers."
            )
        if before != log[: len(before)]:
            raise FileError(
                f"{folder}: this folder has answers that are not in this audit.\n"
                "Hint: read it with load_audit, and record there."
            )
        log = log[len(before) :]
    head = {"format": FORMAT, "version": VERSION, "fingerprint": mark}
    text = json.dumps(head | meta).encode()
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_output(path) as part, part.open("wb") as stream:
                np.savez(stream, meta=np.frombuffer(text, np.uint8), **arrays)  # type: ignore[arg-type]
        if log:
            with path.with_name(LOG).open("ab+") as stream:
                stream.seek(0)
                stream.truncate(stream.read().rfind(b"\n") + 1)
                stream.write("".join(f"{json.dumps(entry)}\n" for entry in log).encode())
                stream.flush()
                os.fsync(stream.fileno())
    except OSError as error:
        raise FileError(f"{folder}: cannot be written ({error.strerror}).") from None


def read_state(folder: AnyPath) -> tuple[dict[str, Any], Arrays, list[Entry]]:
    """Read plan and log, of which a last line that an interruption cut off does not count.

    Nothing in them can run code.
    """
    path = Path(folder) / PLAN
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta: dict[str, Any] = json.loads(arrays.pop("meta").tobytes())
        if (meta.pop("format"), meta.pop("version")) != (FORMAT, VERSION):
            raise ValueError("another format")
        if meta.pop("fingerprint") != fingerprint(meta, arrays):
            raise ValueError("it is damaged or was changed")
        path = path.with_name(LOG)
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        log: list[Entry] = [dict(json.loads(line)) for line in lines]
    except FileNotFoundError:
        raise FileError(f"{folder}: this folder holds no audit.\n{HINT}") from None
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        text = f"{path}: this is not the {'plan' if path.name == PLAN else 'log'} of an audit"
        raise FileError(f"{text} ({error}).\n{HINT}") from None
    return meta, arrays, log
