"""The chosen cutoff: its level, the goal, and what it achieved on the calibration samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, Literal

import numpy as np

from hierlpr._utils.checks import check_level
from hierlpr._utils.display import escape_control, html_card
from hierlpr.cutoff.description import describe
from hierlpr.cutoff.goal import Goal
from hierlpr.data.frames import new_frame
from hierlpr.exceptions import DataError

SHOWN = 20  # targets and groups in a notebook


@dataclass(frozen=True, slots=True)
class Result:
    """What a cutoff achieved on the calibration samples; promises nothing about others.

    Attributes
    ----------
    n_samples, n_instances, n_positives : int
        Samples, instances and true labels.
    n_effective : float or None
        With sample weights: the equivalent number of samples of equal weight; with clusters: their
        number.
    n_clusters : int or None
        Number of clusters; each counts as one observation, whatever its size.
    n_unlikely_calls : int
        Calls of known truth with an LPR below 1/2, or below such a label.
    likely_precision, likely_recall : float or None
        Without them.
    n_calls, n_true_calls : int
        Calls of known truth, and those that are correct.
    precision, recall, f : float or None
        Weighted if the samples are.
    best_precision : float or None
        The highest target that would have been reached.
    n_unknown, n_unknown_calls, n_implied_calls : int
        Instances and calls that were not evaluated, and are left out of precision, recall and
        certificate. The last are correct because a descendant is true. See ``docs/truth.md``.
    precision_if_random : float or None
        Precision of all calls if, within each label, those not evaluated are correct as often as
        the others.
    """

    n_samples: int = 0
    n_instances: int = 0
    n_positives: int = 0
    n_effective: float | None = None
    n_calls: int = 0
    n_true_calls: int = 0
    precision: float | None = None
    recall: float | None = None
    f: float | None = None
    best_precision: float | None = None
    n_unknown: int = 0
    n_unknown_calls: int = 0
    n_implied_calls: int = 0
    precision_if_random: float | None = None
    n_clusters: int | None = None
    n_unlikely_calls: int = 0
    likely_precision: float | None = None
    likely_recall: float | None = None

    @property
    def precision_worst(self) -> float | None:
        """Precision if all calls of unknown truth are incorrect."""
        n_calls = self.n_calls + self.n_unknown_calls
        if self.n_effective is not None and self.n_unknown_calls:
            return None  # the weight of those calls is not stored
        return (self.n_true_calls + self.n_implied_calls) / n_calls if n_calls else None


@dataclass(frozen=True, slots=True, repr=False)
class Cutoff:
    """Where to cut, for which goal, and with which result.

    Attributes
    ----------
    level : float
        Instances with a block score of at least this are called.
    goal : Goal
    result : Result
        Of the calibration samples; ``precision``, ``recall``, ``f`` and ``n_calls`` are also
        attributes of the cutoff.
    max_calls : int or None
        Most calls per sample; a sample with more keeps those with the highest scores.
    reachable : bool
        Whether a level reaches the target; if not, `reason` says why, and `level` and `result` are
        those that are used instead.
    reason : str
        Why the target is out of reach; empty if it is not.
    caveats : str
        Why the numbers may be unreliable; empty if there is no sign of that.
    min_chance : float or None
        The lowest LPR of a call; no label below one with a lower LPR is called either.
    max_weight : float or None
        The certificate holds for weights up to this.
    groups : mapping of Cutoff or None
        One cutoff per group of labels.
    label_groups : tuple of str or None
        The group of each label.
    targets : tuple of Cutoff or None
        All cutoffs, if there are several targets.
    """

    level: float
    goal: Goal
    result: Result = Result()
    max_calls: int | None = None
    reachable: bool = True
    reason: str = ""
    caveats: str = ""
    max_weight: float | None = None
    groups: Mapping[str, Cutoff] | None = None
    label_groups: tuple[str, ...] | None = None
    targets: tuple[Cutoff, ...] | None = None
    min_chance: float | None = None

    @property
    def is_level_alone(self) -> bool:
        """Whether calls depend on nothing else than block scores and one level."""
        return self.groups is None and self.max_calls is None and self.min_chance is None

    @property
    def n_calls(self) -> int:
        """Number of calls on the calibration samples."""
        return self.result.n_calls

    @property
    def precision(self) -> float | None:
        """Precision on the calibration samples."""
        return self.result.precision

    @property
    def recall(self) -> float | None:
        """Recall on the calibration samples."""
        return self.result.recall

    @property
    def f(self) -> float | None:
        """F on the calibration samples, with the `beta` of the goal."""
        return self.result.f

    @property
    def is_certified(self) -> bool:
        """Whether the target is certified with a confidence."""
        return self.reachable and self.goal.confidence is not None

    def for_target(self, target: float) -> Cutoff:
        """Return the cutoff for one of several targets, together with the others."""
        cutoffs, target = self.targets or (self,), check_level(target, name="target")
        for cutoff in cutoffs:
            if cutoff.goal.target is not None and abs(cutoff.goal.target - target) < 1e-9:
                return replace(cutoff, targets=self.targets)
        targets = [x.goal.target for x in cutoffs if x.goal.target is not None]
        listed = ", ".join(f"{x:g}" for x in targets) or "none"
        raise DataError(f"There is no cutoff for the target {target!r}; calibrated: {listed}.")

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] | None = None) -> Any:
        """Return a data frame with one row per target and group.

        Columns: target, group, certified, level, max_calls, calls, correct, precision, recall (on
        the calibration samples).
        """
        return new_frame(self._columns(), backend)

    def _columns(self) -> dict[str, Any]:
        named = [
            item
            for cutoff in self.targets or (self,)
            for item in (cutoff.groups or {"all": cutoff}).items()
        ]
        parts = [part for _, part in named]
        return {
            "target": np.array([p.goal.target for p in parts], dtype=float),  # None becomes NaN
            "group": np.array([name for name, _ in named], dtype=object),
            "certified": np.array([p.is_certified for p in parts]),
            "level": np.array([p.level for p in parts]),
            "max_calls": np.array([p.max_calls for p in parts], dtype=float),
            "calls": np.array([p.n_calls for p in parts]),
            "correct": np.array([p.result.n_true_calls for p in parts]),
            "precision": np.array([p.precision for p in parts], dtype=float),
            "recall": np.array([p.recall for p in parts], dtype=float),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values, in one dict; an infinite level becomes None."""
        out = asdict(replace(self, groups=None, targets=None))
        out |= out.pop("goal") | out.pop("result")
        out["level"] = self.level if math.isfinite(self.level) else None
        if self.targets is not None:
            out["targets"] = [cutoff.to_dict() for cutoff in self.targets]
        if self.groups is not None:
            out["groups"] = {name: part.to_dict() for name, part in self.groups.items()}
        return out

    def with_caveats(self, caveats: Sequence[str]) -> Cutoff:
        """Put caveats about the calibration samples in front of the present ones."""
        return replace(
            self,
            caveats=" ".join([*caveats, self.caveats]).strip(),
            targets=self.targets and tuple(part.with_caveats(caveats) for part in self.targets),
        )

    def __str__(self) -> str:
        """Describe the cutoff in sentences, one line per group or target."""
        return describe(self)

    def __repr__(self) -> str:
        return f"<Cutoff: {escape_control(self)}>"

    def _repr_html_(self) -> str:
        columns = self._columns()
        rows = zip(*(x.tolist() for x in columns.values()), strict=True)
        return html_card("Cutoff", str(self), list(columns), islice(rows, SHOWN))


DEFAULT_CUTOFF = Cutoff(0.5, Goal("default"))
"""Before calibration: call what is more likely true than false, for the fewest expected errors."""
