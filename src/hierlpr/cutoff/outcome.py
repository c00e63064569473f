"""The goal of a cutoff, and the chosen cutoff: its level, what it achieved, and all as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import check_level
from hierlpr._utils.display import escape_control
from hierlpr.data.frames import new_frame
from hierlpr.exceptions import DataError


@dataclass(frozen=True, slots=True, repr=False)
class Cutoff:
    """Where to cut, for which goal, and what that achieved on the calibration samples.

    Counts and shares describe the calibration samples; they promise nothing about others unless
    there is a `confidence`.

    Attributes
    ----------
    level : float
        Instances with a block score of at least this are called.
    max_calls : int or None
        Most calls per sample; a sample with more keeps those with the highest scores.
    kind : {"precision", "fdr", "f", "default", "by hand"}
        The kind of goal.
    target : float or None
        The target precision or FDR.
    beta : float
        Weight of recall in F.
    confidence : float or None
        If given, the target is certified, for all `groups` and `targets` simultaneously.
    reachable : bool
        Whether a level reaches the target; if not, `reason` says why, and `level` and what follows
        from it are those that are used instead.
    reason : str
        Why the target is out of reach; empty if it is not.
    precision, recall, f : float or None
        Reached on the calibration samples.
    n_calls, n_true_calls, n_positives, n_samples, n_instances : int
        Calls, correct calls, true labels, samples and instances with known truth.
    best_precision : float or None
        The highest target that would have been reached.
    caveats : str
        Why the numbers may be unreliable; empty if there is no sign of that.
    n_unknown, n_unknown_calls, n_implied_calls : int
        Instances and calls that were not judged; precision, recall and certificate leave them out.
        The last of these are correct because a descendant holds. See ``docs/truth.md``.
    precision_if_random : float or None
        Precision of all calls if those of each label that were not judged are correct as often as
        the others.
    n_effective : float or None
        With sample weights: the equivalent number of samples of equal weight.
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
    kind: str
    target: float | None = None
    beta: float = 1.0
    confidence: float | None = None
    reachable: bool = True
    reason: str = ""
    precision: float | None = None
    recall: float | None = None
    f: float | None = None
    n_calls: int = 0
    n_true_calls: int = 0
    n_positives: int = 0
    n_samples: int = 0
    n_instances: int = 0
    best_precision: float | None = None
    max_calls: int | None = None
    caveats: str = ""
    n_unknown: int = 0
    n_unknown_calls: int = 0
    n_implied_calls: int = 0
    precision_if_random: float | None = None
    n_effective: float | None = None
    max_weight: float | None = None
    groups: Mapping[str, Cutoff] | None = None
    label_groups: tuple[str, ...] | None = None
    targets: tuple[Cutoff, ...] | None = None

    def for_target(self, target: float) -> Cutoff:
        """Return the cutoff for one of several targets, together with the others.

        Examples
        --------
        >>> several = Cutoff(0.6, "fdr", 0.2), Cutoff(0.8, "fdr", 0.1)
        >>> Cutoff(0.6, "fdr", 0.2, targets=several).for_target(0.1).level
        0.8
        """
        cutoffs, target = self.targets or (self,), check_level(target, name="target")
        for cutoff in cutoffs:
            if cutoff.target is not None and abs(cutoff.target - target) < 1e-9:
                return replace(cutoff, targets=self.targets)
        known = ", ".join(f"{x.target:g}" for x in cutoffs if x.target is not None) or "none"
        raise DataError(f"There is no cutoff for the target {target!r}; calibrated: {known}.")

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] | None = None) -> Any:
        """Return a data frame with one row per target and group.

        Columns: target, group, certified, level, max_calls, calls, correct, precision, recall (on
        the calibration samples).
        """
        named = [
            item
            for cutoff in self.targets or (self,)
            for item in (cutoff.groups or {"all": cutoff}).items()
        ]
        parts = [part for _, part in named]
        columns = {
            "target": np.array([p.target for p in parts], dtype=float),  # None becomes NaN
            "group": np.array([name for name, _ in named], dtype=object),
            "certified": np.array([p.reachable and p.confidence is not None for p in parts]),
            "level": np.array([p.level for p in parts]),
            "max_calls": np.array([p.max_calls for p in parts], dtype=float),
            "calls": np.array([p.n_calls for p in parts]),
            "correct": np.array([p.n_true_calls for p in parts]),
            "precision": np.array([p.precision for p in parts], dtype=float),
            "recall": np.array([p.recall for p in parts], dtype=float),
        }
        return new_frame(columns, backend)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values; an infinite level becomes None."""
        out = asdict(replace(self, groups=None, targets=None))
        out["level"] = self.level if math.isfinite(self.level) else None
        if self.targets is not None:
            out["targets"] = [cutoff.to_dict() for cutoff in self.targets]
        if self.groups is not None:
            out["groups"] = {name: part.to_dict() for name, part in self.groups.items()}
        return out

    def with_counts(
        self, n_calls: int, n_true_calls: int, weighted: tuple[float, float, float] | None = None
    ) -> Cutoff:
        """Set the numbers of calls and correct calls, and the measures that follow.

        These use the weights of calls, correct calls and positives, if there are any.
        """
        calls, hits, positives = weighted or (n_calls, n_true_calls, self.n_positives)
        b2 = self.beta**2
        whole = calls + b2 * positives
        return replace(
            self,
            n_calls=n_calls,
            n_true_calls=n_true_calls,
            precision=hits / calls if calls else None,
            recall=hits / positives if positives else None,
            f=(1.0 + b2) * hits / whole if whole else None,
        )

    def with_caveats(self, caveats: Sequence[str]) -> Cutoff:
        """Put caveats about the calibration samples in front of those already there."""
        return replace(
            self,
            caveats=" ".join([*caveats, self.caveats]).strip(),
            targets=self.targets and tuple(part.with_caveats(caveats) for part in self.targets),
        )

    @property
    def precision_worst(self) -> float | None:
        """Precision if all calls of unknown truth are incorrect."""
        n_calls = self.n_calls + self.n_unknown_calls
        if self.n_effective is not None and self.n_unknown_calls:
            return None  # the weight of those calls is not kept
        return (self.n_true_calls + self.n_implied_calls) / n_calls if n_calls else None

    def __str__(self) -> str:
        """Describe the cutoff in sentences, one line per group or target."""
        if self.targets is not None:
            header = f"In use: {describe_goal(replace(self, confidence=None)).lower()}."
            if self.confidence is not None:
                sure = percent(1.0 - (1.0 - self.confidence) * len(self.targets))
                header = (
                    f"With {sure} confidence, all of the {len(self.targets)} certified targets "
                    f"hold simultaneously. {header}"
                )
            return "\n".join([header, *map(str, self.targets)])
        caveats = f" Caveats: {self.caveats}" if self.caveats else ""
        if self.groups is not None:
            lines = [f"Group {name}: {part}" for name, part in self.groups.items()]
            if self.confidence is not None:
                holds = f"what follows holds for all {len(lines):,} groups simultaneously:"
                lines = [f"With {percent(self.confidence)} confidence, {holds}", *lines]
            return "\n".join([*lines, *([caveats[1:]] if caveats else [])])
        calls = f"Calls at a block score of {self.level:.4g} or more"
        if self.kind in ("default", "by hand"):
            source = "set by hand" if self.kind == "by hand" else self.reason or "not calibrated"
            return f"{calls}, {source}; nothing is promised about them."
        if not self.reachable:
            return self.reason + caveats
        limit = f" and at most {self.max_calls:,} calls per sample" if self.max_calls else ""
        everything = " (every instance)" if self.n_calls == self.n_instances else ""
        weights = unsure = ""
        if self.n_effective is not None:
            bound = self.max_weight
            certified = "" if bound is None else f"; certified for weights up to {bound:g}"
            weights = (
                f" (weighted, equivalent to {self.n_effective:,.4g} of equal weight{certified})"
            )
        if self.target is not None and self.confidence is None:
            unsure = " Without a confidence nothing is promised about new samples."
        return (
            f"{describe_goal(self)}: {calls[0].lower()}{calls[1:]}{limit}. On "
            f"{self.n_samples:,} calibration samples{weights}: {self.n_calls:,} "
            f"calls{everything}, {percent(self.precision)} correct, recall "
            f"{percent(self.recall)}.{self._unknown()}{unsure}{caveats}"
        )

    def _unknown(self) -> str:
        if not self.n_unknown:
            return ""
        if self.n_effective is not None:
            return f" {self.n_unknown_calls:,} more calls were not judged."
        if not self.n_unknown_calls:
            return f" {self.n_unknown:,} instances were not judged; none of them is called."
        certified = "; the certificate is about the judged ones" if self.confidence else ""
        return (
            f" {self.n_unknown_calls:,} more calls were not judged{certified}: of all calls, "
            f"{percent(self.precision_if_random)} are correct if those judged are random within "
            f"each label, and at least {percent(self.precision_worst)} in any case."
        )

    def __repr__(self) -> str:
        return f"<Cutoff: {escape_control(self)}>"


def goals_of(
    *,
    precision: float | Sequence[float] | None = None,
    fdr: float | Sequence[float] | None = None,
    maximize: str | None = None,
    confidence: float | None = None,
) -> list[Cutoff]:
    """Return the goals of a user's options as cutoffs whose level is not yet chosen.

    Exactly one of the first three options is given. Several targets share the error: each gets 1/T
    of it, so that all hold simultaneously.
    """
    options: dict[str, Any] = {"precision": precision, "fdr": fdr, "maximize": maximize}
    given = [name for name, value in options.items() if value is not None]
    if len(given) != 1:
        got = " and ".join(given) or "none"
        raise DataError(
            f"Give exactly one of precision=, fdr= and maximize=; got {got}."
            '\nHint: precision=0.9, fdr=0.1 or maximize="f1".'
        )
    if confidence is not None:
        confidence = check_level(confidence, name="confidence")
    if maximize is not None:
        if confidence is not None:
            raise DataError(
                "confidence= needs a precision= or fdr= target; there is no guarantee for F."
            )
        return [Cutoff(math.inf, "f", beta=_beta_of(maximize))]
    kind, wanted = given[0], options[given[0]]
    several = isinstance(wanted, Sequence | np.ndarray) and not isinstance(wanted, str)
    targets = [check_level(x, name=kind) for x in (wanted if several else [wanted])]
    if not targets or len(set(targets)) < len(targets):
        raise DataError(f"{kind} must hold different targets, got {wanted!r}.")
    if confidence is not None and len(targets) > 1:
        confidence = 1.0 - (1.0 - confidence) / len(targets)
    return [Cutoff(math.inf, kind, target, confidence=confidence) for target in targets]


def _beta_of(maximize: Any) -> float:
    text = str(maximize).strip().lower()
    try:
        beta = float(text.removeprefix("f"))
    except ValueError:
        beta = math.nan
    if not 1e-100 <= beta <= 1e100:  # its square must be finite and positive
        raise DataError(
            f"maximize must name an F-measure with beta > 0, such as 'f1', 'f0.5' or 'f2'; "
            f"got {maximize!r}."
        )
    return beta


def check_bound(
    goal: Cutoff | None, weight: NDArray[np.float64] | None, max_weight: float | None
) -> None:
    """Check `max_weight`, without which no weighted precision can be certified."""
    needs_bound = weight is not None and goal is not None and goal.confidence is not None
    if max_weight is None:
        if needs_bound:
            raise DataError(
                "confidence= with sample_weight= needs max_weight=, the largest weight that a "
                "sample can have: a rare sample of a larger weight with only incorrect calls could "
                "break any guarantee without occurring here.\n"
                "Hint: one over the smallest sampling probability, known before the truth; or clip "
                "the weights. Without confidence= no bound is needed."
            )
        return
    is_number = isinstance(max_weight, int | float | np.number) and max_weight is not True
    if not is_number or not 0.0 < max_weight < math.inf:
        raise DataError(f"max_weight must be a positive number, got {max_weight!r}.")
    if not needs_bound or weight is None:
        raise DataError("max_weight= is only used with sample_weight= and confidence=.")
    if weight.max() > max_weight:
        raise DataError(
            f"sample_weight is {weight.max():g} for sample {int(weight.argmax())}, more than "
            f"max_weight={max_weight:g}.\nHint: raise the bound, or clip the weights."
        )


DEFAULT_CUTOFF = Cutoff(level=0.5, kind="default")
"""Before calibration: call what is more likely true than false, for the fewest expected errors."""


def precision_of(goal: Cutoff) -> float:
    """Return the target precision: the target itself, or one minus the target FDR."""
    assert goal.target is not None
    return goal.target if goal.kind == "precision" else 1.0 - goal.target


def describe_goal(goal: Cutoff) -> str:
    """Return a goal as text, such as "Target precision 90 % with 95 % confidence"."""
    if goal.kind == "f":
        return f"Largest F{goal.beta:g}"
    name = "precision" if goal.kind == "precision" else "FDR"
    sure = f" with {percent(goal.confidence)} confidence" if goal.confidence is not None else ""
    return f"Target {name} {percent(goal.target)}{sure}"


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
