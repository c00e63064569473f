"""Draw idea.svg: scores, local precision rates, blocks, one ranking, one cutoff."""

from pathlib import Path

INK, GREY, FILL, CALL = "#1a2233", "#69748a", "#eef1f8", "#3b62c4"
TREE = {"disease": (95, 70), "cancer": (50, 135), "infection": (142, 135), "leukemia": (50, 200)}
EDGES = [("disease", "cancer"), ("disease", "infection"), ("cancer", "leukemia")]
SCORES = {"disease": "2.1", "cancer": "-0.3", "infection": "40", "leukemia": "0.98"}
LPRS = {"disease": ".95", "cancer": ".50", "infection": ".10", "leukemia": ".90"}
RANKED = [("disease", "patient 1", ".95", 1), ("disease", "patient 2", ".88", 1),
          ("cancer", "patient 1", ".70", 1), ("leukemia", "patient 1", ".70", 1),
          ("infection", "patient 2", ".31", 0), ("infection", "patient 1", ".10", 0)]  # fmt: skip


def text(x: float, y: float, words: str, size: int = 13, colour: str = INK, more: str = "") -> str:
    """Return a text element."""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" {more}>{words}</text>'


def tree(x: float, values: dict[str, str], blocks: bool = False) -> list[str]:
    """Draw the four labels of one sample with a value each."""
    out = []
    if blocks:
        out.append(f'<rect x="{x + 6}" y="112" width="88" height="112" rx="16" fill="none" '
                   f'stroke="{CALL}" stroke-width="2" stroke-dasharray="5 4"/>')  # fmt: skip
        out.append(text(x + 50, 243, "block: (.50 + .90) / 2 = .70", 11, CALL, MIDDLE))
    for a, b in EDGES:
        (x1, y1), (x2, y2) = TREE[a], TREE[b]
        out.append(f'<line x1="{x + x1}" y1="{y1 + 15}" x2="{x + x2}" y2="{y2 - 16}" '
                   f'stroke="{GREY}"/>')  # fmt: skip
    for name, (cx, cy) in TREE.items():
        out.append(f'<rect x="{x + cx - 38}" y="{cy - 17}" width="76" height="34" rx="8" '
                   f'fill="{FILL}" stroke="{GREY}"/>')  # fmt: skip
        out.append(text(x + cx, cy - 3, name, 11, GREY, MIDDLE))
        out.append(text(x + cx, cy + 12, values[name], 13, INK, MIDDLE))
    return out


MIDDLE = 'text-anchor="middle"'


def picture() -> str:
    """Return the whole drawing."""
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 262" role="img" '
             'font-family="system-ui, sans-serif">',
             "<title>Scores become local precision rates, then blocks, then one ranking, which is "
             "cut once</title>",
             '<rect width="1000" height="262" fill="#ffffff"/>']  # fmt: skip
    heads = [(95, "1. scores"), (315, "2. chances (LPRs)"), (535, "3. blocks"),
             (840, "4. one ranking, 5. one cutoff")]  # fmt: skip
    parts += [text(x, 30, words, 15, INK, MIDDLE + ' font-weight="600"') for x, words in heads]
    parts += tree(0, SCORES) + tree(220, LPRS) + tree(440, LPRS, blocks=True)
    parts += [text(x, 140, "→", 22, GREY, MIDDLE) for x in (205, 425, 655)]
    for i, (label, sample, score, called) in enumerate(RANKED):
        y = 62 + 28 * i + (14 if not called else 0)
        colour = CALL if called else GREY
        parts.append(text(710, y, f"{i + 1}", 13, GREY))
        parts.append(text(735, y, sample, 13, colour))
        parts.append(text(815, y, label, 13, colour))
        parts.append(text(885, y, score, 13, colour))
    y = 62 + 28 * 4 - 12
    parts.append(f'<line x1="700" x2="980" y1="{y}" y2="{y}" stroke="#c2410c" stroke-width="2"/>')
    parts.append(text(980, y - 6, "called", 11, CALL, 'text-anchor="end"'))
    parts.append(text(980, y + 14, "not called", 11, GREY, 'text-anchor="end"'))
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    Path(__file__).with_name("idea.svg").write_text(picture(), encoding="utf-8")
