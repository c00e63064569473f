"""Parts of the samples: folds by what samples are, and random draws of some of many.

Folds do not depend on the order of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.data.duplicates import content_keys, mix
from hierlpr.hierarchy import Hierarchy

# Cutoffs, level profiles and the tempering of the joint posterior are learned from at most this
# many instances, so that memory stays bounded.
MOST_INSTANCES = 2**23
LEAST_SAMPLES = 10


def assign_folds(
    n_folds: int,
    *contents: Any,
    cluster: NDArray[Any] | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> NDArray[np.int64]:
    """Return the fold of each sample, equally many samples, or clusters, per fold.

    `contents` are arrays or sparse matrices with one row per sample: scores, truth, weights. Folds
    are pseudo-random but depend on these contents alone, compared in single precision; samples with
    equal contents are interchangeable. With more than `limit` samples the others get fold -1. All
    samples of a `cluster` have the same fold.
    """
    keys = content_keys(*contents, seed=seed)
    if cluster is not None:
        number = np.unique(cluster, return_inverse=True)[1]
        by_cluster = np.zeros(int(number.max(initial=-1)) + 1, dtype=np.uint64)
        np.add.at(by_cluster, number, keys)
        if limit is not None:  # as many clusters as have about so many samples
            limit = max(n_folds, limit * by_cluster.size // max(1, keys.size))
        keys = mix(by_cluster)
    order = np.argsort(keys, kind="stable")[:limit]
    fold = np.full(keys.size, -1, dtype=np.int64)
    fold[order] = np.arange(order.size) % n_folds
    return fold if cluster is None else fold[number]


def sample_limit(n_samples: int, hierarchy: Hierarchy, n_stored: int | None = None) -> int:
    """Return the number of samples with about `MOST_INSTANCES`; `n_stored` counts sparse scores.

    A stored score may add its ancestors; at most 8 instances are assumed for each.
    """
    per_sample = hierarchy.n_labels
    if n_stored is not None:
        growth = min(8, 1 + int(np.mean(hierarchy.levels)))
        per_sample = min(per_sample, 1 + n_stored * growth // max(1, n_samples))
    return max(LEAST_SAMPLES, MOST_INSTANCES // per_sample)


def draw_samples(n_samples: int, limit: int, rng: Any) -> NDArray[np.intp]:
    """Return all samples, or `limit` of them drawn at random, in order."""
    if n_samples <= limit:
        return np.arange(n_samples, dtype=np.intp)
    drawn = np.random.default_rng(rng).choice(n_samples, limit, replace=False)
    return np.sort(drawn).astype(np.intp)
