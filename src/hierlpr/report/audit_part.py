"""The part of a report about an audit: its certificate over time, and what was checked by label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hierlpr._utils.checks import quote_names
from hierlpr.audit import Audit
from hierlpr.exceptions import DataError
from hierlpr.plots.drawing import count_axes, line_style
from hierlpr.report.html import COLORS, FigureText, figure, figure_text

MOST_LABELS = 200


class CheckedLabel(NamedTuple):
    """How many calls of a label were checked, and how many of these are correct."""

    label: str
    n_checked: int
    n_correct: int


@dataclass(frozen=True, slots=True)
class AuditPart:
    """What an audit certifies after its checks so far; `history` has checks and certified calls."""

    statement: str
    n_planned: int
    history: tuple[tuple[int, int], ...]
    labels: tuple[CheckedLabel, ...]
    n_labels: int


def audit_part(audit: Audit, samples: Sequence[str]) -> AuditPart:
    """Return the numbers about an audit of the samples of a report; others are refused."""
    names = {*map(str, audit.samples)}
    other = [name for name in samples if name not in names]
    if other:
        raise DataError(
            f"The audit is about other samples than the report: {quote_names(other)}.\n"
            "Hint: give the scores that were audited."
        )
    counts: dict[str, list[bool]] = {}
    frame = audit.checked(backend="pyarrow").to_pydict()
    for label, is_correct in zip(frame["label"], frame["correct"], strict=True):
        counts.setdefault(label, []).append(is_correct)
    rows = [CheckedLabel(label, len(x), sum(x)) for label, x in counts.items()]
    rows.sort(key=lambda row: (-row.n_checked, audit.hierarchy.index(row.label)))
    history = tuple(audit.history())
    return AuditPart(str(audit), audit.horizons[-1], history, tuple(rows[:MOST_LABELS]), len(rows))


def audit_figure(part: AuditPart) -> FigureText:
    """Draw the number of certified calls after each number of checks."""
    drawing, axes = figure()
    checks, calls = zip(*part.history, strict=True)
    axes.step(checks, calls, where="post", **line_style(0, COLORS))
    axes.set(xlabel="checked samples", ylabel="certified calls")
    count_axes(axes)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    points = "; ".join(f"{n:,}: {k:,}" for n, k in part.history)
    return figure_text(
        drawing, "fig-audit", "Certified calls by number of checks", part.statement,
        f"Certified calls after each number of checked samples. {points}.",
    )  # fmt: skip
