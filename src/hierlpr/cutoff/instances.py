"""Scored instances with truth as plain arrays, in random order, and sorted within samples."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hierlpr._utils.checks import check_real_array, is_sparse
from hierlpr.data.duplicates import Keys, content_keys, log_chance, mix
from hierlpr.data.tables import dense
from hierlpr.data.truth import Truth
from hierlpr.exceptions import DataError

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Index = NDArray[np.intp]

_RARE = math.log(1e-6)


@dataclass(frozen=True, slots=True, eq=False)
class Instances:
    """Scored instances with truth, sample by sample.

    Not every instance need be listed; `n_positives` counts all positives. If some of the truth is
    unknown, `is_known` marks the known instances, `label` has their labels, `implied` marks unknown
    ones that hold because a descendant does, and `n_unknown` counts all unknown ones. `weight` is
    per sample (None: all equal), `positives` the weight of all positives. With `cluster`, the
    number of the cluster of each sample, clusters are the observations, not samples, and the
    weights of a cluster's samples are divided by their number. `key` hashes what each sample is.
    """

    score: Float
    truth: Bool
    sample: Index
    n_samples: int
    n_positives: int
    n_labels: int
    positives: float
    key: Keys
    is_known: Bool | None = None
    label: Index | None = None
    implied: Bool | None = None
    n_unknown: int = 0
    weight: Float | None = None
    cluster: Index | None = None

    @property
    def n_units(self) -> int:
        """Number of independent observations: clusters if there are any, else samples."""
        return self.n_samples if self.cluster is None else int(self.cluster.max(initial=-1)) + 1

    def by_unit(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return sums over the samples of each independent observation."""
        if self.cluster is None:
            return values
        return np.bincount(self.cluster, values, minlength=self.n_units)

    def cluster_size(self) -> Float | None:
        """Return the number of samples in the cluster of each sample; None without clusters."""
        if self.cluster is None:
            return None
        return np.bincount(self.cluster)[self.cluster].astype(np.float64)

    def take(self, rows: Any) -> Instances:
        """Keep some of the listed instances; the positives are still all counted."""
        names = ("score", "truth", "sample", "is_known", "label", "implied")
        arrays = {name: getattr(self, name) for name in names}
        return replace(self, **{k: x[rows] for k, x in arrays.items() if x is not None})

    def only_known(self) -> Instances:
        """Keep the instances whose truth is known."""
        return self if self.is_known is None else self.take(self.is_known)


def list_instances(score: Any, truth: Any, weight: Float | None = None) -> Instances:
    """List the instances of scores and truth (samples x labels), dense or CSR.

    A score that a CSR matrix does not store is 0: such instances are not listed and never called.
    """
    truth = Truth.of(truth)
    key, cluster = sample_keys(score, truth, weight), truth.cluster_number
    if cluster is not None and cluster.max(initial=-1) + 1 < cluster.size:
        share = 1.0 / np.bincount(cluster)[cluster]
        weight = share if weight is None else weight * share
    n_samples, n_labels = map(int, score.shape)
    sample, label = np.repeat(np.arange(n_samples, dtype=np.intp), n_labels), None
    if is_sparse(score):
        sample, label, value = listed_entries(score)
    else:
        value = check_real_array(score, name="score").ravel()

    def listed(matrix: Any) -> Bool:
        if label is not None:
            return holds_at(matrix, sample, label)
        return np.asarray(dense(matrix), dtype=bool).ravel()

    per_sample = np.asarray(truth.positive.sum(axis=1), dtype=np.float64).ravel()
    n_positives = int(per_sample.sum())
    positives = n_positives if weight is None else float((per_sample * weight).sum())
    counts = (n_samples, n_positives, n_labels, positives)
    instances = Instances(
        value, listed(truth.positive), sample, *counts, key, weight=weight, cluster=cluster
    )
    if truth.is_complete:
        return instances
    return replace(
        instances,
        is_known=~listed(truth.unknown),
        label=np.tile(np.arange(n_labels), n_samples) if label is None else label,
        implied=None if truth.implied is None else listed(truth.implied),
        n_unknown=int(truth.unknown.sum()),
    )


def listed_entries(score: Any) -> tuple[Index, Index, Float]:
    """Return the sample, label and value of the positive entries of a sparse matrix."""
    csr = scipy.sparse.csr_array(score)
    is_listed = csr.data > 0.0
    sample = np.repeat(np.arange(csr.shape[0], dtype=np.intp), np.diff(csr.indptr))[is_listed]
    return sample, csr.indices[is_listed].astype(np.intp), csr.data[is_listed]


def entries_at(matrix: Any, sample: NDArray[Any], label: NDArray[Any]) -> NDArray[Any]:
    """Return some entries of a dense or sparse matrix."""
    if not is_sparse(matrix):
        return np.asarray(np.asarray(matrix)[sample, label])
    if not sample.size:  # SciPy would return a sparse matrix
        return np.empty(0, dtype=matrix.dtype)
    return np.asarray(scipy.sparse.csr_array(matrix)[sample, label]).ravel()


def holds_at(truth: Any, sample: NDArray[Any], label: NDArray[Any]) -> Bool:
    """Return the truth of some instances."""
    return entries_at(truth, sample, label).astype(bool)


# -- random order ---------------------------------------------------------------------------------


class Shuffle(NamedTuple):
    """A pseudorandom order of samples, which is a function of their multiset.

    If a population has few kinds of samples, few multisets carry all the probability and single
    orders matter. `is_fair` says that no multiset like this one has a probability above one in a
    million: then the choice of the orders changes the probability of any event by less than 0.001
    (standard deviation, if each multiset of samples has an order drawn at random).
    """

    order: Index
    is_fair: bool


def random_order(instances: Instances) -> Shuffle:
    """Shuffle the samples, whatever their order in the data.

    A sequential test must not see the good samples first, so the order must not depend on their
    contents in any systematic way. Samples are sorted by a hash of their contents, then shuffled by
    a generator seeded with all hashes. Samples with equal hashes have the same scores and truth.
    """
    if instances.cluster is None:
        return _shuffled(instances.key)
    return _shuffled(_cluster_keys(instances.key, instances.cluster))


def _cluster_keys(keys: Keys, cluster: Index) -> Keys:
    """Hash each cluster from the hashes of its samples, whatever their order."""
    hashed = np.zeros(int(cluster.max(initial=-1)) + 1, dtype=np.uint64)
    np.add.at(hashed, cluster, mix(keys))
    return hashed


def _shuffled(keys: Keys) -> Shuffle:
    """Sort by key, then shuffle with a digest of all sorted keys as seed."""
    order = np.argsort(keys, kind="stable")
    digest = hashlib.blake2b(keys[order].astype("<u8").tobytes(), digest_size=32).digest()
    bits = np.random.PCG64(int.from_bytes(digest, "little"))
    # Sorting random numbers, because the algorithm of Generator.permutation may change.
    drawn = bits.random_raw(keys.size)
    _, times = np.unique(keys, return_counts=True)
    return Shuffle(order[np.argsort(drawn, kind="stable")], log_chance(times) <= _RARE)


def one_per_cluster(keys: Keys, cluster: Index) -> Index:
    """Return one random sample of each cluster, whatever the order of the samples.

    Samples with equal `keys` have the same contents.
    """
    order = _shuffled(keys).order
    return np.sort(order[np.unique(cluster[order], return_index=True)[1]])


def split_at_random(score: Any, truth: Any, weight: Float | None = None) -> tuple[Index, Index]:
    """Return the rows of a random third of the samples, whole clusters, and those of the others.

    The split does not depend on their order. Raises if there are too few samples, or too few kinds
    of samples, for a random split.
    """
    keys, cluster = sample_keys(score, Truth.of(truth), weight), Truth.of(truth).cluster_number
    shuffle = _shuffled(keys if cluster is None else _cluster_keys(keys, cluster))
    if not shuffle.is_fair:
        units = "samples" if cluster is None else "clusters"
        raise DataError(
            f"confidence= has to split off a third of the {shuffle.order.size:,} calibration "
            f"{units} at random, but they are too few or too similar for that.\n"
            f"Hint: calibrate on more {units}, or without groups= with a model fitted on others."
        )
    is_apart = np.zeros(shuffle.order.size, dtype=bool)
    is_apart[shuffle.order[: (shuffle.order.size + 1) // 3]] = True
    is_apart = is_apart if cluster is None else is_apart[cluster]
    return np.flatnonzero(is_apart), np.flatnonzero(~is_apart)


def sample_keys(score: Any, truth: Truth, weight: Float | None = None) -> Keys:
    """Hash what each sample is: its contents and its weight.

    The contents are those that the truth was given with. Scores that a model computed differ in
    their last digits from one processor to another, and orders drawn from these would too.
    """
    keys = truth.contents
    if keys is None:
        keys = content_keys(*(_stored(x) for x in (score, truth.positive, truth.unknown)))
    return keys if weight is None else mix(keys) + mix(np.ascontiguousarray(weight).view(np.uint64))


def _stored(matrix: Any) -> Any:
    """Return the nonzero entries of a matrix, so that zeros hash alike whether stored or not."""
    if matrix is None:
        return None
    csr = scipy.sparse.csr_array(matrix, copy=True)
    csr.eliminate_zeros()
    return csr


# -- sorted within samples ------------------------------------------------------------------------


def sort_by_sample(instances: Instances) -> tuple[Instances, NDArray[np.int32]]:
    """Sort the instances of each sample by decreasing score.

    Also return the lowest limit of calls per sample under which each is called: the place within
    its sample of the last one tied with it, so that a limit never splits ties.
    """
    order, _, needed = sample_places(instances.score, instances.sample)
    return instances.take(order), needed


def sample_places(
    score: Float, sample: Index
) -> tuple[Index, NDArray[np.int32], NDArray[np.int32]]:
    """Return the order by sample and decreasing score, places, and places of the last ties."""
    if score.size == 0:
        return np.empty(0, np.intp), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
    counts = np.bincount(sample)
    if counts.size * counts.max() <= 4 * score.size and np.all(sample[1:] >= sample[:-1]):
        # Many short rows are sorted much faster than one long one.
        first, column = np.cumsum(counts) - counts, np.arange(counts.max())
        is_used = column < counts[:, None]
        rows = np.full(is_used.shape, np.inf)
        rows[is_used] = -score
        order = (np.argsort(rows, axis=1, kind="stable") + first[:, None])[is_used]
    else:
        order = np.lexsort((-score, sample))
    score, sample = score[order], sample[order]
    is_start = np.append(True, sample[1:] != sample[:-1])
    starts = np.flatnonzero(is_start)
    place = (np.arange(1, score.size + 1) - starts[np.cumsum(is_start) - 1]).astype(np.int32)
    is_new = is_start | np.append(True, score[1:] != score[:-1])
    last = np.append(np.flatnonzero(is_new)[1:], score.size) - 1
    return order, place, place[last][np.cumsum(is_new) - 1]
