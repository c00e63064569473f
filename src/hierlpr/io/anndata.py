"""Read predictions from AnnData objects and ``.h5ad`` files, and write names back to obs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from hierlpr._utils import AnyPath, require
from hierlpr._utils.checks import quote_names
from hierlpr.io.json_predictions import paths_of_classes
from hierlpr.io.lineages import Predictions, check_samples, quote, refuse
from hierlpr.io.taxonomy import TextFile, from_levels

HDF5 = b"\x89HDF\r\n\x1a\n"
_SCORE_ENDS = ("bootstrapping_probability", "probability", "prob", "confidence", "conf", "score")
_NAME_ENDS = ("", "_name", "_label", "_labels")


def is_anndata(source: Any) -> bool:
    """Return whether this is an object instead of a path, or the path of an HDF5 file."""
    if not isinstance(source, str | os.PathLike):
        return True
    try:
        with open(source, "rb") as stream:
            return stream.read(len(HDF5)) == HDF5
    except OSError:
        return False  # the reader reports what is wrong


def open_anndata(source: Any) -> tuple[AnyPath, Any]:
    """Return the AnnData object, after its name for messages."""
    if not isinstance(source, str | os.PathLike):
        if not hasattr(source, "obs_names"):
            raise refuse("predictions", "", f"expected a path or an AnnData, got {type(source)}.")
        return "the AnnData object", source
    require("anndata", extra="anndata", what="Reading .h5ad")
    import anndata

    try:
        return source, anndata.read_h5ad(source)
    except Exception as error:  # whatever a damaged file makes HDF5 and anndata raise
        raise refuse(source, "", f"not a readable .h5ad file ({quote(error)}).") from None


def read_anndata(
    source: Any, *, obsm: str | None, levels: Sequence[str], confidences: Sequence[str]
) -> Predictions:
    """Read scores in obsm, or columns of names and of confidences in obs."""
    path, data = open_anndata(source)
    if obsm is not None:
        return _from_obsm(path, data, obsm)
    columns = [str(name) for name in data.obs.columns]
    if not levels:
        levels, confidences = _find_levels(data.obs, columns)
    if not levels or len(levels) != len(confidences):
        text = f"{len(levels)} columns of names and {len(confidences)} of confidences."
        hint = "name both, coarsest first, with --levels and --confidences, or a matrix with --obsm"
        raise refuse(path, "obs", text, f"{hint}; obs has {quote_names(columns)}.")
    chosen = [
        (obs_column(path, data, name), obs_column(path, data, score))
        for name, score in zip(levels, confidences, strict=True)
    ]
    table = pa.table({"cell": pa.array(map(str, data.obs_names), pa.large_string())})
    file = TextFile(path, "anndata")
    return from_levels(file, table, chosen, list(levels), data, style={"names": True}, shown={})


def obs_column(path: AnyPath, data: Any, name: str | None) -> pa.ChunkedArray:
    """Return a column of obs as text, empty where missing."""
    if name not in data.obs.columns:
        text = "which column has the true names?" if name is None else f"no column {quote(name)}."
        known = quote_names([str(x) for x in data.obs.columns])
        raise refuse(path, "obs", text, f"--truth-column NAME; there are {known}.")
    values = ("" if x is None or x != x else str(x) for x in data.obs[name].tolist())
    return pa.chunked_array([pa.array(values, pa.large_string())])


def _find_levels(obs: Any, columns: list[str]) -> tuple[list[str], list[str]]:
    """Pair columns of names with columns of confidences, those of fewest names first."""
    pairs = []
    for score in columns:
        end = next((f"_{x}" for x in _SCORE_ENDS if score.endswith(f"_{x}")), None)
        if end is None or obs[score].dtype.kind != "f":
            continue
        stems = (score.removesuffix(end) + x for x in _NAME_ENDS)
        name = next((stem for stem in stems if stem in columns), None)
        if name is not None:
            pairs.append((int(obs[name].nunique()), name, score))
    pairs.sort(key=lambda pair: pair[0])
    return [name for _, name, _ in pairs], [score for _, _, score in pairs]


def _from_obsm(path: AnyPath, data: Any, key: str) -> Predictions:
    """Read a matrix whose columns are names or paths; others are sums over them."""
    if key not in data.obsm:
        known = quote_names(list(data.obsm.keys()))
        raise refuse(path, "obsm", f"there is no {quote(key)}.", f"there are {known}.")
    matrix = data.obsm[key]
    names = getattr(matrix, "columns", data.uns.get(f"{key}_names"))
    where = f"obsm[{quote(key)}]"
    if names is None or len(names) != matrix.shape[1]:
        hint = f"store a data frame, or the names of its columns in uns['{key}_names']."
        raise refuse(path, where, "its columns have no names.", hint)
    values = np.asarray(matrix, dtype=np.float64)
    bad = np.argwhere(~((values >= 0.0) & (values <= 1.0 + 1e-6)))
    if bad.size:
        row, column = bad[0]
        place = f"{where}, cell {quote(data.obs_names[row])}, column {quote(names[column])}"
        raise refuse(path, place, f"the score {values[row, column]:g} is not from 0 to 1.")
    pieces = [[x.strip() for x in str(name).split(";")] for name in names]
    paths = [[(f"level {i + 1}", x) for i, x in enumerate(each)] for each in pieces]
    found = paths_of_classes(path, "anndata", [str(x) for x in names], paths)
    above, own = found.scores.toarray(), found.deepest()
    if (own < 0).any() or np.unique(own).size != own.size:
        raise refuse(path, where, "two columns have the same name, or one has none.")
    above[:, own] = np.eye(own.size)
    samples = check_samples(path, [str(x) for x in data.obs_names], lambda row: f"cell {row}")
    scores = sparse.csr_array(np.minimum(values @ above, 1.0))
    style = {**found.style, "names": True}
    return replace(found, samples=samples, scores=scores, style=style, place=None, content=data)


def write_obs(data: Any, names: Sequence[str], ranks: Sequence[str], chance: Any) -> Any:
    """Write ``hierlpr_label``, ``hierlpr_rank`` and ``hierlpr_chance`` into obs."""
    data.obs["hierlpr_label"] = list(names)
    data.obs["hierlpr_rank"] = list(ranks)
    data.obs["hierlpr_chance"] = np.asarray(chance, dtype=np.float64)
    return data
