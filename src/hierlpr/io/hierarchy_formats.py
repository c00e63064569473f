"""Read hierarchies from OBO, edge lists, path lists and the headers of Clus ARFF files.

Each reader returns a `Graph`: labels and edges as the file gives them, not yet checked as a whole.
Bad rows are remembered in the log and left out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from hierlpr._utils.checks import quote_names
from hierlpr.exceptions import DataError, Note
from hierlpr.hierarchy.graph import edges_of_paths
from hierlpr.io.reading import ReadReport
from hierlpr.io.sources import open_source, read_cells

_TAGS = {"id", "name", "alt_id", "is_a", "relationship", "is_obsolete", "replaced_by"}
_ESCAPES = {"n": "\n", "t": "\t", "W": " "}
_COMMENT = re.compile(r"(?<!\\)(?:\s!|\s\{|^!)")
# A first row of such words is a header that must not be taken for an edge.
_HEADER_WORDS = re.compile(
    "from|to|source|target|subject|object|node|term|label|name|id|parents?|child|children"
)
_SEPARATORS = ("/", "|", ">", ";", "\\", "::")
_HIERARCHICAL = re.compile(
    r"""@attribute\s+(?:'[^']*'|"[^"]*"|[^\s'"]\S*)\s+hierarchical\b(.*)""", re.IGNORECASE
)
_TOP = "root"  # an artificial label above all others in the ARFF header of a DAG


@dataclass(slots=True)
class Graph:
    """Labels, edges, other identifiers (aliases) and readable names of labels."""

    labels: dict[str, None] = field(default_factory=dict)
    edges: list[tuple[str, str]] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def link(self, parent: str, child: str, log: ReadReport, line: Any = None) -> None:
        """Add an edge; a label that is its own parent is a problem."""
        if parent == child:
            log.problem(f"label {parent!r} is its own parent.", line=line)
        else:
            self.edges.append((parent, child))


# -- OBO: [Term] stanzas of "tag: value" lines ------------------------------------------------


@dataclass(slots=True)
class _Term:
    line: int
    tags: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    parents: list[tuple[str, str, int]] = field(default_factory=list)  # relation, id, line


def parse_obo(lines: list[str], log: ReadReport, relationships: Collection[str]) -> Graph:
    """Return the terms that are not obsolete and their edges along the chosen relationships.

    Alternative identifiers, and obsolete terms with one replacement, are aliases.
    """
    log.format = "OBO"
    terms: dict[str, _Term] = {}
    obsolete: dict[str, _Term] = {}
    for term in _read_terms(lines, log):
        ids = term.tags["id"]
        group = obsolete if "true" in map(str.lower, term.tags["is_obsolete"]) else terms
        if len(ids) != 1:
            log.problem(f"the [Term] stanza has {len(ids) or 'no'} id.", line=term.line)
        elif group.setdefault(ids[0], term) is not term:
            text = f"term {ids[0]!r} is defined again (first on line {group[ids[0]].line})."
            log.problem(text, line=term.line)
    graph = Graph(dict.fromkeys(terms))
    graph.names = {x: term.tags["name"][-1] for x, term in terms.items() if term.tags["name"]}
    for label, term in terms.items():
        for alt in term.tags["alt_id"]:
            owner = alt if alt in terms else graph.aliases.setdefault(alt, label)
            if owner != label:
                text = f"the alt_id {alt!r} of {label!r} also means {owner!r}."
                log.problem(text, line=term.line)
    log.counts["alternative ids"] = len(graph.aliases)
    log.counts["obsolete terms"] = len(obsolete)
    _add_edges(graph, terms, obsolete, set(relationships), log)
    for label, term in obsolete.items():
        # Several replacements are a choice for a curator, not for a program.
        if len(term.tags["replaced_by"]) == 1 and label not in terms:
            target = term.tags["replaced_by"][0]
            target = graph.aliases.get(target, target)
            if target in graph.labels:
                graph.aliases[label] = target
                log.counts["replaced terms"] += 1
    log.check(len(terms))
    return graph


def _read_terms(lines: list[str], log: ReadReport) -> Iterator[_Term]:
    """Yield the [Term] stanzas; other stanzas are skipped."""
    term: _Term | None = None
    is_header = True
    numbered = enumerate(lines, start=1)
    for number, line in numbered:
        tag, colon, value = line.partition(":")
        if not line.strip() or line[0] == "!":
            continue
        if line[0] == "[":
            if term is not None:
                yield term
            is_header = False
            term = _Term(number) if line.strip() == "[Term]" else None
        elif not colon and (term is not None or is_header):
            log.problem(f"{line[:40]!r} is not a 'tag: value' line.", line=number)
        elif term is not None and tag in _TAGS:
            parts = [value]
            while parts[-1].endswith("\\") and not parts[-1].endswith("\\\\"):
                parts[-1] = parts[-1][:-1]
                parts.append(next(numbered, (0, ""))[1])
            _add_tag(term, tag, "".join(parts), number, log)
    if is_header:
        log.check(len(lines))
        hint = "is this an OBO file? The ending says so."
        raise log.file_error("there is no [Term] stanza.", line=len(lines), hint=hint)
    if term is not None:
        yield term


def _add_tag(term: _Term, tag: str, text: str, line: int, log: ReadReport) -> None:
    """Add a value without the comment and modifiers at its end, unless they are escaped."""
    if "!" in text or "{" in text:
        text = _COMMENT.split(text, maxsplit=1)[0]
    text = text.strip()
    words = text.split() if tag == "relationship" else [tag, text]
    if not all(words) and tag != "name":
        log.problem(f"the tag {tag} has no value.", line=line)
    elif len(words) != 2:
        log.problem(f"relationship {text[:40]!r} is not 'type target'.", line=line)
    elif tag in ("is_a", "relationship"):
        term.parents.append((unescape(words[0]), unescape(words[1]), line))
    else:
        term.tags[tag].append(unescape(text))


def unescape(text: str) -> str:
    r"""Undo OBO escapes: ``a\, b`` is ``a, b``."""
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text) if "\\" in text else text


def _add_edges(
    graph: Graph,
    terms: dict[str, _Term],
    obsolete: dict[str, _Term],
    relationships: set[str],
    log: ReadReport,
) -> None:
    """Add the edges between the labels of the graph."""
    n_of: Counter[str] = Counter()
    foreign: Counter[str] = Counter()  # parents in other ontologies, such as BFO
    for label in graph.labels:
        for relation, target, line in terms[label].parents:
            n_of[relation] += 1
            if relation not in relationships:
                continue
            parent = target if target in graph.labels else graph.aliases.get(target, target)
            ontology = parent.rpartition(":")[0]  # CL of CL:0000000
            if parent in graph.labels:
                graph.link(parent, label, log, line)
            elif parent not in obsolete and ontology not in ("", label.rpartition(":")[0]):
                foreign[parent] += 1
            else:
                what = "obsolete" if parent in obsolete else "not defined in the file"
                log.problem(f"the parent {parent!r} of {label!r} is {what}.", line=line)
    if missing := relationships - {"is_a", *n_of}:
        text = f"no term has a relationship {quote_names(sorted(missing))}."
        raise log.file_error(text, hint=f"the file has {quote_names(list(n_of)) or 'none'}.")
    if foreign:
        left_out = f"{foreign.total():,} edges to terms of other ontologies are left out"
        log.notes.append(Note(f"{left_out}: {quote_names(list(foreign))}", is_warning=True))
    if unused := [f"{x} ({n:,})" for x, n in n_of.most_common() if x not in relationships]:
        log.notes.append(f"relationships that are not used as edges: {', '.join(unused[:5])}")
        if len(unused) > 5:
            log.notes[-1] += f" and {len(unused) - 5} more"


# -- edge lists -------------------------------------------------------------------------------


def parse_edge_list(log: ReadReport, *, sep: str | None = None) -> Graph:
    """Read rows ``parent,child``; a row with one of them empty declares a label.

    With a header the columns are found by name: one that begins with ``parent``, and ``child``,
    ``id`` or what follows ``parent_``. A column ``name`` holds readable names of the children;
    other columns are ignored.
    """
    log.format = "edge list"
    source = open_source(log, sep=sep)
    header = [name.lower() for name in source.columns]
    edge = [x for x in header if x.startswith("parent")][:2]
    # parent_taxon_id is beside taxon_id, and parent or parent_id beside child or id.
    beside = ("child", "id", *(x.removeprefix("parent").lstrip("_") for x in edge))
    ends = [*edge, *(x for x in beside if x and header.count(x) == 1)][:2]
    columns = [header.index(x) for x in (*ends, "name") if header.count(x) == 1]
    if len(ends) != 2 or len(edge) != 1:
        if not source.delimiter or len(header) != 2 or any(map(_HEADER_WORDS.fullmatch, header)):
            names = quote_names(source.columns)
            text = f"expected one column 'parent' and one 'child', got {names}."
            hint = "the first row is parent,child; .csv has commas, .tsv tabs, sep= changes it."
            raise log.file_error(text, line=source.first_place, hint=hint, options=("sep",))
        source.has_header, columns = False, [0, 1]
    graph = Graph()
    n_rows = 0
    for line, (parent, child, *name) in read_cells(source, columns):
        n_rows += 1
        graph.labels |= dict.fromkeys(filter(None, (parent, child)))
        if parent and child:
            graph.link(parent, child, log, line)
        elif not (parent or child):
            log.problem("both names are empty.", line=line)
        if child and any(name) and graph.names.setdefault(child, name[0]) != name[0]:
            text = f"label {child!r} also has the name {graph.names[child]!r}."
            log.problem(text, line=line, column="name")
    log.check(n_rows)
    if not graph.labels:
        raise log.file_error("the table has no rows.", line=source.first_place)
    extra = [name for i, name in enumerate(source.columns) if i not in columns]
    if extra:
        log.notes.append(f"{log.path}: other columns are ignored: {quote_names(extra)}")
    return graph


# -- NCBI taxonomy, and lists of codes --------------------------------------------------------


def parse_dump(lines: list[str], names: list[str] | None, log: ReadReport) -> Graph:
    """Read NCBI's ``nodes.dmp``, with scientific names from the lines of ``names.dmp``."""
    log.format = "NCBI taxonomy dump"
    graph = Graph()
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 4 or not (cells[0].isdecimal() and cells[1].isdecimal()):
            hint = "give nodes.dmp; names.dmp in the same folder is read with it."
            raise log.file_error("expected tax_id | parent tax_id | rank.", line=number, hint=hint)
        graph.labels.setdefault(cells[0])
        if cells[0] != cells[1]:  # the root is its own parent
            graph.labels.setdefault(cells[1])
            graph.link(cells[1], cells[0], log, number)
    for line in names or ():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 3 and cells[3] == "scientific name" and cells[0] in graph.labels:
            graph.names[cells[0]] = cells[1]
    if names is None:
        log.notes.append("there is no names.dmp beside it; labels have no names")
    return graph


def parse_codes(log: ReadReport, *, sep: str | None = None) -> Graph:
    """Read a list of codes; the parent of a code is the longest other one that it begins with.

    Codes are in the first column, names in the second. A first row without digits is a header.
    """
    log.format = "list of codes"
    source = open_source(log, sep=sep)
    source.has_header = not any(x.isdigit() for x in source.columns[0])
    graph = Graph()
    for line, (code, *name) in read_cells(source, [0, 1][: len(source.columns)]):
        if not code or code in graph.labels:
            log.problem(f"the code {code!r} occurs twice or is empty.", line=line)
            continue
        graph.labels.setdefault(code)
        if any(name):
            graph.names[code] = name[0]
    log.check(len(graph.labels))
    for code in graph.labels:
        shorter = (code[:n] for n in range(len(code) - 1, 0, -1))
        parent = next((x for x in shorter if x in graph.labels), None)
        if parent is not None:
            graph.link(parent, code, log)
    return graph


# -- paths ------------------------------------------------------------------------------------


def parse_paths(lines: list[str], log: ReadReport, *, path_sep: str | None = None) -> Graph:
    """Read one path per line, from a root down; a label is named by its whole path."""
    log.format = "path list"
    if path_sep == "":
        text = "The separator of a path list must not be empty.\nHint: for example '/'."
        raise DataError(text, options=("path_sep",))
    numbered = enumerate(map(str.strip, lines), start=1)
    paths = [(i, text) for i, text in numbered if text and not text.startswith("#")]
    if not paths:
        raise log.file_error("there are no paths, only comments.")
    sep = path_sep or ""
    if sep != "\t" and all("\t" in text for _, text in paths):
        hint = "cut -f2 keeps the second column; path_sep= separates the names of a path."
        text = "the lines have columns separated by tabs; expected one path per line."
        raise log.file_error(text, line=paths[0][0], hint=hint, options=("path_sep",))
    if path_sep is None:
        counts = {s: sum(s in text for _, text in paths) for s in _SEPARATORS}
        sep = max(_SEPARATORS, key=lambda s: counts[s])
        log.notes.append(f"{log.path}: paths are split at {sep!r}")
    whole = []
    for line, text in paths:
        segments = [segment.strip() for segment in text.split(sep)]
        if all(segments):
            whole.append(sep.join(segments))
        else:
            hint = f"segments are separated by {sep!r}; path_sep= changes that."
            what = f"the path {text[:60]!r} has an empty segment."
            log.problem(what, line=line, hint=hint, options=("path_sep",))
    log.counts["paths"] += len(paths)
    log.check(len(paths))
    edges, labels = edges_of_paths(whole, sep)
    return Graph(dict.fromkeys(labels), edges)


# -- Clus ARFF --------------------------------------------------------------------------------


def parse_arff(lines: list[str], log: ReadReport) -> Graph:
    """Read the hierarchy in the header: paths of a tree (``1,1/2``) or pairs of a DAG (``a/b``)."""
    declared: list[tuple[int, str]] = []
    for line, text in enumerate(map(str.strip, lines), start=1):
        if text.lower().startswith("@data"):
            break
        if match := _HIERARCHICAL.fullmatch(text):
            declared.append((line, match[1]))
        elif text and text[0] not in "@%":
            hint = "an ARFF header has lines @RELATION, @ATTRIBUTE and @DATA."
            raise log.file_error(f"{text[:40]!r} is not an ARFF declaration.", line=line, hint=hint)
    else:
        raise log.file_error("there is no @DATA line.")
    if len(declared) != 1:
        text = f"the header has {len(declared)} attributes of type hierarchical; expected one."
        hint = "labels are declared as: @ATTRIBUTE class hierarchical a,a/b,a/c"
        raise log.file_error(text, hint=hint)
    line, listed = declared[0]
    values = [x.strip() for x in listed.split(",") if x.strip()]
    paths = [value.split("/") for value in values]
    if not paths or not all(map(all, paths)):
        raise log.file_error("a label or a segment of its path has no name.", line=line)
    # Pairs are edges of a DAG if some of them start at `root` or form chains.
    parents = {path[0] for path in paths}
    is_dag = all(len(path) == 2 and path[0] != path[1] for path in paths)
    if not (is_dag and (_TOP in parents or any(path[1] in parents for path in paths))):
        log.format = "Clus ARFF (tree)"
        edges, labels = edges_of_paths(values, "/")
        return Graph(dict.fromkeys(labels), edges)
    log.format = "Clus ARFF (DAG)"
    names = dict.fromkeys(name for path in paths for name in path if name != _TOP)
    return Graph(names, [(parent, child) for parent, child in paths if parent != _TOP])
