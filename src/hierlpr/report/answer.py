"""The answer first: how many calls, how many of them right, what was promised, what it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import effective_number
from hierlpr.cutoff.choose import precision_of
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.plots.calibration import share_interval
from hierlpr.plots.comparisons import Tradeoff
from hierlpr.plots.evidence import Study
from hierlpr.plots.tallies import Tally

UNKNOWN = "\N{EN DASH}"


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
    (`hierlpr.plots.calibration.share_interval`); None where there is nothing to count. `expected`
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


def answer_of(tally: Tally, tradeoffs: tuple[Tradeoff, ...]) -> Answer:
    """Say what the calls mean that were counted."""
    t, study = tally, tally.study
    n_calls, n_true, n_positives = (int(x.sum()) for x in (t.judged, t.hits, t.true))
    precision_range = recall_range = precision = recall = f1 = None
    if study.has_truth:
        precision_range, recall_range = _range(t, t.judged), _range(t, t.true)
        precision, recall = t.share(t.hits, t.judged), t.share(t.hits, t.true)
        total = t.total(t.judged) + t.total(t.true)
        f1 = 2.0 * t.total(t.hits) / total if total else None
    expected = t.share(t.chance, t.judged)  # the mean block score of the calls
    cutoff = study.model.cutoff_
    return Answer(
        n_samples=study.n_samples,
        n_labels=study.hierarchy.n_labels,
        n_instances=t.n_instances,
        n_positives=n_positives,
        n_calls=n_calls,
        n_true_calls=n_true,
        n_violations=t.n_violations,
        level=cutoff.level,
        headline=_headline(cutoff, n_calls, t.n_instances),
        claim=_claim(study, precision, n_calls, precision_range, expected),
        promise=_promise(cutoff),
        cost=_cost(n_true, n_positives, recall) if study.has_truth else _unknown(n_calls, expected),
        unreachable=_unreachable(cutoff),
        warnings=_warnings(t),
        tradeoffs=tradeoffs,
        groups=_groups(t),
        sets=_sets(t),
        precision_range=precision_range,
        recall_range=recall_range,
        has_truth=study.has_truth,
        expected=expected,
        n_called_samples=int(np.count_nonzero(t.called)),
        precision=precision,
        recall=recall,
        f1=f1,
    )


def _range(t: Tally, among: NDArray[np.int64]) -> tuple[float, float] | None:
    """Bound the share of `among` (calls, or true labels) that is both called and true."""
    if not among.any():
        return None
    return share_interval(t.hits.astype(np.float64), among, t.study.weight)


def from_to(bounds: tuple[float, float]) -> str:
    """Write a range of shares: 87 to 92 %."""
    low, high = (percent(bound).removesuffix(" %") for bound in bounds)
    return f"{low} to {high} %" if low != high else f"{low} %"


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
    study: Study,
    precision: float | None,
    n_calls: int,
    bounds: tuple[float, float] | None,
    expected: float | None,
) -> str:
    cutoff = study.model.cutoff_
    if n_calls == 0:
        return ""
    if cutoff.groups is None and cutoff.confidence is not None and cutoff.reachable:
        sure = percent(cutoff.confidence)
        return f"at least {percent(precision_of(cutoff))} right, with {sure} confidence"
    if not study.has_truth:
        return f"{percent(expected)} expected to be right"
    seen = f"{percent(precision)} right"
    if bounds is None or from_to(bounds) == percent(precision):  # of very many it says the same
        return seen
    return f"{seen}, {from_to(bounds)}"


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


def seen_warnings(t: Tally) -> list[str]:
    """Say which of the samples the model has learned from."""
    uses = {
        "fit": "were also fitted on",
        "cutoff": "also chose the cutoff",
        "sets": "also chose the sure and possible labels",
    }
    tail = (
        "so the numbers of this report are flattering. Report on other samples."
        if t.study.has_truth
        else "so it knows them better than it will know new ones."
    )
    return [
        f"{t.seen[stage]} samples here {use} (their scores are the same), {tail}"
        for stage, use in uses.items()
        if stage in t.seen
    ]


def _warnings(t: Tally) -> tuple[str, ...]:
    study, found = t.study, []
    found.extend(seen_warnings(t))
    if study.weight is not None:
        found.append(
            f"Samples count by their weights: every share, mean, area and curve here, but for the "
            f"hit curve, is weighted, and the {study.n_samples:,} samples say as much as "
            f"{effective_number(study.weight):,.0f} of equal weight. Numbers of calls, of true "
            "labels and of samples are plain counts, and so is all in the tables of labels and "
            "samples."
        )
    if t.n_unknown:
        found.append(_unknown_words(t))
    n_weak = int(np.count_nonzero(study.model.lpr_.report.is_weak))
    if n_weak:
        found.append(
            f"{n_weak:,} of {study.hierarchy.n_labels:,} labels had too few examples for a curve "
            "of their own and lean on the other labels or on their prevalence; the label table "
            "says which and why."
        )
    if t.n_positives == 0 and study.has_truth:
        found.append("No label of these samples is true: precision and recall say nothing.")
    return tuple(found)


def _sets(t: Tally) -> tuple[str, ...]:
    """Say what is promised of each sample, how much that is here, and whether it was kept."""
    rule, n = t.study.model.sets_, t.study.n_samples
    if rule is None:
        return ()
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
        f"Here {t.total(t.sure) / n:.3g} labels a sample are sure and "
        f"{t.total(t.possible) / n:.3g} possible, the sure ones among them."
    )
    if t.study.has_truth:
        kept = [percent(1.0 - t.total(x) / n) for x in (t.false_sure, t.missed)]
        known = "" if t.study.unknown is None else ", as far as the truth is known"
        told.append(
            f"All sure labels hold in {kept[0]} of these samples, and nothing that holds "
            f"is missing from the possible ones in {kept[1]}{known}."
        )
    return tuple(told)


def _groups(t: Tally) -> tuple[Group, ...]:
    cutoff = t.study.model.cutoff_
    if cutoff.groups is None or cutoff.label_groups is None:
        return ()
    member = np.array(cutoff.label_groups, dtype=object)
    weighed = t.by_label if t.study.weight is None else t.weighed_by_label
    found = []
    for name, part in cutoff.groups.items():
        columns = np.flatnonzero(member == name)
        calls, hits = (int(t.by_label[x][columns].sum()) for x in ("calls", "hits"))
        made, right = (float(weighed[x][columns].sum()) for x in ("calls", "hits"))
        share = right / made if made else None
        found.append(Group(name, part.level, calls, hits, str(part), share))
    return tuple(found)


def _unknown_words(t: Tally) -> str:
    """Say how much of the truth is unknown, and what that means for the calls."""
    n_all = t.study.n_samples * t.study.hierarchy.n_labels
    n_more = int(t.called.sum()) - int(t.judged.sum())
    n_labels = int(np.count_nonzero(t.by_label["unknown"]))
    said = (
        f"The truth of {t.n_unknown:,} of {n_all:,} instances, in {n_labels:,} labels, is unknown: "
        "every count, share and curve here is of the known ones."
    )
    if not n_more:
        return said
    worst = t.share(t.hits, t.called)
    return (
        f"{said} {n_more:,} more calls are made among the unknown ones; if all of those were "
        f"wrong, {percent(worst)} of all calls would be right."
    )
