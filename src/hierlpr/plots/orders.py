"""An order of all instances by falling value, counted as they come and never held.

A curve of hits rises only where something true is called. So the values of all that is true, and
some others between them, are marks; every instance is counted at a mark or between two, and what
follows is known at each of them, exactly: calls, hits, what they weigh, and the sum of the values.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile, gettempdir
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels.marks import count_at_marks
from hierlpr.plots.evidence import Pool

Float = NDArray[np.float64]

MORE_MARKS = 1 << 16  # beside what is true; where there are no more values, all are marks
HELD_BYTES = 1 << 26  # of values that wait to be counted; beyond that they go to a file
_NONE = np.empty(0)


class Shares:
    """Precision and recall at corners of calls and hits, both from 0 on: `weighed`."""

    __slots__ = ()
    weighed: tuple[Float, Float]

    @property
    def precision(self) -> Float:
        """Share of right calls at each corner but the first."""
        calls, hits = self.weighed
        shares: Float = hits[1:] / calls[1:]
        return shares

    @property
    def recall(self) -> Float:
        """Share of the positives found at each corner but the first."""
        hits = self.weighed[1]
        shares: Float = hits[1:] / (hits[-1] or 1.0)
        return shares


@dataclass(frozen=True, slots=True, eq=False)
class Along(Shares):
    """Corners of curves along an order: after so many calls, so much.

    All begin with 0. `weighed` are calls and hits by the weights of samples (the same without
    weights), and `chance` is the sum of the values, by weight, so far. Between two corners, that is
    inside a group of ties or among calls without any hit, curves are straight lines. The first
    `n_ranked` corners are of listed instances; one more, of all others, may follow.
    """

    calls: Float
    hits: Float
    weighed: tuple[Float, Float]
    chance: Float
    n_ranked: int

    @property
    def expected(self) -> Float:
        """Mean value of the calls so far at each corner of listed instances but the first."""
        shares: Float = self.chance[1:] / self.weighed[0][1 : self.n_ranked]
        return shares


class Order:
    """All instances by falling value: first `look` at all of them, then `count` them all.

    Parameters
    ----------
    n_listed : int
        About how many there are.
    weighs : bool
        Whether samples have weights.
    adds : bool
        Whether the values are added up, too.
    extra : ndarray
        More values that are marks.
    """

    def __init__(
        self, n_listed: int, *, weighs: bool = False, adds: bool = False, extra: Float = _NONE
    ) -> None:
        self.step = max(1, n_listed // MORE_MARKS)
        self._seen = 0
        self._weighs, self._adds = weighs, adds
        self._more: list[Float] = [extra]
        self._true: list[Float] = []
        self._true_weight: list[Float] = []
        self._sizes = np.zeros(4)
        self._cells: _Cells | None = None

    def look(self, listed: Pool) -> None:
        """Take the values of all that is true, and every so many of the others, as marks."""
        first = -self._seen % self.step
        self._seen += listed.value.size
        weight = _NONE if listed.weight is None else listed.weight[listed.truth]
        more = listed.value[first :: self.step].copy()
        self.look_at(more, listed.value[listed.truth], weight)
        self.add_sizes(listed)

    def look_at(self, more: Float, true: Float, weight: Float) -> None:
        """Take values as marks: some, and those of all that is true, with weights if any."""
        self._more.append(more)
        self._true.append(true)
        self._true_weight.append(weight)

    def add_sizes(self, listed: Pool) -> None:
        """Add up all instances and positives, listed or not."""
        self._sizes += (listed.n_instances, listed.n_positives, *listed.weighed)

    def count(self, values: Float, weight: Float) -> None:
        """Count listed instances by rising value, with their weights if they have any."""
        cells = self._marked()
        count_at_marks(values, weight, cells.marks, cells.number, cells.weight, cells.total)

    def _marked(self) -> _Cells:
        if self._cells is None:
            true = np.concatenate([_NONE, *self._true])
            marks = np.unique(np.concatenate([true, *self._more]))
            at = np.searchsorted(marks, true)
            hits = [np.bincount(at, minlength=marks.size)]
            if self._weighs:
                hits.append(np.bincount(at, np.concatenate(self._true_weight), marks.size))
            self._true = self._true_weight = self._more = []
            self._cells = _Cells.at(marks, hits, weighs=self._weighs, adds=self._adds)
        return self._cells

    def along(self) -> Along:
        """Return the corners of all curves along the order."""
        cells, full = self._marked(), self._full()
        columns = [(cells.number, False), (cells.hits[0], True)]
        if self._weighs:
            columns += [(cells.weight, False), (cells.hits[1], True)]
        corners = [_sums(_at_marks(x, full) if is_hit else x[full]) for x, is_hit in columns]
        chance = _sums(cells.total[full]) if self._adds else _NONE
        n_ranked = corners[0].size
        if self._sizes[0] > corners[0][-1]:  # not listed: the last group
            corners = [np.append(x, all_) for x, all_ in zip(corners, self._sizes, strict=False)]
        return Along(corners[0], corners[1], (corners[-2], corners[-1]), chance, n_ranked)

    def _full(self) -> NDArray[np.intp]:
        """Cells that hold anything, by falling value: cell i is between the corners i and i + 1."""
        return np.flatnonzero(self._marked().number)[::-1]

    def resolve(self, corners: set[int], runs: Waiting) -> bool:
        """Make marks of all values that lie between each of some corners and the next.

        `runs` are all values. Tells whether there were any; then all must be counted again.
        """
        cells, full = self._marked(), self._full()
        between = [full[i] // 2 for i in corners if i < full.size and full[i] % 2 == 0]
        if not between:
            return False
        ends, more = np.concatenate([[-np.inf], cells.marks, [np.inf]]), [cells.marks]
        for values, _ in runs:
            for j in between:
                low = np.searchsorted(values, ends[j], side="right")
                more.append(np.unique(values[low : np.searchsorted(values, ends[j + 1])]))
        marks = np.unique(np.concatenate(more))
        at = np.searchsorted(marks, cells.marks)
        hits = [np.bincount(at, x, marks.size) for x in cells.hits]
        del cells, full
        self._cells = None  # there may be very many marks
        self._cells = _Cells.at(marks, hits, weighs=self._weighs, adds=self._adds)
        return True


def _sums(values: NDArray[Any]) -> Float:
    """Add up all values so far, from 0 on."""
    sums = np.zeros(values.size + 1)
    np.cumsum(values, out=sums[1:])
    return sums


def _at_marks(values: NDArray[Any], cells: NDArray[np.intp]) -> Float:
    """Spread values of marks over cells; between two marks there is nothing."""
    found = np.zeros(cells.size)
    is_mark = cells % 2 == 1
    found[is_mark] = values[cells[is_mark] // 2]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """What was counted at marks and between them, see `count_at_marks`; and the hits at marks."""

    marks: Float
    hits: list[NDArray[Any]]
    number: NDArray[np.int64]
    weight: Float
    total: Float

    @classmethod
    def at(cls, marks: Float, hits: list[NDArray[Any]], *, weighs: bool, adds: bool) -> _Cells:
        size = 2 * marks.size + 1
        weight, total = (np.zeros(size if used else 0) for used in (weighs, adds))
        return cls(marks, hits, np.zeros(size, np.int64), weight, total)


def in_order(listed: Pool) -> tuple[Float, Float]:
    """Values of listed instances, rising, and their weights, of which there may be none."""
    if listed.weight is None:
        return np.sort(listed.value), _NONE
    order = np.argsort(listed.value, kind="stable")
    return listed.value[order], listed.weight[order]


class Waiting:
    """Sorted runs of values and weights that are gone over more than once: held, or in a file.

    Parameters
    ----------
    folder : path, optional
        Of the file, which never has a name that others see.
    """

    def __init__(self, folder: Any = None) -> None:
        self._folder = os.fspath(gettempdir() if folder is None else folder)
        self._file = SpooledTemporaryFile(max_size=HELD_BYTES, dir=self._folder)  # noqa: SIM115
        self._sizes: list[tuple[int, int]] = []

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def append(self, values: Float, weight: Float) -> None:
        """Add a run."""
        try:
            for column in (values, weight):
                self._file.write(column.view(np.uint8).data if column.size else b"")
        except OSError as error:  # a file without a name does not say where the disk is full
            raise OSError(error.errno, error.strerror, self._folder) from error
        self._sizes.append((values.size, weight.size))

    def __iter__(self) -> Iterator[tuple[Float, Float]]:
        self._file.seek(0)
        for sizes in self._sizes:
            values, weight = (np.frombuffer(self._file.read(8 * n), np.float64) for n in sizes)
            yield values, weight


def count_waiting(
    order: Order, runs: Waiting, unclear: Callable[[Along], set[int]] = lambda _: set()
) -> Along:
    """Count runs that were looked at; `unclear` names corners after which all must be known."""
    for run in runs:
        order.count(*run)
    along = order.along()
    if order.resolve(unclear(along), runs):
        for run in runs:
            order.count(*run)
        along = order.along()
    return along
