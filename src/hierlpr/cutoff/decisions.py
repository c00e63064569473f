"""Block scores and a cutoff -> calls: label sets closed under ancestors, and why each is made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._base.checks import is_sparse
from hierlpr.cutoff.by_group import group_columns, label_levels
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.cutoff.scored import limit_calls
from hierlpr.cutoff.sets import SET_WORDS
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

# Every sentence once; a reason is known by its place. `others` are the other labels of the block.
# They are for people who make decisions, so an LPR is called what it is: a chance.
REASONS = (
    "Not called: nothing is called at this cutoff.",
    "Called: the chance that it holds, {own}, reaches the cutoff of {level}.",
    "Called together with {others}: their mean chance, {mean}, reaches the cutoff of {level}. The "
    "chance that this one holds is {own}.",
    "Called although the chance that it holds, {own}, is below the cutoff of {level}: it is called "
    "together with {others} or not at all, and their mean chance, {mean}, reaches the cutoff.",
    "Not called although its mean chance of {mean} reaches the cutoff of {level}: a sample may "
    "have at most {most}.",
    "Not called: the chance that it holds, {own}, is below the cutoff of {level}.",
    "Not called although the chance that it holds, {own}, reaches the cutoff of {level}: it can "
    "only be called together with {others}, and their mean chance, {mean}, is below the cutoff.",
    "Not called: it can only be called together with {others}, and their mean chance, {mean}, is "
    "below the cutoff of {level}.",
)
_NOTHING, _ALONE, _TOGETHER, _CARRIED, _LIMIT, _LOW, _HELD, _LOW_BLOCK = range(len(REASONS))
NAMED = 3  # other labels of a block that a sentence names

Float = NDArray[np.float64]


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
    >>> from hierlpr.cutoff.outcome import Cutoff
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
    if is_sparse(score):
        return _decide_sparse(scipy.sparse.csr_array(score), cutoff, level)
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
    score: scipy.sparse.csr_array, cutoff: Cutoff, level: NDArray[np.float64]
) -> scipy.sparse.csr_array:
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
    return scipy.sparse.csr_array(data, shape=score.shape)


class LabelCall(NamedTuple):
    """One called label of a sample with its block score.

    `set` is "sure", "possible" or "no" where the promises per sample are known, else None.
    """

    label: str
    score: float
    set: str | None = None


def call_lists(
    calls: Any, score: Any, hierarchy: Hierarchy, *, sets: NDArray[np.int8] | None = None
) -> list[tuple[LabelCall, ...]]:
    """List the calls of each sample, best first; a label never comes before its parents.

    `sets` are places in :data:`hierlpr.cutoff.sets.SET_WORDS` for every (sample, label).

    Examples
    --------
    >>> h = Hierarchy([("A", "B")], labels=["B", "A"])
    >>> call_lists(np.array([[True, True], [False, False]]), np.array([[0.9, 0.9], [0.1, 0.2]]), h)
    [(LabelCall(label='A', score=0.9, set=None), LabelCall(label='B', score=0.9, set=None)), ()]
    """
    if isinstance(calls, np.ndarray):
        row, column = np.nonzero(calls)
    else:
        called = scipy.sparse.csr_array(calls)
        row, column = np.repeat(np.arange(called.shape[0]), np.diff(called.indptr)), called.indices
    values = np.asarray(score[row, column]).ravel()
    # By sample, then falling score; equal scores in topological order.
    order = np.lexsort((hierarchy.position[column], -values, row))
    named = [hierarchy.labels[j] for j in column[order].tolist()]
    words: Any = repeat(None, len(named))
    if sets is not None:
        words = (SET_WORDS[place] for place in sets[row[order], column[order]].tolist())
    listed = list(map(LabelCall, named, values[order].tolist(), words))
    bounds = np.searchsorted(row, np.arange(calls.shape[0] + 1)).tolist()
    return [tuple(listed[start:stop]) for start, stop in pairwise(bounds)]


# -- why, in words ------------------------------------------------------------------------------


def call_limits(cutoff: Cutoff, n_labels: int) -> list[int | None]:
    """Return the most calls a sample may have among the labels of each label's group."""
    limits: list[int | None] = [None] * n_labels
    for columns, most in _limits(cutoff, n_labels):
        for column in columns.tolist():
            limits[column] = most
    return limits


def reason_codes(
    lpr: Float, score: Float, block: NDArray[np.intp], called: NDArray[np.bool_], level: Float
) -> NDArray[np.intp]:
    """Return the place in `REASONS` of every label of one sample.

    Parameters
    ----------
    lpr, score : ndarray
        What each label was ranked by, and the score of its block.
    block : ndarray of int
        Number of its block.
    called : ndarray of bool
    level : ndarray
        Level of each label; infinite where nothing is called.

    Examples
    --------
    >>> lpr, score = np.array([0.2, 0.8, 0.1]), np.array([0.5, 0.5, 0.1])
    >>> called, level = np.array([True, True, False]), np.full(3, 0.4)
    >>> codes = reason_codes(lpr, score, np.array([0, 0, 1]), called, level)
    >>> [REASONS[code].split(" ")[1] for code in codes]
    ['although', 'together', 'called:']
    """
    size = np.bincount(block)[block] if block.size else block
    alone, reaches = size == 1, lpr >= level
    yes = np.where(alone, _ALONE, np.where(reaches, _TOGETHER, _CARRIED))
    no = np.where(alone, _LOW, np.where(reaches, _HELD, _LOW_BLOCK))
    codes = np.where(called, yes, np.where(score >= level, _LIMIT, no))
    return np.where(~called & ~np.isfinite(level), _NOTHING, codes).astype(np.intp)


def fill(
    code: int,
    *,
    lpr: float,
    score: float,
    level: float,
    others: Sequence[tuple[str, float]],
    most: int | None,
) -> str:
    """Put the numbers into a sentence; `others` are the block's other labels with their LPRs.

    Examples
    --------
    >>> fill(3, lpr=0.2, score=0.5, level=0.4, others=[("dog", 0.8)], most=None)[:76]
    'Called although the chance that it holds, 0.20, is below the cutoff of 0.40:'
    >>> fill(5, lpr=0.8996, score=0.8996, level=0.9, others=[], most=None)
    'Not called: the chance that it holds, 0.8996, is below the cutoff of 0.9000.'
    """
    own, mean, cut = _told_apart(lpr, score, level)
    named = [f"“{name}” ({value:.2f})" for name, value in others[:NAMED]]
    if len(others) > NAMED:
        named.append(f"{len(others) - NAMED:,} more")
    joined = " and ".join([", ".join(named[:-1]), named[-1]]) if len(named) > 1 else "".join(named)
    calls = "" if most is None else f"{most:,} call{'' if most == 1 else 's'}"
    return REASONS[code].format(own=own, mean=mean, level=cut, others=joined, most=calls)


def _told_apart(lpr: float, score: float, level: float) -> tuple[str, str, str]:
    """Write the numbers with as many digits as it takes to tell them from the level."""
    if not math.isfinite(level):
        return f"{lpr:.2f}", f"{score:.2f}", "none"
    digits = 2
    while digits < 4 and any(
        f"{x:.{digits}f}" == f"{level:.{digits}f}" and x != level for x in (lpr, score)
    ):
        digits += 1
    return f"{lpr:.{digits}f}", f"{score:.{digits}f}", f"{level:.{digits}f}"
