"""Scores of a label too many to sort: groups whose ranks are off by no more than is stated.

The scores go by twice. Quantiles of a sample of them are the edges; then every score is counted,
exactly, at an edge or in the open interval between two. So scores that many samples share stay
groups of their own, and only neighbours between two edges are taken together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.order_free import mix

Float = NDArray[np.float64]
Blocks = Iterable[tuple[Float, NDArray[np.bool_], Float]]

N_EDGES = 1 << 15
DRAWS_PER_EDGE = 16


class Sketch(NamedTuple):
    """Groups by rising score: weight of the samples and of the positives.

    `rank_error` bounds how far the rank of any score is off, as a share of the samples: the
    share of the largest group that took different scores together.
    """

    score: Float
    positive: Float
    total: Float
    rank_error: float


def sketch(blocks: Callable[[], Blocks], n_scores: int, *, n_edges: int | None = None) -> Sketch:
    """Group scores and truth that come in blocks, twice the same.

    Parameters
    ----------
    blocks : callable
        Gives an iterator over blocks of scores, truth and positive weights; called twice.
    n_scores : int
        Their number, at least 1.
    n_edges : int
        About so many edges; 2**15 by default. Memory grows with it,
        not with `n_scores`.

    Notes
    -----
    Let an open interval hold a share :math:`w` of the scores. Its scores get the rank of their
    group, and their own ranks lie inside the same stretch, so that they differ by at most
    :math:`w`; all other ranks are exact. Half of the edges are even quantiles of a random sample,
    so that :math:`w` is about ``2 / n_edges``, but the bound that is returned is counted, not
    expected. The others lie toward both ends, where it is far smaller. A strictly increasing
    transform of the scores gives the same counts.

    Examples
    --------
    >>> import numpy as np
    >>> scores, truth = np.arange(8.0), np.arange(8) > 3
    >>> found = sketch(lambda: iter([(scores, truth, np.ones(8))]), 8, n_edges=1)
    >>> found.total.tolist(), found.positive.tolist(), found.rank_error
    ([1.0, 3.0, 1.0, 2.0, 1.0], [0.0, 0.0, 1.0, 2.0, 1.0], 0.375)
    """
    edges = _edges(blocks(), n_scores, N_EDGES if n_edges is None else n_edges)
    # Bin 2i + 1 is edge i; bin 2i is what lies below it, above the edge before.
    n_bins = 2 * edges.size
    total, positive, summed, number = (np.zeros(n_bins) for _ in range(4))
    lowest, highest = np.full(n_bins, np.inf), np.full(n_bins, -np.inf)
    for scores, truth, weight in blocks():
        at = np.searchsorted(edges, scores)
        place = 2 * at + (edges[at] == scores)
        number += np.bincount(place, minlength=n_bins)
        total += np.bincount(place, weights=weight, minlength=n_bins)
        positive += np.bincount(place, weights=truth * weight, minlength=n_bins)
        summed += np.bincount(place, weights=scores, minlength=n_bins)
        np.minimum.at(lowest, place, scores)
        np.maximum.at(highest, place, scores)
    used = np.flatnonzero(total)
    mixed = lowest[used] < highest[used]
    middle = np.clip(summed[used] / number[used], lowest[used], highest[used])
    error = float(number[used][mixed].max()) / n_scores if mixed.any() else 0.0
    return Sketch(middle, positive[used], total[used], error)


def _edges(blocks: Blocks, n_scores: int, n_edges: int) -> Float:
    """Quantiles of scores drawn by a hash of their place, and the scores at both ends.

    LPRs change most among the highest scores, which are few: half of the quantiles are even, half
    ever closer toward the ends, and the very ends are edges themselves.
    """
    stride = np.uint64(max(1, n_scores // (DRAWS_PER_EDGE * n_edges)))
    n_ends = max(1, n_edges // 8)
    low, high, drawn, at = np.empty(0), np.empty(0), [], 0
    for scores, _, _ in blocks:
        place = np.arange(at, at + scores.size, dtype=np.uint64)
        at += scores.size
        drawn.append(scores[mix(place) % stride == 0])
        low = np.sort(np.concatenate([low, _lowest(scores, n_ends)]))[:n_ends]
        high = -np.sort(np.concatenate([-high, _lowest(-scores, n_ends)]))[:n_ends]
    ordered = np.sort(np.concatenate(drawn))
    if ordered.size:
        even = np.linspace(0, ordered.size - 1, n_edges - n_edges // 2 + 2)[1:-1]
        close = np.geomspace(1, max(1, ordered.size // 2), n_edges // 4) - 1
        places = np.concatenate([even, close, ordered.size - 1 - close]).round().astype(np.intp)
        ordered = ordered[np.unique(places)]
    return np.unique(np.concatenate([low, ordered, high]))


def _lowest(scores: Float, n: int) -> Float:
    return scores if scores.size <= n else np.partition(scores, n - 1)[:n]
