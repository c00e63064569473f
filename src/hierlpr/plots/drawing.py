"""Colours, line styles, axes and legends of all displays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Colors = Mapping[str, str]

MOST_POINTS = 400  # drawn of a curve; more cannot be seen

# For a light background; the report's style sheet has the same names, for light and dark.
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
# Widths and dashes of the lines in their order: no line is identified by its colour alone.
_LINES: tuple[dict[str, Any], ...] = (
    {"linewidth": 2.4, "zorder": 5},
    {"linewidth": 1.6, "linestyle": (0, (6, 2))},
    {"linewidth": 1.6, "linestyle": (0, (5, 2, 1, 2))},
    {"linewidth": 1.6, "linestyle": (0, (1.2, 1.6))},
)
_COLOR_ORDER = ("ours", "lpr", "max", "raw")


def line_style(place: int, colors: Colors) -> dict[str, Any]:
    """Return colour, width and dashes of the line at some place; after four, styles mix anew."""
    color = _COLOR_ORDER[place % len(_COLOR_ORDER)]
    style = _LINES[(place + place // len(_LINES)) % len(_LINES)]
    return {"color": colors[color], **style}


def new_axes(ax: Any, *, size: tuple[float, float] = (5.6, 4.0)) -> Any:
    """Return the axes given, or those of a new figure on white."""
    if ax is not None:
        return ax
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


def thin(x: NDArray[Any], *columns: NDArray[Any]) -> tuple[Any, ...]:
    """Keep some points of curves over a rising `x`: the early ones, then even steps."""
    if x.size <= MOST_POINTS:
        return (x, *columns)
    early = np.arange(MOST_POINTS // 4)
    # Even steps in x, not in points: ties make some steps long.
    steps = np.searchsorted(x, np.linspace(x[0], x[-1], MOST_POINTS - early.size))
    keep = np.unique(np.concatenate([early, np.minimum(steps, x.size - 1)]))
    return tuple(column[keep] for column in (x, *columns))


def clip_curve(end: float, x: NDArray[Any], *columns: NDArray[Any]) -> tuple[Any, ...]:
    """Cut curves over a rising `x` at `end`, interpolating there, and thin them."""
    stop = int(np.searchsorted(x, end, side="right"))
    cut = [x[:stop], *(column[:stop] for column in columns)]
    if 0 < stop < x.size and x[stop - 1] < end:
        cut = [np.append(cut[0], end)] + [
            np.append(part, np.interp(end, x, column))
            for part, column in zip(cut[1:], columns, strict=True)
        ]
    return thin(cut[0], *cut[1:])


def mark_cutoff(axes: Any, x: float, y: float, colors: Colors) -> None:
    """Draw the cutoff as a point."""
    axes.plot(
        [x],
        [y],
        "D",
        color=colors["cutoff"],
        markersize=8,
        markeredgecolor=colors["paper"],
        markeredgewidth=1.5,
        zorder=9,
        label="cutoff in use",
        clip_on=False,
        linestyle="none",
    )


def percent_axis(axis: Any, decimals: int | None = 0) -> None:
    """Format the ticks as percentages; None chooses the decimals by the range."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals, symbol=" %"))


def count_axes(axes: Any, *, both: bool = True) -> None:
    """Format the ticks as counts with thousands separators."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    for axis in (axes.xaxis, axes.yaxis) if both else (axes.xaxis,):
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def legend(axes: Any, colors: Colors, **options: Any) -> None:
    """Draw the legend where it covers least, unless `loc` is given; names are not parsed as TeX."""
    made = axes.legend(
        facecolor=colors["paper"],
        edgecolor="none",
        framealpha=0.85,
        fontsize=10,
        handlelength=2.6,
        **{"loc": "best", **options},
    )
    for text in made.get_texts():
        text.set_color(colors["ink"])
        text.set_parse_math(False)
