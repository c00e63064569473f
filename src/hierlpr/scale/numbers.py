"""Numbers of labels in columns of names that come in batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.io._arrow import as_numbers
from hierlpr.io._watch import Watch, closest

if TYPE_CHECKING:
    from hierlpr.hierarchy import Hierarchy

__all__ = ["NAMELESS", "UNKNOWN", "LabelNumbers"]

UNKNOWN, NAMELESS = -1, -2


class LabelNumbers:
    """Turn names of labels into numbers of the hierarchy.

    Parameters
    ----------
    hierarchy : Hierarchy
    watch : Watch
        Is told of unknown labels; strictly, the first of them stops the reading.
    aliases : mapping, optional
        Other names of labels.
    hint : str
        What to do about an unknown label.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        watch: Watch,
        aliases: Mapping[str, str] | None,
        *,
        hint: str,
    ) -> None:
        self.n_by_another_name = 0
        self._known = {name: i for i, name in enumerate(hierarchy.labels)}
        self._watch = watch
        self._aliases = aliases or {}
        self._hint = hint

    def of(self, column: Any, at: int) -> NDArray[np.int64]:
        """Return the number of each label, or `UNKNOWN` or `NAMELESS`; `at` is the first row."""
        encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        indices = encoded.indices
        if indices.null_count:
            indices = indices.fill_null(len(names))
        codes = as_numbers(indices)
        target = np.full(len(names) + 1, NAMELESS, dtype=np.int64)
        for code, name in enumerate(names):
            real = name if name in self._known else self._aliases.get(name, name)
            if real in self._known:
                target[code] = self._known[real]
                if real != name:
                    self.n_by_another_name += int(np.count_nonzero(codes == code))
            elif name is not None and name.strip():
                target[code] = UNKNOWN
                self._tell(name, np.flatnonzero(codes == code), at)
        numbers: NDArray[np.int64] = target[codes]
        return numbers

    def _tell(self, name: str, rows: NDArray[np.intp], at: int) -> None:
        if rows.size == 0:  # a dictionary may hold names that no row uses
            return
        if not self._watch.lenient:
            raise self._watch.fail(
                f"label {name!r} is not in the hierarchy.",
                line=f"row {at + int(rows[0]) + 1:,}",
                hint=f"{closest(name, self._known)}{self._hint}",
            )
        self._watch.unknown[name] += int(rows.size)
