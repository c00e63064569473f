"""The true names of samples, and how they are found among predicted ones.

Truth is one name or one path per sample, in a file of its own.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import quote_names
from hierlpr.exceptions import DataError, Note
from hierlpr.io import taxonomy
from hierlpr.io.anndata import is_anndata, obs_column, open_anndata
from hierlpr.io.json_predictions import field
from hierlpr.io.lineages import (
    RANKS,
    SEPARATOR,
    Index,
    Predictions,
    bare_name,
    has_name,
    plain,
    quote,
    split_prefix,
)
from hierlpr.io.predictions import unpack_artifact
from hierlpr.io.reading import file_error, load_json, read_bytes
from hierlpr.io.sources import open_text

_COLUMNS = (
    *("truth", "taxon", "taxonomy", "label", "name", "scientificname", "scientific name"),
    *("species", "cell_type", "common name", "common_name"),
)
_BLANKS = {"observationtype": "blank", "is_blank": "1"}  # columns that say that nothing is there
# Names of a path are separated by ; or |, those with a prefix also by commas.
_BETWEEN = re.compile(r"[;|]|,(?=\s*[a-z]{1,2}(?:__|:))")
_FEW = 20  # names of a rank, from which on it is said that none of them is predicted
Names = list[tuple[str, str]]  # sample, name


def read_true_names(
    path: Any,
    predictions: Predictions,
    *,
    column: str | None = None,
    sample_column: str | None = None,
) -> tuple[Index, sparse.csr_array, tuple[str, ...]]:
    """Read the true name of samples.

    The file is a table, a QIIME 2 taxonomy, an obs column, COCO Camera Traps or Label Studio JSON.
    Of a table, `column` has the names, by default the one of a usual name, or several with a rank
    each; `sample_column` the samples, by default the one in which most of them are found.

    Returns the rows of `predictions` that have one, their labels with all ancestors as a CSR matrix
    of 0 and 1, and what was left out. A path that leaves the hierarchy counts as its known part:
    whatever is predicted beside or below is wrong. A single name that is never predicted says
    nothing about its ancestors, so the sample is left out.
    """
    hierarchy = predictions.hierarchy
    samples = SampleNames(predictions.samples)
    finder = _Finder(path, predictions)
    name_of: dict[int, str] = {}
    several: set[int] = set()
    counts, unknown = Counter[str](), Counter[str]()
    pairs = _read_names(path, column, sample_column, samples)
    for sample, name in pairs:
        row = samples.row(sample)
        if not has_name(name) or row is None:
            counts["true names are empty or belong to samples without a prediction"] += 1
        elif name_of.setdefault(row, name) != name:
            several.add(row)
    if not name_of:
        names = [sample for sample, _ in pairs]
        text = f"none of its samples is in {predictions.path}."
        hint = f"its samples are {quote_names(names, most=3)}, those of the predictions "
        hint += f"{quote_names(predictions.samples, most=3)}; sample_column= names another column."
        raise file_error(path, "", text, hint, ("sample_column",))
    counts["samples with several true names are left out"] = len(several)
    entries: list[tuple[int, int]] = []
    nothing: list[int] = []  # rows whose predicted names are all wrong
    for row, name in name_of.items():
        if row in several:
            continue
        label, is_cut = finder.find(name)
        if label is not None:
            counts["true paths go deeper than any prediction and are cut there"] += is_cut
            entries.append((row, hierarchy.index(label)))
        elif is_cut:
            counts["true paths share no name with the predictions, which count as wrong"] += 1
            nothing.append(row)
        else:
            unknown[name] += 1
    if len(entries) < (1 if unknown.total() < _FEW else 0.25 * unknown.total()):
        n = f"only {len(entries):,} of {len(entries) + unknown.total():,}" if entries else "none"
        text = f"{n} of its names is predicted; the first others are {quote_names(list(unknown))}."
        if several and not unknown:
            text = "no sample has a single true name."
        hint = f"predicted are {quote_names(list(hierarchy.names.values()), most=3)}."
        if finder.ambiguous:
            hint += f" {quote_names(sorted(finder.ambiguous))} are names of several labels: give "
            hint += "whole paths, such as Bacteria;Firmicutes."
        raise file_error(path, "", text, hint)
    if finder.ambiguous:
        text = "true names that several labels have were left out, such as {}: give their paths"
        names = sorted(finder.ambiguous)
        counts[text.format(quote_names(names))] = sum(unknown.pop(name) for name in names)
    if unknown:
        text = "true names are never predicted and were left out, such as {}: more new samples "
        text += "than promised may get a wrong name; give their paths"
        counts[text.format(quote_names(list(unknown)))] = unknown.total()
    row, labels = np.array(entries, dtype=np.int64).T
    kept = np.unique(np.concatenate([row, np.array(nothing, dtype=np.int64)]))
    row = np.searchsorted(kept, row)
    ones = np.ones(labels.size, dtype=bool)
    truth = sparse.csr_array((ones, (row, labels)), shape=(kept.size, hierarchy.n_labels))
    closed = sparse.csr_array(hierarchy.close_upward(truth), dtype=np.float64)
    notes = [Note(f"{n:,} {text}", is_warning=True) for text, n in counts.items() if n]
    return kept, closed, (*notes, *finder.notes())


def read_cluster_ids(
    clusters: Any, truth: Any, samples: Sequence[str], *, sample_column: str | None = None
) -> list[str]:
    """Return the cluster of each sample, from a mapping, a table, or a column of the truth."""
    names = SampleNames(samples)
    if isinstance(clusters, Mapping):
        rows = [(str(sample), str(cluster)) for sample, cluster in clusters.items()]
    elif os.path.isfile(clusters):
        rows = _read_names(clusters, None, sample_column, names)
    else:
        rows = _read_names(truth, clusters, sample_column, names, option="clusters")
    ids = [""] * len(samples)
    for sample, cluster in rows:
        if (row := names.row(sample)) is not None and ids[row] not in ("", cluster):
            text = f"{quote(ids[row])} and {quote(cluster)} are clusters of sample {quote(sample)}."
            raise DataError(f"clusters: {text}\nHint: a sample belongs to one cluster.")
        if row is not None:
            ids[row] = cluster.strip()
    if lost := [sample for sample, cluster in zip(samples, ids, strict=True) if not cluster]:
        hint = "give a sample that belongs to no other a cluster of its own."
        text = f"{len(lost):,} of {len(ids):,} samples have no cluster: {quote_names(lost)}."
        raise DataError(f"clusters: {text}\nHint: {hint}")
    return ids


class SampleNames:
    """The rows of samples by name; without sizes (``;size=9``), folders or the ``.0`` of a start.

    Shorter names are used where they are unique.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._row: dict[str, int | None] = {}
        for row, name in enumerate(names):
            for form in self._forms(name)[1:]:
                self._row[form] = row if self._row.get(form, row) == row else None
        self._row.update({name: row for row, name in enumerate(names)})

    @staticmethod
    def _forms(name: str) -> tuple[str, ...]:
        short = re.sub(r"(;size=\d+;?|\.0)$", "", name)
        return name, short, re.split(r"[\\/]", short)[-1]

    def row(self, name: str) -> int | None:
        """Return the row of a sample, None if there is none or it is not clear which."""
        found = (self._row[form] for form in self._forms(name) if form in self._row)
        return next(found, None)


# -- files of truth -----------------------------------------------------------------------------


def _read_names(
    path: Any,
    column: str | None,
    sample_column: str | None,
    samples: SampleNames,
    option: str = "truth_column",
) -> Names:
    """Read sample and name of every row; the `option` chose the column of names."""
    if is_anndata(path):
        called, data = open_anndata(path)
        names = obs_column(called, data, column)
        cells = [str(name) for name in data.obs_names]
        return list(zip(cells, names, strict=True))
    raw = unpack_artifact(path, read_bytes(path))
    if raw.lstrip()[:1] == b"{":
        return _read_coco(path, load_json(path, raw), samples)
    if raw.lstrip()[:1] == b"[":
        return _read_label_studio(path, load_json(path, raw), samples)
    return _read_table(path, raw, column, sample_column, samples, option)


def _read_table(
    path: AnyPath,
    raw: bytes,
    column: str | None,
    sample_column: str | None,
    samples: SampleNames,
    option: str,
) -> Names:
    """Read a table with a header; of two columns, samples and names, it may be missing."""
    table = open_text(path, raw, 0)
    header = [name.lower() for name in table.columns]

    def named(wanted: str, option: str) -> int:
        if wanted.strip().lower() not in header:
            hint = f"choose one with {option}=; there are {quote_names(table.columns)}."
            raise file_error(path, "line 1", f"no column {quote(wanted)}.", hint, (option,))
        return header.index(wanted.strip().lower())

    ranks = [i for i, x in enumerate(header) if x in RANKS.values()]
    at = next((header.index(name) for name in _COLUMNS if name in header[1:]), None)
    columns = [at] if at is not None else []
    if column is not None:
        columns = [named(column, option)]
    elif len(ranks) > 1:
        columns = ranks
    if not columns and len(header) != 2:
        hint = f"choose one with truth_column=; there are {quote_names(table.columns)}."
        text = "which column has the true names?"
        raise file_error(path, "line 1", text, hint, ("truth_column",))
    rows: Iterable[tuple[int, list[str]]] = table.rows()
    is_path = SEPARATOR in table.columns[-1]
    if not columns and (is_path or samples.row(table.columns[0]) is not None):  # no header
        rows = chain([(1, list(table.columns))], rows)
    columns = columns or [1]
    kept = [cells for _, cells in rows]
    window = taxonomy.row_columns([*header, "name", "score"]) or (None, None)
    if sample_column is not None:
        place: tuple[int | None, int | None] = (named(sample_column, "sample_column"), None)
    elif None not in window[:2]:
        place = window[:2]
    else:
        found = [
            sum(samples.row(cells[i]) is not None for cells in kept) for i in range(len(header))
        ]
        place = (max(range(len(header)), key=lambda i: (found[i], -i)), None)
    blanks = [(header.index(x), text) for x, text in _BLANKS.items() if x in header]
    names: Names = []
    for cells in kept:
        name = SEPARATOR.join(cells[i] for i in columns).strip(SEPARATOR)
        if not has_name(name) and any(cells[i].lower() == text for i, text in blanks):
            name = "blank"
        names.append((taxonomy.sample_of_row(cells, *place), name))
    return names


def _read_coco(path: AnyPath, content: Any, samples: SampleNames) -> Names:
    """Read COCO Camera Traps: the categories annotated in each image, found by file name or id."""

    def by_id(key: str, name: str) -> dict[Any, str]:
        return {field(x, "id", int, str): field(x, name, str) for x in field(content, key, list)}

    names, where = dict[tuple[str, str], None](), "categories"
    try:
        name_of = by_id(where, "name")
        where = "images"
        file_of = by_id(where, "file_name")
        for i, note in enumerate(field(content, "annotations", list)):
            where = f"annotations[{i}]"
            name = name_of[field(note, "category_id", int, str)]
            image = field(note, "image_id", str, int)
            sample = file_of[image] if samples.row(file_of[image]) is not None else str(image)
            names[sample, "blank" if name == "empty" else name] = None
    except KeyError as error:
        text = f"{quote(error.args[0])} is not defined in the file."
        raise file_error(path, where, text) from None
    except ValueError as error:
        raise file_error(path, where, str(error)) from None
    return list(names)


def _read_label_studio(path: AnyPath, tasks: list[Any], samples: SampleNames) -> Names:
    """Read a Label Studio export: the choices or taxonomy paths of each task's annotations.

    A task is found by a value of its data, such as the file name without the prefix of an upload,
    or by its id.
    """
    names: Names = []
    for i, task, paths in label_studio_choices(path, tasks):
        texts = [x for x in task["data"].values() if isinstance(x, str)]
        texts += [re.sub(r"^.*[\\/][0-9a-f]{8}-", "", x) for x in texts]
        texts.append(str(task.get("id", i)))
        sample = next((x for x in texts if samples.row(x) is not None), texts[0])
        names += [(sample, SEPARATOR.join(x)) for x in paths]
    return names


def label_studio_choices(
    path: AnyPath, tasks: list[Any]
) -> Iterator[tuple[int, dict[str, Any], list[list[str]]]]:
    """Yield number and content of each annotated task of an export, and the names chosen in it."""
    for i, task in enumerate(tasks):
        try:
            field(task, "data", dict)
            for note in field(task, "annotations", list):
                chosen: list[list[str]] = []
                for part in field(note, "result", list):
                    value = field(part, "value", dict)
                    chosen += [[str(x)] for x in value.get("choices", [])]
                    chosen += [list(map(str, x)) for x in value.get("taxonomy", [])]
                if not note.get("was_cancelled"):
                    yield i, task, chosen
        except ValueError as error:
            hint = "export the project from Label Studio as JSON (not JSON-MIN)."
            raise file_error(path, f"task {i}", str(error), hint) from None


# -- names ----------------------------------------------------------------------------------------


class _Finder:
    """Finds the labels that true names mean, and remembers how well names of each rank agree."""

    def __init__(self, path: AnyPath, predictions: Predictions) -> None:
        self._path, self._of = path, predictions
        self._labels: dict[str, tuple[str | None, bool]] = {}
        self._below: dict[str, dict[str, str | None]] = {}
        self._matched: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._example: dict[tuple[str, str], str] = {}  # of each rank and kind of match
        self.ambiguous: set[str] = set()  # names of several labels

    def find(self, text: str) -> tuple[str | None, bool]:
        """Return the label that a name or path means, and whether the path was cut to find it."""
        if text not in self._labels:
            self._labels[text] = self._find(text)
        return self._labels[text]

    def _find(self, text: str) -> tuple[str | None, bool]:
        aliases, hierarchy = self._of.aliases, self._of.hierarchy
        if (label := aliases.get(plain(text))) is not None:
            return label, False
        is_sintax = re.match("[a-z]:", text) is not None
        pieces = _BETWEEN.split(text)
        names = [x for x in (split_prefix(y, is_sintax)[0] for y in pieces) if has_name(x)]
        if not names:
            return None, False
        top = plain(names[0])
        if len(names) == 1 and top in aliases and aliases[top] is None:
            self.ambiguous.add(text)
            return None, False
        # A path may begin above or below the top of the predicted ones.
        label = None
        for name in names:
            if label is None:
                label = name if name in hierarchy.roots else aliases.get(plain(name))
            elif (below := self._child(label, name)) is None:
                return label, True
            else:
                label = below
        return label, label is None and len(names) > 1

    def _child(self, label: str, name: str) -> str | None:
        """Return the label that a name below another means, by its spelling or by safe rules."""
        hierarchy = self._of.hierarchy
        if label not in self._below:
            forms = self._below[label] = {}
            for below in hierarchy.children(label):  # named as in a path, or readably
                for text in {bare_name(below), hierarchy.name(below)}:
                    forms[text.lower()] = below
                    key = "\0" + plain(text, bare_name(label))
                    forms[key] = below if forms.get(key, below) == below else None
        forms = self._below[label]
        if not forms:
            return None
        child = forms.get(name.lower())
        kind = "as written"
        if child is None:
            child, kind = forms.get("\0" + plain(name, bare_name(label))), "by rules"
        example = child or next(iter(hierarchy.children(label)))
        rank = self._of.ranks[hierarchy.index(example)] or "the same rank"
        kind = "not" if child is None else kind
        self._matched[rank][kind] += 1
        self._example.setdefault((rank, kind), f"{quote(name)} for {quote(bare_name(example))}")
        return child

    def notes(self) -> list[Note]:
        """Return how names were matched; raise if no name of a rank is among the predicted ones."""
        notes = []
        for rank, n in self._matched.items():
            total, which = n.total(), f"true names ({rank})"
            if n["by rules"]:
                text = (
                    f"{n['by rules']:,} of {total:,} {which} were matched without the name above "
                )
                notes.append(Note(f"{text}them, such as {self._example[rank, 'by rules']}"))
            example = self._example.get((rank, "not"), "")
            if n["not"] == total >= _FEW:
                text = f"none of the {total:,} {which} is predicted, such as {example}."
                hint = "write both in the same way, or cut the true paths above this rank."
                raise file_error(self._path, "", text, hint)
            if n["not"] > 0.9 * total and total >= _FEW:
                text = f"only {total - n['not']:,} of {total:,} {which} are predicted"
                notes.append(Note(f"{text}; the truth has {example}", is_warning=True))
        return notes
