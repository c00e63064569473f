"""Block scores and a cutoff -> calls closed upward, and the reason for each decision."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise, repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from hierlpr._kernels.traversal import min_down
from hierlpr._utils.checks import is_sparse, quote_names
from hierlpr.cutoff.instances import entries_at, listed_entries, sample_places
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.cutoff.sets import SET_WORDS
from hierlpr.data.tables import dense
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import sample_ranges

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Index = NDArray[np.intp]
Groups: TypeAlias = str | Mapping[str, str]


# -- groups of labels -----------------------------------------------------------------------------


def label_groups(hierarchy: Hierarchy, groups: Groups) -> tuple[str, ...]:
    """Return the name of the group of every label, in the order of ``hierarchy.labels``.

    ``"tree"``: one group per connected component of the hierarchy, named by its first root.
    ``"depth"``: one per depth. ``"label"``: one per label. Or a mapping from each label to its
    group.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")], labels=["C"])
    >>> label_groups(h, "tree"), label_groups(h, "depth")
    (('C', 'A', 'A'), ('1', '1', '2'))
    """
    name = groups if isinstance(groups, str) else ""  # a pandas Series has no truth value
    if name == "tree":
        h, shape = hierarchy, (hierarchy.n_labels, hierarchy.n_labels)
        graph = scipy.sparse.csr_array((np.ones(h.n_edges), h.child_idx, h.child_ptr), shape)
        tree = connected_components(graph, directed=False)[1][h.position]
        first = {int(tree[h.index(root)]): root for root in reversed(h.roots)}
        return tuple(first[int(t)] for t in tree)
    if name == "depth":
        return tuple(map(str, hierarchy.levels))
    if name == "label":
        return hierarchy.labels
    if not isinstance(groups, Mapping):
        raise DataError(
            "groups must be 'tree', 'depth', 'label' or a mapping from labels to groups; "
            f"got {groups!r}."
        )
    missing = [label for label in hierarchy.labels if label not in groups]
    unknown = [label for label in groups if label not in hierarchy]
    if missing or unknown:
        what = "no group for" if missing else "unknown labels in groups:"
        raise DataError(f"groups: {what} {quote_names(missing or unknown)}.")
    return tuple(str(groups[label]) for label in hierarchy.labels)


def group_columns(groups: Sequence[str]) -> dict[str, Index]:
    """Return the columns of each group, groups in order of first appearance."""
    columns: dict[str, list[int]] = {}
    for column, group in enumerate(groups):
        columns.setdefault(group, []).append(column)
    return {group: np.array(where, dtype=np.intp) for group, where in columns.items()}


def group_parents(hierarchy: Hierarchy, group: Index) -> dict[int, list[int]]:
    """Return the groups with an edge into each group, in an order with parents first.

    `group` is the number of the group of each label. Raises if edges lead to a group and back.
    """
    of_label, n = group[hierarchy.order], int(group.max(initial=-1)) + 1
    child = np.repeat(of_label, np.diff(hierarchy.parent_ptr))
    parent = of_label[hierarchy.parent_idx]
    parents: dict[int, list[int]] = {g: [] for g in range(n)}
    for pair in np.unique((parent * n + child)[parent != child]).tolist():
        parents[pair % n].append(pair // n)
    try:
        return {g: parents[g] for g in TopologicalSorter(parents).static_order()}
    except CycleError as error:
        g = int(error.args[1][0])
        raise DataError(
            "With confidence=, edges between groups must not form a cycle, but they lead "
            f"from the group of {hierarchy.labels[int(np.argmax(group == g))]!r} to other "
            'groups and back.\nHint: use groups="depth", "tree" or "label".'
        ) from None


def parts_of(cutoff: Cutoff, n_labels: int) -> tuple[list[Cutoff], Index]:
    """Return the cutoffs of all groups, and the number of the group of each label.

    Without groups, all labels are one group.
    """
    if cutoff.groups is None or cutoff.label_groups is None:
        return [cutoff], np.zeros(n_labels, dtype=np.intp)
    number = {name: g for g, name in enumerate(cutoff.groups)}
    group = np.array([number[name] for name in cutoff.label_groups], dtype=np.intp)
    return list(cutoff.groups.values()), group


def label_levels(cutoff: Cutoff, hierarchy: Hierarchy) -> Float:
    """Return the level of each label: the largest of those of its group and of all its ancestors.

    Block scores never rise from parent to child. With levels that never fall from parent to child,
    the ancestors of a called label reach their levels too, so calls are closed upward.
    """
    parts, group = parts_of(cutoff, hierarchy.n_labels)
    level = np.array([part.level for part in parts])[group]
    # The kernel takes minima from parents to children: the largest is -min of -x.
    negative = np.ascontiguousarray(-level[hierarchy.order][None])
    min_down(negative, hierarchy.parent_ptr, hierarchy.parent_idx)
    return np.asarray(-negative[0][hierarchy.position])


def limit_thresholds(
    score: Any, columns: list[Index], limits: Sequence[int | None], parents: dict[int, list[int]]
) -> Float:
    """Return the score that instances of each sample and group must exceed because of limits.

    It is the highest score past the limit of calls per sample of the group, or of any group of its
    ancestors, so that calls stay closed upward; -1 if no limit is exceeded.
    """
    past = np.full((score.shape[0], len(columns)), -1.0)
    for g, groups_above in parents.items():
        limit = limits[g]
        if limit is not None and limit < columns[g].size:
            past[:, g] = _first_past(score[:, columns[g]], limit)
        for parent in groups_above:
            np.maximum(past[:, g], past[:, parent], out=past[:, g])
    return past


def _first_past(score: Any, limit: int) -> Float:
    """Return the (limit + 1)-th highest score of each row, -1 if there are fewer."""
    if not is_sparse(score):
        return np.asarray(np.partition(score, score.shape[1] - limit - 1, axis=1)[:, -limit - 1])
    sample, _, value = listed_entries(score)
    past = np.full(score.shape[0], -1.0)
    order, place, _ = sample_places(value, sample)
    at = order[place == limit + 1]
    past[sample[at]] = value[at]
    return past


# -- calls -----------------------------------------------------------------------------------------


def likely_labels(lpr: Any, hierarchy: Hierarchy, least: float) -> scipy.sparse.csr_array:
    """Mark the instances with an LPR of at least `least` whose ancestors all have one too."""
    n_samples, n_labels = lpr.shape
    parts = [scipy.sparse.csr_array((0, n_labels), dtype=bool)]
    for start, stop in sample_ranges(n_samples, n_labels):
        lowest = np.array(dense(lpr[start:stop]), dtype=np.float64)[:, hierarchy.order]
        lowest = np.ascontiguousarray(lowest)
        min_down(lowest, hierarchy.parent_ptr, hierarchy.parent_idx)
        parts.append(scipy.sparse.csr_array(lowest[:, hierarchy.position] >= least))
    return scipy.sparse.vstack(parts).tocsr()


def only_likely(score: Any, lpr: Any, hierarchy: Hierarchy, least: float) -> scipy.sparse.csr_array:
    """Keep the block scores of likely labels, as CSR: what is absent is never called.

    A sample's labels above `least` contain their parents, so scores still never rise along an edge.
    """
    listed = scipy.sparse.csr_array(score).multiply(likely_labels(lpr, hierarchy, least)).tocsr()
    listed.sort_indices()
    return listed


def decide(score: Any, cutoff: Cutoff, hierarchy: Hierarchy, lpr: Any = None) -> Any:
    """Call every instance whose block score reaches the cutoff; return a bool matrix.

    Block scores, dense or CSR, are those of :func:`hierlpr.consistent_scores`: a child's never
    exceeds any parent's, so calls are closed upward. In CSR an absent entry is never called. The
    calls of a sample do not depend on other samples. A cutoff with `min_chance` needs the LPRs.

    Examples
    --------
    >>> from hierlpr.cutoff.goal import Goal
    >>> h = Hierarchy([("A", "B")], labels=["A", "B", "C"])
    >>> decide(np.array([[0.9, 0.4, 0.7], [0.6, 0.6, 0.1]]), Cutoff(0.6, Goal("precision")), h)
    array([[ True, False,  True],
           [ True,  True, False]])
    """
    if cutoff.min_chance is not None:
        likely = only_likely(score, lpr, hierarchy, cutoff.min_chance)
        calls = decide(likely, replace(cutoff, min_chance=None), hierarchy)
        return calls if is_sparse(score) else calls.toarray()
    level = label_levels(cutoff, hierarchy)
    parts, group = parts_of(cutoff, hierarchy.n_labels)
    past = None  # what the scores of each sample and group must exceed because of limits
    limits = [part.max_calls for part in parts]
    if any(limit is not None for limit in limits):
        ends = np.cumsum(np.bincount(group, minlength=len(parts)))
        columns = np.split(np.argsort(group, kind="stable"), ends[:-1])
        past = limit_thresholds(score, columns, limits, group_parents(hierarchy, group))
    if not is_sparse(score):
        called: Bool = score >= level
        return called if past is None else called & (score > past[:, group])
    csr = scipy.sparse.csr_array(score)
    is_call = (csr.data > 0.0) & (csr.data >= level[csr.indices])
    if past is not None:
        row = np.repeat(np.arange(csr.shape[0], dtype=np.intp), np.diff(csr.indptr))
        is_call &= csr.data > past[row, group[csr.indices]]
    calls = scipy.sparse.csr_array((is_call, csr.indices, csr.indptr), shape=csr.shape, copy=True)
    calls.eliminate_zeros()
    return calls


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
    """
    row, column = calls.nonzero()
    values = entries_at(score, row, column)
    # By sample, then decreasing score; equal scores in topological order.
    order = np.lexsort((hierarchy.position[column], -values, row))
    labels = [hierarchy.labels[j] for j in column[order].tolist()]
    words: Any = repeat(None, len(labels))
    if sets is not None:
        words = (SET_WORDS[place] for place in sets[row[order], column[order]].tolist())
    label_calls = list(map(LabelCall, labels, values[order].tolist(), words))
    bounds = np.searchsorted(row, np.arange(calls.shape[0] + 1)).tolist()
    return [tuple(label_calls[start:stop]) for start, stop in pairwise(bounds)]


# -- reasons --------------------------------------------------------------------------------------

# Templates of reasons; `others` are the other labels of the block. An LPR is called a chance here,
# because these sentences are for users who make decisions.
REASONS = (
    "Not called: nothing is called at this cutoff.",
    "Called: the chance that it holds, {lpr}, reaches the cutoff of {level}.",
    "Called together with {others}: their mean chance, {mean}, reaches the cutoff of {level}. The "
    "chance that this one holds is {lpr}.",
    "Not called although its mean chance of {mean} reaches the cutoff of {level}: a sample may "
    "have at most {most}.",
    "Not called: the chance that it holds, {lpr}, is below the cutoff of {level}.",
    "Not called: it can only be called together with {others}, and their mean chance, {mean}, is "
    "below the cutoff of {level}. The chance that this one holds is {lpr}.",
    "Not called although its mean chance of {mean} reaches the cutoff of {level}: its own chance, "
    "{lpr}, or that of a label above it, is below the least chance for a call.",
)
_NOTHING, _ALONE, _TOGETHER, _LIMIT, _LOW, _LOW_BLOCK, _UNLIKELY = range(len(REASONS))
NAMED = 3  # number of other labels of a block that are named; blocks may have dozens


def reason_codes(
    score: Float, block: Index, called: Bool, level: Float, likely: Bool | None = None
) -> Index:
    """Return the index into `REASONS` of every label of one sample.

    `score` and `block` are the score and the number of its block; `level` is infinite where nothing
    is called. `likely` is of `likely_labels`, with the least chance for a call.
    """
    is_alone = (np.bincount(block)[block] if block.size else block) == 1
    no = np.where(is_alone, _LOW, _LOW_BLOCK)
    codes = np.where(called, np.where(is_alone, _ALONE, _TOGETHER), no)
    codes[~called & (score >= level)] = _LIMIT
    if likely is not None:
        codes[~likely & (score >= level)] = _UNLIKELY
    codes[~called & ~np.isfinite(level)] = _NOTHING
    return np.asarray(codes, dtype=np.intp)


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
    >>> fill(2, lpr=0.2, score=0.5, level=0.4, others=[("dog", 0.8)], most=None)[:87]
    'Called together with “dog” (0.80): their mean chance, 0.50, reaches the cutoff of 0.40.'
    >>> fill(4, lpr=0.8996, score=0.8996, level=0.9, others=[], most=None)
    'Not called: the chance that it holds, 0.8996, is below the cutoff of 0.9000.'
    """
    chance, mean, cut = _distinguished(lpr, score, level)
    texts = [f"“{name}” ({value:.2f})" for name, value in others[:NAMED]]
    if len(others) > NAMED:
        texts.append(f"{len(others) - NAMED:,} more")
    joined = " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else "".join(texts)
    calls = "" if most is None else f"{most:,} call{'' if most == 1 else 's'}"
    return REASONS[code].format(lpr=chance, mean=mean, level=cut, others=joined, most=calls)


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
