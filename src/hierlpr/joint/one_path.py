"""Where the path of a sample ends, in a taxonomy in which siblings exclude each other."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr.data.partial_truth import AnyTruth, held_and_known
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.matrices import UpperSet

Float = NDArray[np.float64]

ENOUGH_SAMPLES = 100  # samples with one path; with fewer, every weight stays 1
SINGLE_SHARE = 0.99  # share of samples with one path that makes the labels a taxonomy
MAX_WEIGHT = 4.0
EDGE = 2.0**-30  # LPRs and prevalences are kept this far from 0 and 1


def end_posterior(
    lpr: Float, prevalence: Float, hierarchy: Hierarchy, weight: Float | None = None
) -> Float:
    r"""Return P(the path of a sample ends at this label), given the scores of all its labels.

    Parameters
    ----------
    lpr : ndarray of shape (n_samples, n_labels)
        LPR of each label on its own.
    prevalence : ndarray of shape (n_labels,)
    hierarchy : Hierarchy
        A forest.
    weight : ndarray, optional
        Weight of the evidence of each depth, starting with the roots; 1 by default.

    Returns
    -------
    ndarray of the same shape
        The rest, 1 minus the row sum, is the probability that the sample has no label.

    Notes
    -----
    With :math:`r_k` the odds of the LPR over those of the prevalence, :math:`w` the weights, and
    independent scores given the path,

    .. math:: P(\text{end } v) \propto \big(\pi_v - \sum_{\text{children}} \pi_c\big)_+
              \prod_{k \text{ on the path to } v} r_k^{w_{\text{depth } k}} ,

    and the weight of having no label is :math:`1 - \sum_{\text{roots}} \pi`.

    Examples
    --------
    >>> h = Hierarchy([("A", "B"), ("A", "C")])
    >>> prior = np.array([1.0, 0.5, 0.5])
    >>> end_posterior(np.array([[1.0, 0.8, 0.5]]), prior, h).round(6)
    array([[0. , 0.8, 0.2]])
    >>> end_posterior(np.array([[1.0, 0.8, 0.5]]), prior, h, np.array([1.0, 0.5])).round(6)
    array([[0.      , 0.666667, 0.333333]])
    """
    if not hierarchy.is_forest:
        raise DataError("one_path=True needs a hierarchy in which every label has one parent.")
    return _ends(_evidence(lpr, prevalence), _log_prior(prevalence, hierarchy), hierarchy, weight)


def learn_depth_weights(
    lpr: Float,
    truth: AnyTruth,
    prevalence: Float,
    hierarchy: Hierarchy,
    sample_weight: Float | None = None,
) -> Float | None:
    """Fit the weights of the evidence of each depth by maximum a posteriori.

    Scores of the labels of one path are often redundant; treated as independent, they make the
    posterior too confident. The prior of the weights is normal with mean 1 and standard
    deviation 1.

    Returns
    -------
    ndarray of shape (n_depths,) or None
        None if the hierarchy is not a forest, too few samples have fully known truth with one
        path, or too many have more than one path.
    """
    if not hierarchy.is_forest:
        return None
    held, pairs = held_and_known(truth)
    known = pairs.all(axis=1)
    levels = np.asarray(hierarchy.levels)
    # A sample has one path if it has as many labels as its deepest label has levels.
    single = known & (held.sum(axis=1) == np.where(held, levels, 0).max(axis=1, initial=0))
    if single.sum() < max(ENOUGH_SAMPLES, SINGLE_SHARE * known.sum()):
        return None
    held = held[single]
    counts = np.ones(len(held)) if sample_weight is None else sample_weight[single]
    counts = counts * (counts.sum() / (counts**2).sum())  # add up to the effective number
    evidence, log_prior = _evidence(lpr[single], prevalence), _log_prior(prevalence, hierarchy)
    deepest = np.where(held, levels, 0).argmax(axis=1)
    end = np.where(held.any(axis=1), deepest, held.shape[1])
    reachable = np.isfinite(log_prior[end])
    counts, held, evidence, end = (x[reachable] for x in (counts, held, evidence, end))
    row, depths = np.arange(end.size), [levels == d for d in range(1, levels.max() + 1)]

    def loss(weight: Float) -> tuple[float, Float]:
        ends = _ends(evidence, log_prior, hierarchy, weight)
        none = np.maximum(1.0 - ends.sum(axis=1, keepdims=True), 0.0)
        found = np.concatenate([ends, none], axis=1)[row, end]
        told = -(counts * np.log(np.maximum(found, 1e-300))).sum()
        # Gradient: expected minus observed evidence of each depth.
        more = ((reach_of(ends, hierarchy) - held) * evidence * counts[:, None]).sum(axis=0)
        slope = np.array([more[at].sum() for at in depths])
        pull = weight - 1.0
        return float(told + 0.5 * (pull**2).sum()), slope + pull

    start, bounds = np.ones(len(depths)), [(0.0, MAX_WEIGHT)] * len(depths)
    found = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(found.x, dtype=np.float64)


def reach_of(ends: Float, hierarchy: Hierarchy) -> Float:
    """Return P(the path goes through this label), that is, ends there or below."""
    reach = ends.copy()
    for parents, children in UpperSet.above(hierarchy).up:
        reach[:, hierarchy.order[parents]] += reach[:, hierarchy.order[children]]
    return np.minimum(reach, 1.0)


def _evidence(lpr: Float, prevalence: Float) -> Float:
    """Return the log-odds of LPRs minus those of the prevalences."""
    known, prior = (np.clip(x, EDGE, 1.0 - EDGE) for x in (lpr, prevalence))
    return np.asarray(np.log(known / (1.0 - known)) - np.log(prior / (1.0 - prior)))


def _log_prior(prevalence: Float, hierarchy: Hierarchy) -> Float:
    """Return the log prior of ending at each label and, last, of having no label."""
    ends = np.array(prevalence, dtype=np.float64)
    for parents, children in UpperSet.above(hierarchy).up:
        ends[hierarchy.order[parents]] -= prevalence[hierarchy.order[children]]
    roots = np.diff(hierarchy.parent_ptr) == 0
    nothing = 1.0 - prevalence[hierarchy.order[roots]].sum()
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(np.append(ends, nothing), 0.0)))


def _ends(evidence: Float, log_prior: Float, hierarchy: Hierarchy, weight: Float | None) -> Float:
    """Return P(the path ends at each label) from evidence and log prior."""
    path = evidence.copy()
    if weight is not None:
        path *= weight[np.asarray(hierarchy.levels) - 1]
    for parents, children in UpperSet.above(hierarchy).down:
        path[:, hierarchy.order[children]] += path[:, hierarchy.order[parents]]
    log = np.concatenate([path, np.zeros((len(path), 1))], axis=1) + log_prior
    log -= log.max(axis=1, keepdims=True)
    mass = np.exp(log)
    return np.asarray((mass / mass.sum(axis=1, keepdims=True))[:, :-1])
