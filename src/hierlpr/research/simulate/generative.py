"""The paper's generative model: statuses down the hierarchy, Beta scores given the status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint import joint_posterior

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

        Examples
        --------
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
    from hierlpr.hierarchy.graph import reach

    above = (reach(k, h.parent_ptr, h.parent_idx) for k in range(h.n_labels))
    return np.array([log_factor[k] + log_factor[a].sum() for k, a in enumerate(above)])


def _logit(p: Float) -> Float:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p) - np.log1p(-p))


def _expit(x: Float) -> Float:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))
