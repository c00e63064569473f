"""Every write of the package: whole or not at all, and nothing removed that is not hierlpr's.

A file is written in a folder of its own beside its target, see `hierlpr._base.own_folders`, and
renamed when it is complete. A folder of results carries a list of the files in it; only a folder
that holds these and nothing else is ever replaced.
"""

from __future__ import annotations

import ctypes
import gzip
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from hierlpr._base import AnyPath
from hierlpr._base.own_folders import OLD, own_folder
from hierlpr.exceptions import FileError

MADE = "_hierlpr.json"  # readers of Parquet folders pass over names that begin with _
_ENDS = 1 << 25  # bytes at either end of a file that tell it from another


# -- one file ---------------------------------------------------------------------------------


@contextmanager
def writing(path: AnyPath) -> Iterator[Path]:
    """Yield a path to write to; what was written there replaces `path` when the block succeeds.

    A reader sees the old file or the complete new one, never a part; on any error or interruption
    `path` stays as it was. A link is followed, and the permissions of an old file are kept.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise FileError(f"{path}: this is a folder; give the name of a file to write.")
    _refuse_device(target, path)
    try:
        with own_folder(target.parent, name=path) as folder:
            part = folder / target.name
            yield part
            _replace_file(part, target)
    except OSError as error:
        if error.errno is None or isinstance(error, FileError):
            raise
        raise FileError(f"{path}: cannot be written ({error.strerror}).") from error


def _refuse_device(target: Path, name: AnyPath) -> None:
    if target.exists() and not target.is_file() and not target.is_dir():
        raise FileError(f"{name}: this is a device or a pipe; give the name of a file to write.")


@contextmanager
def writing_text(path: AnyPath) -> Iterator[Path]:
    """As `writing`, but the finished file is gzipped if `path` ends in ``.gz``."""
    with writing(path) as part:
        yield part
        if str(path).lower().endswith(".gz"):
            # mtime=0 keeps equal content equal as a file.
            part.write_bytes(gzip.compress(part.read_bytes(), mtime=0))


def json_text(data: object) -> str:
    """Plain values as JSON, for people and programs."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: AnyPath, data: object) -> None:
    """Write plain values as JSON."""
    with writing(path) as part:
        # A name from a command line may hold bytes that are no text.
        part.write_bytes(json_text(data).encode("utf-8", errors="replace"))


@contextmanager
def work_file(target: Path) -> Iterator[Path]:
    """As `writing`, for a file in a folder of hierlpr's own that need not outlive a power cut."""
    part = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
    try:
        yield part
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def work_subfolder(parent: Path) -> Iterator[Path]:
    """Give a fresh folder in a folder of hierlpr's own; it is removed at the end."""
    folder = parent / f".{secrets.token_hex(8)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def settle(path: Path) -> None:
    """Push the bytes of a file, or the names in a folder, to disk."""
    if path.is_dir():
        if os.name == "posix":  # elsewhere a folder cannot be opened
            with suppress(OSError):  # some file systems refuse
                handle = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
        return
    with path.open("r+b") as stream:
        os.fsync(stream.fileno())


def _replace_file(part: Path, target: Path) -> None:
    settle(part)
    with suppress(FileNotFoundError):
        shutil.copymode(target, part)
    os.replace(part, target)
    settle(target.parent)


# -- a folder of files ------------------------------------------------------------------------


def list_made(folder: Path, names: Iterable[str] | None = None, *, what: str) -> None:
    """Write into a folder which files of it hierlpr made; by default all that are there.

    Files that were listed before stay listed.
    """
    if names is None:
        names = os.listdir(folder)
    files = {name: _mark_of(folder / name) for name in sorted(names) if name != MADE}
    write_json(folder / MADE, {"hierlpr": what, "files": {**_made_in(folder), **files}})


def _made_in(folder: Path) -> dict[str, str]:
    """Files that hierlpr made in a folder, with a digest of each."""
    try:
        data = json.loads((folder / MADE).read_text(encoding="utf-8"))
        files = data["files"] if "hierlpr" in data else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return files if isinstance(files, dict) else {}


def _mark_of(file: Path) -> str:
    with file.open("rb") as stream:
        return digest_of(stream, _ENDS)


def digest_of(stream: IO[bytes], most: int, *, also: bytes = b"") -> str:
    """Digest of a file's size and both its ends, `most` bytes of each; and of what else is told."""
    size = stream.seek(0, os.SEEK_END)
    digest = hashlib.blake2b(size.to_bytes(8, "little"), digest_size=16)
    stream.seek(0)
    digest.update(stream.read(most))
    stream.seek(max(stream.tell(), size - most))
    digest.update(stream.read(most))
    digest.update(also)
    return digest.hexdigest()


def _is_made(file: Path, made: Mapping[str, str]) -> bool:
    if file.name == MADE:
        return bool(made)
    try:
        return file.name in made and not file.is_symlink() and _mark_of(file) == made[file.name]
    except OSError:
        return False


def _refuse_foreign_files(folder: Path, names: Iterable[str]) -> None:
    """Refuse to write over files of these names that hierlpr did not make, or that changed."""
    made = _made_in(folder)
    for name in names:
        if os.path.lexists(folder / name) and not _is_made(folder / name, made):
            raise FileError(
                f"{folder}: {name} is there already, and is not as hierlpr left it; it would be "
                "overwritten.\nHint: give another folder, or move the file away."
            )


@contextmanager
def making(folder: AnyPath, names: Iterable[str], *, what: str) -> Iterator[Path]:
    """Give a folder to write these files into; it is made if it is missing.

    Refuses if the user has a file of such a name there, and lists in the end what was made.
    """
    folder, names = Path(folder), list(names)
    _refuse_foreign_files(folder, names)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{folder}: cannot make this folder ({error.strerror}).") from None
    try:
        yield folder
    finally:
        if made := [name for name in names if (folder / name).exists()]:
            list_made(folder, made, what=what)


def refuse_foreign_folder(folder: Path) -> None:
    """Refuse to replace what is neither an empty folder nor a whole one that hierlpr made."""
    if not folder.is_dir():
        if os.path.lexists(folder):
            raise FileError(
                f"{folder}: this is a file; a ranking without an ending is a folder.\n"
                "Hint: give another name, or an ending such as .parquet."
            )
        return
    made = _made_in(folder)
    for entry in folder.iterdir():
        if not _is_made(entry, made):
            raise FileError(
                f"{folder}: this folder holds {entry.name}, which is no part of a ranking that "
                "hierlpr made, so it is not replaced.\nHint: give the name of a new folder."
            )


def put_in_place(part: Path, target: Path) -> None:
    """Let a finished file or folder appear under its name at once, from any file system."""
    if not part.is_dir():
        with writing(target) as fresh:
            _move(part, fresh)
        return
    target = Path(os.path.realpath(target))
    for file in part.iterdir():
        settle(file)
    settle(part)
    with own_folder(target.parent, name=target) as folder:
        fresh = folder / "new"
        _move(part, fresh)
        refuse_foreign_folder(target)
        if not target.exists():
            os.rename(fresh, target)
        elif not _exchange(fresh, target):
            # Without an exchange in the file system there is a moment without either. Whoever
            # finds the own folder of a run that ended there puts the old one back.
            (folder / OLD).mkdir()
            try:
                os.rename(target, folder / OLD / target.name)
                os.rename(fresh, target)
            except BaseException:
                if not target.exists():
                    os.rename(folder / OLD / target.name, target)
                raise
        settle(target.parent)


def _move(part: Path, fresh: Path) -> None:
    """Rename, or copy to another file system."""
    try:
        os.rename(part, fresh)
    except OSError:
        if part.is_dir():
            shutil.copytree(part, fresh)
            for file in fresh.iterdir():
                settle(file)
        else:
            shutil.copyfile(part, fresh)


def _exchange(a: Path, b: Path) -> bool:
    """Swap two names in one step, where the system can (Linux, renameat2)."""
    at_cwd, exchange = -100, 2
    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    return bool(swap(at_cwd, os.fsencode(a), at_cwd, os.fsencode(b), exchange) == 0)


# -- inputs and outputs -----------------------------------------------------------------------


def refuse_overlap(
    outputs: Mapping[str, AnyPath | None],
    inputs: Mapping[str, AnyPath | None],
    work: AnyPath | None = None,
) -> None:
    """Refuse an output, or work folder, that is also an input, or lies in it, by any name.

    Outputs that are devices or pipes are refused too, before any work is done for them.
    The keys say what a path is for, in the words of the caller.
    """
    given = {key: os.fspath(path) for key, path in inputs.items() if path is not None}
    made = {key: os.fspath(path) for key, path in outputs.items() if path not in (None, "-")}
    for i, (key, path) in enumerate(made.items()):
        _refuse_device(Path(_plain(path)), path)
        for other, found in [*given.items(), *list(made.items())[:i]]:
            relation = _relation(path, found)
            if relation:
                raise FileError(
                    f"{path}: {key} {relation} {other} ({found}), which would be overwritten or "
                    "changed.\nHint: give another name."
                )
    if work is not None:
        for other, found in {**given, **made}.items():
            if _ids(found) is not None and os.path.isfile(found) and not _same(work, found):
                continue
            relation = _relation(os.fspath(work), found, only_inside=True)
            if relation:
                raise FileError(
                    f"{os.fspath(work)}: the work folder {relation} {other} ({found}).\n"
                    "Hint: give another folder."
                )


def _relation(path: str, other: str, *, only_inside: bool = False) -> str:
    """How two paths meet: "is also", "lies in", "holds", or not at all."""
    if _same(path, other):
        return "is also"
    if _inside(path, other):
        return "lies in"
    return "holds" if not only_inside and _inside(other, path) else ""


def _plain(path: AnyPath) -> str:
    """Path or address in one spelling."""
    text = os.fspath(path)
    for prefix in ("file://", "local://"):
        text = text.removeprefix(prefix)
    if "::" in text and not os.path.lexists(text):  # a table of a database: the file counts
        text = text.partition("::")[0]
    return text.rstrip("/") if "://" in text else os.path.realpath(text)


def _ids(path: AnyPath) -> tuple[int, int] | None:
    try:
        found = os.stat(_plain(path))
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _same(a: AnyPath, b: AnyPath) -> bool:
    if _plain(a) == _plain(b):
        return True
    return _ids(a) is not None and _ids(a) == _ids(b)


def _inside(path: AnyPath, folder: AnyPath) -> bool:
    """Whether a path lies below a folder, or is another name of a file in it."""
    text, above = _plain(path), _plain(folder)
    if text.startswith(above.rstrip("/" + os.sep) + ("/" if "://" in above else os.sep)):
        return True
    if "://" in text or not os.path.isdir(above):
        return False
    holder = _ids(above)
    if any(_ids(parent) == holder for parent in Path(text).parents):
        return True
    own = _ids(text)
    if own is None or os.path.isdir(text) or os.stat(text).st_nlink < 2:
        return False
    return any(_ids(os.path.join(above, name)) == own for name in os.listdir(above))
