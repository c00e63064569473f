"""The paper's generative model: statuses down the hierarchy, Beta scores given the status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy

__all__ = ["QUALITY", "Model", "Quality", "Simulation", "joint_posterior", "random_model"]

Float = NDArray[np.float64]
Quality = Literal["high", "medium", "low"]

# The paper's Table 1: positives score Beta(6, eta), negatives Beta(eta, 6).
QUALITY: Mapping[str, float] = {"high": 2.0, "medium": 4.0, "low": 5.5}
_SHAPE = 6.0


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """Simulated samples with everything that is true about them.

    Matrices are ``(n_samples, n_labels)`` with columns in the order of ``hierarchy.labels``.

    Attributes
    ----------
    scores : ndarray of float
        First-stage classifier scores, between 0 and 1.
    truth : ndarray of bool
        Statuses, closed upward.
    hierarchy : Hierarchy
    lpr_true : ndarray of float
        P(label | its own score) under the model that made the data.
    posterior_true : ndarray of float, or None
        P(label | all scores of the sample) under that model; None on DAGs, where no exact pass
        exists.
    name : str
        Which setting it is.
    """

    scores: Float
    truth: NDArray[np.bool_]
    hierarchy: Hierarchy
    lpr_true: Float
    posterior_true: Float | None
    name: str

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.scores.shape[0])

    def __repr__(self) -> str:
        return (
            f"<Simulation {self.name!r}: {self.n_samples:,} samples x "
            f"{self.hierarchy.n_labels:,} labels, {self.truth.mean():.2%} positive>"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """One model of statuses and scores, from which any number of samples can be drawn.

    Attributes
    ----------
    name : str
    hierarchy : Hierarchy
    conditional : ndarray of shape (n_labels,)
        P(label | all its parents); for a root, its prevalence.
    eta : ndarray of shape (n_labels,)
        Score parameter: 2 is a high, 4 a medium, 5.5 a low quality classifier.
    copies_parent : ndarray of bool
        Labels with the very positives and scores of their parent.
    """

    name: str
    hierarchy: Hierarchy
    conditional: Float
    eta: Float
    copies_parent: NDArray[np.bool_]

    @property
    def prevalence(self) -> Float:
        """P(label): the product of the conditional probabilities of it and all its ancestors."""
        h = self.hierarchy
        above = _closure_product(h, np.log(self.conditional)[h.order])
        return np.exp(above)[h.position]

    def draw(self, n_samples: int, rng: Any = None) -> Simulation:
        """Draw samples independently of each other.

        >>> h = Hierarchy([("disease", "cancer")])
        >>> model = random_model(h, rng=1)
        >>> model.draw(100, rng=2)
        <Simulation 'random': 100 samples x 2 labels, 45.00% positive>
        """
        generator = np.random.default_rng(rng)
        h = self.hierarchy
        coin = generator.random((n_samples, h.n_labels)) < self.conditional
        truth = coin[:, h.order]
        for number in range(h.n_labels):
            for parent in h.parent_idx[h.parent_ptr[number] : h.parent_ptr[number + 1]]:
                truth[:, number] &= truth[:, parent]
        return self.score(truth[:, h.position], generator)

    def score(self, truth: NDArray[np.bool_], rng: Any = None) -> Simulation:
        """Draw scores for samples of known statuses."""
        generator = np.random.default_rng(rng)
        eta = np.broadcast_to(self.eta, truth.shape)
        scores = generator.beta(np.where(truth, _SHAPE, eta), np.where(truth, eta, _SHAPE))
        h = self.hierarchy
        for number in np.flatnonzero(self.copies_parent[h.order]):
            parent = h.order[h.parent_idx[h.parent_ptr[number]]]
            scores[:, h.order[number]] = scores[:, parent]
        return Simulation(scores, truth, h, self.lpr(scores), self.posterior(scores), self.name)

    def lpr(self, scores: Float) -> Float:
        """Return the true local precision rate of every score."""
        return _expit(self._log_evidence(scores) + _logit(self.prevalence))

    def posterior(self, scores: Float) -> Float | None:
        """P(label | all scores of the sample), exact on forests; None on a DAG."""
        if not self.hierarchy.is_forest:
            return None
        # A copied score says nothing that the parent's has not said.
        evidence = np.where(self.copies_parent, 0.0, self._log_evidence(scores))
        return joint_posterior(evidence, self.conditional, self.hierarchy)

    def _log_evidence(self, scores: Float) -> Float:
        # Beta(6, eta) over Beta(eta, 6): the normalizing constants cancel.
        return (_SHAPE - self.eta) * _logit(scores)


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


def random_model(
    hierarchy: Hierarchy,
    *,
    quality: Quality | Literal["mixed"] | Float = "mixed",
    conditional: float | Float | None = None,
    root: float | None = None,
    name: str = "random",
    rng: Any = None,
) -> Model:
    """Put random conditional probabilities and classifier qualities on any hierarchy.

    Parameters
    ----------
    hierarchy : Hierarchy
        Tree, forest or DAG.
    quality : {"mixed", "high", "medium", "low"} or array of eta
        ``"mixed"`` draws one of the three for each label.
    conditional : float or array, optional
        P(label | all parents); uniform on (0, 1) if not given.
    root : float, optional
        Prevalence of the roots; if not given they are like other labels.
    name : str
    rng : seed or Generator

    Examples
    --------
    >>> random_model(Hierarchy([("A", "B")]), quality="high", conditional=0.5, rng=0).prevalence
    array([0.5 , 0.25])
    """
    generator = np.random.default_rng(rng)
    n = hierarchy.n_labels
    drawn = generator.random(n) if conditional is None else np.broadcast_to(conditional, n).copy()
    if root is not None:
        drawn[[hierarchy.index(label) for label in hierarchy.roots]] = root
    if isinstance(quality, str):
        choices = list(QUALITY) if quality == "mixed" else [quality]
        if not set(choices) <= set(QUALITY):
            raise DataError(
                f"quality must be 'mixed', {', '.join(map(repr, QUALITY))} or an array."
            )
        eta = np.array([QUALITY[choices[i]] for i in generator.integers(len(choices), size=n)])
    else:
        eta = np.broadcast_to(np.asarray(quality, dtype=np.float64), n).copy()
    return Model(name, hierarchy, drawn.astype(np.float64), eta, np.zeros(n, dtype=bool))


def _closure_product(h: Hierarchy, log_factor: Float) -> Float:
    """Sum of `log_factor` over each label and all its ancestors; topological numbers."""
    if h.is_forest:
        total = log_factor.copy()
        for k in np.flatnonzero(np.diff(h.parent_ptr)):
            total[k] += total[h.parent_idx[h.parent_ptr[k]]]
        return total
    from hierlpr._graph import reach

    above = (reach(k, h.parent_ptr, h.parent_idx) for k in range(h.n_labels))
    return np.array([log_factor[k] + log_factor[a].sum() for k, a in enumerate(above)])


def _logit(p: Float) -> Float:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p) - np.log1p(-p))


def _expit(x: Float) -> Float:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))
