"""Columns without names that stand in another order than the labels of a hierarchy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.exceptions import HierlprWarning
from hierlpr.hierarchy.label_graph import Hierarchy

__all__ = ["doubt_order", "fits_if_sorted"]

_ENOUGH = 20  # labels that hold below the roots: fewer may fit by chance
_LOOKED_AT = 1000  # samples


def fits_if_sorted(hierarchy: Hierarchy, truth: Any, *, least: int = 1) -> bool:
    """Tell whether truth whose columns are the *sorted* labels would keep the hierarchy.

    scikit-learn's ``MultiLabelBinarizer`` sorts its classes, so that its output breaks most
    hierarchies when its columns are taken in another order. At least so many labels below the
    roots must hold in that reading: nothing breaks a hierarchy where nothing holds.

    Parameters
    ----------
    hierarchy : Hierarchy
    truth : ndarray or csr_array of bool
        That breaks the hierarchy as its columns stand.
    least : int

    Examples
    --------
    >>> h = Hierarchy([("b", "a")])  # labels: b, a
    >>> fits_if_sorted(h, np.array([[False, True]]))  # a, b: b alone
    False
    >>> fits_if_sorted(h, np.array([[True, True], [False, True]]))
    True
    """
    by_name = sorted(hierarchy.labels)
    if by_name == list(hierarchy.labels):
        return False
    place = {label: column for column, label in enumerate(by_name)}
    moved = truth[:, [place[label] for label in hierarchy.labels]]
    below = np.flatnonzero(np.diff(hierarchy.parent_ptr)[hierarchy.position])
    if int(moved[:, below].sum()) < least:
        return False
    if isinstance(moved, np.ndarray):
        return not hierarchy.violations(moved)
    return bool(hierarchy.close_upward(moved).nnz == moved.nnz)


def doubt_order(hierarchy: Hierarchy, truth: NDArray[Any]) -> None:
    """Warn if what was closed upward would have needed no closing with its columns sorted."""
    if fits_if_sorted(hierarchy, truth[:_LOOKED_AT] != 0, least=_ENOUGH):
        warnings.warn(
            "Ancestors were added to the truth, but if its columns are the labels sorted by name, "
            "as MultiLabelBinarizer makes them, none was missing. See that they follow "
            "hierarchy.labels: MultiLabelBinarizer(classes=hierarchy.labels).",
            HierlprWarning,
            stacklevel=3,
        )
