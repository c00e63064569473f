"""The answer first: how many calls, how many of them right, what was promised, what it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from hierlpr._base.checks import effective_number
from hierlpr.cutoff.choose import precision_of
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.plots.comparisons import share_interval
from hierlpr.plots.evidence import Evidence, both

UNKNOWN = "\N{EN DASH}"
TARGETS = (0.99, 0.95, 0.9, 0.8, 0.7, 0.5)


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """The most calls at which the precision on these samples still reaches `target`.

    `n_calls` is 0 where no number of calls does.
    """

    target: float
    n_calls: int
    precision: float | None
    recall: float | None


@dataclass(frozen=True, slots=True)
class Group:
    """One group of labels with its own cutoff: calls on these samples, and what was promised."""

    name: str
    level: float
    n_calls: int
    n_true_calls: int
    words: str
    precision: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """Counts on the samples of the report, and the sentences that say them.

    `claim` completes the headline: what is guaranteed, or else what was seen here. `promise` is
    what the cutoff was chosen for and on which samples, `unreachable` what could not be had (empty
    if nothing), `sets` what is promised of each sample and what was kept, and `warnings` what a
    reader must know before trusting the numbers. The ranges hold
    the precision and the recall of samples like these with about 95 % confidence, counting samples
    (`hierlpr.plots.comparisons.share_interval`); None where there is nothing to count. `expected`
    is the share of the calls that the model itself expects to be right. Without truth, what is
    true or right is not known, and `tradeoffs` are by the expected share. Where samples have
    weights shares are weighted, and what begins with ``n_`` is counted.
    """

    n_samples: int
    n_labels: int
    n_instances: int
    n_positives: int
    n_calls: int
    n_true_calls: int
    n_violations: int
    level: float
    headline: str
    claim: str
    promise: str
    cost: str
    unreachable: str
    warnings: tuple[str, ...]
    tradeoffs: tuple[Tradeoff, ...]
    groups: tuple[Group, ...]
    sets: tuple[str, ...] = ()
    precision_range: tuple[float, float] | None = None
    recall_range: tuple[float, float] | None = None
    has_truth: bool = True
    expected: float | None = None
    n_called_samples: int = 0
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None


def answer_of(evidence: Evidence, tradeoffs: tuple[Tradeoff, ...]) -> Answer:
    """Count the calls and say what they mean."""
    e = evidence
    n_calls = int(e.judged.sum())
    n_true = int(e.hits.sum())
    n_positives = e.n_positives
    precision_range = recall_range = precision = recall = f1 = None
    if e.has_truth:
        precision_range, recall_range = _range(e, e.judged), _range(e, e.truth)
        precision, recall = e.share(e.truth, e.judged), e.share(e.called, e.truth)
        total = e.total(e.judged) + e.total(e.truth)
        f1 = 2.0 * e.total(e.hits) / total if total else None
    expected = _expected(e, n_calls)
    return Answer(
        n_samples=e.n_samples,
        n_labels=e.hierarchy.n_labels,
        n_instances=e.n_instances,
        n_positives=n_positives,
        n_calls=n_calls,
        n_true_calls=n_true,
        n_violations=_n_violations(e),
        level=e.model.cutoff_.level,
        headline=_headline(e.model.cutoff_, n_calls, e.n_instances),
        claim=_claim(e, precision, n_calls, precision_range, expected),
        promise=_promise(e.model.cutoff_),
        cost=_cost(n_true, n_positives, recall) if e.has_truth else _unknown(n_calls, expected),
        unreachable=_unreachable(e.model.cutoff_),
        warnings=_warnings(e),
        tradeoffs=tradeoffs,
        groups=_groups(e),
        sets=_sets(e),
        precision_range=precision_range,
        recall_range=recall_range,
        has_truth=e.has_truth,
        expected=expected,
        n_called_samples=int(np.count_nonzero(np.asarray(e.called.sum(axis=1)))),
        precision=precision,
        recall=recall,
        f1=f1,
    )


def _expected(e: Evidence, n_calls: int) -> float | None:
    """Return the mean block score of the calls: the share of them expected to be right."""
    if not n_calls:
        return None
    if isinstance(e.block_score, np.ndarray):
        if e.weight is None:
            return float(e.block_score[e.judged].mean())
        return e.total(np.where(e.judged, e.block_score, 0.0)) / e.total(e.judged)
    return e.total(e.block_score.multiply(e.judged)) / e.total(e.judged)


def _range(e: Evidence, among: Any) -> tuple[float, float] | None:
    """Bound the share of `among` (calls, or true labels) that is both called and true."""
    trials = np.asarray(among.sum(axis=1)).ravel()
    if not trials.any():
        return None
    hits = np.asarray(e.hits.sum(axis=1), dtype=np.float64).ravel()
    return share_interval(hits, trials, e.weight)


def from_to(bounds: tuple[float, float]) -> str:
    """Write a range of shares: 87 to 92 %."""
    low, high = (percent(bound).removesuffix(" %") for bound in bounds)
    return f"{low} to {high} %" if low != high else f"{low} %"


def tradeoffs_of(calls: Any, share: Any, recall: Any = None) -> tuple[Tradeoff, ...]:
    """For each target, the most calls of which that share is right, or is expected to be.

    Ties are never split.
    """
    found = []
    for target in TARGETS:
        meets = np.flatnonzero(share >= target - 1e-12)
        if meets.size == 0:
            found.append(Tradeoff(target, 0, None, None))
            continue
        at = int(meets[-1])
        there = None if recall is None else float(recall[at])
        found.append(Tradeoff(target, int(calls[at]), float(share[at]), there))
    return tuple(found)


def percent(share: float | None) -> str:
    """Write a share as a reader wants it: 91 %, 99.4 %, 0.21 %."""
    if share is None or math.isnan(share):
        return UNKNOWN
    value = 100.0 * share
    if 99.0 < value < 100.0 or 0.0 < value < 10.0:
        text = f"{value:.2g}" if value < 10.0 else f"{value:.4g}"
        # 99.996 % must not turn into 100 %.
        return f"{'99.99' if text == '100' else text} %"
    return f"{value:.0f} %"


def _headline(cutoff: Cutoff, n_calls: int, n_instances: int) -> str:
    if n_calls == 0:
        return "Nothing is called"
    if n_calls == n_instances:
        return f"All {n_calls:,} instances are called"
    calls = f"{n_calls:,} calls" if n_calls > 1 else "1 call"
    one_list = cutoff.groups is None and cutoff.max_calls is None
    return f"The first {calls}" if one_list else calls


def _claim(
    e: Evidence,
    precision: float | None,
    n_calls: int,
    bounds: tuple[float, float] | None,
    expected: float | None,
) -> str:
    cutoff = e.model.cutoff_
    if n_calls == 0:
        return ""
    if cutoff.groups is None and cutoff.confidence is not None and cutoff.reachable:
        sure = percent(cutoff.confidence)
        return f"at least {percent(precision_of(cutoff))} right, with {sure} confidence"
    if not e.has_truth:
        return f"{percent(expected)} expected to be right"
    seen = f"{percent(precision)} right"
    return seen if bounds is None else f"{seen}, {from_to(bounds)}"


def _promise(cutoff: Cutoff) -> str:
    if cutoff.groups is not None:
        words = (
            f"The labels are in {len(cutoff.groups):,} groups, each with a cutoff of its own, "
            "listed below."
        )
        if cutoff.confidence is None:
            return words
        sure = percent(cutoff.confidence)
        if cutoff.promise == "together":
            return f"{words} What is guaranteed holds for all at once with {sure} confidence."
        return f"{words} What is guaranteed holds for each by itself with {sure} confidence."
    if cutoff.kind == "default" and cutoff.reason:
        return (
            f"The cutoff is {cutoff.reason}: nothing that was promised for other samples is "
            "promised for these. Calls are made where they are more likely right than wrong (a "
            "chance of 0.5 or more)."
        )
    if cutoff.kind == "default":
        return (
            "The cutoff was not calibrated: calls are made where they are more likely right than "
            "wrong (a chance of 0.5 or more). Nothing is promised about how many are right."
        )
    if cutoff.kind == "by hand":
        return (
            f"The cutoff, a chance of {cutoff.level:.4g}, was set by hand. Nothing is promised "
            "about how many of the calls are right."
        )
    source = (
        f"The cutoff, a chance of {cutoff.level:.4g}, was chosen on {cutoff.n_samples:,} "
        f"samples, where {percent(cutoff.precision)} of {cutoff.n_calls:,} calls were right."
    )
    if not cutoff.reachable:
        return "" if math.isinf(cutoff.level) else source
    limit = f" No sample gets more than {cutoff.max_calls:,} calls." if cutoff.max_calls else ""
    shaky = f" Shaky: {cutoff.shaky}" if cutoff.shaky else ""
    return f"{_asked(cutoff)} {source}{limit}{shaky}"


def _asked(cutoff: Cutoff) -> str:
    if cutoff.kind == "f":
        return (
            f"Chosen for the largest F{cutoff.beta:g}, the balance of precision and recall; "
            "no precision is promised."
        )
    target = precision_of(cutoff)
    if cutoff.confidence is None:
        return (
            f"Chosen so that at least {percent(target)} of the calls are right on the calibration "
            "samples. New samples may fall short of it: nothing is guaranteed."
        )
    return (
        f"Guaranteed: at least {percent(target)} of the calls are right for samples like those of "
        f"the calibration, with {percent(cutoff.confidence)} confidence over their draw."
    )


def _unknown(n_calls: int, expected: float | None) -> str:
    """Say what can be said without truth."""
    words = "No truth was given, so which calls are right is not known here."
    if expected is None:
        return words
    return (
        f"{words} By the model's own chances about {round(expected * n_calls):,} of the "
        f"{n_calls:,} calls are. hierlpr check tells whether the scores look like those it has "
        "learned from."
    )


def _cost(n_true: int, n_positives: int, recall: float | None) -> str:
    if n_positives == 0:
        return "No label of these samples is true, so there is nothing to find."
    missed = n_positives - n_true
    if n_true == 0:
        return f"None of the {n_positives:,} true labels is found."
    if missed == 0:
        return f"All {n_positives:,} true labels are found."
    return (
        f"The price: {missed:,} of the {n_positives:,} true labels "
        f"({percent(None if recall is None else 1.0 - recall)}) are not called."
    )


def _unreachable(cutoff: Cutoff) -> str:
    if cutoff.groups is None:
        return "" if cutoff.reachable else cutoff.reason
    lost = [name for name, part in cutoff.groups.items() if not part.reachable]
    if not lost:
        return ""
    return f"{len(lost):,} of {len(cutoff.groups):,} groups cannot reach the target; see below."


def seen_warnings(e: Evidence) -> list[str]:
    """Say which of the samples the model has learned from."""
    uses = {
        "fit": "were also fitted on",
        "cutoff": "also chose the cutoff",
        "sets": "also chose the sure and possible labels",
    }
    tail = (
        "so the numbers of this report are flattering. Report on other samples."
        if e.has_truth
        else "so it knows them better than it will know new ones."
    )
    return [
        f"{e.seen[stage]} samples here {use} (their scores are the same), {tail}"
        for stage, use in uses.items()
        if stage in e.seen
    ]


def _warnings(e: Evidence) -> tuple[str, ...]:
    found = []
    found.extend(seen_warnings(e))
    if e.weight is not None:
        found.append(
            f"Samples count by their weights: every share, mean, area and curve here, but for the "
            f"hit curve, is weighted, and the {e.n_samples:,} samples say as much as "
            f"{effective_number(e.weight):,.0f} of equal weight. Numbers of calls, of true labels "
            "and of samples are plain counts, and so is all in the tables of labels and samples."
        )
    if e.n_unknown:
        found.append(_unknown_words(e))
    n_weak = int(np.count_nonzero(e.model.lpr_.report.is_weak))
    if n_weak:
        found.append(
            f"{n_weak:,} of {e.hierarchy.n_labels:,} labels had too few examples for a curve of "
            "their own and lean on the other labels or on their prevalence; the label table says "
            "which and why."
        )
    if e.n_positives == 0 and e.has_truth:
        found.append("No label of these samples is true: precision and recall say nothing.")
    return tuple(found)


def _sets(e: Evidence) -> tuple[str, ...]:
    """Say what is promised of each sample, how much that is here, and whether it was kept."""
    if e.sets is None:
        return ()
    rule, n = e.sets.rule, e.n_samples
    share = percent(1.0 - rule.error)
    sure_of = "" if rule.confidence is None else f", with {percent(rule.confidence)} confidence"
    told = [
        f"In at least {share} of samples like those of the calibration all sure labels hold; and, "
        f"a promise of its own, in at least {share} all labels that hold are among the possible "
        f"ones{sure_of}. {rule.n_samples:,} calibration samples stand behind it."
    ]
    if rule.shaky:
        told.append(f"Shaky: {rule.shaky}")
    told.append(
        f"Here {e.total(e.sets.sure) / n:.3g} labels a sample are sure and "
        f"{e.total(e.sets.possible) / n:.3g} possible, the sure ones among them."
    )
    if e.has_truth:
        given = (e.sets.sure, e.sets.possible, e.truth)
        sure, possible, truth = (sparse.csr_array(matrix) for matrix in given)
        may_hold = truth if e.unknown is None else truth + sparse.csr_array(e.unknown)
        kept = 1.0 - _n_rows(e, sure, may_hold) / n, 1.0 - _n_rows(e, truth, possible) / n
        known = "" if e.unknown is None else ", as far as the truth is known"
        told.append(
            f"All sure labels hold in {percent(kept[0])} of these samples, and nothing that holds "
            f"is missing from the possible ones in {percent(kept[1])}{known}."
        )
    return tuple(told)


def _n_rows(e: Evidence, some: Any, others: Any) -> float:
    """Count the samples, by weight, of which something in one matrix is not in the other."""
    shared = np.asarray(some.multiply(others).sum(axis=1)).ravel()
    return e.total((np.asarray(some.sum(axis=1)).ravel() > shared)[:, None])


def _groups(e: Evidence) -> tuple[Group, ...]:
    if e.model.cutoff_.groups is None or e.model.cutoff_.label_groups is None:
        return ()
    member = np.array(e.model.cutoff_.label_groups, dtype=object)
    found = []
    for name, part in e.model.cutoff_.groups.items():
        columns = np.flatnonzero(member == name)
        called = e.judged[:, columns]
        n_true = int(both(called, e.truth[:, columns]).sum())
        right = e.share(e.truth[:, columns], called)
        found.append(Group(name, part.level, int(called.sum()), n_true, str(part), right))
    return tuple(found)


def _unknown_words(e: Evidence) -> str:
    """Say how much of the truth is unknown, and what that means for the calls."""
    n_all = e.n_samples * e.hierarchy.n_labels
    n_more = int(e.called.sum()) - int(e.judged.sum())
    n_labels = int(np.count_nonzero(np.asarray(e.unknown.sum(axis=0)).ravel()))
    said = (
        f"The truth of {e.n_unknown:,} of {n_all:,} instances, in {n_labels:,} labels, is unknown: "
        "every count, share and curve here is of the known ones."
    )
    if not n_more:
        return said
    worst = e.share(e.truth, e.called)
    return (
        f"{said} {n_more:,} more calls are made among the unknown ones; if all of those were "
        f"wrong, {percent(worst)} of all calls would be right."
    )


def _n_violations(e: Evidence) -> int:
    called = e.called
    if isinstance(called, np.ndarray):
        return len(e.hierarchy.violations(called))
    return int(e.hierarchy.close_upward(called).nnz - called.nnz)
