"""Read predictions from AnnData objects and ``.h5ad`` files, and write names back to obs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

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


def read_anndata(source: Any, *, levels: Sequence[str], confidences: Sequence[str]) -> Predictions:
    """Read columns of names and of confidences in obs."""
    path, data = open_anndata(source)
    collector = Collector(path, "anndata", "cell {}")
    _add_levels(collector, data, levels, confidences)

    def rewrite(predictions: Predictions, label: Index, chance: Float, out: AnyPath) -> None:
        named = write_obs(data, predictions.hierarchy, predictions.ranks, label, chance)
        named.write_h5ad(out)

    return collector.finish(style={"names": True}, rewrite=rewrite)


def _add_levels(
    collector: Collector, data: Any, levels: Sequence[str], confidences: Sequence[str]
) -> None:
    """Add the names and confidences of columns of obs, the coarsest level first."""
    columns = [str(name) for name in data.obs.columns]
    if not levels or len(levels) != len(confidences):
        text = f"{len(levels)} columns of names and {len(confidences)} of confidences."
        hint = "name both, coarsest first, with levels= and confidences=; "
        hint += f"obs has {quote_names(columns)}."
        raise file_error(collector.path, "obs", text, hint, ("levels", "confidences"))
    names, scores = (
        zip(*(obs_column(collector.path, data, x) for x in group), strict=True)
        for group in (levels, confidences)
    )
    ranks = [re.sub("_(name|labels?)$", "", level) for level in levels]
    for number, (cell, *row) in enumerate(zip(data.obs_names, names, scores, strict=True)):
        entries = zip(row[0], ranks, (x or "0" for x in row[1]), strict=True)
        collector.add_path(number, str(cell), entries)


def obs_column(path: AnyPath, data: Any, name: str | None) -> list[str]:
    """Return a column of obs as text, empty where missing."""
    if name not in data.obs.columns:
        asked = "which column has the true names?"
        text = asked if name is None else f"no column {quote(name)}."
        hint = f"obs has {quote_names([str(x) for x in data.obs.columns]) or 'no columns'}; choose "
        raise file_error(path, "obs", text, f"{hint}one with truth_column=.", ("truth_column",))
    column = data.obs[name].astype(object)
    return [str(x) for x in column.where(column.notna(), "")]


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
