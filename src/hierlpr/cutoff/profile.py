"""Calls and correct calls per sample at each level and limit: what tests are planned with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr.cutoff.instances import Instances, as_instances, sort_by_sample

N_LEVELS = 200
# Levels with fewer calls than this among the samples of the profile are not tested.
FEWEST_CALLS = 10
_INSTANCES = 2**20  # processed at a time, in whole samples


@dataclass(frozen=True, slots=True, eq=False)
class LevelProfile:
    """Calls and correct calls at each level, on *other* samples than the calibration ones.

    It fixes which pairs of a level and a limit of calls per sample are tested, and in which order,
    before the calibration truth is seen. A poor profile costs power, never validity.

    `level` is decreasing, `limit` increasing. Arrays of shape (limits, levels): mean calls and
    correct calls per sample (`calls`, `hits`), their mean squares and product (`calls2`, `hits2`,
    `calls_hits`), with weights of mean 1. No sample of the profile has more calls than the last
    limit at any level.
    `implied_share` is that of :func:`hierlpr.data.partial_truth.implied_share`, None if all truth
    was known.
    """

    level: NDArray[np.float64]
    limit: NDArray[np.int64]
    calls: NDArray[np.float64]
    hits: NDArray[np.float64]
    calls2: NDArray[np.float64]
    hits2: NDArray[np.float64]
    calls_hits: NDArray[np.float64]
    n_samples: int
    implied_share: float | None = None

    @classmethod
    def of(cls, score: Any, truth: Any = None) -> LevelProfile:
        """Compute the profile of block scores and truth, such as those of the samples of a fit.

        >>> profile = LevelProfile.of([[0.9, 0.8]] * 20, [[1, 1]] * 19 + [[1, 0]])
        >>> profile.level.tolist(), profile.limit.tolist()
        ([0.9, 0.8], [1, 2])
        >>> profile.calls.tolist(), profile.hits.tolist()
        ([[1.0, 1.0], [1.0, 2.0]], [[1.0, 1.0], [1.0, 1.95]])
        """
        instances = as_instances(score, truth)
        if instances.weight is not None:
            weight = instances.weight / instances.weight.max()
            instances = replace(instances, weight=weight / weight.mean())
        # A score of 0 is not stored in a CSR matrix and is called at no level.
        instances = instances.take(instances.score > 0.0)
        level, limit = _spaced_levels(instances.score), _spaced_limits(instances)
        moments = np.zeros((5, limit.size, level.size))
        for part in _parts(instances):
            moments += _moments(part, level, limit)
        calls, hits, calls2, hits2, calls_hits = moments / max(1, instances.n_samples)
        return cls(level, limit, calls, hits, calls2, hits2, calls_hits, instances.n_samples)

    def drift(self, alpha: float) -> NDArray[np.float64]:
        """Mean of ``alpha * calls - false calls`` per sample: positive where precision suffices."""
        return self.hits - (1.0 - alpha) * self.calls

    def square(self, alpha: float) -> NDArray[np.float64]:
        """Mean square of the same."""
        a = 1.0 - alpha
        return self.hits2 - 2.0 * a * self.calls_hits + a * a * self.calls2

    def scaled(self, factor: float) -> LevelProfile:
        """Return the profile with all sample weights multiplied by a factor."""
        square = factor * factor
        return replace(
            self,
            calls=self.calls * factor,
            hits=self.hits * factor,
            calls2=self.calls2 * square,
            hits2=self.hits2 * square,
            calls_hits=self.calls_hits * square,
        )

    def under(self, limit: int) -> LevelProfile:
        """Return the profile for one limit, which no sample exceeds."""
        names = ("calls", "hits", "calls2", "hits2", "calls_hits")
        last = {name: getattr(self, name)[-1:] for name in names}
        return replace(self, limit=np.array([limit]), **last)

    def most_calls(self, level: float) -> int:
        """Return the smallest limit that no sample of the profile exceeds at `level`.

        It is at most 1.5 times the largest number of calls of any sample.
        """
        at = int(np.searchsorted(-self.level, -level, side="right")) - 1
        if at < 0:
            return 0
        calls = self.calls[:, at]
        return int(self.limit[int(np.argmax(calls == calls[-1]))])


def _parts(instances: Instances) -> Iterator[Instances]:
    """Split into parts of whole samples, to bound memory."""
    ptr = np.searchsorted(instances.sample, np.arange(instances.n_samples + 1))
    first = 0
    while first < instances.n_samples:
        stop = int(np.searchsorted(ptr, ptr[first] + _INSTANCES, side="right")) - 1
        stop = min(max(stop, first + 1), instances.n_samples)
        part = instances.take(slice(ptr[first], ptr[stop]))
        weight = None if part.weight is None else part.weight[first:stop]
        yield replace(part, sample=part.sample - first, n_samples=stop - first, weight=weight)
        first = stop


def _moments(
    part: Instances, level: NDArray[np.float64], limit: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Sum calls, hits, their squares and product over samples, at each limit and level.

    The calls of a sample at a level under a limit are a prefix of its sorted instances, so each sum
    over samples is a sum over instances of increments: ``2 p - 1`` for the square, at place p.
    Instances are binned by the first limit and level at which they are called, and the bins
    accumulated along both.
    """
    rows = sort_by_sample(part)
    first = rows.ptr[rows.sample]
    place, counts = rows.place.astype(np.float64), np.ones(rows.place.size)
    if rows.known_before is not None:  # only calls of known truth count
        place = (rows.known_before[1:] - rows.known_before[first]).astype(np.float64)
        counts = np.diff(rows.known_before).astype(np.float64)
    hits = (rows.hits_before[1:] - rows.hits_before[first]).astype(np.float64)
    held = rows.truth.astype(np.float64)
    enters = level.size - np.searchsorted(level[::-1], rows.score, side="right")
    limit_index = np.searchsorted(limit, np.arange(limit[-1] + 1))
    cell = limit_index[rows.needed] * level.size + enters
    own = 1.0 if part.weight is None else part.weight[rows.sample]
    increments = (
        own * counts,
        own * held,
        own * own * (counts * (2.0 * place - 1.0)),
        own * own * (held * (2.0 * hits - 1.0)),
        own * own * (place * hits - (place - counts) * (hits - held)),
    )
    shape = (limit.size, level.size)
    binned = (np.bincount(cell, x, limit.size * level.size) for x in increments)
    return np.stack([x.reshape(shape).cumsum(0).cumsum(1) for x in binned])


def _spaced_levels(score: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return levels at which the number of calls grows by about the same factor."""
    if score.size == 0:
        return np.empty(0)
    fewest = min(FEWEST_CALLS, score.size)
    counts = np.unique(np.rint(np.geomspace(fewest, score.size, N_LEVELS)).astype(np.int64))
    falling = np.sort(score)[::-1]
    return np.unique(falling[counts - 1])[::-1].copy()


def _spaced_limits(instances: Instances) -> NDArray[np.int64]:
    """Return 1, 2, 3, 4, 6, 8, 12, ..., up to the largest number of instances of any sample."""
    most = int(np.bincount(instances.sample).max(initial=1))
    powers = 2 ** np.arange(62, dtype=np.int64)
    grid = np.unique(np.concatenate([powers[:-1], 3 * powers[:-2]]))
    return np.append(grid[grid < most], most)
