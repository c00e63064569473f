"""Competitors of `hierlpr.rank` that learn from scores and truth: the paper's competitors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from hierlpr._utils.checks import check_choice
from hierlpr.baselines.rank_functions import align_dense, order_by, propagate_min, weighted
from hierlpr.data.tables import Table, align, dense
from hierlpr.data.truth import align_truth
from hierlpr.exceptions import DataError, HierarchyError
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint import joint_posterior
from hierlpr.metrics import au_prc_score, f_curve
from hierlpr.ranking.order import Ranking

Float = NDArray[np.float64]
Features = NDArray[np.float32]
Mask = NDArray[np.bool_]

# The paper's options, and 1 (never stop early): with hundreds of labels no single split reduces the
# variance of all of them by a twentieth.
STOPPING = (0.60, 0.70, 0.80, 0.90, 0.95, 1.0)
_FOLDS = 5
_FOLD_TREES = 10
_MIN_LEAF = 5  # samples, counted as drawn


class BayesianCorrection:
    r"""Posterior of each label given the first-stage calls of all labels of its sample.

    A label is called where its score reaches the cutoff with the largest F of that label. Labels
    form a Markov tree with :math:`P(Q_k = 1 | Q_{parent} = 1)` counted from the truth; each call is
    a noisy observation of its label with :math:`P(\hat Q_k | Q_k)` counted from the calls on the
    same samples. The posterior is exact and never rises from parent to child. Forests only.

    References
    ----------
    Barutcuoglu, Schapire and Troyanskaya (2006), key ``barutcuoglu2006``; Huang, Liu and Zhou
    (2010), key ``huang2010``.

    Examples
    --------
    >>> h = Hierarchy([("A", "B")])
    >>> scores, truth = [[0.9, 0.2], [0.8, 0.6], [0.1, 0.4]], [[1, 0], [1, 1], [0, 0]]
    >>> model = BayesianCorrection().fit(scores, truth, h)
    >>> p = model.predict_proba([[0.7, 0.7]])  # B is called, A is not
    >>> bool(p[0, 0] >= p[0, 1])
    True
    """

    cutoff_: Float
    conditional_: Float
    log_ratio_: Float
    hierarchy_: Hierarchy

    def fit(self, X: Any, y: Any, hierarchy: Hierarchy) -> BayesianCorrection:
        """Count labels given their parents, and calls given labels."""
        h = hierarchy
        if not h.is_forest:
            raise HierarchyError(
                "The Bayesian correction is exact on forests only, and this hierarchy is a DAG."
            )
        self.hierarchy_ = h
        _, values = align_dense(X, h, name="scores")
        status = align_truth(y, h, allow_unknown=False).positive
        if values.shape != status.shape:
            raise DataError(f"scores has shape {values.shape}, truth {status.shape}.")
        self.cutoff_ = np.full(h.n_labels, np.inf)  # labels without positives are never called
        for k in np.flatnonzero(status.any(axis=0)):
            f, n_calls = f_curve(status[:, k], values[:, k])
            self.cutoff_[k] = np.sort(values[:, k])[-int(n_calls[np.argmax(f)])]
        calls = self.first_stage_calls(values)
        positive = status.sum(axis=0, dtype=np.float64)
        above = np.full(h.n_labels, float(status.shape[0]))
        above[h.order[np.diff(h.parent_ptr) > 0]] = positive[h.order[h.parent_idx]]
        # One is added to every count, so that no probability is 0 or 1.
        self.conditional_ = (positive + 1.0) / (above + 2.0)
        on = ((calls & status).sum(axis=0) + 1.0) / (positive + 2.0)
        off = ((calls & ~status).sum(axis=0) + 1.0) / (len(status) - positive + 2.0)
        # Log likelihood ratio of a label that is not called, and of one that is.
        self.log_ratio_ = np.log(np.stack([(1.0 - on) / (1.0 - off), on / off]))
        return self

    def first_stage_calls(self, X: Any) -> Mask:
        """Return the calls that are corrected; they may violate the hierarchy."""
        _, values = align_dense(X, self.hierarchy_, name="scores")
        return np.asarray(values >= self.cutoff_)

    def predict_proba(self, X: Any) -> Float:
        """Return the posterior of every label given all calls of its sample."""
        calls = self.first_stage_calls(X)
        evidence = np.where(calls, self.log_ratio_[1], self.log_ratio_[0])
        return joint_posterior(evidence, self.conditional_, self.hierarchy_)

    def rank(
        self, X: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
    ) -> Ranking:
        """Rank the instances by posterior."""
        table, values = align_dense(X, hierarchy, name="scores")
        posterior = self.predict_proba(values)
        # Weights may raise a child above its parent; the lowest ancestor then decides.
        score = propagate_min(weighted(posterior, weight, hierarchy), hierarchy)
        return order_by(score, posterior, table, hierarchy, top=top)


class ClusHMC:
    r"""Bagged ensemble of predictive clustering trees over whole label vectors.

    Each split reduces the variance of the label vectors,
    :math:`\sum_k w_k \mathrm{Var}(Q_k)`, as much as possible; a leaf predicts its mean label
    vector, and the ensemble averages. Leaf means never rise from parent to child, so the result is
    consistent. The trees are scikit-learn's ``DecisionTreeRegressor`` with one output per label.

    Parameters
    ----------
    weights : {"uniform", "depth"}
        Weights of the labels: 1, or as Vens et al. 0.75 times the mean weight of the parents.
    stopping : "cv", float or None
        A node is split only if the remaining variance is at most this share of its own, as
        `stopping_` says. ``"cv"`` chooses among `STOPPING` by 5-fold cross-validated AU(PRC); None
        never stops.

    References
    ----------
    Blockeel et al. (2006), key ``blockeel2006``; Vens et al. (2008), key ``vens2008``; bagging as
    in Schietgat et al. (2010), key ``schietgat2010``.

    Examples
    --------
    >>> from hierlpr import simulate
    >>> train, test = simulate.train_test(3, n_train=500, n_test=100, rng=0)
    >>> model = ClusHMC(n_trees=5, stopping=None, random_state=0)
    >>> _ = model.fit(train.scores, train.truth, train.hierarchy)
    >>> model.predict_proba(test.scores).shape
    (100, 3)
    """

    stopping_: float
    hierarchy_: Hierarchy

    def __init__(
        self,
        *,
        n_trees: int = 100,
        weights: Literal["uniform", "depth"] = "uniform",
        stopping: Literal["cv"] | float | None = "cv",
        n_jobs: int = 1,
        random_state: Any = None,
    ) -> None:
        self.n_trees = n_trees
        self.weights = weights
        self.stopping = stopping
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, hierarchy: Hierarchy) -> ClusHMC:
        """Grow the trees on features, which may be first-stage scores; NaN where one is missing."""
        x = _features(X)
        status = align_truth(y, hierarchy, allow_unknown=False).positive
        if x.shape[0] != status.shape[0]:
            raise DataError(
                f"features have {len(x)} samples, truth {len(status)}; they must agree."
            )
        generator = np.random.default_rng(self.random_state)
        self.hierarchy_ = hierarchy
        self._root_weight = np.sqrt(self._label_weights(hierarchy))
        self.stopping_ = (
            self._choose_stopping(x, status, generator)
            if self.stopping == "cv"
            else float(1.0 if self.stopping is None else self.stopping)
        )
        self._trees = self._grow(x, status, self.n_trees, generator)
        return self

    def predict_proba(self, X: Any) -> Float:
        """Return the mean label vector of the leaves that each sample falls in."""
        return self._average(self._trees, self.stopping_, _features(X))

    def rank(
        self, X: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
    ) -> Ranking:
        """Rank the instances by predicted probability."""
        chance = self.predict_proba(X)
        score = propagate_min(weighted(chance, weight, hierarchy), hierarchy)
        return order_by(score, chance, Table(chance, hierarchy.labels), hierarchy, top=top)

    def _label_weights(self, h: Hierarchy) -> Float:
        weight = np.ones(h.n_labels)
        if check_choice(self.weights, ("uniform", "depth"), name="weights") == "depth":
            for k in range(h.n_labels):  # parents have smaller numbers
                above = weight[h.parent_idx[h.parent_ptr[k] : h.parent_ptr[k + 1]]]
                weight[k] = 0.75 * (above.mean() if above.size else 1.0)
        return weight[h.position]

    def _grow(
        self, x: Features, status: Mask, n_trees: int, generator: np.random.Generator
    ) -> list[Any]:
        n_samples, target = x.shape[0], status * self._root_weight

        def grow(rng: np.random.Generator) -> Any:
            drawn = np.bincount(rng.integers(n_samples, size=n_samples), minlength=n_samples)
            inside = np.flatnonzero(drawn)
            tree = DecisionTreeRegressor(
                min_weight_fraction_leaf=min(0.5, _MIN_LEAF / n_samples),
                random_state=int(rng.integers(2**31)),
            )
            tree.fit(x[inside], target[inside], sample_weight=drawn[inside].astype(np.float64))
            return tree.tree_

        parallel = Parallel(n_jobs=self.n_jobs, prefer="threads")
        return list(parallel(delayed(grow)(rng) for rng in generator.spawn(n_trees)))

    def _average(self, trees: Sequence[Any], share: float, x: Features) -> Float:
        total = np.zeros((x.shape[0], self.hierarchy_.n_labels))
        for tree in trees:
            total += tree.value[_ends(tree, share)[tree.apply(x)], :, 0]
        mean = np.clip(total / (len(trees) * self._root_weight), 0.0, 1.0)
        return propagate_min(mean, self.hierarchy_)  # corrects rounding errors only

    def _choose_stopping(self, x: Features, status: Mask, generator: np.random.Generator) -> float:
        fold = generator.permutation(x.shape[0]) % _FOLDS
        areas = np.zeros(len(STOPPING))
        for held_out in range(_FOLDS):
            inside, outside = fold != held_out, fold == held_out
            if not status[outside].any():
                continue
            # Stopping only prunes a grown tree, so every option uses the same trees.
            trees = self._grow(x[inside], status[inside], _FOLD_TREES, generator)
            for i, share in enumerate(STOPPING):
                areas[i] += au_prc_score(status[outside], self._average(trees, share, x[outside]))
        return STOPPING[int(np.argmax(areas))]


def _ends(tree: Any, share: float) -> NDArray[np.intp]:
    """Return where the path to each node ends if a split must leave at most `share` of variance."""
    end = np.arange(tree.node_count)
    if share >= 1.0:
        return end
    left, right = tree.children_left, tree.children_right
    remaining = tree.impurity * tree.weighted_n_node_samples
    for node in range(tree.node_count):  # parents come before children
        if left[node] < 0:
            continue
        below = remaining[left[node]] + remaining[right[node]]
        if end[node] != node or below > share * remaining[node]:
            end[left[node]] = end[right[node]] = end[node]
    return end


def _features(features: Any) -> Features:
    x = dense(align(features, None, name="features").values)
    if x.shape[1] == 0:
        raise DataError("features must have at least one column.")
    if np.isinf(x).any():
        raise DataError("features hold infinite values.")
    return np.ascontiguousarray(x, dtype=np.float32)
