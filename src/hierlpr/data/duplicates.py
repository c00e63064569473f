"""Find samples that were used before, or that are copies of each other, by hashes of their rows.

Rows are compared after each score is rounded to 10 binary digits, about three decimal ones (16
with up to three labels, where coarser rows would be equal by chance). Copies in single precision,
or read back from a file with six digits, are found. Copies with noise are found only if at least
half of the calibration samples have one that differs by at most a thousandth of the spread of the
scores; not with a single label, nor in scores that omit pairs, nor between fit and calibration.

Equal rows alone prove nothing, since coarse or saturated scores repeat by chance. The counts are
therefore compared with what independent samples can show, whatever their distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import rankdata

from hierlpr._utils.checks import is_sparse

MAX_KEYS = 2**16  # kept in a model, at 12 bytes each
MAX_COPIES = 64  # rows that occur more often are taken for saturated scores
MIN_ROWS = 20  # distinct rows whose counts have a common factor: 2**-20 by chance
FAR = 4.0  # standard errors
MAX_NEIGHBOURS = 1000  # rows whose distances are compared
MIN_NEIGHBOURS = 40
RARE = math.log(0.001)  # probability that two sets have the same rows, each equally often
Keys = NDArray[np.uint64]
_KEY_VALUES = 2**15  # hashed at a time, so that intermediate values stay in the cache


def mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words (the finalizer of SplitMix64)."""
    x = bits + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed


def row_keys(matrix: Any) -> NDArray[np.uint64]:
    """Hash the entries of each row with their columns; stored zeros of a CSR matrix count.

    A zero hashes the same with either sign.
    """
    keys = np.zeros(matrix.shape[0], dtype=np.uint64)
    salt = mix(np.arange(matrix.shape[1], dtype=np.uint64))
    if hasattr(matrix, "tocsr"):
        csr = matrix.tocsr()
        bits = (np.asarray(csr.data, dtype=np.float64) + 0.0).view(np.uint64)
        running = np.zeros(csr.nnz + 1, dtype=np.uint64)
        np.cumsum(mix(bits ^ salt[csr.indices]), out=running[1:])  # wraps around, as do its parts
        keys[:] = running[csr.indptr[1:]] - running[csr.indptr[:-1]]
        return keys
    step = max(1, _KEY_VALUES // max(1, matrix.shape[1]))
    for start in range(0, matrix.shape[0], step):
        part = np.ascontiguousarray(matrix[start : start + step], dtype=np.float64) + 0.0
        keys[start : start + step] = mix(part.view(np.uint64) ^ salt).sum(axis=1, dtype=np.uint64)
    return keys


def rounded_keys(values: Any) -> Keys:
    """Hash the rows of a matrix, dense or CSR, after rounding.

    >>> one, other = rounded_keys(np.array([[0.123456789, 2.0], [np.float32(0.123456789), 2.0]]))
    >>> bool(one == other)
    True
    """
    n_bits = 10 if values.shape[1] > 3 else 16
    if is_sparse(values):
        matrix = values.tocsr(copy=True)
        matrix.data = _round(matrix.data, n_bits)
        return row_keys(matrix)
    return row_keys(_round(values, n_bits))


def _round(values: Any, n_bits: int) -> NDArray[np.float64]:
    """Keep the first bits of every mantissa."""
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    dropped = np.uint64(52 - n_bits)
    half = np.uint64(1) << (dropped - np.uint64(1))
    return (((bits + half) >> dropped) << dropped).view(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class SampleKeys:
    """Sorted hashes of the distinct rows of a set of samples, and how often each occurs.

    A large set keeps the hashes that begin with `bits` zeros, whatever the order of its samples;
    `n_samples` counts all samples.
    """

    key: Keys
    count: NDArray[np.uint32]
    bits: int
    n_samples: int

    @classmethod
    def of(cls, keys: Keys) -> Self:
        """Summarize the hashes of all rows."""
        distinct, count = np.unique(keys, return_counts=True)
        bits = 0
        while (n_kept := _n_below(distinct, bits)) > MAX_KEYS:
            bits += 1
        return cls(distinct[:n_kept], count[:n_kept].astype(np.uint32), bits, keys.size)

    @classmethod
    def of_rows(cls, values: Any) -> Self:
        """Summarize the rows of a matrix, dense or CSR."""
        return cls.of(rounded_keys(values))

    def equals(self, other: SampleKeys) -> bool:
        """Return whether both sets have the same rows, each equally often."""
        return (
            self.n_samples == other.n_samples
            and np.array_equal(self.key, other.key)
            and np.array_equal(self.count, other.count)
        )

    def among(self, other: SampleKeys) -> tuple[int, int]:
        """Count the samples that also occur in `other`, and those that were compared."""
        n_kept = _n_below(self.key, max(self.bits, other.bits))
        found = np.isin(self.key[:n_kept], other.key, assume_unique=True)
        count = self.count[:n_kept]
        return int(count[found].sum()), int(count.sum())

    def joined(self, other: SampleKeys) -> NDArray[np.int64]:
        """Count how often each distinct row occurs in the two sets together."""
        bits = max(self.bits, other.bits)
        ends = _n_below(self.key, bits), _n_below(other.key, bits)
        key = np.concatenate((self.key[: ends[0]], other.key[: ends[1]]))
        count = np.concatenate((self.count[: ends[0]], other.count[: ends[1]]))
        _, row = np.unique(key, return_inverse=True)
        return np.bincount(row, weights=count).astype(np.int64)


def _n_below(sorted_keys: Keys, bits: int) -> int:
    """Count the hashes that begin with `bits` zeros."""
    if bits == 0:
        return sorted_keys.size
    return int(np.searchsorted(sorted_keys, np.uint64(1) << np.uint64(64 - bits)))


def log_chance(times: NDArray[Any]) -> float:
    """Return the log-probability of these counts of kinds that are as likely as observed."""
    n = int(times.sum())
    if n == 0:
        return 0.0
    ways = gammaln(n + 1.0) - gammaln(times + 1.0).sum()
    return float(ways + (times * np.log(times / n)).sum())


def overlap_note(samples: SampleKeys, known: SampleKeys | None) -> str:
    """Return how many of `samples` occur among the `known` ones as text; empty if as by chance.

    Independent samples of one population equal a known one as often as the known ones equal each
    other, so the share of known samples that have a twin is the reference. Samples of few kinds are
    the known ones if every kind occurs as often as there.
    """
    if known is None:
        return ""
    if samples.equals(known) and log_chance(known.count) <= RARE:
        return f"{samples.n_samples:,} of {samples.n_samples:,}"
    n_found, n_compared = samples.among(known)
    if n_found == 0:
        return ""
    n_known, n_twins = int(known.count.sum()), int(known.count[known.count > 1].sum())
    pooled = (n_found + n_twins) / (n_compared + n_known)
    # Twins come in pairs, hence the 2.
    error = math.sqrt(pooled * (1.0 - pooled) * (1.0 / n_compared + 2.0 / n_known))
    if n_found / n_compared - n_twins / n_known <= FAR * error:
        return ""
    if n_compared < samples.n_samples:
        return f"about {n_found / n_compared:.0%} of {samples.n_samples:,}"
    return f"{n_found:,} of {samples.n_samples:,}"


def copies_note(samples: SampleKeys, known: SampleKeys | None = None) -> str:
    """Return how many rows occur more than once as text; empty if chance can explain it.

    Copies may also lie in both `samples` and `known`, so their union is tested too.
    """
    count: NDArray[Any] = samples.count
    where = ""
    if known is not None and not _is_copied(count) and not _repeats_more(samples, known):
        count, where = samples.joined(known), " in the fit and calibration samples together"
    if not _is_copied(count) and (known is None or where or not _repeats_more(samples, known)):
        return ""
    factor = int(np.gcd.reduce(count))
    if factor > 1:
        times = f"{factor}" if (count == factor).all() else f"a multiple of {factor}"
        return f"every row of scores occurs {times} times{where}"
    n_repeated, n = int(count[count > 1].sum()), int(count.sum())
    if samples.bits or (known is not None and known.bits):
        return f"about {n_repeated / n:.0%} of the rows of scores occur more than once{where}"
    return f"{n_repeated:,} of {n:,} rows of scores occur more than once{where}"


def _repeats_more(samples: SampleKeys, known: SampleKeys) -> bool:
    """Return whether rows have twins 20 times as often as known ones, for equally many samples.

    A smaller factor may be honest: out-of-fold scores, which come from several classifiers, have
    fewer twins than the scores of one classifier.
    """
    n, n_known = int(samples.count.sum()), int(known.count.sum())
    n_twins, n_known_twins = (int(s.count[s.count > 1].sum()) for s in (samples, known))
    return n_twins >= 20 and n_twins / n**2 > 20.0 * (n_known_twins + 4.0) / n_known**2


def _is_copied(count: NDArray[Any]) -> bool:
    r"""Return whether independent samples cannot have rows that occur this often.

    With :math:`f_k` the number of distinct rows that occur k times, and each row occurring a
    Poisson number of times with its own intensity :math:`\lambda`,
    :math:`k!\, E f_k = \sum \lambda^k e^{-\lambda}` are the moments of a measure and hence
    log-convex: :math:`k (E f_k)^2 \le (k+1) E f_{k-1} E f_{k+1}`. Copies violate this, since no row
    then occurs once more or once less. So do counts with a common factor.
    """
    if count.size >= MIN_ROWS and int(np.gcd.reduce(count)) > 1:
        return True
    few = count[count <= MAX_COPIES].astype(np.intp)
    root = np.sqrt(np.bincount(few, minlength=MAX_COPIES + 2).astype(np.float64))
    # The root of a Poisson count has a standard error of 1/2.
    low, high = np.maximum(root - 2.0, 0.0) ** 2, (root + 3.0) ** 2
    k = np.arange(2, MAX_COPIES + 1)
    return bool(np.any(k * low[k] ** 2 > (k + 1) * high[k - 1] * high[k + 1]))


def has_near_copies(values: Any) -> bool:
    """Return whether at least half of the rows of a matrix are nearly equal to another one.

    The distance of a row to the nearest other row is compared with that to the tenth nearest, both
    in standardized scores and in ranks. Where independent samples crowd, as in saturated scores,
    their ranks do not. Equal rows count once; of many rows 1,000 neighbours are looked at.
    """
    if is_sparse(values) or values.shape[1] < 2:
        return False
    rows = np.unique(values[np.isfinite(values).all(axis=1)], axis=0)
    spread = rows.std(axis=0) if len(rows) else np.zeros(values.shape[1])
    rows = (rows[:, spread > 0.0] - rows[:, spread > 0.0].mean(axis=0)) / spread[spread > 0.0]
    rows = rows[np.argsort(rows.sum(axis=1))][:MAX_NEIGHBOURS]
    if len(rows) < MIN_NEIGHBOURS or _isolation(rows) > 0.02:
        return False
    return _isolation(rankdata(rows, axis=0)) < 0.1


def _isolation(rows: NDArray[np.float64]) -> float:
    """Return the median over rows of the distance to the nearest row over that to the tenth."""
    norm = (rows * rows).sum(axis=1)
    squared = np.maximum(norm[:, None] + norm - 2.0 * rows @ rows.T, 0.0)
    np.fill_diagonal(squared, np.inf)
    squared = np.partition(squared, (0, 9), axis=1)
    ratio = squared[:, 0] / np.maximum(squared[:, 9], np.finfo(np.float64).tiny)
    return float(np.sqrt(np.median(ratio)))


def leakage_warnings(
    keys: SampleKeys, fit_keys: SampleKeys | None, *, what: str = "scores", values: Any = None
) -> list[str]:
    """Return warnings about calibration samples that were fitted on, or are copies.

    With `values`, the rows themselves, samples that are nearly copies are looked for too.
    """
    found = []
    if overlap := overlap_note(keys, fit_keys):
        found.append(
            f"{overlap} calibration samples were also fitted on (their {what} are the same): the "
            "numbers look better than they are, and no promise holds. Calibrate on other samples."
        )
    # Samples in both parts are not called copies as well.
    if copies := copies_note(keys, None if overlap else fit_keys):
        found.append(
            f"Calibration samples are copies of each other: {copies.replace('scores', what)}. They "
            "count as if they were independent, so the result is less certain than it seems, and "
            "no promise holds. Keep one of each."
        )
    if not found and values is not None and has_near_copies(values):
        found.append(
            f"Calibration samples are nearly copies of each other: most rows of {what} differ from "
            "another one by noise only. They count as if they were independent, so the result is "
            "less certain than it seems, and no promise holds. Keep one of each."
        )
    return found


def feature_leakage_warnings(
    x: Any, held_out: NDArray[np.intp], kept: NDArray[np.intp]
) -> list[str]:
    """Return warnings about held-out samples whose features equal those of training samples.

    Their scores do not show it: the scores of training samples come from classifiers that did not
    see them.
    """
    keys = _feature_keys(x)
    held, trained = SampleKeys.of(keys[held_out]), SampleKeys.of(keys[kept])
    return leakage_warnings(held, trained, what="features")


def _feature_keys(x: Any) -> Keys:
    """Hash samples of any kind: rows of numbers, or the text representation of other samples."""
    if is_sparse(x):
        return row_keys(x)
    values = x if isinstance(x, list | tuple) else np.asarray(x)
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" and values.ndim > 1:
        return row_keys(values.reshape(len(values), -1))
    rows = (repr(row.tolist() if isinstance(row, np.ndarray) else row) for row in values)
    digests = (blake2b(row.encode(errors="replace"), digest_size=8).digest() for row in rows)
    return np.frombuffer(b"".join(digests), dtype=np.uint64)
