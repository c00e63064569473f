"""Files are written whole or not at all, and never over an input; pipes are read only once.

A file is written in a temporary directory beside its target and renamed when it is complete. If two
runs write the same output, the last one to finish replaces the whole file.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hierlpr._utils import AnyPath
from hierlpr.exceptions import FileError

MANIFEST = "_hierlpr.json"  # lists the files that hierlpr wrote into a directory
SPOOLED: dict[str, str] = {}  # files with the content of pipes, by the names of these
STDOUT = 1
_STREAM = re.compile(r"/dev/(std(?:in|out|err))|(?:/dev|/proc/self)/fd/([0-9]{1,9})")


def spool(path: str, stream: Any, folder: AnyPath) -> None:
    """Copy a pipe to a file, which is read wherever `path` is: readers open files repeatedly."""
    SPOOLED[path] = os.path.join(folder, os.path.basename(path))
    with open(SPOOLED[path], "wb") as part:
        shutil.copyfileobj(stream, part)


def file_of(path: AnyPath) -> str:
    """Return the path of the file with the content of `path`, which may have been a pipe."""
    return SPOOLED.get(os.fspath(path), os.fspath(path))


def stream_number(path: AnyPath) -> int | None:
    """Return the number of the open stream that a path names, such as 1 for ``/dev/stdout``.

    Replacing what such a path leads to would destroy a file that is only appended to.
    """
    name = os.path.abspath(path)
    for _ in range(40):  # as many links as Linux follows
        if match := _STREAM.fullmatch(name):
            return int(match[2] or ("stdin", "stdout", "stderr").index(match[1]))
        try:
            name = os.path.normpath(os.path.join(os.path.dirname(name), os.readlink(name)))
        except (OSError, ValueError):
            return None
    return None


def copy_to_stream(file: AnyPath, number: int) -> None:
    """Append the content of a file to an open stream."""
    python = {1: sys.stdout, 2: sys.stderr}.get(number)
    if python is None and number in (1, 2):  # closed
        return
    with open(file, "rb") as content:
        if python is not None:
            python.flush()
            shutil.copyfileobj(content, python.buffer)
            python.flush()
            return
        with open(number, "wb", closefd=False) as stream:
            shutil.copyfileobj(content, stream)


@contextmanager
def atomic_output(path: AnyPath, *, compress: bool = False) -> Iterator[Path]:
    """Yield a temporary path; the file written there replaces `path` when the block succeeds.

    Readers see the old file or the complete new one. After an error or an interruption `path` is
    unchanged. Links are followed, and the permissions of an existing file are kept.
    Directories, devices and pipes are refused; to open streams, such as ``/dev/stdout``, the
    complete file is written. With `compress`, it is compressed if the name ends in ``.gz``.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_output(Path(folder) / "a.txt") as part:
    ...         _ = part.write_text("whole")
    ...     print(os.listdir(folder))
    ['a.txt']
    """
    if (number := stream_number(path)) is not None:
        with tempfile.TemporaryDirectory(prefix="hierlpr-") as folder:
            part = Path(folder) / Path(path).name
            yield part
            try:
                copy_to_stream(part, number)
            except OSError as error:
                raise FileError(f"{path}: cannot be written ({error.strerror}).") from error
        return
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


def check_page_name(path: AnyPath | None) -> None:
    """Refuse to write an HTML page under the name of another kind of file."""
    kind = Path("" if path is None else path).suffix.lower()
    if kind not in ("", ".html", ".htm"):
        text = f"{path}: the report is an HTML page; {kind} files are not written."
        raise FileError(
            f"{text}\nHint: name it {Path(path or '').stem}.html; a browser prints PDF."
        )


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

    Outputs that are devices are refused too, except open streams, each of which takes one output;
    ``-`` is standard output. Links are followed. The keys describe the paths in messages.
    """
    taken = {key: path for key, path in inputs.items() if path is not None}
    streams: dict[int, str] = {}
    for key, path in outputs.items():
        if path is None:
            continue
        number = STDOUT if os.fspath(path) == "-" else stream_number(path)
        if number is not None:
            if streams.setdefault(number, key) != key:
                name = "stdout" if number == STDOUT else os.fspath(path)
                raise FileError(f"{streams[number]} and {key} cannot both go to {name}.")
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
