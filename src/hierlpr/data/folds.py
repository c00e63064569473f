"""Assign samples to folds by what they are, so that no result depends on the order of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.data.duplicates import content_keys, mix


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
