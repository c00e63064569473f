"""Writing files whole or not at all, and never over an input.

A file is written in a temporary directory beside its target and renamed when it is complete. If two
runs write the same output, the last one to finish replaces the whole file.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hierlpr._utils import AnyPath
from hierlpr.exceptions import FileError

MANIFEST = "_hierlpr.json"  # lists the files that hierlpr wrote into a directory


@contextmanager
def atomic_output(path: AnyPath, *, compress: bool = False) -> Iterator[Path]:
    """Yield a temporary path; the file written there replaces `path` when the block succeeds.

    Readers see the old file or the complete new one. After an error or an interruption `path` is
    unchanged. Links are followed, and the permissions of an existing file are kept.
    Directories, devices and pipes are refused. With `compress`, the finished file is compressed if
    the name of `path` ends in ``.gz``.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_output(Path(folder) / "a.txt") as part:
    ...         _ = part.write_text("whole")
    ...     print(os.listdir(folder))
    ['a.txt']
    """
    target = Path(os.path.realpath(path))
    _refuse_special_file(target, path)
    try:
        with tempfile.TemporaryDirectory(prefix=".hierlpr-", dir=target.parent) as folder:
            part = Path(folder) / target.name
            yield part
            if compress and target.name.lower().endswith(".gz"):
                # mtime=0: equal content gives equal files.
                part.write_bytes(gzip.compress(part.read_bytes(), mtime=0))
            with part.open("rb+") as stream:
                os.fsync(stream.fileno())
            if os.path.exists(target):
                shutil.copymode(target, part)
            os.replace(part, target)
    except OSError as error:
        if error.errno is None:
            raise
        hint = "" if target.parent.is_dir() else f"\nHint: create the folder {target.parent} first."
        raise FileError(f"{path}: cannot be written ({error.strerror}).{hint}") from error


def _refuse_special_file(target: Path, name: AnyPath) -> None:
    """Refuse to replace a directory, a device or a pipe."""
    if os.path.isdir(target):
        raise FileError(f"{name}: this is a folder; give the name of a file to write.")
    if os.path.exists(target) and not os.path.isfile(target):
        raise FileError(f"{name}: this is a device or a pipe; give the name of a file to write.")


def json_text(data: object) -> str:
    """Return plain values as indented JSON."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: AnyPath, data: object) -> None:
    """Write plain values as JSON."""
    with atomic_output(path) as part:
        # File names from a command line may hold bytes that are not valid text.
        part.write_bytes(json_text(data).encode("utf-8", errors="replace"))


@contextmanager
def output_directory(folder: AnyPath, names: Iterable[str]) -> Iterator[Path]:
    """Yield a directory to write the files `names` into; it is created if missing.

    A manifest in the directory lists the files that hierlpr wrote. Existing files that it does not
    list are not overwritten: the directory is refused.
    """
    folder, names = Path(folder), sorted(names)
    try:
        written = set(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, KeyError, TypeError):
        written = set()
    for name in names:
        if os.path.lexists(folder / name) and name not in written:
            raise FileError(
                f"{folder}: {name} exists, was not written by hierlpr, and would be overwritten.\n"
                "Hint: give another folder, or move the file away."
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{folder}: cannot create this folder ({error.strerror}).") from None
    try:
        yield folder
    finally:
        written |= {name for name in names if (folder / name).exists()}
        if written:
            write_json(folder / MANIFEST, {"files": sorted(written)})


def refuse_overlap(
    outputs: Mapping[str, AnyPath | None], inputs: Mapping[str, AnyPath | None]
) -> None:
    """Refuse outputs that are also inputs or other outputs, or lie in a folder that is an input.

    Outputs that are devices are refused too; ``-`` is standard output. Links are followed. The keys
    describe the paths in messages, such as ``"--out"``.
    """
    taken = {key: path for key, path in inputs.items() if path is not None}
    for key, path in outputs.items():
        if path is None or os.fspath(path) == "-":
            continue
        for other, used in taken.items():
            if _overlaps(os.fspath(path), os.fspath(used)):
                raise FileError(
                    f"{path}: {key} is also {other} ({used}), which would be overwritten.\n"
                    "Hint: give another name."
                )
        _refuse_special_file(Path(os.path.realpath(path)), path)
        taken[key] = path


def _overlaps(path: str, used: str) -> bool:
    """Whether two paths are the same file, or `path` lies in the folder `used`."""
    path, used = os.path.realpath(path), os.path.realpath(used)
    if path == used or path.startswith(used.rstrip(os.sep) + os.sep):
        return True
    try:
        return os.path.samefile(path, used)
    except (OSError, ValueError):
        return False
