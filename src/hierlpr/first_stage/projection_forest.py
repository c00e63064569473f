"""The member "forest": trees grown on random projections of labels, then read for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.ensemble import ExtraTreesRegressor

from hierlpr.first_stage.multilabel import Encoded, LabelColumns, Progress

PROJECTIONS = 16  # columns that the trees are grown on; fewer labels are used themselves
BATCH = 25  # trees between two reports of progress
FOLDS = 5  # of clusters


class ProjectionForest:
    """Grow extremely randomized trees on a few random projections of the labels.

    With thousands of labels, a split that looks at all of them is expensive, and random projections
    preserve what such a split measures. The probability of a label is its share in the leaves. For
    a training sample, those of the trees that were grown without its cluster count; a sample that
    is in every bag has the prevalences. Hardly any bag lacks all samples of a large cluster, so
    each tree leaves out one of several folds of clusters altogether.
    """

    def __init__(self, n_trees: int, *, n_jobs: int | None, random_state: int) -> None:
        self.n_trees = n_trees
        self.n_jobs = n_jobs
        self.random_state = random_state

    def learn(self, x: Encoded, labels: LabelColumns, on_progress: Progress | None = None) -> None:
        """Grow the trees, and keep the shares of the samples in each leaf."""
        y = labels.values
        self.y_ = sparse.csr_array(y)
        self.forests_: list[Any] = []
        self.outside_ = np.zeros(y.shape, dtype=np.float32)
        if y.shape[1] == 0:
            return
        rng = np.random.default_rng(self.random_state)
        target = y
        if y.shape[1] > PROJECTIONS:
            target = y @ rng.standard_normal((y.shape[1], PROJECTIONS)).astype(np.float32)
        unit, n_folds, fold = labels.unit, 1, np.full(x.shape[0], -1)
        n_units = int(unit.max()) + 1
        if labels.cluster is not None:
            n_folds = min(FOLDS, self.n_trees, n_units)
            fold = (rng.permutation(n_units) % n_folds)[unit] if n_folds > 1 else fold
        bags: list[NDArray[np.intp]] = []
        for number in range(n_folds):
            rows = np.flatnonzero(fold != number)
            n_trees = self.n_trees // n_folds + (number < self.n_trees % n_folds)
            forest = ExtraTreesRegressor(
                0,
                min_samples_leaf=3,
                max_features=1.0,
                bootstrap=True,
                warm_start=True,
                n_jobs=self.n_jobs,
                random_state=int(rng.integers(2**31)),
            )
            for grown in range(BATCH, n_trees + BATCH, BATCH):
                forest.n_estimators = min(grown, n_trees)
                part = target[rows]
                forest.fit(x[rows], part if part.shape[1] > 1 else part.ravel())
                if on_progress is not None:
                    on_progress(len(bags) + forest.n_estimators, self.n_trees)
            bags += [rows[drawn] for drawn in forest.estimators_samples_]
            self.forests_.append(forest)
        in_bag = np.stack([np.bincount(bag, minlength=x.shape[0]) for bag in bags])
        leaves = self._leaves(x)
        self.bag_ = self._shares_of_samples(leaves, in_bag)
        touched = np.stack([np.bincount(unit[bag], minlength=n_units) for bag in bags])
        is_outside = touched.T[unit] == 0
        self.outside_ = self._shares(leaves, is_outside)
        self.outside_[~is_outside.any(axis=1)] = labels.prior

    def proba(self, x: Encoded) -> NDArray[np.float32]:
        """Return the mean share of each label in the leaves of a sample."""
        if not self.forests_:
            return np.zeros((x.shape[0], 0), dtype=np.float32)
        leaves = self._leaves(x)
        return self._shares(leaves, np.ones(leaves.shape, dtype=bool))

    def _leaves(self, x: Encoded) -> NDArray[np.int64]:
        """Return the leaf of every sample in every tree, numbered through all trees."""
        trees = [tree for forest in self.forests_ for tree in forest.estimators_]
        if x.shape[0] == 0:
            return np.zeros((0, len(trees)), dtype=np.int64)
        counts = [tree.tree_.node_count for tree in trees]
        self.n_nodes_ = int(sum(counts))
        leaves = np.hstack([forest.apply(x) for forest in self.forests_])
        return np.asarray(leaves + (np.cumsum(counts) - counts), dtype=np.int64)

    def _shares_of_samples(
        self, leaves: NDArray[np.int64], in_bag: NDArray[np.int64]
    ) -> sparse.csr_array:
        """Return a matrix (nodes, training samples): the share of each sample in each leaf."""
        drawn = in_bag > 0
        sample = np.broadcast_to(np.arange(in_bag.shape[1]), in_bag.shape)[drawn]
        count = in_bag[drawn].astype(np.float32)
        shape = (self.n_nodes_, in_bag.shape[1])
        bag = sparse.csr_array((count, (leaves.T[drawn], sample)), shape=shape)
        bag.data /= np.repeat(np.asarray(bag.sum(axis=1)).ravel(), np.diff(bag.indptr))
        return bag

    def _shares(self, leaves: NDArray[np.int64], used: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return the mean over the trees `used` of the label shares, in blocks of samples."""
        out = np.empty((leaves.shape[0], self.y_.shape[1]), dtype=np.float32)
        step = max(1, 2**22 // max(1, self.y_.shape[1]))
        for at in range(0, leaves.shape[0], step):
            part, mask = leaves[at : at + step], used[at : at + step]
            count = mask.sum(axis=1)
            share = np.repeat(1.0 / np.maximum(count, 1), count).astype(np.float32)
            ends = np.concatenate([[0], np.cumsum(count)])
            shape = (part.shape[0], self.n_nodes_)
            paths = sparse.csr_array((share, part[mask], ends), shape=shape)
            out[at : at + step] = ((paths @ self.bag_) @ self.y_).toarray()
        return out
