"""Predictions of other tools: scored paths of names, and the hierarchy that they imply."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.display import escape_control
from hierlpr.exceptions import FileError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.reading import file_error

Index = NDArray[np.int64]
Float = NDArray[np.float64]
# The place of a sample, the sample, and its names with another name ("": none) and confidence.
Listed = tuple[int, str, list[tuple[str, str, Any]]]
Entry = tuple[str, str, str]  # name, rank ("" if unknown) and confidence, as a file has them
Aliases = dict[str, str | None]
SEPARATOR = ";"  # between the names of a label's path
MOST_RANKS = 64
LONGEST_NAME = 1_000  # characters
UNCLOSED = ("detections", "windows", "answers")  # names in any number, without those above them
PERCENT = ("mothur", "dada2", "anndata", "blca")  # formats with confidences from 0 to 100
RANKS = {
    "d": "domain", "sk": "superkingdom", "k": "kingdom", "p": "phylum", "c": "class", "o": "order",
    "f": "family", "g": "genus", "s": "species", "t": "strain", "sh": "species hypothesis",
}  # fmt: skip
_SILVA = {f"D_{i}": RANKS[x] for i, x in enumerate("dpcofgs")}
_PREFIX = re.compile(r"([a-z]{1,2}__|D_[0-9]{1,2}__)?(.*)", re.DOTALL)
_PREFIX_OR_COLON = re.compile(r"([a-z]{1,2}__|D_[0-9]{1,2}__|[a-z]:)?(.*)", re.DOTALL)
_NO_NAME = re.compile(
    r"(na|nan|none|unclassified|unknown|unassigned|unidentified|.*_unclassified)?", re.I | re.DOTALL
)


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """Predictions of a tool: samples, listed scores, and the hierarchy of the predicted paths.

    A label is identified by its path of names without rank prefixes (``Bacteria;Firmicutes``), so
    that one name in two places is two labels; `hierarchy.names` has readable names.
    """

    path: str
    format: str  # such as "sintax"
    samples: tuple[str, ...]
    scores: sparse.csr_array  # (n_samples, n_labels), from 0 to 1
    hierarchy: Hierarchy
    ranks: tuple[str, ...]  # of labels: "genus", a level of cell types, or "depth 3"
    style: Mapping[str, Any]  # how the tool writes paths: plain values that a model file can keep
    aliases: Aliases  # names of labels in truth files, as `plain`; None if of several labels
    # Writes the tool's own format, given the label of each sample (-1: none), chances and a path.
    rewrite: Callable[[Predictions, Index, Float, AnyPath], None] | None = None
    columns: tuple[str, ...] = ()  # names of the tool's own columns
    cells: Callable[[], Iterator[Sequence[str]]] = lambda: repeat(())  # of these, for each sample
    place: Index | None = None  # of each score in its path; None if a sample has several paths
    notes: tuple[str, ...] = ()  # what was left out, with counts


def quote(text: Any) -> str:
    """Return text from a file in quotes, on one line and not too long."""
    return f"'{escape_control(text, most=60)}'"


def has_name(text: str) -> bool:
    """Return whether a text is a name; ``unclassified``, ``NA`` and empty texts are not."""
    return not _NO_NAME.fullmatch(text.strip())


def split_prefix(text: str, has_colons: bool = False) -> tuple[str, str, str]:
    """Return a name without its prefix, the rank that the prefix means, and the prefix.

    >>> split_prefix("k__Fungi"), split_prefix("D_5__Bacillus"), split_prefix("d:X", True)
    (('Fungi', 'kingdom', 'k__'), ('Bacillus', 'genus', 'D_5__'), ('X', 'domain', 'd:'))
    """
    pattern = _PREFIX_OR_COLON if has_colons else _PREFIX
    prefix, name = pattern.match(text.strip(' "')).groups(default="")  # type: ignore[union-attr]
    word = prefix.rstrip("_:")
    rank = _SILVA.get(word) or RANKS.get(word, word)
    return name.strip('" '), rank, prefix


def read_confidence(value: Any) -> float:
    """Return a confidence as a number, ``85%`` as 0.85; raise ValueError for anything else."""
    text = str(value).strip()
    try:
        number = float(text.removesuffix("%").replace(",", "."))
    except ValueError:
        hint = "ask the tool for numbers from 0 to 1 or from 0 to 100."
        if '"' in text:
            hint = "write the file without quotes."
        raise ValueError(f"the confidence {quote(text)} is not a number.\nHint: {hint}") from None
    if number == -1.0:
        hint = "run the tool so that it gives confidences; without them no name can be judged."
        raise ValueError(f"-1 stands for a name without a confidence.\nHint: {hint}")
    return number / 100.0 if text.endswith("%") else number


class Collector:
    """Numbers the labels of paths, collects the scores of samples and builds `Predictions`.

    A label has a larger number than its parent. `place` is where a sample stands in its file, such
    as ``"line {}"``; `shown` has readable names of names.
    """

    def __init__(
        self, path: AnyPath, kind: str, place: str, shown: dict[str, str] | None = None
    ) -> None:
        self.path, self.kind, self.place = path, kind, place
        self.shown = {} if shown is None else shown
        self.parent: list[int] = []
        self.name: list[str] = []
        self.rank: list[str] = []
        self.prefixes: dict[str, str] = {}
        self.pairs: list[tuple[str, int]] = []  # further names of labels, for truth files
        self._number: dict[tuple[int, str], int] = {}
        self._depth: list[int] = []  # of labels
        self._samples: dict[str, int] = {}  # sample, number in the file
        self._ptr, self._place, self._label = array("q", [0]), array("b"), array("q")
        self._score = array("d")

    def label(self, above: int, text: str, rank: str, place: int = 0) -> int:
        """Return the label of a name below another (-1: none), which stays if nothing is named.

        A name without a rank has that of its prefix, or else of its `place` in the path.
        """
        number = self._number.get((above, text))
        if number is not None:
            return number
        name, own_rank, prefix = split_prefix(text, self.kind == "sintax")
        number = self._number.get((above, name), len(self.parent)) if has_name(name) else above
        if number == len(self.parent):
            if len(name) > LONGEST_NAME:
                raise ValueError(f"the name {quote(name)} is longer than {LONGEST_NAME:,}.")
            self._depth.append(self._depth[above] + 1 if above >= 0 else 1)
            if self._depth[-1] > MOST_RANKS:
                raise ValueError(f"the path to {quote(name)} has more than {MOST_RANKS} names.")
            self.parent.append(above)
            self.name.append(name)
            self.rank.append(own_rank or rank or f"depth {place + 1}")
            self._number[above, name] = number
        if prefix:
            self.prefixes.setdefault(own_rank, prefix)
        self._number[above, text] = number
        return number

    def path_to(self, pairs: Iterable[tuple[str, str]]) -> list[int]:
        """Return the labels of a path given as (rank, name) pairs, the top first."""
        path = [-1]
        for place, (rank, name) in enumerate(pairs):
            path.append(self.label(path[-1], name, rank, place))
        return path[1:]

    def add_path(self, number: int, sample: str, entries: Iterable[Entry]) -> None:
        """Add a sample with one path; placeholder names are skipped, with their score."""
        above = -1
        try:
            for place, (text, rank, score) in enumerate(entries):
                label = self.label(above, text, rank, place)
                if label == above:
                    continue
                above = label
                self._label.append(label)
                self._place.append(min(place, MOST_RANKS))
                self._score.append(read_confidence(score))
        except ValueError as error:
            raise self.error(number, str(error)) from None
        self._end(number, sample)

    def add_scores(self, number: int, sample: str, scores: Mapping[int, float]) -> None:
        """Add a sample with the scores of labels."""
        for label in sorted(scores):
            self._label.append(label)
            self._score.append(min(scores[label], 1.0))
        self._end(number, sample)

    def add_listed(self, rows: Iterable[Listed], rank: str = "") -> None:
        """Add samples with names in any number; the largest confidence of a repeated name counts.

        A name may be a path; `rank` is that of names that are none. Confidences without a percent
        sign are percentages if some of them are above 1.
        """
        samples: dict[str, tuple[int, dict[int, float], dict[int, float]]] = {}
        for number, sample, names in rows:
            _, plain, signed = samples.setdefault(sample, (number, {}, {}))
            try:
                for text, other, value in names:
                    score = read_confidence(value)
                    if not 0.0 <= score <= 100.0:
                        raise ValueError(f"the confidence {quote(value)} is not from 0 to 100.")
                    scores = signed if str(value).strip().endswith("%") else plain
                    pieces = text.split(SEPARATOR)
                    above = -1
                    for label in self.path_to(
                        (rank if len(pieces) == 1 else "", x) for x in pieces
                    ):
                        if label >= 0:
                            scores[label], above = max(scores.get(label, 0.0), score), label
                    if other and above >= 0:
                        self.pairs.append((other, above))
            except ValueError as error:
                raise self.error(number, str(error)) from None
        largest = max((x for _, plain, _ in samples.values() for x in plain.values()), default=0.0)
        scale = 100.0 if largest > 1.0 + 1e-6 else 1.0
        for sample, (number, plain, signed) in samples.items():
            scores = {label: x / scale for label, x in plain.items()}
            self.add_scores(
                number,
                sample,
                {x: max(signed.get(x, 0.0), scores.get(x, 0.0)) for x in {**scores, **signed}},
            )

    def _end(self, number: int, sample: str) -> None:
        if not sample or sample in self._samples:
            text = "the sample has no name."
            if sample:
                before = self.place.format(self._samples[sample])
                text = f"the sample {quote(sample)} already occurs in {before}."
            raise self.error(number, text, "give one prediction per sample.")
        self._samples[sample] = number
        self._ptr.append(len(self._label))

    def error(self, number: int, text: str, hint: str = "") -> FileError:
        """Return the error for a sample."""
        return file_error(self.path, self.place.format(number), text, hint)

    def finish(self, *, style: Mapping[str, Any], **others: Any) -> Predictions:
        """Build the predictions."""
        if not self._samples:
            raise file_error(self.path, "", "there are no predictions in it.")
        if not self.parent:
            text = "no sample has a predicted name."
            raise file_error(self.path, "", text, "is it the right file?")
        ids, shown = self._names()
        edges = [(ids[p], ids[i]) for i, p in enumerate(self.parent) if p >= 0]
        entries = (self._checked_scores(), np.array(self._label), np.array(self._ptr))
        scores = sparse.csr_array(entries, shape=(len(self._samples), len(ids)))
        pairs = [(name, ids[i]) for name, i in self.pairs]
        return Predictions(
            path=str(self.path),
            format=self.kind,
            samples=tuple(self._samples),
            scores=scores,
            hierarchy=Hierarchy(edges, labels=ids, names=dict(zip(ids, shown, strict=True))),
            ranks=tuple(self.rank),
            style={"format": self.kind, **style, "prefixes": self.prefixes},
            aliases=merge_aliases([*zip(shown, ids, strict=True), *pairs], ids),
            place=np.array(self._place, dtype=np.int64) if self._place else None,
            **others,
        )

    def _checked_scores(self) -> Float:
        """Return scores in [0, 1]; percentages are divided by 100."""
        scores = np.array(self._score)
        most = 100 if self.kind in PERCENT else 1
        is_bad = ~((scores >= 0.0) & (scores <= most + 1e-6))
        if is_bad.any():
            entry = int(is_bad.argmax())
            row = int(np.searchsorted(np.array(self._ptr), entry, side="right")) - 1
            text = f"the confidence {scores[entry]:g} is not from 0 to {most}."
            text += "\nHint: divide percentages by 100." if most == 1 else ""
            raise self.error(list(self._samples.values())[row], text)
        return np.minimum(scores / 100.0 if scores.max(initial=0.0) > 1.0 + 1e-6 else scores, 1.0)

    def _names(self) -> tuple[list[str], list[str]]:
        """Return the path that identifies each label, and its readable name."""
        ids: list[str] = []
        shown: list[str] = []
        for i, (name, parent) in enumerate(zip(self.name, self.parent, strict=True)):
            piece = name.replace(SEPARATOR, "%3B")
            ids.append(f"{ids[parent]}{SEPARATOR}{piece}" if parent >= 0 else piece)
            if name in self.shown:
                name = self.shown[name]
            elif self.rank[i] == "species" and parent >= 0 and name[0].islower():
                above = self.name[parent] if self.rank[parent] == "genus" else ""
                name = f"{above} {name}".strip()  # 'panthera leo' says more than 'leo'
            shown.append(name)
        return ids, shown


def merge_aliases(pairs: Iterable[tuple[str, str]], ids: Sequence[str] = ()) -> Aliases:
    """Return the label of each `plain` name; a name of several labels means None."""
    aliases: Aliases = {}
    for name, label in [*pairs, *((bare_name(label), label) for label in ids)]:
        if aliases.setdefault(plain(name), label) != label:
            aliases[plain(name)] = None
    aliases.update((plain(label), label) for label in ids if SEPARATOR in label)
    return aliases


def plain(name: str, above: str = "") -> str:
    """Return a name in lower case, with blanks for underscores, without the name above it.

    >>> plain("Prevotella_copri", "Prevotella"), plain("copri", "Prevotella")
    ('copri', 'copri')
    """
    text = re.sub(r"[_\s]+", " ", name).strip().lower()
    return text.removeprefix(f"{plain(above)} ") if above else text


def bare_name(label: str) -> str:
    """Return the last name of a label's path: ``Firmicutes`` of ``Bacteria;Firmicutes``."""
    return label.rsplit(SEPARATOR, 1)[-1].replace("%3B", SEPARATOR)


def lineage(hierarchy: Hierarchy, label: str) -> list[str]:
    """Return a label and its first parents, the top first."""
    path = [label]
    while parents := hierarchy.parents(path[0]):
        path.insert(0, parents[0])
    return path


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
