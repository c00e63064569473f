"""Curves from score to local precision rate, label by label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.showing import plain
from hierlpr.plots.drawing import PALETTE, Colors, legend, line_of, new_axes, percent_axis

if TYPE_CHECKING:
    from hierlpr.model import ScoreModel

__all__ = ["LPRDisplay", "LabelCurve"]

SHOWN = 6  # labels, if none are named
LONGEST = 34  # characters of a name in the legend


class LabelCurve(NamedTuple):
    """The curve of one label: LPR at rising scores, and the positives it was learned from."""

    label: str
    caption: str
    score: NDArray[np.float64]
    lpr: NDArray[np.float64]
    n_positives: int


class LPRDisplay:
    """LPR against score, a line for each label.

    Parameters
    ----------
    curves : sequence of LabelCurve
    """

    ax_: Any
    figure_: Any

    def __init__(self, curves: Sequence[LabelCurve]) -> None:
        self.curves = tuple(curves)

    @classmethod
    def from_model(cls, model: ScoreModel, labels: Sequence[str] | None = None) -> Self:
        """Take the curves of some labels; by default of those with most positives in the fit."""
        model.check_fitted()
        h, report = model.hierarchy_, model.lpr_.report
        if labels is None:
            by_support = np.argsort(-report.positives, kind="stable")
            columns = by_support[:SHOWN].tolist()
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
        self.ax_, self.figure_ = axes, axes.figure
        return self
