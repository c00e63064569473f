"""Calls of the first stage: every label at its own best cutoff, and their Bayesian correction."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hierlpr.data.tables import align_truth
from hierlpr.exceptions import DataError, HierarchyError
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint import joint_posterior
from hierlpr.metrics import f_curve
from hierlpr.ranking.order import Ranking
from hierlpr.research.baselines.by_score import call_by_score, dense, weighted

Float = NDArray[np.float64]


class FirstStageCalls:
    """Call every label by itself where its score reaches the cutoff with the largest F.

    Fit on scores and truth; then `rank` has the signature of `hierlpr.rank`. The order has two
    groups, calls and the rest, with scores 1 and 0.

    Parameters
    ----------
    beta : float
        Of the F that each label's cutoff maximizes.

    Attributes
    ----------
    cutoff_ : ndarray of shape (n_labels,)
        Infinite for labels without positives, which are never called.

    References
    ----------
    Huang, Liu and Zhou (2010), key ``huang2010``.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> scores, truth = [[0.9, 0.2], [0.8, 0.6], [0.1, 0.4]], [[1, 0], [1, 1], [0, 0]]
    >>> stage = FirstStageCalls().fit(scores, truth, h)
    >>> stage.cutoff_
    array([0.8, 0.6])
    >>> stage.predict([[0.5, 0.7]])
    array([[False,  True]])
    """

    consistent: ClassVar[bool] = False

    cutoff_: Float
    hierarchy_: Hierarchy

    def __init__(self, *, beta: float = 1.0) -> None:
        self.beta = beta

    def fit(self, scores: Any, truth: Any, hierarchy: Hierarchy) -> FirstStageCalls:
        """Find the cutoff of every label."""
        _, values = dense(scores, hierarchy, name="scores")
        status = align_truth(truth, hierarchy)
        if values.shape != status.shape:
            raise DataError(f"scores has shape {values.shape}, truth {status.shape}.")
        cutoff = np.full(hierarchy.n_labels, np.inf)
        for k in np.flatnonzero(status.any(axis=0)):
            f, calls = f_curve(status[:, k], values[:, k], beta=self.beta)
            n_calls = int(calls[np.argmax(f)])
            cutoff[k] = np.partition(values[:, k], values.shape[0] - n_calls)[-n_calls:].min()
        self.cutoff_, self.hierarchy_ = cutoff, hierarchy
        return self

    def predict(self, scores: Any) -> NDArray[np.bool_]:
        """Return the calls, which may violate the hierarchy."""
        _, values = dense(scores, self.hierarchy_, name="scores")
        calls: NDArray[np.bool_] = values >= self.cutoff_
        return calls

    def rank(
        self, scores: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
    ) -> Ranking:
        """Order the instances: calls first."""
        table, values = dense(scores, hierarchy, name="scores")
        calls = weighted(self.predict(values).astype(np.float64), weight, hierarchy)
        return call_by_score(calls, values, table, hierarchy, top=top)


class BayesianCorrection:
    r"""Correct first-stage calls by the exact posterior on the hierarchy.

    Labels form a Markov tree with :math:`P(Q_k = 1 | Q_{parent} = 1)` counted from the truth;
    each call is a noisy reading of its own label with :math:`P(\hat Q_k | Q_k)` counted from the
    calls on the same samples. The posterior of every label given all calls of its sample is
    exact, and never larger than that of the parent. Forests only.

    Parameters
    ----------
    beta : float
        Of the F that the first stage maximizes.
    pseudocount : float
        Added to every count, so that no probability is 0 or 1.

    References
    ----------
    Barutcuoglu, Schapire and Troyanskaya (2006), key ``barutcuoglu2006``; Huang, Liu and Zhou
    (2010), key ``huang2010``.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> scores, truth = [[0.9, 0.2], [0.8, 0.6], [0.1, 0.4]], [[1, 0], [1, 1], [0, 0]]
    >>> model = BayesianCorrection().fit(scores, truth, h)
    >>> p = model.predict_proba([[0.7, 0.7]])  # B is called, A is not quite
    >>> bool(p[0, 0] >= p[0, 1])
    True
    """

    consistent: ClassVar[bool] = True

    first_stage_: FirstStageCalls
    conditional_: Float
    log_ratio_: Float

    def __init__(self, *, beta: float = 1.0, pseudocount: float = 1.0) -> None:
        self.beta = beta
        self.pseudocount = pseudocount

    def fit(self, scores: Any, truth: Any, hierarchy: Hierarchy) -> BayesianCorrection:
        """Count statuses along the edges and calls given statuses."""
        h = hierarchy
        if not h.is_forest:
            raise HierarchyError(
                "The Bayesian correction is exact on forests only, and this hierarchy is a DAG."
            )
        self.first_stage_ = FirstStageCalls(beta=self.beta).fit(scores, truth, h)
        status, calls = align_truth(truth, h), self.first_stage_.predict(scores)
        more = self.pseudocount
        positive = status.sum(axis=0, dtype=np.float64)
        above = np.full(h.n_labels, float(status.shape[0]))
        below = np.flatnonzero(np.diff(h.parent_ptr))
        above[h.order[below]] = positive[h.order[h.parent_idx]]
        self.conditional_ = (positive + more) / (above + 2.0 * more)
        on = ((calls & status).sum(axis=0) + more) / (positive + 2.0 * more)
        off = ((calls & ~status).sum(axis=0) + more) / (len(status) - positive + 2.0 * more)
        # Evidence of a label that is not called, and of one that is.
        self.log_ratio_ = np.log(np.stack([(1.0 - on) / (1.0 - off), on / off]))
        return self

    def predict_proba(self, scores: Any) -> Float:
        """Return the posterior of every label given all calls of its sample."""
        calls = self.first_stage_.predict(scores)
        evidence = np.where(calls, self.log_ratio_[1], self.log_ratio_[0])
        return joint_posterior(evidence, self.conditional_, self.first_stage_.hierarchy_)

    def rank(
        self, scores: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
    ) -> Ranking:
        """Order the instances by posterior."""
        from hierlpr.research.baselines.by_score import propagate_min

        table, values = dense(scores, hierarchy, name="scores")
        posterior = self.predict_proba(values)
        # Weights may lift a child above its parent; the lowest ancestor then decides.
        score = propagate_min(weighted(posterior, weight, hierarchy), hierarchy)
        return call_by_score(score, posterior, table, hierarchy, top=top)
