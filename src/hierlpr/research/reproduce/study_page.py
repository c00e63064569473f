"""What a reproduction shows: figures as SVG and PNG, and one page beside the paper's numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hierlpr._base.files import writing
from hierlpr.research.reproduce.studies import HIT_AREA, RECALL_GRID, SETTING_TITLES, TARGETS

if TYPE_CHECKING:
    from hierlpr.research.reproduce import Curves, Verdict

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


@contextmanager
def _canvas() -> Iterator[Any]:
    """Give a drawing context that leaves the user's own plotting settings alone."""
    import matplotlib as mpl

    mpl.use("Agg", force=False)
    import matplotlib.pyplot as plt

    with mpl.rc_context(_RC):
        yield plt


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


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: text, a table, and figures by the stem of their files."""

    title: str
    text: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    figures: Sequence[tuple[str, str]] = ()


_TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>HierLPR: the paper's studies, run again</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1d1d1d; background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }
td { white-space: nowrap; }
th { border-bottom: 2px solid #888; } th:first-child, td:first-child { text-align: left; }
.text th, .text td { text-align: left; }
figure { margin: 1.5rem 0; } figure svg { width: 100%; height: auto; }
figcaption { font-size: .9rem; color: #555; }
</style></head><body>
<h1>The paper's studies, run again</h1>
<p>{{ intro }}</p>
{% for s in sections %}
<h2>{{ s.title }}</h2>
<p>{{ s.text }}</p>
{% if s.header %}<div class="wide"><table>
<thead><tr>{% for h in s.header %}<th scope="col">{{ h }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in s.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>{% endif %}
{% for stem, caption in s.figures %}<figure>{{ svg(stem) | safe }}
<figcaption>{{ caption }}</figcaption></figure>{% endfor %}
{% endfor %}
</body></html>
"""


def write_page(path: Path, intro: str, sections: Sequence[Section]) -> None:
    """Write the page with its figures inside, whole or not at all."""
    from jinja2 import Environment

    template = Environment(autoescape=True).from_string(_TEMPLATE)
    text = template.render(
        intro=intro, sections=sections, svg=lambda stem: _svg(path.parent / f"{stem}.svg", stem)
    )
    with writing(path) as part:
        part.write_text(text, encoding="utf-8")


def claims_section(verdicts: Sequence[Verdict]) -> Section:
    """List what the paper says and whether it holds here."""
    rows = [(v.words, v.setting, f"{v.difference:+.4f} ({v.error:.4f})", v.holds) for v in verdicts]
    text = (
        "Each claim is a difference between two methods, replication by replication: its mean and "
        "standard error. It holds, or fails, if it is more than three standard errors from zero. "
        "'To recall 0.5', and 'the initial portion', is the mean precision there; 'the beginning' "
        "is recall to 0.05; 'overall' is AU(PRC); 'later' is the share of other positives called "
        "before the middle standalone one."
    )
    header = ("the paper says", "setting", "difference (s.e.)", "holds here")
    return Section("The claims", text, header, rows)


def areas_section(curves: Curves) -> Section:
    """Areas and precisions of every method, beside the paper's areas."""
    header = ["setting", "method", "normalized hit area", "hit area, millions",
              "paper's, millions", "precision to recall 0.5", "AU(PRC)"]  # fmt: skip
    rows = []
    for setting in curves.settings:
        for method in curves.methods:
            area, millions, early, prc = (
                curves.mean(setting, method, m)
                for m in ("hit_area", "hit_area_millions", "early", "au_prc")
            )
            published = HIT_AREA.get(setting, {}).get(method)
            rows.append(
                (f"{setting}: {SETTING_TITLES.get(setting, '')}", method, _pm(area),
                 f"{millions[0]:.3f}", "" if published is None else f"{published:.3f}",
                 _pm(early), _pm(prc))
            )  # fmt: skip
    text = (
        "Means over replications, with standard errors. The paper's own areas come from data of "
        "another size and are not printed in it, only kept in its source: compare their order, "
        "not their values. 'oracle' ranks by the true posterior given all scores of a sample."
    )
    figures = (
        ("curves_half", "Precision against recall to 0.5, as in the paper's Figure 4."),
        ("curves_full", "The same over all recalls, as in the paper's appendix."),
        ("areas", "Areas under the hit curve, and precision up to recall 0.5."),
    )
    return Section("Settings 1 to 4", text, header, rows, figures)


def table2_section(summary: Sequence[Row]) -> Section:
    """Set the paper's Table 2 beside ours."""
    header = ["setting", "target", "here, where reachable (s.d.)", "reachable",
              "here, all (s.d.)", "paper (s.d.)", "optimum known"]  # fmt: skip
    rows = [
        (r["setting"], r["target"], f"{r['mean_if_reachable']:.2f} ({r['sd_if_reachable']:.2f})",
         f"{r['reachable']:.0%}", f"{r['mean_all']:.2f} ({r['sd_all']:.2f})",
         f"{r['paper_mean']:.2f} ({r['paper_sd']:.2f})",
         "" if np.isnan(r["known_optimum"]) else f"{r['known_optimum']:.2f}")
        for r in summary
    ]  # fmt: skip
    text = (
        "Percentage points that the test part falls short of the target: the precision asked for "
        "minus the precision achieved, and the best possible F minus the F achieved. Negative "
        "means better than asked. Where the calibration part cannot reach a target, the model "
        "says so and cuts where precision is best; 'all' counts these runs with that cutoff. "
        "'Optimum known' is the shortfall of F with the true LPRs and the best cutoff of the "
        "whole population: what chance alone costs, since the best cutoff of a test part fits "
        "its noise."
    )
    figures = (
        ("table2", "Shares above bars: runs in which the target was reachable, if not all."),
    )
    return Section("Table 2: cutoffs", text, header, rows, figures)


def disease_section(curves: Curves) -> Section:
    """Report the disease-like study."""
    header = ["method", "AU(PRC)", "precision to recall 0.5", "normalized hit area",
              "others called before standalone", "violations"]  # fmt: skip
    rows = []
    for method in curves.methods:
        measures = ("au_prc", "early", "hit_area", "others_before_alone", "violations")
        values = [curves.mean("disease", method, m) for m in measures]
        cells = ["" if np.isnan(v[0]) else _pm(v) for v in values[:4]]
        rows.append((method, *cells, f"{values[4][0]:,.0f}"))
    text = (
        "Simulated data with the shape of the paper's real data; all methods cross-validated on "
        "the same folds. 'Others called before standalone' is the share of all other positives "
        "called before the middle positive of the labels that stand alone: the paper observes "
        "that ClusHMC calls most of these after more than half of the others. 'Violations' counts "
        "(sample, parent, child) with the child called first."
    )
    figures = (("disease", "Mean precision against recall; the cross is a single set of calls."),)
    return Section("Disease-like data", text, header, rows, figures)


def _pm(value: tuple[float, float]) -> str:
    return f"{value[0]:.4f} ({value[1]:.4f})"


def _svg(path: Path, prefix: str) -> str:
    """Read a figure for inlining: no XML prologue, names made unique within the page."""
    text = path.read_text(encoding="utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)
    return re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', text)
