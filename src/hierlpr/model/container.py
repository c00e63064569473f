"""The container of a model file: an npz of plain arrays with JSON metadata, versions, a checksum.

Which file is read by which version:

- ``version`` is the same: the file is read. It would change only if no older version could make
  sense of anything in the file.
- Within a version, ``minor`` counts the additions. Fields that a later minor version added and
  that this one does not know are ignored, whether arrays or metadata, and are gone when the model
  is saved again; fields that an older one did not write take the default of the code that reads
  them, which must stand for how models were before the field was there.
- A model whose answers hang on an addition names it under ``needs``. Whoever does not know that
  name refuses the file instead of answering something else.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import listed
from hierlpr._base.files import writing
from hierlpr.exceptions import FileError, HierlprError

FORMAT = "hierlpr model"
FORMAT_VERSION = 1
# 1: `minor` and `needs`; 2: the kind of scores, LPRs of what is implied, keys of samples;
# 3: names of labels, how far the weights of the joint posterior go;
# 4: weights of depths for one path, sure labels by what they cost, companions of labels.
FORMAT_MINOR = 4
LISTED = "listed scores"
CLASSIFIER = "first stage"
BY_COST = "sure labels by cost"
# Additions that a file may need, all known here.
FEATURES = frozenset({LISTED, CLASSIFIER, BY_COST})
META = "meta"
_HINT = "Hint: give what `hierlpr fit --out` or model.save wrote, or save the model again."
_AT_ONCE = 1 << 20  # bytes of an array on their way from the file
Arrays = dict[str, NDArray[Any]]


def new_meta(needs: list[str]) -> dict[str, Any]:
    """Begin the metadata of a file whose answers hang on the additions `needs`."""
    return {"format": FORMAT, "version": FORMAT_VERSION, "minor": FORMAT_MINOR, "needs": needs}


def checksum(arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> str:
    """Digest all that a file says."""
    digest = hashlib.blake2b(digest_size=32)
    digest.update(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def write_model(path: str | os.PathLike[str], arrays: Arrays, meta: dict[str, Any]) -> None:
    """Write a file with its checksum, whole or not at all."""
    said = {**meta, "checksum": checksum(arrays, meta)}
    text = np.frombuffer(json.dumps(said).encode(), dtype=np.uint8)
    with writing(path) as part, part.open("wb") as file:
        write_npz(file, {**arrays, META: text})


def read_checked(path: str | os.PathLike[str]) -> tuple[Arrays, dict[str, Any]]:
    """Read the arrays and the metadata of a file that is whole and of a known version."""
    arrays = read_npz(Path(path))
    meta = _read_meta(arrays.pop(META, None))
    if checksum(arrays, {k: v for k, v in meta.items() if k != "checksum"}) != meta["checksum"]:
        raise FileError("its content does not match its checksum: it was changed or damaged.")
    return arrays, meta


@contextmanager
def telling(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever a damaged or forged file leads to into one error that names the file."""
    name = os.fspath(path)
    wrong = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)
    try:
        yield
    except FileError as error:
        hint = "" if "no such file" in str(error) else f"\n{_HINT}"
        raise FileError(f"{name}: {error}{hint}") from None
    except (HierlprError, *wrong) as error:
        raise FileError(f"{name} is no valid model: {error}.\n{_HINT}") from error


def write_npz(file: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays in the order of their names; equal arrays give equal bytes."""
    # Stored, with a fixed date: quick, the same bytes every time, and no bombs on reading.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            member = io.BytesIO()
            np.lib.format.write_array(
                member, np.ascontiguousarray(arrays[name]), allow_pickle=False
            )
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())


def read_npz(path: Path) -> Arrays:
    """Read the arrays of a file, which may hold anything."""
    try:
        size = path.stat().st_size
        with zipfile.ZipFile(path) as archive:
            return {
                member.filename.removesuffix(".npy"): _read_member(archive, member, size)
                for member in archive.infolist()
            }
    except FileNotFoundError:
        raise FileError("there is no such file.") from None
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise FileError(f"not a hierlpr model, or cut short ({error}).") from None
    except OSError as error:
        raise FileError(f"cannot be read ({error.strerror or error}).") from None


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> NDArray[Any]:
    """Decode one array, if its declared size is the true one, in a file of `most` bytes."""
    name = member.filename
    if member.compress_type != zipfile.ZIP_STORED or not name.endswith(".npy"):
        raise FileError(f"unexpected member {name!r}.")
    with archive.open(member) as stream:
        try:
            version = np.lib.format.read_magic(stream)
            if version != (1, 0):
                raise ValueError(f"array format {version}")
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        except ValueError as error:
            raise FileError(f"member {name!r} is no plain array ({error}).") from None
        is_plain = not dtype.hasobject and dtype.kind in "biuf" and not fortran
        size = math.prod(shape) * dtype.itemsize
        if not is_plain or size != member.file_size - stream.tell() or size > most:
            raise FileError(f"member {name!r} is no plain array of numbers.")
        # An array of its own is aligned and writable, as fitted ones are: kernels need no variant.
        array = np.empty(shape, dtype)
        room, at = array.reshape(-1).view(np.uint8).data, 0
        while part := stream.read(_AT_ONCE):
            room[at : at + len(part)] = part
            at += len(part)
    if at != size:
        raise FileError(f"member {name!r} is cut short.")
    return array


def _read_meta(member: NDArray[Any] | None) -> dict[str, Any]:
    """Decode the metadata, and refuse those of other formats and versions."""
    if member is None or member.dtype != np.uint8:
        raise FileError("not a hierlpr model: it has no metadata.")
    try:
        meta = json.loads(member.tobytes().decode())
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise FileError("its metadata are damaged.") from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT or "checksum" not in meta:
        raise FileError("not a hierlpr model: its metadata are of something else.")
    _check_version(meta)
    return meta


def _check_version(meta: Mapping[str, Any]) -> None:
    version, minor, needs = meta.get("version"), meta.get("minor", 0), meta.get("needs", [])
    if version != FORMAT_VERSION:
        raise FileError(
            f"it has format version {version}, but this hierlpr reads version {FORMAT_VERSION}."
        )
    if not isinstance(needs, list) or type(minor) is not int:
        raise FileError("its metadata are damaged.")
    unknown = [str(need) for need in needs if need not in FEATURES]
    if unknown:
        raise FileError(
            f"it was saved by a later hierlpr (format {version}.{minor}; this one writes "
            f"{FORMAT_VERSION}.{FORMAT_MINOR}) and needs {listed(unknown)}, which this one does "
            "not know. Update hierlpr."
        )
