"""NetworkEnsemble: the mean of a few networks of all labels, strongly regularized."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base import constructor_only
from hierlpr._base.checks import check_amount, check_count, check_jobs
from hierlpr.exceptions import DataError
from hierlpr.first_stage.descent import Layers, NetworkPlan, predict_network, train_network
from hierlpr.first_stage.multilabel import (
    LabelColumns,
    MultiLabelEstimator,
    Progress,
    mean_log_loss,
)

Encoded = NDArray[np.float32]
# Networks, folds, regularizations and epochs to try where time is short.
SMALLER = ((10**6, 10**6, 10**6, 10**6), (5, 5, 9, 80), (3, 3, 9, 60), (2, 2, 9, 40), (2, 2, 1, 20))
CHECKPOINTS = (5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100)  # hundredths of all epochs
JUDGES = 2  # networks whose left-out samples tell when to stop
# The mean of many networks gains from training longer than is best for one.
PATIENCE = 0.01


@constructor_only
@dataclass(eq=False, repr=False, match_args=False)
class NetworkEnsemble(MultiLabelEstimator):
    """Average a few networks that see all labels at once.

    Each has hidden layers with dropout, noise on its inputs and output biases at the prior
    log-odds, and minimizes the log-loss of all labels by Adam.

    Parameters
    ----------
    n_networks : int
        Networks, from different seeds.
    folds : int
        Folds for out-of-fold probabilities, 0 for none. Each network is trained without one fold,
        by turns, and with another partition each time round; so the average is over networks that
        have seen most samples, and every sample has some that have not seen it. The first ones also
        tell when to stop, and which of several regularizations to use.
    hidden : tuple of int
        Units of the hidden layers.
    regularization : sequence of (dropout, noise)
        Shares of hidden units left out and standard deviations of the noise on standardized
        features. Of several, the first fold decides by log-loss; without folds the first is used.
    epochs : int
        Most passes over the samples; with folds, the log-loss of left-out ones may end before.
    learning_rate, batch_size, weight_decay
        Of Adam.
    n_jobs : int, optional
        Processes, as in joblib. No result depends on it.
    rng : int
        Seed.

    Attributes
    ----------
    networks_ : list
        The layers of each network.
    plan_ : NetworkPlan
        How they were trained.
    epochs_ : int
        When they stopped.
    oof_proba_ : ndarray
        With folds: probabilities by networks that have not seen the sample.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = np.stack([X[:, 0] > 0, X[:, 0] + X[:, 1] > 1], axis=1)
    >>> networks = NetworkEnsemble(2, hidden=(20,), epochs=40, batch_size=16, learning_rate=0.01)
    >>> float((networks.fit(X, y).predict(X) == y).mean()) > 0.9
    True
    """

    n_networks: int = 10
    _: KW_ONLY
    folds: int = 0
    hidden: Sequence[int] = (500, 500)
    regularization: Sequence[tuple[float, float]] = ((0.7, 0.5),)
    epochs: int = 100
    learning_rate: float = 1e-3
    batch_size: int = 64
    weight_decay: float = 1e-5
    n_jobs: int | None = None
    rng: int = 0

    def learn(
        self, x: Encoded, labels: LabelColumns, *, on_progress: Progress | None = None
    ) -> None:
        """Fit to encoded features; see :class:`MultiLabelEstimator`."""
        plans = self._plans()
        n_networks = check_count(self.n_networks, name="n_networks")
        folds = min(check_count(self.folds, name="folds", least=0), x.shape[0], n_networks)
        if folds == 1:
            raise DataError("folds must be 0 or at least 2, with as many networks and samples.")
        y = labels.values
        seeds = np.random.SeedSequence(check_count(self.rng, name="rng", least=0)).spawn(
            n_networks + 1
        )
        extra = len(plans) - 1 if folds else 0
        crew = _Crew(self.n_jobs, on_progress, self.n_networks + extra)
        self.outside_: NDArray[np.float32] | None = None
        self.networks_: list[Layers]
        if folds:
            self._cross_fit(x, y, labels.judged, plans, folds, seeds, crew)
            return
        self.plan_, self.epochs_ = plans[0], plans[0].epochs
        jobs = [(x, y, self.plan_, seed) for seed in seeds[:-1]]
        self.networks_ = crew.run(train_network, jobs)

    def proba(self, x: Encoded) -> NDArray[np.float32]:
        """Mean probability of the networks."""
        out = predict_network(self.networks_[0], x)
        for layers in self.networks_[1:]:
            out += predict_network(layers, x)
        out /= np.float32(len(self.networks_))
        return out

    def within(self, seconds: float, x: Encoded, labels: LabelColumns) -> NetworkEnsemble | None:
        """Make an ensemble that trains in about so many seconds, by a trial of one epoch.

        None if not even the smallest does.
        """
        from joblib import effective_n_jobs
        from sklearn.base import clone

        plan = self._plans()[0]
        started = time.perf_counter()
        short, seed = replace(plan, epochs=1), np.random.SeedSequence(self.rng)
        _alone(train_network, x, labels.values, short, seed)
        epoch = (time.perf_counter() - started) / effective_n_jobs(self.n_jobs)
        for n_networks, folds, choices, epochs in SMALLER:
            smaller: NetworkEnsemble = clone(self).set_params(
                n_networks=min(n_networks, self.n_networks), folds=min(folds, self.folds),
                regularization=tuple(self.regularization)[:choices],
                epochs=min(epochs, self.epochs),
            )  # fmt: skip
            extra = len(smaller.regularization) - 1 if smaller.folds else 0
            trained = smaller.n_networks + extra
            if epoch * trained * smaller.epochs <= seconds:
                return smaller
        return None

    def _plans(self) -> list[NetworkPlan]:
        try:
            pairs = [(float(dropout), float(noise)) for dropout, noise in self.regularization]
        except (TypeError, ValueError):
            pairs = []
        if not pairs or any(not 0.0 <= d < 1.0 or not 0.0 <= n < np.inf for d, n in pairs):
            raise DataError(
                "regularization must list (dropout, noise) pairs with dropout from 0 to below 1 "
                f"and noise of at least 0; got {self.regularization!r}."
            )
        if not isinstance(self.hidden, Sequence) or isinstance(self.hidden, str):
            raise DataError(f"hidden must list the units of each layer, got {self.hidden!r}.")
        hidden = tuple(check_count(size, name="each of hidden") for size in self.hidden)
        check_jobs(self.n_jobs)
        rate = check_amount(self.learning_rate, name="learning_rate", above=True)
        decay = check_amount(self.weight_decay, name="weight_decay")
        batch = check_count(self.batch_size, name="batch_size")
        epochs = check_count(self.epochs, name="epochs")
        return [NetworkPlan(hidden, d, n, rate, batch, decay, epochs) for d, n in pairs]

    def _cross_fit(
        self, x: Encoded, y: NDArray[np.float32], judged: NDArray[np.float32],
        plans: list[NetworkPlan], folds: int, seeds: list[np.random.SeedSequence], crew: _Crew,
    ) -> None:  # fmt: skip
        """Train each network without one fold; the first ones choose the plan and the end."""
        rng = np.random.default_rng(seeds[-1])
        turns = -(-self.n_networks // folds)
        partitions = [rng.permutation(x.shape[0]) % folds for _ in range(turns)]
        apart = [partitions[i // folds] == i % folds for i in range(self.n_networks)]

        def job(i: int, plan: NetworkPlan) -> tuple[Any, ...]:
            kept = ~apart[i]
            return x[kept], y[kept], x[apart[i]], judged[apart[i]], plan, seeds[i]

        tried = crew.run(_watched, [job(0, plan) for plan in plans])
        best = int(np.argmin([min(path.losses) for path in tried]))
        n_judges = min(JUDGES, folds)
        judges = [job(i, plans[best]) for i in range(1, n_judges)]
        paths = [tried[best], *crew.run(_watched, judges)]
        at = _last_good(paths)
        self.epochs_ = _ends(plans[best])[at]
        self.plan_ = plan = replace(plans[best], epochs=self.epochs_)
        others = [job(i, plan) for i in range(n_judges, self.n_networks)]
        trained = [path.states[at] for path in paths]
        trained += crew.run(_trained_apart, others)
        self.networks_ = [layers for layers, _ in trained]
        self.outside_ = np.zeros_like(y)
        for rows, (_, proba) in zip(apart, trained, strict=True):
            self.outside_[rows] += proba
        self.outside_ /= np.stack(apart, axis=1).sum(axis=1, keepdims=True)


class _Crew:
    """Processes that train networks, and tell how many are done."""

    def __init__(self, n_jobs: int | None, on_progress: Progress | None, total: int) -> None:
        self.n_jobs, self.on_progress = n_jobs, on_progress
        self.total, self.done = total, 0

    def run(self, task: Callable[..., Any], jobs: list[Any]) -> list[Any]:
        from joblib import Parallel, delayed

        results = []
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        for result in parallel(delayed(_alone)(task, *job) for job in jobs):
            results.append(result)
            self.done += 1
            if self.on_progress is not None:
                self.on_progress(self.done, self.total)
        return results


def _alone(task: Callable[..., Any], *job: Any) -> Any:
    """Run a task with one thread: matrix products round differently with other numbers of them."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        return task(*job)


@dataclass(frozen=True, slots=True)
class _Path:
    """A network on its way: loss, layers and probabilities of left-out samples by checkpoint."""

    losses: list[float]
    states: list[tuple[Layers, NDArray[np.float32]]]


def _ends(plan: NetworkPlan) -> list[int]:
    """Epochs after which a network is judged; the last is the last of all."""
    return sorted({max(1, round(plan.epochs * k / 100)) for k in CHECKPOINTS})


def _last_good(paths: list[_Path]) -> int:
    """Last checkpoint whose loss is nearly the smallest, of those that all paths reached."""
    reached = min(len(path.losses) for path in paths)
    loss = np.sum([path.losses[:reached] for path in paths], axis=0)
    return int(np.flatnonzero(loss <= (1.0 + PATIENCE) * loss.min())[-1])


def _trained_apart(
    x: Encoded, y: NDArray[np.float32], x_apart: Encoded, y_apart: NDArray[np.float32],
    plan: NetworkPlan, seed: np.random.SeedSequence,
) -> tuple[Layers, NDArray[np.float32]]:  # fmt: skip
    """Train, and return the layers with the probabilities of the samples set apart."""
    layers = train_network(x, y, plan, seed)
    return layers, predict_network(layers, x_apart)


def _watched(
    x: Encoded, y: NDArray[np.float32], x_apart: Encoded, y_apart: NDArray[np.float32],
    plan: NetworkPlan, seed: np.random.SeedSequence,
) -> _Path:  # fmt: skip
    """Train with a look at the samples set apart at every checkpoint, until they clearly lose."""
    ends, path = set(_ends(plan)), _Path([], [])

    def watch(epoch: int, layers: Layers) -> bool:
        if epoch not in ends:
            return False
        proba = predict_network(layers, x_apart)
        path.losses.append(mean_log_loss(proba, y_apart))
        path.states.append(([(weight.copy(), bias.copy()) for weight, bias in layers], proba))
        return path.losses[-1] > (1.0 + 3.0 * PATIENCE) * min(path.losses)

    train_network(x, y, plan, seed, watch=watch)
    return path
