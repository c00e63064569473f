"""Truth as one name or one path per sample, matched with the labels of predictions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import quote_names
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.anndata import is_anndata, obs_column, open_anndata
from hierlpr.io.json_predictions import field, load_json
from hierlpr.io.lineages import (
    SEPARATOR,
    Index,
    Predictions,
    bare_name,
    has_name,
    quote,
    refuse,
    split_prefix,
)
from hierlpr.io.opening import read_bytes
from hierlpr.io.taxonomy import TextTable

_COLUMNS = ("truth", "taxon", "taxonomy", "label", "name", "species", "cell_type")
_SINTAX = re.compile(r"^[a-z]:")
Names = list[tuple[str, str, str]]  # place, sample, name


def read_known_names(
    path: Any, predictions: Predictions, *, column: str | None = None
) -> tuple[Index, sparse.csr_array, tuple[str, ...]]:
    """Read the true name of samples: a table, a QIIME 2 taxonomy, an obs column, or COCO JSON.

    Returns the rows of `predictions` that have one, their labels with all ancestors as a CSR matrix
    of 0 and 1, and what was left out. A path that leaves the hierarchy counts as its known part:
    whatever is predicted beside or below is wrong. A single name that is never predicted says
    nothing about its ancestors, so the sample is left out.
    """
    rows = {name: row for row, name in enumerate(predictions.samples)}
    index = {label: i for i, label in enumerate(predictions.hierarchy.labels)}
    label_of: dict[str, tuple[str | None, bool]] = {}
    entries: list[tuple[int, int]] = []
    nothing: list[int] = []  # rows whose predicted names are all wrong
    counts, unknown = Counter[str](), Counter[str]()
    for place, sample, name in _read_names(path, column, rows):
        if not has_name(name) or sample not in rows:
            counts["true names are empty or of samples without a prediction"] += 1
            continue
        if name not in label_of:
            label_of[name] = _find_label(path, place, name, predictions)
        label, is_cut = label_of[name]
        if label is None and is_cut:
            counts["true paths share no name with the predictions, which are wrong for them"] += 1
            nothing.append(rows[sample])
            continue
        if label is None:
            unknown[name] += 1
            continue
        counts["true paths go deeper than any prediction and count as far as known"] += is_cut
        entries.append((rows[sample], index[label]))
    if not entries:
        text = f"none of its samples is in {predictions.path}."
        if unknown:
            text = f"none of its names is predicted; the first are {quote_names(list(unknown))}."
        raise refuse(path, "", text, "samples and names must be the same in both files.")
    if unknown:
        names = quote_names(list(unknown))
        text = (
            f"true names are never predicted and were left out, such as {names}; give their paths"
        )
        counts[text] = unknown.total()
    row, labels = np.array(entries, dtype=np.int64).T
    kept = np.unique(np.concatenate([row, np.array(nothing, dtype=np.int64)]))
    row = np.searchsorted(kept, row)
    ones = np.ones(labels.size, dtype=bool)
    truth = sparse.csr_array((ones, (row, labels)), shape=(kept.size, len(index)))
    closed = sparse.csr_array(predictions.hierarchy.close_upward(truth), dtype=np.float64)
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
    table = TextTable(path, raw, 0)
    header = [name.lower() for name in table.header]
    wanted = _COLUMNS if column is None else (column.strip().lower(),)
    at = next((header.index(name) for name in wanted if name in header[1:]), None)
    if at is None and (column is not None or len(header) != 2):
        text = (
            "which column has the true names?" if column is None else f"no column {quote(column)}."
        )
        hint = f"--truth-column NAME; there are {quote_names(table.header)}."
        raise refuse(path, "line 1", text, hint)
    rows: Iterable[tuple[int, list[str]]] = table.rows()
    if at is None and table.header[0] in samples:  # there is no header
        rows = chain([(1, table.header)], rows)
    names: Names = []
    seen: dict[str, int] = {}
    for line, cells in rows:
        if seen.setdefault(cells[0], line) != line:
            text = f"the sample {quote(cells[0])} occurs before, in line {seen[cells[0]]}."
            raise refuse(path, f"line {line}", text, "give one true name per sample.")
        names.append((f"line {line}", cells[0], cells[1 if at is None else at]))
    return names


def _read_coco(path: AnyPath, content: Any, samples: dict[str, int]) -> Names:
    """Read COCO Camera Traps: the categories annotated in each image, found by file name or id."""
    where = "categories"
    try:
        name_of = {
            field(x, "id", int, str): field(x, "name", str)
            for x in field(content, "categories", list)
        }
        where = "images"
        file_of = {
            field(x, "id", str, int): field(x, "file_name", str)
            for x in field(content, "images", list)
        }
        names = {}
        for i, note in enumerate(field(content, "annotations", list)):
            where = f"annotations[{i}]"
            name = name_of[field(note, "category_id", int, str)]
            image = field(note, "image_id", str, int)
            sample = file_of[image] if file_of[image] in samples else str(image)
            pair = (sample, "blank" if name == "empty" else name)
            names[pair] = (where, *pair)
    except KeyError as error:
        raise refuse(path, where, f"{quote(error.args[0])} is not defined in the file.") from None
    except ValueError as error:
        raise refuse(path, where, str(error)) from None
    return list(names.values())


def _find_label(
    path: AnyPath, place: str, text: str, predictions: Predictions
) -> tuple[str | None, bool]:
    """Return the label that a name or path means, and whether the path was cut to find it."""
    aliases, known = predictions.aliases, predictions.hierarchy
    if (label := aliases.get(text.strip().lower())) is not None:
        return label, False
    is_sintax = bool(_SINTAX.match(text))
    pieces = text.split("," if is_sintax else SEPARATOR)
    names = [x for x in (split_prefix(y, is_sintax)[0] for y in pieces) if has_name(x)]
    if not names:
        return None, False
    top = names[0].lower()
    if len(names) == 1 and top in aliases and aliases[top] is None:
        hint = "give the whole path, such as Bacteria;Firmicutes."
        raise refuse(path, place, f"the name {quote(text)} is that of several labels.", hint)
    # A path may begin above or below the top of the predicted ones.
    label = None
    for name in names:
        below = name if label is None and name in known.roots else aliases.get(name.lower())
        below = below if label is None else _child(known, label, name)
        if below is None and label is not None:
            return label, True
        label = below
    return label, label is None and len(names) > 1


def _child(hierarchy: Hierarchy, label: str, name: str) -> str | None:
    """Return the child of a label that has this name, as written in a path or readable."""
    for child in hierarchy.children(label):
        if name.lower() in (bare_name(child).lower(), hierarchy.name(child).lower()):
            return child
    return None
