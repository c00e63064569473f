"""Choose cutoffs from block scores and truth: one level for all labels, or one per group.

Instances are called where ``score >= level``, so ties are never split.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hierlpr._utils.checks import Matrix, check_choice, effective_number
from hierlpr.cutoff.decisions import (
    Groups,
    decide,
    group_columns,
    group_parents,
    label_groups,
    likely_labels,
    limit_thresholds,
    only_likely,
)
from hierlpr.cutoff.description import describe_goal, describe_units, percent
from hierlpr.cutoff.estimate import LevelCurve, LevelProfile, precision_caveats, with_calls
from hierlpr.cutoff.goal import Goal
from hierlpr.cutoff.guarantee import (
    certified_level,
    certified_levels,
    choose_limit,
    fewest_units,
)
from hierlpr.cutoff.instances import (
    Instances,
    list_instances,
    one_per_cluster,
    sample_keys,
    split_at_random,
)
from hierlpr.cutoff.outcome import Cutoff, Result
from hierlpr.data.truth import Truth, implied_share
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

Float = NDArray[np.float64]
Index = NDArray[np.intp]
Unreachable: TypeAlias = Literal["best-precision", "nothing"]
# With fewer clusters, in multiples of those for correct calls alone, one random sample of each
# certifies more than their means (`experiments/clusters`).
FEW_CLUSTERS = 4
MORE_THAN_LEAST = 1.35  # samples needed, in multiples of those for correct calls alone
LIKELY = 0.5  # calls with a lower chance are counted
MOST_REASONS = 10  # unreachable groups whose reasons are given in full


def cutoff_for(
    goal: Goal,
    instances: Instances,
    *,
    profile: LevelProfile | None = None,
    unreachable: Unreachable | None = None,
    max_weight: float | None = None,
    certified: tuple[float | None, int | None] | None = None,
) -> Cutoff:
    r"""Choose a cutoff for one goal from the instances of calibration samples.

    `profile` is of other samples than these, such as those of the fit: with a confidence it plans
    the tests; without, it shows how many calls a sample can have, for `Cutoff.caveats`. `certified`
    is the level and the limit of calls per sample from tests that were done before.

    Notes
    -----
    With :math:`N(t)` calls at level :math:`t`, :math:`H(t)` of them correct, in :math:`S(t)`
    samples, the lowest level with :math:`H / (N + N/S) \ge p` is taken: one more sample, with the
    mean number of calls and all of them incorrect, must not break the target. Otherwise a single
    correct first call would reach any target. This promises nothing about new samples. For the
    largest F, the middle of the levels within half a standard error of it is taken.

    References
    ----------
    The paper's Section 4.3; conformal risk control, key ``angelopoulos2024conformal``, with the
    mean instead of the largest loss.
    """
    if unreachable is None:
        unreachable = "best-precision" if goal.confidence is None else "nothing"
    check_choice(unreachable, get_args(Unreachable), name="unreachable")
    bound, n_effective = 1.0, None
    if instances.weight is not None:
        # Scaled so that they sum to the effective number: then the precision after one more
        # incorrect sample, and standard errors, are those of so many samples of equal weight.
        largest, n_effective = float(instances.weight.max()), float(instances.n_units)
        if instances.cluster is None:
            n_effective = effective_number(instances.weight)
        share = instances.weight / largest  # first: the weights may be as small as floats can be
        scale = n_effective / float(share.sum())
        positives = instances.positives / largest * scale
        instances = replace(instances, weight=share * scale, positives=positives)
        bound = 1.0 if max_weight is None else max_weight / largest * scale
        profile = None if profile is None else profile.scaled(n_effective / instances.n_units)
    evaluated = instances.only_known()
    if evaluated.score.size == 0:
        raise DataError(
            "No instance to choose a cutoff from: the calibration samples have no scores, or no "
            "known truth.\nHint: give at least one sample with truth."
        )
    curve = LevelCurve.of(evaluated)
    # Of several levels with the best precision, the lowest: it calls the most.
    surest = int(np.flatnonzero(curve.precision == curve.precision.max())[-1])
    result = Result(
        n_samples=instances.n_samples,
        n_instances=instances.n_samples * instances.n_labels,
        n_positives=instances.n_positives,
        n_effective=n_effective,
        best_precision=float(curve.precision[surest]),
        n_unknown=instances.n_unknown,
        n_clusters=None if instances.cluster is None else instances.n_units,
    )
    level: float | None
    max_calls = None
    if goal.kind == "f":
        level = curve.level_of_largest_f(goal.beta, instances.positives)
    elif goal.confidence is None:
        level = curve.lowest_level(goal.precision)
    else:
        if certified is None:
            assert profile is not None
            certified = certified_level(instances, profile, goal.promise, max_weight=bound)
        level, max_calls = certified
    if level is None:
        surest_level = float(curve.level[surest])
        best = Cutoff(surest_level, goal, result, max_weight=max_weight, reachable=False)
        return _fall_back(with_calls(best, instances), instances, unreachable)
    chosen = Cutoff(level, goal, result, max_calls=max_calls, max_weight=max_weight)
    chosen = with_calls(chosen, instances)
    if goal.target is None or goal.confidence is not None:
        return chosen
    caveats = precision_caveats(evaluated, level=level, target=goal.precision, profile=profile)
    return replace(chosen, caveats=caveats)


def _fall_back(best: Cutoff, instances: Instances, unreachable: Unreachable) -> Cutoff:
    """Return the cutoff of the best precision, or one that calls nothing; both say why."""
    goal = best.goal
    what = "can be certified" if goal.confidence is not None else "meets it"
    units = describe_units(instances.n_samples, best.result.n_clusters)
    reason = (
        f"{describe_goal(goal)}: unreachable; no level {what} on these {units}. The best precision "
        f"is about {percent(best.result.best_precision)}, with "
        f"{best.n_calls:,} call{'' if best.n_calls == 1 else 's'}."
    )
    if goal.confidence is not None:
        needed, n_units = fewest_units(goal.promise), instances.n_units
        if n_units < needed:
            kind = "sample" if instances.cluster is None else "cluster"
            kind += "s" * (n_units != 1)
            reason = (
                f"{describe_goal(goal)}: {n_units:,} {kind} cannot certify this; about "
                f"{math.ceil(MORE_THAN_LEAST * needed):,} are needed ({needed:,} if all calls are "
                "correct)."
            )
    if unreachable == "nothing":
        reason += " Nothing is called."
        best = with_calls(replace(best, level=math.inf), instances)
    else:
        reason += (
            f" In use instead: that level, {best.level:.4g}, where {percent(best.precision)} of "
            "the calls are correct; nothing is promised about them."
        )
    return replace(best, reason=reason)


# -- groups of labels ------------------------------------------------------------------------------


def cutoff_on(
    goals: Sequence[Goal],
    score: Matrix,
    truth: Any,
    hierarchy: Hierarchy,
    profile: LevelProfile | None,
    *,
    groups: Groups | None,
    unreachable: Unreachable | None,
    weight: Float | None = None,
    max_weight: float | None = None,
    lpr: Matrix | None = None,
    min_chance: float | None = None,
) -> Cutoff:
    """Choose the cutoff for one or several goals from block scores and truth.

    `profile` is of the samples of the fit. A certificate needs a profile of other samples: if there
    is none, or with groups, a third of these samples is used for it. Where truth is unknown, only
    evaluated pairs count (:func:`~hierlpr.data.truth.evaluated_among`); the share of implied
    negatives must then come from other samples too.

    With `min_chance`, instances below it (and those below them) are never called, in the tests as
    in use, so the promise is about the others. Calls with an LPR below 1/2 are counted.
    """
    truth = Truth.of(truth)

    # Everything that is given per sample is split in the same way.
    def take(rows: Index) -> list[Any]:
        return [None if x is None else x[rows] for x in (score, truth, weight, lpr)]

    if min_chance is not None:
        score = only_likely(score, lpr, hierarchy, min_chance)
        profile = None if profile is None else profile.above(min_chance)
    other = "groups=" if groups is not None else "clusters=" if truth.cluster is not None else ""
    if other and weight is not None:
        raise DataError(
            f"{other} does not support sample_weight=.\n"
            f"Hint: leave out {other[:-1]}, or calibrate without weights."
        )
    cluster = truth.cluster_number
    is_certified, is_partial = goals[0].confidence is not None, not truth.is_complete
    # By the number of clusters alone, because a choice by their truth would void the test.
    needs = fewest_units(goals[0].promise) if is_certified else 0
    if cluster is not None and cluster.max() + 1 < FEW_CLUSTERS * needs:
        score, truth, weight, lpr = take(one_per_cluster(sample_keys(score, truth), cluster))
    share = None if profile is None else profile.implied_share
    is_planned = profile is not None and groups is None and (share is not None or not is_partial)
    planning: list[Any] | None = None
    if is_certified and not is_planned:
        planning_rows, rows = split_at_random(score, truth, weight)
        *planning, _ = take(planning_rows)
        score, truth, weight, lpr = take(rows)
    if is_partial:  # before instances are listed: what is unknown never counts
        if planning is not None:
            # Also here from other samples: a share that depends on the tested truth would select.
            share = implied_share(planning[1], hierarchy, planning[2])
            planning[1] = planning[1].evaluated(hierarchy, share=share)
        truth = truth.evaluated(hierarchy, weight, share=share if is_certified else None)
    options: dict[str, Any] = {"unreachable": unreachable}
    if groups is not None:
        options["planning"] = planning and planning[:2]
        data = (score, truth, hierarchy, groups)
        cutoffs = [cutoff_by_group(goal, *data, **options) for goal in goals]
    else:
        instances = list_instances(score, truth, weight)
        profile = profile if planning is None else LevelProfile.of(list_instances(*planning))
        options |= {"profile": profile, "max_weight": max_weight}
        cutoffs = [cutoff_for(goal, instances, **options) for goal in goals]
    if lpr is not None and (min_chance is None or min_chance < LIKELY):
        likely = likely_labels(lpr, hierarchy, LIKELY)
        cutoffs = [_count_unlikely(x, score, truth, hierarchy, weight, likely) for x in cutoffs]
    cutoffs = [replace(cutoff, min_chance=min_chance) for cutoff in cutoffs]
    return replace(cutoffs[0], targets=tuple(cutoffs) if len(cutoffs) > 1 else None)


def _count_unlikely(
    cutoff: Cutoff,
    score: Any,
    truth: Truth,
    hierarchy: Hierarchy,
    weight: Float | None,
    likely: Any,
) -> Cutoff:
    """Count the calls that are more likely wrong than right, and measure the others."""
    calls = scipy.sparse.csr_array(decide(score, cutoff, hierarchy))
    likely_calls = calls.multiply(likely).tocsr()
    all_calls, others = (_result_of(x, cutoff, truth, weight) for x in (calls, likely_calls))
    result = replace(
        cutoff.result,
        n_unlikely_calls=all_calls.n_calls - others.n_calls,
        likely_precision=others.precision,
        likely_recall=others.recall,
    )
    return replace(cutoff, result=result)


def _result_of(calls: Any, cutoff: Cutoff, truth: Any, weight: Float | None = None) -> Result:
    """Return the result of calls, a sparse bool matrix."""
    score = calls.astype(np.float64)  # of calls 1
    called = Cutoff(1.0, cutoff.goal, cutoff.result)
    return with_calls(called, list_instances(score, truth, weight)).result


def cutoff_by_group(
    goal: Goal,
    score: Any,
    truth: Any,
    hierarchy: Hierarchy,
    groups: Groups,
    *,
    planning: tuple[Any, Any] | None = None,
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
    (:func:`~hierlpr.cutoff.decisions.limit_thresholds`).
    """
    label_group, truth = label_groups(hierarchy, groups), Truth.of(truth)
    columns = group_columns(label_group)
    places = list(columns.values())
    group_goal, limits, levels = goal, None, None
    parents: dict[int, list[int]] = {g: [] for g in range(len(columns))}
    if goal.confidence is not None:
        assert planning is not None
        group_goal = replace(goal, confidence=1.0 - (1.0 - goal.confidence) / len(columns))
        data = (score, truth, hierarchy, places, planning)
        parents, limits, levels = group_tests(group_goal, *data)
    cutoff_of: dict[int, Cutoff] = {}
    # From the roots down, so that the levels of the groups above are known by then.
    for g, above in parents.items():
        where = places[g]
        # No lower than above: then calls are closed upward and depend on this level alone.
        least = max((cutoff_of[p].level for p in above), default=0.0)
        instances = list_instances(score[:, where], truth[:, where])
        if not instances.only_known().score.size:
            reason = f"{describe_goal(group_goal)}: unreachable; no calibration sample has an "
            reason += "instance of these labels with known truth. Nothing is called."
            nothing = Result(n_samples=int(score.shape[0]))
            cutoff_of[g] = Cutoff(math.inf, group_goal, nothing, reachable=False, reason=reason)
            continue
        certified = None
        if limits is not None and levels is not None:
            # All levels were tested within the error of this group, so any of them may be taken.
            level = next((x for x in levels[g].tolist() if x >= least), None)
            certified = level, limits[g] if limits[g] < where.size else None
        part = cutoff_for(group_goal, instances, unreachable=unreachable, certified=certified)
        if part.reachable and part.n_calls + part.result.n_unknown_calls == instances.score.size:
            part = replace(part, level=0.0)  # everything: the groups below inherit no cut
        cutoff_of[g] = replace(part, level=max(part.level, least))
    parts = {name: cutoff_of[g] for g, name in enumerate(columns)}
    failed = [f"Group {name}: {part.reason}" for name, part in parts.items() if not part.reachable]
    if len(failed) > MOST_REASONS:
        rest = f"{len(failed) - MOST_REASONS:,} more groups are unreachable; the report lists all."
        failed = [*failed[:MOST_REASONS], rest]
    result = Result(
        n_samples=int(score.shape[0]),
        n_instances=int(score.shape[0]) * hierarchy.n_labels,
        n_positives=sum(part.result.n_positives for part in parts.values()),
        n_unknown=sum(part.result.n_unknown for part in parts.values()),
        n_clusters=truth.n_clusters,
    )
    cutoff = Cutoff(
        math.inf,
        goal,
        result,
        reachable=not failed,
        reason="\n".join(failed),
        groups=parts,
        label_groups=label_group,
    )
    return _with_group_calls(cutoff, score, truth, hierarchy)


def group_tests(
    goal: Goal,
    score: Any,
    truth: Any,
    hierarchy: Hierarchy,
    columns: list[Index],
    planning: tuple[Any, Any],
) -> tuple[dict[int, list[int]], list[int], list[Float]]:
    """Return the parents, the limit of calls per sample and the certified levels of each group.

    The `planning` samples fix the limits, and the profiles of the levels under these limits.
    """
    promise, group = goal.promise, np.empty(hierarchy.n_labels, dtype=np.intp)
    n_units = Truth.of(truth).n_clusters or int(score.shape[0])
    limits = []
    for g, where in enumerate(columns):
        group[where] = g
        profile = LevelProfile.of(list_instances(planning[0][:, where], planning[1][:, where]))
        limits.append(choose_limit(profile, n_units, where.size, promise))
    parents = group_parents(hierarchy, group)
    past, planned = (limit_thresholds(x, columns, limits, parents) for x in (score, planning[0]))
    levels = []
    for g, where in enumerate(columns):
        profile = LevelProfile.of(_within_limits(*planning, where, planned[:, g]))
        instances = _within_limits(score, truth, where, past[:, g])
        levels.append(certified_levels(instances, profile, limits[g], promise))
    return parents, limits, levels


def _within_limits(score: Any, truth: Any, columns: Index, past: Float) -> Instances:
    """List the instances of some columns that exceed a threshold per sample."""
    instances = list_instances(score[:, columns], truth[:, columns])
    return instances.take(instances.score > past[instances.sample])


def _with_group_calls(cutoff: Cutoff, score: Any, truth: Truth, hierarchy: Hierarchy) -> Cutoff:
    """Count the calls of each group, which may depend on the levels of other groups."""
    assert cutoff.groups is not None
    assert cutoff.label_groups is not None
    calls = scipy.sparse.csc_array(decide(score, cutoff, hierarchy))
    parts, columns = {}, group_columns(cutoff.label_groups)
    for name, part in cutoff.groups.items():
        where, goal = columns[name], part.goal
        result = _result_of(calls[:, where], part, truth[:, where])
        counts = (result.n_calls, result.n_unknown_calls)
        if counts != (part.n_calls, part.result.n_unknown_calls):
            part = replace(part, result=result)
            is_aim = goal.target is not None and goal.confidence is None
            is_below = part.precision is not None and is_aim and part.precision < goal.precision
            if part.reachable and is_below:
                part = part.with_caveats(["below target because of the levels of ancestors."])
        parts[name] = part
    return replace(cutoff, groups=parts)
