"""Choose a level from block scores and truth: largest F, or a target for the pooled precision.

Instances are called where ``score >= level``, so ties are never split.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hierlpr._utils.checks import check_choice, check_level, effective_number
from hierlpr.cutoff.caveats import precision_caveats
from hierlpr.cutoff.guarantee import Certified, certified_level
from hierlpr.cutoff.instances import Instances, as_instances, limit_calls
from hierlpr.cutoff.outcome import Cutoff, describe_goal, percent
from hierlpr.cutoff.profile import LevelProfile
from hierlpr.exceptions import DataError
from hierlpr.metrics import hit_curve

Rule: TypeAlias = Literal["cautious", "plain"]
Unreachable: TypeAlias = Literal["best-precision", "max-f", "nothing", "error"]


@dataclass(frozen=True, slots=True)
class Goal:
    """A target precision or FDR, or the largest F-beta."""

    kind: str
    target: float | None = None
    beta: float = 1.0
    confidence: float | None = None

    def cutoff(self, **known: Any) -> Cutoff:
        """Return a cutoff for this goal whose level is not yet chosen."""
        return Cutoff(level=math.inf, **asdict(self), **known)


def goals_of(
    *,
    precision: float | Sequence[float] | None = None,
    fdr: float | Sequence[float] | None = None,
    maximize: str | None = None,
    confidence: float | None = None,
) -> list[Goal]:
    """Return the goals of a user's options, of which exactly one of the first three is given.

    Several targets share the error: each gets 1/T of it, so that all hold simultaneously.
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
        return [Goal("f", beta=_beta_of(maximize))]
    kind = given[0]
    several = isinstance(options[kind], Sequence | np.ndarray) and not isinstance(
        options[kind], str
    )
    targets = [check_level(x, name=kind) for x in (options[kind] if several else [options[kind]])]
    if not targets or len(set(targets)) < len(targets):
        raise DataError(f"{kind} must hold different targets, got {options[kind]!r}.")
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


@dataclass(frozen=True, slots=True, eq=False)
class _Curve:
    """Calls, correct calls and calling samples at each distinct level, from high to low.

    All are weighted; `calling` is the effective number of samples with a call.
    """

    level: NDArray[np.float64]
    calls: NDArray[np.float64]
    hits: NDArray[np.float64]
    calling: NDArray[np.float64]

    @classmethod
    def of(cls, instances: Instances) -> _Curve:
        level = np.unique(instances.score)[::-1]
        weight = None if instances.weight is None else instances.weights()
        calls, hits = hit_curve(instances.truth, instances.score, sample_weight=weight)
        best = np.full(instances.n_samples, -np.inf)  # highest score of each sample
        np.maximum.at(best, instances.sample, instances.score)
        order = np.argsort(-best)
        own = np.ones(best.size) if instances.weight is None else instances.weight[order]
        n_calling = np.searchsorted(-best[order], -level, side="right")
        total, square = np.cumsum(own)[n_calling - 1], np.cumsum(own * own)[n_calling - 1]
        return cls(level, calls[1:], hits[1:], total * total / square)

    def f(self, beta: float, n_positives: float) -> NDArray[np.float64]:
        b2 = beta * beta
        values: NDArray[np.float64] = (1.0 + b2) * self.hits / (self.calls + b2 * n_positives)
        return values

    def precision(self, rule: Rule) -> NDArray[np.float64]:
        """Return the precision; with the cautious rule, as if one more sample was all incorrect."""
        more = self.calls / self.calling if rule == "cautious" else 0.0
        values: NDArray[np.float64] = self.hits / (self.calls + more)
        return values


def choose_cutoff(
    score: ArrayLike | Instances,
    truth: ArrayLike | None = None,
    *,
    precision: float | None = None,
    fdr: float | None = None,
    maximize: str | None = None,
    confidence: float | None = None,
    profile: LevelProfile | None = None,
    rule: Rule = "cautious",
    unreachable: Unreachable | None = None,
) -> Cutoff:
    r"""Choose a cutoff from the block scores and truth of calibration samples.

    Parameters
    ----------
    score : array-like or CSR of shape (n_samples, n_labels), or Instances
        Block scores (consistent scores) of samples that were not used to fit.
    truth : array-like of the same shape
        Whether each label holds.
    precision, fdr, maximize : float, float, str
        Exactly one: a target for the pooled precision, ``1 - precision``, or ``"f1"`` (``"f0.5"``,
        ``"f2"``, ...) for the largest F-beta.
    confidence : float, optional
        Certify the target: with this probability over the draw of the calibration samples it is
        met. Needs `profile`; see :func:`hierlpr.cutoff.guarantee.certified_level`.
    rule : {"cautious", "plain"}
        Without `confidence`: how precision is estimated, see Notes.
    unreachable : {"best-precision", "max-f", "nothing", "error"}
        What to use if the target is unreachable: the level of the best precision, that of the
        largest F1, one that calls nothing, or an error. The result says so in every case. Default:
        "nothing" with `confidence`, otherwise "best-precision".
    profile : LevelProfile, optional
        Of other samples than these, such as those of the fit. With `confidence` it plans the
        tests; without, it shows how many calls a sample can have, for `Cutoff.caveats`.

    Returns
    -------
    Cutoff

    Notes
    -----
    With :math:`N(t)` calls at level :math:`t`, :math:`H(t)` of them correct, in :math:`S(t)`
    samples, the plain rule takes the lowest level with :math:`H/N \ge p`. The cautious rule, the
    default, takes the lowest level with :math:`H / (N + N/S) \ge p`: one more sample, with the mean
    number of calls and all of them incorrect, must not break the target. Otherwise a single correct
    first call would reach any target. The difference vanishes like one over the number of calling
    samples. Neither rule promises anything about new samples; `Cutoff.caveats` says where the
    calibration samples say little about them, see
    :func:`~hierlpr.cutoff.caveats.precision_caveats`. For the largest F, the middle of the levels
    within half a standard error of it is taken, because F is flat near its maximum.

    References
    ----------
    The paper's Section 4.3. The added sample is the finite-sample term of conformal risk control,
    key ``angelopoulos2024conformal`` in ``docs/references.bib``, with the mean instead of the
    largest loss.

    Examples
    --------
    >>> score = [[0.9], [0.8], [0.7], [0.6], [0.5], [0.4]]
    >>> truth = [[1], [1], [1], [1], [0], [0]]
    >>> cutoff = choose_cutoff(score, truth, precision=0.8)
    >>> cutoff.level, cutoff.n_calls, cutoff.precision
    (0.6, 4, 1.0)
    """
    (goal,) = goals_of(precision=precision, fdr=fdr, maximize=maximize, confidence=confidence)
    check_choice(rule, ("cautious", "plain"), name="rule")
    instances = as_instances(score, truth)
    return cutoff_for(goal, instances, profile=profile, rule=rule, unreachable=unreachable)


def cutoff_for(
    goal: Goal,
    instances: Instances,
    *,
    profile: LevelProfile | None = None,
    rule: Rule = "cautious",
    unreachable: Unreachable | None = None,
    max_weight: float | None = None,
    certified: Certified | None = None,
) -> Cutoff:
    """Choose a cutoff as :func:`choose_cutoff` does, for a goal and listed instances.

    `certified` is the result of tests that were done before.
    """
    if unreachable is None:
        unreachable = "best-precision" if goal.confidence is None else "nothing"
    check_choice(unreachable, get_args(Unreachable), name="unreachable")
    known, bound = instances.only_known(), 1.0
    if known.score.size == 0:
        raise DataError(
            "No instance to choose a cutoff from: the calibration samples have no scores, or no "
            "known truth.\nHint: give at least one sample with truth."
        )
    if instances.weight is not None:  # scaled so that they sum to the effective number
        n_worth = effective_number(instances.weight)
        scale = n_worth / float(instances.weight.sum())
        bound = 1.0 if max_weight is None else max_weight * scale
        instances = replace(
            instances,
            weight=instances.weight * scale,
            weighted_positives=instances.positives * scale,
        )
        profile = None if profile is None else profile.scaled(1.0 / scale)
        known = instances.only_known()
    curve = _Curve.of(known)
    best = _alternatives(goal, instances, curve, rule)
    if goal.kind == "f":
        level = _level_of_largest_f(curve, goal.beta, instances.positives)
        return _with_calls(replace(best, level=level), instances)
    target = precision_of(goal)
    if goal.confidence is None:
        found = _empirical_level(curve, target, rule)
    else:
        if certified is None:
            if profile is None:
                raise DataError(
                    "confidence= needs a profile of the levels from other samples than these.\n"
                    "Hint: profile=LevelProfile.of(score, truth) of the samples used to fit."
                )
            certified = certified_level(
                instances,
                profile,
                alpha=1.0 - target,
                confidence=goal.confidence,
                max_weight=bound,
            )
        best = replace(best, max_calls=certified.max_calls, max_weight=max_weight)
        found = certified.level
    if found is not None:
        chosen = _with_calls(replace(best, level=found), instances)
        if goal.confidence is None:
            caveats = precision_caveats(known, level=found, target=target, profile=profile)
            chosen = replace(chosen, caveats=caveats)
        return chosen
    return _fall_back(goal, best, instances, unreachable)


def check_bound(
    goal: Goal | None, weight: NDArray[np.float64] | None, max_weight: float | None
) -> None:
    """Check `max_weight`, without which no weighted precision can be certified."""
    needs_bound = weight is not None and goal is not None and goal.confidence is not None
    if max_weight is None:
        if needs_bound:
            raise DataError(
                "confidence= with sample_weight= needs max_weight=, the largest weight that a "
                "sample can have: a rare sample of a larger weight with only incorrect calls could "
                "make any guarantee false without occurring here.\n"
                "Hint: one over the smallest sampling probability, known before the truth; or clip "
                "the weights. Without confidence= no bound is needed."
            )
        return
    is_number = isinstance(max_weight, int | float | np.number) and max_weight is not True
    if not is_number or not 0.0 < max_weight < math.inf:
        raise DataError(f"max_weight must be a positive number, got {max_weight!r}.")
    if not needs_bound or weight is None:
        raise DataError(
            "max_weight= is only used with sample_weight= and confidence=.\n"
            "Hint: leave it out, or give both."
        )
    if weight.max() > max_weight:
        raise DataError(
            f"sample_weight is {weight.max():g} for sample {int(weight.argmax())}, more than "
            f"max_weight={max_weight:g}.\nHint: raise the bound, or clip the weights."
        )


def precision_of(goal: Goal | Cutoff) -> float:
    """Return the target precision: the target itself, or one minus the target FDR."""
    assert goal.target is not None
    return goal.target if goal.kind == "precision" else 1.0 - goal.target


def _empirical_level(curve: _Curve, target: float, rule: Rule) -> float | None:
    # Precision can dip and recover, so take the lowest level that meets the target.
    meets = np.flatnonzero(curve.precision(rule) >= target - 1e-12)
    return float(curve.level[meets[-1]]) if meets.size else None


def _level_of_largest_f(curve: _Curve, beta: float, n_positives: float) -> float:
    """Return the middle of the levels whose F is within half a standard error of the largest.

    F is flat near its maximum, and the position of the maximum itself is mostly noise.
    """
    f = curve.f(beta, n_positives)
    top = int(np.argmax(f))
    tolerance = 0.5 * math.sqrt(float(f[top] * max(0.0, 1.0 - f[top])) / float(curve.calls[top]))
    near = np.flatnonzero(f >= f[top] - tolerance)
    return float(curve.level[near[near.size // 2]])


def _alternatives(goal: Goal, instances: Instances, curve: _Curve, rule: Rule) -> Cutoff:
    """Return a cutoff with the counts, best precision and largest F that fit any level."""
    precision = curve.precision(rule)
    most_precise = int(np.flatnonzero(precision == precision.max())[-1])
    return goal.cutoff(
        n_positives=instances.n_positives,
        n_samples=instances.n_samples,
        n_instances=instances.n_samples * instances.n_labels,
        n_unknown=instances.n_unknown,
        best_precision=float(precision[most_precise]),
        best_precision_calls=int(
            np.count_nonzero(instances.only_known().score >= curve.level[most_precise])
        ),
        n_effective=None if instances.weight is None else effective_number(instances.weight),
        best_precision_level=float(curve.level[most_precise]),
        max_f=float(curve.f(1.0, instances.positives).max()),
        max_f_level=_level_of_largest_f(curve, 1.0, instances.positives),
    )


def _with_calls(cutoff: Cutoff, instances: Instances) -> Cutoff:
    """Count the calls of a cutoff on the calibration samples."""
    if cutoff.max_calls is not None:
        kept = limit_calls(instances.score, instances.sample, cutoff.max_calls)
        instances = instances.take(kept)
    called = instances.take(instances.score >= cutoff.level)
    known = called.only_known()
    counted = cutoff.with_counts(known.score.size, int(np.count_nonzero(known.truth)))
    counted = replace(counted, n_unknown_calls=called.score.size - known.score.size)
    if instances.weight is None:
        return replace(counted, precision_if_random=_precision_if_random(called))
    weight = known.weights()
    sums = weight.sum(), weight[known.truth].sum(), instances.positives
    return counted.with_measures(*map(float, sums))


def _precision_if_random(called: Instances) -> float | None:
    """Return the precision if the unknown calls of each label are correct as often as its known.

    Labels without a known call get the pooled precision. None if nothing is unknown.
    """
    if called.known is None or called.label is None or not called.known.any():
        return None
    size = called.n_labels
    calls = np.bincount(called.label, minlength=size)
    known = np.bincount(called.label[called.known], minlength=size)
    hits = np.bincount(called.label[called.truth], minlength=size)
    share = np.where(known > 0, hits / np.maximum(known, 1), hits.sum() / known.sum())
    return float((calls * share).sum() / calls.sum())


def _fall_back(goal: Goal, best: Cutoff, instances: Instances, unreachable: Unreachable) -> Cutoff:
    asked = describe_goal(goal.kind, goal.target, goal.beta, goal.confidence)
    what = "can be certified" if goal.confidence is not None else "meets it"
    reason = (
        f"{asked}: unreachable; no level {what} on these {best.n_samples:,} samples. The best "
        f"precision is about {percent(best.best_precision)}, with "
        f"{best.best_precision_calls:,} call{'' if best.best_precision_calls == 1 else 's'}."
    )
    assert best.max_f_level is not None
    assert best.best_precision_level is not None
    if unreachable == "error":
        raise DataError(
            f"{reason}\nHint: lower the target, calibrate on more samples, or use the level of the "
            f"largest F1 ({best.max_f:.3g}, at {best.max_f_level:.4g})."
        )
    level, which = {
        "best-precision": (best.best_precision_level, "that level"),
        "max-f": (best.max_f_level, "the level of the largest F1"),
        "nothing": (math.inf, ""),
    }[unreachable]
    in_use = _with_calls(
        replace(best, level=level, reachable=False, fallback=unreachable, max_calls=None), instances
    )
    if unreachable == "nothing":
        tail = " Nothing is called."
    else:
        tail = (
            f" In use instead: {which}, {level:.4g}, with {in_use.n_calls:,} calls, "
            f"{percent(in_use.precision)} correct; nothing is promised about them."
        )
    if unreachable != "max-f":
        tail += f" The largest F1, {best.max_f:.3g}, is at level {best.max_f_level:.4g}."
    return replace(in_use, reason=reason + tail)
