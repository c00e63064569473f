"""Whether the scores of related labels still go together as they did.

A classifier that breaks down may give scores whose distribution looks as before. What it loses is
that they rise where those of a parent or a child do. Each label is looked at with one such label,
its companion. If only prevalences differ, the new samples are a mixture of three kinds, in unknown
shares: both labels hold, the upper alone, none; and each kind is as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hierlpr.data.partial_truth import AnyTruth, held_and_known
from hierlpr.exceptions import DataError
from hierlpr.hierarchy import Hierarchy
from hierlpr.lpr.diagnostics import N_BINS, ScoreBins

Float = NDArray[np.float64]
Index = NDArray[np.integer]

N_KINDS = 3  # of samples: none of the two labels holds, the upper one alone, both
N_MOMENTS = 3  # place of a label's score among the bins, that of its companion, their product
STEPS = np.linspace(-4.0, 4.0, 17)  # of the log-odds of shares, then twice as fine about the best
N_FINER = 3
CHUNK = 64  # labels at a time
# Chi-squared of three moments with two shares that may lie at the edge of what is possible.
FREEDOM = 2.0
FEWEST = 1e-3  # samples of a kind that was never seen


@dataclass(frozen=True, slots=True, eq=False)
class Companions:
    """How the scores of each label and of one related to it go together, by kinds of samples.

    Attributes
    ----------
    other : ndarray of shape (n_labels,)
        Number of the companion, -1 where a label has none.
    count : ndarray of shape (n_labels, 3)
        Effective number of samples of each kind.
    mean : ndarray of shape (n_labels, 3, 3)
        Mean moments of each kind.
    spread : ndarray of shape (n_labels, 3, 3, 3)
        Their covariances.
    """

    other: NDArray[np.int64]
    count: Float
    mean: Float
    spread: Float

    def __post_init__(self) -> None:
        n = self.other.size
        shapes = (self.other.shape, self.count.shape, self.mean.shape, self.spread.shape)
        if shapes != ((n,), (n, 3), (n, 3, 3), (n, 3, 3, 3)):
            raise DataError("Companions of labels: their arrays do not fit together.")
        numbers = (self.count, self.mean, self.spread)
        if not all(np.isfinite(x).all() for x in numbers) or np.any(self.count < 0.0):
            raise DataError("Companions of labels: all numbers must be finite.")
        if n and not (self.other.min() >= -1 and self.other.max() < n):
            raise DataError("Companions of labels: a companion does not exist.")

    @classmethod
    def of(
        cls,
        bins: ScoreBins,
        scores: Float,
        truth: AnyTruth,
        hierarchy: Hierarchy,
        sample_weight: Float | None = None,
    ) -> Companions:
        """Choose for each label the parent or child whose scores go with its own most closely."""
        place, n_labels = bin_places(bins, scores), hierarchy.n_labels
        weight = np.ones(len(scores)) if sample_weight is None else sample_weight
        held, known = held_and_known(truth)
        best, other = np.zeros(n_labels), np.full(n_labels, -1, dtype=np.int64)
        upper, lower = edge_ends(hierarchy)
        ends = zip(upper.tolist(), lower.tolist(), strict=True)
        for (parent, child), close in zip(
            ends, _closeness(place, upper, lower, weight), strict=True
        ):
            for label, companion in ((parent, child), (child, parent)):
                if close > best[label]:
                    best[label], other[label] = close, companion
        empty = cls(other, np.zeros((n_labels, N_KINDS)), np.zeros((n_labels, N_KINDS, N_MOMENTS)),
                    np.zeros((n_labels, N_KINDS, N_MOMENTS, N_MOMENTS)))  # fmt: skip
        for labels in _chunks(np.flatnonzero(other >= 0)):
            companion = other[labels]
            there = _both_there(place, labels, companion)
            counts = weight[:, None] * (there & known[:, labels] & known[:, companion])
            kind = held[:, labels].astype(np.int8) + held[:, companion]
            empty._learn(labels, kind, place, counts)
        return empty

    def _learn(self, labels: Index, kind: Any, place: Float, weight: Float) -> None:
        """Fill in the kinds of labels; one that is hardly seen spreads as all samples do."""
        companion = self.other[labels]
        everything = _weighed(place, labels, companion, weight)[1]
        for k in range(N_KINDS):
            own = np.where(kind == k, weight, 0.0)
            square = (own**2).sum(axis=0)
            n = own.sum(axis=0) ** 2 / np.where(square > 0.0, square, 1.0)
            self.count[labels, k] = n
            self.mean[labels, k], spread = _weighed(place, labels, companion, own)
            # As if five more samples had the spread of all.
            n = n[:, None, None]
            self.spread[labels, k] = (n * spread + 5.0 * everything) / (n + 5.0)

    def compare(self, bins: ScoreBins, scores: Float) -> Together:
        """Compare new scores with every mixture of the kinds of samples."""
        place, n_labels = bin_places(bins, scores), self.other.size
        seen, now = np.zeros((2, n_labels))
        p_value = np.ones(n_labels)
        looked_at = np.flatnonzero((self.other >= 0) & (self.count.sum(axis=1) > 0.0))
        for labels in _chunks(looked_at):
            there = _both_there(place, labels, self.other[labels])
            counts = there.sum(axis=0)
            mean, spread = _weighed(place, labels, self.other[labels], there.astype(np.float64))
            spread[counts <= 1] = np.eye(N_MOMENTS)
            chosen = _best_shares(self, labels, mean, spread / np.maximum(counts, 1)[:, None, None])
            size = np.sqrt(_variance(spread, 0) * _variance(spread, 1))
            away = np.where(counts > 1, chosen.chi_squared, 0.0)
            p_value[labels] = scipy.special.chdtrc(FREEDOM, np.maximum(away, 0.0))
            seen[labels] = _covariance(chosen.mean) / size
            now[labels] = _covariance(mean) / size
        return Together(self.other, np.clip(seen, -1.0, 1.0), np.clip(now, -1.0, 1.0), p_value)


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """How each label's new scores go with its companion's: as expected and now, and the chance."""

    other: NDArray[np.int64]
    expected: Float
    now: Float
    p_value: Float


def bin_places(bins: ScoreBins, scores: Float) -> Float:
    """Place of every score among the bins of its label, from -1 to 1; NaN stays NaN."""
    out = np.empty(scores.shape)
    for k, edge in enumerate(bins.edge):
        out[:, k] = np.searchsorted(edge, scores[:, k], side="left")
    out *= 2.0 / (N_BINS - 1)
    out -= 1.0
    out[np.isnan(scores)] = np.nan
    return out


def edge_ends(hierarchy: Hierarchy) -> tuple[NDArray[Any], NDArray[Any]]:
    """Columns of the upper and the lower label of every edge."""
    upper = np.repeat(np.arange(hierarchy.n_labels), np.diff(hierarchy.child_ptr))
    return hierarchy.order[upper], hierarchy.order[hierarchy.child_idx]


# -- details ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Mixture:
    chi_squared: Float
    mean: Float


def _best_shares(learned: Companions, labels: Any, mean: Float, error: Float) -> _Mixture:
    """Shares of the kinds under which the mean moments are likeliest; a grid, then finer ones."""
    count = np.maximum(learned.count[labels], FEWEST)
    log_share = np.log(count / count.sum(axis=1, keepdims=True))
    at = np.zeros((len(labels), 2))
    steps = STEPS
    for _ in range(N_FINER + 1):
        first, second = (x.ravel() for x in np.meshgrid(steps, steps, indexing="ij"))
        moves = at[:, None, :] + np.stack([first, second], axis=1)
        share = np.concatenate([np.zeros((*moves.shape[:2], 1)), moves], axis=2)
        share = np.exp(share + log_share[:, None, :])
        share /= share.sum(axis=2, keepdims=True)
        mixed = np.einsum("lgk,lkm->lgm", share, learned.mean[labels])
        spread = learned.spread[labels] / count[:, :, None, None]
        variance = error[:, None] + np.einsum("lgk,lkmn->lgmn", share**2, spread)
        away = _quadratic(mean[:, None] - mixed, variance)
        best = away.argmin(axis=1)
        row = np.arange(len(labels))
        at, steps = moves[row, best], steps / 4.0
    return _Mixture(away[row, best], mixed[row, best])


def _quadratic(x: Float, matrix: Float) -> Float:
    """Solve ``x' matrix^-1 x`` for many symmetric matrices of three rows, by Cramer's rule."""
    # A little more on the diagonal, so that scores without any spread divide by no 0.
    a, b, c = (matrix[..., i, i] * (1.0 + 1e-9) + 1e-15 for i in range(3))
    d, e, f = matrix[..., 0, 1], matrix[..., 0, 2], matrix[..., 1, 2]
    minor = b * c - f * f, a * c - e * e, a * b - d * d
    mixed = e * f - d * c, d * f - b * e, d * e - a * f
    whole = a * minor[0] + d * mixed[0] + e * mixed[1]
    p, q, r = x[..., 0], x[..., 1], x[..., 2]
    value = p * p * minor[0] + q * q * minor[1] + r * r * minor[2]
    value += 2.0 * (p * q * mixed[0] + p * r * mixed[1] + q * r * mixed[2])
    return np.asarray(value / np.maximum(whole, 1e-300))


def _chunks(labels: Index) -> Iterator[Index]:
    for start in range(0, labels.size, CHUNK):
        yield labels[start : start + CHUNK]


def _both_there(place: Float, labels: Index, others: Index) -> NDArray[np.bool_]:
    """Whether scores of labels and of others are there, of shape (n_samples, n_pairs)."""
    return ~(np.isnan(place[:, labels]) | np.isnan(place[:, others]))


def _weighed(place: Float, labels: Index, others: Index, weight: Float) -> tuple[Float, Float]:
    """Mean (n_pairs, 3) and covariance of the moments, by weights (n_samples, n_pairs)."""
    from hierlpr._kernels.pair_moments import pair_moments

    mean = np.empty((len(labels), N_MOMENTS))
    spread = np.empty((len(labels), N_MOMENTS, N_MOMENTS))
    one, two = (np.asarray(x, dtype=np.int64) for x in (labels, others))
    pair_moments(place, one, two, np.ascontiguousarray(weight, np.float64), mean, spread)
    return mean, spread


def _closeness(place: Float, upper: Index, lower: Index, weight: Float) -> Float:
    """Size of the weighed correlation of labels with others; 0 where one does not vary."""
    close = np.zeros(upper.size)
    for at in _chunks(np.arange(upper.size)):
        counts = weight[:, None] * _both_there(place, upper[at], lower[at])
        spread = _weighed(place, upper[at], lower[at], counts)[1]
        size = spread[:, 0, 0] * spread[:, 1, 1]
        close[at] = np.abs(spread[:, 0, 1]) / np.sqrt(np.where(size > 1e-24, size, np.inf))
    return close


def _covariance(mean: Float) -> Float:
    return np.asarray(mean[:, 2] - mean[:, 0] * mean[:, 1])


def _variance(spread: Float, k: int) -> Float:
    return np.maximum(spread[:, k, k], 1e-12)
