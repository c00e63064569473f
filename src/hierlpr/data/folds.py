"""Assign samples to folds by what they are, so that no result depends on the order of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import is_sparse
from hierlpr.data.duplicates import mix, row_keys


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
    keys = np.full(contents[0].shape[0], seed, dtype=np.uint64)
    for content in contents:
        keys = mix(keys) + row_keys(_in_single_precision(content))
    keys = mix(keys)
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


def _in_single_precision(content: Any) -> Any:
    with np.errstate(over="ignore"):  # huge numbers become infinite, which is a value like others
        if is_sparse(content):
            return content.tocsr().astype(np.float32)
        values = np.asarray(content, dtype=np.float32)
    values = np.where(np.isnan(values), np.float32(np.nan), values)  # NaN has many bit patterns
    return values[:, np.newaxis] if values.ndim == 1 else values
