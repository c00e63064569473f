"""Read predictions from AnnData objects and ``.h5ad`` files, and write names back to obs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from hierlpr._utils import AnyPath, require
from hierlpr._utils.checks import quote_names
from hierlpr._utils.files import file_of
from hierlpr.hierarchy import Hierarchy
from hierlpr.io.lineages import Collector, Float, Index, Predictions, quote
from hierlpr.io.reading import file_error

HDF5 = b"\x89HDF\r\n\x1a\n"


def is_anndata(source: Any) -> bool:
    """Return whether this is an object instead of a path, or the path of an HDF5 file."""
    if not isinstance(source, str | os.PathLike):
        return True
    try:
        with open(file_of(source), "rb") as stream:
            return stream.read(len(HDF5)) == HDF5
    except OSError:
        return False  # the reader reports what is wrong


def open_anndata(source: Any) -> tuple[AnyPath, Any]:
    """Return the AnnData object, after its name for messages."""
    if not isinstance(source, str | os.PathLike):
        if not hasattr(source, "obs_names"):
            text = f"expected a path or an AnnData, got {type(source)}."
            raise file_error("predictions", "", text)
        return "the AnnData object", source
    require("anndata", extra="anndata", what="Reading .h5ad")
    import anndata
    import h5py

    path = file_of(source)
    try:
        with h5py.File(path, "r") as opened:
            foreign = _foreign_link(opened, set())
        if foreign is None:
            return source, anndata.read_h5ad(path, backed="r")  # X stays on disk
    except Exception as error:  # whatever a damaged file makes HDF5 and anndata raise
        raise file_error(source, "", f"not a readable .h5ad file ({quote(error)}).") from None
    text, hint = f"{quote(foreign)} is a link to another file.", "copy the data into one file."
    raise file_error(source, "", text, hint)


def _foreign_link(group: Any, visited: set[Any]) -> str | None:
    """Return the name of an item whose data are in another file: opening it would open that one."""
    from h5py import Dataset, ExternalLink, Group, h5o

    for key in group:
        if isinstance(group.get(key, getlink=True), ExternalLink):
            return f"{group.name.rstrip('/')}/{key}"
        item = group.get(key)
        if isinstance(item, Dataset) and (item.external or item.is_virtual):
            return str(item.name)
        if isinstance(item, Group) and (address := h5o.get_info(item.id).addr) not in visited:
            visited.add(address)  # hard links can form cycles
            if (name := _foreign_link(item, visited)) is not None:
                return name
    return None


def read_anndata(
    source: Any, *, obsm: str | None, levels: Sequence[str], confidences: Sequence[str]
) -> Predictions:
    """Read scores in obsm, or columns of names and of confidences in obs."""
    path, data = open_anndata(source)
    found = Collector(path, "anndata", "cell {}")
    matrix = None if obsm is None else _add_matrix(found, data, obsm)
    if obsm is None:
        _add_levels(found, data, levels, confidences)

    def rewrite(predictions: Predictions, label: Index, chance: Float, out: AnyPath) -> None:
        named = write_obs(data, predictions.hierarchy, predictions.ranks, label, chance)
        named.write_h5ad(out)

    return found.finish(style={"names": True}, rewrite=rewrite, scores=matrix)


def _add_levels(
    found: Collector, data: Any, levels: Sequence[str], confidences: Sequence[str]
) -> None:
    """Add the names and confidences of columns of obs, the coarsest level first."""
    columns = [str(name) for name in data.obs.columns]
    if not levels or len(levels) != len(confidences):
        text = f"{len(levels)} columns of names and {len(confidences)} of confidences."
        hint = "name both, coarsest first, with levels= and confidences=, or a matrix with obsm=; "
        hint += f"obs has {quote_names(columns)}."
        raise file_error(found.path, "obs", text, hint, ("levels", "confidences", "obsm"))
    names, scores = (
        zip(*(obs_column(found.path, data, x) for x in given), strict=True)
        for given in (levels, confidences)
    )
    ranks = [re.sub("_(name|labels?)$", "", level) for level in levels]
    for number, (cell, *row) in enumerate(zip(data.obs_names, names, scores, strict=True)):
        entries = zip(row[0], ranks, (x or "0" for x in row[1]), strict=True)
        found.add_path(number, str(cell), entries)


def obs_column(path: AnyPath, data: Any, name: str | None) -> list[str]:
    """Return a column of obs as text, empty where missing."""
    if name not in data.obs.columns:
        asked = "which column has the true names?"
        text = asked if name is None else f"no column {quote(name)}."
        hint = f"obs has {quote_names([str(x) for x in data.obs.columns]) or 'no columns'}; choose "
        raise file_error(path, "obs", text, f"{hint}one with truth_column=.", ("truth_column",))
    column = data.obs[name].astype(object)
    return [str(x) for x in column.where(column.notna(), "")]


def _add_matrix(found: Collector, data: Any, key: str) -> sparse.csr_array:
    """Return a matrix of obsm whose columns are names or paths, with sums for their ancestors."""
    if key not in data.obsm:
        known = quote_names(list(data.obsm.keys()))
        raise file_error(found.path, "obsm", f"there is no {quote(key)}.", f"there are {known}.")
    matrix = data.obsm[key]
    names = getattr(matrix, "columns", data.uns.get(f"{key}_names"))
    where = f"obsm[{quote(key)}]"
    if names is None or matrix.ndim != 2 or len(names) != matrix.shape[1]:
        hint = f"store a data frame, or the names of its columns in uns['{key}_names']."
        raise file_error(found.path, where, "its columns have no names.", hint)
    try:
        dense = matrix.toarray() if sparse.issparse(matrix) else matrix
        values = np.asarray(dense, dtype=np.float64)
        pieces = (enumerate(str(name).split(";"), start=1) for name in names)
        paths = [found.path_to((f"depth {i}", x) for i, x in path) for path in pieces]
    except (TypeError, ValueError) as error:
        raise file_error(found.path, where, f"{quote(error)}.") from None
    bad = np.argwhere(~((values >= 0.0) & (values <= 1.0 + 1e-6)))
    if bad.size:
        row, column = bad[0]
        place = f"{where}, cell {quote(data.obs_names[row])}, column {quote(names[column])}"
        text = f"the score {values[row, column]:g} is not from 0 to 1."
        raise file_error(found.path, place, text)
    own = [path[-1] for path in paths]
    if -1 in own or len(set(own)) < len(own):
        raise file_error(found.path, where, "two columns have the same name, or one has none.")
    above = np.zeros((len(own), len(found.parent)))
    for i, path in enumerate(paths):
        above[i, [*(x for x in path if x not in own), own[i]]] = 1.0
    for number, cell in enumerate(data.obs_names):
        found.add_scores(number, str(cell), {})
    return sparse.csr_array(np.minimum(values @ above, 1.0))


def write_obs(
    data: Any, hierarchy: Hierarchy, ranks: Sequence[str], label: Index, chance: Float
) -> Any:
    """Return a copy with ``hierlpr_label``, ``hierlpr_rank`` and ``hierlpr_chance`` in obs."""
    named = data.to_memory(copy=True)
    names = [hierarchy.name(x) for x in hierarchy.labels]
    for column, texts in (("hierlpr_label", names), ("hierlpr_rank", ranks)):
        named.obs[column] = np.array([*texts, ""], dtype=object)[label]
    named.obs["hierlpr_chance"] = np.asarray(chance, dtype=np.float64)
    return named
