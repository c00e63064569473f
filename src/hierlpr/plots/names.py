"""Names of samples: how many are correct per rank, beside a threshold, and a display of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils.display import escape_control
from hierlpr.cutoff.set_values import likely_paths
from hierlpr.hierarchy import Hierarchy
from hierlpr.model.prediction import name_samples, rank_names
from hierlpr.plots.displays import _Display
from hierlpr.plots.drawing import PALETTE, Colors, new_axes, percent_axis

if TYPE_CHECKING:
    from hierlpr.model import HierLPR

# What is usually required of a confidence: the tools' defaults, else 0.8.
_USUAL = {"dada2": 0.5, "qiime2": 0.7, "speciesnet": 0.65, "megadetector": 0.65}
Index = NDArray[np.intp]
MOST_BOXES = 200  # of one rank in an icicle
ICICLE_LETTERS = 58  # of a name as wide as the icicle


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
        given = "" if rule.confidence is None else f", with confidence {rule.confidence:g}"
        return f"At most {100 * rule.error:.4g} % of new samples get a wrong name{given}.", True
    if cutoff.groups is None or cutoff.goal.confidence is None or cutoff.goal.target is None:
        return str(cutoff), cutoff.is_certified
    certified, others = (
        [escape_control(rank) for rank, part in cutoff.groups.items() if part.reachable == wanted]
        for wanted in (True, False)
    )
    text = "No rank can be certified."
    if certified:
        text = (
            f"At least {100 * cutoff.goal.precision:.4g} % of the names are correct at each of "
            f"these ranks, with confidence {cutoff.goal.confidence:g}: {', '.join(certified)}."
        )
    if others:
        text += f" Not certified, so not named: {', '.join(others)}."
    return text, not others


@dataclass(frozen=True, slots=True)
class RankRow:
    """How one rank was named: shares of the samples, those with the usual threshold beside.

    `correct` is the share of names that are right, None without truth or names; `is_certified` is
    None if this rank has no target.
    """

    rank: str
    named: float
    correct: float | None
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
        given = sparse.csr_array((ones, (row, self.label[row])), shape=shape)
        row, label = self.hierarchy.close_upward(given).nonzero()
        holds = np.zeros(row.size, dtype=bool)
        if self.truth is not None and row.size:
            holds = np.asarray(self.truth[row, label]).ravel() > 0
        return row.astype(np.intp), label.astype(np.intp), holds

    def wrong(self) -> float:
        """Return the share of samples with a wrong name."""
        row, _, holds = self.calls()
        return float(np.unique(row[~holds]).size / max(self.label.size, 1))

    def mean_correct(self) -> float:
        """Return the mean number of correct ranks per sample."""
        return float(np.count_nonzero(self.calls()[2]) / max(self.label.size, 1))


def compare_ranks(model: HierLPR, ours: NamedSamples, usual: NamedSamples) -> tuple[RankRow, ...]:
    """Return one row per rank, the highest first."""
    ranks, levels, has_truth = rank_names(model), model.hierarchy_.levels, ours.truth is not None
    names, code = np.unique(ranks, return_inverse=True)
    mean_level = np.bincount(code, levels) / np.bincount(code)
    counts = []
    for given in (ours, usual):
        _, label, holds = given.calls()
        counts.append([np.bincount(code[x], minlength=names.size) for x in (label, label[holds])])
    groups = model.cutoff_.groups if model.sets_ is None else None
    n, rows = max(ours.label.size, 1), []
    for i in np.argsort(mean_level, kind="stable").tolist():
        shares = [
            (n_named[i] / n, n_right[i] / n_named[i] if n_named[i] and has_truth else None)
            for n_named, n_right in counts
        ]
        part = (groups or {}).get(names[i])
        is_certified = None if part is None else part.reachable
        rows.append(RankRow(str(names[i]), *shares[0], *shares[1], is_certified))
    return tuple(rows)


class NamesDisplay(_Display):
    """Where samples stop, as an icicle: one row of boxes per rank, as wide as samples named there.

    Below a box stand the boxes of its children; where there are none, samples stop. Labels with few
    samples are drawn as one box without a name.

    Parameters
    ----------
    hierarchy : Hierarchy
    ranks : sequence of str
        The rank of each label.
    label : ndarray of int
        The label of each sample, -1 for none.
    """

    def __init__(
        self, hierarchy: Hierarchy, ranks: Sequence[str], label: NDArray[np.integer[Any]]
    ) -> None:
        self.hierarchy, self.ranks, self.n_samples = hierarchy, tuple(ranks), int(label.size)
        above = [hierarchy.parents(x)[:1] for x in hierarchy.labels]
        self.parent = np.array([hierarchy.index(x[0]) if x else -1 for x in above])
        self.total = np.bincount(label[label >= 0], minlength=hierarchy.n_labels)
        for k in np.argsort(-hierarchy.levels, kind="stable").tolist():
            if self.parent[k] >= 0:
                self.total[self.parent[k]] += self.total[k]

    @classmethod
    def from_model(cls, model: HierLPR, scores: Any) -> Self:
        """Name the samples as `HierLPR.assign` does."""
        label, _ = name_samples(model, model.aligned_scores(scores))
        return cls(model.hierarchy_, rank_names(model), label)

    def boxes(self) -> list[tuple[int, int, int, str]]:
        """Return level, left end, width and name of each box."""
        least = max(1, self.n_samples // MOST_BOXES)
        level, groups = 1, [(0, np.flatnonzero((self.parent < 0) & (self.total > 0)))]
        found: list[tuple[int, int, int, str]] = []
        while groups:
            below = []
            for left, labels in groups:
                order = labels[np.argsort(-self.total[labels], kind="stable")]
                is_large = self.total[order] >= least
                for part in [*order[is_large][:, None], order[~is_large]]:
                    width = int(self.total[part].sum())
                    if not width:
                        continue
                    h = self.hierarchy
                    name = h.name(h.labels[part[0]]) if part.size == 1 else ""
                    found.append((level, left, width, name))
                    children = np.flatnonzero(np.isin(self.parent, part) & (self.total > 0))
                    below.append((left, children))
                    left += width
            level, groups = level + 1, [group for group in below if group[1].size]
        return found

    def plot(self, ax: Any = None, *, colors: Colors = PALETTE) -> Self:
        """Draw on `ax`, or on a new figure."""
        axes = new_axes(ax, size=(7.4, 4.0))
        boxes, n = self.boxes(), max(self.n_samples, 1)
        depth = max((level for level, *_ in boxes), default=0)
        ticks = []
        for level in range(1, depth + 1):
            spans = [(left / n, width / n) for at, left, width, _ in boxes if at == level]
            axes.broken_barh(
                spans, (level - 0.46, 0.92), facecolors=colors["ours"], alpha=0.28,
                edgecolor=colors["paper"], linewidth=0.4,
            )  # fmt: skip
            at_level = np.flatnonzero((self.hierarchy.levels == level) & (self.total > 0))
            names = Counter(self.ranks[k] for k in at_level)
            share = sum(width for _, width in spans)
            ticks.append(f"{names.most_common(1)[0][0]}  {100 * share:.0f} %")
        for level, left, width, name in boxes:
            most = int(ICICLE_LETTERS * width / n)
            if name and most >= 4:
                axes.text(
                    (left + width / 2) / n, level, escape_control(name, most=most), ha="center",
                    va="center", fontsize=8, color=colors["ink"], parse_math=False, clip_on=True,
                )  # fmt: skip
        axes.set(xlim=(0, 1), ylim=(depth + 0.6, 0.4), xlabel="share of samples")
        axes.set_yticks(range(1, depth + 1), ticks)
        axes.grid(visible=False)
        percent_axis(axes.xaxis)
        return self._keep(axes)
