"""One self-contained page: our numbers beside the paper's, and what its claims come to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hierlpr._base.files import writing
from hierlpr.research.reproduce.run import Curves, Verdict
from hierlpr.research.reproduce.studies import HIT_AREA, SETTING_TITLES

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: text, a table, and figures by the stem of their files."""

    title: str
    text: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    figures: Sequence[tuple[str, str]] = field(default=())


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
{% for svg, caption in s.figures %}<figure>{{ svg | safe }}
<figcaption>{{ caption }}</figcaption></figure>{% endfor %}
{% endfor %}
</body></html>
"""


def write_page(path: Path, intro: str, sections: Sequence[Section]) -> None:
    """Write the page with its figures inside, whole or not at all."""
    from jinja2 import Environment

    inlined = [
        {"title": s.title, "text": s.text, "header": s.header, "rows": s.rows,
         "figures": [(_svg(path.parent / f"{stem}.svg", stem), text) for stem, text in s.figures]}
        for s in sections
    ]  # fmt: skip
    template = Environment(autoescape=True).from_string(_TEMPLATE)
    with writing(path) as part:
        part.write_text(template.render(intro=intro, sections=inlined), encoding="utf-8")


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
