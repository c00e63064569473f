"""Plan which samples to check, and which cutoffs to test with the answers, in which order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr

from hierlpr.cutoff.goal import Promise
from hierlpr.cutoff.guarantee import LARGEST_STAKE
from hierlpr.cutoff.instances import sample_places

Float = NDArray[np.float64]
Index = NDArray[np.intp]

# Share of the draws that is uniform among the units with calls.
UNIFORM = 0.05
# Log-odds by which chances may be too high when tests are ordered, and too low when they end.
PESSIMISM, OPTIMISM = 1.0, 0.5
# Tests further than this from passing (in standard deviations) with better chances are left out.
HOPELESS = -2.0
# Correlation between two calls of a unit, for planning.
WITHIN = 0.3
N_LEVELS, N_DESIGNS = 60, 5
# The design, and which calls are tested at all, are chosen on at most so many units.
N_PLANNING = 20_000
LEAST_CHANCE = 1e-6


class Listed(NamedTuple):
    """Instances by unit, then decreasing score; units are samples or clusters.

    An instance is called at a level that its score reaches, under a limit of at least `needed`
    calls per sample.
    """

    unit: Index
    score: Float
    needed: NDArray[np.int32]
    n_units: int

    def take(self, rows: NDArray[Any]) -> Listed:
        """Keep some instances."""
        return Listed(self.unit[rows], self.score[rows], self.needed[rows], self.n_units)

    def called(self, level: float, limit: int) -> NDArray[np.bool_]:
        """Mark the calls."""
        return (self.score >= level) & (self.needed <= limit)


def list_by_unit(
    score: Float, sample: Index, n_samples: int, cluster: Index | None = None
) -> tuple[Index, Listed]:
    """Return the order of the instances by unit and decreasing score, and the sorted instances.

    `cluster` numbers the cluster of each sample; there are no limits of calls per sample then.
    """
    if cluster is None:
        order, _, needed = sample_places(score, sample)
        return order, Listed(sample[order], score[order], needed, n_samples)
    unit = cluster[sample]
    order = np.lexsort((-score, unit))
    needed = np.ones(order.size, dtype=np.int32)
    return order, Listed(unit[order], score[order], needed, int(cluster.max(initial=-1)) + 1)


class Tests(NamedTuple):
    """Pairs of a level and a limit of calls per sample, in the order in which they are tested.

    `square` is the mean square gain that is expected, `total` the sum of the control variates of
    all units, `bound` the largest of what a unit can lose over its probability.
    """

    level: Float
    limit: NDArray[np.int64]
    square: Float
    total: Float
    bound: Float


class Plan(NamedTuple):
    """The draw and the tests, fixed before any answer.

    `order` lists the units with calls as drawn without replacement, `probability` is that of every
    unit in the first draw. `rho` multiplies the control variates; 0 is none.
    """

    promise: Promise
    probability: Float
    order: Index
    rho: float
    tests: Tests


def plan_audit(listed: Listed, promise: Promise, checks: int, rng: np.random.Generator) -> Plan:
    r"""Choose the draw and the tests, taking scores as chances that may be wrong.

    Notes
    -----
    Units are drawn one by one without replacement, with probabilities in proportion to :math:`q`:
    in the order of independent exponential times over :math:`q`. Designs are uniform draws, or 5 %
    uniform and 95 % in proportion to the calls at some level; both with and without the expected
    gains as control variates. The design with the largest product of expected correct calls and
    chance to be certified is used, on average over the chances as they are and with log-odds lower
    by half of `PESSIMISM`.

    Tests go from the pair that passes most surely with log-odds lower by all of it to those with
    more calls, and end where even higher chances leave no hope. A poor plan costs power, never
    validity.
    """
    listed = listed.take(listed.score >= _levels(listed.score, promise)[-1])
    is_used = np.zeros(listed.n_units, dtype=bool)
    is_used[rng.permutation(np.unique(listed.unit))[:N_PLANNING]] = True
    grid = _Grid(listed.take(is_used[listed.unit]), promise)
    level, rho = grid.best_design(checks)
    tests = grid.tests(grid.probability(level), rho, checks)
    # Units without a call at any of these tests need no check and are not drawn.
    tested = listed.called(tests.level.min(), tests.limit.max())
    grid = _Grid(listed.take(tested), promise)
    probability = grid.probability(level)
    tests = grid.tests(probability, rho, checks)
    units = np.flatnonzero(probability)
    times = rng.standard_exponential(units.size) / probability[units]
    return Plan(promise, probability, units[np.argsort(times, kind="stable")], rho, tests)


def _levels(score: Float, promise: Promise) -> Float:
    """Return levels at which the number of calls grows by about the same factor.

    The lowest is the last where the mean chance, if log-odds were higher by `OPTIMISM`, meets the
    target.
    """
    falling = np.sort(score)[::-1]
    hopeful = np.cumsum(expit(_log_odds(falling) + OPTIMISM))
    enough = np.flatnonzero(hopeful >= (1.0 - promise.alpha) * np.arange(1, falling.size + 1))
    most = int(enough[-1]) + 1 if enough.size else 1
    counts = np.unique(np.rint(np.geomspace(max(1, most // 50), most, N_LEVELS)).astype(np.int64))
    return np.unique(falling[counts - 1])[::-1].copy()


def _log_odds(score: Float) -> Float:
    return np.asarray(logit(np.clip(score, LEAST_CHANCE, 1.0 - LEAST_CHANCE)))


class _Expected(NamedTuple):
    """Expected hits, mean square gain and margin (see `_Grid.expect`) of all pairs."""

    hits: Float
    square: Float
    margin: Float


class _Grid:
    """Sums over units of functions of their calls, at all limits and levels.

    The calls of a unit are the first of its sorted instances, up to a place; so a sum over units is
    a sum of increments from place to place, binned by the first limit and level of a call.
    """

    def __init__(self, listed: Listed, promise: Promise) -> None:
        self.listed, self.promise, self.target = listed, promise, 1.0 - promise.alpha
        self.level = _levels(listed.score, promise)
        most = int(listed.needed.max(initial=1))
        spaced = np.geomspace(1, most, 3 * most.bit_length())
        self.limit = np.unique(np.rint(spaced).astype(np.int64))
        self.shape = (self.limit.size, self.level.size)
        enters = np.searchsorted(-self.level, -listed.score, side="left")
        enters = np.minimum(enters, self.level.size - 1)  # the last level calls all that is listed
        self.cell = np.searchsorted(self.limit, listed.needed) * self.level.size + enters
        is_first = np.append(True, listed.unit[1:] != listed.unit[:-1])
        self.first = np.flatnonzero(is_first)
        self.group = np.cumsum(is_first) - 1
        self.place = self.up_to(np.ones(listed.score.size))

    def up_to(self, values: Float) -> Float:
        """Cumulate within each unit."""
        total = np.cumsum(values)
        return np.asarray(total - (total - values)[self.first][self.group])

    def sum(self, prefix: Float, weight: Float | None = None) -> Float:
        """Sum a function of the calls of a unit, given at each of its places, over units."""
        step = np.diff(prefix, prepend=0.0)
        step[self.first] = prefix[self.first]
        if weight is not None:
            step *= weight[self.listed.unit]
        binned = np.bincount(self.cell, step, math.prod(self.shape)).reshape(self.shape)
        return np.asarray(binned.cumsum(0).cumsum(1))

    def largest(self, prefix: Float, weight: Float) -> Float:
        """Return the largest over units of such a function that rises from place to place."""
        out = np.zeros(math.prod(self.shape))
        np.maximum.at(out, self.cell, prefix * weight[self.listed.unit])
        by_limit = np.maximum.accumulate(out.reshape(self.shape), axis=0)
        return np.asarray(np.maximum.accumulate(by_limit, axis=1))

    def probability(self, level: float | None) -> Float:
        """Return the probability of each unit: uniform, or by its calls at `level`."""
        unit, n = self.listed.unit, self.listed.n_units
        has_calls = np.bincount(unit, minlength=n) > 0
        uniform = has_calls / np.count_nonzero(has_calls)
        if level is None:
            return np.asarray(uniform)
        calls = np.bincount(unit[self.listed.score >= level], minlength=n)
        return np.asarray(UNIFORM * uniform + (1.0 - UNIFORM) * calls / calls.sum())

    def control(self, rho: float) -> Float:
        """Return the control variate at each place: `rho` times the gain by the chances."""
        chance = np.clip(self.listed.score, LEAST_CHANCE, 1.0 - LEAST_CHANCE)
        return np.asarray(rho * (self.up_to(chance) - self.target * self.place))

    def expect(self, probability: Float, rho: float, shift: float, checks: int) -> _Expected:
        """Return what to expect if all log-odds are shifted.

        The margin is by how many standard deviations the log wealth of a constant stake exceeds its
        goal, as in :mod:`hierlpr.cutoff.guarantee`.
        """
        chance, n = expit(_log_odds(self.listed.score) + shift), self.listed.n_units
        weight = 1.0 / np.where(probability > 0.0, n * probability, 1.0)
        control, hits = self.control(rho), self.up_to(chance)
        gain = hits - self.target * self.place
        spread = self.up_to(chance * (1.0 - chance)) * (1.0 + WITHIN * (self.place - 1.0))
        mean, mean_control = self.sum(gain) / n, self.sum(control) / n
        square = self.sum(spread + (gain - control) ** 2, weight) / n
        square = np.maximum(square + mean**2 - (mean - mean_control) ** 2, 1e-12)
        bound = self.largest(self.target * self.place + control, weight) - mean_control
        goal = math.log(1.0 / self.promise.delta)
        stake = np.sqrt(2.0 * goal / (checks * square))
        stake = np.minimum(stake, LARGEST_STAKE / np.maximum(bound, 1e-12))
        deviation = np.sqrt(np.maximum(square - mean**2, 1e-3 * square) * checks)
        margin = (checks * (mean - 0.5 * stake * square) - goal / stake) / deviation
        return _Expected(self.sum(hits), square, margin)

    def designs(self) -> Iterator[tuple[float | None, float]]:
        """Yield the level for draws by calls (None: uniform), and `rho`."""
        spaced = np.linspace(0, self.level.size - 1, N_DESIGNS + 1)[1:]
        for level in [None, *self.level[np.unique(spaced.astype(np.intp))].tolist()]:
            yield from ((level, 0.0), (level, 1.0))

    def best_design(self, checks: int) -> tuple[float | None, float]:
        """Return the design with the most correct calls that can be expected to be certified."""

        def value(design: tuple[float | None, float]) -> float:
            level, rho = design
            probability, total = self.probability(level), 0.0
            for shift in (0.0, -0.5 * PESSIMISM):
                expected = self.expect(probability, rho, shift, checks)
                total += float((expected.hits * ndtr(expected.margin)).max())
            return total

        return max(self.designs(), key=value)

    def tests(self, probability: Float, rho: float, checks: int) -> Tests:
        """Return the pairs that no other exceeds in both margin and hits, by decreasing margin."""
        low, high = (
            self.expect(probability, rho, shift, checks) for shift in (-PESSIMISM, OPTIMISM)
        )
        hits, margin = low.hits.ravel(), low.margin.ravel()
        by_margin = np.lexsort((-hits, -margin))
        by_margin = by_margin[hits[by_margin] > 0.0]  # ties can exceed every limit
        rising = hits[by_margin]
        at = by_margin[rising > np.append(-1.0, np.maximum.accumulate(rising)[:-1])]
        hopeful = np.flatnonzero(high.margin.ravel()[at] >= HOPELESS)
        at = at[: hopeful[-1] + 1] if hopeful.size else at[:1]
        control = self.control(rho)
        weight = 1.0 / np.where(probability > 0.0, probability, 1.0)
        bound = self.largest(self.target * self.place + control, weight)
        pairs = self.level[at % self.level.size], self.limit[at // self.level.size]
        return Tests(*pairs, *(x.ravel()[at] for x in (low.square, self.sum(control), bound)))
