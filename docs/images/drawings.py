"""Draw idea.svg, idea-tall.svg (for phones) and architecture.svg.

``python docs/images/drawings.py`` writes them beside itself.
"""

from pathlib import Path

INK, GREY, FILL, CALL, CUT = "#1a2233", "#69748a", "#eef1f8", "#3b62c4", "#c2410c"
MIDDLE, END = 'text-anchor="middle"', 'text-anchor="end"'
TITLE = "Scores become local precision rates, then blocks, then one ranking, which is cut once"
TREE = {"disease": (95, 70), "cancer": (50, 135), "infection": (142, 135), "leukemia": (50, 200)}
EDGES = [("disease", "cancer"), ("disease", "infection"), ("cancer", "leukemia")]
SCORES = {"disease": "2.1", "cancer": "-0.3", "infection": "40", "leukemia": "0.98"}
LPRS = {"disease": ".95", "cancer": ".50", "infection": ".10", "leukemia": ".90"}
RANKED = [("disease", "patient 1", ".95", 1), ("disease", "patient 2", ".88", 1),
          ("cancer", "patient 1", ".70", 1), ("leukemia", "patient 1", ".70", 1),
          ("infection", "patient 2", ".31", 0), ("infection", "patient 1", ".10", 0)]  # fmt: skip
STEPS = [("hierarchy", "hierarchy"), ("scores", "data, io, first_stage"), ("LPR", "lpr"),
         ("joint", "joint (optional)"), ("blocks", "ranking"), ("ranking", "ranking"),
         ("cutoff", "cutoff"), ("decisions", "model"), ("report", "plots, report")]  # fmt: skip


def text(x: float, y: float, words: str, size: int = 13, colour: str = INK, more: str = "") -> str:
    """Return a text element."""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" {more}>{words}</text>'


def box(x: float, y: float, width: float, height: float) -> str:
    """Return a rounded box around a place."""
    return (
        f'<rect x="{x - width / 2}" y="{y - height / 2}" width="{width}" height="{height}" rx="8" '
        f'fill="{FILL}" stroke="{GREY}"/>'
    )


def tree(
    x: float, y: float, head: str, values: dict[str, str], caption: str, blocks: bool = False
) -> list[str]:
    """Draw the four labels of one sample with a value each."""
    out = [f'<g transform="translate({x} {y})">', heading(95, head)]
    if blocks:
        out.append(f'<rect x="6" y="112" width="88" height="112" rx="16" fill="none" '
                   f'stroke="{CALL}" stroke-width="2" stroke-dasharray="5 4"/>')  # fmt: skip
    out.append(text(95, 243, caption, 12, CALL if blocks else GREY, MIDDLE))
    for a, b in EDGES:
        (x1, y1), (x2, y2) = TREE[a], TREE[b]
        out.append(f'<line x1="{x1}" y1="{y1 + 15}" x2="{x2}" y2="{y2 - 16}" stroke="{GREY}"/>')
    for name, (cx, cy) in TREE.items():
        out += [box(cx, cy, 76, 34), text(cx, cy - 3, name, 12, GREY, MIDDLE)]
        out.append(text(cx, cy + 12, values[name], 13, INK, MIDDLE))
    return [*out, "</g>"]


def ranking(x: float, y: float) -> list[str]:
    """Draw the list of all instances, cut once."""
    head = "4. one ranking, 5. one cutoff"
    out = [f'<g transform="translate({x} {y})">', heading(140, head)]
    for i, (label, sample, score, called) in enumerate(RANKED):
        at = 62 + 28 * i + (14 if not called else 0)
        colour = CALL if called else GREY
        for column, word in zip((10, 35, 115, 190), (i + 1, sample, label, score), strict=True):
            out.append(text(column, at, str(word), 13, colour))
    out.append(f'<line x1="0" x2="280" y1="162" y2="162" stroke="{CUT}" stroke-width="2"/>')
    out.append(text(280, 156, "called", 12, CALL, END))
    out.append(text(280, 177, "not called", 12, GREY, END))
    return [*out, "</g>"]


def heading(x: float, words: str) -> str:
    """Return the heading of a panel."""
    return text(x, 30, words, 15, INK, MIDDLE + ' font-weight="600"')


def arrow(x: float, y: float, sign: str = "→") -> str:
    """Return an arrow between two panels."""
    return text(x, y, sign, 22, GREY, MIDDLE)


def drawing(width: int, height: int, title: str, parts: list[str]) -> str:
    """Return a whole file."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            'font-family="system-ui, sans-serif">',
            f"<title>{title}</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def idea(places: list[tuple[int, int]], width: int, height: int, arrows: list[str]) -> str:
    """Draw the idea with its four panels at the given places."""
    first, second, third, fourth = places
    parts = tree(*first, "1. scores", SCORES, "any scale per label")
    parts += tree(*second, "2. LPRs", LPRS, "chance given its own score")
    parts += tree(*third, "3. blocks", LPRS, "block: (.50 + .90) / 2 = .70", blocks=True)
    parts += ranking(*fourth)
    return drawing(width, height, TITLE, parts + arrows)


def architecture() -> str:
    """Draw the steps from the hierarchy to the report, each with its packages."""
    parts = []
    for i, (step, packages) in enumerate(STEPS):
        x, y = 75 + 150 * (i % 3), 35 + 70 * (i // 3)
        parts += [box(x, y, 126, 46), text(x, y - 3, step, 14, INK, MIDDLE + ' font-weight="600"')]
        parts.append(text(x, y + 14, packages, 11, GREY, MIDDLE))
        if i % 3:
            parts.append(arrow(x - 75, y + 6))
        elif i:
            parts.append(f'<path d="M 375 {y - 46} v 11 h -300 v 10" fill="none" stroke="{GREY}"/>')
            parts.append(f'<path d="M 71 {y - 29} h 8 l -4 6 z" fill="{GREY}"/>')
    return drawing(450, 210, "From a hierarchy and scores to calls and a report", parts)


if __name__ == "__main__":
    wide = idea([(0, 0), (220, 0), (440, 0), (700, 0)], 1000, 262,
                [arrow(x, 140) for x in (205, 425, 655)])  # fmt: skip
    tall = idea([(0, 0), (210, 0), (0, 265), (60, 525)], 400, 765,
                [arrow(200, 140), text(210, 400, "the child's LPR is higher", 13, GREY),
                 text(210, 418, "than its parent's, so they", 13, GREY),
                 text(210, 436, "are called together", 13, GREY)])  # fmt: skip
    for name, made in {"idea": wide, "idea-tall": tall, "architecture": architecture()}.items():
        Path(__file__).with_name(f"{name}.svg").write_text(made, encoding="utf-8")
