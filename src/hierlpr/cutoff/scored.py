"""Scored instances with truth, as plain arrays: what cutoffs are chosen from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._base.checks import check_real_array
from hierlpr._base.hashing import mix
from hierlpr.exceptions import DataError

__all__ = [
    "Scored",
    "calls_by_level",
    "collect",
    "limit_calls",
    "sample_keys",
    "split_by_hash",
]


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


def split_by_hash(score: Any, truth: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Set a third of the samples apart by the hash of their scores, whatever order they come in.

    Returns
    -------
    (score, truth) of that third, and (score, truth) of the others
    """
    listed = collect(score, truth)
    apart = sample_keys(listed.score, listed.sample, listed.n_samples) % np.uint64(3) == 0
    return (score[apart], truth[apart]), (score[~apart], truth[~apart])


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
