"""Prevalences of labels, and the end of a path in a taxonomy.

The prior of labels that may hold together is their prevalence, overall and given their parents.
Where siblings exclude each other, the labels of a sample are one path, which ends at one label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._utils.checks import Matrix, quote_names
from hierlpr.data.pair_weights import base_rate, curve_weights, strata
from hierlpr.data.tables import dense
from hierlpr.data.truth import Truth
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.graph import rarest_parents
from hierlpr.hierarchy.matrices import UpperSet

Float = NDArray[np.float64]

# Candidate numbers of pseudo-samples for shrinking P(label | parents) to its overall mean.
STRENGTHS = 2.0 ** np.arange(-3, 9)


@dataclass(frozen=True, slots=True, eq=False)
class LabelPrior:
    """Probabilities of labels before any score, in the order of ``hierarchy.labels``.

    `prevalence` is P(label), `conditional` P(label | all its parents), for a root its prevalence;
    both strictly between 0 and 1.
    """

    prevalence: Float
    conditional: Float

    def __post_init__(self) -> None:
        for name in ("prevalence", "conditional"):
            value = np.ascontiguousarray(getattr(self, name), dtype=np.float64)
            if value.ndim != 1 or value.shape != np.shape(self.prevalence):
                raise DataError(f"{name} must hold one number per label.")
            if not np.all((value > 0.0) & (value < 1.0)):
                raise DataError(f"{name} must lie strictly between 0 and 1.")
            object.__setattr__(self, name, value)

    @property
    def log_odds(self) -> Float:
        """Log-odds of the prevalence."""
        return np.asarray(np.log(self.prevalence) - np.log1p(-self.prevalence))

    def on(self, hierarchy: Hierarchy, former: Hierarchy) -> LabelPrior:
        """Return the prior for a changed hierarchy, in which entries have its label order.

        A label whose parents have changed gets the ratio of its prevalence to that of its rarest
        parent.
        """
        h, conditional = hierarchy, self.conditional.copy()
        rarest = rarest_parents(h, self.prevalence)[h.position]
        for k, label in enumerate(h.labels):
            if label in former and set(h.parents(label)) == set(former.parents(label)):
                continue
            above = self.prevalence[h.order[rarest[k]]] if rarest[k] >= 0 else 1.0
            conditional[k] = min(self.prevalence[k] / above, 1.0 - 1e-6)
        return LabelPrior(self.prevalence, conditional)


def fit_prior(
    truth: Truth | Matrix, hierarchy: Hierarchy, sample_weight: Float | None = None
) -> LabelPrior:
    r"""Estimate prevalences and conditional probabilities, smoothed for rare labels.

    `truth` (samples x labels) is closed upward. Where it is unknown, only samples in which the
    label and its parents are annotated are counted, and prevalences are weighted, see
    :func:`~hierlpr.data.pair_weights.curve_weights`. With `sample_weight`, counts are scaled to the
    effective number of samples.

    Notes
    -----
    A prevalence is :math:`(n_k + 1/2) / (n + 1)`. With :math:`N_k` the samples in which all
    parents of label :math:`k` hold, :math:`c_k = (n_k + s \bar c) / (N_k + s)`: shrunk toward the
    overall share :math:`\bar c`, with the number of pseudo-samples :math:`s` that maximizes the
    likelihood of the counts if the :math:`c_k` follow a beta distribution.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> truth = np.array([[1, 1], [1, 0], [1, 1], [0, 0]], dtype=bool)
    >>> fit_prior(truth, h).prevalence
    array([0.7, 0.5])
    """
    truth = Truth.of(truth)
    n_samples = truth.shape[0]
    if n_samples == 0:
        raise DataError("There is no sample to learn from.")
    if sample_weight is not None or not truth.is_complete:
        prevalence, positive, possible = _count_known(truth, hierarchy, sample_weight)
    else:
        positive, possible = count_labels(truth.positive, hierarchy)
        prevalence = (positive + 0.5) / (n_samples + 1.0)
    has_parent = np.diff(hierarchy.parent_ptr)[hierarchy.position] > 0
    conditional = prevalence.copy()
    if has_parent.any():
        n_k, n_possible = positive[has_parent], possible[has_parent]
        share, strength = _beta_of_shares(n_k, n_possible)
        conditional[has_parent] = (n_k + strength * share) / (n_possible + strength)
    return LabelPrior(prevalence, conditional)


def count_labels(
    truth: NDArray[np.bool_] | scipy.sparse.csr_array, h: Hierarchy
) -> tuple[Float, Float]:
    """Count per label the positive samples, and the samples in which all its parents hold."""
    positive = np.asarray(truth.sum(axis=0), dtype=np.float64)
    possible = np.full(h.n_labels, float(truth.shape[0]))
    columns = scipy.sparse.csc_array(truth[:, h.order]) if not h.is_forest else None
    for number, parents in enumerate(np.split(h.parent_idx, h.parent_ptr[1:-1])):
        if parents.size == 1:
            possible[h.order[number]] = positive[h.order[parents[0]]]
        elif parents.size > 1 and columns is not None:
            ptr, rows = columns.indptr, columns.indices
            rows_of_parents = np.concatenate([rows[ptr[p] : ptr[p + 1]] for p in parents])
            n_parents = np.unique(rows_of_parents, return_counts=True)[1]
            possible[h.order[number]] = np.count_nonzero(n_parents == parents.size)
    wrong = np.flatnonzero(positive > possible)
    if wrong.size:
        names = quote_names([h.labels[k] for k in wrong])
        raise DataError(
            f"truth has labels without their parents: {names}.\n"
            "Hint: close it upward first (Hierarchy.close_upward)."
        )
    return positive, possible


def _count_known(
    truth: Truth, h: Hierarchy, sample_weight: Float | None
) -> tuple[Float, Float, Float]:
    """Return prevalences and the counts of `count_labels` over samples with annotated truth."""
    prevalence, positive, possible = np.empty((3, h.n_labels))
    weight = np.ones(truth.shape[0]) if sample_weight is None else sample_weight
    for k in range(h.n_labels):
        positive_k, _, is_annotated = truth.column(k)
        prevalence[k] = base_rate(positive_k, curve_weights(truth, h, k, sample_weight))
        used = strata(truth, h, k)[1] & is_annotated
        # Sorted, so that the sums do not depend on the order of the samples.
        all_used, of_positives = np.sort(weight[used]), np.sort(weight[used & positive_k])
        scale = all_used.sum() / (all_used * all_used).sum() if all_used.size else 0.0
        positive[k] = scale * of_positives.sum()
        possible[k] = max(scale * all_used.sum(), positive[k])
    return prevalence, positive, possible


def _beta_of_shares(positive: Float, possible: Float) -> tuple[float, float]:
    """Fit a beta distribution to all shares; return its mean and number of pseudo-samples."""
    share = (positive.sum() + 0.5) / (possible.sum() + 1.0)
    on = STRENGTHS[:, np.newaxis] * share
    off = STRENGTHS[:, np.newaxis] * (1.0 - share)
    log_beta = scipy.special.betaln
    evidence = (log_beta(positive + on, possible - positive + off) - log_beta(on, off)).sum(axis=1)
    return float(share), float(STRENGTHS[int(np.argmax(evidence))])


# -- one path per sample --------------------------------------------------------------------------

ENOUGH_SAMPLES = 100  # samples with one path; with fewer, every weight stays 1
SINGLE_SHARE = 0.99  # share of samples with one path that makes the labels a taxonomy
MAX_WEIGHT = 4.0  # above 1 where LPRs are too cautious
EDGE = 2.0**-30  # LPRs and prevalences are kept this far from 0 and 1


def end_posterior(
    lpr: Float, prevalence: Float, hierarchy: Hierarchy, weight: Float | None = None
) -> Float:
    r"""Return P(the path of a sample ends at this label), given the scores of all its labels.

    `lpr` (samples x labels) has the LPR of each label on its own, `prevalence` the share of each
    label, and `weight` that of the evidence of each depth, roots first (1 by default). The
    hierarchy is a forest. 1 minus a row sum is the probability that the sample has no label.

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
    truth: Truth,
    prevalence: Float,
    hierarchy: Hierarchy,
    sample_weight: Float | None = None,
) -> Float | None:
    """Fit the weights of the evidence of each depth by maximum a posteriori.

    Scores of the labels of one path are often redundant; treated as independent, they make the
    posterior too confident. The prior of the weights is normal with mean 1 and standard
    deviation 1. Returns None if the hierarchy is not a forest, too few samples have fully known
    truth with one path, or too many have more than one path.
    """
    if not hierarchy.is_forest:
        return None
    positive, is_known = dense(truth.positive), truth.is_known.all(axis=1)
    levels = np.asarray(hierarchy.levels)
    # A sample has one path if it has as many labels as its deepest label has levels.
    single = is_known & (
        positive.sum(axis=1) == np.where(positive, levels, 0).max(axis=1, initial=0)
    )
    if single.sum() < max(ENOUGH_SAMPLES, SINGLE_SHARE * is_known.sum()):
        return None
    positive = positive[single]
    counts = np.ones(len(positive)) if sample_weight is None else sample_weight[single]
    counts = counts * (counts.sum() / (counts**2).sum())  # add up to the effective number
    evidence, log_prior = _evidence(lpr[single], prevalence), _log_prior(prevalence, hierarchy)
    deepest = np.where(positive, levels, 0).argmax(axis=1)
    end = np.where(positive.any(axis=1), deepest, positive.shape[1])
    reachable = np.isfinite(log_prior[end])
    counts, positive, evidence, end = (x[reachable] for x in (counts, positive, evidence, end))
    row, depths = np.arange(end.size), [levels == d for d in range(1, levels.max() + 1)]

    def loss(weight: Float) -> tuple[float, Float]:
        ends = _ends(evidence, log_prior, hierarchy, weight)
        none = np.maximum(1.0 - ends.sum(axis=1, keepdims=True), 0.0)
        chance_of_end = np.concatenate([ends, none], axis=1)[row, end]
        log_loss = -(counts * np.log(np.maximum(chance_of_end, 1e-300))).sum()
        # Gradient: expected minus observed evidence of each depth.
        more = ((reach_of(ends, hierarchy) - positive) * evidence * counts[:, None]).sum(axis=0)
        slope = np.array([more[at].sum() for at in depths])
        pull = weight - 1.0
        return float(log_loss + 0.5 * (pull**2).sum()), slope + pull

    start, bounds = np.ones(len(depths)), [(0.0, MAX_WEIGHT)] * len(depths)
    fit = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(fit.x, dtype=np.float64)


def reach_of(ends: Float, hierarchy: Hierarchy) -> Float:
    """Return P(the path goes through this label), that is, ends there or below."""
    reach = ends.copy()
    for parents, children in UpperSet.above(hierarchy).up:
        reach[:, hierarchy.order[parents]] += reach[:, hierarchy.order[children]]
    return np.minimum(reach, 1.0)


def _evidence(lpr: Float, prevalence: Float) -> Float:
    """Return the log-odds of LPRs minus those of the prevalences."""
    inside, prior = (np.clip(x, EDGE, 1.0 - EDGE) for x in (lpr, prevalence))
    return np.asarray(np.log(inside / (1.0 - inside)) - np.log(prior / (1.0 - prior)))


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
