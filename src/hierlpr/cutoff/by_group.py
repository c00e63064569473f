"""Cutoffs for all labels or for groups of them: one level a group, still closed upward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._base.checks import Matrix, check_choice, listed
from hierlpr.cutoff.choose import (
    Goal,
    Rule,
    Unreachable,
    cutoff_for,
    precision_of,
)
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.cutoff.profile import LevelProfile
from hierlpr.cutoff.scored import collect, split_at_random
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

Groups: TypeAlias = str | Mapping[str, str] | Sequence[str]
Promise: TypeAlias = Literal["together", "each"]


def label_groups(hierarchy: Hierarchy, groups: Groups) -> tuple[str, ...]:
    """Name the group of every label, in the order of ``hierarchy.labels``.

    Parameters
    ----------
    hierarchy : Hierarchy
    groups : "tree", "depth", "label", mapping or sequence
        ``"tree"``: one group for each connected part of the hierarchy, named by its first root.
        ``"depth"``: one for each level. ``"label"``: each label by itself. Otherwise a map
        from each label to its group, or the groups in label order.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")], labels=["C"])
    >>> label_groups(h, "tree"), label_groups(h, "depth")
    (('C', 'A', 'A'), ('1', '1', '2'))
    """
    if isinstance(groups, str):
        if groups == "tree":
            return _connected_parts(hierarchy)
        if groups == "depth":
            return tuple(str(level) for level in hierarchy.levels)
        if groups == "label":
            return hierarchy.labels
        raise DataError(
            f"groups must be 'tree', 'depth', 'label', a map from labels or a list; got {groups!r}."
        )
    if isinstance(groups, Mapping):
        missing = [label for label in hierarchy.labels if label not in groups]
        unknown = [label for label in groups if label not in hierarchy]
        if missing or unknown:
            what = "no group for" if missing else "unknown labels in groups:"
            raise DataError(f"groups: {what} {listed(missing or unknown)}.")
        return tuple(str(groups[label]) for label in hierarchy.labels)
    if len(groups) != hierarchy.n_labels:
        raise DataError(
            f"groups has {len(groups):,} entries, but there are {hierarchy.n_labels:,} labels."
        )
    return tuple(str(group) for group in groups)


def _connected_parts(hierarchy: Hierarchy) -> tuple[str, ...]:
    from scipy.sparse.csgraph import connected_components

    h = hierarchy
    n = h.n_labels
    graph = scipy.sparse.csr_array((np.ones(h.n_edges), h.child_idx, h.child_ptr), shape=(n, n))
    _, part = connected_components(graph, directed=False)
    part = part[h.position]
    name: dict[int, str] = {}
    for root in h.roots:
        name.setdefault(int(part[h.index(root)]), root)
    return tuple(name[int(p)] for p in part)


def group_columns(groups: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """Columns of each group, groups in order of first appearance."""
    columns: dict[str, list[int]] = {}
    for column, group in enumerate(groups):
        columns.setdefault(group, []).append(column)
    return {group: np.array(where, dtype=np.intp) for group, where in columns.items()}


def cutoff_on(
    goal: Goal,
    score: Matrix,
    truth: Any,
    hierarchy: Hierarchy,
    profile: LevelProfile | None,
    *,
    groups: Groups | None,
    promise: Promise,
    rule: Rule,
    unreachable: Unreachable,
    weight: NDArray[np.float64] | None = None,
    max_weight: float | None = None,
) -> Cutoff:
    """Choose the cutoff for a goal from block scores and truth; `profile` is of the fit part.

    A certificate needs a plan made on other samples: where no profile serves, a third of these
    makes it.
    """
    options: dict[str, Any] = {"rule": rule, "unreachable": unreachable}
    parts: tuple[Any, ...] = (score, truth, weight)
    if groups is not None:
        if weight is not None:
            raise DataError(
                "groups= takes no sample_weight: a cutoff for each group goes by plain counts.\n"
                "Hint: leave out groups=, or calibrate the groups without weights."
            )
        if goal.confidence is not None:
            # There is no fit-part profile of these groups.
            planning, parts = split_at_random(*parts)
            options["planning"] = planning[:2]
        score, truth = parts[:2]
        return cutoff_by_group(goal, score, truth, hierarchy, groups, promise=promise, **options)
    if goal.confidence is not None and profile is None:
        planning, parts = split_at_random(*parts)
        profile = LevelProfile.of(collect(*planning))
    return cutoff_for(goal, collect(*parts), profile=profile, max_weight=max_weight, **options)


def cutoff_by_group(
    goal: Goal,
    score: Any,
    truth: Any,
    hierarchy: Hierarchy,
    groups: Groups,
    *,
    planning: tuple[Any, Any] | None = None,
    rule: Rule = "cautious",
    unreachable: Unreachable = "best-precision",
    promise: Promise = "together",
) -> Cutoff:
    """Choose one level for each group of labels, each for the goal on its own labels.

    The precision of a group pools its instances. With a confidence, all groups keep the target at
    once, or with ``promise="each"`` each on its own. It needs `planning`, scores and truth of other
    samples to plan the tests, and no edge may lead from one group to another: a label that
    waits for a parent of another group would change which calls its own level makes.

    Notes
    -----
    For all at once, each of G groups is tested at 1/G of the error (Bonferroni). Holm's step, to
    pass on the error of a group that is done, would bring nothing here: a group is done only when
    its last test succeeds, that is, when everything may be called.
    """
    check_choice(promise, ("together", "each"), name="promise")
    named = label_groups(hierarchy, groups)
    own = goal
    if goal.confidence is not None:
        _refuse_crossing_edges(hierarchy, named)
        if promise == "together":
            own = replace(goal, confidence=1.0 - (1.0 - goal.confidence) / len(set(named)))
    parts: dict[str, Cutoff] = {}
    for group, columns in group_columns(named).items():
        profile = None
        if planning is not None:
            profile = LevelProfile.of(collect(planning[0][:, columns], planning[1][:, columns]))
        parts[group] = cutoff_for(
            own,
            collect(score[:, columns], truth[:, columns]),
            profile=profile,
            rule=rule,
            unreachable=unreachable,
        )
    failed = [group for group, part in parts.items() if not part.reachable]
    cutoff = goal.cutoff(
        reachable=not failed,
        reason="\n".join(f"{group}: {parts[group].reason}" for group in failed),
        n_samples=int(score.shape[0]),
        n_instances=int(score.shape[0]) * hierarchy.n_labels,
        n_positives=sum(part.n_positives for part in parts.values()),
        n_unknown=sum(part.n_unknown for part in parts.values()),
        promise=None if goal.confidence is None else promise,
        groups=parts,
        label_groups=named,
    )
    return _counted(cutoff, score, truth, hierarchy)


def _counted(cutoff: Cutoff, score: Any, truth: Any, hierarchy: Hierarchy) -> Cutoff:
    """Count the calls of groups whose labels wait for ancestors of another group."""
    level = label_levels(cutoff, hierarchy)
    assert cutoff.groups is not None
    assert cutoff.label_groups is not None
    parts = dict(cutoff.groups)
    for group, columns in group_columns(cutoff.label_groups).items():
        part = parts[group]
        if (level[columns] == part.level).all():
            continue
        n_calls = n_true = n_unknown = 0
        for column in columns.tolist():
            listed = collect(score[:, [column]], truth[:, [column]])
            called = listed.take(listed.score >= level[column])
            known = called.those_known()
            n_calls += known.score.size
            n_true += int(np.count_nonzero(known.truth))
            n_unknown += called.score.size - known.score.size
        part = part.counted(n_calls, n_true)
        parts[group] = part = replace(part, n_unknown_calls=n_unknown, precision_if_random=None)
        if part.reachable and part.target is not None and n_true < precision_of(part) * n_calls:
            late = "labels that wait for their ancestors in other groups are called too seldom"
            parts[group] = replace(part, shaky=f"{late}. {part.shaky}".strip())
    return replace(cutoff, groups=parts)


def _refuse_crossing_edges(hierarchy: Hierarchy, named: Sequence[str]) -> None:
    group = dict(zip(hierarchy.labels, named, strict=True))
    crossing = [edge for edge in hierarchy.edges if group[edge[0]] != group[edge[1]]]
    if crossing:
        parent, child = crossing[0]
        raise DataError(
            f"With confidence=, groups must not be joined by edges, but {len(crossing):,} are; the "
            f"first: {parent!r} (group {group[parent]!r}) -> {child!r} (group {group[child]!r}).\n"
            'Hint: groups="tree" keeps each connected part together.'
        )


def label_levels(cutoff: Cutoff, hierarchy: Hierarchy) -> NDArray[np.float64]:
    """Level of each label: that of its group, and no lower than any of its ancestors' levels.

    Block scores never rise from parent to child. So a child that reaches a level reaches it at all
    its ancestors, and with levels that never fall from parent to child, calls are closed upward.
    """
    if cutoff.groups is None or cutoff.label_groups is None:
        return np.full(hierarchy.n_labels, cutoff.level)
    own = np.array([cutoff.groups[group].level for group in cutoff.label_groups])
    level: NDArray[np.float64] = own[hierarchy.order]
    for number in range(hierarchy.n_labels):
        above = hierarchy.parent_idx[
            hierarchy.parent_ptr[number] : hierarchy.parent_ptr[number + 1]
        ]
        if above.size:
            level[number] = max(level[number], level[above].max())
    return level[hierarchy.position]
