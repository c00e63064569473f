"""Why a label of a sample is called or not, in words: the sentences of explanations and reports."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hierlpr.cutoff.by_group import group_columns
from hierlpr.cutoff.choose import Cutoff

__all__ = ["REASONS", "call_limits", "fill", "reason_codes"]

# Every sentence once; a reason is known by its place. `others` are the other labels of the block.
REASONS = (
    "Not called: nothing is called at this cutoff.",
    "Called: its LPR of {own} reaches the cutoff of {level}.",
    "Called in one block with {others}: the mean LPR of the block, {mean}, reaches the cutoff of "
    "{level}. Its own LPR is {own}.",
    "Called although its own LPR of {own} is below the cutoff of {level}: it is in one block with "
    "{others}, and the mean LPR of the block, {mean}, reaches the cutoff.",
    "Not called although its block score of {mean} reaches the cutoff of {level}: a sample may "
    "have at most {most}.",
    "Not called: its LPR of {own} is below the cutoff of {level}.",
    "Not called although its own LPR of {own} reaches the cutoff of {level}: it can only be called "
    "together with {others}, and the mean LPR of that block, {mean}, is below the cutoff.",
    "Not called: it is in one block with {others}, and their mean LPR of {mean} is below the "
    "cutoff of {level}.",
)
_NOTHING, _ALONE, _TOGETHER, _CARRIED, _LIMIT, _LOW, _HELD, _LOW_BLOCK = range(len(REASONS))
NAMED = 3  # other labels of a block that a sentence names

Float = NDArray[np.float64]


def call_limits(cutoff: Cutoff, n_labels: int) -> list[int | None]:
    """Return the most calls a sample may have among the labels of each label's group."""
    if cutoff.groups is None or cutoff.label_groups is None:
        return [cutoff.max_calls] * n_labels
    limits: list[int | None] = [None] * n_labels
    for group, columns in group_columns(cutoff.label_groups).items():
        for column in columns.tolist():
            limits[column] = cutoff.groups[group].max_calls
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
    ['although', 'in', 'called:']
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
    >>> fill(3, lpr=0.2, score=0.5, level=0.4, others=[("dog", 0.8)], most=None)[:63]
    'Called although its own LPR of 0.20 is below the cutoff of 0.40'
    >>> fill(5, lpr=0.8996, score=0.8996, level=0.9, others=[], most=None)
    'Not called: its LPR of 0.8996 is below the cutoff of 0.9000.'
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
