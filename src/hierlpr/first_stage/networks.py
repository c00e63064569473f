"""NetworkEnsemble: the mean of a few networks of all labels, strongly regularized."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.exceptions import DataError
from hierlpr.first_stage.blending import mean_log_loss
from hierlpr.first_stage.descent import Layers, NetworkPlan, predict_network, train_network
from hierlpr.first_stage.label_columns import LabelColumns
from hierlpr.first_stage.multilabel import MultiLabelEstimator, Progress

__all__ = ["NetworkEnsemble"]

Encoded = NDArray[np.float32]
# Networks, folds, regularizations and epochs to try where time is short.
SMALLER = ((10**6, 10**6, 10**6, 10**6), (4, 3, 9, 80), (3, 3, 9, 60), (2, 2, 9, 40), (1, 2, 1, 20))
CHECKPOINTS = 8  # epochs after which a network of a fold is judged
TWINS = 2  # networks a fold: their mean behaves more like that of all networks than one does
# The mean of many networks gains from training a little longer than is best for two.
PATIENCE = 0.005


class NetworkEnsemble(MultiLabelEstimator):
    """Average a few networks that see all labels at once.

    Each has hidden layers with dropout, noise on its inputs and output biases at the prior
    log-odds, and minimizes the log-loss of all labels by Adam.

    Parameters
    ----------
    n_networks : int
        Networks trained on all samples, from different seeds.
    folds : int
        Folds for out-of-fold probabilities, 0 for none. Two networks are trained without each fold;
        they also tell when to stop, and which of several regularizations to use.
    hidden : tuple of int
        Units of the hidden layers.
    regularization : sequence of (dropout, noise)
        Shares of hidden units left out and standard deviations of the noise on standardized
        features. Of several, the first fold decides by log-loss; without folds the first is used.
    epochs : int
        Most passes over the samples; with folds, the out-of-fold log-loss may end before.
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

    def __init__(
        self,
        n_networks: int = 6,
        *,
        folds: int = 0,
        hidden: Sequence[int] = (500, 500),
        regularization: Sequence[tuple[float, float]] = ((0.7, 0.5),),
        epochs: int = 80,
        learning_rate: float = 1e-3,
        batch_size: int = 64,
        weight_decay: float = 1e-5,
        n_jobs: int | None = None,
        rng: int = 0,
    ) -> None:
        self.n_networks = n_networks
        self.folds = folds
        self.hidden = hidden
        self.regularization = regularization
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.n_jobs = n_jobs
        self.rng = rng

    def learn(
        self, x: Encoded, labels: LabelColumns, *, on_progress: Progress | None = None
    ) -> None:
        """Fit to encoded features; see :class:`MultiLabelEstimator`."""
        plans = self._plans()
        folds = min(self.folds, x.shape[0]) if self.folds else 0
        if self.n_networks < 1 or folds == 1 or folds < 0:
            raise DataError("n_networks must be at least 1, and folds 0 or at least 2.")
        y = labels.values
        total = self.n_networks + TWINS * folds
        seeds = np.random.SeedSequence(self.rng).spawn(total + 1)
        total += len(plans) - 1 if folds else 0
        count = _Counter(on_progress, total)
        plan, stop = plans[0], plans[0].epochs
        self.outside_: NDArray[np.float32] | None = None
        if folds:
            plan, stop, self.outside_ = self._cross_fit(x, y, plans, folds, seeds, count)
        self.plan_, self.epochs_ = plan, stop
        jobs = [(x, y, plan, seed, stop) for seed in seeds[: self.n_networks]]
        self.networks_: list[Layers] = list(count.of(self._run(_trained, jobs)))

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
        _trained(x, labels.values, plan, np.random.SeedSequence(self.rng), 1)
        epoch = (time.perf_counter() - started) / effective_n_jobs(self.n_jobs)
        for n_networks, folds, choices, epochs in SMALLER:
            smaller: NetworkEnsemble = clone(self).set_params(
                n_networks=min(n_networks, self.n_networks), folds=min(folds, self.folds),
                regularization=tuple(self.regularization)[:choices],
                epochs=min(epochs, self.epochs),
            )  # fmt: skip
            extra = TWINS * smaller.folds + len(smaller.regularization) - 1 if smaller.folds else 0
            trained = smaller.n_networks + extra
            if epoch * trained * smaller.epochs <= seconds:
                return smaller
        return None

    def _plans(self) -> list[NetworkPlan]:
        pairs = [(float(dropout), float(noise)) for dropout, noise in self.regularization]
        if not pairs or any(not 0.0 <= d < 1.0 or n < 0.0 for d, n in pairs):
            raise DataError(
                "regularization must list (dropout, noise) pairs with dropout from 0 to below 1 "
                f"and noise of at least 0; got {self.regularization!r}."
            )
        if self.epochs < 1 or self.batch_size < 1 or any(size < 1 for size in self.hidden):
            raise DataError("epochs, batch_size and the hidden sizes must be at least 1.")
        return [
            NetworkPlan(
                tuple(int(size) for size in self.hidden), dropout, noise, self.learning_rate,
                self.batch_size, self.weight_decay, self.epochs,
            )
            for dropout, noise in pairs
        ]  # fmt: skip

    def _cross_fit(
        self, x: Encoded, y: NDArray[np.float32], plans: list[NetworkPlan], folds: int,
        seeds: list[np.random.SeedSequence], count: _Counter,
    ) -> tuple[NetworkPlan, int, NDArray[np.float32]]:  # fmt: skip
        """Choose plan and end by out-of-fold log-loss; return them with the probabilities."""
        fold = np.random.default_rng(seeds[-1]).permutation(x.shape[0]) % folds
        apart = [np.flatnonzero(fold == f) for f in range(folds)]
        kept = [np.flatnonzero(fold != f) for f in range(folds)]

        def job(number: int, plan: NetworkPlan) -> tuple[Any, ...]:
            f = number % folds
            return x[kept[f]], y[kept[f]], x[apart[f]], plan, seeds[self.n_networks + number]

        first = list(count.of(self._run(_watched, [job(0, plan) for plan in plans])))
        best = int(np.argmin([_losses(path, y[apart[0]]).min() for path in first]))
        others = [job(number, plans[best]) for number in range(1, TWINS * folds)]
        trained = [first[best], *count.of(self._run(_watched, others))]
        paths = [np.mean(trained[f::folds], axis=0) for f in range(folds)]
        # The sum over samples, so that folds of unequal size count as they should.
        loss = sum(
            _losses(path, y[rows]) * rows.size for path, rows in zip(paths, apart, strict=True)
        )
        at = int(np.flatnonzero(loss <= (1.0 + PATIENCE) * np.min(loss))[-1])
        outside = np.empty_like(y)
        for path, rows in zip(paths, apart, strict=True):
            outside[rows] = path[at]
        return plans[best], _ends(plans[best])[at], outside

    def _run(self, task: Any, jobs: list[Any]) -> Iterator[Any]:
        from joblib import Parallel, delayed

        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        results: Iterator[Any] = parallel(delayed(task)(*job) for job in jobs)
        return results


class _Counter:
    """Tell progress as results arrive."""

    def __init__(self, on_progress: Progress | None, total: int) -> None:
        self.on_progress, self.total, self.done = on_progress, total, 0

    def of(self, results: Iterator[Any]) -> Iterator[Any]:
        for result in results:
            self.done += 1
            if self.on_progress is not None:
                self.on_progress(self.done, self.total)
            yield result


def _ends(plan: NetworkPlan) -> list[int]:
    """Epochs after which a network of a fold is judged; the last is the last of all."""
    return sorted({max(1, round(plan.epochs * k / CHECKPOINTS)) for k in range(1, CHECKPOINTS + 1)})


def _losses(path: Sequence[NDArray[np.float32]], y: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.array([mean_log_loss(proba, y) for proba in path])


def _trained(
    x: Encoded, y: NDArray[np.float32], plan: NetworkPlan, seed: np.random.SeedSequence, stop: int
) -> Layers:
    with _one_thread():
        return train_network(x, y, plan, seed, stop=stop)


def _watched(
    x: Encoded, y: NDArray[np.float32], x_new: Encoded, plan: NetworkPlan,
    seed: np.random.SeedSequence,
) -> list[NDArray[np.float32]]:  # fmt: skip
    """Train, and return the probabilities of new samples at every checkpoint."""
    ends, path = set(_ends(plan)), []

    def watch(epoch: int, layers: Layers) -> None:
        if epoch in ends:
            path.append(predict_network(layers, x_new))

    with _one_thread():
        train_network(x, y, replace(plan), seed, watch=watch)
    return path


def _one_thread() -> Any:
    """Matrix products round differently with other numbers of threads; here they have one."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1, user_api="blas")
