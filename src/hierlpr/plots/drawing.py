"""What all pictures share: colours, lines told apart without colour, axes, legends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base import require
from hierlpr.plots.comparisons import thin

Colors = Mapping[str, str]

# On a light background; the names are those of the report, whose style sheet knows dark as well.
PALETTE: Colors = {
    "ink": "#1c2733",
    "muted": "#8a97a5",
    "grid": "#e3e8ee",
    "ours": "#0b63b0",
    "lpr": "#b35c00",
    "max": "#4f7a28",
    "raw": "#8e3b8a",
    "cutoff": "#c2272d",
    "paper": "#ffffff",
}
# Width and dashes of the lines in their order: no line is told apart by colour alone.
_LINES: tuple[dict[str, Any], ...] = (
    {"linewidth": 2.4, "zorder": 5},
    {"linewidth": 1.6, "linestyle": (0, (6, 2))},
    {"linewidth": 1.6, "linestyle": (0, (5, 2, 1, 2))},
    {"linewidth": 1.6, "linestyle": (0, (1.2, 1.6))},
)
_COLOR_ORDER = ("ours", "lpr", "max", "raw")


def line_of(place: int, colors: Colors) -> dict[str, Any]:
    """Return how the line at some place in the order is drawn; after four, styles mix anew."""
    color = _COLOR_ORDER[place % len(_COLOR_ORDER)]
    style = _LINES[(place + place // len(_LINES)) % len(_LINES)]
    return {"color": colors[color], **style}


def new_axes(ax: Any, *, size: tuple[float, float] = (5.6, 4.0)) -> Any:
    """Return the axes given, or those of a new figure on white, in the style of the pictures."""
    if ax is not None:
        return ax
    require("matplotlib", extra="report", what="A picture")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=size, layout="constrained")
    figure.patch.set_facecolor(PALETTE["paper"])
    axes.set_facecolor(PALETTE["paper"])
    style_axes(axes, PALETTE)
    return axes


def style_axes(axes: Any, colors: Colors) -> None:
    """Draw a light grid, and only the two axes that carry numbers."""
    axes.grid(color=colors["grid"], linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(colors["muted"])
    axes.tick_params(colors=colors["muted"], labelcolor=colors["ink"], length=3)


def until(end: float, x: NDArray[Any], *columns: NDArray[Any]) -> tuple[Any, ...]:
    """Cut curves over a rising `x` at `end`, where their value is between two points; thin them."""
    stop = int(np.searchsorted(x, end, side="right"))
    cut = [x[:stop], *(column[:stop] for column in columns)]
    if 0 < stop < x.size and x[stop - 1] < end:
        # A point far behind the end would draw thinned points away from what is seen.
        cut = [np.append(cut[0], end)] + [
            np.append(part, np.interp(end, x, column))
            for part, column in zip(cut[1:], columns, strict=True)
        ]
    return thin(cut[0], *cut[1:])


def mark(axes: Any, x: float, y: float, colors: Colors) -> None:
    """Draw the cutoff as a point."""
    axes.plot(
        [x], [y], "D", color=colors["cutoff"], markersize=8, markeredgecolor=colors["paper"],
        markeredgewidth=1.5, zorder=9, label="cutoff in use", clip_on=False, linestyle="none",
    )  # fmt: skip


_PLACES = ("lower left", "upper right", "lower right", "upper left", "center right", "center left")


def percent_axis(axis: Any) -> None:
    """Write shares as percent."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def count_axes(axes: Any, *, both: bool = True) -> None:
    """Write counts with separators, a few of them."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    for axis in (axes.xaxis, axes.yaxis) if both else (axes.xaxis,):
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def legend(axes: Any, colors: Colors, *, loc: str, **options: Any) -> None:
    """Draw the legend at `loc`, or where fewer lines pass; names are text, never mathematics."""
    places = [loc, *(place for place in _PLACES if place != loc)]
    crossed = []
    for place in places:
        _draw_legend(axes, colors, loc=place, **options)
        crossed.append(_lines_under_legend(axes))
        if not crossed[-1]:
            return
    free = places[crossed.index(min(crossed))]
    _draw_legend(axes, colors, loc=free, is_framed=True, **options)


def _draw_legend(axes: Any, colors: Colors, *, is_framed: bool = False, **options: Any) -> None:
    made = axes.legend(
        frameon=is_framed, facecolor=colors["paper"], edgecolor="none", framealpha=0.85,
        fontsize=10, handlelength=2.6, **options,
    )  # fmt: skip
    for text in made.get_texts():
        text.set_color(colors["ink"])
        text.set_parse_math(False)


def _lines_under_legend(axes: Any) -> int:
    """Count the lines and bars that reach into the legend."""
    box = axes.get_legend().get_window_extent()
    lines = sum(
        line.get_path().transformed(line.get_transform()).intersects_bbox(box, filled=False)
        for line in axes.lines
        if line.get_linestyle() != "None"
    )
    bars = sum(box.overlaps(bar.get_window_extent()) for bar in axes.patches)
    return int(lines + bars)
