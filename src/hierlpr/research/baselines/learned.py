"""Competitors that learn from scores and truth, then rank as `hierlpr.rank` does.

Calls of the first stage, every label at its own best cutoff; their Bayesian correction; and
ClusHMC, bagged predictive clustering trees for all labels at once, on scikit-learn's trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hierlpr._base import constructor_only
from hierlpr.data.tables import Table, align_truth
from hierlpr.exceptions import DataError, HierarchyError
from hierlpr.hierarchy import Hierarchy
from hierlpr.joint import joint_posterior
from hierlpr.metrics import au_prc_score, f_curve
from hierlpr.ranking.order import Ranking
from hierlpr.research.baselines.rank_functions import call_by_score, dense, propagate_min, weighted

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
        table, values = dense(scores, hierarchy, name="scores")
        posterior = self.predict_proba(values)
        # Weights may lift a child above its parent; the lowest ancestor then decides.
        score = propagate_min(weighted(posterior, weight, hierarchy), hierarchy)
        return call_by_score(score, posterior, table, hierarchy, top=top)


# The paper's options; 1 (never stop early) is added, because with hundreds of labels no single
# split reduces the variance of all of them by a twentieth.
STOPPING = (0.60, 0.70, 0.80, 0.90, 0.95, 1.0)
_FOLDS = 5
_FOLD_TREES = 10


@constructor_only
@dataclass(kw_only=True, eq=False, repr=False, match_args=False)
class ClusHMC:
    r"""Bagged ensemble of predictive clustering trees over whole label vectors.

    Each tree splits so as to reduce most the weighted variance of the label vectors,
    :math:`\sum_k w_k \mathrm{Var}(Q_k)`, and predicts the mean label vector of a leaf; the
    ensemble averages. Leaf means never rise from parent to child, so the result is consistent.
    The trees are scikit-learn's ``DecisionTreeRegressor`` with one output per label.

    Parameters
    ----------
    n_trees : int
    min_leaf : int
        Fewest samples (counted as drawn) in a leaf.
    weights : {"uniform", "depth"} or array-like of shape (n_labels,)
        :math:`w_k`. ``"depth"`` is :math:`0.75^{depth}`, over several parents their mean times
        0.75. The paper uses uniform weights.
    stopping : "cv", float or None
        A node is split only if the variance that remains is at most this share of its own.
        ``"cv"`` chooses among `STOPPING` by 5-fold cross-validated AU(PRC); None never stops.
    max_features : int, float, "sqrt" or None
        Features tried at each split; None is plain bagging.
    n_jobs : int
        Threads.
    rng : seed or Generator

    Attributes
    ----------
    stopping_ : float
        The chosen share.

    References
    ----------
    Blockeel et al. (2006), key ``blockeel2006``; Vens et al. (2008), key ``vens2008``; bagging as
    in Schietgat et al. (2010), key ``schietgat2010``.

    Examples
    --------
    >>> from hierlpr import simulate
    >>> train, test = simulate.train_test(3, n_train=500, n_test=100, rng=0)
    >>> model = ClusHMC(n_trees=5, stopping=None, rng=0)
    >>> _ = model.fit(train.scores, train.truth, train.hierarchy)
    >>> model.predict_proba(test.scores).shape
    (100, 3)
    """

    consistent: ClassVar[bool] = True

    n_trees: int = 100
    min_leaf: int = 5
    weights: Literal["uniform", "depth"] | Any = "uniform"
    stopping: Literal["cv"] | float | None = "cv"
    max_features: int | float | Literal["sqrt"] | None = None
    n_jobs: int = 1
    rng: Any = None
    stopping_: float = field(init=False)
    hierarchy_: Hierarchy = field(init=False)

    def fit(self, features: Any, truth: Any, hierarchy: Hierarchy) -> ClusHMC:
        """Grow the trees on features, or on first-stage scores as features.

        Missing features (NaN) are allowed: scikit-learn sends them to the better side.
        """
        x, status = _features(features), align_truth(truth, hierarchy)
        if x.shape[0] != status.shape[0]:
            raise DataError(
                f"features have {len(x)} samples, truth {len(status)}; they must agree."
            )
        generator = np.random.default_rng(self.rng)
        self.hierarchy_ = hierarchy
        self._root_weight = np.sqrt(self._label_weights(hierarchy))
        target: Float = np.where(status, self._root_weight, 0.0)
        if self.stopping == "cv":
            self.stopping_ = self._choose_stopping(x, status, target, generator)
        else:
            self.stopping_ = 1.0 if self.stopping is None else float(self.stopping)
        self._trees = self._grow(x, target, self.n_trees, generator)
        self._ends = [_ends(tree, self.stopping_) for tree in self._trees]
        return self

    def predict_proba(self, features: Any) -> Float:
        """Return the mean label vector of the leaves that each sample falls in."""
        x = _features(features)
        return self._average(self._trees, self._ends, x)

    def rank(
        self, features: Any, hierarchy: Hierarchy, *, top: int | None = None, weight: Any = None
    ) -> Ranking:
        """Order the instances by predicted probability."""
        chance = self.predict_proba(features)
        score = propagate_min(weighted(chance, weight, hierarchy), hierarchy)
        return call_by_score(score, chance, Table(chance, hierarchy.labels), hierarchy, top=top)

    def _label_weights(self, h: Hierarchy) -> Float:
        if not isinstance(self.weights, str):
            given = np.asarray(self.weights, dtype=np.float64)
            if given.shape != (h.n_labels,) or not (given > 0).all():
                raise DataError(f"weights must hold {h.n_labels} positive numbers.")
            return given
        if self.weights == "uniform":
            return np.ones(h.n_labels)
        if self.weights != "depth":
            raise DataError(f"weights must be 'uniform', 'depth' or an array: {self.weights!r}.")
        by_number = np.full(h.n_labels, 0.75)
        for k in np.flatnonzero(np.diff(h.parent_ptr)):
            by_number[k] *= by_number[h.parent_idx[h.parent_ptr[k] : h.parent_ptr[k + 1]]].mean()
        return by_number[h.position]

    def _grow(
        self, x: NDArray[np.float32], target: Float, n_trees: int, generator: np.random.Generator
    ) -> list[Any]:
        from joblib import Parallel, delayed
        from sklearn.tree import DecisionTreeRegressor

        n_samples = x.shape[0]

        def grow(rng: np.random.Generator) -> Any:
            drawn = np.bincount(rng.integers(n_samples, size=n_samples), minlength=n_samples)
            inside = np.flatnonzero(drawn)
            tree = DecisionTreeRegressor(
                min_weight_fraction_leaf=min(0.5, self.min_leaf / n_samples),
                max_features=self.max_features,
                random_state=int(rng.integers(2**31)),
            )
            tree.fit(x[inside], target[inside], sample_weight=drawn[inside].astype(np.float64))
            return tree.tree_

        parallel = Parallel(n_jobs=self.n_jobs, prefer="threads")
        return list(parallel(delayed(grow)(rng) for rng in generator.spawn(n_trees)))

    def _average(
        self, trees: Sequence[Any], ends: Sequence[NDArray[np.intp]], x: NDArray[np.float32]
    ) -> Float:
        total = np.zeros((x.shape[0], self.hierarchy_.n_labels))
        for tree, end in zip(trees, ends, strict=True):
            total += tree.value[end[tree.apply(x)], :, 0]
        mean = np.clip(total / (len(trees) * self._root_weight), 0.0, 1.0)
        return propagate_min(mean, self.hierarchy_)  # undoes rounding, nothing else

    def _choose_stopping(
        self,
        x: NDArray[np.float32],
        status: NDArray[np.bool_],
        target: Float,
        generator: np.random.Generator,
    ) -> float:
        fold = generator.permutation(x.shape[0]) % _FOLDS
        areas = np.zeros(len(STOPPING))
        for held_out in range(_FOLDS):
            inside, outside = fold != held_out, fold == held_out
            if not status[outside].any():
                continue
            # Stopping only cuts a grown tree back, so one growth serves every option.
            trees = self._grow(x[inside], target[inside], _FOLD_TREES, generator)
            for i, share in enumerate(STOPPING):
                chance = self._average(trees, [_ends(t, share) for t in trees], x[outside])
                areas[i] += au_prc_score(status[outside], chance)
        return STOPPING[int(np.argmax(areas))]


def _ends(tree: Any, share: float) -> NDArray[np.intp]:
    """Node where each node's path stops, if a split must leave at most `share` of the variance."""
    n_nodes = tree.node_count
    left, right = tree.children_left, tree.children_right
    remaining = tree.impurity * tree.weighted_n_node_samples
    end = np.arange(n_nodes)
    if share >= 1.0:
        return end
    for node in range(n_nodes):  # parents come before children
        if left[node] < 0:
            continue
        below = remaining[left[node]] + remaining[right[node]]
        if end[node] != node or below > share * remaining[node]:
            end[left[node]] = end[right[node]] = end[node]
    return end


def _features(features: Any) -> NDArray[np.float32]:
    x = np.asarray(features, dtype=np.float64)
    if x.ndim != 2:
        raise DataError(f"features must be a matrix (n_samples, n_features), got shape {x.shape}.")
    if np.isinf(x).any():
        raise DataError("features hold infinite values.")
    return np.ascontiguousarray(x, dtype=np.float32)
