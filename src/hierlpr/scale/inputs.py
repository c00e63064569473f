"""Files as a whole: fingerprints of inputs, outputs held for one run, copies to object stores."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hierlpr._base.files import MADE, refuse_foreign_folder, refuse_overlap
from hierlpr._base.own_folders import claimed
from hierlpr.exceptions import FileError
from hierlpr.io.opening import filesystem_of, is_remote, open_bytes

__all__ = [
    "absolute",
    "fingerprint_file",
    "output",
    "upload",
]

SPOT = 1 << 16  # bytes at either end of a file that enter its fingerprint


def fingerprint_file(path: str) -> str:
    """Digest of a file's size, date and both ends: a changed file is recognised without a pass.

    The end of a Parquet file holds the places, sizes and statistics of all its columns.
    """
    digest = hashlib.blake2b(digest_size=16)
    with open_bytes(path) as stream:
        if not is_remote(path):
            digest.update(str(os.fstat(stream.fileno()).st_mtime_ns).encode())
        size = stream.seek(0, os.SEEK_END)
        digest.update(str(size).encode())
        for start in (0, max(0, size - SPOT)):
            stream.seek(start)
            digest.update(stream.read(SPOT))
    return digest.hexdigest()


def upload(part: Path, target: str) -> None:
    """Copy a finished file or folder to an object store, where an object appears whole."""
    filesystem, inside = filesystem_of(target)
    if not part.is_dir():
        filesystem.put_file(str(part), inside)
        return
    old = set(_stored(filesystem, inside, target))
    files = sorted(part.iterdir(), key=lambda file: (file.name == MADE, file.name))
    for file in files:  # the list of them comes last
        filesystem.put_file(str(file), f"{inside.rstrip('/')}/{file.name}")
    for name in sorted(old - {file.name for file in files}):
        filesystem.rm_file(f"{inside.rstrip('/')}/{name}")


def _stored(filesystem: Any, inside: str, target: str) -> list[str]:
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
                f"{target}: this folder holds {name}, which is no part of a ranking that hierlpr "
                "made, so it is not replaced.\nHint: give the name of a new folder."
            )
    return names


def absolute(path: str) -> str:
    """One spelling of a path or address."""
    return path if is_remote(path) else os.path.realpath(path)


@contextmanager
def output(
    target: str,
    inputs: Mapping[str, str],
    *,
    work: str | os.PathLike[str] | None = None,
    is_folder: bool = False,
) -> Iterator[None]:
    """Hold an output for this run alone; refuse what is not hierlpr's to write, before any work."""
    refuse_overlap({"the output": target}, inputs, work)
    if is_remote(target):
        if is_folder:
            _stored(*filesystem_of(target), target)
        yield
        return
    if is_folder:
        refuse_foreign_folder(Path(target))
    with claimed(target):
        yield
