"""Displays of curves over all instances: precision, recall, hits and calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from hierlpr.metrics.hits import HitCurve
from hierlpr.plots.drawing import (
    PALETTE,
    Colors,
    clip_curve,
    count_axes,
    legend,
    line_style,
    mark_cutoff,
    new_axes,
    percent_axis,
    thin,
)
from hierlpr.plots.summary import (
    CalibrationCurve,
    Counts,
    MethodCurve,
    Summary,
    apply_model,
    summarize,
)

if TYPE_CHECKING:
    from hierlpr.model import HierLPR


class CutoffPoint(NamedTuple):
    """Calls at the cutoff in use, the correct ones among them, and all positives and instances.

    `precision` and `recall` are weighted where samples have weights.
    """

    n_calls: int
    n_true_calls: int
    n_positives: int
    n_instances: int
    precision: float
    recall: float

    @classmethod
    def of(cls, counts: Counts) -> CutoffPoint:
        """Take the calls of a model."""
        c = counts
        sizes = (int(c.judged.sum()), int(c.hits.sum()), c.n_positives, c.n_instances)
        shares = (c.share(c.hits, c.judged), c.share(c.hits, c.positives))
        return cls(*sizes, *(share or 0.0 for share in shares))

    @property
    def axis_end(self) -> int:
        """Where an axis of calls ends: beyond the calls that anybody would make."""
        wanted = max(3 * self.n_positives, round(1.5 * self.n_calls), 10)
        return max(1, min(wanted, self.n_instances))


class _Display:
    """The attributes of scikit-learn's displays."""

    ax_: Any
    figure_: Any

    @classmethod
    def from_model(cls, model: HierLPR, scores: Any, truth: Any) -> Self:
        """Show what a model gives for samples with truth."""
        return cls.of(summarize(apply_model(model, scores, truth)))

    @classmethod
    def of(cls, summary: Summary) -> Self:
        """Show a summary."""
        raise NotImplementedError

    def _keep(self, axes: Any) -> Self:
        self.ax_, self.figure_ = axes, axes.figure
        return self


class PrecisionDisplay(_Display):
    """Precision by the number of calls, observed and expected, with the cutoff in use.

    Parameters
    ----------
    curve : HitCurve
        Of the model's ranking; the expected precision is the mean block score of the calls.
    cutoff : CutoffPoint
    has_truth : bool
        Whether the observed precision is known.
    """

    def __init__(self, curve: HitCurve, cutoff: CutoffPoint, *, has_truth: bool = True) -> None:
        self.curve = curve
        self.cutoff = cutoff
        self.has_truth = has_truth

    @classmethod
    def of(cls, summary: Summary) -> Self:
        """Show a model's ranking of some samples, and its cutoff."""
        cutoff = CutoffPoint.of(summary.counts)
        return cls(summary.curve, cutoff, has_truth=summary.output.has_truth)

    def plot(self, ax: Any = None, *, colors: Colors = PALETTE) -> Self:
        """Draw on `ax`, or on a new figure."""
        axes, end = new_axes(ax), self.cutoff.axis_end
        n_calls, height = self.cutoff.n_calls, self.cutoff.precision
        expected = self.curve.mean_score
        calls = self.curve.n_calls[1 : expected.size + 1]
        if self.has_truth:
            observed = self.curve.precision[: calls.size]
            axes.plot(*clip_curve(end, calls, observed), label="observed", **line_style(0, colors))
        else:
            height = float(np.interp(n_calls, calls, expected))
        axes.plot(
            *clip_curve(end, calls, expected),
            label="expected by the model",
            color=colors["ink"],
            linewidth=1.4,
            linestyle=(0, (5, 2)),
        )
        if n_calls:
            axes.axvline(n_calls, color=colors["cutoff"], linewidth=1.2, linestyle=(0, (3, 2)))
            mark_cutoff(axes, n_calls, height, colors)
        axes.set(xlim=(0, end), ylim=(0, 1.02), xlabel="calls", ylabel="precision")
        count_axes(axes, both=False)
        percent_axis(axes.yaxis)
        legend(axes, colors)
        return self._keep(axes)


class _MethodsDisplay(_Display):
    """One order of the instances beside others.

    Parameters
    ----------
    methods : sequence of MethodCurve
    cutoff : CutoffPoint
    """

    def __init__(self, methods: tuple[MethodCurve, ...], cutoff: CutoffPoint) -> None:
        self.methods = methods
        self.cutoff = cutoff

    @classmethod
    def of(cls, summary: Summary) -> Self:
        """Compare a model with LPRs alone, max-propagation and raw scores."""
        return cls(summary.methods, CutoffPoint.of(summary.counts))


class RecallDisplay(_MethodsDisplay):
    """Precision against recall, pooled over all labels, beside other orders."""

    def plot(self, ax: Any = None, *, colors: Colors = PALETTE) -> Self:
        """Draw on `ax`, or on a new figure."""
        axes, cutoff = new_axes(ax), self.cutoff
        for place, method in enumerate(self.methods):
            recall, precision = thin(method.curve.recall, method.curve.precision)
            axes.plot(recall, precision, label=method.name, **line_style(place, colors))
        if cutoff.n_calls and cutoff.n_positives:
            mark_cutoff(axes, cutoff.recall, cutoff.precision, colors)
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall", ylabel="precision")
        percent_axis(axes.xaxis)
        percent_axis(axes.yaxis)
        legend(axes, colors)
        return self._keep(axes)


class HitDisplay(_MethodsDisplay):
    """Correct calls against calls, up to a few times the positives, beside other orders."""

    def plot(self, ax: Any = None, *, colors: Colors = PALETTE) -> Self:
        """Draw on `ax`, or on a new figure."""
        axes, cutoff = new_axes(ax), self.cutoff
        end, top = cutoff.axis_end, max(cutoff.n_positives, 1)
        for place, method in enumerate(self.methods):
            calls, hits = clip_curve(end, method.curve.n_calls, method.curve.n_hits)
            axes.plot(calls, hits, label=method.name, **line_style(place, colors))
        corner = min(top, end)
        axes.plot(
            [0, corner, end],
            [0, corner, corner],
            color=colors["muted"],
            linewidth=0.9,
            label="perfect order",
        )
        if cutoff.n_calls:
            mark_cutoff(axes, cutoff.n_calls, cutoff.n_true_calls, colors)
        axes.set(xlim=(0, end), ylim=(0, 1.05 * top), xlabel="calls", ylabel="correct calls")
        count_axes(axes)
        legend(axes, colors)
        return self._keep(axes)


class CalibrationDisplay(_Display):
    """Predicted against observed frequency, of LPRs and of block scores.

    Parameters
    ----------
    lpr, block : CalibrationCurve
        Only LPRs are drawn with their intervals.
    """

    def __init__(self, lpr: CalibrationCurve, block: CalibrationCurve) -> None:
        self.lpr = lpr
        self.block = block

    @classmethod
    def of(cls, summary: Summary) -> Self:
        """Compare a model's predictions for some samples with their truth."""
        assert summary.calibration is not None
        assert summary.block_calibration is not None
        return cls(summary.calibration, summary.block_calibration)

    def plot(self, ax: Any = None, *, colors: Colors = PALETTE) -> Self:
        """Draw on `ax`, or on a new figure."""
        axes, lpr = new_axes(ax), self.lpr
        axes.plot([0, 1], [0, 1], color=colors["muted"], linewidth=0.9)
        spread = np.stack([lpr.observed - lpr.low, lpr.high - lpr.observed])
        axes.errorbar(
            lpr.predicted,
            lpr.observed,
            yerr=np.maximum(spread, 0.0),
            fmt="o",
            color=colors["ours"],
            markersize=6,
            elinewidth=1.3,
            capsize=2.5,
            label="LPR, with 95 % interval",
        )
        axes.plot(
            self.block.predicted,
            self.block.observed,
            "s",
            markerfacecolor="none",
            markeredgecolor=colors["raw"],
            markersize=6,
            markeredgewidth=1.4,
            label="block score",
        )
        axes.set(
            xlim=(0, 1), ylim=(0, 1.02), xlabel="predicted probability", ylabel="observed frequency"
        )
        percent_axis(axes.xaxis)
        percent_axis(axes.yaxis)
        legend(axes, colors)
        return self._keep(axes)
