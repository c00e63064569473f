r"""Markdown with mathematics and citations, both ready when the page is built.

``$x$``, ``$$x$$`` (which GitHub draws, too) and the docstrings' ``:math:`` become MathML, which
browsers draw by themselves: no script, no font, no network. A key in backticks becomes a link to
the bibliography; ``:func:`` and its kin become code.
"""

import html
import re
from typing import Any
from xml.etree.ElementTree import Element

from bibtex import Entry
from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor

__all__ = ["Scholarly"]


class Scholarly(Extension):
    """The extension; `entries` are the works that may be cited."""

    def __init__(self, entries: dict[str, Entry]) -> None:
        super().__init__()
        self.entries = entries

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (the name is Markdown's)
        """Put formulas and citations before everything that would read them otherwise."""
        keys = "|".join(map(re.escape, self.entries))
        md.preprocessors.register(_Displayed(md), "displayed-formula", 22)
        inline = md.inlinePatterns
        inline.register(_Formula(r"\$(\S(?:[^$`]*?\S)?)\$(?!\w)", md), "formula", 185)  # after code
        inline.register(_Formula(r":math:`([^`]+)`", md), "formula-role", 195)
        inline.register(_Code(r":[a-z]+:`~?([^`]+)`", md), "role", 194)
        source = r"(?: in `{1,2}(?:docs/)?references\.bib`{1,2})?"
        names = r"(?:van )?[A-Z][\w-]+(?:(?:,|,? and)?\s+[A-Z][\w-]+)*(?:\s+et al\.)?"
        named = rf"(?:{names}\s+\(\d{{4}}\),\s+key\s+|[Kk]eys?\s+)?"  # the link has the names
        known = rf"{named}(?<!`)`{{1,2}}({keys})`{{1,2}}(?!`)" + source
        inline.register(_Citation(known, md, self.entries), "citation-key", 193)


class _Displayed(Preprocessor):
    r"""Formulas on lines of their own: ``$$ ... $$``, and ``.. math::`` with what is below it."""

    _ROLE = re.compile(
        r"^(?P<lead>[ ]*)\.\. math::(?P<tex>[^\n]*(?:\n(?P=lead)[ ]+\S[^\n]*)*)", re.M
    )
    _DOLLARS = re.compile(r"^(?P<lead>[ ]*)\$\$(?P<tex>.+?)\$\$$", re.M | re.S)

    def run(self, lines: list[str]) -> list[str]:
        text = "\n".join(lines)
        for pattern in (self._DOLLARS, self._ROLE):
            text = pattern.sub(self._replace, text)
        return text.split("\n")

    def _replace(self, match: re.Match[str]) -> str:
        made = mathml(match["tex"], display="block")
        return f"\n{match['lead']}{self.md.htmlStash.store(made)}\n"


class _Formula(InlineProcessor):
    def handleMatch(self, m: Any, data: str) -> tuple[str, int, int]:  # type: ignore[override] # noqa: N802
        return self.md.htmlStash.store(mathml(m[1])), m.start(0), m.end(0)


class _Code(InlineProcessor):
    def handleMatch(self, m: Any, data: str) -> tuple[Element, int, int]:  # type: ignore[override] # noqa: N802
        element = Element("code")
        element.text = m[1]
        return element, m.start(0), m.end(0)


class _Citation(InlineProcessor):
    def __init__(self, pattern: str, md: Markdown, entries: dict[str, Entry]) -> None:
        super().__init__(pattern, md)
        self.entries = entries

    def handleMatch(self, m: Any, data: str) -> tuple[str, int, int]:  # type: ignore[override] # noqa: N802
        # All pages lie side by side, so that the same link serves everywhere, docstrings included.
        text = html.escape(self.entries[m[1]].cited)
        link = f'<a class="citation" href="bibliography.html#{m[1]}">{text}</a>'
        return self.md.htmlStash.store(link), m.start(0), m.end(0)


def mathml(tex: str, *, display: str = "inline") -> str:
    """Return a formula as MathML, with its TeX for those who copy it."""
    plain = " ".join(tex.split())
    made = convert(plain, display=display)
    return made.replace("<math ", f'<math title="{html.escape(plain, quote=True)}" ', 1)
