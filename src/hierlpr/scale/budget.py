"""How much memory a run may use, and what that means for batches and for the sort."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hierlpr.exceptions import DataError

__all__ = ["DEFAULT_MEMORY", "Budget", "parse_memory"]

DEFAULT_MEMORY = "1GB"
SMALLEST = 1 << 26
_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}

# Bytes of working memory for one instance, measured: from the scores of a batch to its ranked
# rows; inside the sort; and in the path that holds everything at once.
BATCH_BYTES = 200
SORT_BYTES = 110
WHOLE_BYTES = 140
# The same for fitting: in the path that holds everything at once, and for one entry of a sparse
# table while a bucket of them is sorted by label.
FIT_BYTES = 80
ENTRY_BYTES = 60
# And for evaluating: a row while its part is measured; a row, and an instance of the truth, in the
# path that holds everything at once.
EVALUATED_BYTES = 150
LISTED_BYTES = 250
TRUTH_BYTES = 40


def parse_memory(text: str | int) -> int:
    """Bytes of an amount such as ``"1GB"``, ``"500 MB"`` or ``"2GiB"``.

    >>> parse_memory("1.5GB"), parse_memory("64MiB")
    (1500000000, 67108864)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", str(text).lower())
    if match is None:
        raise DataError(f"{text!r} is no amount of memory.\nHint: write it as 500MB, 1GB or 2GiB.")
    number, unit, binary = match.groups()
    factor = 1 << (10 * "bkmgt".index(unit or "b")) if binary else _UNITS[unit]
    amount = int(float(number) * factor)
    if amount < SMALLEST:
        raise DataError(f"{text!r} is too little memory: give at least {SMALLEST // 2**20} MiB.")
    return amount


@dataclass(frozen=True, slots=True)
class Budget:
    """Working memory in bytes, beside the interpreter and its libraries (about 0.3 GB)."""

    memory: int

    @property
    def batch_instances(self) -> int:
        """Instances ranked at once."""
        return max(1 << 12, min(self.memory // 2 // BATCH_BYTES, 1 << 22))

    @property
    def bucket_rows(self) -> int:
        """Rows that are sorted at once without going to disk."""
        return max(1 << 12, self.memory * 3 // 4 // SORT_BYTES)

    @property
    def engine_memory(self) -> int:
        """What the sorting engine may hold before it spills."""
        return self.memory * 4 // 5

    @property
    def sorted_entries(self) -> int:
        """Entries of a sparse table that are sorted by label at once."""
        return max(1 << 12, self.memory // 2 // ENTRY_BYTES)

    @property
    def evaluated_rows(self) -> int:
        """Rows of a ranking that are measured at once."""
        return max(1 << 12, self.memory // 2 // EVALUATED_BYTES)

    @property
    def listed_rows(self) -> int:
        """Rows of a ranking that are read at once."""
        return max(1 << 12, min(1 << 20, self.memory // 4 // LISTED_BYTES))

    def holds_evaluation(self, n_rows: int, n_true: int) -> bool:
        """Whether an evaluation that holds everything at once stays within the budget."""
        return n_rows * LISTED_BYTES + n_true * TRUTH_BYTES <= self.memory

    def holds_fit(self, n_instances: int) -> bool:
        """Whether a fit that holds everything at once stays within the budget."""
        return n_instances * FIT_BYTES <= self.memory

    def holds(self, n_instances: int) -> bool:
        """Whether the path that holds everything at once stays within the budget."""
        return n_instances * WHOLE_BYTES <= self.memory
