"""How much memory a run may use, what that means for batches, and how much a file may need."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hierlpr.exceptions import DataError
from hierlpr.io.opening import file_size, is_parquet, open_parquet, parquet_files
from hierlpr.io.table_files import names_pairs

__all__ = ["DEFAULT_MEMORY", "Budget", "estimate_instances", "estimate_rows"]

DEFAULT_MEMORY = "1GB"
SMALLEST = 1 << 26
_UNITS = "bkmgt"

# Bytes of working memory for one instance, measured: from the scores of a batch to its ranked
# rows; in the path that holds everything at once; and there while fitting.
BATCH_BYTES = 200
WHOLE_BYTES = 140
FIT_BYTES = 80
# And for evaluating: a row while its part is measured; a row, and an instance of the truth, in the
# path that holds everything at once.
EVALUATED_BYTES = 150
LISTED_BYTES = 250
TRUTH_BYTES = 40
# Bytes of a text table for one instance of a wide one, and for a row of a ranking: rules of thumb.
TEXT_INSTANCE_BYTES = 6
TEXT_ROW_BYTES = 20


@dataclass(frozen=True, slots=True)
class Budget:
    """Working memory in bytes, beside the interpreter and its libraries (about 0.3 GB)."""

    memory: int

    @classmethod
    def of(cls, text: str | int) -> Budget:
        """Read an amount such as ``"1GB"``, ``"500 MB"`` or ``"2GiB"``.

        >>> Budget.of("1.5GB").memory, Budget.of("64MiB").memory
        (1500000000, 67108864)
        """
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", str(text).lower())
        if match is None:
            raise DataError(
                f"{text!r} is no amount of memory.\nHint: write it as 500MB, 1GB or 2GiB."
            )
        number, unit, binary = match.groups()
        factor = (1024 if binary else 1000) ** _UNITS.index(unit or "b")
        amount = int(float(number) * factor)
        if amount < SMALLEST:
            raise DataError(
                f"{text!r} is too little memory: give at least {SMALLEST // 2**20} MiB."
            )
        return cls(amount)

    @property
    def batch_instances(self) -> int:
        """Instances ranked at once."""
        return max(1 << 12, min(self.memory // 2 // BATCH_BYTES, 1 << 22))

    @property
    def engine_memory(self) -> int:
        """What the sorting engine may hold before it spills."""
        return self.memory * 4 // 5

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


def estimate_instances(path: str) -> int:
    """Guess how many instances a file of scores or truth holds, without reading it."""
    if not is_parquet(path):
        return _text_bytes(path) // TEXT_INSTANCE_BYTES
    total = 0
    for file in parquet_files(path):
        with open_parquet(file) as opened:
            names = list(opened.schema_arrow.names)
            total += opened.metadata.num_rows * (4 if names_pairs(names) else len(names) - 1)
    return total


def estimate_rows(path: str) -> int:
    """Count the rows of a Parquet ranking, or guess those of a text file."""
    if is_parquet(path):
        return sum(open_parquet(file).metadata.num_rows for file in parquet_files(path))
    return _text_bytes(path) // TEXT_ROW_BYTES


def _text_bytes(path: str) -> int:
    """Size of a text file, about four times as much if it is gzipped."""
    size, is_packed = file_size(path)
    return size * (4 if is_packed else 1)
