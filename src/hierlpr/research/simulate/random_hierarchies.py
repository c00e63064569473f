"""Random trees, forests and DAGs of any size."""

from __future__ import annotations

from typing import Any

import numpy as np

from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy


def random_tree(n_labels: int, *, max_depth: int | None = None, rng: Any = None) -> Hierarchy:
    """Draw a random recursive tree: each label hangs below a random earlier one.

    Examples
    --------
    >>> random_tree(1000, max_depth=6, rng=0)
    <Hierarchy: forest, 1,000 labels, 999 edges, 1 roots, depth 6>
    """
    return random_forest(n_labels, n_trees=1, max_depth=max_depth, rng=rng)


def random_forest(
    n_labels: int, *, n_trees: int | None = None, max_depth: int | None = None, rng: Any = None
) -> Hierarchy:
    """Draw a forest of random recursive trees.

    Parameters
    ----------
    n_labels : int
    n_trees : int, optional
        A tenth of the labels, and at least one, if not given.
    max_depth : int, optional
        Largest number of labels on a path.
    rng : seed or Generator

    Examples
    --------
    >>> h = random_forest(50, n_trees=7, rng=0)
    >>> len(h.roots), h.is_forest
    (7, True)
    """
    trees = max(1, n_labels // 10) if n_trees is None else n_trees
    _check_sizes(n_labels, trees, max_depth)
    generator = np.random.default_rng(rng)
    level = np.ones(n_labels, dtype=np.int64)
    parent = np.full(n_labels, -1, dtype=np.int64)
    open_labels = list(range(trees)) if max_depth != 1 else []
    draws = generator.random(n_labels)
    for k in range(trees, n_labels):
        parent[k] = open_labels[int(draws[k] * len(open_labels))]
        level[k] = level[parent[k]] + 1
        if max_depth is None or level[k] < max_depth:
            open_labels.append(k)
    names = _names(n_labels)
    edges = [(names[parent[k]], names[k]) for k in range(trees, n_labels)]
    return Hierarchy(edges, labels=names)


def random_dag(
    n_labels: int,
    *,
    n_roots: int = 1,
    several_parents: float = 0.3,
    max_parents: int = 3,
    rng: Any = None,
) -> Hierarchy:
    """Draw a random DAG: a random forest in which some labels get further parents.

    Parameters
    ----------
    n_labels : int
    n_roots : int
    several_parents : float
        Share of the labels below the roots that ask for a second parent; again the same share of
        these for a third, up to `max_parents`.
    max_parents : int
    rng : seed or Generator

    Examples
    --------
    >>> h = random_dag(30, several_parents=0.5, rng=0)
    >>> h.is_forest, max(len(h.parents(x)) for x in h.labels)
    (False, 3)
    """
    _check_sizes(n_labels, n_roots, None)
    generator = np.random.default_rng(rng)
    names = _names(n_labels)
    edges: list[tuple[str, str]] = []
    for k in range(n_roots, n_labels):
        wanted = 1
        while wanted < min(max_parents, k) and generator.random() < several_parents:
            wanted += 1
        chosen = generator.choice(k, size=wanted, replace=False)
        edges.extend((names[p], names[k]) for p in sorted(chosen.tolist()))
    return Hierarchy(edges, labels=names)


def _names(n_labels: int) -> list[str]:
    width = len(str(n_labels - 1))
    return [f"L{k:0{width}d}" for k in range(n_labels)]


def _check_sizes(n_labels: int, n_roots: int, max_depth: int | None) -> None:
    if not 1 <= n_roots <= n_labels:
        raise DataError(f"{n_roots} trees need at least as many labels, got {n_labels}.")
    if max_depth is not None and (max_depth < 1 or (max_depth == 1 and n_labels > n_roots)):
        raise DataError(
            f"max_depth={max_depth} leaves no place for {n_labels - n_roots} labels below roots."
        )
