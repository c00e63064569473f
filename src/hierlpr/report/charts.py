"""The four figures of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hierlpr.report.answer import Answer, percent
from hierlpr.report.comparisons import CalibrationCurve, MethodCurve, Promise, thin
from hierlpr.report.svg import COLORS, figure, svg_of

__all__ = ["FigureText", "calibration_figure", "hit_figure", "precision_figure", "recall_figure"]

# Colour and dashes of each method: no line is told apart by colour alone.
_LINES: dict[str, dict[str, Any]] = {
    "hierlpr": {"color": COLORS["ours"], "linewidth": 2.4, "zorder": 5},
    "lpr": {"color": COLORS["lpr"], "linewidth": 1.6, "linestyle": (0, (6, 2))},
    "max": {"color": COLORS["max"], "linewidth": 1.6, "linestyle": (0, (5, 2, 1, 2))},
    "raw": {"color": COLORS["raw"], "linewidth": 1.6, "linestyle": (0, (1.2, 1.6))},
}


@dataclass(frozen=True, slots=True)
class FigureText:
    """A figure as SVG, with its heading and what to see in it."""

    key: str
    title: str
    svg: str
    caption: str


def recall_figure(methods: tuple[MethodCurve, ...], answer: Answer) -> FigureText:
    """Pooled precision against recall, with the cutoff as a point."""
    made, axes = figure()
    for method in methods:
        recall, precision = thin(method.recall, method.precision)
        axes.plot(recall, precision, label=method.name, **_LINES[method.key])
    if answer.precision is not None and answer.recall is not None:
        _mark(axes, answer.recall, answer.precision)
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall: share of true labels found",
             ylabel="precision: share of calls right")  # fmt: skip
    _percent_axis(axes.xaxis)
    _percent_axis(axes.yaxis)
    _legend(axes, loc="lower left")
    areas = ", ".join(f"{m.name} {m.au_prc:.3f}" for m in methods)
    caption = "Higher is better; the early part, at the left, is where calls are made."
    return _text(
        made, "fig-pr", "Precision and recall", caption,
        f"Pooled precision against recall. Area under the curve: {areas}.",
    )  # fmt: skip


def hit_figure(methods: tuple[MethodCurve, ...], answer: Answer) -> FigureText:
    """Draw true calls against calls, up to three times the positives."""
    made, axes = figure()
    end = _end(answer)
    for method in methods:
        calls, hits = _until(end, method.calls, method.hits)
        axes.plot(calls, hits, label=method.name, **_LINES[method.key])
    top = max(answer.n_positives, 1)
    axes.plot([0, min(top, end)], [0, min(top, end)], color=COLORS["muted"], linewidth=0.9)
    axes.plot([top, end], [top, top], color=COLORS["muted"], linewidth=0.9, label="all right")
    if answer.n_calls:
        _mark(axes, answer.n_calls, answer.n_true_calls)
    axes.set(xlim=(0, end), ylim=(0, 1.05 * top), xlabel="calls", ylabel="calls that are right")
    _count_axes(axes)
    _legend(axes, loc="lower right")
    areas = ", ".join(f"{m.name} {m.hit_area:.3f}" for m in methods)
    return _text(
        made, "fig-hit", "Hit curve",
        f"How many of the {answer.n_positives:,} true labels the first calls find; the thin line "
        "is a perfect order.",
        f"Right calls against calls. Normalized area, 0 random and 1 perfect: {areas}.",
    )  # fmt: skip


def precision_figure(promise: Promise, answer: Answer) -> FigureText:
    """Precision, observed and expected, against the number of calls."""
    made, axes = figure()
    end = _end(answer)
    calls, seen, expected = _until(end, promise.calls, promise.precision, promise.expected)
    axes.plot(calls, seen, label="observed", **_LINES["hierlpr"])
    axes.plot(calls, expected, label="expected by the model", color=COLORS["ink"], linewidth=1.4,
              linestyle=(0, (5, 2)))  # fmt: skip
    if answer.n_calls and answer.precision is not None:
        axes.axvline(answer.n_calls, color=COLORS["cutoff"], linewidth=1.2, linestyle=(0, (3, 2)))
        _mark(axes, answer.n_calls, answer.precision)
    axes.set(xlim=(0, end), ylim=(0, 1.02), xlabel="calls", ylabel="share of calls right")
    _count_axes(axes)
    _percent_axis(axes.yaxis)
    _legend(axes, loc="upper right")
    at = (
        f"At the cutoff, {answer.n_calls:,} calls, {percent(answer.precision)} are right."
        if answer.n_calls
        else "Nothing is called at the cutoff."
    )
    return _text(
        made, "fig-calls", "Precision by number of calls",
        f"{at} Where the two lines agree, the model knows how sure it can be.",
        f"Observed and expected share of right calls against the number of calls. {at}",
    )  # fmt: skip


def calibration_figure(lpr: CalibrationCurve, block: CalibrationCurve) -> FigureText:
    """Predicted against observed frequency."""
    made, axes = figure()
    axes.plot([0, 1], [0, 1], color=COLORS["muted"], linewidth=0.9)
    x = np.array([b.predicted for b in lpr.bins])
    y = np.array([b.observed for b in lpr.bins])
    spread = np.array(
        [[b.observed - b.low for b in lpr.bins], [b.high - b.observed for b in lpr.bins]]
    )
    if x.size:
        axes.errorbar(
            x, y, yerr=np.maximum(spread, 0.0), fmt="o", color=COLORS["ours"], markersize=6,
            elinewidth=1.3, capsize=2.5, label="LPR, with 95 % interval",
        )  # fmt: skip
    axes.plot(
        [b.predicted for b in block.bins], [b.observed for b in block.bins], "s",
        markerfacecolor="none", markeredgecolor=COLORS["raw"], markersize=6, markeredgewidth=1.4,
        label="block score",
    )  # fmt: skip
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="predicted", ylabel="share that is true")
    _percent_axis(axes.xaxis)
    _percent_axis(axes.yaxis)
    _legend(axes, loc="upper left")
    return _text(
        made, "fig-cal", "Calibration",
        "Of instances predicted at 70 %, do 70 % hold? On the diagonal they do. Mean gap: LPR "
        f"{lpr.error:.3f}, block score {block.error:.3f}.",
        "Predicted against observed frequency in ten bins. "
        + "; ".join(f"{b.predicted:.2f}: {b.observed:.2f} of {b.n:,}" for b in lpr.bins)
        + ".",
    )  # fmt: skip


def _text(made: Any, key: str, title: str, caption: str, description: str) -> FigureText:
    svg = svg_of(made, key=key, title=title, description=description)
    return FigureText(key, title, svg, caption)


def _end(answer: Answer) -> int:
    """Where the axis of calls ends: past what anybody would call."""
    wanted = max(3 * answer.n_positives, round(1.5 * answer.n_calls), 10)
    return max(1, min(wanted, answer.n_instances))


def _until(end: float, x: Any, *columns: Any) -> tuple[Any, ...]:
    """Cut curves where the axis ends, one point past it, and thin them."""
    stop = int(np.searchsorted(x, end, side="left")) + 1
    return thin(x[:stop], *(column[:stop] for column in columns))


def _mark(axes: Any, x: float, y: float) -> None:
    axes.plot(
        [x], [y], "D", color=COLORS["cutoff"], markersize=8, markeredgecolor=COLORS["paper"],
        markeredgewidth=1.5, zorder=9, label="cutoff in use", clip_on=False, linestyle="none",
    )  # fmt: skip


def _percent_axis(axis: Any) -> None:
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def _count_axes(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _legend(axes: Any, **options: Any) -> None:
    legend = axes.legend(frameon=False, fontsize=10, handlelength=2.6, **options)
    for text in legend.get_texts():
        text.set_color(COLORS["ink"])
