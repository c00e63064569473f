"""Displays of curves over all instances: precision, recall, hits and calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

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
from hierlpr.plots.summary import Summary, apply_model, summarize

if TYPE_CHECKING:
    from hierlpr.model import HierLPR


class _Display:
    """The attributes of scikit-learn's displays.

    Parameters
    ----------
    summary : Summary
        The numbers of a model on some samples, as `from_model` makes it.
    """

    ax_: Any
    figure_: Any

    def __init__(self, summary: Summary) -> None:
        self.summary = summary

    @classmethod
    def from_model(cls, model: HierLPR, scores: Any, truth: Any) -> Self:
        """Show what a model gives for samples with truth."""
        return cls(summarize(apply_model(model, scores, truth)))

    def _keep(self, axes: Any) -> Self:
        self.ax_, self.figure_ = axes, axes.figure
        return self


class PrecisionDisplay(_Display):
    """Precision by the number of calls, observed and expected, with the cutoff in use.

    The expected precision is the mean block score of the calls.
    """

    def plot(self, ax: Any = None, *, colors: Colors = PALETTE) -> Self:
        """Draw on `ax`, or on a new figure."""
        axes, curve, counts = new_axes(ax), self.summary.curve, self.summary.counts
        end, n_calls, height = counts.axis_end, counts.n_calls, counts.precision or 0.0
        expected = curve.mean_score
        calls = curve.n_calls[1 : expected.size + 1]
        if self.summary.output.has_truth:
            observed = curve.precision[: calls.size]
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


class RecallDisplay(_Display):
    """Precision against recall, pooled over all labels, beside other orders."""

    def plot(self, ax: Any = None, *, colors: Colors = PALETTE) -> Self:
        """Draw on `ax`, or on a new figure."""
        axes, counts = new_axes(ax), self.summary.counts
        for place, method in enumerate(self.summary.methods):
            recall, precision = thin(method.curve.recall, method.curve.precision)
            axes.plot(recall, precision, label=method.name, **line_style(place, colors))
        if counts.precision is not None and counts.recall is not None:
            mark_cutoff(axes, counts.recall, counts.precision, colors)
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall", ylabel="precision")
        percent_axis(axes.xaxis)
        percent_axis(axes.yaxis)
        legend(axes, colors)
        return self._keep(axes)


class HitDisplay(_Display):
    """Correct calls against calls, up to a few times the positives, beside other orders."""

    def plot(self, ax: Any = None, *, colors: Colors = PALETTE) -> Self:
        """Draw on `ax`, or on a new figure."""
        axes, counts = new_axes(ax), self.summary.counts
        end, top = counts.axis_end, max(counts.n_positives, 1)
        for place, method in enumerate(self.summary.methods):
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
        if counts.n_calls:
            mark_cutoff(axes, counts.n_calls, counts.n_hits, colors)
        axes.set(xlim=(0, end), ylim=(0, 1.05 * top), xlabel="calls", ylabel="correct calls")
        count_axes(axes)
        legend(axes, colors)
        return self._keep(axes)


class CalibrationDisplay(_Display):
    """Predicted against observed frequency, of LPRs with their intervals and of block scores."""

    def plot(self, ax: Any = None, *, colors: Colors = PALETTE) -> Self:
        """Draw on `ax`, or on a new figure."""
        axes, lpr, block = new_axes(ax), self.summary.calibration, self.summary.block_calibration
        assert lpr is not None
        assert block is not None
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
            block.predicted,
            block.observed,
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
