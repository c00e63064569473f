"""The four figures of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hierlpr.plots.comparisons import CalibrationCurve, MethodCurve, Promise
from hierlpr.plots.curve_displays import (
    CalibrationDisplay,
    HitDisplay,
    InUse,
    PrecisionDisplay,
    RecallDisplay,
)
from hierlpr.report.answer import Answer, percent
from hierlpr.report.svg import COLORS, figure, svg_of

__all__ = ["FigureText", "calibration_figure", "hit_figure", "precision_figure", "recall_figure"]


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
    RecallDisplay(methods, _in_use(answer)).plot(axes, colors=COLORS)
    areas = ", ".join(f"{m.name} {m.au_prc:.3f}" for m in methods)
    caption = "Higher is better; the early part, at the left, is where calls are made."
    return _text(
        made, "fig-pr", "Precision and recall", caption,
        f"Pooled precision against recall. Area under the curve: {areas}.",
    )  # fmt: skip


def hit_figure(methods: tuple[MethodCurve, ...], answer: Answer) -> FigureText:
    """Draw true calls against calls, up to three times the positives."""
    made, axes = figure()
    HitDisplay(methods, _in_use(answer)).plot(axes, colors=COLORS)
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
    PrecisionDisplay(promise, _in_use(answer)).plot(axes, colors=COLORS)
    if promise.precision is None:
        share = percent(answer.expected)
        at = f"At the cutoff, {answer.n_calls:,} calls, {share} are expected to be right."
        return _text(
            made, "fig-calls", "Share expected to be right, by number of calls",
            f"{at if answer.n_calls else 'Nothing is called at the cutoff.'} The model's own "
            "expectation: the mean chance of the calls so far.",
            f"Expected share of right calls against the number of calls. {at}",
        )  # fmt: skip
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
    CalibrationDisplay(lpr, block).plot(axes, colors=COLORS)
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


def _in_use(answer: Answer) -> InUse:
    return InUse(answer.n_calls, answer.n_true_calls, answer.n_positives, answer.n_instances)
