"""Find samples that were used before, or that are copies of each other, by hashes of their rows.

Rows are compared after each score is rounded to 10 binary digits, about three decimal ones (16
with up to three labels, where coarser rows would be equal by chance). Copies in single precision,
or read back from a file with six digits, are found. Copies with noise are found only among the
calibration samples, if most of these have one that differs by at most a thousandth of the spread of
the scores; not with a single label, nor in scores that omit pairs.

Equal rows alone prove nothing, since coarse or saturated scores repeat by chance. The counts are
therefore compared with what independent samples can show, whatever their distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from hierlpr._utils.checks import is_sparse

MAX_KEYS = 2**16  # kept in a model, at 12 bytes each
MAX_COPIES = 64  # rows that occur more often are taken for saturated scores
MIN_ROWS = 20  # distinct rows whose counts have a common factor: 2**-20 by chance
FAR = 4.0  # standard errors
RARE = math.log(0.001)  # probability that two sets have the same rows, each equally often
NEAR, NEAR_LABELS = 0.1, 8  # near-copies: rounded to this part of the spread, on this many labels
NEIGHBOUR_ROWS, NEIGHBOUR_COLUMNS, NEIGHBOUR_PAIRS = 100, 50, 5e7
COMMON = 0.05  # of the rows: columns in which some value is more frequent are not compared
CLOSE, CLOSE_SHARE = 0.01, 0.2  # this chance of so near a neighbour, for more than this share
Keys = NDArray[np.uint64]
_KEY_VALUES = 2**15  # hashed at a time, so that intermediate values stay in the cache


def mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words (the finalizer of SplitMix64)."""
    x = bits + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed


def row_keys(matrix: Any) -> Keys:
    """Hash the entries of each row with their columns; stored zeros of a CSR matrix count."""
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
        # Adding 0 gives zeros the same sign.
        part = np.ascontiguousarray(matrix[start : start + step], dtype=np.float64) + 0.0
        keys[start : start + step] = mix(part.view(np.uint64) ^ salt).sum(axis=1, dtype=np.uint64)
    return keys


def content_keys(*contents: Any, seed: int = 0) -> Keys:
    """Hash the rows of arrays or sparse matrices together, in single precision; None is left out.

    Rows with equal contents have equal keys, on every machine and in any order.
    """
    contents = tuple(x for x in contents if x is not None)
    keys = np.full(contents[0].shape[0], seed, dtype=np.uint64)
    for content in contents:
        keys = mix(keys) + row_keys(_in_single_precision(content))
    return mix(keys)


def _in_single_precision(content: Any) -> Any:
    with np.errstate(over="ignore"):  # huge numbers become infinite, which is a value like others
        if is_sparse(content):
            return content.tocsr().astype(np.float32)
        values = np.asarray(content, dtype=np.float32)
    values = np.where(np.isnan(values), np.float32(np.nan), values)  # NaN has many bit patterns
    return values[:, np.newaxis] if values.ndim == 1 else values


def _round(values: Any, n_bits: int) -> NDArray[np.float64]:
    """Keep the first bits of every mantissa."""
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    dropped = np.uint64(52 - n_bits)
    half = np.uint64(1) << (dropped - np.uint64(1))
    return (((bits + half) >> dropped) << dropped).view(np.float64)


def rounded_keys(matrix: Any) -> Keys:
    """Hash the rows of a matrix of scores, dense or CSR, after rounding."""
    n_bits = 10 if matrix.shape[1] > 3 else 16
    if not is_sparse(matrix):
        return row_keys(_round(matrix, n_bits))
    rounded = matrix.tocsr(copy=True)
    rounded.data = _round(rounded.data, n_bits)
    return row_keys(rounded)


@dataclass(frozen=True, slots=True, eq=False)
class SampleKeys:
    """Sorted hashes of the distinct rows of a set of samples, and how often each occurs."""

    key: Keys  # of a large set, the smallest hashes
    count: NDArray[np.uint32]
    n_samples: int  # all samples
    n_labels: int = 0  # the hashes are of the scores of this many labels, the first ones
    name: Keys | None = None  # sorted hashes of the names of the samples, if they have any
    cluster: Keys | None = None  # those of their clusters, likewise

    @classmethod
    def of(cls, keys: Keys) -> Self:
        """Summarize the hashes of all rows."""
        key, count = np.unique(keys, return_counts=True)
        return cls(key[:MAX_KEYS], count[:MAX_KEYS].astype(np.uint32), keys.size)

    @classmethod
    def of_rows(
        cls, values: Any, samples: Sequence[str] | None = None, cluster: Keys | None = None
    ) -> Self:
        """Summarize the rows of a matrix, after rounding, their names and clusters."""
        name, ids = (
            None if x is None else np.unique(x)[:MAX_KEYS]
            for x in (None if samples is None else text_keys(samples), cluster)
        )
        keys = cls.of(rounded_keys(values))
        return replace(keys, n_labels=int(values.shape[1]), name=name, cluster=ids)

    @property
    def has_clusters(self) -> bool:
        """Whether samples are known to share clusters."""
        return self.cluster is not None and self.cluster.size < min(self.n_samples, MAX_KEYS)

    def like(self, values: Any) -> SampleKeys:
        """Summarize the rows of another matrix by the labels that these hashes are of."""
        return self.of_rows(values[:, : self.n_labels])

    def with_labels(self, labels: Sequence[str], former: Sequence[str]) -> SampleKeys:
        """Keep the hashes for a model with other labels: of rows only if theirs are the first."""
        if tuple(labels[: self.n_labels]) == tuple(former[: self.n_labels]):
            return self
        return replace(self, key=self.key[:0], count=self.count[:0], n_labels=0)

    def comparable(self, other: SampleKeys) -> tuple[SampleKeys, SampleKeys]:
        """Return both up to the last hash that both kept."""
        partial = [x for x in (self, other) if x.count.sum() < x.n_samples]
        if not partial:
            return self, other
        last = min(x.key[-1] for x in partial)
        parts = ((x, x.key <= last) for x in (self, other))
        mine, others = (replace(x, key=x.key[used], count=x.count[used]) for x, used in parts)
        return mine, others

    def among(self, other: SampleKeys) -> tuple[int, int]:
        """Count the samples that also occur in `other`, and those that were compared."""
        mine, others = self.comparable(other)
        is_shared = np.isin(mine.key, others.key, assume_unique=True)
        return int(mine.count[is_shared].sum()), int(mine.count.sum())

    def joined(self, other: SampleKeys) -> NDArray[np.int64]:
        """Count how often each distinct row occurs in the two sets together."""
        both = self.comparable(other)
        _, row = np.unique(np.concatenate([x.key for x in both]), return_inverse=True)
        return np.bincount(row, np.concatenate([x.count for x in both])).astype(np.int64)


def _count_shared(some: Keys | None, others: Keys | None) -> tuple[int, int]:
    """Count the hashes that also occur among others, and those that were compared."""
    if some is None or others is None:
        return 0, 0
    last = min(x[-1] if x.size == MAX_KEYS else ~np.uint64(0) for x in (some, others))
    compared = some[some <= last]
    return int(np.isin(compared, others, assume_unique=True).sum()), compared.size


def log_chance(times: NDArray[Any]) -> float:
    """Return the log-probability of these counts of kinds that are as likely as observed."""
    n = int(times.sum())
    if n == 0:
        return 0.0
    ways = gammaln(n + 1.0) - gammaln(times + 1.0).sum()
    return float(ways + (times * np.log(times / n)).sum())


def overlap_note(samples: SampleKeys, reference: SampleKeys | None) -> str:
    """Return as text how many of `samples` are in the `reference`; empty if chance explains it.

    Independent samples of one population equal one of the reference as often as those equal each
    other, so their share with a twin is what chance explains. Samples of few kinds are those of the
    reference if every kind occurs as often as there.
    """
    if reference is None or reference.key.size == 0:
        return ""
    n, parts = samples.n_samples, ((samples.key, reference.key), (samples.count, reference.count))
    is_same = n == reference.n_samples and all(np.array_equal(*part) for part in parts)
    if is_same and log_chance(reference.count) <= RARE:
        return f"{n:,} of {n:,}"
    n_shared, n_compared = samples.among(reference)
    if n_shared == 0:
        return ""
    count = reference.count
    n_reference, n_twins = int(count.sum()), int(count[count > 1].sum())
    pooled = (n_shared + n_twins) / (n_compared + n_reference)
    # Twins come in pairs, hence the 2.
    error = math.sqrt(pooled * (1.0 - pooled) * (1.0 / n_compared + 2.0 / n_reference))
    if n_shared / n_compared - n_twins / n_reference <= FAR * error:
        return ""
    is_part = n_compared < n
    return f"about {n_shared / n_compared:.0%} of {n:,}" if is_part else f"{n_shared:,} of {n:,}"


def copies_note(samples: SampleKeys, reference: SampleKeys | None = None) -> str:
    """Return as text how many rows occur more than once; empty if chance can explain it.

    Copies may also lie in both `samples` and `reference`, so their union is tested too.
    """
    count: NDArray[Any] = samples.count
    where = ""
    if not _is_copied(count):
        if reference is None or not _is_copied(count := samples.joined(reference)):
            return ""
        where = " in the fit and calibration samples together"
    return f"{count[count > 1].sum() / count.sum():.0%} of the rows occur more than once{where}"


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
    """Return whether most rows of a matrix are nearly equal to another one.

    Some labels are rounded to a tenth of their spread. Whatever cells that makes, independent
    samples occupy them as in `_is_copied`.
    """
    if is_sparse(values) or values.shape[1] < 2:
        return False
    rows = values[np.isfinite(values).all(axis=1)]
    if not len(rows):
        return False
    spread = rows.std(axis=0)
    used = np.flatnonzero(spread > 0.0)[:NEAR_LABELS]
    cells = np.rint((rows[:, used] - rows[:, used].mean(axis=0)) / (NEAR * spread[used]))
    return _is_copied(np.unique(row_keys(cells), return_counts=True)[1])


def has_close_neighbours(values: Any) -> bool:
    r"""Return whether many rows are nearer to another one than independent samples are.

    Copies with noise are, and points between two samples (SMOTE). Only columns of numbers in which
    no value, up to a thousandth of the spread, is frequent are compared, the first
    `NEIGHBOUR_COLUMNS`. Noise as large as their steps keeps rounded numbers from being equal.

    Notes
    -----
    Near a sample of independent ones, the :math:`m`-th powers of the distances to its neighbours
    are like sums of waiting times, with :math:`m` the dimension: :math:`(d_1 / d_{10})^m` is the
    least of nine uniform numbers, and :math:`\log (d_{20} / d_{10})` has the mean
    :math:`\sum_{k=10}^{19} 1 / (k m)`, which gives :math:`m`.
    """
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or values.ndim != 2:
        return False
    rows = values[np.isfinite(values).all(axis=1), :NEIGHBOUR_COLUMNS].astype(np.float64)
    if len(rows) < NEIGHBOUR_ROWS:
        return False
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore", invalid="ignore"):  # huge numbers: nothing is close
        for column in rows.T:
            if column.min() == column.max():
                column[:] = np.nan
                continue
            count = np.unique(np.rint(1e3 / column.std() * column), return_counts=True)[1]
            step = np.median(np.diff(np.unique(column)))
            is_used = count.max() <= COMMON * len(rows)
            column += step * rng.random(len(rows)) if is_used else np.nan
        rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    rows = rows[:, np.isfinite(rows).all(axis=0)]
    if rows.shape[1] < 2:
        return False
    n_compared = int(np.clip(NEIGHBOUR_PAIRS / len(rows), NEIGHBOUR_ROWS / 2, 5 * NEIGHBOUR_ROWS))
    few = rng.permutation(len(rows))[:n_compared]
    square = np.square(rows).sum(axis=1)
    square = square[few, None] + square - 2.0 * rows[few] @ rows.T
    square[np.arange(few.size), few] = np.inf
    square = np.partition(square, (0, 9, 19), axis=1)[:, (0, 9, 19)]
    first, tenth, last = 0.5 * np.log(np.maximum(square.T, 1e-24))
    spread = float((last - tenth).mean())
    if spread <= 0.0:
        return False
    dimension = (1.0 / np.arange(10, 20)).sum() / spread
    chance = 9.0 * np.exp(dimension * (first - tenth))
    return bool((chance < CLOSE).mean() > CLOSE_SHARE)


def leakage_warnings(
    keys: SampleKeys, fit_keys: SampleKeys | None, *, what: str = "scores", values: Any = None
) -> list[str]:
    """Return warnings about calibration samples that were fitted on, or are copies.

    With `values`, the rows themselves, samples that are nearly copies are looked for too.
    """
    caveats, copied = [], ""
    if overlap := overlap_note(keys, fit_keys):
        caveats.append(
            f"{overlap} calibration samples were also fitted on (their {what} are the same): the "
            "numbers look better than they are, and no promise holds. Calibrate on other samples."
        )
    elif fit_keys is not None and (names := _count_shared(keys.name, fit_keys.name))[0]:
        caveats.append(
            f"{names[0]:,} of {names[1]:,} calibration samples have the names of samples that were "
            "fitted on: if they are the same samples, the numbers look better than they are, and "
            "no promise holds. Calibrate on other samples."
        )
    if fit_keys is not None and (clusters := _count_shared(keys.cluster, fit_keys.cluster))[0]:
        caveats.append(
            f"{clusters[0]:,} of {clusters[1]:,} clusters of the calibration samples were also "
            "fitted on, so no promise holds for new ones. Split the samples by whole clusters; "
            "different clusters need different ids."
        )
    if keys.has_clusters:  # what repeats within clusters does not count twice
        return caveats
    # Samples in both parts are not called copies as well.
    has_rows = fit_keys is not None and fit_keys.key.size > 0
    if copies := copies_note(keys, fit_keys if has_rows and not overlap else None):
        copied = f"copies of each other: {copies} (their {what} are the same)"
    elif not overlap and values is not None and has_near_copies(values):
        copied = f"nearly copies of each other: most rows of {what} differ by noise only"
    if copied:
        caveats.append(
            f"Calibration samples are {copied}. They count as if they were independent, so the "
            "result is less certain than it seems, and no promise holds. Keep one of each."
        )
    return caveats


def feature_keys(x: Any) -> Keys:
    """Hash samples of any kind: rows of numbers, or the text representation of other samples."""
    if is_sparse(x):
        return row_keys(x)
    values = x if isinstance(x, list | tuple) else np.asarray(x)
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" and values.ndim > 1:
        return row_keys(values.reshape(len(values), -1))
    return text_keys(repr(row.tolist() if isinstance(row, np.ndarray) else row) for row in values)


def text_keys(texts: Iterable[str]) -> Keys:
    """Hash texts, the same in every process."""
    digests = (blake2b(text.encode(errors="replace"), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype=np.uint64)
