"""Names of samples in a report: the promise, and how many are correct per rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils.display import escape_control
from hierlpr.cutoff.set_values import likely_paths
from hierlpr.hierarchy import Hierarchy

if TYPE_CHECKING:
    from hierlpr.model import HierLPR

# What is usually required of a confidence: the tools' defaults, else 0.8.
_USUAL = {"dada2": 0.5, "qiime2": 0.7, "speciesnet": 0.65, "megadetector": 0.65}
Index = NDArray[np.intp]


def name_by_threshold(
    scores: Any, hierarchy: Hierarchy, threshold: float | NDArray[np.float64]
) -> Index:
    """Follow the predicted path while its confidences reach a threshold, or one per label."""
    paths = likely_paths(scores, hierarchy)
    level = np.broadcast_to(threshold, hierarchy.n_labels)[paths.label]
    below = np.concatenate([[0], np.cumsum(paths.chance < level)])
    start = np.searchsorted(paths.sample, paths.sample)
    entry = paths.last(below[1:] == below[start], scores.shape[0])
    return np.append(paths.label, -1)[entry]


def usual_threshold(model: HierLPR) -> float:
    """Return the confidence that users of the tool usually require."""
    return _USUAL.get((model.path_style_ or {}).get("format", ""), 0.8)


def promise_of(model: HierLPR) -> tuple[str, bool]:
    """Return the promise about names in one sentence, and whether it covers all that was set."""
    rule, cutoff = model.sets_, model.cutoff_
    if rule is not None:
        if rule.sure_level is None:
            return (
                "No name can be trusted: there are too few calibration samples for this error, or "
                "too many incorrect predictions."
            ), False
        confidence = "" if rule.confidence is None else f", with confidence {rule.confidence:g}"
        new = "new samples" if rule.n_clusters is None else "samples of new clusters"
        return f"At most {100 * rule.error:.4g} % of {new} get a wrong name{confidence}.", True
    if cutoff.groups is None or cutoff.goal.confidence is None or cutoff.goal.target is None:
        return str(cutoff), cutoff.is_certified
    new = "samples" if cutoff.result.n_clusters is None else "samples of new clusters"
    certified, others = (
        [escape_control(rank) for rank, part in cutoff.groups.items() if part.reachable == wanted]
        for wanted in (True, False)
    )
    text = "No rank can be certified."
    if certified:
        text = (
            f"Of {new} named at one of these ranks or deeper, at least "
            f"{100 * cutoff.goal.precision:.4g} % are correct at that rank, with confidence "
            f"{cutoff.goal.confidence:g}: {', '.join(certified)}. Nothing is promised of the names "
            "that stop at a rank."
        )
    if others:
        text += f" Not certified, so not named: {', '.join(others)}."
    return text, not others


@dataclass(frozen=True, slots=True)
class RankRow:
    """How one rank was named: shares of the samples, those with the usual threshold beside.

    `correct` is the share of names that are right, None without truth or names. Samples named
    deeper count too; `stop` and `stop_correct` are about names of this rank itself. `is_certified`
    is None if this rank has no target.
    """

    rank: str
    named: float
    correct: float | None
    stop: float
    stop_correct: float | None
    usual_named: float
    usual_correct: float | None
    is_certified: bool | None = None


@dataclass(frozen=True, slots=True, eq=False)
class NamedSamples:
    """The label given to each sample, -1 for none, beside the truth if it is known."""

    label: Index
    hierarchy: Hierarchy
    truth: Any = None

    def calls(self) -> tuple[Index, Index, NDArray[np.bool_]]:
        """Return row and label of each name and its ancestors, and whether it is true."""
        row = np.flatnonzero(self.label >= 0)
        ones = np.ones(row.size, dtype=bool)
        shape = (self.label.size, self.hierarchy.n_labels)
        names = sparse.csr_array((ones, (row, self.label[row])), shape=shape)
        row, label = self.hierarchy.close_upward(names).nonzero()
        holds = np.zeros(row.size, dtype=bool)
        if self.truth is not None and row.size:
            holds = np.asarray(self.truth[row, label]).ravel() > 0
        return row.astype(np.intp), label.astype(np.intp), holds

    def wrong(self) -> float:
        """Return the share of samples with a wrong name."""
        row, _, holds = self.calls()
        return float(np.unique(row[~holds]).size / max(self.label.size, 1))

    def n_correct(self) -> Index:
        """Return the number of correct ranks of each sample."""
        row, _, holds = self.calls()
        return np.bincount(row[holds], minlength=self.label.size)


def compare_ranks(
    model: HierLPR, trusted: NamedSamples, usual: NamedSamples
) -> tuple[RankRow, ...]:
    """Return one row per rank, the highest first."""
    names, code = np.unique(model.rank_names(), return_inverse=True)
    mean_depth = np.bincount(code, model.hierarchy_.levels) / np.bincount(code)
    has_truth = trusted.truth is not None
    calls = [x.calls()[1:] for x in (trusted, usual)]
    is_last = trusted.label[trusted.calls()[0]] == calls[0][0]
    calls.insert(1, (calls[0][0][is_last], calls[0][1][is_last]))
    counts = [
        [np.bincount(code[x], minlength=names.size) for x in (label, label[holds])]
        for label, holds in calls
    ]
    groups = model.cutoff_.groups if model.sets_ is None else None
    n, rows = max(trusted.label.size, 1), []
    for i in np.argsort(mean_depth, kind="stable").tolist():
        shares = [
            (n_named[i] / n, n_right[i] / n_named[i] if n_named[i] and has_truth else None)
            for n_named, n_right in counts
        ]
        part = (groups or {}).get(names[i])
        is_certified = None if part is None else part.reachable
        at_all, at_rank, at_usual = shares
        rows.append(RankRow(str(names[i]), *at_all, *at_rank, *at_usual, is_certified))
    return tuple(rows)
