"""The chosen cutoff: its level, the goal, what it achieved on the calibration samples, as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from html import escape
from typing import Any, Literal

import numpy as np

from hierlpr._utils.display import escape_control
from hierlpr.data.frames import new_frame
from hierlpr.exceptions import DataError


@dataclass(frozen=True, slots=True, repr=False)
class Cutoff:
    """Where to cut, for which goal, and what that achieved on the calibration samples.

    Every instance with a block score of at least `level` is called, and at most `max_calls` per
    sample (see :func:`~hierlpr.cutoff.guarantee.certified_level`). If the target is unreachable,
    `reachable` is False, `reason` says why, `level` is that of the `fallback`, and `precision`,
    `recall` and `f` are those of the fallback.

    With `confidence`, the target is certified, for all `groups` simultaneously. With several
    `targets`, all their certificates hold simultaneously, and this cutoff is the one in use.
    Without, the numbers describe the calibration samples and promise nothing about others;
    `caveats` says why they may be unreliable, and is empty if there is no sign of that.

    If some of the truth is unknown (`n_unknown` instances), calls, precision, recall and the
    certificate are about the known instances. `n_unknown_calls` calls cannot be judged:
    `precision_if_random` is the precision of all calls if the unknown calls of each label are
    correct as often as its known ones, and `precision_worst` if they are all incorrect.

    With sample weights, counts are still counts, while precision, recall, F and the certificate are
    weighted: the samples are worth `n_effective` samples of equal weight. A certificate holds for
    weights up to `max_weight`.
    """

    level: float
    kind: str
    target: float | None = None
    beta: float = 1.0
    confidence: float | None = None
    reachable: bool = True
    reason: str = ""
    fallback: str | None = None
    precision: float | None = None
    recall: float | None = None
    f: float | None = None
    n_calls: int = 0
    n_true_calls: int = 0
    n_positives: int = 0
    n_samples: int = 0
    n_instances: int = 0
    best_precision: float | None = None
    best_precision_calls: int = 0
    best_precision_level: float | None = None
    max_f: float | None = None
    max_f_level: float | None = None
    max_calls: int | None = None
    caveats: str = ""
    n_unknown: int = 0
    n_unknown_calls: int = 0
    precision_if_random: float | None = None
    n_effective: float | None = None
    max_weight: float | None = None
    groups: Mapping[str, Cutoff] | None = None
    label_groups: tuple[str, ...] | None = None
    targets: tuple[Cutoff, ...] | None = None

    @classmethod
    def of_targets(cls, cutoffs: Sequence[Cutoff]) -> Cutoff:
        """Return the first of several cutoffs, together with all of them if there are more."""
        several = tuple(cutoffs) if len(cutoffs) > 1 else None
        return replace(cutoffs[0], targets=several)

    def for_target(self, target: float) -> Cutoff:
        """Return the cutoff for one of several targets, together with the others.

        >>> cutoff = Cutoff.of_targets([Cutoff(0.6, "fdr", 0.2), Cutoff(0.8, "fdr", 0.1)])
        >>> cutoff.level, cutoff.for_target(0.1).level
        (0.6, 0.8)
        """
        cutoffs = (self,) if self.targets is None else self.targets
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
        rows = [
            (cutoff, name, part)
            for cutoff in ((self,) if self.targets is None else self.targets)
            for name, part in (cutoff.groups or {"all": cutoff}).items()
        ]
        columns: dict[str, Any] = {
            "target": np.array([_or_nan(c.target) for c, _, _ in rows]),
            "group": np.array([name for _, name, _ in rows], dtype=object),
            "certified": np.array([p.reachable and p.confidence is not None for _, _, p in rows]),
            "level": np.array([p.level for _, _, p in rows]),
            "max_calls": np.array([_or_nan(p.max_calls) for _, _, p in rows]),
            "calls": np.array([p.n_calls for _, _, p in rows]),
            "correct": np.array([p.n_true_calls for _, _, p in rows]),
            "precision": np.array([_or_nan(p.precision) for _, _, p in rows]),
            "recall": np.array([_or_nan(p.recall) for _, _, p in rows]),
        }
        return new_frame(columns, backend)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values; an infinite level becomes None."""
        out = asdict(replace(self, groups=None, targets=None))
        if self.targets is not None:
            out["targets"] = [cutoff.to_dict() for cutoff in self.targets]
        out["level"] = self.level if math.isfinite(self.level) else None
        if self.groups is not None:
            out["groups"] = {name: part.to_dict() for name, part in self.groups.items()}
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cutoff:
        """Rebuild from :meth:`to_dict`."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(data) - known)
        if unknown or "level" not in data or "kind" not in data:
            raise DataError(f"Not the fields of a Cutoff: {unknown or sorted(data)}.")
        values = dict(data)
        values["level"] = math.inf if data["level"] is None else data["level"]
        check_fields(cls, values, "a Cutoff")
        if data.get("groups") is not None:
            values["groups"] = {k: cls.from_dict(v) for k, v in data["groups"].items()}
            values["label_groups"] = tuple(data["label_groups"])
        if data.get("targets") is not None:
            values["targets"] = tuple(cls.from_dict(part) for part in data["targets"])
        return cls(**values)

    def with_counts(self, n_calls: int, n_true_calls: int) -> Cutoff:
        """Set the numbers of calls and correct calls, and the measures that follow."""
        measured = self.with_measures(n_calls, n_true_calls, self.n_positives)
        return replace(measured, n_calls=n_calls, n_true_calls=n_true_calls)

    def with_measures(self, calls: float, hits: float, positives: float) -> Cutoff:
        """Set precision, recall and F from (weighted) calls, correct calls and positives."""
        b2 = self.beta**2
        whole = calls + b2 * positives
        return replace(
            self,
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
        return self.n_true_calls / n_calls if n_calls else None

    def __str__(self) -> str:
        """Describe the cutoff in sentences, one line per group or target."""
        if self.targets is not None:
            return "\n".join([*self._targets_header(), *map(str, self.targets)])
        caveats = f" Caveats: {self.caveats}" if self.caveats else ""
        if self.groups is not None:
            lines = [f"{name}: {part}" for name, part in self.groups.items()]
            return "\n".join([*self._group_header(), *lines, *([caveats[1:]] if caveats else [])])
        calls = f"Calls at a block score of {self.level:.4g} or more"
        if self.kind == "default":
            return f"{calls}; {self.reason or 'not calibrated'}."
        if self.kind == "by hand":
            return f"{calls}, set by hand; nothing is promised about them."
        if not self.reachable:
            return self.reason + caveats
        limit = f" and at most {self.max_calls:,} calls per sample" if self.max_calls else ""
        everything = " (every instance)" if self.n_calls == self.n_instances else ""
        unsure = ""
        if self.target is not None and self.confidence is None:
            unsure = " Without a confidence nothing is promised about new samples."
        return (
            f"{describe_goal(self.kind, self.target, self.beta, self.confidence)}: "
            f"{calls[0].lower()}{calls[1:]}{limit}. On {self.n_samples:,} calibration "
            f"samples{self._weights()}: {self.n_calls:,} calls{everything}, "
            f"{percent(self.precision)} correct, recall {percent(self.recall)}."
            f"{self._unknown()}{unsure}{caveats}"
        )

    def _weights(self) -> str:
        if self.n_effective is None:
            return ""
        text = f"weighted, equivalent to {self.n_effective:,.4g} of equal weight"
        if self.max_weight is not None:
            text += f"; certified for weights up to {self.max_weight:g}"
        return f" ({text})"

    def _unknown(self) -> str:
        if not self.n_unknown:
            return ""
        if self.n_effective is not None:
            return f" The truth of {self.n_unknown_calls:,} more calls is unknown."
        if not self.n_unknown_calls:
            return f" The truth of {self.n_unknown:,} instances is unknown; none of them is called."
        certified = "; the certificate is about the known ones" if self.confidence else ""
        return (
            f" The truth of {self.n_unknown_calls:,} more calls is unknown{certified}: of all "
            f"calls, {percent(self.precision_if_random)} are correct if it is unknown at random "
            f"within each label, and {percent(self.precision_worst)} if those are all incorrect."
        )

    def _group_header(self) -> list[str]:
        if self.confidence is None or self.groups is None:
            return []
        return [
            f"With {percent(self.confidence)} confidence, what follows holds for all "
            f"{len(self.groups):,} groups simultaneously:"
        ]

    def _targets_header(self) -> list[str]:
        targets = self.targets or ()
        in_use = f"In use: {describe_goal(self.kind, self.target, self.beta, None).lower()}."
        if self.confidence is None:
            return [in_use]
        sure = percent(1.0 - (1.0 - self.confidence) * len(targets))
        return [
            f"With {sure} confidence, all of the {len(targets)} certified targets hold "
            f"simultaneously. {in_use}"
        ]

    def __repr__(self) -> str:
        return f"<Cutoff: {escape_control(self)}>"

    def _repr_html_(self) -> str:
        """Show the text in a notebook, one line per group."""
        lines = str(self).split("\n")
        return f"<p>{'<br>'.join(escape(escape_control(line)) for line in lines)}</p>"


# JSON types that a field of each declared type accepts.
_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "float": (float, int),
    "float | None": (float, int, type(None)),
    "int": (int,),
    "int | None": (int, type(None)),
    "bool": (bool,),
    "str": (str,),
    "str | None": (str, type(None)),
}


def check_fields(kind: type, values: Mapping[str, Any], what: str) -> None:
    """Raise if values from a file do not have the declared types of a dataclass."""
    for field in fields(kind):
        allowed = _JSON_TYPES.get(str(field.type))
        value = values.get(field.name, None if field.default is MISSING else field.default)
        if allowed is not None and type(value) not in allowed:
            raise DataError(f"Not {what}: {field.name} is {value!r}.")


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


DEFAULT_CUTOFF = Cutoff(level=0.5, kind="default")
"""Before calibration: call what is more likely true than false, for the fewest expected errors."""


def describe_goal(kind: str, target: float | None, beta: float, confidence: float | None) -> str:
    """Return a goal as text, such as "Target precision 90 % with 95 % confidence"."""
    if kind == "f":
        return f"Largest F{beta:g}"
    name = "precision" if kind == "precision" else "FDR"
    sure = f" with {percent(confidence)} confidence" if confidence is not None else ""
    return f"Target {name} {percent(target)}{sure}"


def percent(share: float | None) -> str:
    """Return a share as a percentage that shows 100 only for exactly 1.

    >>> percent(0.123456), percent(0.99999), percent(None)
    ('12.3 %', '99.999 %', 'none')
    """
    if share is None:
        return "none"
    rounded = f"{100.0 * share:.3g}"
    if rounded == "100" and share < 1.0:
        rounded = f"{100.0 * share:.6g}"
    return f"{rounded} %"
