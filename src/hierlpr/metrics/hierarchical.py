"""Losses and scores of calls that use the hierarchy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.data.tables import align, dense, truth_table
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import UpperSet, parts_by_sample
from hierlpr.metrics.calls import f_score, precision_score, recall_score
from hierlpr.metrics.hits import check_status

Float = NDArray[np.float64]


def hierarchical_precision_score(truth: Any, calls: Any, hierarchy: Hierarchy) -> float:
    r"""Return the pooled precision of label sets that are first closed upward.

    :math:`hP = \sum_i |\hat P_i \cap \hat T_i| / \sum_i |\hat P_i|`, where :math:`\hat P_i` and
    :math:`\hat T_i` are the called and the true labels of sample i with all their ancestors.

    References
    ----------
    Kiritchenko, Matwin and Famili (2005), key ``kiritchenko2005``.

    Examples
    --------
    The truth is A, B; the call C brings its ancestor A, which is correct.

    >>> h = Hierarchy([("A", "B"), ("A", "C")])
    >>> hierarchical_precision_score([[1, 1, 0]], [[0, 0, 1]], h)
    0.5
    """
    return precision_score(*_closed_pair(truth, calls, hierarchy))


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
    return recall_score(*_closed_pair(truth, calls, hierarchy))


def hierarchical_f_score(
    truth: Any, calls: Any, hierarchy: Hierarchy, *, beta: float = 1.0
) -> float:
    r"""Return F of the hierarchical precision and recall.

    :math:`hF_\beta = (1 + \beta^2)\, hP\, hR / (\beta^2 hP + hR)`.

    References
    ----------
    Kiritchenko, Matwin and Famili (2005), key ``kiritchenko2005``.

    Examples
    --------
    >>> h = Hierarchy([("A", "B"), ("A", "C")])
    >>> hierarchical_f_score([[1, 1, 0]], [[1, 0, 0]], h)  # hP = 1, hR = 1/2
    0.6666666666666666
    """
    return f_score(*_closed_pair(truth, calls, hierarchy), beta=beta)


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

    :math:`\ell_H = \sum_k I\{\hat Q_k \neq Q_k,\ \hat Q_j = Q_j\ \forall j \in anc(k)\}`.

    References
    ----------
    Cesa-Bianchi, Gentile and Zaniboni (2006), key ``cesabianchi2006``.

    Examples
    --------
    B is missed, and so is C below it, which no longer counts.

    >>> h_error([[1, 1, 1]], [[1, 0, 0]], Hierarchy([("A", "B"), ("B", "C")]))
    1.0
    """
    status, called = _pair(truth, calls, hierarchy)
    upper = UpperSet.above(hierarchy)
    first = first_errors((status != called).T[hierarchy.order], upper)
    return float(first.sum() / status.shape[0])


def first_errors(wrong: NDArray[np.bool_], upper: UpperSet) -> NDArray[np.bool_]:
    """Return the errors without an error above them; arrays (labels x samples)."""
    return wrong & ~upper.any_above(wrong)


def hierarchical_hamming_error(truth: Any, calls: Any, hierarchy: Hierarchy) -> float:
    r"""Return the hierarchical Hamming loss: all errors, weighted by label; mean over samples.

    :math:`\ell = \sum_k c_k\, I\{\hat Q_k \neq Q_k\}`: the costs of the roots add up to 1, and the
    children of a label share its cost equally.

    References
    ----------
    Bi and Kwok (2015), key ``bi2015``; Cesa-Bianchi, Gentile and Zaniboni (2006), key
    ``cesabianchi2006``, for the costs.

    Examples
    --------
    >>> h = Hierarchy([("A", "B"), ("A", "C")])
    >>> hierarchical_hamming_error([[1, 1, 0]], [[1, 0, 1]], h)  # 1/2 + 1/2
    1.0
    """
    status, called = _pair(truth, calls, hierarchy)
    return float(np.mean((status != called) @ sibling_costs(hierarchy)))


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


def _pair(
    truth: Any, calls: Any, hierarchy: Hierarchy
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return both as bool matrices of one shape; neither needs to be closed upward."""
    status, called = (
        check_status(dense(truth_table(data, hierarchy, name=name)[0].values))
        for data, name in ((truth, "truth"), (calls, "calls"))
    )
    if status.shape != called.shape:
        raise DataError(f"calls has {len(called)} samples, truth {len(status)}; they must agree.")
    return status, called


def _closed_pair(
    truth: Any, calls: Any, hierarchy: Hierarchy
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    status, called = _pair(truth, calls, hierarchy)
    return hierarchy.close_upward(status), hierarchy.close_upward(called)
