"""Prevalences of labels, overall and given their parents, from the truth of training samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._utils.checks import quote_names
from hierlpr.data.partial_truth import (
    AnyTruth,
    PartialTruth,
    base_rate,
    curve_weights,
    strata,
    truth_column,
)
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

Float = NDArray[np.float64]

# Candidate numbers of pseudo-samples for shrinking P(label | parents) to its overall mean.
STRENGTHS = 2.0 ** np.arange(-3, 9)


@dataclass(frozen=True, slots=True, eq=False)
class LabelPrior:
    """Probabilities of labels before any score, in the order of ``hierarchy.labels``.

    Attributes
    ----------
    prevalence : ndarray of shape (n_labels,)
        P(label), strictly between 0 and 1.
    conditional : ndarray of shape (n_labels,)
        P(label | all its parents), strictly between 0 and 1; for a root, its prevalence.
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
        conditional = self.conditional.copy()
        for k, label in enumerate(hierarchy.labels):
            parents = hierarchy.parents(label)
            if label in former and set(parents) == set(former.parents(label)):
                continue
            above = min((self.prevalence[hierarchy.index(p)] for p in parents), default=1.0)
            conditional[k] = min(self.prevalence[k] / above, 1.0 - 1e-6)
        return LabelPrior(self.prevalence, conditional)


def fit_prior(
    truth: AnyTruth, hierarchy: Hierarchy, sample_weight: Float | None = None
) -> LabelPrior:
    r"""Estimate prevalences and conditional probabilities, smoothed for rare labels.

    Parameters
    ----------
    truth : ndarray, csr_array or PartialTruth of shape (n_samples, n_labels)
        Closed upward. Where truth is unknown, only samples in which the label and its parents are
        given are counted, and prevalences are weighted, see
        :func:`~hierlpr.data.partial_truth.curve_weights`.
    hierarchy : Hierarchy
    sample_weight : ndarray of shape (n_samples,), optional
        Counts are scaled to the effective number of samples.

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
    n_samples = truth.shape[0]
    if n_samples == 0:
        raise DataError("There is no sample to learn from.")
    if sample_weight is not None or isinstance(truth, PartialTruth):
        prevalence, positive, possible = _count_known(truth, hierarchy, sample_weight)
    else:
        positive, possible = count_labels(truth, hierarchy)
        prevalence = (positive + 0.5) / (n_samples + 1.0)
    has_parent = np.diff(hierarchy.parent_ptr)[hierarchy.position] > 0
    conditional = prevalence.copy()
    if has_parent.any():
        share, strength = _shared_share(positive[has_parent], possible[has_parent])
        conditional[has_parent] = (positive[has_parent] + strength * share) / (
            possible[has_parent] + strength
        )
    return LabelPrior(prevalence, conditional)


def count_labels(
    truth: NDArray[np.bool_] | scipy.sparse.csr_array, h: Hierarchy
) -> tuple[Float, Float]:
    """Count per label the positive samples, and the samples in which all its parents hold."""
    positive = np.asarray(truth.sum(axis=0), dtype=np.float64)
    possible = np.full(h.n_labels, float(truth.shape[0]))
    columns = scipy.sparse.csc_array(truth[:, h.order]) if not h.is_forest else None
    for number in range(h.n_labels):
        parents = h.parent_idx[h.parent_ptr[number] : h.parent_ptr[number + 1]]
        if parents.size == 1:
            possible[h.order[number]] = positive[h.order[parents[0]]]
        elif parents.size > 1 and columns is not None:
            ptr, rows = columns.indptr, columns.indices
            held = np.sort(np.concatenate([rows[ptr[p] : ptr[p + 1]] for p in parents]))
            # A sample that has all parents occurs once per parent, consecutively.
            more = parents.size - 1
            possible[h.order[number]] = np.count_nonzero(held[more:] == held[:-more])
    wrong = np.flatnonzero(positive > possible)
    if wrong.size:
        names = quote_names([h.labels[k] for k in wrong])
        raise DataError(
            f"truth has labels without their parents: {names}.\n"
            "Hint: close it upward first (Hierarchy.close_upward)."
        )
    return positive, possible


def _count_known(
    truth: AnyTruth, h: Hierarchy, sample_weight: Float | None
) -> tuple[Float, Float, Float]:
    """Return prevalences and the counts of `count_labels` over samples with given truth."""
    prevalence, positive, possible = np.empty((3, h.n_labels))
    for k in range(h.n_labels):
        held = truth_column(truth, k)
        prevalence[k] = base_rate(held, curve_weights(truth, h, k, sample_weight))
        used = strata(truth, h, k)[1]
        if isinstance(truth, PartialTruth):
            used &= truth.column(k)[2]
        if sample_weight is None:
            positive[k], possible[k] = np.count_nonzero(used & held), np.count_nonzero(used)
            continue
        weight = np.sort(sample_weight[used])
        scale = weight.sum() / (weight * weight).sum() if weight.size else 0.0
        positive[k] = scale * np.sort(sample_weight[used & held]).sum()
        possible[k] = max(scale * weight.sum(), positive[k])
    return prevalence, positive, possible


def _shared_share(positive: Float, possible: Float) -> tuple[float, float]:
    """Fit a beta distribution to all shares; return its mean and number of pseudo-samples."""
    share = (positive.sum() + 0.5) / (possible.sum() + 1.0)
    on = STRENGTHS[:, np.newaxis] * share
    off = STRENGTHS[:, np.newaxis] * (1.0 - share)
    log_beta = scipy.special.betaln
    evidence = (log_beta(positive + on, possible - positive + off) - log_beta(on, off)).sum(axis=1)
    return float(share), float(STRENGTHS[int(np.argmax(evidence))])
