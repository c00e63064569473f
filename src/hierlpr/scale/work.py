"""The folder a run works in: one run at a time, a plan to resume from, nothing left behind."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hierlpr import __version__
from hierlpr._base.files import work_file
from hierlpr._base.own_folders import own_folder
from hierlpr.exceptions import FileError
from hierlpr.scale.inputs import fingerprint_file

__all__ = ["WORK_VERSION", "Plan", "file_digest", "work_folder"]

WORK_VERSION = 3
_PLAN = "plan.json"


def file_digest(path: str) -> str:
    """Digest of a whole file."""
    try:
        return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error}).") from None


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


def _digests(names: Sequence[str] | str) -> dict[str, str] | str:
    if isinstance(names, str):
        return names
    return {name: fingerprint_file(name) for name in names}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run in a work folder depends on, and what an interrupted one had found out.

    `inputs` are digests of the files, the options and the versions; `found` is what `write` stored,
    None if there is nothing to resume.
    """

    folder: Path
    inputs: dict[str, Any]
    found: dict[str, Any] | None

    @classmethod
    def open(
        cls,
        folder: Path,
        files: Mapping[str, Sequence[str] | str],
        options: Mapping[str, Any],
        *,
        resume: bool,
    ) -> Plan:
        """Describe a run; to resume another's, with other files or options, is refused.

        `files` are lists of names, or digests.
        """
        inputs = {
            "the format of the work files": WORK_VERSION,
            "the version of hierlpr": __version__,
            **{f"the {what}": _digests(names) for what, names in files.items()},
            "the options": json.loads(json.dumps(options)),
        }  # fmt: skip
        try:
            stored = json.loads((folder / _PLAN).read_text(encoding="utf-8")) if resume else None
        except (FileNotFoundError, json.JSONDecodeError):
            shutil.rmtree(folder)  # killed before there was a plan
            folder.mkdir()
            stored = None
        if stored is None:
            return cls(folder, inputs, None)
        changed = [what for what, value in inputs.items() if stored["inputs"].get(what) != value]
        if changed:
            raise FileError(
                f"{folder}: {' and '.join(changed)} changed since the run that was interrupted, so "
                "it cannot be resumed.\nHint: run again without --resume to start over."
            )
        return cls(folder, inputs, stored["found"])

    def write(self, found: Mapping[str, Any]) -> None:
        """Store what is known now, whole or not at all."""
        with work_file(self.folder / _PLAN) as part:
            text = json.dumps({"inputs": self.inputs, "found": found})
            part.write_text(text, encoding="utf-8")
