"""Block scores and a cutoff -> calls closed upward, and the reason for each decision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hierlpr._utils.checks import is_sparse
from hierlpr.cutoff.groups import group_columns, group_parents, label_levels, limit_thresholds
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.cutoff.sets import SET_WORDS
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

# Templates of reasons; `others` are the other labels of the block. An LPR is called a chance here,
# because these sentences are for users who make decisions.
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
NAMED = 3  # number of other labels of a block that are named

Float = NDArray[np.float64]


def decide(score: Any, cutoff: Cutoff, hierarchy: Hierarchy) -> Any:
    """Call every instance whose block score reaches the cutoff.

    The calls of a sample do not depend on other samples.

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
    limits = _limits(cutoff, hierarchy)
    if not is_sparse(score):
        called: NDArray[np.bool_] = score >= level
        if limits is not None:
            group, arguments = limits
            called &= score > limit_thresholds(score, *arguments)[:, group]
        return called
    csr = scipy.sparse.csr_array(score)
    kept = (csr.data > 0.0) & (csr.data >= level[csr.indices])
    row = np.repeat(np.arange(csr.shape[0], dtype=np.intp), np.diff(csr.indptr))
    if limits is not None:
        group, arguments = limits
        kept &= csr.data > limit_thresholds(csr, *arguments)[row, group[csr.indices]]
    indptr = np.append(0, np.cumsum(np.bincount(row[kept], minlength=csr.shape[0])))
    indptr = indptr.astype(csr.indptr.dtype)
    data = (np.ones(indptr[-1], dtype=bool), csr.indices[kept], indptr)
    return scipy.sparse.csr_array(data, shape=csr.shape)


def _limits(cutoff: Cutoff, hierarchy: Hierarchy) -> tuple[NDArray[np.intp], Any] | None:
    """Return the group of each label and the arguments of `limit_thresholds`, None without."""
    if cutoff.groups is None or cutoff.label_groups is None:
        if cutoff.max_calls is None:
            return None
        everything = np.arange(hierarchy.n_labels, dtype=np.intp)
        return np.zeros_like(everything), ([everything], [cutoff.max_calls], {0: []})
    limits = {name: part.max_calls for name, part in cutoff.groups.items()}
    if all(limit is None for limit in limits.values()):
        return None
    columns = group_columns(cutoff.label_groups)
    group = np.empty(hierarchy.n_labels, dtype=np.intp)
    for number, where in enumerate(columns.values()):
        group[where] = number
    parents = group_parents(hierarchy, group)
    return group, (list(columns.values()), [limits[name] for name in columns], parents)


class LabelCall(NamedTuple):
    """One called label of a sample with its block score.

    `set` is "sure", "possible" or "no" after `calibrate_sets`, else None.
    """

    label: str
    score: float
    set: str | None = None


def call_lists(
    calls: Any, score: Any, hierarchy: Hierarchy, *, sets: NDArray[np.int8] | None = None
) -> list[tuple[LabelCall, ...]]:
    """List the calls of each sample, best first; a label never comes before its parents.

    `sets` are indices into :data:`hierlpr.cutoff.sets.SET_WORDS` for every (sample, label).

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
    # By sample, then decreasing score; equal scores in topological order.
    order = np.lexsort((hierarchy.position[column], -values, row))
    named = [hierarchy.labels[j] for j in column[order].tolist()]
    words: Any = repeat(None, len(named))
    if sets is not None:
        words = (SET_WORDS[place] for place in sets[row[order], column[order]].tolist())
    listed = list(map(LabelCall, named, values[order].tolist(), words))
    bounds = np.searchsorted(row, np.arange(calls.shape[0] + 1)).tolist()
    return [tuple(listed[start:stop]) for start, stop in pairwise(bounds)]


# -- reasons --------------------------------------------------------------------------------------


def call_limits(cutoff: Cutoff, n_labels: int) -> list[int | None]:
    """Return the largest number of calls per sample in the group of each label, None if any."""
    if cutoff.groups is None or cutoff.label_groups is None:
        return [cutoff.max_calls] * n_labels
    return [cutoff.groups[group].max_calls for group in cutoff.label_groups]


def reason_codes(
    lpr: Float, score: Float, block: NDArray[np.intp], called: NDArray[np.bool_], level: Float
) -> NDArray[np.intp]:
    """Return the index into `REASONS` of every label of one sample.

    Parameters
    ----------
    lpr, score : ndarray
        LPR of each label, and the score of its block.
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
    """Return a reason with its numbers; `others` are the block's other labels with their LPRs.

    Examples
    --------
    >>> fill(3, lpr=0.2, score=0.5, level=0.4, others=[("dog", 0.8)], most=None)[:76]
    'Called although the chance that it holds, 0.20, is below the cutoff of 0.40:'
    >>> fill(5, lpr=0.8996, score=0.8996, level=0.9, others=[], most=None)
    'Not called: the chance that it holds, 0.8996, is below the cutoff of 0.9000.'
    """
    own, mean, cut = _distinguished(lpr, score, level)
    named = [f"“{name}” ({value:.2f})" for name, value in others[:NAMED]]
    if len(others) > NAMED:
        named.append(f"{len(others) - NAMED:,} more")
    joined = " and ".join([", ".join(named[:-1]), named[-1]]) if len(named) > 1 else "".join(named)
    calls = "" if most is None else f"{most:,} call{'' if most == 1 else 's'}"
    return REASONS[code].format(own=own, mean=mean, level=cut, others=joined, most=calls)


def _distinguished(lpr: float, score: float, level: float) -> tuple[str, str, str]:
    """Format the numbers with enough digits to distinguish them from the level."""
    if not math.isfinite(level):
        return f"{lpr:.2f}", f"{score:.2f}", "none"
    digits = 2
    while digits < 4 and any(
        f"{x:.{digits}f}" == f"{level:.{digits}f}" and x != level for x in (lpr, score)
    ):
        digits += 1
    return f"{lpr:.{digits}f}", f"{score:.{digits}f}", f"{level:.{digits}f}"
