"""CSSA: the best set of a given number of labels, as a relaxed selection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.ranking.order import Ranking, rank
from hierlpr.research.baselines._order import baseline, with_score

__all__ = ["cssa"]


@baseline(consistent=True)
def cssa(
    lpr: Any,
    hierarchy: Hierarchy,
    *,
    top: int | None = None,
    weight: Any = None,
    each_sample: bool = False,
) -> Ranking:
    r"""Select `top` instances by condensing sort and select, in calling order.

    Maximizes :math:`\sum_k \mathrm{LPR}_k \Psi_k` subject to :math:`\sum_k \Psi_k \le L` and
    :math:`0 \le \Psi_k \le \Psi_{parent(k)} \le 1`. Whole blocks are taken while there is room;
    the last one only in part, all its labels with the same fraction
    :math:`(L - \Gamma) / n` of what is left over its size.

    Parameters
    ----------
    lpr : array-like of shape (n_samples, n_labels)
        LPRs, or any scores in [0, 1].
    hierarchy : Hierarchy
    top : int
        L, the number of calls. All instances if not given.
    weight : array-like of shape (n_labels,), optional
    each_sample : bool
        Call L labels of every sample, as Bi and Kwok do, instead of L instances altogether.

    Returns
    -------
    Ranking
        The selected instances. Its `score` is :math:`\Psi`: 1, and for the labels of the last
        block the fraction; so more than L instances are listed if that block does not fit.

    References
    ----------
    Baraniuk and Jones (1994), key ``baraniuk1994``; Bi and Kwok (2011), key ``bi2011``. The
    paper's Algorithm 6.

    Examples
    --------
    Of the block A, B, C only half fits.

    >>> h = Hierarchy([("A", "B"), ("B", "C")])
    >>> cssa([[0.2, 0.3, 0.9]], h, top=1).score
    array([0.33333333, 0.33333333, 0.33333333])
    >>> cssa([[0.9, 0.3, 0.2]], h, top=2).score
    array([1., 1.])
    """
    if top is not None and top < 1:
        raise DataError(f"top must be at least 1, got {top!r}.")
    ordered = rank(lpr, hierarchy, weight=weight)
    limit = len(ordered) if top is None else int(top)
    block = np.cumsum(ordered.first) - 1
    # Place of each block among those it competes with: all, or those of its own sample.
    rows = ordered.sample if each_sample else np.zeros(len(ordered), dtype=np.intp)
    by_row = np.argsort(rows, kind="stable")
    sizes = np.bincount(block, minlength=ordered.block_score.size)
    starts = np.zeros(len(ordered), dtype=np.intp)
    row_begin = np.searchsorted(rows[by_row], rows[by_row], side="left")
    starts[by_row] = np.arange(len(ordered)) - row_begin
    taken_before = starts[np.flatnonzero(ordered.first)]
    fraction = np.clip((limit - taken_before) / sizes, 0.0, 1.0)
    kept = np.flatnonzero(fraction[block] > 0)
    # Whole blocks first; among partial ones the larger share. Parents never have the smaller.
    kept = kept[np.argsort(-fraction[block[kept]], kind="stable")]
    selected = replace(
        ordered,
        place=ordered.place[kept],
        first=np.ones(kept.size, dtype=bool),
        source=ordered.lpr[kept],
        open_place=ordered.open_place[:0],
        open_lack=ordered.open_lack[:0],
    )
    return with_score(selected, fraction[block[kept]])
