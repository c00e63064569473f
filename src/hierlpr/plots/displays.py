"""Displays: curves over all instances and of single labels, and one sample as a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.showing import plain
from hierlpr.data.tables import align_truth
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.plots.calibration import CalibrationCurve
from hierlpr.plots.comparisons import MethodCurve, Promise, along_of, method_curve, thin
from hierlpr.plots.drawing import (
    PALETTE,
    Colors,
    count_axes,
    legend,
    line_of,
    mark,
    new_axes,
    percent_axis,
    until,
)
from hierlpr.plots.evidence import Pool, collect_evidence
from hierlpr.plots.survey import survey
from hierlpr.plots.tallies import Tally

if TYPE_CHECKING:
    from hierlpr.model import ScoreModel
    from hierlpr.model.explaining import Explanation
    from hierlpr.ranking import Ranking

CURVES = 6  # labels of a picture of curves, if none are named
LONGEST = 34  # characters of a name in the legend
IN_TREE = 25  # labels of a sample, called ones first
LONGEST_IN_TREE = 46  # characters of a name beside its mark


class InUse(NamedTuple):
    """Calls at the cutoff in use, those of them that are right, and all there is.

    `precision` and `recall` are by the weights of samples where these have any.
    """

    n_calls: int
    n_true_calls: int
    n_positives: int
    n_instances: int
    precision: float = 0.0
    recall: float = 0.0

    @classmethod
    def of(cls, tally: Tally) -> InUse:
        """Count the calls of a model."""
        t = tally
        counts = (int(t.judged.sum()), int(t.hits.sum()), t.n_positives, t.n_instances)
        shares = (t.share(t.hits, t.judged), t.share(t.hits, t.true))
        return cls(*counts, *(share or 0.0 for share in shares))

    @classmethod
    def nowhere(cls, listed: Pool) -> InUse:
        """Count what there is where no cutoff is in use."""
        return cls(0, 0, listed.n_positives, listed.n_instances)

    @property
    def end(self) -> int:
        """Where an axis of calls ends: past what anybody would call."""
        wanted = max(3 * self.n_positives, round(1.5 * self.n_calls), 10)
        return max(1, min(wanted, self.n_instances))


class _Display:
    """What scikit-learn's displays have in common."""

    ax_: Any
    figure_: Any

    def _keep(self, axes: Any) -> Self:
        self.ax_, self.figure_ = axes, axes.figure
        return self


class PrecisionDisplay(_Display):
    """Precision by the number of calls, observed and expected, with the cutoff in use.

    Parameters
    ----------
    promise : Promise
        Calls, the share of them that is right, and the share that the model expects.
    in_use : InUse
        ``n_calls`` is 0 where there is no cutoff to show.
    """

    def __init__(self, promise: Promise, in_use: InUse) -> None:
        self.promise = promise
        self.in_use = in_use

    @classmethod
    def from_model(cls, model: ScoreModel, scores: Any, truth: Any) -> Self:
        """Take a model's ranking of some samples, and its cutoff."""
        found = survey(collect_evidence(model, scores, truth))
        return cls(found.promise, InUse.of(found.tally))

    @classmethod
    def from_ranking(cls, ranking: Ranking, truth: Any) -> Self:
        """Take a ranking as it is; there is no cutoff."""
        listed = _ranked(ranking, truth)
        return cls(Promise.of(along_of(listed)), InUse.nowhere(listed))

    def plot(self, ax: Any = None, *, colors: Colors = PALETTE) -> Self:
        """Draw on `ax`, or on a new figure."""
        axes, end = new_axes(ax), self.in_use.end
        promise, n_calls, right = self.promise, self.in_use.n_calls, self.in_use.precision
        if promise.precision is not None:
            calls, seen = until(end, promise.calls, promise.precision)
            axes.plot(calls, seen, label="observed", **line_of(0, colors))
        else:
            right = float(np.interp(n_calls, promise.calls, promise.expected))
        calls, expected = until(end, promise.calls, promise.expected)
        axes.plot(calls, expected, label="expected by the model", color=colors["ink"],
                  linewidth=1.4, linestyle=(0, (5, 2)))  # fmt: skip
        if n_calls:
            axes.axvline(n_calls, color=colors["cutoff"], linewidth=1.2, linestyle=(0, (3, 2)))
            mark(axes, n_calls, right, colors)
        axes.set(xlim=(0, end), ylim=(0, 1.02), xlabel="calls", ylabel="share of calls right")
        count_axes(axes, both=False)
        percent_axis(axes.yaxis)
        legend(axes, colors, loc="upper right" if promise.precision is not None else "lower left")
        return self._keep(axes)


class _Compared(_Display):
    """One order of the instances beside others.

    Parameters
    ----------
    methods : sequence of MethodCurve
    in_use : InUse
    """

    def __init__(self, methods: tuple[MethodCurve, ...], in_use: InUse) -> None:
        self.methods = methods
        self.in_use = in_use

    @classmethod
    def from_model(cls, model: ScoreModel, scores: Any, truth: Any) -> Self:
        """Compare a model with LPRs alone, maxima passed up, and raw scores."""
        found = survey(collect_evidence(model, scores, truth))
        return cls(found.methods, InUse.of(found.tally))

    @classmethod
    def from_ranking(
        cls, ranking: Ranking, truth: Any, *, others: Mapping[str, Ranking] | None = None
    ) -> Self:
        """Take a ranking, and others of the same samples by name; see `hierlpr.baselines`."""
        named = {"this ranking": ranking, **(others or {})}
        pools = {name: _ranked(one, truth) for name, one in named.items()}
        curves = tuple(method_curve(name, name, listed) for name, listed in pools.items())
        return cls(curves, InUse.nowhere(pools["this ranking"]))


class RecallDisplay(_Compared):
    """Precision against recall, pooled over all labels, beside other orders.

    Parameters
    ----------
    methods : sequence of MethodCurve
    in_use : InUse
    """

    def plot(self, ax: Any = None, *, colors: Colors = PALETTE) -> Self:
        """Draw on `ax`, or on a new figure."""
        axes, used = new_axes(ax), self.in_use
        for place, method in enumerate(self.methods):
            recall, precision = thin(method.recall, method.precision)
            axes.plot(recall, precision, label=method.name, **line_of(place, colors))
        if used.n_calls and used.n_positives:
            mark(axes, used.recall, used.precision, colors)
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall: share of true labels found",
                 ylabel="precision: share of calls right")  # fmt: skip
        percent_axis(axes.xaxis)
        percent_axis(axes.yaxis)
        legend(axes, colors, loc="lower left")
        return self._keep(axes)


class HitDisplay(_Compared):
    """Right calls against calls, up to a few times the positives, beside other orders.

    Parameters
    ----------
    methods : sequence of MethodCurve
    in_use : InUse
    """

    def plot(self, ax: Any = None, *, colors: Colors = PALETTE) -> Self:
        """Draw on `ax`, or on a new figure."""
        axes, used = new_axes(ax), self.in_use
        end, top = used.end, max(used.n_positives, 1)
        for place, method in enumerate(self.methods):
            calls, hits = until(end, method.calls, method.hits)
            axes.plot(calls, hits, label=method.name, **line_of(place, colors))
        corner = min(top, end)
        axes.plot([0, corner, end], [0, corner, corner], color=colors["muted"], linewidth=0.9,
                  label="all right")  # fmt: skip
        if used.n_calls:
            mark(axes, used.n_calls, used.n_true_calls, colors)
        axes.set(xlim=(0, end), ylim=(0, 1.05 * top), xlabel="calls",
                 ylabel="calls that are right")  # fmt: skip
        count_axes(axes)
        legend(axes, colors, loc="lower right")
        return self._keep(axes)


class CalibrationDisplay(_Display):
    """Predicted against observed frequency, of LPRs and of block scores.

    Parameters
    ----------
    lpr : CalibrationCurve
        With intervals.
    block : CalibrationCurve
    """

    def __init__(self, lpr: CalibrationCurve, block: CalibrationCurve) -> None:
        self.lpr = lpr
        self.block = block

    @classmethod
    def from_model(cls, model: ScoreModel, scores: Any, truth: Any, *, n_bins: int = 10) -> Self:
        """Compare what a model predicts for some samples with what is true of them."""
        found = survey(collect_evidence(model, scores, truth), n_bins=n_bins)
        assert found.calibration is not None
        assert found.block_calibration is not None
        return cls(found.calibration, found.block_calibration)

    def plot(self, ax: Any = None, *, colors: Colors = PALETTE) -> Self:
        """Draw on `ax`, or on a new figure."""
        axes, bins = new_axes(ax), self.lpr.bins
        axes.plot([0, 1], [0, 1], color=colors["muted"], linewidth=0.9)
        if bins:
            spread = [[b.observed - b.low for b in bins], [b.high - b.observed for b in bins]]
            axes.errorbar(
                [b.predicted for b in bins], [b.observed for b in bins],
                yerr=np.maximum(spread, 0.0), fmt="o", color=colors["ours"], markersize=6,
                elinewidth=1.3, capsize=2.5, label="LPR, with 95 % interval",
            )  # fmt: skip
        axes.plot(
            [b.predicted for b in self.block.bins], [b.observed for b in self.block.bins], "s",
            markerfacecolor="none", markeredgecolor=colors["raw"], markersize=6,
            markeredgewidth=1.4, label="block score",
        )  # fmt: skip
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="predicted", ylabel="share that is true")
        percent_axis(axes.xaxis)
        percent_axis(axes.yaxis)
        legend(axes, colors, loc="upper left")
        return self._keep(axes)


def _ranked(ranking: Ranking, truth: Any) -> Pool:
    """List the instances of a ranking with their truth; equal scores are one group."""
    held = align_truth(truth, Hierarchy(labels=ranking.labels))
    if held.size != ranking.n_instances:
        raise DataError(
            f"The ranking is of {ranking.n_instances:,} instances, the truth of {held.size:,}.\n"
            "Hint: give the truth of the very samples that were ranked, in their order."
        )
    hit = held[ranking.sample, ranking.label]
    place = ranking.place.astype(np.intp)
    return Pool(ranking.score, hit, place, held.shape, held.size, int(held.sum()))


# -- label by label ---------------------------------------------------------------------------


class LabelCurve(NamedTuple):
    """The curve of one label: LPR at rising scores, and the positives it was learned from."""

    label: str
    caption: str
    score: NDArray[np.float64]
    lpr: NDArray[np.float64]
    n_positives: int


class LPRDisplay(_Display):
    """LPR against score, a line for each label.

    Parameters
    ----------
    curves : sequence of LabelCurve
    """

    def __init__(self, curves: Sequence[LabelCurve]) -> None:
        self.curves = tuple(curves)

    @classmethod
    def from_model(cls, model: ScoreModel, labels: Sequence[str] | None = None) -> Self:
        """Take the curves of some labels; by default of those with most positives in the fit."""
        model.check_fitted()
        h, report = model.hierarchy_, model.lpr_.report
        if labels is None:
            by_support = np.argsort(-report.positives, kind="stable")
            columns = by_support[:CURVES].tolist()
        else:
            columns = [h.index(label) for label in labels]
        curves = []
        for k in columns:
            score, lpr = model.lpr_.curves.curve(k)
            label = h.labels[k]
            curves.append(LabelCurve(label, h.caption(label), score, lpr, int(report.positives[k])))
        return cls(curves)

    def plot(self, ax: Any = None, *, colors: Colors = PALETTE) -> Self:
        """Draw on `ax`, or on a new figure."""
        axes = new_axes(ax, size=(7.4, 4.0))
        for place, curve in enumerate(self.curves):
            # One knot is a label without a curve: its LPR is the same at every score.
            x, y = (
                (curve.score, curve.lpr)
                if curve.score.size > 1
                else ([0.0, 1.0], [curve.lpr[0]] * 2)
            )
            name = plain(curve.caption, most=LONGEST)
            axes.plot(x, y, label=f"{name} ({curve.n_positives:,})", **line_of(place, colors))
        axes.set(ylim=(0, 1.02), xlabel="score", ylabel="LPR: chance that the label holds")
        percent_axis(axes.yaxis)
        legend(
            axes, colors, title="label (positives in the fit)", loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
        )  # fmt: skip
        return self._keep(axes)


class SampleDisplay(_Display):
    """The labels of one sample as a tree: filled where called, ringed where true.

    Parameters
    ----------
    explanation : Explanation
    holds : set of str, optional
        The labels that are true, if known.
    """

    def __init__(self, explanation: Explanation, holds: set[str] | None = None) -> None:
        self.explanation = explanation
        self.holds = holds

    @classmethod
    def from_model(
        cls, model: ScoreModel, scores: Any, sample: int | str = 0, *, truth: Any = None
    ) -> Self:
        """Explain one sample; `truth` is that of all samples of `scores`, or of this one alone."""
        found = model.explain(scores, sample)
        if truth is None:
            return cls(found)
        h = model.hierarchy_
        held = align_truth(truth, h, close=model.close_truth)
        row = found.row if held.shape[0] != 1 else 0
        if row >= held.shape[0]:
            raise DataError(f"truth has {held.shape[0]:,} samples; sample {row} is not among them.")
        return cls(found, {h.labels[k] for k in np.flatnonzero(held[row])})

    def shown(self) -> list[tuple[str, int]]:
        """Return the labels in the picture with their depth, in the order of the tree.

        Called and true labels and those of the highest block scores; any beginning of the calling
        order is closed upward, so that every label stands below a parent.
        """
        e, h = self.explanation, self.explanation.hierarchy
        wanted = np.array([label in (self.holds or ()) for label in e.label]) | e.called
        order = np.argsort(~wanted, kind="stable")[:IN_TREE]
        kept = {e.label[k] for k in order}
        drawn: list[tuple[str, int]] = []
        seen: set[str] = set()

        def walk(label: str, depth: int) -> None:
            if label in kept and label not in seen:
                seen.add(label)
                drawn.append((label, depth))
                for child in h.children(label):
                    walk(child, depth + 1)

        for root in h.roots:
            walk(root, 0)
        return drawn

    def plot(self, ax: Any = None, *, colors: Colors = PALETTE) -> Self:
        """Draw on `ax`, or on a new figure as high as the tree needs."""
        shown, e = self.shown(), self.explanation
        axes = new_axes(ax, size=(6.4, 0.9 + 0.3 * max(len(shown), 2)))
        place = {label: k for k, label in enumerate(e.label)}
        above: dict[int, tuple[float, float]] = {}
        for row, (label, depth) in enumerate(shown):
            x, y, k = 0.5 * depth, float(row), place[label]
            above[depth] = (x, y)
            if depth:
                px, py = above[depth - 1]
                axes.plot([px, px, x], [py, y, y], color=colors["muted"], linewidth=0.9, zorder=1)
            holds = self.holds is not None and label in self.holds
            if holds:
                axes.plot([x], [y], "o", markersize=15, markerfacecolor="none",
                          markeredgecolor=colors["max"], markeredgewidth=1.6, zorder=2)  # fmt: skip
            inside = colors["ours"] if e.called[k] else colors["paper"]
            axes.plot([x], [y], "o", markersize=10, zorder=3, markeredgecolor=colors["ours"],
                      markerfacecolor=inside)  # fmt: skip
            name = plain(e.hierarchy.caption(label), most=LONGEST_IN_TREE)
            axes.text(x + 0.16, y, f"{name}   {e.block_score[k]:.2f}", va="center", fontsize=9.5,
                      color=colors["ink"], parse_math=False,
                      fontweight="bold" if e.called[k] else "normal")  # fmt: skip
        widest = max((depth for _, depth in shown), default=0)
        axes.set(xlim=(-0.3, 0.5 * widest + 4.0), ylim=(len(shown) - 0.4, -0.8))
        axes.set_axis_off()
        truth = "; ringed: true" if self.holds is not None else ""
        left = len(e.label) - len(shown)
        rest = f"; {left:,} labels with lower scores not shown" if left else ""
        axes.set_title(
            f"Sample {plain(e.sample, most=LONGEST_IN_TREE)}: {int(e.called.sum()):,} calls\n"
            f"filled: called{truth}; numbers: block scores{rest}",
            fontsize=10, loc="left", color=colors["ink"], parse_math=False,
        )  # fmt: skip
        return self._keep(axes)
