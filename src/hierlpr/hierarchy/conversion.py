"""Convert what users give for a hierarchy: a file, dict, list, data frame or graph."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, TypeAlias, cast

import narwhals.stable.v1 as nw

from hierlpr.exceptions import HierarchyError
from hierlpr.hierarchy.label_graph import Hierarchy

HierarchyLike: TypeAlias = (
    Hierarchy | str | os.PathLike[str] | Mapping[str, Any] | Iterable[Any]  # or a networkx graph
)

_FORMS = (
    "a Hierarchy, a path to a file, a dict of each label to its parent or parents, "
    "(parent, child) edges, label paths such as 'A/B', or a networkx graph"
)


def as_hierarchy(source: HierarchyLike) -> Hierarchy:
    """Convert an object to a `Hierarchy`.

    Parameters
    ----------
    source : Hierarchy, path, dict, iterable or networkx graph
        A str or path is a file, see :func:`hierlpr.read_hierarchy`. A dict maps each label to its
        parent, its parents, or None for a root. A list holds (parent, child) edges, or paths such
        as ``"A/B"``. A data frame has the columns ``parent`` and ``child``. Edges of a networkx
        graph point from parent to child.

    Examples
    --------
    >>> as_hierarchy({"dog": "animal", "cat": "animal"}).roots
    ('animal',)
    >>> as_hierarchy([("animal", "dog"), ("animal", "cat")]).labels
    ('animal', 'dog', 'cat')
    >>> as_hierarchy(["animal/dog", "animal/cat"]).labels
    ('animal', 'animal/dog', 'animal/cat')
    """
    if isinstance(source, Hierarchy):
        return source
    if isinstance(source, str | os.PathLike):
        # Files are read by a later package, which is slow to load.
        return cast(Hierarchy, import_module("hierlpr.io").read_hierarchy(source))
    if hasattr(source, "is_directed") and hasattr(source, "edges"):
        return Hierarchy.from_networkx(source)
    if isinstance(source, Mapping):
        return Hierarchy.from_parents(source)
    if hasattr(source, "columns"):
        frame = nw.from_native(source, eager_only=True, pass_through=True)
        if not isinstance(frame, nw.DataFrame) or not {"parent", "child"} <= set(frame.columns):
            raise HierarchyError(
                "hierarchy: a data frame of edges needs the columns 'parent' and 'child'.\n"
                f"Hint: or give {_FORMS}."
            )
        source = zip(frame["parent"].to_list(), frame["child"].to_list(), strict=True)
    if not isinstance(source, Iterable):
        raise HierarchyError(f"hierarchy must be {_FORMS}; got {type(source).__name__}.")
    items = list(source)
    if items and all(isinstance(item, str) for item in items):
        return Hierarchy.from_paths(items)
    for item in items:
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise HierarchyError(f"hierarchy must be {_FORMS}; its list holds {item!r}.")
    return Hierarchy(items)
