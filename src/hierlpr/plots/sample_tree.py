"""One sample's hierarchy: which labels are called, how sure each is, and what is true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hierlpr._base.showing import plain
from hierlpr.data.tables import align_truth
from hierlpr.exceptions import DataError
from hierlpr.plots.drawing import PALETTE, Colors, new_axes

if TYPE_CHECKING:
    from hierlpr.model import ScoreModel
    from hierlpr.model.explaining import Explanation

SHOWN = 25  # labels, called ones first
LONGEST = 46  # characters of a name


class SampleDisplay:
    """The labels of one sample as a tree: filled where called, ringed where true.

    Parameters
    ----------
    explanation : Explanation
    holds : set of str, optional
        The labels that are true, if known.
    """

    ax_: Any
    figure_: Any

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
        order = np.argsort(~wanted, kind="stable")[:SHOWN]
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
            name = plain(e.hierarchy.caption(label), most=LONGEST)
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
            f"Sample {plain(e.sample, most=LONGEST)}: {int(e.called.sum()):,} calls\n"
            f"filled: called{truth}; numbers: block scores{rest}",
            fontsize=10, loc="left", color=colors["ink"], parse_math=False,
        )  # fmt: skip
        self.ax_, self.figure_ = axes, axes.figure
        return self
