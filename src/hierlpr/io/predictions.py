"""Predictions of other tools, recognised by their content, and true names matched with them.

Truth is one name or one path per sample, in a file of its own.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import quote_names
from hierlpr._utils.files import atomic_output
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io import taxonomy
from hierlpr.io.anndata import is_anndata, obs_column, open_anndata, read_anndata
from hierlpr.io.json_predictions import field, read_json
from hierlpr.io.lineages import (
    RANKS,
    SEPARATOR,
    Float,
    Index,
    Predictions,
    bare_name,
    has_name,
    merge_aliases,
    quote,
    split_prefix,
)
from hierlpr.io.reading import file_error, load_json, read_bytes

_BY_LINE = {
    re.compile(r"^[^\t]+\t[a-z]:[^,\t]*\([^()]*\)(,|\t|$)"): taxonomy.read_sintax,
    re.compile(
        r"^[^\t]+\t(\d+\t)?[^;\t]+\([^()]*\)(;|$)|^OTU\tSize\tTaxonomy$"
    ): taxonomy.read_mothur,
    re.compile(r"^[^\t]+\t[-+]?\t[^\t]*\t[^\t]*\t[0-9.]+(\t|$)"): taxonomy.read_rdp,
}
FORMATS = (
    "SINTAX, mothur, RDP, QIIME 2 or DADA2 taxonomy, SpeciesNet or MegaDetector JSON, MapMyCells "
    "CSV or JSON, .h5ad; recognised by content."
)
_COLUMNS = ("truth", "taxon", "taxonomy", "label", "name", "species", "cell_type")
Names = list[tuple[str, str, str]]  # place, sample, name


def read_predictions(
    path: Any,
    *,
    hierarchy: Hierarchy | None = None,
    confidences: AnyPath | Sequence[str] | None = None,
    levels: Sequence[str] = (),
    obsm: str | None = None,
) -> Predictions:
    """Read what a taxonomic, camera-trap or cell-typing tool predicted.

    Parameters
    ----------
    path : path or AnnData
        One of `FORMATS`; ``.gz`` is unpacked.
    hierarchy : Hierarchy, optional
        Used instead of the hierarchy of the paths; labels are matched by path or name.
    confidences : path or list of str, optional
        DADA2: the table of bootstraps. AnnData: the columns of obs with confidences.
    levels : list of str
        AnnData: the columns of obs with names, coarsest first.
    obsm : str, optional
        AnnData: the key of a matrix of scores, used instead of `levels`.
    """
    if is_anndata(path):
        given = confidences or ()
        names = given.split(",") if isinstance(given, str) else given
        columns = [name.strip() for name in names]  # type: ignore[union-attr]
        found = read_anndata(path, obsm=obsm, levels=levels, confidences=columns)
    else:
        found = _recognise(path, read_bytes(path), confidences)
    return found if hierarchy is None else _with_hierarchy(found, hierarchy)


def _recognise(path: AnyPath, raw: bytes, confidences: Any) -> Predictions:
    """Recognise a format by its first lines."""
    head = raw[: 1 << 16].decode(errors="replace")
    lines = [x for x in head.splitlines()[:200] if x.strip()] or [""]
    if lines[0].lstrip()[:1] in ("{", "["):
        return read_json(path, raw)
    names = [name.strip().strip('"').lower() for name in re.split(r"[\t,]", lines[0])]
    body = next((x for x in lines if not x.startswith("#")), "")
    if body.split(",")[0].strip('"') == "cell_id" or lines[0].startswith("# metadata"):
        return taxonomy.read_mapmycells_csv(path, raw)
    if "taxon" in names:
        return taxonomy.read_qiime2(path, raw)
    for pattern, read in _BY_LINE.items():
        if any(pattern.match(x) for x in lines):
            return read(path, raw)
    if len({name.removeprefix("tax.") for name in names} & set(RANKS.values())) >= 2:
        is_path = isinstance(confidences, str | os.PathLike)
        boot = (confidences, read_bytes(confidences)) if is_path else None
        return taxonomy.read_dada2(path, raw, boot)
    other = "write the columns sample, Taxon (the path, separated by ;) and Confidence"
    hint = f"known are {FORMATS} For other tools {other} to a .tsv file."
    if b"\0" in raw[:100]:
        hint = "this is not UTF-8 text; save UTF-16 as UTF-8 (in Excel: CSV UTF-8)."
    raise file_error(path, "line 1", "the format is not recognised.", hint)


def write_like_input(found: Predictions, label: Index, chance: Float, path: AnyPath) -> None:
    """Write the tool's own format with every path cut at the label of its sample (-1: none)."""
    if found.rewrite is None:
        hint = "leave like_input out and write a table."
        text = f"{found.path}: {found.format} files are not written.\nHint: {hint}"
        raise DataError(text, options=("like_input",))
    with atomic_output(path, compress=True) as part:
        found.rewrite(found, np.asarray(label, dtype=np.int64), np.asarray(chance), part)


def match_labels(
    found: Predictions, hierarchy: Hierarchy, hint: str = "is the model of the same taxonomy?"
) -> tuple[sparse.csr_array, Index, NDArray[np.bool_]]:
    """Match listed scores with the labels of another hierarchy, such as that of a model.

    Returns the scores, the column of each label of `found` (-1 if unknown) and which samples list
    an unknown label. Its known ancestors keep their own scores, so the sample can still be named.
    """
    known: dict[str, str | None] = {label: label for label in hierarchy.labels}
    if not any(SEPARATOR in label for label in hierarchy.labels):  # its labels are not paths
        pairs = [(hierarchy.name(label), label) for label in hierarchy.labels]
        names = merge_aliases(pairs, hierarchy.labels)
        known = {x: names.get(found.hierarchy.name(x).lower()) for x in found.hierarchy.labels}
    target = (known.get(label) for label in found.hierarchy.labels)
    column = np.array([-1 if x is None else hierarchy.index(x) for x in target], dtype=np.int64)
    if not (column >= 0).any():
        first = quote_names(list(found.hierarchy.names.values()))
        text = f"none of the predicted names is in the hierarchy; the first are {first}."
        raise file_error(found.path, "", text, hint)
    scores = found.scores
    row = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
    at = column[scores.indices]
    is_unknown = np.bincount(row[at < 0], minlength=scores.shape[0]) > 0
    order = np.flatnonzero(at >= 0)
    used = column[column >= 0]
    if np.unique(used).size < used.size:  # of two labels that are one there, the larger score stays
        order = order[np.lexsort((-scores.data[order], at[order], row[order]))]
        order = order[np.diff(row[order] * hierarchy.n_labels + at[order], prepend=-1) != 0]
    entries = (scores.data[order], (row[order], at[order]))
    shape = (scores.shape[0], hierarchy.n_labels)
    return sparse.csr_array(entries, shape=shape), column, is_unknown


def _with_hierarchy(found: Predictions, hierarchy: Hierarchy) -> Predictions:
    """Replace the hierarchy of the paths by a given one."""
    hint = "leave the hierarchy out to take it from the paths."
    scores, column, is_unknown = match_labels(found, hierarchy, hint)
    ranks = [f"level {level}" for level in hierarchy.levels]
    new = {}  # labels, by those of the paths
    for i in np.flatnonzero(column >= 0):
        new[found.hierarchy.labels[i]] = hierarchy.labels[column[i]]
        ranks[column[i]] = found.ranks[i] or ranks[column[i]]
    notes = found.notes
    if is_unknown.any():
        text = f"{is_unknown.sum():,} samples have a predicted name that the hierarchy lacks"
        notes = (*notes, text)
    pairs = [(hierarchy.name(x), x) for x in hierarchy.labels]
    pairs += [(name, new[x]) for name, x in found.aliases.items() if x in new]
    aliases = merge_aliases(pairs, hierarchy.labels)
    changed = {"scores": scores, "hierarchy": hierarchy, "ranks": tuple(ranks), "aliases": aliases}
    return replace(found, **changed, notes=notes, place=None)


# -- truth ---------------------------------------------------------------------------------------


def read_known_names(
    path: Any, predictions: Predictions, *, column: str | None = None
) -> tuple[Index, sparse.csr_array, tuple[str, ...]]:
    """Read the true name of samples: a table, a QIIME 2 taxonomy, an obs column, or COCO JSON.

    Returns the rows of `predictions` that have one, their labels with all ancestors as a CSR matrix
    of 0 and 1, and what was left out. A path that leaves the hierarchy counts as its known part:
    whatever is predicted beside or below is wrong. A single name that is never predicted says
    nothing about its ancestors, so the sample is left out.
    """
    hierarchy = predictions.hierarchy
    rows = {name: row for row, name in enumerate(predictions.samples)}
    label_of: dict[str, tuple[str | None, bool]] = {}
    entries: list[tuple[int, int]] = []
    nothing: list[int] = []  # rows whose predicted names are all wrong
    counts, unknown = Counter[str](), Counter[str]()
    for place, sample, name in _read_names(path, column, rows):
        if not has_name(name) or sample not in rows:
            counts["true names are empty or belong to samples without a prediction"] += 1
            continue
        if name not in label_of:
            label_of[name] = _find_label(path, place, name, predictions)
        label, is_cut = label_of[name]
        if label is not None:
            counts["true paths go deeper than any prediction and are cut there"] += is_cut
            entries.append((rows[sample], hierarchy.index(label)))
        elif is_cut:
            counts["true paths share no name with the predictions, which count as wrong"] += 1
            nothing.append(rows[sample])
        else:
            unknown[name] += 1
    if not entries:
        text = f"none of its samples is in {predictions.path}."
        if unknown:
            text = f"none of its names is predicted; the first are {quote_names(list(unknown))}."
        raise file_error(path, "", text, "samples and names must be the same in both files.")
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
    return kept, closed, tuple(f"{n:,} {text}" for text, n in counts.items() if n)


def _read_names(path: Any, column: str | None, rows: dict[str, int]) -> Names:
    if is_anndata(path):
        called, data = open_anndata(path)
        names = obs_column(called, data, column)
        cells = [str(name) for name in data.obs_names]
        return [(f"cell {i}", *x) for i, x in enumerate(zip(cells, names, strict=True))]
    raw = read_bytes(path)
    if raw.lstrip()[:1] == b"{":
        return _read_coco(path, load_json(path, raw), rows)
    return _read_two_columns(path, raw, column, rows)


def _read_two_columns(
    path: AnyPath, raw: bytes, column: str | None, samples: dict[str, int]
) -> Names:
    """Read a table whose first column names samples; a header is needed beyond two columns."""
    table = taxonomy.TextTable(path, raw, 0)
    header = [name.lower() for name in table.header]
    wanted = _COLUMNS if column is None else (column.strip().lower(),)
    at = next((header.index(name) for name in wanted if name in header[1:]), None)
    if at is None and (column is not None or len(header) != 2):
        asked = "which column has the true names?"
        text = asked if column is None else f"no column {quote(column)}."
        hint = f"choose one with truth_column=; there are {quote_names(table.header)}."
        raise file_error(path, "line 1", text, hint, ("truth_column",))
    rows: Iterable[tuple[int, list[str]]] = table.rows()
    if at is None and table.header[0] in samples:  # there is no header
        rows = chain([(1, table.header)], rows)
    names: Names = []
    seen: dict[str, int] = {}
    for line, cells in rows:
        if seen.setdefault(cells[0], line) != line:
            text = f"the sample {quote(cells[0])} already occurs in line {seen[cells[0]]}."
            raise file_error(path, f"line {line}", text, "give one true name per sample.")
        names.append((f"line {line}", cells[0], cells[1 if at is None else at]))
    return names


def _read_coco(path: AnyPath, content: Any, samples: dict[str, int]) -> Names:
    """Read COCO Camera Traps: the categories annotated in each image, found by file name or id."""

    def by_id(key: str, name: str) -> dict[Any, str]:
        return {field(x, "id", int, str): field(x, name, str) for x in field(content, key, list)}

    names, where = {}, "categories"
    try:
        name_of = by_id(where, "name")
        where = "images"
        file_of = by_id(where, "file_name")
        for i, note in enumerate(field(content, "annotations", list)):
            where = f"annotations[{i}]"
            name = name_of[field(note, "category_id", int, str)]
            image = field(note, "image_id", str, int)
            sample = file_of[image] if file_of[image] in samples else str(image)
            pair = (sample, "blank" if name == "empty" else name)
            names[pair] = (where, *pair)
    except KeyError as error:
        text = f"{quote(error.args[0])} is not defined in the file."
        raise file_error(path, where, text) from None
    except ValueError as error:
        raise file_error(path, where, str(error)) from None
    return list(names.values())


def _find_label(
    path: AnyPath, place: str, text: str, predictions: Predictions
) -> tuple[str | None, bool]:
    """Return the label that a name or path means, and whether the path was cut to find it."""
    aliases, known = predictions.aliases, predictions.hierarchy
    if (label := aliases.get(text.strip().lower())) is not None:
        return label, False
    is_sintax = re.match("[a-z]:", text) is not None
    pieces = text.split("," if is_sintax else SEPARATOR)
    names = [x for x in (split_prefix(y, is_sintax)[0] for y in pieces) if has_name(x)]
    if not names:
        return None, False
    top = names[0].lower()
    if len(names) == 1 and top in aliases and aliases[top] is None:
        hint = "give the whole path, such as Bacteria;Firmicutes."
        raise file_error(path, place, f"the name {quote(text)} is that of several labels.", hint)
    # A path may begin above or below the top of the predicted ones.
    label = None
    for name in names:
        if label is None:
            label = name if name in known.roots else aliases.get(name.lower())
            continue
        for below in known.children(label):  # named as in a path, or readably
            if name.lower() in (bare_name(below).lower(), known.name(below).lower()):
                label = below
                break
        else:
            return label, True
    return label, label is None and len(names) > 1
