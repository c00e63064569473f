"""FirstStage: networks, trees and kernels, averaged with weights by out-of-fold log-loss."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hierlpr._utils.checks import check_choice, check_count
from hierlpr.exceptions import DataError
from hierlpr.first_stage.kernel_ridge import KernelRidgeClassifier
from hierlpr.first_stage.multilabel import (
    Encoded,
    LabelColumns,
    MultiLabelEstimator,
    Progress,
    blend_weights,
    fit_pooled_map,
    log_odds,
    mean_log_loss,
)
from hierlpr.first_stage.networks import NetworkEnsemble
from hierlpr.first_stage.projection_forest import ProjectionForest

MEMBERS = ("forest", "kernel", "networks")
LEAST_WEIGHT = 0.05  # a member that gets less does not help


class FirstStage(MultiLabelEstimator):
    """Learn the probabilities of all labels from features, without any choices to make.

    A :class:`ProjectionForest`, a :class:`KernelRidgeClassifier` and a :class:`NetworkEnsemble` are
    averaged with the weights that have the smallest out-of-fold log-loss; a member with a small
    weight is left out, and `describe` says so. An average of probabilities is underconfident, which
    one logistic map for all labels, learned out of fold, corrects.

    Parameters
    ----------
    members : sequence of {"forest", "kernel", "networks"}
    n_networks, folds
        See :class:`NetworkEnsemble`.
    n_trees : int
        See :class:`ProjectionForest`.
    n_jobs : int, optional
        Processes, as in joblib; results do not depend on it.
    random_state : int
        Seed.

    Attributes
    ----------
    members_ : dict
        The members in use, fitted.
    weights_ : dict
        Weight of every member, 0 for those left out.
    losses_ : dict
        Out-of-fold log-loss per sample, of each member and of all together.
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

    is_calibrated: ClassVar[bool] = True

    def __init__(
        self,
        *,
        members: Sequence[str] = MEMBERS,
        n_networks: int = 10,
        n_trees: int = 200,
        folds: int = 5,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.members = members
        self.n_networks = n_networks
        self.n_trees = n_trees
        self.folds = folds
        self.n_jobs = n_jobs
        self.random_state = random_state

    def learn(
        self, x: Encoded, labels: LabelColumns, *, on_progress: Progress | None = None
    ) -> None:
        """Fit to encoded features; see :class:`MultiLabelEstimator`."""
        self._check()
        names = [name for name in MEMBERS if name in self.members]
        self.seconds_: dict[str, float] = {}
        self.notes_: list[str] = list(self.encoder_.notes) if hasattr(self, "encoder_") else []
        if labels.values.shape[1] == 0:
            names = names[:1]
            self.notes_.append("no label varies: the probability of each is its prevalence")
        fitted: dict[str, MultiLabelEstimator] = {}
        for place, name in enumerate(names):
            started = time.monotonic()
            fitted[name] = self._member(name)
            fitted[name].learn(x, labels, on_progress=_share(on_progress, place, len(names)))
            self.seconds_[name] = time.monotonic() - started
        self._blend(fitted, labels)

    def proba(self, x: Encoded) -> NDArray[np.float32]:
        """Return the mapped weighted mean of the members."""
        parts = [self.weights_[name] * member.proba(x) for name, member in self.members_.items()]
        average = np.asarray(sum(parts[1:], parts[0]), dtype=np.float32)
        return self.map_.probabilities(log_odds(average), self.prior_)

    def describe(self) -> str:
        """Return as text which members are used, with which weight, loss and time."""
        lines = []
        for name, weight in self.weights_.items():
            use = f"weight {weight:.2f}" if weight else "left out: it does not lower the log-loss"
            lines.append(
                f"{name}: {use}; out-of-fold log-loss {self.losses_[name]:.3f} per sample, "
                f"{self.seconds_[name]:.0f} s"
            )
        lines.append(f"together: out-of-fold log-loss {self.losses_['together']:.3f} per sample")
        return "\n".join([*lines, *self.notes_])

    def _check(self) -> None:
        is_list = isinstance(self.members, Collection) and not isinstance(self.members, str)
        if not is_list or len(self.members) == 0:
            raise DataError(f"members must list some of {', '.join(map(repr, MEMBERS))}.")
        for name in self.members:
            check_choice(name, MEMBERS, name="members")
        check_count(self.folds, name="folds", least=2)
        check_count(self.n_networks, name="n_networks", least=2)  # two folds at least

    def _member(self, name: str) -> MultiLabelEstimator:
        common: dict[str, Any] = {"n_jobs": self.n_jobs, "random_state": self.random_state}
        if name == "forest":
            return ProjectionForest(self.n_trees, **common)
        if name == "kernel":
            return KernelRidgeClassifier(random_state=self.random_state)
        return NetworkEnsemble(self.n_networks, folds=self.folds, **common)

    def _blend(self, fitted: dict[str, MultiLabelEstimator], labels: LabelColumns) -> None:
        """Choose weights without members that get too little, and the map of their average."""
        y = labels.judged
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
        level = log_odds(np.asarray(mixed, dtype=np.float32))
        self.map_ = fit_pooled_map(level, y, self.prior_, np.random.default_rng(self.random_state))
        self.outside_ = self.map_.probabilities(level, self.prior_)
        self.losses_ = {name: mean_log_loss(p, y) for name, p in outside.items()}
        self.losses_["together"] = mean_log_loss(self.outside_, y)


def _share(on_progress: Progress | None, place: int, count: int) -> Progress | None:
    """Return a callback for one of several members that counts thousandths of all."""
    if on_progress is None:
        return None

    return lambda done, total: on_progress(round(1000 * (place + done / total) / count), 1000)
