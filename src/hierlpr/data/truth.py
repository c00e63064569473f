"""Truth of samples in every form that users have, made into one type.

If a label is true, so are its ancestors; if it is false, so are its descendants. A pair is unknown
only if it was not annotated and neither rule determines it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr._utils.checks import is_sparse, quote_names, refuse_entries, stored_values
from hierlpr.data.clusters import are_distinct
from hierlpr.data.duplicates import mix
from hierlpr.data.tables import Table, dense, match_rows, sum_by_label, truth_table
from hierlpr.exceptions import DataError, warn
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import (
    UpperSet,
    close_sparse,
    fits_if_sorted,
    sample_ranges,
    split_unknown,
)

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
_SORTED_COLUMNS = (
    "the columns have no names, and sorted by label, as MultiLabelBinarizer makes them, no label "
    "would lack its parent. Use MultiLabelBinarizer(classes=hierarchy.labels), a data frame whose "
    "columns are the labels, or the lists of labels themselves."
)


@dataclass(frozen=True, eq=False)
class Truth:
    """Truth of samples, closed upward: bool matrices (n_samples, n_labels), all dense or all CSR.

    Which pairs were not annotated may depend on their truth. So positives and negatives among them
    that follow from the hierarchy are a biased selection.

    Attributes
    ----------
    positive : matrix
        Pairs known to be true.
    unknown : matrix or None
        Pairs that were not annotated and do not follow from the hierarchy. None, as the next one,
        if all pairs were annotated (`is_complete`).
    not_annotated : matrix or None
        Pairs that were not annotated.
    implied : matrix or None
        Positives that `evaluated` made unknown.
    cluster : ndarray of uint64 or None
        A hash of the cluster of each sample, such as its patient; None without clusters.
    contents : ndarray of uint64 or None
        A hash of what the user gave for each sample, from which random orders are drawn.
    """

    positive: Any
    unknown: Any = None
    not_annotated: Any = None
    implied: Any = None
    cluster: NDArray[Any] | None = None
    contents: NDArray[np.uint64] | None = None

    @classmethod
    def of(cls, matrix: Any, hierarchy: Hierarchy | None = None) -> Truth:
        """Return the truth of a matrix of 0 and 1 in the order of the labels.

        With a `hierarchy`, NaN is a pair that was not annotated. A `Truth` is returned as it is.
        """
        if isinstance(matrix, Truth):
            return matrix
        if hierarchy is None or np.dtype(getattr(matrix, "dtype", "f8")).kind == "b":
            return cls(matrix.astype(bool) if is_sparse(matrix) else np.asarray(matrix, bool))
        positive, not_annotated = split_unknown(matrix)
        if not_annotated is not None:
            positive = close_sparse(hierarchy, positive)
        truth = cls.annotated(positive, not_annotated, hierarchy)
        return truth if is_sparse(matrix) else truth.toarray()

    @classmethod
    def annotated(
        cls, positive: sparse.csr_array, not_annotated: Any, hierarchy: Hierarchy
    ) -> Truth:
        """Return truth from positives closed upward, and pairs not annotated (None: no such)."""
        truth = cls(positive)
        if not_annotated is None:
            return truth
        truth = replace(truth, not_annotated=not_annotated, unknown=not_annotated > positive)
        sizes, labels = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
        for start, stop in sample_ranges(*truth.shape):
            upper = truth.upper_set(hierarchy, start, stop)
            true, open_pairs, skipped = truth.marked(hierarchy, upper, start, stop)
            unknown = (open_pairs & ~upper.any_above(~true & ~skipped)).T
            sizes.append(np.count_nonzero(unknown, axis=1))
            labels.append(hierarchy.order[upper.numbers[np.nonzero(unknown)[1]]].astype(np.int32))
        ptr, label = np.cumsum(np.concatenate(sizes)), np.concatenate(labels)
        ones = np.ones(label.size, dtype=bool)
        unknown = sparse.csr_array((ones, label, ptr), shape=truth.shape)
        unknown.sort_indices()
        return replace(truth, unknown=unknown)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and labels."""
        return int(self.positive.shape[0]), int(self.positive.shape[1])

    @property
    def is_complete(self) -> bool:
        """Whether all pairs were annotated."""
        return self.not_annotated is None

    @property
    def is_known(self) -> Bool:
        """Pairs that were annotated or follow from the hierarchy, as an array."""
        if self.unknown is None:
            return np.ones(self.shape, dtype=bool)
        return np.asarray(~dense(self.unknown))

    @property
    def learnable(self) -> Bool:
        """Pairs to train a classifier on, pair by pair, as an array.

        These are the annotated pairs and the negatives implied by an ancestor. Positives implied by
        a descendant are known only because they are true, so training on them would be biased. A
        label without any such pairs uses all known ones.
        """
        known = self.is_known
        if self.is_complete:
            return known
        pairs = known & ~(dense(self.not_annotated) & dense(self.positive))
        return np.where(pairs.any(axis=0), pairs, known)

    @property
    def cells(self) -> Any:
        """The known truth as an array: of bool, or of float with NaN where it is unknown."""
        positive = dense(self.positive)
        return positive if self.unknown is None else np.where(self.is_known, positive, np.nan)

    @property
    def cluster_number(self) -> NDArray[np.intp] | None:
        """The cluster of each sample as 0, 1, ...; None without clusters."""
        if self.cluster is None:
            return None
        return np.unique(self.cluster, return_inverse=True)[1].reshape(-1)

    @property
    def n_clusters(self) -> int | None:
        """Number of clusters; None without clusters."""
        return None if self.cluster is None else int(np.unique(self.cluster).size)

    @property
    def n_unknown(self) -> NDArray[np.int64]:
        """Number of samples in which each label is unknown."""
        if self.unknown is None:
            return np.zeros(self.shape[1], dtype=np.int64)
        return sum_by_label(self.unknown)

    def __getitem__(self, at: Any) -> Truth:
        """Return some rows, or rows and columns, as with an array."""
        part = self._each(lambda matrix: matrix[at])
        rows = at[0] if isinstance(at, tuple) else at
        of_rows = {"cluster": self.cluster, "contents": self.contents}
        return replace(part, **{k: x[rows] for k, x in of_rows.items() if x is not None})

    def in_clusters(self, cluster: NDArray[Any] | None) -> Truth:
        """Return the same truth of samples in clusters; clusters of one sample change nothing."""
        is_same = cluster is None or are_distinct(cluster)
        return self if is_same else replace(self, cluster=cluster)

    def toarray(self) -> Truth:
        """Return the same with dense matrices."""
        return self._each(dense)

    def tocsr(self) -> Truth:
        """Return the same with CSR matrices."""
        return self._each(sparse.csr_array)

    def _each(self, change: Callable[[Any], Any]) -> Truth:
        names = ("positive", "unknown", "not_annotated", "implied")
        matrices = {name: getattr(self, name) for name in names}
        return replace(self, **{k: change(x) for k, x in matrices.items() if x is not None})

    def column(self, label: int) -> tuple[Bool, Bool, Bool]:
        """Return in which samples a label is true, is known, and was annotated."""
        positive, unknown, not_annotated = self._by_label
        true = _column(positive, label)
        if unknown is None:
            return true, np.ones_like(true), np.ones_like(true)
        return true, ~_column(unknown, label), ~_column(not_annotated, label)

    @cached_property
    def _by_label(self) -> tuple[Any, ...]:
        matrices = (self.positive, self.unknown, self.not_annotated)
        return tuple(x.tocsc() if is_sparse(x) else x for x in matrices)

    # -- ranges of samples as arrays (labels x samples); CSR matrices only ------------------------

    def upper_set(self, hierarchy: Hierarchy, start: int, stop: int, numbers: Any = ()) -> UpperSet:
        """Return the labels that occur in a range of samples, or in `numbers`, and ancestors."""
        some = [np.asarray(numbers, dtype=np.int32)]
        for matrix in (self.positive, self.not_annotated):
            if matrix is not None:
                label = matrix.indices[matrix.indptr[start] : matrix.indptr[stop]]
                some.append(hierarchy.position[label])
        return UpperSet.above(hierarchy, np.concatenate(some))

    def marked(
        self, hierarchy: Hierarchy, upper: UpperSet, start: int, stop: int
    ) -> tuple[Bool, Bool, Bool]:
        """Return arrays (labels of `upper` x samples): positive, unknown and not annotated."""
        marks = [np.zeros((upper.size, stop - start), dtype=bool) for _ in range(3)]
        matrices = (self.positive, self.unknown, self.not_annotated)
        for mark, matrix in zip(marks, matrices, strict=True):
            if matrix is not None:
                part = slice(matrix.indptr[start], matrix.indptr[stop])
                row = np.repeat(np.arange(stop - start), np.diff(matrix.indptr[start : stop + 1]))
                place = upper.row[hierarchy.position[matrix.indices[part]]]
                is_inside = place >= 0
                mark[place[is_inside], row[is_inside]] = True
        return marks[0], marks[1], marks[2]

    def evaluated(
        self, hierarchy: Hierarchy, weight: Float | None = None, *, share: float | None = None
    ) -> Truth:
        """Return the truth to measure with: what is known only because of itself is unknown.

        See `evaluated_among`; `share` is by default the `implied_share` of these samples.
        """
        if self.is_complete:
            return self
        truth, upper = self.tocsr(), UpperSet.above(hierarchy)
        is_dense = isinstance(self.positive, np.ndarray)
        share = implied_share(truth, hierarchy, weight) if share is None else share
        parts = []
        for start, stop in sample_ranges(*self.shape):
            marks = truth.marked(hierarchy, upper, start, stop)
            positive, unknown = evaluated_among(*marks, hierarchy.order, share)
            matrices = (positive, unknown, marks[0] & ~positive)
            whole = [x[hierarchy.position].T for x in matrices]
            parts.append(whole if is_dense else [sparse.csr_array(x) for x in whole])
        positive, unknown, implied = (
            np.concatenate(x) if is_dense else sparse.vstack(x, format="csr")
            for x in zip(*parts, strict=True)
        )
        return replace(self, positive=positive, unknown=unknown, implied=implied)


def _column(matrix: Any, label: int) -> Bool:
    if isinstance(matrix, np.ndarray):
        return matrix[:, label]
    column = np.zeros(matrix.shape[0], dtype=bool)
    column[matrix.indices[matrix.indptr[label] : matrix.indptr[label + 1]]] = True
    return column


# -- what to evaluate with ------------------------------------------------------------------------


def evaluated_among(
    positive: Bool, unknown: Bool, not_annotated: Bool, label: NDArray[Any], share: float
) -> tuple[Bool, Bool]:
    """Return what is positive and what is unknown if only evaluated pairs count.

    Whether a pair that was not annotated follows from the hierarchy depends on its own truth. So a
    positive that follows from a descendant does not count, and of the negatives that follow from an
    ancestor a `share` counts, chosen at random. Arrays are (labels x samples), as those of
    `Truth.marked`; `label` are their labels.

    Notes
    -----
    With a share of 0 only annotated pairs count: correct if, within a label, whether a pair is
    annotated depends on neither its truth nor its score. With a share of 1 all implied negatives
    count: correct if a label is only annotated where its parents are true. `implied_share`
    estimates it.
    """
    implied = not_annotated & ~positive & ~unknown
    salt = mix(np.asarray(label).astype(np.uint64))[:, None]
    key = np.where(not_annotated, salt, np.uint64(0)).sum(axis=0, dtype=np.uint64)
    implied &= (mix(key ^ salt) >> np.uint64(11)) < share * 2.0**53
    return positive & ~not_annotated, not_annotated & ~implied


def implied_share(truth: Truth, hierarchy: Hierarchy, weight: Float | None = None) -> float:
    r"""Return the share of implied negatives that are as likely to count as other pairs.

    Of the pairs whose parents were all annotated as true a share :math:`g_1` was annotated, of
    those with a parent annotated as false a share :math:`g_0`. If a share :math:`\theta` of the
    rest counts, :math:`g_0 + \theta (1 - g_0) = g_1`. Means are over the pairs of the first kind.
    """
    h, upper, truth = hierarchy, UpperSet.above(hierarchy), truth.tocsr()
    counts = np.zeros((4, h.n_labels))
    for start, stop in sample_ranges(*truth.shape):
        positive, _, skipped = truth.marked(h, upper, start, stop)
        parents_true = upper.all_parents(positive & ~skipped)
        parent_false = ~upper.all_parents(positive | skipped)
        share = np.ones(stop - start) if weight is None else weight[start:stop] / weight.max()
        kinds = (parents_true, parents_true & ~skipped, parent_false, parent_false & ~skipped)
        counts += [x @ share for x in kinds]
    used = (counts[0] > 0.0) & (counts[2] > 0.0)
    n_true, n_true_annotated, n_false, n_false_annotated = counts[:, used]
    share_false = n_false_annotated / n_false
    n_rest = float(n_true @ (1.0 - share_false))
    gap = float((n_true_annotated - n_true * share_false).sum())
    return min(1.0, max(0.0, gap / n_rest)) if n_rest > 0.0 else float(not used.any())


# -- truth as users have it -----------------------------------------------------------------------


def align_truth(
    data: Any,
    hierarchy: Hierarchy,
    scores: Table | None = None,
    *,
    propagate_truth: bool = False,
    allow_unknown: bool = True,
    is_first: bool = True,
    name: str = "scores",
) -> Truth:
    """Convert truth in any form to `Truth` in the order of the labels and of the `scores`.

    Forms are those of `truth_table`; NaN, None and NA are unknown. The ancestors of one name per
    sample, and of truth that only names leaves, are added; the first time with a note. Otherwise a
    label without its parent is an error, or with `propagate_truth` its ancestors are added, with a
    warning. The matrices are CSR if the scores are, else dense.

    >>> h = Hierarchy([("A", "B"), ("B", "C")])
    >>> truth = align_truth([[np.nan, np.nan, 1], [1, 0, np.nan]], h)
    >>> truth.positive.astype(int).tolist(), bool(truth.is_known.all())
    ([[1, 1, 1], [1, 0, 0]], True)
    """
    if isinstance(data, Truth):
        return data
    table, form = truth_table(data, hierarchy, scores)
    if scores is not None:
        table = match_rows(table, scores, name=name)
    refuse_other_values(table, allow_unknown=allow_unknown)
    names_leaves = form == "leaves" or (form == "lists" and names_only_leaves(table, hierarchy))
    positive, unknown = split_unknown(table.values)
    propagates = propagate_truth or form == "one name" or names_leaves
    closed = close_annotated(positive, unknown, hierarchy, propagate_truth=propagates)
    if closed.breach is not None:
        hint = _ancestor_hint(table, positive, hierarchy, is_error=True)
        sample, ancestor, label = closed.breach
        raise DataError(
            f"truth contradicts the hierarchy {closed.n_added:,} time(s); the first: sample "
            f"{sample} has {label!r} but not {ancestor!r}, which is above it.\nHint: {hint}"
        )
    if closed.n_added and (form == "one name" or names_leaves):
        what = "one label per sample" if form == "one name" else "only leaves"
        if is_first:
            warn(f"The truth names {what}; {closed.n_added:,} ancestors were added.")
    elif closed.n_added:
        note = f"{closed.n_added:,} missing ancestors were added to the truth."
        hint = _ancestor_hint(table, positive, hierarchy, is_error=False)
        warn(f"{note}\nHint: {hint}" if hint == _SORTED_COLUMNS else note)
    truth = Truth.annotated(closed.positive, closed.not_annotated, hierarchy)
    return truth if scores is not None and scores.n_stored is not None else truth.toarray()


def names_only_leaves(table: Table, hierarchy: Hierarchy) -> bool:
    """Return whether a sparse table of truth has entries of leaves alone."""
    values: Any = table.values
    return bool(np.isin(table.labels, hierarchy.leaves)[values.indices].all())


def refuse_other_values(truth: Table, *, allow_unknown: bool = True) -> None:
    """Refuse values other than 0, 1 and, if allowed, NaN."""
    stored = stored_values(truth.values)
    bad = ~((stored == 0.0) | (stored == 1.0) | (np.isnan(stored) & allow_unknown))
    what = "a value other than 0" + (", 1 and unknown" if allow_unknown else " and 1")
    hint = "scores come first, truth second; truth may also be lists of labels."
    refuse_entries(bad, truth.values, truth.labels, name="truth", what=what, hint=hint)


def _ancestor_hint(
    table: Table, positive: sparse.csr_array, hierarchy: Hierarchy, *, is_error: bool
) -> str:
    # Of few labels, all parents may be true by chance.
    if table.columns_unnamed and fits_if_sorted(hierarchy, positive, least=1 if is_error else 20):
        return _SORTED_COLUMNS
    hint = "add the missing ancestors with propagate_truth=True or hierarchy.close_upward(truth)."
    if table.columns_unnamed:
        names = quote_names(hierarchy.labels, most=3)
        return f"{hint} The columns have no names and were taken as {names}: is this their order?"
    return f"{hint} Or is the hierarchy reversed? Its roots are {quote_names(hierarchy.roots)}."


class ClosedPairs(NamedTuple):
    """Annotation closed upward: CSR matrices of bool."""

    positive: sparse.csr_array
    not_annotated: sparse.csr_array | None
    n_added: int  # ancestors that were missing
    breach: tuple[int, str, str] | None  # if none may be added: first sample, ancestor and label


def close_annotated(
    positive: sparse.csr_array,
    unknown: sparse.csr_array | None,
    hierarchy: Hierarchy,
    *,
    propagate_truth: bool,
) -> ClosedPairs:
    """Close positives upward; with `propagate_truth`, unknown ancestors become annotated."""
    closed, not_annotated = close_sparse(hierarchy, positive), unknown
    added = closed.nnz - positive.nnz
    if unknown is not None:
        not_annotated = unknown > closed
        added -= 0 if propagate_truth else unknown.nnz - not_annotated.nnz
    if propagate_truth:
        return ClosedPairs(closed, not_annotated, added, None)
    if added == 0:
        return ClosedPairs(closed, unknown, 0, None)
    missing = closed > positive
    missing = missing if unknown is None else missing > unknown
    missing.sort_indices()
    sample = int(np.argmax(missing.indptr[1:] > 0))
    ancestor = hierarchy.labels[missing.indices[0]]
    descendants = set(hierarchy.descendants(ancestor))
    first, stop = positive.indptr[sample : sample + 2]
    names = (hierarchy.labels[i] for i in positive.indices[first:stop])
    breach = (sample, ancestor, next(label for label in names if label in descendants))
    return ClosedPairs(closed, unknown, added, breach)
