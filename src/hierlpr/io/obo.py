r"""OBO ontologies: terms, is_a and chosen relationships, alternative and obsolete identifiers.

Read as described by the OBO flat file format 1.2 and 1.4: ``[Term]`` stanzas of ``tag: value``
lines, ``! comment`` and ``{modifier}`` at their ends, and backslash escapes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from hierlpr._base.checks import listed
from hierlpr.io._watch import Watch

_ESCAPES = {"n": "\n", "t": "\t", "W": " "}
_SPECIAL = re.compile(r'([\\"{}!])')
_COMMENT = re.compile(r"(?<!\\)(?:\s!|\s\{|^!)")
_USED = {"id", "name", "namespace", "alt_id", "is_a", "relationship", "is_obsolete", "replaced_by"}


@dataclass(slots=True)
class Graph:
    """What every hierarchy reader collects before it is checked as a whole."""

    labels: dict[str, None] = field(default_factory=dict)
    edges: list[tuple[str, str]] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def link(
        self,
        parent: str,
        child: str,
        watch: Watch,
        *,
        line: int | str | None,
        where: str = "",
        adds: bool = False,
    ) -> None:
        """Add an edge, and its ends if asked; a label above itself is a problem."""
        if parent == child:
            watch.problem(f"label {parent!r} is its own parent{where}.", line=line)
            return
        if adds:
            self.labels.setdefault(parent)
            self.labels.setdefault(child)
        self.edges.append((parent, child))


@dataclass(slots=True)
class _Term:
    line: int
    id: str = ""
    name: str = ""
    namespace: str = ""
    alt_ids: dict[str, int] = field(default_factory=dict)  # id, line
    parents: list[tuple[str, str, int]] = field(default_factory=list)  # relation, id, line
    replaced_by: list[str] = field(default_factory=list)
    obsolete: bool = False


def parse_obo(
    lines: list[str],
    watch: Watch,
    *,
    relationships: Collection[str] = ("is_a",),
    namespaces: Collection[str] | None = None,
) -> Graph:
    """Collect the live terms and their edges along the chosen relationships."""
    terms, default_namespace = _terms(lines, watch)
    live: dict[str, _Term] = {}
    obsolete: dict[str, _Term] = {}
    for term in terms:
        term.namespace = term.namespace or default_namespace
        home = obsolete if term.obsolete else live
        if term.id in home:
            watch.problem(
                f"term {term.id!r} is defined again (first on line {home[term.id].line}).",
                line=term.line,
            )
            continue
        home[term.id] = term
    kept = _in_namespaces(live, namespaces, watch)
    graph = Graph(labels=dict.fromkeys(kept))
    graph.names = {term.id: term.name for term in kept.values() if term.name}
    _check_alternatives(live, watch)
    _collect_edges(graph, kept, live, obsolete, relationships, watch)
    _collect_aliases(graph, kept, live, obsolete, watch)
    watch.counts["obsolete_terms"] += len(obsolete)
    return graph


def _terms(lines: list[str], watch: Watch) -> tuple[list[_Term], str]:
    """Split into stanzas; only the tags that matter here are looked at."""
    terms: list[_Term] = []
    term: _Term | None = None
    default_namespace = ""
    in_header = True
    skip_to = 0
    for number, line in enumerate(lines, start=1):
        if number <= skip_to or not line or line.isspace():
            continue
        if line[0] == "[":
            in_header = False
            _check_closed(term, watch)
            term = _Term(number) if line.strip() == "[Term]" else None
            if term is not None:
                terms.append(term)
            else:
                watch.counts[f"{line.strip()} stanzas ignored"] += 1
            continue
        if line[0] == "!":
            watch.counts["comments"] += 1
            continue
        tag, colon, value = line.partition(":")
        if not colon:
            if term is not None or in_header:
                watch.problem(f"{line[:40]!r} is no 'tag: value' line.", line=number)
            continue
        if term is None:
            if in_header and tag == "default-namespace":
                default_namespace = _clean(value)
            continue
        if tag not in _USED:
            continue
        while value.endswith("\\") and not value.endswith("\\\\") and number < len(lines):
            skip_to = max(skip_to, number) + 1
            value = value[:-1] + lines[skip_to - 1]
        _take(term, tag, value, number, watch)
    if in_header:
        raise watch.fail(
            "there is no [Term] stanza, so this is no OBO file.",
            line=len(lines),
            hint="the ending decides how a file is read.",
        )
    _check_closed(term, watch)
    return [t for t in terms if t.id], default_namespace


def _check_closed(term: _Term | None, watch: Watch) -> None:
    if term is not None and not term.id:
        watch.problem("the [Term] stanza has no id.", line=term.line)


def _take(term: _Term, tag: str, value: str, number: int, watch: Watch) -> None:
    text = _clean(value)
    if tag == "name":
        term.name = unescape(text)
    elif tag == "namespace":
        term.namespace = unescape(text)
    elif tag == "is_obsolete":
        term.obsolete = text.lower() == "true"
    elif tag == "relationship":
        parts = text.split()
        if len(parts) != 2:
            watch.problem(f"relationship {text[:40]!r} is not 'type target'.", line=number)
        else:
            term.parents.append((unescape(parts[0]), unescape(parts[1]), number))
    else:
        word = unescape(text.strip())
        if not word:
            watch.problem(f"the tag {tag} has no value.", line=number)
        elif tag == "id":
            if term.id:
                watch.problem(f"the term {term.id!r} has a second id, {word!r}.", line=number)
            else:
                term.id = word
        elif tag == "is_a":
            term.parents.append(("is_a", word, number))
        elif tag == "alt_id":
            term.alt_ids.setdefault(word, number)
        else:
            term.replaced_by.append(word)


def _clean(value: str) -> str:
    """Cut the trailing comment and modifiers, unless escaped."""
    if "!" in value or "{" in value:
        value = _COMMENT.split(value, maxsplit=1)[0]
    return value.strip()


def unescape(text: str) -> str:
    r"""Undo OBO escapes.

    >>> unescape(r"one\, two\: three")
    'one, two: three'
    """
    if "\\" not in text:
        return text
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text)


def escape(text: str, *, word: bool = False) -> str:
    r"""Escape a value for an OBO file, so that `unescape` gives it back.

    Identifiers are single words, so with `word` their spaces are escaped too.

    >>> escape("50% {x} ! y")
    '50% \\{x\\} \\! y'
    """
    text = _SPECIAL.sub(r"\\\1", text).replace("\n", "\\n").replace("\t", "\\t")
    return text.replace(" ", "\\W") if word else text


def _in_namespaces(
    live: dict[str, _Term], namespaces: Collection[str] | None, watch: Watch
) -> dict[str, _Term]:
    if namespaces is None:
        return live
    present = Counter(term.namespace for term in live.values())
    missing = [name for name in namespaces if name not in present]
    if missing:
        raise watch.fail(
            f"no term has the namespace {listed(missing)}.",
            hint=f"the file has {listed([n for n in present if n], most=10) or 'no namespaces'}.",
        )
    kept = {key: term for key, term in live.items() if term.namespace in set(namespaces)}
    watch.counts["terms_of_other_namespaces"] += len(live) - len(kept)
    return kept


def _check_alternatives(live: dict[str, _Term], watch: Watch) -> None:
    """Refuse alternative ids that mean two terms; leniently the first term keeps them."""
    owner: dict[str, str] = {}
    for term in live.values():
        for alt, line in list(term.alt_ids.items()):
            if alt == term.id:
                continue
            if alt in live:
                text = f"the alt_id {alt!r} of {term.id!r} is the id of another term."
            elif alt in owner:
                text = f"the alt_id {alt!r} belongs to {owner[alt]!r} and to {term.id!r}."
            else:
                owner[alt] = term.id
                continue
            watch.problem(text, line=line)
            del term.alt_ids[alt]


def _collect_edges(
    graph: Graph,
    kept: dict[str, _Term],
    live: dict[str, _Term],
    obsolete: dict[str, _Term],
    relationships: Collection[str],
    watch: Watch,
) -> None:
    alternative = {alt: term.id for term in kept.values() for alt in term.alt_ids}
    unused: Counter[str] = Counter()
    chosen = set(relationships)
    for term in kept.values():
        for relation, target, line in term.parents:
            if relation not in chosen:
                unused[relation] += 1
                continue
            parent = target if target in kept else alternative.get(target, target)
            if parent in kept:
                if parent == term.id:
                    watch.problem(f"term {term.id!r} is its own parent.", line=line)
                else:
                    graph.edges.append((parent, term.id))
            elif parent in live:
                watch.counts["edges_to_other_namespaces"] += 1
            else:
                what = "obsolete" if parent in obsolete else "not defined in the file"
                watch.problem(f"the parent {parent!r} of {term.id!r} is {what}.", line=line)
    for relation in chosen - {"is_a"}:
        if not any(r == relation for term in kept.values() for r, _, _ in term.parents):
            seen = listed(list(unused)) or "none"
            raise watch.fail(
                f"no term has a relationship {relation!r}.", hint=f"others in the file: {seen}."
            )
    for relation, n in unused.most_common():
        watch.note(f"{n:,} {relation} relationships are not used as edges")


def _collect_aliases(
    graph: Graph,
    kept: dict[str, _Term],
    live: dict[str, _Term],
    obsolete: dict[str, _Term],
    watch: Watch,
) -> None:
    for term in kept.values():
        graph.aliases |= {alt: term.id for alt in term.alt_ids if alt not in live}
    watch.counts["alternative_ids"] += len(graph.aliases)
    for term in obsolete.values():
        # Several replacements are a choice for a curator, not for a program.
        if len(term.replaced_by) == 1 and term.id not in live:
            target = graph.aliases.get(term.replaced_by[0], term.replaced_by[0])
            if target in graph.labels:
                graph.aliases[term.id] = target
                watch.counts["replaced_terms"] += 1
