"""Block scores and a cutoff -> calls: label sets closed under ancestors, sample by sample."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr.cutoff.by_group import group_columns, label_levels
from hierlpr.cutoff.choose import Cutoff
from hierlpr.cutoff.scored import limit_calls
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

__all__ = ["LabelCall", "call_lists", "decide"]


def decide(score: Any, cutoff: Cutoff, hierarchy: Hierarchy) -> Any:
    """Call every instance whose block score reaches the cutoff.

    Nothing of one sample depends on another, so any split of the samples gives the same calls.

    Parameters
    ----------
    score : ndarray or CSR of shape (n_samples, n_labels)
        Block scores, as :func:`hierlpr.consistent_scores` returns them: a child's never exceeds
        any parent's. In CSR, an absent entry is never called.
    cutoff : Cutoff
    hierarchy : Hierarchy

    Returns
    -------
    ndarray of bool, or csr_array of bool for CSR input
        Closed upward: a called label's parents are called.

    Examples
    --------
    >>> from hierlpr.cutoff.choose import Cutoff
    >>> h = Hierarchy([("A", "B")], labels=["A", "B", "C"])
    >>> decide(np.array([[0.9, 0.4, 0.7], [0.6, 0.6, 0.1]]), Cutoff(0.6, "precision"), h)
    array([[ True, False,  True],
           [ True,  True, False]])
    """
    if score.ndim != 2 or score.shape[1] != hierarchy.n_labels:
        raise DataError(
            f"score has shape {tuple(score.shape)}; expected (n_samples, {hierarchy.n_labels})."
        )
    level = label_levels(cutoff, hierarchy)
    if sparse.issparse(score):
        return _decide_sparse(sparse.csr_array(score), cutoff, level)
    called: NDArray[np.bool_] = score >= level
    for columns, most in _limits(cutoff, hierarchy.n_labels):
        part = score[:, columns]
        if most < part.shape[1]:
            # Nothing tied with the first label past the limit, or below it, is called.
            past = np.partition(part, part.shape[1] - most - 1, axis=1)[:, -most - 1]
            called[:, columns] &= part > past[:, None]
    return called


def _limits(cutoff: Cutoff, n_labels: int) -> list[tuple[NDArray[np.intp], int]]:
    """Columns and the most calls a sample may have among them, where there is such a limit."""
    if cutoff.groups is None or cutoff.label_groups is None:
        everything = np.arange(n_labels, dtype=np.intp)
        return [] if cutoff.max_calls is None else [(everything, cutoff.max_calls)]
    return [
        (columns, most)
        for group, columns in group_columns(cutoff.label_groups).items()
        if (most := cutoff.groups[group].max_calls) is not None
    ]


def _decide_sparse(
    score: sparse.csr_array, cutoff: Cutoff, level: NDArray[np.float64]
) -> sparse.csr_array:
    called = (score.data > 0.0) & (score.data >= level[score.indices])
    n_samples, n_labels = score.shape
    row = np.repeat(np.arange(n_samples, dtype=np.intp), np.diff(score.indptr))
    for columns, most in _limits(cutoff, n_labels):
        inside = np.flatnonzero(np.isin(score.indices, columns))
        called[inside] &= limit_calls(score.data[inside], row[inside], most)
    row = row[called]
    indptr = np.zeros(n_samples + 1, dtype=score.indptr.dtype)
    np.cumsum(np.bincount(row, minlength=n_samples), out=indptr[1:])
    data = (np.ones(row.size, dtype=bool), score.indices[called], indptr)
    return sparse.csr_array(data, shape=score.shape)


class LabelCall(NamedTuple):
    """One called label of a sample with its block score."""

    label: str
    score: float


def call_lists(calls: Any, score: Any, hierarchy: Hierarchy) -> list[tuple[LabelCall, ...]]:
    """List the calls of each sample, best first; a label never comes before its parents.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")], labels=["B", "A"])
    >>> call_lists(np.array([[True, True], [False, False]]), np.array([[0.9, 0.9], [0.1, 0.2]]), h)
    [(LabelCall(label='A', score=0.9), LabelCall(label='B', score=0.9)), ()]
    """
    if isinstance(calls, np.ndarray):
        row, column = np.nonzero(calls)
    else:
        called = sparse.csr_array(calls)
        row, column = np.repeat(np.arange(called.shape[0]), np.diff(called.indptr)), called.indices
    values = np.asarray(score[row, column]).ravel()
    # By sample, then falling score; equal scores in topological order.
    order = np.lexsort((hierarchy.position[column], -values, row))
    listed = [
        LabelCall(hierarchy.labels[j], v)
        for j, v in zip(column[order].tolist(), values[order].tolist(), strict=True)
    ]
    bounds = np.searchsorted(row, np.arange(calls.shape[0] + 1)).tolist()
    return [tuple(listed[start:stop]) for start, stop in pairwise(bounds)]
