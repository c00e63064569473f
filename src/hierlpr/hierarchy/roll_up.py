"""Scores of the leaves, or of some labels, rolled up to scores of all labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils.checks import check_choice, check_real_array, is_sparse, quote_names
from hierlpr.exceptions import DataError
from hierlpr.hierarchy.matrices import UpperSet, close_rows

if TYPE_CHECKING:
    from hierlpr.hierarchy.label_graph import Hierarchy

RollUp = Literal["auto", "sum", "max"]
ROUNDING, MOST_ROWS = 0.02, 0.95  # this share of rows of probabilities add up to 1 this closely


def roll_up(hierarchy: Hierarchy, scores: Any, how: RollUp) -> Any:
    """Return scores of all labels, in the container of the given ones; see `Hierarchy.roll_up`."""
    check_choice(how, get_args(RollUp), name="how")
    if is_sparse(scores) or not (hasattr(scores, "__dataframe__") or hasattr(scores, "columns")):
        values = sparse.csr_array(scores) if is_sparse(scores) else scores
        values = values if is_sparse(values) else check_real_array(values, name="leaf_scores")
        return roll_up_columns(hierarchy, values, columns_of_leaves(hierarchy, values.shape), how)[
            0
        ]
    frame = nw.from_native(scores, eager_only=True)
    column_of = {str(column): column for column in frame.columns}
    labels = [label for label in hierarchy.labels if label in column_of]
    if missing := labels_without_scores(hierarchy, labels):
        raise DataError(
            f"leaf_scores: {len(missing):,} label(s) have no column, and not all leaves below them "
            f"have one: {quote_names(missing)}."
        )
    columns = [column_of[label] for label in labels]
    values = check_real_array(frame.select(columns).to_numpy(), name="leaf_scores")
    rolled = roll_up_columns(hierarchy, values, labels, how)[0]
    series = [
        nw.new_series(label, rolled[:, i], backend=frame.implementation)
        for i, label in enumerate(hierarchy.labels)
    ]
    others = [column for column in frame.columns if column not in set(columns)]
    return frame.with_columns(*series).select([*others, *hierarchy.labels]).to_native()


def columns_of_leaves(hierarchy: Hierarchy, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return the labels of columns without names: all labels, or the leaves."""
    names = {len(x): x for x in (hierarchy.leaves, hierarchy.labels)}
    if len(shape) != 2 or shape[1] not in names:
        raise DataError(
            f"leaf_scores has shape {shape}; expected (n_samples, {len(hierarchy.leaves)}): one "
            "column per leaf, in the order of hierarchy.leaves."
        )
    return names[shape[1]]


def labels_without_scores(hierarchy: Hierarchy, labels: Iterable[str]) -> list[str]:
    """Return the labels whose scores do not follow from those of `labels`.

    They are the leaves among the other labels, and all labels above them that have no score.
    """
    has_score = set(labels)
    leaves = [label for label in hierarchy.leaves if label not in has_score]
    if not leaves:
        return []
    above = UpperSet.above(hierarchy, hierarchy.position[[*map(hierarchy.index, leaves)]]).row >= 0
    marked = zip(hierarchy.labels, above[hierarchy.position], strict=True)
    return [label for label, is_above in marked if is_above and label not in has_score]


def roll_up_columns(
    hierarchy: Hierarchy, values: Any, labels: Sequence[str], how: RollUp
) -> tuple[Any, Literal["sum", "max"]]:
    """Return scores of all labels, an array or a CSR matrix, and how they were made.

    A label without a column gets the sum or the largest of the scores below it, each once. NaN
    does not count. Of a CSR matrix, only labels above stored entries get one.
    """
    h, n = hierarchy, len(labels)
    number = h.position[[h.index(label) for label in labels]]
    has_column = np.zeros(h.n_labels, dtype=bool)
    has_column[number] = True
    ptr, node = close_rows(h, np.arange(n + 1), number)
    column = np.repeat(np.arange(n), np.diff(ptr))
    is_self = node == number[column]
    above = sparse.csr_array((np.ones(node.size), node, ptr), shape=(n, h.n_labels))
    column_of = np.zeros(h.n_labels, dtype=np.intp)
    column_of[number] = np.arange(n)
    nested = has_column[node] & ~is_self  # columns above other columns
    is_lowest = np.ones(n, dtype=bool)
    is_lowest[column_of[node[nested]]] = False
    if how == "auto":
        how = "sum" if _adds_up(values, is_lowest) else "max"
    used = is_self | ~has_column[node]
    if how == "sum" and nested.any():  # a column between two labels has counted the lower one
        inner = (np.ones(int(nested.sum())), (column[nested], column_of[node[nested]]))
        through = (sparse.csr_array(inner, shape=(n, n)) @ above).tocsr()
        pairs = through.nonzero()
        used &= is_self | ~np.isin(column * h.n_labels + node, pairs[0] * h.n_labels + pairs[1])
    parts = (np.ones(int(used.sum())), (column[used], h.order[node[used]]))
    weight = sparse.csr_array(parts, shape=(n, h.n_labels))
    if is_sparse(values):
        return _roll_up_entries(sparse.csr_array(values), weight, how), how
    if how == "max":
        below = np.full((h.n_labels, len(values)), -np.inf)
        below[number] = np.where(np.isnan(values), -np.inf, values).T
        UpperSet.above(h).raise_up(below)
        below[below == -np.inf] = np.nan
        below[number] = values.T
        return np.ascontiguousarray(below[h.position].T), how
    is_missing = np.isnan(values)
    if not is_missing.any():
        return np.ascontiguousarray(values @ weight), how
    total = np.where(is_missing, 0.0, values) @ weight
    return np.where((~is_missing).astype(np.float64) @ weight > 0.0, total, np.nan), how


def _roll_up_entries(
    values: sparse.csr_array, weight: sparse.csr_array, how: Literal["sum", "max"]
) -> sparse.csr_array:
    """Return the entries of a CSR matrix, and those of the labels above them."""
    n_above = np.diff(weight.indptr)[values.indices]
    entry = np.repeat(np.arange(values.nnz), n_above)
    place = np.arange(entry.size) - np.repeat(np.cumsum(n_above) - n_above, n_above)
    label = weight.indices[weight.indptr[values.indices[entry]] + place]
    row = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))[entry]
    order = np.lexsort((values.data[entry], label, row))
    row, label, value = row[order], label[order], values.data[entry[order]]
    pair = row * weight.shape[1] + label
    first = np.flatnonzero(np.diff(pair, prepend=-1))
    combine: Any = np.add if how == "sum" else np.maximum
    value = combine.reduceat(value, first) if first.size else value
    ptr = np.append(0, np.cumsum(np.bincount(row[first], minlength=values.shape[0])))
    shape = (values.shape[0], weight.shape[1])
    return sparse.csr_array((value, label[first].astype(np.int32), ptr), shape=shape)


def _adds_up(values: Any, used: NDArray[np.bool_]) -> bool:
    """Return whether rows are probabilities of classes of which each sample has one."""
    part = values[:, np.flatnonzero(used)]
    stored = part.data if is_sparse(part) else part
    if stored.size < 2 * part.shape[0] or not np.nanmin(stored, initial=np.inf) >= 0.0:
        return False
    total = np.asarray(part.sum(axis=1) if is_sparse(part) else np.nansum(part, axis=1)).ravel()
    return bool((np.abs(total - 1.0) <= ROUNDING).mean() >= MOST_ROWS)
