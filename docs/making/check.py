"""Inspect a built site: dead links, raw TeX, figures without a description, options split in code.

``python docs/making/check.py site`` prints what is wrong and fails; `make docs` ends with it.
"""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from unbroken import LONGEST

__all__ = ["Page", "problems"]

_TEX = re.compile(
    r"\\\(|\\\)|\\\[|\\(?:frac|sum|prod|le|ge|text|mathrm|lambda|delta)\b|:math:|\[@\w"
)
_LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "srcset"}


class Page(HTMLParser):
    """The anchors, links, loaded files, figures without a description and text of one page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.text = ""
        self.bare_figures: list[str] = []
        self.split_options: list[str] = []
        self.deepest_quote = self._quotes = 0
        self._hidden = self._whole = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where the page leads and what it loads."""
        found = dict(attrs)
        if found.get("id"):
            self.anchors.add(str(found["id"]))
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))
        if tag in _LOADS and found.get(_LOADS[tag]) and found.get("rel") != "canonical":
            self.loads.append(str(found[_LOADS[tag]]))
        if tag == "img" and not found.get("alt") and "gallery" not in str(found.get("src")):
            self.bare_figures.append(str(found.get("src")))
        self._whole = self._whole + 1 if self._whole or found.get("class") == "word" else 0
        self._quotes += tag == "blockquote"
        self.deepest_quote = max(self.deepest_quote, self._quotes)
        self._hidden += tag in ("script", "style", "code", "pre")

    def handle_endtag(self, tag: str) -> None:
        """Leave code, scripts, styles and quotations."""
        self._whole -= self._whole > 0
        self._quotes -= tag == "blockquote"
        self._hidden -= tag in ("script", "style", "code", "pre")

    def handle_data(self, data: str) -> None:
        """Collect what a reader sees, apart from code, and options that may break in code."""
        if not self._hidden:
            self.text += data
        elif not self._whole:
            words = re.findall(r"(?<!\S)--[a-z-]+(?!\S)", data)
            self.split_options += [word for word in words if len(word) <= LONGEST]


def problems(site: Path) -> list[str]:
    """Return what is wrong with a site, a line each."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site)
        for link in [*page.links, *page.loads]:
            found += [f"{name}: {link} leads nowhere"] * _is_dead(link, path, pages)
        outside = [link for link in page.loads if urlsplit(link).netloc]
        found += [f"{name}: loads {link}" for link in outside]
        found += [f"{name}: {src} has no description" for src in page.bare_figures]
        found += [f"{name}: {word} may break" for word in page.split_options]
        # ">>>" outside of a section Examples is read as three quotations.
        found += [f"{name}: an example is drawn as a quotation"] * (page.deepest_quote > 2)
        found += [f"{name}: raw TeX: {page.text[max(m.start() - 30, 0) : m.end() + 30]!r}"
                  for m in _TEX.finditer(page.text)]  # fmt: skip
    return found + _unfindable(site)


def _is_dead(link: str, path: Path, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return False
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return True
    page = next((page for at, page in pages.items() if at.resolve() == target), None)
    return bool(parts.fragment and page and unquote(parts.fragment) not in page.anchors)


def _unfindable(site: Path) -> list[str]:
    """Say for which words the search finds no page that is named after them."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    titles = {entry["title"].casefold() for entry in index["docs"]}
    sought = {word: word for word in ("install", "tutorial", "glossary")}
    text = {
        word: [e for e in index["docs"] if word in (e["title"] + e["text"]).casefold()]
        for word in sought
    }
    alone = site / "search" / "search_index.js"  # what a page that is opened from a disk reads
    return [
        f"search: {word!r} is not found"
        for word, title in sought.items()
        if not text[word] or not any(title in known for known in titles)
    ] + ["search: it needs a server"] * (not alone.exists())


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    sys.stdout.write("\n".join([*wrong, f"{len(wrong)} problems"]) + "\n")
    sys.exit(bool(wrong))
