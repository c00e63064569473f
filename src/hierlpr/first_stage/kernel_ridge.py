"""The member "kernel": ridge regression of all labels, leave-one-out in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, lapack
from threadpoolctl import threadpool_limits

from hierlpr.exceptions import DataError
from hierlpr.first_stage.multilabel import Encoded, LabelColumns, Progress, fit_pooled_map

Float = NDArray[np.float64]
# Kernels exp(-(d / s)^p), by p and by s^2 over the median squared distance.
SHAPES = ((1, 0.5), (1, 2.0), (2, 0.5), (2, 1.5))
PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
MAX_SAMPLES = 12_000  # time grows with the cube of their number, memory with its square
TUNING_SAMPLES = 1_200  # samples on which the penalty is chosen
SHAPE_SAMPLES, N_SHAPES = 600, 2  # fewer, and how many kernels they leave to choose from
ONE_THREAD = 4_000  # samples up to which threads of the linear algebra mostly wait for each other
SOFT = 0.02  # scale of the smooth clipping of fitted values at 0 and 1


class KernelRidge:
    r"""Regress all labels on a kernel :math:`\exp(-(|x - x'| / s)^p)`, :math:`p` 1 or 2.

    With the kernel matrix :math:`K`, :math:`G = (K + \lambda I)^{-1}` and centred labels :math:`Y`,
    the leave-one-out value of a sample is :math:`Y_i - (GY)_i / G_{ii}`, without a second fit. It
    chooses :math:`p`, :math:`s^2` and :math:`\lambda` by squared error. One logistic map for all
    labels, of that value and the prevalence, gives the probability. With clusters, whole clusters
    :math:`c` are left out: :math:`Y_c - G_{cc}^{-1} (GY)_c`.
    """

    def __init__(self, *, random_state: int = 0) -> None:
        self.random_state = random_state  # draws the samples in use of more than `MAX_SAMPLES`

    def learn(self, x: Encoded, labels: LabelColumns, on_progress: Progress | None = None) -> None:
        """Choose the kernel, and solve for all labels."""
        with threadpool_limits(limits=1 if len(x) <= ONE_THREAD else None, user_api="blas"):
            self._solve(x, labels)
        if on_progress is not None:
            on_progress(1, 1)

    def _solve(self, x: Encoded, labels: LabelColumns) -> None:
        rng = np.random.default_rng(self.random_state)
        shuffled = rng.permutation(x.shape[0])
        used, others = np.sort(shuffled[:MAX_SAMPLES]), np.sort(shuffled[MAX_SAMPLES:])
        y, cluster = labels.values, labels.cluster
        self.mean_ = y[used].mean(axis=0, dtype=np.float64)
        self.x_ = x[used]
        few = used[rng.permutation(used.size)[:TUNING_SAMPLES]]
        self.power_, self.width_, self.penalty_ = _choose(
            x[few], y[few] - self.mean_, None if cluster is None else cluster[few]
        )
        target = y[used] - self.mean_
        inverse = _inverse(_kernel(self.x_, self.x_, self.power_, self.width_), self.penalty_)
        self.dual_ = inverse @ target.astype(inverse.dtype)
        fitted = np.empty(y.shape)
        if cluster is None:
            fitted[used] = target - self.dual_ / np.diag(inverse)[:, None] + self.mean_
            if others.size:
                fitted[others] = self._values(x[others])
        else:
            n_clusters = int(cluster.max()) + 1
            parts = (rows_by_cluster(cluster[rows], n_clusters) for rows in (used, others))
            for mine, rest in zip(*parts, strict=True):
                error = np.linalg.solve(inverse[np.ix_(mine, mine)], self.dual_[mine])
                fitted[used[mine]] = target[mine] - error + self.mean_
                if rest.size:  # their cluster is left out too
                    dual = self.dual_ - inverse[:, mine] @ error
                    fitted[others[rest]] = self._values(x[others[rest]], dual)
        self.prior_ = labels.prior
        self.map_ = fit_pooled_map(_log_odds(fitted), labels.evaluated, self.prior_, rng)
        self.outside_ = self._probabilities(fitted)

    def proba(self, x: Encoded) -> NDArray[np.float32]:
        """Return the probabilities of encoded features, in blocks of samples."""
        step = max(1, 2**23 // max(1, self.x_.shape[0]))
        parts = [
            self._probabilities(self._values(x[at : at + step]))
            for at in range(0, x.shape[0], step)
        ]
        empty = np.zeros((0, self.mean_.size), dtype=np.float32)
        return np.vstack([empty, *parts])

    def _values(self, x: Encoded, dual: NDArray[Any] | None = None) -> Float:
        dual = self.dual_ if dual is None else dual
        out: Float = _kernel(x, self.x_, self.power_, self.width_) @ dual + self.mean_
        return out

    def _probabilities(self, fitted: Float) -> NDArray[np.float32]:
        return self.map_.probabilities(_log_odds(fitted), self.prior_)


def _squared(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    out: NDArray[Any] = a @ b.T
    out *= -2.0
    out += np.square(a).sum(axis=1)[:, None]
    out += np.square(b).sum(axis=1)[None, :]
    np.maximum(out, 0.0, out=out)
    return out


def _kernel(a: Encoded, b: Encoded, power: int, width: float) -> NDArray[Any]:
    out = _squared(a, b)
    out /= np.float32(width)
    if power == 1:
        np.sqrt(out, out=out)
    np.exp(np.negative(out, out=out), out=out)
    if a is b:  # rounding leaves distances of samples to themselves slightly above 0
        np.fill_diagonal(out, 1.0)
    return out


def rows_by_cluster(cluster: NDArray[np.intp], n_clusters: int = 0) -> list[NDArray[np.intp]]:
    """Return the rows of each cluster."""
    count = np.bincount(cluster, minlength=n_clusters)
    return np.split(np.argsort(cluster, kind="stable"), np.cumsum(count)[:-1])


def _choose(
    x: Encoded, y: NDArray[Any], cluster: NDArray[np.intp] | None
) -> tuple[int, float, float]:
    """Return power, width and penalty with the smallest leave-one-out squared error."""
    distance = _squared(x, x)
    between = distance[~np.eye(x.shape[0], dtype=bool)]
    median = float(np.median(between)) if between.size else 0.0
    median = median if median > 0.0 else 1.0
    shapes = [(power, times * median) for power, times in SHAPES]

    def tune(n: int) -> list[tuple[float, float, int, float]]:
        """Return the smallest error of each shape on the first `n` samples, and its penalty."""
        part = None if cluster is None else cluster[:n]
        errors = [_errors(_kernel(x[:n], x[:n], *shape), y[:n], part) for shape in shapes]
        return sorted((*min(e), *shape) for e, shape in zip(errors, shapes, strict=True))

    if len(x) > SHAPE_SAMPLES:
        shapes = [best[2:] for best in tune(SHAPE_SAMPLES)[:N_SHAPES]]
    _, penalty, power, width = tune(len(x))[0]
    return power, width, penalty


def _errors(
    kernel: NDArray[Any], y: NDArray[Any], cluster: NDArray[np.intp] | None
) -> list[tuple[float, float]]:
    """Return the leave-one-out squared error of every penalty, from one decomposition."""
    values, vectors = eigh(kernel.astype(np.float64))
    turned, squares, out = vectors.T @ y, np.square(vectors), []
    for penalty in PENALTIES:
        inverse = 1.0 / (np.maximum(values, 0.0) + penalty)
        error = vectors @ (inverse[:, None] * turned)
        if cluster is None:
            error /= (squares @ inverse)[:, None]
        else:
            for rows in rows_by_cluster(cluster):
                if rows.size:
                    block = (vectors[rows] * inverse) @ vectors[rows].T
                    error[rows] = np.linalg.solve(block, error[rows])
        out.append((float(np.square(error).sum()), penalty))
    return out


def _inverse(kernel: NDArray[Any], penalty: float) -> NDArray[Any]:
    """Return the inverse of the kernel matrix with the penalty on its diagonal."""
    # Large matrices in float32: half the memory, and the penalty keeps them well conditioned.
    small = kernel.shape[0] <= 4_000
    matrix: Any = np.asfortranarray(kernel, dtype=np.float64 if small else np.float32)
    del kernel
    matrix.flat[:: matrix.shape[0] + 1] += penalty
    factor, invert = (lapack.dpotrf, lapack.dpotri) if small else (lapack.spotrf, lapack.spotri)
    matrix, failed = factor(matrix, lower=1, overwrite_a=1, clean=1)
    if failed == 0:
        matrix, failed = invert(matrix, lower=1, overwrite_c=1)
    if failed:
        raise DataError("The kernel matrix could not be inverted; are features too large?")
    upper = np.triu_indices_from(matrix, 1)
    matrix[upper] = matrix.T[upper]
    out: NDArray[Any] = matrix
    return out


def _log_odds(fitted: Float) -> Float:
    """Return log-odds of fitted values, clipped smoothly where they lie outside (0, 1)."""
    low = np.logaddexp(0.0, fitted / SOFT)
    high = np.logaddexp(0.0, (1.0 - fitted) / SOFT)
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.log(low) - np.log(high), -30.0, 30.0))
