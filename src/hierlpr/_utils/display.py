"""Names and numbers as text and HTML that no name can break out of."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

BAR = 36  # characters of a progress bar
WIDEST = 60  # characters of a name in a text table


def escape_control(text: Any, *, most: int | None = None) -> str:
    r"""Return text on one line without control characters; text longer than `most` is cut.

    >>> escape_control("a\nb \x1b[31mred"), escape_control("abcdefgh", most=5)
    ('a\\nb \\x1b[31mred', 'abcd…')
    """
    given = str(text)
    if not given.isprintable():
        given = "".join(c if c.isprintable() else repr(c)[1:-1] for c in given)
    if most is not None and len(given) > most:
        given = f"{given[: most - 1]}…"
    return given


def text_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as aligned columns: numbers to the right, names to the left.

    >>> print(text_table(["label", "lpr"], [["dog", 0.5], ["animal", 0.75]]))
    label     lpr
    dog     0.500
    animal  0.750
    """
    given = [list(row) for row in rows]
    cells = [list(head), *([_cell(value) for value in row] for row in given)]
    width = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [
        bool(given) and all(not isinstance(row[k], str) for row in given) for k in range(len(head))
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
    """Return an HTML table with all cells escaped.

    >>> html_table(["label"], [["<b>"]])
    '<table><thead><tr><th>label</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(_cell(value, most=None))}</td>' for value in row)}</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def terminal_progress(what: str, *, verbose: bool | None) -> Callable[[int, int], None] | None:
    """Return a callback that draws a progress bar on stderr, or None.

    With ``verbose=None`` it is drawn only if stderr is a terminal.
    """
    stream = sys.stderr
    if verbose is False or (verbose is None and not stream.isatty()):
        return None

    def draw(done: int, total: int) -> None:
        end = "\n" if done >= total else ""
        share = done / max(total, 1)
        stream.write(f"\r{what}  [{'#' * int(BAR * share):-<{BAR}}]  {share:4.0%}{end}")
        stream.flush()

    return draw


def _cell(value: Any, *, most: int | None = WIDEST) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, int):
        return f"{value:,}"
    return escape_control(value, most=most)
