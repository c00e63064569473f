"""Train one network for all labels in NumPy: float32, one thread, reproducible for a seed.

Dropout is shared by groups of `GROUP` samples: a random subset of hidden units takes part, and only
their rows and columns are multiplied. This halves the time at the same accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hierlpr._kernels._jit import Float32s, Float32s2D, Int64s, kernel

Array = NDArray[np.float32]
Layers = list[tuple[Array, Array]]  # weights and biases, first layer first
GROUP = 32  # samples that share their hidden units
WEIGHT_DECAY = 1e-5
EVERY = np.empty(0, dtype=np.int64)


@kernel
def take_block(whole: Float32s2D, rows: Int64s, columns: Int64s, part: Float32s2D) -> None:
    """Copy some rows and columns of a matrix; an empty list means all."""
    for i in range(part.shape[0]):
        row = rows[i] if rows.size else i
        for j in range(part.shape[1]):
            part[i, j] = whole[row, columns[j] if columns.size else j]


@kernel
def add_block(whole: Float32s2D, rows: Int64s, columns: Int64s, part: Float32s2D) -> None:
    """Add to some rows and columns of a matrix; an empty list means all."""
    for i in range(part.shape[0]):
        row = rows[i] if rows.size else i
        for j in range(part.shape[1]):
            whole[row, columns[j] if columns.size else j] += part[i, j]


@kernel
def adam_step(
    parameters: Float32s,
    gradient: Float32s,
    mean: Float32s,
    square: Float32s,
    rate: float,
    widen: float,
    decay: float,
) -> None:
    """Move the parameters against the gradient, in place (Kingma and Ba 2015).

    `rate` is the learning rate over ``1 - 0.9**t``, `widen` is ``1 / (1 - 0.999**t)``: both means
    start at zero and are too small at first. The gradient is set to zero for the next step.
    """
    size, wide, pull = np.float32(rate), np.float32(widen), np.float32(decay)
    first, second = np.float32(0.9), np.float32(0.999)
    rest, rest_square = np.float32(0.1), np.float32(0.001)
    tiny, zero = np.float32(1e-8), np.float32(0.0)
    for i in range(parameters.size):
        g = gradient[i] + pull * parameters[i]
        m = first * mean[i] + rest * g
        v = second * square[i] + rest_square * (g * g)
        mean[i] = m
        square[i] = v
        gradient[i] = zero
        parameters[i] -= size * m / (np.sqrt(v * wide) + tiny)


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """How a network is trained: by Adam, for a limited number of epochs."""

    hidden: tuple[int, ...]  # units of the hidden layers
    dropout: float  # share of hidden units dropped
    noise: float  # standard deviation of noise on standardized features
    learning_rate: float
    batch_size: int
    epochs: int


def train_network(
    x: Array,
    y: Array,
    plan: NetworkPlan,
    seed: np.random.SeedSequence,
    *,
    watch: Callable[[int, Layers], bool],
) -> None:
    """Train on all rows.

    The learning rate is constant, so shorter training gives an earlier state of longer training.
    `watch` is called after every epoch, counted from 1, with the layers, and stops training if it
    returns True.
    """
    rng = np.random.default_rng(seed)
    n_samples = x.shape[0]
    parameters, layers = _start(x.shape[1], y, plan, rng)
    gradient = np.zeros_like(parameters)
    slopes = _cut(gradient, [weight.shape for weight, _ in layers])
    moments = np.zeros_like(parameters), np.zeros_like(parameters)
    n_steps = 0
    batch = min(plan.batch_size, n_samples)
    n_batches = n_samples // batch
    x_epoch, y_epoch, noise = np.empty_like(x), np.empty_like(y), np.empty_like(x)
    with np.errstate(over="ignore"):  # exp of a very unlikely label: its probability is 0
        for epoch in range(1, plan.epochs + 1):
            order = rng.permutation(n_samples)
            np.take(x, order, axis=0, out=x_epoch)
            np.take(y, order, axis=0, out=y_epoch)
            if plan.noise > 0.0:
                rng.standard_normal(out=noise, dtype=np.float32)
                noise *= np.float32(plan.noise)
                x_epoch += noise
            for number in range(n_batches):
                # The last batch takes the rest: no sample is left out of an epoch.
                end = n_samples if number == n_batches - 1 else (number + 1) * batch
                for first in range(number * batch, end, GROUP):
                    rows = slice(first, min(first + GROUP, end))
                    _descend(
                        layers, slopes, x_epoch[rows], y_epoch[rows], end - number * batch,
                        plan, rng,
                    )  # fmt: skip
                n_steps += 1
                rate = plan.learning_rate / (1.0 - 0.9**n_steps)
                widen = 1.0 / (1.0 - 0.999**n_steps)
                adam_step(parameters, gradient, *moments, rate, widen, WEIGHT_DECAY)
            if watch(epoch, layers):
                break


def predict_network(layers: Layers, x: Array) -> Array:
    """Return the probabilities of all labels."""
    hidden = x
    for weight, bias in layers[:-1]:
        hidden = hidden @ weight
        hidden += bias
        np.maximum(hidden, 0.0, out=hidden)
    weight, bias = layers[-1]
    out: Array = hidden @ weight
    out += bias
    return _sigmoid(out)


def _start(
    n_features: int, y: Array, plan: NetworkPlan, rng: np.random.Generator
) -> tuple[Array, Layers]:
    """Return all parameters in one vector, and layers that are views of it."""
    sizes = [n_features, *plan.hidden, y.shape[1]]
    shapes = list(pairwise(sizes))
    parameters = np.zeros(sum(a * b + b for a, b in shapes), dtype=np.float32)
    layers = _cut(parameters, shapes)
    for weight, _ in layers:
        weight[:] = rng.uniform(-1.0, 1.0, size=weight.shape) / np.sqrt(weight.shape[0])
    share = (y.sum(axis=0, dtype=np.float64) + 0.5) / (y.shape[0] + 1.0)
    layers[-1][1][:] = np.log(share / (1.0 - share))
    return parameters, layers


def _cut(vector: Array, shapes: list[tuple[int, int]]) -> Layers:
    """Return weights and biases of layers of these shapes as views of one vector."""
    layers: Layers = []
    at = 0
    for a, b in shapes:
        middle, end = at + a * b, at + a * b + b
        layers.append((vector[at:middle].reshape(a, b), vector[middle:end]))
        at = end
    return layers


def _descend(
    layers: Layers, slopes: Layers, x: Array, y: Array, batch: int, plan: NetworkPlan,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Add the gradient of the log-loss of one group, for randomly drawn hidden units."""
    n_kept = [max(1, round((1.0 - plan.dropout) * size)) for size in plan.hidden]
    # An empty list means that all take part: inputs and labels.
    units = [
        EVERY,
        *(rng.permutation(s)[:n] for s, n in zip(plan.hidden, n_kept, strict=True)),
        EVERY,
    ]
    # Units that take part are scaled up to represent all.
    scales = [np.float32(size / n) for size, n in zip(plan.hidden, n_kept, strict=True)]
    last = len(layers) - 1
    values, weights = [x], []
    for i, (weight, bias) in enumerate(layers):
        rows, columns = units[i], units[i + 1]
        shape = (rows.size or weight.shape[0], columns.size or weight.shape[1])
        part = np.empty(shape, dtype=np.float32)
        take_block(weight, rows, columns, part)
        weights.append(part)
        out = values[-1] @ part
        out += bias[columns] if columns.size else bias
        if i < last:
            np.maximum(out, 0.0, out=out)
            out *= scales[i]
            values.append(out)
    back = _sigmoid(out)
    back -= y
    back *= np.float32(1.0 / batch)
    for i in range(last, -1, -1):
        add_block(slopes[i][0], units[i], units[i + 1], values[i].T @ back)
        slopes[i][1][units[i + 1] if i < last else ...] += back.sum(axis=0)
        if i:
            back = back @ weights[i].T
            back *= scales[i - 1] * (values[i] > 0.0)


def _sigmoid(values: Array) -> Array:
    """Apply the logistic function in place."""
    np.negative(values, out=values)
    with np.errstate(over="ignore"):
        np.exp(values, out=values)
    values += np.float32(1.0)
    np.reciprocal(values, out=values)
    return values
