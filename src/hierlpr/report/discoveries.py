"""The page about discoveries: answer, figures, hierarchy and table."""

from __future__ import annotations

import math
import os
from datetime import date
from typing import Any

import numpy as np

from hierlpr._utils import require
from hierlpr.discovery import Discoveries
from hierlpr.plots.drawing import legend, mark_cutoff
from hierlpr.report.entries import label_columns
from hierlpr.report.html import COLORS, FigureText, figure, figure_text, render_page, write_page

SCRIPTS = ("dom.js", "csv.js", "tree.js", "browse.js", "table.js", "discoveries.js", "start.js")
SECTIONS = {
    "answer": "Answer",
    "curves": "p-values and levels",
    "hierarchy": "Hierarchy",
    "labels": "Labels",
    "glossary": "Glossary",
}
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
    values = {
        "title": title or "Discoveries on a hierarchy",
        "about": {"Created": date.today().isoformat()},
        "sections": SECTIONS,
        "facts": found.to_dict(),
        "model_based": found.assumption.startswith("model-based"),
        "figures": (_p_value_figure(found), _level_figure(found)),
    }
    return render_page("discoveries.html.j2", SCRIPTS, _data(found), **values)


def _p_value_figure(found: Discoveries) -> FigureText:
    """Draw the histogram of the p-values with the density of the fitted mixture."""
    tested = ~np.isnan(found.p)
    p = found.p[tested]
    counts, edges = np.histogram(p, bins=BINS, range=(0.0, 1.0))
    share = float(found.lpr[tested].mean())
    made, axes = figure()
    bars = {"color": COLORS["grid"], "edgecolor": COLORS["muted"], "label": "p-values"}
    axes.bar(edges[:-1], counts, width=1.0 / BINS, align="edge", linewidth=0.8, **bars)
    at = np.linspace(0.5 / (4 * BINS), 1.0, 4 * BINS)
    scale = p.size / BINS
    null = scale * (1.0 - share)
    mixture = null + scale * share * found.model.density(at)
    axes.plot(at, mixture, color=COLORS["ours"], linewidth=2.2, label="fitted mixture")
    axes.axhline(
        null, color=COLORS["cutoff"], linewidth=1.4, linestyle=(0, (5, 2)), label="its null part"
    )
    top = 1.15 * max(counts.max(initial=1), null)
    axes.set(xlim=(0, 1), ylim=(0, top), xlabel="p-value", ylabel="labels")
    legend(axes, COLORS)
    text = (
        f"The model estimates that {100 * share:.3g} % of the {p.size:,} labels with a p-value are "
        "not null."
    )
    bins = ", ".join(str(n) for n in counts.tolist())
    return figure_text(
        made,
        "fig-p",
        "Histogram of the p-values",
        f"{text} A rise toward 1 would mean conservative p-values.",
        f"{text} Counts in {BINS} bins from 0 to 1: {bins}.",
    )


def _level_figure(found: Discoveries) -> FigureText:
    """Draw the number of labels rejected at every fdr."""
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
    mark_cutoff(axes, found.fdr, n, COLORS, label="fdr in use")
    end, top = max(LARGEST_SHOWN, found.fdr), 1.08 * max(levels.size, 1)
    axes.set(xlim=(0, end), ylim=(0, top), xlabel="fdr", ylabel="labels rejected")
    legend(axes, COLORS)
    others = found.to_dict()["n_rejected_at"].items()
    text = (
        f"{n:,} labels at fdr {found.fdr:g}; {', '.join(f'{k:,} at {fdr}' for fdr, k in others)}."
    )
    return figure_text(made, "fig-level", "Labels rejected by fdr", text, text)


def _data(found: Discoveries) -> dict[str, Any]:
    """Return the data of the page's script, one entry per label."""
    rank = np.empty(found.order.size, dtype=np.int64)
    rank[found.order] = np.arange(1, found.order.size + 1)
    return {
        "fdr": found.fdr,
        "labels": {
            **label_columns(found.hierarchy),
            "p": [None if math.isnan(x) else float(f"{x:.4g}") for x in found.p.tolist()],
            "lpr": [round(x, 5) for x in found.lpr.tolist()],
            "level": [float(f"{x:.4g}") for x in found.level.tolist()],
            "rejected": found.is_rejected.astype(int).tolist(),
            "rank": rank.tolist(),
        },
    }
