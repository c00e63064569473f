"""What members share: checked labels, and how probabilities are combined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hierlpr.exceptions import DataError


@dataclass(frozen=True, slots=True, eq=False)
class LabelColumns:
    """What members learn: `values` has one column per distinct label column that varies.

    In deep hierarchies many rare labels are true for the same samples; they are learned once.
    `place[k]` is the column of label `k` in `values`, or -1 if it is constant; such a label gets
    its smoothed share, `prevalence[k]`. Where `is_known` is False, `values` has the probability of
    the label: members learn from it, but are not evaluated by it. With
    `cluster`, numbers from 0, out of fold means without the other samples of the cluster either.
    """

    values: NDArray[np.float32]
    place: NDArray[np.intp]
    prevalence: NDArray[np.float64]
    is_known: NDArray[np.bool_] | None = None
    cluster: NDArray[np.intp] | None = None

    @classmethod
    def of(
        cls, positive: NDArray[np.bool_], is_known: NDArray[np.bool_] | None = None
    ) -> LabelColumns:
        """Find the distinct columns, in the order of their first label."""
        positive = positive if is_known is None else positive & is_known
        count = positive.sum(axis=0)
        n_samples = (
            np.full(positive.shape[1], len(positive)) if is_known is None else is_known.sum(axis=0)
        )
        prevalence = (count + 0.5) / (n_samples + 1.0)
        place = np.full(positive.shape[1], -1, dtype=np.intp)
        chosen = varies = np.flatnonzero((count > 0) & (count < n_samples))
        if varies.size:
            bits = (
                positive[:, varies]
                if is_known is None
                else np.vstack([positive, is_known])[:, varies]
            )
            packed = np.ascontiguousarray(np.packbits(bits, axis=0).T)
            keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
            _, first, group = np.unique(keys, return_index=True, return_inverse=True)
            place[varies] = np.argsort(np.argsort(first))[group.ravel()]
            chosen = varies[np.sort(first)]
        values = positive[:, chosen].astype(np.float32)
        if is_known is None:
            return cls(values, place, prevalence)
        share = prevalence[chosen].astype(np.float32)
        filled = np.where(is_known[:, chosen], values, share)
        return cls(filled, place, prevalence, is_known[:, chosen])

    @property
    def evaluated(self) -> NDArray[np.float32]:
        """Truth that members are evaluated by: `values`, with NaN where it is unknown."""
        if self.is_known is None:
            return self.values
        return np.where(self.is_known, self.values, np.float32(np.nan))

    @property
    def unit(self) -> NDArray[np.intp]:
        """Number of what stays in one fold: the cluster of each sample, or the sample itself."""
        return np.arange(len(self.values)) if self.cluster is None else self.cluster

    @property
    def prior(self) -> NDArray[np.float64]:
        """Smoothed share of each column of `values`."""
        count = self.values.sum(axis=0, dtype=np.float64)
        return np.asarray((count + 0.5) / (self.values.shape[0] + 1.0))

    def filled(self, proba: NDArray[Any]) -> LabelColumns:
        """Return the columns with new probabilities where truth is unknown."""
        is_known = True if self.is_known is None else self.is_known
        return replace(self, values=np.where(is_known, self.values, proba).astype(np.float32))

    def spread(self, proba: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probabilities of all labels from those of the columns of `values`."""
        out = np.empty((proba.shape[0], self.place.size))
        learned = self.place >= 0
        out[:, learned] = proba[:, self.place[learned]]
        out[:, ~learned] = self.prevalence[~learned]
        return out


def check_labels(y: Any, n_samples: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
    """Return which labels are true and which are known (None if all); NaN means unknown."""
    if y is None:
        raise DataError("requires y to be passed, but the target y is None.")
    array = y.toarray() if sparse.issparse(y) else np.asarray(y)
    if array.dtype.kind == "c":
        raise DataError("y: Complex data not supported; give 0 and 1.")
    if array.ndim != 2 or array.shape[1] == 0 or array.shape[0] != n_samples:
        raise DataError(
            f"y must be a matrix of shape (n_samples, n_labels), and X has {n_samples:,} samples; "
            f"got shape {array.shape}.\nHint: one label is one column, y.reshape(-1, 1)."
        )
    try:
        numbers = array.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError("y must hold 0 and 1 only; some entries are not numbers.") from None
    positive: NDArray[np.bool_] = numbers == 1.0
    is_known = ~np.isnan(numbers)
    if (wrong := is_known & (positive != (numbers != 0.0))).any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise DataError(
            f"y must hold 0 and 1 only, got {numbers[row, column]} at sample {row}, label {column}."
        )
    if (nothing := np.flatnonzero(~is_known.any(axis=0))).size and n_samples:
        raise DataError(
            f"y is unknown in all samples for {nothing.size:,} label(s), first {nothing[0]}.\n"
            "Hint: leave them out."
        )
    return positive, None if is_known.all() else is_known


Progress = Callable[[int, int], None]
Encoded = NDArray[np.floating[Any]]


class Member(Protocol):
    """A part of the first stage; `outside_` are out-of-fold probabilities of training samples."""

    outside_: NDArray[np.float32]

    def learn(self, x: Encoded, labels: LabelColumns, on_progress: Progress | None) -> None:
        """Fit to encoded features and distinct label columns."""

    def proba(self, x: Encoded) -> NDArray[Any]:
        """Return the probabilities of the distinct label columns."""


FLOOR = 1e-6  # keeps the log-loss of a wrong probability of 0 finite
MAX_BLENDED = 2_000_000  # instances from which weights are learned
MAX_MAPPED = 500_000  # instances from which the map is learned
N_STEPS = 500

Float = NDArray[np.float64]


def mean_log_loss(proba: NDArray[Any], y: NDArray[Any]) -> float:
    """Return the log-loss per sample, summed over labels; unknown ones (NaN) get the mean."""
    right = np.where(y > 0.5, proba, 1.0 - proba)
    loss = -np.log(np.maximum(right, FLOOR), dtype=np.float64)
    unknown = np.isnan(y)
    if unknown.any():
        return float(loss[~unknown].mean() * y.shape[1])
    return float(loss.sum() / max(1, y.shape[0]))


def blend_weights(members: Sequence[NDArray[Any]], y: NDArray[Any]) -> NDArray[np.float64]:
    r"""Return nonnegative weights of sum 1 that minimize the log-loss of the average.

    Unknown truth (NaN in `y`) does not count.

    Notes
    -----
    With :math:`q_m` the probability that member :math:`m` gave to what happened, the loss is
    :math:`-\sum \log \sum_m w_m q_m`, that of a mixture, convex in the weights. The EM step
    :math:`w_m \leftarrow \mathrm{mean}(w_m q_m / \sum_j w_j q_j)` never raises it.
    """
    weights = np.full(len(members), 1.0 / len(members))
    if y.size == 0:
        return weights
    rows, most = np.arange(len(y)), max(1, MAX_BLENDED // y.shape[1])
    if rows.size > most:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:most])
    is_known = ~np.isnan(y[rows])
    happened = y[rows] > 0.5
    q = np.stack([np.where(happened, p[rows], 1.0 - p[rows])[is_known] for p in members])
    q = np.maximum(q.astype(np.float64), FLOOR)
    for _ in range(N_STEPS):
        mixed = weights @ q
        before, weights = weights, weights * (q @ (1.0 / mixed)) / mixed.size
        weights /= weights.sum()
        if float(np.abs(weights - before).max()) < 1e-5:
            break
    return weights


@dataclass(frozen=True, slots=True)
class PooledMap:
    """Log-odds of an instance: ``start + slope * value + share * log-odds of the prevalence``."""

    start: float
    slope: float
    share: float

    def probabilities(self, value: NDArray[Any], prior: Float) -> NDArray[np.float32]:
        """Return probabilities from log-odds and the prevalence of each label."""
        odds = self.start + self.slope * value + self.share * log_odds(prior)
        return (1.0 / (1.0 + np.exp(-np.clip(odds, -30.0, 30.0)))).astype(np.float32)


def log_odds(proba: NDArray[Any]) -> Float:
    """Return the log-odds of probabilities, clipped to [`FLOOR`, 1 - `FLOOR`]."""
    inside = np.clip(np.asarray(proba, dtype=np.float64), FLOOR, 1.0 - FLOOR)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def fit_pooled_map(
    value: NDArray[Any], y: NDArray[Any], prior: Float, rng: np.random.Generator
) -> PooledMap:
    """Fit one logistic regression for all labels on out-of-fold log-odds and prevalences."""
    if y.shape[1] == 0:
        return PooledMap(0.0, 1.0, 0.0)
    rows = np.sort(rng.permutation(y.shape[0])[: max(1, MAX_MAPPED // y.shape[1])])
    is_known = ~np.isnan(y[rows])
    values = value[rows][is_known]
    share = np.broadcast_to(log_odds(prior), (rows.size, prior.size))[is_known]
    truth = y[rows][is_known]
    design = np.stack([np.ones_like(values), values, share])
    start, slope, extra = _logistic(design, truth, np.array([0.0, 1.0, 0.0]))
    if slope >= 0.0:
        return PooledMap(float(start), float(slope), float(extra))
    # A decreasing map would reverse the order; then only the prevalence is used.
    start, extra = _logistic(design[[0, 2]], truth, np.array([0.0, 1.0]))
    return PooledMap(float(start), 0.0, float(extra))


def _logistic(design: Float, truth: NDArray[Any], aim: Float) -> Float:
    """Return the weights of the rows of `design`; a weak prior at `aim` keeps them finite."""
    guess = aim
    pull = 1e-2 * np.ones_like(aim)
    for _ in range(25):
        odds = np.clip(guess @ design, -30.0, 30.0)
        chance = 1.0 / (1.0 + np.exp(-odds))
        slope = design @ (chance - truth) + pull * (guess - aim)
        bend = (design * (chance * (1.0 - chance))) @ design.T + np.diag(pull)
        step = np.linalg.solve(bend, slope)
        guess = guess - np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-8:
            break
    return guess
