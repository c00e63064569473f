"""A hierarchy as a small tree of text: what one sees when one prints it."""

from __future__ import annotations

from collections.abc import Sequence

from hierlpr._base.showing import plain
from hierlpr.hierarchy.label_graph import Hierarchy

MOST_LINES = 24
MOST_SIBLINGS = 6
WIDEST = 70  # characters of a label and its name


def tree_text(hierarchy: Hierarchy) -> str:
    """Return the first labels as an indented tree; what is left out is counted.

    A label with several parents stands below each of them, with its own children below the first.

    >>> print(tree_text(Hierarchy([("A", "B"), ("A", "C"), ("B", "D"), ("C", "D")])))
    A
    ├─ B
    │  └─ D
    └─ C
       └─ D (see above)
    """
    lines: list[str] = []
    shown: set[str] = set()
    # Last in, first out: of each label its branch, and what its children are indented by.
    stack = _siblings(hierarchy.roots, "", is_root=True)
    while stack and len(lines) < MOST_LINES:
        label, lead, indent = stack.pop()
        if label is None:
            lines.append(lead)
            continue
        again = label in shown and bool(hierarchy.children(label) or hierarchy.parents(label))
        note = " (see above)" if again else ""
        lines.append(f"{lead}{plain(hierarchy.caption(label), most=WIDEST)}{note}")
        if not again:
            shown.add(label)
            stack.extend(_siblings(hierarchy.children(label), indent, is_root=False))
    left = hierarchy.n_labels - len(shown)
    if stack:
        lines.append(f"... {left:,} more labels")
    return "\n".join(lines)


def _siblings(
    labels: Sequence[str], indent: str, *, is_root: bool
) -> list[tuple[str | None, str, str]]:
    """Return the lines of siblings backwards, to be popped: (label, what leads it, indent)."""
    n_shown = len(labels) if len(labels) <= MOST_SIBLINGS else MOST_SIBLINGS - 1
    lines: list[tuple[str | None, str, str]] = []
    for place, label in enumerate(labels[:n_shown]):
        is_last = place == len(labels) - 1
        branch, below = ("", "") if is_root else (("└─ ", "   ") if is_last else ("├─ ", "│  "))
        lines.append((label, indent + branch, indent + below))
    if n_shown < len(labels):
        branch = "" if is_root else "└─ "
        lines.append((None, f"{indent}{branch}... {len(labels) - n_shown:,} more", ""))
    return lines[::-1]
