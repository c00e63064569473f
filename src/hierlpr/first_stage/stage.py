"""FirstStage: networks, trees and kernels, averaged with weights by out-of-fold log-loss."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import InputTags, TargetTags
from sklearn.utils.validation import check_is_fitted

from hierlpr._utils.checks import check_choice, check_count, check_jobs
from hierlpr.data.clusters import cluster_numbers
from hierlpr.data.frames import row_names
from hierlpr.data.tables import Table
from hierlpr.exceptions import DataError
from hierlpr.first_stage.encoding import FeatureEncoder
from hierlpr.first_stage.kernel_ridge import KernelRidge
from hierlpr.first_stage.multilabel import (
    Encoded,
    LabelColumns,
    Member,
    Progress,
    blend_weights,
    check_labels,
    fit_pooled_map,
    log_odds,
    mean_log_loss,
)
from hierlpr.first_stage.networks import NetworkEnsemble
from hierlpr.first_stage.projection_forest import ProjectionForest

MEMBERS = ("forest", "kernel", "networks")
LEAST_WEIGHT = 0.05  # a member that gets less does not help
# A forest of a few trees gets a smaller weight than one of many (.05 against .2 on 150 flowers); if
# it gets less than this, no more trees are grown.
TRIAL_TREES = 25
LEAST_TRIAL_WEIGHT = 0.02


class FirstStage(BaseEstimator):  # type: ignore[misc]
    """Learn the probabilities of all labels from features, without tuning.

    A forest, a kernel method and networks are averaged with the weights that have the smallest
    out-of-fold log-loss; a member with a small weight is left out, and `describe` says so. An
    average of probabilities is underconfident, which one logistic map for all labels, learned out
    of fold, corrects.

    Parameters
    ----------
    members : sequence of {"forest", "kernel", "networks"}
        Kinds of models to average; by default all three.
    n_networks, n_trees : int
        Networks, from different seeds (at least 2), and trees of the forest.
    n_jobs : int, optional
        Processes, as in joblib; results do not depend on it.
    random_state : int
        Seed.

    Attributes
    ----------
    members_ : dict
        The members in use, fitted.
    weights_, losses_ : dict
        Weight of every member, 0 for those left out, and its out-of-fold log-loss per sample; also
        the loss of all together.
    map_ : PooledMap
        From the log-odds of the average and of the prevalence to log-odds.
    oof_proba_ : ndarray
        Out-of-fold probabilities of the training samples.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> y = np.stack([X[:, 0] > 0, X[:, 0] + X[:, 1] > 1], axis=1)
    >>> stage = FirstStage(members=["forest", "kernel"], n_trees=50).fit(X, y)
    >>> float((stage.predict(X) == y).mean()) > 0.9
    True
    """

    def __init__(
        self,
        *,
        members: Sequence[str] = MEMBERS,
        n_networks: int = 10,
        n_trees: int = 200,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.members = members
        self.n_networks = n_networks
        self.n_trees = n_trees
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, *, clusters: Any = None, on_progress: Progress | None = None
    ) -> Self:
        """Learn the probabilities of all labels.

        In `X` (array, sparse matrix, data frame or list of texts, see `FeatureEncoder`) NaN is a
        missing value. `y` (samples x labels) is 0 or 1, NaN where unknown; members then learn from
        the probability that a kernel method estimates. With `clusters`, one id per sample,
        out-of-fold probabilities are of new clusters: no member has learned from another sample of
        the same one. `on_progress` is called as ``on_progress(done, total)``.
        """
        encoder = FeatureEncoder().fit(X)
        x = encoder.transform(X)
        positive, is_known = check_labels(y, x.shape[0])
        if x.shape[0] < 2:
            raise DataError(f"{x.shape[0]} sample: there is nothing to learn from fewer than 2.")
        self._check()
        samples = Table(np.empty((x.shape[0], 0)), (), *row_names(X, "X"))
        cluster = cluster_numbers(clusters, samples, name="X")
        self.encoder_ = encoder
        self.n_features_in_ = encoder.n_features
        if encoder.names is not None:
            self.feature_names_in_ = np.array(encoder.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        labels = replace(LabelColumns.of(positive, is_known), cluster=cluster)
        if labels.is_known is not None:
            kernel = KernelRidge()
            kernel.learn(x, labels)
            # This is one step of EM from the prevalences; three steps were no better.
            labels = labels.filled(kernel.outside_)
        self._learn(x, labels, on_progress)
        self.labels_ = replace(labels, is_known=None, cluster=None)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of every label, of shape (n_samples, n_labels)."""
        check_is_fitted(self)
        # In double precision, so that a sample gets the same whatever others come with it.
        x = self.encoder_.transform(X).astype(np.float64)
        parts = [self.weights_[name] * member.proba(x) for name, member in self.members_.items()]
        average = sum(parts[1:], parts[0])
        return self.labels_.spread(self.map_.probabilities(log_odds(average), self.prior_))

    def predict(self, X: Any) -> NDArray[np.bool_]:
        """Return the labels with a probability of one half or more."""
        return self.predict_proba(X) >= 0.5

    @property
    def oof_proba_(self) -> NDArray[np.float64]:
        """Out-of-fold probabilities of the training samples."""
        check_is_fitted(self)
        return self.labels_.spread(self.outside_)

    def describe(self) -> str:
        """Return as text which members are used, with which weight and loss."""
        lines = []
        for name, weight in self.weights_.items():
            use = f"weight {weight:.2f}" if weight else "left out: it does not lower the log-loss"
            loss = f"out-of-fold log-loss {self.losses_[name]:.3f} per sample"
            lines.append(f"{name}: {use}; {loss}")
        lines.append(f"together: out-of-fold log-loss {self.losses_['together']:.3f} per sample")
        return "\n".join([*lines, *self.notes_])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags = TargetTags(required=True, multi_output=True, single_output=False)
        tags.input_tags = InputTags(sparse=True, allow_nan=True, categorical=True, string=True)
        return tags

    # -- steps of fit -------------------------------------------------------------------------

    def _check(self) -> None:
        is_list = isinstance(self.members, Collection) and not isinstance(self.members, str)
        if not is_list or len(self.members) == 0:
            raise DataError(f"members must list some of {', '.join(map(repr, MEMBERS))}.")
        for name in self.members:
            check_choice(name, MEMBERS, name="members")
        check_count(self.n_networks, name="n_networks", least=2)  # two folds at least
        check_count(self.n_trees, name="n_trees")
        check_count(self.random_state, name="random_state", least=0)
        check_jobs(self.n_jobs)

    def _learn(self, x: Encoded, labels: LabelColumns, on_progress: Progress | None) -> None:
        """Fit all members, and blend them."""
        names = [name for name in reversed(MEMBERS) if name in self.members]  # the forest last
        self.notes_: list[str] = list(self.encoder_.notes)
        if labels.values.shape[1] == 0:
            names = names[:1]
            self.notes_.append("no label varies: the probability of each is its prevalence")
        fitted: dict[str, Member] = {}
        for place, name in enumerate(names):
            report = _share(on_progress, place, len(names))
            if name == "forest" and fitted and self.n_trees > TRIAL_TREES:
                fitted[name] = self._member(name, TRIAL_TREES)
                fitted[name].learn(x, labels, None)
                outside = [member.outside_ for member in fitted.values()]
                if blend_weights(outside, labels.evaluated)[-1] < LEAST_TRIAL_WEIGHT:
                    continue
            fitted[name] = self._member(name, self.n_trees)
            fitted[name].learn(x, labels, report)
        self._blend({name: fitted[name] for name in MEMBERS if name in fitted}, labels)

    def _member(self, name: str, n_trees: int) -> Member:
        common: dict[str, Any] = {"n_jobs": self.n_jobs, "random_state": self.random_state}
        if name == "forest":
            return ProjectionForest(n_trees, **common)
        if name == "kernel":
            return KernelRidge(random_state=self.random_state)
        return NetworkEnsemble(self.n_networks, **common)

    def _blend(self, fitted: dict[str, Member], labels: LabelColumns) -> None:
        """Choose weights without members that get too little, and the map of their average."""
        y = labels.evaluated
        outside = {name: member.outside_ for name, member in fitted.items()}
        used = list(fitted)
        while True:
            weights = blend_weights([outside[name] for name in used], y)
            small = int(np.argmin(weights))
            if weights[small] >= LEAST_WEIGHT or len(used) == 1:
                break
            used.pop(small)
        self.weights_ = dict.fromkeys(fitted, 0.0)
        self.weights_.update(zip(used, map(float, weights), strict=True))
        self.members_ = {name: fitted[name] for name in used}
        mixed = sum(w * outside[name] for name, w in zip(used, weights, strict=True))
        self.prior_ = labels.prior
        odds = log_odds(np.asarray(mixed, dtype=np.float32))
        self.map_ = fit_pooled_map(odds, y, self.prior_, np.random.default_rng(self.random_state))
        self.outside_ = self.map_.probabilities(odds, self.prior_)
        self.losses_ = {name: mean_log_loss(p, y) for name, p in outside.items()}
        self.losses_["together"] = mean_log_loss(self.outside_, y)


def _share(on_progress: Progress | None, place: int, count: int) -> Progress | None:
    """Return a callback for one of several members that counts thousandths of all."""
    if on_progress is None:
        return None

    return lambda done, total: on_progress(round(1000 * (place + done / total) / count), 1000)
