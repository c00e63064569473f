"""Find samples that were used before, or that are copies of each other, by the keys of their rows.

Equal rows prove nothing by themselves: coarse or saturated scores repeat by chance. So the counts
are held against what independent samples could show, whatever distribution they come from. Rows
that are equal up to rounding (scores in single precision, or with fewer digits) are found too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import is_sparse
from hierlpr._base.order_free import near_keys, row_keys

MOST_KEYS = 2**16  # kept in a model, at 12 bytes each
MOST_NEAR = 2**14  # of rows up to rounding
MOST_COPIES = 64  # rows that occur more often are taken for saturated scores
FEWEST_ROWS = 20  # distinct rows whose counts have a common factor: 2**-20 by chance
FAR = 4.0  # standard errors
RARE = math.log(0.001)  # chance of two sets with the same rows, each as often

Keys = NDArray[np.uint64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class SampleKeys:
    """The distinct rows of a set of samples, as sorted hashes, and how often each occurs.

    Of a large set those are kept whose hash begins with `bits` zeros, which are the same whatever
    order or parts the samples come in; `n_samples` counts all. `near` are the same of the rows up
    to rounding; models of earlier versions lack them.
    """

    key: Keys
    count: NDArray[np.uint32]
    bits: int
    n_samples: int
    near: SampleKeys | None = None

    @classmethod
    def of(cls, keys: Keys, near: Keys | None = None) -> Self:
        """Sum up the row keys of samples in any order, and those of their rows up to rounding."""
        about = None if near is None else cls._summed(near, MOST_NEAR)
        return replace(cls._summed(keys, MOST_KEYS), near=about)

    @classmethod
    def of_rows(cls, values: Any) -> Self:
        """Sum up the rows of a matrix, dense or CSR."""
        return cls.of(row_keys(values), near_keys(values))

    @classmethod
    def _summed(cls, keys: Keys, most: int) -> Self:
        distinct, count = np.unique(keys, return_counts=True)
        bits = 0
        # Sorted, so that what begins with zeros comes first.
        while (n_kept := _n_below(distinct, bits)) > most:
            bits += 1
        return cls(distinct[:n_kept], count[:n_kept].astype(np.uint32), bits, keys.size)

    def equals(self, other: SampleKeys) -> bool:
        """Whether both sets have the same rows, each as often."""
        return (
            self.n_samples == other.n_samples
            and np.array_equal(self.key, other.key)
            and np.array_equal(self.count, other.count)
        )

    def among(self, other: SampleKeys) -> tuple[int, int]:
        """Count the samples that also occur in `other`, and those that were looked for."""
        bits = max(self.bits, other.bits)
        n_kept = _n_below(self.key, bits)
        found = np.isin(self.key[:n_kept], other.key, assume_unique=True)
        count = self.count[:n_kept]
        return int(count[found].sum()), int(count.sum())

    def single_among(self, other: SampleKeys) -> tuple[int, int]:
        """Count the rows that occur once in `other` and here too, and the samples looked for."""
        bits = max(self.bits, other.bits)
        n_kept = _n_below(self.key, bits)
        single = other.key[other.count == 1]
        found = np.isin(self.key[:n_kept], single, assume_unique=True)
        return int(np.count_nonzero(found)), int(self.count[:n_kept].sum())

    def with_others(self, other: SampleKeys) -> NDArray[np.int64]:
        """Count how often each distinct row occurs in either set."""
        bits = max(self.bits, other.bits)
        ends = _n_below(self.key, bits), _n_below(other.key, bits)
        key = np.concatenate((self.key[: ends[0]], other.key[: ends[1]]))
        count = np.concatenate((self.count[: ends[0]], other.count[: ends[1]]))
        _, row = np.unique(key, return_inverse=True)
        return np.bincount(row, weights=count).astype(np.int64)


def _n_below(sorted_keys: Keys, bits: int) -> int:
    if bits == 0:
        return sorted_keys.size
    return int(np.searchsorted(sorted_keys, np.uint64(1) << np.uint64(64 - bits)))


def log_chance(times: NDArray[Any]) -> float:
    """Bound the chance to draw each kind so many times: multinomial, kinds as likely as seen."""
    from scipy.special import gammaln

    n = int(times.sum())
    if n == 0:
        return 0.0
    ways = gammaln(n + 1.0) - gammaln(times + 1.0).sum()
    return float(ways + (times * np.log(times / n)).sum())


def overlap_note(samples: SampleKeys, known: SampleKeys | None) -> str:
    """Say how many of `samples` occur among the `known` ones, if more do than by chance.

    Independent samples of one population meet a known one as often as the known ones meet each
    other, so the share of known ones that have a twin among themselves is the standard.

    Up to rounding, different samples are more often alike, and more so where they are easy. There
    only known rows that occur once count, each one time; what chance does is what Good and Turing
    say: new samples fall on rows seen once as often as samples have exactly one twin.

    Samples of few kinds meet all the time. They are the known ones if every kind occurs as often
    as there, which two draws hardly ever agree in.
    """
    if known is None:
        return ""
    if samples.equals(known) and log_chance(known.count) <= RARE:
        return f"{samples.n_samples:,} of {samples.n_samples:,}"
    n_twins = int(known.count[known.count > 1].sum())
    if note := _excess(samples, known, *samples.among(known), n_twins):
        return note
    if samples.near is None or known.near is None:
        return ""
    here, there = samples.near, known.near
    n_twins = 2 * int(np.count_nonzero(there.count == 2))
    note = _excess(here, there, *here.single_among(there), n_twins)
    return f"about {note.removeprefix('about ')}" if note else ""


def _excess(
    samples: SampleKeys, known: SampleKeys, n_found: int, n_looked: int, n_twins: int
) -> str:
    """Say how many samples were found, if their share is far above that of twins of the known."""
    if n_found == 0:
        return ""
    n_known = int(known.count.sum())
    pooled = (n_found + n_twins) / (n_looked + n_known)
    # Twins come in pairs, hence the 2.
    error = math.sqrt(pooled * (1.0 - pooled) * (1.0 / n_looked + 2.0 / n_known))
    if n_found / n_looked - n_twins / n_known <= FAR * error:
        return ""
    if n_looked < samples.n_samples:
        return f"about {n_found / n_looked:.0%} of {samples.n_samples:,}"
    return f"{n_found:,} of {samples.n_samples:,}"


def copies_note(samples: SampleKeys, known: SampleKeys | None = None) -> str:
    """Say how often rows occur, alone or together with `known` ones, if chance cannot explain it.

    Rows of samples drawn independently, from whatever distribution, occur as often as mixtures of
    Poisson counts do; and they do not repeat far more often than those of the `known` samples.
    """
    if note := _copies(samples, known, _repeats_more):
        return note
    if samples.near is None:
        return ""
    # Easy samples may be alike up to rounding in one part and not in the other: no comparison.
    note = _copies(samples.near, None if known is None else known.near, lambda *_: False)
    return f"{note}, up to rounding" if note else ""


def _copies(
    samples: SampleKeys,
    known: SampleKeys | None,
    repeats_more: Callable[[SampleKeys, SampleKeys], bool],
) -> str:
    count: NDArray[Any] = samples.count
    where = ""
    if not _is_copied(count):
        if known is None:
            return ""
        if not repeats_more(samples, known):
            count = samples.with_others(known)
            where = " in the fit and calibration samples together"
            if not _is_copied(count):
                return ""
    factor = int(np.gcd.reduce(count))
    if factor > 1:
        times = f"{factor}" if (count == factor).all() else f"{factor} or a multiple of {factor}"
        return f"every row of scores occurs {times} times{where}"
    n_repeated, n = int(count[count > 1].sum()), int(count.sum())
    whole = samples.bits == 0 and (not where or known is None or known.bits == 0)
    share = f"{n_repeated:,} of {n:,}" if whole else f"about {n_repeated / n:.0%} of the"
    return f"{share} rows of scores occur more than once{where}"


def doubts_about(
    keys: SampleKeys, fit_keys: SampleKeys | None, *, what: str = "scores"
) -> list[str]:
    """Say what is wrong with calibration samples that are not new, or not each their own."""
    found = []
    if overlap := overlap_note(keys, fit_keys):
        found.append(
            f"{overlap} calibration samples were also fitted on (their {what} are the same): the "
            "numbers look better than they are, and no promise holds. Calibrate on other samples."
        )
    # Samples in both parts are not also called copies.
    if copies := copies_note(keys, None if overlap else fit_keys):
        found.append(
            f"Calibration samples are copies of each other: {copies.replace('scores', what)}. They "
            "count as if they were independent, so the result is less certain than it seems, and "
            "no promise holds. Keep one of each."
        )
    return found


def doubts_about_features(x: Any, held_out: Rows, kept: Rows) -> list[str]:
    """Say if samples held out for the cutoff have features of others that are trained on.

    Their scores do not tell: those of the others come from classifiers that did not see them.
    """
    keys = _feature_keys(x)
    return doubts_about(SampleKeys.of(keys[held_out]), SampleKeys.of(keys[kept]), what="features")


def _feature_keys(x: Any) -> Keys:
    """Hash samples of any kind: numbers, sparse or not, or else by what they look like."""
    if is_sparse(x):
        return row_keys(x)
    values = x if isinstance(x, list | tuple) else np.asarray(x)  # of long texts no array is made
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" and values.ndim > 1:
        return row_keys(values.reshape(len(values), -1))
    rows = (repr(row.tolist() if isinstance(row, np.ndarray) else row) for row in values)
    digests = (blake2b(row.encode(errors="replace"), digest_size=8).digest() for row in rows)
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


def _repeats_more(samples: SampleKeys, known: SampleKeys) -> bool:
    """Whether rows have twins 20 times as often as the known ones, for equally many samples.

    Less may be honest: out-of-fold scores, which come from several classifiers, have fewer twins
    than scores of one of them.
    """
    n, n_known = int(samples.count.sum()), int(known.count.sum())
    n_twins, n_known_twins = (int(s.count[s.count > 1].sum()) for s in (samples, known))
    return n_twins >= 20 and n_twins / n**2 > 20.0 * (n_known_twins + 4.0) / n_known**2


def _is_copied(count: NDArray[Any]) -> bool:
    r"""Whether no independent samples have rows that occur so often.

    With :math:`f_k` the number of distinct rows that occur k times, and a row of intensity
    :math:`\lambda` a Poisson number of times, :math:`k!\, E f_k = \sum \lambda^k e^{-\lambda}` are
    the moments of a measure, hence log-convex: :math:`k (E f_k)^2 \le (k+1) E f_{k-1} E f_{k+1}`.
    Copies break it, as no row then occurs once more or less often. Counts with a common factor,
    each of probability 1/2 at most, are the other thing that chance does not do.
    """
    if count.size >= FEWEST_ROWS and int(np.gcd.reduce(count)) > 1:
        return True
    few = count[count <= MOST_COPIES].astype(np.intp)
    root = np.sqrt(np.bincount(few, minlength=MOST_COPIES + 2).astype(np.float64))
    # The root of a Poisson count has a standard error of 1/2.
    low, high = np.maximum(root - 2.0, 0.0) ** 2, (root + 3.0) ** 2
    k = np.arange(2, MOST_COPIES + 1)
    return bool(np.any(k * low[k] ** 2 > (k + 1) * high[k - 1] * high[k + 1]))
