"""Where bytes come from: local files, folders of Parquet files, and object stores by fsspec."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hierlpr._base.files import MADE, refuse_foreign_folder, refuse_overlap
from hierlpr._base.own_folders import claimed
from hierlpr.exceptions import FileError
from hierlpr.io._files import ending

__all__ = [
    "absolute",
    "fingerprint_file",
    "group_batches",
    "is_parquet",
    "is_remote",
    "open_bytes",
    "open_parquet",
    "output",
    "parquet_files",
    "upload",
]

SPOT = 1 << 16  # bytes at either end of a file that enter its fingerprint


def is_remote(path: str) -> bool:
    """Whether a path is the address of an object store, such as ``s3://bucket/scores.parquet``."""
    return "://" in path


def _filesystem(path: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise FileError(
            f"{path}: reading from an object store needs fsspec.\n"
            "Hint: pip install fsspec and the package for the store, such as s3fs or gcsfs."
        ) from None
    try:
        filesystem, inside = fsspec.core.url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise FileError(f"{path}: the store cannot be reached ({error}).") from None
    return filesystem, inside


def open_bytes(path: str) -> Any:
    """Open a file for reading bytes, wherever it is."""
    try:
        if is_remote(path):
            filesystem, inside = _filesystem(path)
            return filesystem.open(inside, "rb")
        return open(path, "rb")
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file.") from None
    except IsADirectoryError:
        raise FileError(f"{path}: this is a folder, not a file.") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error}).") from None


def is_parquet(path: str) -> bool:
    """Whether a path is a Parquet file, by its name or first bytes, or a folder of them."""
    if ending(path) == ".parquet" or (not is_remote(path) and os.path.isdir(path)):
        return True
    with open_bytes(path) as stream:
        return bool(stream.read(4) == b"PAR1")


def parquet_files(path: str) -> list[str]:
    """Return the Parquet files of a dataset in name order, or the file itself."""
    if is_remote(path):
        filesystem, inside = _filesystem(path)
        scheme = path.split("://", 1)[0]
        if filesystem.isdir(inside):
            found = [f"{scheme}://{name}" for name in filesystem.find(inside)]
        else:
            return [path]
    elif os.path.isdir(path):
        found = [os.path.join(path, name) for name in os.listdir(path)]
    else:
        return [path]
    kept = sorted(name for name in found if name.lower().endswith(".parquet"))
    if not kept:
        raise FileError(f"{path}: the folder holds no .parquet file.")
    return kept


def open_parquet(path: str, *, buffer_size: int = 0, dictionaries: Sequence[str] = ()) -> Any:
    """Open a Parquet file for reading row groups; refuse what is none.

    Text columns in `dictionaries` are read as codes and a dictionary.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = open_bytes(path) if is_remote(path) else path
    try:
        return pq.ParquetFile(
            source, buffer_size=buffer_size, read_dictionary=list(dictionaries) or None
        )
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file.") from None
    except (pa.ArrowException, OSError, EOFError) as error:
        raise FileError(
            f"{path}: this is no readable Parquet file ({reason(error)}).\n"
            "Hint: was it cut off while being copied or written?"
        ) from None


def group_batches(
    path: str, n_rows: int, columns: Sequence[str], *, dictionaries: Sequence[str] = ()
) -> Iterator[Any]:
    """Yield the record batches of a Parquet file, one row group after the other.

    Read in one go, Arrow would keep a part of every row group until the end.
    """
    import pyarrow as pa

    opened = open_parquet(path, buffer_size=1 << 20, dictionaries=dictionaries)
    at = 0
    try:
        for group in range(opened.num_row_groups):
            for batch in opened.iter_batches(n_rows, row_groups=[group], columns=list(columns)):
                yield batch
                at += batch.num_rows
    except (pa.ArrowException, OSError, EOFError) as error:
        raise FileError(
            f"{path}: cannot be read after row {at:,} ({reason(error)}).\n"
            "Hint: the file is damaged; copy or write it again."
        ) from None
    finally:
        opened.close()


def reason(error: BaseException) -> str:
    """First line of an error, short enough to show."""
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__


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
    filesystem, inside = _filesystem(target)
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
            _stored(*_filesystem(target), target)
        yield
        return
    if is_folder:
        refuse_foreign_folder(Path(target))
    with claimed(target):
        yield
