"""How often labels hold, alone and given their parents, from the truth of training samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr._base.checks import listed
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

# Pseudo-samples at the shared share that a label's own share is averaged with.
STRENGTHS = 2.0 ** np.arange(-3, 9)


@dataclass(frozen=True, slots=True, eq=False)
class LabelPrior:
    """What is known of a sample before any score; columns in the order of ``hierarchy.labels``.

    Attributes
    ----------
    prevalence : ndarray of shape (n_labels,)
        P(label), strictly between 0 and 1.
    conditional : ndarray of shape (n_labels,)
        P(label | all its parents), strictly between 0 and 1; of a root, its prevalence.
    """

    prevalence: Float
    conditional: Float

    def __post_init__(self) -> None:
        for name in ("prevalence", "conditional"):
            value = np.ascontiguousarray(getattr(self, name), dtype=np.float64)
            if value.ndim != 1 or value.shape != np.shape(self.prevalence):
                raise DataError(f"{name} must be one number a label.")
            if not np.all((value > 0.0) & (value < 1.0)):
                raise DataError(f"{name} must lie strictly between 0 and 1.")
            object.__setattr__(self, name, value)

    @property
    def log_odds(self) -> Float:
        """Log-odds of the prevalence."""
        return np.asarray(np.log(self.prevalence) - np.log1p(-self.prevalence))

    def on(self, hierarchy: Hierarchy, former: Hierarchy) -> LabelPrior:
        """Return the prior of a changed hierarchy; entries are those of its own labels.

        Labels whose parents are no longer those of `former`, and new ones, get the share of their
        prevalence in that of their rarest parent, the only thing known without new truth.
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
        Closed upward. Where some of it is unknown, the counts are those of samples in which label
        and parents are given, and the prevalence is that of weighted samples, see
        :func:`~hierlpr.data.partial_truth.curve_weights`.
    hierarchy : Hierarchy
    sample_weight : ndarray of shape (n_samples,), optional
        Each sample counts so much; the counts are scaled down to the effective number of samples.

    Notes
    -----
    A prevalence is :math:`(n_k + 1/2) / (n + 1)`. With :math:`N_k` the samples in which all
    parents of label :math:`k` hold, :math:`c_k = (n_k + s \bar c) / (N_k + s)`: shrunk toward the
    share :math:`\bar c` of all such labels together, with the number of pseudo-samples :math:`s`
    that makes the counts most probable if the :math:`c_k` follow a beta distribution.

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
        return prior_of_counts(*count_labels(truth, hierarchy), n_samples, hierarchy)
    return _smoothed(prevalence, positive, possible, hierarchy)


def prior_of_counts(
    positive: Float, possible: Float, n_samples: int, hierarchy: Hierarchy
) -> LabelPrior:
    """Return the prior of samples of which `count_labels` has counted these."""
    return _smoothed((positive + 0.5) / (n_samples + 1.0), positive, possible, hierarchy)


def _smoothed(
    prevalence: Float, positive: Float, possible: Float, hierarchy: Hierarchy
) -> LabelPrior:
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
    """Count the samples of each label, and samples in which all its parents hold."""
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
            # A sample that has all parents is there as often as there are parents, in a row.
            more = parents.size - 1
            possible[h.order[number]] = np.count_nonzero(held[more:] == held[:-more])
    wrong = np.flatnonzero(positive > possible)
    if wrong.size:
        raise DataError(
            f"truth has labels without their parents: {listed([h.labels[k] for k in wrong])}.\n"
            "Hint: close it upward first (Hierarchy.close_upward)."
        )
    return positive, possible


def _count_known(
    truth: AnyTruth, h: Hierarchy, sample_weight: Float | None
) -> tuple[Float, Float, Float]:
    """Prevalences, and what `count_labels` counts, of samples in which it is given what holds."""
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
    """Mean and number of pseudo-samples of the beta distribution of all shares."""
    share = (positive.sum() + 0.5) / (possible.sum() + 1.0)
    on = STRENGTHS[:, np.newaxis] * share
    off = STRENGTHS[:, np.newaxis] * (1.0 - share)
    log_beta = scipy.special.betaln
    evidence = (log_beta(positive + on, possible - positive + off) - log_beta(on, off)).sum(axis=1)
    return float(share), float(STRENGTHS[int(np.argmax(evidence))])
