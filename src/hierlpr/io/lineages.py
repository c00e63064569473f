"""Predictions of other tools: listed scores, and the hierarchy of the paths they predict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.display import escape_control
from hierlpr.exceptions import FileError
from hierlpr.hierarchy import Hierarchy

Index = NDArray[np.int64]
SEPARATOR = ";"  # between the names of a label's path
MOST_RANKS = 64
LONGEST_NAME = 1_000  # characters
RANKS = {
    "d": "domain", "sk": "superkingdom", "k": "kingdom", "p": "phylum", "c": "class", "o": "order",
    "f": "family", "g": "genus", "s": "species", "t": "strain", "sh": "species hypothesis",
}  # fmt: skip
_SILVA = ("domain", "phylum", "class", "order", "family", "genus", "species")
NO_NAME = r"(?i)^(na|nan|none|unclassified|unknown|unassigned|unidentified|.*_unclassified)?$"
_NUMBER = r"^ *([0-9]+\.?[0-9]*|\.[0-9]+)([eE]-?[0-9]+)? *$"


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """Predictions of a tool: samples, listed scores, and the hierarchy of the predicted paths.

    A label is identified by its path of names without rank prefixes (``Bacteria;Firmicutes``), so
    that one name in two places is two labels; `hierarchy.names` has readable names.

    Attributes
    ----------
    format
        The recognised format, such as ``"sintax"``.
    scores
        CSR matrix of shape (n_samples, n_labels), columns as `hierarchy.labels`, scores in [0, 1].
    ranks
        The rank of each label: ``"genus"``, a level of cell types, or ``"level 3"``.
    style
        How the tool writes paths, as plain values that a model file can keep.
    aliases
        Names by which a truth file may mention a label, in lower case; None if of several labels.
    columns
        The tool's own columns, one row per sample.
    place
        Where in its path, or at which level, each listed score stands.
    content
        What `write_like_input` needs of the original file.
    notes
        What was left out, with counts.
    """

    path: str
    format: str
    samples: tuple[str, ...]
    scores: sparse.csr_array
    hierarchy: Hierarchy
    ranks: tuple[str, ...]
    style: Mapping[str, Any]
    aliases: Mapping[str, str | None]
    columns: pa.Table = field(default_factory=lambda: pa.table({}))
    place: Index | None = None
    content: Any = None
    notes: tuple[str, ...] = ()

    def deepest(self) -> Index:
        """Return the deepest label listed for each sample, -1 for none."""
        ends = self.scores.indptr[1:] - 1
        found = self.scores.indices[np.maximum(ends, 0)].astype(np.int64)
        return np.where(np.diff(self.scores.indptr) > 0, found, -1)


def refuse(path: AnyPath, place: str, text: str, hint: str = "") -> FileError:
    """Return the error that names a place in a file; the caller raises it."""
    where = f"{path}, {place}" if place else f"{path}"
    return FileError(f"{where}: {text}" + (f"\nHint: {hint}" if hint else ""))


def quote(text: Any) -> str:
    """Return text from a file in quotes, on one line and not too long."""
    return f"'{escape_control(text, most=60)}'"


def from_paths(
    path: AnyPath,
    kind: str,
    samples: tuple[str, ...],
    row: Index,
    place: Index,
    names: pa.Array,
    scores: NDArray[np.float64],
    rank_of: Callable[[int], str],
    *,
    style: Mapping[str, Any],
    shown: Mapping[str, str] | None = None,
    **others: Any,
) -> Predictions:
    """Build predictions from scored names, the names of one path one after the other.

    `row` and `place` say of which sample and at which place in its path each name is, and
    ``rank_of(i)`` gives the rank of entry `i` if the name has no prefix. Empty names (``s__``,
    ``unclassified``) are skipped. Each distinct name is parsed once.
    """
    coded = names.dictionary_encode()
    bare, ranks, prefixes = split_prefixes(coded.dictionary, kind == "sintax")
    unique = bare.dictionary_encode()
    has_name = ~pc.match_substring_regex(bare, NO_NAME).to_numpy(zero_copy_only=False)
    code = coded.indices.to_numpy()
    entry = np.flatnonzero(has_name[code])
    if not entry.size:
        raise refuse(path, "", "no sample has a name predicted.", "is this the right file?")
    label, parent, name = number_paths(
        row[entry], unique.indices.to_numpy()[code[entry]], len(unique.dictionary)
    )
    first = np.empty(parent.size, dtype=np.int64)
    first[label] = entry  # one entry of each label
    rank = [ranks[code[i]] or rank_of(int(i)) for i in first]
    words = unique.dictionary.to_pylist()
    ids, called = _name_labels(path, parent.tolist(), [words[i] for i in name], rank, shown)
    edges = [(ids[p], ids[i]) for i, p in enumerate(parent.tolist()) if p >= 0]
    ptr = np.searchsorted(row[entry], np.arange(len(samples) + 1))
    return Predictions(
        path=str(path),
        format=kind,
        samples=samples,
        scores=sparse.csr_array((scores[entry], label, ptr), shape=(len(samples), len(ids))),
        hierarchy=Hierarchy(edges, labels=ids, names=dict(zip(ids, called, strict=True))),
        ranks=tuple(rank),
        style={"format": kind, **style, "prefixes": prefixes},
        aliases=merge_aliases({}, [*zip(called, ids, strict=True)], ids),
        place=place[entry],
        **others,
    )


def number_paths(row: Index, name: Index, n_names: int) -> tuple[Index, Index, Index]:
    """Return the label of each entry of many paths, and the parent and the name of each label.

    The entries of one path follow each other, the top first. Two entries are one label if all names
    above them agree. Takes O(n log n) time for n entries.
    """
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    depth = np.arange(row.size) - np.repeat(starts, np.diff(starts, append=row.size))
    label = np.empty(row.size, dtype=np.int64)
    parents: list[Index] = []
    names: list[Index] = []
    n_labels = 0
    for level in range(int(depth.max(initial=-1)) + 1):
        at = np.flatnonzero(depth == level)
        above = label[at - 1] if level else np.full(at.size, -1)
        key, label_at = np.unique((above + 1) * n_names + name[at], return_inverse=True)
        label[at] = n_labels + label_at
        parents.append(key // n_names - 1)
        names.append(key % n_names)
        n_labels += key.size
    return label, np.concatenate(parents), np.concatenate(names)


def split_prefixes(
    names: pa.Array, has_colons: bool = False
) -> tuple[pa.Array, list[str], dict[str, str]]:
    """Strip prefixes such as ``k__``, ``D_0__`` and, where allowed, ``d:``.

    Returns the bare names, the rank of each (empty without prefix) and the prefix of each rank.

    >>> bare, ranks, prefixes = split_prefixes(pa.array(["k__Fungi", "D_5__Bacillus", "Other"]))
    >>> bare.to_pylist(), ranks, prefixes
    (['Fungi', 'Bacillus', 'Other'], ['kingdom', 'genus', ''], {'kingdom': 'k__', 'genus': 'D_5__'})
    """
    colon = "|[a-z]:" if has_colons else ""
    pattern = rf"^\"?(?P<prefix>[a-z]{{1,2}}__|D_[0-9]{{1,2}}__{colon})?(?P<name>(?s:.*))$"
    parts = pc.extract_regex(pc.utf8_trim_whitespace(names), pattern)
    bare = pc.utf8_trim(pc.struct_field(parts, "name"), '" ')
    ranks: list[str] = []
    prefixes: dict[str, str] = {}
    for prefix in pc.struct_field(parts, "prefix").to_pylist():
        word = prefix.rstrip("_:")
        number = int(word[2:]) if word.startswith("D_") else len(_SILVA)
        ranks.append(_SILVA[number] if number < len(_SILVA) else RANKS.get(word, word))
        if prefix:
            prefixes.setdefault(ranks[-1], prefix)
    return bare, ranks, prefixes


def _name_labels(
    path: AnyPath,
    parents: list[int],
    names: list[str],
    ranks: list[str],
    shown: Mapping[str, str] | None,
) -> tuple[list[str], list[str]]:
    """Return the path that identifies each label, and its readable name."""
    ids: list[str] = []
    called: list[str] = []
    for name, rank, parent in zip(names, ranks, parents, strict=True):
        if len(name) > LONGEST_NAME:
            raise refuse(path, "", f"the name {quote(name)} is longer than {LONGEST_NAME:,}.")
        piece = name.replace(SEPARATOR, "%3B")
        ids.append(f"{ids[parent]}{SEPARATOR}{piece}" if parent >= 0 else piece)
        if ids[-1].count(SEPARATOR) >= MOST_RANKS:
            raise refuse(path, "", f"the path to {quote(name)} has more than {MOST_RANKS} names.")
        if shown is not None:
            name = shown.get(name, name)
        elif rank == "species" and parent >= 0 and ranks[parent] == "genus" and name[0].islower():
            name = f"{names[parent]} {name}"  # 'panthera leo' says more than 'leo'
        called.append(name)
    return ids, called


def merge_aliases(
    known: Mapping[str, str | None], pairs: Sequence[tuple[str, str]], ids: Sequence[str] = ()
) -> dict[str, str | None]:
    """Add (name, label) pairs to the names of labels; a name of several labels means None."""
    aliases = dict(known)
    for name, label in [*pairs, *((bare_name(label), label) for label in ids)]:
        if aliases.setdefault(name.lower(), label) != label:
            aliases[name.lower()] = None
    aliases.update((label.lower(), label) for label in ids if SEPARATOR in label)
    return aliases


def bare_name(label: str) -> str:
    """Return the last name of a label's path.

    >>> bare_name("Bacteria;Firmicutes")
    'Firmicutes'
    """
    return label.rsplit(SEPARATOR, 1)[-1].replace("%3B", SEPARATOR)


def lineage(hierarchy: Hierarchy, label: str) -> list[str]:
    """Return a label and its first parents, the top first."""
    found = [label]
    while parents := hierarchy.parents(found[0]):
        found.insert(0, parents[0])
    return found


def written_paths(
    hierarchy: Hierarchy, ranks: Sequence[str], style: Mapping[str, Any]
) -> list[str]:
    """Return the path of each label as the tool writes it, in the order of `hierarchy.labels`."""
    prefixes, fields = style.get("prefixes", {}), style.get("fields", ())
    rank_of = dict(zip(hierarchy.labels, ranks, strict=True))
    written = []
    for label in hierarchy.labels:
        pieces = {
            rank_of[x] or x: prefixes.get(rank_of[x], "")
            + (hierarchy.name(x) if style.get("names") else bare_name(x))
            for x in lineage(hierarchy, label)
        }
        if any(rank in pieces for rank in fields):
            pieces = {rank: pieces.get(rank, "") for rank in fields}
        text = style.get("separator", SEPARATOR).join(pieces.values())
        written.append(text + style.get("end", ""))
    return written


def as_scores(texts: pa.Array, fail: Callable[[int, str], FileError]) -> NDArray[np.float64]:
    """Return texts as scores in [0, 1]; percentages are divided by 100.

    ``fail(entry, text)`` makes the error for the first text that is not a score.
    """
    is_number = pc.fill_null(pc.match_substring_regex(texts, _NUMBER), False)
    if not pc.all(is_number, min_count=0).as_py():
        bad = pc.index(is_number, False).as_py()
        raise fail(bad, f"the confidence {quote(texts[bad])} is not a number from 0 to 1 or 100.")
    scores: NDArray[np.float64] = pc.cast(pc.utf8_trim_whitespace(texts), pa.float64()).to_numpy()
    most = scores.max(initial=0.0)
    if most > 100.0 + 1e-6:
        bad = int(scores.argmax())
        raise fail(bad, f"the confidence {quote(texts[bad])} is above 1, and above 100 %.")
    return np.minimum(scores / 100.0 if most > 1.0 + 1e-6 else scores, 1.0)


def check_samples(
    path: AnyPath, samples: Sequence[Any], place: Callable[[int], str]
) -> tuple[str, ...]:
    """Return the names of the samples; empty and repeated ones are refused at ``place(row)``."""
    names = tuple(samples)
    if not names:
        raise refuse(path, "", "there are no predictions in it.")
    if len(set(names)) != len(names) or "" in names:
        seen: dict[str, int] = {"": -1}
        for row, name in enumerate(names):
            if name in seen:
                before = f" occurs before, in {place(seen[name])}" if name else " has no name"
                text = f"the sample {quote(name) if name else ''}{before}."
                raise refuse(path, place(row), text, "give one prediction per sample.")
            seen[name] = row
    return names
