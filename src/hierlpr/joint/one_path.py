"""The posterior where every sample has one path of labels: a taxonomy, not many labels at once.

Siblings then exclude each other, which the joint posterior of many labels does not know.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

__all__ = ["end_posterior"]

Float = NDArray[np.float64]
LEAST = 2.0**-30  # LPRs and prevalences are kept from 0 and 1 by so much


def end_posterior(lpr: Float, prevalence: Float, hierarchy: Hierarchy) -> Float:
    r"""P(the path of a sample ends at this label), given the scores of all its labels.

    Parameters
    ----------
    lpr : ndarray of shape (n_samples, n_labels)
        Each label's own LPR.
    prevalence : ndarray of shape (n_labels,)
    hierarchy : Hierarchy
        A forest.

    Returns
    -------
    ndarray of the same shape
        What is missing to 1 is the probability that the sample has no label.

    Notes
    -----
    With :math:`r_k` the odds of the LPR over those of the prevalence, and independent scores given
    the path,

    .. math:: P(\text{end } v) \propto \big(\pi_v - \sum_{\text{children}} \pi_c\big)_+
              \prod_{k \text{ on the path to } v} r_k ,

    and a sample has no label with the weight :math:`1 - \sum_{\text{roots}} \pi`.

    Examples
    --------
    >>> h = Hierarchy([("A", "B"), ("A", "C")])
    >>> prior = np.array([1.0, 0.5, 0.5])
    >>> end_posterior(np.array([[1.0, 0.8, 0.5]]), prior, h).round(6)
    array([[0. , 0.8, 0.2]])
    """
    if not hierarchy.is_forest:
        raise DataError("one_path=True needs a hierarchy in which every label has one parent.")
    prior = np.clip(prevalence, LEAST, 1.0 - LEAST)
    known = np.clip(lpr, LEAST, 1.0 - LEAST)
    path = np.log(known / (1.0 - known)) - np.log(prior / (1.0 - prior))
    ends = np.array(prevalence, dtype=np.float64)
    waves = hierarchy.waves.above(np.arange(hierarchy.n_labels))
    for parents, children in waves.down:
        path[:, hierarchy.order[children]] += path[:, hierarchy.order[parents]]
    for parents, children in waves.up:
        ends[hierarchy.order[parents]] -= prevalence[hierarchy.order[children]]
    roots = np.diff(hierarchy.parent_ptr) == 0
    nothing = 1.0 - prevalence[hierarchy.order[roots]].sum()
    with np.errstate(divide="ignore"):
        weight = np.log(np.maximum(np.append(ends, nothing), 0.0))
    log = np.concatenate([path, np.zeros((len(path), 1))], axis=1) + weight
    log -= log.max(axis=1, keepdims=True)
    mass = np.exp(log)
    return np.asarray((mass / mass.sum(axis=1, keepdims=True))[:, :-1])
