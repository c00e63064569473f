"""The area under the precision-recall curve with its standard error over samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

N_STEPS = 2**14  # of scores: fine enough for a standard error, and needs no sort


def au_prc_influence(
    truth: NDArray[np.bool_], scores: Float, weight: Any = 1.0
) -> tuple[float, Float]:
    r"""Return AU(PRC) and the influence of every sample on it.

    Parameters
    ----------
    truth : ndarray of bool, shape (n_samples, n_labels)
    scores : ndarray of the same shape
        In [0, 1]; rounded down to steps of ``2**-14``, each of which is called as a whole.
    weight : array-like, optional
        Weight of every instance, or what broadcasts to it.

    Returns
    -------
    area : float
    influence : ndarray of shape (n_samples,)
        Derivative of the area by the relative weight of each sample, 1 for all. The root of the
        sum of its squares is the standard error of the area (infinitesimal jackknife); that of a
        difference of areas is the root of the sum of squared differences.

    Notes
    -----
    With positives :math:`y_j`, precision :math:`P_j` and weight :math:`N_j` of all instances up to
    step j, the area is :math:`\sum_j y_j P_j / \sum_j y_j`. An instance at step k moves
    :math:`P_j` for :math:`j \ge k` by :math:`(y_k - P_j) / N_j`.

    Examples
    --------
    >>> truth, scores = np.array([[True], [False], [True]]), np.array([[0.9], [0.6], [0.3]])
    >>> area, influence = au_prc_influence(truth, scores)
    >>> print(round(area, 4), influence.round(4), abs(influence.sum()) < 1e-12)
    0.8333 [ 0.1389 -0.1111 -0.0278] True
    """
    step = N_STEPS - (scores * N_STEPS).astype(np.int64)
    weight = np.broadcast_to(np.asarray(weight, dtype=np.float64), truth.shape)
    hits = weight * truth
    positive, total = (np.bincount(step.ravel(), x.ravel(), N_STEPS + 1) for x in (hits, weight))
    n_all, n_positive = np.maximum(np.cumsum(total), 1e-12), max(float(hits.sum()), 1e-12)
    precision = np.cumsum(positive) / n_all
    area = float((positive * precision).sum()) / n_positive
    below = np.cumsum((positive / n_all)[::-1])[::-1]
    below_precision = np.cumsum((positive * precision / n_all)[::-1])[::-1]
    effect = hits * (precision + below - area)[step] - weight * below_precision[step]
    return area, np.asarray(effect.sum(axis=1) / n_positive)
