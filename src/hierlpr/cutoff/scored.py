"""Scored instances with truth, as plain arrays: what cutoffs are chosen from."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._base.checks import check_real_array, is_sparse
from hierlpr._base.order_free import mix, row_keys
from hierlpr.data.partial_truth import PartialTruth
from hierlpr.data.repeats import log_chance
from hierlpr.exceptions import DataError

_TRUE = np.uint64(0xD1B54A32D192ED03)  # any constant: what the truth adds to a hash
_UNKNOWN = np.uint64(0x8CB92BA72F3D8DD7)  # any other
_RARE = math.log(1e-6)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Scored instances with truth, sample by sample.

    Not every instance need be listed: `n_positives` counts all. Where some of the truth is unknown,
    `known` tells which is known, `label` whose instance each is, and `n_unknown` counts the others.
    `weight` is what each sample counts (None: all alike), and `positives` all positives so weighed.
    """

    score: NDArray[np.float64]
    truth: NDArray[np.bool_]
    sample: NDArray[np.intp]
    n_samples: int
    n_positives: int
    n_labels: int
    known: NDArray[np.bool_] | None = None
    label: NDArray[np.intp] | None = None
    n_unknown: int = 0
    weight: NDArray[np.float64] | None = None
    weighed_positives: float | None = None

    @property
    def positives(self) -> float:
        """All positives, weighed."""
        return self.n_positives if self.weighed_positives is None else self.weighed_positives

    def counts(self) -> NDArray[np.float64]:
        """Return what each listed instance counts: 1, or the weight of its sample."""
        return np.ones(self.sample.size) if self.weight is None else self.weight[self.sample]

    def take(self, kept: Any) -> Scored:
        """Keep some of the listed instances; the positives still count."""
        return replace(
            self,
            score=self.score[kept],
            truth=self.truth[kept],
            sample=self.sample[kept],
            known=None if self.known is None else self.known[kept],
            label=None if self.label is None else self.label[kept],
        )

    def those_known(self) -> Scored:
        """Keep the instances whose truth is known."""
        return self if self.known is None else self.take(self.known)


def collect(score: Any, truth: Any, weight: NDArray[np.float64] | None = None) -> Scored:
    """List the instances of two matrices (samples x labels), dense or CSR.

    In a CSR matrix an absent score means 0: such instances are not listed and never called.
    """
    if weight is not None:
        held = truth.held if isinstance(truth, PartialTruth) else truth
        of_samples = np.asarray(held.sum(axis=1), dtype=np.float64).ravel()
        return replace(
            collect(score, truth),
            weight=weight,
            weighed_positives=float(np.sort(of_samples * weight).sum()),
        )
    n_samples, n_labels = score.shape
    if tuple(truth.shape) != (n_samples, n_labels):
        raise DataError(f"score has shape {score.shape}, but truth has {tuple(truth.shape)}.")
    if isinstance(truth, PartialTruth):
        listed, unknown = (collect(score, x) for x in (truth.held, truth.unknown))
        return replace(
            listed, known=~unknown.truth, label=_labels(score), n_unknown=unknown.n_positives
        )
    if is_sparse(score):
        csr = scipy.sparse.csr_array(score)
        sample = np.repeat(np.arange(n_samples, dtype=np.intp), np.diff(csr.indptr))
        if is_sparse(truth):
            held, n_positives = _held(csr, sample, scipy.sparse.csr_array(truth, dtype=bool))
        else:
            held = np.asarray(truth, dtype=bool)[sample, csr.indices]
            n_positives = int(np.count_nonzero(truth))
        kept = csr.data > 0.0
        return Scored(csr.data[kept], held[kept], sample[kept], n_samples, n_positives, n_labels)
    dense = truth.toarray() if is_sparse(truth) else np.asarray(truth)
    held = dense.astype(bool).ravel()
    sample = np.repeat(np.arange(n_samples, dtype=np.intp), n_labels)
    flat = check_real_array(score, name="score").ravel()
    return Scored(flat, held, sample, n_samples, int(held.sum()), n_labels)


def as_scored(score: Any, truth: Any) -> Scored:
    """List the instances of any two matrices; what is listed already stays."""
    if isinstance(score, Scored):
        return score
    given = score if is_sparse(score) else np.asarray(score)
    return collect(given, truth if is_sparse(truth) else np.asarray(truth))


def _labels(score: Any) -> NDArray[np.intp]:
    """Labels of the instances that `collect` lists."""
    if is_sparse(score):
        csr = scipy.sparse.csr_array(score)
        return np.asarray(csr.indices[csr.data > 0.0], dtype=np.intp)
    return np.tile(np.arange(score.shape[1], dtype=np.intp), score.shape[0])


def _held(
    csr: scipy.sparse.csr_array, sample: NDArray[np.intp], truth: scipy.sparse.csr_array
) -> tuple[NDArray[np.bool_], int]:
    """Look up the entries of one sparse matrix in another; count those of the other."""
    row = np.repeat(np.arange(truth.shape[0], dtype=np.int64), np.diff(truth.indptr))
    keys = np.unique((row * truth.shape[1] + truth.indices)[truth.data])
    if keys.size == 0:
        return np.zeros(csr.nnz, dtype=bool), 0
    wanted = sample * truth.shape[1] + csr.indices
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return keys[at] == wanted, int(keys.size)


class Shuffle(NamedTuple):
    """An order of the samples, and a bound on the log chance to draw samples that hold the same.

    The order is one for each set of samples. A population whose samples are of few kinds has few
    sets, each with its own chance, so that single orders weigh: `is_fair` tells whether none does.
    """

    order: NDArray[np.intp]
    log_chance: float

    @property
    def is_fair(self) -> bool:
        """Whether no set like this one has a chance of more than one in a million.

        Then the luck of the orders moves the chance of any event by less than 0.001 (standard
        deviation, if each set of samples has an order drawn at random).
        """
        return self.log_chance <= _RARE


def random_order(instances: Scored) -> Shuffle:
    """Order the samples at random, the same way whatever order they came in.

    The order must tell nothing about what the samples hold, or a test that goes through them in
    turn could see the good ones first. So they are sorted by a hash of what they hold, which
    forgets how they came in, and then shuffled by a generator seeded with all hashes together.
    Samples with one hash hold the same scores with the same truth, and may change places.
    """
    keys = np.zeros(instances.n_samples, dtype=np.uint64)
    held = np.where(instances.truth, _TRUE, np.uint64(0))
    if instances.known is not None:
        held[~instances.known] = _UNKNOWN
    hashed = mix(mix(np.ascontiguousarray(instances.score).view(np.uint64)) ^ held)
    hashed[instances.score <= 0.0] = 0  # as if absent, which a CSR matrix makes of them
    np.add.at(keys, instances.sample, hashed)
    if instances.weight is not None:
        keys += mix(np.ascontiguousarray(instances.weight).view(np.uint64))
    return _shuffled(keys)


def _shuffled(keys: NDArray[np.uint64]) -> Shuffle:
    """Sort by key, then shuffle by a seed that is the digest of all sorted keys."""
    order = np.argsort(keys, kind="stable")
    digest = hashlib.blake2b(keys[order].astype("<u8").tobytes(), digest_size=32).digest()
    bits = np.random.PCG64(int.from_bytes(digest, "little"))
    # Sorting drawn numbers, rather than Generator.permutation, whose algorithm may change.
    drawn = bits.random_raw(keys.size)
    _, times = np.unique(keys, return_counts=True)
    return Shuffle(order[np.argsort(drawn, kind="stable")], log_chance(times))


def split_at_random(
    score: Any, truth: Any, weight: NDArray[np.float64] | None = None
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Set a third of the samples apart at random, the same third whatever order they come in.

    Returns
    -------
    (score, truth) of that third, with weights if there are any, and the same of the others

    Raises
    ------
    DataError
        If the samples are too few or too alike for their split to be as good as random.
    """
    scored = score if is_sparse(score) else scipy.sparse.csr_array(score)
    held = truth.held if isinstance(truth, PartialTruth) else truth
    keys = mix(_stored_keys(scored)) + _stored_keys(held)
    if isinstance(truth, PartialTruth):
        keys = mix(keys) + _stored_keys(truth.unknown)
    if weight is not None:
        keys = mix(keys) + mix(np.ascontiguousarray(weight).view(np.uint64))
    shuffle = _shuffled(keys)
    if not shuffle.is_fair:
        raise DataError(
            f"confidence= has to set a third of the {shuffle.order.size:,} calibration samples "
            "apart at random, but they are too few or too alike for that.\n"
            "Hint: calibrate on more samples, or without groups= with a model fitted on others."
        )
    n_apart = (shuffle.order.size + 1) // 3
    apart, rest = np.sort(shuffle.order[:n_apart]), np.sort(shuffle.order[n_apart:])
    given = (score, truth) if weight is None else (score, truth, weight)
    return tuple(each[apart] for each in given), tuple(each[rest] for each in given)


def _stored_keys(matrix: Any) -> NDArray[np.uint64]:
    """Hash the rows of a matrix, zeros aside."""
    csr = scipy.sparse.csr_array(matrix, copy=True)
    csr.eliminate_zeros()
    return row_keys(csr)


def limit_calls(
    score: NDArray[np.float64], sample: NDArray[np.intp], max_calls: int
) -> NDArray[np.bool_]:
    """Mark the instances that may be called if no sample has more than `max_calls` calls.

    A sample's instances are taken by falling score, ties together or not at all, so what remains
    is closed upward.
    """
    if max_calls < 1:
        raise DataError(f"max_calls must be at least 1, got {max_calls}.")
    order, _, needed = _places(score, sample)
    kept = np.empty(score.size, dtype=bool)
    kept[order] = needed <= max_calls
    return kept


class BySample(NamedTuple):
    """Instances sample by sample, best first; those of sample i are ``ptr[i]`` to ``ptr[i + 1]``.

    An instance has its `place` in its sample, from 1 on, and is called only under a limit of at
    least `needed` calls: the place of the last one tied with it. `hits_before` counts the true
    ones before each instance, and all of them at the end; `known_before` those whose truth is
    known, None if all is.
    """

    ptr: NDArray[np.int64]
    sample: NDArray[np.intp]
    score: NDArray[np.float64]
    truth: NDArray[np.bool_]
    place: NDArray[np.int32]
    needed: NDArray[np.int32]
    hits_before: NDArray[np.int64]
    known_before: NDArray[np.int64] | None


def by_sample(instances: Scored) -> BySample:
    """Sort the instances of each sample by falling score."""
    order, place, needed = _places(instances.score, instances.sample)
    sample, truth = instances.sample[order], instances.truth[order]
    ptr = np.searchsorted(sample, np.arange(instances.n_samples + 1)).astype(np.int64)
    hits_before = _before(truth)
    known_before = None if instances.known is None else _before(instances.known[order])
    score = instances.score[order]
    return BySample(ptr, sample, score, truth, place, needed, hits_before, known_before)


def _before(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    count = np.zeros(flags.size + 1, dtype=np.int64)
    np.cumsum(flags, out=count[1:])
    return count


def _places(
    score: NDArray[np.float64], sample: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.int32], NDArray[np.int32]]:
    """Sort by sample and falling score; there, each instance's place and that of its last tie."""
    if score.size == 0:
        return np.empty(0, np.intp), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
    order = _falling(score, sample)
    score, sample = score[order], sample[order]
    is_start = np.append(True, sample[1:] != sample[:-1])
    starts = np.flatnonzero(is_start)
    place = (np.arange(1, score.size + 1) - starts[np.cumsum(is_start) - 1]).astype(np.int32)
    is_new = is_start | np.append(True, score[1:] != score[:-1])
    last = np.append(np.flatnonzero(is_new)[1:], score.size) - 1
    return order, place, place[last][np.cumsum(is_new) - 1]


def _falling(score: NDArray[np.float64], sample: NDArray[np.intp]) -> NDArray[np.intp]:
    """Order of instances by sample, those of one by falling score."""
    n_samples = int(sample[-1]) + 1
    width = score.size // n_samples
    if np.array_equal(sample, np.repeat(np.arange(n_samples), width)):
        # All labels of all samples: many short rows are sorted sooner than one long one.
        rows = np.argsort(-score.reshape(n_samples, width), axis=1)
        return (rows + np.arange(0, score.size, width)[:, None]).ravel()
    order = np.argsort(-score)
    # To CSR is a counting sort by sample that keeps the order: half the time of a lexsort.
    listed = scipy.sparse.coo_array((order, (sample[order], np.arange(order.size))))
    return np.asarray(listed.tocsr().data, dtype=np.intp)
