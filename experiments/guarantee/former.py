"""The first version of the certified cutoff, which was incorrect, kept for comparison.

It bet on the samples in the order of a hash of their scores and used the largest wealth. That order
depends on the scores: a group of good scores may come first in every draw, and is then certified
before a worse group is seen. Only the study uses this module.
"""

import math
from itertools import pairwise

import numpy as np

from hierlpr.cutoff.goal import Goal
from hierlpr.cutoff.instances import Instances, list_instances, sample_places
from hierlpr.cutoff.outcome import Cutoff

N_LEVELS = 200
FEWEST_CALLS = 10
LARGEST_STAKE = 0.95


class FormerProfile:
    """Moments of the calls and correct calls per sample at each level, of other samples."""

    def __init__(self, score, truth):
        instances = list_instances(score, truth)
        self.level = _spaced_levels(instances.score)
        moments = [
            (c.mean(), h.mean(), (c * c).mean(), (h * h).mean(), (c * h).mean(), c.max())
            for c, h in calls_by_level(instances, self.level)
        ]
        columns = np.reshape(moments, (-1, 6)).T
        self.calls, self.hits, self.calls2, self.hits2, self.calls_hits, self.most_calls = columns

    def drift(self, alpha):
        """Mean of ``alpha * calls - false calls`` per sample."""
        return self.hits - (1.0 - alpha) * self.calls

    def square(self, alpha):
        """Mean square of the same."""
        a = 1.0 - alpha
        return self.hits2 - 2.0 * a * self.calls_hits + a * a * self.calls2


def former_cutoff(score, truth, profile, *, target, confidence):
    """Return the cutoff certified by the former test; one that calls nothing if there is none."""
    instances = list_instances(score, truth)
    alpha, goal = 1.0 - target, math.log(1.0 / (1.0 - confidence))
    found = Cutoff(math.inf, Goal("precision", target, confidence=confidence), reachable=False)
    order, is_stop = _betting_order(instances)
    for levels, stakes, most in _plan(profile, instances, alpha=alpha, goal=goal):
        limited = most < instances.n_labels
        kept = instances
        if limited:
            order_of, _, needed = sample_places(instances.score, instances.sample)
            is_kept = np.empty(needed.size, dtype=bool)
            is_kept[order_of] = needed <= most
            kept = instances.take(is_kept)
        for level, stake, (c, h) in zip(levels, stakes, calls_by_level(kept, levels), strict=True):
            gains = np.log1p(-stake * ((1.0 - alpha) * c - h))
            if np.cumsum(gains[order])[is_stop].max() < goal:
                return found
            found = Cutoff(
                float(level), Goal("precision", target, confidence=confidence),
                max_calls=most if limited else None,
            )  # fmt: skip
    return found


def former_cutoff_by_group(score, truth, groups, *, target, confidence):
    """Certify each group of columns alone; a third of the samples, by hash, makes the profiles."""
    instances = list_instances(score, truth)
    keys = sample_keys(instances.score, instances.sample, instances.n_samples)
    apart = keys % np.uint64(3) == 0
    parts = {}
    for group in dict.fromkeys(groups):
        columns = [column for column, name in enumerate(groups) if name == group]
        profile = FormerProfile(score[apart][:, columns], truth[apart][:, columns])
        parts[group] = former_cutoff(
            score[~apart][:, columns], truth[~apart][:, columns], profile,
            target=target, confidence=confidence,
        )  # fmt: skip
    return Cutoff(
        math.inf, Goal("precision", target, confidence=confidence),
        reachable=any(part.reachable for part in parts.values()),
        groups=parts, label_groups=tuple(groups),
    )  # fmt: skip


def calls_by_level(instances: Instances, level):
    """Yield the calls and the correct calls of every sample at each level, from the highest."""
    enters = level.size - np.searchsorted(level[::-1], instances.score, side="right")
    order = np.argsort(enters.astype(np.int16), kind="stable")
    bounds = np.searchsorted(enters[order], np.arange(level.size + 1))
    sample, truth = instances.sample[order], instances.truth[order].astype(np.float64)
    calls, hits = np.zeros(instances.n_samples), np.zeros(instances.n_samples)
    for first, last in pairwise(bounds):
        new = slice(first, last)
        calls += np.bincount(sample[new], minlength=instances.n_samples)
        hits += np.bincount(sample[new], weights=truth[new], minlength=instances.n_samples)
        yield calls, hits


def sample_keys(score, sample, n_samples):
    """Hash the scores of each sample (the finalizer of SplitMix64, summed over the scores)."""
    key = np.zeros(n_samples, dtype=np.uint64)
    np.add.at(key, sample, _mix(np.ascontiguousarray(score).view(np.uint64)))
    return _mix(key)


def _mix(bits):
    x = bits + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _betting_order(instances: Instances):
    key = sample_keys(instances.score, instances.sample, instances.n_samples)
    order = np.argsort(key, kind="stable")
    return order, np.append(key[order][1:] != key[order][:-1], True)


def _plan(profile, instances, *, alpha, goal):
    """Return levels from the highest down, with their stakes and limits of calls."""
    n = instances.n_samples
    if profile.level.size == 0 or n == 0:
        return []
    drift, square = profile.drift(alpha), np.maximum(profile.square(alpha), 1e-12)
    wanted = np.sqrt(2.0 * goal / (n * square))
    useful = LARGEST_STAKE / ((1.0 - alpha) * wanted)
    limit = _round_limits(np.maximum(profile.most_calls, useful), instances.n_labels)
    stake = np.minimum(wanted, LARGEST_STAKE / ((1.0 - alpha) * limit))
    spread = np.sqrt(np.maximum(square - drift**2, 1e-3 * square) * n)
    margin = (n * (drift - 0.5 * stake * square) - goal / stake) / spread
    first = int(np.argmax(margin))
    changes = np.flatnonzero(np.diff(limit[first:])) + 1 + first
    bounds = [first, *changes.tolist(), limit.size]
    return [(profile.level[i:k], stake[i:k], int(limit[i])) for i, k in pairwise(bounds)]


def _round_limits(limit, n_labels):
    powers = 2.0 ** np.arange(0, 64)
    grid = np.unique(np.concatenate([powers, 1.5 * powers[1:]]))
    rising = np.maximum.accumulate(np.ceil(np.minimum(limit, n_labels)))
    return np.minimum(grid[np.searchsorted(grid, rising)], n_labels).astype(np.int64)


def _spaced_levels(score):
    if score.size == 0:
        return np.empty(0)
    fewest = min(FEWEST_CALLS, score.size)
    counts = np.unique(np.rint(np.geomspace(fewest, score.size, N_LEVELS)).astype(np.int64))
    return np.unique(np.sort(score)[::-1][counts - 1])[::-1].copy()
