"""The bibliography: ``references.bib`` read, and written as a page that citations link to."""

import html
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Entry", "page", "read"]

_ACCENTS = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", '"': "\u0308", "v": "\u030c",
    "c": "\u0327", "u": "\u0306", "=": "\u0304", ".": "\u0307", "H": "\u030b", "r": "\u030a",
}  # fmt: skip
_LETTERS = {
    r"\o": "ø", r"\O": "Ø", r"\ss": "ß", r"\l": "ł", r"\L": "Ł", r"\ae": "æ", r"\aa": "å",
    r"\AA": "Å", r"\i": "i", r"\&": "&", r"\%": "%",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One work: its key, its fields as plain text, and how a sentence names it."""

    key: str
    fields: dict[str, str]

    @property
    def authors(self) -> list[str]:
        """Family names, and first names if there are any, in print order."""
        return [name.strip() for name in self.fields.get("author", "").split(" and ")]

    @property
    def cited(self) -> str:
        """Return the work as a sentence cites it: Ho et al. (2018)."""
        family = [name.partition(",")[0] for name in self.authors]
        if "others" in family or len(family) > 3:
            names = f"{family[0]} et al."
        else:
            names = " and ".join([", ".join(family[:-1]), family[-1]] if family[1:] else family)
        return f"{names} ({self.fields.get('year', 'n.d.')})"


def read(path: Path) -> dict[str, Entry]:
    """Return the entries of a BibTeX file by key, in the order of the authors."""
    text = path.read_text(encoding="utf-8")
    entries = {}
    for match in re.finditer(r"@(\w+)\{([^,\s]+),", text):
        body = _braced(text, match.start() + len(match[1]) + 1)
        fields = _fields(body.partition(",")[2])
        entries[match[2]] = Entry(match[2], fields)
    return dict(sorted(entries.items(), key=lambda item: (_sortable(item[1]), item[0])))


def page(entries: dict[str, Entry]) -> str:
    """Return the entries as an HTML list; every key is an anchor."""
    rows = [f'<li id="{html.escape(e.key)}">{_formatted(e)}</li>' for e in entries.values()]
    return '<ul class="bibliography">\n' + "\n".join(rows) + "\n</ul>\n"


def _formatted(entry: Entry) -> str:
    f = {name: html.escape(value) for name, value in entry.fields.items()}
    names = [_initials(name) for name in entry.authors]
    who = html.escape(", ".join(names).replace(", others", " et al."))
    homes = ("journal", "booktitle", "publisher", "institution", "school")
    where = next((f"<em>{f[home]}</em>" for home in homes if home in f), "")
    number = f.get("volume", "") + (f"({f['number']})" if "number" in f else "")
    place = ", ".join(filter(None, [where, number, f.get("pages", "")]))
    parts = [f"{who} ({f.get('year', 'n.d.')})", f.get("title"), place, f.get("note")]
    text = " ".join(f"{part}." for part in parts if part)
    address = _address(entry)
    return text + (
        f' <a href="{html.escape(address)}">{html.escape(address)}</a>' if address else ""
    )


def _address(entry: Entry) -> str:
    f = entry.fields
    if "doi" in f:
        return f"https://doi.org/{f['doi']}"
    found = re.search(
        r"arXiv:(\d{4}\.\d{4,5})", " ".join([f.get("journal", ""), f.get("note", "")])
    )
    return f"https://arxiv.org/abs/{found[1]}" if found else f.get("url", "")


def _initials(name: str) -> str:
    """Turn "Ho, Christine Anne" into "Ho, C. A."."""
    family, _, first = name.partition(",")
    short = " ".join(part[0] + "." for part in re.split(r"[\s.]+", first.strip()) if part)
    return f"{family} {short}".strip()


def _sortable(entry: Entry) -> str:
    text = unicodedata.normalize("NFKD", entry.cited).casefold()
    return "".join(c for c in text if not unicodedata.combining(c))


def _braced(text: str, start: int) -> str:
    """Return what stands between the brace at `start` and its partner."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[start + 1 : i]
    raise ValueError(f"A brace of references.bib is never closed: {text[start : start + 60]}")


def _fields(body: str) -> dict[str, str]:
    fields = {}
    for match in re.finditer(r"(\w+)\s*=\s*([{\"]|\d+)", body):
        if match.start() < fields.get("", 0):  # inside the value before
            continue
        if match[2] == "{":
            raw = _braced(body, match.end() - 1)
            fields[""] = match.end() + len(raw)
        else:
            raw = match[2] if match[2].isdigit() else body[match.end() :].partition('"')[0]
        fields[match[1].lower()] = _plain(raw)
    fields.pop("", None)
    return fields


def _plain(tex: str) -> str:
    """Return TeX accents and dashes as characters, without braces."""

    def accent(match: re.Match[str]) -> str:
        return unicodedata.normalize("NFC", match[2] + _ACCENTS[match[1]])

    text = re.sub(r"\\([`'^~\"=.])\s*\{?\\?([A-Za-z])\}?", accent, tex)
    text = re.sub(r"\\([vcuHr])(?:\s+|\{)([A-Za-z])\}?", accent, text)
    for name, letter in _LETTERS.items():
        text = re.sub(re.escape(name) + r"(?![A-Za-z])\s?", letter, text)
    text = text.replace("---", "\u2014").replace("--", "\u2013").replace("~", " ")
    return " ".join(re.sub(r"[{}$]", "", text).split())
