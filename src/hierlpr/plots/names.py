"""A display of where the names of samples stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.display import escape_control
from hierlpr.hierarchy import Hierarchy
from hierlpr.plots.displays import _Display
from hierlpr.plots.drawing import PALETTE, Colors, new_axes, percent_axis

if TYPE_CHECKING:
    from hierlpr.model import HierLPR

MOST_BOXES = 200  # of one rank in an icicle
ICICLE_LETTERS = 58  # of a name as wide as the icicle


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
    def from_model(cls, model: HierLPR, scores: Any, truth: Any = None) -> Self:
        """Name the samples as `HierLPR.assign` does; truth is not needed."""
        label, _ = model.name_samples(model.aligned_scores(scores))
        return cls(model.hierarchy_, model.rank_names(), label)

    def boxes(self) -> list[tuple[int, int, int, str]]:
        """Return depth, left end, width and name of each box."""
        least = max(1, self.n_samples // MOST_BOXES)
        depth, groups = 1, [(0, np.flatnonzero((self.parent < 0) & (self.total > 0)))]
        boxes: list[tuple[int, int, int, str]] = []
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
                    boxes.append((depth, left, width, name))
                    children = np.flatnonzero(np.isin(self.parent, part) & (self.total > 0))
                    below.append((left, children))
                    left += width
            depth, groups = depth + 1, [group for group in below if group[1].size]
        return boxes

    def plot(self, ax: Any = None, *, colors: Colors = PALETTE) -> Self:
        """Draw on `ax`, or on a new figure."""
        axes = new_axes(ax, size=(7.4, 4.0))
        boxes, n = self.boxes(), max(self.n_samples, 1)
        deepest = max((depth for depth, *_ in boxes), default=0)
        ticks = []
        for depth in range(1, deepest + 1):
            spans = [(left / n, width / n) for at, left, width, _ in boxes if at == depth]
            axes.broken_barh(
                spans, (depth - 0.46, 0.92), facecolors=colors["ours"], alpha=0.28,
                edgecolor=colors["paper"], linewidth=0.4,
            )  # fmt: skip
            at_depth = np.flatnonzero((self.hierarchy.levels == depth) & (self.total > 0))
            names = Counter(self.ranks[k] for k in at_depth)
            share = sum(width for _, width in spans)
            ticks.append(f"{names.most_common(1)[0][0]}  {100 * share:.1f} %")
        for depth, left, width, name in boxes:
            most = int(ICICLE_LETTERS * width / n)
            if name and most >= 4:
                axes.text(
                    (left + width / 2) / n, depth, escape_control(name, most=most), ha="center",
                    va="center", fontsize=8, color=colors["ink"], parse_math=False, clip_on=True,
                )  # fmt: skip
        axes.set(xlim=(0, 1), ylim=(deepest + 0.6, 0.4), xlabel="share of samples")
        axes.set_yticks(range(1, deepest + 1), ticks)
        axes.grid(visible=False)
        percent_axis(axes.xaxis)
        return self._keep(axes)
