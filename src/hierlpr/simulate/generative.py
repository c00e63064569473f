"""The paper's generative model, labels down the hierarchy and Beta scores given the labels.

Also random trees, forests and DAGs to use it on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.hierarchy.graph import reach
from hierlpr.joint import joint_posterior

Float = NDArray[np.float64]
Quality = Literal["high", "medium", "low"]

# The paper's Table 1: positives score Beta(6, eta), negatives Beta(eta, 6).
QUALITY: Mapping[str, float] = {"high": 2.0, "medium": 4.0, "low": 5.5}
_SHAPE = 6.0


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """Simulated samples with their true probabilities.

    Matrices are ``(n_samples, n_labels)`` with columns in the order of ``hierarchy.labels``.
    `lpr_true` is P(label | its own score) under the generating model, and `posterior_true`
    P(label | all scores of the sample), None on DAGs.
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
    """A model of labels and scores from which samples can be drawn.

    `conditional` is P(label | all its parents), for a root its prevalence. `eta` is the parameter
    of scores (`QUALITY`). Labels that `copies_parent` marks have the positives and scores of their
    parent.
    """

    name: str
    hierarchy: Hierarchy
    conditional: Float
    eta: Float
    copies_parent: NDArray[np.bool_]

    @property
    def prevalence(self) -> Float:
        """P(label): the product of its conditional probability and those of all its ancestors."""
        h = self.hierarchy
        log_conditional = np.log(self.conditional)[h.order]
        total = log_conditional.copy()
        for k in np.flatnonzero(np.diff(h.parent_ptr)):
            if h.is_forest:
                total[k] += total[h.parent_idx[h.parent_ptr[k]]]
            else:
                total[k] += log_conditional[reach(int(k), h.parent_ptr, h.parent_idx)].sum()
        return np.exp(total)[h.position]

    def draw(self, n_samples: int, rng: Any = None) -> Simulation:
        """Draw independent samples.

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
        """Draw scores for samples with known labels."""
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
        return np.asarray(expit(self._log_evidence(scores) + logit(self.prevalence)))

    def posterior(self, scores: Float) -> Float | None:
        """Return P(label | all scores of the sample) on a forest, None on a DAG."""
        if not self.hierarchy.is_forest:
            return None
        # A copied score adds no information.
        evidence = np.where(self.copies_parent, 0.0, self._log_evidence(scores))
        return joint_posterior(evidence, self.conditional, self.hierarchy)

    def _log_evidence(self, scores: Float) -> Float:
        # Beta(6, eta) over Beta(eta, 6): the normalizing constants cancel.
        return np.asarray((_SHAPE - self.eta) * logit(scores))


def random_model(
    hierarchy: Hierarchy,
    *,
    quality: Quality | Literal["mixed"] | Float = "mixed",
    conditional: float | Float | None = None,
    root: float | None = None,
    name: str = "random",
    rng: Any = None,
) -> Model:
    """Return a model with random conditional probabilities and classifier qualities.

    Parameters
    ----------
    quality : {"mixed", "high", "medium", "low"} or array of eta
        ``"mixed"`` draws one of the three per label.
    conditional : float or array, optional
        P(label | all parents); uniform on (0, 1) if not given.
    root : float, optional
        Prevalence of the roots; drawn as for other labels if not given.

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
    eta: Any = quality
    if isinstance(quality, str):
        choices = list(QUALITY) if quality == "mixed" else [quality]
        if not set(choices) <= set(QUALITY):
            values = ", ".join(map(repr, QUALITY))
            raise DataError(f"quality must be 'mixed', {values} or an array.")
        eta = [QUALITY[choices[i]] for i in generator.integers(len(choices), size=n)]
    eta = np.broadcast_to(np.asarray(eta, dtype=np.float64), n).copy()
    return Model(name, hierarchy, drawn.astype(np.float64), eta, np.zeros(n, dtype=bool))


def random_tree(n_labels: int, *, max_depth: int | None = None, rng: Any = None) -> Hierarchy:
    """Draw a random recursive tree: the parent of each label is a random earlier one.

    Examples
    --------
    >>> random_tree(1000, max_depth=6, rng=0)
    <Hierarchy: forest, 1,000 labels, 999 edges, 1 root, depth 6>
    """
    return random_forest(n_labels, n_trees=1, max_depth=max_depth, rng=rng)


def random_forest(
    n_labels: int, *, n_trees: int | None = None, max_depth: int | None = None, rng: Any = None
) -> Hierarchy:
    """Draw a forest of random recursive trees.

    There are `n_trees`, by default a tenth of the number of labels, and at most `max_depth` labels
    on a path.

    Examples
    --------
    >>> h = random_forest(50, n_trees=7, rng=0)
    >>> len(h.roots), h.is_forest
    (7, True)
    """
    trees = max(1, n_labels // 10) if n_trees is None else n_trees
    _check_sizes(n_labels, trees, max_depth)
    generator = np.random.default_rng(rng)
    depth = np.ones(n_labels, dtype=np.int64)
    parent = np.full(n_labels, -1, dtype=np.int64)
    parents = list(range(trees)) if max_depth != 1 else []
    draws = generator.random(n_labels)
    for k in range(trees, n_labels):
        parent[k] = parents[int(draws[k] * len(parents))]
        depth[k] = depth[parent[k]] + 1
        if max_depth is None or depth[k] < max_depth:
            parents.append(k)
    names = _names(n_labels)
    edges = [(names[parent[k]], names[k]) for k in range(trees, n_labels)]
    return Hierarchy(edges, labels=names)


def random_dag(
    n_labels: int,
    *,
    n_roots: int = 1,
    several_parents: float = 0.3,
    max_parents: int = 3,
    rng: Any = None,
) -> Hierarchy:
    """Draw a random DAG: a random forest in which some labels get more parents.

    `several_parents` is the probability that a label below the roots has a second parent, then a
    third, up to `max_parents`.

    Examples
    --------
    >>> h = random_dag(30, several_parents=0.5, rng=0)
    >>> h.is_forest, max(len(h.parents(x)) for x in h.labels)
    (False, 3)
    """
    _check_sizes(n_labels, n_roots, None)
    generator = np.random.default_rng(rng)
    names = _names(n_labels)
    edges: list[tuple[str, str]] = []
    for k in range(n_roots, n_labels):
        n_parents = 1
        while n_parents < min(max_parents, k) and generator.random() < several_parents:
            n_parents += 1
        chosen = generator.choice(k, size=n_parents, replace=False)
        edges.extend((names[p], names[k]) for p in sorted(chosen.tolist()))
    return Hierarchy(edges, labels=names)


def _names(n_labels: int) -> list[str]:
    width = len(str(n_labels - 1))
    return [f"L{k:0{width}d}" for k in range(n_labels)]


def _check_sizes(n_labels: int, n_roots: int, max_depth: int | None) -> None:
    if not 1 <= n_roots <= n_labels:
        raise DataError(f"{n_roots} trees need at least as many labels; got {n_labels}.")
    if max_depth is not None and (max_depth < 1 or (max_depth == 1 and n_labels > n_roots)):
        raise DataError(
            f"max_depth={max_depth} is too small for {n_labels - n_roots} labels below the roots."
        )
