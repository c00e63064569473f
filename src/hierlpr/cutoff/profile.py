"""What calling at each level does on some samples, and what that leaves in doubt about others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierlpr._base.checks import effective_number
from hierlpr.cutoff.scored import Scored, as_scored, by_sample

N_LEVELS = 200
# A level with fewer calls than this among the samples of the profile is not worth a test.
FEWEST_CALLS = 10
# A precision that fewer samples than this have a share in is called shaky.
FEWEST_SAMPLES = 30
# So many standard errors must the precision exceed the target by, at some level.
STANDARD_ERRORS = 2.0
_INSTANCES = 2**20  # taken at a time, whole samples


@dataclass(frozen=True, slots=True, eq=False)
class LevelProfile:
    """What calling at each level would have done on *other* samples than the calibration ones.

    It fixes which pairs of a level and a limit of calls a sample are tested, and in which sequence,
    before the calibration truth is seen. A poor profile costs power, never validity.

    `level` falls, `limit` rises. Of shape (limits, levels): mean calls and right calls a sample
    (`calls`, `hits`), their mean squares and product (`calls2`, `hits2`, `calls_hits`). No sample
    of the profile has more calls than the last limit at any level.
    """

    level: NDArray[np.float64]
    limit: NDArray[np.int64]
    calls: NDArray[np.float64]
    hits: NDArray[np.float64]
    calls2: NDArray[np.float64]
    hits2: NDArray[np.float64]
    calls_hits: NDArray[np.float64]
    n_samples: int

    @classmethod
    def of(cls, score: Any, truth: Any = None) -> LevelProfile:
        """Profile the block scores and truth of the samples used to fit.

        >>> profile = LevelProfile.of([[0.9, 0.8]] * 20, [[1, 1]] * 19 + [[1, 0]])
        >>> profile.level.tolist(), profile.limit.tolist()
        ([0.9, 0.8], [1, 2])
        >>> profile.calls.tolist(), profile.hits.tolist()
        ([[1.0, 1.0], [1.0, 2.0]], [[1.0, 1.0], [1.0, 1.95]])
        """
        score = as_scored(score, truth)
        # A score of 0 is one that a CSR matrix leaves out: it is called at no level.
        score = score.take(score.score > 0.0)
        level = _spaced_levels(score.score)
        limit = _spaced_limits(score)
        moments = np.zeros((5, limit.size, level.size))
        for part in _parts(score):
            moments += _moments(part, level, limit)
        moments /= max(1, score.n_samples)
        calls, hits, calls2, hits2, calls_hits = moments
        return cls(level, limit, calls, hits, calls2, hits2, calls_hits, score.n_samples)

    def drift(self, alpha: float) -> NDArray[np.float64]:
        """Mean of ``alpha * calls - false calls`` a sample: positive where precision suffices."""
        return self.hits - (1.0 - alpha) * self.calls

    def square(self, alpha: float) -> NDArray[np.float64]:
        """Mean square of the same."""
        a = 1.0 - alpha
        return self.hits2 - 2.0 * a * self.calls_hits + a * a * self.calls2

    def over(self, bound: float) -> LevelProfile:
        """Return the profile of samples whose weights are divided by a bound."""
        square = bound * bound
        return replace(
            self, calls=self.calls / bound, hits=self.hits / bound, calls2=self.calls2 / square,
            hits2=self.hits2 / square, calls_hits=self.calls_hits / square,
        )  # fmt: skip

    def most_calls(self, level: float) -> int:
        """Return a limit that no sample of the profile exceeds at `level`, if it has a lower one.

        It is at most half as large again as the most calls of any sample.
        """
        at = int(np.searchsorted(-self.level, -level, side="right")) - 1
        if at < 0:
            return 0
        calls = self.calls[:, at]
        return int(self.limit[int(np.argmax(calls == calls[-1]))])


def _parts(instances: Scored) -> Iterator[Scored]:
    """Cut into parts of whole samples, so that what is made of each stays small."""
    ptr = np.searchsorted(instances.sample, np.arange(instances.n_samples + 1))
    first = 0
    while first < instances.n_samples:
        stop = int(np.searchsorted(ptr, ptr[first] + _INSTANCES, side="right")) - 1
        stop = min(max(stop, first + 1), instances.n_samples)
        rows = slice(ptr[first], ptr[stop])
        part = instances.take(rows)
        yield replace(
            part,
            sample=part.sample - first,
            n_samples=stop - first,
            n_positives=int(part.truth.sum()),
            weight=None if part.weight is None else part.weight[first:stop],
        )
        first = stop


def _moments(
    part: Scored, level: NDArray[np.float64], limit: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Sum calls, hits, their squares and product over samples, at each limit and level.

    What a sample calls at a level under a limit is a stretch of its instances from the best on, so
    each sum over samples is a sum over instances of what the sum grows by with each: by ``2 p - 1``
    for the square, at place p. The instances are counted into cells by the first limit and
    the first level at which they are called, and the cells summed up along both.
    """
    rows = by_sample(part)
    place = rows.place.astype(np.float64)
    held = rows.truth.astype(np.float64)
    hits = (rows.hits_before[1:] - rows.hits_before[rows.ptr[rows.sample]]).astype(np.float64)
    counts = np.ones(place.size)
    if rows.known_before is not None:  # only calls that can be judged count
        counts = np.diff(rows.known_before).astype(np.float64)
        known = rows.known_before[1:] - rows.known_before[rows.ptr[rows.sample]]
        place = known.astype(np.float64)
    enters = level.size - np.searchsorted(level[::-1], rows.score, side="right")
    of_needed = np.searchsorted(limit, np.arange(limit[-1] + 1))  # few, looked up for many
    cell = of_needed[rows.needed] * level.size + enters
    grows: Sequence[NDArray[np.float64]] = (
        counts,
        held,
        counts * (2.0 * place - 1.0),
        held * (2.0 * hits - 1.0),
        place * hits - (place - counts) * (hits - held),
    )
    shape = (limit.size, level.size)
    if part.weight is not None:  # a sample counts so much, in squares so much squared
        own = part.weight[rows.sample]
        one, two = grows[:2], grows[2:]
        grows = [*(x * own for x in one), *(x * own * own for x in two)]
    sums = [np.bincount(cell, weights=w, minlength=limit.size * level.size) for w in grows]
    moments: NDArray[np.float64] = np.stack([s.reshape(shape).cumsum(0).cumsum(1) for s in sums])
    return moments


def _spaced_levels(score: NDArray[np.float64]) -> NDArray[np.float64]:
    """Levels at which the number of calls grows by about the same factor."""
    if score.size == 0:
        return np.empty(0)
    fewest = min(FEWEST_CALLS, score.size)
    counts = np.unique(np.rint(np.geomspace(fewest, score.size, N_LEVELS)).astype(np.int64))
    falling = np.sort(score)[::-1]
    return np.unique(falling[counts - 1])[::-1].copy()


def _spaced_limits(instances: Scored) -> NDArray[np.int64]:
    """1, 2, 3, 4, 6, 8, 12, ..., up to the most instances of any sample."""
    most = 1
    if instances.sample.size:
        most = int(np.bincount(instances.sample).max())
    powers = 2 ** np.arange(62, dtype=np.int64)
    grid = np.unique(np.concatenate([powers[:-1], 3 * powers[:-2]]))
    return np.append(grid[grid < most], most)


def doubts(
    instances: Scored, *, level: float, target: float, profile: LevelProfile | None = None
) -> str:
    """Say why the precision at `level` says little about new samples; empty if nothing does.

    Notes
    -----
    It is called shaky if

    - fewer than 30 samples have a call, with weights those worth fewer of equal weight;
    - at no level does the precision exceed the target by two standard errors (over samples): then
      it may be chance that the target was reached at all;
    - without some one sample the precision would be below the target;
    - one more sample with as many calls as any sample has at this level, here or in `profile`, all
      of them wrong, would make the errors half as many again as the target allows, or more.

    Examples
    --------
    >>> from hierlpr.cutoff.scored import collect
    >>> doubts(collect(np.full((12, 1), 0.9), np.ones((12, 1))), level=0.9, target=0.5)
    'only 12 samples have a call.'
    """
    called = instances.take(instances.score >= level)
    n, weight = instances.n_samples, instances.weight
    calls, hits = (
        np.bincount(called.sample, weights=own, minlength=n) * (1.0 if weight is None else weight)
        for own in (np.ones(called.sample.size), called.truth)
    )
    found = []
    n_calling = int(np.count_nonzero(calls))
    n_worth = n_calling if weight is None else effective_number(weight[calls > 0.0])
    if n_worth < FEWEST_SAMPLES:
        worth = "" if weight is None else f", worth {n_worth:.3g} of equal weight,"
        s, have = ("", "has") if n_calling == 1 else ("s", "have")
        found.append(f"only {n_calling} sample{s}{worth} {have} a call")
    if _clearest(instances, target) < STANDARD_ERRORS:
        found.append("at no level is the precision clearly, by 2 standard errors, above the target")
    without = (hits.sum() - hits) < target * (calls.sum() - calls) - 1e-9
    if without.any():
        found.append("without a single one of the samples the precision is below the target")
    most = float(calls.max())
    like = "with calls that count as much as any sample's"
    if weight is None:
        most = max(most, 0 if profile is None else profile.most_calls(level))
        like = f"with {most:,.0f} call{'' if most == 1 else 's'}, as there are"
    worse = hits.sum() / (calls.sum() + most)
    if 1.0 - worse > 1.5 * (1.0 - target):
        found.append(
            f"one more sample {like}, all of them wrong, would take the precision to {worse:.3g}"
        )
    return f"{'; '.join(found)}." if found else ""


def _clearest(instances: Scored, target: float) -> float:
    """By how many standard errors the precision exceeds the target, at the clearest level."""
    profile = LevelProfile.of(instances)
    if profile.level.size == 0:
        return 0.0
    n, alpha = profile.n_samples, 1.0 - target
    # Never less than calls that are right by independent chance would have.
    square = np.maximum(profile.square(alpha)[-1], target * alpha * profile.calls[-1])
    return float(np.max(np.sqrt(n) * profile.drift(alpha)[-1] / np.sqrt(square)))
