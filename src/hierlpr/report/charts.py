"""The four figures of a report, as SVG that lives in a page: its colours follow light and dark.

Figures are drawn with the marker colours of `COLORS`. `svg_of` turns each into a class
(``fill-ink``, ``stroke-ours``, ...) whose colour the style sheet decides, and every inline style
into attributes, so that a strict content security policy can forbid inline styles.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from xml.etree import ElementTree

from hierlpr.plots.comparisons import CalibrationCurve, MethodCurve, Promise
from hierlpr.plots.curve_displays import (
    CalibrationDisplay,
    HitDisplay,
    InUse,
    PrecisionDisplay,
    RecallDisplay,
)
from hierlpr.report.answer import Answer, percent

# Near-black colours that nothing else uses; the names are those of the style sheet.
COLORS = {
    name: f"#0000{i:02x}"
    for i, name in enumerate(
        ("ink", "muted", "grid", "ours", "lpr", "max", "raw", "cutoff", "paper"), start=1
    )
}
_NAMES = {color: name for name, color in COLORS.items()}
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_DROPPED = {"metadata", "style", "title", "desc"}
_SIZE = re.compile(r"([\d.]+)px")


@dataclass(frozen=True, slots=True)
class FigureText:
    """A figure as SVG, with its heading and what to see in it."""

    key: str
    title: str
    svg: str
    caption: str


def recall_figure(methods: tuple[MethodCurve, ...], answer: Answer) -> FigureText:
    """Pooled precision against recall, with the cutoff as a point."""
    made, axes = figure()
    RecallDisplay(methods, _in_use(answer)).plot(axes, colors=COLORS)
    areas = ", ".join(f"{m.name} {m.au_prc:.3f}" for m in methods)
    caption = "Higher is better; the early part, at the left, is where calls are made."
    return _text(
        made, "fig-pr", "Precision and recall", caption,
        f"Pooled precision against recall. Area under the curve: {areas}.",
    )  # fmt: skip


def hit_figure(methods: tuple[MethodCurve, ...], answer: Answer) -> FigureText:
    """Draw true calls against calls, up to three times the positives."""
    made, axes = figure()
    HitDisplay(methods, _in_use(answer)).plot(axes, colors=COLORS)
    areas = ", ".join(f"{m.name} {m.hit_area:.3f}" for m in methods)
    return _text(
        made, "fig-hit", "Hit curve",
        f"How many of the {answer.n_positives:,} true labels the first calls find; the thin line "
        "is a perfect order.",
        f"Right calls against calls. Normalized area, 0 random and 1 perfect: {areas}.",
    )  # fmt: skip


def precision_figure(promise: Promise, answer: Answer) -> FigureText:
    """Precision, observed and expected, against the number of calls."""
    made, axes = figure()
    PrecisionDisplay(promise, _in_use(answer)).plot(axes, colors=COLORS)
    if promise.precision is None:
        share = percent(answer.expected)
        at = f"At the cutoff, {answer.n_calls:,} calls, {share} are expected to be right."
        return _text(
            made, "fig-calls", "Share expected to be right, by number of calls",
            f"{at if answer.n_calls else 'Nothing is called at the cutoff.'} The model's own "
            "expectation: the mean chance of the calls so far.",
            f"Expected share of right calls against the number of calls. {at}",
        )  # fmt: skip
    at = (
        f"At the cutoff, {answer.n_calls:,} calls, {percent(answer.precision)} are right."
        if answer.n_calls
        else "Nothing is called at the cutoff."
    )
    return _text(
        made, "fig-calls", "Precision by number of calls",
        f"{at} Where the two lines agree, the model knows how sure it can be.",
        f"Observed and expected share of right calls against the number of calls. {at}",
    )  # fmt: skip


def calibration_figure(lpr: CalibrationCurve, block: CalibrationCurve) -> FigureText:
    """Predicted against observed frequency."""
    made, axes = figure()
    CalibrationDisplay(lpr, block).plot(axes, colors=COLORS)
    return _text(
        made, "fig-cal", "Calibration",
        "Of instances predicted at 70 %, do 70 % hold? On the diagonal they do. Mean gap: LPR "
        f"{lpr.error:.3f}, block score {block.error:.3f}.",
        "Predicted against observed frequency in ten bins. "
        + "; ".join(f"{b.predicted:.2f}: {b.observed:.2f} of {b.n:,}" for b in lpr.bins)
        + ".",
    )  # fmt: skip


def _text(made: Any, key: str, title: str, caption: str, description: str) -> FigureText:
    svg = svg_of(made, key=key, title=title, description=description)
    return FigureText(key, title, svg, caption)


def _in_use(answer: Answer) -> InUse:
    counts = (answer.n_calls, answer.n_true_calls, answer.n_positives, answer.n_instances)
    return InUse(*counts, (answer.precision, answer.recall))


# -- SVG --------------------------------------------------------------------------------------


def figure(width: float = 430, height: float = 310) -> tuple[Any, Any]:
    """Return an empty figure of so many pixels and its axes, in the style of the report."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_rc()):
        made = Figure(figsize=(width / 72, height / 72), dpi=72, layout="constrained")
        made.patch.set_visible(False)
        axes = made.add_subplot()
        axes.patch.set_visible(False)
        axes.grid(color=COLORS["grid"], linewidth=0.8)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            axes.spines[side].set_color(COLORS["muted"])
        axes.tick_params(colors=COLORS["muted"], labelcolor=COLORS["ink"], length=3)
    return made, axes


def svg_of(made: Any, *, key: str, title: str, description: str) -> str:
    """Return the figure as an SVG element whose ids begin with `key`, with text for screen readers.

    Equal figures give equal text.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    out = BytesIO()
    canvas: Any = FigureCanvasSVG(made)
    with mpl.rc_context(_rc(**{"svg.hashsalt": key})):
        canvas.print_svg(out, metadata={"Date": None})
    root = ElementTree.fromstring(out.getvalue())
    _strip(root)
    for element in root.iter():
        _restyle(element)
        _rename(element, key)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{key}-title {key}-desc")
    for place, (tag, text) in enumerate([("title", title), ("desc", description)]):
        element = ElementTree.Element(f"{{{_SVG}}}{tag}", {"id": f"{key}-{tag}"})
        element.text = text
        root.insert(place, element)
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def _rc(**more: Any) -> Any:
    return {
        **more,
        "svg.fonttype": "none",
        "font.size": 11,
        "text.color": COLORS["ink"],
        "axes.labelcolor": COLORS["ink"],
        "axes.edgecolor": COLORS["muted"],
        "path.simplify": False,
        "text.usetex": False,
        "text.parse_math": False,
    }


def _strip(element: ElementTree.Element) -> None:
    for child in list(element):
        if child.tag.rpartition("}")[2] in _DROPPED:
            element.remove(child)
        else:
            _strip(child)


def _restyle(element: ElementTree.Element) -> None:
    """Turn the inline style into attributes, and marker colours into classes."""
    for declaration in element.attrib.pop("style", "").split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name in ("font", "font-size"):
            size = _SIZE.search(value)
            element.set("font-size", size.group(1) if size else "11")
        elif name and name != "font-family":
            element.set(name, value)
    classes = []
    for name in ("fill", "stroke"):
        color = element.get(name, "")
        if color in _NAMES:
            classes.append(f"{name}-{_NAMES[color]}")
            del element.attrib[name]
    # Matplotlib leaves out the fill of black text, which is its default.
    if element.tag == f"{{{_SVG}}}text" and not any(c.startswith("fill-") for c in classes):
        classes.append("fill-ink")
    if classes:
        element.set("class", " ".join(classes))


def _rename(element: ElementTree.Element, key: str) -> None:
    """Make ids unique in the page."""
    if "id" in element.attrib:
        element.set("id", f"{key}-{element.attrib['id']}")
    link = f"{{{_XLINK}}}href"
    if link in element.attrib:
        element.set("href", f"#{key}-{element.attrib.pop(link).removeprefix('#')}")
    clip = element.get("clip-path")
    if clip is not None:
        element.set("clip-path", clip.replace("url(#", f"url(#{key}-"))
