r"""Read OBO ontologies: terms, is_a and chosen relationships, alternative and obsolete identifiers.

OBO flat files (1.2 and 1.4) have ``[Term]`` stanzas of ``tag: value`` lines, which may end in
``! comment`` or ``{modifier}``, and backslash escapes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from hierlpr._utils.checks import quote_names
from hierlpr.io.read_log import Place, ReadLog

_ESCAPES = {"n": "\n", "t": "\t", "W": " "}
_SPECIAL = re.compile(r'([\\"{}!])')
_COMMENT = re.compile(r"(?<!\\)(?:\s!|\s\{|^!)")
_TAGS = {"id", "name", "namespace", "alt_id", "is_a", "relationship", "is_obsolete", "replaced_by"}


@dataclass(slots=True)
class Graph:
    """Labels and edges as a reader finds them, before they are checked as a whole."""

    labels: dict[str, None] = field(default_factory=dict)
    edges: list[tuple[str, str]] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def link(self, parent: str, child: str, log: ReadLog, line: Place = None) -> None:
        """Add an edge; a label that is its own parent is a problem."""
        if parent == child:
            log.problem(f"label {parent!r} is its own parent.", line=line)
        else:
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
    is_obsolete: bool = False


def parse_obo(
    lines: list[str],
    log: ReadLog,
    *,
    relationships: Collection[str] = ("is_a",),
    namespaces: Collection[str] | None = None,
) -> Graph:
    """Return the terms that are not obsolete and their edges along the chosen relationships."""
    terms: dict[str, _Term] = {}
    obsolete: dict[str, _Term] = {}
    for term in _read_terms(lines, log):
        known = obsolete if term.is_obsolete else terms
        if not term.id:
            log.problem("the [Term] stanza has no id.", line=term.line)
        elif known.setdefault(term.id, term) is not term:
            first = known[term.id].line
            log.problem(
                f"term {term.id!r} is defined again (first on line {first}).", line=term.line
            )
    aliases = _alternative_ids(terms, log)
    kept = _in_namespaces(terms, namespaces, log)
    graph = Graph(dict.fromkeys(kept))
    graph.names = {term.id: term.name for term in kept.values() if term.name}
    graph.aliases = {alt: label for alt, label in aliases.items() if label in kept}
    _add_edges(graph, terms, obsolete, set(relationships), log)
    log.counts["alternative_ids"] += len(graph.aliases)
    log.counts["obsolete_terms"] += len(obsolete)
    for term in obsolete.values():
        # Several replacements are a choice for a curator, not for a program.
        if len(term.replaced_by) == 1 and term.id not in terms:
            target = graph.aliases.get(term.replaced_by[0], term.replaced_by[0])
            if target in graph.labels:
                graph.aliases[term.id] = target
                log.counts["replaced_terms"] += 1
    return graph


def _read_terms(lines: list[str], log: ReadLog) -> Iterator[_Term]:
    """Yield the [Term] stanzas; other stanzas are skipped."""
    term: _Term | None = None
    is_header = True
    namespace = ""
    numbered = enumerate(lines, start=1)
    for number, line in numbered:
        if not line or line.isspace():
            continue
        if line[0] == "!":
            log.counts["comments"] += 1
            continue
        if line[0] == "[":
            if term is not None:
                yield term
            is_header = False
            term = _Term(number, namespace=namespace) if line.strip() == "[Term]" else None
            if term is None:
                log.counts[f"{line.strip()} stanzas ignored"] += 1
            continue
        tag, colon, value = line.partition(":")
        if not colon and (term is not None or is_header):
            log.problem(f"{line[:40]!r} is no 'tag: value' line.", line=number)
        elif is_header and tag == "default-namespace":
            namespace = _strip_comment(value)
        elif term is not None and tag in _TAGS:
            parts = [value]
            while parts[-1].endswith("\\") and not parts[-1].endswith("\\\\"):
                parts[-1] = parts[-1][:-1]
                parts.append(next(numbered, (0, ""))[1])
            _add_tag(term, tag, _strip_comment("".join(parts)), number, log)
    if is_header:
        text, hint = "there is no [Term] stanza.", "is this an OBO file? The ending says so."
        raise log.file_error(text, line=len(lines), hint=hint)
    if term is not None:
        yield term


def _add_tag(term: _Term, tag: str, text: str, line: int, log: ReadLog) -> None:
    if tag == "is_obsolete":
        term.is_obsolete = text.lower() == "true"
        return
    if tag == "relationship":
        relation, *target = text.split() or [""]
        if len(target) == 1:
            term.parents.append((unescape(relation), unescape(target[0]), line))
        else:
            log.problem(f"relationship {text[:40]!r} is not 'type target'.", line=line)
        return
    word = unescape(text)
    if tag in ("name", "namespace"):
        setattr(term, tag, word)
    elif not word:
        log.problem(f"the tag {tag} has no value.", line=line)
    elif tag == "is_a":
        term.parents.append(("is_a", word, line))
    elif tag == "alt_id":
        term.alt_ids.setdefault(word, line)
    elif tag == "replaced_by":
        term.replaced_by.append(word)
    elif term.id:
        log.problem(f"the term {term.id!r} has a second id, {word!r}.", line=line)
    else:
        term.id = word


def _strip_comment(value: str) -> str:
    """Remove the comment and modifiers at the end of a value, unless they are escaped."""
    if "!" in value or "{" in value:
        value = _COMMENT.split(value, maxsplit=1)[0]
    return value.strip()


def unescape(text: str) -> str:
    r"""Undo OBO escapes.

    >>> unescape(r"one\, two\: three")
    'one, two: three'
    """
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text) if "\\" in text else text


def escape(text: str, *, word: bool = False) -> str:
    r"""Escape a value for an OBO file, so that `unescape` gives it back.

    Identifiers are single words, so with `word` their spaces are escaped too.

    >>> escape("50% {x} ! y")
    '50% \\{x\\} \\! y'
    """
    text = _SPECIAL.sub(r"\\\1", text).replace("\n", "\\n").replace("\t", "\\t")
    return text.replace(" ", "\\W") if word else text


def _alternative_ids(terms: dict[str, _Term], log: ReadLog) -> dict[str, str]:
    """Return the term of each alternative id; one that means two terms is a problem."""
    owner: dict[str, str] = {}
    for term in terms.values():
        for alt, line in term.alt_ids.items():
            if alt == term.id:
                continue
            if alt in terms:
                log.problem(f"the alt_id {alt!r} of {term.id!r} is the id of a term.", line=line)
            elif owner.setdefault(alt, term.id) != term.id:
                text = f"the alt_id {alt!r} belongs to {owner[alt]!r} and to {term.id!r}."
                log.problem(text, line=line)
    return owner


def _in_namespaces(
    terms: dict[str, _Term], namespaces: Collection[str] | None, log: ReadLog
) -> dict[str, _Term]:
    if namespaces is None:
        return terms
    present = {term.namespace for term in terms.values()}
    missing = [name for name in namespaces if name not in present]
    if missing:
        raise log.file_error(
            f"no term has the namespace {quote_names(missing)}.",
            hint=f"the file has {quote_names(sorted(filter(None, present)), most=10) or 'none'}.",
        )
    kept = {key: term for key, term in terms.items() if term.namespace in set(namespaces)}
    log.counts["terms_of_other_namespaces"] += len(terms) - len(kept)
    return kept


def _add_edges(
    graph: Graph,
    terms: dict[str, _Term],
    obsolete: dict[str, _Term],
    relationships: set[str],
    log: ReadLog,
) -> None:
    """Add the edges between the labels of the graph."""
    seen: Counter[str] = Counter()
    foreign: Counter[str] = Counter()  # parents in other ontologies, such as BFO
    for label in graph.labels:
        for relation, target, line in terms[label].parents:
            seen[relation] += 1
            if relation not in relationships:
                continue
            parent = target if target in graph.labels else graph.aliases.get(target, target)
            if parent in graph.labels:
                graph.link(parent, label, log, line)
            elif parent in terms:
                log.counts["edges_to_other_namespaces"] += 1
            elif parent not in obsolete and _ontology(parent) not in ("", _ontology(label)):
                foreign[parent] += 1
            else:
                what = "obsolete" if parent in obsolete else "not defined in the file"
                log.problem(f"the parent {parent!r} of {label!r} is {what}.", line=line)
    if missing := relationships - {"is_a", *seen}:
        text = f"no term has a relationship {quote_names(sorted(missing))}."
        raise log.file_error(text, hint=f"the file has {quote_names(list(seen)) or 'none'}.")
    if foreign:
        log.note(
            f"{foreign.total():,} edges to terms of other ontologies are left out: "
            f"{quote_names(list(foreign))}"
        )
    for relation, n in seen.most_common():
        if relation not in relationships:
            log.note(f"{n:,} {relation} relationships are not used as edges")


def _ontology(term: str) -> str:
    """Return the prefix of an identifier, such as ``CL`` of ``CL:0000000``; empty without one."""
    prefix, colon, _ = term.partition(":")
    return prefix if colon else ""
