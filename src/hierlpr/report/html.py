"""A page of a report: one HTML file that allows its own style and script and nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from importlib import resources
from typing import Any

from hierlpr import __version__
from hierlpr.report.answer import UNKNOWN, from_to, percent


def render_page(template: str, scripts: Sequence[str], data: Any, **values: Any) -> str:
    """Fill a template; `data` is what the scripts draw from."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    env = Environment(
        loader=PackageLoader("hierlpr.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(
        percent=percent, from_to=from_to, count=lambda n: f"{n:,}", number=_number, nobreak=_nobreak
    )
    style, script = _asset("report.css"), "\n".join(_asset(name) for name in scripts)
    return env.get_template(template).render(
        style=style,
        script=script,
        policy=_policy(style, script),
        data=island(data),
        version=__version__,
        **values,
    )


def island(data: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)  # ASCII only
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _asset(name: str) -> str:
    return resources.files("hierlpr.report").joinpath("assets", name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Allow this very style sheet and this very script, and nothing else from anywhere."""

    def allowed(text: str) -> str:
        digest = hashlib.sha256(text.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    return (
        f"default-src 'none'; script-src {allowed(script)}; style-src {allowed(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _number(value: float | None, digits: int = 3) -> str:
    return UNKNOWN if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _nobreak(text: str) -> str:
    """Keep a number and its percent sign on one line."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")
