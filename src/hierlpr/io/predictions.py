"""Read the predictions of other tools, recognised by their content, and write them back."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils import AnyPath
from hierlpr._utils.checks import quote_names
from hierlpr._utils.files import atomic_output
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.anndata import is_anndata, read_anndata
from hierlpr.io.json_predictions import read_json
from hierlpr.io.lineages import RANKS, SEPARATOR, Float, Index, Predictions, merge_aliases, refuse
from hierlpr.io.opening import read_bytes
from hierlpr.io.taxonomy import (
    read_dada2,
    read_mapmycells_csv,
    read_mothur,
    read_qiime2,
    read_rdp,
    read_sintax,
)

_BY_LINE = {
    re.compile(r"^[^\t]+\t[a-z]:[^,\t]*\([^()]*\)(,|\t|$)"): read_sintax,
    re.compile(r"^[^\t]+\t(\d+\t)?[^;\t]+\([^()]*\)(;|$)|^OTU\tSize\tTaxonomy$"): read_mothur,
    re.compile(r"^[^\t]+\t[-+]?\t[^\t]*\t[^\t]*\t[0-9.]+(\t|$)"): read_rdp,
}
FORMATS = (
    "SINTAX, mothur, RDP, QIIME 2 or DADA2 taxonomy, SpeciesNet or MegaDetector JSON, MapMyCells "
    "CSV or JSON, .h5ad; recognised by content."
)


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
        columns = given.split(",") if isinstance(given, str) else list(given)  # type: ignore[arg-type]
        found = read_anndata(path, obsm=obsm, levels=levels, confidences=columns)
    else:
        found = _recognise(path, read_bytes(path), confidences)
    return found if hierarchy is None else _with_hierarchy(found, hierarchy)


def _recognise(path: AnyPath, raw: bytes, confidences: Any) -> Predictions:
    """Recognise a format by its first lines."""
    head = raw[: 1 << 16].removeprefix(b"\xef\xbb\xbf").decode(errors="replace")
    lines = [x for x in head.splitlines()[:200] if x.strip()]
    if lines[0].lstrip()[0] in "{[":
        return read_json(path, raw)
    names = [name.strip().strip('"').lower() for name in re.split(r"[\t,]", lines[0])]
    body = next((x for x in lines if not x.startswith("#")), "")
    if body.split(",")[0].strip('"') == "cell_id" or lines[0].startswith("# metadata"):
        return read_mapmycells_csv(path, raw)
    if "taxon" in names:
        return read_qiime2(path, raw)
    for pattern, read in _BY_LINE.items():
        if any(pattern.match(x) for x in lines):
            return read(path, raw)
    if len({name.removeprefix("tax.") for name in names} & set(RANKS.values())) >= 2:
        is_path = isinstance(confidences, str | os.PathLike)
        return read_dada2(path, raw, (confidences, read_bytes(confidences)) if is_path else None)
    raise refuse(path, "line 1", "the format is not recognised.", f"known are {FORMATS}")


def write_like_input(found: Predictions, label: Index, chance: Float, path: AnyPath) -> None:
    """Write the tool's own format with every path cut at its name.

    `label` numbers ``found.hierarchy.labels``, one per sample and -1 for none.
    """
    with atomic_output(path, compress=True) as part:
        found.rewrite(found, np.asarray(label, dtype=np.int64), np.asarray(chance), part)


def match_labels(
    found: Predictions, hierarchy: Hierarchy
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
    target = [known.get(label) for label in found.hierarchy.labels]
    place = {label: i for i, label in enumerate(hierarchy.labels)}
    column = np.array([-1 if x is None else place[x] for x in target], dtype=np.int64)
    scores = found.scores
    row = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
    at = column[scores.indices]
    is_unknown = np.bincount(row[at < 0], minlength=scores.shape[0]) > 0
    order = np.flatnonzero(at >= 0)
    used = column[column >= 0]
    if np.unique(used).size < used.size:  # of two labels that are one there, the larger score stays
        order = order[np.lexsort((-scores.data[order], at[order], row[order]))]
        order = order[np.diff(row[order] * hierarchy.n_labels + at[order], prepend=-1) != 0]
    ptr = np.searchsorted(row[order], np.arange(scores.shape[0] + 1))
    shape = (scores.shape[0], hierarchy.n_labels)
    matched = sparse.csr_array((scores.data[order], at[order], ptr), shape=shape)
    matched.sort_indices()
    return matched, column, is_unknown


def _with_hierarchy(found: Predictions, hierarchy: Hierarchy) -> Predictions:
    """Replace the hierarchy of the paths by a given one."""
    scores, column, is_unknown = match_labels(found, hierarchy)
    if not (column >= 0).any():
        names = quote_names(list(found.hierarchy.names.values()))
        text = f"none of the predicted names is in the hierarchy; the first are {names}."
        raise refuse(found.path, "", text, "leave --hierarchy out to take it from the paths.")
    ranks = [f"level {level}" for level in hierarchy.levels]
    new = [hierarchy.labels[i] if i >= 0 else None for i in column]
    for i in np.flatnonzero(column >= 0):
        ranks[column[i]] = found.ranks[i] or ranks[column[i]]
    notes = found.notes
    if is_unknown.any():
        text = f"{is_unknown.sum():,} samples have a predicted name that the hierarchy lacks"
        notes = (*notes, text)
    by_label = dict(zip(found.hierarchy.labels, new, strict=True))
    pairs = [(hierarchy.name(x), x) for x in hierarchy.labels]
    pairs += [(k, str(by_label[v])) for k, v in found.aliases.items() if v and by_label[v]]
    aliases = merge_aliases(pairs, hierarchy.labels)
    return replace(
        found, scores=scores, hierarchy=hierarchy, ranks=tuple(ranks), notes=notes, place=None,
        aliases=aliases,
    )  # fmt: skip
