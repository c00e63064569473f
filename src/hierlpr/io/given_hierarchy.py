"""A hierarchy however people hold it: a Hierarchy, a file, parents, edges, paths or a graph."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from hierlpr.exceptions import HierarchyError
from hierlpr.hierarchy import Hierarchy

HierarchyLike: TypeAlias = (
    Hierarchy | str | os.PathLike[str] | Mapping[str, Any] | Iterable[Any]  # or a networkx graph
)

_FORMS = (
    "a Hierarchy, a path to a file, a dict of each label to its parent or parents, "
    "(parent, child) edges, label paths such as 'A/B', or a networkx graph"
)


def as_hierarchy(given: HierarchyLike) -> Hierarchy:
    """Return the hierarchy that `given` stands for.

    Parameters
    ----------
    given : Hierarchy, path, dict, iterable or networkx graph
        A text or path names a file, see :func:`hierlpr.read_hierarchy`. A dict maps each label to
        its parent, its parents, or None for a root. A list holds (parent, child) edges, or texts:
        paths such as ``"A/B"``, each naming a label. A data frame has columns ``parent`` and
        ``child``. Edges of a networkx graph point from parent to child.

    Examples
    --------
    >>> as_hierarchy({"dog": "animal", "cat": "animal"}).roots
    ('animal',)
    >>> as_hierarchy([("animal", "dog"), ("animal", "cat")]).labels
    ('animal', 'dog', 'cat')
    >>> as_hierarchy(["animal/dog", "animal/cat"]).labels
    ('animal', 'animal/dog', 'animal/cat')
    """
    if isinstance(given, Hierarchy):
        return given
    if isinstance(given, str | os.PathLike):
        from hierlpr.io.hierarchies import read_hierarchy

        return read_hierarchy(given)
    if hasattr(given, "is_directed") and hasattr(given, "edges"):
        return Hierarchy.from_networkx(given)
    if isinstance(given, Mapping):
        return Hierarchy.from_parents(given)
    columns = getattr(given, "columns", None)
    if columns is not None:
        return Hierarchy(_edges_of_frame(given))
    if not isinstance(given, Iterable):
        raise HierarchyError(f"hierarchy must be {_FORMS}; got {type(given).__name__}.")
    listed = list(given)
    if listed and all(isinstance(one, str) for one in listed):
        return Hierarchy.from_paths(listed)
    if not all(_is_pair(one) for one in listed):
        bad = next(one for one in listed if not _is_pair(one))
        raise HierarchyError(f"hierarchy must be {_FORMS}; its list holds {bad!r}.")
    return Hierarchy(listed)


def _is_pair(one: Any) -> bool:
    return isinstance(one, tuple | list) and len(one) == 2


def _edges_of_frame(given: Any) -> list[tuple[Any, Any]]:
    import narwhals.stable.v1 as nw

    frame = nw.from_native(given, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame) or not {"parent", "child"} <= set(frame.columns):
        raise HierarchyError(
            "hierarchy: a data frame of edges needs columns 'parent' and 'child'.\n"
            f"Hint: or give {_FORMS}."
        )
    return list(zip(frame["parent"].to_list(), frame["child"].to_list(), strict=True))
