"""The goal of a cutoff: a target precision or FDR, certified or not, or the largest F."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import check_level
from hierlpr.exceptions import DataError


class Promise(NamedTuple):
    """At most a share `alpha` of all calls is incorrect, except with probability `delta`."""

    alpha: float
    delta: float


@dataclass(frozen=True, slots=True)
class Goal:
    """What a cutoff is chosen for.

    Attributes
    ----------
    kind : {"precision", "fdr", "f", "default", "by hand"}
        The last two are the cutoffs that were not calibrated.
    target : float or None
        The target precision or FDR.
    beta : float
        Weight of recall in F.
    confidence : float or None
        If given, the target is certified, for all groups and targets simultaneously.
    """

    kind: str
    target: float | None = None
    beta: float = 1.0
    confidence: float | None = None

    @property
    def precision(self) -> float:
        """The target precision: the target itself, or one minus the target FDR."""
        assert self.target is not None
        return self.target if self.kind == "precision" else 1.0 - self.target

    @property
    def promise(self) -> Promise:
        """What is promised with a confidence."""
        assert self.confidence is not None
        return Promise(1.0 - self.precision, 1.0 - self.confidence)


def goals_of(
    *,
    precision: float | Sequence[float] | None = None,
    fdr: float | Sequence[float] | None = None,
    maximize: str | None = None,
    confidence: float | None = None,
) -> list[Goal]:
    """Return the goals that a user's options name, one per target.

    Several targets share the error: each gets 1/T of it, so that all hold simultaneously.
    """
    options: dict[str, Any] = {"precision": precision, "fdr": fdr, "maximize": maximize}
    targets_by_kind = {name: value for name, value in options.items() if value is not None}
    if len(targets_by_kind) != 1:
        raise DataError(
            "Give exactly one of precision=, fdr= and maximize=; "
            f"got {' and '.join(targets_by_kind) or 'none'}."
            '\nHint: precision=0.9, fdr=0.1 or maximize="f1".'
        )
    if confidence is not None:
        confidence = check_level(confidence, name="confidence")
    if maximize is not None:
        if confidence is not None:
            raise DataError(
                "confidence= needs a precision= or fdr= target; there is no guarantee for F."
            )
        return [Goal("f", beta=_beta_of(maximize))]
    [(kind, value)] = targets_by_kind.items()
    is_list = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
    targets = [check_level(x, name=kind) for x in (value if is_list else [value])]
    if not targets or len(set(targets)) < len(targets):
        raise DataError(f"{kind} must hold different targets, got {value!r}.")
    if confidence is not None and len(targets) > 1:
        confidence = 1.0 - (1.0 - confidence) / len(targets)
    return [Goal(kind, target, confidence=confidence) for target in targets]


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
    goal: Goal | None, weight: NDArray[np.float64] | None, max_weight: float | None
) -> None:
    """Check `max_weight`, without which no weighted precision can be certified."""
    is_certified = goal is not None and goal.confidence is not None
    if weight is None or not is_certified:
        if max_weight is not None:
            raise DataError(
                "max_weight= is only used with sample_weight= and confidence=.",
                options=("weights", "confidence"),
            )
        return
    if max_weight is None:
        raise DataError(
            "confidence= with sample_weight= needs max_weight=, the largest weight that a "
            "sample can have: a rare sample of a larger weight with only incorrect calls could "
            "break any guarantee without occurring here.\n"
            "Hint: one over the smallest sampling probability, known before the truth; or clip "
            "the weights. Without confidence= no bound is needed.",
            options=("max_weight",),
        )
    is_number = isinstance(max_weight, int | float | np.number) and max_weight is not True
    if not is_number or not 0.0 < max_weight < math.inf:
        raise DataError(f"max_weight must be a positive number, got {max_weight!r}.")
    if weight.max() > max_weight:
        raise DataError(
            f"sample_weight is {weight.max():g} for sample {int(weight.argmax())}, more than "
            f"max_weight={max_weight:g}.\nHint: raise the bound, or clip the weights."
        )
