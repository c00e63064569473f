"""Evidence of all labels of a sample -> the posterior probability of each of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

__all__ = ["joint_posterior"]

Float = NDArray[np.float64]


def joint_posterior(log_evidence: Float, conditional: Float, hierarchy: Hierarchy) -> Float:
    r"""P(label | all scores of its sample) on a forest, by one pass up and one down.

    With evidence :math:`r_k = f_1(s_k) / f_0(s_k)` and :math:`c_k = P(Q_k | Q_{parent})`:
    up, :math:`U_k = r_k \prod_{j\ \mathrm{child}} (c_j U_j + 1 - c_j)`; down,
    :math:`P_k = P_{parent}\, c_k U_k / (c_k U_k + 1 - c_k)`. In logs, so that long chains neither
    overflow nor vanish.

    Parameters
    ----------
    log_evidence : ndarray of shape (n_samples, n_labels)
        :math:`\log r_k`.
    conditional : ndarray of shape (n_labels,)
    hierarchy : Hierarchy
        A forest.

    Examples
    --------
    A label that is certain of itself makes its parent certain too.

    >>> import numpy as np
    >>> h = Hierarchy([("A", "B")])
    >>> joint_posterior(np.array([[0.0, 50.0]]), np.array([0.1, 0.5]), h).round(6)
    array([[1., 1.]])
    """
    if not hierarchy.is_forest:
        raise DataError("The exact pass up and down needs a forest, but the hierarchy is a DAG.")
    h = hierarchy
    parent = np.full(h.n_labels, -1, dtype=np.intp)
    has_parent = np.diff(h.parent_ptr) > 0
    parent[has_parent] = h.parent_idx
    with np.errstate(divide="ignore"):  # a conditional probability of 0 or 1 is welcome
        log_on, log_off = np.log(conditional[h.order]), np.log1p(-conditional[h.order])
    up = np.ascontiguousarray(log_evidence[:, h.order].T)
    log_share = np.empty_like(up)  # log of c U / (c U + 1 - c)
    for k in range(h.n_labels - 1, -1, -1):
        message = np.logaddexp(log_on[k] + up[k], log_off[k])
        log_share[k] = log_on[k] + up[k] - message
        if parent[k] >= 0:
            up[parent[k]] += message
    for k in range(h.n_labels):
        if parent[k] >= 0:
            log_share[k] += log_share[parent[k]]
    posterior: Float = np.exp(np.minimum(log_share, 0.0)).T[:, h.position]
    return posterior
