"""Archives: one ``.npz`` of plain arrays with JSON metadata, a format version and a checksum.

Reading one runs no code from the file: arrays are read without pickle.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils import AnyPath
from hierlpr._utils.files import atomic_output
from hierlpr.exceptions import FileError

Arrays = dict[str, NDArray[Any]]


def write_archive(path: AnyPath, arrays: Arrays, meta: Mapping[str, Any]) -> None:
    """Write an archive; it is complete or not there. Equal contents give equal files."""
    text = json.dumps({**meta, "checksum": checksum(arrays, meta)}).encode()
    with atomic_output(path) as part, part.open("wb") as file:
        np.savez(file, **{**arrays, "meta": np.frombuffer(text, dtype=np.uint8)})  # type: ignore[arg-type]


def read_archive(path: AnyPath, *, format: str, version: int) -> tuple[Arrays, dict[str, Any]]:
    """Return arrays and metadata of a complete archive of this format and version.

    A `FileError` says what is wrong with another one; forged content can raise anything.
    """
    with zipfile.ZipFile(path) as archive:
        # Only stored members: compressed ones could expand to any size.
        if any(m.compress_type != zipfile.ZIP_STORED for m in archive.infolist()):
            raise FileError("it has compressed members, which such files never have.")
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: np.array(file[name]) for name in file.files}
    meta = json.loads(arrays.pop("meta").tobytes().decode())
    if not isinstance(meta, dict) or meta.get("format") != format:
        raise FileError(f"it is not a {format}.")
    if meta["version"] != version:
        raise FileError(f"it has format version {meta['version']}; this hierlpr reads {version}.")
    if meta["checksum"] != checksum(arrays, meta):
        raise FileError("its content does not match its checksum: it was changed or damaged.")
    return arrays, meta


def checksum(arrays: Arrays, meta: Mapping[str, Any]) -> str:
    """Return a hash of arrays and metadata."""
    text = json.dumps({k: v for k, v in meta.items() if k != "checksum"}, sort_keys=True)
    digest = hashlib.blake2b(text.encode(), digest_size=32)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
