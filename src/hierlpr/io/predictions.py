"""Predictions of other tools, recognised by their content."""

from __future__ import annotations

import io
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import quote_names
from hierlpr._utils.files import atomic_output
from hierlpr.data.frames import path_labels
from hierlpr.data.listed import close_listed
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.io import taxonomy
from hierlpr.io.anndata import is_anndata, read_anndata
from hierlpr.io.json_predictions import read_json
from hierlpr.io.lineages import (
    RANKS,
    SEPARATOR,
    UNCLOSED,
    Float,
    Index,
    Predictions,
    merge_aliases,
    plain,
    quote,
)
from hierlpr.io.reading import MAX_TEXT, file_error, read_bytes, refuse_abundances

_BY_LINE: dict[str, Callable[[AnyPath, bytes], Predictions]] = {
    form.pattern: partial(taxonomy.read_paths, form=form) for form in taxonomy.PATH_FORMATS
}
_BY_LINE[r"^[^\t]+\t[^\t]*;[^\t]*\t-?[0-9.]+(\t|$)"] = partial(taxonomy.read_qiime, at=1)
_IDENTIFICATIONS = {"Camtrap DP": "observationtype", "Wildlife Insights": "wi_taxon_id"}
FORMATS = (
    "SINTAX, mothur, RDP, BLCA, QIIME 1 or 2 (also .qza) or DADA2 taxonomy, BirdNET or animl CSV, "
    "SpeciesNet or MegaDetector JSON, MapMyCells CSV or JSON, JSON answers of language models, "
    ".h5ad; recognised by content."
)
ZIP = b"PK\x03\x04"


def read_predictions(
    path: Any,
    *,
    hierarchy: Hierarchy | None = None,
    confidences: AnyPath | Sequence[str] | None = None,
    levels: Sequence[str] = (),
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
    """
    if is_anndata(path):
        texts = confidences or ()
        names = texts.split(",") if isinstance(texts, str) else texts
        columns = [name.strip() for name in names]  # type: ignore[union-attr]
        predictions = read_anndata(path, levels=levels, confidences=columns)
    else:
        raw = read_bytes(path)
        predictions = _recognise(path, unpack_artifact(path, raw), confidences)
        if raw.startswith(ZIP):
            predictions = replace(predictions, rewrite=None)
    return predictions if hierarchy is None else _with_hierarchy(predictions, hierarchy)


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
    refuse_abundances(path, lines)
    for tool, column in _IDENTIFICATIONS.items():
        if column in names:
            text = f"these are names without confidences ({tool})."
            raise file_error(path, "line 1", text, "give this file as the truth.")
    if "taxon" in names:
        return taxonomy.read_qiime(path, raw)
    for pattern, read in _BY_LINE.items():
        if any(re.match(pattern, x) for x in lines):
            return read(path, raw)
    if taxonomy.row_columns(names) is not None:
        return taxonomy.read_detections(path, raw)
    if len({name.removeprefix("tax.") for name in names} & set(RANKS.values())) >= 2:
        is_path = isinstance(confidences, str | os.PathLike)
        boot = (confidences, read_bytes(confidences)) if is_path else None
        return taxonomy.read_dada2(path, raw, boot)
    other = "write the columns sample, Taxon (the path, separated by ;) and Confidence"
    hint = f"known are {FORMATS} For other tools {other} to a .tsv file."
    if b"\0" in raw[:100]:
        hint = "this is not UTF-8 text; save UTF-16 as UTF-8 (in Excel: CSV UTF-8)."
    raise file_error(path, "line 1", "the format is not recognised.", hint)


def unpack_artifact(path: AnyPath, raw: bytes) -> bytes:
    """Return the taxonomy in a QIIME 2 artifact (.qza), which is a zip; other bytes as they are."""
    if not raw.startswith(ZIP):
        return raw
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as packed:
            name = next((x for x in packed.namelist() if x.endswith("/data/taxonomy.tsv")), None)
            if name is not None and packed.getinfo(name).file_size <= MAX_TEXT:
                return packed.read(name)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError) as error:
        raise file_error(path, "", f"not a readable zip file ({quote(error)}).") from None
    text = "the zip has no data/taxonomy.tsv, or a very large one."
    raise file_error(path, "", text, "of QIIME 2 artifacts, those of a taxonomy are read.")


def write_like_input(predictions: Predictions, label: Index, chance: Float, path: AnyPath) -> None:
    """Write the tool's own format with every path cut at the label of its sample (-1: none)."""
    if predictions.rewrite is None:
        hint = "leave like_input out and write a table."
        text = f"{predictions.path}: {predictions.format} files are not written.\nHint: {hint}"
        raise DataError(text, options=("like_input",))
    with atomic_output(path, compress=True) as part:
        predictions.rewrite(
            predictions, np.asarray(label, dtype=np.int64), np.asarray(chance), part
        )


def match_columns(
    predictions: Predictions, hierarchy: Hierarchy, hint: str = "is the model of the same taxonomy?"
) -> Index:
    """Return the label of a hierarchy, such as that of a model, for each predicted one (-1: none).

    Raises if it has none of them.
    """
    target = match_labels(predictions, hierarchy)
    column = np.array([-1 if x is None else hierarchy.index(x) for x in target], dtype=np.int64)
    if not (column >= 0).any():
        first = quote_names(list(predictions.hierarchy.names.values()))
        text = f"none of the predicted names is in the hierarchy; the first are {first}."
        raise file_error(predictions.path, "", text, hint)
    return column


def match_labels(predictions: Predictions, hierarchy: Hierarchy) -> list[str | None]:
    """Return the label of a hierarchy for each predicted one, by path or by name (None: none).

    Names alone are not enough where both have paths.
    """
    has_paths = any(SEPARATOR in label for label in hierarchy.labels)
    pairs = [(hierarchy.name(label), label) for label in hierarchy.labels]
    names = merge_aliases(pairs, hierarchy.labels)

    def match(label: str) -> str | None:
        if label in hierarchy or (has_paths and predictions.format not in UNCLOSED):
            return label if label in hierarchy else None
        name = predictions.hierarchy.name(label)
        end = path_labels(name, hierarchy)[-1]
        return end if end in hierarchy else names.get(plain(name))

    return [match(label) for label in predictions.hierarchy.labels]


def take_columns(
    predictions: Predictions, column: Index, hierarchy: Hierarchy
) -> tuple[sparse.csr_array, NDArray[np.bool_]]:
    """Move listed scores to columns of another hierarchy; say which samples list one without (-1).

    The ancestors of such a label keep their own scores, so the sample can still be named.
    """
    scores = predictions.scores
    row = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
    at = column[scores.indices]
    is_unknown = np.bincount(row[at < 0], minlength=scores.shape[0]) > 0
    order = np.flatnonzero(at >= 0)
    used = column[column >= 0]
    if np.unique(used).size < used.size:  # of two labels that are one there, the larger score stays
        order = order[np.lexsort((-scores.data[order], at[order], row[order]))]
        order = order[np.diff(row[order] * hierarchy.n_labels + at[order], prepend=-1) != 0]
    entries = (scores.data[order], (row[order], at[order]))
    moved = sparse.csr_array(entries, shape=(scores.shape[0], hierarchy.n_labels))
    if predictions.format in UNCLOSED:
        closed = close_listed(moved, hierarchy)
        parts = (closed.value, closed.label, closed.row_ptr)
        moved = sparse.csr_array(parts, shape=moved.shape)
        moved.sort_indices()
    return moved, is_unknown


def _with_hierarchy(predictions: Predictions, hierarchy: Hierarchy) -> Predictions:
    """Replace the hierarchy of the paths by a given one."""
    hint = "leave the hierarchy out to take it from the paths."
    column = match_columns(predictions, hierarchy, hint)
    scores, is_unknown = take_columns(predictions, column, hierarchy)
    at = np.flatnonzero(column >= 0)
    new = {predictions.hierarchy.labels[i]: hierarchy.labels[column[i]] for i in at}
    rank_of = {
        column[i]: predictions.ranks[i] for i in at if not predictions.ranks[i].startswith("depth ")
    }
    by_depth: dict[int, Counter[str]] = {}  # names that are not predicted have the usual rank
    for label, rank in rank_of.items():
        by_depth.setdefault(hierarchy.levels[label], Counter())[rank] += rank != ""
    usual = {level: counts.most_common(1)[0][0] for level, counts in by_depth.items()}
    ranks = [
        rank_of.get(label) or usual.get(level) or f"depth {level}"
        for label, level in enumerate(hierarchy.levels)
    ]
    notes = predictions.notes
    if is_unknown.any():
        text = f"{is_unknown.sum():,} samples have a predicted name that the hierarchy lacks"
        notes = (*notes, text)
    pairs = [(hierarchy.name(x), x) for x in hierarchy.labels]
    pairs += [(name, new[x]) for name, x in predictions.aliases.items() if x in new]
    aliases = merge_aliases(pairs, hierarchy.labels)
    changed = {"scores": scores, "hierarchy": hierarchy, "ranks": tuple(ranks), "aliases": aliases}
    return replace(predictions, **changed, notes=notes, place=None)
