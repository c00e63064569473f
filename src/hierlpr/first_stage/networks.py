"""The member "networks": the mean of a few strongly regularized networks of all labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hierlpr.first_stage.descent import Layers, NetworkPlan, predict_network, train_network
from hierlpr.first_stage.multilabel import Encoded, LabelColumns, Progress, mean_log_loss

# The first fold chooses the regularization by log-loss.
PLANS = tuple(
    NetworkPlan((500, 500), dropout, noise, learning_rate=1e-3, batch_size=64, epochs=100)
    for dropout, noise in ((0.7, 0.5), (0.5, 0.1))
)
CHECKPOINTS = (5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100)  # hundredths of all epochs
FOLDS = 5  # at most as many as networks and as samples or clusters
N_VALIDATED = 2  # networks whose left-out samples decide when to stop
# The mean of many networks gains from training longer than is best for one.
PATIENCE = 0.01


# Loss, and layers with probabilities of left-out samples, at each checkpoint of one network.
_Path = tuple[list[float], list[tuple[Layers, NDArray[np.float32]]]]


class NetworkEnsemble:
    """Average a few networks that learn all labels together.

    Each has hidden layers with dropout, noise on its inputs and output biases at the prior
    log-odds, and minimizes the log-loss of all labels by Adam. Each is trained without one fold of
    the samples (of whole clusters), in turn, with a new partition for each round of folds. The
    first ones decide when to stop, and which of several regularizations to use. `plan_` says how
    they were trained.
    """

    def __init__(self, n_networks: int, *, n_jobs: int | None, random_state: int) -> None:
        self.n_networks = n_networks
        self.n_jobs = n_jobs
        self.random_state = random_state

    def learn(self, x: Encoded, labels: LabelColumns, on_progress: Progress | None = None) -> None:
        """Train all networks; results do not depend on `n_jobs`."""
        unit, n_networks = labels.unit, self.n_networks
        n_units = int(unit.max()) + 1
        folds = min(FOLDS, n_networks, n_units)
        seeds = np.random.SeedSequence(self.random_state).spawn(n_networks + 1)
        rng = np.random.default_rng(seeds[-1])
        turns = -(-n_networks // folds)
        partitions = [(rng.permutation(n_units) % folds)[unit] for _ in range(turns)]
        apart = [partitions[i // folds] == i % folds for i in range(n_networks)]
        y, evaluated = labels.values, labels.evaluated
        done = 0

        def train(jobs: list[tuple[int, NetworkPlan, bool]]) -> list[_Path]:
            """Train networks by number, plan and whether to validate at every checkpoint."""
            nonlocal done
            tasks = (
                delayed(_train_apart)(
                    x[~apart[i]],
                    y[~apart[i]],
                    x[apart[i]],
                    evaluated[apart[i]],
                    plan,
                    seeds[i],
                    often,
                )
                for i, plan, often in jobs
            )
            paths = []
            for path in Parallel(n_jobs=self.n_jobs, return_as="generator")(tasks):
                paths.append(path)
                done += 1
                if on_progress is not None:
                    on_progress(done, n_networks + len(PLANS) - 1)
            return paths

        tried = train([(0, plan, True) for plan in PLANS])
        best = int(np.argmin([min(losses) for losses, _ in tried]))
        plan = PLANS[best]
        n_validated = min(N_VALIDATED, folds)
        paths = [tried[best], *train([(i, plan, True) for i in range(1, n_validated)])]
        at = _last_good(paths)
        self.plan_ = replace(plan, epochs=_ends(plan)[at])
        others = train([(i, self.plan_, False) for i in range(n_validated, n_networks)])
        states = [x[at] for _, x in paths] + [x[-1] for _, x in others]
        self.networks_ = [layers for layers, _ in states]
        self.outside_ = np.zeros_like(y)
        for rows, (_, proba) in zip(apart, states, strict=True):
            self.outside_[rows] += proba
        self.outside_ /= np.stack(apart, axis=1).sum(axis=1, keepdims=True)

    def proba(self, x: Encoded) -> NDArray[np.float32]:
        """Return the mean probability of the networks."""
        out = predict_network(self.networks_[0], x)
        for layers in self.networks_[1:]:
            out += predict_network(layers, x)
        out /= np.float32(len(self.networks_))
        return out


def _ends(plan: NetworkPlan) -> list[int]:
    """Return the epochs after which a network is validated, ending with the last."""
    return sorted({max(1, round(plan.epochs * k / 100)) for k in CHECKPOINTS})


def _last_good(paths: list[_Path]) -> int:
    """Return the last checkpoint, reached by all paths, whose loss is nearly the smallest."""
    reached = min(len(losses) for losses, _ in paths)
    loss = np.sum([losses[:reached] for losses, _ in paths], axis=0)
    return int(np.flatnonzero(loss <= (1.0 + PATIENCE) * loss.min())[-1])


def _train_apart(
    x: Encoded, y: NDArray[np.float32], x_apart: Encoded, y_apart: NDArray[np.float32],
    plan: NetworkPlan, seed: np.random.SeedSequence, often: bool,
) -> _Path:  # fmt: skip
    """Train, and validate at the end or, until the loss of left-out samples rises, `often`."""
    path: _Path = ([], [])
    (losses, states), ends = path, _ends(plan) if often else [plan.epochs]

    def watch(epoch: int, layers: Layers) -> bool:
        if epoch not in ends:
            return False
        proba = predict_network(layers, x_apart)
        losses.append(mean_log_loss(proba, y_apart))
        states.append(([(weight.copy(), bias.copy()) for weight, bias in layers], proba))
        return losses[-1] > (1.0 + 3.0 * PATIENCE) * min(losses)

    # The rounding of matrix products depends on the number of threads.
    with threadpool_limits(limits=1, user_api="blas"):
        train_network(x, y, plan, seed, watch=watch)
    return path
