"""Choose a cutoff for all labels, or one level per group of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hierlpr._utils.checks import Matrix, is_sparse
from hierlpr.cutoff.choose import Goal, Rule, Unreachable, cutoff_for, precision_of
from hierlpr.cutoff.decisions import decide
from hierlpr.cutoff.groups import (
    Groups,
    group_columns,
    group_parents,
    label_groups,
    limit_thresholds,
)
from hierlpr.cutoff.guarantee import Certified, certified_levels, choose_limit
from hierlpr.cutoff.instances import Instances, list_instances, split_at_random
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.cutoff.profile import LevelProfile
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy


def cutoff_on(
    goals: Sequence[Goal],
    score: Matrix,
    truth: Any,
    hierarchy: Hierarchy,
    profile: LevelProfile | None,
    *,
    groups: Groups | None,
    rule: Rule,
    unreachable: Unreachable | None,
    weight: NDArray[np.float64] | None = None,
    max_weight: float | None = None,
) -> Cutoff:
    """Choose the cutoff for one or several goals from block scores and truth.

    `profile` is of the samples of the fit. A certificate needs a profile of other samples: if there
    is none, or with groups, a third of these samples is used for it.
    """
    options: dict[str, Any] = {"rule": rule, "unreachable": unreachable}
    parts: tuple[Any, ...] = (score, truth, weight)
    is_certified = any(goal.confidence is not None for goal in goals)
    if groups is not None:
        if weight is not None:
            raise DataError(
                "groups= does not support sample_weight=.\n"
                "Hint: leave out groups=, or calibrate the groups without weights."
            )
        if is_certified:
            planning, parts = split_at_random(*parts)
            options["planning"] = planning[:2]
        score, truth = parts[:2]
        return Cutoff.of_targets(
            [cutoff_by_group(goal, score, truth, hierarchy, groups, **options) for goal in goals]
        )
    if is_certified and profile is None:
        planning, parts = split_at_random(*parts)
        profile = LevelProfile.of(list_instances(*planning))
    instances = list_instances(*parts)
    options |= {"profile": profile, "max_weight": max_weight}
    return Cutoff.of_targets([cutoff_for(goal, instances, **options) for goal in goals])


def cutoff_by_group(
    goal: Goal,
    score: Any,
    truth: Any,
    hierarchy: Hierarchy,
    groups: Groups,
    *,
    planning: tuple[Any, Any] | None = None,
    rule: Rule = "cautious",
    unreachable: Unreachable | None = None,
) -> Cutoff:
    """Choose one level per group of labels, each for the goal on its own labels.

    The precision of a group pools its instances. With a confidence, all groups meet the target
    simultaneously; this needs `planning`, scores and truth of other samples.

    Notes
    -----
    Block scores never rise along an edge. If the levels of groups never fall along an edge either,
    the calls of a group depend on its own level alone, so each of G groups can be tested on its
    own, at 1/G of the error (Bonferroni; :func:`~hierlpr.cutoff.guarantee.certified_levels`). Then,
    from the roots down, each group gets its lowest certified level that is no lower than those of
    the groups above it. The limits of calls per sample are fixed by `planning` for all groups, so
    they only replace the scores of a sample by a function of them
    (:func:`~hierlpr.cutoff.groups.limit_thresholds`).
    """
    named = label_groups(hierarchy, groups)
    columns = group_columns(named)
    options: Any = {"rule": rule, "unreachable": unreachable}
    own, tests = goal, None
    if goal.confidence is not None:
        if planning is None:
            raise DataError("confidence= with groups= needs planning=, scores of other samples.")
        own = replace(goal, confidence=1.0 - (1.0 - goal.confidence) / len(columns))
        tests = _GroupTests.of(own, score, hierarchy, list(columns.values()), planning)
    names = list(columns)
    chosen: dict[int, Cutoff] = {}
    order = {g: [] for g in range(len(names))} if tests is None else tests.parents
    for g, groups_above in order.items():
        where = columns[names[g]]
        instances = list_instances(score[:, where], truth[:, where])
        if tests is not None:
            least = max((chosen[p].level for p in groups_above), default=0.0)
            options["certified"] = tests.certified(g, score, truth, least)
        part = cutoff_for(own, instances, **options)
        if part.n_calls + part.n_unknown_calls == instances.score.size:
            part = replace(part, level=0.0)  # everything: the groups below inherit no cut
        if tests is not None:
            part = replace(part, level=max(part.level, least))
        chosen[g] = part
    parts = {name: chosen[g] for g, name in enumerate(names)}
    failed = [group for group, part in parts.items() if not part.reachable]
    cutoff = goal.cutoff(
        reachable=not failed,
        reason="\n".join(f"{group}: {parts[group].reason}" for group in failed),
        n_samples=int(score.shape[0]),
        n_instances=int(score.shape[0]) * hierarchy.n_labels,
        n_positives=sum(part.n_positives for part in parts.values()),
        n_unknown=sum(part.n_unknown for part in parts.values()),
        groups=parts,
        label_groups=named,
    )
    return _with_group_calls(cutoff, score, truth, hierarchy)


class _GroupTests(NamedTuple):
    """What `planning` samples fix about the tests of all groups."""

    goal: Goal
    columns: list[NDArray[np.intp]]
    parents: dict[int, list[int]]
    limits: list[int]
    profiles: list[LevelProfile]
    past: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        goal: Goal,
        score: Any,
        hierarchy: Hierarchy,
        columns: list[NDArray[np.intp]],
        planning: tuple[Any, Any],
    ) -> _GroupTests:
        assert goal.confidence is not None
        levels = {"alpha": 1.0 - precision_of(goal), "delta": 1.0 - goal.confidence}
        group = np.empty(hierarchy.n_labels, dtype=np.intp)
        limits = []
        for g, where in enumerate(columns):
            group[where] = g
            profile = LevelProfile.of(list_instances(planning[0][:, where], planning[1][:, where]))
            limits.append(choose_limit(profile, score.shape[0], where.size, **levels))
        parents = group_parents(hierarchy, group)
        past, planned_past = (
            limit_thresholds(x, columns, limits, parents) for x in (score, planning[0])
        )
        profiles = [
            LevelProfile.of(_within_limits(*planning, where, planned_past[:, g]))
            for g, where in enumerate(columns)
        ]
        return cls(goal, columns, parents, limits, profiles, past)

    def certified(self, g: int, score: Any, truth: Any, least: float) -> Certified:
        """Return the lowest certified level of a group that is at least `least`, and its limit."""
        assert self.goal.confidence is not None
        levels = certified_levels(
            _within_limits(score, truth, self.columns[g], self.past[:, g]),
            self.profiles[g],
            limit=self.limits[g],
            alpha=1.0 - precision_of(self.goal),
            delta=1.0 - self.goal.confidence,
        )
        allowed = levels[levels >= least]
        limit = self.limits[g] if self.limits[g] < self.columns[g].size else None
        return Certified(float(allowed[0]) if allowed.size else None, limit)


def _within_limits(
    score: Any, truth: Any, columns: NDArray[np.intp], past: NDArray[np.float64]
) -> Instances:
    """List the instances of some columns that exceed a threshold per sample."""
    instances = list_instances(score[:, columns], truth[:, columns])
    return instances.take(instances.score > past[instances.sample])


def _with_group_calls(cutoff: Cutoff, score: Any, truth: Any, hierarchy: Hierarchy) -> Cutoff:
    """Count the calls of each group, which may depend on the levels of other groups."""
    assert cutoff.groups is not None
    assert cutoff.label_groups is not None
    calls = decide(score, cutoff, hierarchy)
    called = calls if is_sparse(calls) else scipy.sparse.csr_array(calls)
    listed = list_instances(called.astype(np.float64), truth)
    name = np.array(list(cutoff.groups))
    number = {group: i for i, group in enumerate(name.tolist())}
    group = np.array([number[g] for g in cutoff.label_groups])[called.indices]
    known = np.ones(group.size, dtype=bool) if listed.known is None else listed.known
    n_calls, n_true, n_unknown = (
        np.bincount(group[flags], minlength=name.size).tolist()
        for flags in (known, known & listed.truth, ~known)
    )
    parts = {}
    for (group_name, part), calls_, hits, unknown in zip(
        cutoff.groups.items(), n_calls, n_true, n_unknown, strict=True
    ):
        if (calls_, unknown) != (part.n_calls, part.n_unknown_calls):
            part = part.with_counts(calls_, hits)
            part = replace(part, n_unknown_calls=unknown, precision_if_random=None)
            below = part.target is not None and hits < precision_of(part) * calls_
            if part.reachable and part.confidence is None and below:
                part = part.with_caveats(["below target because of the levels of ancestors."])
        parts[group_name] = part
    return replace(cutoff, groups=parts)
