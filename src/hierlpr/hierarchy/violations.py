"""Breaches of a hierarchy in a matrix: a child above its parent, and in which sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["Violations"]


class Violations(Sequence[tuple[int, str, str]]):
    """Breaches of a hierarchy: a sequence of (sample, parent, child), sorted by sample.

    `sample`, `parent` and `child` hold the same as index arrays (rows and columns).
    """

    __slots__ = ("_labels", "child", "parent", "sample")

    def __init__(
        self,
        sample: NDArray[np.intp],
        parent: NDArray[Any],
        child: NDArray[Any],
        labels: tuple[str, ...],
    ) -> None:
        self.sample, self.parent, self.child = sample, parent, child
        self._labels = labels

    def __len__(self) -> int:
        return int(self.sample.size)

    @overload
    def __getitem__(self, key: int) -> tuple[int, str, str]: ...
    @overload
    def __getitem__(self, key: slice) -> Violations: ...

    def __getitem__(self, key: int | slice) -> tuple[int, str, str] | Violations:
        if isinstance(key, slice):
            return Violations(self.sample[key], self.parent[key], self.child[key], self._labels)
        parent, child = self._labels[self.parent[key]], self._labels[self.child[key]]
        return int(self.sample[key]), parent, child

    def __iter__(self) -> Iterator[tuple[int, str, str]]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<Violations: {len(self):,}>"
