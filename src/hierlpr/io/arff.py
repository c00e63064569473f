"""Clus ARFF: attribute declarations, quoting, rows; trees and DAGs in the header.

The format is that of the Clus system: plain ARFF with one attribute of type ``hierarchical``
whose value lists the labels, ``a@b``. The header holds the hierarchy, as whole paths for a tree
(``1,1/1,1/2``) and as parent/child pairs for a DAG (``root/a,a/b``). Here are the syntax and the
hierarchy; `hierlpr.io.arff_tables` has the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hierlpr.hierarchy import Hierarchy
from hierlpr.io._watch import Watch

MISSING = "?"
SEPARATOR = "/"
TOP = "root"  # the artificial label above all others in a DAG header
_NUMERIC = {"numeric", "real", "integer"}
_DECLARATION = re.compile(
    r"""@attribute\s+(?:'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s'"]\S*))
        \s+(?P<type>.+)""",
    re.IGNORECASE | re.VERBOSE,
)


Kind = Literal["auto", "tree", "dag"]
Numbered = Iterator[tuple[int, str]]
Found = Iterator[tuple[int, list[str] | None]]


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


def _content(lines: Numbered, watch: Watch) -> Numbered:
    """Pass over blank lines and count comments."""
    for number, line in lines:
        text = line.strip()
        if text.startswith("%"):
            watch.counts["comments"] += 1
        elif text:
            yield number, text


def read_header(lines: Numbered, watch: Watch) -> Header:
    """Read up to ``@data``."""
    attributes: list[Attribute] = []
    data_line = None
    for number, text in _content(lines, watch):
        keyword = text.split(None, 1)[0].lower()
        if keyword == "@data":
            data_line = number
            break
        if keyword == "@attribute":
            attributes.append(_attribute(text, number, len(attributes), watch))
        elif keyword != "@relation":
            raise watch.fail(
                f"{text[:40]!r} is no ARFF declaration.",
                line=number,
                hint="an ARFF header has lines @RELATION, @ATTRIBUTE and @DATA.",
            )
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


def rows(lines: Numbered, header: Header, watch: Watch) -> Found:
    """Yield (line number, one text per attribute) for every row after the header.

    A row with a problem is None, so that rows can be counted.
    """
    if header.data_line is None:
        raise watch.fail("there is no @DATA line.", line=header.attributes[-1].line)
    n = len(header.attributes)
    for number, text in _content(lines, watch):
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
    empty = {"hierarchical": "", "nominal": None}
    values = [
        a.values[0] if (x := empty.get(a.type, "0")) is None else x for a in header.attributes
    ]
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


# -- the hierarchy ---------------------------------------------------------------------------


def arff_hierarchy(lines: list[str], kind: Kind, watch: Watch) -> Hierarchy:
    """Hierarchy of an ARFF header; the data need not be there."""
    header = read_header(iter(enumerate(lines, start=1)), watch)
    return build_hierarchy(header.attributes[class_column(header, watch)], kind, watch)


def class_column(header: Header, watch: Watch) -> int:
    """Place of the attribute that holds the labels."""
    found = [i for i, a in enumerate(header.attributes) if a.type == "hierarchical"]
    if len(found) != 1:
        raise watch.fail(
            f"the header has {len(found)} attributes of type hierarchical; expected one.",
            line=header.data_line,
            hint="the labels are declared as: @ATTRIBUTE class hierarchical a,a/b,a/c",
        )
    return found[0]


def build_hierarchy(attribute: Attribute, kind: Kind, watch: Watch) -> Hierarchy:
    """Make the hierarchy that an attribute lists."""
    entries = list(attribute.values)
    pairs = [entry.split(SEPARATOR) for entry in entries]
    for entry, segments in zip(entries, pairs, strict=True):
        if not all(segments):
            raise watch.fail(
                f"the class entry {entry!r} has an empty segment.", line=attribute.line
            )
    if kind == "auto":
        kind = "dag" if _lists_edges(pairs) else "tree"
    watch.format = f"Clus ARFF ({'DAG' if kind == 'dag' else 'tree'})"
    if kind == "tree":
        hierarchy = Hierarchy.from_paths(entries, sep=SEPARATOR)
        added = hierarchy.n_labels - len(set(entries))
        if added:
            watch.counts["labels_implied_by_longer_paths"] = added
        return hierarchy
    wrong = next((entry for entry in entries if entry.count(SEPARATOR) != 1), None)
    if wrong is not None:
        raise watch.fail(
            f"the class entry {wrong!r} is no parent/child pair.",
            line=attribute.line,
            hint="read it with kind='tree'.",
        )
    # Clus puts one artificial label above all; it is no label of any sample.
    labels = dict.fromkeys(name for pair in pairs for name in pair if name != TOP)
    return Hierarchy([(p, c) for p, c in pairs if p != TOP], labels=labels)


def _lists_edges(pairs: list[list[str]]) -> bool:
    """Pairs only, no label under itself, and they chain up or hang on the artificial top."""
    if any(len(pair) != 2 or pair[0] == pair[1] for pair in pairs):
        return False
    parents = {parent for parent, _ in pairs}
    return TOP in parents or any(child in parents for _, child in pairs)
