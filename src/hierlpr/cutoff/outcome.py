"""The cutoff that was chosen: where it cuts, what was asked for, what it achieved, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from html import escape
from typing import Any

from hierlpr._base.showing import plain
from hierlpr.exceptions import DataError

_CERTIFIED_BEFORE = (
    "It was certified by a test of an earlier version that does not hold where samples have equal "
    "scores; calibrate again."
)


@dataclass(frozen=True, slots=True, repr=False)
class Cutoff:
    """Where to cut, what was asked for, and what it achieved on the calibration samples.

    `level` is in use: every instance with a block score of at least `level` is called (and at most
    `max_calls` a sample, see :func:`~hierlpr.cutoff.guarantee.certified_level`). If the target was
    out of reach, `reachable` is False, `reason` says why, `level` is that of the `fallback`, and
    `precision`, `recall` and `f` are what that fallback achieved.

    With `confidence`, the target is certified: for all `groups` at once if `promise` is
    ``"together"``, for each on its own if it is ``"each"``. Without, these are figures of the
    calibration samples and promise nothing about others; `shaky` says why they may be far off, and
    is empty if nothing speaks for that.

    Where some of the truth is unknown (`n_unknown` instances), calls, precision, recall and what is
    certified are those of the known ones. `n_unknown_calls` are not judged: `precision_if_random`
    is that of all calls if every label's unknown ones are right as often as its known ones, and
    `precision_worst` if they are all wrong.

    With weights of the samples, counts stay counts, while precision, recall, F and what is
    certified are weighed: `n_effective` samples of equal weight would say as much. A certificate is
    for weights up to `max_weight`.
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
    shaky: str = ""
    promise: str | None = None
    n_unknown: int = 0
    n_unknown_calls: int = 0
    precision_if_random: float | None = None
    n_effective: float | None = None
    max_weight: float | None = None
    groups: Mapping[str, Cutoff] | None = None
    label_groups: tuple[str, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them; a level that is not finite becomes None."""
        out = asdict(replace(self, groups=None))
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
        if "shaky" not in data and data.get("confidence") is not None:
            values["shaky"] = _CERTIFIED_BEFORE
        check_fields(cls, values, "a Cutoff")
        if data.get("groups") is not None:
            values["groups"] = {k: cls.from_dict(v) for k, v in data["groups"].items()}
            values["label_groups"] = tuple(data["label_groups"])
        return cls(**values)

    def counted(self, n_calls: int, n_true_calls: int) -> Cutoff:
        """Put in how many calls it makes on the calibration samples, and how many are right."""
        shares = self.weighed(n_calls, n_true_calls, self.n_positives)
        return replace(shares, n_calls=n_calls, n_true_calls=n_true_calls)

    def weighed(self, calls: float, hits: float, positives: float) -> Cutoff:
        """Put in precision, recall and F of calls that count by the weights of their samples."""
        b2 = self.beta**2
        whole = calls + b2 * positives
        return replace(
            self,
            precision=hits / calls if calls else None,
            recall=hits / positives if positives else None,
            f=(1.0 + b2) * hits / whole if whole else None,
        )

    def doubted(self, doubts: Sequence[str]) -> Cutoff:
        """Put in what is wrong with the calibration samples themselves."""
        return replace(self, shaky=" ".join([*doubts, self.shaky]).strip()) if doubts else self

    @property
    def precision_worst(self) -> float | None:
        """Share of right calls if all calls of unknown truth are wrong."""
        n_calls = self.n_calls + self.n_unknown_calls
        if self.n_effective is not None and self.n_unknown_calls:
            return None  # counts do not tell what those calls weigh
        return self.n_true_calls / n_calls if n_calls else None

    def __str__(self) -> str:
        """Say it in words."""
        if self.groups is not None:
            lines = [f"{name}: {part}" for name, part in self.groups.items()]
            shaky = [f"Shaky: {self.shaky}"] if self.shaky else []
            return "\n".join([*self._promise_for_groups(), *lines, *shaky])
        if self.kind == "default":
            why = self.reason or "not calibrated"
            return f"Calls at a block score of {self.level:g} or more; {why}."
        if self.kind == "by hand":
            return (
                f"Calls at a block score of {self.level:g} or more, set by hand; nothing is "
                "promised about them."
            )
        if not self.reachable:
            return self.reason
        asked = asked_for(self.kind, self.target, self.beta, self.confidence)
        everything = ", which is every instance" if self.n_calls == self.n_instances else ""
        limit = f" and at most {self.max_calls:,} calls a sample" if self.max_calls else ""
        return (
            f"{asked}: calls at a block score of {self.level:.4g} or more{limit}; on "
            f"{self.n_samples:,} calibration samples{self._worth()} {self.n_calls:,} "
            f"calls{everything}, {percent(self.precision)} of them right, finding "
            f"{percent(self.recall)} of the positives.{self._unjudged()}{self._caution()}"
        )

    def _worth(self) -> str:
        if self.n_effective is None:
            return ""
        worth = f"weighted, worth {self.n_effective:,.4g} of equal weight"
        if self.max_weight is not None:
            worth += f"; certified for weights up to {self.max_weight:g}"
        return f" ({worth})"

    def _unjudged(self) -> str:
        if not self.n_unknown:
            return ""
        if self.n_effective is not None:
            return f" The truth of {self.n_unknown_calls:,} more calls is unknown."
        if not self.n_unknown_calls:
            return f" The truth of {self.n_unknown:,} instances is unknown; none of them is called."
        certified = ", what is certified is about the known ones" if self.confidence else ""
        return (
            f" The truth of {self.n_unknown_calls:,} more calls is unknown{certified}: of all "
            f"calls {percent(self.precision_if_random)} are right if it is unknown at random "
            f"within a label, and {percent(self.precision_worst)} if all of those are wrong."
        )

    def __repr__(self) -> str:
        return f"<Cutoff: {plain(self)}>"

    def _repr_html_(self) -> str:
        """Say the same in a notebook, a line for each group."""
        lines = str(self).split("\n")
        return f"<p>{'<br>'.join(escape(plain(line)) for line in lines)}</p>"

    def _caution(self) -> str:
        words = ""
        if self.target is not None and self.confidence is None:
            words = " New samples may fall short of it: without a confidence nothing is promised."
        return f"{words} Shaky: {self.shaky}" if self.shaky else words

    def _promise_for_groups(self) -> list[str]:
        if self.confidence is None:
            return []
        sure = percent(self.confidence)
        assert self.groups is not None
        which = {
            "together": f"All {len(self.groups):,} groups at once keep what is said of them, with "
            f"{sure} confidence:",
            "each": f"Each of {len(self.groups):,} groups keeps what is said of it with {sure} "
            "confidence, by itself; that all do is less likely:",
        }
        return [which["each" if self.promise is None else self.promise]]


# What a field of each declared type may hold when it comes from a file.
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
    """Refuse values from a file that are not of the declared types of a dataclass."""
    for field in fields(kind):
        allowed = _JSON_TYPES.get(str(field.type))
        value = values.get(field.name, None if field.default is MISSING else field.default)
        if allowed is not None and type(value) not in allowed:
            raise DataError(f"Not {what}: {field.name} is {value!r}.")


DEFAULT_CUTOFF = Cutoff(level=0.5, kind="default")
"""Before calibration: call what is more likely right than wrong, the fewest expected errors."""


def asked_for(kind: str, target: float | None, beta: float, confidence: float | None) -> str:
    """Put a goal into words."""
    sure = f" with {percent(confidence)} confidence" if confidence is not None else ""
    if kind == "f":
        return f"Largest F{beta:g}"
    name = "Precision of at least" if kind == "precision" else "FDR of at most"
    return f"{name} {percent(target)}{sure}"


def percent(share: float | None) -> str:
    """Write a share as percent; almost all is not all."""
    if share is None:
        return "none"
    rounded = f"{100.0 * share:.3g}"
    if rounded == "100" and share < 1.0:
        rounded = f"{100.0 * share:.6g}"
    return f"{rounded} %"
