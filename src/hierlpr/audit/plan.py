"""Plan which samples to check, and which cutoffs to test with the answers, in which order."""

from __future__ import annotations

import math
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr

from hierlpr.cutoff.goal import Promise
from hierlpr.cutoff.guarantee import LARGEST_STAKE, front
from hierlpr.cutoff.instances import sample_places

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Index = NDArray[np.intp]

# Share of the draws that is uniform among the units with calls.
UNIFORM = 0.05
# Log-odds by which chances may be too high when tests are ordered, and too low when they end.
PESSIMISM, OPTIMISM = 1.0, 0.5
# Tests further than this from passing (in standard deviations) with better chances are left out.
HOPELESS = -2.0
# Correlation between two calls of a unit, for planning.
WITHIN = 0.3
N_LEVELS = 60
# Draws by calls are tried at these places in the list of levels; all but the last have fewer calls.
PLACES = (0.6, 0.8, 0.9, 1.0)
# The design, and which calls are tested at all, are chosen on at most so many units.
N_PLANNING = 20_000
LEAST_CHANCE = 1e-6


class Listed(NamedTuple):
    """Instances by unit, then decreasing score; units are samples or clusters.

    Labels have their topological number. An instance is called at a level that its score reaches,
    under a limit of at least `needed` calls per sample. Each `group` of labels has its own tests.
    If the instances are the path of each sample, whose last call is its name, `allowed` is the
    number of wrong names to allow.
    """

    unit: Index
    sample: Index
    label: NDArray[np.int32]
    score: Float
    needed: NDArray[np.int32]
    group: NDArray[np.int32]
    n_units: int
    allowed: float | None = None

    @property
    def chance(self) -> Float:
        """The scores as chances that are neither 0 nor 1."""
        return np.clip(self.score, LEAST_CHANCE, 1.0 - LEAST_CHANCE)

    def take(self, rows: NDArray[Any] | slice) -> Listed:
        """Keep some instances; all of them are not copied."""
        if not isinstance(rows, slice) and rows.dtype == bool and rows.all():
            return self
        arrays: Any = {
            name: x[rows] for name, x in self._asdict().items() if isinstance(x, np.ndarray)
        }
        return self._replace(**arrays)

    def called(self, level: float, limit: int, group: int) -> Bool:
        """Mark the calls of a group."""
        is_called = (self.score >= level) & (self.needed <= limit)
        return np.asarray(is_called & (self.group == group))

    def gains(self, correct: NDArray[Any], alpha: float) -> Float:
        """Return the gain of each call; those of a unit add up to its gain.

        Of names, the first wrong call of a path takes 1, because all below are wrong too.
        """
        if self.allowed is None:
            return np.asarray(correct - (1.0 - alpha))
        above = np.append(1.0, correct[:-1])
        above[np.append(True, self.unit[1:] != self.unit[:-1])[: above.size]] = 1.0
        return np.asarray(correct - above[: correct.size])


def list_by_unit(
    sample: Index,
    label: NDArray[Any],
    score: Float,
    n_samples: int,
    cluster: Index | None = None,
    group: Index | None = None,
    allowed: float | None = None,
) -> Listed:
    """List instances by unit and decreasing score.

    `cluster` numbers the cluster of each sample, `group` the group of each instance. With clusters,
    groups or names there are no limits of calls per sample.
    """
    unit, n_units = sample, n_samples
    if cluster is not None:
        unit, n_units = cluster[sample], int(cluster.max(initial=-1)) + 1
    order, _, needed = sample_places(score, unit)
    number = np.zeros_like(needed) if group is None else group[order].astype(np.int32)
    if cluster is not None or allowed is not None or number.any():
        needed = np.ones_like(needed)
    instances = unit[order], sample[order], label[order].astype(np.int32), score[order]
    return Listed(*instances, needed, number, n_units, allowed)


class Tests(NamedTuple):
    """Pairs of a level and a limit of calls per sample, by group, in the order of the tests.

    `square` is the mean square gain that is expected, `total` the sum of the control variates of
    all units, `bound` the largest of what a unit can lose over its probability.
    """

    level: Float
    limit: NDArray[np.int64]
    square: Float
    total: Float
    bound: Float
    group: NDArray[np.int64]


class Plan(NamedTuple):
    """The draw and the tests, fixed before any answer.

    Units are numbered in the order in which they were drawn, without replacement. `listed` has the
    instances that a test calls, by unit and sample with parents first; `probability` is that of
    each unit in the first draw, `time` when it was drawn. `rho` multiplies the control variates; 0
    is none.
    """

    promise: Promise
    rho: float
    probability: Float
    time: Float
    tests: Tests
    listed: Listed


def plan_audit(listed: Listed, promise: Promise, checks: int, rng: np.random.Generator) -> Plan:
    r"""Choose the draw and the tests, taking scores as chances that may be wrong.

    Notes
    -----
    Units are drawn one by one without replacement, with probabilities in proportion to :math:`q`:
    in the order of independent exponential times over :math:`q`. Designs are uniform draws, or 5 %
    uniform and 95 % in proportion to the calls at some level; both with and without the expected
    gains as control variates. The design with the most correct calls that can be expected to be
    certified is used, on average over the chances as they are and with log-odds lower and higher by
    `OPTIMISM`. Groups add up, and have equal parts of the draws by calls.

    Tests go from the pair that passes most surely with log-odds lower by all of it to those with
    more calls, and end where even higher chances leave no hope. A poor plan costs power, never
    validity.
    """
    sizes = np.bincount(listed.group)
    groups = np.flatnonzero(sizes).tolist()
    part = Promise(promise.alpha, promise.delta / len(groups))
    lowest = np.zeros(max(groups) + 1)
    for group in groups:
        lowest[group] = _levels(listed.take(listed.group == group), part)[-1]
    listed = listed.take(listed.score >= lowest[listed.group])
    units, is_used = np.unique(listed.unit), np.zeros(listed.n_units, dtype=bool)
    is_used[rng.permutation(units)[:N_PLANNING]] = True
    if len(groups) > 1:  # at least one unit of each
        is_used[listed.unit[np.unique(listed.group, return_index=True)[1]]] = True
    used = listed.take(is_used[listed.unit])
    if used.allowed is not None:  # in proportion
        used = used._replace(allowed=used.allowed * min(1.0, N_PLANNING / units.size))
    grids = [_Grid(used.take(used.group == group), part) for group in groups]
    levels, rho = _best_design(grids, checks)
    probability = _probability(grids, levels)
    # Units without a call at any of these tests need no check and are not drawn.
    is_tested = np.zeros(listed.unit.size, dtype=bool)
    for group, grid in zip(groups, grids, strict=True):
        level, limit, *_ = grid.tests(probability, rho, checks)
        is_tested |= listed.called(level.min(), limit.max(), group)
    listed = listed.take(is_tested)
    grids = [_Grid(listed.take(listed.group == group), part) for group in groups]
    probability, columns = _probability(grids, levels), []
    for group, grid in zip(groups, grids, strict=True):
        tests = grid.tests(probability, rho, checks)
        n_calls = np.count_nonzero(grid.listed.score >= tests[0][-1])
        if len(groups) > 1 and n_calls == sizes[group]:
            tests[0][-1] = 0.0  # everything: the groups below inherit no cut
        columns.append((*tests, np.full(tests[0].size, group)))
    units = np.flatnonzero(probability)
    time = rng.standard_exponential(units.size) / probability[units]
    drawn = np.argsort(time, kind="stable")
    place = np.empty(listed.n_units, dtype=np.intp)
    place[units[drawn]] = np.arange(units.size)
    listed = listed._replace(unit=place[listed.unit])
    # Of each unit whole samples, parents before children.
    order = np.lexsort((listed.label, -listed.score, listed.sample, listed.unit))
    sequence = Tests(*map(np.concatenate, zip(*columns, strict=True)))
    draw = probability[units[drawn]], time[drawn]
    return Plan(promise, rho, *draw, sequence, listed.take(order))


def _levels(listed: Listed, promise: Promise) -> Float:
    """Return levels from which calls, or incorrect calls as expected, grow by about one factor.

    The lowest is the last where the target is met if log-odds are higher by `OPTIMISM`.
    """
    order = np.argsort(listed.score, kind="stable")[::-1]
    gains = listed.gains(expit(logit(listed.chance) + OPTIMISM), promise.alpha)
    enough = np.flatnonzero(np.cumsum(gains[order]) + (listed.allowed or 0.0) >= 0.0)
    most = int(enough[-1]) + 1 if enough.size else 1
    at = []
    for total in (np.arange(1.0, most + 1.0), np.cumsum(1.0 - listed.chance[order[:most]])):
        spaced = np.geomspace(total[-1] / 50.0, total[-1], N_LEVELS // 2)
        at.append(np.minimum(np.searchsorted(total, spaced), most - 1))
    return np.unique(listed.score[order[np.concatenate(at)]])[::-1].copy()


def _probability(grids: list[_Grid], levels: list[float] | None) -> Float:
    """Return the probability of each unit: uniform, or by its calls at a level of each group."""
    n = grids[0].listed.n_units
    uniform = np.sum([np.bincount(x.listed.unit, minlength=n) for x in grids], axis=0) > 0
    uniform = uniform / np.count_nonzero(uniform)
    if levels is None:
        return np.asarray(uniform)
    shares = []
    for grid, level in zip(grids, levels, strict=True):
        calls = np.bincount(grid.listed.unit[grid.listed.score >= level], minlength=n)
        shares.append(calls / calls.sum())
    return np.asarray(UNIFORM * uniform + (1.0 - UNIFORM) * np.mean(shares, axis=0))


def _best_design(grids: list[_Grid], checks: int) -> tuple[list[float] | None, float]:
    """Return the levels of draws by calls (None: uniform) and `rho` of the best design."""
    designs: list[list[float] | None] = [None]
    for place in PLACES:
        designs.append([float(x.level[int(place * (x.level.size - 1))]) for x in grids])

    def value(design: tuple[list[float] | None, float]) -> float:
        (levels, rho), total = design, 0.0
        probability = _probability(grids, levels)
        for grid, shift in product(grids, (OPTIMISM, 0.0, -OPTIMISM)):
            hits, _, margin = (x.ravel() for x in grid.expect(probability, rho, shift, checks))
            at = front(margin, hits)  # as if one common error decided which of these pass
            total += float(np.diff(hits[at], prepend=0.0) @ ndtr(margin[at]))
        return total

    return max(product(designs, (0.0, 1.0)), key=value)


class _Grid:
    """Sums over units of functions of their calls, at all limits and levels.

    The calls of a unit are the first of its sorted instances, up to a place; so a sum over units is
    a sum of increments from place to place, binned by the first limit and level of a call.
    """

    def __init__(self, listed: Listed, promise: Promise) -> None:
        self.listed, self.promise, self.allowed = listed, promise, listed.allowed or 0.0
        self.level = _levels(listed, promise)
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
        self._at_chances: dict[float, tuple[Float, ...]] = {}
        self.worst = self.up_to(listed.gains(np.zeros(listed.score.size), promise.alpha))

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

    def bound(self, control: Float, weight: Float) -> Float:
        """Return the largest weighted loss of a unit relative to its control variate."""
        out = np.zeros(math.prod(self.shape))
        np.maximum.at(out, self.cell, (control - self.worst) * weight[self.listed.unit])
        by_limit = np.maximum.accumulate(out.reshape(self.shape), axis=0)
        return np.asarray(np.maximum.accumulate(by_limit, axis=1))

    def at_chances(self, shift: float) -> tuple[Float, ...]:
        """Return what is expected if all log-odds are shifted, whatever the design.

        Gain and variance at each place; gain and correct calls of each pair, summed over units.
        """
        if shift not in self._at_chances:
            chance = expit(logit(self.listed.chance) + shift)
            gain = self.up_to(self.listed.gains(chance, self.promise.alpha))
            variance = chance * (1.0 - chance)
            if self.listed.allowed is None:
                variance = self.up_to(variance) * (1.0 + WITHIN * (self.place - 1.0))
            values = gain, variance, self.sum(gain), self.sum(self.up_to(chance))
            self._at_chances[shift] = values
        return self._at_chances[shift]

    def expect(
        self, probability: Float, rho: float, shift: float, checks: int
    ) -> tuple[Float, Float, Float]:
        """Return hits, mean square gain and margin of all pairs if all log-odds are shifted.

        The margin is by how many standard deviations the log wealth of a constant stake exceeds its
        goal, as in :mod:`hierlpr.cutoff.guarantee`.
        """
        n, goal = self.listed.n_units, math.log(1.0 / self.promise.delta)
        weight = 1.0 / np.where(probability > 0.0, n * probability, 1.0)
        gain, variance, total, hits = self.at_chances(shift)
        control, _, total_control, _ = self.at_chances(0.0)
        difference, mean = (total - rho * total_control) / n, (total + self.allowed) / n
        square = self.sum(variance + (gain - rho * control) ** 2, weight) / n
        square = np.maximum(square + mean**2 - difference**2, 1e-12)
        bound = self.bound(rho * control, weight) - (mean - difference)
        stake = np.sqrt(2.0 * goal / (checks * square))
        stake = np.minimum(stake, LARGEST_STAKE / np.maximum(bound, 1e-12))
        deviation = np.sqrt(np.maximum(square - mean**2, 1e-3 * square) * checks)
        margin = (checks * (mean - 0.5 * stake * square) - goal / stake) / deviation
        return hits, square, margin

    def tests(self, probability: Float, rho: float, checks: int) -> tuple[NDArray[Any], ...]:
        """Return the columns of `Tests` for the pairs that no other exceeds in margin and hits."""
        low, square, margin = self.expect(probability, rho, -PESSIMISM, checks)
        high_margin = self.expect(probability, rho, OPTIMISM, checks)[2].ravel()
        hits, margin = low.ravel(), margin.ravel()
        at = front(margin, hits)
        at = at[hits[at] > 0.0]  # ties can exceed every limit
        is_whole = checks >= np.count_nonzero(probability)  # all units are checked: no bets needed
        hopeful = np.flatnonzero((high_margin[at] >= HOPELESS) | is_whole)
        at = at[: hopeful[-1] + 1] if hopeful.size else at[:1]
        control, _, total, _ = self.at_chances(0.0)
        bound = self.bound(rho * control, 1.0 / np.where(probability > 0.0, probability, 1.0))
        pairs = self.level[at % self.level.size], self.limit[at // self.level.size]
        total = rho * total + self.allowed
        return (*pairs, *(x.ravel()[at] for x in (square, total, bound)))
