"""Figures of the studies, as SVG and PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hierlpr._base.files import writing
from hierlpr.research.reproduce.run import Curves
from hierlpr.research.reproduce.studies import RECALL_GRID, SETTING_TITLES, TARGETS

Row = dict[str, Any]

# Colours that stay apart for the colour-blind and in grey; dashes help where curves meet.
STYLE: dict[str, dict[str, Any]] = {
    "HierLPR": {"color": "#0b5fa5", "linestyle": "-", "marker": "o"},
    "LPR": {"color": "#d1701c", "linestyle": "--", "marker": "s"},
    "ClusHMC": {"color": "#3a8f4d", "linestyle": "-.", "marker": "^"},
    "oracle": {"color": "#7a7a7a", "linestyle": ":", "marker": "D"},
    "corrected calls": {"color": "#8a4fa0", "linestyle": ":", "marker": "v"},
    "first-stage calls": {"color": "#b3202c", "linestyle": "none", "marker": "X"},
}
NAMES = {"oracle": "best possible (true posterior)"}
_RC: Any = {
    "font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#dddddd", "grid.linewidth": 0.6, "axes.axisbelow": True, "svg.fonttype": "none",
    "legend.frameon": False, "lines.linewidth": 1.8, "svg.hashsalt": "hierlpr",
}  # fmt: skip


def draw_curves(curves: Curves, *, max_recall: float, stem: Path) -> None:
    """Draw mean precision against recall, one panel a setting, with two standard errors shaded."""
    with _canvas() as plt:
        settings = curves.settings
        n_columns = min(2, len(settings))
        n_rows = -(-len(settings) // n_columns)
        figure, axes = plt.subplots(
            n_rows, n_columns, figsize=(4.2 * n_columns, 0.7 + 3.1 * n_rows), squeeze=False
        )
        shown = np.flatnonzero(RECALL_GRID - max_recall <= 1e-9)
        for axis, setting in zip(axes.flat, settings, strict=False):
            for method in curves.methods:
                if (setting, method) not in curves.curves:
                    continue
                _band(axis, method, *curves.curves[setting, method], shown)
            axis.set_title(f"Setting {setting}: {SETTING_TITLES.get(setting, '')}", fontsize=10)
            axis.set_xlim(0, max_recall)
            axis.set_xlabel("recall")
            axis.set_ylabel("precision")
        for axis in list(axes.flat)[len(settings) :]:
            axis.set_visible(False)
        _shared_legend(figure, axes[0, 0])
        _save(figure, stem)


def draw_areas(curves: Curves, *, stem: Path) -> None:
    """Draw normalized hit areas and early precision of every method, with two standard errors."""
    with _canvas() as plt:
        figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.6), sharey=True)
        measures = (
            ("hit_area", "normalized area under the hit curve\n(0 random, 1 perfect)"),
            ("early", "mean pooled precision\nup to recall 0.5"),
        )
        settings, methods = curves.settings, curves.methods
        for axis, (measure, title) in zip(axes, measures, strict=True):
            for i, method in enumerate(methods):
                points = [curves.mean(setting, method, measure) for setting in settings]
                height = np.arange(len(settings)) + 0.16 * (i - (len(methods) - 1) / 2)
                axis.errorbar(
                    [p[0] for p in points], height, xerr=[2 * p[1] for p in points],
                    linestyle="none", marker=STYLE[method]["marker"], markersize=5,
                    color=STYLE[method]["color"], capsize=2, label=NAMES.get(method, method),
                )  # fmt: skip
            axis.set_xlabel(title)
        labels = [f"{s}: {SETTING_TITLES.get(s, s)}" for s in settings]
        axes[0].set_yticks(range(len(settings)), labels)
        axes[0].invert_yaxis()
        _shared_legend(figure, axes[0])
        _save(figure, stem)


def draw_disease(curves: Curves, *, stem: Path) -> None:
    """Draw the precision-recall curves of the disease-like study."""
    with _canvas() as plt:
        figure, axis = plt.subplots(figsize=(6.2, 4.4))
        for method in curves.methods:
            style, name = STYLE[method], NAMES.get(method, method)
            if ("disease", method) in curves.curves:
                _band(axis, method, *curves.curves["disease", method])
            else:
                recall, precision = (
                    curves.mean("disease", method, x)[0] for x in ("recall", "precision")
                )
                axis.plot([recall], [precision], label=name, markersize=9, **style)
        axis.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall", ylabel="precision")
        axis.set_title("Disease-like data: 196 samples, 110 labels in 24 trees", fontsize=10)
        axis.legend(loc="lower left")
        _save(figure, stem)


def draw_table2(summary: Sequence[Row], *, stem: Path) -> None:
    """Draw how far targets are missed, beside the paper's numbers."""
    with _canvas() as plt:
        settings = list(dict.fromkeys(row["setting"] for row in summary))
        figure, axes = plt.subplots(
            1, len(settings), figsize=(1.2 + 2.4 * len(settings), 3.4), squeeze=False
        )
        for axis, setting in zip(axes.flat, settings, strict=True):
            rows = {row["target"]: row for row in summary if row["setting"] == setting}
            places = np.arange(len(TARGETS))
            ours = [rows[t]["mean_if_reachable"] for t in TARGETS]
            paper = [rows[t]["paper_mean"] for t in TARGETS]
            axis.axhline(0, color="#555555", linewidth=0.8)
            axis.bar(places - 0.2, paper, 0.38, color="#c9c9c9", label="paper")
            axis.bar(places + 0.2, ours, 0.38, color="#0b5fa5", label="here, target reachable")
            for place, target in zip(places, TARGETS, strict=True):
                share = rows[target]["reachable"]
                if share < 0.995:
                    value = np.nan_to_num(rows[target]["mean_if_reachable"])
                    axis.annotate(
                        f"{share:.0%}", (place + 0.2, max(0.0, value)), ha="center",
                        va="bottom", fontsize=8, xytext=(0, 2), textcoords="offset points",
                    )  # fmt: skip
            axis.set_xticks(places, TARGETS, rotation=45, ha="right")
            axis.set_title(f"Setting {setting}", fontsize=10)
            axis.grid(axis="x", visible=False)
        axes[0, 0].set_ylabel("target minus achieved,\npercentage points")
        _shared_legend(figure, axes[0, 0])
        _save(figure, stem)


def _band(axis: Any, method: str, mean: Any, error: Any, shown: Any = slice(None)) -> None:
    """Draw the mean curve of a method, two standard errors shaded."""
    style = {k: v for k, v in STYLE[method].items() if k != "marker"}
    recall, value, error = RECALL_GRID[shown], mean[shown], error[shown]
    axis.plot(recall, value, label=NAMES.get(method, method), **style)
    highest = np.minimum(1, value + 2 * error)
    shade: Any = {"color": style["color"], "alpha": 0.12, "linewidth": 0}
    axis.fill_between(recall, value - 2 * error, highest, **shade)


class _canvas:  # noqa: N801
    """A drawing context that leaves the user's own plotting settings alone."""

    def __enter__(self) -> Any:
        import matplotlib as mpl

        mpl.use("Agg", force=False)
        import matplotlib.pyplot as plt

        self._context = mpl.rc_context(_RC)
        self._context.__enter__()
        return plt

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(None, None, None)


def _shared_legend(figure: Any, axis: Any) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=len(labels))
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.34 / figure.get_figheight()))


def _save(figure: Any, stem: Path) -> None:
    import matplotlib.pyplot as plt

    if not figure.legends:
        figure.tight_layout()
    for options in ({"format": "svg", "metadata": {"Date": None}}, {"format": "png", "dpi": 150}):
        with writing(stem.with_suffix(f".{options['format']}")) as part:
            figure.savefig(part, **options)
    plt.close(figure)
