"""Cutoffs and goals as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hierlpr.cutoff.goal import Goal

if TYPE_CHECKING:
    from hierlpr.cutoff.outcome import Cutoff, Result


def describe(cutoff: Cutoff) -> str:
    """Describe a cutoff in sentences, one line per group or target."""
    goal, caveats = cutoff.goal, f" Caveats: {cutoff.caveats}" if cutoff.caveats else ""
    if cutoff.targets is not None:
        lines = [f"In use: {_target(goal).lower()}."]
        if goal.confidence is not None:
            confidence = percent(1.0 - (1.0 - goal.confidence) * len(cutoff.targets))
            lines[0] = (
                f"With {confidence} confidence, all of the {len(cutoff.targets)} certified targets "
                f"hold simultaneously. {lines[0]}"
            )
        return "\n".join([*lines, *map(str, cutoff.targets)])
    if cutoff.groups is not None:
        lines = [f"Group {name}: {part}" for name, part in cutoff.groups.items()]
        if goal.confidence is not None:
            holds = f"what follows holds for all {len(lines):,} groups simultaneously:"
            lines = [f"With {percent(goal.confidence)} confidence, {holds}", *lines]
        if cutoff.min_chance is not None:
            lines.append(f"No call has a chance below {percent(cutoff.min_chance)}.")
        more = [x.strip() for x in (unlikely_calls(cutoff.result), caveats) if x]
        return "\n".join([*lines, *more])
    where = f"at a block score of {cutoff.level:.4g} or more"
    if goal.kind in ("default", "by hand"):
        source = "set by hand" if goal.kind == "by hand" else cutoff.reason or "not calibrated"
        return f"Calls {where}, {source}; nothing is promised about them."
    if not cutoff.reachable:
        return cutoff.reason + caveats
    if cutoff.max_calls:
        plural = "s" * (cutoff.max_calls > 1)
        where += f" and at most {cutoff.max_calls:,} call{plural} per sample"
    if cutoff.min_chance is not None:
        where += f", none with a chance below {percent(cutoff.min_chance)}"
    no_promise = ""
    if goal.target is not None and goal.confidence is None:
        no_promise = " Without a confidence nothing is promised about new samples."
    return f"{describe_goal(goal)}: calls {where}. {_achieved(cutoff)}{no_promise}{caveats}"


def unlikely_calls(result: Result) -> str:
    """Say how many calls are more likely wrong than right, and what leaving them out would do."""
    if not result.n_unlikely_calls:
        return ""
    return (
        f" {result.n_unlikely_calls:,} of the calls, or labels above them, have a chance below "
        f"50 %; without these calls, {percent(result.likely_precision)} would be correct, recall "
        f"{percent(result.likely_recall)}."
    )


def _achieved(cutoff: Cutoff) -> str:
    """Say what a cutoff achieved on the calibration samples."""
    result, weights = cutoff.result, ""
    if not result.n_instances:
        return "Certified by the checked samples of an audit."
    if result.n_clusters is not None:
        weights = ", each counted as one" * (result.n_clusters < result.n_samples)
    elif result.n_effective is not None:
        bound = cutoff.max_weight
        certified = "" if bound is None else f"; certified for weights up to {bound:g}"
        weights = f" (weighted, equivalent to {result.n_effective:,.4g} of equal weight{certified})"
    units = describe_units(result.n_samples, result.n_clusters, "calibration ")
    everything = " (every instance)" if result.n_calls == result.n_instances else ""
    return (
        f"On {units}{weights}: {result.n_calls:,} calls{everything}, "
        f"{percent(result.precision)} correct, recall {percent(result.recall)}."
        f"{unlikely_calls(result)}{_not_evaluated(result, cutoff.goal)}"
    )


def _not_evaluated(result: Result, goal: Goal) -> str:
    """Say what is possible for calls of unknown truth."""
    if not result.n_unknown:
        return ""
    if result.n_effective is not None:
        return f" {result.n_unknown_calls:,} more calls were not evaluated."
    if not result.n_unknown_calls:
        return f" {result.n_unknown:,} instances were not evaluated; none of them is called."
    certified = "; the certificate is about the evaluated ones" if goal.confidence else ""
    return (
        f" {result.n_unknown_calls:,} more calls were not evaluated{certified}: of all calls, "
        f"{percent(result.precision_if_random)} are correct if those evaluated are random within "
        f"each label, and at least {percent(result.precision_worst)} in any case."
    )


def describe_goal(goal: Goal) -> str:
    """Return a goal as text, such as "Target precision 90 % with 95 % confidence"."""
    if goal.kind == "f":
        return f"Largest F{goal.beta:g}"
    confidence = "" if goal.confidence is None else f" with {percent(goal.confidence)} confidence"
    return _target(goal) + confidence


def _target(goal: Goal) -> str:
    name = "precision" if goal.kind == "precision" else "FDR"
    return f"Target {name} {percent(goal.target)}"


def describe_units(n_samples: int, n_clusters: int | None, kind: str = "") -> str:
    """Return "600 samples in 120 clusters"; of few clusters, one sample of each is used."""
    if n_clusters is None:
        return f"{n_samples:,} {kind}samples"
    if n_clusters == n_samples:
        return f"{n_samples:,} {kind}samples, one of each cluster"
    return f"{n_samples:,} {kind}samples in {n_clusters:,} clusters"


def percent(share: float | None) -> str:
    """Return a share as a percentage that shows 100 only for exactly 1.

    >>> percent(0.123456), percent(0.999999), percent(None)
    ('12.3 %', '99.9999 %', 'none')
    """
    if share is None:
        return "none"
    digits = 3
    while share < 1.0 and f"{100.0 * share:.{digits}g}" == "100" and digits < 17:
        digits += 3
    return f"{100.0 * share:.{digits}g} %"
