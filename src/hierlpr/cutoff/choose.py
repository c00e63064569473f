"""Block scores and truth -> a level to call at: maximal F, or a precision target, micro (pooled).

Everything here works on plain arrays of instances: block score, truth, and the sample each belongs
to. Instances are called where ``score >= level``, so that ties are never split.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hierlpr._base.checks import check_choice, check_level, effective_number
from hierlpr.cutoff.guarantee import certified_level
from hierlpr.cutoff.outcome import Cutoff, asked_for, percent
from hierlpr.cutoff.profile import LevelProfile, doubts
from hierlpr.cutoff.scored import Scored, as_scored, limit_calls
from hierlpr.exceptions import DataError

Rule: TypeAlias = Literal["cautious", "plain"]
Unreachable: TypeAlias = Literal["best-precision", "max-f", "nothing", "error"]


@dataclass(frozen=True, slots=True)
class Goal:
    """What to choose a level for: a precision target, or the largest F-beta."""

    kind: str
    target: float | None = None
    beta: float = 1.0
    confidence: float | None = None

    def cutoff(self, **known: Any) -> Cutoff:
        """Begin a cutoff for this goal whose level is still to be chosen."""
        return Cutoff(level=math.inf, **asdict(self), **known)


def goal_of(
    *,
    precision: float | None = None,
    fdr: float | None = None,
    maximize: str | None = None,
    confidence: float | None = None,
) -> Goal:
    """Turn a user's options into one goal; exactly one of the first three must be given."""
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
                "confidence= needs a precision= or fdr= target: there is no guarantee for F."
            )
        return Goal("f", beta=_beta_of(maximize))
    kind = given[0]
    return Goal(kind, check_level(options[kind], name=kind), confidence=confidence)


def _beta_of(maximize: Any) -> float:
    text = str(maximize).strip().lower()
    try:
        beta = float(text.removeprefix("f"))
    except ValueError:
        beta = math.nan
    if not 1e-100 <= beta <= 1e100:  # its square must be a number too
        raise DataError(
            f"maximize must name an F-measure with beta > 0, such as 'f1', 'f0.5' or 'f2'; "
            f"got {maximize!r}."
        )
    return beta


@dataclass(frozen=True, slots=True, eq=False)
class _Curve:
    """Calls, right calls and samples with a call at each distinct level, strict to lenient."""

    level: NDArray[np.float64]
    calls: NDArray[Any]
    hits: NDArray[Any]
    calling: NDArray[Any]

    def f(self, beta: float, n_positives: float) -> NDArray[np.float64]:
        b2 = beta * beta
        values: NDArray[np.float64] = (1.0 + b2) * self.hits / (self.calls + b2 * n_positives)
        return values

    def precision(self, rule: Rule) -> NDArray[np.float64]:
        """Share of right calls; cautiously, as if one more average sample had been all wrong."""
        more = self.calls / self.calling if rule == "cautious" else 0.0
        values: NDArray[np.float64] = self.hits / (self.calls + more)
        return values


def _curve_of(instances: Scored) -> _Curve:
    order = np.argsort(instances.score)[::-1]  # the order of ties is of no account
    level, sample = instances.score[order], instances.sample[order]
    is_last = np.append(level[1:] != level[:-1], True)  # whole groups of ties
    # Writing backwards leaves the first place of each sample.
    first = np.full(instances.n_samples, level.size, dtype=np.int64)
    first[sample[::-1]] = np.arange(level.size, dtype=np.int64)[::-1]
    is_first = np.zeros(level.size + 1, dtype=bool)
    is_first[first] = True
    # Instances count by their weights, and calling samples by the effective number of them.
    count = instances.counts()[order]
    own = np.where(is_first[:-1], count, 0.0)
    total, square = np.cumsum(own)[is_last], np.cumsum(own * own)[is_last]
    return _Curve(
        level=level[is_last],
        calls=np.cumsum(count)[is_last],
        hits=np.cumsum(count * instances.truth[order])[is_last],
        calling=total * total / square,
    )


def choose_cutoff(
    score: ArrayLike | Scored,
    truth: ArrayLike | None = None,
    *,
    precision: float | None = None,
    fdr: float | None = None,
    maximize: str | None = None,
    confidence: float | None = None,
    profile: LevelProfile | None = None,
    rule: Rule = "cautious",
    unreachable: Unreachable = "best-precision",
) -> Cutoff:
    r"""Choose the level at which to call, from block scores and truth of calibration samples.

    Parameters
    ----------
    score : array-like or CSR of shape (n_samples, n_labels), or Scored
        Block scores (consistent scores) of samples that were not used to fit.
    truth : array-like of the same shape
        Whether each label holds.
    precision, fdr, maximize : float, float, str
        Exactly one: a target for the pooled precision, ``1 - precision``, or ``"f1"`` (``"f0.5"``,
        ``"f2"``, ...) for the largest F-beta.
    confidence : float, optional
        Ask for the target to hold with this probability over the draw of the calibration samples;
        needs `profile`, see :func:`hierlpr.cutoff.guarantee.certified_level`.
    rule : {"cautious", "plain"}
        Without `confidence`: how precision is read off the calibration samples, see Notes.
    unreachable : {"best-precision", "max-f", "nothing", "error"}
        What to put in use if the target is out of reach: the level of the best precision in reach
        (default), that of the largest F1, one that calls nothing, or an error. The result says so
        in every case.
    profile : LevelProfile, optional
        Of other samples than these, such as the fit part. With `confidence` it plans the tests;
        without, it tells how many calls a sample can have, for `Cutoff.shaky`.

    Returns
    -------
    Cutoff

    Notes
    -----
    With :math:`N(t)` calls at level :math:`t`, :math:`H(t)` of them right, from :math:`S(t)`
    samples, the plain rule takes the most calls with :math:`H/N \ge p`. The cautious rule, the
    default, takes the most calls with :math:`H / (N + N/S) \ge p`: one more sample, with as many
    calls as the average one and all of them wrong, must not break the target. Otherwise the first
    call being right would "reach" any target. The difference vanishes like one over the number
    of calling samples. Neither rule promises anything about new samples; where the calibration
    samples say little about them, `Cutoff.shaky` says so, see
    :func:`~hierlpr.cutoff.profile.doubts`. For the largest F, the middle of the levels within half
    a standard error of it is taken: around its top F is flat, and its very maximum mostly noise.

    References
    ----------
    The paper's Section 4.3. The added sample is the finite-sample term of conformal risk control,
    key ``angelopoulos2024conformal`` in ``docs/references.bib``, with the mean in place of the
    largest loss.

    Examples
    --------
    >>> score = [[0.9], [0.8], [0.7], [0.6], [0.5], [0.4]]
    >>> truth = [[1], [1], [1], [1], [0], [0]]
    >>> cutoff = choose_cutoff(score, truth, precision=0.8)
    >>> cutoff.level, cutoff.n_calls, cutoff.precision
    (0.6, 4, 1.0)
    """
    goal = goal_of(precision=precision, fdr=fdr, maximize=maximize, confidence=confidence)
    check_choice(rule, ("cautious", "plain"), name="rule")
    check_choice(unreachable, get_args(Unreachable), name="unreachable")
    instances = as_scored(score, truth)
    return cutoff_for(goal, instances, profile=profile, rule=rule, unreachable=unreachable)


def cutoff_for(
    goal: Goal,
    instances: Scored,
    *,
    profile: LevelProfile | None = None,
    rule: Rule = "cautious",
    unreachable: Unreachable = "best-precision",
    max_weight: float | None = None,
) -> Cutoff:
    """Do the work of :func:`choose_cutoff` for a goal and listed instances."""
    check_choice(unreachable, get_args(Unreachable), name="unreachable")
    known, bound = instances.those_known(), 1.0
    if known.score.size == 0:
        raise DataError(
            "No instance to choose a cutoff from: the calibration samples have no scores, or "
            "nothing is known of them.\nHint: give at least one sample with truth."
        )
    if instances.weight is not None:  # they count together as the samples they are worth
        n_worth = effective_number(instances.weight)
        scale = n_worth / float(np.sort(instances.weight).sum())
        bound = 1.0 if max_weight is None else max_weight * scale
        instances = replace(
            instances,
            weight=instances.weight * scale,
            weighed_positives=instances.positives * scale,
        )
        profile = None if profile is None else profile.over(1.0 / scale)
        known = instances.those_known()
    curve = _curve_of(known)
    best = _best(goal, instances, curve, rule)
    if goal.kind == "f":
        level = _level_of_largest_f(curve, goal.beta, instances.positives)
        return _with_calls(replace(best, level=level), instances)
    target = precision_of(goal)
    if goal.confidence is None:
        found = _empirical_level(curve, target, rule)
    else:
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
            shaky = doubts(known, level=found, target=target, profile=profile)
            chosen = replace(chosen, shaky=shaky)
        return chosen
    return _fall_back(goal, best, instances, unreachable)


def check_bound(
    goal: Goal | None, weight: NDArray[np.float64] | None, max_weight: float | None
) -> None:
    """Refuse to certify anything about weights that no bound was given for beforehand."""
    is_certified = goal is not None and goal.confidence is not None
    if max_weight is not None:
        is_number = isinstance(max_weight, int | float | np.number)
        if not is_number or max_weight is True or not 0.0 < max_weight < math.inf:
            raise DataError(f"max_weight must be a positive number, got {max_weight!r}.")
        if weight is None or not is_certified:
            raise DataError(
                "max_weight= needs sample_weight= and confidence=: it bounds the weights that a "
                "certificate is about.\nHint: leave it out, or give both."
            )
    if weight is None or not is_certified:
        return
    if max_weight is None:
        raise DataError(
            "confidence= with sample_weight needs max_weight=, the largest weight that a sample "
            "can have: a rare sample of a larger weight, all of whose calls are wrong, may make "
            "any promise false, and none of these samples need be one.\n"
            "Hint: one over the smallest chance to be drawn, known before the truth; or clip the "
            "weights. Without confidence= no bound is needed."
        )
    if weight.max() > max_weight:
        raise DataError(
            f"sample_weight is {weight.max():g} for sample {int(weight.argmax())}, more than "
            f"max_weight={max_weight:g}: the bound must hold for every sample.\n"
            "Hint: give a bound that does, or clip the weights and say so."
        )


def precision_of(goal: Goal | Cutoff) -> float:
    """Return the precision that a target of either kind asks for."""
    assert goal.target is not None
    return goal.target if goal.kind == "precision" else 1.0 - goal.target


def _empirical_level(curve: _Curve, target: float, rule: Rule) -> float | None:
    # Precision dips and recovers along the list: the last level that meets the target calls most.
    meets = np.flatnonzero(curve.precision(rule) >= target - 1e-12)
    return float(curve.level[meets[-1]]) if meets.size else None


def _level_of_largest_f(curve: _Curve, beta: float, n_positives: float) -> float:
    """Return the middle of the levels whose F is within half a standard error of the largest.

    F is flat around its top, and which of the levels there is highest is mostly noise.
    """
    f = curve.f(beta, n_positives)
    top = int(np.argmax(f))
    tolerance = 0.5 * math.sqrt(float(f[top] * max(0.0, 1.0 - f[top])) / float(curve.calls[top]))
    near = np.flatnonzero(f >= f[top] - tolerance)
    return float(curve.level[near[near.size // 2]])


def _best(goal: Goal, instances: Scored, curve: _Curve, rule: Rule) -> Cutoff:
    """Fill in what is known whatever level is chosen."""
    # The highest target that could have been granted.
    precision = curve.precision(rule)
    most_precise = int(np.flatnonzero(precision == precision.max())[-1])
    return goal.cutoff(
        n_positives=instances.n_positives,
        n_samples=instances.n_samples,
        n_instances=instances.n_samples * instances.n_labels,
        n_unknown=instances.n_unknown,
        best_precision=float(precision[most_precise]),
        best_precision_calls=int(
            np.count_nonzero(instances.those_known().score >= curve.level[most_precise])
        ),
        n_effective=None if instances.weight is None else effective_number(instances.weight),
        best_precision_level=float(curve.level[most_precise]),
        max_f=float(curve.f(1.0, instances.positives).max()),
        max_f_level=_level_of_largest_f(curve, 1.0, instances.positives),
    )


def _with_calls(cutoff: Cutoff, instances: Scored) -> Cutoff:
    """Count what the cutoff calls on the calibration samples."""
    if cutoff.max_calls is not None:
        kept = limit_calls(instances.score, instances.sample, cutoff.max_calls)
        instances = instances.take(kept)
    called = instances.take(instances.score >= cutoff.level)
    known = called.those_known()
    counted = cutoff.counted(known.score.size, int(np.count_nonzero(known.truth)))
    counted = replace(counted, n_unknown_calls=called.score.size - known.score.size)
    if instances.weight is None:
        return replace(counted, precision_if_random=_precision_if_random(called))
    count = known.counts()
    shares = count.sum(), count[known.truth].sum(), instances.positives
    return counted.weighed(*map(float, shares))


def _precision_if_random(called: Scored) -> float | None:
    """Share of right calls if each label's unknown calls are right as often as its known ones.

    A label without a known call counts as all of them together. None if nothing is unknown.
    """
    if called.known is None or called.label is None or not called.known.any():
        return None
    size = called.n_labels
    calls = np.bincount(called.label, minlength=size)
    known = np.bincount(called.label[called.known], minlength=size)
    hits = np.bincount(called.label[called.truth], minlength=size)
    share = np.where(known > 0, hits / np.maximum(known, 1), hits.sum() / known.sum())
    return float((calls * share).sum() / calls.sum())


def _fall_back(goal: Goal, best: Cutoff, instances: Scored, unreachable: Unreachable) -> Cutoff:
    asked = asked_for(goal.kind, goal.target, goal.beta, goal.confidence)
    surely = " that is large and sure enough" if goal.confidence is not None else ""
    reason = (
        f"{asked}: out of reach; no level{surely} meets it on these {best.n_samples:,} samples. "
        f"The best precision in reach is about {percent(best.best_precision)}, with "
        f"{best.best_precision_calls:,} call{'' if best.best_precision_calls == 1 else 's'}."
    )
    assert best.max_f_level is not None
    assert best.best_precision_level is not None
    if unreachable == "error":
        raise DataError(
            f"{reason}\nHint: ask for less, calibrate on more samples, or take the cutoff of the "
            f"largest F1 ({best.max_f:.3g}, at level {best.max_f_level:.4g})."
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
            f"{percent(in_use.precision)} of them right."
        )
    if unreachable != "max-f":
        tail += f" The largest F1, {best.max_f:.3g}, lies at level {best.max_f_level:.4g}."
    return replace(in_use, reason=reason + tail)
