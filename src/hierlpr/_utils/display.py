"""Names and numbers as text and HTML that no name can break out of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

WIDEST = 60  # characters of a name in a text table


def escape_control(text: Any, *, most: int | None = None) -> str:
    r"""Return text on one line without control characters; text longer than `most` is cut.

    >>> escape_control("a\nb \x1b[31mred"), escape_control("abcdefgh", most=5)
    ('a\\nb \\x1b[31mred', 'abcd…')
    """
    line = str(text)
    if not line.isprintable():
        line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)
    return line if most is None or len(line) <= most else f"{line[: most - 1]}…"


def text_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as aligned columns: numbers to the right, names to the left.

    >>> print(text_table(["label", "lpr"], [["dog", 0.5], ["animal", 0.75]]))
    label     lpr
    dog     0.500
    animal  0.750
    """
    values = [list(row) for row in rows]
    cells = [list(head), *([_cell(value) for value in row] for row in values)]
    width = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [
        bool(values) and all(not isinstance(row[k], str) for row in values)
        for k in range(len(head))
    ]
    lines = []
    for row in cells:
        parts = (
            cell.rjust(w) if r else cell.ljust(w)
            for cell, w, r in zip(row, width, right, strict=True)
        )
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def html_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return an HTML table with all cells escaped; texts stand to the left, also in notebooks.

    >>> html_table(["lpr"], [[0.5]])
    '<table><thead><tr><th>lpr</th></tr></thead><tbody><tr><td>0.500</td></tr></tbody></table>'
    """
    listed: list[Sequence[Any]] = [list(row) for row in rows]
    is_text = [isinstance(cell, str) for cell in (listed or [head])[0]]
    styles = [' style="text-align:left"' if left else "" for left in is_text]
    top = "".join(f"<th{x}>{escape(name)}</th>" for x, name in zip(styles, head, strict=True))
    body = "".join(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in listed)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def html_card(
    title: str, text: str, head: Sequence[str] = (), rows: Iterable[Sequence[Any]] = ()
) -> str:
    """Return what a notebook shows of an object: a title, its text, and a table if it has rows."""
    listed = list(rows)
    lines = escape(escape_control(title)), *map(escape, map(escape_control, text.splitlines()))
    prose = f"<b>{lines[0]}</b>{''.join(f'<br>{line}' for line in lines[1:])}"
    table = html_table(head, listed) if listed else ""
    return f'<div style="text-align:left"><p>{prose}</p>{table}</div>'


def _html_cell(value: Any) -> str:
    style = ' style="text-align:left"' if isinstance(value, str) else ""
    return f"<td{style}>{escape(_cell(value, most=None))}</td>"


def _cell(value: Any, *, most: int | None = WIDEST) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}" if value == value else ""
    if isinstance(value, int):
        return f"{value:,}"
    return escape_control(value, most=most)
