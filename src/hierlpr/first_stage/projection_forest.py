"""ProjectionForest: trees grown on random projections of the labels, then read for all of them."""

from __future__ import annotations

import time
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base import constructor_only
from hierlpr._base.checks import check_amount, check_count, check_fraction, check_jobs
from hierlpr.exceptions import DataError
from hierlpr.first_stage.multilabel import LabelColumns, MultiLabelEstimator, Progress

Encoded = NDArray[np.float32]
BATCH = 25  # trees between two words of progress


@dataclass(frozen=True, slots=True, eq=False)
class _Trees:
    """Nodes of all trees in a row; a leaf is its own child, so that walking on stays there.

    `bag` has a row for each node: the shares of the training samples in a leaf.
    """

    root: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    depth: int
    bag: Any

    def leaves(self, x: Encoded) -> NDArray[np.int32]:
        """Leaf of every sample in every tree, of shape (n_samples, n_trees)."""
        node = np.tile(self.root, (x.shape[0], 1))
        row = np.arange(x.shape[0])[:, None]
        for _ in range(self.depth):
            goes_left = x[row, self.feature[node]] <= self.threshold[node]
            node = np.where(goes_left, self.left[node], self.right[node])
        return node


@constructor_only
@dataclass(eq=False, repr=False, match_args=False)
class ProjectionForest(MultiLabelEstimator):
    """Grow extremely randomized trees on a few random projections of the labels.

    With thousands of labels a split that looks at all of them is dear, and random projections keep
    what such a split measures. The leaves then give the share of every label among their samples.

    Parameters
    ----------
    n_trees : int
    n_projections : int
        Columns that the trees are grown on; with fewer labels, the labels themselves.
    min_samples_leaf : int
    max_features : float
        Share of the features tried at each split.
    max_minutes : float, optional
        Grow no more trees after that time; the result then depends on the machine.
    n_jobs : int, optional
        Threads for growing. No result depends on it.
    rng : int
        Seed.

    Attributes
    ----------
    oof_proba_ : ndarray
        Out-of-bag probabilities: each sample by the trees that were grown without it. A sample that
        is in every bag has the prevalences.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = np.stack([X[:, 0] > 0, X[:, 0] + X[:, 1] > 1], axis=1)
    >>> forest = ProjectionForest(50).fit(X, y)
    >>> float((forest.predict(X) == y).mean()) > 0.9
    True
    """

    n_trees: int = 200
    _: KW_ONLY
    n_projections: int = 16
    min_samples_leaf: int = 3
    max_features: float = 1.0
    max_minutes: float | None = None
    n_jobs: int | None = None
    rng: int = 0

    def learn(
        self, x: Encoded, labels: LabelColumns, *, on_progress: Progress | None = None
    ) -> None:
        """Fit to encoded features; see :class:`MultiLabelEstimator`."""
        from scipy import sparse
        from sklearn.ensemble import ExtraTreesRegressor

        for name in ("n_trees", "n_projections", "min_samples_leaf"):
            check_count(getattr(self, name), name=name)
        check_count(self.rng, name="rng", least=0)
        check_jobs(self.n_jobs)
        if self.max_minutes is not None:
            check_amount(self.max_minutes, name="max_minutes", above=True)
        if check_fraction(self.max_features, name="max_features") == 0.0:
            raise DataError("max_features must be above 0.")
        y = labels.values
        self.y_ = sparse.csr_array(y)
        self.prior_ = labels.prior
        if y.shape[1] == 0:
            self.outside_ = np.zeros(y.shape, dtype=np.float32)
            self.trees_ = None
            return
        rng = np.random.default_rng(self.rng)
        target = y
        if y.shape[1] > self.n_projections:
            target = y @ rng.standard_normal((y.shape[1], self.n_projections)).astype(np.float32)
        forest = ExtraTreesRegressor(
            0, min_samples_leaf=self.min_samples_leaf, max_features=float(self.max_features),
            bootstrap=True, warm_start=True, n_jobs=self.n_jobs,
            random_state=int(rng.integers(2**31)),
        )  # fmt: skip
        started = time.monotonic()
        for grown in range(BATCH, self.n_trees + BATCH, BATCH):
            forest.n_estimators = min(grown, self.n_trees)
            forest.fit(x, target if target.shape[1] > 1 else target.ravel())
            if on_progress is not None:
                on_progress(forest.n_estimators, self.n_trees)
            if time.monotonic() - started > 60.0 * (self.max_minutes or np.inf):
                break
        in_bag = np.stack(
            [np.bincount(rows, minlength=x.shape[0]) for rows in forest.estimators_samples_]
        )
        self.trees_ = _collect([tree.tree_ for tree in forest.estimators_], x, in_bag)
        self.outside_ = self._outside(x, in_bag)

    def proba(self, x: Encoded) -> NDArray[np.float32]:
        """Mean share of each label in the leaves of a sample."""
        if self.trees_ is None:
            return np.zeros((x.shape[0], 0), dtype=np.float32)
        leaves = self.trees_.leaves(x)
        return self._shares(leaves, np.ones(leaves.shape, dtype=bool))

    def _outside(self, x: Encoded, in_bag: NDArray[np.int64]) -> NDArray[np.float32]:
        assert self.trees_ is not None
        outside = in_bag.T == 0
        shares = self._shares(self.trees_.leaves(x), outside)
        never = ~outside.any(axis=1)
        shares[never] = self.prior_
        return shares

    def _shares(self, leaves: NDArray[np.int32], used: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Mean over the trees `used` of the label shares in the leaves, in blocks of samples."""
        from scipy import sparse

        assert self.trees_ is not None
        out = np.empty((leaves.shape[0], self.y_.shape[1]), dtype=np.float32)
        step = max(1, 2**22 // max(1, self.y_.shape[1]))
        for at in range(0, leaves.shape[0], step):
            part, mask = leaves[at : at + step], used[at : at + step]
            count = mask.sum(axis=1)
            share = np.repeat(1.0 / np.maximum(count, 1), count).astype(np.float32)
            ends = np.concatenate([[0], np.cumsum(count)])
            shape = (part.shape[0], self.trees_.left.size)
            paths = sparse.csr_array((share, part[mask], ends), shape=shape)
            out[at : at + step] = ((paths @ self.trees_.bag) @ self.y_).toarray()
        return out


def _collect(trees: list[Any], x: Encoded, in_bag: NDArray[np.int64]) -> _Trees:
    """Put the trees in a row and fill their leaves with the training samples in their bags."""
    from scipy import sparse

    start = np.concatenate([[0], np.cumsum([tree.node_count for tree in trees])]).astype(np.int32)
    own = np.arange(start[-1], dtype=np.int32)
    left = np.concatenate([t.children_left for t in trees]).astype(np.int32)
    right = np.concatenate([t.children_right for t in trees]).astype(np.int32)
    is_leaf = left < 0
    offset = np.repeat(start[:-1], np.diff(start))
    left = np.where(is_leaf, own, left + offset)
    right = np.where(is_leaf, own, right + offset)
    feature = np.where(is_leaf, 0, np.concatenate([t.feature for t in trees])).astype(np.int32)
    # scikit-learn compares float32 features with float64 thresholds: the next float32 below a
    # threshold decides every float32 feature alike.
    exact = np.concatenate([t.threshold for t in trees])
    rounded = exact.astype(np.float32)
    above = rounded > exact
    rounded[above] = np.nextafter(rounded[above], np.float32(-np.inf))
    depth = max(int(tree.max_depth) for tree in trees)
    empty = _Trees(start[:-1], left, right, feature, rounded, depth, None)
    leaves = empty.leaves(x).T
    drawn = in_bag > 0
    sample = np.broadcast_to(np.arange(x.shape[0]), in_bag.shape)[drawn]
    count = in_bag[drawn].astype(np.float32)
    shape = (int(start[-1]), x.shape[0])
    bag = sparse.csr_array((count, (leaves[drawn], sample)), shape=shape)
    size = np.asarray(bag.sum(axis=1)).ravel()
    bag.data /= np.repeat(size, np.diff(bag.indptr))
    return _Trees(start[:-1], left, right, feature, rounded, depth, bag)
