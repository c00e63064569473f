"""Sample names of large files as Arrow text, and their numbers in order of first appearance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hierlpr.io.table_files import name_hashes

_LONGEST_TEXT = 2**31 - 1  # bytes that an Arrow array with short offsets holds


def joined_names(parts: list[Any]) -> pa.Array:
    """Return arrays of names as one; the list is emptied, so that its memory can be reused."""
    is_long = any(pa.types.is_large_string(part.type) for part in parts)
    if is_long or sum(part.nbytes for part in parts) > _LONGEST_TEXT:
        parts[:] = [part.cast(pa.large_string()) for part in parts]
    whole = pa.concat_arrays(parts) if parts else pa.array([], pa.string())
    parts.clear()
    pa.default_memory_pool().release_unused()
    return whole


class NameList:
    """Names in buffers that grow in place; a name takes its text and 4 bytes (8 from 2 GB on)."""

    def __init__(self) -> None:
        self._text, self._ends, self._is_long = bytearray(), bytearray(4), False

    def append(self, names: pa.Array) -> None:
        """Add an array of names."""
        names = names.cast(pa.large_string())
        _, offsets, text = names.buffers()
        ends = np.frombuffer(offsets, np.int64)[names.offset :][: len(names) + 1]
        n_before = len(self._text)
        self._text += memoryview(text or b"")[ends[0] : ends[-1]]
        if len(self._text) > _LONGEST_TEXT and not self._is_long:
            self._ends = bytearray(np.frombuffer(self._ends, np.int32).astype(np.int64))
            self._is_long = True
        ends = ends[1:] - ends[0] + n_before
        self._ends += ends.astype(np.int64 if self._is_long else np.int32).tobytes()

    def array(self) -> pa.Array:
        """Return all names; nothing can be appended as long as they are used."""
        kind, size = (pa.large_string(), 8) if self._is_long else (pa.string(), 4)
        buffers = [None, pa.py_buffer(self._ends), pa.py_buffer(self._text)]
        return pa.Array.from_buffers(kind, len(self._ends) // size - 1, buffers)


class _Run(NamedTuple):
    """Names that follow each other in number; `hashes` are sorted, of the names at `position`."""

    names: pa.Array
    hashes: NDArray[np.int64]
    position: NDArray[Any]


class NameNumbers:
    """Number names in order of first appearance.

    A name takes its text and 16 bytes. Its 64-bit hash finds it again, and the text confirms that.
    Each run of hashes is more than twice as long as the next, so that there are few to search.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._clashing: dict[str, int] = {}  # names with the hash of another name, not in runs

    def __len__(self) -> int:
        return sum(len(run.names) for run in self._runs)

    @property
    def n_bytes(self) -> int:
        """Memory that the names and their hashes take."""
        return sum(run.names.nbytes + 12 * len(run.names) for run in self._runs)

    def release(self) -> pa.Array:
        """Return all names by number, and forget them and their hashes."""
        parts = [run.names for run in self._runs]
        self._runs.clear()
        return joined_names(parts)

    def numbers(self, column: pa.Array) -> NDArray[np.int64]:
        """Return the number of each name of a column; new names get the next numbers."""
        coded = column.dictionary_encode()
        names = coded.dictionary
        hashes = name_hashes(names)
        number, is_clash, first = self._find(names, hashes)
        new = np.flatnonzero(number < 0)
        is_first = np.zeros(len(names), dtype=bool)
        is_first[new[np.unique(hashes[new], return_index=True)[1]]] = True
        is_clash |= (number < 0) & ~is_first
        for i in np.flatnonzero(is_clash).tolist():
            number[i] = self._clashing.get(names[i].as_py(), -1)
        new = np.flatnonzero(number < 0)
        number[new] = first + np.arange(new.size)
        for i in new[is_clash[new]].tolist():
            self._clashing[names[i].as_py()] = int(number[i])
        if new.size:
            position = np.flatnonzero(~is_clash[new])
            position = position[np.argsort(hashes[new[position]])].astype(np.int32)
            self._add(_Run(names.take(pa.array(new)), hashes[new[position]], position))
        return np.asarray(number[coded.indices.to_numpy()])

    def _find(
        self, names: pa.Array, hashes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], int]:
        """Return the number of each name (-1: none), which share a hash only, and how many are."""
        number, first = np.full(len(names), -1, dtype=np.int64), 0
        is_clash = np.zeros(len(names), dtype=bool)
        for run in self._runs:
            if run.hashes.size:
                at = np.minimum(np.searchsorted(run.hashes, hashes), run.hashes.size - 1)
                hit = np.flatnonzero(run.hashes[at] == hashes)
                position = run.position[at[hit]]
                same = pc.equal(run.names.take(pa.array(position)), names.take(pa.array(hit)))
                same = same.to_numpy(zero_copy_only=False)
                number[hit[same]] = first + position[same]
                is_clash[hit[~same]] = True
            first += len(run.names)
        return number, is_clash, first

    def _add(self, run: _Run) -> None:
        while self._runs and len(self._runs[-1].names) <= 2 * len(run.names):
            earlier = self._runs.pop()
            hashes = np.concatenate([earlier.hashes, run.hashes])
            position = np.concatenate([earlier.position, run.position + len(earlier.names)])
            order = np.argsort(hashes, kind="stable")
            names = joined_names([earlier.names, run.names])
            run = _Run(names, hashes[order], position[order].astype(np.int32))
        self._runs.append(run)
