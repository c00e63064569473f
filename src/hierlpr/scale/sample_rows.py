"""Samples of a ranking found by name in the truth, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.io.pairing import Absent, Seen, default_absent, judge_absent, unlisted_note
from hierlpr.scale.names import open_names

if TYPE_CHECKING:
    from hierlpr.scale.truth import StreamedTruth

__all__ = ["SampleRows"]


class SampleRows:
    """Numbers of samples: their row in the truth; those it lacks follow, or are left out.

    The names of the truth are looked up in mapped files; only names that the truth lacks are held.
    """

    def __init__(self, truth: StreamedTruth, absent: Absent | None) -> None:
        self._truth, self._absent = truth, absent
        names = open_names(truth.folder, truth.n_named)
        # A lenient reading may have left some of them out.
        self._known = names if truth.numbers.size == truth.n_named else names.take(truth.numbers)
        self._is_ranked = np.zeros(truth.numbers.size, dtype=bool)
        self._lost: list[str] = []
        self._keeps_lost = default_absent(absent, truth.layout) == "negative"
        self._first: list[str] = []

    def numbers(self, parts: Sequence[Any]) -> NDArray[np.int64]:
        """Return the number of each sample, -1 if it is left out; `parts` are text columns."""
        import pyarrow as pa
        import pyarrow.compute as pc

        names = pa.chunked_array([part.cast(pa.large_string()) for part in parts])
        if not self._first:
            self._first = list(dict.fromkeys(names.slice(0, 1000).to_pylist()))[:3]
        place = pc.index_in(names, value_set=self._known)
        number: NDArray[np.int64] = pc.fill_null(place, -1).to_numpy().astype(np.int64)
        if place.null_count:
            lost = np.flatnonzero(number < 0)
            number[lost] = self._add_lost(names.take(lost).combine_chunks())
        n_truth = self._truth.numbers.size
        self._is_ranked[number[number < n_truth]] = True
        if not self._keeps_lost:
            number[number >= n_truth] = -1
        return number

    def _add_lost(self, names: Any) -> NDArray[np.int64]:
        """Give numbers to names that are seen for the first time, and remember them."""
        import pyarrow as pa

        encoded = names.dictionary_encode(null_encoding="encode")
        first = len(self._known)
        self._lost += [name or "" for name in encoded.dictionary.to_pylist()]
        self._known = pa.concat_arrays([self._known, encoded.dictionary])
        numbers: NDArray[np.int64] = first + encoded.indices.to_numpy().astype(np.int64)
        return numbers

    def fresh(self) -> SampleRows:
        """Begin again, with nothing seen."""
        return SampleRows(self._truth, self._absent)

    def state(self) -> dict[str, Any]:
        """Return what was seen, as plain values."""
        ranked = np.packbits(self._is_ranked).tobytes().hex()
        return {"ranked": ranked, "lost": self._lost, "first": self._first}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        import pyarrow as pa

        bits = np.frombuffer(bytes.fromhex(state["ranked"]), dtype=np.uint8)
        self._is_ranked = np.unpackbits(bits)[: self._is_ranked.size].astype(bool)
        self._lost, self._first = state["lost"], state["first"]
        self._known = pa.concat_arrays([self._known, pa.array(self._lost, pa.large_string())])

    @property
    def n_negative(self) -> int:
        """How many samples that the truth lacks count as having no label."""
        return len(self._lost) if self._keeps_lost else 0

    @property
    def n_ranked(self) -> int:
        """How many samples the ranking has."""
        return int(np.count_nonzero(self._is_ranked)) + len(self._lost)

    def name(self, number: int) -> str:
        """Name of a sample."""
        return str(self._known[number].as_py())

    def notes(self, source: str) -> tuple[str, ...]:
        """Say what was left out or taken as negative; refuse what nothing is said about."""
        truth = self._truth
        known = self._known.slice(0, min(3, truth.numbers.size)).to_pylist()
        seen = Seen(
            source, "ranked", self.n_ranked, self._first, truth.report.path, truth.layout,
            truth.numbers.size, known, len(self._lost), self._lost[:5],
        )  # fmt: skip
        _, notes = judge_absent(seen, self._absent)
        unlisted = int(np.count_nonzero(~self._is_ranked))
        return (*notes, unlisted_note(unlisted)) if unlisted else notes
