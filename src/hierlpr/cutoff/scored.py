"""Scored instances with truth, as plain arrays: what cutoffs are chosen from."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._base.checks import check_real_array
from hierlpr.exceptions import DataError

__all__ = [
    "Scored",
    "calls_by_level",
    "collect",
    "fingerprint",
    "fingerprint_rows",
    "limit_calls",
    "mix",
    "row_keys",
    "sample_keys",
    "split_by_hash",
]

_KEY_VALUES = 2**15  # hashed at a time, so that what is in between stays in cache


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Scored instances with truth. Not every instance need be listed: `n_positives` counts all."""

    score: NDArray[np.float64]
    truth: NDArray[np.bool_]
    sample: NDArray[np.intp]
    n_samples: int
    n_positives: int
    n_labels: int

    def take(self, kept: NDArray[np.bool_]) -> Scored:
        """Keep some of the listed instances; the positives still count."""
        return replace(
            self, score=self.score[kept], truth=self.truth[kept], sample=self.sample[kept]
        )


def collect(score: Any, truth: Any) -> Scored:
    """List the instances of two matrices (samples x labels), dense or CSR.

    In a CSR matrix an absent score means 0: such instances are not listed and never called.
    """
    n_samples, n_labels = score.shape
    if tuple(truth.shape) != (n_samples, n_labels):
        raise DataError(f"score has shape {score.shape}, but truth has {tuple(truth.shape)}.")
    if sparse.issparse(score):
        csr = sparse.csr_array(score)
        sample = np.repeat(np.arange(n_samples, dtype=np.intp), np.diff(csr.indptr))
        if sparse.issparse(truth):
            held, n_positives = _held(csr, sample, sparse.csr_array(truth, dtype=bool))
        else:
            held = np.asarray(truth, dtype=bool)[sample, csr.indices]
            n_positives = int(np.count_nonzero(truth))
        kept = csr.data > 0.0
        return Scored(csr.data[kept], held[kept], sample[kept], n_samples, n_positives, n_labels)
    dense = truth.toarray() if sparse.issparse(truth) else np.asarray(truth)
    held = dense.astype(bool).ravel()
    sample = np.repeat(np.arange(n_samples, dtype=np.intp), n_labels)
    flat = check_real_array(score, name="score").ravel()
    return Scored(flat, held, sample, n_samples, int(held.sum()), n_labels)


def _held(
    csr: sparse.csr_array, sample: NDArray[np.intp], truth: sparse.csr_array
) -> tuple[NDArray[np.bool_], int]:
    """Look up the entries of one sparse matrix in another; count those of the other."""
    row = np.repeat(np.arange(truth.shape[0], dtype=np.int64), np.diff(truth.indptr))
    keys = np.unique((row * truth.shape[1] + truth.indices)[truth.data])
    if keys.size == 0:
        return np.zeros(csr.nnz, dtype=bool), 0
    wanted = sample * truth.shape[1] + csr.indices
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return keys[at] == wanted, int(keys.size)


def sample_keys(
    score: NDArray[np.float64], sample: NDArray[np.intp], n_samples: int
) -> NDArray[np.uint64]:
    """Hash the scores of each sample: a key as good as random that moves with its sample."""
    key = np.zeros(n_samples, dtype=np.uint64)
    np.add.at(key, sample, mix(np.ascontiguousarray(score).view(np.uint64)))
    return mix(key)


def mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words (the finalizer of SplitMix64)."""
    x = bits + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed


def split_by_hash(score: Any, truth: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Set a third of the samples apart by the hash of their scores, whatever order they come in.

    Returns
    -------
    (score, truth) of that third, and (score, truth) of the others
    """
    listed = collect(score, truth)
    apart = sample_keys(listed.score, listed.sample, listed.n_samples) % np.uint64(3) == 0
    return (score[apart], truth[apart]), (score[~apart], truth[~apart])


def fingerprint(matrix: Any) -> str:
    """Digest a matrix, dense or CSR, to tell whether another is the same."""
    return fingerprint_rows(row_keys(matrix), tuple(matrix.shape))


def fingerprint_rows(keys: NDArray[np.uint64], shape: tuple[int, ...]) -> str:
    """Digest the `row_keys` of a matrix, which may have come in parts."""
    digest = hashlib.blake2b(repr((*map(int, shape),)).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(keys).tobytes())
    return digest.hexdigest()


def row_keys(matrix: Any) -> NDArray[np.uint64]:
    """Hash the entries of each row with their columns; stored zeros of a CSR matrix count."""
    keys = np.zeros(matrix.shape[0], dtype=np.uint64)
    salt = mix(np.arange(matrix.shape[1], dtype=np.uint64))
    if sparse.issparse(matrix):
        csr = sparse.csr_array(matrix)
        bits = np.ascontiguousarray(csr.data, dtype=np.float64).view(np.uint64)
        running = np.zeros(csr.nnz + 1, dtype=np.uint64)
        np.cumsum(mix(bits ^ salt[csr.indices]), out=running[1:])  # wraps around, as do its parts
        keys[:] = running[csr.indptr[1:]] - running[csr.indptr[:-1]]
        return keys
    step = max(1, _KEY_VALUES // max(1, matrix.shape[1]))
    for start in range(0, matrix.shape[0], step):
        part = np.ascontiguousarray(matrix[start : start + step], dtype=np.float64)
        keys[start : start + step] = mix(part.view(np.uint64) ^ salt).sum(axis=1, dtype=np.uint64)
    return keys


def limit_calls(
    score: NDArray[np.float64], sample: NDArray[np.intp], max_calls: int
) -> NDArray[np.bool_]:
    """Mark the instances that may be called if no sample has more than `max_calls` calls.

    A sample's instances are taken by falling score, ties together or not at all, so what remains
    is closed upward.
    """
    if max_calls < 1:
        raise DataError(f"max_calls must be at least 1, got {max_calls}.")
    order = np.lexsort((-score, sample))
    score, sample = score[order], sample[order]
    if score.size == 0:
        return np.zeros(0, dtype=bool)
    is_start = np.append(True, sample[1:] != sample[:-1])
    starts = np.flatnonzero(is_start)
    group = np.cumsum(is_start) - 1
    place = np.arange(score.size) - starts[group]
    # The first instance past the limit: nothing tied with it or below it is called.
    too_many = np.full(starts.size, -math.inf)
    past = place == max_calls
    too_many[group[past]] = score[past]
    kept = np.empty(score.size, dtype=bool)
    kept[order] = score > too_many[group]
    return kept


def calls_by_level(
    instances: Scored, level: NDArray[np.float64]
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Yield the calls and the right calls of every sample at each level, strict to lenient."""
    # Index of the strictest level that calls the instance; level.size if none does.
    enters = level.size - np.searchsorted(level[::-1], instances.score, side="right")
    # Small integers sort by radix, far faster than scores would.
    enters = enters.astype(np.int16 if level.size < 2**15 else np.int64)
    order = np.argsort(enters, kind="stable")
    bounds = np.searchsorted(enters[order], np.arange(level.size + 1))
    sample, truth = instances.sample[order], instances.truth[order].astype(np.float64)
    calls, hits = np.zeros(instances.n_samples), np.zeros(instances.n_samples)
    for i in range(level.size):
        new = slice(bounds[i], bounds[i + 1])
        calls += np.bincount(sample[new], minlength=instances.n_samples)
        hits += np.bincount(sample[new], weights=truth[new], minlength=instances.n_samples)
        yield calls, hits
