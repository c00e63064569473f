"""The folder of an audit: a plan that is written once, and a log to which answers are appended."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hierlpr._utils import AnyPath
from hierlpr._utils.archives import Arrays, checksum, read_archive, write_archive
from hierlpr.exceptions import FileError

PLAN, LOG = "plan.npz", "answers.jsonl"
HEAD: Any = {"format": "hierlpr audit", "version": 2}
HINT = "Hint: give a folder that `hierlpr audit --out` or Audit.save wrote."

Entry = dict[str, Any]


def write_state(folder: AnyPath, arrays: Arrays, meta: dict[str, Any], log: list[Entry]) -> None:
    """Write the plan unless the folder has it, and append what its log does not have yet."""
    path, n_before = Path(folder) / PLAN, 0
    try:
        if path.exists():
            parts, before = read_state(folder)
            if parts["checksum"] != checksum(arrays, meta):
                raise FileError(
                    f"{folder}: this folder holds an audit of other scores or with other options.\n"
                    "Hint: give another folder, or continue this audit with its own answers."
                )
            n_before = len(before)
            if before != log[:n_before]:
                raise FileError(
                    f"{folder}: this folder has answers that are not in this audit.\n"
                    "Hint: read it with load_audit, and record there."
                )
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_name(LOG).unlink(missing_ok=True)
        with path.with_name(LOG).open("ab+") as stream:
            stream.seek(0)
            stream.truncate(stream.read().rfind(b"\n") + 1)  # a line that was cut off
            stream.write("".join(f"{json.dumps(entry)}\n" for entry in log[n_before:]).encode())
            stream.flush()
            os.fsync(stream.fileno())
        if not path.exists():  # last: a folder with a plan is complete
            write_archive(path, arrays, meta)
    except OSError as error:
        raise FileError(f"{folder}: cannot be written ({error.strerror}).") from None


def read_state(folder: AnyPath) -> tuple[dict[str, Any], list[Entry]]:
    """Read all parts of the plan, and the log; nothing in them can run code.

    A last line of the log that an interruption cut off does not count.
    """
    path = Path(folder) / PLAN
    try:
        arrays, meta = read_archive(path, **HEAD)
        path = path.with_name(LOG)
        log = [dict(json.loads(line)) for line in path.read_bytes().split(b"\n")[:-1]]
        if not log or "checks" not in log[0]:
            raise ValueError("its first line, with the number of checks, is missing")
        return {**meta, **arrays}, log
    except FileNotFoundError:
        raise FileError(f"{folder}: this folder holds no audit.\n{HINT}") from None
    except Exception as error:  # forged content can raise anything
        text = f"{path}: this is not the {'plan' if path.name == PLAN else 'log'} of an audit"
        raise FileError(f"{text} ({error}).\n{HINT}") from None
