"""The syntax of ARFF: attribute declarations, quoting, dense and sparse rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hierlpr.io._watch import Watch

__all__ = ["MISSING", "Attribute", "Header", "read_header", "rows"]

MISSING = "?"
_NUMERIC = {"numeric", "real", "integer"}
_DECLARATION = re.compile(
    r"""@attribute\s+(?:'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s'"]\S*))
        \s+(?P<type>.+)""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Attribute:
    """One column: `type` is numeric, nominal, string, key, date or hierarchical."""

    name: str
    type: str
    values: tuple[str, ...]
    line: int
    place: int  # among the attributes


@dataclass(frozen=True, slots=True)
class Header:
    """The declarations; `data_line` is the line of ``@data``, or None in a bare header."""

    attributes: tuple[Attribute, ...]
    data_line: int | None


def read_header(lines: Iterator[tuple[int, str]], watch: Watch) -> Header:
    """Read up to ``@data``."""
    attributes: list[Attribute] = []
    for number, line in lines:
        text = line.strip()
        if not text:
            continue
        if text.startswith("%"):
            watch.counts["comments"] += 1
            continue
        keyword = text.split(None, 1)[0].lower()
        if keyword == "@data":
            return _checked(attributes, number, watch)
        if keyword == "@attribute":
            attributes.append(_attribute(text, number, len(attributes), watch))
        elif keyword != "@relation":
            raise watch.fail(
                f"{text[:40]!r} is no ARFF declaration.",
                line=number,
                hint="an ARFF header has lines @RELATION, @ATTRIBUTE and @DATA.",
            )
    return _checked(attributes, None, watch)


def _checked(attributes: list[Attribute], data_line: int | None, watch: Watch) -> Header:
    if not attributes:
        raise watch.fail("the ARFF header declares no attributes.", line=data_line)
    return Header(tuple(attributes), data_line)


def _attribute(text: str, line: int, place: int, watch: Watch) -> Attribute:
    match = _DECLARATION.fullmatch(text)
    if match is None:
        raise watch.fail(
            f"{text[:60]!r} is no attribute declaration.",
            line=line,
            hint="write: @ATTRIBUTE name type",
        )
    quoted = match["single"] if match["single"] is not None else match["double"]
    name = match["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    declared = match["type"].strip()
    word = declared.split(None, 1)[0].lower()
    if word in _NUMERIC:
        return Attribute(name, "numeric", (), line, place)
    if word == "hierarchical":
        entries = declared[len(word) :].strip()
        values = tuple(entry.strip() for entry in entries.split(",") if entry.strip())
        if not values:
            raise watch.fail("the hierarchical attribute lists no labels.", line=line, column=name)
        return Attribute(name, "hierarchical", values, line, place)
    if declared.startswith("{") and declared.endswith("}"):
        named = split_row(declared[1:-1])
        if named is None:
            raise watch.fail("the quotes do not match.", line=line, column=name)
        return Attribute(name, "nominal", tuple(named), line, place)
    if word in ("string", "key", "date"):
        return Attribute(name, word, (), line, place)
    raise watch.fail(
        f"attribute type {declared[:30]!r} is unknown.",
        line=line,
        column=name,
        hint="types are numeric, {a,b}, string, key, date and hierarchical.",
    )


def rows(
    lines: Iterator[tuple[int, str]], header: Header, watch: Watch
) -> Iterator[tuple[int, list[str] | None]]:
    """Yield (line number, one text per attribute) for every row after the header.

    A row with a problem is None, so that rows can be counted.
    """
    if header.data_line is None:
        raise watch.fail("there is no @DATA line.", line=header.attributes[-1].line)
    n = len(header.attributes)
    for number, line in lines:
        text = line.strip()
        if not text:
            continue
        if text.startswith("%"):
            watch.counts["comments"] += 1
            continue
        if text[0] == "{":
            yield number, _sparse(text, header, watch, number)
            continue
        values = split_row(text)
        if values is None:
            watch.problem("the quotes do not match.", line=number)
        elif len(values) != n:
            watch.problem(
                f"the row has {len(values)} values, but there are {n} attributes.", line=number
            )
            values = None
        yield number, values


def split_row(text: str) -> list[str] | None:
    """Split at commas outside quotes; None if a quote is not closed.

    >>> split_row("1, 'a, b',?")
    ['1', 'a, b', '?']
    """
    if "'" not in text and '"' not in text:
        return [part.strip() for part in text.split(",")]
    values: list[str] = []
    current: list[str] = []
    quote = ""
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\" and quote and at + 1 < len(text):
            at += 1
            current.append(text[at])
        elif quote:
            if char == quote:
                quote = ""
            else:
                current.append(char)
        elif char in "'\"" and not "".join(current).strip():
            quote = char
            current = []
        elif char == ",":
            values.append("".join(current).strip())
            current = []
        else:
            current.append(char)
        at += 1
    values.append("".join(current).strip())
    return None if quote else values


def _sparse(text: str, header: Header, watch: Watch, line: int) -> list[str] | None:
    """Read a row ``{place value, ...}``; what it does not mention is 0 or the first value."""
    values = [a.values[0] if a.type == "nominal" else "0" for a in header.attributes]
    values = ["" if a.type == "hierarchical" else v
              for a, v in zip(header.attributes, values, strict=True)]  # fmt: skip
    items = split_row(text[1:-1]) if text.endswith("}") else None
    if items is None:
        watch.problem("the quotes or braces of the sparse row do not match.", line=line)
        return None
    for item in items:
        if not item:
            continue
        place, _, value = item.partition(" ")
        if not (place.isascii() and place.isdigit()) or int(place[:9]) >= len(values):
            watch.problem(f"{item[:30]!r} is no entry 'place value' of a sparse row.", line=line)
            return None
        values[int(place)] = value.strip().strip("'\"")
    return values
