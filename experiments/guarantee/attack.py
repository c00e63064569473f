"""Populations with known label probabilities, so that the true precision is exact."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from former import FormerProfile, former_cutoff, former_cutoff_by_group
from scipy import sparse

from hierlpr import Hierarchy
from hierlpr.cutoff.choose import cutoff_by_group, cutoff_for
from hierlpr.cutoff.decisions import decide
from hierlpr.cutoff.estimate import LevelProfile
from hierlpr.cutoff.goal import Goal, goals_of
from hierlpr.cutoff.instances import list_instances, split_at_random
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.exceptions import DataError

METHODS = ("certified", "former")


@dataclass(frozen=True, eq=False)
class Population:
    """Kinds of samples: block scores, frequency, and the chance of each label.

    Samples are drawn independently with replacement, and the calls that a cutoff makes on the
    kinds give the true pooled precision without error. A continuous population has very many
    kinds. With `together`, one draw decides all labels of a sample. Levels are planned on samples
    of `planning`, by default the same population; its kind `outlier` is always among them.
    """

    score: Any
    chance: np.ndarray
    weight: np.ndarray | None = None
    together: bool = False
    hierarchy: Hierarchy | None = None
    planning: "Population | None" = None
    n_planning: int = 300
    outlier: int | None = None
    groups: tuple[str, ...] | None = None

    def draw(self, rng, n_samples, *, always=None):
        """Return block scores and truth of independent samples, the first of kind `always`."""
        n_kinds, n_labels = self.chance.shape
        kind = rng.choice(n_kinds, n_samples, p=self.weight)
        if always is not None:
            kind[0] = always
        coin = rng.random((n_samples, 1 if self.together else n_labels))
        return self.score[kind], coin < self.chance[kind]

    def plan(self, rng):
        """Profile the levels on samples of their own, for each method."""
        if self.groups is not None:
            return {}  # groups are planned on a part of the calibration samples
        other = self.planning or self
        planning = other.draw(rng, self.n_planning, always=other.outlier)
        return {
            "certified": LevelProfile.of(list_instances(*planning)),
            "former": FormerProfile(*planning),
        }

    def cutoffs(self, plan, rng, n_samples, *, target, confidence):
        """Draw calibration samples and return the cutoff of each method."""
        drawn = self.draw(rng, n_samples)
        options = {"target": target, "confidence": confidence}
        if self.groups is not None:
            former = former_cutoff_by_group(*drawn, self.groups, **options)
        else:
            former = former_cutoff(*drawn, plan["former"], **options)
        return {"certified": self.certify(plan, *drawn, **options), "former": former}

    def certify(self, plan, score, truth, *, target, confidence):
        """Choose a cutoff as a model does."""
        (goal,) = goals_of(precision=target, confidence=confidence)
        if self.groups is None:
            instances, profile = list_instances(score, truth), plan["certified"]
            return cutoff_for(goal, instances, profile=profile, unreachable="nothing")
        try:
            planning, rest = ((score[rows], truth[rows]) for rows in split_at_random(score, truth))
        except DataError:  # too alike to be split: nothing is promised
            return Cutoff(math.inf, Goal("precision", target), reachable=False)
        groups = dict(zip(self.labels().labels, self.groups, strict=True))
        return cutoff_by_group(
            goal, *rest, self.labels(), groups, planning=planning, unreachable="nothing"
        )

    def labels(self):
        """Return the hierarchy; standalone labels if none was given."""
        return self.hierarchy or standalone(self.chance.shape[1])

    def achieved(self, plan, cutoff: Cutoff):
        """Return true precision (the lowest of any group) and recall of the calls at `cutoff`."""
        called = decide(self.score, cutoff, self.labels())
        if sparse.issparse(called):
            right = np.asarray(called.multiply(self.chance).sum(axis=0)).ravel()
            calls = np.asarray(called.sum(axis=0)).ravel()
            held = self.chance.sum()
        else:
            weight = np.full(len(called), 1.0) if self.weight is None else self.weight
            right, calls = weight @ (called * self.chance), weight @ called
            held = weight @ self.chance.sum(axis=1)
        precision = math.nan
        for group in dict.fromkeys(self.groups or ("",)):
            columns = [i for i, name in enumerate(self.groups or ()) if name == group]
            columns = columns or slice(None)
            if calls[columns].sum() > 0:
                precision = np.fmin(precision, right[columns].sum() / calls[columns].sum())
        return float(precision), float(right.sum() / held)


@cache
def standalone(n_labels: int) -> Hierarchy:
    """Return labels without a hierarchy."""
    return Hierarchy(labels=[f"L{k}" for k in range(n_labels)])


POPULATIONS: dict[str, Callable[[float], Any]] = {}


def population(make):
    """Register a function that builds the population for a target."""
    POPULATIONS[make.__name__] = cache(make)
    return make


def kinds(*rows, **options) -> Population:
    """Build a population of one label from (weight, score, chance) of each kind."""
    weight, score, chance = np.array(rows, dtype=float).T
    return Population(score[:, None], chance[:, None], weight / weight.sum(), **options)
