"""The answer of a report: how many calls, how many are correct, and what was promised."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hierlpr._utils.checks import effective_number, is_sparse
from hierlpr.cutoff.choose import LIKELY
from hierlpr.cutoff.decisions import decide, likely_labels
from hierlpr.cutoff.description import describe_units
from hierlpr.cutoff.outcome import Cutoff
from hierlpr.data.tables import Table
from hierlpr.plots.summary import Counts, Summary, share_interval
from hierlpr.report.entries import Names

UNKNOWN = "\N{EN DASH}"
FEW_POSITIVES = 10  # a label with fewer that relies on others is worth a remark
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Part:
    """A group of labels or a target with its own cutoff, and its calls on these samples."""

    name: str
    cutoff: Cutoff
    n_calls: int
    n_true_calls: int
    precision: float | None
    recall: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """Counts on the samples of the report, and the sentences that state them.

    Without truth, shares of correct calls are None and counts of true labels mean nothing.
    With sample weights, shares are weighted; fields that begin with ``n_`` are plain counts.

    Attributes
    ----------
    headline, claim : str
        The number of calls; how many are correct, or expected to be.
    target, verdict : str
        The precision target, and whether these samples reach it: "kept", "missed" or empty;
        for names also "within the CI".
    promise : str
        What the cutoff was chosen for, and on which samples.
    difference, unreachable : str
        How the scores differ from the fit, and why a target could not be reached; or empty.
    parts : mapping of tuple of Part
        One row per "group" and per "target", if there are several.
    sets : tuple of str
        The promise of sure and possible labels, and how it was kept.
    warnings : tuple of str
        What a reader must know before trusting the numbers.
    precision_range, recall_range : (low, high), optional
        95 % confidence intervals that count samples, or their clusters if there are any
        (`plots.summary.share_interval`).
    expected : float, optional
        Mean block score of the calls: the precision that the model itself expects.
    """

    n_samples: int
    n_clusters: int | None
    n_labels: int
    n_instances: int
    n_positives: int
    n_calls: int
    n_true_calls: int
    n_violations: int
    n_called_samples: int
    headline: str
    claim: str
    precision_text: str
    target: str
    verdict: str
    promise: str
    cost: str
    difference: str
    unreachable: str
    warnings: tuple[str, ...]
    parts: dict[str, tuple[Part, ...]]
    sets: tuple[str, ...]
    has_truth: bool
    expected: float | None
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None
    precision_range: Interval | None = None
    recall_range: Interval | None = None


def answer_of(
    summary: Summary, names: Names | None = None, cluster: NDArray[np.intp] | None = None
) -> Answer:
    """Count the calls, and state what they mean; the headline is about names if there are any.

    `cluster` is the number of the cluster of each sample, if some share one.
    """
    c, output = summary.counts, summary.output
    cutoff = output.model.cutoff_
    difference = output.model.difference_note(Table(output.scores, output.hierarchy.labels))
    n_calls, n_true, n_positives = c.n_calls, c.n_hits, c.n_positives
    expected = c.share(c.expected_hits, c.evaluated)
    shares: dict[str, float | None] = {}
    ranges: dict[str, Interval | None] = {}
    if output.has_truth:
        shares = {"precision": c.precision, "recall": c.recall}
        total = c.total(c.evaluated) + c.total(c.positives)
        shares["f1"] = 2.0 * c.total(c.hits) / total if total else None
        ranges = {
            "precision_range": _interval(c, c.evaluated, cluster),
            "recall_range": _interval(c, c.positives, cluster),
        }
        cost = _cost(n_true, n_positives, shares["recall"])
    else:
        cost = _cost_without_truth(n_calls, expected)
    precision = shares.get("precision")
    promised = cutoff
    if difference:  # then nothing is certified any more
        promised = replace(cutoff, goal=replace(cutoff.goal, confidence=None))
    target, verdict = _target(promised, n_calls, precision)
    precision_text = percent(precision)
    if precision is not None and verdict == "missed" and precision_text in target:
        precision_text = f"{math.floor(1000.0 * precision) / 10.0:.1f} %"  # 89.8 % of 90 %
    headline = f"{n_calls:,} call{'' if n_calls == 1 else 's'}" if n_calls else "No calls"
    claim, bounds = "", ranges.get("precision_range")
    if n_calls and bounds is None:
        claim = f"{percent(expected)} expected to be correct"
    elif bounds is not None:
        claim = f"{precision_text} correct (95 % CI {from_to(bounds)})"
    if names is not None:
        headline, claim, target, verdict = _names_headline(names, output.n_samples, difference)
    return Answer(
        n_samples=output.n_samples,
        n_clusters=None if cluster is None else int(cluster.max()) + 1,
        n_labels=output.hierarchy.n_labels,
        n_instances=c.n_instances,
        n_positives=n_positives,
        n_calls=n_calls,
        n_true_calls=n_true,
        n_violations=c.n_violations,
        n_called_samples=int(np.count_nonzero(c.called)),
        headline=headline,
        claim=claim,
        precision_text=precision_text,
        target=target,
        verdict=verdict,
        promise=_promise(cutoff, names, difference),
        cost=cost + _unlikely_calls(c),
        difference=difference,
        unreachable=_unreachable(cutoff) if names is None else "",
        warnings=_warnings(c),
        parts={"group": _groups(c), "target": _targets(c)},
        sets=_sets(c, difference),
        has_truth=output.has_truth,
        expected=expected,
        **shares,  # type: ignore[arg-type]
        **ranges,  # type: ignore[arg-type]
    )


def _interval(
    c: Counts, among: NDArray[np.int64], cluster: NDArray[np.intp] | None
) -> Interval | None:
    """Bound the share of `among` (calls, or true labels) that is both called and true."""
    if not among.any():
        return None
    if cluster is None:
        return share_interval(c.hits.astype(np.float64), among, c.output.weight)
    return share_interval(np.bincount(cluster, c.hits), np.bincount(cluster, among))


def from_to(bounds: Interval) -> str:
    """Format an interval of shares: 87–92 %."""
    low, high = (percent(bound).removesuffix(" %") for bound in bounds)
    return f"{low}\N{EN DASH}{high} %" if low != high else f"{low} %"


def percent(share: float | None) -> str:
    """Format a share with as many digits as a reader needs: 91 %, 99.4 %, 0.21 %."""
    if share is None or math.isnan(share):
        return UNKNOWN
    value = 100.0 * share
    if 99.0 < value < 100.0 or 0.0 < value < 10.0:
        text = f"{value:.2g}" if value < 10.0 else f"{value:.4g}"
        return f"{'99.99' if text == '100' else text} %"  # 99.996 % is not 100 %
    return f"{value:.0f} %"


def _names_headline(names: Names, n_samples: int, difference: str) -> tuple[str, str, str, str]:
    """Return headline, claim, target and verdict of a page about one name per sample."""
    headline = f"{names.n_named:,} of {n_samples:,} samples named"
    target = ""
    if names.error is not None and not difference:
        target = f"at most {percent(names.error)} promised"
    if names.wrong is None:
        return headline, "", target, ""
    # The promise is about the mean over samples, which those of a page miss by chance.
    low, high = share_interval(np.array([names.wrong * n_samples]), np.array([n_samples]))
    claim = f"{100 * names.wrong:.1f} % with a wrong name (95 % CI {from_to((low, high))})"
    if not target or names.error is None or names.wrong <= names.error:
        return headline, claim, target, "kept" if target else ""
    return headline, claim, target, "missed" if low > names.error else "within the CI"


def _target(cutoff: Cutoff, n_calls: int, precision: float | None) -> tuple[str, str]:
    """Return the precision target, and whether the precision reaches it."""
    if cutoff.groups is not None or cutoff.goal.target is None:
        return "", ""
    target = f"target {percent(cutoff.goal.precision)}"
    if cutoff.is_certified:
        target += f" with {percent(cutoff.goal.confidence)} confidence"
    if n_calls == 0 or precision is None:
        return target, ""
    return target, "kept" if precision >= cutoff.goal.precision - 1e-12 else "missed"


def _promise(cutoff: Cutoff, names: Names | None, difference: str) -> str:
    if difference:
        return f"Nothing is guaranteed here. {difference}"
    if names is not None:
        return names.promise
    if cutoff.groups is not None:
        text = (
            f"The labels form {len(cutoff.groups):,} groups, each with its own cutoff (see below)."
        )
        if cutoff.goal.confidence is None:
            return text
        return (
            f"{text} What is guaranteed holds for all groups simultaneously with "
            f"{percent(cutoff.goal.confidence)} confidence. "
            f"{_what_counts(cutoff.result.n_clusters)}"
        )
    if not cutoff.reachable:
        return ""  # `unreachable` gives the reason
    text = str(replace(cutoff, targets=None))
    if cutoff.goal.confidence is None:
        return text
    new = (
        "samples like"
        if cutoff.result.n_clusters is None
        else "samples of new clusters like those of"
    )
    return (
        f"Guaranteed: at least {percent(cutoff.goal.precision)} of the calls are correct for {new} "
        f"the calibration samples, with {percent(cutoff.goal.confidence)} confidence. "
        f"{_what_counts(cutoff.result.n_clusters)} {text}"
    )


def _what_counts(n_clusters: int | None) -> str:
    """Say what calibration samples must be independent."""
    if n_clusters is None:
        return "It takes calibration samples as independent: five visits of one patient are not."
    return "It takes clusters of calibration samples as independent of each other."


def _cost_without_truth(n_calls: int, expected: float | None) -> str:
    text = "No truth was given, so the correct calls are not known."
    if expected is None:
        return text
    return (
        f"{text} By the model's own chances, about {round(expected * n_calls):,} of the "
        f"{n_calls:,} calls are correct. \N{LEFT DOUBLE QUOTATION MARK}hierlpr check"
        "\N{RIGHT DOUBLE QUOTATION MARK} compares the scores with those of the fit."
    )


def _cost(n_true: int, n_positives: int, recall: float | None) -> str:
    if n_positives == 0:
        return "These samples have no true labels, so there is nothing to find."
    if n_true == 0:
        return f"None of the {n_positives:,} true labels is found."
    if n_true == n_positives:
        return f"All {n_positives:,} true labels are found."
    missed = percent(None if recall is None else 1.0 - recall)
    return f"{n_positives - n_true:,} of the {n_positives:,} true labels ({missed}) are missed."


def _unlikely_calls(c: Counts) -> str:
    """Say how many calls are more likely wrong than right, and what leaving them out would do."""
    output = c.output
    likely: Any = likely_labels(output.lpr, output.hierarchy, LIKELY)
    called = scipy.sparse.csr_array(output.called)
    likely_calls = called.multiply(likely).tocsr().astype(bool)
    if not (n_unlikely := int(called.sum()) - int(likely_calls.sum())):
        return ""
    text = f" {n_unlikely:,} of the calls, or labels above them, have a chance below 50 %"
    if not output.has_truth:
        return f"{text}."
    part = Counts(
        replace(output, called=likely_calls if is_sparse(output.called) else likely_calls.toarray())
    )
    correct, recall = map(percent, (part.precision, part.recall))
    recall = f"{recall} of the true labels found"
    return f"{text}; without these calls, {correct} would be correct and {recall}."


def _unreachable(cutoff: Cutoff) -> str:
    if cutoff.groups is None:
        return "" if cutoff.reachable else cutoff.reason
    n_lost = sum(not part.reachable for part in cutoff.groups.values())
    if not n_lost:
        return ""
    return f"{n_lost:,} of {len(cutoff.groups):,} groups cannot reach the target; see below."


def reuse_warnings(c: Counts) -> list[str]:
    """Return warnings about samples that the model has learned from."""
    uses = {
        "fit": "were also used for the fit",
        "cutoff": "were also used for the cutoff",
        "sets": "were also used for the sure and possible labels",
    }
    effect = (
        "so the numbers of this report are too optimistic. Report on other samples."
        if c.output.has_truth
        else "so the model knows them better than it will know new ones."
    )
    return [
        f"{c.reused[stage]} samples {use} (their scores are the same), {effect}"
        for stage, use in uses.items()
        if stage in c.reused
    ]


def _warnings(c: Counts) -> tuple[str, ...]:
    output, warnings = c.output, reuse_warnings(c)
    if output.weight is not None:
        warnings.append(
            "Samples have weights: all shares, means, areas and curves except the hit curve are "
            f"weighted, and the {output.n_samples:,} samples carry as much information as "
            f"{effective_number(output.weight):,.0f} of equal weight. Numbers of calls, true "
            "labels and samples are plain counts, as are the tables of labels and samples."
        )
    if c.n_unknown:
        warnings.append(_unknown_truth(c))
    fit = output.model.lpr_.report
    is_rare = np.minimum(fit.positives, fit.negatives) < FEW_POSITIVES
    if n_rare := int(np.count_nonzero(fit.is_weak & is_rare)):
        n_weak = int(np.count_nonzero(fit.is_weak))
        warnings.append(
            f"The curves of {n_weak:,} of {output.hierarchy.n_labels:,} labels rely mostly on "
            "others of their depth, or are the prevalence; the table of labels says how much. "
            f"{n_rare:,} of them have fewer than {FEW_POSITIVES} positives or negatives in the fit."
        )
    if c.n_positives == 0 and output.has_truth:
        warnings.append("These samples have no true labels: precision and recall mean nothing.")
    return tuple(warnings)


def _unknown_truth(c: Counts) -> str:
    n_all = c.output.n_samples * c.output.hierarchy.n_labels
    n_labels = int(np.count_nonzero(c.by_label["unknown"]))
    text = (
        f"{c.n_unknown:,} of {n_all:,} instances, in {n_labels:,} labels, were not evaluated: all "
        "counts, shares and curves are of the others."
    )
    n_more = int(c.called.sum()) - c.n_calls
    if not n_more:
        return text
    return (
        f"{text} {n_more:,} more calls were not evaluated; if all of those were incorrect, "
        f"{percent(c.share(c.hits, c.called))} of all calls would be correct."
    )


def _sets(c: Counts, difference: str) -> tuple[str, ...]:
    """State the promise of sure and possible labels, their numbers, and whether it was kept."""
    rule, n = c.output.model.sets_, c.output.n_samples
    if rule is None:
        return ()
    share = percent(1.0 - rule.error)
    confidence = "" if rule.confidence is None else f", with {percent(rule.confidence)} confidence"
    new = "samples like" if rule.n_clusters is None else "samples of new clusters like those of"
    units = describe_units(rule.n_samples, rule.n_clusters, "calibration ")
    text = [
        f"For at least {share} of {new} the calibration samples, all sure labels are true; "
        f"and for at least {share}, no true label is missing from the possible labels{confidence}. "
        f"This rests on {units}. {_what_counts(rule.n_clusters)}"
    ]
    if difference:
        text = [f"Nothing is promised about these samples. {difference}"]
    if rule.caveats:
        text.append(f"Caveats: {rule.caveats}")
    text.append(
        f"Here {c.total(c.sure) / n:.3g} labels per sample are sure and "
        f"{c.total(c.possible) / n:.3g} possible (including the sure ones)."
    )
    if c.output.has_truth:
        shares = [percent(1.0 - c.total(x) / n) for x in (c.false_sure, c.missed)]
        limits = "" if not c.n_unknown else ", as far as the truth is known"
        text.append(
            f"All sure labels are true for {shares[0]} of these samples, and no true label is "
            f"missing from the possible ones for {shares[1]}{limits}."
        )
    return tuple(text)


def _groups(c: Counts) -> tuple[Part, ...]:
    cutoff = c.output.model.cutoff_
    if cutoff.groups is None or cutoff.label_groups is None:
        return ()
    member = np.array(cutoff.label_groups, dtype=object)
    parts = []
    for name, part in cutoff.groups.items():
        columns = np.flatnonzero(member == name)
        n_calls, n_hits = (int(c.by_label[x][columns].sum()) for x in ("calls", "hits"))
        calls, hits, positives = (
            float(c.weighted_by_label[x][columns].sum()) for x in ("calls", "hits", "positives")
        )
        shares = (hits / whole if whole else None for whole in (calls, positives))
        parts.append(Part(name, part, n_calls, n_hits, *shares))
    return tuple(parts)


def _targets(c: Counts) -> tuple[Part, ...]:
    parts = []
    for part in c.output.model.cutoff_.targets or ():
        called = decide(c.output.block_score, part, c.output.hierarchy, c.output.lpr)
        counts = Counts(replace(c.output, called=called))
        numbers = counts.n_calls, counts.n_hits, counts.precision, counts.recall
        parts.append(Part(percent(part.goal.precision), part, *numbers))
    return tuple(parts)
