"""Discoveries -> one self-contained HTML page: answer, figures, hierarchy, table."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from hierlpr._base import require
from hierlpr.discovery import Discoveries
from hierlpr.plots.drawing import legend
from hierlpr.report.entries import labels_of
from hierlpr.report.html import COLORS, FigureText, figure, figure_text, render_page, write_page

SCRIPTS = ("dom.js", "csv.js", "tree.js", "browse.js", "table.js", "discoveries.js", "start.js")
BINS = 20
LARGEST_SHOWN = 0.5  # fdr at the end of the axis of levels


def write_discoveries_report(
    path: str | os.PathLike[str], found: Discoveries, *, title: str | None = None
) -> None:
    """Write one self-contained HTML file with the discoveries.

    The page loads nothing from anywhere, and names in the data are only ever shown as text. Equal
    inputs give equal files.

    Parameters
    ----------
    path : path
        The file, written whole or not at all.
    found : Discoveries
    title : str, optional
        Heading of the page.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from hierlpr import Hierarchy, discover
    >>> found = discover([0.01, 0.001, 0.6], Hierarchy([("A", "B"), ("A", "C")]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = pathlib.Path(folder, "found.html")
    ...     write_discoveries_report(page, found)
    ...     page.read_text(encoding="utf-8").count("2 of 3")
    1
    """
    require("jinja2", "matplotlib", extra="report", what="A report")
    write_page(path, render_discoveries(found, title=title))


def render_discoveries(found: Discoveries, *, title: str | None = None) -> str:
    """Return the page as text."""
    return render_page(
        "discoveries.html.j2", SCRIPTS, _data(found),
        title=title or "Discoveries on a hierarchy",
        facts=found.to_dict(),
        model_based=found.assumption.startswith("model-based"),
        figures=(_p_value_figure(found), _level_figure(found)),
    )  # fmt: skip


def _p_value_figure(found: Discoveries) -> FigureText:
    """Histogram of the p-values with the density of the fitted mixture."""
    tested = ~np.isnan(found.p)
    p = found.p[tested]
    counts, edges = np.histogram(p, bins=BINS, range=(0.0, 1.0))
    share = float(found.lpr[tested].mean())
    made, axes = figure()
    axes.bar(
        edges[:-1], counts, width=1.0 / BINS, align="edge", color=COLORS["grid"],
        edgecolor=COLORS["muted"], linewidth=0.8, label="p-values",
    )  # fmt: skip
    at = np.linspace(0.5 / (4 * BINS), 1.0, 4 * BINS)
    scale = p.size / BINS
    null = scale * (1.0 - share)
    mixture = null + scale * share * found.model.density(at)
    axes.plot(at, mixture, color=COLORS["ours"], linewidth=2.2, label="fitted mixture")
    axes.axhline(
        null, color=COLORS["cutoff"], linewidth=1.4, linestyle=(0, (5, 2)), label="its null part"
    )
    axes.set(
        xlim=(0, 1), ylim=(0, 1.15 * max(counts.max(initial=1), null)), xlabel="p-value",
        ylabel="labels",
    )  # fmt: skip
    legend(axes, COLORS, loc="upper right")
    words = (
        f"The model takes {100 * share:.3g} % of the {p.size:,} labels with a p-value for not null."
    )
    listed = ", ".join(str(n) for n in counts.tolist())
    return figure_text(
        made, "fig-p", "The p-values",
        f"{words} A rise toward 1 would mean conservative p-values.",
        f"{words} Counts in {BINS} bins from 0 to 1: {listed}.",
        spoken="Histogram of the p-values",
    )  # fmt: skip


def _level_figure(found: Discoveries) -> FigureText:
    """How many labels are rejected at every level."""
    levels = np.sort(found.level[found.level <= LARGEST_SHOWN])
    made, axes = figure()
    x = np.concatenate(([0.0], levels, [LARGEST_SHOWN]))
    y = np.concatenate((np.arange(levels.size + 1), [levels.size]))
    if x.size > 2_000:  # the drawing cannot show more steps
        keep = np.unique(np.linspace(0, x.size - 1, 2_000).astype(int))
        x, y = x[keep], y[keep]
    axes.step(x, y, where="post", color=COLORS["ours"], linewidth=2.2)
    n = int(found.is_rejected.sum())
    axes.axvline(found.fdr, color=COLORS["cutoff"], linewidth=1.2, linestyle=(0, (3, 2)))
    axes.plot(
        [found.fdr], [n], "D", color=COLORS["cutoff"], markersize=8,
        markeredgecolor=COLORS["paper"], markeredgewidth=1.5, zorder=9, label="asked for",
        linestyle="none", clip_on=False,
    )  # fmt: skip
    axes.set(
        xlim=(0, max(LARGEST_SHOWN, found.fdr)), ylim=(0, 1.08 * max(levels.size, 1)),
        xlabel="fdr", ylabel="labels rejected",
    )  # fmt: skip
    legend(axes, COLORS, loc="upper left")
    words = f"{n:,} labels at fdr {found.fdr:g}; " + ", ".join(
        f"{count:,} at {fdr}" for fdr, count in found.to_dict()["n_rejected_at"].items()
    )
    return figure_text(
        made, "fig-level", "How many at other levels", f"{words}.", f"{words}.",
        spoken="Labels rejected against the fdr asked for",
    )  # fmt: skip


def _data(found: Discoveries) -> dict[str, Any]:
    """Everything the script draws from, one entry a label."""
    rank = np.empty(found.order.size, dtype=np.int64)
    rank[found.order] = np.arange(1, found.order.size + 1)
    return {
        "fdr": found.fdr,
        "labels": {
            **labels_of(found.hierarchy),
            "p": [None if math.isnan(x) else float(f"{x:.4g}") for x in found.p.tolist()],
            "lpr": [round(x, 5) for x in found.lpr.tolist()],
            "level": [float(f"{x:.4g}") for x in found.level.tolist()],
            "rejected": found.is_rejected.astype(int).tolist(),
            "rank": rank.tolist(),
        },
    }
