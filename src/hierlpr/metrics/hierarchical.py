"""Losses and scores of calls that use the hierarchy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.data.tables import align, dense, truth_table
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import UpperSet, parts_by_sample, sample_ranges
from hierlpr.metrics.calls import check_beta
from hierlpr.metrics.instances import check_status

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


def hierarchical_precision_score(truth: Any, calls: Any, hierarchy: Hierarchy) -> float:
    r"""Return the pooled precision of label sets that are first closed upward.

    :math:`hP = \sum_i |\hat P_i \cap \hat T_i| / \sum_i |\hat P_i|`, where :math:`\hat P_i` and
    :math:`\hat T_i` are the called and the true labels of sample i with all their ancestors. See
    Kiritchenko, Matwin and Famili (2005), key ``kiritchenko2005``.

    Examples
    --------
    The truth is A, B; the call C brings its ancestor A, which is correct.

    >>> h = Hierarchy([("A", "B"), ("A", "C")])
    >>> hierarchical_precision_score([[1, 1, 0]], [[0, 0, 1]], h)
    0.5
    """
    return _measure("hierarchical precision", truth, calls, hierarchy, close=True)


def hierarchical_recall_score(truth: Any, calls: Any, hierarchy: Hierarchy) -> float:
    r"""Return the pooled recall of label sets that are first closed upward.

    :math:`hR = \sum_i |\hat P_i \cap \hat T_i| / \sum_i |\hat T_i|`; see
    `hierarchical_precision_score`.

    Examples
    --------
    >>> h = Hierarchy([("A", "B"), ("A", "C")])
    >>> hierarchical_recall_score([[1, 1, 0]], [[0, 0, 1]], h)
    0.5
    """
    return _measure("hierarchical recall", truth, calls, hierarchy, close=True)


def hierarchical_f_score(
    truth: Any, calls: Any, hierarchy: Hierarchy, *, beta: float = 1.0
) -> float:
    r"""Return F of the hierarchical precision and recall.

    :math:`hF_\beta = (1 + \beta^2)\, hP\, hR / (\beta^2 hP + hR)`. See Kiritchenko, Matwin and
    Famili (2005), key ``kiritchenko2005``.

    Examples
    --------
    >>> h = Hierarchy([("A", "B"), ("A", "C")])
    >>> hierarchical_f_score([[1, 1, 0]], [[1, 0, 0]], h)  # hP = 1, hR = 1/2
    0.6666666666666666
    """
    return _measure("hierarchical F1", truth, calls, hierarchy, close=True, beta=beta)


def sibling_costs(hierarchy: Hierarchy) -> Float:
    """Return the cost of an error at each label: roots share 1, children the cost of their parents.

    They share it equally; a label with several parents gets a share of each.

    >>> sibling_costs(Hierarchy([("A", "B"), ("A", "C"), ("C", "D")]))
    array([1. , 0.5, 0.5, 0.5])
    """
    h = hierarchy
    n_children = np.diff(h.child_ptr)
    is_root = np.diff(h.parent_ptr) == 0
    out = np.where(is_root, 1.0 / is_root.sum(), 0.0)
    for k in np.flatnonzero(~is_root):  # parents have smaller numbers
        above = h.parent_idx[h.parent_ptr[k] : h.parent_ptr[k + 1]]
        out[k] = np.sum(out[above] / n_children[above])
    return out[h.position]


def h_error(truth: Any, calls: Any, hierarchy: Hierarchy) -> float:
    r"""Return the H-loss: only the first error on a path counts; mean over samples.

    :math:`\ell_H = \sum_k I\{\hat Q_k \neq Q_k,\ \hat Q_j = Q_j\ \forall j \in anc(k)\}`. See
    Cesa-Bianchi, Gentile and Zaniboni (2006), key ``cesabianchi2006``.

    Examples
    --------
    B is missed, and so is C below it, which no longer counts.

    >>> h_error([[1, 1, 1]], [[1, 0, 0]], Hierarchy([("A", "B"), ("B", "C")]))
    1.0
    """
    return _measure("H-loss", truth, calls, hierarchy)


def hierarchical_hamming_error(truth: Any, calls: Any, hierarchy: Hierarchy) -> float:
    r"""Return the hierarchical Hamming loss: all errors, weighted by label; mean over samples.

    :math:`\ell = \sum_k c_k\, I\{\hat Q_k \neq Q_k\}`: the costs of the roots add up to 1, and the
    children of a label share its cost equally. See Bi and Kwok (2015), key ``bi2015``;
    Cesa-Bianchi, Gentile and Zaniboni (2006), key ``cesabianchi2006``, for the costs.

    Examples
    --------
    >>> h = Hierarchy([("A", "B"), ("A", "C")])
    >>> hierarchical_hamming_error([[1, 1, 0]], [[1, 0, 1]], h)  # 1/2 + 1/2
    1.0
    """
    return _measure("hierarchical Hamming loss", truth, calls, hierarchy)


def violations_error(matrix: Any, hierarchy: Hierarchy) -> int:
    """Count the (sample, parent, child) where the child's value exceeds its parent's.

    For scores, LPRs or calls. For an order see `order_violations_error`.

    Examples
    --------
    >>> violations_error([[0.2, 0.9], [0.9, 0.2]], Hierarchy([("A", "B")]))
    1
    """
    return len(hierarchy.violations(align(matrix, hierarchy, name="matrix").values))


def order_violations_error(sample: Any, label: Any, hierarchy: Hierarchy) -> int:
    """Count the (sample, parent, child) where the child is called before its parent.

    Parameters
    ----------
    sample, label : array-like of int
        Row and column of the calls in order, as in `Ranking`. Instances that are not listed come
        after all others.
    hierarchy : Hierarchy

    Examples
    --------
    >>> order_violations_error([0, 0], [1, 0], Hierarchy([("A", "B")]))
    1
    """
    h = hierarchy
    rows, columns = np.asarray(sample, dtype=np.intp), np.asarray(label, dtype=np.intp)
    if rows.ndim != 1 or rows.shape != columns.shape:
        raise DataError(
            f"sample and label must be lists of one length, got {rows.shape}, {columns.shape}."
        )
    if rows.size and not (rows.min() >= 0 and 0 <= columns.min() <= columns.max() < h.n_labels):
        raise DataError(f"sample must count from 0, and label from 0 to {h.n_labels - 1}.")
    n_samples = int(rows.max(initial=-1)) + 1
    total = 0
    for start, stop, part in parts_by_sample(rows, n_samples, h.n_labels):
        number = h.position[columns[part]]
        total += late_parents(UpperSet.above(h, number), number, rows[part] - start, stop - start)
    return total


def late_parents(upper: UpperSet, number: Any, sample: Any, n_samples: int) -> int:
    """Count the (sample, parent, child) of a list in order whose child comes first."""
    last = np.iinfo(np.int32).max  # what is not listed comes after all others
    place = np.full((upper.size, n_samples), last, dtype=np.int32)
    place[upper.row[number], sample] = np.arange(len(number), dtype=np.int32)
    parents, children = upper.edges
    return int(np.count_nonzero(place[children] < place[parents]))


class CallSums:
    """Sums over samples for measures of calls; samples are added in batches.

    Samples count by their weights. Orphans, which are calls without one of their parents, are
    counted.
    """

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._h = hierarchy
        self._sums = np.zeros(6)  # samples, positives, calls, hits, and both after closing upward
        self._wrong, self._first_wrong = np.zeros((2, hierarchy.n_labels))
        self.n_called = self.n_unknown = self.n_orphans = 0

    def add(
        self, called: Bool, is_true: Bool, unknown: Bool, upper: UpperSet, weight: Float
    ) -> None:
        """Add the calls and the truth of samples, arrays (labels x samples)."""
        is_known, closed = ~unknown, called.copy()
        upper.raise_up(closed)
        is_evaluated = np.count_nonzero(unknown, axis=0) < self._h.n_labels
        counted = (
            is_true,
            called & is_known,
            called & is_true,
            closed & is_known,
            closed & is_true,
        )
        by_sample = [is_evaluated, *(np.count_nonzero(x, axis=0) for x in counted)]
        self._sums += [float(x @ weight) for x in by_sample]
        parents, children = upper.edges
        self.n_called += int(np.count_nonzero(called))
        self.n_unknown += int(np.count_nonzero(called & unknown))
        self.n_orphans += int(np.count_nonzero(called[children] & ~called[parents]))
        wrong = (called != is_true) & is_known
        columns = self._h.order[upper.numbers]
        self._wrong[columns] += wrong @ weight
        self._first_wrong[columns] += (wrong & ~upper.any_above(wrong)) @ weight

    def measures(self, beta: float = 1.0) -> dict[str, float | int | None]:
        """Return the measures; None for those that are not defined. `beta` is that of F."""
        n_samples, positives, calls, hits, closed_calls, closed_hits = self._sums.tolist()
        precision, square = hits / calls if calls else None, check_beta(beta) ** 2
        return {
            "precision": precision,
            "FDR": None if precision is None else 1.0 - precision,
            "recall": hits / positives if positives else None,
            "F1": _share((1.0 + square) * hits, square * positives + calls),
            "hierarchical precision": _share(closed_hits, closed_calls),
            "hierarchical recall": _share(closed_hits, positives),
            "hierarchical F1": _share(
                (1.0 + square) * closed_hits, square * positives + closed_calls
            ),
            "H-loss": float(self._first_wrong.sum()) / n_samples if n_samples else None,
            "hierarchical Hamming loss": (
                float(self._wrong @ sibling_costs(self._h)) / n_samples if n_samples else None
            ),
            "calls without a parent": self.n_orphans,
        }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _measure(
    measure: str,
    truth: Any,
    calls: Any,
    hierarchy: Hierarchy,
    *,
    close: bool = False,
    beta: float = 1.0,
) -> float:
    """Return one of the measures of `CallSums`; neither matrix needs to be closed upward."""
    status, called = (
        check_status(dense(truth_table(data, hierarchy, name=name)[0].values), name)
        for data, name in ((truth, "truth"), (calls, "calls"))
    )
    if status.shape != called.shape:
        raise DataError(f"calls has {len(called)} samples, truth {len(status)}; they must agree.")
    sums, upper = CallSums(hierarchy), UpperSet.above(hierarchy)
    for start, stop in sample_ranges(*status.shape):
        is_true, is_called = (x[start:stop].T[hierarchy.order] for x in (status, called))
        if close:
            upper.raise_up(is_true)
        sums.add(is_called, is_true, np.zeros_like(is_true), upper, np.ones(stop - start))
    value = sums.measures(beta)[measure]
    return float("nan") if value is None else float(value)
