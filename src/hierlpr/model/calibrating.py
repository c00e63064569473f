"""Where to cut, learned from calibration samples; and what makes such samples doubtful."""

from __future__ import annotations

from typing import Any

from hierlpr._base.checks import Matrix
from hierlpr.cutoff.by_group import Groups, Promise, cutoff_by_group
from hierlpr.cutoff.choose import Cutoff, Goal, Rule, Unreachable, cutoff_for
from hierlpr.cutoff.profile import LevelProfile
from hierlpr.cutoff.scored import collect, split_at_random
from hierlpr.data.repeats import SampleKeys, copies_note, overlap_note
from hierlpr.hierarchy import Hierarchy

__all__ = ["cutoff_on", "doubts_about"]


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
) -> Cutoff:
    """Choose the cutoff for a goal from block scores and truth; `profile` is of the fit part.

    A certificate needs a plan made on other samples: where no profile serves, a third of these
    makes it.
    """
    options: dict[str, Any] = {"rule": rule, "unreachable": unreachable}
    parts = (score, truth)
    if groups is not None:
        if goal.confidence is not None:
            # There is no fit-part profile of these groups.
            options["planning"], parts = split_at_random(*parts)
        return cutoff_by_group(goal, *parts, hierarchy, groups, promise=promise, **options)
    if goal.confidence is not None and profile is None:
        planning, parts = split_at_random(*parts)
        profile = LevelProfile.of(collect(*planning))
    return cutoff_for(goal, collect(*parts), profile=profile, **options)


def doubts_about(keys: SampleKeys, fit_keys: SampleKeys | None) -> list[str]:
    """Say what is wrong with calibration samples that are not new, or not each their own."""
    found = []
    if overlap := overlap_note(keys, fit_keys):
        found.append(
            f"{overlap} calibration samples were also fitted on (their scores are the same): the "
            "numbers look better than they are, and `confidence` promises nothing. "
            "Calibrate on other samples."
        )
    # Samples in both parts are not also called copies.
    if copies := copies_note(keys, None if overlap else fit_keys):
        found.append(
            f"Calibration samples are copies of each other: {copies}. They count as if they were "
            "independent, so the result is less certain than it seems, and `confidence` promises "
            "nothing. Keep one of each."
        )
    return found
