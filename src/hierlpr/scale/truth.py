"""Truth of any size as sets of labels, read in a stream; and samples found in it by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.data.label_sets import LabelSets
from hierlpr.exceptions import HierlprError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io import Watch
from hierlpr.io.cell_values import as_numbers
from hierlpr.io.row_rules import none_left
from hierlpr.io.table_output import arrow_numbers
from hierlpr.io.whole_tables import Absent, Closing, TruthSets, default_absent, judge_absent
from hierlpr.scale.budget import Budget, open_names
from hierlpr.scale.source import Reading
from hierlpr.scale.spool import open_source

POSITIVE_BYTES = 16  # of working memory: by rows, by labels, and while they change


def stream_truth(path: str, reading: Reading, folder: Path, budget: Budget) -> TruthSets:
    """Read truth as `hierlpr.io.read_truth` does, holding positives and unknown pairs alone."""
    folder.mkdir()
    h = reading.hierarchy
    source, watch = open_source(path, reading, folder, budget, "truth")
    names = open_names(folder, source.n_samples)
    closing = Closing(h, reading.aliases, source.layout, watch, reading.close)
    rows = _Labels(h, closing, watch, budget, names)
    for given, numbers in source.sets(watch):
        rows.add(given, numbers)
    if source.kind == "wide" and not rows.numbers:
        raise none_left(watch)
    closing.finish()
    sets, numbers = rows.finish(is_sparse=source.kind == "long")
    if numbers.size < source.n_samples:  # a lenient reading may have left some of them out
        names = names.take(arrow_numbers(numbers))
    report = watch.report(samples=numbers.size, labels=h.n_labels)
    return TruthSets(sets, names, report, source.layout)


class _Labels:
    """Collect the labels of samples, with their ancestors, and those that are open."""

    def __init__(
        self, hierarchy: Hierarchy, closing: Closing, watch: Watch, budget: Budget, names: Any
    ) -> None:
        self._hierarchy, self._closing, self._names = hierarchy, closing, names
        self._watch, self._budget = watch, budget
        self._held: list[LabelSets] = []
        self._open: list[LabelSets] = []
        self.numbers: list[NDArray[np.int64]] = []
        self._n_held = 0

    def add(self, given: LabelSets, numbers: NDArray[np.int64]) -> None:
        if not numbers.size:
            return
        sets = self._closing.add(given, lambda sample: self._names[int(numbers[sample])].as_py())
        self._n_held += sets.label.size
        n_open = self._closing.n_open
        if (self._n_held + n_open) * POSITIVE_BYTES > self._budget.memory:
            what = f"{self._n_held:,} positives"
            what += f" and {n_open:,} unknown pairs" if n_open else ""
            raise HierlprError(
                f"{self._watch.path}: {what} and more do not fit in the memory.\n"
                f"Hint: give more --memory; each takes {POSITIVE_BYTES} bytes of it."
            )
        self._held.append(sets)
        nothing = LabelSets(np.zeros(numbers.size + 1, np.int64), np.empty(0, np.int32), 0)
        self._open.append(sets.open or nothing)
        self.numbers.append(numbers)

    def finish(self, *, is_sparse: bool) -> tuple[LabelSets, NDArray[np.int64]]:
        """Return the sets, and the number of each sample among the names."""
        numbers = np.concatenate([np.empty(0, np.int64), *self.numbers])
        # Samples without any label may be in no row group of a long table.
        n_samples = len(self._names) if is_sparse else None
        held = self._joined(self._held, numbers, n_samples)
        if self._closing.n_open:
            held = replace(held, open=self._joined(self._open, numbers, n_samples))
        return held, numbers if n_samples is None else np.arange(n_samples)

    def _joined(
        self, parts: list[LabelSets], numbers: NDArray[np.int64], n_samples: int | None
    ) -> LabelSets:
        """Put the sets of all samples one after the other."""
        sizes = np.concatenate([np.empty(0, np.int64), *(np.diff(x.row_ptr) for x in parts)])
        if n_samples is not None:
            every = np.zeros(n_samples, dtype=np.int64)
            every[numbers] = sizes
            sizes = every
        labels = np.concatenate([np.empty(0, np.int32), *(x.label for x in parts)])
        parts.clear()
        return LabelSets(np.append(0, np.cumsum(sizes)), labels, self._hierarchy.n_labels)


class TruthRows:
    """Samples found by name in the truth, some at a time.

    The number of a sample is its row in the truth; those that the truth lacks follow, or are left
    out. The names of the truth are looked up in mapped files.
    """

    def __init__(self, truth: TruthSets, absent: Absent | None) -> None:
        self._truth, self._absent = truth, absent
        self._known = truth.samples
        self._is_met = np.zeros(len(truth.samples), dtype=bool)
        self._lost: list[str] = []  # where names may come again, else only the first few
        self._n_lost = 0
        self._first: list[str] = []
        self._keeps_lost = default_absent(absent, truth.layout) == "negative"

    def numbers(self, parts: Sequence[Any], *, are_distinct: bool = False) -> NDArray[np.int64]:
        """Return the number of each sample, -1 if it is left out; `parts` are text columns.

        Unless no name ever comes again (`are_distinct`), those that the truth lacks are held.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        names = pa.chunked_array([part.cast(pa.large_string()) for part in parts])
        if not self._first:
            self._first = list(dict.fromkeys(names.slice(0, 1000).to_pylist()))[:3]
        place = pc.index_in(names, value_set=self._known)
        number = as_numbers(pc.fill_null(place, arrow_numbers(np.array([-1], np.int32))[0])).astype(
            np.int64
        )
        if place.null_count:
            lost = np.flatnonzero(number < 0)
            if are_distinct:
                number[lost] = len(self._known) + self._n_lost + np.arange(lost.size)
                self._n_lost += lost.size
                self._lost += names.take(arrow_numbers(lost[: 5 - len(self._lost)])).to_pylist()
            else:
                number[lost] = self._add_lost(names.take(arrow_numbers(lost)).combine_chunks())
        n_truth = self._is_met.size
        self._is_met[number[number < n_truth]] = True
        if not self._keeps_lost:
            number[number >= n_truth] = -1
        return number

    def _add_lost(self, names: Any) -> NDArray[np.int64]:
        """Give numbers to names that are seen for the first time, and remember them."""
        import pyarrow as pa

        encoded = names.dictionary_encode(null_encoding="encode")
        first = len(self._known)
        self._lost += [name or "" for name in encoded.dictionary.to_pylist()]
        self._n_lost = len(self._lost)
        self._known = pa.concat_arrays([self._known, encoded.dictionary])
        numbers: NDArray[np.int64] = first + as_numbers(encoded.indices).astype(np.int64)
        return numbers

    def fresh(self) -> TruthRows:
        """Begin again, with nothing seen."""
        return TruthRows(self._truth, self._absent)

    def state(self) -> dict[str, Any]:
        """Return what was seen, as plain values."""
        met = np.packbits(self._is_met).tobytes().hex()
        return {"met": met, "lost": self._lost, "first": self._first}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        import pyarrow as pa

        bits = np.frombuffer(bytes.fromhex(state["met"]), dtype=np.uint8)
        self._is_met = np.unpackbits(bits)[: self._is_met.size].astype(bool)
        self._lost, self._first = state["lost"], state["first"]
        self._n_lost = len(self._lost)
        self._known = pa.concat_arrays([self._known, pa.array(self._lost, pa.large_string())])

    @property
    def sets(self) -> LabelSets:
        """Labels of all numbered samples; what the truth lacks has none."""
        return self._truth.sets.with_empty(self._n_lost if self._keeps_lost else 0)

    @property
    def n_met(self) -> int:
        """How many samples were looked for."""
        return int(np.count_nonzero(self._is_met)) + self._n_lost

    def name(self, number: int) -> str:
        """Name of a sample."""
        return str(self._known[number].as_py())

    def names(self) -> list[str]:
        """Names of all numbered samples, in the order of `sets`."""
        n = self._is_met.size + (self._n_lost if self._keeps_lost else 0)
        return [str(name) for name in self._known.slice(0, n).to_pylist()]

    def unmet(self) -> tuple[int, list[str]]:
        """How many samples of the truth were not looked for, and the first of them."""
        rows = np.flatnonzero(~self._is_met)
        return rows.size, [self.name(int(row)) for row in rows[:5]]

    def notes(self, source: str, word: str) -> tuple[str, ...]:
        """Say what was left out or taken as negative; refuse what nothing is said about.

        `source` is the file the samples come from, `word` what they are there (scored, ranked).
        """
        given = (self.n_met, self._first), (self._n_lost, self._lost[:5])
        return judge_absent(self._truth, self._absent, source, word, *given)[1]
