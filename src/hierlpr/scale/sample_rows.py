"""Samples of a ranking found by name in the truth, a batch of rows at a time."""

from __future__ import annotations

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
        self._names = open_names(truth.folder, truth.n_named)
        self._row = np.full(truth.n_named + 1, -1, dtype=np.int64)
        self._row[truth.numbers] = np.arange(truth.numbers.size)
        self._is_ranked = np.zeros(truth.numbers.size, dtype=bool)
        self._lost: dict[str, int] = {}
        self._keeps_lost = default_absent(absent, truth.layout) == "negative"
        self._first: list[str] = []

    def numbers(self, names: Any) -> NDArray[np.int64]:
        """Return the number of each sample, -1 if it is left out."""
        import pyarrow as pa
        import pyarrow.compute as pc

        names = names.cast(pa.large_string())
        if not self._first:
            self._first = list(dict.fromkeys(names.slice(0, 1000).to_pylist()))[:4]
        place = pc.index_in(names, value_set=self._names)
        number: NDArray[np.int64] = self._row[pc.fill_null(place, self._truth.n_named).to_numpy()]
        lost = np.flatnonzero(number < 0)
        self._is_ranked[number[number >= 0]] = True
        if lost.size:
            encoded = names.take(lost).dictionary_encode()
            unknown = encoded.dictionary.to_pylist()
            given = [self._lost.setdefault(name or "", len(self._lost)) for name in unknown]
            if self._keeps_lost:
                offset = self._truth.numbers.size
                number[lost] = offset + np.array(given)[encoded.indices.to_numpy()]
        return number

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
        n_known = self._truth.numbers.size
        if number < n_known:
            return str(self._names[int(self._truth.numbers[number])].as_py())
        return next(name for name, i in self._lost.items() if i == number - n_known)

    def notes(self, source: str) -> tuple[str, ...]:
        """Say what was left out or taken as negative; refuse what nothing is said about."""
        truth = self._truth
        known = self._names.take(truth.numbers[:3]).to_pylist()
        seen = Seen(
            source, "ranked", self.n_ranked, self._first, truth.report.path, truth.layout,
            truth.numbers.size, known, len(self._lost), list(self._lost)[:5],
        )  # fmt: skip
        _, notes = judge_absent(seen, self._absent)
        unlisted = int(np.count_nonzero(~self._is_ranked))
        return (*notes, unlisted_note(unlisted)) if unlisted else notes
