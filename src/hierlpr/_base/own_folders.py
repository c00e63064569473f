"""Folders and locks that a run makes, marks as its own, and removes; leftovers of killed runs.

A run works in fresh folders ``.hierlpr-TOKEN``. The first thing in one is its mark: a file with
the token, locked as long as the run lives. A folder whose name and mark hold the same token, and
whose lock is free, was left by a run that was killed; the next run in the same place removes it.
Nothing else is ever removed.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hierlpr._base import AnyPath
from hierlpr.exceptions import FileError

OLD = "old"  # where an own folder keeps a folder of the user's for the moment of a swap
_MARK = "hierlpr-run.json"
_FOLDER = re.compile(r"\.hierlpr-([0-9a-f]{16})")
_LOCK = re.compile(r"\.hierlpr-([0-9a-f]{16})\.lock")
_PATIENCE = 0.5  # seconds until a busy lock is believed: others look at it for a moment

# What this process has made and not removed yet: its open lock, None before there is one.
_held: dict[Path, Any] = {}
_cleaned: set[Path] = set()
if hasattr(os, "register_at_fork"):  # a child has made nothing yet
    os.register_at_fork(after_in_child=_held.clear)


# -- folders ----------------------------------------------------------------------------------


@contextmanager
def own_folder(
    parent: AnyPath,
    *,
    name: AnyPath,
    key: str = "",
    resume: bool = False,
    make_parent: bool = False,
) -> Iterator[Path]:
    """Give an empty folder in `parent` that is removed at the end, with all that is in it.

    Parameters
    ----------
    parent : path
        Where the folder is made.
    name : path
        What it is for, in messages.
    key : str
        Names the task. A run that left a folder of the same key can be resumed.
    resume : bool
        Go on in the folder that an interrupted run of the same key left, if there is one; and
        keep the folder if this run fails.
    make_parent : bool
        Make `parent` if it is missing, and remove it again if it is empty in the end.
    """
    parent = Path(os.path.abspath(parent))
    made = _make_parents(parent, name) if make_parent else 0
    about: dict[str, Any] = {"key": key, "keep": resume, "made": made}
    folder: Path | None = None
    try:
        if key or parent not in _cleaned:
            folder = _clean(parent, about, resume=resume)
            _cleaned.add(parent)
        if folder is None:
            folder = _fresh(parent, about, name)
        else:
            _write_mark(_held[folder], folder, about)
        try:
            yield folder
        except BaseException:
            if resume:
                _held.pop(folder).close()  # left to a later run
            raise
        with suppress(OSError):  # what is half removed cannot be resumed
            _write_mark(_held[folder], folder, {"key": "", "keep": False, "made": about["made"]})
    finally:
        if folder in _held:
            _discard(folder)
        _remove_made(parent, about["made"])


def _make_parents(parent: Path, name: AnyPath) -> int:
    """Make a folder; return how many levels were missing."""
    missing = [level for level in (parent, *parent.parents) if not level.exists()]
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_make(parent, name, error) from None
    return len(missing)


def _remove_made(parent: Path, n_levels: int) -> None:
    for level in (parent, *parent.parents)[:n_levels]:
        with suppress(OSError):  # somebody else uses it
            level.rmdir()


def _fresh(parent: Path, about: dict[str, Any], name: AnyPath) -> Path:
    while True:
        folder = parent / f".hierlpr-{secrets.token_hex(8)}"
        _held[folder] = None  # before it is there, so that no interruption can leave it behind
        try:
            folder.mkdir()
            with suppress(FileNotFoundError):  # another run took the empty folder for a leftover
                mark = (folder / _MARK).open("x+b", buffering=0)
                if _lock(mark, folder / _MARK):
                    _held[folder] = mark
                    _write_mark(mark, folder, about)
                    return folder
                mark.close()
        except OSError as error:
            _discard(folder)
            raise _cannot_make(parent, name, error) from None
        _held.pop(folder)


def _cannot_make(parent: Path, name: AnyPath, error: OSError) -> FileError:
    return FileError(
        f"{os.fspath(name)}: cannot be written ({error.strerror or error}).\n"
        f"Hint: does the folder {parent} exist, and may you write there?"
    )


def _write_mark(mark: Any, path: Path, about: dict[str, Any]) -> None:
    """Say in an open mark whose it is."""
    data = {"hierlpr": path.name, "host": platform.node(), "pid": os.getpid(), **about}
    text = json.dumps(data).encode()
    mark.seek(0)
    if mark.write(text) != len(text):
        raise OSError(28, "No space left on device", str(path))
    mark.truncate()


def _read_mark(mark: Any, path: Path) -> dict[str, Any] | None:
    """Content of a mark that belongs to this path; None if hierlpr did not write it."""
    mark.seek(0)
    try:
        data = json.loads(mark.read(1 << 16))
        return data if data["hierlpr"] == path.name else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _discard(folder: Path) -> None:
    """Remove a folder that this process holds; the mark goes last, so that it can be found."""
    mark = _held.get(folder)
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            if entry.name == OLD:
                _put_back(folder)
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != _MARK:
                Path(entry.path).unlink()
    if mark is not None:
        mark.close()
    with suppress(OSError):
        if set(os.listdir(folder)) <= {_MARK}:
            (folder / _MARK).unlink(missing_ok=True)
            folder.rmdir()
    _held.pop(folder, None)


def _put_back(folder: Path) -> None:
    """Give a folder its name again if a run was killed in the moment of replacing it."""
    for old in (folder / OLD).iterdir():
        target = folder.parent / old.name
        if not os.path.lexists(target):
            os.rename(old, target)


def _clean(parent: Path, about: dict[str, Any], *, resume: bool) -> Path | None:
    """Remove what killed runs left; return the folder to resume in, if there is one."""
    found: Path | None = None
    try:
        names = [name for name in os.listdir(parent) if name.startswith(".hierlpr-")]
    except OSError:
        return None
    for path in (parent / name for name in sorted(names)):
        if path in _held or path.is_symlink():
            continue
        if _LOCK.fullmatch(path.name):
            _remove_lock(path)
        elif _FOLDER.fullmatch(path.name):
            wanted = found is None and resume
            found = _remove_folder(path, about, wanted=wanted) or found
    return found


def _remove_folder(folder: Path, about: dict[str, Any], *, wanted: bool) -> Path | None:
    """Remove the folder of a killed run, unless it can be resumed; return it if by this run."""
    mark = _take(folder / _MARK)
    if mark is None:
        with suppress(OSError):
            folder.rmdir()  # empty: its run was killed before it could mark it
        return None
    data = _read_mark(mark, folder)
    is_mine = data is not None and about["key"] == data.get("key") != ""
    if data is None and os.fstat(mark.fileno()).st_size:
        mark.close()  # somebody else's
    elif data is not None and data.get("keep") and not is_mine:
        mark.close()  # can be resumed, but not by this run
    else:
        if data is not None:
            about["made"] = max(about["made"], int(data.get("made", 0)))
        _held[folder] = mark
        if is_mine and wanted:
            return folder
        _discard(folder)
    return None


# -- locks ------------------------------------------------------------------------------------


@contextmanager
def claimed(out: AnyPath) -> Iterator[None]:
    """Hold an output for this run alone; refuse if another run is writing it."""
    target = Path(os.path.realpath(out))
    digest = hashlib.blake2b(os.fsencode(target.name), digest_size=8).hexdigest()
    path = target.parent / f".hierlpr-{digest}.lock"
    _clean(target.parent, {"key": "", "made": 0}, resume=False)
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            with _unbroken():
                lock = _take(path, create=True)
                if lock is not None and not _is_foreign(lock, path):
                    _held[path] = lock
        except OSError as error:
            raise _cannot_make(target.parent, out, error) from None
        if lock is not None:
            break
        if time.monotonic() > until:
            raise FileError(
                f"{os.fspath(out)}: another run is writing the same output.\n"
                "Hint: wait for it, or give another --out."
            )
        time.sleep(0.02)
    if path not in _held:
        lock.close()
        raise FileError(f"{path}: this file is not hierlpr's, but has the name of its lock.")
    try:
        _write_mark(lock, path, {"out": target.name})
        yield
    finally:
        _release(path)


def _is_foreign(lock: Any, path: Path) -> bool:
    """Whether an open lock holds something that hierlpr did not write."""
    return bool(os.fstat(lock.fileno()).st_size) and _read_mark(lock, path) is None


def _release(path: Path) -> None:
    lock = _held.get(path)
    if lock is not None:
        with suppress(OSError):
            path.unlink()
        lock.close()
        with suppress(OSError):  # where an open file cannot be removed
            if os.name == "nt":
                path.unlink()
    _held.pop(path, None)


def _remove_lock(path: Path) -> None:
    """Remove the lock of a killed run."""
    lock = _take(path)
    if lock is not None:
        if _is_foreign(lock, path):
            lock.close()
            return
        _held[path] = lock
        _release(path)


def _take(path: Path, *, create: bool = False) -> Any:
    """Open and lock a file; None if it is not there, or another run holds it."""
    flags = os.O_RDWR | getattr(os, "O_BINARY", 0) | (os.O_CREAT if create else 0)
    try:
        file = os.fdopen(os.open(path, flags, 0o666), "r+b", 0)
    except OSError:
        if create:
            raise
        return None
    if _lock(file, path):
        return file
    file.close()
    return None


def _lock(file: Any, path: Path) -> bool:
    """Lock an open file until it is closed, or its process ends."""
    try:
        _lock_bytes(file)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system without locks
        data = _read_mark(file, path if path.name != _MARK else path.parent)
        if data is not None and _is_alive(data):
            return False
    try:  # it may have been removed before it was locked
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except OSError:
        return False


def _lock_bytes(file: Any) -> None:
    try:
        import fcntl
    except ImportError:
        import msvcrt

        file.seek(1 << 30)  # beyond the content, which others may read
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_alive(data: dict[str, Any]) -> bool:
    """Whether the run that wrote a mark may still be there; without locks, by its number."""
    if os.name != "posix" or data.get("host") != platform.node():
        return True
    try:
        os.kill(int(data["pid"]), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError, KeyError):
        return True
    return True


# -- interruption -----------------------------------------------------------------------------


class _Stop:
    """Whether the process was asked to stop."""

    asked = False


class _Shield:
    """How many stretches of code must not be interrupted now, and whether one would have been."""

    depth = 0
    was_hit = False


@contextmanager
def _unbroken() -> Iterator[None]:
    """Put an interruption off to the end: what was made must be noted before anything else."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _Shield.depth += 1
    try:
        yield
    finally:
        _Shield.depth -= 1
        if _Shield.depth == 0 and _Shield.was_hit:
            _Shield.was_hit = False
            raise KeyboardInterrupt


@contextmanager
def stopping_cleanly() -> Iterator[_Stop]:
    """Let SIGTERM and SIGHUP interrupt like Ctrl-C, and leave nothing behind in any case."""
    stop = _Stop()

    def interrupt(number: int, frame: Any) -> None:
        stop.asked = True
        if _Shield.depth:
            _Shield.was_hit = True
            return
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    others, before = set(_held), {}
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        number = getattr(signal, name, None)
        if number and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            before[number] = signal.signal(number, interrupt)
    try:
        yield stop
    finally:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        _discard_all(others)
        for number, handler in before.items():
            signal.signal(number, handler)


def _discard_all(others: set[Path]) -> None:
    """Remove what an interruption kept from being removed, but for what others hold."""
    for path in set(_held) - others:
        mark = _held[path]
        if _LOCK.fullmatch(path.name):
            _release(path)
        elif mark is not None and not mark.closed and (_read_mark(mark, path) or {}).get("keep"):
            _held.pop(path).close()
        else:
            _discard(path)


atexit.register(_discard_all, set())
