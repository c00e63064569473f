"""Pages of a report: HTML files that allow only their own style and script.

Figures are SVG inside the page whose colours follow light and dark mode: they are drawn with the
marker colours `COLORS`, and `figure_text` turns each into a class (such as ``fill-ink``) whose
colour the style sheet decides. Inline styles become attributes, so that a strict content security
policy can forbid inline styles.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
from dataclasses import dataclass
from importlib import resources
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from hierlpr import __version__
from hierlpr._utils.files import atomic_output
from hierlpr.plots.drawing import PALETTE, style_axes
from hierlpr.report.answer import UNKNOWN, from_to, percent

# Near-black marker colours that nothing else uses; the names are those of the style sheet.
COLORS = {name: f"#0000{i:02x}" for i, name in enumerate(PALETTE, start=1)}
_NAMES = {color: name for name, color in COLORS.items()}
# In the order in which they run: later scripts use earlier ones.
SCRIPTS = ("dom", "csv", "tree", "browse", "table", "labels", "samples", "curves", "start")
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_DROPPED = {"metadata", "style", "title", "desc"}
_SIZE = re.compile(r"([\d.]+)px")


def write_page(path: str | os.PathLike[str], text: str) -> None:
    """Write a page, whole or not at all."""
    with atomic_output(path) as part:
        # A title from a command line may hold bytes that are not valid text.
        Path(part).write_bytes(text.encode("utf-8", errors="replace"))


def render_page(data: Any, **values: Any) -> str:
    """Fill in the template; `data` is what the scripts draw from."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    env = Environment(
        loader=PackageLoader("hierlpr.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(
        percent=percent,
        from_to=from_to,
        count=lambda n: f"{n:,}",
        plural=_plural,
        number=_number,
        tenths=lambda x: UNKNOWN if x is None else f"{100 * x:.1f} %",
        six=lambda x: "" if x is None or not math.isfinite(x) else f"{x:.6g}",
        nobreak=_nobreak,
    )
    style, script = asset("report.css"), "\n".join(asset(f"{name}.js") for name in SCRIPTS)
    return env.get_template("report.html.j2").render(
        style=style,
        script=script,
        policy=content_policy(style, script),
        data=island(data),
        version=__version__,
        **values,
    )


def island(data: Any) -> str:
    """Return JSON that is safe inside a script element: nothing in it can end the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)  # ASCII only
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def asset(name: str) -> str:
    """Return a style sheet or script of the package."""
    return resources.files("hierlpr.report").joinpath("assets", name).read_text(encoding="utf-8")


def content_policy(style: str, script: str, *, media: str = "img-src data:") -> str:
    """Return a policy that allows this style sheet, this script and `media`, and nothing else."""

    def allowed(text: str) -> str:
        digest = hashlib.sha256(text.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    return (
        f"default-src 'none'; script-src {allowed(script)}; style-src {allowed(style)}; "
        f"{media}; base-uri 'none'; form-action 'none'"
    )


def _number(value: float | None, digits: int = 3) -> str:
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def _plural(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def _nobreak(text: str) -> str:
    """Keep a number and its percent sign, and the ends of an interval, on one line."""
    joined = "\N{WORD JOINER}\N{EN DASH}\N{WORD JOINER}"
    return text.replace(" %", "\N{NO-BREAK SPACE}%").replace("\N{EN DASH}", joined)


# -- figures ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FigureText:
    """A figure as SVG, with its title and caption.

    `plot` says where the axes are in the drawing and what its curves are called, so that the script
    of the page can read values from the drawn lines.
    """

    key: str
    title: str
    svg: str
    caption: str
    plot: dict[str, Any]


def figure() -> tuple[Any, Any]:
    """Return an empty figure and its axes, in the style of the report."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_rc()):
        made = Figure(figsize=(430 / 72, 310 / 72), dpi=72, layout="constrained")
        made.patch.set_visible(False)
        axes = made.add_subplot()
        axes.patch.set_visible(False)
        style_axes(axes, COLORS)
    return made, axes


def figure_text(made: Any, key: str, title: str, caption: str, description: str) -> FigureText:
    """Return the figure as an SVG element whose ids begin with `key`.

    Screen readers read the title, as it is shown, and `description`.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    out = BytesIO()
    canvas: Any = FigureCanvasSVG(made)
    axes = made.axes[0]
    lines = [x for x in axes.lines if len(x.get_xdata()) > 2 and x.get_label()[:1] != "_"]
    for i, line in enumerate(lines):
        line.set_gid(f"curve-{i}")
    with mpl.rc_context(_rc(**{"svg.hashsalt": key})):
        canvas.print_svg(out, metadata={"Date": None})
    (left, bottom), (right, top) = axes.get_window_extent().get_points().tolist()
    height = float(made.bbox.height)  # SVG counts from the top
    plot = {
        "box": [round(x, 2) for x in (left, height - top, right, height - bottom)],
        "axes": [_axis_data(axes.xaxis, axes.get_xlim()), _axis_data(axes.yaxis, axes.get_ylim())],
        "curves": {f"{key}-curve-{i}": line.get_label() for i, line in enumerate(lines)},
    }
    root = ElementTree.fromstring(out.getvalue())
    _strip(root)
    for element in root.iter():
        _restyle(element)
        _rename(element, key)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {
        "id": key,
        "role": "img",
        "aria-label": title,
        "aria-describedby": f"{key}-desc",
    }
    element = ElementTree.Element(f"{{{_SVG}}}desc", {"id": f"{key}-desc"})
    element.text = description
    root.insert(0, element)
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return FigureText(key, title, ElementTree.tostring(root, encoding="unicode"), caption, plot)


def _axis_data(axis: Any, limits: tuple[float, float]) -> list[Any]:
    """Return limits and name of an axis, and whether it shows shares."""
    from matplotlib.ticker import PercentFormatter

    is_share = isinstance(axis.get_major_formatter(), PercentFormatter)
    return [*map(float, limits), axis.get_label_text(), is_share]


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
